/* Times one call of the library on a number of threads, for bench/scaling.py.
 *
 *     scaling CASE THREADS SECONDS
 *
 * Prints one JSON object: milliseconds of each run after a first that is not counted, as many as fit into the seconds,
 * at least 3; with 0 seconds, of one run alone. Data: y normal, z = y^2 + noise, x = y + noise, column by column; of
 * low-rank fits, y uniform on [0, 1] and z = y + noise, as in circe bench. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "circe/circe.h"

enum { MOST_RUNS = 200, LEAST_RUNS = 3 };

typedef struct bench {
    circe_context *context;
    circe_workspace *workspace;
    circe_kernels kernels;
    circe_mat x, y, z, grad;
    circe_cme *cme;
    circe_features *features;
    int64_t *index;
} bench;

typedef struct bench_case {
    const char *name;
    int64_t rows, dim_x, dim_y, dim_z;
    circe_dtype dtype;
    circe_status (*run)(bench *b);
    circe_status (*prepare)(bench *b); /* or NULL */
    int uniform;
} bench_case;

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void *take(size_t bytes) {
    void *block = malloc(bytes);
    if (block != NULL) return block;
    fprintf(stderr, "scaling: no memory for %zu bytes\n", bytes);
    exit(1);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static circe_mat to_dtype(double *values, int64_t rows, int64_t cols, circe_dtype dtype) {
    if (dtype == CIRCE_FLOAT64) return circe_mat_f64(values, rows, cols);
    float *narrow = take((size_t)(rows * cols) * sizeof *narrow);
    for (int64_t e = 0; e < rows * cols; e++) narrow[e] = (float)values[e];
    free(values);
    return circe_mat_f32(narrow, rows, cols);
}

static void draw(bench *b, const bench_case *c) {
    double *values[3];
    int64_t dims[3] = {c->dim_y, c->dim_x, c->dim_z};
    for (int v = 0; v < 3; v++) {
        int64_t size = c->rows * dims[v];
        values[v] = take((size_t)size * sizeof(double));
        circe_random_normal((circe_random){7, (uint64_t)v}, 0, size, values[v]);
    }
    for (int64_t i = 0; i < c->rows; i++)
        for (int v = 1; v < 3; v++)
            for (int64_t k = 0; k < dims[v]; k++) {
                double y = values[0][i * dims[0] + k % dims[0]], *out = values[v] + i * dims[v] + k;
                *out = v == 1 ? y + 0.5 * *out : 0.5 * y * y + 0.3 * *out;
            }
    if (c->uniform) circe_random_uniform((circe_random){7, 3}, 0, c->rows, values[0]);
    for (int64_t i = 0; c->uniform && i < c->rows; i++) values[2][i] = values[0][i] + 0.05 * values[1][i];
    b->y = to_dtype(values[0], c->rows, dims[0], c->dtype);
    b->x = to_dtype(values[1], c->rows, dims[1], c->dtype);
    b->z = to_dtype(values[2], c->rows, dims[2], c->dtype);
    b->grad = to_dtype(take((size_t)(c->rows * dims[1]) * sizeof(double)), c->rows, dims[1], c->dtype);
}

static void check(circe_status status) {
    if (status == CIRCE_OK) return;
    fprintf(stderr, "scaling: %s\n", circe_last_error());
    exit(1);
}

static circe_kernel *gaussian(bench *b, int64_t dim, double sigma2) {
    circe_kernel *kernel = NULL;
    check(circe_kernel_create(b->context, CIRCE_KERNEL_GAUSSIAN, sigma2 * (double)dim, &kernel));
    return kernel;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* A model of other points than those that are measured, as in training. */
static circe_status prepare_model(bench *b) {
    circe_mat y = b->y, z = b->z;
    y.rows = z.rows = b->y.rows < 1000 ? b->y.rows : 1000;
    circe_kernel *free_width = gaussian(b, y.cols, 0.0);
    circe_status status = circe_cme_fit(b->context, &y, &z, free_width, b->kernels.z, NULL, &b->cme);
    circe_kernel_destroy(free_width);
    return status;
}

static circe_status prepare_cached(bench *b) {
    circe_status status = prepare_model(b);
    b->index = take((size_t)b->x.rows * sizeof *b->index);
    for (int64_t i = 0; i < b->x.rows; i++) b->index[i] = i;
    if (status != CIRCE_OK) return status;
    return circe_features_create(b->context, b->cme, &b->y, &b->z, b->x.dtype, &b->features);
}

static circe_status run_cached(bench *b) {
    double value;
    return circe_measure_circe_cached(b->workspace, b->cme, b->features, b->index, b->x.rows, b->kernels.x, &b->x,
                                      CIRCE_USTAT, &value, &b->grad);
}

static circe_status run_raw(bench *b) {
    double value;
    return circe_measure_circe(b->workspace, b->cme, b->kernels.x, &b->x, &b->y, &b->z, CIRCE_USTAT, &value, &b->grad);
}

static circe_status run_hscic(bench *b) {
    double value;
    return circe_measure_hscic(b->workspace, &b->kernels, &b->x, &b->y, &b->z, NULL, &value, &b->grad);
}

static circe_status run_kci(bench *b) {
    double value;
    return circe_measure_kci(b->workspace, &b->kernels, &b->x, &b->y, &b->z, NULL, &value, &b->grad);
}

static circe_status run_gcm(bench *b) {
    double value;
    return circe_measure_gcm(b->workspace, b->kernels.y, &b->x, &b->y, &b->z, NULL, &value, &b->grad);
}

static circe_status fit_by(bench *b, circe_method method) {
    circe_cme *cme = NULL;
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.method = method;
    circe_kernel *free_width = gaussian(b, b->y.cols, 0.0);
    circe_status status = circe_cme_fit(b->context, &b->y, &b->z, free_width, b->kernels.z, &options, &cme);
    circe_kernel_destroy(free_width);
    circe_cme_destroy(cme);
    return status;
}

static circe_status run_dense_fit(bench *b) { return fit_by(b, CIRCE_METHOD_DENSE); }
static circe_status run_fit(bench *b) { return fit_by(b, CIRCE_METHOD_AUTO); }

static circe_status test_by(bench *b, circe_test_method method) {
    circe_test_options options;
    circe_test_result result;
    circe_test_options_init(&options);
    options.method = method;
    return circe_test(b->context, &b->x, &b->y, &b->z, &options, &result);
}

static circe_status run_kci_test(bench *b) { return test_by(b, CIRCE_TEST_KCI); }
static circe_status run_gcm_test(bench *b) { return test_by(b, CIRCE_TEST_GCM); }
static circe_status run_rcot(bench *b) { return test_by(b, CIRCE_TEST_RCOT); }

/* One eigendecomposition of a matrix of these rows is nearly all of such a fit: one width, one ridge. */
static circe_status run_eigen(bench *b) {
    circe_cme *cme = NULL;
    circe_cme_options options;
    const double one = 1.0;
    circe_cme_options_init(&options);
    options.method = CIRCE_METHOD_DENSE;
    options.ridge = &one;
    options.n_ridge = 1;
    circe_status status = circe_cme_fit(b->context, &b->y, &b->z, b->kernels.y, b->kernels.z, &options, &cme);
    circe_cme_destroy(cme);
    return status;
}

static const bench_case cases[] = {
    {"circe_cached_1024_64", 1024, 64, 1, 1, CIRCE_FLOAT32, run_cached, prepare_cached, 0},
    {"circe_raw_1024_1", 1024, 1, 1, 1, CIRCE_FLOAT32, run_raw, prepare_model, 0},
    {"circe_cached_4096_64", 4096, 64, 1, 1, CIRCE_FLOAT32, run_cached, prepare_cached, 0},
    {"hscic_1024", 1024, 1, 1, 1, CIRCE_FLOAT32, run_hscic, NULL, 0},
    {"hscic_1024_10d", 1024, 10, 10, 10, CIRCE_FLOAT32, run_hscic, NULL, 0},
    {"kci_1024", 1024, 1, 1, 1, CIRCE_FLOAT32, run_kci, NULL, 0},
    {"gcm_1024", 1024, 64, 1, 1, CIRCE_FLOAT32, run_gcm, NULL, 0},
    {"gcm_1024_10d", 1024, 64, 10, 10, CIRCE_FLOAT32, run_gcm, NULL, 0},
    {"fit_dense_2000", 2000, 1, 6, 1, CIRCE_FLOAT64, run_dense_fit, NULL, 0},
    {"eigen_2000", 2000, 1, 6, 1, CIRCE_FLOAT64, run_eigen, NULL, 0},
    {"fit_5898", 5898, 1, 1, 1, CIRCE_FLOAT64, run_fit, NULL, 1},
    {"fit_1000000", 1000000, 1, 1, 1, CIRCE_FLOAT64, run_fit, NULL, 1},
    {"fit_normal_1000000", 1000000, 1, 1, 1, CIRCE_FLOAT64, run_fit, NULL, 0},
    {"test_kci_1000", 1000, 1, 1, 1, CIRCE_FLOAT64, run_kci_test, NULL, 0},
    {"test_kci_4000", 4000, 1, 1, 1, CIRCE_FLOAT64, run_kci_test, NULL, 0},
    {"test_gcm_4000", 4000, 1, 1, 1, CIRCE_FLOAT64, run_gcm_test, NULL, 0},
    {"test_rcot_100000", 100000, 1, 1, 1, CIRCE_FLOAT64, run_rcot, NULL, 0},
};

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void run(const bench_case *c, int threads, double seconds) {
    bench b = {0};
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = threads;
    check(circe_context_create(&options, &b.context));
    check(circe_workspace_create(b.context, &b.workspace));
    draw(&b, c);
    b.kernels = (circe_kernels){gaussian(&b, c->dim_x, 1.0), gaussian(&b, c->dim_y, 1.0), gaussian(&b, c->dim_z, 1.0)};
    if (c->prepare != NULL) check(c->prepare(&b));
    int64_t least = seconds > 0.0 ? LEAST_RUNS : 1;
    if (seconds > 0.0) check(c->run(&b));
    printf("{\"case\": \"%s\", \"threads\": %d, \"milliseconds\": [", c->name, threads);
    double begin = milliseconds();
    for (int64_t k = 0; k < MOST_RUNS && (k < least || milliseconds() - begin < 1e3 * seconds); k++) {
        double start = milliseconds();
        check(c->run(&b));
        printf("%s%.6g", k == 0 ? "" : ", ", milliseconds() - start);
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 4 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            run(&cases[i], atoi(argv[2]), atof(argv[3]));
            return 0;
        }
    fprintf(stderr, "usage: scaling CASE THREADS SECONDS, CASE one of");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
