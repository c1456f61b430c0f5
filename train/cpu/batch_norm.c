/* Batch norm (Ioffe and Szegedy), by oneDNN: channel by channel, over the m = rows * height * width numbers of a batch,
 *
 *     out = weight (in - mean) / sqrt(variance + 1e-5) + bias
 *
 * In training mean and variance (over m) are the batch's, and the running ones move towards them by a tenth, the
 * variance as over m - 1, as PyTorch does it; otherwise they are the running ones, and constants to the derivative.
 * ReLU behind it is part of oneDNN's primitive, which keeps one bit per number for backward. If the batch is spread
 * over processes, the statistics are those of all of them together (batch_norm_ranks.c). */
#include "circe/status.h"
#include "train/cpu/cpu.h"
#include "train/cpu/onednn.h"

static const float EPSILON = 1e-5f;
static const double MOMENTUM = 0.1;

enum { OF_BATCH, RUNNING, N_MODES };

struct train_layer_state {
    onednn_call forward[N_MODES], backward[N_MODES];
    void *workspace;        /* NULL: no ReLU */
    float *mean, *variance; /* (channels), of the batch */
    double *sums;           /* (2 channels): of several ranks */
    float *lines;           /* the same */
    int mode;               /* of the last forward */
    bool given;             /* mean and variance of the batch were given to oneDNN, which takes them for constants */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static circe_status make_mode(const onednn_batch_norm *b, onednn_call *forward, onednn_call *backward,
                              size_t *scratch) {
    static const int forwards[] = {DNNL_ARG_SRC,   DNNL_ARG_DST,   DNNL_ARG_MEAN,      DNNL_ARG_VARIANCE,
                                   DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_WORKSPACE, 0};
    static const int backwards[] = {DNNL_ARG_SRC,
                                    DNNL_ARG_MEAN,
                                    DNNL_ARG_VARIANCE,
                                    DNNL_ARG_DIFF_DST,
                                    DNNL_ARG_SCALE,
                                    DNNL_ARG_DIFF_SRC,
                                    DNNL_ARG_DIFF_SCALE,
                                    DNNL_ARG_DIFF_SHIFT,
                                    DNNL_ARG_WORKSPACE,
                                    ONEDNN_ARG_BACKWARD_SHIFT,
                                    0};
    dnnl_primitive_desc_t desc = NULL;
    circe_status status = onednn_batch_norm_desc(b, ONEDNN_FORWARD, NULL, &desc);
    if (status == CIRCE_OK) status = onednn_call_make(desc, forwards, forward, scratch);
    if (status == CIRCE_OK) status = onednn_batch_norm_desc(b, ONEDNN_BACKWARD_DATA, forward->desc, &desc);
    return status == CIRCE_OK ? onednn_call_make(desc, backwards, backward, scratch) : status;
}

static circe_status make_memory(const train_layer *layer, train_layer_state *s, train_memory *memory) {
    size_t channels = (size_t)layer->in.size[0] * sizeof(float), workspace = 0;
    for (int mode = 0; mode < N_MODES; mode++) {
        onednn_layout wants = onednn_layout_of(s->forward[mode].desc, DNNL_ARG_WORKSPACE);
        size_t bytes = wants == NULL ? 0 : dnnl_memory_desc_get_size(wants);
        if (bytes > workspace) workspace = bytes;
    }
    circe_status status = train_take(memory, channels, &s->mean);
    if (status == CIRCE_OK) status = train_take(memory, channels, &s->variance);
    if (status == CIRCE_OK) status = train_take(memory, 4 * channels, &s->sums);
    if (status == CIRCE_OK) status = train_take(memory, 2 * channels, &s->lines);
    return status == CIRCE_OK && workspace > 0 ? train_take(memory, workspace, &s->workspace) : status;
}

static void destroy(train_device *device, train_layer_state *s) {
    (void)device;
    for (int mode = 0; mode < N_MODES; mode++) {
        onednn_call_free(&s->forward[mode]);
        onednn_call_free(&s->backward[mode]);
    }
}

static circe_status create(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory) {
    unsigned relu = layer->merged == TRAIN_RELU ? (unsigned)dnnl_fuse_norm_relu : 0;
    onednn_batch_norm b = {.epsilon = EPSILON};
    (void)wants_grad_in;
    circe_status status = onednn_attributes((train_layer_kind)0, 0.0f, &b.attributes);
    if (status == CIRCE_OK) status = onednn_layout_images(layer->in, rows, true, &b.images);
    for (int mode = 0; status == CIRCE_OK && mode < N_MODES; mode++) {
        b.flags = relu | (mode == RUNNING ? (unsigned)dnnl_use_global_stats : 0);
        status = make_mode(&b, &state->forward[mode], &state->backward[mode], &memory->scratch);
    }
    if (status == CIRCE_OK) status = make_memory(layer, state, memory);
    if (b.attributes != NULL) dnnl_primitive_attr_destroy(b.attributes);
    onednn_layout_free(b.images);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* buffers: running_mean, running_var. */
static void remember(const train_layer *layer, const train_layer_state *s, int64_t numbers, float *buffers) {
    int64_t channels = layer->in.size[0];
    double unbiased = (double)numbers / (double)(numbers - 1);
    for (int64_t c = 0; c < channels; c++) {
        float *mean = buffers + c, *variance = buffers + channels + c;
        *mean = (float)((1.0 - MOMENTUM) * (double)*mean + MOMENTUM * (double)s->mean[c]);
        *variance = (float)((1.0 - MOMENTUM) * (double)*variance + MOMENTUM * unbiased * (double)s->variance[c]);
    }
}

/* A pass of either direction, which takes the arguments that it has. */
static circe_status run(const train_layer *layer, train_layer_state *s, const train_visit *pass, onednn_call *call) {
    bool running = s->mode == RUNNING && !s->given;
    int64_t channels = layer->in.size[0];
    const onednn_argument arguments[] = {{DNNL_ARG_SRC, pass->in},
                                         {DNNL_ARG_MEAN, running ? pass->buffers : s->mean},
                                         {DNNL_ARG_VARIANCE, running ? pass->buffers + channels : s->variance},
                                         {DNNL_ARG_SCALE, pass->params},
                                         {DNNL_ARG_SHIFT, pass->params + channels},
                                         {DNNL_ARG_WORKSPACE, s->workspace},
                                         {DNNL_ARG_DST, pass->out},
                                         {DNNL_ARG_DIFF_DST, pass->grad_out},
                                         {DNNL_ARG_DIFF_SRC, pass->grad_in},
                                         {DNNL_ARG_DIFF_SCALE, pass->grads},
                                         {DNNL_ARG_DIFF_SHIFT, pass->grads + channels},
                                         {0}};
    return onednn_run(call, arguments, pass->scratch);
}

static circe_status forward(train_device *device, const train_layer *layer, train_layer_state *s,
                            const train_visit *pass) {
    int64_t numbers = pass->rows * layer->in.size[1] * layer->in.size[2];
    s->given = pass->training && device->ranks != NULL;
    s->mode = pass->training && !s->given ? OF_BATCH : RUNNING;
    if (s->given) numbers = train_ranks_statistics(device, layer, pass->rows, pass->in, s->sums, s->mean, s->variance);
    if (pass->training && numbers < 2)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "layer %s: batch norm needs two or more numbers per channel in training; this batch has one",
                          layer->name);
    circe_status status = run(layer, s, pass, &s->forward[s->mode]);
    if (status == CIRCE_OK && pass->training) remember(layer, s, numbers, pass->buffers);
    return status;
}

static circe_status backward(train_device *device, const train_layer *layer, train_layer_state *s,
                             const train_visit *pass) {
    circe_status status = run(layer, s, pass, &s->backward[s->mode]);
    if (status == CIRCE_OK && s->given)
        train_ranks_correct(device, layer, pass, EPSILON, s->sums, s->mean, s->variance, s->lines);
    return status;
}

static bool merges(train_layer_kind activation) { return activation == TRAIN_RELU; }

const train_layer_ops train_cpu_batch_norm = {.state_bytes = sizeof(train_layer_state),
                                              .create = create,
                                              .destroy = destroy,
                                              .pass_forward = forward,
                                              .pass_backward = backward,
                                              .merges = merges};
