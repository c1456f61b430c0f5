#include "train/cpu/onednn.h"

#include <pthread.h>
#include <stdlib.h>

#include "circe/status.h"

/* ---- the engine -------------------------------------------------------------------------------------------------- */

static const char *status_text(dnnl_status_t status) {
    switch (status) {
        case dnnl_out_of_memory:
            return "no memory";
        case dnnl_invalid_arguments:
            return "invalid arguments";
        case dnnl_unimplemented:
            return "not implemented for these sizes";
        default:
            return "failed";
    }
}

static circe_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return CIRCE_OK;
    return circe_fail(status == dnnl_out_of_memory ? CIRCE_ERR_MEMORY : CIRCE_ERR_UNSUPPORTED, "oneDNN, %s: %s", what,
                      status_text(status));
}

static dnnl_engine_t engine_of_process; /* lives until the process ends, as its threads do */
static dnnl_status_t engine_status;

static void make_engine(void) { engine_status = dnnl_engine_create(&engine_of_process, dnnl_cpu, 0); }

static circe_status find_engine(dnnl_engine_t *engine) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_engine);
    *engine = engine_of_process;
    return check(engine_status, "its engine");
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Channels lie together in blocks of a vector register: what oneDNN's own kernels for this machine were written for.
 * Without AVX2 they lie plain, where matrix products do the work. */
#if defined(__x86_64__)
static bool has(dnnl_cpu_isa_t isa) {
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

int64_t onednn_image_block(void) { return has(dnnl_cpu_isa_avx512_core) ? 16 : has(dnnl_cpu_isa_avx2) ? 8 : 1; }
#else
int64_t onednn_image_block(void) { return 1; }
#endif

static dnnl_format_tag_t image_tag(void) {
    int64_t block = onednn_image_block();
    return block == 16 ? dnnl_nChw16c : block == 8 ? dnnl_nChw8c : dnnl_nchw;
}

#if DNNL_VERSION_MAJOR >= 3
circe_status onednn_layout_make(int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag, onednn_layout *layout) {
    dnnl_memory_desc_t made = NULL;
    circe_status status = check(dnnl_memory_desc_create_with_tag(&made, n_dims, dims, dnnl_f32, tag), "a layout");
    *layout = made;
    return status;
}

void onednn_layout_free(onednn_layout layout) {
    if (layout != NULL) dnnl_memory_desc_destroy((dnnl_memory_desc_t)layout);
}

bool onednn_same_layout(onednn_layout a, onednn_layout b) { return dnnl_memory_desc_equal(a, b) != 0; }
#else
circe_status onednn_layout_make(int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag, onednn_layout *layout) {
    dnnl_memory_desc_t *made = malloc(sizeof *made);
    *layout = made;
    if (made == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a layout");
    return check(dnnl_memory_desc_init_by_tag(made, n_dims, dims, dnnl_f32, tag), "a layout");
}

void onednn_layout_free(onednn_layout layout) { free((void *)layout); }

bool onednn_same_layout(onednn_layout a, onednn_layout b) { return dnnl_memory_desc_equal(a, b) != 0; }
#endif

circe_status onednn_layout_images(train_shape shape, int64_t rows, bool images, onednn_layout *layout) {
    const dnnl_dims_t dims = {rows, shape.size[0], shape.size[1], shape.size[2]};
    return onednn_layout_make(4, dims, images ? image_tag() : dnnl_nchw, layout);
}

onednn_layout onednn_layout_of(const_dnnl_primitive_desc_t desc, int argument) {
    return dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, argument);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static dnnl_status_t append_activation(dnnl_post_ops_t after, float slope) {
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, slope, 0.0f);
#else
    return dnnl_post_ops_append_eltwise(after, 1.0f, dnnl_eltwise_relu, slope, 0.0f);
#endif
}

circe_status onednn_attributes(train_layer_kind activation, float slope, dnnl_primitive_attr_t *attributes) {
    dnnl_post_ops_t after = NULL;
    *attributes = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (activation != 0) {
        if (status == dnnl_success) status = dnnl_post_ops_create(&after);
        if (status == dnnl_success) status = append_activation(after, activation == TRAIN_RELU ? 0.0f : slope);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attributes, after);
        if (after != NULL) dnnl_post_ops_destroy(after);
    }
    return check(status, "attributes");
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t describe_convolution(dnnl_engine_t engine, const onednn_convolution *c, onednn_part part,
                                          dnnl_alg_kind_t algorithm, const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *desc) {
    const dnnl_dims_t strides = {c->stride, c->stride}, pads = {c->padding, c->padding}, none = {0, 0};
    if (part == ONEDNN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(desc, engine, dnnl_forward_training, algorithm, c->in,
                                                              c->weights, c->bias, c->out, strides, none, pads, pads,
                                                              c->attributes);
    if (part == ONEDNN_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(desc, engine, algorithm, c->in, c->weights, c->out,
                                                                    strides, none, pads, pads, hint, c->attributes);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        desc, engine, algorithm, c->in, c->weights, c->bias, c->out, strides, none, pads, pads, hint, c->attributes);
}

static dnnl_status_t describe_pooling(dnnl_engine_t engine, const onednn_pooling *p, onednn_part part,
                                      const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *desc) {
    const dnnl_dims_t strides = {p->stride, p->stride}, pads = {p->padding, p->padding}, none = {0, 0};
    if (part == ONEDNN_FORWARD)
        return dnnl_pooling_forward_primitive_desc_create(desc, engine, dnnl_forward_training, p->algorithm, p->in,
                                                          p->out, strides, p->kernel, none, pads, pads, p->attributes);
    return dnnl_pooling_backward_primitive_desc_create(desc, engine, p->algorithm, p->in, p->out, strides, p->kernel,
                                                       none, pads, pads, hint, p->attributes);
}

static dnnl_status_t describe_batch_norm(dnnl_engine_t engine, const onednn_batch_norm *b, unsigned flags,
                                         onednn_part part, const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *desc) {
    if (part == ONEDNN_FORWARD)
        return dnnl_batch_normalization_forward_primitive_desc_create(desc, engine, dnnl_forward_training, b->images,
                                                                      b->images, b->epsilon, flags, b->attributes);
    return dnnl_batch_normalization_backward_primitive_desc_create(desc, engine, dnnl_backward, b->images, b->images,
                                                                   b->images, b->epsilon, flags, hint, b->attributes);
}

#else /* oneDNN 2 */

static dnnl_status_t describe_convolution(dnnl_engine_t engine, const onednn_convolution *c, onednn_part part,
                                          dnnl_alg_kind_t algorithm, const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *desc) {
    const dnnl_dims_t strides = {c->stride, c->stride}, pads = {c->padding, c->padding};
    dnnl_convolution_desc_t operation;
    dnnl_status_t status;
    if (part == ONEDNN_FORWARD)
        status = dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, algorithm, c->in, c->weights,
                                                    c->bias, c->out, strides, pads, pads);
    else if (part == ONEDNN_BACKWARD_DATA)
        status = dnnl_convolution_backward_data_desc_init(&operation, algorithm, c->in, c->weights, c->out, strides,
                                                          pads, pads);
    else
        status = dnnl_convolution_backward_weights_desc_init(&operation, algorithm, c->in, c->weights, c->bias, c->out,
                                                             strides, pads, pads);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(desc, &operation, c->attributes, engine, hint);
}

static dnnl_status_t describe_pooling(dnnl_engine_t engine, const onednn_pooling *p, onednn_part part,
                                      const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *desc) {
    const dnnl_dims_t strides = {p->stride, p->stride}, pads = {p->padding, p->padding};
    dnnl_pooling_desc_t operation;
    dnnl_status_t status =
        part == ONEDNN_FORWARD
            ? dnnl_pooling_forward_desc_init(&operation, dnnl_forward_training, p->algorithm, p->in, p->out, strides,
                                             p->kernel, pads, pads)
            : dnnl_pooling_backward_desc_init(&operation, p->algorithm, p->in, p->out, strides, p->kernel, pads, pads);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(desc, &operation, p->attributes, engine, hint);
}

static dnnl_status_t describe_batch_norm(dnnl_engine_t engine, const onednn_batch_norm *b, unsigned flags,
                                         onednn_part part, const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *desc) {
    dnnl_batch_normalization_desc_t operation;
    dnnl_status_t status = part == ONEDNN_FORWARD
                               ? dnnl_batch_normalization_forward_desc_init(&operation, dnnl_forward_training,
                                                                            b->images, b->epsilon, flags)
                               : dnnl_batch_normalization_backward_desc_init(&operation, dnnl_backward, b->images,
                                                                             b->images, b->epsilon, flags);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(desc, &operation, b->attributes, engine, hint);
}

#endif

circe_status onednn_convolution_desc(const onednn_convolution *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                     dnnl_primitive_desc_t *desc) {
    dnnl_engine_t engine;
    dnnl_status_t done = dnnl_unimplemented;
    circe_status status = find_engine(&engine);
    if (status != CIRCE_OK) return status;
    if (what->winograd) done = describe_convolution(engine, what, part, dnnl_convolution_winograd, hint, desc);
    if (done == dnnl_unimplemented)
        done = describe_convolution(engine, what, part, dnnl_convolution_direct, hint, desc);
    return check(done, "convolution");
}

circe_status onednn_pooling_desc(const onednn_pooling *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *desc) {
    dnnl_engine_t engine;
    circe_status status = find_engine(&engine);
    if (status != CIRCE_OK) return status;
    return check(describe_pooling(engine, what, part, hint, desc), "pooling");
}

circe_status onednn_batch_norm_desc(const onednn_batch_norm *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                    dnnl_primitive_desc_t *desc) {
    unsigned flags = what->flags | (unsigned)dnnl_use_scale | (unsigned)dnnl_use_shift;
    dnnl_engine_t engine;
    circe_status status = find_engine(&engine);
    if (status != CIRCE_OK) return status;
    return check(describe_batch_norm(engine, what, flags, part, hint, desc), "batch norm");
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static dnnl_status_t add_argument(onednn_call *call, dnnl_engine_t engine, int argument, onednn_layout layout) {
    dnnl_exec_arg_t *made = &call->arguments[call->n];
    if (layout == NULL || dnnl_memory_desc_get_size(layout) == 0) return dnnl_success;
    made->arg = argument;
    dnnl_status_t status = dnnl_memory_create(&made->memory, layout, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success) call->n++;
    return status;
}

static circe_status finish(onednn_call *call, const int *arguments, size_t *scratch) {
    onednn_layout memory = dnnl_primitive_desc_query_md(call->desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = memory == NULL ? 0 : dnnl_memory_desc_get_size(memory);
    dnnl_engine_t engine;
    circe_status own = find_engine(&engine);
    if (own != CIRCE_OK) return own;
    dnnl_status_t status = dnnl_primitive_create(&call->primitive, call->desc);
    if (status == dnnl_success) status = dnnl_stream_create(&call->stream, engine, dnnl_stream_default_flags);
    if (status == dnnl_success) status = add_argument(call, engine, DNNL_ARG_SCRATCHPAD, memory);
    for (; status == dnnl_success && *arguments != 0; arguments++)
        status = add_argument(call, engine, *arguments, onednn_layout_of(call->desc, *arguments));
    if (bytes > *scratch) *scratch = bytes;
    return check(status, "a primitive");
}

circe_status onednn_call_make(dnnl_primitive_desc_t desc, const int *arguments, onednn_call *call, size_t *scratch) {
    *call = (onednn_call){.desc = desc};
    circe_status status = finish(call, arguments, scratch);
    if (status != CIRCE_OK) onednn_call_free(call);
    return status;
}

circe_status onednn_reorder_make(onednn_layout from, onednn_layout to, onednn_call *call, size_t *scratch) {
    static const int arguments[] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0};
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_engine_t engine;
    circe_status status = find_engine(&engine);
    if (status == CIRCE_OK) status = onednn_attributes((train_layer_kind)0, 0.0f, &attributes);
    if (status == CIRCE_OK)
        status =
            check(dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, attributes), "another order");
    if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
    return status == CIRCE_OK ? onednn_call_make(desc, arguments, call, scratch) : status;
}

void onednn_call_free(onednn_call *call) {
    for (int k = 0; k < call->n; k++) dnnl_memory_destroy(call->arguments[k].memory);
    if (call->stream != NULL) dnnl_stream_destroy(call->stream);
    if (call->primitive != NULL) dnnl_primitive_destroy(call->primitive);
    if (call->desc != NULL) dnnl_primitive_desc_destroy(call->desc);
    *call = (onednn_call){0};
}

/* oneDNN 2 clears the padding of what it is given: only what has moved is given anew. */
static dnnl_status_t bind(onednn_call *call, int argument, const void *data) {
    for (int k = 0; k < call->n; k++) {
        void *before = NULL;
        if (call->arguments[k].arg != argument) continue;
        dnnl_status_t status = dnnl_memory_get_data_handle(call->arguments[k].memory, &before);
        if (status != dnnl_success || before == data) return status;
        return dnnl_memory_set_data_handle(call->arguments[k].memory, (void *)data);
    }
    return dnnl_success;
}

circe_status onednn_run(onednn_call *call, const onednn_argument *arguments, void *scratch) {
    dnnl_status_t status = bind(call, DNNL_ARG_SCRATCHPAD, scratch);
    for (; status == dnnl_success && arguments->argument != 0; arguments++)
        status = bind(call, arguments->argument, arguments->data);
    if (status != dnnl_success) return check(status, "an argument");
    return check(dnnl_primitive_execute(call->primitive, call->stream, call->n, call->arguments), "a primitive");
}
