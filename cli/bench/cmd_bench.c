/* circe bench: medians of loss + gradient and of the fit, at the sizes of the paper, and how time grows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/owned.h"
#include "circe/circe.h"
#include "cli/bench/bench.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "core/sort.h"
#include "jobs/machine.h"

enum { CACHED_ROWS = 16384 };

/* One loss + gradient in float32 to be timed. */
typedef struct bench_case {
    const char *name; /* the list of its row: "rows", or the quantity that grows */
    bool cached;      /* residual features computed before; otherwise from raw y and z */
    int64_t B, M, d_x;
    double sigma2; /* of y and z where the rank is set by it; 0: the grid and 0.01 */
} bench_case;

/* y uniform on [0, 1], z = y + 0.05 noise, from position 0 of the streams. */
static int draw_points(const bench *b, uint64_t stream, int64_t n, circe_dtype dtype, circe_mat *y, circe_mat *z) {
    OWNED double *drawn = malloc((size_t)(2 * n) * sizeof *drawn);
    if (drawn != NULL) {
        circe_random_uniform((circe_random){b->seed, stream}, 0, n, drawn);
        circe_random_normal((circe_random){b->seed, stream + 1}, 0, n, drawn + n);
    }
    bool complete = drawn != NULL && bench_mat(drawn, NULL, 0.0, n, 1, dtype, y) &&
                    bench_mat(drawn, drawn + n, 0.05, n, 1, dtype, z);
    return complete ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
}

/* Fits M points; sigma2 = 0: the default grid of 4 x 5 and sigma2_z = 0.01, else that one width and ridge 0.1. */
static int fit_model(const bench *b, int64_t M, double sigma2, circe_cme **cme) {
    circe_mat y = {0}, z = {0};
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_cme_options options;
    double ridge = 0.1;
    int done = draw_points(b, 10, M, CIRCE_FLOAT64, &y, &z);
    circe_cme_options_init(&options);
    if (sigma2 > 0) options.sigma2_y = &sigma2, options.n_sigma2_y = 1, options.ridge = &ridge, options.n_ridge = 1;
    circe_status status = circe_kernel_create(b->s.context, CIRCE_KERNEL_GAUSSIAN, 0, &kernel_y);
    if (status == CIRCE_OK)
        status = circe_kernel_create(b->s.context, CIRCE_KERNEL_GAUSSIAN, sigma2 > 0 ? sigma2 : 0.01, &kernel_z);
    if (status == CIRCE_OK && done == EXIT_DONE)
        status = circe_cme_fit(b->s.context, &y, &z, kernel_y, kernel_z, &options, cme);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    free(y.data);
    free(z.data);
    return done == EXIT_DONE ? message_refused(status) : done;
}

/* x standard normal in float32, its kernel as wide as its dimension. */
static int prepare_x(const bench *b, const bench_case *row, bench_problem *p) {
    int64_t n = row->B * row->d_x;
    OWNED double *normal = malloc((size_t)n * sizeof *normal);
    if (normal != NULL) circe_random_normal((circe_random){b->seed, 1}, 0, n, normal);
    if (normal == NULL || !bench_mat(normal, NULL, 0.0, row->B, row->d_x, CIRCE_FLOAT32, &p->x) ||
        !bench_mat(normal, NULL, 0.0, row->B, row->d_x, CIRCE_FLOAT32, &p->grad))
        return message_fail(EXIT_WORK, "out of memory for a batch of %" PRId64, row->B);
    circe_measure_options options;
    circe_measure_options_init(&options, CIRCE_MEASURE_CIRCE);
    options.estimator = CIRCE_CENTERED;
    options.sigma2_x = (double)row->d_x;
    options.per_dimension = 0;
    return message_refused(circe_measure_create(b->s.context, &options, &p->measure));
}

static int prepare_step(const bench *b, const bench_case *row, const circe_cme *cme, bench_problem *p) {
    int64_t n = row->cached ? CACHED_ROWS : row->B;
    int done = draw_points(b, 20, n, CIRCE_FLOAT32, &p->y, &p->z);
    if (done == EXIT_DONE) done = prepare_x(b, row, p);
    if (done == EXIT_DONE) done = message_refused(circe_measure_set_mean(p->measure, cme));
    if (done != EXIT_DONE || !row->cached) return done;
    p->order = malloc((size_t)n * sizeof *p->order);
    if (p->order == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", n);
    circe_random_permutation((circe_random){b->seed, 2}, n, p->order);
    circe_status status = circe_features_create(b->s.context, cme, &p->y, &p->z, CIRCE_FLOAT32, &p->features);
    if (status == CIRCE_OK) status = circe_measure_bind_features(p->measure, p->features);
    return message_refused(status);
}

/* Adds a row measured with a model that is there already. */
static int add_row(bench *b, bench_case row, const circe_cme *cme) {
    bench_problem p = {0};
    circe_cme_info info;
    bool grows = strcmp(row.name, "rows") != 0;
    cJSON *growth = cJSON_GetObjectItemCaseSensitive(b->found, "growth");
    circe_cme_get_info(cme, &info);
    progress_step(NULL, grows ? row.name : "loss+gradient", ++b->done, b->total);
    cJSON *out = bench_row(grows ? growth : b->found, row.name);
    cJSON_AddStringToObject(out, "name", grows ? row.name : "loss+gradient");
    json_integer(out, "B", row.B);
    json_integer(out, "M", info.rows);
    json_integer(out, "d_x", row.d_x);
    json_integer(out, "rank_y", info.rank_y);
    json_integer(out, "rank_z", info.rank_z);
    int status = prepare_step(b, &row, cme, &p);
    if (status == EXIT_DONE) status = bench_repeat(bench_call, &p, 2, 5, b->budget, out);
    cJSON_AddStringToObject(out, "path", row.cached ? "cached" : "raw");
    json_number(out, "fit_seconds", info.seconds);
    bench_problem_free(&p);
    return status;
}

/* The same with a model fitted for it. */
static int add_fitted_row(bench *b, bench_case row) {
    circe_cme *cme = NULL;
    int status = fit_model(b, row.M, row.sigma2, &cme);
    if (status == EXIT_DONE) status = add_row(b, row, cme);
    circe_cme_destroy(cme);
    return status;
}

static int add_fit(bench *b, int64_t M, int repetitions) {
    double times[16] = {0};
    circe_cme_info info = {0};
    circe_loo_table loo = {0};
    progress_step(NULL, "fit", ++b->done, b->total);
    for (int i = 0; i < repetitions; i++) {
        circe_cme *cme = NULL;
        int status = fit_model(b, M, 0, &cme);
        if (status != EXIT_DONE) return status;
        circe_cme_get_info(cme, &info);
        circe_cme_get_loo(cme, &loo);
        times[i] = info.seconds;
        circe_cme_destroy(cme);
    }
    circe__sort(times, repetitions);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    cJSON *out = bench_row(b->found, "fit");
    json_integer(out, "M", M);
    json_integer(out, "sigma2_y", loo.n_sigma2_y);
    json_integer(out, "ridge", loo.n_ridge);
    json_number(out, "seconds", circe__quantile(times, repetitions, 0.5));
    json_integer(out, "rank_y", info.rank_y);
    json_integer(out, "rank_z", info.rank_z);
    cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
    json_number(out, "peak_bytes", 1024.0 * (double)usage.ru_maxrss); /* of the process so far */
    return EXIT_DONE;
}

/* The three sizes of the paper's experiments, each raw and cached. */
static int run_sizes(bench *b) {
    static const int64_t sizes[][3] = {{256, 1267, 1}, {1024, 5898, 1}, {1024, 5898, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int cached = 0; cached < 2; cached++) {
            bench_case row = {.name = "rows", .cached = cached, .B = sizes[i][0], .M = sizes[i][1], .d_x = sizes[i][2]};
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
        status = add_row(b, (bench_case){.name = "B", .cached = true, .B = B, .d_x = 1}, cme);
    for (int64_t d = 1; status == EXIT_DONE && d <= 256; d *= 4)
        status = add_row(b, (bench_case){.name = "d_x", .cached = true, .B = 1024, .d_x = d}, cme);
    circe_cme_destroy(cme);
    for (int64_t M = 500; status == EXIT_DONE && M <= (quick ? 8000 : 64000); M *= 2)
        status = add_fitted_row(b, (bench_case){.name = "M", .B = 1024, .M = M, .d_x = 1});
    for (double sigma2 = 1; status == EXIT_DONE && sigma2 > (quick ? 5e-4 : 5e-6); sigma2 /= 10)
        status = add_fitted_row(
            b, (bench_case){.name = "rank", .cached = true, .B = 1024, .M = 5898, .d_x = 1, .sigma2 = sigma2});
    return status;
}

/* The lists are there in this order, whatever is measured. */
static cJSON *begin(const bench *b) {
    static const char *const lists[] = {"rows", "fit"}, *const growths[] = {"B", "M", "d_x", "rank"};
    static const char *const others[] = {"measures", "train", "images"};
    char cpu[128];
    cJSON *out = cJSON_CreateObject(), *machine = cJSON_AddObjectToObject(out, "machine");
    cJSON_AddStringToObject(machine, "cpu", machine_processor(cpu, sizeof cpu));
    json_integer(machine, "threads", circe_context_threads(b->s.context));
    cJSON_AddStringToObject(machine, "isa", circe_context_isa(b->s.context));
    cJSON_AddStringToObject(machine, "blas", circe_blas_name());
    cJSON_AddStringToObject(machine, "blas_core", circe_blas_core());
    cJSON_AddStringToObject(out, "version", circe_version());
    for (int i = 0; i < 2; i++) cJSON_AddArrayToObject(out, lists[i]);
    cJSON *growth = cJSON_AddObjectToObject(out, "growth");
    for (int i = 0; i < 4; i++) cJSON_AddArrayToObject(growth, growths[i]);
    for (int i = 0; i < 3; i++) cJSON_AddArrayToObject(out, others[i]);
    return out;
}

static void print_circe(const cJSON *found) {
    static const bench_column steps[] = {{"B", "B", 0},
                                         {"M", "M", 0},
                                         {"d_x", "d_x", 0},
                                         {"rank y", "rank_y", 0},
                                         {"rank z", "rank_z", 0},
                                         {"path", "path", 0},
                                         {"median", "median_ms", 0},
                                         {"q1", "q1_ms", 0},
                                         {"q3", "q3_ms", 0},
                                         {"times", "repetitions", 0},
                                         {0}};
    static const bench_column fit[] = {{"M", "M", 0},
                                       {"widths", "sigma2_y", 0},
                                       {"ridges", "ridge", 0},
                                       {"rank y", "rank_y", 0},
                                       {"rank z", "rank_z", 0},
                                       {"method", "method", 0},
                                       {"seconds", "seconds", 0},
                                       {"peak memory, MB", "peak_bytes", 1e6},
                                       {0}};
    const cJSON *list = NULL;
    bench_table(
        "Loss + gradient, float32, in milliseconds. B: batch, M: holdout; raw: from y and z, cached: from\n"
        "residual features of the data set.",
        cJSON_GetObjectItemCaseSensitive(found, "rows"), steps);
    cJSON_ArrayForEach(list, cJSON_GetObjectItemCaseSensitive(found, "growth")) {
        char title[40];
        snprintf(title, sizeof title, "Growth with %s%s", strcmp(list->string, "rank") == 0 ? "the " : "",
                 list->string);
        bench_table(title, list, steps);
    }
    bench_table("Fit with the leave-one-out grid", cJSON_GetObjectItemCaseSensitive(found, "fit"), fit);
}

static void print_text(const bench *b) {
    char text[192], cpu[128];
    printf("%s; circe %s\n", machine_processor(cpu, sizeof cpu), session_text(&b->s, text, sizeof text));
    print_circe(b->found);
    bench_measures_print(b);
    bench_steps_print(b);
    bench_peer_print(b);
}

/* In the order of the words of --only. */
enum { PART_CIRCE, PART_MEASURES, PART_TRAIN, PART_IMAGES };

/* Images take their time, and are measured where they are asked for. */
static bool wants(const bench *b, int part) {
    return b->own->only != NULL ? circe_word_index("circe|measures|train|images", b->own->only) == part
                                : part != PART_IMAGES;
}

/* On a GPU: what PyTorch takes for the same steps. */
static void ask_peer(bench *b) {
    bool train = wants(b, PART_TRAIN), images = wants(b, PART_IMAGES);
    if (strncmp(b->own->device, "cuda", 4) != 0 || !(train || images)) return;
    bench_peer(b, !images ? "9x64" : train ? "9x64,dsprites,resnet18" : "dsprites,resnet18");
}

static int run(bench *b) {
    bool quick = b->own->quick, large = b->own->large;
    b->budget = quick ? 0.1 : 0.7;
    b->total = quick ? 6 + 1 + 5 + 5 + 5 + 4 : 6 + 1 + 7 + 5 + 8 + 6;
    b->total += large;
    int status = EXIT_DONE;
    if (wants(b, PART_MEASURES)) status = bench_measures(b);
    if (status == EXIT_DONE && wants(b, PART_TRAIN)) status = bench_train(b);
    if (status == EXIT_DONE && wants(b, PART_IMAGES)) status = bench_images(b);
    if (status == EXIT_DONE && !quick) ask_peer(b);
    if (status != EXIT_DONE || !wants(b, PART_CIRCE)) return status;
    status = run_sizes(b);
    if (status == EXIT_DONE) status = add_fit(b, 5898, quick ? 3 : 9);
    if (status == EXIT_DONE && large) status = add_fit(b, 1000000, 1);
    return status == EXIT_DONE ? run_growth(b, quick) : status;
}

int cmd_bench(const args *arguments) {
    bench b = {.own = &arguments->own, .seed = (uint64_t)arguments->own.seed};
    int status = session_open(&arguments->own, &b.s);
    if (status == EXIT_DONE) b.found = begin(&b);
    if (status == EXIT_DONE) status = run(&b);
    progress_clear();
    if (status == EXIT_DONE && arguments->own.json)
        status = output_json(json_utf8(b.found, true));
    else if (status == EXIT_DONE)
        print_text(&b);
    cJSON_Delete(b.found);
    session_close(&b.s);
    return status;
}
