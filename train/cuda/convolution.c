/* Convolutions on the GPU, by cuDNN, with bias and activation behind them; in float32, or with
 * TF32 where the precision says so.
 *
 *     in (n, c, h, w), W (o, c, k, k), b (o), out (n, o, h', w')
 *
 * Of cuDNN's algorithms its heuristic's first is taken that gives the same bits every time and fits the workspace. They
 * are not timed against each other: a choice by the clock would change from run to run, and the bits with it. For
 * convolutions that halve images of few channels there are kernels of ours (halving_*.cu), which do all of this at
 * once, and for the weights' gradient of other 3 by 3 kernels, where cuDNN is slow, one (weights.cu). Otherwise the
 * bias is added, and the derivative of the activation taken, in the same pass over memory as the activation and the
 * gradient of the bias. */
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda.h"

struct train_layer_state {
    cudnnTensorDescriptor_t in, out;
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t how;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t data;
    cudnnConvolutionBwdFilterAlgo_t filter;
    bool own_filter;   /* ours in its place */
    bool halves;       /* ours in the place of all three */
    bool tensor_units; /* and of those the ones with TF32 */
    double *partial;   /* of the bias' gradient; NULL: there is none */
};

static void destroy(train_device *device, train_layer_state *s) {
    const train_cuda_dnn *dnn = &train_cuda_of(device)->dnn;
    if (s == NULL) return;
    if (s->in != NULL) dnn->cudnnDestroyTensorDescriptor(s->in);
    if (s->out != NULL) dnn->cudnnDestroyTensorDescriptor(s->out);
    if (s->weights != NULL) dnn->cudnnDestroyFilterDescriptor(s->weights);
    if (s->how != NULL) dnn->cudnnDestroyConvolutionDescriptor(s->how);
    device->ops->release(device, s->partial);
    free(s);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static circe_status describe(const train_cuda_device *cuda, const train_layer *layer, int64_t rows,
                             train_layer_state *s) {
    const train_cuda_dnn *dnn = &cuda->dnn;
    int k = (int)layer->kernel, stride = (int)layer->stride, padding = (int)layer->padding;
    circe_status status = train_cuda_tensor(cuda, rows, layer->in, &s->in);
    if (status == CIRCE_OK) status = train_cuda_tensor(cuda, rows, layer->out, &s->out);
    if (status != CIRCE_OK) return status;
    cudnnStatus_t error = dnn->cudnnCreateFilterDescriptor(&s->weights);
    if (error == CUDNN_STATUS_SUCCESS)
        error = dnn->cudnnSetFilter4dDescriptor(s->weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                                (int)layer->out.size[0], (int)layer->in.size[0], k, k);
    if (error == CUDNN_STATUS_SUCCESS) error = dnn->cudnnCreateConvolutionDescriptor(&s->how);
    if (error == CUDNN_STATUS_SUCCESS)
        error = dnn->cudnnSetConvolution2dDescriptor(s->how, padding, padding, stride, stride, 1, 1,
                                                     CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    if (error == CUDNN_STATUS_SUCCESS)
        error = dnn->cudnnSetConvolutionMathType(
            s->how, cuda->precision == TRAIN_FLOAT32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH);
    return train_cuda_dnn_status(cuda, error, "describing a convolution");
}

enum { MOST_ALGORITHMS = 16 };

/* Winograd's transform of 5 by 5 kernels loses four digits of float32; of 3 by 3 it loses one, as on the CPU. */
static bool is_exact(const train_layer *layer, bool winograd) { return !winograd || layer->kernel <= 3; }

static bool suits(const train_cuda_device *cuda, cudnnStatus_t status, cudnnDeterminism_t same, cudnnMathType_t math,
                  size_t bytes) {
    return status == CUDNN_STATUS_SUCCESS && same == CUDNN_DETERMINISTIC && bytes <= TRAIN_CUDA_WORKSPACE &&
           (cuda->precision != TRAIN_FLOAT32 || math == CUDNN_FMA_MATH || math == CUDNN_DEFAULT_MATH);
}

static circe_status refuse(const train_layer *layer, const char *pass) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "layer %s: cuDNN has no algorithm for the %s of this convolution",
                      layer->name, pass);
}

static circe_status choose_forward(const train_cuda_device *cuda, const train_layer *layer, train_layer_state *s) {
    cudnnConvolutionFwdAlgoPerf_t found[MOST_ALGORITHMS];
    int n = 0;
    cudnnStatus_t error = cuda->dnn.cudnnGetConvolutionForwardAlgorithm_v7(cuda->dnn_handle, s->in, s->weights, s->how,
                                                                           s->out, MOST_ALGORITHMS, &n, found);
    for (int k = 0; error == CUDNN_STATUS_SUCCESS && k < n; k++)
        if (is_exact(layer, found[k].algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED) &&
            suits(cuda, found[k].status, found[k].determinism, found[k].mathType, found[k].memory)) {
            s->forward = found[k].algo;
            return CIRCE_OK;
        }
    return error != CUDNN_STATUS_SUCCESS ? train_cuda_dnn_status(cuda, error, "choosing a convolution")
                                         : refuse(layer, "forward pass");
}

static circe_status choose_data(const train_cuda_device *cuda, const train_layer *layer, train_layer_state *s) {
    cudnnConvolutionBwdDataAlgoPerf_t found[MOST_ALGORITHMS];
    int n = 0;
    cudnnStatus_t error = cuda->dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(
        cuda->dnn_handle, s->weights, s->out, s->how, s->in, MOST_ALGORITHMS, &n, found);
    for (int k = 0; error == CUDNN_STATUS_SUCCESS && k < n; k++)
        if (is_exact(layer, found[k].algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED) &&
            suits(cuda, found[k].status, found[k].determinism, found[k].mathType, found[k].memory)) {
            s->data = found[k].algo;
            return CIRCE_OK;
        }
    return error != CUDNN_STATUS_SUCCESS ? train_cuda_dnn_status(cuda, error, "choosing a convolution")
                                         : refuse(layer, "gradient at the input");
}

static circe_status choose_filter(const train_cuda_device *cuda, const train_layer *layer, int64_t rows,
                                  train_layer_state *s) {
    int64_t bytes = train_cuda_weights_bytes(train_cuda_window(layer, rows));
    s->own_filter = bytes > 0 && bytes <= TRAIN_CUDA_WORKSPACE;
    if (s->own_filter) return CIRCE_OK;
    cudnnConvolutionBwdFilterAlgoPerf_t found[MOST_ALGORITHMS];
    int n = 0;
    cudnnStatus_t error = cuda->dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        cuda->dnn_handle, s->in, s->out, s->how, s->weights, MOST_ALGORITHMS, &n, found);
    for (int k = 0; error == CUDNN_STATUS_SUCCESS && k < n; k++)
        if (is_exact(layer, found[k].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED) &&
            suits(cuda, found[k].status, found[k].determinism, found[k].mathType, found[k].memory)) {
            s->filter = found[k].algo;
            return CIRCE_OK;
        }
    return error != CUDNN_STATUS_SUCCESS ? train_cuda_dnn_status(cuda, error, "choosing a convolution")
                                         : refuse(layer, "gradient of the weights");
}

static circe_status fill(train_device *device, const train_layer *layer, int64_t rows, bool wants_grad_in,
                         train_layer_state *s) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_batch batch = train_cuda_batch_of(layer->out, rows);
    cuda_window window = train_cuda_window(layer, rows);
    circe_status status = train_cuda_need_dnn(cuda);
    s->halves = train_cuda_halves(window) && train_cuda_halve_bytes(window) <= TRAIN_CUDA_WORKSPACE;
    s->tensor_units = s->halves && cuda->precision == TRAIN_TF32 && train_cuda_halves_by_tensor_units(window);
    if (status != CIRCE_OK || s->halves) return status;
    if (status == CIRCE_OK) status = describe(cuda, layer, rows, s);
    if (status == CIRCE_OK) status = choose_forward(cuda, layer, s);
    if (status == CIRCE_OK) status = choose_filter(cuda, layer, rows, s);
    if (status == CIRCE_OK && wants_grad_in) status = choose_data(cuda, layer, s);
    if (status != CIRCE_OK || !layer->bias) return status;
    s->partial = device->ops->allocate(device, (size_t)train_cuda_bias_partials(batch) * sizeof(double));
    return s->partial == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

static circe_status create(train_device *device, const train_layer *layer, int64_t rows, bool wants_grad_in,
                           train_layer_state **state, size_t *scratch_bytes) {
    *scratch_bytes = 0;
    *state = calloc(1, sizeof **state);
    if (*state == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a convolution");
    circe_status status = fill(device, layer, rows, wants_grad_in, *state);
    if (status == CIRCE_OK) return status;
    destroy(device, *state);
    *state = NULL;
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const float one = 1.0f, none = 0.0f;

static circe_status halve(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                          const train_visit *pass) {
    const float *bias = layer->bias ? pass->params + layer->fan_in * layer->out.size[0] : NULL;
    return train_cuda_status((s->tensor_units ? train_cuda_halve_tf32 : train_cuda_halve)(
                                 train_cuda_window(layer, pass->rows), train_cuda_merged(layer), pass->in, pass->params,
                                 bias, pass->out, cuda->stream),
                             "a convolution");
}

static circe_status halve_back(const train_cuda_device *cuda, const train_layer *layer, const train_layer_state *s,
                               const train_visit *pass) {
    cuda_window window = train_cuda_window(layer, pass->rows);
    cuda_bend f = train_cuda_merged(layer);
    cudaError_t error = train_cuda_halve_weights(window, f, s->tensor_units, layer->bias, pass->in, pass->out,
                                                 pass->grad_out, cuda->dnn_workspace, pass->grads, cuda->stream);
    if (error == cudaSuccess && pass->grad_in != NULL)
        error = (s->tensor_units ? train_cuda_halve_data_tf32 : train_cuda_halve_data)(
            window, f, pass->out, pass->grad_out, pass->params, pass->grad_in, cuda->stream);
    return train_cuda_status(error, "a convolution's gradient");
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (s->halves) return halve(cuda, layer, s, pass);
    cuda_bend f = train_cuda_merged(layer);
    cuda_batch batch = train_cuda_batch_of(layer->out, pass->rows);
    circe_status status =
        train_cuda_dnn_status(cuda,
                              cuda->dnn.cudnnConvolutionForward(cuda->dnn_handle, &one, s->in, pass->in, s->weights,
                                                                pass->params, s->how, s->forward, cuda->dnn_workspace,
                                                                TRAIN_CUDA_WORKSPACE, &none, s->out, pass->out),
                              "a convolution");
    if (status != CIRCE_OK) return status;
    const float *bias = pass->params + layer->fan_in * layer->out.size[0];
    int64_t n = pass->rows * train_shape_count(layer->out);
    cudaError_t error = layer->bias   ? train_cuda_bias(f, batch, bias, pass->out, cuda->stream)
                        : f.kind != 0 ? train_cuda_bend(f, n, pass->out, pass->out, cuda->stream)
                                      : cudaSuccess;
    return train_cuda_status(error, "a convolution");
}

static circe_status backward_weights(const train_cuda_device *cuda, const train_layer *layer,
                                     const train_layer_state *s, const train_visit *pass) {
    if (s->own_filter)
        return train_cuda_status(train_cuda_weights_back(train_cuda_window(layer, pass->rows), pass->in, pass->grad_out,
                                                         cuda->dnn_workspace, pass->grads, cuda->stream),
                                 "a convolution's gradient");
    return train_cuda_dnn_status(cuda,
                                 cuda->dnn.cudnnConvolutionBackwardFilter(
                                     cuda->dnn_handle, &one, s->in, pass->in, s->out, pass->grad_out, s->how, s->filter,
                                     cuda->dnn_workspace, TRAIN_CUDA_WORKSPACE, &none, s->weights, pass->grads),
                                 "a convolution's gradient");
}

static circe_status backward_data(const train_cuda_device *cuda, const train_layer_state *s, const train_visit *pass) {
    return train_cuda_dnn_status(cuda,
                                 cuda->dnn.cudnnConvolutionBackwardData(
                                     cuda->dnn_handle, &one, s->weights, pass->params, s->out, pass->grad_out, s->how,
                                     s->data, cuda->dnn_workspace, TRAIN_CUDA_WORKSPACE, &none, s->in, pass->grad_in),
                                 "a convolution's gradient");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    if (s->halves) return halve_back(cuda, layer, s, pass);
    cuda_bend f = train_cuda_merged(layer);
    cuda_batch batch = train_cuda_batch_of(layer->out, pass->rows);
    int64_t n = pass->rows * train_shape_count(layer->out);
    float *d_bias = pass->grads + layer->fan_in * layer->out.size[0];
    cudaError_t error =
        layer->bias   ? train_cuda_bias_back(f, batch, pass->out, pass->grad_out, s->partial, d_bias, cuda->stream)
        : f.kind != 0 ? train_cuda_bend_back(f, n, pass->out, pass->grad_out, pass->grad_out, cuda->stream)
                      : cudaSuccess;
    circe_status status = train_cuda_status(error, "a convolution's gradient");
    if (status == CIRCE_OK) status = backward_weights(cuda, layer, s, pass);
    return status == CIRCE_OK && pass->grad_in != NULL ? backward_data(cuda, s, pass) : status;
}

const train_layer_ops train_cuda_convolution = {.create = create,
                                                .destroy = destroy,
                                                .pass_forward = forward,
                                                .pass_backward = backward,
                                                .merges = train_cuda_merges};
