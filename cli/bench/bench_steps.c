/* Steps of the paper's experiments, float32, AdamW. Synthetic: 9 hidden layers of 64, ReLU, on univariate case 1,
 * without a regulariser and with each. Images: its dSprites network, without a regulariser and with CIRCE (non-linear
 * task), and ResNet-18 at 224 by 224, three channels, on noise. On a GPU also dSprites with the other regularisers, and
 * several runs side by side. bench/train.py and gpu_best.py have the same in PyTorch. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owned.h"
#include "cli/bench/bench.h"
#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "core/sort.h"
#include "images/dsprites_task.h"
#include "train/synthetic.h"
#include "train/trainer.h"

enum { ROWS = 8192, HOLDOUT = 1000, BATCH = 256 };
enum { SPRITES = 8192, QUEUED_SPRITES = 65536, SPRITE_HOLDOUT = 5898, SPRITE_BATCH = 1024 };
enum { FACE_SIZE = 224, FACE_BATCH = 16 };
enum { MAX_REPETITIONS = 9, QUEUED_STEPS = 16, QUEUED_IMAGES = 128, MOST_BESIDE = 8 };

static int stop_on_interrupt(void *user, const train_progress *progress) {
    (void)user, (void)progress;
    return progress_interrupted();
}

static bool on_gpu(const own_options *own) { return strncmp(own->device, "cuda", 4) == 0; }

/* ---- one network ------------------------------------------------------------------------------------------------- */

typedef struct bench_job {
    const bench *b;
    const char *list; /* of its rows */
    const char *net;
    train_layer_kind activation;
    train_shape input;
    train_data data;
    circe_measure_kind kind;
    circe_measure *regularizer; /* or NULL */
    double gamma;
    int64_t batch, holdout, warm, steps, repetitions;
    int64_t queued; /* times as many steps on a device that is told of many at once */
} bench_job;

static circe_status open_network(const bench_job *j, train_device *device, train_network **network) {
    circe_status status = train_network_build(device, j->input, j->net, j->activation, 1, j->batch, network);
    return status == CIRCE_OK ? train_network_initialise(*network, TRAIN_START_HE, j->b->seed) : status;
}

/* Seconds of a step and the regulariser's share. */
static circe_status run_once(const bench_job *j, train_network *network, int64_t steps, double *seconds,
                             double *share) {
    train_options options;
    train_result result = {0};
    train_options_init(&options);
    options.steps = steps;
    options.batch = j->batch;
    options.gamma = j->gamma;
    options.progress = stop_on_interrupt;
    circe_status status = train_run(network, j->regularizer, &j->data, NULL, &options, &result);
    *seconds = result.steps_done > 0 ? result.seconds / (double)result.steps_done : 0.0;
    *share = result.seconds > 0 ? result.regularizer_seconds / result.seconds : 0.0;
    train_result_free(&result);
    return status;
}

/* In seconds of a step; of several runs side by side, divided by their number. */
static void add_row(const bench_job *j, int64_t runs, double median, double fastest, double slowest, double share) {
    cJSON *row = bench_row(j->b->found, j->list);
    cJSON_AddStringToObject(row, "network", j->net);
    cJSON_AddStringToObject(row, "regularizer", circe_measure_name(j->kind));
    json_integer(row, "batch", j->batch);
    json_integer(row, "holdout", j->holdout);
    json_integer(row, "runs", runs);
    json_number(row, "median_ms", 1e3 * median);
    json_number(row, "fastest_ms", 1e3 * fastest);
    json_number(row, "slowest_ms", 1e3 * slowest);
    json_number(row, "rows_per_second", (double)j->batch / median);
    json_number(row, "share", share);
}

static int time_job(const bench_job *j) {
    train_device *device = NULL;
    train_network *network = NULL;
    double seconds[MAX_REPETITIONS], shares[MAX_REPETITIONS];
    int64_t n = j->repetitions;
    circe_status status = train_device_choose(j->b->s.context, j->b->own->device, j->b->own->precision, &device);
    if (status != CIRCE_OK) return message_refused(status);
    int64_t steps = j->steps * (device->ops->queues ? j->queued : 1);
    status = open_network(j, device, &network);
    if (status == CIRCE_OK) status = run_once(j, network, j->warm, &seconds[0], &shares[0]);
    for (int64_t r = 0; status == CIRCE_OK && r < n; r++) status = run_once(j, network, steps, &seconds[r], &shares[r]);
    train_network_destroy(network);
    train_device_destroy(device);
    if (status != CIRCE_OK) return message_failed(status);
    if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    circe__sort(seconds, n);
    circe__sort(shares, n);
    add_row(j, 1, seconds[n / 2], seconds[0], seconds[n - 1], shares[n / 2]);
    return EXIT_DONE;
}

/* ---- several runs side by side ----------------------------------------------------------------------------------- */

/* All begin together, twice: the time of what a run does besides its steps is that of the short one. */
typedef struct companion {
    const bench_job *job;
    int64_t steps;
    pthread_barrier_t *meeting;
    circe_status status;
    char text[256];
} companion;

enum { SHORTER = 4 }; /* the short run has a fourth of the steps */

static circe_status run_beside(companion *r, circe_context *context, train_device **device, train_network **network) {
    const bench_job *j = r->job;
    double unused;
    circe_status status = train_device_choose(context, j->b->own->device, j->b->own->precision, device);
    if (status == CIRCE_OK) status = open_network(j, *device, network);
    if (status == CIRCE_OK) status = run_once(j, *network, j->warm, &unused, &unused);
    for (int long_run = 0; long_run < 2; long_run++) {
        pthread_barrier_wait(r->meeting); /* whatever happened: the others wait there */
        int64_t steps = long_run ? r->steps : r->steps / SHORTER;
        if (status == CIRCE_OK) status = run_once(j, *network, steps, &unused, &unused);
        pthread_barrier_wait(r->meeting);
    }
    return status;
}

static void *run_companion(void *user) {
    companion *r = user;
    circe_context *context = NULL;
    train_device *device = NULL;
    train_network *network = NULL;
    (void)circe_context_create(NULL, &context); /* train_device_choose refuses NULL */
    r->status = run_beside(r, context, &device, &network);
    snprintf(r->text, sizeof r->text, "%s", r->status != CIRCE_OK ? circe_last_error() : "");
    train_network_destroy(network);
    train_device_destroy(device);
    circe_context_destroy(context);
    return NULL;
}

static double seconds_between(pthread_barrier_t *meeting) {
    pthread_barrier_wait(meeting);
    double begun = job_clock();
    pthread_barrier_wait(meeting);
    return job_clock() - begun;
}

/* The time of a step of all runs together. */
static int time_beside(const bench_job *j, int64_t n) {
    companion runs[MOST_BESIDE];
    pthread_t threads[MOST_BESIDE];
    pthread_barrier_t meeting;
    int64_t steps = j->steps * j->queued;
    pthread_barrier_init(&meeting, NULL, (unsigned)n + 1);
    for (int64_t k = 0; k < n; k++) {
        runs[k] = (companion){.job = j, .steps = steps, .meeting = &meeting};
        if (pthread_create(&threads[k], NULL, run_companion, &runs[k]) != 0) abort(); /* the others wait for it */
    }
    double shorter = seconds_between(&meeting), longer = seconds_between(&meeting);
    for (int64_t k = 0; k < n; k++) pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&meeting);
    for (int64_t k = 0; k < n; k++)
        if (runs[k].status != CIRCE_OK) return message_fail(EXIT_WORK, "%s", runs[k].text);
    if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
    int64_t counted = n * (steps - steps / SHORTER);
    double each = (longer - shorter) / (double)counted;
    add_row(j, n, each, each, each, 0.0);
    return EXIT_DONE;
}

/* ---- synthetic --------------------------------------------------------------------------------------------------- */

typedef struct bench_data {
    synthetic_sample training, holdout;
    synthetic_scales scales;
    synthetic_points points, holdout_points;
} bench_data;

static void free_data(bench_data *d) {
    synthetic_points_free(&d->points);
    synthetic_points_free(&d->holdout_points);
    synthetic_scales_free(&d->scales);
    synthetic_free(&d->training);
    synthetic_free(&d->holdout);
}

static circe_status make_data(const circe_context *context, uint64_t seed, bench_data *d) {
    const synthetic_model model = {SYNTHETIC_UNIVARIATE_1, 1};
    circe_status status = synthetic_draw_rows(context, &model, seed, 0, ROWS, &d->training);
    if (status == CIRCE_OK) status = synthetic_draw_rows(context, &model, seed, ROWS, HOLDOUT, &d->holdout);
    if (status == CIRCE_OK) status = synthetic_scales_fit(&d->training, &d->scales);
    if (status == CIRCE_OK) status = synthetic_points_make(&d->scales, &d->training, &d->points);
    if (status == CIRCE_OK) status = synthetic_points_make(&d->scales, &d->holdout, &d->holdout_points);
    return status;
}

static int time_kind(bench_job *j, const bench_data *d) {
    static const double sigma2_y = 0.1, ridge = 0.01;
    circe_measure_options options;
    circe_measure_options_init(&options, j->kind);
    options.sigma2_x = j->kind == CIRCE_MEASURE_CIRCE ? 0.1 : 1.0;
    if (j->kind != CIRCE_MEASURE_CIRCE)
        options.sigma2_y = &sigma2_y, options.n_sigma2_y = 1, options.ridge = &ridge, options.n_ridge = 1;
    circe_status status = train_regularizer_create(j->b->s.context, &options, &d->points.y, &d->points.z,
                                                   &d->holdout_points.y, &d->holdout_points.z, &j->regularizer);
    int done = status == CIRCE_OK ? time_job(j) : message_failed(status);
    circe_measure_destroy(j->regularizer);
    j->regularizer = NULL;
    return done;
}

int bench_train(bench *b) {
    static const struct {
        circe_measure_kind kind;
        double gamma;
    } kinds[] = {{CIRCE_MEASURE_NONE, 0},
                 {CIRCE_MEASURE_CIRCE, 1e3},
                 {CIRCE_MEASURE_HSCIC, 300},
                 {CIRCE_MEASURE_GCM, 0.1},
                 {CIRCE_MEASURE_HSIC, 1}};
    bench_data d = {0};
    int status = message_failed(make_data(b->s.context, b->seed, &d));
    bool quick = b->own->quick;
    bench_job job = {.b = b,
                     .list = "train",
                     .net = "9x64",
                     .activation = TRAIN_RELU,
                     .input = {1, {3}},
                     .batch = BATCH,
                     .holdout = HOLDOUT,
                     .warm = ROWS / BATCH,
                     .steps = quick || on_gpu(b->own) ? 160 : 640,
                     .repetitions = quick ? 3 : MAX_REPETITIONS,
                     .queued = QUEUED_STEPS};
    if (status == EXIT_DONE)
        job.data = (train_data){.features = train_source_floats(&d.points.features),
                                .target = d.points.target,
                                .y = d.points.y,
                                .z = d.points.z};
    for (size_t k = 0; status == EXIT_DONE && k < sizeof kinds / sizeof kinds[0]; k++) {
        job.kind = kinds[k].kind;
        job.gamma = kinds[k].gamma;
        status = time_kind(&job, &d);
    }
    free_data(&d);
    return status;
}

/* ---- dSprites ---------------------------------------------------------------------------------------------------- */

static circe_status make_sprites(const bench *b, int64_t n, dsprites_task *task) {
    dsprites_task_options options;
    dsprites_task_options_init(&options);
    dsprites_find("nonlinear", &options.dependence);
    options.seed = b->seed;
    options.n_train = n;
    options.n_validation = options.n_test = 16;
    options.n_holdout = SPRITE_HOLDOUT;
    circe_status status = dsprites_task_make(b->s.context, &options, task);
    return status == CIRCE_OK ? dsprites_task_render(b->s.context, 1u << IMAGE_TRAIN, task) : status;
}

static circe_status make_regularizer(const bench *b, const dsprites_task *task, circe_measure_kind kind,
                                     circe_measure **regularizer) {
    static const double sigma2_y = 0.005, ridge = 0.01;
    const image_part *training = &task->parts[IMAGE_TRAIN].points, *holdout = &task->parts[IMAGE_HOLDOUT].points;
    const circe_mat y = circe_mat_f64(training->y, training->n, 1), z = circe_mat_f64(training->z, training->n, 1);
    const circe_mat holdout_y = circe_mat_f64(holdout->y, holdout->n, 1),
                    holdout_z = circe_mat_f64(holdout->z, holdout->n, 1);
    circe_measure_options options;
    circe_measure_options_init(&options, kind);
    options.sigma2_x = 0.05;
    options.sigma2_z = 0.5;
    if (kind != CIRCE_MEASURE_CIRCE)
        options.sigma2_y = &sigma2_y, options.n_sigma2_y = 1, options.ridge = &ridge, options.n_ridge = 1;
    return train_regularizer_create(b->s.context, &options, &y, &z, &holdout_y, &holdout_z, regularizer);
}

static int time_regularized(bench_job j, const dsprites_task *task, circe_measure_kind kind) {
    circe_status status = make_regularizer(j.b, task, kind, &j.regularizer);
    j.kind = kind;
    j.gamma = 300.0;
    j.holdout = SPRITE_HOLDOUT;
    int done = status == CIRCE_OK ? time_job(&j) : message_failed(status);
    circe_measure_destroy(j.regularizer);
    return done;
}

static int time_sprites(bench_job j) {
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_GCM};
    dsprites_task task = {0};
    bool gpu = on_gpu(j.b->own);
    int status = message_failed(make_sprites(j.b, gpu ? QUEUED_SPRITES : SPRITES, &task));
    const image_part *points = &task.parts[IMAGE_TRAIN].points;
    j.net = "dsprites";
    j.input = (train_shape){3, {1, 64, 64}};
    j.batch = SPRITE_BATCH;
    j.steps = j.b->own->quick ? 4 : 16;
    j.queued = QUEUED_IMAGES;
    if (status == EXIT_DONE)
        j.data = (train_data){.features = dsprites_task_source(&task, IMAGE_TRAIN),
                              .target = circe_mat_f32(points->target, points->n, 1),
                              .y = circe_mat_f64(points->y, points->n, 1),
                              .z = circe_mat_f64(points->z, points->n, 1)};
    if (status == EXIT_DONE) status = time_job(&j);
    for (int k = 0; status == EXIT_DONE && k < (gpu ? 4 : 1); k++) status = time_regularized(j, &task, kinds[k]);
    for (int64_t n = 2; gpu && status == EXIT_DONE && n <= MOST_BESIDE; n *= 2) status = time_beside(&j, n);
    dsprites_task_free(&task);
    return status;
}

/* ---- ResNet-18 --------------------------------------------------------------------------------------------------- */

static int time_resnet(bench_job j, int64_t batch) {
    enum { PIXELS = FACE_SIZE * FACE_SIZE };
    const int64_t n = 4 * batch;
    OWNED uint8_t *pixels = small_alloc((size_t)n * PIXELS);
    OWNED double *noise = small_alloc(PIXELS * sizeof *noise);
    OWNED float *target = small_alloc((size_t)n * sizeof *target);
    for (int64_t i = 0; i < n; i++) {
        circe_random_uniform((circe_random){j.b->seed, (uint64_t)i}, 0, PIXELS, noise);
        for (int64_t p = 0; p < PIXELS; p++) pixels[i * PIXELS + p] = (uint8_t)(255.0 * noise[p]);
        target[i] = (float)noise[0];
    }
    j.net = "resnet18";
    j.input = (train_shape){3, {3, FACE_SIZE, FACE_SIZE}};
    j.batch = batch;
    j.steps = j.b->own->quick ? 2 : 4;
    j.queued = QUEUED_IMAGES * FACE_BATCH / batch;
    j.data = (train_data){.features = {.element = TRAIN_BYTES,
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
                          .target = circe_mat_f32(target, n, 1)};
    return time_job(&j);
}

int bench_images(bench *b) {
    const bench_job job = {
        .b = b, .list = "images", .activation = TRAIN_LEAKY_RELU, .warm = 2, .repetitions = b->own->quick ? 3 : 7};
    int status = time_sprites(job);
    int64_t most = on_gpu(b->own) ? 16 * FACE_BATCH : FACE_BATCH; /* on the CPU a larger batch takes only longer */
    for (int64_t batch = FACE_BATCH; status == EXIT_DONE && batch <= most; batch *= 4) status = time_resnet(job, batch);
    return status;
}

void bench_steps_print(const bench *b) {
    static const bench_column columns[] = {{"network", "network", 0},         {"batch", "batch", 0},
                                           {"regularizer", "regularizer", 0}, {"runs", "runs", 0},
                                           {"median", "median_ms", 0},        {"fastest", "fastest_ms", 0},
                                           {"slowest", "slowest_ms", 0},      {"rows/s", "rows_per_second", 0},
                                           {"its share, %", "share", 0.01},   {0}};
    bench_table("Training steps, in milliseconds", cJSON_GetObjectItemCaseSensitive(b->found, "train"), columns);
    bench_table("Training steps on images, in milliseconds", cJSON_GetObjectItemCaseSensitive(b->found, "images"),
                columns);
}
