/* Engines for a convolution: our own kernels in float32 if they suit (exact.cu), and those that cuDNN's heuristic
 * proposes. If the choice can be kept on disk (choices.c), all suitable engines are timed and the fastest is used.
 * Otherwise the first one is used without timing, so that the next run uses the same.
 *
 * An engine is suitable if it gives the same bits every time, fits into the workspace, can be recorded in a CUDA graph,
 * and keeps to the precision: float32 does not allow the tensor units, and no precision allows a reduction in less than
 * float32.
 *
 * Candidates are timed from a graph of several runs. One by one, small kernels would take as long as the host needs to
 * start them. */
#include "train/cuda/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/cuda/exact.h"

enum { IN_ID = 1, WEIGHTS_ID = 2, OUT_ID = 3, TENSORS = 3 };
enum { MOST_PROPOSED = 32, MOST_TRIED = 12, MOST_NOTES = 16, RUNS = 4, ROUNDS = 3, ALIGNMENT = 16 };

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the handle of graphs and plans: cuDNN 9.0 wants it */

/* Descriptors that a plan was made of live as long as it does. */
struct train_cuda_engine {
    cudnnBackendDescriptor_t tensors[TENSORS], convolution, operation, graph, config, plan;
    int64_t workspace; /* bytes */
    train_cuda_problem problem;
    bool own;      /* our own kernels (exact.cu) instead of a plan */
    float *turned; /* their weights for the gradient at the input */
};

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static void drop(const train_cuda_dnn *dnn, cudnnBackendDescriptor_t *descriptor) {
    if (*descriptor != NULL) dnn->cudnnBackendDestroyDescriptor(*descriptor);
    *descriptor = NULL;
}

/* Calls one after the other, up to the first that fails. */
typedef struct making {
    const train_cuda_dnn *dnn;
    cudnnBackendDescriptor_t descriptor;
    cudnnStatus_t error;
} making;

static making begin(const train_cuda_dnn *dnn, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made) {
    making m = {.dnn = dnn};
    m.error = dnn->cudnnBackendCreateDescriptor(type, made);
    m.descriptor = *made;
    return m;
}

static void set(making *m, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *values) {
    if (m->error == CUDNN_STATUS_SUCCESS)
        m->error = m->dnn->cudnnBackendSetAttribute(m->descriptor, name, type, n, values);
}

static void set_descriptor(making *m, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    set(m, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static cudnnStatus_t end(making *m) {
    if (m->error == CUDNN_STATUS_SUCCESS) m->error = m->dnn->cudnnBackendFinalize(m->descriptor);
    return m->error;
}

static cudnnStatus_t describe_tensor(const train_cuda_dnn *dnn, int64_t id, bool half, const int64_t size[4],
                                     cudnnBackendDescriptor_t *tensor) {
    const int64_t strides[4] = {size[1] * size[2] * size[3], 1, size[3] * size[1], size[1]}, alignment = ALIGNMENT;
    cudnnDataType_t type = half ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    making m = begin(dnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor);
    set(&m, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(&m, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    set(&m, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(&m, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(&m, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return end(&m);
}

static cudnnStatus_t describe_convolution(const train_cuda_dnn *dnn, cuda_window w,
                                          cudnnBackendDescriptor_t *convolution) {
    const int64_t dimensions = 2, ones[2] = {1, 1}, strides[2] = {w.stride, w.stride},
                  paddings[2] = {w.padding, w.padding};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    making m = begin(dnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, convolution);
    set(&m, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
    set(&m, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(&m, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
    set(&m, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
    set(&m, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    set(&m, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    return end(&m);
}

/* What cuDNN calls a pass and its parts. */
static const struct {
    const char *name;
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, convolution, in, weights, out;
} passes[] = {
    [TRAIN_CUDA_FORWARD] = {"forward", CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    [TRAIN_CUDA_DATA] = {"data", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    [TRAIN_CUDA_FILTER] = {"filter", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

static cudnnStatus_t describe_operation(const train_cuda_dnn *dnn, train_cuda_pass pass, train_cuda_engine *e) {
    const float one = 1.0f, none = 0.0f;
    making m = begin(dnn, passes[pass].type, &e->operation);
    set(&m, passes[pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(&m, passes[pass].beta, CUDNN_TYPE_FLOAT, 1, &none);
    set_descriptor(&m, passes[pass].convolution, e->convolution);
    set_descriptor(&m, passes[pass].in, e->tensors[0]);
    set_descriptor(&m, passes[pass].weights, e->tensors[1]);
    set_descriptor(&m, passes[pass].out, e->tensors[2]);
    return end(&m);
}

static cudnnStatus_t describe(const train_cuda_device *cuda, const train_cuda_problem *p, train_cuda_engine *e) {
    const train_cuda_dnn *dnn = &cuda->dnn;
    cuda_window w = p->window;
    const int64_t in[4] = {w.rows, w.channels, w.height, w.width},
                  weights[4] = {w.outputs, w.channels, w.kernel, w.kernel},
                  out[4] = {w.rows, w.outputs, w.out_height, w.out_width};
    bool half_weights = p->pass == TRAIN_CUDA_FILTER ? p->half_weights : p->half;
    cudnnStatus_t error = describe_tensor(dnn, IN_ID, p->half, in, &e->tensors[0]);
    if (error == CUDNN_STATUS_SUCCESS) error = describe_tensor(dnn, WEIGHTS_ID, half_weights, weights, &e->tensors[1]);
    if (error == CUDNN_STATUS_SUCCESS) error = describe_tensor(dnn, OUT_ID, p->half, out, &e->tensors[2]);
    if (error == CUDNN_STATUS_SUCCESS) error = describe_convolution(dnn, w, &e->convolution);
    if (error == CUDNN_STATUS_SUCCESS) error = describe_operation(dnn, p->pass, e);
    if (error != CUDNN_STATUS_SUCCESS) return error;
    making m = begin(dnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &e->graph);
    set(&m, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &cuda->dnn_handle);
    set_descriptor(&m, CUDNN_ATTR_OPERATIONGRAPH_OPS, e->operation);
    return end(&m);
}

void train_cuda_engine_free(const train_cuda_device *cuda, train_cuda_engine *e) {
    if (e == NULL) return;
    drop(&cuda->dnn, &e->plan);
    drop(&cuda->dnn, &e->config);
    drop(&cuda->dnn, &e->graph);
    drop(&cuda->dnn, &e->operation);
    drop(&cuda->dnn, &e->convolution);
    for (int k = 0; k < TENSORS; k++) drop(&cuda->dnn, &e->tensors[k]);
    cudaFree(e->turned);
    free(e);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static circe_status execute_own(const train_cuda_device *cuda, const train_cuda_engine *e, void *workspace,
                                const void *in, const void *weights, const void *out) {
    cuda_window w = e->problem.window;
    cudaError_t error = cudaSuccess;
    if (e->problem.pass == TRAIN_CUDA_FORWARD)
        error = train_cuda_exact_forward(w, in, weights, (float *)out, cuda->stream);
    if (e->problem.pass == TRAIN_CUDA_FILTER)
        error = train_cuda_exact_weights(w, in, out, workspace, (float *)weights, cuda->stream);
    if (e->problem.pass == TRAIN_CUDA_DATA) error = train_cuda_exact_turn(w, weights, e->turned, cuda->stream);
    if (e->problem.pass == TRAIN_CUDA_DATA && error == cudaSuccess)
        error = train_cuda_exact_data(w, out, e->turned, (float *)in, cuda->stream);
    return train_cuda_status(error, "a convolution");
}

static circe_status execute(const train_cuda_device *cuda, const train_cuda_engine *e, void *workspace, const void *in,
                            const void *weights, const void *out) {
    if (e->own) return execute_own(cuda, e, workspace, in, weights, out);
    const int64_t ids[TENSORS] = {IN_ID, WEIGHTS_ID, OUT_ID};
    const void *pointers[TENSORS] = {in, weights, out};
    cudnnBackendDescriptor_t pack = NULL;
    making m = begin(&cuda->dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    set(&m, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, TENSORS, ids);
    set(&m, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, TENSORS, pointers);
    set(&m, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    cudnnStatus_t error = end(&m);
    if (error == CUDNN_STATUS_SUCCESS) error = cuda->dnn.cudnnBackendExecute(cuda->dnn_handle, e->plan, pack);
    drop(&cuda->dnn, &pack);
    return train_cuda_dnn_status(cuda, error, "a convolution");
}

circe_status train_cuda_engine_run(const train_cuda_device *cuda, const train_cuda_engine *e, const void *in,
                                   const void *weights, const void *out) {
    return execute(cuda, e, cuda->workspace, in, weights, out);
}

/* ---- what cuDNN proposes ----------------------------------------------------------------------------------------- */

/* Notes of an engine as bits; all of them where they cannot be read. */
static unsigned notes_of(const train_cuda_dnn *dnn, cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type) {
    int notes[MOST_NOTES] = {0}; /* enumerations of cuDNN, of which all are of this size */
    int64_t n = 0;
    unsigned bits = 0;
    if (dnn->cudnnBackendGetAttribute(engine, name, type, MOST_NOTES, &n, notes) != CUDNN_STATUS_SUCCESS) return ~0u;
    for (int64_t k = 0; k < n && k < MOST_NOTES; k++) bits |= 1u << notes[k];
    return bits;
}

static bool will_do(const train_cuda_device *cuda, const train_cuda_problem *p, cudnnBackendDescriptor_t config) {
    const train_cuda_dnn *dnn = &cuda->dnn;
    const unsigned winograd = 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                              1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                              1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    unsigned refused = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                       1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    cudnnBackendDescriptor_t engine = NULL;
    int64_t n = 0;
    if (cuda->precision == TRAIN_FLOAT32) refused |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (p->window.kernel > 3) refused |= winograd; /* it loses four digits of float32; of 3 by 3 one, as on the CPU */
    bool does = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
                dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                              &engine) == CUDNN_STATUS_SUCCESS;
    does = does &&
           (notes_of(dnn, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE) & refused) == 0 &&
           (notes_of(dnn, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE) &
            1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == 0; /* seconds to compile, and needs the compiler */
    drop(dnn, &engine);
    return does;
}

/* The plan of a configuration, if its workspace is not too large. */
static bool make_plan(const train_cuda_device *cuda, cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t *plan,
                      int64_t *bytes) {
    int64_t n = 0;
    making m = begin(&cuda->dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan);
    set(&m, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &cuda->dnn_handle);
    set_descriptor(&m, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    bool fits = end(&m) == CUDNN_STATUS_SUCCESS &&
                cuda->dnn.cudnnBackendGetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                   &n, bytes) == CUDNN_STATUS_SUCCESS &&
                *bytes <= train_cuda_most_workspace(cuda);
    if (!fits) drop(&cuda->dnn, plan);
    return fits;
}

/* Adds the configurations that one mode of the heuristic proposes, in its order, and counts them in *n. */
static void propose(const train_cuda_device *cuda, const train_cuda_engine *e, cudnnBackendHeurMode_t mode,
                    cudnnBackendDescriptor_t *configs, int64_t *n) {
    const train_cuda_dnn *dnn = &cuda->dnn;
    cudnnBackendDescriptor_t heuristic = NULL;
    making m = begin(dnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic);
    set_descriptor(&m, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, e->graph);
    set(&m, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    bool good = end(&m) == CUDNN_STATUS_SUCCESS;
    for (int k = 0; good && k < MOST_PROPOSED; k++)
        good =
            dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[k]) == CUDNN_STATUS_SUCCESS;
    if (good && dnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                              MOST_PROPOSED, n, configs) != CUDNN_STATUS_SUCCESS)
        *n = 0;
    if (*n > MOST_PROPOSED) *n = MOST_PROPOSED;
    drop(dnn, &heuristic);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Candidates: ours, if it suits, without a plan; then configurations with their plans, in the heuristic's order. */
typedef struct candidates {
    cudnnBackendDescriptor_t configs[MOST_TRIED], plans[MOST_TRIED];
    int64_t workspaces[MOST_TRIED];
    int n;
} candidates;

/* Adds those of a mode that will do. */
static void gather(const train_cuda_device *cuda, const train_cuda_problem *p, const train_cuda_engine *e,
                   cudnnBackendHeurMode_t mode, candidates *c) {
    cudnnBackendDescriptor_t configs[MOST_PROPOSED] = {NULL};
    int64_t n = 0;
    propose(cuda, e, mode, configs, &n);
    for (int64_t k = 0; k < n && c->n < MOST_TRIED; k++) {
        if (!will_do(cuda, p, configs[k]) || !make_plan(cuda, configs[k], &c->plans[c->n], &c->workspaces[c->n]))
            continue;
        c->configs[c->n++] = configs[k];
        configs[k] = NULL;
    }
    for (int k = 0; k < MOST_PROPOSED; k++) drop(&cuda->dnn, &configs[k]);
}

/* Memory that candidates are tried on. */
typedef struct trial {
    void *blocks[TENSORS], *workspace;
    cudaEvent_t marks[2];
} trial;

static circe_status open_trial(train_cuda_device *cuda, const train_cuda_problem *p, const candidates *c, trial *t) {
    int64_t most = 0;
    train_device *device = &cuda->device;
    cuda_window w = p->window;
    size_t in = (size_t)w.rows * (size_t)w.channels * (size_t)w.height * (size_t)w.width,
           weights = (size_t)w.outputs * (size_t)w.channels * (size_t)w.kernel * (size_t)w.kernel,
           out = (size_t)w.rows * (size_t)w.outputs * (size_t)w.out_height * (size_t)w.out_width;
    const size_t counts[TENSORS] = {in, weights, out};
    for (int k = 0; k < TENSORS; k++) {
        t->blocks[k] = device->ops->allocate(device, counts[k] * sizeof(float));
        if (t->blocks[k] == NULL) return CIRCE_ERR_MEMORY;
    }
    for (int k = 0; k < c->n; k++) most = c->workspaces[k] > most ? c->workspaces[k] : most;
    t->workspace = device->ops->allocate(device, (size_t)most);
    if (t->workspace == NULL) return CIRCE_ERR_MEMORY;
    for (int k = 0; k < 2; k++) {
        cudaError_t error = cudaEventCreate(&t->marks[k]);
        if (error != cudaSuccess) return train_cuda_status(error, "timing convolutions");
    }
    return CIRCE_OK;
}

static void close_trial(train_cuda_device *cuda, trial *t) {
    for (int k = 0; k < TENSORS; k++) cuda->device.ops->release(&cuda->device, t->blocks[k]);
    cuda->device.ops->release(&cuda->device, t->workspace);
    for (int k = 0; k < 2; k++)
        if (t->marks[k] != NULL) cudaEventDestroy(t->marks[k]);
}

static circe_status run_trial(const train_cuda_device *cuda, const train_cuda_engine *e, const trial *t) {
    return execute(cuda, e, t->workspace, t->blocks[0], t->blocks[1], t->blocks[2]);
}

/* Milliseconds of a single run, the second; negative: it does not run. */
static float time_once(train_cuda_device *cuda, const train_cuda_engine *e, const trial *t) {
    float ms = -1.0f;
    bool good = run_trial(cuda, e, t) == CIRCE_OK && cudaEventRecord(t->marks[0], cuda->stream) == cudaSuccess &&
                run_trial(cuda, e, t) == CIRCE_OK && cudaEventRecord(t->marks[1], cuda->stream) == cudaSuccess &&
                cudaEventSynchronize(t->marks[1]) == cudaSuccess &&
                cudaEventElapsedTime(&ms, t->marks[0], t->marks[1]) == cudaSuccess;
    cudaGetLastError(); /* a candidate that fails is simply not used */
    return good ? ms : -1.0f;
}

/* Several runs as a graph; NULL: it cannot be recorded. */
static cudaGraphExec_t record(train_cuda_device *cuda, const train_cuda_engine *e, const trial *t) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    circe_status status = CIRCE_OK;
    train_cuda_alone_begin();
    bool good = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    for (int k = 0; k < RUNS && good && status == CIRCE_OK; k++) status = run_trial(cuda, e, t);
    if (good) good = cudaStreamEndCapture(cuda->stream, &graph) == cudaSuccess && status == CIRCE_OK;
    train_cuda_alone_end();
    if (good && cudaGraphInstantiate(&made, graph, 0) != cudaSuccess) made = NULL;
    if (graph != NULL) cudaGraphDestroy(graph);
    cudaGetLastError();
    return made;
}

/* Milliseconds of the fastest round; negative: it does not run, or is clearly slower than `least`. */
static float time_candidate(train_cuda_device *cuda, const train_cuda_engine *e, const trial *t, float least) {
    const float start = 0.05f; /* ms that the host may take to start a run */
    float best = -1.0f, once = time_once(cuda, e, t);
    if (once < 0.0f || (least >= 0.0f && once > 2.0f * least / RUNS + start)) return best;
    cudaGraphExec_t graph = record(cuda, e, t);
    if (graph == NULL) return best;
    for (int k = 0; k <= ROUNDS; k++) { /* the first warms up */
        float ms = 0.0f;
        bool good = cudaEventRecord(t->marks[0], cuda->stream) == cudaSuccess &&
                    cudaGraphLaunch(graph, cuda->stream) == cudaSuccess &&
                    cudaEventRecord(t->marks[1], cuda->stream) == cudaSuccess &&
                    cudaEventSynchronize(t->marks[1]) == cudaSuccess &&
                    cudaEventElapsedTime(&ms, t->marks[0], t->marks[1]) == cudaSuccess;
        if (!good) best = -1.0f;
        if (!good) break;
        if (k > 0 && (best < 0.0f || ms < best)) best = ms;
    }
    cudaGraphExecDestroy(graph);
    cudaGetLastError();
    return best;
}

static circe_status time_all(train_cuda_device *cuda, const train_cuda_problem *p, train_cuda_engine *e,
                             const candidates *c, int *fastest) {
    trial t = {.blocks = {NULL}};
    float best = -1.0f;
    circe_status status = open_trial(cuda, p, c, &t);
    for (int k = 0; k < c->n && status == CIRCE_OK; k++) {
        e->plan = c->plans[k];
        e->own = c->plans[k] == NULL;
        float ms = time_candidate(cuda, e, &t, best);
        if (ms < 0.0f || (best >= 0.0f && ms >= best)) continue;
        best = ms;
        *fastest = k;
    }
    e->plan = NULL;
    e->own = false;
    close_trial(cuda, &t);
    return status;
}

static void write_key(const train_cuda_device *cuda, const train_cuda_problem *p, char *key, size_t size) {
    static const char *const precisions[] = {"float32", "tf32", "bf16"};
    struct cudaDeviceProp about;
    cuda_window w = p->window;
    if (cudaGetDeviceProperties(&about, cuda->gpu) != cudaSuccess) memset(&about, 0, sizeof about);
    snprintf(key, size, "cuDNN %zu, %s (%d), %s %s%s, %lld x %d x %d x %d to %d, kernel %d, stride %d, padding %d",
             cuda->dnn.cudnnGetVersion(), about.name, about.multiProcessorCount, precisions[cuda->precision],
             passes[p->pass].name, p->half_weights ? " short" : "", (long long)w.rows, w.channels, w.height, w.width,
             w.outputs, w.kernel, w.stride, w.padding);
}

/* The number of the candidate to take. */
static circe_status choose(train_cuda_device *cuda, const train_cuda_problem *p, train_cuda_engine *e,
                           const candidates *c, int *chosen) {
    char key[400];
    *chosen = 0;
    write_key(cuda, p, key, sizeof key);
    int kept = train_cuda_choice_find(key);
    if (kept >= 0 && kept < c->n) {
        *chosen = kept;
        return CIRCE_OK;
    }
    if (c->n < 2 || !train_cuda_choices_last()) return CIRCE_OK;
    circe_status status = time_all(cuda, p, e, c, chosen);
    if (status != CIRCE_OK) return status;
    int found = *chosen;
    if (!train_cuda_choice_keep(key, chosen) || *chosen >= c->n) *chosen = found < c->n ? found : 0;
    return CIRCE_OK;
}

/* In float32, where channels go into tiles. */
static circe_status add_own(const train_cuda_device *cuda, const train_cuda_problem *p, train_cuda_engine *e,
                            candidates *c) {
    cuda_window w = p->window;
    if (cuda->precision != TRAIN_FLOAT32 || !train_cuda_exact_suits(w)) return CIRCE_OK;
    int64_t bytes = p->pass == TRAIN_CUDA_FILTER ? train_cuda_exact_bytes(w) : 0;
    if (bytes > train_cuda_most_workspace(cuda)) return CIRCE_OK;
    c->workspaces[c->n++] = bytes;
    if (p->pass != TRAIN_CUDA_DATA) return CIRCE_OK;
    size_t numbers = (size_t)w.outputs * (size_t)w.channels * (size_t)w.kernel * (size_t)w.kernel;
    return train_cuda_status(cudaMalloc((void **)&e->turned, numbers * sizeof *e->turned), "making a convolution");
}

static circe_status search(train_cuda_device *cuda, const train_cuda_problem *p, train_cuda_engine *e) {
    candidates c = {.n = 0};
    int chosen = 0;
    circe_status status = train_cuda_dnn_status(cuda, describe(cuda, p, e), "describing a convolution");
    if (status != CIRCE_OK) return status;
    status = add_own(cuda, p, e, &c);
    if (status != CIRCE_OK) return status;
    gather(cuda, p, e, CUDNN_HEUR_MODE_A, &c);
    if (c.n == 0) gather(cuda, p, e, CUDNN_HEUR_MODE_FALLBACK, &c);
    if (c.n > 0) status = choose(cuda, p, e, &c, &chosen);
    if (c.n > 0 && status == CIRCE_OK) {
        e->plan = c.plans[chosen];
        e->own = e->plan == NULL;
        e->config = c.configs[chosen];
        e->workspace = c.workspaces[chosen];
        c.plans[chosen] = c.configs[chosen] = NULL;
    }
    for (int k = 0; k < MOST_TRIED; k++) {
        drop(&cuda->dnn, &c.plans[k]);
        drop(&cuda->dnn, &c.configs[k]);
    }
    return status;
}

circe_status train_cuda_engine_find(train_cuda_device *cuda, const train_cuda_problem *problem,
                                    train_cuda_engine **engine) {
    train_cuda_engine *e = calloc(1, sizeof *e);
    *engine = NULL;
    if (e == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a convolution");
    e->problem = *problem;
    circe_status status = search(cuda, problem, e);
    bool found = e->plan != NULL || e->own;
    if (status == CIRCE_OK && found) status = train_cuda_need_workspace(cuda, e->workspace);
    if (status == CIRCE_OK && found)
        *engine = e;
    else
        train_cuda_engine_free(cuda, e);
    return status;
}
