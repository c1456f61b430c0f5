/* k(p, q) of two points, in float64 whatever their types; k(p, p) is exact for kernels of distances. */
#pragma once

#include "backend/cuda/launching.h"

namespace circe {

enum { GAUSSIAN = 1, LAPLACE = 2, LINEAR = 3 }; /* of circe_kernel_kind; the fourth is delta */

template <typename one, typename other>
__device__ double kernel_value(const circe__cuda_kernel &k, const one *p, const other *q) {
    double exponent = 0, value = 1;
    for (int f = 0; f < k.n; f++) {
        const circe__cuda_factor &factor = k.items[f];
        double sum = 0;
        for (int c = factor.first_col; c < factor.first_col + factor.n_cols; c++) {
            double u = (double)p[c], v = (double)q[c];
            sum += factor.kind == LINEAR ? u * v : (u - v) * (u - v);
        }
        if (factor.kind == GAUSSIAN)
            exponent -= 0.5 * sum / factor.sigma2;
        else if (factor.kind == LAPLACE)
            exponent -= sqrt(sum / factor.sigma2);
        else if (factor.kind == LINEAR)
            value *= sum;
        else if (sum != 0)
            value = 0;
    }
    return value * exp(exponent);
}

}  // namespace circe
