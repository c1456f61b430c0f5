/* What HSCIC, KCI and GCM do on the device between the products and factorisations of libraries: float64 throughout,
 * but for the points they read and what they write at the end.
 *
 * Launches allocate nothing, never synchronise and may be captured; each returns 0 or a cudaError_t. Sums are taken in
 * an order that the sizes alone decide. */
#pragma once

#include "backend/cuda/launching.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a data set: index[0..n), or the first n if index is NULL; an index not below `rows` gives NaN. */
typedef struct circe__cuda_rows {
    circe__cuda_points points;
    int double_precision;
    const int64_t *index;
    int64_t rows, n;
} circe__cuda_rows;

/* ---- batch.cu -------------------------------------------------------------------------------------------- */

/* out[i down + c along] := column c of row i. */
int circe__cuda_load(const circe__cuda_rows *from, int64_t down, int64_t along, double *out, void *stream);
/* The same in the points' own dtype, to rows of ld elements. */
int circe__cuda_gather_rows(const circe__cuda_rows *from, void *out, int64_t ld, void *stream);

/* out (n, m) := k(a_i, b_j) of a (n, cols) and b (m, cols). */
int circe__cuda_gram(const circe__cuda_kernel *kernel, const double *a, int64_t n, const double *b, int64_t m, int cols,
                     double *out, void *stream);

/* K (n, n) := HKH; means (n + 1) is scratch. */
int circe__cuda_center(double *K, int64_t n, double *means, void *stream);

/* The diagonal of K (n, n) += ridge. `sound` := 0 if the ridge is lost in the rounding of the trace, or the trace is
 * not finite; else 1. */
int circe__cuda_add_ridge(double *K, int64_t n, double ridge, int *sound, void *stream);

/* The blocks of CIRCE__CUDA_BLOCK on the diagonal of out (n, n) := the inverses of those of L, lower triangles. */
enum { CIRCE__CUDA_BLOCK = 32 };
int circe__cuda_invert_blocks(const double *L, int64_t n, double *out, void *stream);
/* Above the diagonal: 0. */
int circe__cuda_clear_upper(double *K, int64_t n, void *stream);

/* Both triangles of K (n, n) from the lower one: scale K, or I - scale K where complement; NaN if `info` is not 0 or
 * `sound` is. */
int circe__cuda_mirror(double *K, int64_t n, double scale, int complement, const int *info, const int *sound,
                       void *stream);

/* V (n, n), on entry K_zz W := U - W diag(s) / 2 with U = W o V and s its column sums. */
int circe__cuda_hscic_shift(const double *W, double *V, int64_t n, void *stream);

/* Lower triangle of out (n, ld) := (A o Z - T - T') / n. */
int circe__cuda_hscic_witness(const double *A, const double *Z, const double *T, int64_t n, int double_precision,
                              void *out, int64_t ld, void *stream);

/* Lower triangle of out (n, ld) := k(y_i, y_j) M_ij / n. */
int circe__cuda_kci_witness(const circe__cuda_kernel *kernel, const double *y, int cols, const double *M, int64_t n,
                            int double_precision, void *out, int64_t ld, void *stream);

/* ---- lowrank.cu ------------------------------------------------------------------------------------------ */

/* Pivots that a regression of low rank may have. */
enum { CIRCE__CUDA_BATCH_RANK = 96 };

/* F (CIRCE__CUDA_BATCH_RANK, n) with F'F the kernel matrix of points (n, cols), except for a trace of at most `limit`
 * and at most `tolerance` of its own; rows beyond the rank are 0. left (n) is scratch. */
typedef struct circe__cuda_lowrank_job {
    circe__cuda_kernel kernel;
    const double *points;
    int64_t n;
    int cols;
    double tolerance, limit, ridge;
    double *F, *left;
    int *rank; /* device memory; -1: more would be needed, or the ridge is lost in rounding */
    const double *S;
    double *X;
} circe__cuda_lowrank_job;

/* One, or two that have nothing to do with each other. */
typedef struct circe__cuda_lowrank_pair {
    circe__cuda_lowrank_job of[2];
    int n;
} circe__cuda_lowrank_pair;
/* clusters: the device has clusters of blocks (sm_90) and CIRCE__CUDA_LARGE_BYTES of shared memory a block. */
int circe__cuda_lowrank_factor(const circe__cuda_lowrank_pair *jobs, int clusters, void *stream);

/* X := L^-1 with L L' = S + ridge I within the rank, 0 beyond; NaN if the rank is -1. Both are square, of
 * CIRCE__CUDA_BATCH_RANK. */
int circe__cuda_lowrank_invert(const circe__cuda_lowrank_pair *jobs, void *stream);

/* ---- gcm.cu ---------------------------------------------------------------------------------------------- */

/* x or z in GCM; columns are contiguous. lib/measures/residuals.h has what the numbers mean. */
typedef struct circe__cuda_side {
    int64_t n, cols;
    double *points, *r;  /* (cols, n); points become the squares of r in circe__cuda_gcm_settle */
    double *unit, *gain; /* (cols) */
    double *blur, *rms;  /* (cols) */
} circe__cuda_side;

/* points := points in units of their columns, which `others` (cols, m), or NULL, shares; noise is what subtraction
 * leaves, relative to a column's largest number. */
int circe__cuda_gcm_load(const circe__cuda_side *side, double *others, int64_t m, double noise, void *stream);

/* r := scale r of a solve; NaN if info is not 0 or sound is. `count` numbers. */
int circe__cuda_gcm_scale(double *r, int64_t count, double scale, const int *info, const int *sound, void *stream);

/* r := points - r of a side. */
int circe__cuda_gcm_subtract(const circe__cuda_side *side, void *stream);

/* r in units of its own; points := r^2. */
int circe__cuda_gcm_settle(const circe__cuda_side *side, void *stream);

/* Functions of y that are orthonormal on m points and span [1, y]: Q (most, N), most = min(cols + 1, m), rows beyond
 * the rank 0. C (cols, N) holds the columns of y, the m points first, and is overwritten; scratch holds 3 cols + 1. */
int circe__cuda_gcm_basis(double *C, int64_t cols, int64_t m, int64_t N, double noise, double *Q, int64_t most,
                          double *scratch, void *stream);

typedef struct circe__cuda_gcm {
    circe__cuda_side x, z;
    int combine; /* circe_gcm_combine */
    double sharpness;
    double *mean, *variance, *T, *weight, *first, *last; /* (p, q) */
    int *winner;                                         /* max: the pair; -1 if there is none, -2: NaN */
    double *value;
    double *gradient, *inner; /* (p, n) */
} circe__cuda_gcm;

/* mean := r_x' r_z / n and variance := (r_x^2)'(r_z^2) / n, where pairs of columns are few: a product of matrices would
 * be all sums and no tiles. */
int circe__cuda_gcm_means(const circe__cuda_gcm *g, void *stream);

/* T from the products mean = r_x' r_z and variance = (r_x^2)'(r_z^2), both divided by n already; value and weight. */
int circe__cuda_gcm_table(const circe__cuda_gcm *g, void *stream);

/* first and last of every pair from the weights. */
int circe__cuda_gcm_pairs(const circe__cuda_gcm *g, void *stream);

/* The gradient by r_x, times x.gain: for the maximum from its one pair; else gradient - r_x o inner. */
int circe__cuda_gcm_residual(const circe__cuda_gcm *g, void *stream);

/* out (n, ld) := gradient (p, n) times unit, kept within the dtype's range. */
int circe__cuda_gcm_write(const circe__cuda_gcm *g, const double *gradient, int double_precision, void *out, int64_t ld,
                          void *stream);

#ifdef __cplusplus
}
#endif
