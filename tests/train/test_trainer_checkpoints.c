/* Checkpoints of the training loop: a run that is stopped and resumed, or killed, ends in the bits of one that was not;
 * when they are written; damaged and foreign ones are refused and left alone; disks that are full or gone.
 *
 * Runs on one machine with one number of threads are compared bit for bit. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/train/trainer_support.h"
#include "train/checkpoint.h"
#include "train/checkpoint_hash.h"

/* ---- resuming --------------------------------------------------------------------------------------------------- */

/* Three epochs: a disk takes its time to be sure of a file. */
static problem resumable(circe_measure_kind kind) {
    problem p = small_problem(kind);
    p.options.epochs = 3;
    return p;
}

static void resume_none(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_NONE);
    check_resume(&p);
    p.options.loss = TRAIN_CROSS_ENTROPY;
    p.outputs = 2;
    check_resume(&p);
}

static void resume_circe(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_CIRCE);
    check_resume(&p);
}

static void resume_random_features(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_CIRCE);
    p.regularizer.method = CIRCE_METHOD_RFF;
    check_resume(&p);
}

static void resume_hscic(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_HSCIC);
    check_resume(&p);
}

/* gcm carries its previous batch, here of two layers. */
static void resume_gcm(void **state) {
    (void)state;
    static const int64_t layers[] = {4, 1};
    problem p = resumable(CIRCE_MEASURE_GCM);
    p.options.layers = layers;
    p.options.n_layers = COUNT(layers);
    check_resume(&p);
}

static void resume_hsic(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_HSIC);
    p.validation_rows = 0;
    check_resume(&p);
}

static void resume_patience(void **state) {
    (void)state;
    problem p = overfitting();
    outcome whole = run_ok(&p);
    assert_true(whole.result.stopped_early && whole.result.epochs_done < 25);
    p.options.epochs = whole.result.epochs_done + 2; /* fewer moments to try */
    check_resume(&p);
    problem q = small_problem(CIRCE_MEASURE_CIRCE);
    q.options.patience = 2;
    q.options.rate = 0.2;
    check_resume(&q);
}

/* The last epoch is a part of one, and not every epoch is validated. */
static void resume_steps(void **state) {
    (void)state;
    problem p = resumable(CIRCE_MEASURE_GCM);
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
    problem p = small_problem(CIRCE_MEASURE_GCM);
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
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
    problem p = small_problem(CIRCE_MEASURE_GCM);
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
        fprintf(stderr, "%s\n", circe_last_error());
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
        execl("/proc/self/exe", "test_trainer_checkpoints", "victim", checkpoint, result, (char *)NULL);
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
    assert_non_null(strstr(circe_last_error(), options->checkpoint));
    train_result_free(&result);
    long left;
    char *after = read_file(options->checkpoint, &left);
    assert_true(left == bytes && same_bits(after, data, (size_t)bytes));
}

static void damaged(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(CIRCE_MEASURE_GCM);
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

/* Another run's, with what differs. */
static void foreign(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
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
    refused(&p, CIRCE_ERR_FORMAT, "not a training checkpoint");
    assert_ok(circe_tensor_file_write(test_context(1), path, &tensor, 1, versions, COUNT(versions)));
    refused(&p, CIRCE_ERR_FORMAT, "version '7' and comes from circe 9.1");
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
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
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
        train_refused(RUN, CIRCE_ERR_ARGUMENT, "belongs to another run: data is '");
        numbers[k][20] -= 1e-3F;
        double kept = sides[k][20];
        sides[k][20] += 1e-9;
        train_refused(RUN, CIRCE_ERR_ARGUMENT, "belongs to another run: data is '");
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
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
    snprintf(text, sizeof text, "%s", circe_last_error());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(out.status, CIRCE_ERR_WRITE);
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
    p.options.checkpoint = test_path("nowhere/run.safetensors");
    outcome out = refused(&p, CIRCE_ERR_WRITE, "nowhere/run.safetensors");
    assert_int_equal(out.result.steps_done, 0); /* not after work that is then lost */
    /* One that goes away while the run is on. */
    const char *folder = test_path("folder");
    assert_int_equal(mkdir(folder, 0700), 0);
    p.options.checkpoint = test_path("folder/run.safetensors");
    p.options.checkpoint_epochs = 1;
    p.options.progress = lose_folder;
    p.options.user = (void *)(uintptr_t)folder;
    out = refused(&p, CIRCE_ERR_WRITE, p.options.checkpoint);
    assert_int_equal(out.result.steps_done, 10);
    assert_int_equal(steps_in(test_path("folder-away/run.safetensors")), 5);
}

static const struct CMUnitTest tests[] = {
    TEST(resume_none),     TEST(resume_circe),   TEST(resume_random_features),
    TEST(resume_hscic),    TEST(resume_gcm),     TEST(resume_hsic),
    TEST(resume_patience), TEST(resume_steps),   TEST(reused),
    TEST(written_when),    TEST(killed),         TEST(damaged),
    TEST(foreign),         TEST(foreign_data),   TEST(fresh),
    TEST(full_disk),       TEST(missing_folder),
};

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "victim") == 0) return victim(argv[2], argv[3]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return test_run("trainer_checkpoints", tests, NULL, NULL);
}
