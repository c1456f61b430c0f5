/* The measures on the device: checks, the job that says what is wanted (backend/cuda/device.h), its launch. An
 * estimator is three numbers there: what the row sums and their total are divided by, and the scale (estimator.c has
 * the formulas). */
#include <string.h>

#include "cuda/cuda_parts.h"

static void set_estimator(circe__cuda_job *job, circe_estimator estimator) {
    double B = (double)job->n;
    bool ustat = estimator == CIRCE_USTAT;
    job->zero_diagonal = ustat || estimator == CIRCE_DEBIASED;
    job->over_rows = ustat ? B - 2.0 : estimator == CIRCE_CENTERED ? B : 0.0;
    job->over_total = ustat ? (B - 1.0) * (B - 2.0) : B * B;
    job->scale = ustat ? 1.0 / (B * (B - 3.0)) : 1.0 / (B * (B - 1.0));
}

static void set_hsic(circe__cuda_job *job, circe_hsic_estimator estimator) {
    double B = (double)job->n;
    set_estimator(job, estimator == CIRCE_HSIC_BIASED ? CIRCE_CENTERED : CIRCE_USTAT);
    if (estimator == CIRCE_HSIC_BIASED) job->scale = 1.0 / (B * B);
}

static circe_status launch(circe_cuda *cuda, circe__cuda_job *job) {
    void *scratch = NULL;
    int previous = 0;
    job->large_tiles = cuda->large_tiles;
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_take(cuda, circe__cuda_job_bytes(job), &scratch);
    if (status == CIRCE_OK)
        status = circe__cuda_status((cudaError_t)circe__cuda_job_launch(job, scratch, cuda->overlap, cuda->stream),
                                    "starting a measure");
    circe__cuda_end(cuda, previous);
    return status;
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

circe_status circe__cuda_check_dtype(const circe_mat *mat, circe_dtype dtype, const char *name, const char *as) {
    if (mat->dtype == dtype) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s is %s and %s is %s; on a GPU they must have the same dtype", name,
                      mat->dtype == CIRCE_FLOAT32 ? "float32" : "float64", as,
                      dtype == CIRCE_FLOAT32 ? "float32" : "float64");
}

circe_status circe__cuda_check_rows(int64_t rows, int64_t n, const char *name) {
    if (rows == n) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "%s has %lld rows and x has %lld; they must be the same points", name,
                      (long long)rows, (long long)n);
}

circe_status circe__cuda_set_contraction(circe_cuda *cuda, const circe_mat *x, double *value, const circe_mat *grad,
                                         circe__cuda_job *job) {
    circe_status status = circe__cuda_check_mat(cuda, x, "x", 1);
    if (status == CIRCE_OK) status = circe__cuda_check_pointer(cuda, value, "value");
    if (status == CIRCE_OK && grad != NULL) status = circe__check_output(grad, x->rows, x->cols, x->dtype, "grad");
    if (status == CIRCE_OK && grad != NULL) status = circe__cuda_check_pointer(cuda, grad->data, "grad");
    if (status != CIRCE_OK) return status;
    job->n = x->rows;
    job->double_precision = x->dtype == CIRCE_FLOAT64;
    job->x = circe__cuda_points_of(x);
    job->value = value;
    if (grad != NULL) {
        job->grad = grad->data;
        job->ld_grad = grad->ld;
    }
    return CIRCE_OK;
}

/* y and zeta of n points, behind an index or not. */
static circe_status set_features(circe_cuda *cuda, const circe_mat *y, const circe_mat *zeta, const int64_t *index,
                                 circe_dtype dtype, circe__cuda_job *job) {
    circe_status status = circe__cuda_check_mat(cuda, y, "y", 1);
    if (status == CIRCE_OK) status = circe__cuda_check_mat(cuda, zeta, "zeta", 1);
    if (status == CIRCE_OK) status = circe__cuda_check_dtype(y, dtype, "y", "x");
    if (status == CIRCE_OK) status = circe__cuda_check_dtype(zeta, dtype, "zeta", "x");
    if (status == CIRCE_OK && index != NULL) status = circe__cuda_check_pointer(cuda, index, "index");
    if (status == CIRCE_OK && y->rows != zeta->rows)
        status = circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and zeta has %lld; they must be the same points",
                            (long long)y->rows, (long long)zeta->rows);
    if (status == CIRCE_OK && index == NULL) status = circe__cuda_check_rows(y->rows, job->n, "y");
    if (status != CIRCE_OK) return status;
    job->points = circe__cuda_points_of(y);
    job->zeta = circe__cuda_points_of(zeta);
    job->index = index;
    job->rows = y->rows;
    return CIRCE_OK;
}

static circe_status set_kernels(circe_cuda *cuda, const circe_kernel *kernel, int64_t cols, const char *name,
                                const circe_kernel *kernel_x, int64_t cols_x, circe__cuda_job *job) {
    circe__factors pair[2];
    circe_status status = circe__resolve_pair(cuda->workspace, kernel, cols, name, kernel_x, cols_x, "x", pair);
    if (status == CIRCE_OK) status = circe__cuda_kernel_of(pair[0], name, &job->kernel);
    if (status == CIRCE_OK) status = circe__cuda_kernel_of(pair[1], "x", &job->kernel_x);
    return status;
}

circe_status circe__cuda_set_kernel(circe_cuda *cuda, const circe_kernel *kernel, int64_t cols, const char *name,
                                    circe__cuda_kernel *out) {
    circe_kernel_factor *factors = NULL;
    circe_status status = circe__resolve_into(cuda->workspace, kernel, cols, name, &factors);
    if (status != CIRCE_OK) return status;
    return circe__cuda_kernel_of((circe__factors){factors, circe_kernel_n_factors(kernel)}, name, out);
}

static circe_status check_hsic(circe_cuda *cuda, const circe_mat *z, circe_hsic_estimator estimator) {
    circe_status status = circe__cuda_check_mat(cuda, z, "z", 1);
    return status == CIRCE_OK ? circe__check_hsic(estimator, z->rows) : status;
}

/* ---- the measures ---------------------------------------------------------------------------------------- */

circe_status circe_cuda_measure_circe(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                      const circe_mat *zeta, const int64_t *index, int64_t n,
                                      const circe_kernel *kernel_x, const circe_mat *x, circe_estimator estimator,
                                      double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_job job;
    memset(&job, 0, sizeof job);
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    circe_status status = circe__cuda_set_contraction(cuda, x, value, grad, &job);
    if (status == CIRCE_OK && x->rows != n)
        status =
            circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows; there are %lld points", (long long)x->rows, (long long)n);
    if (status == CIRCE_OK) status = circe__check_estimator(estimator, n);
    if (status == CIRCE_OK) status = set_features(cuda, y, zeta, index, x->dtype, &job);
    if (status == CIRCE_OK) status = set_kernels(cuda, kernel_y, y->cols, "y", kernel_x, x->cols, &job);
    if (status != CIRCE_OK) return status;
    set_estimator(&job, estimator);
    return launch(cuda, &job);
}

circe_status circe_cuda_measure_hsic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                     const circe_mat *z, circe_hsic_estimator estimator, double *value,
                                     circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_job job;
    memset(&job, 0, sizeof job);
    if (cuda == NULL || kernels == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and kernels must not be NULL");
    circe_status status = circe__cuda_set_contraction(cuda, x, value, grad, &job);
    if (status == CIRCE_OK) status = check_hsic(cuda, z, estimator);
    if (status == CIRCE_OK) status = circe__cuda_check_dtype(z, x->dtype, "z", "x");
    if (status == CIRCE_OK) status = circe__cuda_check_rows(z->rows, x->rows, "z");
    if (status == CIRCE_OK) status = set_kernels(cuda, kernels->z, z->cols, "z", kernels->x, x->cols, &job);
    if (status != CIRCE_OK) return status;
    job.points = circe__cuda_points_of(z);
    set_hsic(&job, estimator);
    return launch(cuda, &job);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The largest of what jobs of this size may take: with sums, with a gradient, by the kernels for any kernel or not, and
 * of linear kernels, which centre x and z. */
circe_status circe_cuda_reserve(circe_cuda *cuda, int64_t n, int64_t cols, circe_dtype dtype) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_job job;
    void *scratch = NULL;
    int previous = 0;
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    if (n < 1 || cols < 1 || n > (int64_t)1 << 32 || cols > 1 << 26)
        return circe_fail(CIRCE_ERR_SHAPE, "%lld points of %lld columns; both must be positive and not too large",
                          (long long)n, (long long)cols);
    if (dtype != CIRCE_FLOAT32 && dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "dtype must be CIRCE_FLOAT32 or CIRCE_FLOAT64");
    memset(&job, 0, sizeof job);
    job.n = n;
    job.large_tiles = cuda->large_tiles;
    job.double_precision = dtype == CIRCE_FLOAT64;
    job.x.cols = (int)cols;
    job.over_rows = 1.0;
    job.grad = &job; /* there will be one */
    size_t bytes = circe__cuda_job_bytes(&job);
    job.points.cols = 1;
    job.kernel = (circe__cuda_kernel){.n = 1, .items = {{CIRCE_KERNEL_GAUSSIAN, 0, 1, 1.0}}};
    job.kernel_x = (circe__cuda_kernel){.n = 1, .items = {{CIRCE_KERNEL_GAUSSIAN, 0, (int)cols, 1.0}}};
    bytes = larger(bytes, circe__cuda_job_bytes(&job));
    job.points.cols = (int)cols;
    job.kernel.items[0].kind = job.kernel_x.items[0].kind = CIRCE_KERNEL_LINEAR;
    bytes = larger(bytes, circe__cuda_job_bytes(&job));
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_take(cuda, bytes, &scratch);
    circe__cuda_end(cuda, previous);
    return status;
}
