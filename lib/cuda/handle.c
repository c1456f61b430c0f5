/* The handle: device, stream, scratch. CUDA's runtime is linked statically and opens the driver at its first call, so a
 * program that never calls it needs neither driver nor GPU. */
#include <string.h>

#include "cuda/cuda_algebra.h"
#include "cuda/cuda_parts.h"

circe_status circe__cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return CIRCE_OK;
    cudaGetLastError(); /* not to be found again by the next call */
    circe_status status = error == cudaErrorMemoryAllocation ? CIRCE_ERR_MEMORY : CIRCE_ERR_DEVICE;
    return circe_fail(status, "%s: CUDA says \"%s\" (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static circe_status refuse_device(cudaError_t error, int device, int count) {
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
        cudaGetLastError();
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "this machine has no NVIDIA GPU, or no driver that supports CUDA %d.%d (%s); use the CPU, or "
                          "install a driver",
                          CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100,
                          error == cudaSuccess ? "no device was found" : cudaGetErrorString(error));
    }
    if (error != cudaSuccess) return circe__cuda_status(error, "asking for the GPUs of this machine");
    return circe_fail(CIRCE_ERR_ARGUMENT, "there is no GPU %d; this machine has %d, counted from 0", device, count);
}

/* sm_80 is the oldest the kernels are built for. */
static circe_status check_capability(int device, int *major, int *shared_bytes) {
    int minor = 0;
    cudaError_t error = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return circe__cuda_status(error, "asking what the GPU can do");
    if (*major >= 8) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "GPU %d has compute capability %d.%d; 8.0 (A100) or newer is needed",
                      device, *major, minor);
}

circe_status circe_cuda_open(circe_context *context, int device, void *stream, circe_cuda **cuda) {
    CIRCE_OWN_SETTINGS;
    int count = 0, major = 0, shared = 0, previous = 0;
    circe_cuda *made = NULL;
    if (context == NULL || cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and cuda must not be NULL");
    *cuda = NULL;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || device < 0 || device >= count) return refuse_device(error, device, count);
    circe_status status = check_capability(device, &major, &shared);
    if (status != CIRCE_OK) return status;
    made = circe__calloc(context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    *made = (circe_cuda){.context = context,
                         .device = device,
                         .overlap = major >= 9,
                         .large_tiles = shared >= CIRCE__CUDA_LARGE_BYTES,
                         .stream = stream};
    status = circe_workspace_create(context, &made->workspace);
    if (status == CIRCE_OK) status = circe__cuda_begin(made, &previous);
    if (status == CIRCE_OK) {
        status = circe__cuda_status((cudaError_t)circe__cuda_prepare(made->large_tiles), "loading the kernels");
        circe__cuda_end(made, previous);
    }
    if (status == CIRCE_OK)
        *cuda = made;
    else
        circe_cuda_close(made);
    return status;
}

void circe_cuda_close(circe_cuda *cuda) {
    int previous = 0;
    if (cuda == NULL) return;
    bool owns = cuda->scratch.n > 0 || cuda->points.n > 0 || cuda->algebra != NULL;
    if (owns && circe__cuda_begin(cuda, &previous) == CIRCE_OK) {
        cudaDeviceSynchronize();
        circe__cuda_algebra_free(cuda);
        for (int b = 0; b < cuda->scratch.n; b++) cudaFree(cuda->scratch.blocks[b].data);
        for (int b = 0; b < cuda->points.n; b++) cudaFree(cuda->points.blocks[b].data);
        circe__cuda_end(cuda, previous);
    }
    circe_workspace_destroy(cuda->workspace);
    circe__free(cuda->context, cuda);
}

circe_status circe_cuda_set_stream(circe_cuda *cuda, void *stream) {
    if (cuda == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda must not be NULL");
    cuda->stream = stream;
    return CIRCE_OK;
}

size_t circe_cuda_bytes(const circe_cuda *cuda) {
    size_t sum = 0;
    for (int b = 0; cuda != NULL && b < cuda->scratch.n; b++) sum += cuda->scratch.blocks[b].bytes;
    for (int b = 0; cuda != NULL && b < cuda->points.n; b++) sum += cuda->points.blocks[b].bytes;
    return sum;
}

circe_status circe__cuda_begin(const circe_cuda *cuda, int *previous) {
    cudaError_t error = cudaGetDevice(previous);
    if (error == cudaSuccess && *previous != cuda->device) error = cudaSetDevice(cuda->device);
    return circe__cuda_status(error, "selecting the GPU");
}

void circe__cuda_end(const circe_cuda *cuda, int previous) {
    if (previous != cuda->device) cudaSetDevice(previous);
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

circe_status circe__cuda_alloc(size_t bytes, const char *what, void **data) {
    *data = NULL;
    cudaError_t error = cudaMalloc(data, bytes > 0 ? bytes : 1);
    if (error == cudaSuccess) return CIRCE_OK;
    if (error != cudaErrorMemoryAllocation) return circe__cuda_status(error, what);
    cudaGetLastError();
    return circe_fail(CIRCE_ERR_MEMORY, "the GPU does not have %.1f MB left for %s; use fewer rows",
                      (double)bytes / 1e6, what);
}

circe_status circe__cuda_upload(const circe_cuda *cuda, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                size_t width, size_t rows, const char *what) {
    if (width == 0 || rows == 0) return CIRCE_OK;
    cudaError_t error =
        cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyHostToDevice, cuda->stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(cuda->stream);
    return circe__cuda_status(error, what);
}

bool circe__cuda_is_capturing(const circe_cuda *cuda) {
    enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(cuda->stream, &state) == cudaSuccess && state != cudaStreamCaptureStatusNone;
}

circe_status circe__cuda_grow(const circe_cuda *cuda, circe__cuda_scratch *scratch, size_t bytes, void **data) {
    size_t have = scratch->n == 0 ? 0 : scratch->blocks[scratch->n - 1].bytes;
    if (have >= bytes && have > 0) {
        *data = scratch->blocks[scratch->n - 1].data;
        return CIRCE_OK;
    }
    if (circe__cuda_is_capturing(cuda))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%.1f MB of scratch are missing and cannot be allocated during capture; call once before, or "
                          "circe_cuda_reserve",
                          (double)bytes / 1e6);
    if (scratch->n == CIRCE__CUDA_MAX_BLOCKS)
        return circe_fail(CIRCE_ERR_MEMORY, "the handle's scratch has grown %d times; reserve the largest size first",
                          CIRCE__CUDA_MAX_BLOCKS);
    if (bytes < have + have / 2) bytes = have + have / 2;
    circe_status status = circe__cuda_alloc(bytes, "scratch", data);
    if (status != CIRCE_OK) return status;
    scratch->blocks[scratch->n].data = *data;
    scratch->blocks[scratch->n++].bytes = bytes;
    return CIRCE_OK;
}

circe_status circe__cuda_take(circe_cuda *cuda, size_t bytes, void **scratch) {
    return circe__cuda_grow(cuda, &cuda->scratch, bytes, scratch);
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

circe_status circe__cuda_check_pointer(const circe_cuda *cuda, const void *pointer, const char *name) {
    struct cudaPointerAttributes found;
    if (pointer == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "%s must not be NULL", name);
    cudaError_t error = cudaPointerGetAttributes(&found, pointer);
    if (error != cudaSuccess) return circe__cuda_status(error, "asking where an argument lies");
    if (found.type == cudaMemoryTypeManaged) return CIRCE_OK;
    if (found.type != cudaMemoryTypeDevice)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%s lies in the host's memory; this call needs memory of GPU %d (cudaMalloc)", name,
                          cuda->device);
    if (found.device != cuda->device)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s lies on GPU %d; the handle was opened for GPU %d", name, found.device,
                          cuda->device);
    return CIRCE_OK;
}

circe_status circe__cuda_check_mat(const circe_cuda *cuda, const circe_mat *mat, const char *name, int64_t min_rows) {
    enum { MOST = 1 << 26 };
    circe_status status = circe__check_mat(mat, name, min_rows);
    if (status != CIRCE_OK) return status;
    if (mat->cols > MOST)
        return circe_fail(CIRCE_ERR_SHAPE, "%s has %lld columns; at most %d are supported on a GPU", name,
                          (long long)mat->cols, MOST);
    return circe__cuda_check_pointer(cuda, mat->data, name);
}

circe_status circe__cuda_kernel_of(circe__factors factors, const char *name, circe__cuda_kernel *kernel) {
    if (factors.n > CIRCE__CUDA_MAX_FACTORS)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "the kernel of %s has %lld factors; a GPU supports at most %d", name,
                          (long long)factors.n, CIRCE__CUDA_MAX_FACTORS);
    memset(kernel, 0, sizeof *kernel);
    kernel->n = (int)factors.n;
    for (int64_t f = 0; f < factors.n; f++)
        kernel->items[f] = (circe__cuda_factor){(int)factors.items[f].kind, (int)factors.items[f].first_col,
                                                (int)factors.items[f].n_cols, factors.items[f].sigma2};
    return CIRCE_OK;
}
