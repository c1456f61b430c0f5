/* Convolutions on the GPU, with bias and activation behind them.
 *
 *     in (n, c, h, w), W (o, c, k, k), b (o), out (n, o, h', w')
 *
 * Images in plain order use our own kernels (halving_*.cu), which compute all of this at once, with a max-pool behind
 * it too: the image before the pool is then never stored. Images with their channels last use the fastest engine
 * (engines.c). Weights are brought into that order first, and their gradient is brought back afterwards. A convolution
 * of the network's input also reorders that input, with zeros for channels up to 16 bytes, and folds a stride into
 * channels if these are few (last_moving.cu). Bias and activation take one pass over memory, and the derivative of the
 * activation is taken in the same pass as the gradient of the bias. */
#include "circe/status.h"
#include "train/cuda/engines.h"

struct train_layer_state {
    bool tensor_units; /* halving: the kernels with TF32 */
    uint8_t *taken;    /* halving, with a pool: which number of each window; NULL: no pool */
    train_cuda_engine *forward, *data, *filter;
    bool half_weights;  /* the engine's gradient of them is bfloat16 */
    cuda_window window; /* that the engines see, for one row: with channels that are 0, perhaps folded */
    bool folded;
    void *weights; /* (o, k, k, channels) */
    void *in;      /* (n, h, w, channels), of the network's input; NULL: it lies so already */
    void *sums;    /* scratch of the bias' gradient; NULL: there is none */
};

static void destroy(train_device *device, train_layer_state *s) {
    const train_cuda_device *cuda = train_cuda_of(device);
    train_cuda_engine_free(cuda, s->forward);
    train_cuda_engine_free(cuda, s->data);
    train_cuda_engine_free(cuda, s->filter);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static circe_status refuse(const train_layer *layer, const char *pass) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "layer %s: cuDNN has no algorithm for the %s of this convolution",
                      layer->name, pass);
}

static circe_status find(train_cuda_device *cuda, const train_layer *layer, train_cuda_problem p, train_cuda_pass pass,
                         const char *name, train_cuda_engine **engine) {
    p.pass = pass;
    circe_status status = train_cuda_engine_find(cuda, &p, engine);
    return status == CIRCE_OK && *engine == NULL ? refuse(layer, name) : status;
}

/* The gradient of the weights in float32 where cuDNN can do that. */
static circe_status find_filter(train_cuda_device *cuda, const train_layer *layer, train_cuda_problem p,
                                train_layer_state *s) {
    p.pass = TRAIN_CUDA_FILTER;
    circe_status status = train_cuda_engine_find(cuda, &p, &s->filter);
    if (status != CIRCE_OK || s->filter != NULL || !p.half)
        return status == CIRCE_OK && s->filter == NULL ? refuse(layer, "gradient of the weights") : status;
    p.half_weights = s->half_weights = true;
    return find(cuda, layer, p, TRAIN_CUDA_FILTER, "gradient of the weights", &s->filter);
}

static circe_status find_engines(train_cuda_device *cuda, const train_layer *layer, int64_t rows, bool wants_grad_in,
                                 train_layer_state *s) {
    train_cuda_problem p = {.window = s->window, .half = train_cuda_is_half(layer)};
    p.window.rows = rows;
    circe_status status = train_cuda_need_dnn(cuda);
    if (status == CIRCE_OK) status = find(cuda, layer, p, TRAIN_CUDA_FORWARD, "forward pass", &s->forward);
    if (status == CIRCE_OK) status = find_filter(cuda, layer, p, s);
    if (status == CIRCE_OK && wants_grad_in)
        status = find(cuda, layer, p, TRAIN_CUDA_DATA, "gradient at the input", &s->data);
    return status;
}

static int64_t weights_of(const train_layer_state *s) {
    return (int64_t)s->window.outputs * s->window.channels * s->window.kernel * s->window.kernel;
}

/* What the engines see of a layer. */
static void choose_window(const train_layer *layer, train_layer_state *s) {
    enum { MOST_FOLDED = 16 };
    int full = train_cuda_is_half(layer) ? 8 : 4, channels = (int)layer->in.size[0],
        folds = (int)(layer->stride * layer->stride);
    s->window = train_cuda_window(layer, 1);
    if (layer->reads_images) return;
    s->folded = layer->stride > 1 && channels * folds <= MOST_FOLDED;
    s->window.channels = ((s->folded ? channels * folds : channels) + full - 1) / full * full;
    if (s->folded) s->window = train_cuda_last_folded(train_cuda_window(layer, 1), s->window.channels);
}

static circe_status fill(train_cuda_device *cuda, const train_layer *layer, int64_t rows, bool wants_grad_in,
                         train_layer_state *s, train_memory *memory) {
    size_t element = train_cuda_is_half(layer) ? 2 : 4;
    choose_window(layer, s);
    int64_t in = rows * s->window.height * s->window.width * s->window.channels;
    circe_status status = train_take(memory, (size_t)weights_of(s) * element, &s->weights);
    if (status == CIRCE_OK && !layer->reads_images) status = train_take(memory, (size_t)in * element, &s->in);
    if (status == CIRCE_OK && layer->bias)
        status = train_take(memory, (size_t)train_cuda_last_bytes((int)layer->out.size[0]), &s->sums);
    memory->scratch = (size_t)weights_of(s) * sizeof(float);
    return status == CIRCE_OK ? find_engines(cuda, layer, rows, wants_grad_in, s) : status;
}

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *s,
                           train_memory *memory) {
    train_cuda_device *cuda = train_cuda_of(memory->device);
    if (layer->form != TRAIN_CUDA_PLAIN) return fill(cuda, layer, rows, wants_grad_in, s, memory);
    s->tensor_units =
        cuda->precision != TRAIN_FLOAT32 && train_cuda_halves_by_tensor_units(train_cuda_window(layer, rows));
    circe_status status = train_cuda_need_workspace(cuda, TRAIN_CUDA_WORKSPACE);
    if (status != CIRCE_OK || !layer->pooled) return status;
    return train_take(memory, (size_t)(rows * train_shape_count(layer->out) / 4), &s->taken);
}

static bool pools(const train_layer *layer, const train_layer *pool) {
    return layer->form == TRAIN_CUDA_PLAIN &&
           train_cuda_halves_and_pools(train_cuda_window(layer, 1), train_cuda_window(pool, 1));
}

/* ---- halving ----------------------------------------------------------------------------------------------------- */

static circe_status halve(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                          const train_visit *pass) {
    const float *bias = layer->bias ? pass->params + layer->fan_in * layer->out.size[0] : NULL;
    return train_cuda_status((s->tensor_units ? train_cuda_halve_tf32 : train_cuda_halve)(
                                 train_cuda_window(layer, pass->rows), train_cuda_merged(layer), pass->in, pass->params,
                                 bias, s->taken, pass->out, cuda->stream),
                             "a convolution");
}

/* Both gradients, side by side: neither fills the GPU to its end. */
static circe_status halve_back(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                               const train_visit *pass) {
    cuda_window window = train_cuda_window(layer, pass->rows);
    cuda_shown shown = {train_cuda_merged(layer), pass->out, pass->grad_out, s->taken};
    bool both = pass->grad_in != NULL;
    cudaError_t error = both ? train_cuda_fork(cuda) : cudaSuccess;
    if (error == cudaSuccess)
        error = train_cuda_halve_weights(window, shown, s->tensor_units, layer->bias, pass->in, cuda->workspace,
                                         pass->grads, both ? cuda->beside : cuda->stream);
    if (error == cudaSuccess && both)
        error = (s->tensor_units ? train_cuda_halve_data_tf32 : train_cuda_halve_data)(window, shown, pass->params,
                                                                                       pass->grad_in, cuda->stream);
    if (error == cudaSuccess && both) error = train_cuda_join(cuda);
    return train_cuda_status(error, "a convolution's gradient");
}

/* ---- channels last ----------------------------------------------------------------------------------------------- */

static const float *bias_of(const train_layer *layer, const float *params) {
    return params + layer->fan_in * layer->out.size[0];
}

static int64_t points_of(const train_layer *layer, int64_t rows) {
    return rows * layer->out.size[1] * layer->out.size[2];
}

/* Input and weights in their order. */
static circe_status prepare(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                            const train_visit *pass) {
    bool half = train_cuda_is_half(layer);
    cuda_window window = train_cuda_window(layer, pass->rows);
    int width = s->window.channels;
    cudaError_t error = (s->folded ? train_cuda_last_fold_weights : train_cuda_last_weights)(
        window, width, half, pass->params, s->weights, cuda->stream);
    if (error == cudaSuccess && s->folded)
        error = train_cuda_last_fold(window, width, half, pass->in, s->in, cuda->stream);
    else if (error == cudaSuccess && s->in != NULL)
        error = train_cuda_last_pack(train_cuda_batch_of(layer->in, pass->rows), width, half, pass->in, s->in,
                                     cuda->stream);
    return train_cuda_status(error, "a convolution");
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (layer->form == TRAIN_CUDA_PLAIN) return halve(cuda, layer, s, pass);
    cuda_norm shift = {.bias = layer->bias ? bias_of(layer, pass->params) : NULL};
    circe_status status = prepare(cuda, layer, s, pass);
    if (status == CIRCE_OK)
        status = train_cuda_engine_run(cuda, s->forward, s->in != NULL ? s->in : pass->in, s->weights, pass->out);
    if (status != CIRCE_OK || (!layer->bias && layer->merged == 0)) return status;
    return train_cuda_status(
        train_cuda_last_bend(points_of(layer, pass->rows), (int)layer->out.size[0], train_cuda_is_half(layer),
                             train_cuda_merged(layer), shift, pass->out, pass->out, cuda->stream),
        "a convolution");
}

static circe_status unbend(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                           const train_visit *pass) {
    cuda_bend f = train_cuda_merged(layer);
    bool half = train_cuda_is_half(layer);
    int64_t points = points_of(layer, pass->rows), channels = layer->out.size[0];
    float *d_bias = pass->grads + layer->fan_in * channels;
    cudaError_t error = layer->bias   ? train_cuda_last_bias_back(points, (int)channels, half, f, pass->out,
                                                                  pass->grad_out, s->sums, d_bias, cuda->stream)
                        : f.kind != 0 ? train_cuda_bend_back(f, points * channels, half, pass->out, pass->grad_out,
                                                             pass->grad_out, cuda->stream)
                                      : cudaSuccess;
    return train_cuda_status(error, "a convolution's gradient");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (layer->form == TRAIN_CUDA_PLAIN) return halve_back(cuda, layer, s, pass);
    circe_status status = unbend(cuda, layer, s, pass);
    if (status == CIRCE_OK)
        status =
            train_cuda_engine_run(cuda, s->filter, s->in != NULL ? s->in : pass->in, pass->scratch, pass->grad_out);
    if (status == CIRCE_OK)
        status = train_cuda_status((s->folded ? train_cuda_last_unfold_weights : train_cuda_last_weights_back)(
                                       train_cuda_window(layer, pass->rows), s->window.channels, s->half_weights,
                                       pass->scratch, pass->grads, cuda->stream),
                                   "a convolution's gradient");
    if (status != CIRCE_OK || pass->grad_in == NULL) return status;
    return train_cuda_engine_run(cuda, s->data, pass->grad_in, s->weights, pass->grad_out);
}

const train_layer_ops train_cuda_convolution = {.state_bytes = sizeof(train_layer_state),
                                                .create = create,
                                                .destroy = destroy,
                                                .pass_forward = forward,
                                                .pass_backward = backward,
                                                .merges = train_cuda_merges,
                                                .pools = pools};
