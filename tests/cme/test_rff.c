/* Random Fourier features (the paper's algorithm 2): convergence to the exact K^c, and the schedule of draws, which
 * must be a pure function of (seed, step). */
#include "tests/support.h"

enum { HOLDOUT = 80, BATCH = 24 };

typedef struct data {
    circe_mat y, z;
} data;

static data points(uint64_t stream, int64_t rows) {
    data d = {test_normal(stream, rows, 1), test_normal(stream + 1, rows, 1)};
    for (int64_t i = 0; i < rows; i++) test_set(&d.z, i, 0, test_at(&d.y, i, 0) + 0.5 * test_at(&d.z, i, 0));
    return d;
}

static circe_cme_options rff_options(int64_t pool, int64_t batch, int64_t every, uint64_t seed) {
    static const double ridge = 1.0;
    circe_cme_options options = test_options(CIRCE_METHOD_RFF, &ridge);
    options.rff_pool = pool;
    options.rff_batch = batch;
    options.rff_every = every;
    options.seed = seed;
    return options;
}

static circe_mat gram_at(circe_context *context, circe_cme *cme, const data *batch, int64_t step) {
    circe_mat gram = test_zeros(batch->y.rows, batch->y.rows, CIRCE_FLOAT64);
    assert_ok(circe_cme_rff_step(cme, step));
    assert_ok(circe_residual_gram(test_workspace(context), cme, &batch->y, &batch->z, &gram));
    return gram;
}

static double mean_square(const circe_mat *a, const circe_mat *b) {
    double sum = 0.0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) sum += pow(test_at(a, i, j) - test_at(b, i, j), 2.0);
    return sum / (double)(a->rows * a->cols);
}

/* The error of the features is a mean over D independent terms, so that four times as many halve it; K^c is of second
 * order in them, which adds a part that falls as 1/D and counts while D is small. Averaged over draws, each fourfold D
 * must therefore bring a factor between 1.5 and 3, in the mean between 1.8 and 2.4. */
static void converges(void **state, const char *kernel, int64_t sizes) {
    static const int64_t D[] = {32, 128, 512, 2048}, draws[] = {60, 40, 12, 6};
    static const double ridge = 1.0;
    (void)state;
    circe_context *context = test_context(0);
    data holdout = points(1, HOLDOUT), batch = points(3, BATCH);
    circe_cme_options exact_options = test_options(CIRCE_METHOD_DENSE, &ridge);
    circe_cme *exact = test_fit(context, &holdout.y, &holdout.z, kernel, kernel, &exact_options);
    circe_mat expected = test_zeros(BATCH, BATCH, CIRCE_FLOAT64);
    assert_ok(circe_residual_gram(test_workspace(context), exact, &batch.y, &batch.z, &expected));
    double error[COUNT(D)];
    for (int64_t k = 0; k < sizes; k++) {
        double sum = 0.0;
        circe_cme *cme = NULL;
        circe_cme_options options = rff_options(D[k], 0, 1, 5);
        circe_kernel *parsed = test_kernel(context, kernel);
        assert_ok(circe_cme_fit(context, &holdout.y, &holdout.z, parsed, parsed, &options, &cme));
        circe_workspace *workspace = NULL;
        assert_ok(circe_workspace_create(context, &workspace));
        circe_mat gram = test_zeros(BATCH, BATCH, CIRCE_FLOAT64);
        for (int64_t step = 0; step < draws[k]; step++) {
            assert_ok(circe_cme_rff_step(cme, step));
            assert_ok(circe_residual_gram(workspace, cme, &batch.y, &batch.z, &gram));
            sum += mean_square(&gram, &expected);
        }
        error[k] = sqrt(sum / (double)draws[k]);
        circe_workspace_destroy(workspace); /* at once, for the memory */
        circe_cme_destroy(cme);
    }
    for (int64_t k = 1; k < sizes; k++)
        if (!(error[k - 1] / error[k] > 1.5 && error[k - 1] / error[k] < 3.0))
            fail_msg("D = %d to %d: error %.3g to %.3g", (int)D[k - 1], (int)D[k], error[k - 1], error[k]);
    double factor = pow(error[0] / error[sizes - 1], 1.0 / (double)(sizes - 1));
    assert_true(factor > 1.8 && factor < 2.4);
}

static void converges_gaussian(void **state) { converges(state, "gaussian(0.7)", 4); }
static void converges_laplace(void **state) { converges(state, "laplace(2)", 3); }

static void pure_function_of_step(void **state) {
    static const int64_t order[] = {0, 7, 3, 100, 7, 4, 0, 99, 3, 100};
    (void)state;
    circe_context *context = test_context(0);
    data holdout = points(11, HOLDOUT), batch = points(13, BATCH);
    circe_cme_options options = rff_options(32, 20, 4, 9);
    circe_cme *one = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
    circe_cme *other = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
    for (int64_t k = 0; k < COUNT(order); k++) {
        circe_mat a = gram_at(context, one, &batch, order[k]);
        circe_mat b = gram_at(context, other, &batch, order[COUNT(order) - 1 - k]); /* elsewhere meanwhile */
        b = gram_at(context, other, &batch, order[k]);
        assert_mat_equal(&a, &b);
    }
    options.seed = 10;
    circe_cme *reseeded = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
    circe_mat a = gram_at(context, one, &batch, 5), b = gram_at(context, reseeded, &batch, 5);
    assert_true(test_difference(&a, &b) > 1e-3);
    /* A fit starts at step 0. */
    circe_mat fresh = test_zeros(BATCH, BATCH, CIRCE_FLOAT64), first = gram_at(context, one, &batch, 0);
    circe_cme *untouched = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)",
                                    &(circe_cme_options){.method = options.method,
                                                         .ridge = options.ridge,
                                                         .n_ridge = 1,
                                                         .tolerance = options.tolerance,
                                                         .seed = 9,
                                                         .rff_pool = 32,
                                                         .rff_batch = 20,
                                                         .rff_every = 4});
    assert_ok(circe_residual_gram(test_workspace(context), untouched, &batch.y, &batch.z, &fresh));
    assert_mat_equal(&fresh, &first);
}

/* With all of the pool in use, a batch changes where the pool does, and nowhere else. */
static void redraws_every_L_steps(void **state) {
    enum { L = 5 };
    (void)state;
    circe_context *context = test_context(0);
    data holdout = points(21, HOLDOUT), batch = points(23, BATCH);
    circe_cme_options options = rff_options(16, 16, L, 3);
    circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
    circe_mat before = gram_at(context, cme, &batch, 0);
    for (int64_t step = 1; step <= 4 * L; step++) {
        circe_mat now = gram_at(context, cme, &batch, step);
        if (step % L == 0)
            assert_true(test_difference(&now, &before) > 1e-3);
        else
            assert_mat_equal(&now, &before);
        before = now;
    }
}

/* D out of D_0: every batch its own choice, all of them from one pool. A batch of all is the pool, whether named by
 * its number or by 0, and the mean over many choices comes near it: pairs of the same frequency are in a choice with
 * probability D/D_0 and others with D(D-1)/(D_0(D_0-1)), which leaves a bias of the order of the error itself. */
static void subset_of_the_pool(void **state) {
    enum { POOL = 64, CHOICES = 200 };
    (void)state;
    circe_context *context = test_context(0);
    data holdout = points(31, HOLDOUT), batch = points(33, BATCH);
    circe_cme_options some = rff_options(POOL, POOL / 2, 100000, 4), all = rff_options(POOL, POOL, 100000, 4),
                      zero = rff_options(POOL, 0, 100000, 4);
    circe_cme *chosen = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &some);
    circe_cme *whole = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &all);
    circe_cme *default_batch = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &zero);
    circe_mat pool = gram_at(context, whole, &batch, 0), pool_again = gram_at(context, default_batch, &batch, 0);
    assert_mat_equal(&pool, &pool_again);
    circe_mat mean = test_zeros(BATCH, BATCH, CIRCE_FLOAT64), before = pool;
    double typical = 0.0;
    for (int64_t step = 0; step < CHOICES; step++) {
        circe_mat gram = gram_at(context, chosen, &batch, step);
        assert_true(test_difference(&gram, &before) > 1e-6);
        typical += mean_square(&gram, &pool) / CHOICES;
        for (int64_t i = 0; i < BATCH; i++)
            for (int64_t j = 0; j < BATCH; j++)
                test_set(&mean, i, j, test_at(&mean, i, j) + test_at(&gram, i, j) / CHOICES);
        before = gram;
    }
    assert_true(mean_square(&mean, &pool) < 0.25 * typical);
}

static void refusals(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    data d = points(41, 30);
    circe_cme_options options = rff_options(8, 8, 2, 0);
    circe_cme *cme = NULL;
    circe_kernel *delta = test_kernel(context, "delta"), *gaussian = test_kernel(context, "gaussian(1)");
    circe_kernel *linear = test_kernel(context, "linear");
    assert_refused(circe_cme_fit(context, &d.y, &d.z, delta, gaussian, &options, &cme), CIRCE_ERR_UNSUPPORTED,
                   "the kernel of y has a delta factor: use method lowrank or dense");
    assert_refused(circe_cme_fit(context, &d.y, &d.z, gaussian, linear, &options, &cme), CIRCE_ERR_UNSUPPORTED,
                   "the kernel of z has a linear factor");
    assert_null(cme);
    cme = test_fit(context, &d.y, &d.z, "gaussian(1)", "gaussian(1)", &options);
    circe_features *features = NULL;
    assert_refused(circe_features_create(context, cme, &d.y, &d.z, CIRCE_FLOAT64, &features), CIRCE_ERR_UNSUPPORTED,
                   "no residual features");
    assert_refused(circe_cme_rff_step(cme, -1), CIRCE_ERR_ARGUMENT, "steps count from 0");
    circe_cme_info info;
    assert_ok(circe_cme_get_info(cme, &info));
    assert_int_equal(info.method, CIRCE_METHOD_RFF);
    assert_int_equal(info.solver, CIRCE_METHOD_DENSE);
}

/* Value and gradient of the measure go through the same matrix: <G, K_xx> with G from it. */
static void measure_uses_the_features(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    data holdout = points(51, HOLDOUT), batch = points(53, BATCH);
    circe_cme_options options = rff_options(128, 64, 10, 6);
    circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    circe_mat x = test_normal(55, BATCH, 2), gram = gram_at(context, cme, &batch, 12);
    circe_mat kx = test_zeros(BATCH, BATCH, CIRCE_FLOAT64), ky = test_zeros(BATCH, BATCH, CIRCE_FLOAT64);
    assert_ok(circe_gram(context, kernel, &x, &x, &kx));
    assert_ok(circe_gram(context, kernel, &batch.y, &batch.y, &ky));
    double biased = 0.0, debiased = 0.0, value = NAN;
    for (int64_t i = 0; i < BATCH; i++)
        for (int64_t j = 0; j < BATCH; j++) {
            double p = test_at(&kx, i, j) * test_at(&ky, i, j) * test_at(&gram, i, j) / (BATCH * (BATCH - 1.0));
            biased += p;
            if (i != j) debiased += p;
        }
    assert_ok(circe_measure_circe(workspace, cme, kernel, &x, &batch.y, &batch.z, CIRCE_BIASED, &value, NULL));
    assert_near(value, biased, 1e-12, fabs(biased));
    assert_ok(circe_measure_circe(workspace, cme, kernel, &x, &batch.y, &batch.z, CIRCE_DEBIASED, &value, NULL));
    assert_near(value, debiased, 1e-11, fabs(biased));
}

/* Stops long work, and nothing that has stages. */
static int stop_work(void *user, const char *stage, int64_t done, int64_t total) {
    (void)done, (void)total;
    return *(const bool *)user && strcmp(stage, "working") == 0;
}

/* A redraw that the caller stops half-way says so, in a step and in loading a model, and is made again by the next
 * step. 2,000 rows by 1,024 features are more than one step of a product, and take longer than it is until the caller
 * is asked. */
static void stopped_redraw(void **state) {
    (void)state;
    enum { ROWS = 2000, POOL = 512 };
    bool stop = false;
    circe_context_options context_options;
    circe_context_options_init(&context_options);
    context_options.threads = 1;
    context_options.progress = stop_work;
    context_options.progress_user = &stop;
    circe_context *context = test_context_with(&context_options);
    data holdout = points(61, ROWS), batch = points(63, BATCH);
    circe_cme_options options = rff_options(POOL, 8, 1, 7);
    circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options), *again = NULL;
    circe_mat whole = gram_at(context, cme, &batch, 1);
    assert_ok(circe_cme_rff_step(cme, 0));
    stop = true;
    assert_refused(circe_cme_rff_step(cme, 1), CIRCE_ERR_CANCELLED, "cancelled by the caller");
    stop = false;
    circe_mat after = gram_at(context, cme, &batch, 1);
    assert_memory_equal(after.data, whole.data, BATCH * BATCH * sizeof(double));
    const char *path = test_path("stopped.safetensors");
    assert_ok(circe_cme_save(cme, path));
    stop = true;
    assert_refused(circe_cme_load(context, path, &again), CIRCE_ERR_CANCELLED, "cancelled by the caller");
    assert_null(again);
}

/* ---- weights of rows --------------------------------------------------------------------------------------------- */

/* A whole weight stands for that many copies, with a ridge that is rows / copies of theirs, whatever is drawn: by
 * either solver, after a redraw and out of a file. The dense solver solves the same system of condition 1e3 in two
 * ways; low rank leaves out 1e-12 of the trace, of copies another part. */
static void weighted(void **state, int64_t rows, circe_method solver, double tolerance) {
    (void)state;
    circe_context *context = test_context(2);
    data some = points(71, rows), batch = points(73, BATCH);
    int64_t *of = test_memory((size_t)(4 * rows) * sizeof *of), copies = 0, positive = 0;
    double *weights = test_memory((size_t)rows * sizeof *weights);
    for (int64_t i = 0; i < rows; i++) {
        weights[i] = (double)((i * 7) % 4);
        positive += weights[i] > 0.0;
        for (int64_t k = 0; k < (int64_t)weights[i]; k++) of[copies++] = i;
    }
    data all = {test_rows(&some.y, of, copies), test_rows(&some.z, of, copies)};
    circe_cme_options options = rff_options(64, 40, 3, 8), repeated = options;
    double ridge = 0.5, smaller = ridge * (double)positive / (double)copies;
    repeated.ridge = &ridge;
    options.ridge = &smaller;
    options.weights = weights;
    circe_cme *a = test_fit(context, &some.y, &some.z, "gaussian(1)", "gaussian(0.7)", &options), *again = NULL;
    circe_cme *b = test_fit(context, &all.y, &all.z, "gaussian(1)", "gaussian(0.7)", &repeated);
    circe_cme_info info;
    assert_ok(circe_cme_get_info(a, &info));
    assert_int_equal(info.solver, solver);
    assert_int_equal(info.rows, positive);
    assert_ok(circe_cme_save(a, test_path("weighted.safetensors")));
    again = test_load(context, test_path("weighted.safetensors"));
    for (int64_t step = 0; step < 5; step++) {
        circe_mat A = gram_at(context, a, &batch, step), B = gram_at(context, b, &batch, step);
        circe_mat C = gram_at(context, again, &batch, step);
        assert_mat_near(&A, &B, tolerance);
        assert_mat_equal(&A, &C);
    }
}

static void weighted_dense(void **state) { weighted(state, 60, CIRCE_METHOD_DENSE, 1e-9); }
static void weighted_lowrank(void **state) { weighted(state, 700, CIRCE_METHOD_LOWRANK, 1e-6); }

/* Equal weights are none, bit for bit. */
static void weights_that_are_equal(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    data some = points(75, 60), batch = points(77, BATCH);
    double weights[60];
    for (int64_t i = 0; i < 60; i++) weights[i] = 3.0;
    circe_cme_options options = rff_options(64, 40, 3, 8);
    circe_cme *plain = test_fit(context, &some.y, &some.z, "gaussian(1)", "gaussian(0.7)", &options);
    options.weights = weights;
    circe_cme *equal = test_fit(context, &some.y, &some.z, "gaussian(1)", "gaussian(0.7)", &options);
    circe_mat a = gram_at(context, plain, &batch, 4), b = gram_at(context, equal, &batch, 4);
    assert_mat_equal(&a, &b);
}

TEST_MAIN("rff", TEST(converges_gaussian), TEST(converges_laplace), TEST(pure_function_of_step),
          TEST(redraws_every_L_steps), TEST(subset_of_the_pool), TEST(refusals), TEST(measure_uses_the_features),
          TEST(stopped_redraw), TEST(weighted_dense), TEST(weighted_lowrank), TEST(weights_that_are_equal))
