/* The training loop: a run that is stopped and resumed, or killed, ends in the bits of one that was not; damaged and
 * foreign checkpoints are refused and left alone; gradients of the whole objective by finite differences; schedules,
 * early stopping, and what a run must do to data.
 *
 * Tolerances are stated where they are used. Runs on one machine with one number of threads are compared bit for bit.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint.h"
#include "checkpoint_hash.h"
#include "error.h"
#include "train_support.h"
#include "trainer.h"

/* ---- counting what a thread allocates --------------------------------------------------------------------------- */

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(address_sanitizer) && \
    !HAS_FEATURE(thread_sanitizer) && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 1
/* The C library's own, so that free knows what to do with them. Sanitizers have their own. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
static _Thread_local int64_t allocations;

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes) {
    allocations++;
    return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes) {
    allocations++;
    return __libc_realloc(block, bytes);
}
#else
#define COUNTS_ALLOCATIONS 0
static int64_t allocations;
#endif

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
    train_regularizer_options regularizer;
    train_options options;
    double noise;  /* of the target */
    int64_t spoil; /* training row whose target is NaN; -1: none */
    int threads;
} problem;

typedef struct objects {
    circe_context *context;
    train_device *device;
    train_network *network;
    train_regularizer *regularizer;
    train_data data, validation;
} objects;

/* y; z = y/2 + e; the target needs y and e, so that a good predictor depends on z given y. */
static train_data draw(const problem *p, uint64_t stream, int64_t n) {
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

static float *features_of(const train_data *data) { return (float *)(uintptr_t)data->features.values; }

static problem small_problem(train_regularizer_kind kind) {
    static const double sigma2[] = {1.0}, ridge[] = {0.1};
    problem p = {.rows = 43,
                 .validation_rows = 21,
                 .holdout_rows = 40,
                 .net = "5,4",
                 .activation = TRAIN_TANH,
                 .outputs = 1,
                 .noise = 0.1,
                 .spoil = -1};
    train_regularizer_options_init(&p.regularizer);
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
    p.options.gamma = kind == TRAIN_REG_GCM ? 0.1 : 10.0;
    p.options.gamma_warmup_epochs = 1.0;
    p.options.seed = 3;
    return p;
}

static objects make(const problem *p) {
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

static void drop(objects *o) {
    train_regularizer_destroy(o->regularizer);
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

static float *copy_of(const objects *o, const float *numbers, int64_t n) {
    float *copy = test_memory((size_t)(n + 1) * sizeof *copy);
    o->device->ops->download(o->device, copy, numbers, (size_t)n * sizeof *copy);
    return copy;
}

static float *params_of(const objects *o) {
    return copy_of(o, train_network_params(o->network), train_network_n_params(o->network));
}

/* Drops the objects. */
static outcome run_objects(objects *o, const train_options *options) {
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

static outcome run(const problem *p) {
    objects o = make(p);
    return run_objects(&o, &p->options);
}

static outcome run_ok(const problem *p) {
    outcome out = run(p);
    train_ok(out.status);
    return out;
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

/* Everything but the time it took. */
static void assert_same(const outcome *a, const outcome *b) {
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

static int stop_at(void *user, const train_progress *progress) {
    stopper *s = user;
    s->last = *progress;
    if (progress->epoch_ended)
        s->ends++;
    else
        s->steps++;
    return s->calls++ == s->at;
}

static outcome run_stopped(problem *p, int64_t at) {
    stopper s = {.at = at};
    p->options.progress = stop_at;
    p->options.user = &s;
    outcome out = run_ok(p);
    p->options.progress = NULL;
    p->options.user = NULL;
    return out;
}

static long size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static char *read_file(const char *path, long *bytes) {
    *bytes = size_of(path);
    assert_true(*bytes > 0);
    char *data = test_memory((size_t)*bytes);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(data, 1, (size_t)*bytes, file), *bytes);
    fclose(file);
    return data;
}

static void write_file(const char *path, const char *data, long bytes) {
    unlink(path); /* file systems make sure of one that is written over, and that takes long */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, (size_t)bytes, file), bytes);
    fclose(file);
}

/* Steps in the checkpoint; -1: there is none. Whatever the moment, it is whole. */
static int64_t steps_in(const char *path) {
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
static void check_resume(problem *p) {
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

/* Three epochs: a disk takes its time to be sure of a file. */
static problem resumable(train_regularizer_kind kind) {
    problem p = small_problem(kind);
    p.options.epochs = 3;
    return p;
}

static void resume_none(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_NONE);
    check_resume(&p);
    p.options.loss = TRAIN_CROSS_ENTROPY;
    p.outputs = 2;
    check_resume(&p);
}

static void resume_circe(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_CIRCE);
    check_resume(&p);
}

static void resume_random_features(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_CIRCE);
    p.regularizer.method = CIRCE_METHOD_RFF;
    check_resume(&p);
}

static void resume_hscic(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_HSCIC);
    check_resume(&p);
}

/* gcm carries its previous batch, here of two layers. */
static void resume_gcm(void **state) {
    (void)state;
    static const int64_t layers[] = {4, 1};
    problem p = resumable(TRAIN_REG_GCM);
    p.options.layers = layers;
    p.options.n_layers = COUNT(layers);
    check_resume(&p);
}

static void resume_hsic(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_HSIC);
    p.validation_rows = 0;
    check_resume(&p);
}

/* The best epoch lies before the end, and the run stops before its last. */
static problem overfitting(void) {
    problem p = small_problem(TRAIN_REG_NONE);
    p.noise = 1.5;
    p.net = "16";
    p.options.epochs = 40;
    p.options.rate = 0.05;
    p.options.decay = 0.0;
    p.options.cosine = 0;
    p.options.patience = 3;
    return p;
}

static void resume_patience(void **state) {
    (void)state;
    problem p = overfitting();
    outcome whole = run_ok(&p);
    assert_true(whole.result.stopped_early && whole.result.epochs_done < 25);
    p.options.epochs = whole.result.epochs_done + 2; /* fewer moments to try */
    check_resume(&p);
    problem q = small_problem(TRAIN_REG_CIRCE);
    q.options.patience = 2;
    q.options.rate = 0.2;
    check_resume(&q);
}

/* The last epoch is a part of one, and not every epoch is validated. */
static void resume_steps(void **state) {
    (void)state;
    problem p = resumable(TRAIN_REG_GCM);
    p.options.steps = 13;
    p.options.validate_every = 2;
    check_resume(&p);
    p.options.patience = 1;
    p.options.rate = 0.2;
    check_resume(&p);
}

/* Which checkpoint there is when step `at` (from 0) has just been taken. */
typedef struct witness {
    const char *path;
    int64_t at, found;
} witness;

static int look(void *user, const train_progress *progress) {
    witness *w = user;
    if (!progress->epoch_ended && progress->step == w->at + 1) w->found = steps_in(w->path);
    return 0;
}

static void check_moments(problem *p, int64_t at, int64_t steps) {
    witness w = {p->options.checkpoint, at, -2};
    unlink(w.path);
    p->options.progress = look;
    p->options.user = &w;
    run_ok(p);
    assert_int_equal(w.found, steps);
    assert_int_equal(steps_in(w.path), 20); /* at the end in any case */
}

/* A regulariser that has served another run brings nothing of it along. */
static void reused(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_GCM);
    outcome whole = run_ok(&p);
    objects o = make(&p);
    for (int64_t time = 0; time < 2; time++) {
        train_result result;
        train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
        train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p.options, &result));
        float *params = params_of(&o);
        assert_true(same_bits(params, whole.params, (size_t)whole.n_params * sizeof *params));
        train_result_free(&result);
    }
    drop(&o);
}

/* Checkpoints by epochs and by time, without anybody stopping the run. */
static void written_when(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_NONE);
    p.options.checkpoint = path;
    stopper s = {.at = -1};
    p.options.progress = stop_at;
    p.options.user = &s;
    outcome whole = run_ok(&p);
    assert_int_equal(s.steps, 20);
    assert_int_equal(s.ends, 4);
    assert_true(s.last.epoch_ended && s.last.epoch == 4 && s.last.step == 20 && s.last.steps == 20);
    assert_true(s.last.batch == 5 && s.last.batches == 5 && isfinite(s.last.validation_loss));
    assert_true(s.last.loss > 0.0 && s.last.rate > 0.0 && s.last.rate < 0.1 * p.options.rate && s.last.seconds > 0.0);
    assert_true(size_of(path) > 0);
    p.options.resume = 1;
    outcome again = run_ok(&p);
    assert_true(again.result.resumed);
    assert_same(&again, &whole);
    /* Seen by the callback, which comes before the checkpoint of its moment. */
    p.options.resume = 0;
    p.options.checkpoint_epochs = 2;
    check_moments(&p, 9, -1);
    check_moments(&p, 10, 10);
    check_moments(&p, 19, 10);
    p.options.checkpoint_epochs = 0;
    p.options.checkpoint_minutes = 1e6;
    check_moments(&p, 19, -1);
    p.options.checkpoint_minutes = 1e-12;
    check_moments(&p, 0, -1);
    check_moments(&p, 7, 7);
}

/* ---- killing ---------------------------------------------------------------------------------------------------- */

static problem killed_problem(const char *path) {
    problem p = small_problem(TRAIN_REG_GCM);
    p.options.epochs = 8;
    p.options.patience = 8;
    p.options.checkpoint = path;
    p.options.checkpoint_minutes = 1e-12; /* after every step */
    p.options.resume = 1;
    return p;
}

/* The victim: this program, started anew. Leaves its parameters in a file. */
static int victim(const char *checkpoint, const char *result) {
    problem p = killed_problem(checkpoint);
    outcome out = run(&p);
    if (out.status != CIRCE_OK) {
        fprintf(stderr, "%s\n", train_last_error());
        return 3;
    }
    write_file(result, (const char *)out.params, (long)(out.n_params * (int64_t)sizeof *out.params));
    test_clean(NULL);
    return 0;
}

/* Starts it, and kills it after the time (none: lets it end). Returns whether it was killed. */
static bool start_victim(const char *checkpoint, const char *result, int64_t microseconds) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_trainer", "victim", checkpoint, result, (char *)NULL);
        _exit(9);
    }
    if (microseconds >= 0) {
        usleep((useconds_t)microseconds);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

/* Lets it run to its end, and compares. */
static void finish_victim(const char *checkpoint, const char *result, const outcome *whole) {
    long bytes;
    assert_false(start_victim(checkpoint, result, -1));
    char *params = read_file(result, &bytes);
    assert_int_equal(bytes, whole->n_params * (int64_t)sizeof *whole->params);
    assert_true(same_bits(params, whole->params, (size_t)bytes));
    unlink(result);
}

/* At random moments. How long a victim may live on average follows from how far those before it came, so that most are
 * killed in the middle of things, however slow the machine is at the moment. */
static void killed(void **state) {
    (void)state;
    enum { KILLS = 20, ADVANCES = 4, MOST = 400 };
    const char *path = test_path("killed.safetensors"), *result = test_path("params");
    problem p = killed_problem(NULL);
    outcome whole = run_ok(&p);
    int kills = 0, advances = 0;
    int64_t before = -1;
    double span = 1e5; /* microseconds */
    for (uint64_t k = 0; (kills < KILLS || advances < ADVANCES) && k < MOST; k++) {
        double u;
        circe_random_uniform((circe_random){.seed = 11}, k, 1, &u);
        if (start_victim(path, result, (int64_t)(u * span))) kills++;
        int64_t now = steps_in(path);
        assert_true(now >= before); /* nothing that was saved is lost */
        if (now > before && before >= 0) advances++;
        span *= now == before ? 1.3 : now > before + 10 ? 0.8 : 1.0;
        before = now;
        if (now < whole.result.steps_done) continue;
        finish_victim(path, result, &whole);
        unlink(path);
        before = -1;
    }
    assert_true(kills >= KILLS && advances >= ADVANCES);
    finish_victim(path, result, &whole);
}

/* ---- bad checkpoints -------------------------------------------------------------------------------------------- */

/* Refused with this status, and the file is as it was. */
static void assert_refuses(const objects *o, const train_options *options, const char *data, long bytes) {
    train_result result;
    write_file(options->checkpoint, data, bytes);
    circe_status status = train_run(o->network, o->regularizer, &o->data, &o->validation, options, &result);
    assert_true(status == CIRCE_ERR_FORMAT || status == CIRCE_ERR_ARGUMENT || status == CIRCE_ERR_IO);
    assert_non_null(strstr(train_last_error(), options->checkpoint));
    train_result_free(&result);
    long left;
    char *after = read_file(options->checkpoint, &left);
    assert_true(left == bytes && same_bits(after, data, (size_t)bytes));
}

static void damaged(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_GCM);
    p.net = "2";
    p.options.epochs = 2;
    p.options.checkpoint = path;
    p.options.resume = 1;
    run_stopped(&p, 7);
    long bytes;
    char *good = read_file(path, &bytes), *bad = test_memory((size_t)bytes + 8);
    objects o = make(&p);
    float *before = params_of(&o);
    for (long length = 1; length < bytes; length += length < 200 || bytes - length < 50 ? 1 : 61)
        assert_refuses(&o, &p.options, good, length);
    memcpy(bad, good, (size_t)bytes);
    assert_refuses(&o, &p.options, bad, bytes + 8);
    for (long at = 0; at < bytes; at++) { /* one bit of every byte */
        bad[at] = (char)(good[at] ^ (1 << at % 8));
        assert_refuses(&o, &p.options, bad, bytes);
        bad[at] = good[at];
    }
    float *after = params_of(&o);
    assert_true(same_bits(before, after, (size_t)train_network_n_params(o.network) * sizeof *before));
    drop(&o);
    write_file(path, good, bytes); /* and the good one is good */
    outcome whole = run_ok(&p);
    assert_true(whole.result.resumed);
}

static outcome refused(const problem *p, circe_status status, const char *part) {
    outcome out = run(p);
    train_refused(out.status, status, part);
    return out;
}

/* Another run's, with what differs. */
static void foreign(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_CIRCE);
    p.options.checkpoint = path;
    p.options.resume = 1;
    p.options.fingerprint = "table.csv 1234";
    run_stopped(&p, 5);
    long bytes, left;
    char *good = read_file(path, &bytes);
    problem q = p;
    q.options.fingerprint = "table.csv 9999";
    refused(&q, CIRCE_ERR_ARGUMENT, "fingerprint is 'table.csv 1234' there and 'table.csv 9999' here");
    q = p;
    q.net = "5,6";
    refused(&q, CIRCE_ERR_ARGUMENT, "dense 4 tanh 4 dense 1' there");
    q = p;
    q.activation = TRAIN_RELU;
    refused(&q, CIRCE_ERR_ARGUMENT, "network is");
    q = p;
    q.options.batch = 9;
    q.options.rate = 0.02;
    refused(&q, CIRCE_ERR_ARGUMENT, "batch is '8' there and '9' here; rate is '0.01");
    q = p;
    q.options.seed = 4;
    refused(&q, CIRCE_ERR_ARGUMENT, "seed is '3' there and '4' here");
    q = p;
    q.regularizer.sigma2_x = 2.0;
    refused(&q, CIRCE_ERR_ARGUMENT, "regularizer is");
    q = p;
    q.rows = 44;
    refused(&q, CIRCE_ERR_ARGUMENT, "training rows is '43' there and '44' here");
    static const int64_t layers[] = {0};
    q = p;
    q.options.layers = layers;
    q.options.n_layers = 1;
    refused(&q, CIRCE_ERR_ARGUMENT, "layers is 'output' there and '0' here");
    char *after = read_file(path, &left);
    assert_true(left == bytes && same_bits(after, good, (size_t)bytes));

    circe_tensor tensor = {
        .name = "0.weight", .dtype = "F32", .n_dims = 1, .shape = {2}, .data = "12345678", .bytes = 8};
    circe_metadata versions[] = {{"format", "circe training checkpoint"}, {"version", "7"}, {"writer", "9.1"}};
    assert_ok(circe_tensor_file_write(test_context(1), path, &tensor, 1, NULL, 0));
    refused(&p, CIRCE_ERR_FORMAT, "no training checkpoint");
    assert_ok(circe_tensor_file_write(test_context(1), path, &tensor, 1, versions, COUNT(versions)));
    refused(&p, CIRCE_ERR_FORMAT, "version '7', written by circe 9.1");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(&p, CIRCE_ERR_IO, path);
}

static train_known known_by(const objects *o, const train_data *data) {
    int64_t n = data->features.n;
    return (train_known){n, train_hash_points(o->context, data, 0) + train_hash_form(&data->features, n)};
}

/* The checkpoint as one would be that says nothing of its data nor of newer options; other fields as they are. */
static void forget(const problem *p, const objects *o) {
    train_state state = {0};
    train_identity identity, known = {0};
    train_ok(train_state_create(p->options.epochs, train_network_n_params(o->network), 0, false, &state));
    train_ok(train_identity_make(o->network, o->regularizer, known_by(o, &o->data), known_by(o, &o->validation),
                                 &p->options, &identity));
    train_ok(train_checkpoint_read(o->context, p->options.checkpoint, &identity, &state));
    for (int64_t i = 0; i < identity.n; i++) {
        const char *key = identity.pairs[i].key;
        if (strcmp(key, "data") != 0 && strcmp(key, "steps") != 0 && strcmp(key, "validate_every") != 0)
            known.pairs[known.n++] = identity.pairs[i];
    }
    assert_int_equal(known.n, identity.n - 3);
    train_ok(train_checkpoint_write(o->context, p->options.checkpoint, &known, &state));
    train_identity_free(&identity);
    train_state_free(&state);
}

/* The data are part of what must be the same, wherever they come from. */
static void foreign_data(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_CIRCE);
    outcome whole = run_ok(&p);
    p.options.checkpoint = test_path("run.safetensors");
    p.options.resume = 1;
    run_stopped(&p, 5);
    objects o = make(&p);
    train_result result;
#define RUN train_run(o.network, o.regularizer, &o.data, &o.validation, &p.options, &result)
    float *const numbers[] = {features_of(&o.data), features_of(&o.validation), o.data.target.data,
                              o.validation.target.data};
    double *const sides[] = {o.data.y.data, o.data.z.data, o.validation.y.data, o.validation.z.data};
    for (int k = 0; k < 4; k++) {
        numbers[k][20] += 1e-3F;
        train_refused(RUN, CIRCE_ERR_ARGUMENT, "of another run: data is '");
        numbers[k][20] -= 1e-3F;
        double kept = sides[k][20];
        sides[k][20] += 1e-9;
        train_refused(RUN, CIRCE_ERR_ARGUMENT, "of another run: data is '");
        sides[k][20] = kept;
    }
    drop(&o);
    o = make(&p); /* the sums above may have rounded */
    p.options.validate_every = 2;
    train_refused(RUN, CIRCE_ERR_ARGUMENT, "validate_every is '1' there and '2' here");
    p.options.validate_every = 1;
    p.options.steps = 20;
    train_refused(RUN, CIRCE_ERR_ARGUMENT, "steps is '0' there and '20' here");
    p.options.steps = 0;
    forget(&p, &o); /* what is not said there is what it always was */
    p.options.steps = 20;
    train_refused(RUN, CIRCE_ERR_ARGUMENT, "steps is '0' there and '20' here");
#undef RUN
    p.options.steps = 0;
    outcome resumed = run_ok(&p);
    assert_true(resumed.result.resumed);
    assert_same(&resumed, &whole);
    drop(&o);
}

/* Without resume an old file is no obstacle; it is replaced by the run's own. */
static void fresh(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_NONE);
    outcome whole = run_ok(&p);
    p.options.checkpoint = path;
    write_file(path, "something else", 14);
    outcome out = run_ok(&p);
    assert_false(out.result.resumed);
    assert_same(&out, &whole);
    assert_int_equal(steps_in(path), whole.result.steps_done);
}

/* ---- disks ------------------------------------------------------------------------------------------------------ */

static void full_disk(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_NONE);
    outcome whole = run_ok(&p);
    p.options.checkpoint = path;
    p.options.resume = 1;
    run_stopped(&p, 5);
    long bytes, left;
    char *good = read_file(path, &bytes);
    /* A limit of the size of files: writing fails in the middle, as on a disk that is full. */
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)bytes - 100;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    outcome out = run(&p);
    char text[1024];
    snprintf(text, sizeof text, "%s", train_last_error());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(out.status, CIRCE_ERR_IO);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "File too large"));
    char *after = read_file(path, &left);
    assert_true(left == bytes && same_bits(after, good, (size_t)bytes));
    outcome resumed = run_ok(&p);
    assert_same(&resumed, &whole);
}

static int lose_folder(void *user, const train_progress *progress) {
    char away[256];
    snprintf(away, sizeof away, "%s-away", (const char *)user);
    if (progress->step == 7 && !progress->epoch_ended) assert_int_equal(rename(user, away), 0);
    return 0;
}

static void missing_folder(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_NONE);
    p.options.checkpoint = test_path("nowhere/run.safetensors");
    outcome out = refused(&p, CIRCE_ERR_IO, "nowhere/run.safetensors");
    assert_int_equal(out.result.steps_done, 0); /* not after work that is then lost */
    /* One that goes away while the run is on. */
    const char *folder = test_path("folder");
    assert_int_equal(mkdir(folder, 0700), 0);
    p.options.checkpoint = test_path("folder/run.safetensors");
    p.options.checkpoint_epochs = 1;
    p.options.progress = lose_folder;
    p.options.user = (void *)(uintptr_t)folder;
    out = refused(&p, CIRCE_ERR_IO, p.options.checkpoint);
    assert_int_equal(out.result.steps_done, 10);
    assert_int_equal(steps_in(test_path("folder-away/run.safetensors")), 5);
}

/* ---- numbers that are none -------------------------------------------------------------------------------------- */

static void nan_in_target(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(TRAIN_REG_CIRCE);
    int64_t order[2][43], first = -1;
    for (uint64_t e = 0; e < 2; e++)
        circe_random_permutation((circe_random){.seed = p.options.seed, .stream = 1000 + e}, p.rows, order[e]);
    /* A row that sits out the first epoch, or else comes late in it. */
    int64_t batch = p.options.batch, batches = p.rows / batch, row = order[0][batches * batch];
    for (int64_t i = 0; i < batches * batch && first < 0; i++)
        if (order[1][i] == row) first = batches + i / batch;
    assert_true(first >= batches);
    char at[128], named[512];
    snprintf(at, sizeof at, "in step %lld (batch %lld of epoch 2)", (long long)first + 1,
             (long long)(first - batches) + 1);
    p.spoil = row;
    outcome out = refused(&p, CIRCE_ERR_NUMERIC, at);
    assert_non_null(strstr(train_last_error(), "the loss is nan"));
    assert_non_null(strstr(train_last_error(), "there is no checkpoint"));
    snprintf(named, sizeof named, "training row %lld (from 0)", (long long)row);
    assert_non_null(strstr(train_last_error(), named));
    assert_int_equal(out.result.steps_done, first);
    /* The parameters are those before the step. */
    problem clean = p;
    clean.spoil = -1;
    outcome until = run_stopped(&clean, first); /* calls: the steps before, and one end of an epoch */
    assert_int_equal(until.result.steps_done, first);
    assert_true(same_bits(out.params, until.params, (size_t)out.n_params * sizeof *out.params));
    /* With checkpoints the last one is named, and it is good. */
    p.options.checkpoint = path;
    p.options.checkpoint_epochs = 1;
    snprintf(named, sizeof named, "the last good checkpoint is %s, after step 5", path);
    refused(&p, CIRCE_ERR_NUMERIC, named);
    assert_int_equal(steps_in(path), 5);
    p.options.resume = 1; /* one that was resumed from counts as well */
    p.options.checkpoint_epochs = 0;
    refused(&p, CIRCE_ERR_NUMERIC, named);
}

/* A rate that throws the parameters out of range. */
static void diverging(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_NONE);
    p.activation = TRAIN_RELU;
    p.options.rate = 1e30;
    p.options.warmup_epochs = 0.0;
    p.options.decay = 0.0;
    outcome out = refused(&p, CIRCE_ERR_NUMERIC, "training stopped");
    assert_true(out.result.steps_done < 20);
}

/* After step 4, as a gradient that overflows would. */
static int spoil_parameter(void *user, const train_progress *progress) {
    if (progress->step == 4) train_network_params(user)[3] = INFINITY;
    return 0;
}

/* What no loss has shown yet must not replace a good checkpoint, nor pass for the end of a run. */
static void never_saved(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_NONE);
    objects o = make(&p);
    train_result result;
    p.options.checkpoint = test_path("run.safetensors");
    p.options.checkpoint_minutes = 1e-12;
    p.options.progress = spoil_parameter;
    p.options.user = o.network;
    circe_status status = train_run(o.network, NULL, &o.data, &o.validation, &p.options, &result);
    train_refused(status, CIRCE_ERR_NUMERIC, "the parameters are no longer finite after step 4");
    assert_non_null(strstr(train_last_error(), "after step 3"));
    assert_int_equal(steps_in(p.options.checkpoint), 3);
    train_result_free(&result);
    p.rows = p.options.batch * 4; /* step 4 is the last */
    p.options.epochs = 1;
    p.options.checkpoint = NULL;
    o.data.features.n = o.data.target.rows = p.rows;
    train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
    status = train_run(o.network, NULL, &o.data, NULL, &p.options, &result);
    train_refused(status, CIRCE_ERR_NUMERIC, "the parameters are no longer finite after step 4");
    train_result_free(&result);
    drop(&o);
}

static int lose_parameter(void *user, const train_progress *progress) {
    if (progress->step == 4) train_network_params(user)[0] = NAN;
    return 0;
}

/* A network that has diverged is told of by its loss, not by a regulariser that refuses its features. */
static void loss_comes_first(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_CIRCE);
    objects o = make(&p);
    train_result result;
    p.options.progress = lose_parameter;
    p.options.user = o.network;
    circe_status status = train_run(o.network, o.regularizer, &o.data, NULL, &p.options, &result);
    train_refused(status, CIRCE_ERR_NUMERIC, "the loss is ");
    assert_non_null(strstr(train_last_error(), "in step 5 "));
    train_result_free(&result);
    drop(&o);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* The objective of all training rows at once, from its parts. */
static double objective(const objects *o, const problem *p) {
    int64_t n = p->rows, n_layers = p->options.n_layers > 0 ? p->options.n_layers : 1;
    double value = 0.0;
    train_ok(train_network_forward(o->network, n, features_of(&o->data)));
    o->device->ops->loss(o->device, p->options.loss, n, p->outputs, train_network_output(o->network),
                         o->data.target.data, &value, NULL);
    for (int64_t k = 0; k < n_layers; k++) {
        int64_t layer = p->options.n_layers > 0 ? p->options.layers[k] : train_network_n_layers(o->network) - 1;
        int64_t cols = train_shape_count(train_network_layer(o->network, layer)->out);
        circe_mat x = circe_mat_f32(train_network_activation(o->network, layer), n, cols);
        circe_mat x64 = test_copy(&x, CIRCE_FLOAT64);
        double part;
        train_ok(train_regularizer_value(o->regularizer, &x64, &o->data.y, &o->data.z, &part));
        value += p->options.gamma * part;
    }
    return value;
}

/* One step with beta1 = 0 leaves the gradient in m, which the checkpoint shows. Against central differences along
 * random directions of unit length: their step is 1e-2, and outputs are float32, so 1e-7 / 1e-2 of noise and 1e-4 of
 * curvature; 5e-3 of the gradient's norm. */
static void check_gradient(problem *p) {
    const char *path = test_path("gradient.safetensors");
    enum { DIRECTIONS = 4 };
    p->options.epochs = 1;
    p->options.batch = p->rows;
    p->options.beta1 = 0.0;
    p->options.gamma_warmup_epochs = 0.0;
    p->options.checkpoint = path;
    outcome out = run_ok(p);
    circe_tensor_file *file = NULL;
    circe_tensor tensor;
    assert_ok(circe_tensor_file_open(test_context(1), path, &file));
    assert_ok(circe_tensor_file_find(file, "m", &tensor));
    assert_int_equal(tensor.bytes, out.n_params * (int64_t)sizeof(float));
    float *gradient = test_memory(tensor.bytes);
    memcpy(gradient, tensor.data, tensor.bytes);
    circe_tensor_file_close(file);
    objects o = make(p);
    float *params = train_network_params(o.network), *start = params_of(&o);
    double norm = 0.0, noted = out.history[0].loss + p->options.gamma * out.history[0].regularizer;
    assert_near(noted, objective(&o, p), 1e-4, 1.0 + fabs(noted)); /* the only step, taken from the start */
    for (int64_t i = 0; i < out.n_params; i++) norm += (double)gradient[i] * (double)gradient[i];
    norm = sqrt(norm);
    for (uint64_t d = 0; d < DIRECTIONS; d++) {
        circe_mat direction = test_normal(50 + d, 1, out.n_params);
        double length = 0.0, slope = 0.0, value[2];
        for (int64_t i = 0; i < out.n_params; i++) length += pow(test_at(&direction, 0, i), 2.0);
        for (int side = 0; side < 2; side++) {
            double h = (side ? 1e-2 : -1e-2) / sqrt(length);
            for (int64_t i = 0; i < out.n_params; i++) params[i] = start[i] + (float)(h * test_at(&direction, 0, i));
            value[side] = objective(&o, p);
        }
        for (int64_t i = 0; i < out.n_params; i++)
            slope += (double)gradient[i] * test_at(&direction, 0, i) / sqrt(length);
        assert_near((value[1] - value[0]) / 2e-2, slope, 5e-3, norm);
    }
    drop(&o);
}

static void gradients(void **state) {
    (void)state;
    static const int64_t inner[] = {1}, several[] = {0, 3, 4};
    for (int k = TRAIN_REG_CIRCE; k <= TRAIN_REG_HSIC; k++)
        for (int layers = 0; layers < 3; layers++) {
            problem p = small_problem((train_regularizer_kind)k);
            p.regularizer.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES;
            p.options.gamma = k == TRAIN_REG_GCM ? 0.05 : 20.0;
            p.options.layers = layers == 1 ? inner : several;
            p.options.n_layers = layers == 0 ? 0 : layers == 1 ? COUNT(inner) : COUNT(several);
            check_gradient(&p);
        }
}

static void gamma_zero(void **state) {
    (void)state;
    problem none = small_problem(TRAIN_REG_NONE), zero = small_problem(TRAIN_REG_CIRCE);
    static const int64_t inner[] = {1};
    zero.options.gamma = 0.0;
    outcome a = run_ok(&none), b = run_ok(&zero);
    assert_true(same_bits(a.params, b.params, (size_t)a.n_params * sizeof *a.params));
    assert_true(b.history[0].regularizer != 0.0 && a.history[0].regularizer == 0.0); /* it is measured, though */
    zero.options.layers = inner;
    zero.options.n_layers = 1;
    b = run_ok(&zero);
    assert_true(same_bits(a.params, b.params, (size_t)a.n_params * sizeof *a.params));
    zero.options.gamma = 1e-3;
    b = run_ok(&zero);
    assert_false(same_bits(a.params, b.params, (size_t)a.n_params * sizeof *a.params));
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* The count at each step's end. */
typedef struct ledger {
    int64_t counts[64], n;
} ledger;

static int note_allocations(void *user, const train_progress *progress) {
    ledger *l = user;
    if (!progress->epoch_ended) l->counts[l->n++] = allocations;
    return 0;
}

/* From the third step on (gcm's second is the first with a batch before) none allocates, but for those that begin an
 * epoch: validation lies before them. */
static void no_allocation(void **state) {
    (void)state;
    static const int64_t layers[] = {1, 4};
    if (!COUNTS_ALLOCATIONS) skip();
    for (int k = TRAIN_REG_NONE; k <= TRAIN_REG_HSIC; k++) {
        problem p = small_problem((train_regularizer_kind)k);
        ledger l = {.n = 0};
        p.threads = 1; /* OpenMP has memory of its own for teams */
        p.options.layers = layers;
        p.options.n_layers = COUNT(layers);
        p.options.progress = note_allocations;
        p.options.user = &l;
        run_ok(&p);
        assert_int_equal(l.n, 20);
        for (int64_t step = 2; step < l.n; step++)
            if (step % 5 != 0) assert_int_equal(l.counts[step], l.counts[step - 1]);
        assert_true(l.counts[0] > 0);
    }
}

/* ---- schedules and stopping ------------------------------------------------------------------------------------- */

static void schedules(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_HSIC);
    outcome out = run_ok(&p);
    train_schedule rate = {.warmup = 3, .total = 20, .cosine = 1}, gamma = {.warmup = 5, .total = 20}; /* 2.5 rounds */
    for (int64_t e = 0; e < 4; e++) {
        double mean_rate = 0.0, mean_gamma = 0.0;
        for (int64_t b = 0; b < 5; b++) {
            mean_rate += p.options.rate * train_schedule_at(&rate, 5 * e + b) / 5.0;
            mean_gamma += p.options.gamma * train_schedule_at(&gamma, 5 * e + b) / 5.0;
        }
        assert_near(out.history[e].rate, mean_rate, 1e-12, mean_rate);
        assert_near(out.history[e].gamma, mean_gamma, 1e-12, mean_gamma);
        assert_true(out.history[e].seconds > 0.0);
    }
    /* Adam's first step moves every parameter by the rate (to epsilon over its gradient). */
    p.options.decay = 0.0;
    objects o = make(&p);
    float *before = params_of(&o);
    outcome first = run_stopped(&p, 0);
    double most = 0.0;
    for (int64_t i = 0; i < first.n_params; i++) most = fmax(most, fabs((double)first.params[i] - (double)before[i]));
    assert_near(most, p.options.rate / 3.0, 1e-3, p.options.rate);
    drop(&o);
}

/* A run of 13 steps in epochs of 5 is one of three epochs, its schedule ends with it, and its last epoch is judged by
 * what there is of it. */
static void steps(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_NONE);
    stopper s = {.at = -1};
    p.options.epochs = -5; /* not looked at */
    p.options.steps = 13;
    p.options.warmup_epochs = 0.0;
    p.options.progress = stop_at;
    p.options.user = &s;
    outcome out = run_ok(&p);
    assert_true(out.result.steps_done == 13 && out.result.epochs_done == 3);
    assert_true(s.steps == 13 && s.ends == 3 && s.last.step == 13 && s.last.steps == 13 && s.last.epochs == 3);
    assert_true(s.last.batch == 3 && s.last.batches == 3 && s.last.epoch == 3 && s.last.epoch_ended);
    train_schedule rate = {.total = 13, .cosine = 1};
    double mean = 0.0;
    for (int64_t b = 10; b < 13; b++) mean += p.options.rate * train_schedule_at(&rate, b) / 3.0;
    assert_near(out.history[2].rate, mean, 1e-12, mean);
    assert_true(isfinite(out.history[2].validation_loss));
    problem q = p; /* whole epochs, by either name */
    q.options.progress = NULL;
    q.options.steps = 0;
    q.options.epochs = 3;
    outcome three = run_ok(&q);
    q.options.steps = 15;
    outcome fifteen = run_ok(&q);
    assert_same(&three, &fifteen);
    q.options.steps = 4; /* less than one */
    outcome four = run_ok(&q);
    assert_true(four.result.steps_done == 4 && four.result.epochs_done == 1);
    q.options.steps = -1;
    train_refused(run(&q).status, CIRCE_ERR_ARGUMENT, "number of steps is -1");
}

/* What was seen of validation at the ends of epochs. */
typedef struct seen {
    double loss[8];
    int64_t n;
} seen;

static int note_validation(void *user, const train_progress *progress) {
    seen *s = user;
    if (progress->epoch_ended) s->loss[s->n++] = progress->validation_loss;
    return 0;
}

static void validate_every(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_CIRCE);
    p.options.epochs = 5;
    outcome each = run_ok(&p);
    seen s = {.n = 0};
    p.options.progress = note_validation;
    p.options.user = &s;
    p.options.validate_every = 3;
    outcome some = run_ok(&p);
    assert_true(same_bits(each.params, some.params, (size_t)each.n_params * sizeof *each.params));
    for (int64_t e = 0; e < 5; e++) { /* the third, and the last in any case */
        bool validated = e == 2 || e == 4;
        assert_int_equal(isnan(some.history[e].validation_loss), !validated);
        assert_int_equal(isnan(some.history[e].validation_regularizer), !validated);
        if (validated) assert_true(some.history[e].validation_loss == each.history[e].validation_loss);
        assert_true(some.history[e].loss == each.history[e].loss);
    }
    assert_true(isnan(s.loss[0]) && isnan(s.loss[1]));
    assert_true(s.loss[2] == some.history[2].validation_loss && s.loss[3] == s.loss[2]);
    assert_true(s.loss[4] == some.history[4].validation_loss);
    /* Patience counts epochs, and looks where there is something to see. */
    problem q = overfitting();
    outcome all = run_ok(&q);
    q.options.validate_every = 2;
    outcome half = run_ok(&q);
    assert_true(all.result.stopped_early && half.result.stopped_early);
    assert_int_equal(half.result.epochs_done % 2, 0);
    assert_int_equal(half.result.best_epoch % 2, 1);
    assert_true(half.result.epochs_done - 1 - half.result.best_epoch >= q.options.patience);
    q.options.validate_every = 0;
    train_refused(run(&q).status, CIRCE_ERR_ARGUMENT, "from validation to validation is 0");
}

static double mean_square(const objects *o, const train_data *data) {
    int64_t n = data->features.n;
    float *prediction = test_memory((size_t)n * sizeof *prediction);
    double sum = 0.0;
    train_ok(train_network_predict(o->network, n, features_of(data), prediction));
    for (int64_t i = 0; i < n; i++) sum += pow((double)prediction[i] - test_at(&data->target, i, 0), 2.0);
    return sum / (double)n;
}

static void early_stopping(void **state) {
    (void)state;
    problem p = overfitting();
    objects o = make(&p);
    train_result result;
    train_ok(train_run(o.network, NULL, &o.data, &o.validation, &p.options, &result));
    int64_t best = 0;
    for (int64_t e = 1; e < result.epochs_done; e++)
        if (result.history[e].validation_loss < result.history[best].validation_loss) best = e;
    assert_true(result.stopped_early && result.epochs_done < p.options.epochs);
    assert_int_equal(result.best_epoch, best);
    assert_int_equal(result.epochs_done, best + 1 + p.options.patience);
    double loss = mean_square(&o, &o.validation);
    assert_near(loss, result.history[best].validation_loss, 1e-6, loss); /* float32 sums in another order */
    train_result_free(&result);
    drop(&o);
    /* Without patience the last parameters stay, and the best epoch is told. */
    p.options.epochs = best + 4;
    p.options.patience = 0;
    o = make(&p);
    train_ok(train_run(o.network, NULL, &o.data, &o.validation, &p.options, &result));
    loss = mean_square(&o, &o.validation);
    assert_near(loss, result.history[best + 3].validation_loss, 1e-6, loss);
    assert_int_equal(result.best_epoch, best);
    assert_false(result.stopped_early);
    train_result_free(&result);
    drop(&o);
}

/* loss + gamma * regulariser decides, and not while gamma grows. */
static void stopping_with_gamma(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_CIRCE);
    p.options.epochs = 12;
    p.options.gamma = 1000.0;
    p.options.gamma_warmup_epochs = 6.0;
    p.options.patience = 12;
    p.regularizer.estimator = CIRCE_BIASED;
    outcome out = run_ok(&p);
    int64_t best = 5;
    for (int64_t e = 6; e < 12; e++) {
        const train_epoch *a = &out.history[e], *b = &out.history[best];
        if (a->validation_loss + 1000.0 * a->validation_regularizer <
            b->validation_loss + 1000.0 * b->validation_regularizer)
            best = e;
    }
    assert_int_equal(out.result.best_epoch, best);
    int64_t plain = 0;
    for (int64_t e = 0; e < 12; e++)
        if (out.history[e].validation_loss < out.history[plain].validation_loss) plain = e;
    assert_true(plain != best); /* the loss alone would have chosen another */
    p.options.gamma_warmup_epochs = 100.0;
    out = run_ok(&p);
    assert_int_equal(out.result.best_epoch, -1);
    assert_false(out.result.stopped_early);
}

/* What history and validation hold, from the definitions: 21 rows in chunks of 8 have two whole ones. */
static void validation(void **state) {
    (void)state;
    problem p = small_problem(TRAIN_REG_HSCIC);
    objects o = make(&p);
    train_result result;
    train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p.options, &result));
    const train_epoch *last = &result.history[result.epochs_done - 1];
    double loss = mean_square(&o, &o.validation), sum = 0.0;
    float prediction[21];
    train_ok(train_network_predict(o.network, 21, features_of(&o.validation), prediction));
    for (int64_t chunk = 0; chunk < 2; chunk++) {
        int64_t rows[8];
        double value;
        for (int64_t i = 0; i < 8; i++) rows[i] = 8 * chunk + i;
        circe_mat x = circe_mat_f32(prediction + 8 * chunk, 8, 1);
        circe_mat y = test_rows(&o.validation.y, rows, 8), z = test_rows(&o.validation.z, rows, 8);
        train_ok(train_regularizer_value(o.regularizer, &x, &y, &z, &value));
        sum += value / 2.0;
    }
    assert_near(last->validation_loss, loss, 1e-6, loss);
    assert_near(last->validation_regularizer, sum, 1e-6, sum);
    assert_true(result.regularizer_seconds > 0.0 && result.regularizer_seconds <= result.seconds);
    train_result_free(&result);
    drop(&o);
}

/* ---- images ----------------------------------------------------------------------------------------------------- */

enum { SIDE = 6, STORED_IMAGES = 30 };

/* Random images, as bits and as the bytes and floats of the same pixels. */
typedef struct picture_set {
    unsigned char bits[STORED_IMAGES][(SIDE * SIDE + 7) / 8], bytes[STORED_IMAGES][SIDE * SIDE];
    int32_t stored[64];
    int8_t shift[64];
} picture_set;

static void draw_pictures(uint64_t stream, picture_set *p) {
    circe_mat u = test_uniform(stream, STORED_IMAGES + 4, SIDE * SIDE);
    memset(p, 0, sizeof *p);
    for (int64_t i = 0; i < STORED_IMAGES; i++)
        for (int64_t j = 0; j < SIDE * SIDE; j++) {
            bool white = test_at(&u, i, j) < 0.5;
            p->bytes[i][j] = white ? 255 : 0;
            if (white) p->bits[i][j / 8] |= (unsigned char)(0x80 >> j % 8);
        }
    for (int64_t i = 0; i < 64; i++) {
        p->stored[i] = (int32_t)(test_at(&u, STORED_IMAGES + i / 32, i % 32) * STORED_IMAGES);
        p->shift[i] = (int8_t)(test_at(&u, STORED_IMAGES + 2 + i / 32, i % 32) * 5.0 - 2.0);
    }
}

static train_source picture_source(const picture_set *p, train_element element, int64_t n) {
    return (train_source){.element = element,
                          .values = element == TRAIN_BITS ? (const void *)p->bits : (const void *)p->bytes,
                          .n_stored = STORED_IMAGES,
                          .stride = element == TRAIN_BITS ? (int64_t)sizeof p->bits[0] : SIDE * SIDE,
                          .n = n,
                          .stored = p->stored,
                          .shift = p->shift,
                          .channels = 1,
                          .height = SIDE,
                          .width = SIDE,
                          .repeat = 1,
                          .scale = element == TRAIN_BITS ? 2.0F : 2.0F / 255.0F,
                          .offset = -1.0F,
                          .background = -1.0F};
}

/* What the network sees, as a table. */
static train_source as_floats(const train_source *s) {
    circe_mat m = test_zeros(s->n, SIDE * SIDE, CIRCE_FLOAT32);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t y = 0; y < SIDE; y++)
            for (int64_t x = 0; x < SIDE; x++) {
                int64_t from = y - s->shift[i], at = from * SIDE + x;
                const unsigned char *row = (const unsigned char *)s->values + s->stored[i] * s->stride;
                bool white = from >= 0 && from < SIDE && (row[at / 8] & 0x80 >> at % 8) != 0;
                ((float *)m.data)[(i * SIDE + y) * SIDE + x] = white ? 1.0F : -1.0F;
            }
    return train_source_floats(&m);
}

/* The problem on images, for a dense network. */
static outcome run_pictures(const problem *p, const train_source *training, const train_source *validation) {
    problem on_images = *p;
    on_images.net = "5";
    on_images.input = (train_shape){1, {SIDE * SIDE}};
    on_images.training_features = training;
    on_images.validation_features = validation;
    return run(&on_images);
}

/* Bits, bytes and floats of the same images train the same network; a checkpoint of bits is resumed with bits, whatever
 * lies in memory that is never shown. */
static void images(void **state) {
    (void)state;
    picture_set pictures[2];
    problem p = small_problem(TRAIN_REG_CIRCE);
    draw_pictures(60, &pictures[0]);
    draw_pictures(61, &pictures[1]);
    train_source bits[2], bytes[2], floats[2];
    for (int k = 0; k < 2; k++) {
        int64_t n = k == 0 ? p.rows : p.validation_rows;
        bits[k] = picture_source(&pictures[k], TRAIN_BITS, n);
        bytes[k] = picture_source(&pictures[k], TRAIN_BYTES, n);
        floats[k] = as_floats(&bits[k]);
    }
    outcome a = run_pictures(&p, &bits[0], &bits[1]), b = run_pictures(&p, &bytes[0], &bytes[1]);
    outcome c = run_pictures(&p, &floats[0], &floats[1]);
    train_ok(a.status);
    assert_same(&a, &b);
    assert_same(&a, &c);

    stopper s = {.at = 7};
    p.options.checkpoint = test_path("run.safetensors");
    p.options.resume = 1;
    p.options.progress = stop_at;
    p.options.user = &s;
    assert_true(run_pictures(&p, &bits[0], &bits[1]).result.interrupted);
    p.options.progress = NULL;
    long bytes_there;
    char *kept = read_file(p.options.checkpoint, &bytes_there);
    pictures[0].bits[pictures[0].stored[11]][1] ^= 4;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    pictures[0].bits[pictures[0].stored[11]][1] ^= 4;
    pictures[0].shift[3] ^= 1;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    pictures[0].shift[3] ^= 1;
    bits[1].background = 0.0F;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    bits[1].background = -1.0F;
    pictures[0].stored[p.rows] = 0; /* a point that there is not */
    for (int32_t row = 0; row < STORED_IMAGES; row++) {
        bool shown = false;
        for (int64_t i = 0; i < p.rows; i++) shown = shown || pictures[0].stored[i] == row;
        if (!shown) memset(pictures[0].bits[row], 0x55, sizeof pictures[0].bits[row]);
    }
    outcome again = run_pictures(&p, &bits[0], &bits[1]);
    train_ok(again.status);
    assert_true(again.result.resumed);
    assert_same(&again, &a);
    write_file(p.options.checkpoint, kept, bytes_there);
    p.threads = 1; /* the hash is that of any number of them */
    train_ok(run_pictures(&p, &bits[0], &bits[1]).status);
}

/* A network with batch norm, which keeps running means and variances, on images; a batch of 8 and 6 by 6 pixels. */
typedef struct image_problem {
    picture_set pictures[2];
    train_source sources[2];
    problem p;
} image_problem;

static image_problem *normed(void) {
    image_problem *made = test_memory(sizeof *made);
    made->p = small_problem(TRAIN_REG_CIRCE);
    made->p.net = "conv3n,pool2,res4s2,4";
    made->p.input = (train_shape){3, {1, SIDE, SIDE}};
    made->p.options.epochs = 3;
    made->p.threads = 1; /* batch norm spins where threads meet, which takes long where others have the cores */
    for (int k = 0; k < 2; k++) {
        draw_pictures(63 + (uint64_t)k, &made->pictures[k]);
        made->sources[k] =
            picture_source(&made->pictures[k], TRAIN_BITS, k == 0 ? made->p.rows : made->p.validation_rows);
    }
    made->p.training_features = &made->sources[0];
    made->p.validation_features = &made->sources[1];
    return made;
}

static void resume_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) skip();
    image_problem *made = normed();
    problem *p = &made->p;
    outcome out = run_ok(p);
    assert_true(out.n_buffers == 2 * (3 + 4 + 4 + 4));
    check_resume(p);
    p->options.patience = 1;
    p->options.rate = 0.3;
    p->options.epochs = 5;
    out = run_ok(p);
    assert_true(out.result.stopped_early); /* what was best is then carried from file to file */
    check_resume(p);
}

/* Validation is of the network as it will be used, with what was best put back whole; and it leaves no trace. */
static void validates_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) skip();
    image_problem *made = normed();
    problem *p = &made->p;
    for (int patience = 0; patience < 2; patience++) {
        train_result result;
        float prediction[21];
        double loss = 0.0;
        p->options.patience = patience;
        if (patience > 0) p->options.rate = 0.3, p->options.epochs = 5;
        objects o = make(p);
        train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
        int64_t judged = patience > 0 ? result.best_epoch : result.epochs_done - 1;
        assert_true(patience == 0 || judged < result.epochs_done - 1);
        train_ok(train_predict(o.network, &made->sources[1], prediction));
        for (int64_t i = 0; i < 21; i++)
            loss += pow((double)prediction[i] - test_at(&o.validation.target, i, 0), 2.0) / 21.0;
        assert_near(loss, result.history[judged].validation_loss, 1e-6, loss); /* float32 sums in another order */
        train_result_free(&result);
        drop(&o);
    }
    made = normed();
    outcome each = run_ok(&made->p);
    made->p.options.validate_every = 3;
    outcome once = run_ok(&made->p);
    assert_true(same_bits(each.params, once.params, (size_t)each.n_params * sizeof *each.params));
    assert_true(same_bits(each.buffers, once.buffers, (size_t)each.n_buffers * sizeof *each.buffers));
}

/* Layers whose outputs are images, or are not stored unless somebody asks: with and without a gradient. */
static void inner_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) skip();
    static const int64_t layers[] = {1, 3}; /* batch norm, which applies its activation itself; a pool */
    image_problem *made = normed();
    made->p.activation = TRAIN_RELU;
    problem *p = &made->p, none = *p;
    none.regularizer.kind = TRAIN_REG_NONE;
    outcome plain = run_ok(&none);
    p->options.layers = layers;
    p->options.n_layers = COUNT(layers);
    p->options.gamma = 0.0;
    outcome measured = run_ok(p);
    assert_true(measured.history[0].regularizer != 0.0);
    double most = 0.0; /* other primitives may round otherwise: float32 over 15 steps of 0.01 */
    for (int64_t i = 0; i < plain.n_params; i++)
        most = fmax(most, fabs((double)plain.params[i] - (double)measured.params[i]));
    assert_true(most < 1e-3);
    p->options.gamma = 10.0;
    check_resume(p);
    /* A network that was regularised and is trained on without is as if it never had been. */
    objects o = make(p);
    train_result result;
    train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
    train_result_free(&result);
    train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
    train_ok(train_run(o.network, NULL, &o.data, &o.validation, &none.options, &result));
    most = 0.0;
    float *params = params_of(&o);
    for (int64_t i = 0; i < plain.n_params; i++) most = fmax(most, fabs((double)plain.params[i] - (double)params[i]));
    assert_true(most < 1e-3);
    train_result_free(&result);
    drop(&o);
}

/* What is told of a checkpoint of another network for images. */
static void foreign_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) skip();
    image_problem *made = normed();
    problem *p = &made->p, q;
    p->options.checkpoint = test_path("run.safetensors");
    p->options.resume = 1;
    p->net = "conv3k3p1,4";
    run_stopped(p, 5);
    static const char *const others[] = {"conv3k5p2,4", "conv3k3p1n,4", "conv3k3p1,pool2s2,4", "res3,4"};
    for (int64_t k = 0; k < COUNT(others); k++) {
        q = *p;
        q.net = others[k];
        refused(&q, CIRCE_ERR_ARGUMENT, "network is '");
    }
    q = *p;
    q.input.size[1] = 4; /* images that are not the network's */
    refused(&q, CIRCE_ERR_SHAPE, "features are 1 by 6 by 6; the network needs 1 by 4 by 6");
    run_ok(p);
}

/* Batches of four of ten points; a point that is refused, and a shape. */
static void predicts_images(void **state) {
    (void)state;
    picture_set pictures;
    train_device *device = NULL;
    train_network *network = NULL;
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    float out[10][2], expected[10][2];
    draw_pictures(62, &pictures);
    train_source bits = picture_source(&pictures, TRAIN_BITS, 10), floats = as_floats(&bits);
    train_ok(train_device_cpu(test_context(1), &device));
    train_ok(train_network_parse("5", TRAIN_TANH, 2, &specs, &n_specs));
    train_ok(train_network_create(device, (train_shape){1, {SIDE * SIDE}}, specs, n_specs, 4, &network));
    train_ok(train_network_initialise(network, TRAIN_START_HE, 9));
    train_ok(train_network_predict(network, 10, floats.values, &expected[0][0]));
    train_ok(train_predict(network, &bits, &out[0][0]));
    assert_true(same_bits(out, expected, sizeof out));
    bits.n = 0;
    train_ok(train_predict(network, &bits, NULL));
    bits.n = 10;
    train_refused(train_predict(network, &bits, NULL), CIRCE_ERR_ARGUMENT, "must not be NULL");
    pictures.stored[9] = 99;
    train_refused(train_predict(network, &bits, &out[0][0]), CIRCE_ERR_VALUE, "point 9 shows stored row 99");
    pictures.stored[9] = 0;
    bits.repeat = 3;
    train_refused(train_predict(network, &bits, &out[0][0]), CIRCE_ERR_SHAPE, "108 columns; the network needs 36");
    free(specs);
    train_network_destroy(network);
    train_device_destroy(device);
}

/* ---- does it learn ---------------------------------------------------------------------------------------------- */

static problem larger_problem(train_regularizer_kind kind) {
    problem p = small_problem(kind);
    p.rows = 1600;
    p.validation_rows = 200;
    p.holdout_rows = 300;
    p.net = "2x24";
    p.activation = TRAIN_RELU;
    p.options.epochs = 30;
    p.options.batch = 64;
    p.options.rate = 5e-3;
    p.options.gamma = 300.0;
    p.options.gamma_warmup_epochs = 10.0;
    p.regularizer.sigma2_x = 0.5;
    return p;
}

/* The error and CIRCE of a trained predictor on points it has not seen. */
static void judge(const problem *p, double *error, double *dependence) {
    objects o = make(p);
    train_result result;
    problem as_circe = *p;
    as_circe.regularizer.kind = TRAIN_REG_CIRCE;
    objects measure = make(&as_circe);
    train_data test = draw(p, 77, 400);
    train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
    assert_true(result.history[result.epochs_done - 1].loss < result.history[0].loss);
    train_result_free(&result);
    float *prediction = test_memory(400 * sizeof *prediction);
    train_ok(train_network_predict(o.network, 400, features_of(&test), prediction));
    circe_mat x = circe_mat_f32(prediction, 400, 1);
    *error = mean_square(&o, &test);
    train_ok(train_regularizer_value(measure.regularizer, &x, &test.y, &test.z, dependence));
    drop(&measure);
    drop(&o);
}

/* Var(0.7 e + noise) = 0.5 is what cannot be had without z; noise alone is 0.01. */
static void learns(void **state) {
    (void)state;
    double error, dependence, free_error, free_dependence;
    problem p = larger_problem(TRAIN_REG_NONE);
    judge(&p, &free_error, &free_dependence);
    assert_true(free_error < 0.08);
    for (int k = TRAIN_REG_CIRCE; k <= TRAIN_REG_GCM; k++) {
        p = larger_problem((train_regularizer_kind)k);
        if (k == TRAIN_REG_HSCIC) p.options.gamma = 300.0, p.regularizer.sigma2_x = 1.0;
        if (k == TRAIN_REG_GCM) p.options.gamma = 0.3;
        judge(&p, &error, &dependence);
        assert_true(dependence < 0.1 * free_dependence);
        assert_true(error > 0.3 && error < 0.8); /* it paid, and did not fall to a constant (Var(b) = 0.93) */
    }
}

static void classifies(void **state) {
    (void)state;
    problem p = larger_problem(TRAIN_REG_NONE);
    p.options.loss = TRAIN_CROSS_ENTROPY;
    p.outputs = 2;
    p.options.epochs = 10;
    outcome out = run_ok(&p);
    assert_true(out.history[9].validation_loss < 0.25); /* log 2 = 0.69 knows nothing */
}

/* The same seed and threads, the same bits; another seed, another order. */
static void deterministic(void **state) {
    (void)state;
    for (int k = TRAIN_REG_CIRCE; k <= TRAIN_REG_GCM; k++)
        for (int threads = 0; threads < 3; threads++) {
            problem p = larger_problem((train_regularizer_kind)k);
            p.options.epochs = 2;
            p.threads = threads;
            outcome a = run_ok(&p), b = run_ok(&p);
            assert_same(&a, &b);
            p.options.seed++;
            b = run_ok(&p);
            assert_false(same_bits(a.params, b.params, (size_t)a.n_params * sizeof *a.params));
        }
}

/* Recorded values of a fixed seed. Other instruction sets and libraries round float32 otherwise, 6e-8 at a time: over
 * these 75 steps of a smooth network the losses of OpenBLAS's kernels for Prescott, Haswell and SkylakeX differ by
 * 1e-7, the regulariser, which is a difference of larger sums, by 5e-6. CIRCE_RECORD in the environment prints new
 * ones. */
static void recorded(void **state) {
    (void)state;
    static const double loss[] = {0.412115871, 0.294229015, 0.408942807};
    static const double regularizer[] = {0.0274585892, 0.00426042171, 0.000101849543};
    problem p = larger_problem(TRAIN_REG_CIRCE);
    p.activation = TRAIN_TANH;
    p.options.epochs = 3;
    outcome out = run_ok(&p);
    for (int64_t e = 0; e < 3; e++) {
        if (getenv("CIRCE_RECORD") != NULL)
            print_message("%.9g, %.9g\n", out.history[e].validation_loss, out.history[e].validation_regularizer);
        assert_near(out.history[e].validation_loss, loss[e], 1e-5, loss[e]);
        assert_near(out.history[e].validation_regularizer, regularizer[e], 1e-4, regularizer[e]);
    }
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refusals(void **state) {
    (void)state;
    static const int64_t beyond[] = {9}, twice[] = {1, 1};
    problem p = small_problem(TRAIN_REG_HSIC), q = p;
    q.rows = 7;
    refused(&q, CIRCE_ERR_SHAPE, "there are 7 training rows, fewer than a batch of 8");
    q = p;
    q.options.gamma = -1.0;
    refused(&q, CIRCE_ERR_ARGUMENT, "gamma is -1");
    q = p;
    q.options.rate = NAN;
    refused(&q, CIRCE_ERR_ARGUMENT, "learning rate is nan");
    q = p;
    q.options.epochs = 0;
    refused(&q, CIRCE_ERR_ARGUMENT, "number of epochs is 0");
    q = p;
    q.options.beta2 = 1.0;
    refused(&q, CIRCE_ERR_ARGUMENT, "beta2");
    q = p;
    q.validation_rows = 0;
    q.options.patience = 1;
    refused(&q, CIRCE_ERR_ARGUMENT, "needs validation rows");
    q = p;
    q.validation_rows = 3;
    refused(&q, CIRCE_ERR_SHAPE, "3 validation rows");
    q = p;
    q.options.layers = beyond;
    q.options.n_layers = 1;
    refused(&q, CIRCE_ERR_ARGUMENT, "no layer 9");
    q = p;
    q.options.layers = twice;
    q.options.n_layers = 2;
    refused(&q, CIRCE_ERR_ARGUMENT, "layer 1 is named twice");

    objects o = make(&p);
    train_result result;
#define RUN train_run(o.network, o.regularizer, &o.data, &o.validation, &p.options, &result)
    features_of(&o.data)[5 * INPUTS + 1] = INFINITY;
    train_refused(RUN, CIRCE_ERR_VALUE, "training features hold inf in row 5, column 1");
    features_of(&o.data)[5 * INPUTS + 1] = 0.0F;
    p.options.loss = TRAIN_CROSS_ENTROPY;
    test_set(&o.data.target, 0, 0, 0.0);
    for (int64_t i = 0; i < p.rows; i++) test_set(&o.data.target, i, 0, 0.0);
    test_set(&o.data.target, 4, 0, 1.0); /* the network has one output */
    train_refused(RUN, CIRCE_ERR_VALUE, "target holds 1 in row 4; classes are 0 to 0");
    test_set(&o.data.target, 4, 0, NAN);
    train_refused(RUN, CIRCE_ERR_VALUE, "row 4");
    p.options.loss = TRAIN_MSE;
    o.data.target.rows--;
    train_refused(RUN, CIRCE_ERR_SHAPE, "features have 43 rows and the target has 42");
    o.data.target.rows++;
    o.data.features.width--;
    train_refused(RUN, CIRCE_ERR_SHAPE, "the training features have 2 columns; the network needs 3");
    o.data.features.width++;
    o.data.y.rows--;
    p.options.loss = (train_loss_kind)9;
    train_refused(RUN, CIRCE_ERR_ARGUMENT, "loss 9");
#undef RUN
    drop(&o);
}

static const struct CMUnitTest tests[] = {
    TEST(resume_none),     TEST(resume_circe),   TEST(resume_random_features),
    TEST(resume_hscic),    TEST(resume_gcm),     TEST(resume_hsic),
    TEST(resume_patience), TEST(resume_steps),   TEST(reused),
    TEST(written_when),    TEST(killed),         TEST(damaged),
    TEST(foreign),         TEST(foreign_data),   TEST(fresh),
    TEST(full_disk),       TEST(missing_folder), TEST(nan_in_target),
    TEST(diverging),       TEST(never_saved),    TEST(loss_comes_first),
    TEST(gradients),       TEST(gamma_zero),     TEST(no_allocation),
    TEST(schedules),       TEST(steps),          TEST(validate_every),
    TEST(early_stopping),  TEST(validation),     TEST(stopping_with_gamma),
    TEST(images),          TEST(resume_images),  TEST(validates_images),
    TEST(inner_images),    TEST(foreign_images), TEST(predicts_images),
    TEST(learns),          TEST(classifies),     TEST(deterministic),
    TEST(recorded),        TEST(refusals),
};

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "victim") == 0) return victim(argv[2], argv[3]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}
