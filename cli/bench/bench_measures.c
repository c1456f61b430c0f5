/* Data: y standard normal, z and x = y + 0.3 noise; kernels gaussian with sigma2 1 (x, z) and 0.1 (y), ridge 0.01: the
 * settings of HSCIC in the paper's univariate experiments. bench/measures.py has the same in PyTorch. */
#include "cli/bench/bench_measures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "io/quantile.h"

enum { MAX_REPETITIONS = 2001 };

typedef struct problem {
    circe_measure *measure;
    circe_mat x, y, z, grad;
    bool gradient;
} problem;

typedef struct timed {
    circe_measure_kind kind;
    int64_t n;
    bool gradient, slow; /* slow: not with --quick */
} timed;

static const timed table[] = {
    {CIRCE_MEASURE_HSIC, 256, true, false},    {CIRCE_MEASURE_HSIC, 1024, true, false},
    {CIRCE_MEASURE_HSCIC, 256, true, false},   {CIRCE_MEASURE_HSCIC, 1024, true, false},
    {CIRCE_MEASURE_GCM, 256, true, false},     {CIRCE_MEASURE_GCM, 1024, true, false},
    {CIRCE_MEASURE_KCI, 256, true, false},     {CIRCE_MEASURE_KCI, 1024, true, false},
    {CIRCE_MEASURE_KCI, 1000, false, false},   {CIRCE_MEASURE_KCI, 20000, false, true},
    {CIRCE_MEASURE_NOCCO, 1000, false, false}, {CIRCE_MEASURE_NOCCO, 20000, false, true},
    {CIRCE_MEASURE_KPC, 1000, false, false},   {CIRCE_MEASURE_KPC, 20000, false, true},
};

static bool column(int64_t n, const double *y, const double *noise, double weight, circe_dtype dtype, circe_mat *out) {
    void *data = malloc((size_t)n * circe_dtype_size(dtype));
    *out = (circe_mat){data, n, 1, 1, dtype};
    for (int64_t i = 0; data != NULL && i < n; i++) {
        double v = y[i] + weight * noise[i];
        if (dtype == CIRCE_FLOAT32)
            ((float *)data)[i] = (float)v;
        else
            ((double *)data)[i] = v;
    }
    return data != NULL;
}

static void free_problem(problem *p) {
    circe_measure_destroy(p->measure);
    free(p->x.data);
    free(p->y.data);
    free(p->z.data);
    free(p->grad.data);
}

static int make_problem(const session *s, uint64_t seed, const timed *t, problem *p) {
    int64_t n = t->n;
    circe_dtype dtype = t->gradient ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    static const double sigma2_y = 0.1, ridge = 0.01;
    *p = (problem){.gradient = t->gradient};
    double *normal = malloc((size_t)(3 * n) * sizeof *normal);
    if (normal == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
    circe_random_normal((circe_random){seed, 50}, 0, 3 * n, normal);
    bool complete = column(n, normal, normal, 0.0, dtype, &p->y) && column(n, normal, normal + n, 0.3, dtype, &p->z) &&
                    column(n, normal, normal + 2 * n, 0.3, dtype, &p->x) &&
                    column(n, normal, normal, 0.0, dtype, &p->grad);
    free(normal);
    circe_measure_options options;
    circe_measure_options_init(&options, t->kind);
    options.estimator = CIRCE_BIASED;
    options.sigma2_x = 1.0;
    options.sigma2_y = &sigma2_y;
    options.ridge = &ridge;
    options.n_sigma2_y = options.n_ridge = 1;
    circe_status status = circe_measure_create(s->context, &options, &p->measure);
    if (status != CIRCE_OK) return message_refused(status);
    return complete ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
}

static int time_problem(const timed *t, const problem *p, double budget, measure_time *row) {
    static double times[MAX_REPETITIONS];
    circe_mat grad = p->grad;
    int64_t n = 0;
    double start = job_clock();
    for (int64_t warm = t->slow ? 0 : -2; n < MAX_REPETITIONS; warm++) {
        double before = job_clock();
        circe_status status =
            circe_measure_points(p->measure, &p->x, &p->y, &p->z, &row->value, p->gradient ? &grad : NULL);
        if (status != CIRCE_OK) return message_refused(status);
        if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
        if (warm >= 0) times[n++] = job_clock() - before;
        if (n >= (t->slow ? 1 : 5) && job_clock() - start >= budget) break;
    }
    quantile_sort(times, n);
    row->median = quantile_at(times, n, 0.5);
    row->q1 = quantile_at(times, n, 0.25);
    row->q3 = quantile_at(times, n, 0.75);
    row->repetitions = n;
    return EXIT_DONE;
}

int bench_measures(const session *s, uint64_t seed, double budget, bool quick, measure_times *out) {
    *out = (measure_times){.n = 0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const timed *t = &table[i];
        problem p;
        if (quick && t->slow) continue;
        measure_time *row = &out->rows[out->n++];
        *row = (measure_time){.measure = circe_measure_name(t->kind), .n = t->n, .gradient = t->gradient};
        int status = make_problem(s, seed, t, &p);
        if (status == EXIT_DONE) status = time_problem(t, &p, budget, row);
        free_problem(&p);
        if (status != EXIT_DONE) return status;
    }
    return EXIT_DONE;
}

void bench_measures_print(const measure_times *times) {
    printf("\nOther measures, in milliseconds: loss + gradient in float32, or the value in float64\n\n");
    printf("  %-8s %6s  %-15s  %10s  %10s %10s  %6s\n", "measure", "n", "what", "median", "q1", "q3", "times");
    for (int64_t i = 0; i < times->n; i++) {
        const measure_time *t = &times->rows[i];
        printf("  %-8s %6" PRId64 "  %-15s  %10.4g  %10.4g %10.4g  %6" PRId64 "\n", t->measure, t->n,
               t->gradient ? "loss + gradient" : "value", 1e3 * t->median, 1e3 * t->q1, 1e3 * t->q3, t->repetitions);
    }
}

void bench_measures_json(cJSON *object, const measure_times *times) {
    cJSON *list = cJSON_AddArrayToObject(object, "measures");
    for (int64_t i = 0; i < times->n; i++) {
        const measure_time *t = &times->rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "measure", t->measure);
        json_integer(row, "n", t->n);
        cJSON_AddBoolToObject(row, "gradient", t->gradient);
        cJSON_AddStringToObject(row, "dtype", t->gradient ? "float32" : "float64");
        json_number(row, "median_ms", 1e3 * t->median);
        json_number(row, "q1_ms", 1e3 * t->q1);
        json_number(row, "q3_ms", 1e3 * t->q3);
        json_integer(row, "repetitions", t->repetitions);
        cJSON_AddItemToArray(list, row);
    }
}
