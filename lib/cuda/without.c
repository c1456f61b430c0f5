/* A build without CUDA: circe_cuda_open says so. No handle can exist, so the other functions are never called with
 * one. */
#include "circe/cuda.h"
#include "core/core.h"

/* Nothing is done with any argument. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static circe_status refuse(void) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      "this build of the library has no CUDA; configure it with -DCIRCE_CUDA=ON (cmake --preset cuda)");
}

#define REFUSED(function, ...) \
    circe_status function(__VA_ARGS__) { return refuse(); }

/* Of functions whose last argument is where they put what they make. */
#define REFUSED_NEW(function, type, name, ...)        \
    circe_status function(__VA_ARGS__, type **name) { \
        if (name != NULL) *name = NULL;               \
        return refuse();                              \
    }

REFUSED_NEW(circe_cuda_open, circe_cuda, cuda, circe_context *context, int device, void *stream)
REFUSED_NEW(circe_cuda_test_device, circe_test_device, device, circe_cuda *cuda)
REFUSED_NEW(circe_cuda_model_create, circe_cuda_model, model, circe_cuda *cuda, const circe_cme *cme)
REFUSED_NEW(circe_cuda_features_create, circe_cuda_features, copy, circe_cuda *cuda, const circe_features *features)
REFUSED_NEW(circe_cuda_cme_fit, circe_cme, cme, circe_cuda *cuda, const circe_mat *y, const circe_mat *z,
            const circe_kernel *kernel_y, const circe_kernel *kernel_z, const circe_cme_options *options)

REFUSED(circe_cuda_set_stream, circe_cuda *cuda, void *stream)
REFUSED(circe_cuda_reserve, circe_cuda *cuda, int64_t n, int64_t cols, circe_dtype dtype)
REFUSED(circe_cuda_scale, circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
        const circe_mat *x, double *widths, double *figures, void *scratch, circe_mat *out)
REFUSED(circe_cuda_scale_gradient, circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
        const circe_mat *x, double *widths, void *scratch, circe_mat *grad)
REFUSED(circe_cuda_measure_circe, circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
        const circe_mat *zeta, const int64_t *index, int64_t n, const circe_kernel *kernel_x, const circe_mat *x,
        circe_estimator estimator, double *value, circe_mat *grad)
REFUSED(circe_cuda_measure_hsic, circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x, const circe_mat *z,
        circe_hsic_estimator estimator, double *value, circe_mat *grad)
REFUSED(circe_cuda_residual_features, circe_cuda *cuda, const circe_cuda_model *model, const circe_mat *y,
        const circe_mat *z, circe_mat *zeta, double *left)
REFUSED(circe_cuda_features_get, const circe_cuda_features *copy, circe_mat *y, circe_mat *zeta)
REFUSED(circe_cuda_batch_rank, circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
        const circe_batch_options *options, int64_t *rank)
REFUSED(circe_cuda_reserve_batch, circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y, int64_t cols_z,
        circe_dtype dtype)
REFUSED(circe_cuda_measure_hscic, circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
        const circe_mat *y, const circe_mat *z, const int64_t *index, const circe_batch_options *options, double *value,
        circe_mat *grad)
REFUSED(circe_cuda_measure_hscic_holdout, circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
        const circe_mat *zeta, const int64_t *index, const circe_kernel *kernel_x, const circe_mat *x,
        const circe_batch_options *options, double *value, circe_mat *grad)
REFUSED(circe_cuda_measure_kci, circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x, const circe_mat *y,
        const circe_mat *z, const int64_t *index, const circe_batch_options *options, double *value, circe_mat *grad)
REFUSED(circe_cuda_measure_gcm, circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *x, const circe_mat *y,
        const circe_mat *z, const circe_mat *z_hat, const int64_t *index, const circe_gcm_options *options,
        double *value, circe_mat *grad)
REFUSED(circe_cuda_gather, circe_cuda *cuda, const circe_mat *from, const int64_t *index, circe_mat *to)

void circe_cuda_close(circe_cuda *cuda) { (void)cuda; }
size_t circe_cuda_bytes(const circe_cuda *cuda) { return 0; }
size_t circe_cuda_scale_bytes(int64_t n, int64_t cols) { return 0; }
void circe_cuda_model_destroy(circe_cuda_model *model) { (void)model; }
int64_t circe_cuda_model_columns(const circe_cuda_model *model) { return 0; }
void circe_cuda_features_destroy(circe_cuda_features *copy) { (void)copy; }
circe_status circe_measure_to_cuda(circe_measure *measure, circe_cuda *cuda, int64_t n, int64_t cols, int64_t places) {
    return cuda == NULL ? CIRCE_OK : refuse();
}
