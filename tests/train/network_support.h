/* What the tests of networks share: devices and networks that are destroyed after the test (each is registered with
 * CASE), arrays of float32 and float64, and their comparison. */
#pragma once

#include "tests/train/train_support.h"
#include "train/network.h"

/* ---- objects that clean up -------------------------------------------------------------------------------------- */

enum { MAX_OBJECTS = 64 };
static train_device *devices[MAX_OBJECTS];
static train_network *networks[MAX_OBJECTS];
static int n_devices, n_networks;

static inline int clean(void **state) {
    while (n_networks > 0) train_network_destroy(networks[--n_networks]);
    while (n_devices > 0) train_device_destroy(devices[--n_devices]);
    return test_clean(state);
}
#define CASE(function) cmocka_unit_test_teardown(function, clean)

static inline train_device *make_device(int threads) {
    assert_true(n_devices < MAX_OBJECTS);
    train_ok(train_device_cpu(test_context(threads), &devices[n_devices]));
    return devices[n_devices++];
}

static inline train_device *make_counting_device(int threads) { return train_counting(make_device(threads)); }

static inline circe_tensor_file *open_tensors(circe_context *context, const char *path) {
    circe_tensor_file *file = NULL;
    assert_ok(circe_tensor_file_open(context, path, &file));
    return file;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Standard normal float32, owned by the test. */
static inline float *normals(uint64_t stream, int64_t n) {
    circe_mat drawn = test_normal(stream, n, 1), made = test_copy(&drawn, CIRCE_FLOAT32);
    return made.data;
}

static inline double *doubles(const float *from, int64_t n) {
    double *made = test_memory((size_t)n * sizeof *made + 1);
    for (int64_t i = 0; i < n; i++) made[i] = (double)from[i];
    return made;
}

/* max |a_i - b_i| <= tolerance max |b_i|. */
static inline void near_arrays(const float *a, const double *b, int64_t n, double tolerance, const char *what,
                               int line) {
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
