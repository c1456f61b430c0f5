/* Networks for images at work on the CPU: threads, batches of other sizes, memory. */
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/train/layers_support.h"

/* ---- threads, batches, memory ----------------------------------------------------------------------------------- */

static const char *const small = "conv16s2n,res16,conv20s2,pool2,8";
static const train_shape small_input = {3, {1, 24, 20}};

/* Rows do not meet in evaluation: any cut of the rows gives the same outputs, and batches of other sizes in between
 * change nothing. More sizes than are kept at once. */
static void other_batches(void **state) {
    (void)state;
    enum { ROWS = 11 };
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, small, TRAIN_LEAKY_RELU, small_input, 2, ROWS);
    const float *in = normals(1, ROWS * 480);
    float whole[2 * ROWS], part[2 * ROWS];
    train_ok(train_network_predict(network, ROWS, in, whole));
    double *expected = doubles(whole, (int64_t)2 * ROWS);
    for (int64_t rows = 1; rows <= ROWS; rows++) {
        for (int64_t first = 0; first < ROWS; first += rows)
            train_ok(train_network_predict(network, first + rows > ROWS ? ROWS - first : rows, in + first * 480,
                                           part + 2 * first));
        assert_arrays(part, expected, 2 * ROWS, 1e-5); /* other kernels for other sizes */
    }
    train_network *narrow = make_parsed(device, small, TRAIN_LEAKY_RELU, small_input, 2, 4);
    train_ok(train_network_predict(narrow, ROWS, in, part));
    assert_arrays(part, expected, 2 * ROWS, 1e-5);
}

static void same_bits(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        float *first = NULL;
        for (int run = 0; run < 3; run++) {
            train_device *device = make_device(threads);
            train_network *network = make_parsed(device, small, TRAIN_RELU, small_input, 2, 13);
            problem p = make_problem(network, device, 13, true);
            int64_t n = train_network_n_params(network);
            float *m = test_memory((size_t)n * sizeof *m), *v = test_memory((size_t)n * sizeof *v);
            for (int64_t s = 1; s <= 3; s++) {
                const train_adamw how = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = s};
                forward_backward(&p);
                device->ops->adamw(device, &how, n, train_network_grads(network), train_network_params(network), m, v);
            }
            size_t bytes = (size_t)n * sizeof *first;
            if (run == 0) first = memcpy(test_memory(bytes), train_network_params(network), bytes);
            assert_memory_equal(train_network_params(network), first, bytes);
        }
        clean(state);
    }
}

static float *gradients_of(problem *p, float *to) {
    forward_backward(p);
    return memcpy(to, train_network_grads(p->network), (size_t)train_network_n_params(p->network) * sizeof *to);
}

/* Whatever the caller's own number of threads and its dynamic setting, the context's number is used, and the caller's
 * stays. */
static void settings_of_the_caller(void **state) {
    (void)state;
    train_device *device = make_device(2);
    train_network *network = make_parsed(device, small, TRAIN_RELU, small_input, 2, 9);
    problem p = make_problem(network, device, 9, true);
    size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
    float *kept = gradients_of(&p, test_memory(bytes));
    int before = omp_get_max_threads(), dynamic = omp_get_dynamic();
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        omp_set_dynamic(threads % 2);
        forward_backward(&p);
        assert_int_equal(omp_get_max_threads(), threads);
        assert_int_equal(omp_get_dynamic(), threads % 2);
        assert_memory_equal(train_network_grads(network), kept, bytes);
    }
    omp_set_num_threads(before);
    omp_set_dynamic(dynamic);
}

/* Inside a region of the caller's oneDNN has one thread, whether the network was made there or outside; and again all
 * of them after it. A backward pass that cannot have the threads of its forward pass is refused. */
static void inside_a_region(void **state) {
    (void)state;
    train_device *device = make_device(2), *alone = make_device(1);
    problem p = make_problem(make_parsed(device, small, TRAIN_RELU, small_input, 2, 9), device, 9, true);
    problem single = make_problem(make_parsed(alone, small, TRAIN_RELU, small_input, 2, 9), alone, 9, true);
    size_t bytes = (size_t)train_network_n_params(p.network) * sizeof(float);
    float *of_two = gradients_of(&p, test_memory(bytes)), *of_one = gradients_of(&single, test_memory(bytes));
    float *inside = test_memory(bytes), *made_inside = test_memory(bytes);
    bool several = omp_get_num_procs() > 1;
    train_ok(train_network_forward(p.network, p.rows, p.in));
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        if (several)
            train_refused(train_network_backward(p.network, p.rows, p.in), CIRCE_ERR_UNSUPPORTED,
                          "1 of the 2 threads of its forward pass");
        gradients_of(&p, inside);
        problem made = make_problem(make_parsed(device, small, TRAIN_RELU, small_input, 2, 9), device, 9, true);
        gradients_of(&made, made_inside);
        train_ok(train_network_forward(p.network, p.rows, p.in));
    }
    train_ok(train_network_backward(p.network, p.rows, p.in)); /* on the one thread that its forward pass had */
    assert_memory_equal(inside, of_one, bytes);
    assert_memory_equal(made_inside, of_one, bytes);
    assert_memory_equal(gradients_of(&p, inside), of_two, bytes);
}

/* In a child of fork, whose OpenMP has lost its threads, oneDNN has one. */
static void in_a_child(void **state) {
    (void)state;
    train_device *device = make_device(2), *alone = make_device(1);
    problem p = make_problem(make_parsed(device, small, TRAIN_RELU, small_input, 2, 9), device, 9, true);
    problem single = make_problem(make_parsed(alone, small, TRAIN_RELU, small_input, 2, 9), alone, 9, true);
    size_t bytes = (size_t)train_network_n_params(p.network) * sizeof(float);
    float *of_one = gradients_of(&single, test_memory(bytes)), *found = test_memory(bytes);
    int status = -1;
    forward_backward(&p); /* OpenMP's threads are there */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        gradients_of(&p, found);
        _exit(memcmp(found, of_one, bytes) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* From the second step of a size on, and with a tap on images. oneDNN itself keeps a list of arguments for the time of
 * a call, so that the process is not counted. */
static void no_allocation_in_a_step(void **state) {
    (void)state;
    train_device *device = make_counting_device(2);
    train_network *network = make_parsed(device, small, TRAIN_RELU, small_input, 2, 8);
    problem p = make_problem(network, device, 8, true), fewer = p;
    put_tap(&p, 3);
    fewer.rows = 5;
    int64_t before = 0;
    for (int s = 0; s < 8; s++) {
        if (s == 2) before = train_counts.allocations;
        forward_backward(s % 2 == 0 ? &p : &fewer);
    }
    assert_int_equal(train_counts.allocations, before);
}

/* Every allocation fails once: creation, a tap that makes a new plan, a batch of another size. */
static void memory_that_fails(void **state) {
    (void)state;
    train_device *device = make_counting_device(2);
    train_layer_spec *specs = NULL;
    int64_t n = 0, k;
    train_network *network = NULL;
    train_ok(train_network_parse(small, TRAIN_RELU, 2, &specs, &n));
    for (k = 0; k < 200; k++) {
        train_counts.allocations = 0;
        train_counts.fail_at = k;
        circe_status status = train_network_create(device, small_input, specs, n, 6, &network);
        if (status == CIRCE_OK) break;
        assert_int_equal(status, CIRCE_ERR_MEMORY);
        assert_string_equal(circe_last_error(), "told to fail");
        assert_null(network);
        assert_int_equal(train_counts.live, 0);
    }
    assert_true(k > 20 && k < 200);
    networks[n_networks++] = network;
    free(specs);
    const float *in = normals(1, 6 * 480);
    for (k = 0; k < 200; k++) {
        float *tap = NULL;
        train_counts.fail_at = train_counts.allocations + k;
        if (train_network_tap(network, 0, &tap) == CIRCE_OK) break;
        assert_null(tap);
        if (k > 0) train_refused(train_network_forward(network, 6, in), CIRCE_ERR_MEMORY, "tap failed");
    }
    assert_true(k > 20 && k < 200);
    for (k = 0; k < 200; k++) {
        train_counts.fail_at = train_counts.allocations + k;
        if (train_network_forward(network, 5, in) == CIRCE_OK) break;
        train_counts.fail_at = -1;
        train_ok(train_network_forward(network, 6, in));
    }
    assert_true(k > 5 && k < 200);
    train_counts.fail_at = -1;
    train_ok(train_network_backward(network, 5, in));
}

TEST_MAIN("layers_running", CASE(other_batches), CASE(same_bits), CASE(settings_of_the_caller), CASE(inside_a_region),
          CASE(in_a_child), CASE(no_allocation_in_a_step), CASE(memory_that_fails))
