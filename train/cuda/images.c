/* Images between the layers of the GPU, and the layers that take numbers one by one. Images lie as they come, (row,
 * channel, line, column): cuDNN's float32 kernels want them so, and nothing needs to be packed. */
#include "circe/status.h"
#include "train/cuda/cuda.h"

static circe_status copy_numbers(train_device *device, int64_t n, const float *from, float *to) {
    return train_cuda_status(
        cudaMemcpyAsync(to, from, (size_t)n * sizeof *to, cudaMemcpyDeviceToDevice, train_cuda_of(device)->stream),
        "copying images");
}

static int64_t numbers(train_shape shape) { return train_shape_count(shape); }

static void move(train_device *device, train_shape shape, int64_t rows, const float *from, float *to) {
    train_cuda_device *cuda = train_cuda_of(device);
    size_t bytes = (size_t)(rows * numbers(shape)) * sizeof *to;
    train_cuda_note(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda->stream), "copying images");
}

static bool takes_plain(const train_layer *layer) {
    (void)layer;
    return true;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static cuda_bend bend_of(const train_layer *layer) {
    return (cuda_bend){.kind = (int)layer->kind, .slope = layer->slope};
}

static int64_t count_of(const train_layer *layer, int64_t rows) { return rows * numbers(layer->out); }

static circe_status activation_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                       const train_visit *pass) {
    (void)state;
    return train_cuda_status(train_cuda_bend(bend_of(layer), count_of(layer, pass->rows), pass->in, pass->out,
                                             train_cuda_of(device)->stream),
                             "an activation");
}

static circe_status activation_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                        const train_visit *pass) {
    (void)state;
    if (pass->grad_in == NULL) return CIRCE_OK;
    return train_cuda_status(train_cuda_bend_back(bend_of(layer), count_of(layer, pass->rows), pass->out,
                                                  pass->grad_out, pass->grad_in, train_cuda_of(device)->stream),
                             "an activation");
}

const train_layer_ops train_cuda_activation = {.pass_forward = activation_forward,
                                               .pass_backward = activation_backward};

/* ---- addition ---------------------------------------------------------------------------------------------------- */

static circe_status addition_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    (void)state;
    return train_cuda_status(train_cuda_bend_sum(train_cuda_merged(layer), count_of(layer, pass->rows), pass->in,
                                                 pass->other, pass->out, train_cuda_of(device)->stream),
                             "an addition");
}

static circe_status addition_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                      const train_visit *pass) {
    (void)state;
    if (layer->merged == 0) return CIRCE_OK;
    return train_cuda_status(train_cuda_bend_back(train_cuda_merged(layer), count_of(layer, pass->rows), pass->out,
                                                  pass->grad_out, pass->grad_out, train_cuda_of(device)->stream),
                             "an addition");
}

const train_layer_ops train_cuda_addition = {
    .pass_forward = addition_forward, .pass_backward = addition_backward, .merges = train_cuda_merges};

/* ---- flatten: the same numbers ----------------------------------------------------------------------------------- */

static circe_status flatten_forward(train_device *device, const train_layer *layer, train_layer_state *state,
                                    const train_visit *pass) {
    (void)state;
    return copy_numbers(device, count_of(layer, pass->rows), pass->in, pass->out);
}

static circe_status flatten_backward(train_device *device, const train_layer *layer, train_layer_state *state,
                                     const train_visit *pass) {
    (void)state;
    return pass->grad_in == NULL ? CIRCE_OK
                                 : copy_numbers(device, count_of(layer, pass->rows), pass->grad_out, pass->grad_in);
}

const train_layer_ops train_cuda_flatten = {.pass_forward = flatten_forward, .pass_backward = flatten_backward};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const train_layer_ops *layer_of(train_layer_kind kind) {
    static const struct {
        train_layer_kind kind;
        const train_layer_ops *ops;
    } layers[] = {
        {TRAIN_RELU, &train_cuda_activation},   {TRAIN_LEAKY_RELU, &train_cuda_activation},
        {TRAIN_TANH, &train_cuda_activation},   {TRAIN_CONVOLUTION, &train_cuda_convolution},
        {TRAIN_MAX_POOL, &train_cuda_max_pool}, {TRAIN_BATCH_NORM, &train_cuda_batch_norm},
        {TRAIN_ADD, &train_cuda_addition},      {TRAIN_AVERAGE_POOL, &train_cuda_average_pool},
        {TRAIN_FLATTEN, &train_cuda_flatten},
    };
    for (size_t k = 0; k < sizeof layers / sizeof layers[0]; k++)
        if (layers[k].kind == kind) return layers[k].ops;
    return NULL;
}

const train_image_ops train_cuda_images = {
    .layer = layer_of, .takes_plain = takes_plain, .numbers = numbers, .pack = move, .unpack = move};

circe_status train_cuda_tensor(const train_cuda_device *cuda, int64_t rows, train_shape shape,
                               cudnnTensorDescriptor_t *tensor) {
    const train_cuda_dnn *dnn = &cuda->dnn;
    int c = (int)shape.size[0], h = shape.n_dims == 3 ? (int)shape.size[1] : 1,
        w = shape.n_dims == 3 ? (int)shape.size[2] : 1;
    circe_status status = train_cuda_dnn_status(cuda, dnn->cudnnCreateTensorDescriptor(tensor), "describing images");
    if (status != CIRCE_OK) return status;
    return train_cuda_dnn_status(
        cuda, dnn->cudnnSetTensor4dDescriptor(*tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)rows, c, h, w),
        "describing images");
}
