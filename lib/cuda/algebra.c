/* cuBLAS and cuSOLVER are column-major: what is a here is its transpose there, lower is upper, and rows are columns. */
#include "cuda/cuda_algebra.h"

#include <limits.h>

#include "backend/cuda/batch_kernels.h"
#include "cuda/libraries.h"

enum { WORKSPACE = 32 << 20 }; /* what cuBLAS recommends from sm_90 on; its algorithms depend on it, so it is fixed */

struct circe__cuda_algebra {
    circe__blas blas;
    circe__solver solver;
    cublasHandle_t blas_handle;
    cusolverDnHandle_t solver_handle;
    cusolverDnParams_t parameters;
    void *workspace;
};

static circe_status blas_status(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return CIRCE_OK;
    return circe_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? CIRCE_ERR_MEMORY : CIRCE_ERR_DEVICE,
                      "%s: cuBLAS gives status %d", what, (int)status);
}

static circe_status solver_status(cusolverStatus_t status, const char *what) {
    if (status == CUSOLVER_STATUS_SUCCESS) return CIRCE_OK;
    return circe_fail(status == CUSOLVER_STATUS_ALLOC_FAILED ? CIRCE_ERR_MEMORY : CIRCE_ERR_DEVICE,
                      "%s: cuSOLVER gives status %d", what, (int)status);
}

void circe__cuda_algebra_free(circe_cuda *cuda) {
    circe__cuda_algebra *algebra = cuda->algebra;
    if (algebra == NULL) return;
    if (algebra->blas_handle != NULL) algebra->blas.cublasDestroy_v2(algebra->blas_handle);
    if (algebra->parameters != NULL) algebra->solver.cusolverDnDestroyParams(algebra->parameters);
    if (algebra->solver_handle != NULL) algebra->solver.cusolverDnDestroy(algebra->solver_handle);
    cudaFree(algebra->workspace);
    circe__free(cuda->context, algebra);
    cuda->algebra = NULL;
}

static circe_status open_algebra(circe_cuda *cuda) {
    if (circe__cuda_is_capturing(cuda))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "cuBLAS and cuSOLVER cannot be opened during capture; call once before, or "
                          "circe_cuda_reserve_batch");
    circe__cuda_algebra *made = circe__calloc(cuda->context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    cuda->algebra = made;
    circe_status status = circe__libraries_load(&made->blas, &made->solver);
    if (status == CIRCE_OK) status = blas_status(made->blas.cublasCreate_v2(&made->blas_handle), "opening cuBLAS");
    if (status == CIRCE_OK)
        status = solver_status(made->solver.cusolverDnCreate(&made->solver_handle), "opening cuSOLVER");
    if (status == CIRCE_OK)
        status = solver_status(made->solver.cusolverDnCreateParams(&made->parameters), "opening cuSOLVER");
    if (status == CIRCE_OK) status = circe__cuda_alloc(WORKSPACE, "the workspace of cuBLAS", &made->workspace);
    if (status != CIRCE_OK) circe__cuda_algebra_free(cuda);
    return status;
}

/* A new stream takes cuBLAS's workspace away, so it is given again. */
circe_status circe__cuda_algebra_begin(circe_cuda *cuda) {
    circe_status status = cuda->algebra == NULL ? open_algebra(cuda) : CIRCE_OK;
    circe__cuda_algebra *a = cuda->algebra;
    if (status != CIRCE_OK || a == NULL) return status;
    status = blas_status(a->blas.cublasSetStream_v2(a->blas_handle, cuda->stream), "setting the stream of cuBLAS");
    if (status == CIRCE_OK)
        status = blas_status(a->blas.cublasSetWorkspace_v2(a->blas_handle, a->workspace, WORKSPACE),
                             "giving cuBLAS its workspace");
    if (status == CIRCE_OK)
        status = solver_status(a->solver.cusolverDnSetStream(a->solver_handle, cuda->stream),
                               "setting the stream of cuSOLVER");
    return status;
}

/* ---- products -------------------------------------------------------------------------------------------- */

static cublasOperation_t transposed(int yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; }

circe_status circe__cuda_gemm(circe_cuda *cuda, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha,
                              const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                              int64_t ldc) {
    circe__cuda_algebra *g = cuda->algebra;
    if (m == 0 || n == 0) return CIRCE_OK;
    if (k == 0) lda = ldb = circe__max(m, n); /* a zero distance is refused even where there is nothing to read */
    return blas_status(g->blas.cublasDgemm_v2(g->blas_handle, transposed(trans_b), transposed(trans_a), (int)n, (int)m,
                                              (int)k, &alpha, b, (int)ldb, a, (int)lda, &beta, c, (int)ldc),
                       "a product of matrices");
}

/* ---- decompositions -------------------------------------------------------------------------------------- */

circe_status circe__cuda_cholesky_size(circe_cuda *cuda, int64_t n, int64_t *doubles) {
    circe__cuda_algebra *g = cuda->algebra;
    int count = 0;
    circe_status status = solver_status(
        g->solver.cusolverDnDpotrf_bufferSize(g->solver_handle, CUBLAS_FILL_MODE_UPPER, (int)n, NULL, (int)n, &count),
        "asking for the scratch of a factorisation");
    *doubles = count;
    return status;
}

circe_status circe__cuda_cholesky(circe_cuda *cuda, int64_t n, double *a, double *work, int64_t doubles, int *info) {
    circe__cuda_algebra *g = cuda->algebra;
    return solver_status(g->solver.cusolverDnDpotrf(g->solver_handle, CUBLAS_FILL_MODE_UPPER, (int)n, a, (int)n, work,
                                                    (int)doubles, info),
                         "a Cholesky factorisation");
}

/* `pairs` products at once, each a step further along the diagonal of matrices of n. */
static circe_status gemm_along(circe_cuda *cuda, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                               double alpha, const double *a, const double *b, double *c, int64_t ld, int64_t step,
                               int64_t pairs) {
    circe__cuda_algebra *g = cuda->algebra;
    double zero = 0.0;
    if (m == 0 || pairs == 0) return CIRCE_OK;
    return blas_status(g->blas.cublasDgemmStridedBatched(g->blas_handle, transposed(trans_b), transposed(trans_a),
                                                         (int)n, (int)m, (int)k, &alpha, b, (int)ld, step, a, (int)ld,
                                                         step, &zero, c, (int)ld, step, (int)pairs),
                       "products of blocks");
}

/* Blocks of `size` on the diagonal of X are inverses already; those of twice the size follow:
 *
 *     [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1]
 *
 * (B A^-1)' lies meanwhile in the upper block, to be cleared before the next size. `rows` of C, which at the end has
 * fewer. */
static circe_status join_blocks(circe_cuda *cuda, int64_t n, const double *L, double *X, int64_t first, int64_t size,
                                int64_t rows, int64_t pairs) {
    int64_t step = 2 * size * (n + 1), at = first * (n + 1), below = at + size * n, right = at + size;
    circe_status status = gemm_along(cuda, 1, 1, size, rows, size, 1.0, X + at, L + below, X + right, n, step, pairs);
    if (status != CIRCE_OK) return status;
    return gemm_along(cuda, 0, 1, rows, size, rows, -1.0, X + below + size, X + right, X + below, n, step, pairs);
}

/* By halves, from small blocks that a kernel inverts: products of matrices do the work, where a triangular solve would
 * wait for its own rows: HSCIC of 1,024 points takes half the time that it takes with cuSOLVER's inverse. */
circe_status circe__cuda_triangle_invert(circe_cuda *cuda, int64_t n, const double *a, double *out) {
    circe_status status = circe__cuda_status((cudaError_t)circe__cuda_invert_blocks(a, n, out, cuda->stream),
                                             "inverting the blocks of a triangle");
    for (int64_t size = CIRCE__CUDA_BLOCK; status == CIRCE_OK && size < n; size *= 2) {
        int64_t pairs = n / (2 * size), first = pairs * 2 * size;
        status = join_blocks(cuda, n, a, out, 0, size, size, pairs);
        if (status == CIRCE_OK && first + size < n)
            status = join_blocks(cuda, n, a, out, first, size, n - first - size, 1);
        if (status == CIRCE_OK)
            status =
                circe__cuda_status((cudaError_t)circe__cuda_clear_upper(out, n, cuda->stream), "clearing a triangle");
    }
    return status;
}

circe_status circe__cuda_eigen(circe_cuda *cuda, int64_t n, double *a, double *w) {
    circe__cuda_algebra *g = cuda->algebra;
    size_t on_device = 0, on_host = 0;
    CIRCE__OWNED void *host_work = NULL;
    void *device_work = NULL;
    int info = 0;
    if (n == 0) return CIRCE_OK;
    circe_status status =
        solver_status(g->solver.cusolverDnXsyevd_bufferSize(g->solver_handle, g->parameters, CUSOLVER_EIG_MODE_VECTOR,
                                                            CUBLAS_FILL_MODE_UPPER, n, CUDA_R_64F, a, n, CUDA_R_64F, w,
                                                            CUDA_R_64F, &on_device, &on_host),
                      "asking for the scratch of an eigendecomposition");
    if (status != CIRCE_OK) return status;
    size_t info_at = (on_device + 255) & ~(size_t)255;
    status = circe__cuda_alloc(info_at + sizeof(int), "an eigendecomposition", &device_work);
    host_work = circe__alloc(cuda->context, (int64_t)on_host + 1, 1);
    if (status == CIRCE_OK && host_work == NULL) status = CIRCE_ERR_MEMORY;
    int *device_info = (int *)((char *)device_work + info_at);
    if (status == CIRCE_OK)
        status = solver_status(
            g->solver.cusolverDnXsyevd(g->solver_handle, g->parameters, CUSOLVER_EIG_MODE_VECTOR,
                                       CUBLAS_FILL_MODE_UPPER, n, CUDA_R_64F, a, n, CUDA_R_64F, w, CUDA_R_64F,
                                       device_work, on_device, host_work, on_host, device_info),
            "an eigendecomposition");
    if (status == CIRCE_OK)
        status = circe__cuda_status(
            cudaMemcpyAsync(&info, device_info, sizeof info, cudaMemcpyDeviceToHost, cuda->stream), "copying a status");
    if (status == CIRCE_OK) status = circe__cuda_status(cudaStreamSynchronize(cuda->stream), "an eigendecomposition");
    if (status == CIRCE_OK && info != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the kernel matrix of y did not converge");
    cudaFree(device_work);
    return status;
}
