/* Dense layers on the GPU: out = f(in W' + 1 b'). Small ones have kernels of ours, float32 in every precision
 * (dense.cu); large ones are cuBLAS's in the device's precision, with the activation behind it.
 *
 *     in (n, p), out (n, q), W (q, p), b (q)
 *     d_W = d_out' in, d_b = d_out' 1, d_in = d_out W
 *
 * cuBLAS counts columns first: to it a row-major (n, p) is a p by n matrix. */
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_layer_state {
    void *scratch;   /* of dense.cu; NULL: the layer is large */
    double *partial; /* of the bias' gradient of a large one */
};

static void destroy(train_device *device, train_layer_state *state) {
    if (state == NULL) return;
    device->ops->release(device, state->scratch);
    device->ops->release(device, state->partial);
    free(state);
}

static cuda_dense shape_of(const train_layer *layer, int64_t rows) {
    return (cuda_dense){.rows = rows, .inputs = (int)layer->fan_in, .outputs = (int)layer->out.size[0]};
}

static circe_status create(train_device *device, const train_layer *layer, int64_t rows, bool wants_grad_in,
                           train_layer_state **state, size_t *scratch_bytes) {
    (void)wants_grad_in;
    *scratch_bytes = 0;
    *state = calloc(1, sizeof **state);
    if (*state == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a dense layer");
    int64_t bytes = train_cuda_dense_bytes(shape_of(layer, rows));
    if (bytes > 0)
        (*state)->scratch = device->ops->allocate(device, (size_t)bytes);
    else
        (*state)->partial =
            device->ops->allocate(device, (size_t)train_cuda_bias_partials(shape_of(layer, rows)) * sizeof(double));
    if ((*state)->scratch != NULL || (*state)->partial != NULL) return CIRCE_OK;
    destroy(device, *state);
    *state = NULL;
    return CIRCE_ERR_MEMORY;
}

/* c (m by n) := op(a) op(b), columns first. */
static circe_status multiply(train_cuda_device *cuda, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                             int k, const float *a, int lda, const float *b, int ldb, float *c) {
    const float one = 1.0f, none = 0.0f;
    return train_cuda_blas_status(
        cuda->blas.cublasSgemm_v2(cuda->blas_handle, op_a, op_b, m, n, k, &one, a, lda, b, ldb, &none, c, m),
        "a dense layer");
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *state,
                            const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], n = (int)pass->rows;
    const float *W = pass->params, *b = W + (int64_t)p * q;
    if (state->scratch != NULL)
        return train_cuda_status(train_cuda_dense_forward(shape_of(layer, pass->rows), train_cuda_merged(layer),
                                                          pass->in, W, b, pass->out, cuda->stream),
                                 "a dense layer");
    circe_status status = multiply(cuda, CUBLAS_OP_T, CUBLAS_OP_N, q, n, p, W, p, pass->in, p, pass->out);
    if (status != CIRCE_OK) return status;
    return train_cuda_status(
        train_cuda_bias(train_cuda_merged(layer), shape_of(layer, pass->rows), b, pass->out, cuda->stream),
        "a dense layer");
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *state,
                             const train_visit *pass) {
    train_cuda_device *cuda = train_cuda_of(device);
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], n = (int)pass->rows;
    float *d_W = pass->grads, *d_b = d_W + (int64_t)p * q;
    if (state->scratch != NULL)
        return train_cuda_status(
            train_cuda_dense_backward(shape_of(layer, pass->rows), train_cuda_merged(layer), pass->in, pass->params,
                                      pass->out, pass->grad_out, state->scratch, pass->grad_in, d_W, d_b, cuda->stream),
            "a dense layer");
    circe_status status =
        train_cuda_status(train_cuda_bias_back(train_cuda_merged(layer), shape_of(layer, pass->rows), pass->out,
                                               pass->grad_out, state->partial, d_b, cuda->stream),
                          "a dense layer");
    if (status == CIRCE_OK)
        status = multiply(cuda, CUBLAS_OP_N, CUBLAS_OP_T, p, q, n, pass->in, p, pass->grad_out, q, d_W);
    if (status == CIRCE_OK && pass->grad_in != NULL)
        status = multiply(cuda, CUBLAS_OP_N, CUBLAS_OP_N, p, n, q, pass->params, p, pass->grad_out, q, pass->grad_in);
    return status;
}

bool train_cuda_merges(train_layer_kind activation) {
    return activation == TRAIN_RELU || activation == TRAIN_LEAKY_RELU || activation == TRAIN_TANH;
}

const train_layer_ops train_cuda_dense = {.create = create,
                                          .destroy = destroy,
                                          .pass_forward = forward,
                                          .pass_backward = backward,
                                          .merges = train_cuda_merges};
