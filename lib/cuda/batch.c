/* HSCIC and KCI on the device, dense. Symbols and formulas are those of lib/measures/hscic.c and kci.c:
 *
 *     HSCIC   W = I - ridge (K_yy + ridge I)^-1,  V = W o (K_zz W) - W diag(s) / 2,  G = [(W W) o K_zz - V W - W V'] /
 * n KCI     R = ridge (~K_y + ridge I)^-1,      M = R^2 ~K_z R^2,                  G = K_yy o M / n
 *
 * Four products of n by n matrices, a Cholesky factorisation and the inverse of a triangle, float64: data centre GPUs
 * multiply float64 as fast as float32. If low rank is requested, HSCIC has W = P'P (lowrank.h) and products of O(n^2
 * r). Four n by n matrices of scratch; the witness lies where one of them is done with. */
#include "cuda/batch.h"

#include <string.h>

#include "cuda/lowrank.h"
#include "measures/smoother.h"

enum { MOST_POINTS = 32768 }; /* cuSOLVER counts its scratch in 32 bits */

/* ---- shared ---------------------------------------------------------------------------------------------- */

circe_status circe__cuda_batch_options(const circe_batch_options **options, circe_batch_options *own) {
    circe_batch_options_init(own);
    if (*options == NULL) *options = own;
    circe_status status = circe__check_regression((*options)->ridge, (*options)->method);
    return status == CIRCE_OK ? circe__check_tolerance((*options)->tolerance) : status;
}

circe_status circe__cuda_rows_of(circe_cuda *cuda, const circe_mat *mat, const int64_t *index, int64_t n,
                                 circe_dtype dtype, const char *name, circe__cuda_rows *rows) {
    circe_status status = circe__cuda_check_mat(cuda, mat, name, 1);
    if (status == CIRCE_OK) status = circe__cuda_check_dtype(mat, dtype, name, "x");
    if (status == CIRCE_OK && index != NULL) status = circe__cuda_check_pointer(cuda, index, "index");
    if (status == CIRCE_OK && index == NULL) status = circe__cuda_check_rows(mat->rows, n, name);
    if (status != CIRCE_OK) return status;
    *rows = (circe__cuda_rows){circe__cuda_points_of(mat), dtype == CIRCE_FLOAT64, index, mat->rows, n};
    return CIRCE_OK;
}

circe_status circe__cuda_regression_take(circe_cuda *cuda, circe__cuda_pieces *pieces,
                                         circe__cuda_regression *regression) {
    int64_t n = regression->n;
    if (n > MOST_POINTS)
        return circe_fail(CIRCE_ERR_SHAPE, "%lld points; a dense regression on a GPU takes at most %d", (long long)n,
                          MOST_POINTS);
    circe_status status = circe__cuda_cholesky_size(cuda, n, &regression->doubles);
    regression->K = circe__cuda_doubles(pieces, n * n);
    regression->X = circe__cuda_doubles(pieces, n * n);
    regression->work = circe__cuda_doubles(pieces, regression->doubles);
    regression->info = circe__cuda_piece(pieces, sizeof(int));
    regression->sound = circe__cuda_piece(pieces, sizeof(int));
    return status;
}

circe_status circe__cuda_regression_factor(circe_cuda *cuda, const circe__cuda_regression *r) {
    circe_status status = circe__cuda_launched(circe__cuda_add_ridge(r->K, r->n, r->ridge, r->sound, cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_cholesky(cuda, r->n, r->K, r->work, r->doubles, r->info);
    return status == CIRCE_OK ? circe__cuda_triangle_invert(cuda, r->n, r->K, r->X) : status;
}

/* Makes X, and K := ridge (K + ridge I)^-1 = ridge X'X, or I minus that where `complement`. */
static circe_status regression_matrix(circe_cuda *cuda, const circe__cuda_regression *r, bool complement) {
    int64_t n = r->n;
    circe_status status = circe__cuda_regression_factor(cuda, r);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 1, 0, n, n, n, 1.0, r->X, n, r->X, n, 0.0, r->K, n);
    if (status == CIRCE_OK)
        status =
            circe__cuda_launched(circe__cuda_mirror(r->K, n, r->ridge, complement, r->info, r->sound, cuda->stream));
    return status;
}

/* ---- one call -------------------------------------------------------------------------------------------- */

typedef struct batch {
    int64_t n;
    circe__cuda_kernel kernel_y, kernel_z;
    circe__cuda_rows y, z;
    circe__cuda_regression regression; /* its K becomes W or R */
    double *own_y, *own_z;             /* (n, d) float64 */
    double *Z, *V, *T;                 /* (n, n) */
    double *means;                     /* (n + 1) */
    bool is_lowrank;
    circe__cuda_lowrank lowrank;
    double *VP;          /* (n, CIRCE__CUDA_BATCH_RANK) */
    circe__cuda_job job; /* the contraction */
    void *contraction;   /* its scratch */
} batch;

/* The witness of a batch whose points are loaded, behind job.witness, which it sets. */
typedef circe_status make_fn(circe_cuda *cuda, batch *b);

static circe_status take_pieces(circe_cuda *cuda, circe__cuda_pieces *pieces, batch *b) {
    int64_t n = b->n;
    circe_status status = circe__cuda_regression_take(cuda, pieces, &b->regression);
    b->own_y = circe__cuda_doubles(pieces, n * b->y.points.cols);
    b->own_z = circe__cuda_doubles(pieces, n * b->z.points.cols);
    b->Z = circe__cuda_doubles(pieces, n * n);
    b->V = b->regression.X; /* which is done with when W is made */
    b->T = circe__cuda_doubles(pieces, n * n);
    b->means = circe__cuda_doubles(pieces, n + 1);
    b->lowrank.n = n;
    circe__cuda_lowrank_take(pieces, &b->lowrank);
    b->VP = circe__cuda_doubles(pieces, n * CIRCE__CUDA_BATCH_RANK);
    b->contraction = circe__cuda_piece(pieces, circe__cuda_job_bytes(&b->job));
    return status;
}

/* Where the witness goes, in the dtype of x: n by n doubles that are done with. */
static void *place_witness(batch *b, double *room) {
    b->job.witness = room;
    b->job.ld_witness = b->n;
    return room;
}

/* K_yy, where the regression begins. */
static circe_status gram_y(circe_cuda *cuda, const batch *b) {
    return circe__cuda_launched(circe__cuda_gram(&b->kernel_y, b->own_y, b->n, b->own_y, b->n, b->y.points.cols,
                                                 b->regression.K, cuda->stream));
}

/* With W = P'P: Z W = (P Z)'P, V W = (V P')P, W W = P'(P P')P. */
static circe_status multiply_lowrank(circe_cuda *cuda, const batch *b) {
    enum { R = CIRCE__CUDA_BATCH_RANK };
    const circe__cuda_lowrank *l = &b->lowrank;
    int64_t n = b->n;
    double *W = b->regression.K, *P = l->P, *F = l->F;
    circe_status status = circe__cuda_lowrank_make(cuda, &b->kernel_y, b->y.points.cols, b->own_y, l, NULL, NULL);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 1, 0, n, n, R, 1.0, P, n, P, n, 0.0, W, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, R, n, n, 1.0, P, n, b->Z, n, 0.0, F, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 1, 0, n, n, R, 1.0, F, n, P, n, 0.0, b->V, n);
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_hscic_shift(W, b->V, n, cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 1, n, R, n, 1.0, b->V, n, P, n, 0.0, b->VP, R);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, R, 1.0, b->VP, R, P, n, 0.0, b->T, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 1, R, R, n, 1.0, P, n, P, n, 0.0, l->S, R);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, R, n, R, 1.0, l->S, R, P, n, 0.0, F, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 1, 0, n, n, R, 1.0, P, n, F, n, 0.0, b->V, n);
    return status;
}

/* T := V W, and V := W W. */
static circe_status multiply_dense(circe_cuda *cuda, const batch *b) {
    int64_t n = b->n;
    double *W = b->regression.K;
    circe_status status = gram_y(cuda, b);
    if (status == CIRCE_OK) status = regression_matrix(cuda, &b->regression, true);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, b->Z, n, W, n, 0.0, b->V, n);
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_hscic_shift(W, b->V, n, cuda->stream));
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, b->V, n, W, n, 0.0, b->T, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, W, n, W, n, 0.0, b->V, n);
    return status;
}

static circe_status make_hscic(circe_cuda *cuda, batch *b) {
    circe_status status = b->is_lowrank ? multiply_lowrank(cuda, b) : multiply_dense(cuda, b);
    if (status != CIRCE_OK) return status;
    void *out = place_witness(b, b->regression.K);
    return circe__cuda_launched(
        circe__cuda_hscic_witness(b->V, b->Z, b->T, b->n, b->job.double_precision, out, b->n, cuda->stream));
}

static circe_status make_kci(circe_cuda *cuda, batch *b) {
    int64_t n = b->n;
    double *R = b->regression.K, *squared = b->V, *M = R;
    void *stream = cuda->stream;
    circe_status status = gram_y(cuda, b);
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_center(R, n, b->means, stream));
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_center(b->Z, n, b->means, stream));
    if (status == CIRCE_OK) status = regression_matrix(cuda, &b->regression, false);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, R, n, R, n, 0.0, squared, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, b->Z, n, squared, n, 0.0, b->T, n);
    if (status == CIRCE_OK) status = circe__cuda_gemm(cuda, 0, 0, n, n, n, 1.0, squared, n, b->T, n, 0.0, M, n);
    if (status != CIRCE_OK) return status;
    void *out = place_witness(b, b->Z);
    return circe__cuda_launched(circe__cuda_kci_witness(&b->kernel_y, b->own_y, b->y.points.cols, M, n,
                                                        b->job.double_precision, out, n, stream));
}

static circe_status load_points(circe_cuda *cuda, const batch *b) {
    void *stream = cuda->stream;
    int64_t n = b->n;
    circe_status status = circe__cuda_launched(circe__cuda_load(&b->y, b->y.points.cols, 1, b->own_y, stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(circe__cuda_load(&b->z, b->z.points.cols, 1, b->own_z, stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(
            circe__cuda_gram(&b->kernel_z, b->own_z, n, b->own_z, n, b->z.points.cols, b->Z, stream));
    return status;
}

static circe_status run(circe_cuda *cuda, batch *b, make_fn *make) {
    circe__cuda_pieces pieces = {0};
    int previous = 0;
    void *scratch = NULL;
    b->job.large_tiles = cuda->large_tiles;
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_algebra_begin(cuda);
    if (status == CIRCE_OK) status = take_pieces(cuda, &pieces, b);
    if (status == CIRCE_OK) status = circe__cuda_take(cuda, pieces.used, &scratch);
    pieces = (circe__cuda_pieces){scratch, 0};
    if (status == CIRCE_OK) status = take_pieces(cuda, &pieces, b);
    if (status == CIRCE_OK) status = load_points(cuda, b);
    if (status == CIRCE_OK) status = make(cuda, b);
    if (status == CIRCE_OK)
        status = circe__cuda_launched(circe__cuda_job_launch(&b->job, b->contraction, cuda->overlap, cuda->stream));
    circe__cuda_end(cuda, previous);
    return status;
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

static circe_status set_regression(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                   const int64_t *index, circe_dtype dtype, const circe_batch_options *options,
                                   batch *b) {
    circe_batch_options own;
    circe_status status = circe__cuda_batch_options(&options, &own);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, y, index, b->n, dtype, "y", &b->y);
    if (status == CIRCE_OK) status = circe__cuda_set_kernel(cuda, kernel_y, y->cols, "y", &b->kernel_y);
    if (status != CIRCE_OK) return status;
    b->regression = (circe__cuda_regression){.n = b->n, .ridge = options->ridge};
    b->is_lowrank = circe__cuda_lowrank_wanted(cuda, options, b->n);
    b->lowrank.ridge = options->ridge;
    b->lowrank.tolerance = circe__batch_tolerance(options->tolerance, dtype);
    if (b->n >= 2) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "a batch regressed on itself needs at least 2 rows, not %lld", (long long)b->n);
}

static circe_status set_z(circe_cuda *cuda, const circe_kernel *kernel_z, const circe_mat *z, const int64_t *index,
                          circe_dtype dtype, batch *b) {
    circe_status status = circe__cuda_rows_of(cuda, z, index, b->n, dtype, "z", &b->z);
    if (status == CIRCE_OK) status = circe__cuda_set_kernel(cuda, kernel_z, z->cols, "z", &b->kernel_z);
    return status;
}

static circe_status check_kernels(const circe_cuda *cuda, const circe_kernels *kernels) {
    if (cuda == NULL || kernels == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and kernels must not be NULL");
    if (kernels->y == NULL || kernels->z == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the kernels of y and z must not be NULL");
    return CIRCE_OK;
}

/* The contraction and y; what is left to set is z. */
static circe_status begin(circe_cuda *cuda, const circe_kernel *kernel_x, const circe_kernel *kernel_y,
                          const circe_mat *x, const circe_mat *y, const int64_t *index,
                          const circe_batch_options *options, double *value, circe_mat *grad, batch *b) {
    memset(b, 0, sizeof *b);
    circe_status status = circe__cuda_set_contraction(cuda, x, value, grad, &b->job);
    if (status == CIRCE_OK) status = circe__cuda_set_kernel(cuda, kernel_x, x->cols, "x", &b->job.kernel_x);
    if (status != CIRCE_OK) return status;
    b->n = x->rows;
    b->job.witness = b; /* there will be one; its place is known later */
    return set_regression(cuda, kernel_y, y, index, x->dtype, options, b);
}

static circe_status measure(make_fn *make, circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                            const circe_mat *y, const circe_mat *z, const int64_t *index,
                            const circe_batch_options *options, double *value, circe_mat *grad) {
    batch b;
    circe_status status = check_kernels(cuda, kernels);
    if (status == CIRCE_OK) status = begin(cuda, kernels->x, kernels->y, x, y, index, options, value, grad, &b);
    if (status == CIRCE_OK) status = set_z(cuda, kernels->z, z, index, x->dtype, &b);
    return status == CIRCE_OK ? run(cuda, &b, make) : status;
}

/* ---- the measures ---------------------------------------------------------------------------------------- */

circe_status circe_cuda_measure_hscic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                      const circe_mat *y, const circe_mat *z, const int64_t *index,
                                      const circe_batch_options *options, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return measure(make_hscic, cuda, kernels, x, y, z, index, options, value, grad);
}

/* K^c is the matrix of the features' dot products: their linear kernel. */
circe_status circe_cuda_measure_hscic_holdout(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                              const circe_mat *zeta, const int64_t *index, const circe_kernel *kernel_x,
                                              const circe_mat *x, const circe_batch_options *options, double *value,
                                              circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    batch b;
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    circe_status status = begin(cuda, kernel_x, kernel_y, x, y, index, options, value, grad, &b);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, zeta, index, b.n, x->dtype, "zeta", &b.z);
    if (status != CIRCE_OK) return status;
    b.kernel_z = (circe__cuda_kernel){.n = 1, .items = {{CIRCE_KERNEL_LINEAR, 0, (int)zeta->cols, 0.0}}};
    return run(cuda, &b, make_hscic);
}

circe_status circe_cuda_measure_kci(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                    const circe_mat *y, const circe_mat *z, const int64_t *index,
                                    const circe_batch_options *options, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return measure(make_kci, cuda, kernels, x, y, z, index, options, value, grad);
}

/* ---- beside them ----------------------------------------------------------------------------------------- */

circe_status circe_cuda_gather(circe_cuda *cuda, const circe_mat *from, const int64_t *index, circe_mat *to) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_rows rows;
    int previous = 0;
    if (cuda == NULL || index == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and index must not be NULL");
    circe_status status = circe__cuda_check_mat(cuda, to, "to", 1);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, from, index, to->rows, to->dtype, "from", &rows);
    if (status == CIRCE_OK && from->cols != to->cols)
        status = circe_fail(CIRCE_ERR_SHAPE, "from has %lld columns and to has %lld; they must be the same",
                            (long long)from->cols, (long long)to->cols);
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_launched(circe__cuda_gather_rows(&rows, to->data, to->ld, cuda->stream));
    circe__cuda_end(cuda, previous);
    return status;
}

/* HSCIC's and KCI's share, the larger one over kernels of x. */
static circe_status batch_bytes(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y, int64_t cols_z,
                                circe_dtype dtype, size_t *bytes) {
    batch b = {.n = n, .regression = {.n = n}};
    circe__cuda_pieces pieces = {0};
    b.y.points.cols = (int)cols_y;
    b.z.points.cols = (int)cols_z;
    b.job.n = n;
    b.job.double_precision = dtype == CIRCE_FLOAT64;
    b.job.large_tiles = cuda->large_tiles;
    b.job.x.cols = (int)cols_x;
    b.job.witness = b.job.grad = &b; /* there will be both */
    circe_status status = take_pieces(cuda, &pieces, &b);
    *bytes = pieces.used;
    b.job.kernel_x = (circe__cuda_kernel){.n = 1, .items = {{CIRCE_KERNEL_GAUSSIAN, 0, (int)cols_x, 1.0}}};
    pieces.used = 0;
    if (status == CIRCE_OK) status = take_pieces(cuda, &pieces, &b);
    if (pieces.used > *bytes) *bytes = pieces.used;
    return status;
}

circe_status circe_cuda_reserve_batch(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y, int64_t cols_z,
                                      circe_dtype dtype) {
    CIRCE_OWN_SETTINGS;
    enum { MOST_COLUMNS = 1 << 26 };
    size_t bytes = 0, gcm = 0;
    void *scratch = NULL;
    int previous = 0;
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    if (n < 1 || cols_x < 1 || cols_y < 1 || cols_z < 1 || cols_x > MOST_COLUMNS || cols_y > MOST_COLUMNS ||
        cols_z > MOST_COLUMNS)
        return circe_fail(CIRCE_ERR_SHAPE, "%lld points of %lld, %lld and %lld columns; all must be positive",
                          (long long)n, (long long)cols_x, (long long)cols_y, (long long)cols_z);
    if (dtype != CIRCE_FLOAT32 && dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "dtype must be CIRCE_FLOAT32 or CIRCE_FLOAT64");
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_algebra_begin(cuda);
    if (status == CIRCE_OK) status = batch_bytes(cuda, n, cols_x, cols_y, cols_z, dtype, &bytes);
    if (status == CIRCE_OK) status = circe__cuda_gcm_bytes(cuda, n, cols_x, cols_y, cols_z, &gcm);
    if (status == CIRCE_OK) status = circe__cuda_take(cuda, gcm > bytes ? gcm : bytes, &scratch);
    circe__cuda_end(cuda, previous);
    return status;
}
