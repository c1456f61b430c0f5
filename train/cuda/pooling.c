/* Max-pools and the average of each channel on the GPU, by cuDNN; of several largest numbers of a window the choice is
 * always the same. The gradient of windows that lie side by side is a kernel of ours, four times as fast, and so is the
 * forward of windows of 2 by 2. */
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda.h"

struct train_layer_state {
    cudnnTensorDescriptor_t in, out;
    cudnnPoolingDescriptor_t how;
};

static void destroy(train_device *device, train_layer_state *s) {
    const train_cuda_dnn *dnn = &train_cuda_of(device)->dnn;
    if (s == NULL) return;
    if (s->in != NULL) dnn->cudnnDestroyTensorDescriptor(s->in);
    if (s->out != NULL) dnn->cudnnDestroyTensorDescriptor(s->out);
    if (s->how != NULL) dnn->cudnnDestroyPoolingDescriptor(s->how);
    free(s);
}

static cudnnStatus_t describe(const train_cuda_dnn *dnn, const train_layer *layer, train_layer_state *s) {
    bool average = layer->kind == TRAIN_AVERAGE_POOL;
    int height = (int)(average ? layer->in.size[1] : layer->kernel);
    int width = (int)(average ? layer->in.size[2] : layer->kernel);
    int stride = average ? 1 : (int)layer->stride, padding = average ? 0 : (int)layer->padding;
    cudnnStatus_t error = dnn->cudnnCreatePoolingDescriptor(&s->how);
    if (error != CUDNN_STATUS_SUCCESS) return error;
    return dnn->cudnnSetPooling2dDescriptor(
        s->how, average ? CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING : CUDNN_POOLING_MAX_DETERMINISTIC,
        CUDNN_PROPAGATE_NAN, height, width, padding, padding, stride, stride);
}

static circe_status create(train_device *device, const train_layer *layer, int64_t rows, bool wants_grad_in,
                           train_layer_state **state, size_t *scratch_bytes) {
    train_cuda_device *cuda = train_cuda_of(device);
    (void)wants_grad_in;
    *scratch_bytes = 0;
    *state = calloc(1, sizeof **state);
    if (*state == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a pool");
    circe_status status = train_cuda_need_dnn(cuda);
    if (status == CIRCE_OK) status = train_cuda_tensor(cuda, rows, layer->in, &(*state)->in);
    if (status == CIRCE_OK) status = train_cuda_tensor(cuda, rows, layer->out, &(*state)->out);
    if (status == CIRCE_OK)
        status = train_cuda_dnn_status(cuda, describe(&cuda->dnn, layer, *state), "describing a pool");
    if (status == CIRCE_OK) return status;
    destroy(device, *state);
    *state = NULL;
    return status;
}

static const float one = 1.0f, none = 0.0f;

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_window window = train_cuda_window(layer, pass->rows);
    if (layer->kind == TRAIN_MAX_POOL && train_cuda_pool_halves(window))
        return train_cuda_status(train_cuda_pool_forward(window, pass->in, pass->out, cuda->stream), "a pool");
    return train_cuda_dnn_status(
        cuda, cuda->dnn.cudnnPoolingForward(cuda->dnn_handle, s->how, &one, s->in, pass->in, &none, s->out, pass->out),
        "a pool");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (pass->grad_in == NULL) return CIRCE_OK;
    if (layer->kind == TRAIN_MAX_POOL && layer->padding == 0 && layer->kernel <= layer->stride)
        return train_cuda_status(train_cuda_pool_back(train_cuda_window(layer, pass->rows), pass->in, pass->out,
                                                      pass->grad_out, pass->grad_in, cuda->stream),
                                 "a pool's gradient");
    return train_cuda_dnn_status(
        cuda,
        cuda->dnn.cudnnPoolingBackward(cuda->dnn_handle, s->how, &one, s->out, pass->out, s->out, pass->grad_out, s->in,
                                       pass->in, &none, s->in, pass->grad_in),
        "a pool's gradient");
}

const train_layer_ops train_cuda_max_pool = {
    .create = create, .destroy = destroy, .pass_forward = forward, .pass_backward = backward};
const train_layer_ops train_cuda_average_pool = {
    .create = create, .destroy = destroy, .pass_forward = forward, .pass_backward = backward};
