/* An NVIDIA GPU as a device: one stream, on which everything is queued in order. Nothing in a step waits for the GPU or
 * allocates, so a step can be recorded as a CUDA graph and started with one call.
 *
 * Functions of the table that return nothing keep their first failure for `check`. */
#include <pthread.h>
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_recording {
    cudaGraphExec_t graph;
};

static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

void train_cuda_alone_begin(void) { pthread_mutex_lock(&alone); }

void train_cuda_alone_end(void) { pthread_mutex_unlock(&alone); }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *allocate(train_device *device, size_t bytes) {
    train_cuda_device *cuda = train_cuda_of(device);
    void *block = NULL;
    cudaError_t error = cudaSetDevice(cuda->gpu);
    if (error == cudaSuccess) error = cudaMalloc(&block, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        circe_fail(CIRCE_ERR_MEMORY, "the GPU does not have %.1f MB left; use a smaller batch or fewer points",
                   (double)bytes / 1e6);
        return NULL;
    }
    if (error == cudaSuccess) error = cudaMemsetAsync(block, 0, bytes, cuda->stream);
    if (error == cudaSuccess) return block;
    cudaFree(block);
    train_cuda_status(error, "allocating memory of the GPU");
    return NULL;
}

/* cudaFree waits for the GPU. */
static void release(train_device *device, void *block) {
    if (block != NULL) train_cuda_note(train_cuda_of(device), cudaFree(block), "freeing memory of the GPU");
}

static void copy(train_device *device, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (bytes == 0) return;
    train_cuda_note(cuda, cudaMemcpyAsync(to, from, bytes, kind, cuda->stream), "copying to or from the GPU");
    train_cuda_note(cuda, cudaStreamSynchronize(cuda->stream), "copying to or from the GPU");
}

static void upload(train_device *device, void *to, const void *from, size_t bytes) {
    copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}

static void download(train_device *device, void *to, const void *from, size_t bytes) {
    copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

static circe_status check(train_device *device) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, cudaStreamSynchronize(cuda->stream), "training on the GPU");
    return cuda->failed == CIRCE_OK ? CIRCE_OK : circe_fail(cuda->failed, "%s", cuda->text);
}

static circe_status set_precision(train_device *device, train_precision precision) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda->precision = precision;
    return train_cuda_set_math(cuda);
}

/* ---- two streams ------------------------------------------------------------------------------------------------- */

static cudaError_t follow(cudaStream_t leader, cudaEvent_t event, cudaStream_t follower) {
    cudaError_t error = cudaEventRecord(event, leader);
    return error == cudaSuccess ? cudaStreamWaitEvent(follower, event, 0) : error;
}

cudaError_t train_cuda_fork(const train_cuda_device *cuda) { return follow(cuda->stream, cuda->forked, cuda->beside); }

cudaError_t train_cuda_join(const train_cuda_device *cuda) { return follow(cuda->beside, cuda->joined, cuda->stream); }

/* ---- recording --------------------------------------------------------------------------------------------------- */

static circe_status record(train_device *device) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_alone_begin();
    circe_status status =
        train_cuda_status(cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal), "recording a step");
    cuda->recording = status == CIRCE_OK;
    if (!cuda->recording) train_cuda_alone_end();
    return status;
}

static circe_status record_end(train_device *device, train_recording **recording) {
    train_cuda_device *cuda = train_cuda_of(device);
    cudaGraph_t graph = NULL;
    *recording = NULL;
    if (!cuda->recording) return CIRCE_OK;
    cuda->recording = false;
    circe_status status = train_cuda_status(cudaStreamEndCapture(cuda->stream, &graph), "recording a step");
    train_cuda_alone_end();
    train_recording *made = calloc(1, sizeof *made);
    if (status == CIRCE_OK && made == NULL)
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot record a step");
    if (status == CIRCE_OK)
        status = train_cuda_status(cudaGraphInstantiate(&made->graph, graph, 0), "recording a step");
    if (graph != NULL) cudaGraphDestroy(graph);
    if (status == CIRCE_OK)
        *recording = made;
    else
        free(made);
    return status;
}

static circe_status replay(train_device *device, train_recording *recording) {
    return train_cuda_status(cudaGraphLaunch(recording->graph, train_cuda_of(device)->stream), "starting a step");
}

static void forget(train_device *device, train_recording *recording) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (recording == NULL) return;
    train_cuda_note(cuda, cudaStreamSynchronize(cuda->stream), "training on the GPU");
    cudaGraphExecDestroy(recording->graph);
    free(recording);
}

static void mark(train_device *device, int which) {
    train_cuda_device *cuda = train_cuda_of(device);
    unsigned flags = cuda->recording ? cudaEventRecordExternal : cudaEventRecordDefault;
    train_cuda_note(cuda, cudaEventRecordWithFlags(cuda->marks[which], cuda->stream, flags), "marking the time");
    cuda->marked[which] = true;
}

static circe_cuda *measures(train_device *device) { return train_cuda_of(device)->measure; }

static double elapsed(train_device *device) {
    train_cuda_device *cuda = train_cuda_of(device);
    float milliseconds = 0.0f;
    if (!cuda->marked[0] || !cuda->marked[1]) return 0.0;
    train_cuda_note(cuda, cudaEventElapsedTime(&milliseconds, cuda->marks[0], cuda->marks[1]), "reading the time");
    return 1e-3 * (double)milliseconds;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void gather(train_device *device, const float *from, int64_t cols, const int64_t *index, int64_t n, float *out) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_gather(from, cols, index, n, out, cuda->stream), "gathering rows");
}

static void pick(train_device *device, const void *blocks, size_t bytes, const int64_t *which, void *to) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_pick(blocks, (int64_t)(bytes / sizeof(int64_t)), which, to, cuda->stream),
                    "taking the next batch");
}

static void append(train_device *device, double *blocks, int64_t n, int64_t *which, const double *from) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_append(blocks, n, which, from, cuda->stream), "noting the loss");
}

static void loss(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *prediction,
                 const float *target, const float *weight, double *value, float *grad) {
    train_cuda_device *cuda = train_cuda_of(device);
    cudaError_t error =
        kind == TRAIN_MSE
            ? train_cuda_mse(n, cols, prediction, target, weight, cuda->partial, value, grad, cuda->stream)
            : train_cuda_cross_entropy(n, cols, prediction, target, weight, cuda->partial, value, grad, cuda->stream);
    train_cuda_note(cuda, error, "computing the loss");
}

static void add(train_device *device, int64_t n, float a, const float *x, float *y) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_add(n, a, x, y, cuda->stream), "adding");
}

static void add_times(train_device *device, int64_t n, const double *a, const float *x, float *y) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_add_times(n, a, x, y, cuda->stream), "adding");
}

static void adamw(train_device *device, const train_adamw *how, int64_t n, const float *grads, float *params, float *m,
                  float *v) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_note(cuda, train_cuda_adamw_step(how, n, grads, params, m, v, cuda->stream), "updating the parameters");
}

static void zero(train_device *device, int64_t n, float *x) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (n > 0) train_cuda_note(cuda, cudaMemsetAsync(x, 0, (size_t)n * sizeof *x, cuda->stream), "clearing");
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const train_layer_ops *layer(train_layer_kind kind) {
    static const train_layer_ops *const layers[TRAIN_LAYER_KINDS] = {
        [TRAIN_DENSE] = &train_cuda_dense,
        [TRAIN_RELU] = &train_cuda_activation,
        [TRAIN_LEAKY_RELU] = &train_cuda_activation,
        [TRAIN_TANH] = &train_cuda_activation,
    };
    return layers[kind];
}

static void close_device(train_device *device);

static const train_device_ops ops = {
    .name = "cuda",
    .queues = true,
    .close = close_device,
    .set_precision = set_precision,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .check = check,
    .record = record,
    .record_end = record_end,
    .replay = replay,
    .forget = forget,
    .mark = mark,
    .elapsed = elapsed,
    .layer = layer,
    .images = &train_cuda_images,
    .measures = measures,
    .source_open = train_cuda_source_open,
    .source_close = train_cuda_source_close,
    .source_renew = train_cuda_source_renew,
    .source_gather = train_cuda_source_gather,
    .gather = gather,
    .pick = pick,
    .append = append,
    .loss = loss,
    .add = add,
    .add_times = add_times,
    .adamw = adamw,
    .zero = zero,
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void close_device(train_device *device) {
    train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_alone_begin();
    circe_cuda_close(cuda->measure);
    if (cuda->stream != NULL) cudaStreamSynchronize(cuda->stream);
    train_cuda_close_libraries(cuda);
    for (int k = 0; k < 2; k++)
        if (cuda->marks[k] != NULL) cudaEventDestroy(cuda->marks[k]);
    if (cuda->forked != NULL) cudaEventDestroy(cuda->forked);
    if (cuda->joined != NULL) cudaEventDestroy(cuda->joined);
    cudaFree(cuda->partial);
    if (cuda->beside != NULL) cudaStreamDestroy(cuda->beside);
    if (cuda->stream != NULL) cudaStreamDestroy(cuda->stream);
    train_cuda_alone_end();
    free(cuda);
}

/* Whether there is such a GPU is libcirce's to say. */
static circe_status open_device(train_cuda_device *cuda) {
    circe_cuda *first = NULL;
    circe_status status = circe_cuda_open(cuda->device.context, cuda->gpu, NULL, &first);
    circe_cuda_close(first);
    if (status != CIRCE_OK) return status;
    size_t left = 0, memory = 0;
    cudaError_t error = cudaSetDevice(cuda->gpu);
    if (error == cudaSuccess) error = cudaMemGetInfo(&left, &memory);
    cuda->memory = (int64_t)memory;
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&cuda->beside, cudaStreamNonBlocking);
    for (int k = 0; k < 2 && error == cudaSuccess; k++) error = cudaEventCreate(&cuda->marks[k]);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&cuda->forked, cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&cuda->joined, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&cuda->partial, TRAIN_CUDA_LOSS_PARTIALS * sizeof *cuda->partial);
    if (error != cudaSuccess) return train_cuda_status(error, "opening the GPU");
    status = circe_cuda_open(cuda->device.context, cuda->gpu, cuda->stream, &cuda->measure);
    return status == CIRCE_OK ? train_cuda_open_blas(cuda) : status;
}

circe_status train_device_cuda(circe_context *context, int gpu, train_device **device) {
    *device = NULL;
    train_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a device");
    cuda->device = (train_device){.ops = &ops, .context = context};
    cuda->gpu = gpu;
    train_cuda_alone_begin();
    circe_status status = open_device(cuda);
    train_cuda_alone_end();
    if (status == CIRCE_OK)
        *device = &cuda->device;
    else
        close_device(&cuda->device);
    return status;
}

int train_gpus(void) {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}
