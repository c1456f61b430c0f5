/* Networks and the CPU device: layers and losses against a plain float64 model of them, its derivatives by central
 * differences. (Threads, batches, memory and the optimiser: test_network_running; names, texts and files:
 * test_network_building.)
 *
 * FLOAT32, the recurring tolerance: the network computes in float32 (6e-8) through sums of up to some 256 terms and
 * some ten layers, compared with float64: 2e-5 of the largest number in the same array. */

#include "tests/measures/dense_support.h"

#define FLOAT32 2e-5

/* ---- a plain model of networks, in float64 ---------------------------------------------------------------------- */

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

/* ---- gradients -------------------------------------------------------------------------------------------------- */

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
            device->ops->loss(device, TRAIN_MSE, ROWS, 1, train_network_output(network), p.target, NULL, &side[s],
                              NULL);
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

/* ---- losses ----------------------------------------------------------------------------------------------------- */

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
            device->ops->loss(device, losses[k], n, cols, prediction, target, NULL, &value, grad);
            device->ops->loss(device, losses[k], n, cols, prediction, target, NULL, &again, NULL);
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

/* As the mean over rows, each alone: zeros, and more than 1; the gradient too. On two threads. */
static void loss_weights(void **state) {
    (void)state;
    enum { N = 9000, COLS = 3 };
    train_device *device = make_device(2);
    float *weight = test_memory(N * sizeof *weight);
    for (int64_t i = 0; i < N; i++) weight[i] = (float)(i % 4) / 1.5f;
    for (int64_t k = 0; k < COUNT(losses); k++) {
        float *prediction = normals(1, N * COLS), *target = targets(losses[k], N, COLS), grad[N * COLS], alone[COLS];
        int64_t step = losses[k] == TRAIN_MSE ? COLS : 1;
        double value, expected = 0.0;
        device->ops->loss(device, losses[k], N, COLS, prediction, target, weight, &value, grad);
        for (int64_t i = 0; i < N; i++) {
            double one;
            device->ops->loss(device, losses[k], 1, COLS, prediction + i * COLS, target + i * step, NULL, &one, alone);
            expected += (double)weight[i] * one / N;
            for (int64_t c = 0; c < COLS; c++)
                assert_near((double)grad[i * COLS + c], (double)(weight[i] * alone[c]) / N, 1e-6, 1.0 / N);
        }
        assert_near(value, expected, 1e-9, 1.0); /* sums of doubles, in another order */
    }
}

static void loss_extremes(void **state) {
    (void)state;
    train_device *device = make_device(1);
    const float far[] = {1000.0f, 0.0f, -1000.0f, -3e38f, 3e38f, 0.0f};
    const float classes[] = {0.0f, 1.0f};
    float grad[6];
    double value;
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, classes, NULL, &value, grad);
    assert_true(value == 0.0 && grad[0] == 0.0f && grad[1] == 0.0f);
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, &classes[1], NULL, &value, grad);
    assert_true(value == 1000.0 && grad[0] == 1.0f && grad[1] == -1.0f);
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 2, 3, far, classes, NULL, &value, grad);
    assert_true(value == 0.0);
    static const float none[] = {3.0f, -1.0f, 0.5f, 1e30f, NAN};
    for (int64_t k = 0; k < COUNT(none); k++) {
        device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, far, &none[k], NULL, &value, grad);
        assert_true(isnan(value));
    }
    const float broken[] = {0.0f, NAN, 0.0f};
    device->ops->loss(device, TRAIN_CROSS_ENTROPY, 1, 3, broken, classes, NULL, &value, grad);
    assert_true(isnan(value));
    device->ops->loss(device, TRAIN_MSE, 1, 3, broken, far, NULL, &value, grad);
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

TEST_MAIN("network", CASE(whole_networks), CASE(shapes_of_layers), CASE(taps), CASE(segments), CASE(single_layers),
          CASE(along_directions), CASE(nine_by_64), CASE(wide_layers), CASE(loss_values), CASE(loss_weights),
          CASE(loss_extremes), CASE(not_a_number_passes))
