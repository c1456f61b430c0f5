/* Batch norm on the GPU: as train/cpu/batch_norm.c, with the activation behind it, by our own kernels (last_norm.cu).
 */
#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_layer_state {
    float *mean, *deviation; /* (channels), of the batch; the latter inverse */
    void *scratch;
    bool training; /* the last forward was of training */
};

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory) {
    size_t bytes = (size_t)layer->in.size[0] * sizeof(float);
    (void)rows, (void)wants_grad_in;
    circe_status status = train_take(memory, bytes, &state->mean);
    if (status == CIRCE_OK) status = train_take(memory, bytes, &state->deviation);
    if (status != CIRCE_OK) return status;
    return train_take(memory, (size_t)train_cuda_last_bytes((int)layer->in.size[0]), &state->scratch);
}

static int64_t points_of(const train_layer *layer, int64_t rows) {
    return rows * layer->in.size[1] * layer->in.size[2];
}

static cuda_norm norm_of(const train_layer *layer, const train_layer_state *s, const train_visit *pass) {
    int64_t channels = layer->in.size[0];
    cuda_norm norm = {.weight = pass->params, .bias = pass->params + channels};
    if (s->training) {
        norm.mean = s->mean;
        norm.deviation = s->deviation;
    } else {
        norm.mean = pass->buffers;
        norm.variance = pass->buffers + channels;
    }
    return norm;
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    int64_t points = points_of(layer, pass->rows);
    int channels = (int)layer->in.size[0];
    bool half = train_cuda_is_half(layer);
    cudaError_t error = cudaSuccess;
    s->training = pass->training;
    if (pass->training && points < 2)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "layer %s: batch norm needs two or more numbers per channel in training; this batch has one",
                          layer->name);
    if (s->training)
        error = train_cuda_last_statistics(points, channels, half, pass->in, s->scratch, s->mean, s->deviation,
                                           pass->buffers, pass->buffers + channels, cuda->stream);
    if (error == cudaSuccess)
        error = train_cuda_last_bend(points, channels, half, train_cuda_merged(layer), norm_of(layer, s, pass),
                                     pass->in, pass->out, cuda->stream);
    return train_cuda_status(error, "batch norm");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    int64_t channels = layer->in.size[0];
    return train_cuda_status(
        train_cuda_last_norm_back(points_of(layer, pass->rows), (int)channels, train_cuda_is_half(layer),
                                  train_cuda_merged(layer), norm_of(layer, s, pass), !s->training, pass->in,
                                  pass->grad_out, s->scratch, pass->grads, pass->grads + channels, pass->grad_in,
                                  train_cuda_of(device)->stream),
        "batch norm's gradient");
}

const train_layer_ops train_cuda_batch_norm = {.state_bytes = sizeof(train_layer_state),
                                               .create = create,
                                               .pass_forward = forward,
                                               .pass_backward = backward,
                                               .merges = train_cuda_merges};
