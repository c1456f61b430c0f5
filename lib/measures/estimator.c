/* The four estimators as weights G on Q = K_yy o K^c, so that each is <G, K_xx>.
 *
 *     biased     Q / (B(B-1))
 *     debiased   offdiag(Q) / (B(B-1))
 *     centered   HQH / (B(B-1)):          Q_ij - q_i/B - q_j/B + S/B^2            q row sums, S = sum q
 *     ustat      with L = offdiag(Q), l its row sums, T = sum l, off the diagonal only:
 *                [L_ij - (l_i + l_j)/(B-2) + T/((B-1)(B-2))] / (B(B-3))
 *
 * The last one is the unbiased HSIC of golden/README: 2/(B-2) k.l = sum_ij K_ij (l_i + l_j)/(B-2). */
#include "measures/measure_parts.h"

const char *circe_estimator_name(circe_estimator estimator) {
    switch (estimator) {
        case CIRCE_BIASED:
            return "biased";
        case CIRCE_DEBIASED:
            return "debiased";
        case CIRCE_CENTERED:
            return "centered";
        case CIRCE_USTAT:
            return "ustat";
    }
    return "unknown";
}

circe_status circe__check_estimator(circe_estimator estimator, int64_t n) {
    if (estimator < CIRCE_BIASED || estimator > CIRCE_USTAT)
        return circe_fail(CIRCE_ERR_ARGUMENT, "estimator %d is not one of biased, debiased, centered, ustat",
                          (int)estimator);
    int64_t least = estimator == CIRCE_USTAT ? 4 : 2;
    if (n < least)
        return circe_fail(CIRCE_ERR_SHAPE, "the %s estimator needs at least %lld rows; there %s %lld",
                          circe_estimator_name(estimator), (long long)least, n == 1 ? "is" : "are", (long long)n);
    return CIRCE_OK;
}

bool circe__needs_sums(circe_estimator estimator) { return estimator == CIRCE_CENTERED || estimator == CIRCE_USTAT; }

static double estimator_scale(circe_estimator estimator, int64_t n) {
    double B = (double)n;
    return estimator == CIRCE_USTAT ? 1.0 / (B * (B - 3.0)) : 1.0 / (B * (B - 1.0));
}

double circe__product_scale(circe_estimator estimator, int64_t n) {
    return circe__needs_sums(estimator) ? 1.0 : estimator_scale(estimator, n);
}

static void zero_diagonal(circe_mat *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        if (m->dtype == CIRCE_FLOAT32)
            ((float *)m->data)[i * m->ld + i] = 0.0f;
        else
            ((double *)m->data)[i * m->ld + i] = 0.0;
    }
}

bool circe__estimator_shift(circe_estimator estimator, double *sums, const double *diagonal, circe_mat *Q,
                            circe__shift *shift) {
    int64_t n = Q->rows;
    double B = (double)n, total = 0.0;
    bool ustat = estimator == CIRCE_USTAT;
    if (estimator == CIRCE_DEBIASED) zero_diagonal(Q);
    if (!circe__needs_sums(estimator)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (ustat) sums[i] -= diagonal != NULL ? diagonal[i] : circe__at(Q, i, i);
        total += sums[i];
    }
    for (int64_t i = 0; i < n; i++) sums[i] /= ustat ? -(B - 2.0) : -B;
    *shift = (circe__shift){.rows = sums,
                            .constant = ustat ? total / ((B - 1.0) * (B - 2.0)) : total / (B * B),
                            .scale = estimator_scale(estimator, n),
                            .zero_diagonal = ustat};
    return true;
}
