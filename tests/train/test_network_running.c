/* Networks at work on the CPU: the optimiser against a sequence computed by hand, threads, odd batches, predictions,
 * memory, loops over numbers, schedules of a run.
 *
 * ORDER, the recurring tolerance, is for the same float32 sums in another order (threads, sizes of blocks), relative to
 * the largest number in the same array. A sum of 64 products differs by about sqrt(64) 2^-24 = 5e-7, and the
 * differences of 9 layers add up to 1.5e-6 (2.2e-6 is seen with OpenBLAS's kernels for Haswell). A mistake in the
 * division of the work shows as 1e-2 or more. */
#include <malloc.h>

#include "tests/measures/dense_support.h"
#include "train/parallel.h"
#include "train/schedule.h"

#define ORDER 1e-5

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

/* ---- the optimiser ---------------------------------------------------------------------------------------------- */

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

/* ---- threads and batches ---------------------------------------------------------------------------------------- */

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
            forward_backward(&p);
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

static int64_t part_mallocs;

static void in_first_part(void *user, int64_t part, int64_t first, int64_t n) {
    assert_int_equal(n, 1);
    assert_int_equal(first, part);
    if (part != 0) return;
    forward_backward(user);
    part_mallocs = mallocs_so_far();
    forward_backward(user);
    part_mallocs = mallocs_so_far() - part_mallocs;
}

/* BLIS takes memory of its own in every call; ours is counted by the context's allocator there too. */
static bool blas_allocates(void) { return strncmp(circe_blas_name(), "BLIS", 4) == 0; }

/* Inside a part there are no more threads to be had; the parts are the same, and so are the bits; and nothing is
 * allocated. */
static void inside_a_part(void **state) {
    (void)state;
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, "2x64", TRAIN_RELU, 3, 1, 64);
    problem p = make_problem(network, TRAIN_MSE, 64);
    size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
    forward_backward(&p);
    float *kept = memcpy(test_memory(bytes), train_network_grads(network), bytes);
    train_parallel(device->context, 2, 2, in_first_part, &p);
    assert_memory_equal(train_network_grads(network), kept, bytes);
    if (!blas_allocates()) assert_int_equal(part_mallocs, 0);
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
        assert_int_equal(circe_context_parts(context, 100, 1), threads);
        assert_int_equal(circe_context_parts(context, 100, 50), threads); /* worth three */
        assert_int_equal(circe_context_parts(context, 50, 50), threads);
        assert_int_equal(circe_context_parts(context, 40, 50), threads < 2 ? 1 : 2);
        assert_int_equal(circe_context_parts(context, 30, 50), 1);
        assert_int_equal(circe_context_parts(context, 0, 50), 1);
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
    train_refused(train_network_predict(network, -1, in, out), CIRCE_ERR_ARGUMENT, "-1 rows");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

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
        if (!blas_allocates()) assert_int_equal(mallocs_so_far(), mallocs);
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
        assert_string_equal(circe_last_error(), "told to fail");
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

/* ---- schedule --------------------------------------------------------------------------------------------------- */

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

TEST_MAIN("network_running", CASE(adamw_by_hand), CASE(adamw_of_many), CASE(adamw_of_denormals), CASE(threads_agree),
          CASE(threads_keep_apart), CASE(same_bits), CASE(inside_a_part), CASE(parts_of_work), CASE(odd_batches),
          CASE(batches_refused), CASE(predictions), CASE(no_allocation_in_a_step), CASE(memory_that_fails),
          CASE(loops_over_numbers), CASE(schedules))
