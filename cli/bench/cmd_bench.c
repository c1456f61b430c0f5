/* circe bench: medians of loss + gradient and of the fit, at the sizes of the paper, and how time grows. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "circe/circe.h"
#include "cli/bench/bench_images.h"
#include "cli/bench/bench_measures.h"
#include "cli/bench/bench_train.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "io/quantile.h"
#include "jobs/machine.h"

enum { MAX_REPETITIONS = 2001, MAX_ROWS = 64, MAX_FITS = 8, CACHED_ROWS = 16384 };

/* One timed loss + gradient in float32. */
typedef struct bench_row {
    const char *name; /* what it is there for: "loss+gradient", or the quantity that grows */
    bool cached;      /* residual features computed before; otherwise from raw y and z */
    int64_t B, M, d_x, rank_y, rank_z;
    double sigma2; /* of y and z where the rank is set by it; 0: the grid and 0.01 */
    double median, q1, q3, fit_seconds;
    int64_t repetitions;
} bench_row;

typedef struct bench_fit {
    int64_t M, n_sigma2_y, n_ridge, rank_y, rank_z;
    circe_method method;
    double seconds;
    double peak_bytes; /* of the process so far */
} bench_fit;

typedef struct bench {
    const own_options *own;
    session s;
    uint64_t seed;
    double budget; /* seconds for the repetitions of one row */
    bench_row rows[MAX_ROWS];
    int64_t n_rows;
    bench_fit fits[MAX_FITS];
    int64_t n_fits;
    measure_times measures;
    train_times training;
    image_times images;
    int64_t done, total; /* rows and fits, for the bar */
} bench;

/* y uniform on [0, 1], z = y + 0.05 noise. Rows of float64 or float32, from position `first` of the streams. */
typedef struct points {
    int64_t n;
    double *y, *z;
    float *y32, *z32;
} points;

static void free_points(points *p) {
    free(p->y);
    free(p->z);
    free(p->y32);
    free(p->z32);
    *p = (points){0};
}

static int draw_points(const bench *b, uint64_t stream, int64_t n, points *out) {
    size_t rows = (size_t)n;
    *out = (points){n, malloc(rows * sizeof(double)), malloc(rows * sizeof(double)), malloc(rows * sizeof(float)),
                    malloc(rows * sizeof(float))};
    if (out->y == NULL || out->z == NULL || out->y32 == NULL || out->z32 == NULL) {
        free_points(out);
        return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
    }
    circe_random_uniform((circe_random){b->seed, stream}, 0, n, out->y);
    circe_random_normal((circe_random){b->seed, stream + 1}, 0, n, out->z);
    for (int64_t i = 0; i < n; i++) {
        out->z[i] = out->y[i] + 0.05 * out->z[i];
        out->y32[i] = (float)out->y[i];
        out->z32[i] = (float)out->z[i];
    }
    return EXIT_DONE;
}

/* Fits M points; sigma2 = 0: the default grid of 4 x 5 and sigma2_z = 0.01, else that one width and ridge 0.1. */
static int fit_model(const bench *b, int64_t M, double sigma2, circe_cme **cme) {
    points p = {0};
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_cme_options options;
    double ridge = 0.1;
    int done = draw_points(b, 10, M, &p);
    if (done != EXIT_DONE) return done;
    circe_cme_options_init(&options);
    if (sigma2 > 0) options.sigma2_y = &sigma2, options.n_sigma2_y = 1, options.ridge = &ridge, options.n_ridge = 1;
    circe_mat y = circe_mat_f64(p.y, M, 1), z = circe_mat_f64(p.z, M, 1);
    circe_status status = circe_kernel_create(b->s.context, CIRCE_KERNEL_GAUSSIAN, 0, &kernel_y);
    if (status == CIRCE_OK)
        status = circe_kernel_create(b->s.context, CIRCE_KERNEL_GAUSSIAN, sigma2 > 0 ? sigma2 : 0.01, &kernel_z);
    if (status == CIRCE_OK) status = circe_cme_fit(b->s.context, &y, &z, kernel_y, kernel_z, &options, cme);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    free_points(&p);
    return message_refused(status);
}

/* What one repetition works on. */
typedef struct step {
    const circe_cme *cme;
    circe_features *features; /* NULL: raw */
    int64_t *order;           /* of the cached rows, walked batch after batch */
    circe_kernel *kernel_x;
    circe_mat x, y, z, grad;
} step;

static void free_step(step *t, points *p) {
    circe_features_destroy(t->features);
    circe_kernel_destroy(t->kernel_x);
    free(t->order);
    free(t->x.data);
    free(t->grad.data);
    free_points(p);
}

static circe_status run_step(const bench *b, const step *t, int64_t repetition) {
    double value = 0;
    circe_mat grad = t->grad;
    if (t->features == NULL)
        return circe_measure_circe(b->s.workspace, t->cme, t->kernel_x, &t->x, &t->y, &t->z, CIRCE_CENTERED, &value,
                                   &grad);
    int64_t batches = CACHED_ROWS / t->x.rows;
    const int64_t *index = t->order + repetition % batches * t->x.rows;
    return circe_measure_circe_cached(b->s.workspace, t->cme, t->features, index, t->x.rows, t->kernel_x, &t->x,
                                      CIRCE_CENTERED, &value, &grad);
}

/* x standard normal in float32, its kernel as wide as its dimension. */
static int prepare_x(const bench *b, const bench_row *row, step *t) {
    int64_t n = row->B * row->d_x;
    double *normal = malloc((size_t)n * sizeof *normal);
    float *x = calloc((size_t)n, sizeof *x), *grad = calloc((size_t)n, sizeof *grad);
    t->x = circe_mat_f32(x, row->B, row->d_x);
    t->grad = circe_mat_f32(grad, row->B, row->d_x);
    if (normal == NULL || x == NULL || grad == NULL) {
        free(normal);
        return message_fail(EXIT_WORK, "out of memory for a batch of %" PRId64, row->B);
    }
    circe_random_normal((circe_random){b->seed, 1}, 0, n, normal);
    for (int64_t i = 0; i < n; i++) x[i] = (float)normal[i];
    free(normal);
    circe_status status = circe_kernel_create(b->s.context, CIRCE_KERNEL_GAUSSIAN, (double)row->d_x, &t->kernel_x);
    return message_refused(status);
}

static int prepare_step(const bench *b, const bench_row *row, const circe_cme *cme, points *p, step *t) {
    *t = (step){.cme = cme};
    int64_t n = row->cached ? CACHED_ROWS : row->B;
    int done = draw_points(b, 20, n, p);
    if (done == EXIT_DONE) done = prepare_x(b, row, t);
    if (done != EXIT_DONE) return done;
    t->y = circe_mat_f32(p->y32, n, 1);
    t->z = circe_mat_f32(p->z32, n, 1);
    if (!row->cached) return EXIT_DONE;
    t->order = malloc((size_t)n * sizeof *t->order);
    if (t->order == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", n);
    circe_random_permutation((circe_random){b->seed, 2}, n, t->order);
    circe_status status = circe_features_create(b->s.context, cme, &t->y, &t->z, CIRCE_FLOAT32, &t->features);
    return message_refused(status);
}

/* Repeats a step until the budget is spent, at least 5 times, after two that only warm up. */
static int time_step(const bench *b, const step *t, bench_row *row) {
    static double times[MAX_REPETITIONS];
    int64_t n = 0;
    for (int64_t i = 0; i < 2; i++) {
        circe_status status = run_step(b, t, i);
        if (status != CIRCE_OK) return message_refused(status);
    }
    double start = job_clock();
    while (n < MAX_REPETITIONS && (n < 5 || job_clock() - start < b->budget)) {
        double before = job_clock();
        circe_status status = run_step(b, t, n);
        times[n++] = job_clock() - before;
        if (status != CIRCE_OK) return message_refused(status);
        if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    }
    quantile_sort(times, n);
    row->median = quantile_at(times, n, 0.5);
    row->q1 = quantile_at(times, n, 0.25);
    row->q3 = quantile_at(times, n, 0.75);
    row->repetitions = n;
    return EXIT_DONE;
}

/* Adds a row measured with a model that is there already. */
static int add_row(bench *b, bench_row row, const circe_cme *cme) {
    step t;
    points p = {0};
    circe_cme_info info;
    circe_cme_get_info(cme, &info);
    row.M = info.rows;
    row.rank_y = info.rank_y;
    row.rank_z = info.rank_z;
    row.fit_seconds = info.seconds;
    progress_step(NULL, row.name, ++b->done, b->total);
    int status = prepare_step(b, &row, cme, &p, &t);
    if (status == EXIT_DONE) status = time_step(b, &t, &row);
    free_step(&t, &p);
    if (status == EXIT_DONE && b->n_rows < MAX_ROWS) b->rows[b->n_rows++] = row;
    return status;
}

/* The same with a model fitted for it. */
static int add_fitted_row(bench *b, bench_row row) {
    circe_cme *cme = NULL;
    int status = fit_model(b, row.M, row.sigma2, &cme);
    if (status == EXIT_DONE) status = add_row(b, row, cme);
    circe_cme_destroy(cme);
    return status;
}

static int add_fit(bench *b, int64_t M, int repetitions) {
    double times[16] = {0};
    bench_fit *fit = &b->fits[b->n_fits++];
    *fit = (bench_fit){.M = M};
    progress_step(NULL, "fit", ++b->done, b->total);
    for (int i = 0; i < repetitions; i++) {
        circe_cme *cme = NULL;
        circe_cme_info info;
        circe_loo_table loo;
        int status = fit_model(b, M, 0, &cme);
        if (status != EXIT_DONE) return status;
        circe_cme_get_info(cme, &info);
        circe_cme_get_loo(cme, &loo);
        times[i] = info.seconds;
        fit->rank_y = info.rank_y, fit->rank_z = info.rank_z, fit->method = info.method;
        fit->n_sigma2_y = loo.n_sigma2_y, fit->n_ridge = loo.n_ridge;
        circe_cme_destroy(cme);
    }
    quantile_sort(times, repetitions);
    fit->seconds = quantile_at(times, repetitions, 0.5);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fit->peak_bytes = 1024.0 * (double)usage.ru_maxrss;
    return EXIT_DONE;
}

/* The three sizes of the paper's experiments, each raw and cached. */
static int run_sizes(bench *b) {
    static const int64_t sizes[][3] = {{256, 1267, 1}, {1024, 5898, 1}, {1024, 5898, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int cached = 0; cached < 2; cached++) {
            bench_row row = {
                .name = "loss+gradient", .cached = cached, .B = sizes[i][0], .M = sizes[i][1], .d_x = sizes[i][2]};
            int status = add_fitted_row(b, row);
            if (status != EXIT_DONE) return status;
        }
    }
    return EXIT_DONE;
}

/* B and d_x with one model; M and the rank (by the kernels' width) with a model each. */
static int run_growth(bench *b, bool quick) {
    circe_cme *cme = NULL;
    int status = fit_model(b, 5898, 0, &cme);
    for (int64_t B = 64; status == EXIT_DONE && B <= (quick ? 1024 : 4096); B *= 2)
        status = add_row(b, (bench_row){.name = "B", .cached = true, .B = B, .d_x = 1}, cme);
    for (int64_t d = 1; status == EXIT_DONE && d <= 256; d *= 4)
        status = add_row(b, (bench_row){.name = "d_x", .cached = true, .B = 1024, .d_x = d}, cme);
    circe_cme_destroy(cme);
    for (int64_t M = 500; status == EXIT_DONE && M <= (quick ? 8000 : 64000); M *= 2)
        status = add_fitted_row(b, (bench_row){.name = "M", .B = 1024, .M = M, .d_x = 1});
    for (double sigma2 = 1; status == EXIT_DONE && sigma2 > (quick ? 5e-4 : 5e-6); sigma2 /= 10)
        status = add_fitted_row(
            b, (bench_row){.name = "rank", .cached = true, .B = 1024, .M = 5898, .d_x = 1, .sigma2 = sigma2});
    return status;
}

static cJSON *row_json(const bench_row *row) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "name", row->name);
    json_integer(out, "B", row->B);
    json_integer(out, "M", row->M);
    json_integer(out, "d_x", row->d_x);
    json_integer(out, "rank_y", row->rank_y);
    json_integer(out, "rank_z", row->rank_z);
    json_number(out, "median_ms", 1e3 * row->median);
    json_number(out, "q1_ms", 1e3 * row->q1);
    json_number(out, "q3_ms", 1e3 * row->q3);
    json_integer(out, "repetitions", row->repetitions);
    cJSON_AddStringToObject(out, "path", row->cached ? "cached" : "raw");
    json_number(out, "fit_seconds", row->fit_seconds);
    return out;
}

static int print_json(const bench *b, const char *cpu) {
    cJSON *out = cJSON_CreateObject();
    cJSON *machine = cJSON_AddObjectToObject(out, "machine");
    cJSON_AddStringToObject(machine, "cpu", cpu);
    json_integer(machine, "threads", circe_context_threads(b->s.context));
    cJSON_AddStringToObject(machine, "isa", circe_context_isa(b->s.context));
    cJSON_AddStringToObject(machine, "blas", circe_blas_name());
    cJSON_AddStringToObject(machine, "blas_core", circe_blas_core());
    cJSON_AddStringToObject(out, "version", circe_version());
    cJSON *rows = cJSON_AddArrayToObject(out, "rows"), *fits = cJSON_AddArrayToObject(out, "fit");
    cJSON *growth = cJSON_AddObjectToObject(out, "growth");
    static const char *const names[] = {"B", "M", "d_x", "rank"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) cJSON_AddArrayToObject(growth, names[i]);
    for (int64_t i = 0; i < b->n_rows; i++) {
        cJSON *table = cJSON_GetObjectItemCaseSensitive(growth, b->rows[i].name);
        cJSON_AddItemToArray(table != NULL ? table : rows, row_json(&b->rows[i]));
    }
    for (int64_t i = 0; i < b->n_fits; i++) {
        const bench_fit *fit = &b->fits[i];
        cJSON *entry = cJSON_CreateObject();
        json_integer(entry, "M", fit->M);
        json_integer(entry, "sigma2_y", fit->n_sigma2_y);
        json_integer(entry, "ridge", fit->n_ridge);
        json_number(entry, "seconds", fit->seconds);
        json_integer(entry, "rank_y", fit->rank_y);
        json_integer(entry, "rank_z", fit->rank_z);
        cJSON_AddStringToObject(entry, "method", circe_method_name(fit->method));
        json_number(entry, "peak_bytes", fit->peak_bytes);
        cJSON_AddItemToArray(fits, entry);
    }
    bench_measures_json(out, &b->measures);
    bench_train_json(out, &b->training);
    bench_images_json(out, &b->images);
    return json_print(out);
}

static void print_row(const bench_row *row) {
    printf("  %6" PRId64 " %8" PRId64 " %5" PRId64 " %4" PRId64 ",%-4" PRId64 "  %-6s  %10.4g  %10.4g %10.4g  %6" PRId64
           "\n",
           row->B, row->M, row->d_x, row->rank_y, row->rank_z, row->cached ? "cached" : "raw", 1e3 * row->median,
           1e3 * row->q1, 1e3 * row->q3, row->repetitions);
}

static void print_circe(const bench *b) {
    static const char *const names[] = {"loss+gradient", "B", "M", "d_x", "rank"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (k == 0)
            printf(
                "\nLoss + gradient, float32, in milliseconds. B: batch, M: holdout; raw: from y and z, cached: from\n"
                "residual features of the data set.\n\n");
        else
            printf("\nGrowth with %s%s\n\n", k == 4 ? "the " : "", names[k]);
        printf("  %6s %8s %5s %9s  %-6s  %10s  %10s %10s  %6s\n", "B", "M", "d_x", "rank y,z", "path", "median", "q1",
               "q3", "times");
        for (int64_t i = 0; i < b->n_rows; i++) {
            if (strcmp(b->rows[i].name, names[k]) == 0) print_row(&b->rows[i]);
        }
    }
    printf("\nFit with the leave-one-out grid\n\n  %8s  %9s  %9s  %-8s  %10s  %12s\n", "M", "grid", "rank y,z",
           "method", "seconds", "peak memory");
    for (int64_t i = 0; i < b->n_fits; i++) {
        const bench_fit *f = &b->fits[i];
        printf("  %8" PRId64 "  %4" PRId64 " x %-2" PRId64 "  %4" PRId64 ",%-4" PRId64 "  %-8s  %10.4g  %9.0f MB\n",
               f->M, f->n_sigma2_y, f->n_ridge, f->rank_y, f->rank_z, circe_method_name(f->method), f->seconds,
               f->peak_bytes / 1e6);
    }
}

static void print_text(const bench *b, const char *cpu) {
    char text[192];
    printf("%s; circe %s\n", cpu, session_text(&b->s, text, sizeof text));
    if (b->n_rows > 0) print_circe(b);
    if (b->measures.n > 0) bench_measures_print(&b->measures);
    if (b->training.n > 0) bench_train_print(&b->training);
    if (b->images.n > 0) bench_images_print(&b->images);
}

/* In the order of the words of --only. */
enum { PART_CIRCE, PART_MEASURES, PART_TRAIN, PART_IMAGES };

/* Images take their time, and are measured where they are asked for. */
static bool wants(const bench *b, int part) {
    return b->own->only != NULL ? circe_word_index("circe|measures|train|images", b->own->only) == part
                                : part != PART_IMAGES;
}

static int run(bench *b) {
    bool quick = b->own->quick, large = b->own->large;
    b->budget = quick ? 0.1 : 0.7;
    b->total = quick ? 6 + 1 + 5 + 5 + 5 + 4 : 6 + 1 + 7 + 5 + 8 + 6;
    b->total += large;
    int status = EXIT_DONE;
    if (wants(b, PART_MEASURES)) status = bench_measures(&b->s, b->seed, b->budget, quick, &b->measures);
    if (status == EXIT_DONE && wants(b, PART_TRAIN)) status = bench_train(&b->s, b->own, b->seed, quick, &b->training);
    if (status == EXIT_DONE && wants(b, PART_IMAGES)) status = bench_images(&b->s, b->own, b->seed, quick, &b->images);
    if (status != EXIT_DONE || !wants(b, PART_CIRCE)) return status;
    status = run_sizes(b);
    if (status == EXIT_DONE) status = add_fit(b, 5898, quick ? 3 : 9);
    if (status == EXIT_DONE && large) status = add_fit(b, 1000000, 1);
    return status == EXIT_DONE ? run_growth(b, quick) : status;
}

int cmd_bench(const args *arguments) {
    char cpu[128];
    bench *b = small_alloc(sizeof *b);
    b->own = &arguments->own;
    b->seed = (uint64_t)arguments->own.seed;
    int status = session_open(&arguments->own, &b->s);
    if (status == EXIT_DONE) status = run(b);
    progress_clear();
    machine_processor(cpu, sizeof cpu);
    if (status == EXIT_DONE && arguments->own.json)
        status = print_json(b, cpu);
    else if (status == EXIT_DONE)
        print_text(b, cpu);
    session_close(&b->s);
    free(b);
    return status;
}
