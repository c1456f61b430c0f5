/* Max-pools and the average of each channel on the GPU, by our own kernels: of images with their channels last
 * (last_pool.cu), and windows of 2 by 2 of images as they come (pooling.cu). If a window has several largest numbers,
 * the first is chosen. */
#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_layer_state {
    uint8_t *taken; /* (rows, out): which number of a window was the largest; NULL: found again by looking */
};

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory) {
    (void)wants_grad_in;
    if (layer->form == TRAIN_CUDA_PLAIN) return CIRCE_OK;
    if (!train_cuda_last_pools(train_cuda_window(layer, rows)))
        return circe_fail(
            CIRCE_ERR_UNSUPPORTED,
            "layer %s: a max-pool of %lld by %lld is too large; on a GPU, windows may be at most 15 by 15", layer->name,
            (long long)layer->kernel, (long long)layer->kernel);
    return train_take(memory, (size_t)(rows * train_shape_count(layer->out)), &state->taken);
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    cudaStream_t stream = train_cuda_of(device)->stream;
    cuda_window window = train_cuda_window(layer, pass->rows);
    cudaError_t error = layer->form == TRAIN_CUDA_PLAIN ? train_cuda_pool_forward(window, pass->in, pass->out, stream)
                                                        : train_cuda_last_pool(window, train_cuda_is_half(layer),
                                                                               pass->in, pass->out, s->taken, stream);
    return train_cuda_status(error, "a pool");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    cudaStream_t stream = train_cuda_of(device)->stream;
    cuda_window window = train_cuda_window(layer, pass->rows);
    if (pass->grad_in == NULL) return CIRCE_OK;
    cudaError_t error = layer->form == TRAIN_CUDA_PLAIN
                            ? train_cuda_pool_back(window, pass->in, pass->out, pass->grad_out, pass->grad_in, stream)
                            : train_cuda_last_pool_back(window, train_cuda_is_half(layer), s->taken, pass->grad_out,
                                                        pass->grad_in, stream);
    return train_cuda_status(error, "a pool's gradient");
}

const train_layer_ops train_cuda_max_pool = {
    .state_bytes = sizeof(train_layer_state), .create = create, .pass_forward = forward, .pass_backward = backward};

/* ---- the average ------------------------------------------------------------------------------------------------- */

static circe_status average(train_device *device, const train_layer *layer, train_layer_state *state,
                            const train_visit *pass) {
    (void)state;
    return train_cuda_status(train_cuda_last_mean(train_cuda_batch_of(layer->in, pass->rows), train_cuda_is_half(layer),
                                                  pass->in, pass->out, train_cuda_of(device)->stream),
                             "a pool");
}

static circe_status average_back(train_device *device, const train_layer *layer, train_layer_state *state,
                                 const train_visit *pass) {
    (void)state;
    if (pass->grad_in == NULL) return CIRCE_OK;
    return train_cuda_status(
        train_cuda_last_mean_back(train_cuda_batch_of(layer->in, pass->rows), train_cuda_is_half(layer), pass->grad_out,
                                  pass->grad_in, train_cuda_of(device)->stream),
        "a pool's gradient");
}

const train_layer_ops train_cuda_average_pool = {.pass_forward = average, .pass_backward = average_back};
