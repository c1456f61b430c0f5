/* circe_scale on the device: checks, the job, its launches (backend/cuda/scaling.cu). */
#include "cuda/cuda_parts.h"

#include "backend/cuda/scaling_kernels.h"
#include "measures/scaling.h"

/* The factors, of which those without a width follow x. */
static circe_status set_kernel(circe_cuda *cuda, const circe_kernel *kernel, int64_t cols, circe__cuda_kernel *out) {
    circe__factors factors = {0};
    circe_status status = circe__following_factors(cuda->workspace, kernel, cols, &factors);
    return status == CIRCE_OK ? circe__cuda_kernel_of(factors, "x", out) : status;
}

static circe_status set_job(circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
                            const circe_mat *x, double *widths, circe__cuda_scaling *job) {
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    circe_status status = circe__cuda_check_mat(cuda, x, "x", 1);
    if (status == CIRCE_OK) status = circe__check_scaling(scaling, x->cols);
    if (status == CIRCE_OK) status = circe__cuda_check_pointer(cuda, widths, "widths");
    if (status != CIRCE_OK) return status;
    *job = (circe__cuda_scaling){.double_precision = x->dtype == CIRCE_FLOAT64,
                                 .n = x->rows,
                                 .x = circe__cuda_points_of(x),
                                 .normalize = (int)scaling->normalize,
                                 .frozen = scaling->frozen,
                                 .keep = scaling->keep,
                                 .widths = widths};
    return set_kernel(cuda, kernel, x->cols, &job->kernel);
}

static circe_status set_out(circe_cuda *cuda, const circe_mat *x, const circe_mat *out, const char *name,
                            circe__cuda_scaling *job) {
    circe_status status = circe__check_output(out, x->rows, x->cols, x->dtype, name);
    if (status == CIRCE_OK) status = circe__cuda_check_pointer(cuda, out->data, name);
    job->out = out->data;
    job->ld_out = out->ld;
    return status;
}

static circe_status launch(circe_cuda *cuda, const circe__cuda_scaling *job, void *scratch,
                           int (*start)(const circe__cuda_scaling *job, void *scratch, void *stream)) {
    int previous = 0;
    circe_status status = circe__cuda_check_pointer(cuda, scratch, "scratch");
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_status((cudaError_t)start(job, scratch, cuda->stream), "scaling x");
    circe__cuda_end(cuda, previous);
    return status;
}

size_t circe_cuda_scale_bytes(int64_t n, int64_t cols) {
    return n > 0 && cols > 0 ? circe__cuda_scaling_bytes(n, cols) : 0;
}

circe_status circe_cuda_scale(circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
                              const circe_mat *x, double *widths, double *figures, void *scratch, circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_scaling job;
    circe_status status = set_job(cuda, kernel, scaling, x, widths, &job);
    if (status == CIRCE_OK && figures != NULL) status = circe__cuda_check_pointer(cuda, figures, "figures");
    job.figures = figures;
    if (status == CIRCE_OK && out != NULL) status = set_out(cuda, x, out, "out", &job);
    return status == CIRCE_OK ? launch(cuda, &job, scratch, circe__cuda_scale_launch) : status;
}

circe_status circe_cuda_scale_gradient(circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
                                       const circe_mat *x, double *widths, void *scratch, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__cuda_scaling job;
    circe_status status = set_job(cuda, kernel, scaling, x, widths, &job);
    if (status == CIRCE_OK) status = set_out(cuda, x, grad, "grad", &job);
    return status == CIRCE_OK ? launch(cuda, &job, scratch, circe__cuda_scale_back_launch) : status;
}
