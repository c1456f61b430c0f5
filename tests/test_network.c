/* Networks and the CPU device: layers and losses against a plain float64 model of them, its derivatives by central
 * differences; the optimiser against a sequence computed by hand; threads, odd batches, names, texts,
 * allocations.
 *
 * Two tolerances recur. FLOAT32: the network computes in float32 (6e-8) through sums of up to some 256 terms and some
 * ten layers, compared with float64: 2e-5 of the largest number in the same array. ORDER: the same sums in another
 * order (threads, sizes of blocks): 1e-6 for values. */
#include "train_support.h"

#include <malloc.h>
#include <omp.h>

#include "error.h"
#include "network.h"
#include "parallel.h"
#include "schedule.h"

#define FLOAT32 2e-5
#define ORDER 1e-6

/* ---- allocations of this process --------------------------------------------------------------------------------- */

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(address_sanitizer) && \
    !HAS_FEATURE(thread_sanitizer) && defined(__GLIBC__)
/* Sanitizers have an allocator of their own. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static int64_t n_mallocs;
#define COUNTED __attribute__((visibility("default")))
static void count(void) { __atomic_add_fetch(&n_mallocs, 1, __ATOMIC_RELAXED); }
COUNTED void *malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
COUNTED void *calloc(size_t n, size_t size) { return count(), __libc_calloc(n, size); }
COUNTED void *realloc(void *block, size_t bytes) { return count(), __libc_realloc(block, bytes); }
COUNTED void *memalign(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
COUNTED void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
COUNTED int posix_memalign(void **block, size_t alignment, size_t bytes) {
    return *block = memalign(alignment, bytes), *block == NULL;
}
COUNTED void free(void *block) { __libc_free(block); }
static int64_t mallocs_so_far(void) { return __atomic_load_n(&n_mallocs, __ATOMIC_RELAXED); }
#else
static int64_t mallocs_so_far(void) { return 0; }
#endif

/* ---- objects that clean up ----------------------------------------------------------------------------------------
 */

enum { MAX_OBJECTS = 64 };
static train_device *devices[MAX_OBJECTS];
static train_network *networks[MAX_OBJECTS];
static int n_devices, n_networks;

static int clean(void **state) {
    while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    while (n_devices > 0) train_device_destroy(devices[--n_devices]);
    return test_clean(state);
}

static train_device *make_device(int threads) {
    assert_true(n_devices < MAX_OBJECTS);
    train_ok(train_device_cpu(test_context(threads), &devices[n_devices]));
    return devices[n_devices++];
}

static train_network *make_network(train_device *device, int64_t inputs, const train_layer_spec *specs, int64_t n,
                                   int64_t max_batch) {
    train_shape input = {1, {inputs}};
    assert_true(n_networks < MAX_OBJECTS);
    train_ok(train_network_create(device, input, specs, n, max_batch, &networks[n_networks]));
    train_ok(train_network_initialise(networks[n_networks], TRAIN_START_HE, 7));
    return networks[n_networks++];
}

/* Parsed, initialised, and with biases that are not 0. */
static train_network *make_parsed(train_device *device, const char *text, train_layer_kind activation, int64_t inputs,
                                  int64_t outputs, int64_t max_batch) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_ok(train_network_parse(text, activation, outputs, &specs, &n));
    train_network *network = make_network(device, inputs, specs, n, max_batch);
    free(specs);
    float *params = train_network_params(network);
    for (int64_t l = 0; l < train_network_n_layers(network); l++) {
        const train_layer *layer = train_network_layer(network, l);
        int64_t biases = layer->n_params == 0 ? 0 : layer->out.size[0];
        for (int64_t k = 0; k < biases; k++)
            params[layer->first_param + layer->n_params - biases + k] = 0.1f * (float)((k * 7 + l * 3) % 11 - 5);
    }
    return network;
}

/* Standard normal float32, owned by the test. */
static float *normals(uint64_t stream, int64_t n) {
    circe_mat drawn = test_normal(stream, n, 1), made = test_copy(&drawn, CIRCE_FLOAT32);
    return made.data;
}

static double *doubles(const float *from, int64_t n) {
    double *made = test_memory((size_t)n * sizeof *made);
    for (int64_t i = 0; i < n; i++) made[i] = (double)from[i];
    return made;
}

/* max |a_i - b_i| <= tolerance max |b_i|. */
static void near_arrays(const float *a, const double *b, int64_t n, double tolerance, const char *what, int line) {
    double worst = 0.0, scale = 0.0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        scale = fmax(scale, fabs(b[i]));
        if (isnan(a[i])) worst = INFINITY;
    }
    if (!(worst <= tolerance * scale))
        fail_msg("line %d: %s: off by %.3g, largest %.3g, tolerance %.1g", line, what, worst, scale, tolerance);
}
#define assert_arrays(a, b, n, tolerance) near_arrays(a, b, n, tolerance, #a, __LINE__)

/* ---- a plain model of networks, in float64 ------------------------------------------------------------------------
 */

static double activate(const train_layer *layer, double x) {
    switch (layer->kind) {
        case TRAIN_RELU:
            return x > 0.0 ? x : 0.0;
        case TRAIN_LEAKY_RELU:
            return x > 0.0 ? x : (double)layer->slope * x;
        default:
            return tanh(x);
    }
}

/* out (rows, q) of in (rows, p). */
static void plain_layer(const train_layer *layer, const double *params, int64_t rows, const double *in, double *out) {
    int64_t p = train_shape_count(layer->in), q = train_shape_count(layer->out);
    const double *W = params, *b = params + p * q;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < q; o++) {
            double sum = 0.0;
            if (layer->kind == TRAIN_DENSE)
                for (int64_t i = 0; i < p; i++) sum += in[r * p + i] * W[o * p + i];
            out[r * q + o] = layer->kind == TRAIN_DENSE ? sum + b[o] : activate(layer, in[r * q + o]);
        }
}

static double plain_loss(train_loss_kind kind, int64_t rows, int64_t cols, const double *p, const float *target) {
    double sum = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        double exps = 0.0;
        for (int64_t c = 0; c < cols; c++) {
            double difference = p[r * cols + c] - (double)target[kind == TRAIN_MSE ? r * cols + c : r];
            if (kind == TRAIN_MSE) sum += difference * difference / (double)(rows * cols);
            exps += exp(p[r * cols + c]);
        }
        if (kind == TRAIN_CROSS_ENTROPY) sum += (log(exps) - p[r * cols + (int64_t)target[r]]) / (double)rows;
    }
    return sum;
}

/* A batch, what is asked of it, and the weights that taps put on the outputs of layers: objective = loss + sum over
 * tapped layers of <weights, output>. */
typedef struct problem {
    train_network *network;
    int64_t rows;
    const float *in, *target;
    train_loss_kind loss;
    float **taps; /* (n_layers), NULL: none; NULL for no taps at all */
} problem;

static const train_layer *last_layer(const train_network *network) {
    return train_network_layer(network, train_network_n_layers(network) - 1);
}

/* outputs: (n_layers) where they are wanted. */
static double plain_objective(const problem *p, const double *params, double **outputs) {
    double sum = 0.0, *before = NULL, *now = NULL;
    int64_t n = train_network_n_layers(p->network);
    for (int64_t l = 0; l < n; l++) {
        const train_layer *layer = train_network_layer(p->network, l);
        int64_t out = p->rows * train_shape_count(layer->out), in = p->rows * train_shape_count(layer->in);
        if (l == 0) {
            before = malloc((size_t)in * sizeof *before);
            for (int64_t i = 0; i < in; i++) before[i] = (double)p->in[i];
        }
        now = malloc((size_t)out * sizeof *now);
        plain_layer(layer, params + layer->first_param, p->rows, before, now);
        for (int64_t i = 0; p->taps != NULL && p->taps[l] != NULL && i < out; i++)
            sum += (double)p->taps[l][i] * now[i];
        if (outputs != NULL) memcpy(outputs[l], now, (size_t)out * sizeof *now);
        free(before);
        before = now;
    }
    sum += plain_loss(p->loss, p->rows, train_shape_count(last_layer(p->network)->out), before, p->target);
    free(before);
    return sum;
}

/* grads (n_params) := the derivatives, by central differences of float64: rounding leaves 1e-7 at this step, and a
 * larger one would meet kinks of ReLU. */
static void plain_gradient(const problem *p, double *grads) {
    const double step = 1e-7;
    int64_t n = train_network_n_params(p->network);
    double *params = doubles(train_network_params(p->network), n);
    for (int64_t i = 0; i < n; i++) {
        double kept = params[i];
        params[i] = kept + step;
        double above = plain_objective(p, params, NULL);
        params[i] = kept - step;
        grads[i] = (above - plain_objective(p, params, NULL)) / (2.0 * step);
        params[i] = kept;
    }
}

/* The same through the network; returns the loss, without what the taps add. */
static double forward_backward(const problem *p) {
    train_network *network = p->network;
    train_device *device = devices[0];
    double loss = 0.0;
    for (int64_t l = 0; p->taps != NULL && l < train_network_n_layers(network); l++) {
        float *tap = NULL;
        if (p->taps[l] == NULL) continue;
        train_ok(train_network_tap(network, l, &tap));
        int64_t numbers = p->rows * train_shape_count(train_network_layer(network, l)->out);
        memcpy(tap, p->taps[l], (size_t)numbers * sizeof *tap);
    }
    train_ok(train_network_forward(network, p->rows, p->in));
    device->ops->loss(device, p->loss, p->rows, train_shape_count(last_layer(network)->out),
                      train_network_output(network), p->target, &loss, train_network_output_grad(network));
    train_ok(train_network_backward(network, p->rows, p->in));
    return loss;
}

static float *targets(train_loss_kind loss, int64_t rows, int64_t cols) {
    if (loss == TRAIN_MSE) return normals(91, rows * cols);
    float *classes = test_memory((size_t)rows * sizeof *classes);
    for (int64_t r = 0; r < rows; r++) classes[r] = (float)((r * 5 + 1) % cols);
    return classes;
}

static problem make_problem(train_network *network, train_loss_kind loss, int64_t rows) {
    problem p = {.network = network, .rows = rows, .loss = loss};
    p.in = normals(90, rows * train_shape_count(train_network_layer(network, 0)->in));
    p.target = targets(loss, rows, train_shape_count(last_layer(network)->out));
    return p;
}

/* Taps on these layers with random weights. */
static void put_taps(problem *p, const int64_t *layers, int64_t n) {
    p->taps = test_memory((size_t)train_network_n_layers(p->network) * sizeof *p->taps);
    for (int64_t k = 0; k < n; k++) {
        int64_t numbers = p->rows * train_shape_count(train_network_layer(p->network, layers[k])->out);
        p->taps[layers[k]] = normals((uint64_t)(200 + layers[k]), numbers);
    }
}

static void check_problem(const problem *p) {
    int64_t n = train_network_n_params(p->network), layers = train_network_n_layers(p->network);
    double *expected = test_memory((size_t)n * sizeof *expected),
           *params = doubles(train_network_params(p->network), n);
    double **outputs = test_memory((size_t)layers * sizeof *outputs);
    for (int64_t l = 0; l < layers; l++)
        outputs[l] = test_memory((size_t)(p->rows * train_shape_count(train_network_layer(p->network, l)->out)) * 8);
    double loss = forward_backward(p);
    problem without = *p;
    without.taps = NULL;
    assert_near(loss, plain_objective(&without, params, outputs), FLOAT32, 1.0);
    for (int64_t l = 0; l < layers; l++)
        assert_arrays(train_network_activation(p->network, l), outputs[l],
                      p->rows * train_shape_count(train_network_layer(p->network, l)->out), FLOAT32);
    plain_gradient(p, expected);
    for (int64_t l = 0; l < layers; l++) { /* layer by layer: a wrong bias must not hide behind large weights */
        const train_layer *layer = train_network_layer(p->network, l);
        int64_t biases = layer->n_params == 0 ? 0 : layer->out.size[0], weights = layer->n_params - biases;
        const float *grads = train_network_grads(p->network) + layer->first_param;
        assert_arrays(grads, expected + layer->first_param, weights, FLOAT32);
        assert_arrays(grads + weights, expected + layer->first_param + weights, biases, FLOAT32);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------------------
 */

static const train_layer_kind activations[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
static const train_loss_kind losses[] = {TRAIN_MSE, TRAIN_CROSS_ENTROPY};

static void whole_networks(void **state) {
    (void)state;
    static const char *const texts[] = {"linear", "1", "7,5", "3x6"};
    train_device *device = make_device(1);
    for (int64_t t = 0; t < COUNT(texts); t++)
        for (int64_t a = 0; a < COUNT(activations); a++)
            for (int64_t k = 0; k < COUNT(losses); k++) {
                train_network *network = make_parsed(device, texts[t], activations[a], 4, 3, 9);
                problem p = make_problem(network, losses[k], 9);
                check_problem(&p);
            }
}

/* One output takes another path through BLAS; more inputs than units; blocks of rows that do not divide the batch. */
static void shapes_of_layers(void **state) {
    (void)state;
    train_device *device = make_device(2);
    static const struct {
        const char *text;
        int64_t inputs, outputs, rows;
    } cases[] = {{"5", 1, 1, 33}, {"1,1", 3, 1, 17}, {"4", 19, 2, 70}, {"linear", 70, 63, 70}, {"2", 2, 17, 300}};
    for (int64_t c = 0; c < COUNT(cases); c++) {
        train_network *network =
            make_parsed(device, cases[c].text, TRAIN_TANH, cases[c].inputs, cases[c].outputs, cases[c].rows);
        problem p = make_problem(network, TRAIN_MSE, cases[c].rows);
        check_problem(&p);
    }
}

static void taps(void **state) {
    (void)state;
    train_device *device = make_device(1);
    static const int64_t layers[] = {0, 1, 3, 6}; /* dense, activation, activation, the output */
    for (int64_t a = 0; a < COUNT(activations); a++)
        for (int64_t k = 0; k < COUNT(losses); k++) {
            train_network *network = make_parsed(device, "6,5,4", activations[a], 3, 2, 8);
            problem p = make_problem(network, losses[k], 8);
            put_taps(&p, layers, COUNT(layers));
            check_problem(&p);
        }
    float *tap = NULL, *again = NULL;
    train_ok(train_network_tap(networks[0], 1, &tap));
    train_ok(train_network_tap(networks[0], 1, &again));
    assert_ptr_equal(tap, again);
    train_refused(train_network_tap(networks[0], 7, &tap), CIRCE_ERR_ARGUMENT, "no layer 7");
    train_refused(train_network_tap(networks[0], -1, &tap), CIRCE_ERR_ARGUMENT, "no layer -1");
}

/* Activations first and last, two in a row, and a layer that is not rowwise: it meets the whole batch, between segments
 * that are cut by rows. */
static train_device_ops mixed_ops;
static train_device mixed_device;
static train_layer_ops whole_batch_ops;
static train_layer_kind whole_batch_kind;
static void (*whole_batch_forward)(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                                   const float *in, float *out);

static void watched_forward(train_device *device, const train_layer *layer, int64_t rows, const float *params,
                            const float *in, float *out) {
    assert_int_equal(rows, 131);
    assert_int_equal(omp_get_max_threads(), circe_context_threads(device->context));
    whole_batch_forward(device, layer, rows, params, in, out);
}

static const train_layer_ops *mixed_layer(train_layer_kind kind) {
    return kind == whole_batch_kind ? &whole_batch_ops : devices[0]->ops->layer(kind);
}

static void segments(void **state) {
    (void)state;
    static const train_layer_spec specs[] = {
        {.kind = TRAIN_TANH},
        {.kind = TRAIN_DENSE, .width = 40},
        {.kind = TRAIN_LEAKY_RELU, .slope = 0.3f},
        {.kind = TRAIN_TANH},
        {.kind = TRAIN_TANH},
        {.kind = TRAIN_DENSE, .width = 17},
        {.kind = TRAIN_RELU},
        {.kind = TRAIN_DENSE, .width = 6},
        {.kind = TRAIN_TANH},
    };
    static const int64_t layers[] = {0, 2, 3, 4, 5, 8};
    train_device *device = make_device(3);
    mixed_device = (train_device){.ops = &mixed_ops, .context = device->context};
    mixed_ops = *device->ops;
    mixed_ops.layer = mixed_layer;
    for (int64_t k = 0; k < 2; k++) {
        whole_batch_kind = k == 0 ? TRAIN_TANH : TRAIN_DENSE;
        whole_batch_ops = *device->ops->layer(whole_batch_kind);
        whole_batch_forward = whole_batch_ops.forward;
        whole_batch_ops.rowwise = false;
        whole_batch_ops.forward = watched_forward;
        train_network *network = make_network(&mixed_device, 3, specs, COUNT(specs), 131);
        assert_true(train_network_layer(network, 2)->slope == 0.3f);
        problem p = make_problem(network, losses[k], 131);
        put_taps(&p, layers, COUNT(layers));
        check_problem(&p);
    }
}

/* d_in of each kind of layer by itself, which networks show only by what it does to the layers below; and that grads
 * are added to, and NULL is no request. */
static void single_layers(void **state) {
    (void)state;
    enum { ROWS = 21, IN = 10, OUT = 6 };
    const double step = 1e-5;
    train_device *device = make_device(1);
    static const train_layer_kind kinds[] = {TRAIN_DENSE, TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    for (int64_t k = 0; k < COUNT(kinds); k++) {
        const train_layer_spec spec = {.kind = kinds[k], .width = OUT};
        train_network *network = make_network(device, IN, &spec, 1, ROWS);
        const train_layer *layer = train_network_layer(network, 0);
        const train_layer_ops *ops = device->ops->layer(kinds[k]);
        int64_t out = train_shape_count(layer->out), n_params = layer->n_params;
        float *in = normals(1, ROWS * IN), *grad_out = normals(2, ROWS * out), *kept = normals(2, ROWS * out);
        float *made = normals(3, ROWS * out), *grad_in = normals(4, ROWS * IN), *grads = normals(5, n_params + 1);
        float *again = normals(5, n_params + 1), *params = train_network_params(network);
        double *x = doubles(in, ROWS * IN), *w = doubles(params, n_params), *y = test_memory(ROWS * OUT * 80);
        double *expected = test_memory(ROWS * IN * sizeof *expected);
        ops->forward(device, layer, ROWS, params, in, made);
        for (int64_t i = 0; i < ROWS * IN; i++)
            for (int side = -1; side <= 1; side += 2) {
                double before = x[i];
                x[i] = before + side * step;
                plain_layer(layer, w, ROWS, x, y);
                for (int64_t e = 0; e < ROWS * out; e++) expected[i] += side * (double)kept[e] * y[e] / (2.0 * step);
                x[i] = before;
            }
        ops->backward(device, layer, ROWS, params, in, made, grad_out, grad_in, grads);
        assert_arrays(grad_in, expected, ROWS * IN, FLOAT32);
        memcpy(grad_out, kept, (size_t)(ROWS * out) * sizeof *kept);
        ops->backward(device, layer, ROWS, params, in, made, grad_out, NULL, grads);
        memset(train_network_grads(network), 0, (size_t)n_params * sizeof(float));
        ops->backward(device, layer, ROWS, params, in, made, kept, NULL, train_network_grads(network));
        for (int64_t i = 0; i < n_params; i++)
            assert_near(grads[i], again[i] + 2.0 * (double)train_network_grads(network)[i], FLOAT32, 10.0);
        assert_true(grads[n_params] == again[n_params]);
    }
}

/* The step towards float32: the real forward, along random directions. The loss is summed in double, but predictions
 * carry 1e-6; a step of 1e-2 |params| moves the loss by some percent, so the quotient is good to 1e-4, and to 1e-3 with
 * the curvature of the step and the kinks that it crosses. */
static void along_directions(void **state) {
    (void)state;
    enum { ROWS = 256 };
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, "3x32", TRAIN_TANH, 3, 1, ROWS);
    problem p = make_problem(network, TRAIN_MSE, ROWS);
    int64_t n = train_network_n_params(network);
    float *params = train_network_params(network), *kept = test_memory((size_t)n * sizeof *kept);
    memcpy(kept, params, (size_t)n * sizeof *kept);
    for (uint64_t d = 0; d < 5; d++) {
        const float *direction = normals(300 + d, n);
        const double step = 1e-3;
        double side[2], slope = 0.0, size = 0.0;
        forward_backward(&p);
        for (int64_t i = 0; i < n; i++) {
            slope += (double)train_network_grads(network)[i] * (double)direction[i];
            size += (double)train_network_grads(network)[i] * (double)train_network_grads(network)[i];
        }
        for (int s = 0; s < 2; s++) {
            for (int64_t i = 0; i < n; i++) params[i] = (float)((double)kept[i] + (2 * s - 1) * step * direction[i]);
            train_ok(train_network_forward(network, ROWS, p.in));
            device->ops->loss(device, TRAIN_MSE, ROWS, 1, train_network_output(network), p.target, &side[s], NULL);
        }
        memcpy(params, kept, (size_t)n * sizeof *kept);
        assert_near((side[1] - side[0]) / (2.0 * step), slope, 1e-3, sqrt(size));
    }
}

/* Gradients against float64 along random directions, for networks of too many parameters to take one by one. A step of
 * 1e-8 meets hardly a kink, and rounding leaves 1e-6 of the quotient; a unit that is on the other side of its kink in
 * float32 costs up to 1e-4. */
static void check_directions(const problem *p) {
    const double step = 1e-8;
    int64_t n = train_network_n_params(p->network);
    double *params = doubles(train_network_params(p->network), n), *moved = test_memory((size_t)n * sizeof *moved);
    double size = 0.0;
    forward_backward(p);
    const float *grads = train_network_grads(p->network);
    for (int64_t i = 0; i < n; i++) size += (double)grads[i] * (double)grads[i];
    for (uint64_t d = 0; d < 3; d++) {
        double side[2], slope = 0.0;
        const float *direction = normals(400 + d, n);
        for (int s = 0; s < 2; s++) {
            for (int64_t i = 0; i < n; i++) moved[i] = params[i] + (2 * s - 1) * step * (double)direction[i];
            side[s] = plain_objective(p, moved, NULL);
        }
        for (int64_t i = 0; i < n; i++) slope += (double)grads[i] * (double)direction[i];
        assert_near(slope, (side[1] - side[0]) / (2.0 * step), 1e-4, sqrt(size));
    }
}

/* The network of the experiments. */
static void nine_by_64(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        train_network *network = make_parsed(make_device(threads), "9x64", TRAIN_RELU, 3, 1, 256);
        problem p = make_problem(network, TRAIN_MSE, 256);
        static const int64_t layers[] = {17};
        put_taps(&p, layers, 1);
        assert_int_equal(train_network_n_params(network), 3 * 64 + 64 + 8 * (64 * 64 + 64) + 64 + 1);
        check_directions(&p);
    }
}

/* Layers beyond the sizes that are transposed (150 x 130), and beyond those that are cut into blocks (260 x 150). */
static void wide_layers(void **state) {
    (void)state;
    train_network *network = make_parsed(make_device(2), "260,150,130", TRAIN_TANH, 3, 2, 100);
    problem p = make_problem(network, TRAIN_MSE, 100);
    double *outputs[7], *params = doubles(train_network_params(network), train_network_n_params(network));
    for (int64_t l = 0; l < 7; l++) outputs[l] = test_memory(100 * 260 * sizeof *outputs[l]);
    check_directions(&p);
    plain_objective(&p, params, outputs);
    for (int64_t l = 0; l < 7; l++)
        assert_arrays(train_network_activation(network, l), outputs[l],
                      100 * train_shape_count(train_network_layer(network, l)->out), FLOAT32);
}

/* ---- losses -------------------------------------------------------------------------------------------------------
 */

static void loss_values(void **state) {
    (void)state;
    train_device *device = make_device(2);
    static const int64_t sizes[][2] = {{1, 1}, {1, 4}, {7, 3}, {256, 1}, {9000, 5}}; /* the last on two threads */
    for (int64_t k = 0; k < COUNT(losses); k++)
        for (int64_t s = 0; s < COUNT(sizes); s++) {
            int64_t n = sizes[s][0], cols = sizes[s][1];
            float *prediction = normals(1, n * cols), *target = targets(losses[k], n, cols);
            float *grad = test_memory((size_t)(n * cols) * sizeof *grad);
            double value, again, *expected = test_memory((size_t)(n * cols) * sizeof *expected);
            double *p = doubles(prediction, n * cols);
            device->ops->loss(device, losses[k], n, cols, prediction, target, &value, grad);
            device->ops->loss(device, losses[k], n, cols, prediction, target, &again, NULL);
            assert_near(value, plain_loss(losses[k], n, cols, p, target), 1e-7, fmax(1.0, value)); /* exp in float32 */
            assert_near(again, value, 1e-7, fmax(1.0, value));
            for (int64_t r = 0; r < n; r++)
                for (int64_t c = 0; c < cols; c++) /* of one row alone, for speed: rows do not meet */
                    for (int side = -1; side <= 1; side += 2) {
                        double kept = p[r * cols + c];
                        const float *own = target + (losses[k] == TRAIN_MSE ? r * cols : r);
                        p[r * cols + c] += side * 1e-5;
                        expected[r * cols + c] += side * plain_loss(losses[k], 1, cols, p + r * cols, own) / 2e-5;
                        p[r * cols + c] = kept;
                    }
            for (int64_t i = 0; i < n * cols; i++) expected[i] /= (double)n;
            /* one class: the gradient is zero */
            if (cols > 1 || losses[k] == TRAIN_MSE) assert_arrays(grad, expected, n * cols, FLOAT32);
        }
}

static void loss_extremes(void **state) {
    (void)state;
    train_device *device = make_device(1);
    const float far[] = {1000.0f, 0.0f, -1000.0f, -3e38f, 3e38f, 0.0f};
    const float classes[] = {0.0f, 1.0f};
    float grad[6];
    double value;
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, classes, &value, grad);
    assert_true(value == 0.0 && grad[0] == 0.0f && grad[1] == 0.0f);
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, &classes[1], &value, grad);
    assert_true(value == 1000.0 && grad[0] == 1.0f && grad[1] == -1.0f);
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 2, 3, far, classes, &value, grad);
    assert_true(value == 0.0);
    static const float none[] = {3.0f, -1.0f, 0.5f, 1e30f, NAN};
    for (int64_t k = 0; k < COUNT(none); k++) {
        device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, &none[k], &value, grad);
        assert_true(isnan(value));
    }
    const float broken[] = {0.0f, NAN, 0.0f};
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, broken, classes, &value, grad);
    assert_true(isnan(value));
    device->ops->loss(device, TRAIN_MSE, 1, 3, broken, far, &value, grad);
    assert_true(isnan(value));
}

/* A network that diverges must show it at its output, whatever its activation makes of NaN. */
static void not_a_number_passes(void **state) {
    (void)state;
    train_device *device = make_device(1);
    for (int64_t a = 0; a < COUNT(activations); a++) {
        train_network *network = make_parsed(device, "2x20", activations[a], 3, 1, 4);
        float *in = normals(1, 12);
        in[4] = NAN;
        train_ok(train_network_forward(network, 4, in));
        for (int r = 0; r < 4; r++) assert_int_equal(isnan(train_network_output(network)[r]) != 0, r == 1);
    }
}

/* ---- the optimiser ------------------------------------------------------------------------------------------------
 */

/* Three steps written out: rate 0.1, beta 0.9 and 0.999, epsilon 0.01, decay 0.5; p = 1, gradients 0.5, -0.3, 0.2. */
static void adamw_by_hand(void **state) {
    (void)state;
    double p = 1.0, m, v;
    p = p * (1.0 - 0.1 * 0.5);                                          /* 0.95 */
    m = 0.1 * 0.5;                                                      /* 0.05 */
    v = 0.001 * 0.25;                                                   /* 0.00025 */
    p = p - 0.1 * (m / (1.0 - 0.9)) / (sqrt(v / (1.0 - 0.999)) + 0.01); /* 0.5 / 0.51 */
    assert_near(p, 0.95 - 0.1 * 0.5 / 0.51, 1e-12, 1.0);
    double first = p;
    p = p * 0.95;
    m = 0.9 * m + 0.1 * -0.3;     /* 0.015 */
    v = 0.999 * v + 0.001 * 0.09; /* 0.00033975 */
    p = p - 0.1 * (m / (1.0 - 0.81)) / (sqrt(v / (1.0 - 0.998001)) + 0.01);
    double second = p;
    p = p * 0.95;
    m = 0.9 * m + 0.1 * 0.2;      /* 0.0335 */
    v = 0.999 * v + 0.001 * 0.04; /* 0.00037941025 */
    p = p - 0.1 * (m / (1.0 - 0.729)) / (sqrt(v / (1.0 - 0.997002999)) + 0.01);
    const double expected[] = {first, second, p};
    static const float gradients[] = {0.5f, -0.3f, 0.2f};

    enum { N = 37 }; /* vectors and a rest */
    train_device *device = make_device(1);
    float params[N], grads[N], means[N] = {0}, squares[N] = {0};
    for (int i = 0; i < N; i++) params[i] = 1.0f;
    for (int64_t s = 0; s < 3; s++) {
        const train_adamw how = {
            .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 0.01, .decay = 0.5, .step = s + 1};
        for (int i = 0; i < N; i++) grads[i] = gradients[s];
        device->ops->adamw(device, &how, N, grads, params, means, squares);
        for (int i = 0; i < N; i++) assert_near(params[i], expected[s], 3e-7, 1.0); /* a few roundings of float32 */
    }
    assert_near(means[N - 1], m, 1e-6, m);
    assert_near(squares[N - 1], v, 1e-6, v);
}

/* Parameters without gradient shrink by decay alone, and zeros stay zeros; threads make no difference at all. */
static void adamw_of_many(void **state) {
    (void)state;
    enum { N = 40001 };
    float *grads = normals(1, N), *one[3], *two[3];
    train_device *devices_of[2] = {make_device(1), make_device(2)};
    for (int k = 0; k < 3; k++) one[k] = test_memory(N * sizeof(float)), two[k] = test_memory(N * sizeof(float));
    for (int64_t i = 0; i < N; i++) one[0][i] = two[0][i] = i % 3 == 0 ? 0.0f : 1.0f;
    for (int64_t i = 0; i < N; i += 2) grads[i] = 0.0f;
    for (int64_t s = 1; s <= 4; s++) {
        const train_adamw how = {.rate = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.1, .step = s};
        devices_of[0]->ops->adamw(devices_of[0], &how, N, grads, one[0], one[1], one[2]);
        devices_of[1]->ops->adamw(devices_of[1], &how, N, grads, two[0], two[1], two[2]);
    }
    for (int k = 0; k < 3; k++) assert_memory_equal(one[k], two[k], N * sizeof(float));
    for (int64_t i = 0; i < N; i += 2) assert_near(one[0][i], i % 3 == 0 ? 0.0 : pow(1.0 - 1e-3, 4.0), 3e-7, 1.0);
}

#if defined(__x86_64__)
/* Moments that have decayed to denormal numbers become 0, and the caller's arithmetic stays as it was. */
static void adamw_of_denormals(void **state) {
    (void)state;
    const train_adamw how = {.rate = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = 5};
    train_device *device = make_device(1);
    float params[20] = {0}, grads[20] = {0}, means[20], squares[20];
    volatile float small = 1e-38f;
    for (int i = 0; i < 20; i++) means[i] = squares[i] = 1e-39f;
    device->ops->adamw(device, &how, 20, grads, params, means, squares);
    for (int i = 0; i < 20; i++) assert_true(means[i] == 0.0f && squares[i] == 0.0f);
    small = small * 0.1f;
    assert_true(small > 0.0f);
}
#else
static void adamw_of_denormals(void **state) { (void)state; }
#endif

/* ---- threads and batches ------------------------------------------------------------------------------------------
 */

/* `steps` steps of training from the same start; returns the parameters (owned by the network). */
static float *train_steps(train_network *network, train_device *device, int64_t rows, int64_t steps) {
    int64_t n = train_network_n_params(network);
    float *m = test_memory((size_t)n * sizeof *m), *v = test_memory((size_t)n * sizeof *v);
    problem p = make_problem(network, TRAIN_MSE, rows);
    for (int64_t s = 1; s <= steps; s++) {
        const train_adamw how = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.1, .step = s};
        forward_backward(&p);
        device->ops->adamw(device, &how, n, train_network_grads(network), train_network_params(network), m, v);
    }
    return train_network_params(network);
}

/* Gradients of 1, 2 and 3 threads differ by the order of sums over rows: 1e-6 of the largest of the layer. */
static void threads_agree(void **state) {
    (void)state;
    static const int64_t batches[] = {1, 2, 3, 5, 8, 17, 24, 255, 256};
    for (int64_t b = 0; b < COUNT(batches); b++) {
        double *first_grads = NULL, *first_output = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            train_device *device = make_device(threads);
            train_network *network = make_parsed(device, "9x64", TRAIN_RELU, 3, 2, 256);
            problem p = make_problem(network, TRAIN_MSE, batches[b]);
            int before = omp_get_max_threads();
            omp_set_num_threads(5); /* the caller's own setting */
            forward_backward(&p);
            assert_int_equal(omp_get_max_threads(), 5);
            omp_set_num_threads(before);
            int64_t n = train_network_n_params(network);
            if (threads == 1) {
                first_grads = doubles(train_network_grads(network), n);
                first_output = doubles(train_network_output(network), 2 * batches[b]);
            }
            assert_arrays(train_network_output(network), first_output, 2 * batches[b], ORDER);
            for (int64_t l = 0; l < train_network_n_layers(network); l++) {
                const train_layer *layer = train_network_layer(network, l);
                assert_arrays(train_network_grads(network) + layer->first_param, first_grads + layer->first_param,
                              layer->n_params, ORDER);
            }
        }
        clean(state);
    }
}

/* Threads in layers of different widths at the same time, which must not meet in a buffer. */
static void threads_keep_apart(void **state) {
    (void)state;
    double *expected = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        train_network *network = make_parsed(make_device(threads), "64,2,64,2,64,2,64", TRAIN_TANH, 3, 1, 256);
        problem p = make_problem(network, TRAIN_MSE, 256);
        int64_t n = train_network_n_params(network);
        for (int run = 0; run < (threads == 1 ? 1 : 100); run++) {
            forward_backward(&p);
            if (threads == 1) expected = doubles(train_network_grads(network), n);
            assert_arrays(train_network_grads(network), expected, n, ORDER);
        }
    }
}

static void same_bits(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        float *first = NULL;
        for (int run = 0; run < 4; run++) {
            train_device *device = make_device(threads);
            train_network *network = make_parsed(device, "9x64", TRAIN_RELU, 3, 1, 255);
            size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
            float *params = train_steps(network, device, 255, 12);
            if (run == 0) first = memcpy(test_memory(bytes), params, bytes);
            assert_memory_equal(params, first, bytes);
        }
    }
}

static int64_t team_mallocs;

static void in_first_part(void *user, int64_t part, int64_t first, int64_t n) {
    assert_int_equal(n, 1);
    assert_int_equal(first, part);
    if (part != 0) return;
    forward_backward(user);
    team_mallocs = mallocs_so_far();
    forward_backward(user);
    team_mallocs = mallocs_so_far() - team_mallocs;
}

/* Inside a team of the caller's there are no threads to be had; the parts are the same, and so are the bits; and
 * nothing is allocated for a team of one. */
static void inside_a_team(void **state) {
    (void)state;
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, "2x64", TRAIN_RELU, 3, 1, 64);
    problem p = make_problem(network, TRAIN_MSE, 64);
    size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
    forward_backward(&p);
    float *kept = memcpy(test_memory(bytes), train_network_grads(network), bytes);
    train_parallel(device->context, 2, 2, in_first_part, &p);
    assert_memory_equal(train_network_grads(network), kept, bytes);
    assert_int_equal(team_mallocs, 0);
}

static void count_items(void *user, int64_t part, int64_t first, int64_t n) {
    int *counts = user;
    (void)part;
    for (int64_t i = first; i < first + n; i++) counts[i]++;
}

/* Every item once, whatever divides what. */
static void parts_of_work(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        circe_context *context = test_context(threads);
        assert_int_equal(train_parts(context, 100, 1), threads);
        assert_int_equal(train_parts(context, 100, 50), threads < 2 ? 1 : 2);
        assert_int_equal(train_parts(context, 99, 50), 1);
        assert_int_equal(train_parts(context, 0, 50), 1);
        for (int64_t total = 0; total < 12; total++)
            for (int64_t parts = 1; parts < 6; parts++) {
                int counts[12] = {0};
                train_parallel(context, parts, total, count_items, counts);
                for (int64_t i = 0; i < 12; i++) assert_int_equal(counts[i], i < total);
            }
    }
}

/* A batch is its rows: outputs one by one, gradients as their mean; whatever batches came before. */
static void odd_batches(void **state) {
    (void)state;
    static const int64_t batches[] = {256, 1, 2, 255, 3, 5};
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, "3x48", TRAIN_LEAKY_RELU, 3, 2, 256);
    train_network *single = make_parsed(device, "3x48", TRAIN_LEAKY_RELU, 3, 2, 1);
    int64_t n = train_network_n_params(network);
    float *tap = NULL;
    train_ok(train_network_tap(network, 3, &tap));
    for (int64_t b = 0; b < COUNT(batches); b++) {
        problem all = make_problem(network, TRAIN_MSE, batches[b]);
        double *grads = test_memory((size_t)n * sizeof *grads), *outputs = test_memory(512 * sizeof *outputs);
        for (int64_t r = 0; r < batches[b]; r++) {
            problem one = {.network = single, .rows = 1, .loss = TRAIN_MSE};
            one.in = all.in + 3 * r;
            one.target = all.target + 2 * r;
            forward_backward(&one);
            for (int k = 0; k < 2; k++) outputs[2 * r + k] = (double)train_network_output(single)[k];
            for (int64_t i = 0; i < n; i++) grads[i] += (double)train_network_grads(single)[i] / (double)batches[b];
        }
        forward_backward(&all);
        assert_arrays(train_network_output(network), outputs, 2 * batches[b], ORDER);
        assert_arrays(train_network_grads(network), grads, n, ORDER);
    }
}

static void batches_refused(void **state) {
    (void)state;
    train_network *network = make_parsed(make_device(1), "4", TRAIN_RELU, 3, 1, 8);
    const float *in = normals(1, 27);
    train_refused(train_network_backward(network, 8, in), CIRCE_ERR_ARGUMENT, "backward of 8 rows");
    train_refused(train_network_forward(network, 9, in), CIRCE_ERR_ARGUMENT,
                  "a batch of 9 rows; the network was made "
                  "for 1 to 8");
    train_refused(train_network_forward(network, 0, in), CIRCE_ERR_ARGUMENT, "a batch of 0 rows");
    train_refused(train_network_forward(network, 1, NULL), CIRCE_ERR_ARGUMENT, "NULL");
    train_ok(train_network_forward(network, 5, in));
    train_refused(train_network_backward(network, 6, in), CIRCE_ERR_ARGUMENT, "the last forward had 5");
    train_ok(train_network_backward(network, 5, in));
}

static void predictions(void **state) {
    (void)state;
    enum { ROWS = 37 };
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, "12,9", TRAIN_TANH, 3, 2, 10);
    train_network *large = make_parsed(device, "12,9", TRAIN_TANH, 3, 2, ROWS);
    const float *in = normals(1, 3 * ROWS);
    float out[2 * ROWS + 1];
    out[2 * ROWS] = 5.0f;
    train_ok(train_network_predict(network, ROWS, in, out));
    train_ok(train_network_forward(large, ROWS, in));
    assert_arrays(out, doubles(train_network_output(large), 2 * ROWS), 2 * ROWS, ORDER);
    assert_true(out[2 * ROWS] == 5.0f);
    train_ok(train_network_predict(network, 0, NULL, NULL));
    train_refused(train_network_predict(network, 1, in, NULL), CIRCE_ERR_ARGUMENT, "NULL");
    train_refused(train_network_predict(network, -1, in, out), CIRCE_ERR_ARGUMENT, "-1 rows");
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */

static train_device *make_counting_device(int threads) { return train_counting(make_device(threads)); }

/* From the second step on, neither of the device nor of the process, on any thread. */
static void no_allocation_in_a_step(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        train_device *device = make_counting_device(threads);
        train_network *network = make_parsed(device, "9x64", TRAIN_RELU, 3, 1, 256);
        int64_t n = train_network_n_params(network), index[256];
        float *m = test_memory((size_t)n * sizeof *m), *v = test_memory((size_t)n * sizeof *v), *tap = NULL;
        float *rows = test_memory(256 * 3 * sizeof *rows);
        problem p = make_problem(network, TRAIN_MSE, 256);
        train_ok(train_network_tap(network, 3, &tap));
        for (int64_t i = 0; i < 256; i++) index[i] = 255 - i;
        int64_t mallocs = 0, blocks = 0;
        for (int64_t s = 1; s <= 10; s++) {
            const train_adamw how = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = s};
            if (s == 2) {
                mallocs = mallocs_so_far();
                blocks = train_counts.allocations;
            }
            device->ops->gather(device, p.in, 3, index, 256, rows);
            problem own = p;
            own.in = rows;
            own.rows = s == 5 ? 100 : 256;
            forward_backward(&own);
            device->ops->adamw(device, &how, n, train_network_grads(network), train_network_params(network), m, v);
        }
        assert_int_equal(mallocs_so_far(), mallocs);
        assert_int_equal(train_counts.allocations, blocks);
    }
}

static void memory_that_fails(void **state) {
    (void)state;
    train_device *device = make_counting_device(2);
    train_layer_spec *specs = NULL;
    int64_t n = 0, k;
    train_shape input = {1, {3}};
    train_ok(train_network_parse("4x64", TRAIN_RELU, 1, &specs, &n));
    for (k = 0; k < 100; k++) {
        train_network *network = NULL;
        train_counts.allocations = 0;
        train_counts.fail_at = k;
        circe_status status = train_network_create(device, input, specs, n, 64, &network);
        if (status == CIRCE_OK) {
            train_network_destroy(network);
            break;
        }
        assert_int_equal(status, CIRCE_ERR_MEMORY);
        assert_null(network);
        assert_int_equal(train_counts.live, 0);
        assert_string_equal(train_last_error(), "told to fail");
    }
    assert_true(k > 10 && k < 100);
    free(specs);
    train_counts.fail_at = -1;
    train_network *network = make_parsed(device, "4", TRAIN_RELU, 3, 1, 8);
    float *tap = NULL;
    train_counts.fail_at = train_counts.allocations;
    train_refused(train_network_tap(network, 0, &tap), CIRCE_ERR_MEMORY, "told to fail");
    train_ok(train_network_tap(network, 0, &tap));
    assert_null(train_counts.counted->allocate(device, SIZE_MAX - 8));
    train_counts.counted->release(device, NULL);
    float *block = train_counts.counted->allocate(device, 1000);
    assert_true((uintptr_t)block % 64 == 0);
    for (int i = 0; i < 250; i++) assert_true(block[i] == 0.0f);
    train_counts.counted->release(device, block);
}

static void loops_over_numbers(void **state) {
    (void)state;
    enum { ROWS = 30011, COLS = 5 };
    train_device *device = make_device(3);
    float *x = normals(1, ROWS * COLS), *y = normals(2, ROWS * COLS), *kept = normals(2, ROWS * COLS);
    int64_t *index = test_memory(ROWS * sizeof *index);
    device->ops->add(device, ROWS * COLS, -0.5f, x, y);
    for (int64_t i = 0; i < ROWS * COLS; i++) assert_near(y[i], kept[i] - 0.5 * (double)x[i], 1e-6, 1.0);
    for (int64_t i = 0; i < ROWS; i++) index[i] = (i * 7919) % ROWS;
    device->ops->gather(device, x, COLS, index, ROWS, y);
    for (int64_t i = 0; i < ROWS; i++) assert_memory_equal(y + i * COLS, x + index[i] * COLS, COLS * sizeof *x);
    device->ops->zero(device, 7, y);
    for (int64_t i = 0; i < 7; i++) assert_true(y[i] == 0.0f);
    assert_true(y[7] == x[index[1] * COLS + 2]);
}

/* ---- what networks are made of ------------------------------------------------------------------------------------
 */

static void networks_refused(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = (train_network *)device; /* must be overwritten */
    train_shape input = {1, {3}};
    train_layer_spec dense = {.kind = TRAIN_DENSE, .width = 2}, bad = dense;
    train_refused(train_network_create(device, input, &dense, 0, 1, &network), CIRCE_ERR_ARGUMENT, "1 to 2001 layers");
    assert_null(network);
    train_refused(train_network_create(device, input, &dense, 1, 0, &network), CIRCE_ERR_ARGUMENT, "max_batch is 0");
    train_refused(train_network_create(NULL, input, &dense, 1, 1, &network), CIRCE_ERR_ARGUMENT, "NULL");
    input.size[0] = 0;
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_SHAPE, "size 0");
    input = (train_shape){2, {3, 3}};
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_SHAPE, "1 or 3 dimensions");
    input = (train_shape){1, {3}};
    bad.width = 0;
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT,
                  "layer 0: its width is 0");
    bad.kind = (train_layer_kind)99;
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT, "no kind 99");
    bad = (train_layer_spec){.kind = TRAIN_LEAKY_RELU, .slope = -1.0f};
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT, "slope");
    input.size[0] = INT32_MAX;
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_ARGUMENT, "too many weights");
}

/* A device without a kind of layer says so. */
static const train_layer_ops *no_tanh(train_layer_kind kind) {
    return kind == TRAIN_TANH ? NULL : devices[0]->ops->layer(kind);
}

static void layers_of_a_network(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_LEAKY_RELU, 3, 2, 4);
    assert_int_equal(train_network_n_layers(network), 5);
    assert_int_equal(train_network_n_params(network), 8 * 4 + 5 * 9 + 2 * 6);
    static const int64_t first[] = {0, 32, 32, 77, 77}, inputs[] = {3, 8, 8, 5, 5}, outputs[] = {8, 8, 5, 5, 2};
    for (int64_t l = 0; l < 5; l++) {
        const train_layer *layer = train_network_layer(network, l);
        char name[8];
        snprintf(name, sizeof name, "%d", (int)l);
        assert_string_equal(layer->name, name);
        assert_int_equal(train_network_find(network, name), l);
        assert_int_equal(layer->first_param, first[l]);
        assert_int_equal(train_shape_count(layer->in), inputs[l]);
        assert_int_equal(train_shape_count(layer->out), outputs[l]);
        if (l % 2 == 1) assert_true(layer->slope == 0.01f);
    }
    assert_int_equal(train_network_find(network, "output"), 4);
    assert_int_equal(train_network_find(network, "5"), -1);
    assert_int_equal(train_network_find(network, "input"), -1);
    assert_null(train_network_layer(network, 5));
    assert_null(train_network_activation(network, -1));
    train_device_ops poorer = *device->ops;
    poorer.layer = no_tanh;
    train_device other = {.ops = &poorer, .context = device->context};
    const train_layer_spec spec = {.kind = TRAIN_TANH};
    train_network *refused_network = NULL;
    train_shape image = {3, {1, 4, 5}};
    train_refused(train_network_create(&other, image, &spec, 1, 1, &refused_network), CIRCE_ERR_UNSUPPORTED,
                  "layer 0: cpu has no tanh layers");
    const train_layer_spec pair[] = {{.kind = TRAIN_RELU}, {.kind = TRAIN_DENSE, .width = 2}};
    train_ok(train_network_create(device, image, pair, 2, 1, &networks[n_networks]));
    assert_int_equal(train_network_layer(networks[n_networks++], 1)->fan_in, 20);
}

/* Weights N(0, 2 / fan_in): moments of 64 * 500 draws, five standard errors; biases 0. */
static void initialisation(void **state) {
    (void)state;
    enum { IN = 64, OUT = 500, N = IN * OUT };
    const train_layer_spec specs[] = {{.kind = TRAIN_DENSE, .width = OUT},
                                      {.kind = TRAIN_RELU},
                                      {.kind = TRAIN_DENSE, .width = IN},
                                      {.kind = TRAIN_DENSE, .width = OUT}};
    train_network *network = make_network(make_device(2), IN, specs, COUNT(specs), 4);
    const float *params = train_network_params(network);
    double first = 0.0, second = 0.0, fourth = 0.0, cross = 0.0;
    const float *last = params + train_network_layer(network, 3)->first_param;
    for (int64_t i = 0; i < N; i++) {
        double z = (double)params[i] / sqrt(2.0 / IN);
        first += z / N, second += z * z / N, fourth += z * z * z * z / N,
            cross += z * (double)last[i] * sqrt(IN / 2.0) / N;
    }
    assert_near(first, 0.0, 5.0, sqrt(1.0 / N));
    assert_near(second, 1.0, 5.0, sqrt(2.0 / N));
    assert_near(fourth, 3.0, 5.0, sqrt(96.0 / N));
    assert_near(cross, 0.0, 5.0, sqrt(1.0 / N)); /* layers of the same shape are drawn independently */
    for (int64_t i = 0; i < OUT; i++) assert_true(params[N + i] == 0.0f);
}

/* Weights and biases uniform in +-1 / sqrt(fan_in), of a dense layer. */
static void uniform_start(void **state) {
    (void)state;
    enum { IN = 64, OUT = 300, N = IN * OUT + OUT };
    train_network *network = make_parsed(make_device(2), "300", TRAIN_RELU, IN, 1, 4);
    train_ok(train_network_initialise(network, TRAIN_START_UNIFORM, 3));
    assert_true(train_network_start(network) == TRAIN_START_UNIFORM);
    const float *params = train_network_params(network);
    double first = 0.0, second = 0.0, fourth = 0.0, most = 0.0, bias = 0.0;
    for (int64_t i = 0; i < N; i++) {
        double u = (double)params[i] * sqrt((double)IN);
        first += u / N, second += u * u / N, fourth += u * u * u * u / N, most = fmax(most, fabs(u));
        if (i >= IN * OUT) bias += u * u / OUT;
    }
    assert_true(most <= 1.0 && most > 0.999);
    assert_near(first, 0.0, 5.0, sqrt(1.0 / 3.0 / N));
    assert_near(second, 1.0 / 3.0, 5.0, sqrt(4.0 / 45.0 / N));
    assert_near(fourth, 1.0 / 5.0, 5.0, sqrt(16.0 / 225.0 / N));
    assert_near(bias, 1.0 / 3.0, 5.0, sqrt(4.0 / 45.0 / OUT));
    double drawn[60];
    circe_random_uniform((circe_random){3, 0}, 0, 60, drawn);
    for (int64_t i = 0; i < 60; i++) assert_true(params[i] == (float)(2.0 / 8.0 * (drawn[i] - 0.5)));
}

/* A function of seed, layer and place alone: the number of threads, the batch and the other layers do not enter. */
static void initialisation_is_a_function(void **state) {
    (void)state;
    train_network *one = make_parsed(make_device(1), "20,9", TRAIN_RELU, 3, 1, 16);
    train_network *three = make_parsed(make_device(3), "20,30", TRAIN_TANH, 3, 2, 300);
    size_t shared = (3 * 20 + 20) * sizeof(float);
    train_ok(train_network_initialise(one, TRAIN_START_HE, 11));
    train_ok(train_network_initialise(three, TRAIN_START_HE, 11));
    assert_memory_equal(train_network_params(one), train_network_params(three), shared);
    double normal[60];
    circe_random_normal((circe_random){11, 2}, 0, 60, normal);
    for (int64_t i = 0; i < 60; i++)
        assert_true(train_network_params(one)[80 + i] == (float)(sqrt(2.0 / 20.0) * normal[i]));
    train_ok(train_network_initialise(three, TRAIN_START_HE, 12));
    assert_memory_not_equal(train_network_params(one), train_network_params(three), shared);
}

/* ---- text ---------------------------------------------------------------------------------------------------------
 */

static void assert_parsed(const char *text, const int64_t *widths, int64_t n) {
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    train_ok(train_network_parse(text, TRAIN_TANH, 3, &specs, &n_specs));
    assert_int_equal(n_specs, 2 * n + 1);
    for (int64_t l = 0; l < n; l++) {
        assert_true(specs[2 * l].kind == TRAIN_DENSE && specs[2 * l].width == widths[l]);
        assert_true(specs[2 * l + 1].kind == TRAIN_TANH);
    }
    assert_true(specs[2 * n].kind == TRAIN_DENSE && specs[2 * n].width == 3);
    free(specs);
}

static void texts_read(void **state) {
    (void)state;
    static const int64_t nine[] = {64, 64, 64, 64, 64, 64, 64, 64, 64}, pair[] = {64, 32}, wide[] = {16384};
    static const int64_t mixed[] = {8, 8, 4};
    assert_parsed("9x64", nine, 9);
    assert_parsed("64,32", pair, 2);
    assert_parsed("1x64,32", pair, 2);
    assert_parsed("2x8,4", mixed, 3);
    assert_parsed("64", pair, 1);
    assert_parsed("16384", wide, 1);
    assert_parsed("linear", NULL, 0);
}

static void texts_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "expected a number"},
        {"0", "1 to 16384 units"},
        {"-3", "expected a number"},
        {"64,", "expected a number"},
        {",64", "expected a number"},
        {"64;32", "separated by commas"},
        {"9x", "after 'x'"},
        {"x64", "expected a number"},
        {"0x64", "1 to 1000 hidden"},
        {"9x0", "1 to 16384 units"},
        {"9x64x3", "nothing else"},
        {"64 ", "nothing else"},
        {" 64", "expected a number"},
        {"16385", "1 to 16384 units"},
        {"6.5", "separated by commas"},
        {"1001x4", "1 to 1000 hidden"},
        {"1e3", "separated by commas"},
        {"99999999999999999999999", "1 to 16384 units"},
        {"Linear", "expected a number"},
        {"linear,64", "expected a number"},
        {"600x4,600x4", "1 to 1000"},
        {"99999999999999999999x1", "1 to 1000"},
    };
    for (int64_t k = 0; k < COUNT(cases); k++) {
        train_layer_spec *specs = (train_layer_spec *)&specs;
        int64_t n = 5;
        train_refused(train_network_parse(cases[k].text, TRAIN_RELU, 1, &specs, &n), CIRCE_ERR_ARGUMENT, cases[k].says);
        char shown[80];
        snprintf(shown, sizeof shown, "network '%s'", cases[k].text);
        assert_non_null(strstr(train_last_error(), shown));
        assert_true(specs == NULL && n == 0);
    }
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_refused(train_network_parse("4", TRAIN_DENSE, 1, &specs, &n), CIRCE_ERR_ARGUMENT, "activation");
    train_refused(train_network_parse("4", TRAIN_RELU, 0, &specs, &n), CIRCE_ERR_ARGUMENT, "0 outputs");
    train_refused(train_network_parse(NULL, TRAIN_RELU, 1, &specs, &n), CIRCE_ERR_ARGUMENT, "NULL");
}

/* ---- named tensors ------------------------------------------------------------------------------------------------
 */

static circe_tensor_file *open_tensors(circe_context *context, const char *path) {
    circe_tensor_file *file = NULL;
    assert_ok(circe_tensor_file_open(context, path, &file));
    return file;
}

/* Parameters and two more vectors of the same shape, as a checkpoint holds them: names under three prefixes at once. */
static void tensors_round_trip(void **state) {
    (void)state;
    static const char *const prefixes[] = {"", "m.", "v."};
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_RELU, 3, 2, 4);
    int64_t n = train_network_n_params(network), n_tensors = train_network_n_tensors(network);
    assert_int_equal(n_tensors, 6);
    circe_tensor tensors[18];
    float *flat[3] = {train_network_params(network), normals(1, n), normals(2, n)};
    for (int k = 0; k < 3; k++) train_ok(train_network_tensors(network, flat[k], prefixes[k], tensors + 6 * k));
    assert_string_equal(tensors[0].name, "0.weight");
    assert_string_equal(tensors[5].name, "4.bias");
    assert_string_equal(tensors[8].name, "m.2.weight");
    assert_true(tensors[2].n_dims == 2 && tensors[2].shape[0] == 5 && tensors[2].shape[1] == 8);
    assert_true(tensors[3].n_dims == 1 && tensors[3].shape[0] == 5);
    assert_true(tensors[2].data == flat[0] + 32 && tensors[3].data == flat[0] + 72);
    const char *path = test_path("network.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 18, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    float *read = test_memory((size_t)n * sizeof *read);
    for (int k = 0; k < 3; k++) {
        train_ok(train_network_read_tensors(network, file, prefixes[k], read));
        assert_memory_equal(read, flat[k], (size_t)n * sizeof *read);
    }
    circe_tensor_file_close(file);
}

static void tensors_refused(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_RELU, 3, 2, 4);
    train_network *wider = make_parsed(device, "8,6", TRAIN_RELU, 3, 2, 4);
    train_network *deeper = make_parsed(device, "8,5,2", TRAIN_RELU, 3, 2, 4);
    circe_tensor tensors[6];
    train_ok(train_network_tensors(network, train_network_params(network), "", tensors));
    const char *path = test_path("network.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 6, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    float flat[200], *kept = normals(3, 200);
    memcpy(flat, kept, sizeof flat);
    train_refused(train_network_read_tensors(wider, file, "", flat), CIRCE_ERR_SHAPE,
                  "tensor '2.weight' is (5, 8) in the file; this network needs (6, 8)");
    train_refused(train_network_read_tensors(deeper, file, "", flat), CIRCE_ERR_FORMAT, "no tensor '6.weight'");
    train_refused(train_network_read_tensors(network, file, "m.", flat), CIRCE_ERR_FORMAT, "no tensor 'm.0.weight'");
    train_refused(train_network_read_tensors(network, NULL, "", flat), CIRCE_ERR_ARGUMENT, "NULL");
    assert_memory_equal(flat, kept, sizeof flat);
    circe_tensor_file_close(file);
}

/* float64 is converted; other numbers, and other dimensions of as many numbers, are refused. */
static void tensors_of_others(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "linear", TRAIN_RELU, 2, 2, 4);
    const double weight[] = {1.5, -2.5, 3.5, 0.25}, bias[] = {7.0, 8.0};
    const int32_t whole[] = {1, 2};
    float flat[6];
    circe_tensor tensors[] = {
        {.name = "0.weight", .dtype = "F64", .n_dims = 2, .shape = {2, 2}, .data = weight, .bytes = sizeof weight},
        {.name = "0.bias", .dtype = "F64", .n_dims = 1, .shape = {2}, .data = bias, .bytes = sizeof bias},
    };
    const char *path = test_path("other.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    train_ok(train_network_read_tensors(network, file, "", flat));
    circe_tensor_file_close(file);
    for (int i = 0; i < 4; i++) assert_true(flat[i] == (float)weight[i]);
    assert_true(flat[4] == 7.0f && flat[5] == 8.0f);

    tensors[0].n_dims = 1;
    tensors[0].shape[0] = 4;
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    file = open_tensors(device->context, path);
    train_refused(train_network_read_tensors(network, file, "", flat), CIRCE_ERR_SHAPE,
                  "'0.weight' is (4) in the file; this network needs (2, 2)");
    circe_tensor_file_close(file);

    tensors[0].n_dims = 2;
    tensors[0].shape[0] = 2;
    tensors[1].data = whole;
    tensors[1].bytes = sizeof whole;
    snprintf(tensors[1].dtype, sizeof tensors[1].dtype, "I32");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    file = open_tensors(device->context, path);
    train_refused(train_network_read_tensors(network, file, "", flat), CIRCE_ERR_FORMAT,
                  "tensor '0.bias' is of dtype I32");
    circe_tensor_file_close(file);
}

/* ---- schedule -----------------------------------------------------------------------------------------------------
 */

static void schedules(void **state) {
    (void)state;
    const train_schedule constant = {0};
    assert_true(train_schedule_at(&constant, 0) == 1.0 && train_schedule_at(&constant, 1000) == 1.0);
    const train_schedule warm = {.warmup = 4, .total = 100};
    for (int64_t s = 0; s < 4; s++) assert_near(train_schedule_at(&warm, s), (double)(s + 1) / 4.0, 1e-15, 1.0);
    assert_true(train_schedule_at(&warm, 4) == 1.0 && train_schedule_at(&warm, 99) == 1.0);
    const train_schedule cosine = {.warmup = 10, .total = 110, .cosine = 1, .last = 0.1};
    assert_near(train_schedule_at(&cosine, 9), 1.0, 1e-15, 1.0);
    assert_near(train_schedule_at(&cosine, 10), 1.0, 1e-15, 1.0);
    assert_near(train_schedule_at(&cosine, 60), 0.55, 1e-15, 1.0);
    assert_near(train_schedule_at(&cosine, 35), 0.1 + 0.9 * (0.5 + 0.5 * sqrt(0.5)), 1e-15, 1.0);
    assert_near(train_schedule_at(&cosine, 110), 0.1, 1e-15, 1.0);
    assert_near(train_schedule_at(&cosine, 500), 0.1, 1e-15, 1.0);
    for (int64_t s = 10; s < 110; s++) assert_true(train_schedule_at(&cosine, s + 1) < train_schedule_at(&cosine, s));
    const train_schedule short_run = {.warmup = 10, .total = 5, .cosine = 1}; /* ends during its warm-up */
    assert_near(train_schedule_at(&short_run, 4), 0.5, 1e-15, 1.0);
    assert_true(train_schedule_at(&short_run, 10) == 1.0);
}

#define CASE(function) cmocka_unit_test_teardown(function, clean)

TEST_MAIN("network", CASE(whole_networks), CASE(shapes_of_layers), CASE(taps), CASE(segments), CASE(single_layers),
          CASE(along_directions), CASE(nine_by_64), CASE(wide_layers), CASE(loss_values), CASE(loss_extremes),
          CASE(not_a_number_passes), CASE(adamw_by_hand), CASE(adamw_of_many), CASE(adamw_of_denormals),
          CASE(threads_agree), CASE(threads_keep_apart), CASE(same_bits), CASE(inside_a_team), CASE(parts_of_work),
          CASE(odd_batches), CASE(batches_refused), CASE(predictions), CASE(no_allocation_in_a_step),
          CASE(memory_that_fails), CASE(loops_over_numbers), CASE(networks_refused), CASE(layers_of_a_network),
          CASE(initialisation), CASE(uniform_start), CASE(initialisation_is_a_function), CASE(texts_read),
          CASE(texts_refused), CASE(tensors_round_trip), CASE(tensors_refused), CASE(tensors_of_others),
          CASE(schedules))
