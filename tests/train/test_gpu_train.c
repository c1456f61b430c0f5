/* Training on the GPU against the CPU: every operation of train/device.h, layers with their gradients, the first steps
 * of whole runs; and what a GPU alone has: recorded steps. Where there is no GPU the tests say so and are skipped; a
 * build without CUDA refuses politely.
 *
 * Tolerances. What moves numbers is the same bit by bit. Sums of float32 differ in their order: 1e-5 of the largest
 * number for outputs, 2e-5 for gradients through several layers, of which those on the CPU may be Winograd's. Where a
 * number near 0 can be positive on one device and not on the other, a gradient changes by its share: 5e-3.
 * Runs of some steps: 1e-3 of the loss, since AdamW divides small gradients by their own size; 2e-2 where batch norm
 * divides by the spread of a small batch as well (one thread against two, on the CPU, makes 3e-3). */
#include <pthread.h>

#include "circe/status.h"
#include "tests/train/train_support.h"
#include "train/layers.h"
#include "train/trainer.h"

/* Names of devices are known everywhere. */
static void knows_names(void **state) {
    static const char *const good[] = {"cpu", "auto", "cuda", "cuda:0", "cuda:12"};
    static const char *const bad[] = {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:1234", "CPU", "cudax"};
    train_device *device = NULL;
    (void)state;
    for (int64_t k = 0; k < COUNT(good); k++) assert_true(train_device_is_name(good[k]));
    for (int64_t k = 0; k < COUNT(bad); k++) {
        assert_false(train_device_is_name(bad[k]));
        train_refused(train_device_open(test_context(1), bad[k], &device), CIRCE_ERR_ARGUMENT, "is not a device");
    }
    train_ok(train_device_open(test_context(1), "auto", &device));
    assert_non_null(device);
    train_device_destroy(device);
}

/* Those of precisions too; the CPU has float32 alone, and says so. */
static void knows_precisions(void **state) {
    train_device *device = NULL;
    (void)state;
    assert_int_equal(train_precision_find("float32"), TRAIN_FLOAT32);
    assert_int_equal(train_precision_find("tf32"), TRAIN_TF32);
    assert_int_equal(train_precision_find("bf16"), TRAIN_BF16);
    assert_int_equal(train_precision_find("float16"), -1);
    assert_int_equal(train_precision_find(NULL), -1);
    train_ok(train_device_cpu(test_context(1), &device));
    train_ok(train_device_set_precision(device, TRAIN_FLOAT32));
    train_refused(train_device_set_precision(device, TRAIN_TF32), CIRCE_ERR_UNSUPPORTED,
                  "the CPU computes networks in float32 only; tf32 needs");
    train_refused(train_device_set_precision(device, TRAIN_BF16), CIRCE_ERR_UNSUPPORTED,
                  "the CPU computes networks in float32 only; bf16 needs");
    train_device_destroy(device);
}

/* What a step is told and notes, on the CPU: a batch whose values are not finite stays the next one, and nothing is
 * learned from it. The GPU is compared with this. */
static void steps_wait(void **state) {
    train_device *device = NULL;
    int64_t turn = 1;
    double noted[6] = {0}, bad[2] = {3.0, NAN}, good[2] = {5.0, 6.0}, times = -0.5;
    float blocks[6] = {1, 2, 3, 4, 5, 6}, picked[2] = {0}, params[1] = {2}, grads[1] = {1}, m[1] = {0}, v[1] = {0};
    (void)state;
    train_ok(train_device_cpu(test_context(1), &device));
    device->ops->pick(device, blocks, sizeof picked, &turn, picked);
    assert_true(picked[0] == 3.0f && picked[1] == 4.0f);
    device->ops->append(device, noted, 2, &turn, bad);
    assert_int_equal(turn, 1);
    assert_true(isnan(noted[3]));
    device->ops->append(device, noted, 2, &turn, good);
    assert_int_equal(turn, 2);
    assert_true(noted[2] == 5.0 && noted[3] == 6.0 && noted[4] == 0.0);
    device->ops->add_times(device, 2, &times, picked, blocks);
    assert_true(blocks[0] == -0.5f && blocks[1] == 0.0f);
    train_adamw how = {
        .rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = 1, .values = bad, .n_values = 2};
    device->ops->adamw(device, &how, 1, grads, params, m, v);
    assert_true(params[0] == 2.0f && m[0] == 0.0f);
    how.values = good;
    device->ops->adamw(device, &how, 1, grads, params, m, v);
    assert_true(params[0] < 2.0f && m[0] > 0.0f);
    train_device_destroy(device);
}

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    train_device *device = NULL;
    (void)state;
    train_refused(train_device_open(test_context(1), "cuda", &device), CIRCE_ERR_UNSUPPORTED, "CIRCE_CUDA=ON");
    assert_null(device);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu_train", TEST(knows_names), TEST(knows_precisions), TEST(steps_wait), TEST(says_so), TEST(on_a_gpu))

#else

/* ---- both devices ----------------------------------------------------------------------------------------------- */

enum { CPU, GPU, DEVICES };

static train_device *devices[DEVICES];
static train_network *networks[16];
static int n_networks;

static int clean(void **state) {
    while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    for (int d = 0; d < DEVICES; d++) train_device_destroy(devices[d]);
    devices[CPU] = devices[GPU] = NULL;
    return test_clean(state);
}
#undef TEST
#define TEST(function) cmocka_unit_test_teardown(function, clean)

/* Without a place for choices by the clock: engines are the first, and the same in every run of the tests. */
static void open_devices(void) {
    circe_context *context = test_context(2);
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
    circe_status status = train_device_cuda(context, 0, &devices[GPU]);
    if (status == CIRCE_ERR_UNSUPPORTED) test_skip("no NVIDIA GPU (%s)", circe_last_error());
    train_ok(status);
    train_ok(train_device_cpu(context, &devices[CPU]));
}

/* A block of the device's memory with these bytes in it; freed by `give`. */
static void *send(train_device *device, const void *from, size_t bytes) {
    void *block = device->ops->allocate(device, bytes);
    assert_non_null(block);
    device->ops->upload(device, block, from, bytes);
    return block;
}

static void fetch(train_device *device, void *to, void *block, size_t bytes) {
    device->ops->download(device, to, block, bytes);
    train_ok(device->ops->check(device));
    device->ops->release(device, block);
}

static float *normal(uint64_t stream, int64_t n) {
    circe_mat values = test_normal(stream, 1, n > 0 ? n : 1), single = test_copy(&values, CIRCE_FLOAT32);
    return single.data;
}

/* Differences are shown, all of them; then the test fails, by assert_right. */
static int wrong;

static void assert_right(void) {
    int found = wrong;
    wrong = 0;
    assert_int_equal(found, 0);
}

static void assert_floats(const float *got, const float *wanted, int64_t n, double tolerance, const char *what) {
    double largest = 1e-30, worst = 0.0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)wanted[i]));
    for (int64_t i = 0; i < n; i++) {
        bool equal = got[i] == wanted[i] || (isnan(got[i]) && isnan(wanted[i]));
        double off = equal ? 0.0 : fabs((double)got[i] - (double)wanted[i]) / largest;
        if (!(off <= worst)) worst = off, at = i;
    }
    if (worst <= tolerance) return;
    print_error("%s: number %lld of %lld is %.9g, not %.9g: off by %.2g of the largest\n", what, (long long)at,
                (long long)n, (double)got[at], (double)wanted[at], worst);
    wrong++;
}

/* ---- operations: one table -------------------------------------------------------------------------------------- */

/* Each makes `out` (room for ROOM numbers) of the same inputs on any device, and says how many it made. */
enum { ROOM = 1 << 17 };
typedef int64_t (*operation)(train_device *device, int64_t n, float *out);

static int64_t run_add(train_device *device, int64_t n, float *out) {
    float *x = send(device, normal(1, n), (size_t)n * 4), *y = send(device, normal(2, n), (size_t)n * 4);
    device->ops->add(device, n, -0.7f, x, y);
    fetch(device, out, y, (size_t)n * 4);
    device->ops->release(device, x);
    return n;
}

static int64_t run_add_times(train_device *device, int64_t n, float *out) {
    double times = 1.0 / 3.0, *a = send(device, &times, sizeof times);
    float *x = send(device, normal(1, n), (size_t)n * 4), *y = send(device, normal(2, n), (size_t)n * 4);
    device->ops->add_times(device, n - 1, a, x + 1, y + 1); /* off the alignment */
    fetch(device, out, y, (size_t)n * 4);
    device->ops->release(device, x);
    device->ops->release(device, a);
    return n;
}

static int64_t run_zero(train_device *device, int64_t n, float *out) {
    float *x = send(device, normal(1, n), (size_t)n * 4);
    device->ops->zero(device, n / 2, x);
    fetch(device, out, x, (size_t)n * 4);
    return n;
}

static int64_t *order_of(int64_t n, int64_t rows) {
    int64_t *index = test_memory((size_t)n * sizeof *index);
    for (int64_t i = 0; i < n; i++) index[i] = (i * 7919 + 3) % rows;
    return index;
}

static int64_t run_gather(train_device *device, int64_t n, float *out) {
    enum { ROWS = 37, COLS = 5 };
    float *from = send(device, normal(3, ROWS * COLS), ROWS * COLS * 4), *to;
    int64_t *index = send(device, order_of(n, ROWS), (size_t)n * 8);
    to = send(device, out, (size_t)(n * COLS) * 4);
    device->ops->gather(device, from, COLS, index, n, to);
    fetch(device, out, to, (size_t)(n * COLS) * 4);
    device->ops->release(device, from);
    device->ops->release(device, index);
    return n * COLS;
}

static int64_t run_pick(train_device *device, int64_t n, float *out) {
    enum { BLOCKS = 3 };
    int64_t chosen = 1, *which = send(device, &chosen, sizeof chosen);
    float *blocks = send(device, normal(4, BLOCKS * 2 * n), (size_t)(BLOCKS * 2 * n) * 4);
    float *to = send(device, out, (size_t)(2 * n) * 4);
    device->ops->pick(device, blocks, (size_t)(2 * n) * 4, which, to);
    fetch(device, out, to, (size_t)(2 * n) * 4);
    device->ops->release(device, blocks);
    device->ops->release(device, which);
    return 2 * n;
}

/* Three appended, of which the second is not finite: it stays in its place and is written over. */
static int64_t run_append(train_device *device, int64_t n, float *out) {
    int64_t width = n < 9 ? n : 9, none = 0, *which = send(device, &none, sizeof none);
    double *values = test_memory((size_t)(4 * width) * sizeof *values);
    double *blocks = send(device, values, (size_t)(4 * width) * sizeof *values);
    for (int64_t i = 0; i < width; i++) {
        values[i] = (double)i + 0.5;
        values[width + i] = i == width / 2 ? NAN : 2.0;
        values[2 * width + i] = (double)-i;
    }
    double *from = send(device, values, (size_t)(3 * width) * sizeof *values);
    for (int64_t k = 0; k < 3; k++) device->ops->append(device, blocks, width, which, from + k * width);
    fetch(device, values, blocks, (size_t)(4 * width) * sizeof *values);
    fetch(device, &none, which, sizeof none);
    device->ops->release(device, from);
    out[0] = (float)none;
    for (int64_t i = 0; i < 4 * width; i++) out[1 + i] = (float)values[i];
    return 1 + 4 * width;
}

static int64_t run_loss(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *target,
                        int64_t target_cols, float *out) {
    double value = NAN, *at = send(device, &value, sizeof value);
    float *weights = normal(7, n);
    for (int64_t i = 0; i < n; i++) weights[i] = fabsf(weights[i]);
    float *w = send(device, weights, (size_t)n * 4);
    float *p = send(device, normal(5, n * cols), (size_t)(n * cols) * 4);
    float *t = send(device, target, (size_t)(n * target_cols) * 4), *grad = send(device, out, (size_t)(n * cols) * 4);
    device->ops->loss(device, kind, n, cols, p, t, w, at, grad);
    fetch(device, out, grad, (size_t)(n * cols) * 4);
    device->ops->download(device, &value, at, sizeof value);
    out[n * cols] = (float)value;
    device->ops->loss(device, kind, n, cols, p, t, NULL, at, NULL);
    fetch(device, &value, at, sizeof value);
    out[n * cols + 1] = (float)value;
    device->ops->release(device, p);
    device->ops->release(device, t);
    device->ops->release(device, w);
    return n * cols + 2;
}

static int64_t run_mse(train_device *device, int64_t n, float *out) {
    return run_loss(device, TRAIN_MSE, n, 3, normal(6, 3 * n), 3, out);
}

static int64_t run_entropy(train_device *device, int64_t n, float *out) {
    enum { CLASSES = 7 };
    float *target = normal(6, n);
    for (int64_t i = 0; i < n; i++) target[i] = (float)(i * 5 % CLASSES);
    return run_loss(device, TRAIN_CROSS_ENTROPY, n, CLASSES, target, 1, out);
}

/* A class that there is none of, and a prediction that is no number: NaN, and a gradient elsewhere. */
static int64_t run_bad_entropy(train_device *device, int64_t n, float *out) {
    float *target = normal(6, n);
    for (int64_t i = 0; i < n; i++) target[i] = i == n / 2 ? 2.5f : 1.0f;
    return run_loss(device, TRAIN_CROSS_ENTROPY, n, 4, target, 1, out);
}

static int64_t run_steps(train_device *device, int64_t n, const double *values, int64_t n_values, float *out) {
    float *params = send(device, normal(7, n), (size_t)n * 4), *grads = send(device, normal(8, n), (size_t)n * 4);
    float *zeros = test_memory((size_t)n * 4), *m = send(device, zeros, (size_t)n * 4),
          *v = send(device, zeros, (size_t)n * 4);
    double *told = n_values > 0 ? send(device, values, (size_t)n_values * sizeof *values) : NULL;
    for (int64_t step = 1; step <= 3; step++) {
        train_adamw how = {.rate = 0.01,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .epsilon = 1e-8,
                           .decay = 0.05,
                           .step = step,
                           .values = told,
                           .n_values = n_values};
        train_adamw *block = send(device, &how, sizeof how);
        device->ops->adamw(device, block, n, grads, params, m, v);
        device->ops->release(device, block);
    }
    fetch(device, out, params, (size_t)n * 4);
    fetch(device, out + n, m, (size_t)n * 4);
    fetch(device, out + 2 * n, v, (size_t)n * 4);
    device->ops->release(device, grads);
    device->ops->release(device, told);
    return 3 * n;
}

static int64_t run_adamw(train_device *device, int64_t n, float *out) {
    static const double fine[] = {1.0, -2.0};
    return run_steps(device, n, fine, 2, out);
}

static int64_t run_no_adamw(train_device *device, int64_t n, float *out) {
    static const double broken[] = {1.0, INFINITY};
    return run_steps(device, n, broken, 2, out);
}

static void operations_agree(void **state) {
    static const struct {
        const char *name;
        operation run;
        double tolerance;
    } table[] = {
        {"add", run_add, 1e-6},
        {"add_times", run_add_times, 1e-6},
        {"zero", run_zero, 0.0},
        {"gather", run_gather, 0.0},
        {"pick", run_pick, 0.0},
        {"append", run_append, 0.0},
        {"mse", run_mse, 1e-6},
        {"cross-entropy", run_entropy, 1e-6},
        {"no class", run_bad_entropy, 1e-6},
        {"adamw", run_adamw, 2e-6},
        {"no adamw", run_no_adamw, 0.0},
    };
    static const int64_t sizes[] = {1, 2, 31, 33, 1023, 1025, 9001};
    float *made[DEVICES];
    char what[64];
    (void)state;
    open_devices();
    for (int d = 0; d < DEVICES; d++) made[d] = test_memory(ROOM * sizeof(float));
    for (int64_t k = 0; k < COUNT(table); k++)
        for (int64_t s = 0; s < COUNT(sizes); s++) {
            int64_t n[DEVICES];
            for (int d = 0; d < DEVICES; d++) n[d] = table[k].run(devices[d], sizes[s], made[d]);
            assert_int_equal(n[CPU], n[GPU]);
            snprintf(what, sizeof what, "%s of %lld", table[k].name, (long long)sizes[s]);
            assert_floats(made[GPU], made[CPU], n[CPU], table[k].tolerance, what);
        }
    assert_right();
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static void points_are_the_same(void **state) {
    enum { N = 23, STORED = 9, MOST = 3 * 3 * 8 * 9 };
    static const struct {
        train_element element;
        int64_t channels, height, width, repeat;
        bool stored, shift;
    } cases[] = {
        {TRAIN_BITS, 1, 8, 8, 1, true, true},      {TRAIN_BITS, 1, 5, 7, 3, true, true},
        {TRAIN_BITS, 2, 3, 4, 1, false, true},     {TRAIN_BYTES, 3, 6, 8, 1, true, true},
        {TRAIN_BYTES, 1, 7, 9, 3, true, true},     {TRAIN_BYTES, 2, 8, 4, 2, true, false},
        {TRAIN_FLOATS, 1, 1, 13, 1, false, false}, {TRAIN_FLOATS, 1, 1, 1, 1, true, false},
    };
    uint8_t *raw = test_memory(N * MOST * 4);
    int32_t *stored = test_memory(N * sizeof *stored);
    int8_t *shift = test_memory(N);
    (void)state;
    open_devices();
    float *noise = normal(9, N * MOST);
    memcpy(raw, noise, N * MOST * 4);
    for (int i = 0; i < N; i++) stored[i] = i * 5 % STORED, shift[i] = (int8_t)(i * 3 % 25 - 12);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        int64_t pixels = cases[k].channels * cases[k].height * cases[k].width, cols = pixels * cases[k].repeat;
        train_source source = {.element = cases[k].element,
                               .values = raw,
                               .n_stored = cases[k].stored ? STORED : N,
                               .stride = cases[k].element == TRAIN_BITS ? (pixels + 7) / 8 + 1 : pixels + 2,
                               .n = N,
                               .stored = cases[k].stored ? stored : NULL,
                               .shift = cases[k].shift ? shift : NULL,
                               .channels = cases[k].channels,
                               .height = cases[k].height,
                               .width = cases[k].width,
                               .repeat = cases[k].repeat,
                               .scale = 0.37f,
                               .offset = -0.11f,
                               .background = 0.77f};
        float *made[DEVICES];
        for (int d = 0; d < DEVICES; d++) {
            train_source_handle *handle = NULL;
            float *both = test_memory((size_t)(2 * N * cols) * 4);
            float *out = send(devices[d], both, (size_t)(2 * N * cols) * 4);
            int64_t *index = send(devices[d], order_of(N, N), N * 8);
            train_ok(devices[d]->ops->source_open(devices[d], &source, &handle));
            devices[d]->ops->source_gather(devices[d], handle, index, 0, N, out);
            devices[d]->ops->source_gather(devices[d], handle, NULL, 4, N - 4, out + N * cols);
            fetch(devices[d], both, out, (size_t)(2 * N * cols) * 4);
            devices[d]->ops->source_close(devices[d], handle);
            devices[d]->ops->release(devices[d], index);
            made[d] = both;
        }
        assert_floats(made[GPU], made[CPU], 2 * N * cols, 0.0, "points");
    }
    assert_right();
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

enum { MOST_LAYERS = 20 };

typedef struct network_case {
    const char *name;
    train_shape input;
    int64_t rows;
    train_layer_spec layers[MOST_LAYERS]; /* up to the first without a kind */
    int64_t tap;                          /* layer with a gradient of its own; -1: none */
    bool in_use;                          /* batch norm by running statistics */
    bool smooth;                          /* no number near 0 goes the other way on the other device */
} network_case;

#define DENSE(width_) \
    { .kind = TRAIN_DENSE, .width = width_ }
#define CONVOLUTION(width_, kernel_, stride_, padding_) \
    { .kind = TRAIN_CONVOLUTION, .width = width_, .kernel = kernel_, .stride = stride_, .padding = padding_ }
#define POOL(kernel_, stride_, padding_) \
    { .kind = TRAIN_MAX_POOL, .kernel = kernel_, .stride = stride_, .padding = padding_ }
#define OF(kind_) \
    { .kind = kind_ }

static const network_case cases[] = {
    {"dense", {1, {5}}, 33, {DENSE(3)}, -1, false, true},
    {"dense of one", {1, {1}}, 1, {DENSE(1)}, -1, false, true},
    {"dense and relu", {1, {31}}, 1025, {DENSE(33), OF(TRAIN_RELU), DENSE(2)}, -1, false, false},
    {"dense and leaky", {1, {7}}, 65, {DENSE(130), OF(TRAIN_LEAKY_RELU), DENSE(1)}, 0, false, false},
    {"dense, too large for kernels of ours", {1, {300}}, 70, {DENSE(260), OF(TRAIN_TANH), DENSE(1)}, 0, false, true},
    {"dense, in parts of a batch", {1, {33}}, 4200, {DENSE(70), OF(TRAIN_TANH), DENSE(3)}, -1, false, true},
    {"dense and tanh", {1, {7}}, 64, {DENSE(9), OF(TRAIN_TANH), DENSE(1)}, 1, false, true},
    {"dense, a chain with another gradient inside",
     {1, {10}},
     77,
     {DENSE(64), OF(TRAIN_TANH), DENSE(100), OF(TRAIN_TANH), DENSE(70), OF(TRAIN_TANH), DENSE(3)},
     3,
     false,
     true},
    {"dense, more layers than a kernel takes",
     {1, {3}},
     256,
     {DENSE(64), DENSE(64), DENSE(65), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40),
      DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(40), DENSE(1)},
     -1,
     false,
     false},
    {"dense, small and large by turns",
     {1, {20}},
     70,
     {DENSE(300), OF(TRAIN_TANH), DENSE(300), OF(TRAIN_TANH), DENSE(20), OF(TRAIN_TANH), DENSE(17), OF(TRAIN_TANH),
      DENSE(2)},
     -1,
     false,
     true},
    {"dense, rows too wide for many at once",
     {1, {1000}},
     600,
     {DENSE(64), OF(TRAIN_TANH), DENSE(900), OF(TRAIN_TANH), DENSE(1)},
     -1,
     false,
     true},
    {"activations of the input",
     {1, {7}},
     9,
     {OF(TRAIN_TANH), OF(TRAIN_RELU), DENSE(2), OF(TRAIN_LEAKY_RELU)},
     2,
     false,
     false},
    {"convolution", {3, {1, 9, 7}}, 5, {CONVOLUTION(3, 3, 2, 1), OF(TRAIN_FLATTEN), DENSE(2)}, -1, false, true},
    {"of dSprites",
     {3, {1, 64, 64}},
     37,
     {CONVOLUTION(16, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(32, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(64, 3, 2, 1),
      OF(TRAIN_FLATTEN), DENSE(2)},
     -1,
     false,
     true},
    {"halving, whole images in a tile",
     {3, {17, 8, 8}},
     37,
     {CONVOLUTION(33, 3, 2, 1), OF(TRAIN_TANH), OF(TRAIN_FLATTEN), DENSE(2)},
     0,
     false,
     true},
    {"halving, lines in a tile",
     {3, {3, 70, 256}},
     3,
     {CONVOLUTION(9, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(20, 3, 2, 1), OF(TRAIN_FLATTEN), DENSE(2)},
     -1,
     false,
     true},
    {"halving, and leaky",
     {3, {2, 24, 32}},
     19,
     {CONVOLUTION(16, 3, 2, 1), OF(TRAIN_LEAKY_RELU), CONVOLUTION(40, 3, 2, 1), OF(TRAIN_LEAKY_RELU), OF(TRAIN_FLATTEN),
      DENSE(2)},
     1,
     false,
     false},
    {"halving and pools",
     {3, {3, 64, 64}},
     37,
     {CONVOLUTION(16, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(33, 3, 2, 1), OF(TRAIN_LEAKY_RELU), POOL(2, 2, 0),
      CONVOLUTION(60, 3, 2, 1), POOL(2, 2, 0), OF(TRAIN_FLATTEN), DENSE(2)},
     -1,
     false,
     false},
    {"halving and a pool of few lines",
     {3, {8, 12, 32}},
     129,
     {CONVOLUTION(20, 3, 2, 1), OF(TRAIN_TANH), POOL(2, 2, 0), CONVOLUTION(8, 3, 2, 1), OF(TRAIN_RELU),
      OF(TRAIN_FLATTEN), DENSE(2)},
     2,
     false,
     false},
    {"halving and a pool of small images",
     {3, {9, 16, 16}},
     50,
     {CONVOLUTION(48, 3, 2, 1), OF(TRAIN_RELU), POOL(2, 2, 0), OF(TRAIN_FLATTEN), DENSE(2)},
     -1,
     false,
     false},
    {"halving and a pool that is kept apart",
     {3, {9, 16, 16}},
     11,
     {CONVOLUTION(48, 3, 2, 1), OF(TRAIN_RELU), POOL(2, 2, 0), OF(TRAIN_FLATTEN), DENSE(2)},
     1,
     false,
     false},
    {"convolutions",
     {3, {3, 12, 12}},
     33,
     {CONVOLUTION(8, 5, 1, 2), OF(TRAIN_TANH), CONVOLUTION(17, 3, 2, 0), OF(TRAIN_TANH), OF(TRAIN_FLATTEN), DENSE(3)},
     1,
     false,
     true},
    {"max-pools",
     {3, {2, 13, 11}},
     21,
     {CONVOLUTION(5, 3, 1, 1), OF(TRAIN_LEAKY_RELU), POOL(2, 2, 0), CONVOLUTION(6, 3, 1, 1), POOL(3, 2, 1),
      OF(TRAIN_FLATTEN), DENSE(2)},
     2,
     false,
     false},
    {"convolutions and relu",
     {3, {3, 12, 12}},
     33,
     {CONVOLUTION(8, 5, 1, 2), OF(TRAIN_LEAKY_RELU), CONVOLUTION(17, 3, 2, 0), OF(TRAIN_RELU), OF(TRAIN_FLATTEN),
      DENSE(3)},
     1,
     false,
     false},
    {"many channels",
     {3, {70, 7, 9}},
     11,
     {CONVOLUTION(45, 3, 1, 1), OF(TRAIN_TANH), CONVOLUTION(33, 3, 1, 2), OF(TRAIN_TANH), OF(TRAIN_FLATTEN), DENSE(2)},
     1,
     false,
     true},
    {"channels in tiles",
     {3, {64, 13, 11}},
     9,
     {CONVOLUTION(64, 3, 1, 1), OF(TRAIN_TANH), CONVOLUTION(128, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(64, 1, 2, 0),
      OF(TRAIN_TANH), CONVOLUTION(64, 3, 1, 0), OF(TRAIN_FLATTEN), DENSE(2)},
     1,
     false,
     true},
    {"channels in large tiles",
     {3, {64, 40, 37}},
     24,
     {CONVOLUTION(64, 3, 1, 1), OF(TRAIN_TANH), CONVOLUTION(64, 5, 3, 2), OF(TRAIN_AVERAGE_POOL), OF(TRAIN_FLATTEN),
      DENSE(2)},
     -1,
     false,
     true},
    {"wide",
     {3, {5, 40, 300}},
     3,
     {CONVOLUTION(9, 3, 2, 1), OF(TRAIN_TANH), CONVOLUTION(4, 3, 3, 0), OF(TRAIN_AVERAGE_POOL), OF(TRAIN_FLATTEN),
      DENSE(2)},
     -1,
     false,
     true},
    {"one by one",
     {3, {4, 6, 6}},
     16,
     {CONVOLUTION(9, 1, 1, 0), OF(TRAIN_TANH), CONVOLUTION(5, 1, 2, 0), OF(TRAIN_FLATTEN), DENSE(1)},
     0,
     false,
     true},
    {"pools with gaps",
     {3, {2, 11, 9}},
     7,
     {CONVOLUTION(3, 3, 1, 1), POOL(2, 3, 0), POOL(1, 2, 0), OF(TRAIN_FLATTEN), DENSE(2)},
     -1,
     false,
     false},
    {"pool of the input", {3, {2, 8, 8}}, 6, {POOL(2, 2, 0), OF(TRAIN_FLATTEN), DENSE(2)}, -1, false, true},
    {"batch norm",
     {3, {2, 6, 5}},
     19,
     {CONVOLUTION(7, 3, 1, 1), OF(TRAIN_BATCH_NORM), OF(TRAIN_RELU), OF(TRAIN_AVERAGE_POOL), OF(TRAIN_FLATTEN),
      DENSE(2)},
     1,
     false,
     false},
    {"batch norm in use",
     {3, {2, 6, 5}},
     19,
     {CONVOLUTION(7, 3, 1, 1), OF(TRAIN_BATCH_NORM), OF(TRAIN_TANH), OF(TRAIN_AVERAGE_POOL), OF(TRAIN_FLATTEN),
      DENSE(2)},
     -1,
     true,
     true},
    {"addition",
     {3, {3, 8, 8}},
     11,
     {CONVOLUTION(4, 3, 1, 1),
      OF(TRAIN_TANH),
      CONVOLUTION(4, 3, 1, 1),
      {.kind = TRAIN_ADD, .from = 3, .other = 2},
      OF(TRAIN_RELU),
      OF(TRAIN_AVERAGE_POOL),
      OF(TRAIN_FLATTEN),
      DENSE(2)},
     4,
     false,
     false},
    {"addition of features",
     {1, {6}},
     40,
     {DENSE(6), {.kind = TRAIN_ADD, .from = 1, .other = TRAIN_FROM_INPUT}, OF(TRAIN_TANH), DENSE(3)},
     1,
     false,
     true},
    {"dense of many rows", {1, {1}}, 2500, {DENSE(1)}, -1, false, true}, /* more parts of a sum than a warp has lanes */
};

static const network_case *case_of(const char *name) {
    for (int64_t k = 0; k < COUNT(cases); k++)
        if (strcmp(cases[k].name, name) == 0) return &cases[k];
    fail_msg("there is no case '%s'", name);
    return NULL;
}

/* Everything that a pass leaves: outputs, gradients of parameters, what layers keep. */
typedef struct passed {
    float *output, *grads, *buffers;
    int64_t n_output, n_grads, n_buffers;
} passed;

static train_network *make(train_device *device, const network_case *c) {
    int64_t n = 0;
    while (n < MOST_LAYERS && c->layers[n].kind != 0) n++;
    train_network *network = NULL;
    train_ok(train_network_create(device, c->input, c->layers, n, c->rows, &network));
    networks[n_networks++] = network;
    train_ok(train_network_initialise(network, TRAIN_START_HE, 17));
    return network;
}

static float *bring(train_device *device, const float *from, int64_t n) {
    float *to = test_memory((size_t)(n > 0 ? n : 1) * sizeof *to);
    device->ops->download(device, to, from, (size_t)n * sizeof *to);
    train_ok(device->ops->check(device));
    return to;
}

/* Biases and batch norm start at 0 and 1, which would hide mistakes. */
static void stir(train_network *network) {
    train_device *device = train_network_device(network);
    int64_t n = train_network_n_params(network), b = train_network_n_buffers(network);
    float *params = bring(device, train_network_params(network), n), *noise = normal(21, n);
    float *buffers = bring(device, train_network_buffers(network), b), *more = normal(22, b);
    for (int64_t i = 0; i < n; i++) params[i] += 0.1f * noise[i];
    for (int64_t i = 0; i < b; i++) buffers[i] += 0.2f * fabsf(more[i]);
    device->ops->upload(device, train_network_params(network), params, (size_t)n * 4);
    device->ops->upload(device, train_network_buffers(network), buffers, (size_t)b * 4);
}

static passed pass_through(train_device *device, const network_case *c) {
    train_network *network = make(device, c);
    int64_t last = train_network_n_layers(network) - 1, inputs = c->rows * train_shape_count(c->input);
    passed p = {.n_output = c->rows * train_shape_count(train_network_layer(network, last)->out),
                .n_grads = train_network_n_params(network),
                .n_buffers = train_network_n_buffers(network)};
    stir(network);
    float *tap = NULL, *in = send(device, normal(11, inputs), (size_t)inputs * 4);
    if (c->tap >= 0) {
        train_ok(train_network_tap(network, c->tap, &tap));
        int64_t n = c->rows * train_shape_count(train_network_layer(network, c->tap)->out);
        device->ops->upload(device, tap, normal(12, n), (size_t)n * 4);
    }
    train_network_set_training(network, !c->in_use);
    train_ok(train_network_forward(network, c->rows, in));
    device->ops->upload(device, train_network_output_grad(network), normal(13, p.n_output), (size_t)p.n_output * 4);
    p.output = bring(device, train_network_output(network), p.n_output);
    train_ok(train_network_backward(network, c->rows, in));
    p.grads = bring(device, train_network_grads(network), p.n_grads);
    p.buffers = bring(device, train_network_buffers(network), p.n_buffers);
    device->ops->release(device, in);
    return p;
}

static void layers_agree(void **state) {
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(cases); k++) {
        passed p[DEVICES];
        for (int d = 0; d < DEVICES; d++) p[d] = pass_through(devices[d], &cases[k]);
        assert_floats(p[GPU].output, p[CPU].output, p[CPU].n_output, 1e-5, cases[k].name);
        assert_floats(p[GPU].grads, p[CPU].grads, p[CPU].n_grads, cases[k].smooth ? 2e-5 : 5e-3, cases[k].name);
        assert_floats(p[GPU].buffers, p[CPU].buffers, p[CPU].n_buffers, 1e-5, cases[k].name);
        passed again = pass_through(devices[GPU], &cases[k]);
        assert_memory_equal(again.grads, p[GPU].grads, (size_t)again.n_grads * 4);
        while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    }
    assert_right();
}

/* Factors of 11 bits are right to 5e-4 each, those of 8 bits to 4e-3: some times that through several layers; where a
 * number near 0 goes the other way, its share of a gradient. The same bits come again in every precision, and float32
 * is itself afterwards. */
static void precisions_are_near(void **state) {
    static const struct {
        train_precision precision;
        const char *name;
        double output, smooth, rough; /* tolerances: of outputs, of gradients without and with such numbers */
    } others[] = {{TRAIN_TF32, "tf32", 5e-3, 1e-2, 1e-1}, {TRAIN_BF16, "bf16", 4e-2, 8e-2, 3e-1}};
    char what[64];
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(cases); k++) {
        passed wanted = pass_through(devices[GPU], &cases[k]);
        for (int64_t o = 0; o < COUNT(others); o++) {
            train_ok(train_device_set_precision(devices[GPU], others[o].precision));
            passed p = pass_through(devices[GPU], &cases[k]), again = pass_through(devices[GPU], &cases[k]);
            snprintf(what, sizeof what, "%s in %s", cases[k].name, others[o].name);
            assert_floats(p.output, wanted.output, p.n_output, others[o].output, what);
            assert_floats(p.grads, wanted.grads, p.n_grads, cases[k].smooth ? others[o].smooth : others[o].rough, what);
            assert_memory_equal(again.grads, p.grads, (size_t)p.n_grads * 4);
        }
        train_ok(train_device_set_precision(devices[GPU], TRAIN_FLOAT32));
        passed after = pass_through(devices[GPU], &cases[k]);
        assert_memory_equal(after.grads, wanted.grads, (size_t)after.n_grads * 4);
        while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    }
    assert_right();
}

/* Choices by the clock are kept: what is made later takes the same engines. */
static void choices_are_kept(void **state) {
    const network_case *c = case_of("channels in tiles");
    (void)state;
    open_devices();
    passed first_engines = pass_through(devices[GPU], c);
    const char *folder = test_path("cache");
    char file[1024];
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(file, sizeof file, "%s/circe/cudnn-engines", folder);
    passed timed = pass_through(devices[GPU], c);
    FILE *kept = fopen(file, "r");
    assert_non_null(kept);
    fseek(kept, 0, SEEK_END);
    long length = ftell(kept);
    fclose(kept);
    assert_true(length > 0);
    passed again = pass_through(devices[GPU], c);
    assert_memory_equal(again.grads, timed.grads, (size_t)again.n_grads * 4);
    assert_floats(timed.grads, first_engines.grads, timed.n_grads, 2e-5, "engines by the clock");
    kept = fopen(file, "r");
    fseek(kept, 0, SEEK_END);
    assert_int_equal(ftell(kept), length);
    fclose(kept);
    remove(file);
    assert_right();
}

/* NaN in a parameter is seen at the output, through activations and pools. */
static void nan_is_seen(void **state) {
    static const char *const names[] = {"max-pools", "halving and pools"};
    (void)state;
    open_devices();
    train_device *device = devices[GPU];
    for (int64_t k = 0; k < COUNT(names); k++) {
        const network_case *c = case_of(names[k]);
        train_network *network = make(device, c);
        int64_t inputs = c->rows * train_shape_count(c->input);
        float nothing = NAN, *in = send(device, normal(11, inputs), (size_t)inputs * 4);
        device->ops->upload(device, train_network_params(network), &nothing, sizeof nothing);
        train_ok(train_network_forward(network, c->rows, in));
        const float *out = bring(device, train_network_output(network), c->rows * 2);
        for (int64_t r = 0; r < c->rows; r++) assert_true(isnan(out[2 * r]));
        device->ops->release(device, in);
    }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct run_case {
    const char *name, *net;
    circe_measure_kind kind;
    bool images, regress_z, previous;
    const char *layer; /* that is regularised; NULL: the output */
    train_loss_kind loss;
    double gamma;
    double tolerance; /* of the losses; 0: 1e-3 */
} run_case;

static const run_case run_cases[] = {
    {.name = "table", .net = "3x33", .loss = TRAIN_MSE},
    {.name = "table of classes", .net = "2x16", .loss = TRAIN_CROSS_ENTROPY},
    {.name = "table with circe", .net = "3x33", .kind = CIRCE_MEASURE_CIRCE, .gamma = 10, .loss = TRAIN_MSE},
    {.name = "circe inside", .net = "3x33", .kind = CIRCE_MEASURE_CIRCE, .gamma = 10, .layer = "2", .loss = TRAIN_MSE},
    {.name = "table with hsic", .net = "2x16", .kind = CIRCE_MEASURE_HSIC, .gamma = 1, .loss = TRAIN_MSE},
    {.name = "table with hscic", .net = "2x16", .kind = CIRCE_MEASURE_HSCIC, .gamma = 1, .loss = TRAIN_MSE},
    {.name = "hscic, z by the holdout",
     .net = "2x16",
     .kind = CIRCE_MEASURE_HSCIC,
     .regress_z = true,
     .gamma = 1,
     .loss = TRAIN_MSE},
    {.name = "table with gcm", .net = "2x16", .kind = CIRCE_MEASURE_GCM, .gamma = 0.1, .loss = TRAIN_MSE},
    {.name = "gcm, batch before",
     .net = "2x16",
     .kind = CIRCE_MEASURE_GCM,
     .previous = true,
     .gamma = 0.1,
     .loss = TRAIN_MSE},
    {.name = "gcm, z by the holdout",
     .net = "2x16",
     .kind = CIRCE_MEASURE_GCM,
     .previous = true,
     .regress_z = true,
     .gamma = 0.1,
     .loss = TRAIN_MSE},
    {.name = "dsprites", .net = "dsprites", .images = true, .loss = TRAIN_MSE},
    {.name = "dsprites with circe",
     .net = "dsprites",
     .images = true,
     .kind = CIRCE_MEASURE_CIRCE,
     .gamma = 10,
     .loss = TRAIN_MSE},
    {.name = "residual",
     .net = "conv8s2,res8,res16s2,average,8",
     .images = true,
     .kind = CIRCE_MEASURE_CIRCE,
     .gamma = 10,
     .loss = TRAIN_MSE,
     .tolerance = 2e-2},
};

enum { ROWS = 130, CHECKED = 45, HELD = 120, SIDE = 64, EPOCHS = 3, BATCH = 32 };

/* y; z = y/2 + e; features and pictures show both. */
static train_data draw(const run_case *c, uint64_t stream, int64_t n) {
    enum { COLS = 5, BYTES = SIDE * SIDE / 8 };
    circe_mat noise = test_normal(stream, n, COLS), features = test_zeros(n, COLS, CIRCE_FLOAT64);
    circe_mat target = test_zeros(n, 1, CIRCE_FLOAT64);
    train_data data = {.y = test_zeros(n, 1, CIRCE_FLOAT64), .z = test_zeros(n, 1, CIRCE_FLOAT64)};
    uint8_t *pictures = test_memory((size_t)(n * BYTES));
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&noise, i, 0), z = 0.5 * y + test_at(&noise, i, 1);
        double wanted = sin(y) + 0.7 * z;
        test_set(&data.y, i, 0, y);
        test_set(&data.z, i, 0, z);
        for (int64_t k = 0; k < COLS; k++)
            test_set(&features, i, k, (k % 2 == 0 ? y : z) + 0.2 * test_at(&noise, i, k));
        test_set(&target, i, 0, c->loss == TRAIN_MSE ? wanted : wanted > 0.0 ? 1.0 : 0.0);
        int line = (int)(32 + 8 * fmax(-3, fmin(3, y))), wide = (int)(2 + 2 * fmax(0, fmin(2, z + 1)));
        for (int k = -wide; k < wide; k++)
            for (int b = 0; b < wide; b++) pictures[i * BYTES + (line + k) * (SIDE / 8) + b] = (uint8_t)(0xf0 + i % 16);
    }
    circe_mat single = test_copy(&features, CIRCE_FLOAT32);
    data.features = train_source_floats(&single);
    data.target = test_copy(&target, CIRCE_FLOAT32);
    if (c->images)
        data.features = (train_source){.element = TRAIN_BITS,
                                       .values = pictures,
                                       .n_stored = n,
                                       .stride = BYTES,
                                       .n = n,
                                       .channels = 1,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .repeat = 1,
                                       .scale = 2.0f,
                                       .offset = -1.0f,
                                       .background = -1.0f};
    return data;
}

typedef struct outcome {
    train_epoch history[EPOCHS];
    int64_t epochs;
    float *params, *prediction;
    int64_t n_params;
    bool resumed;
} outcome;

typedef struct run_how {
    int unrecorded;
    int stop_after; /* epochs; 0: never */
    const char *checkpoint;
    int64_t spoil;  /* 1 + the training row whose target is no number; 0: none */
    uint64_t start; /* added to the seed of the first weights */
} run_how;

static int stop_there(void *user, const train_progress *progress) {
    const run_how *how = user;
    return progress->epoch_ended && progress->epoch == how->stop_after;
}

static circe_measure *regularizer_of(const run_case *c, circe_context *context, const train_data *data) {
    static const double sigma2[] = {1.0}, ridge[] = {0.1};
    train_data held = draw(c, 31, HELD);
    circe_measure *regularizer = NULL;
    circe_measure_options options;
    circe_measure_options_init(&options, CIRCE_MEASURE_NONE);
    options.kind = c->kind;
    options.estimator = CIRCE_USTAT;
    options.sigma2_x = 0.5;
    options.sigma2_y = sigma2;
    options.n_sigma2_y = 1;
    options.sigma2_z = 1.0;
    options.ridge = ridge;
    options.n_ridge = 1;
    options.regress_z_on_holdout = c->regress_z;
    options.gcm_previous_batch = c->previous;
    options.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES;
    train_ok(train_regularizer_create(context, &options, &data->y, &data->z, &held.y, &held.z, &regularizer));
    return regularizer;
}

static train_network *network_of(const run_case *c, train_device *device, uint64_t start) {
    train_shape picture = {3, {1, SIDE, SIDE}}, table = {1, {5}};
    train_layer_spec *specs = NULL;
    train_network *network = NULL;
    int64_t n = 0;
    train_ok(train_network_parse(c->net, TRAIN_LEAKY_RELU, c->loss == TRAIN_MSE ? 1 : 2, &specs, &n));
    train_ok(train_network_create(device, c->images ? picture : table, specs, n, BATCH, &network));
    free(specs);
    networks[n_networks++] = network;
    train_ok(train_network_initialise(network, TRAIN_START_HE, 5 + start));
    return network;
}

static circe_status run(const run_case *c, train_device *device, const run_how *how, outcome *o) {
    train_data data = draw(c, 29, ROWS), checking = draw(c, 30, CHECKED);
    train_network *network = network_of(c, device, how->start);
    circe_measure *regularizer = c->kind == CIRCE_MEASURE_NONE ? NULL : regularizer_of(c, device->context, &data);
    int64_t layer = c->layer != NULL ? train_network_find(network, c->layer) : 0,
            outputs = c->loss == TRAIN_MSE ? 1 : 2;
    train_options options;
    train_result result;
    if (how->spoil > 0) ((float *)data.target.data)[how->spoil - 1] = NAN;
    train_options_init(&options);
    options.loss = c->loss;
    options.epochs = EPOCHS;
    options.batch = BATCH;
    options.rate = 3e-3;
    options.gamma = c->gamma;
    options.layers = &layer;
    options.n_layers = c->layer != NULL;
    options.seed = 3;
    options.unrecorded = how->unrecorded;
    options.checkpoint = how->checkpoint;
    options.resume = how->checkpoint != NULL;
    options.progress = stop_there;
    options.user = (void *)(uintptr_t)how;
    circe_status status = train_run(network, regularizer, &data, &checking, &options, &result);
    *o =
        (outcome){.epochs = result.epochs_done, .resumed = result.resumed, .n_params = train_network_n_params(network)};
    for (int64_t e = 0; e < o->epochs; e++) o->history[e] = result.history[e];
    o->params = bring(device, train_network_params(network), o->n_params);
    o->prediction = test_memory((size_t)(CHECKED * outputs) * 4);
    if (status == CIRCE_OK) train_ok(train_predict(network, &checking.features, o->prediction));
    train_result_free(&result);
    circe_measure_destroy(regularizer);
    return status;
}

static void assert_same_history(const outcome *got, const outcome *wanted, const run_case *c) {
    double tolerance = c->tolerance > 0.0 ? c->tolerance : 1e-3;
    assert_int_equal(got->epochs, wanted->epochs);
    for (int64_t e = 0; e < wanted->epochs; e++) {
        const train_epoch *a = &got->history[e], *b = &wanted->history[e];
        const double pairs[][2] = {{a->loss, b->loss},
                                   {a->validation_loss, b->validation_loss},
                                   {a->regularizer, b->regularizer},
                                   {a->validation_regularizer, b->validation_regularizer}};
        for (int k = 0; k < 4; k++) {
            double scale = fabs(pairs[k][1]) + (k < 2 ? 0.0 : 1e-3);
            if (fabs(pairs[k][0] - pairs[k][1]) <= tolerance * scale) continue;
            print_error("%s, epoch %lld: %s is %.9g, not %.9g\n", c->name, (long long)e + 1,
                        k == 0   ? "the loss"
                        : k == 1 ? "the validation loss"
                        : k == 2 ? "the regulariser"
                                 : "its value on validation rows",
                        pairs[k][0], pairs[k][1]);
            fail();
        }
    }
}

static void assert_same_bits(const outcome *got, const outcome *wanted, const char *what) {
    bool same = memcmp(got->params, wanted->params, (size_t)wanted->n_params * 4) == 0;
    for (int64_t e = 0; e < EPOCHS; e++)
        same = same && got->history[e].loss == wanted->history[e].loss &&
               got->history[e].regularizer == wanted->history[e].regularizer;
    if (same) return;
    print_error("%s: not the same bits\n", what);
    fail();
}

static void runs_agree(void **state) {
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(run_cases); k++) {
        const run_case *c = &run_cases[k];
        outcome cpu, gpu;
        train_ok(run(c, devices[CPU], &(run_how){0}, &cpu));
        train_ok(run(c, devices[GPU], &(run_how){0}, &gpu));
        assert_same_history(&gpu, &cpu, c);
        assert_floats(gpu.prediction, cpu.prediction, CHECKED, 2e-2, c->name);
        while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    }
    assert_right();
}

/* The same bits again, recorded or step by step, stopped and resumed or in one go. */
static void runs_repeat(void **state) {
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(run_cases); k++) {
        const run_case *c = &run_cases[k];
        outcome first, again, plain, part, rest;
        const char *file = test_path("repeat.checkpoint");
        train_ok(run(c, devices[GPU], &(run_how){0}, &first));
        train_ok(run(c, devices[GPU], &(run_how){0}, &again));
        train_ok(run(c, devices[GPU], &(run_how){.unrecorded = 1}, &plain));
        train_ok(run(c, devices[GPU], &(run_how){.checkpoint = file, .stop_after = 2}, &part));
        train_ok(run(c, devices[GPU], &(run_how){.checkpoint = file}, &rest));
        assert_true(rest.resumed);
        assert_same_bits(&again, &first, c->name);
        assert_same_bits(&plain, &first, c->name);
        assert_same_bits(&rest, &first, c->name);
        remove(file);
        while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    }
}

/* Runs in threads of their own, each with a device of its own, end with the bits that they have alone: layers of other
 * sizes, steps that are recorded and devices that are opened and closed meanwhile do not disturb them. The points are
 * the same arrays for all. */
typedef struct companion {
    const run_case *c;
    circe_context *context;
    const train_data *data, *checking;
    circe_status status;
    char text[256];
    double loss[EPOCHS];
    float *params; /* (n_params), found by the test */
    int64_t n_params;
} companion;

static circe_status train_companion(companion *r, train_device **device, train_network **network) {
    train_shape picture = {3, {1, SIDE, SIDE}};
    train_layer_spec *specs = NULL;
    train_options options;
    train_result result = {0};
    int64_t n = 0;
    circe_status status = train_device_cuda(r->context, 0, device);
    if (status == CIRCE_OK) status = train_network_parse(r->c->net, TRAIN_LEAKY_RELU, 1, &specs, &n);
    if (status == CIRCE_OK) status = train_network_create(*device, picture, specs, n, BATCH, network);
    if (status == CIRCE_OK) status = train_network_initialise(*network, TRAIN_START_HE, 5);
    free(specs);
    if (status != CIRCE_OK) return status;
    train_options_init(&options);
    options.epochs = EPOCHS;
    options.batch = BATCH;
    options.rate = 3e-3;
    options.seed = 3;
    status = train_run(*network, NULL, r->data, r->checking, &options, &result);
    for (int64_t e = 0; e < result.epochs_done; e++) r->loss[e] = result.history[e].loss;
    train_result_free(&result);
    if (status != CIRCE_OK) return status;
    r->n_params = train_network_n_params(*network);
    r->params = malloc((size_t)r->n_params * sizeof *r->params);
    if (r->params == NULL) return CIRCE_ERR_MEMORY;
    (*device)->ops->download(*device, r->params, train_network_params(*network),
                             (size_t)r->n_params * sizeof *r->params);
    return (*device)->ops->check(*device);
}

static void *run_companion(void *user) {
    companion *r = user;
    train_device *device = NULL;
    train_network *network = NULL;
    r->status = train_companion(r, &device, &network);
    snprintf(r->text, sizeof r->text, "%s", r->status != CIRCE_OK ? circe_last_error() : "");
    train_network_destroy(network);
    train_device_destroy(device);
    return NULL;
}

static void assert_companion(const companion *got, const outcome *wanted) {
    if (got->status != CIRCE_OK) fail_msg("%s: %s", got->c->name, got->text);
    bool same = memcmp(got->params, wanted->params, (size_t)wanted->n_params * 4) == 0;
    for (int64_t e = 0; e < EPOCHS; e++) same = same && got->loss[e] == wanted->history[e].loss;
    if (!same) fail_msg("%s: not the bits that it has alone", got->c->name);
}

static void runs_go_side_by_side(void **state) {
    enum { THREADS = 8, TIMES = 3 };
    static const run_case sizes[] = {
        {.name = "large layers", .net = "dsprites", .images = true, .loss = TRAIN_MSE},
        {.name = "small layers", .net = "conv8s2,conv8s2,16", .images = true, .loss = TRAIN_MSE},
        {.name = "cuDNN's", .net = "conv8s2,res8,average,8", .images = true, .loss = TRAIN_MSE}};
    outcome alone[COUNT(sizes)];
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(sizes); k++) train_ok(run(&sizes[k], devices[GPU], &(run_how){0}, &alone[k]));
    train_data data = draw(&sizes[0], 29, ROWS), checking = draw(&sizes[0], 30, CHECKED);
    for (int time = 0; time < TIMES; time++) {
        companion runs[THREADS];
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) {
            runs[t] = (companion){.c = &sizes[t % COUNT(sizes)], .data = &data, .checking = &checking};
            assert_ok(circe_context_create(NULL, &runs[t].context));
            assert_int_equal(pthread_create(&threads[t], NULL, run_companion, &runs[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        for (int t = 0; t < THREADS; t++) {
            assert_companion(&runs[t], &alone[t % COUNT(sizes)]);
            free(runs[t].params);
            circe_context_destroy(runs[t].context);
        }
    }
}

/* A run that began on one device ends on the other as it would have ended on the first. */
static void checkpoints_move(void **state) {
    static const int places[] = {2, 8, 11, 12}; /* of run_cases */
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(places); k++)
        for (int from = 0; from < DEVICES; from++) {
            const run_case *c = &run_cases[places[k]];
            const char *file = test_path("move.checkpoint");
            outcome whole, part, rest;
            train_ok(run(c, devices[from], &(run_how){0}, &whole));
            train_ok(run(c, devices[from], &(run_how){.checkpoint = file, .stop_after = 1}, &part));
            train_ok(run(c, devices[1 - from], &(run_how){.checkpoint = file}, &rest));
            assert_int_equal(part.epochs, 1);
            assert_true(rest.resumed);
            assert_true(rest.history[0].loss == whole.history[0].loss);
            assert_same_history(&rest, &whole, c);
            remove(file);
            while (n_networks > 0) train_network_destroy(networks[--n_networks]);
        }
}

static const run_case *run_case_of(const char *name) {
    for (int64_t k = 0; k < COUNT(run_cases); k++)
        if (strcmp(run_cases[k].name, name) == 0) return &run_cases[k];
    fail_msg("there is no run '%s'", name);
    return NULL;
}

/* Losses in less precision stay as near to those in float32 as other first weights would bring them: within the spread
 * over five starts, for each epoch. A run that began in one precision goes on in another. */
static void precisions_keep_the_curve(void **state) {
    enum { STARTS = 5 };
    static const char *const names[] = {"dsprites", "residual"};
    static const train_precision others[] = {TRAIN_TF32, TRAIN_BF16};
    (void)state;
    open_devices();
    for (int64_t k = 0; k < COUNT(names); k++) {
        const run_case *c = run_case_of(names[k]);
        const char *file = test_path("precision.checkpoint");
        outcome strict[STARTS], other, part, rest;
        for (uint64_t s = 0; s < STARTS; s++) train_ok(run(c, devices[GPU], &(run_how){.start = s}, &strict[s]));
        for (int64_t o = 0; o < COUNT(others); o++) {
            train_ok(train_device_set_precision(devices[GPU], others[o]));
            train_ok(run(c, devices[GPU], &(run_how){0}, &other));
            train_ok(run(c, devices[GPU], &(run_how){.checkpoint = file, .stop_after = 1}, &part));
            train_ok(train_device_set_precision(devices[GPU], TRAIN_FLOAT32));
            train_ok(run(c, devices[GPU], &(run_how){.checkpoint = file}, &rest));
            assert_true(rest.resumed && rest.history[0].loss == other.history[0].loss);
            for (int64_t e = 0; e < EPOCHS; e++) {
                double least = strict[0].history[e].loss, most = least, wanted = least;
                for (int64_t s = 1; s < STARTS; s++) {
                    least = fmin(least, strict[s].history[e].loss);
                    most = fmax(most, strict[s].history[e].loss);
                }
                const double losses[] = {other.history[e].loss, rest.history[e].loss};
                for (int64_t i = 0; i < COUNT(losses); i++) {
                    if (fabs(losses[i] - wanted) <= most - least) continue;
                    print_error("%s in precision %d, epoch %lld: the loss is %.6g, in float32 %.6g [%.6g to %.6g]\n",
                                c->name, (int)others[o], (long long)e + 1, losses[i], wanted, least, most);
                    wrong++;
                }
            }
            remove(file);
            while (n_networks > 0) train_network_destroy(networks[--n_networks]);
        }
    }
    assert_right();
}

/* A loss that is no number ends the run at the same step, with the same words, on both. */
static void divergence_is_told(void **state) {
    char texts[DEVICES][512];
    outcome o[DEVICES];
    (void)state;
    open_devices();
    for (int d = 0; d < DEVICES; d++) {
        circe_status status = run(&run_cases[2], devices[d], &(run_how){.spoil = 100}, &o[d]);
        assert_int_equal(status, CIRCE_ERR_NUMERIC);
        snprintf(texts[d], sizeof texts[d], "%s", circe_last_error());
    }
    assert_string_equal(texts[GPU], texts[CPU]);
    assert_non_null(strstr(texts[GPU], "row 99"));
    for (int64_t i = 0; i < o[GPU].n_params; i++) assert_true(isfinite(o[GPU].params[i]));
    assert_floats(o[GPU].params, o[CPU].params, o[CPU].n_params, 1e-2, "the parameters before it");
    assert_right();
}

TEST_MAIN("gpu_train", TEST(knows_names), TEST(knows_precisions), TEST(steps_wait), TEST(operations_agree),
          TEST(points_are_the_same), TEST(layers_agree), TEST(precisions_are_near), TEST(choices_are_kept),
          TEST(nan_is_seen), TEST(runs_agree), TEST(runs_repeat), TEST(runs_go_side_by_side), TEST(checkpoints_move),
          TEST(precisions_keep_the_curve), TEST(divergence_is_told))

#endif
