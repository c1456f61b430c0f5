/* Convolutions, by oneDNN.
 *
 *     in (n, c, h, w), W (o, c, k, k), b (o), out (n, o, h', w')        2 n o h' w' c k k flop forward, twice backward
 *
 * The parameters lie in PyTorch's order, so that files and the optimiser see plain arrays; oneDNN wants them in blocks
 * for its kernels, another way for each of the passes. They are put into that order in every pass, and the gradient is
 * put back: this touches each weight once, where the convolution uses it for every point of every image. Images stay in
 * oneDNN's order from layer to layer. Leaky ReLU and ReLU behind the convolution are applied as it writes its output;
 * its sign then tells the derivative.
 *
 * Kernels of 3 and stride 1 are computed by Winograd's algorithm where oneDNN has it (oneDNN 2 on AVX-512, channels in
 * blocks of 16): 36 products for 16 points and a channel instead of 144, and in practice a half to a quarter of the
 * time; the price is a rounding error of some 1e-5 of the largest number instead of 1e-6. */
#include "circe/status.h"
#include "train/cpu/onednn.h"

struct train_layer_state {
    onednn_call forward, backward_data, backward_weights;
    onednn_call order_forward, order_data, order_grads; /* of the weights; unused where the order is the plain one */
    float *forward_weights, *data_weights, *grad_weights;
};

/* Layouts while a state is made. */
typedef struct layouts {
    onednn_layout in, any_weights, plain_weights, bias, out;
} layouts;

static circe_status make_layouts(const train_layer *layer, int64_t rows, layouts *l) {
    const dnnl_dims_t weights = {layer->out.size[0], layer->in.size[0], layer->kernel, layer->kernel};
    circe_status status = onednn_layout_images(layer->in, rows, layer->reads_images, &l->in);
    if (status == CIRCE_OK) status = onednn_layout_images(layer->out, rows, true, &l->out);
    if (status == CIRCE_OK) status = onednn_layout_make(4, weights, dnnl_format_tag_any, &l->any_weights);
    if (status == CIRCE_OK) status = onednn_layout_make(4, weights, dnnl_oihw, &l->plain_weights);
    if (status == CIRCE_OK && layer->bias) status = onednn_layout_make(1, weights, dnnl_x, &l->bias);
    return status;
}

static void free_layouts(layouts *l) {
    onednn_layout_free(l->in);
    onednn_layout_free(l->out);
    onednn_layout_free(l->any_weights);
    onednn_layout_free(l->plain_weights);
    onednn_layout_free(l->bias);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static bool suits_winograd(const train_layer *layer) {
    return layer->kernel == 3 && layer->stride == 1 && layer->padding <= 1;
}

/* hint: the forward's desc, for backward. */
static circe_status make_call(const train_layer *layer, const layouts *l, onednn_part part,
                              const_dnnl_primitive_desc_t hint, onednn_call *call, size_t *scratch) {
    static const int arguments[][5] = {
        [ONEDNN_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        [ONEDNN_BACKWARD_DATA] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
        [ONEDNN_BACKWARD_WEIGHTS] = {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS}};
    onednn_convolution c = {.in = l->in,
                            .weights = l->any_weights,
                            .bias = part == ONEDNN_BACKWARD_DATA ? NULL : l->bias,
                            .out = l->out,
                            .stride = layer->stride,
                            .padding = layer->padding,
                            .winograd = suits_winograd(layer)};
    dnnl_primitive_desc_t desc = NULL;
    train_layer_kind behind = part == ONEDNN_FORWARD ? layer->merged : (train_layer_kind)0;
    circe_status status = onednn_attributes(behind, layer->slope, &c.attributes);
    if (status == CIRCE_OK) status = onednn_convolution_desc(&c, part, hint, &desc);
    if (c.attributes != NULL) dnnl_primitive_attr_destroy(c.attributes);
    return status == CIRCE_OK ? onednn_call_make(desc, arguments[part], call, scratch) : status;
}

/* Memory and a reordering for weights that a call wants in another order than the plain one, or writes so. */
static circe_status make_order(const onednn_call *of, int argument, const layouts *l, onednn_call *order,
                               float **weights, train_memory *memory) {
    onednn_layout wants = onednn_layout_of(of->desc, argument);
    if (onednn_same_layout(wants, l->plain_weights)) return CIRCE_OK;
    circe_status status = train_take(memory, dnnl_memory_desc_get_size(wants), weights);
    if (status != CIRCE_OK) return status;
    if (argument == DNNL_ARG_DIFF_WEIGHTS) return onednn_reorder_make(wants, l->plain_weights, order, &memory->scratch);
    return onednn_reorder_make(l->plain_weights, wants, order, &memory->scratch);
}

static circe_status make_calls(const train_layer *layer, const layouts *l, bool wants_grad_in, train_layer_state *s,
                               train_memory *memory) {
    size_t *scratch = &memory->scratch;
    circe_status status = make_call(layer, l, ONEDNN_FORWARD, NULL, &s->forward, scratch);
    if (status == CIRCE_OK)
        status = make_order(&s->forward, DNNL_ARG_WEIGHTS, l, &s->order_forward, &s->forward_weights, memory);
    if (status == CIRCE_OK)
        status = make_call(layer, l, ONEDNN_BACKWARD_WEIGHTS, s->forward.desc, &s->backward_weights, scratch);
    if (status == CIRCE_OK)
        status = make_order(&s->backward_weights, DNNL_ARG_DIFF_WEIGHTS, l, &s->order_grads, &s->grad_weights, memory);
    if (status != CIRCE_OK || !wants_grad_in) return status;
    status = make_call(layer, l, ONEDNN_BACKWARD_DATA, s->forward.desc, &s->backward_data, scratch);
    if (status == CIRCE_OK)
        status = make_order(&s->backward_data, DNNL_ARG_WEIGHTS, l, &s->order_data, &s->data_weights, memory);
    return status;
}

static void destroy(train_device *device, train_layer_state *s) {
    onednn_call *calls[] = {&s->forward,       &s->backward_data, &s->backward_weights,
                            &s->order_forward, &s->order_data,    &s->order_grads};
    (void)device;
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) onednn_call_free(calls[k]);
}

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory) {
    layouts l = {0};
    circe_status status = make_layouts(layer, rows, &l);
    if (status == CIRCE_OK) status = make_calls(layer, &l, wants_grad_in, state, memory);
    free_layouts(&l);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static circe_status reorder(onednn_call *order, const float *from, const float *to, void *scratch) {
    return onednn_run(order, (onednn_argument[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {0}}, scratch);
}

/* The plain weights in the order that a call wants; *use := where they then lie. */
static circe_status put_in_order(onednn_call *order, const float *plain, float *ordered, void *scratch,
                                 const float **use) {
    *use = ordered == NULL ? plain : ordered;
    return ordered == NULL ? CIRCE_OK : reorder(order, plain, ordered, scratch);
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    const float *weights;
    (void)device;
    circe_status status = put_in_order(&s->order_forward, pass->params, s->forward_weights, pass->scratch, &weights);
    const onednn_argument arguments[] = {{DNNL_ARG_SRC, pass->in},
                                         {DNNL_ARG_WEIGHTS, weights},
                                         {DNNL_ARG_BIAS, pass->params + layer->fan_in * layer->out.size[0]},
                                         {DNNL_ARG_DST, pass->out},
                                         {0}};
    return status == CIRCE_OK ? onednn_run(&s->forward, arguments, pass->scratch) : status;
}

static circe_status backward_weights(const train_layer *layer, train_layer_state *s, const train_visit *pass) {
    float *to = s->grad_weights != NULL ? s->grad_weights : pass->grads;
    const onednn_argument arguments[] = {{DNNL_ARG_DIFF_DST, pass->grad_out},
                                         {DNNL_ARG_SRC, pass->in},
                                         {DNNL_ARG_DIFF_WEIGHTS, to},
                                         {DNNL_ARG_DIFF_BIAS, pass->grads + layer->fan_in * layer->out.size[0]},
                                         {0}};
    circe_status status = onednn_run(&s->backward_weights, arguments, pass->scratch);
    if (status != CIRCE_OK || s->grad_weights == NULL) return status;
    return reorder(&s->order_grads, s->grad_weights, pass->grads, pass->scratch);
}

static circe_status backward_data(train_layer_state *s, const train_visit *pass) {
    const float *weights;
    circe_status status = put_in_order(&s->order_data, pass->params, s->data_weights, pass->scratch, &weights);
    const onednn_argument arguments[] = {
        {DNNL_ARG_DIFF_DST, pass->grad_out}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, pass->grad_in}, {0}};
    return status == CIRCE_OK ? onednn_run(&s->backward_data, arguments, pass->scratch) : status;
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    train_cpu_merged_backward(device, layer, pass->rows, pass->out, pass->grad_out);
    circe_status status = backward_weights(layer, s, pass);
    return status == CIRCE_OK && pass->grad_in != NULL ? backward_data(s, pass) : status;
}

const train_layer_ops train_cpu_convolution = {.state_bytes = sizeof(train_layer_state),
                                               .create = create,
                                               .destroy = destroy,
                                               .pass_forward = forward,
                                               .pass_backward = backward,
                                               .merges = train_cpu_merges};
