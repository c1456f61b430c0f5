/* What a fit on the device does between the products and decompositions of libraries: float64 throughout. Launches
 * return 0 or a cudaError_t; sums are taken in an order that the sizes alone decide. */
#pragma once

#include "backend/cuda/launching.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pivoted Cholesky of the kernel matrix of n points: K ~ F'F, F (capacity, n), row k of pivot k. lib/cme/basis.c has
 * the rules. On entry F has `first` rows, and left (n) holds k(p, p) minus their squares. */
typedef struct circe__cuda_pivoting {
    circe__cuda_kernel kernel;
    const double *points; /* (n, cols) */
    int64_t n;
    int cols;
    double *F, *left;
    int64_t capacity, first;
    int64_t *pivots;      /* (capacity), written from `first` on */
    double enough, least; /* stops where the sum of left is at most `enough`, or its largest `least` */
    int64_t switch_rank;  /* from here on (-1: never) only where its largest is at most switch_least */
    double switch_least;
    double *parts;                  /* scratch of circe__cuda_pivot_parts */
    struct circe__cuda_pivoted *to; /* device memory */
} circe__cuda_pivoting;

typedef struct circe__cuda_pivoted {
    int64_t rank;
    int complete;
    double left, left_at_switch; /* sums */
} circe__cuda_pivoted;

enum { CIRCE__CUDA_PIVOT_PARTS = 6 * 1024 }; /* doubles */
/* One kernel, whose blocks wait for each other at every pivot. */
int circe__cuda_pivot(const circe__cuda_pivoting *p, void *stream);

/* L (rows, capacity), rows first .. rank of it: L(k, c) = F(c, pivot k), 0 above the diagonal. */
int circe__cuda_pivot_rows(const double *F, int64_t n, const int64_t *pivots, int64_t first, int64_t rank, double *L,
                           int64_t ld, void *stream);

/* diagonal[i] = k(p_i, p_i) and residual[i] = that minus |features_i|^2, at least 0; features (n, rank), or (rank, n)
 * where by_rows is 0. */
int circe__cuda_residuals(const circe__cuda_kernel *kernel, const double *points, int64_t n, int cols,
                          const double *features, int64_t rank, int by_rows, double *diagonal, double *residual,
                          void *stream);

/* totals[k] += the sum of the n numbers from k stride on, for each of `count`. */
int circe__cuda_add_sums(const double *values, int64_t n, int64_t stride, int64_t count, double *totals, void *stream);

/* out[(k n_ridge + l) cols + c] := G[k cols + c] / (s[k] + ridge[l]) for k < n. */
int circe__cuda_scale_spectrum(const double *G, const double *s, const double *ridge, int64_t n, int64_t cols,
                               int64_t n_ridge, double *out, void *stream);

/* Leave-one-out errors of a row i and a ridge l, into error[l n + i]. Low rank: of q (n, ry), features_z (n, rz), their
 * residual (n), means (n, n_ridge rz), s (ry) and ridge. Dense: of means = W alone, and leverage (n_ridge, n). */
int circe__cuda_loo_lowrank(const double *q, const double *s, const double *ridge, int64_t ry, const double *features_z,
                            const double *residual, const double *means, int64_t rz, int64_t n_ridge, int64_t n,
                            double *error, void *stream);
int circe__cuda_loo_dense(const double *means, const double *leverage, int64_t rz, int64_t n_ridge, int64_t n,
                          double *error, void *stream);

/* leverage[l n + i] := sum_k V(k, i)^2 / (s[k] + ridge[l]), V (n, n); parts (n_ridge, CIRCE__CUDA_LEVERAGE_PARTS, n).
 */
enum { CIRCE__CUDA_LEVERAGE_PARTS = 32 };
int circe__cuda_leverage(const double *V, const double *s, const double *ridge, int64_t n_ridge, int64_t n,
                         double *parts, double *leverage, void *stream);

#ifdef __cplusplus
}
#endif
