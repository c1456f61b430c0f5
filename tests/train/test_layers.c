/* Layers of images and networks that branch: outputs and gradients against a plain float64 model of them, its
 * derivatives by central differences; against numbers that PyTorch computed; what batch norm remembers; what is stored
 * and what is merged. (Threads, batches and memory: test_layers_running; texts, names and weights of others:
 * test_layers_building.)
 *
 * The recurring tolerance is FLOAT32: the layers compute in float32 (6e-8) through sums of up to some 300 terms, some
 * ten layers and the division of batch norm, compared with float64: 5e-5 of the largest number of the same array. */
#include "tests/train/layers_support.h"
#include "train/layers.h"

#define FLOAT32 5e-5

/* ---- a plain model of layers, in float64 ------------------------------------------------------------------------ */

/* One layer for a whole batch; parameters and running statistics are the layer's own. */
typedef struct plain {
    const train_layer *layer;
    const double *params, *buffers;
    bool training;
    int64_t rows;
    const double *in, *other;
    double *out;
} plain;

/* Place of a number in (rows, channels, height, width); -1: outside. */
static int64_t place(train_shape s, int64_t r, int64_t c, int64_t y, int64_t x) {
    if (y < 0 || x < 0 || y >= s.size[1] || x >= s.size[2]) return -1;
    return ((r * s.size[0] + c) * s.size[1] + y) * s.size[2] + x;
}

static double plain_convolved(const plain *p, int64_t r, int64_t o, int64_t y, int64_t x) {
    const train_layer *l = p->layer;
    int64_t k = l->kernel, channels = l->in.size[0];
    double sum = l->bias ? p->params[l->out.size[0] * channels * k * k + o] : 0.0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++) {
                int64_t at = place(l->in, r, c, y * l->stride - l->padding + i, x * l->stride - l->padding + j);
                if (at >= 0) sum += p->params[((o * channels + c) * k + i) * k + j] * p->in[at];
            }
    return sum;
}

static double plain_largest(const plain *p, int64_t r, int64_t c, int64_t y, int64_t x) {
    const train_layer *l = p->layer;
    double largest = -INFINITY;
    for (int64_t i = 0; i < l->kernel; i++)
        for (int64_t j = 0; j < l->kernel; j++) {
            int64_t at = place(l->in, r, c, y * l->stride - l->padding + i, x * l->stride - l->padding + j);
            if (at >= 0) largest = fmax(largest, p->in[at]);
        }
    return largest;
}

/* Mean and variance of channel c over the batch; the variance over all numbers. */
static void plain_moments(const plain *p, int64_t c, double *mean, double *variance) {
    train_shape s = p->layer->in;
    int64_t points = s.size[1] * s.size[2];
    double n = (double)(p->rows * points);
    *mean = *variance = 0.0;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < points; i++) *mean += p->in[(r * s.size[0] + c) * points + i] / n;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < points; i++) {
            double off = p->in[(r * s.size[0] + c) * points + i] - *mean;
            *variance += off * off / n;
        }
}

static void plain_batch_norm(const plain *p) {
    train_shape s = p->layer->in;
    int64_t channels = s.size[0], points = s.size[1] * s.size[2];
    for (int64_t c = 0; c < channels; c++) {
        double mean = p->buffers[c], variance = p->buffers[channels + c];
        if (p->training) plain_moments(p, c, &mean, &variance);
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t i = 0; i < points; i++) {
                int64_t at = (r * channels + c) * points + i;
                p->out[at] = p->params[c] * (p->in[at] - mean) / sqrt(variance + 1e-5) + p->params[channels + c];
            }
    }
}

static void plain_windows(const plain *p, double (*value)(const plain *, int64_t, int64_t, int64_t, int64_t)) {
    train_shape s = p->layer->out;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < s.size[0]; c++)
            for (int64_t y = 0; y < s.size[1]; y++)
                for (int64_t x = 0; x < s.size[2]; x++) p->out[place(s, r, c, y, x)] = value(p, r, c, y, x);
}

static double plain_mean(const plain *p, int64_t r, int64_t c, int64_t y, int64_t x) {
    int64_t points = p->layer->in.size[1] * p->layer->in.size[2];
    double sum = 0.0;
    (void)y, (void)x;
    for (int64_t i = 0; i < points; i++) sum += p->in[(r * p->layer->in.size[0] + c) * points + i];
    return sum / (double)points;
}

static void plain_dense(const plain *p) {
    int64_t in = p->layer->fan_in, out = p->layer->out.size[0];
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = p->params[in * out + o];
            for (int64_t i = 0; i < in; i++) sum += p->params[o * in + i] * p->in[r * in + i];
            p->out[r * out + o] = sum;
        }
}

static double plain_element(const plain *p, int64_t i) {
    double x = p->in[i];
    switch (p->layer->kind) {
        case TRAIN_RELU:
            return x > 0.0 ? x : 0.0;
        case TRAIN_LEAKY_RELU:
            return x > 0.0 ? x : (double)p->layer->slope * x;
        case TRAIN_TANH:
            return tanh(x);
        case TRAIN_ADD:
            return x + p->other[i];
        default: /* flatten: the same order */
            return x;
    }
}

static void plain_layer(const plain *p) {
    switch (p->layer->kind) {
        case TRAIN_DENSE:
            plain_dense(p);
            return;
        case TRAIN_CONVOLUTION:
            plain_windows(p, plain_convolved);
            return;
        case TRAIN_MAX_POOL:
            plain_windows(p, plain_largest);
            return;
        case TRAIN_AVERAGE_POOL:
            plain_windows(p, plain_mean);
            return;
        case TRAIN_BATCH_NORM:
            plain_batch_norm(p);
            return;
        default:
            for (int64_t i = 0; i < p->rows * train_shape_count(p->layer->out); i++) p->out[i] = plain_element(p, i);
    }
}

static double plain_objective(const problem *p, const double *params, double **outputs) {
    double sum = 0.0;
    for (int64_t l = 0; l < train_network_n_layers(p->network); l++) {
        const train_layer *layer = train_network_layer(p->network, l);
        plain one = {.layer = layer,
                     .params = params + layer->first_param,
                     .buffers = p->buffers + layer->first_buffer,
                     .training = p->training,
                     .rows = p->rows,
                     .in = layer->from < 0 ? p->wide_in : outputs[layer->from],
                     .other = layer->other < 0 ? p->wide_in : outputs[layer->other],
                     .out = outputs[l]};
        plain_layer(&one);
        for (int64_t i = 0; p->weights[l] != NULL && i < numbers_of(p, l); i++)
            sum += (double)p->weights[l][i] * outputs[l][i];
    }
    return sum;
}

/* ---- the network against the model ------------------------------------------------------------------------------ */

static double **make_outputs(const problem *p) {
    int64_t n = train_network_n_layers(p->network);
    double **outputs = test_memory((size_t)n * sizeof *outputs);
    for (int64_t l = 0; l < n; l++) outputs[l] = test_memory((size_t)numbers_of(p, l) * sizeof(double));
    return outputs;
}

/* Rounding of float64 leaves 1e-8 at this step, and a larger one would meet kinks. */
static void plain_gradient(const problem *p, double **outputs, double *grads) {
    const double step = 1e-7;
    int64_t n = train_network_n_params(p->network);
    double *params = doubles(train_network_params(p->network), n);
    for (int64_t i = 0; i < n; i++) {
        double kept = params[i];
        params[i] = kept + step;
        double above = plain_objective(p, params, outputs);
        params[i] = kept - step;
        grads[i] = (above - plain_objective(p, params, outputs)) / (2.0 * step);
        params[i] = kept;
    }
}

/* Tensor by tensor: a wrong bias must not hide behind large weights. A gradient that is zero in truth (a bias before
 * batch norm) is compared with the largest of its layer. */
static void check_gradients(const problem *p, const double *expected) {
    const float *grads = train_network_grads(p->network);
    for (int64_t l = 0; l < train_network_n_layers(p->network); l++) {
        const train_layer *layer = train_network_layer(p->network, l);
        train_layer_tensor tensors[TRAIN_MAX_LAYER_TENSORS];
        int n = train_layer_type_of(layer->kind)->tensors(layer, tensors);
        for (int t = 0; t < n; t++) {
            int64_t at = layer->first_param + tensors[t].first;
            double scale = 0.0, largest = 0.0;
            for (int64_t i = 0; i < tensors[t].count; i++) scale = fmax(scale, fabs(expected[at + i]));
            for (int64_t i = 0; i < layer->n_params; i++)
                largest = fmax(largest, fabs(expected[layer->first_param + i]));
            if (scale < 1e-6 * largest) scale = largest;
            for (int64_t i = 0; i < tensors[t].count; i++)
                if (!(fabs((double)grads[at + i] - expected[at + i]) <= FLOAT32 * scale))
                    fail_msg("layer %s, %s[%d]: %g instead of %g (largest %g)", layer->name, tensors[t].name, (int)i,
                             (double)grads[at + i], expected[at + i], scale);
        }
    }
}

static void check_problem(const problem *p) {
    int64_t n = train_network_n_params(p->network);
    double **outputs = make_outputs(p), *expected = test_memory((size_t)n * sizeof *expected + 1);
    double *params = doubles(train_network_params(p->network), n);
    forward_backward(p);
    plain_objective(p, params, outputs);
    for (int64_t l = 0; l < train_network_n_layers(p->network); l++) {
        const float *made = train_network_activation(p->network, l);
        if (made != NULL) assert_arrays(made, outputs[l], numbers_of(p, l), FLOAT32);
        if (p->weights[l] != NULL) assert_non_null(made);
    }
    plain_gradient(p, outputs, expected);
    check_gradients(p, expected);
}

/* ---- networks of a few layers ----------------------------------------------------------------------------------- */

/* Strides, paddings, odd sizes, one channel, more channels than a block, one row; the network's input read plain (up to
 * three channels) and packed; images as the network's output. */
static void convolutions(void **state) {
    (void)state;
    static const struct {
        train_shape input;
        int64_t rows;
        train_layer_spec specs[3];
    } cases[] = {
        {{3, {1, 5, 7}}, 3, {CONV(3, 3, 1, 1), {.kind = TRAIN_LEAKY_RELU}, CONV(2, 2, 1, 0)}},
        {{3, {1, 1, 1}}, 1, {CONV(1, 1, 1, 0), {.kind = TRAIN_TANH}, CONV(1, 1, 1, 0)}},
        {{3, {2, 9, 6}}, 2, {CONV(17, 3, 2, 1), {.kind = TRAIN_RELU}, CONV(3, 3, 2, 2)}},
        {{3, {3, 8, 8}}, 1, {CONV(16, 5, 3, 2), {.kind = TRAIN_LEAKY_RELU, .slope = 0.3f}, CONV(5, 2, 1, 1)}},
        {{3, {5, 6, 4}}, 4, {CONV(7, 3, 1, 0), {.kind = TRAIN_TANH}, CONV(4, 1, 2, 0)}},
        {{3, {20, 4, 5}}, 2, {CONV(2, 4, 1, 3), {.kind = TRAIN_RELU}, CONV(33, 1, 1, 0)}},
    };
    for (int64_t c = 0; c < COUNT(cases); c++)
        for (int variant = 0; variant < 2; variant++) { /* one thread and biases, two and none */
            train_layer_spec specs[3];
            memcpy(specs, cases[c].specs, sizeof specs);
            specs[0].no_bias = specs[2].no_bias = variant == 1;
            train_device *device = make_device(1 + variant);
            train_network *network = make_network(device, cases[c].input, specs, 3, cases[c].rows);
            problem p = make_problem(network, device, cases[c].rows, true);
            check_problem(&p);
            clean(state);
        }
}

/* A convolution before them, whose gradient shows theirs. */
static void pools(void **state) {
    (void)state;
    static const struct {
        train_shape input;
        int64_t rows;
        train_layer_spec pool;
    } cases[] = {
        {{3, {1, 6, 8}}, 3, {.kind = TRAIN_MAX_POOL, .kernel = 2}},
        {{3, {2, 7, 5}}, 2, {.kind = TRAIN_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1}},
        {{3, {4, 5, 5}}, 1, {.kind = TRAIN_MAX_POOL, .kernel = 3, .stride = 1}},
        {{3, {1, 5, 3}}, 2, {.kind = TRAIN_AVERAGE_POOL}},
        {{3, {3, 1, 1}}, 1, {.kind = TRAIN_AVERAGE_POOL}},
    };
    for (int64_t c = 0; c < COUNT(cases); c++) {
        const train_layer_spec specs[] = {CONV(18, 3, 1, 1), cases[c].pool, CONV(3, 1, 1, 0)};
        train_device *device = make_device(2);
        train_network *network = make_network(device, cases[c].input, specs, COUNT(specs), cases[c].rows);
        problem p = make_problem(network, device, cases[c].rows, true);
        check_problem(&p);
        clean(state);
    }
}

/* On the network's input, packed. */
static void first_layers(void **state) {
    (void)state;
    static const train_layer_spec firsts[] = {
        {.kind = TRAIN_MAX_POOL, .kernel = 2},
        {.kind = TRAIN_BATCH_NORM},
        {.kind = TRAIN_AVERAGE_POOL},
        {.kind = TRAIN_FLATTEN},
        {.kind = TRAIN_RELU},
    };
    train_device *device = make_device(2);
    for (int64_t c = 0; c < COUNT(firsts); c++) {
        const train_layer_spec specs[] = {firsts[c], {.kind = TRAIN_FLATTEN}, {.kind = TRAIN_DENSE, .width = 3}};
        int64_t skip = firsts[c].kind == TRAIN_FLATTEN;
        train_network *network = make_network(device, (train_shape){3, {2, 4, 6}}, specs + skip, 3 - skip, 5);
        problem p = make_problem(network, device, 5, true);
        check_problem(&p);
    }
}

static void batch_norms(void **state) {
    (void)state;
    static const train_layer_kind activations[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    for (int64_t a = 0; a < COUNT(activations); a++)
        for (int training = 0; training < 2; training++) {
            const train_layer_spec specs[] = {CONV(5, 3, 1, 1),
                                              {.kind = TRAIN_BATCH_NORM},
                                              {.kind = activations[a]},
                                              CONV(17, 2, 2, 0),
                                              {.kind = TRAIN_BATCH_NORM},
                                              {.kind = TRAIN_FLATTEN},
                                              {.kind = TRAIN_DENSE, .width = 2}};
            train_device *device = make_device(2);
            train_network *network = make_network(device, (train_shape){3, {2, 4, 5}}, specs, COUNT(specs), 6);
            problem p = make_problem(network, device, 6, training);
            check_problem(&p);
            clean(state);
        }
}

/* ---- networks that branch --------------------------------------------------------------------------------------- */

/* A residual block with a shortcut of its own, and one without. */
static void residual_blocks(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++)
        for (int tapped = 0; tapped < 2; tapped++) {
            train_device *device = make_device(1 + (training + tapped) % 2);
            train_network *network =
                make_parsed(device, "conv3n,res3,res4s2,average", TRAIN_RELU, (train_shape){3, {1, 7, 6}}, 2, 4);
            problem p = make_problem(network, device, 4, training);
            if (tapped)
                put_tap(&p, train_network_n_layers(network) - 4), put_tap(&p, 0); /* the last block, the first */
            check_problem(&p);
            clean(state);
        }
}

/* Outputs with up to four readers, sums of sums, gradients that are shared and then changed, with taps on any of them;
 * the network's input added to what is made of it. */
static void branches(void **state) {
    (void)state;
    const train_layer_spec specs[] = {
        CONV(2, 3, 1, 1),                                                              /* 0 */
        {.kind = TRAIN_ADD, .other = TRAIN_FROM_INPUT},                                /* 1: 0 + input */
        {.kind = TRAIN_RELU},                                                          /* 2 */
        {.kind = TRAIN_CONVOLUTION, .width = 2, .kernel = 3, .padding = 1, .from = 3}, /* 3: of 2 */
        {.kind = TRAIN_ADD, .from = 4, .other = 3},                                    /* 4: 3 + 2 */
        {.kind = TRAIN_ADD, .from = 3, .other = 5},                                    /* 5: 2 + 4 */
        {.kind = TRAIN_LEAKY_RELU},                                                    /* 6 */
        {.kind = TRAIN_TANH, .from = 5},                                               /* 7: of 4 */
        {.kind = TRAIN_ADD, .from = 7, .other = 8},                                    /* 8: 6 + 7 */
        {.kind = TRAIN_ADD, .from = 9, .other = 3},                                    /* 9: 8 + 2 */
        {.kind = TRAIN_ADD, .from = 9, .other = 10},                                   /* 10: 8 + 9 */
        {.kind = TRAIN_FLATTEN},                                                       /* 11 */
        {.kind = TRAIN_DENSE, .width = 4},                                             /* 12 */
        {.kind = TRAIN_RELU},                                                          /* 13 */
        {.kind = TRAIN_DENSE, .width = 4},                                             /* 14 */
        {.kind = TRAIN_ADD, .from = 15, .other = 14},                                  /* 15: features */
        {.kind = TRAIN_LEAKY_RELU},                                                    /* 16 */
        {.kind = TRAIN_DENSE, .width = 2},                                             /* 17 */
    };
    for (int64_t tapped = -1; tapped < COUNT(specs) - 1; tapped++) {
        train_device *device = make_device(2);
        train_network *network = make_network(device, (train_shape){3, {2, 3, 4}}, specs, COUNT(specs), 3);
        problem p = make_problem(network, device, 3, true);
        if (tapped >= 0) put_tap(&p, tapped);
        if (tapped == 4) put_tap(&p, 2), put_tap(&p, 9);
        check_problem(&p);
        clean(state);
    }
}

/* Gradients that are still shared when one of those who share them is to be changed: by a convolution that reads 0
 * (layer 2), and by an addition of 0 (layer 4); and an output (0) that is read both through its activation (8) and
 * without. */
static void shared_gradients(void **state) {
    (void)state;
#define OF(layer) \
    { .kind = TRAIN_CONVOLUTION, .width = 2, .kernel = 3, .padding = 1, .from = 1 + (layer) }
#define SUM(one, two) \
    { .kind = TRAIN_ADD, .from = 1 + (one), .other = 1 + (two) }
    static const train_layer_spec first[] = {CONV(2, 3, 1, 1), OF(0), OF(0), SUM(1, 0), SUM(3, 2)};
    static const train_layer_spec second[] = {CONV(2, 3, 1, 1), OF(0), OF(0), SUM(2, 0), OF(3), SUM(1, 0), SUM(4, 5)};
    static const train_layer_spec third[] = {CONV(2, 3, 1, 1), {.kind = TRAIN_RELU}, SUM(1, 0), OF(2)};
    static const struct {
        const train_layer_spec *specs;
        int64_t n;
    } cases[] = {{first, COUNT(first)}, {second, COUNT(second)}, {third, COUNT(third)}};
    for (int64_t c = 0; c < COUNT(cases); c++)
        for (int64_t tapped = -1; tapped < cases[c].n - 1; tapped++) {
            train_device *device = make_device(1);
            train_network *network = make_network(device, (train_shape){3, {2, 4, 3}}, cases[c].specs, cases[c].n, 3);
            problem p = make_problem(network, device, 3, true);
            if (tapped >= 0) put_tap(&p, tapped);
            check_problem(&p);
            clean(state);
        }
}

/* ---- PyTorch's numbers ------------------------------------------------------------------------------------------ */

/* Everything is sin(0.37 i + c) over its places, c telling the arrays apart, the squares of it for running_var:
 *
 *     s = lambda c, *d: torch.sin(.37 * torch.arange(math.prod(d), dtype=torch.float64) + c).reshape(d)
 *     net = Sequential(Conv2d(2, 3, 3, 2, 1), BatchNorm2d(3), ReLU(), MaxPool2d(2, 1), Flatten(), Linear(12,
 * 2)).double() for c, p in enumerate(net.parameters()): p.data = s(c, *p.shape) net[1].running_mean.copy_(s(10, 3));
 * net[1].running_var.copy_(s(11, 3) ** 2) x = s(12, 2, 2, 5, 6); out = net(x); (out * s(13, 2, 2)).sum().backward()
 *     print(out, net[1].running_mean, net[1].running_var, [p.grad for p in net.parameters()]); print(net.eval()(x)) */
static double wave(double c, int64_t i) { return sin(0.37 * (double)i + c); }

static const double torch_output[] = {-5.66300092263, 0.250928881808, -5.13203129288, -1.69595631099};
static const double torch_buffers[] = {-0.400432999597, -0.627143220974, -0.768994576002,
                                       1.36551632368,   1.40442122262,   1.33953030028};
static const double torch_grads[] = {
    0.291440418055,     0.398025763776,    0.2643911109,      -0.25626019479,   -0.387323983864,   -0.270829317342,
    0.294414008234,     0.290309432152,    0.23902683284,     0.132479827057,   0.334943905983,    0.44430366307,
    -0.209129228177,    -0.288680031241,   -0.399032854351,   0.183952303085,   0.117270959438,    0.210445749344,
    0.430447541295,     0.0568016958395,   -0.10773296291,    -0.490862782945,  -0.267821805294,   -0.028545233113,
    0.341067511738,     0.581607587093,    0.548242655244,    0.434291826915,   0.447869257837,    0.421239470261,
    -0.275382142682,    -0.63615303448,    -0.666371750889,   -0.342838376087,  0.0441391454562,   0.250949511361,
    -0.0842848058713,   -0.0541084411387,  -0.0432698476327,  0.047713239192,   0.0169927243447,   0.00955113530374,
    -0.0500976947067,   -0.0653341082156,  -0.0629591474935,  -0.0242630580588, -0.0253787971517,  -0.0423731125602,
    0.0023884183254,    0.0190751978133,   0.023239870261,    0.0366158216155,  -0.00118202206235, -0.0248124593424,
    -5.55111512313e-17, 1.66533453694e-16, 1.38777878078e-17, -1.68765415376,   -8.12495434121,    1.62646710399,
    -2.23338267318,     -6.67691454118,    1.08469231807,     1.55222876892,    1.4688966425,      1.18979228208,
    1.33754026003,      0.936436450422,    0.964538430204,    0.778499228737,   0.699715834795,    0.0210197103821,
    0.0210197103821,    0.0210197103821,   0.0210197103821,   2.13040192166,    2.04006908562,     1.50943276581,
    1.49132180352,      1.21416813718,     1.26231578041,     0.943571365636,   0.808590315415,    0.0227855706209,
    0.0227855706209,    0.0227855706209,   0.0227855706209,   1.34232757812,    1.71951097936};
static const double torch_evaluated[] = {-10.2955931053, -4.11280873227, -7.95989296625, -8.46389879423};

static void as_pytorch(void **state) {
    (void)state;
    const train_layer_spec specs[] = {CONV(3, 3, 2, 1),        {.kind = TRAIN_BATCH_NORM},
                                      {.kind = TRAIN_RELU},    {.kind = TRAIN_MAX_POOL, .kernel = 2, .stride = 1},
                                      {.kind = TRAIN_FLATTEN}, {.kind = TRAIN_DENSE, .width = 2}};
    train_device *device = make_device(2);
    train_network *network = make_network(device, (train_shape){3, {2, 5, 6}}, specs, COUNT(specs), 2);
    static const int64_t counts[] = {54, 3, 3, 3, 24, 2};
    float *at = train_network_params(network), *buffers = train_network_buffers(network), in[120], out[4];
    assert_int_equal(train_network_n_params(network), COUNT(torch_grads));
    for (int64_t t = 0; t < COUNT(counts); t++)
        for (int64_t i = 0; i < counts[t]; i++) *at++ = (float)wave((double)t, i);
    for (int64_t c = 0; c < 3; c++) {
        buffers[c] = (float)wave(10.0, c);
        buffers[3 + c] = (float)(wave(11.0, c) * wave(11.0, c));
    }
    for (int64_t i = 0; i < 120; i++) in[i] = (float)wave(12.0, i);
    train_ok(train_network_forward(network, 2, in));
    for (int64_t i = 0; i < 4; i++) train_network_output_grad(network)[i] = (float)wave(13.0, i);
    assert_arrays(train_network_output(network), torch_output, 4, FLOAT32);
    train_ok(train_network_backward(network, 2, in));
    assert_arrays(buffers, torch_buffers, 6, FLOAT32);
    int64_t first = 0;
    for (int64_t t = 0; t < COUNT(counts); first += counts[t], t++) {
        if (t == 1) continue; /* the bias before batch norm: its gradient is rounding, here and there */
        assert_arrays(train_network_grads(network) + first, torch_grads + first, counts[t], FLOAT32);
    }
    train_ok(train_network_predict(network, 2, in, out));
    assert_arrays(out, torch_evaluated, 4, FLOAT32);
    assert_arrays(buffers, torch_buffers, 6, FLOAT32); /* predictions are not remembered */
}

/* ---- what batch norm remembers ---------------------------------------------------------------------------------- */

static void running_statistics(void **state) {
    (void)state;
    const train_layer_spec spec = {.kind = TRAIN_BATCH_NORM};
    train_device *device = make_device(2);
    train_network *network = make_network(device, (train_shape){3, {17, 3, 2}}, &spec, 1, 4);
    assert_int_equal(train_network_n_buffers(network), 34);
    train_ok(train_network_create(device, (train_shape){3, {17, 3, 2}}, &spec, 1, 4, &networks[n_networks]));
    assert_true(train_network_buffers(networks[n_networks++])[33] == 1.0f); /* also without initialise */
    for (int64_t c = 0; c < 17; c++)
        assert_true(train_network_buffers(network)[c] == 0.0f && train_network_buffers(network)[17 + c] == 1.0f);
    double mean[17] = {0}, variance[17];
    for (int64_t c = 0; c < 17; c++) variance[c] = 1.0;
    for (uint64_t step = 0; step < 3; step++) {
        int64_t rows = step == 1 ? 3 : 4, n = rows * 6;
        const float *in = normals(step, 17 * n);
        double *x = doubles(in, 17 * n);
        train_ok(train_network_forward(network, rows, in));
        plain p = {.layer = train_network_layer(network, 0), .rows = rows, .in = x};
        for (int64_t c = 0; c < 17; c++) {
            double m, v;
            plain_moments(&p, c, &m, &v);
            mean[c] += 0.1 * (m - mean[c]);
            variance[c] += 0.1 * (v * (double)n / (double)(n - 1) - variance[c]);
        }
        assert_arrays(train_network_buffers(network), mean, 17, FLOAT32);
        assert_arrays(train_network_buffers(network) + 17, variance, 17, FLOAT32);
    }
    train_network_set_training(network, false);
    train_ok(train_network_forward(network, 4, normals(9, 17 * 24)));
    assert_arrays(train_network_buffers(network), mean, 17, FLOAT32);
    train_ok(train_network_initialise(network, TRAIN_START_HE, 3));
    assert_true(train_network_buffers(network)[0] == 0.0f && train_network_buffers(network)[20] == 1.0f);
    network = make_network(device, (train_shape){3, {2, 1, 1}}, &spec, 1, 2);
    train_refused(train_network_forward(network, 1, normals(1, 2)), CIRCE_ERR_SHAPE, "two or more numbers per channel");
    train_refused(train_network_backward(network, 1, normals(1, 2)), CIRCE_ERR_ARGUMENT, "the last forward had 0");
    train_network_set_training(network, false);
    train_ok(train_network_forward(network, 1, normals(1, 2)));
}

/* ---- what is stored --------------------------------------------------------------------------------------------- */

/* Activations behind layers that can apply them are merged; a tap takes them apart, with the same results. */
static void merged_layers(void **state) {
    (void)state;
    const train_layer_spec specs[] = {CONV(3, 3, 1, 1),
                                      {.kind = TRAIN_LEAKY_RELU},
                                      {.kind = TRAIN_CONVOLUTION, .width = 4, .kernel = 3, .no_bias = true},
                                      {.kind = TRAIN_BATCH_NORM},
                                      {.kind = TRAIN_RELU},
                                      CONV(4, 3, 1, 1),
                                      {.kind = TRAIN_TANH},
                                      {.kind = TRAIN_ADD, .from = 7, .other = 5},
                                      {.kind = TRAIN_RELU},
                                      {.kind = TRAIN_FLATTEN},
                                      {.kind = TRAIN_DENSE, .width = 2}};
    static const int64_t merged[] = {0, 3, 7}, stored[] = {1, 2, 4, 5, 6, 8, 9, 10};
    train_device *device = make_device(2);
    train_network *network = make_network(device, (train_shape){3, {1, 6, 6}}, specs, COUNT(specs), 4);
    problem p = make_problem(network, device, 4, true);
    check_problem(&p);
    size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
    double *before = doubles(train_network_grads(network), train_network_n_params(network));
    for (int64_t k = 0; k < COUNT(merged); k++) assert_null(train_network_activation(network, merged[k]));
    for (int64_t k = 0; k < COUNT(stored); k++) assert_non_null(train_network_activation(network, stored[k]));
    for (int64_t k = 0; k < COUNT(merged); k++) {
        float *tap = NULL;
        train_ok(train_network_tap(network, merged[k], &tap));
        train_refused(train_network_backward(network, 4, p.in), CIRCE_ERR_ARGUMENT, "the last forward had 0");
        memcpy(train_network_buffers(network), normals(93, train_network_n_buffers(network)), 8 * sizeof(float));
        forward_backward(&p);
        assert_non_null(train_network_activation(network, merged[k]));
        assert_arrays(train_network_grads(network), before, (int64_t)(bytes / sizeof(float)), FLOAT32);
    }
    for (int64_t k = 0; k < COUNT(merged); k++) put_tap(&p, merged[k]);
    check_problem(&p);
}

/* A network that diverges must show it at its output, although not every kernel passes NaN on: one parameter of any
 * layer is enough. */
static void divergence_shows(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const train_layer_kind activations[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    for (int64_t a = 0; a < COUNT(activations); a++) {
        train_device *device = make_device(1);
        train_network *network =
            make_parsed(device, "conv16n,pool2,res4,conv3,5", activations[a], (train_shape){3, {1, 8, 8}}, 2, 3);
        int64_t n = train_network_n_params(network);
        const float *in = normals(1, 192);
        for (int64_t i = -1; i < n; i += 1 + n / 50) {
            float *at = i < 0 ? NULL : &train_network_params(network)[i], kept = i < 0 ? 0.0f : *at;
            if (i >= 0) *at = bad[i % 3];
            train_ok(train_network_forward(network, 3, in));
            for (int r = 0; r < 3; r++) assert_int_equal(isfinite(train_network_output(network)[2 * r]) != 0, i < 0);
            if (i >= 0) *at = kept;
        }
        clean(state);
    }
}

TEST_MAIN("layers", CASE(convolutions), CASE(pools), CASE(first_layers), CASE(batch_norms), CASE(residual_blocks),
          CASE(branches), CASE(shared_gradients), CASE(as_pytorch), CASE(running_statistics), CASE(merged_layers),
          CASE(divergence_shows))
