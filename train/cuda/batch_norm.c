/* Batch norm on the GPU, by cuDNN: as train/cpu/batch_norm.c. With running statistics, which cuDNN has no backward for,
 * the gradient is a kernel of ours. */
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda.h"

static const double EPSILON = 1e-5, MOMENTUM = 0.1;
static const float one = 1.0f, none = 0.0f;

struct train_layer_state {
    cudnnTensorDescriptor_t images, channels;
    float *mean, *deviation; /* (channels), of the batch; the latter inverse */
    bool training;           /* the last forward was of training */
};

static void destroy(train_device *device, train_layer_state *s) {
    const train_cuda_dnn *dnn = &train_cuda_of(device)->dnn;
    if (s == NULL) return;
    if (s->images != NULL) dnn->cudnnDestroyTensorDescriptor(s->images);
    if (s->channels != NULL) dnn->cudnnDestroyTensorDescriptor(s->channels);
    device->ops->release(device, s->mean);
    device->ops->release(device, s->deviation);
    free(s);
}

static circe_status fill(train_device *device, const train_layer *layer, int64_t rows, train_layer_state *s) {
    train_cuda_device *cuda = train_cuda_of(device);
    size_t bytes = (size_t)layer->in.size[0] * sizeof(float);
    circe_status status = train_cuda_need_dnn(cuda);
    if (status == CIRCE_OK) status = train_cuda_tensor(cuda, rows, layer->in, &s->images);
    if (status == CIRCE_OK)
        status = train_cuda_tensor(cuda, 1, (train_shape){.n_dims = 1, .size = {layer->in.size[0]}}, &s->channels);
    if (status != CIRCE_OK) return status;
    s->mean = device->ops->allocate(device, bytes);
    s->deviation = device->ops->allocate(device, bytes);
    return s->mean == NULL || s->deviation == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

static circe_status create(train_device *device, const train_layer *layer, int64_t rows, bool wants_grad_in,
                           train_layer_state **state, size_t *scratch_bytes) {
    (void)wants_grad_in;
    *scratch_bytes = 0;
    *state = calloc(1, sizeof **state);
    if (*state == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a batch norm");
    circe_status status = fill(device, layer, rows, *state);
    if (status == CIRCE_OK) return status;
    destroy(device, *state);
    *state = NULL;
    return status;
}

static cudnnStatus_t normalize(train_cuda_device *cuda, const train_layer *layer, train_layer_state *s,
                               const train_visit *pass) {
    int64_t channels = layer->in.size[0];
    const float *weight = pass->params, *bias = pass->params + channels;
    float *mean = pass->buffers, *variance = pass->buffers + channels;
    if (!pass->training)
        return cuda->dnn.cudnnBatchNormalizationForwardInference(cuda->dnn_handle, CUDNN_BATCHNORM_SPATIAL, &one, &none,
                                                                 s->images, pass->in, s->images, pass->out, s->channels,
                                                                 weight, bias, mean, variance, EPSILON);
    return cuda->dnn.cudnnBatchNormalizationForwardTraining(
        cuda->dnn_handle, CUDNN_BATCHNORM_SPATIAL, &one, &none, s->images, pass->in, s->images, pass->out, s->channels,
        weight, bias, MOMENTUM, mean, variance, EPSILON, s->mean, s->deviation);
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    int64_t n = pass->rows * train_shape_count(layer->out);
    s->training = pass->training;
    if (pass->training && pass->rows * layer->in.size[1] * layer->in.size[2] < 2)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "layer %s: batch norm of a single number a channel; in training a batch needs two or more",
                          layer->name);
    circe_status status = train_cuda_dnn_status(cuda, normalize(cuda, layer, s, pass), "batch norm");
    if (status != CIRCE_OK || layer->merged == 0) return status;
    return train_cuda_status(train_cuda_bend(train_cuda_merged(layer), n, pass->out, pass->out, cuda->stream),
                             "batch norm");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    int64_t channels = layer->in.size[0], n = pass->rows * train_shape_count(layer->out);
    cudaError_t error = layer->merged == 0 ? cudaSuccess
                                           : train_cuda_bend_back(train_cuda_merged(layer), n, pass->out,
                                                                  pass->grad_out, pass->grad_out, cuda->stream);
    if (error == cudaSuccess && !s->training)
        error = train_cuda_norm_back(train_cuda_batch_of(layer->in, pass->rows), (float)EPSILON, pass->in,
                                     pass->buffers, pass->buffers + channels, pass->params, pass->grad_out,
                                     pass->grad_in, pass->grads, pass->grads + channels, cuda->stream);
    circe_status status = train_cuda_status(error, "batch norm's gradient");
    if (status != CIRCE_OK || !s->training) return status;
    return train_cuda_dnn_status(cuda,
                                 cuda->dnn.cudnnBatchNormalizationBackward(
                                     cuda->dnn_handle, CUDNN_BATCHNORM_SPATIAL, &one, &none, &one, &none, s->images,
                                     pass->in, s->images, pass->grad_out, s->images, pass->grad_in, s->channels,
                                     pass->params, pass->grads, pass->grads + channels, EPSILON, s->mean, s->deviation),
                                 "batch norm's gradient");
}

const train_layer_ops train_cuda_batch_norm = {.create = create,
                                               .destroy = destroy,
                                               .pass_forward = forward,
                                               .pass_backward = backward,
                                               .merges = train_cuda_merges};
