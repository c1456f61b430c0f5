/* What of a batch's z lies outside the span of the holdout's basis: a few columns more of residual features.
 *
 *     R_ij = k(z_i, z_j) - f_i.f_j,  f (n, r) the coordinates in the basis;   R ~ G G',  G (n, c), c <= most
 *
 * mu(y) lies in the span, so K^c = zeta zeta' + R exactly (docs/math.md, section 2). R is next to nothing for points
 * inside the holdout's range, and of rank 3 or 4 for a smooth kernel and a few points in its tails. So: a pivoted
 * Cholesky factorisation that never forms R, and stops where the CPU does (lib/cme/residual.c).
 *
 * One block finds all columns: pivots follow each other, the host is not asked whether there are any, and a launch
 * that finds none costs no more than a look at n residuals. A column costs n (r + c) multiply-adds and reads f once:
 * of 1,024 points and rank 34, 300 kB, some 4 us on one multiprocessor. Float64 throughout; ties go to the lowest
 * point. */
#include <cuda_runtime.h>
#include <cfloat>

#include "backend/cuda/reduce.cuh"
#include "backend/cuda/values.cuh"

namespace {

using circe::block_largest;
using circe::kernel_value;
using circe::larger;

/* LANES threads share the products of a point. */
enum { THREADS = 256, WIDE = 1024, LANES = 8, COLUMNS = CIRCE__CUDA_OUTSIDE_COLUMNS };
static_assert(COLUMNS <= LANES, "a lane for each column of G");

__device__ double lanes_total(double v) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* own[i] = k(z_i, z_i), left[i] = R_ii, and no columns yet. */
template <typename real>
__global__ __launch_bounds__(THREADS) void residuals(const __grid_constant__ circe__cuda_outside o, double *own,
                                                     double *left) {
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
    int lane = threadIdx.x % LANES;
    const double *f = o.features + i * o.rank;
    double square = 0;
    for (int64_t c = lane; i < o.n && c < o.rank; c += LANES) square += f[c] * f[c];
    square = lanes_total(square);
    if (i >= o.n) return;
    if (lane < o.most) static_cast<real *>(o.out)[i * o.ld + lane] = 0;
    if (lane != 0) return;
    const real *z = static_cast<const real *>(o.z.data) + i * o.z.ld;
    double value = kernel_value(o.kernel, z, z);
    own[i] = value;
    left[i] = larger(value - square, 0.0);
}

/* The largest share of any k(z, z) that is left; for every thread. */
__device__ double largest_share(int64_t n, const double *own, const double *left) {
    double share = 0;
    for (int64_t i = threadIdx.x; i < n; i += WIDE) share = larger(share, own[i] == 0 ? 0 : left[i] / own[i]);
    return block_largest(share);
}

/* The point of the largest residual: each thread's own, then of all. */
struct candidate {
    double residual;
    int64_t at;
};

__device__ void consider(candidate &c, double residual, int64_t i) {
    if (residual > c.residual) c = {residual, i}; /* NaN is no pivot */
}

__device__ candidate choose(candidate own) {
    double top = block_largest(own.residual);
    return {top, (int64_t)-block_largest(own.residual == top ? -(double)own.at : -DBL_MAX)};
}

/* G(i, done) := f_i.f_p + G_i.G_p over the columns done so far. */
__device__ void products(const circe__cuda_outside &o, int64_t p, int done, double *G) {
    int lane = threadIdx.x % LANES;
    const double *f_p = o.features + p * o.rank, *G_p = G + p * COLUMNS;
    for (int64_t first = 0; first < o.n; first += WIDE / LANES) {
        int64_t i = first + threadIdx.x / LANES;
        const double *f = o.features + i * o.rank;
        double sum = 0;
        for (int64_t c = lane; i < o.n && c < o.rank; c += LANES) sum += f[c] * f_p[c];
        if (i < o.n && lane < done) sum += G[i * COLUMNS + lane] * G_p[lane];
        sum = lanes_total(sum);
        if (i < o.n && lane == 0) G[i * COLUMNS + done] = sum;
    }
    __syncthreads();
}

/* Column `done` of G from the products, and the next pivot. */
template <typename real>
__device__ candidate add_column(const circe__cuda_outside &o, candidate pivot, int done, double *left, double *G) {
    const real *z = static_cast<const real *>(o.z.data), *z_p = z + pivot.at * o.z.ld;
    double root = sqrt(pivot.residual);
    candidate next = {0, o.n};
    for (int64_t i = threadIdx.x; i < o.n; i += WIDE) {
        bool itself = i == pivot.at;
        double *g = G + i * COLUMNS + done;
        double value = itself ? root : (kernel_value(o.kernel, z + i * o.z.ld, z_p) - *g) / root;
        double rest = itself ? 0 : larger(left[i] - value * value, 0.0);
        *g = value;
        left[i] = rest;
        static_cast<real *>(o.out)[i * o.ld + done] = (real)value;
        consider(next, rest, i);
    }
    return choose(next);
}

template <typename real>
__global__ __launch_bounds__(WIDE) void extend(const __grid_constant__ circe__cuda_outside o, const double *own,
                                               double *left, double *G) {
    double share = largest_share(o.n, own, left);
    if (share > o.accuracy && o.most > 0) {
        candidate pivot = {0, o.n};
        for (int64_t i = threadIdx.x; i < o.n; i += WIDE) consider(pivot, left[i], i);
        pivot = choose(pivot);
        for (int done = 0; done < o.most && pivot.residual > o.enough; done++) {
            products(o, pivot.at, done, G);
            pivot = add_column<real>(o, pivot, done, left, G);
        }
        share = largest_share(o.n, own, left);
    }
    if (threadIdx.x == 0 && o.left != nullptr) *o.left = share;
}

template <typename real>
cudaError_t launch(const circe__cuda_outside &o, double *scratch, cudaStream_t stream) {
    double *own = scratch, *left = own + o.n, *G = left + o.n;
    int64_t points = THREADS / LANES;
    residuals<real><<<(unsigned)((o.n + points - 1) / points), THREADS, 0, stream>>>(o, own, left);
    extend<real><<<1, WIDE, 0, stream>>>(o, own, left, G);
    return cudaPeekAtLastError();
}

}  // namespace

extern "C" int64_t circe__cuda_outside_doubles(int64_t n) { return n * (2 + COLUMNS); }

extern "C" int circe__cuda_outside_launch(const circe__cuda_outside *o, double *scratch, void *stream) {
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(o->double_precision ? launch<double>(*o, scratch, in) : launch<float>(*o, scratch, in));
}
