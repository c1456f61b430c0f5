/* cuBLAS and cuDNN, opened at run time: a program that never trains on a GPU needs neither. cuBLAS uses
 * TF32 only where the precision says so. */
#include <stdio.h>

#include "circe/status.h"
#include "train/cuda/cuda_device.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const circe__library blas_library = {
    "cuBLAS", "libcublas.so." TEXT(CUBLAS_VER_MAJOR), "nvidia-cublas", {"libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)}};
static const circe__library dnn_library = {
    "cuDNN", "libcudnn.so." TEXT(CUDNN_MAJOR), "nvidia-cudnn-cu" TEXT(CUBLAS_VER_MAJOR), {NULL}};

static const char *const blas_names[] = {TRAIN_CUDA_BLAS(CIRCE__LIBRARY_NAME)};
static const char *const dnn_names[] = {TRAIN_CUDA_DNN(CIRCE__LIBRARY_NAME)};

circe_status train_cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return CIRCE_OK;
    cudaGetLastError(); /* not to be found again by the next call */
    circe_status status = error == cudaErrorMemoryAllocation ? CIRCE_ERR_MEMORY : CIRCE_ERR_DEVICE;
    return circe_fail(status, "%s: CUDA says \"%s\" (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

circe_status train_cuda_blas_status(cublasStatus_t error, const char *what) {
    if (error == CUBLAS_STATUS_SUCCESS) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_DEVICE, "%s: cuBLAS failed with status %d", what, (int)error);
}

circe_status train_cuda_dnn_status(const train_cuda_device *cuda, cudnnStatus_t error, const char *what) {
    if (error == CUDNN_STATUS_SUCCESS) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_DEVICE, "%s: cuDNN says \"%s\"", what, cuda->dnn.cudnnGetErrorString(error));
}

void train_cuda_note(train_cuda_device *cuda, cudaError_t error, const char *what) {
    if (error == cudaSuccess || cuda->failed != CIRCE_OK) return;
    cuda->failed = train_cuda_status(error, what);
    snprintf(cuda->text, sizeof cuda->text, "%s", circe_last_error());
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Workspaces are the device's: a library that allocated its own could not be recorded. */
circe_status train_cuda_open_blas(train_cuda_device *cuda) {
    enum { BYTES = 32 << 20 }; /* what NVIDIA asks for on sm_90 */
    train_cuda_blas *blas = &cuda->blas;
    circe_status status =
        circe__library_open(&blas_library, blas, blas_names, (int)(sizeof blas_names / sizeof *blas_names));
    if (status == CIRCE_OK)
        status = train_cuda_blas_status(blas->cublasCreate_v2(&cuda->blas_handle), "opening cuBLAS");
    if (status == CIRCE_OK) status = train_cuda_status(cudaMalloc(&cuda->blas_workspace, BYTES), "opening cuBLAS");
    if (status == CIRCE_OK)
        status = train_cuda_blas_status(blas->cublasSetStream_v2(cuda->blas_handle, cuda->stream), "opening cuBLAS");
    if (status == CIRCE_OK)
        status = train_cuda_blas_status(blas->cublasSetWorkspace_v2(cuda->blas_handle, cuda->blas_workspace, BYTES),
                                        "opening cuBLAS");
    return status == CIRCE_OK ? train_cuda_set_math(cuda) : status;
}

circe_status train_cuda_set_math(train_cuda_device *cuda) {
    cublasMath_t math = cuda->precision == TRAIN_FLOAT32 ? CUBLAS_DEFAULT_MATH : CUBLAS_TF32_TENSOR_OP_MATH;
    return train_cuda_blas_status(cuda->blas.cublasSetMathMode(cuda->blas_handle, math), "opening cuBLAS");
}

int64_t train_cuda_most_workspace(const train_cuda_device *cuda) {
    return cuda->memory / 32 > TRAIN_CUDA_WORKSPACE ? cuda->memory / 32 : TRAIN_CUDA_WORKSPACE;
}

circe_status train_cuda_need_workspace(train_cuda_device *cuda, int64_t bytes) {
    int64_t larger = TRAIN_CUDA_WORKSPACE;
    void *workspace = NULL;
    if (bytes <= cuda->workspace_bytes) return CIRCE_OK;
    while (larger < bytes) larger *= 2;
    circe_status status = train_cuda_status(cudaMalloc(&workspace, (size_t)larger), "making room for convolutions");
    if (status != CIRCE_OK) return status;
    if (cuda->workspace != NULL) cuda->outgrown[cuda->n_outgrown++] = cuda->workspace;
    cuda->workspace = workspace;
    cuda->workspace_bytes = larger;
    return CIRCE_OK;
}

circe_status train_cuda_need_dnn(train_cuda_device *cuda) {
    train_cuda_dnn *dnn = &cuda->dnn;
    if (cuda->dnn_handle != NULL) return CIRCE_OK;
    circe_status status =
        circe__library_open(&dnn_library, dnn, dnn_names, (int)(sizeof dnn_names / sizeof *dnn_names));
    if (status == CIRCE_OK) status = train_cuda_dnn_status(cuda, dnn->cudnnCreate(&cuda->dnn_handle), "opening cuDNN");
    if (status == CIRCE_OK)
        status = train_cuda_dnn_status(cuda, dnn->cudnnSetStream(cuda->dnn_handle, cuda->stream), "opening cuDNN");
    return status;
}

void train_cuda_close_libraries(train_cuda_device *cuda) {
    if (cuda->dnn_handle != NULL) cuda->dnn.cudnnDestroy(cuda->dnn_handle);
    if (cuda->blas_handle != NULL) cuda->blas.cublasDestroy_v2(cuda->blas_handle);
    cudaFree(cuda->workspace);
    for (int k = 0; k < cuda->n_outgrown; k++) cudaFree(cuda->outgrown[k]);
    cudaFree(cuda->blas_workspace);
}
