/* Data: y standard normal, z and x = y + 0.3 noise; kernels gaussian with sigma2 1 (x, z) and 0.1 (y), ridge 0.01: the
 * settings of HSCIC in the paper's univariate experiments. bench/measures.py has the same in PyTorch. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/bench/bench.h"
#include "cli/common/message.h"

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

static int make_problem(const bench *b, const timed *t, bench_problem *p) {
    int64_t n = t->n;
    circe_dtype dtype = t->gradient ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    static const double sigma2_y = 0.1, ridge = 0.01;
    double *normal = malloc((size_t)(3 * n) * sizeof *normal);
    if (normal == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
    circe_random_normal((circe_random){b->seed, 50}, 0, 3 * n, normal);
    bool complete = bench_mat(normal, NULL, 0.0, n, 1, dtype, &p->y) &&
                    bench_mat(normal, normal + n, 0.3, n, 1, dtype, &p->z) &&
                    bench_mat(normal, normal + 2 * n, 0.3, n, 1, dtype, &p->x) &&
                    (!t->gradient || bench_mat(normal, NULL, 0.0, n, 1, dtype, &p->grad));
    free(normal);
    circe_measure_options options;
    circe_measure_options_init(&options, t->kind);
    options.estimator = CIRCE_BIASED;
    options.sigma2_x = 1.0;
    options.sigma2_y = &sigma2_y;
    options.ridge = &ridge;
    options.n_sigma2_y = options.n_ridge = 1;
    circe_status status = circe_measure_create(b->s.context, &options, &p->measure);
    if (status != CIRCE_OK) return message_refused(status);
    return complete ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
}

int bench_measures(bench *b) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const timed *t = &table[i];
        bench_problem p = {0};
        if (b->own->quick && t->slow) continue;
        cJSON *row = bench_row(b->found, "measures");
        cJSON_AddStringToObject(row, "measure", circe_measure_name(t->kind));
        json_integer(row, "n", t->n);
        cJSON_AddBoolToObject(row, "gradient", t->gradient);
        cJSON_AddStringToObject(row, "dtype", t->gradient ? "float32" : "float64");
        int status = make_problem(b, t, &p);
        if (status == EXIT_DONE)
            status = bench_repeat(bench_call, &p, t->slow ? 0 : 2, t->slow ? 1 : 5, b->budget, row);
        bench_problem_free(&p);
        if (status != EXIT_DONE) return status;
    }
    return EXIT_DONE;
}

void bench_measures_print(const bench *b) {
    static const bench_column columns[] = {
        {"measure", "measure", 0}, {"n", "n", 0},      {"type", "dtype", 0},        {"median", "median_ms", 0},
        {"q1", "q1_ms", 0},        {"q3", "q3_ms", 0}, {"times", "repetitions", 0}, {0}};
    bench_table("Other measures, in milliseconds: loss + gradient in float32, or the value in float64",
                cJSON_GetObjectItemCaseSensitive(b->found, "measures"), columns);
}
