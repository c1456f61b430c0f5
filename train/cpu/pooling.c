/* Max-pools and the average of each channel, by oneDNN. A max-pool remembers in a workspace which number was the
 * largest, so that backward need not look again. */
#include "circe/status.h"
#include "train/cpu/onednn.h"

struct train_layer_state {
    onednn_call forward, backward;
    void *workspace; /* NULL: the average needs none */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static circe_status make_pooling(const train_layer *layer, int64_t rows, onednn_pooling *p) {
    bool average = layer->kind == TRAIN_AVERAGE_POOL;
    *p = (onednn_pooling){.algorithm = average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max,
                          .kernel = {layer->kernel, layer->kernel},
                          .stride = layer->stride,
                          .padding = layer->padding};
    if (average) {
        p->kernel[0] = layer->in.size[1];
        p->kernel[1] = layer->in.size[2];
        p->stride = 1;
    }
    circe_status status = onednn_attributes((train_layer_kind)0, 0.0f, &p->attributes);
    if (status == CIRCE_OK) status = onednn_layout_images(layer->in, rows, true, &p->in);
    return status == CIRCE_OK ? onednn_layout_images(layer->out, rows, true, &p->out) : status;
}

static circe_status make_calls(const onednn_pooling *p, train_layer_state *s, train_memory *memory) {
    static const int forwards[] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE, 0};
    static const int backwards[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE, 0};
    dnnl_primitive_desc_t desc = NULL;
    circe_status status = onednn_pooling_desc(p, ONEDNN_FORWARD, NULL, &desc);
    if (status == CIRCE_OK) status = onednn_call_make(desc, forwards, &s->forward, &memory->scratch);
    if (status != CIRCE_OK) return status;
    status = onednn_pooling_desc(p, ONEDNN_BACKWARD_DATA, s->forward.desc, &desc);
    if (status == CIRCE_OK) status = onednn_call_make(desc, backwards, &s->backward, &memory->scratch);
    if (status != CIRCE_OK) return status;
    onednn_layout workspace = onednn_layout_of(s->forward.desc, DNNL_ARG_WORKSPACE);
    size_t bytes = workspace == NULL ? 0 : dnnl_memory_desc_get_size(workspace);
    return bytes > 0 ? train_take(memory, bytes, &s->workspace) : CIRCE_OK;
}

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory) {
    onednn_pooling p = {0};
    (void)wants_grad_in;
    circe_status status = make_pooling(layer, rows, &p);
    if (status == CIRCE_OK) status = make_calls(&p, state, memory);
    if (p.attributes != NULL) dnnl_primitive_attr_destroy(p.attributes);
    onednn_layout_free(p.in);
    onednn_layout_free(p.out);
    return status;
}

static void destroy(train_device *device, train_layer_state *s) {
    (void)device;
    onednn_call_free(&s->forward);
    onednn_call_free(&s->backward);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    (void)device, (void)layer;
    const onednn_argument arguments[] = {
        {DNNL_ARG_SRC, pass->in}, {DNNL_ARG_DST, pass->out}, {DNNL_ARG_WORKSPACE, s->workspace}, {0}};
    return onednn_run(&s->forward, arguments, pass->scratch);
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    (void)device, (void)layer;
    const onednn_argument arguments[] = {{DNNL_ARG_DIFF_DST, pass->grad_out},
                                         {DNNL_ARG_DIFF_SRC, pass->grad_in},
                                         {DNNL_ARG_WORKSPACE, s->workspace},
                                         {0}};
    return pass->grad_in == NULL ? CIRCE_OK : onednn_run(&s->backward, arguments, pass->scratch);
}

const train_layer_ops train_cpu_pool = {.state_bytes = sizeof(train_layer_state),
                                        .create = create,
                                        .destroy = destroy,
                                        .pass_forward = forward,
                                        .pass_backward = backward};
