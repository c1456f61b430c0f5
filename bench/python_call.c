/* The C side of bench/python.py: microseconds of circe_measure_circe with gradient on the points in a folder, float32
 * and float64, one thread, processor time; the quickest of 15 rounds. Arguments: folder, holdout rows, batch rows. */
#include <circe/circe.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, CALLS = 2000 };

static void check(circe_status status) {
    if (status == CIRCE_OK) return;
    fprintf(stderr, "%s\n", circe_last_error());
    exit(1);
}

static double *read_points(const char *folder, const char *name, int64_t n) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    double *points = malloc((size_t)n * sizeof *points);
    if (file == NULL || points == NULL || fread(points, sizeof *points, (size_t)n, file) != (size_t)n) exit(1);
    fclose(file);
    return points;
}

/* A view of the points, in another precision where asked. */
static circe_mat view(const double *points, int64_t n, circe_dtype dtype) {
    if (dtype == CIRCE_FLOAT64) return circe_mat_f64(points, n, 1);
    float *copy = malloc((size_t)n * sizeof *copy);
    if (copy == NULL) exit(1);
    for (int64_t i = 0; i < n; i++) copy[i] = (float)points[i];
    return circe_mat_f32(copy, n, 1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double microseconds(circe_workspace *workspace, const circe_cme *model, const circe_kernel *kernel_x,
                           const double *const points[3], int64_t n, circe_dtype dtype) {
    circe_mat x = view(points[0], n, dtype), y = view(points[1], n, dtype), z = view(points[2], n, dtype);
    circe_mat grad = view(points[0], n, dtype);
    double value, best = 1e9;
    if (dtype == CIRCE_FLOAT64) grad.data = malloc((size_t)n * sizeof(double));
    for (int round = 0; round < ROUNDS; round++) {
        double before = seconds();
        for (int i = 0; i < CALLS; i++)
            check(circe_measure_circe(workspace, model, kernel_x, &x, &y, &z, CIRCE_CENTERED, &value, &grad));
        double took = seconds() - before;
        if (took < best) best = took;
    }
    return 1e6 * best / CALLS;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int64_t m = atoll(arguments[2]), n = atoll(arguments[3]);
    double sigma2_y = 0.1, ridge = 0.1;
    circe_mat Y = circe_mat_f64(read_points(arguments[1], "Y", m), m, 1);
    circe_mat Z = circe_mat_f64(read_points(arguments[1], "Z", m), m, 1);
    const double *points[3] = {read_points(arguments[1], "x", n), read_points(arguments[1], "y", n),
                               read_points(arguments[1], "z", n)};
    circe_context_options settings;
    circe_cme_options options;
    circe_context *context;
    circe_workspace *workspace;
    circe_kernel *kernel_x, *kernel_y, *kernel_z;
    circe_cme *model;
    circe_context_options_init(&settings);
    settings.threads = 1;
    check(circe_context_create(&settings, &context));
    check(circe_workspace_create(context, &workspace));
    check(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, 1.0, &kernel_x));
    check(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, sigma2_y, &kernel_y));
    check(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, 0.01, &kernel_z));
    circe_cme_options_init(&options);
    options.method = CIRCE_METHOD_LOWRANK;
    options.ridge = &ridge;
    options.n_ridge = 1;
    check(circe_cme_fit(context, &Y, &Z, kernel_y, kernel_z, &options, &model));
    printf("%.3f %.3f\n", microseconds(workspace, model, kernel_x, points, n, CIRCE_FLOAT32),
           microseconds(workspace, model, kernel_x, points, n, CIRCE_FLOAT64));
    return 0; /* the system frees */
}
