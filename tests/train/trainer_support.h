/* What the tests of the training loop share: a small problem and its data, a run of it with objects of its own, what it
 * ends with, runs that are stopped, refused or resumed at every moment, and the files they leave.
 *
 * Runs on one machine with one number of threads are compared bit for bit. */
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include "tests/train/train_support.h"
#include "train/trainer.h"

/* ---- a problem, and runs of it ---------------------------------------------------------------------------------- */

enum { INPUTS = 3 };

/* What a run is made of. Every run has objects of its own, as another process would. */
typedef struct problem {
    int64_t rows, validation_rows, holdout_rows;
    const char *net;
    train_layer_kind activation;
    int64_t outputs;   /* 1, or classes for cross-entropy */
    train_shape input; /* of the network, and what it is fed, in the place of a table */
    const train_source *training_features, *validation_features; /* NULL: the table */
    circe_measure_options regularizer;
    train_options options;
    double noise;  /* of the target */
    int64_t spoil; /* training row whose target is NaN; -1: none */
    int threads;
} problem;

typedef struct objects {
    circe_context *context;
    train_device *device;
    train_network *network;
    circe_measure *regularizer;
    train_data data, validation;
} objects;

/* y; z = y/2 + e; the target needs y and e, so that a good predictor depends on z given y. */
static inline train_data draw(const problem *p, uint64_t stream, int64_t n) {
    circe_mat noise = test_normal(stream, n, 4), features = test_zeros(n, INPUTS, CIRCE_FLOAT64);
    circe_mat target = test_zeros(n, 1, CIRCE_FLOAT64);
    train_data data = {.y = test_zeros(n, 1, CIRCE_FLOAT64), .z = test_zeros(n, 1, CIRCE_FLOAT64)};
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&noise, i, 0), e = test_at(&noise, i, 1), z = 0.5 * y + e;
        double b = sin(y) + 0.7 * e + p->noise * test_at(&noise, i, 3);
        test_set(&data.y, i, 0, y);
        test_set(&data.z, i, 0, z);
        test_set(&features, i, 0, z + 0.2 * test_at(&noise, i, 2));
        test_set(&features, i, 1, y);
        test_set(&features, i, 2, z);
        test_set(&target, i, 0, p->options.loss == TRAIN_MSE ? b : b > 0.0 ? 1.0 : 0.0);
    }
    circe_mat single = test_copy(&features, CIRCE_FLOAT32);
    data.features = train_source_floats(&single);
    data.target = test_copy(&target, CIRCE_FLOAT32);
    return data;
}

static inline float *features_of(const train_data *data) { return (float *)(uintptr_t)data->features.values; }

static inline problem small_problem(circe_measure_kind kind) {
    static const double sigma2[] = {1.0}, ridge[] = {0.1};
    problem p = {.rows = 43,
                 .validation_rows = 21,
                 .holdout_rows = 40,
                 .net = "5,4",
                 .activation = TRAIN_TANH,
                 .outputs = 1,
                 .noise = 0.1,
                 .spoil = -1};
    circe_measure_options_init(&p.regularizer, CIRCE_MEASURE_NONE);
    p.regularizer.kind = kind;
    p.regularizer.sigma2_x = 1.0;
    p.regularizer.sigma2_y = sigma2;
    p.regularizer.ridge = ridge;
    p.regularizer.n_sigma2_y = p.regularizer.n_ridge = 1;
    p.regularizer.rff_features = 8;
    train_options_init(&p.options);
    p.options.epochs = 4;
    p.options.batch = 8;
    p.options.rate = 0.01;
    p.options.warmup_epochs = 0.5;
    p.options.gamma = kind == CIRCE_MEASURE_GCM ? 0.1 : 10.0;
    p.options.gamma_warmup_epochs = 1.0;
    p.options.seed = 3;
    return p;
}

/* The best epoch lies before the end, and the run stops before its last. */
static inline problem overfitting(void) {
    problem p = small_problem(CIRCE_MEASURE_NONE);
    p.noise = 1.5;
    p.net = "16";
    p.options.epochs = 40;
    p.options.rate = 0.05;
    p.options.decay = 0.0;
    p.options.cosine = 0;
    p.options.patience = 3;
    return p;
}

static inline objects make(const problem *p) {
    objects o = {.context = test_context(p->threads)};
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    train_shape input = p->input.n_dims > 0 ? p->input : (train_shape){.n_dims = 1, .size = {INPUTS}};
    o.data = draw(p, 1, p->rows);
    o.validation = draw(p, 2, p->validation_rows);
    if (p->training_features != NULL) o.data.features = *p->training_features;
    if (p->validation_features != NULL) o.validation.features = *p->validation_features;
    train_data holdout = draw(p, 3, p->holdout_rows);
    if (p->spoil >= 0) test_set(&o.data.target, p->spoil, 0, NAN);
    train_ok(train_device_cpu(o.context, &o.device));
    train_ok(train_network_parse(p->net, p->activation, p->outputs, &specs, &n_specs));
    train_ok(train_network_create(o.device, input, specs, n_specs, p->options.batch, &o.network));
    train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
    free(specs);
    train_ok(train_regularizer_create(o.context, &p->regularizer, &o.data.y, &o.data.z, &holdout.y, &holdout.z,
                                      &o.regularizer));
    return o;
}

static inline void drop(objects *o) {
    circe_measure_destroy(o->regularizer);
    train_network_destroy(o->network);
    train_device_destroy(o->device);
    *o = (objects){0};
}

/* What a run ends with. */
typedef struct outcome {
    circe_status status;
    train_result result;
    train_epoch history[256];
    float *params, *buffers;
    int64_t n_params, n_buffers;
} outcome;

static inline float *copy_of(const objects *o, const float *numbers, int64_t n) {
    float *copy = test_memory((size_t)(n + 1) * sizeof *copy);
    o->device->ops->download(o->device, copy, numbers, (size_t)n * sizeof *copy);
    return copy;
}

static inline float *params_of(const objects *o) {
    return copy_of(o, train_network_params(o->network), train_network_n_params(o->network));
}

/* Drops the objects. */
static inline outcome run_objects(objects *o, const train_options *options) {
    outcome out = {.status = CIRCE_OK};
    out.status = train_run(o->network, o->regularizer, &o->data, &o->validation, options, &out.result);
    out.params = params_of(o);
    out.n_params = train_network_n_params(o->network);
    out.n_buffers = train_network_n_buffers(o->network);
    out.buffers = copy_of(o, train_network_buffers(o->network), out.n_buffers);
    assert_true(out.result.epochs_done <= COUNT(out.history));
    if (out.result.epochs_done > 0)
        memcpy(out.history, out.result.history, (size_t)out.result.epochs_done * sizeof *out.history);
    train_result kept = out.result;
    train_result_free(&kept);
    out.result.history = NULL;
    drop(o);
    return out;
}

static inline outcome run(const problem *p) {
    objects o = make(p);
    return run_objects(&o, &p->options);
}

static inline outcome run_ok(const problem *p) {
    outcome out = run(p);
    train_ok(out.status);
    return out;
}

static inline outcome refused(const problem *p, circe_status status, const char *part) {
    outcome out = run(p);
    train_refused(out.status, status, part);
    return out;
}

static inline bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

/* Everything but the time it took. */
static inline void assert_same(const outcome *a, const outcome *b) {
    assert_int_equal(a->n_params, b->n_params);
    assert_true(same_bits(a->params, b->params, (size_t)a->n_params * sizeof *a->params));
    assert_int_equal(a->n_buffers, b->n_buffers);
    assert_true(same_bits(a->buffers, b->buffers, (size_t)a->n_buffers * sizeof *a->buffers));
    assert_int_equal(a->result.epochs_done, b->result.epochs_done);
    assert_int_equal(a->result.steps_done, b->result.steps_done);
    assert_int_equal(a->result.best_epoch, b->result.best_epoch);
    assert_int_equal(a->result.stopped_early, b->result.stopped_early);
    for (int64_t e = 0; e < a->result.epochs_done; e++)
        assert_true(same_bits(&a->history[e], &b->history[e], offsetof(train_epoch, seconds)));
}

/* Stops at the given call of the callback. */
typedef struct stopper {
    int64_t calls, at;
    int64_t steps, ends;
    train_progress last;
} stopper;

static inline int stop_at(void *user, const train_progress *progress) {
    stopper *s = user;
    s->last = *progress;
    if (progress->epoch_ended)
        s->ends++;
    else
        s->steps++;
    return s->calls++ == s->at;
}

static inline outcome run_stopped(problem *p, int64_t at) {
    stopper s = {.at = at};
    p->options.progress = stop_at;
    p->options.user = &s;
    outcome out = run_ok(p);
    p->options.progress = NULL;
    p->options.user = NULL;
    return out;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static inline long size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static inline char *read_file(const char *path, long *bytes) {
    *bytes = size_of(path);
    assert_true(*bytes > 0);
    char *data = test_memory((size_t)*bytes);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(data, 1, (size_t)*bytes, file), *bytes);
    fclose(file);
    return data;
}

static inline void write_file(const char *path, const char *data, long bytes) {
    unlink(path); /* file systems make sure of one that is written over, and that takes long */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, (size_t)bytes, file), bytes);
    fclose(file);
}

/* Steps in the checkpoint; -1: there is none. Whatever the moment, it is whole. */
static inline int64_t steps_in(const char *path) {
    circe_tensor_file *file = NULL;
    circe_tensor tensor;
    int64_t steps;
    if (size_of(path) < 0) return -1;
    assert_ok(circe_tensor_file_open(test_context(1), path, &file));
    assert_ok(circe_tensor_file_find(file, "counters", &tensor));
    memcpy(&steps, tensor.data, sizeof steps);
    circe_tensor_file_close(file);
    return steps;
}

/* ---- resuming --------------------------------------------------------------------------------------------------- */

/* Stopped at call k, resumed and stopped again some calls later, resumed to the end; for every k. */
static inline void check_resume(problem *p) {
    const char *path = test_path("run.safetensors");
    outcome whole = run_ok(p);
    int64_t steps = whole.result.epochs_done * (p->rows / p->options.batch);
    int64_t moments = whole.result.steps_done + whole.result.epochs_done - 1; /* the last one is the end */
    if (p->options.steps > 0 && steps > p->options.steps) steps = p->options.steps;
    assert_int_equal(whole.result.steps_done, steps);
    p->options.checkpoint = path;
    p->options.resume = 1;
    for (int64_t k = 0; k < moments; k++) {
        unlink(path);
        outcome first = run_stopped(p, k);
        assert_true(first.result.interrupted && !first.result.resumed);
        int64_t next = k % 4; /* 0: right after the first */
        if (k + 1 + next < moments) {
            outcome second = run_stopped(p, next);
            assert_true(second.result.interrupted && second.result.resumed);
        }
        outcome last = run_ok(p);
        assert_true(last.result.resumed && !last.result.interrupted);
        assert_same(&last, &whole);
    }
    outcome again = run_ok(p); /* of a run that is finished */
    assert_true(again.result.resumed);
    assert_same(&again, &whole);
    p->options.checkpoint = NULL;
    p->options.resume = 0;
}
