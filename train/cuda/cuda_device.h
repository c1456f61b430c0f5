/* Internals of the GPU device that its files share. */
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "circe/cuda.h"
#include "cuda/libraries.h"
#include "train/cuda/cuda_kernels.h"
#include "train/device.h"

#define TRAIN_CUDA_BLAS(X)   \
    X(cublasCreate_v2)       \
    X(cublasDestroy_v2)      \
    X(cublasSetStream_v2)    \
    X(cublasSetWorkspace_v2) \
    X(cublasSetMathMode)     \
    X(cublasSgemm_v2)

#define TRAIN_CUDA_DNN(X)            \
    X(cudnnCreate)                   \
    X(cudnnDestroy)                  \
    X(cudnnSetStream)                \
    X(cudnnGetVersion)               \
    X(cudnnGetErrorString)           \
    X(cudnnBackendCreateDescriptor)  \
    X(cudnnBackendDestroyDescriptor) \
    X(cudnnBackendSetAttribute)      \
    X(cudnnBackendGetAttribute)      \
    X(cudnnBackendFinalize)          \
    X(cudnnBackendExecute)

typedef struct train_cuda_blas {
    TRAIN_CUDA_BLAS(CIRCE__LIBRARY_POINTER)
} train_cuda_blas;

typedef struct train_cuda_dnn {
    TRAIN_CUDA_DNN(CIRCE__LIBRARY_POINTER)
} train_cuda_dnn;

typedef struct train_cuda_device {
    train_device device;
    int gpu;
    train_precision precision;
    cudaStream_t stream;
    cudaEvent_t marks[2];
    cudaStream_t beside; /* for work that others of the same layer need not wait for */
    cudaEvent_t forked, joined;
    bool marked[2], recording;
    train_cuda_blas blas;
    cublasHandle_t blas_handle;
    void *blas_workspace;
    train_cuda_dnn dnn;
    cudnnHandle_t dnn_handle; /* NULL: no layer has asked for it yet */
    int64_t memory, workspace_bytes;
    void *workspace;    /* of convolutions, one after the other */
    void *outgrown[32]; /* workspaces that recorded steps still use; each was half as large as the next */
    int n_outgrown;
    double *partial;     /* (TRAIN_CUDA_LOSS_PARTIALS) */
    circe_cuda *measure; /* libcirce's handle on the same stream */
    circe_status failed; /* of a function that returns nothing; CIRCE_OK: none */
    char text[256];
} train_cuda_device;

/* Bytes of a workspace, the least there is and the most that kernels of ours want. */
enum { TRAIN_CUDA_WORKSPACE = 256 << 20 };

/* How images are kept: as they come, where all layers are of kernels that want them so (small images that are halved);
 * else with their channels last, (row, line, column, channel), in float32 or bfloat16. */
typedef enum train_cuda_form { TRAIN_CUDA_PLAIN, TRAIN_CUDA_LAST, TRAIN_CUDA_LAST_HALF } train_cuda_form;

static inline bool train_cuda_is_half(const train_layer *layer) {
    return layer->form == TRAIN_CUDA_LAST_HALF && (layer->images || layer->reads_images);
}

static inline train_cuda_device *train_cuda_of(train_device *device) { return (train_cuda_device *)device; }

/* CUDA's, cuBLAS's and cuDNN's errors as statuses; `what` says what was being done. */
circe_status train_cuda_status(cudaError_t error, const char *what);
circe_status train_cuda_blas_status(cublasStatus_t error, const char *what);
circe_status train_cuda_dnn_status(const train_cuda_device *cuda, cudnnStatus_t error, const char *what);
/* The first failure is kept for `check`. */
void train_cuda_note(train_cuda_device *cuda, cudaError_t error, const char *what);

/* Work on `beside` begins where `stream` is now; and `stream` goes on once it has ended. */
cudaError_t train_cuda_fork(const train_cuda_device *cuda);
cudaError_t train_cuda_join(const train_cuda_device *cuda);

/* Around the recording of a stream, and around what opens and closes a device: closing waits for the whole GPU, which
 * CUDA forbids while another thread records. */
void train_cuda_alone_begin(void);
void train_cuda_alone_end(void);

/* Opens the libraries: cuBLAS with the device, cuDNN when it is first needed. */
circe_status train_cuda_open_blas(train_cuda_device *cuda);
/* cuBLAS in the device's precision. */
circe_status train_cuda_set_math(train_cuda_device *cuda);
circe_status train_cuda_need_dnn(train_cuda_device *cuda);
/* A workspace of this many bytes; and how many an engine of cuDNN may use, which depends on the GPU alone. */
circe_status train_cuda_need_workspace(train_cuda_device *cuda, int64_t bytes);
int64_t train_cuda_most_workspace(const train_cuda_device *cuda);
void train_cuda_close_libraries(train_cuda_device *cuda);

static inline cuda_bend train_cuda_merged(const train_layer *layer) {
    return (cuda_bend){.kind = (int)layer->merged, .slope = layer->slope};
}

static inline cuda_batch train_cuda_batch_of(train_shape shape, int64_t rows) {
    bool images = shape.n_dims == 3;
    return (cuda_batch){rows, (int)shape.size[0], images ? (int)(shape.size[1] * shape.size[2]) : 1};
}

static inline cuda_window train_cuda_window(const train_layer *layer, int64_t rows) {
    return (cuda_window){.rows = rows,
                         .channels = (int)layer->in.size[0],
                         .height = (int)layer->in.size[1],
                         .width = (int)layer->in.size[2],
                         .outputs = (int)layer->out.size[0],
                         .out_height = (int)layer->out.size[1],
                         .out_width = (int)layer->out.size[2],
                         .kernel = (int)layer->kernel,
                         .stride = (int)layer->stride,
                         .padding = (int)layer->padding};
}

bool train_cuda_merges(train_layer_kind activation);

extern const train_layer_ops train_cuda_dense, train_cuda_activation, train_cuda_convolution, train_cuda_max_pool,
    train_cuda_batch_norm, train_cuda_addition, train_cuda_average_pool, train_cuda_flatten;
extern const train_image_ops train_cuda_images;

circe_status train_cuda_source_open(train_device *device, const train_source *source, train_source_handle **handle);
void train_cuda_source_close(train_device *device, train_source_handle *handle);
void train_cuda_source_renew(train_device *device, train_source_handle *handle);
void train_cuda_source_gather(train_device *device, const train_source_handle *handle, const int64_t *index,
                              int64_t first, int64_t n, float *out);
