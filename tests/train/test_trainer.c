/* The training loop: gradients of the whole objective by finite differences, memory, schedules, early stopping, what a
 * run must do to data, and numbers and requests that it refuses. (Checkpoints: test_trainer_checkpoints; images:
 * test_trainer_images.)
 *
 * Tolerances are stated where they are used. Runs on one machine with one number of threads are compared bit for bit.
 */
#include "tests/train/trainer_support.h"

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

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* The objective of all training rows at once, from its parts. */
static double objective(const objects *o, const problem *p) {
    int64_t n = p->rows, n_layers = p->options.n_layers > 0 ? p->options.n_layers : 1;
    double value = 0.0;
    train_ok(train_network_forward(o->network, n, features_of(&o->data)));
    o->device->ops->loss(o->device, p->options.loss, n, p->outputs, train_network_output(o->network),
                         o->data.target.data, NULL, &value, NULL);
    for (int64_t k = 0; k < n_layers; k++) {
        int64_t layer = p->options.n_layers > 0 ? p->options.layers[k] : train_network_n_layers(o->network) - 1;
        int64_t cols = train_shape_count(train_network_layer(o->network, layer)->out);
        circe_mat x = circe_mat_f32(train_network_activation(o->network, layer), n, cols);
        circe_mat x64 = test_copy(&x, CIRCE_FLOAT64);
        double part;
        train_ok(circe_measure_points(o->regularizer, &x64, &o->data.y, &o->data.z, &part, NULL));
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
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++)
        for (int layers = 0; layers < 3; layers++) {
            problem p = small_problem((circe_measure_kind)k);
            p.regularizer.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES;
            p.options.gamma = k == CIRCE_MEASURE_GCM ? 0.05 : 20.0;
            p.options.layers = layers == 1 ? inner : several;
            p.options.n_layers = layers == 0 ? 0 : layers == 1 ? COUNT(inner) : COUNT(several);
            check_gradient(&p);
        }
}

static void gamma_zero(void **state) {
    (void)state;
    problem none = small_problem(CIRCE_MEASURE_NONE), zero = small_problem(CIRCE_MEASURE_CIRCE);
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
    if (!COUNTS_ALLOCATIONS) test_skip("allocations are not counted under the sanitizers");
    for (int k = CIRCE_MEASURE_NONE; k < CIRCE_MEASURE_KINDS; k++) {
        if (k == CIRCE_MEASURE_CIRCE_SPECTRAL) continue; /* LAPACK allocates in its decomposition */
        problem p = small_problem((circe_measure_kind)k);
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
    problem p = small_problem(CIRCE_MEASURE_HSIC);
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
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
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
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
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
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
    problem p = small_problem(CIRCE_MEASURE_HSCIC);
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
        train_ok(circe_measure_points(o.regularizer, &x, &y, &z, &value, NULL));
        sum += value / 2.0;
    }
    assert_near(last->validation_loss, loss, 1e-6, loss);
    assert_near(last->validation_regularizer, sum, 1e-6, sum);
    assert_true(result.regularizer_seconds > 0.0 && result.regularizer_seconds <= result.seconds);
    train_result_free(&result);
    drop(&o);
}

/* ---- does it learn ---------------------------------------------------------------------------------------------- */

static problem larger_problem(circe_measure_kind kind) {
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
    as_circe.regularizer.kind = CIRCE_MEASURE_CIRCE;
    objects measure = make(&as_circe);
    train_data test = draw(p, 77, 400);
    train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
    assert_true(result.history[result.epochs_done - 1].loss < result.history[0].loss);
    train_result_free(&result);
    float *prediction = test_memory(400 * sizeof *prediction);
    train_ok(train_network_predict(o.network, 400, features_of(&test), prediction));
    circe_mat x = circe_mat_f32(prediction, 400, 1);
    *error = mean_square(&o, &test);
    train_ok(circe_measure_points(measure.regularizer, &x, &test.y, &test.z, dependence, NULL));
    drop(&measure);
    drop(&o);
}

/* Var(0.7 e + noise) = 0.5 is what cannot be had without z; noise alone is 0.01.
 *
 * What is left of the dependence, over seeds: CIRCE 0.002 to 0.006, HSCIC 0.0014, each the same for every BLAS. GCM is
 * a maximum, whose gradient jumps from one pair of columns to another: rounding leads its runs apart as far as seeds
 * do, 0.05 to 0.11 (mean 0.07, standard deviation 0.02). */
static void learns(void **state) {
    (void)state;
    double error, dependence, free_error, free_dependence;
    problem p = larger_problem(CIRCE_MEASURE_NONE);
    judge(&p, &free_error, &free_dependence);
    assert_true(free_error < 0.08);
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC, CIRCE_MEASURE_GCM};
    for (const circe_measure_kind *at = kinds; at < kinds + COUNT(kinds); at++) {
        circe_measure_kind k = *at;
        p = larger_problem(k);
        if (k == CIRCE_MEASURE_HSCIC) p.options.gamma = 300.0, p.regularizer.sigma2_x = 1.0;
        if (k == CIRCE_MEASURE_GCM) p.options.gamma = 0.3;
        judge(&p, &error, &dependence);
        assert_true(dependence < (k == CIRCE_MEASURE_GCM ? 0.25 : 0.03) * free_dependence);
        assert_true(error > 0.3 && error < 0.8); /* it paid, and did not fall to a constant (Var(b) = 0.93) */
    }
}

static void classifies(void **state) {
    (void)state;
    problem p = larger_problem(CIRCE_MEASURE_NONE);
    p.options.loss = TRAIN_CROSS_ENTROPY;
    p.outputs = 2;
    p.options.epochs = 10;
    outcome out = run_ok(&p);
    assert_true(out.history[9].validation_loss < 0.25); /* log 2 = 0.69 knows nothing */
}

/* The same seed and threads, the same bits; another seed, another order. */
static void deterministic(void **state) {
    (void)state;
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++)
        for (int threads = 0; threads < 3; threads++) {
            problem p = larger_problem((circe_measure_kind)k);
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
    problem p = larger_problem(CIRCE_MEASURE_CIRCE);
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

/* ---- numbers that are none -------------------------------------------------------------------------------------- */

static void nan_in_target(void **state) {
    (void)state;
    const char *path = test_path("run.safetensors");
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
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
    assert_non_null(strstr(circe_last_error(), "the loss is nan"));
    assert_non_null(strstr(circe_last_error(), "there is no checkpoint"));
    snprintf(named, sizeof named, "training row %lld (counted from 0)", (long long)row);
    assert_non_null(strstr(circe_last_error(), named));
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
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
    problem p = small_problem(CIRCE_MEASURE_NONE);
    objects o = make(&p);
    train_result result;
    p.options.checkpoint = test_path("run.safetensors");
    p.options.checkpoint_minutes = 1e-12;
    p.options.progress = spoil_parameter;
    p.options.user = o.network;
    circe_status status = train_run(o.network, NULL, &o.data, &o.validation, &p.options, &result);
    train_refused(status, CIRCE_ERR_NUMERIC, "the parameters are no longer finite after step 4");
    assert_non_null(strstr(circe_last_error(), "after step 3"));
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
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
    objects o = make(&p);
    train_result result;
    p.options.progress = lose_parameter;
    p.options.user = o.network;
    circe_status status = train_run(o.network, o.regularizer, &o.data, NULL, &p.options, &result);
    train_refused(status, CIRCE_ERR_NUMERIC, "the loss is ");
    assert_non_null(strstr(circe_last_error(), "in step 5 "));
    train_result_free(&result);
    drop(&o);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refusals(void **state) {
    (void)state;
    static const int64_t beyond[] = {9}, twice[] = {1, 1};
    problem p = small_problem(CIRCE_MEASURE_HSIC), q = p;
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
    train_refused(RUN, CIRCE_ERR_VALUE, "training features contain inf in row 5, column 1");
    features_of(&o.data)[5 * INPUTS + 1] = 0.0F;
    p.options.loss = TRAIN_CROSS_ENTROPY;
    test_set(&o.data.target, 0, 0, 0.0);
    for (int64_t i = 0; i < p.rows; i++) test_set(&o.data.target, i, 0, 0.0);
    test_set(&o.data.target, 4, 0, 1.0); /* the network has one output */
    train_refused(RUN, CIRCE_ERR_VALUE, "target is 1 in row 4; classes are 0 to 0");
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

/* Rows of weight 0 are as good as left out, of the holdout and of the batch: 1e-4, since batches are float32. */
static void weighted_regularizers(void **state) {
    (void)state;
    enum { ROWS = 120, KEPT = ROWS / 2 };
    circe_context *context = test_context(1);
    circe_mat y = test_normal(61, ROWS, 1), z = test_normal(62, ROWS, 1), x64 = test_normal(63, ROWS, 1);
    float weights[ROWS];
    int64_t kept[KEPT];
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC, CIRCE_MEASURE_GCM,
                                               CIRCE_MEASURE_CIRCE}; /* the last by random features */
    for (int64_t i = 0; i < ROWS; i++) {
        weights[i] = i % 2 == 0 ? 2.0f : 0.0f;
        if (i % 2 == 0) kept[i / 2] = i;
    }
    circe_mat some_y = test_rows(&y, kept, KEPT), some_z = test_rows(&z, kept, KEPT),
              some = test_rows(&x64, kept, KEPT);
    circe_mat x = test_copy(&x64, CIRCE_FLOAT32), some_x = test_copy(&some, CIRCE_FLOAT32);
    for (int64_t k = 0; k < COUNT(kinds); k++) {
        circe_measure *weighted = NULL, *plain = NULL;
        circe_measure_options options;
        double value = NAN, expected = NAN;
        circe_measure_options_init(&options, kinds[k]);
        options.sigma2_x = 1.0;
        if (k == 3) options.method = CIRCE_METHOD_RFF;
        train_ok(train_regularizer_weighted(context, &options, &y, &z, weights, &y, &z, weights, &weighted));
        train_ok(train_regularizer_create(context, &options, &some_y, &some_z, &some_y, &some_z, &plain));
        assert_true(circe_measure_has_weights(weighted));
        assert_ok(circe_measure_evaluate(weighted, NULL, ROWS, &x, &value, NULL));
        assert_ok(circe_measure_evaluate(plain, NULL, KEPT, &some_x, &expected, NULL));
        assert_near(value, expected, 1e-4, fabs(expected));
        circe_measure_destroy(weighted);
        circe_measure_destroy(plain);
    }
    memset(weights, 0, sizeof weights);
    circe_measure *none = NULL;
    circe_measure_options options;
    circe_measure_options_init(&options, CIRCE_MEASURE_CIRCE);
    assert_refused(train_regularizer_weighted(context, &options, &y, &z, weights, &y, &z, weights, &none),
                   CIRCE_ERR_VALUE, "fewer than 4 holdout rows");
}

TEST_MAIN("trainer", TEST(weighted_regularizers), TEST(gradients), TEST(gamma_zero), TEST(no_allocation),
          TEST(schedules), TEST(steps), TEST(validate_every), TEST(early_stopping), TEST(stopping_with_gamma),
          TEST(validation), TEST(learns), TEST(classifies), TEST(deterministic), TEST(recorded), TEST(nan_in_target),
          TEST(diverging), TEST(never_saved), TEST(loss_comes_first), TEST(refusals))
