/* Steps of the paper's synthetic experiments: 9 hidden layers of 64, ReLU, batch 256, AdamW, float32, on univariate
 * case 1; without a regulariser and with each. CIRCE has a holdout of 1,000 points. bench/train.py has the same in
 * PyTorch. */
#include "cli/bench/bench_train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "circe/status.h"
#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "io/quantile.h"
#include "train/synthetic.h"
#include "train/trainer.h"

enum { ROWS = 8192, HOLDOUT = 1000, BATCH = 256, MAX_REPETITIONS = 9 };
enum { QUEUED_STEPS = 16 }; /* times as many on a device that is told of many steps at once */

typedef struct bench_data {
    synthetic_sample training, holdout;
    synthetic_scales scales;
    synthetic_points points, holdout_points;
} bench_data;

static int fail_train(circe_status status) {
    return status == CIRCE_OK ? EXIT_DONE : message_fail(EXIT_WORK, "%s", circe_last_error());
}

static void free_data(bench_data *d) {
    synthetic_points_free(&d->points);
    synthetic_points_free(&d->holdout_points);
    synthetic_scales_free(&d->scales);
    synthetic_free(&d->training);
    synthetic_free(&d->holdout);
}

static int make_data(const circe_context *context, uint64_t seed, bench_data *d) {
    const synthetic_model model = {SYNTHETIC_UNIVARIATE_1, 1};
    circe_status status = synthetic_draw_rows(context, &model, seed, 0, ROWS, &d->training);
    if (status == CIRCE_OK) status = synthetic_draw_rows(context, &model, seed, ROWS, HOLDOUT, &d->holdout);
    if (status == CIRCE_OK) status = synthetic_scales_fit(&d->training, &d->scales);
    if (status == CIRCE_OK) status = synthetic_points_make(&d->scales, &d->training, &d->points);
    if (status == CIRCE_OK) status = synthetic_points_make(&d->scales, &d->holdout, &d->holdout_points);
    return fail_train(status);
}

static int stop_on_interrupt(void *user, const train_progress *progress) {
    (void)user, (void)progress;
    return progress_interrupted();
}

/* One run of `epochs`; seconds of a step and the regulariser's share. */
static circe_status run_once(train_network *network, circe_measure *regularizer, const bench_data *d, int64_t epochs,
                             double gamma, double *seconds, double *share) {
    train_options options;
    train_result result = {0};
    train_options_init(&options);
    options.epochs = epochs;
    options.batch = BATCH;
    options.gamma = gamma;
    options.progress = stop_on_interrupt;
    const train_data data = {train_source_floats(&d->points.features), d->points.target, d->points.y, d->points.z};
    circe_status status = train_run(network, regularizer, &data, NULL, &options, &result);
    *seconds = result.steps_done > 0 ? result.seconds / (double)result.steps_done : 0.0;
    *share = result.seconds > 0 ? result.regularizer_seconds / result.seconds : 0.0;
    train_result_free(&result);
    return status;
}

static circe_status open_network(train_device *device, uint64_t seed, train_network **network) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    circe_status status = train_network_parse("9x64", TRAIN_RELU, 1, &specs, &n);
    if (status == CIRCE_OK) status = train_network_create(device, (train_shape){1, {3}}, specs, n, BATCH, network);
    if (status == CIRCE_OK) status = train_network_initialise(*network, TRAIN_START_HE, seed);
    free(specs);
    return status;
}

static int time_kind(const session *s, train_device *device, uint64_t seed, const bench_data *d,
                     circe_measure_kind kind, double gamma, train_times *out) {
    static const double sigma2_y = 0.1, ridge = 0.01;
    circe_measure_options options;
    circe_measure *regularizer = NULL;
    train_network *network = NULL;
    train_time *row = &out->rows[out->n];
    double seconds[MAX_REPETITIONS], shares[MAX_REPETITIONS];
    int64_t epochs = out->steps / (ROWS / BATCH);
    circe_measure_options_init(&options, CIRCE_MEASURE_NONE);
    options.kind = kind;
    options.estimator = CIRCE_USTAT;
    options.sigma2_x = kind == CIRCE_MEASURE_CIRCE ? 0.1 : 1.0;
    options.sigma2_z = 1.0;
    if (kind != CIRCE_MEASURE_CIRCE)
        options.sigma2_y = &sigma2_y, options.n_sigma2_y = 1, options.ridge = &ridge, options.n_ridge = 1;
    circe_status status = open_network(device, seed, &network);
    if (status == CIRCE_OK)
        status = train_regularizer_create(s->context, &options, &d->points.y, &d->points.z, &d->holdout_points.y,
                                          &d->holdout_points.z, &regularizer);
    for (int64_t r = -1; status == CIRCE_OK && r < out->repetitions; r++) /* one to warm up */
        status = run_once(network, regularizer, d, r < 0 ? 1 : epochs, gamma, &seconds[r < 0 ? 0 : r],
                          &shares[r < 0 ? 0 : r]);
    circe_measure_destroy(regularizer);
    train_network_destroy(network);
    if (status != CIRCE_OK) return fail_train(status);
    if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    quantile_sort(seconds, out->repetitions);
    quantile_sort(shares, out->repetitions);
    *row = (train_time){circe_measure_name(kind), seconds[out->repetitions / 2], seconds[0],
                        seconds[out->repetitions - 1], shares[out->repetitions / 2]};
    out->n++;
    return EXIT_DONE;
}

int bench_train(const session *s, const own_options *own, uint64_t seed, bool quick, train_times *out) {
    static const struct {
        circe_measure_kind kind;
        double gamma;
    } kinds[] = {{CIRCE_MEASURE_NONE, 0},
                 {CIRCE_MEASURE_CIRCE, 1e3},
                 {CIRCE_MEASURE_HSCIC, 300},
                 {CIRCE_MEASURE_GCM, 0.1},
                 {CIRCE_MEASURE_HSIC, 1}};
    bench_data d = {0};
    train_device *device = NULL;
    *out = (train_times){
        .batch = BATCH, .holdout = HOLDOUT, .repetitions = quick ? 3 : MAX_REPETITIONS, .steps = quick ? 160 : 640};
    int status = make_data(s->context, seed, &d);
    if (status == EXIT_DONE && train_device_choose(s->context, own->device, own->precision, &device) != CIRCE_OK)
        status = message_refused(CIRCE_ERR_ARGUMENT);
    if (status == EXIT_DONE && device->ops->queues) out->steps *= QUEUED_STEPS;
    for (size_t k = 0; status == EXIT_DONE && k < sizeof kinds / sizeof kinds[0]; k++)
        status = time_kind(s, device, seed, &d, kinds[k].kind, kinds[k].gamma, out);
    train_device_destroy(device);
    free_data(&d);
    return status;
}

void bench_train_print(const train_times *times) {
    printf("\nTraining step, network 9x64, batch %" PRId64 ", holdout %" PRId64 ", in milliseconds: median of %" PRId64
           " runs of %" PRId64 " steps\n\n",
           times->batch, times->holdout, times->repetitions, times->steps);
    printf("  %-12s  %10s  %10s %10s  %s\n", "regularizer", "median", "fastest", "slowest", "its share");
    for (int64_t i = 0; i < times->n; i++) {
        const train_time *t = &times->rows[i];
        printf("  %-12s  %10.4g  %10.4g %10.4g  %7.1f %%\n", t->regularizer, 1e3 * t->median, 1e3 * t->fastest,
               1e3 * t->slowest, 100 * t->share);
    }
}

void bench_train_json(cJSON *object, const train_times *times) {
    cJSON *list = cJSON_AddArrayToObject(object, "train");
    for (int64_t i = 0; i < times->n; i++) {
        const train_time *t = &times->rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "regularizer", t->regularizer);
        json_integer(row, "batch", times->batch);
        json_integer(row, "holdout", times->holdout);
        json_number(row, "median_ms", 1e3 * t->median);
        json_number(row, "fastest_ms", 1e3 * t->fastest);
        json_number(row, "slowest_ms", 1e3 * t->slowest);
        json_number(row, "share", t->share);
        cJSON_AddItemToArray(list, row);
    }
}
