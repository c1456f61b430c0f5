/* Dense layers on the GPU: out = f(in W' + 1 b'). Our own kernels compute small layers, several at once and in float32
 * whatever the precision (chain.cu, dense.cu). cuBLAS computes large ones in the device's precision, followed by the
 * activation.
 *
 *     in (n, p), out (n, q), W (q, p), b (q)
 *     d_W = d_out' in, d_b = d_out' 1, d_in = d_out W
 *
 * cuBLAS counts columns first: to it a row-major (n, p) is a p by n matrix. */
#include "circe/status.h"
#include "train/cuda/cuda_device.h"

struct train_layer_state {
    void *scratch;   /* of a small layer's gradients; NULL: the layer is large */
    float *before;   /* (rows, q): the gradient before the activation of a small one */
    double *partial; /* of the bias' gradient of a large one */
};

static cuda_dense shape_of(const train_layer *layer, int64_t rows) {
    return (cuda_dense){.rows = rows, .inputs = (int)layer->fan_in, .outputs = (int)layer->out.size[0]};
}

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *s,
                           train_memory *memory) {
    cuda_dense d = shape_of(layer, rows);
    (void)wants_grad_in;
    if (!train_cuda_is_link(d.inputs, d.outputs))
        return train_take(memory, (size_t)train_cuda_bias_partials(d) * sizeof(double), &s->partial);
    circe_status status = train_take(memory, (size_t)train_cuda_dense_bytes(rows, d.inputs, d.outputs), &s->scratch);
    return status == CIRCE_OK ? train_take(memory, (size_t)(rows * d.outputs) * sizeof(float), &s->before) : status;
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

/* c (m by n) := op(a) op(b), columns first. */
static circe_status multiply(train_cuda_device *cuda, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                             int k, const float *a, int lda, const float *b, int ldb, float *c) {
    const float one = 1.0f, none = 0.0f;
    return train_cuda_blas_status(
        cuda->blas.cublasSgemm_v2(cuda->blas_handle, op_a, op_b, m, n, k, &one, a, lda, b, ldb, &none, c, m),
        "a dense layer");
}

static circe_status forward_large(train_cuda_device *cuda, const train_layer *layer, const train_visit *pass) {
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], n = (int)pass->rows;
    const float *W = pass->params, *b = W + (int64_t)p * q;
    circe_status status = multiply(cuda, CUBLAS_OP_T, CUBLAS_OP_N, q, n, p, W, p, pass->in, p, pass->out);
    if (status != CIRCE_OK) return status;
    return train_cuda_status(
        train_cuda_bias(train_cuda_merged(layer), shape_of(layer, pass->rows), b, pass->out, cuda->stream),
        "a dense layer");
}

static circe_status backward_large(train_cuda_device *cuda, const train_layer *layer, const train_layer_state *state,
                                   const train_visit *pass) {
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], n = (int)pass->rows;
    float *d_W = pass->grads, *d_b = d_W + (int64_t)p * q;
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

/* ---- small, several at once -------------------------------------------------------------------------------------- */

/* made := the first small ones; how many these are. */
static int make_chain(int64_t n, const train_link *links, cuda_link made[TRAIN_CUDA_LINKS]) {
    int64_t k = 0;
    for (; k < n && k < TRAIN_CUDA_LINKS && links[k].state->scratch != NULL; k++) {
        const train_visit *pass = &links[k].pass;
        cuda_dense d = shape_of(links[k].layer, pass->rows);
        int64_t weights = (int64_t)d.inputs * d.outputs;
        made[k] = (cuda_link){.inputs = d.inputs,
                              .outputs = d.outputs,
                              .f = train_cuda_merged(links[k].layer),
                              .in = pass->in,
                              .W = pass->params,
                              .b = pass->params + weights,
                              .out = pass->out,
                              .before = links[k].state->before,
                              .d_W = pass->grads,
                              .d_b = pass->grads + weights,
                              .scratch = links[k].state->scratch};
    }
    return (int)k;
}

static circe_status forward(train_device *device, int64_t n, const train_link *links) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_link made[TRAIN_CUDA_LINKS];
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; status == CIRCE_OK && k < n;) {
        int small = make_chain(n - k, links + k, made);
        status = small == 0 ? forward_large(cuda, links[k].layer, &links[k].pass)
                            : train_cuda_status(train_cuda_chain_forward(links[k].pass.rows, small, made, cuda->stream),
                                                "a dense layer");
        k += small > 0 ? small : 1;
    }
    return status;
}

static circe_status backward_small(train_cuda_device *cuda, int n, const cuda_link *made, const train_visit *first,
                                   const train_visit *last) {
    cudaError_t error = train_cuda_chain_back(first->rows, n, made, last->grad_out, first->grad_in, cuda->stream);
    if (error == cudaSuccess) error = train_cuda_dense_weights(first->rows, n, made, cuda->stream);
    return train_cuda_status(error, "a dense layer");
}

/* From the last to the first. */
static circe_status backward(train_device *device, int64_t n, const train_link *links) {
    train_cuda_device *cuda = train_cuda_of(device);
    cuda_link made[TRAIN_CUDA_LINKS];
    circe_status status = CIRCE_OK;
    while (status == CIRCE_OK && n > 0) {
        int64_t first = n - 1;
        if (links[first].state->scratch == NULL) {
            status = backward_large(cuda, links[first].layer, links[first].state, &links[first].pass);
        } else {
            while (first > 0 && n - first < TRAIN_CUDA_LINKS && links[first - 1].state->scratch != NULL) first--;
            int small = make_chain(n - first, links + first, made);
            status = backward_small(cuda, small, made, &links[first].pass, &links[n - 1].pass);
        }
        n = first;
    }
    return status;
}

bool train_cuda_merges(train_layer_kind activation) {
    return activation == TRAIN_RELU || activation == TRAIN_LEAKY_RELU || activation == TRAIN_TANH;
}

const train_layer_ops train_cuda_dense = {.state_bytes = sizeof(train_layer_state),
                                          .create = create,
                                          .chain_forward = forward,
                                          .chain_backward = backward,
                                          .merges = train_cuda_merges};
