/* What the CUDA kernels offer to the C files: plain structures of device pointers, launches on a stream.
 *
 * Launches allocate nothing, never synchronise and may be captured in a graph. All points and outputs of one job are of
 * one dtype; sums between tiles are double. Every sum is taken in an order that the sizes alone decide: the same inputs
 * give the same bits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CIRCE__CUDA_MAX_FACTORS = 8, CIRCE__CUDA_LARGE_BYTES = 160 * 1024 };

/* A factor of a kernel; kind as in circe_kernel_kind. */
typedef struct circe__cuda_factor {
    int kind, first_col, n_cols;
    double sigma2;
} circe__cuda_factor;

typedef struct circe__cuda_kernel {
    int n;
    circe__cuda_factor items[CIRCE__CUDA_MAX_FACTORS];
} circe__cuda_kernel;

/* (rows, cols), row-major, device memory. */
typedef struct circe__cuda_points {
    const void *data;
    int64_t ld;
    int cols;
} circe__cuda_points;

/* A witness G of n points, how it comes about, and what is wanted of it. Either it is given as a matrix, of which the
 * lower triangle is read, or
 *
 *     Q_ij = k(p_i, p_j) zeta_i.zeta_j,   G_ij = scale (Q_ij - (q_i + q_j) / over_rows + (sum q) / over_total)
 *
 * with q the row sums of Q (over_rows = 0: no sums), and both Q and G 0 on the diagonal where zero_diagonal. */
typedef struct circe__cuda_job {
    int double_precision;
    int large_tiles; /* the device has the shared memory for them: CIRCE__CUDA_LARGE_BYTES */
    int64_t n;
    const void *witness; /* (n, n) or NULL */
    int64_t ld_witness;
    circe__cuda_kernel kernel;
    circe__cuda_points points, zeta; /* of a data set where there is an index; zeta.cols = 0: zeta_i.zeta_j = 1 */
    const int64_t *index;            /* (n) rows of the data set, or NULL */
    int64_t rows;                    /* of the data set: an index beyond gives NaN */
    double scale, over_rows, over_total;
    int zero_diagonal;
    circe__cuda_kernel kernel_x; /* of the contraction */
    circe__cuda_points x;
    double *value;
    void *grad; /* (n, x.cols) or NULL */
    int64_t ld_grad;
} circe__cuda_job;

/* Device scratch that a job of this size takes. */
size_t circe__cuda_job_bytes(const circe__cuda_job *job);

/* 0, or a cudaError_t. `stream` is a cudaStream_t, `scratch` is aligned to 256 bytes, and `overlap` says that the
 * device (from compute capability 9.0) lets a kernel begin while the one before it ends. */
int circe__cuda_job_launch(const circe__cuda_job *job, void *scratch, int overlap, void *stream);

/* Residual features zeta (n, rank_z + extra): first k(z, pivots_z) inverse_z - m, m = k(y, pivots_y) inverse_y weights,
 * all in float64 except for the points and zeta. Low rank: pivots_y (rank_y, .) and inverse_y (rank_y, rank_y) are of
 * the basis of y. Dense: pivots_y are the holdout's y and inverse_y is NULL. The inverses are those of the transposed
 * factors, row-major. Then the columns of circe__cuda_outside. */
typedef struct circe__cuda_zeta {
    int double_precision;
    int64_t n;
    circe__cuda_kernel kernel_y, kernel_z;
    circe__cuda_points y, z, pivots_y, pivots_z; /* the pivots in float64 */
    int64_t rank_y, rank_z;
    const double *inverse_y, *inverse_z, *weights;
    void *zeta;
    int64_t ld_zeta;
    int extra;
    double accuracy, enough, *left; /* as below */
} circe__cuda_zeta;

size_t circe__cuda_zeta_bytes(const circe__cuda_zeta *job);
int circe__cuda_zeta_launch(const circe__cuda_zeta *job, void *scratch, void *stream);

/* Columns `out` (n, most) for what of the points z lies outside the span in which they have the coordinates `features`
 * (n, rank): out out' ~ R, R_ij = k(z_i, z_j) - features_i.features_j. None where no R_ii exceeds `accuracy` times
 * k(z_i, z_i), else one after the other until none exceeds `enough`; those that are not needed are 0. */
enum { CIRCE__CUDA_OUTSIDE_COLUMNS = 8 };
typedef struct circe__cuda_outside {
    int double_precision; /* of z and out */
    circe__cuda_kernel kernel;
    int64_t n;
    circe__cuda_points z;
    const double *features;
    int64_t rank;
    double accuracy, enough;
    int most; /* up to CIRCE__CUDA_OUTSIDE_COLUMNS */
    void *out;
    int64_t ld;
    double *left; /* becomes the largest share of any k(z, z) that is in neither, or NULL */
} circe__cuda_outside;

int64_t circe__cuda_outside_doubles(int64_t n); /* of scratch */
int circe__cuda_outside_launch(const circe__cuda_outside *job, double *scratch, void *stream);

/* Once for the current device, before the first launch: 0, or a cudaError_t. */
int circe__cuda_prepare(int large_tiles);

#ifdef __cplusplus
}
#endif
