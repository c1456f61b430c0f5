/* Steps of the paper's image experiments, float32, AdamW: its dSprites network at batch 1024, without a regulariser and
 * with CIRCE (non-linear task, holdout of 5,898), and ResNet-18 at 224 by 224, three channels, on noise.
 * bench/images.py has the same in PyTorch. */
#include "cli/bench/bench_images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "cli/common/devices.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "images/dsprites_task.h"
#include "io/quantile.h"
#include "train/trainer.h"

enum { SPRITES = 8192, HOLDOUT = 5898, SPRITE_BATCH = 1024, FACE_SIZE = 224, FACE_BATCH = 16, MAX_REPETITIONS = 7 };
enum { QUEUED_SPRITES = 65536, QUEUED_STEPS = 128 };

static int fail_train(circe_status status) {
    return status == CIRCE_OK ? EXIT_DONE : message_fail(EXIT_WORK, "%s", circe_last_error());
}

static int stop_on_interrupt(void *user, const train_progress *progress) {
    (void)user, (void)progress;
    return progress_interrupted();
}

/* ---- one network ------------------------------------------------------------------------------------------------- */

typedef struct bench_job {
    const session *s;
    const args *arguments;
    uint64_t seed;
    const char *net;
    train_shape input;
    train_data data;
    circe_measure *regularizer; /* or NULL */
    double gamma;
    int64_t queued;  /* times as many steps on a device that is told of many at once */
    image_time *row; /* its batch, steps and repetitions are set */
} bench_job;

static circe_status open_network(const bench_job *j, train_device *device, train_network **network) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    circe_status status = train_network_parse(j->net, TRAIN_LEAKY_RELU, 1, &specs, &n);
    if (status == CIRCE_OK) status = train_network_create(device, j->input, specs, n, j->row->batch, network);
    if (status == CIRCE_OK) status = train_network_initialise(*network, TRAIN_START_HE, j->seed);
    free(specs);
    return status;
}

static circe_status run_once(const bench_job *j, train_network *network, int64_t steps, double *seconds,
                             double *share) {
    train_options options;
    train_result result = {0};
    train_options_init(&options);
    options.steps = steps;
    options.batch = j->row->batch;
    options.gamma = j->gamma;
    options.progress = stop_on_interrupt;
    circe_status status = train_run(network, j->regularizer, &j->data, NULL, &options, &result);
    *seconds = result.steps_done > 0 ? result.seconds / (double)result.steps_done : 0.0;
    *share = result.seconds > 0 ? result.regularizer_seconds / result.seconds : 0.0;
    train_result_free(&result);
    return status;
}

static int time_job(const bench_job *j) {
    train_device *device = NULL;
    train_network *network = NULL;
    image_time *row = j->row;
    double seconds[MAX_REPETITIONS], shares[MAX_REPETITIONS];
    int opened = device_open(j->arguments, j->s->context, &device);
    if (opened != EXIT_DONE) return opened;
    if (device->ops->queues) row->steps *= j->queued;
    circe_status status = open_network(j, device, &network);
    for (int64_t r = -1; status == CIRCE_OK && r < row->repetitions; r++) /* one to warm up */
        status = run_once(j, network, r < 0 ? 2 : row->steps, &seconds[r < 0 ? 0 : r], &shares[r < 0 ? 0 : r]);
    train_network_destroy(network);
    train_device_destroy(device);
    if (status != CIRCE_OK) return fail_train(status);
    if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    quantile_sort(seconds, row->repetitions);
    quantile_sort(shares, row->repetitions);
    row->net = j->net;
    row->regularizer = j->regularizer != NULL ? "circe" : "none";
    row->median = seconds[row->repetitions / 2];
    row->fastest = seconds[0];
    row->slowest = seconds[row->repetitions - 1];
    row->share = shares[row->repetitions / 2];
    return EXIT_DONE;
}

/* ---- dSprites ---------------------------------------------------------------------------------------------------- */

static circe_status make_sprites(const session *s, uint64_t seed, int64_t n, dsprites_task *task) {
    dsprites_task_options options;
    dsprites_task_options_init(&options);
    dsprites_find("nonlinear", &options.dependence);
    options.seed = seed;
    options.n_train = n;
    options.n_validation = options.n_test = 16;
    options.n_holdout = HOLDOUT;
    circe_status status = dsprites_task_make(s->context, &options, task);
    return status == CIRCE_OK ? dsprites_task_render(s->context, 1u << IMAGE_TRAIN, task) : status;
}

static circe_mat column(const double *values, int64_t n) { return circe_mat_f64((double *)values, n, 1); }

static circe_status make_circe(const session *s, const dsprites_task *task, circe_measure **regularizer) {
    const image_part *training = &task->parts[IMAGE_TRAIN].points, *holdout = &task->parts[IMAGE_HOLDOUT].points;
    const circe_mat y = column(training->y, training->n), z = column(training->z, training->n);
    const circe_mat holdout_y = column(holdout->y, holdout->n), holdout_z = column(holdout->z, holdout->n);
    circe_measure_options options;
    circe_measure_options_init(&options, CIRCE_MEASURE_NONE);
    options.kind = CIRCE_MEASURE_CIRCE;
    options.estimator = CIRCE_USTAT;
    options.sigma2_x = 0.05;
    options.sigma2_z = 0.5;
    return train_regularizer_create(s->context, &options, &y, &z, &holdout_y, &holdout_z, regularizer);
}

static int time_sprites(const session *s, const args *arguments, uint64_t seed, bool quick, image_times *out) {
    dsprites_task task = {0};
    circe_measure *regularizer = NULL;
    int64_t n = strcmp(device_name(arguments), "cpu") == 0 ? SPRITES : QUEUED_SPRITES;
    int status = fail_train(make_sprites(s, seed, n, &task));
    if (status == EXIT_DONE) status = fail_train(make_circe(s, &task, &regularizer));
    for (int with = 0; with < 2 && status == EXIT_DONE; with++) {
        image_part *points = &task.parts[IMAGE_TRAIN].points;
        image_time *row = &out->rows[out->n++];
        *row = (image_time){.batch = SPRITE_BATCH, .steps = quick ? 4 : 16, .repetitions = quick ? 3 : MAX_REPETITIONS};
        bench_job job = {.s = s,
                         .arguments = arguments,
                         .seed = seed,
                         .net = "dsprites",
                         .input = {3, {1, 64, 64}},
                         .data = {dsprites_task_source(&task, IMAGE_TRAIN), circe_mat_f32(points->target, points->n, 1),
                                  column(points->y, points->n), column(points->z, points->n)},
                         .regularizer = with ? regularizer : NULL,
                         .gamma = with ? 300.0 : 0.0,
                         .queued = QUEUED_STEPS,
                         .row = row};
        status = time_job(&job);
    }
    circe_measure_destroy(regularizer);
    dsprites_task_free(&task);
    return status;
}

/* ---- ResNet-18 --------------------------------------------------------------------------------------------------- */

static int time_resnet(const session *s, const args *arguments, uint64_t seed, bool quick, int64_t batch,
                       image_times *out) {
    enum { PIXELS = FACE_SIZE * FACE_SIZE };
    const int64_t n = 4 * batch;
    uint8_t *pixels = small_alloc((size_t)n * PIXELS);
    double *noise = small_alloc(PIXELS * sizeof *noise);
    float *target = small_alloc((size_t)n * sizeof *target);
    for (int64_t i = 0; i < n; i++) {
        circe_random_uniform((circe_random){seed, (uint64_t)i}, 0, PIXELS, noise);
        for (int64_t p = 0; p < PIXELS; p++) pixels[i * PIXELS + p] = (uint8_t)(255.0 * noise[p]);
        target[i] = (float)noise[0];
    }
    image_time *row = &out->rows[out->n++];
    *row = (image_time){.batch = batch, .steps = quick ? 2 : 4, .repetitions = quick ? 2 : MAX_REPETITIONS};
    bench_job job = {.s = s,
                     .arguments = arguments,
                     .seed = seed,
                     .net = "resnet18",
                     .input = {3, {3, FACE_SIZE, FACE_SIZE}},
                     .data = {.features = {.element = TRAIN_BYTES,
                                           .values = pixels,
                                           .n_stored = n,
                                           .stride = PIXELS,
                                           .n = n,
                                           .channels = 1,
                                           .height = FACE_SIZE,
                                           .width = FACE_SIZE,
                                           .repeat = 3,
                                           .scale = 2.0f / 255.0f,
                                           .offset = -1.0f},
                              .target = circe_mat_f32(target, n, 1)},
                     .queued = QUEUED_STEPS * FACE_BATCH / batch,
                     .row = row};
    int status = time_job(&job);
    free(pixels);
    free(noise);
    free(target);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int bench_images(const session *s, const args *arguments, uint64_t seed, bool quick, image_times *out) {
    *out = (image_times){0};
    int status = time_sprites(s, arguments, seed, quick, out);
    bool on_cpu = strcmp(device_name(arguments), "cpu") == 0; /* where a larger batch takes only longer */
    for (int64_t batch = FACE_BATCH; status == EXIT_DONE && batch <= (on_cpu ? 1 : 16) * FACE_BATCH; batch *= 4)
        status = time_resnet(s, arguments, seed, quick, batch, out);
    return status;
}

void bench_images_print(const image_times *times) {
    printf("\nTraining step on images, in milliseconds (the dSprites task is the non-linear one, holdout %d)\n\n",
           (int)HOLDOUT);
    printf("  %-10s  %6s  %-12s  %10s  %10s %10s  %10s  %s\n", "network", "batch", "regularizer", "median", "fastest",
           "slowest", "images/s", "its share");
    for (int64_t i = 0; i < times->n; i++) {
        const image_time *t = &times->rows[i];
        printf("  %-10s  %6" PRId64 "  %-12s  %10.4g  %10.4g %10.4g  %10.4g  %7.1f %%\n", t->net, t->batch,
               t->regularizer, 1e3 * t->median, 1e3 * t->fastest, 1e3 * t->slowest, (double)t->batch / t->median,
               100 * t->share);
    }
}

void bench_images_json(cJSON *object, const image_times *times) {
    cJSON *list = cJSON_AddArrayToObject(object, "images");
    for (int64_t i = 0; i < times->n; i++) {
        const image_time *t = &times->rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "network", t->net);
        cJSON_AddStringToObject(row, "regularizer", t->regularizer);
        json_integer(row, "batch", t->batch);
        json_number(row, "median_ms", 1e3 * t->median);
        json_number(row, "fastest_ms", 1e3 * t->fastest);
        json_number(row, "slowest_ms", 1e3 * t->slowest);
        json_number(row, "images_per_second", (double)t->batch / t->median);
        json_number(row, "share", t->share);
        cJSON_AddItemToArray(list, row);
    }
}
