/* A fit on the device: circe__cme_fit, whose heavy parts (circe__fit_ops) are the GPU's.
 *
 *     pivots       backend/cuda/fit.cu, one kernel for all of them
 *     sums         F_y'F_y and F_y'F_z by blocks of rows, products by cuBLAS
 *     spectrum     cuSOLVER, or LAPACK where the matrix is small
 *     errors       leave-one-out of every ridge in one pass, or from the spectrum of the whole matrix
 *
 * What is small (pivots, L, spectra of low rank, tables) lives in the host's memory as in any fit; features and dense
 * matrices stay on the device. lib/cme has the formulas. */
#include "cuda/fit_parts.h"

static const circe__fit_ops fit_ops = {.extend = circe__fit_extend,
                                       .dense_bytes = circe__fit_dense_bytes,
                                       .dense_prepare = circe__fit_dense_prepare,
                                       .dense_loo = circe__fit_dense_loo,
                                       .dense_weights = circe__fit_dense_weights,
                                       .dense_free = circe__fit_dense_free,
                                       .outliers = circe__fit_outliers,
                                       .sums = circe__fit_sums,
                                       .lowrank_loo = circe__fit_lowrank_loo,
                                       .decompose = circe__fit_decompose};

/* The points as float64 in the slot and, for what the host does with them, in its memory. */
static circe_status load_points(circe__fitter *f, circe__fit_slot which, const circe_mat *mat, circe_mat *host) {
    double *own = NULL;
    int64_t count = mat->rows * mat->cols;
    circe__cuda_rows rows = {circe__cuda_points_of(mat), mat->dtype == CIRCE_FLOAT64, NULL, mat->rows, mat->rows};
    circe_status status = circe__fit_take(f, which, count, &own);
    if (status == CIRCE_OK) status = circe__fit_launched(circe__cuda_load(&rows, mat->cols, 1, own, f->cuda->stream));
    if (status != CIRCE_OK) return status;
    *host = circe__mat(circe__alloc(f->cuda->context, count, sizeof(double)), mat->rows, mat->cols, CIRCE_FLOAT64);
    if (host->data == NULL) return CIRCE_ERR_MEMORY;
    return circe__fit_download(f, host->data, own, (size_t)count * sizeof(double));
}

static circe_status fit(circe__fitter *f, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                        const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme) {
    circe_context *context = f->cuda->context;
    circe_mat host_y = {0}, host_z = {0};
    circe_status status = circe__cuda_algebra_begin(f->cuda);
    if (status == CIRCE_OK) status = load_points(f, CIRCE__FIT_Y, y, &host_y);
    if (status == CIRCE_OK) status = load_points(f, CIRCE__FIT_Z, z, &host_z);
    if (status == CIRCE_OK)
        status = circe__cme_fit(context, &f->by, &host_y, &host_z, kernel_y, kernel_z, options, cme);
    circe__free(context, host_y.data);
    circe__free(context, host_z.data);
    cudaStreamSynchronize(f->cuda->stream);
    for (int k = 0; k < CIRCE__FIT_SLOTS; k++) cudaFree(f->blocks[k]);
    return status;
}

circe_status circe_cuda_cme_fit(circe_cuda *cuda, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                                const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme) {
    CIRCE_OWN_SETTINGS;
    int previous = 0;
    if (cuda == NULL || cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and cme must not be NULL");
    *cme = NULL;
    circe__fitter f = {.by = {.ops = &fit_ops}, .cuda = cuda};
    circe_status status = circe__cuda_check_mat(cuda, y, "y", 2);
    if (status == CIRCE_OK) status = circe__cuda_check_mat(cuda, z, "z", 2);
    if (status == CIRCE_OK && circe__cuda_is_capturing(cuda))
        status = circe_fail(CIRCE_ERR_ARGUMENT, "a fit waits for the GPU and cannot be captured in a graph");
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = fit(&f, y, z, kernel_y, kernel_z, options, cme);
    circe__cuda_end(cuda, previous);
    return status;
}
