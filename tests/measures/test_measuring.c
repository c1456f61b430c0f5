/* circe_measure: each kind equal to the function of the library it stands for, with the widths, ridge and regression
 * that the options ask for; gradients by finite differences; what is carried from batch to batch; and what is refused.
 *
 * Tolerances:
 *   all but circe: the same call on the same numbers, so the same bits.
 *   circe: 1e-4 of the largest kernel sum. Cached features are float32, rounded to 6e-8 of residuals that are smaller
 *     than the features by up to two digits, and the estimator subtracts means.
 *   finite differences in float64, step 1e-5: 1e-3, from float32 in the gradient under test. */
#include "tests/support.h"

enum { N = 60, M = 80, B = 16, DX = 2, DY = 2, DZ = 3 };

/* Points where x depends on z beyond y. */
typedef struct points {
    circe_context *context;
    circe_workspace *workspace;
    circe_mat x, y, z, holdout_y, holdout_z;
} points;

static void draw(uint64_t stream, int64_t n, circe_mat *y, circe_mat *z) {
    *y = test_normal(stream, n, DY);
    *z = test_normal(stream + 1, n, DZ);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < DZ; c++) test_set(z, i, c, 0.5 * test_at(z, i, c) + sin(test_at(y, i, c % DY)));
}

static points make_points(void) {
    points p = {.context = test_context(0)};
    p.workspace = test_workspace(p.context);
    draw(1, N, &p.y, &p.z);
    draw(11, M, &p.holdout_y, &p.holdout_z);
    circe_mat x = test_normal(21, N, DX);
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < DX; c++) test_set(&x, i, c, 0.6 * test_at(&x, i, c) + test_at(&p.z, i, c));
    p.x = test_copy(&x, CIRCE_FLOAT32);
    return p;
}

static const double one_sigma2[] = {0.7}, one_ridge[] = {0.05};

/* The kinds that a network is trained with: those that keep no time of their own. */
static const circe_measure_kind usual[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC, CIRCE_MEASURE_GCM,
                                           CIRCE_MEASURE_HSIC};

/* One width and one ridge, widths as they are. */
static circe_measure_options settled(circe_measure_kind kind) {
    circe_measure_options o;
    circe_measure_options_init(&o, kind);
    o.sigma2_x = 0.8;
    o.sigma2_y = one_sigma2;
    o.n_sigma2_y = 1;
    o.sigma2_z = 1.3;
    o.ridge = one_ridge;
    o.n_ridge = 1;
    o.per_dimension = false;
    return o;
}

static circe_status create(circe_context *context, const circe_measure_options *o, const circe_mat *y,
                           const circe_mat *z, const circe_mat *holdout_y, const circe_mat *holdout_z,
                           circe_measure **measure) {
    circe_status status = circe_measure_create(context, o, measure);
    if (status == CIRCE_OK) status = circe_measure_settle_z(*measure, z);
    if (status == CIRCE_OK && holdout_y != NULL) status = circe_measure_fit(*measure, holdout_y, holdout_z);
    if (status == CIRCE_OK) status = circe_measure_bind(*measure, y, z);
    if (status == CIRCE_OK) return CIRCE_OK;
    circe_measure_destroy(*measure);
    *measure = NULL;
    return status;
}

static circe_measure *make(const points *p, const circe_measure_options *o) {
    circe_measure *r = NULL;
    assert_ok(create(p->context, o, &p->y, &p->z, &p->holdout_y, &p->holdout_z, &r));
    return r;
}

/* A batch of rows in no order; `which` tells batches apart. */
typedef struct batch {
    int64_t index[B];
    circe_mat x, y, z, grad;
    double value;
} batch;

static batch take(const points *p, int64_t which) {
    batch b = {.value = NAN};
    int64_t order[N];
    circe_random_permutation((circe_random){.seed = 5, .stream = (uint64_t)which}, N, order);
    memcpy(b.index, order, sizeof b.index);
    b.x = test_rows(&p->x, b.index, B);
    b.y = test_rows(&p->y, b.index, B);
    b.z = test_rows(&p->z, b.index, B);
    b.grad = test_zeros(B, DX, CIRCE_FLOAT32);
    return b;
}

static void run(circe_measure *r, int64_t step, batch *b) {
    assert_ok(circe_measure_evaluate_at(r, 0, step, b->index, B, &b->x, &b->value, &b->grad));
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void names(void **state) {
    (void)state;
    for (int k = CIRCE_MEASURE_NONE; k < CIRCE_MEASURE_KINDS; k++)
        assert_int_equal(circe_measure_find(circe_measure_name((circe_measure_kind)k)), k);
    assert_string_equal(circe_measure_name(CIRCE_MEASURE_GCM), "gcm");
    assert_int_equal(circe_measure_find("HSIC"), -1);
    assert_string_equal(circe_measure_name((circe_measure_kind)99), "unknown");
}

static void none(void **state) {
    (void)state;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_NONE);
    circe_measure *r = (circe_measure *)&p;
    assert_refused(circe_measure_create(p.context, &o, &r), CIRCE_ERR_ARGUMENT, "measure 0 is not one of circe");
    assert_null(r);
    assert_string_equal(circe_measure_text(NULL), "none");
    assert_null(circe_measure_mean(NULL));
    size_t bytes = 7;
    assert_ok(circe_measure_state_bytes(NULL, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(circe_measure_set_state(NULL, NULL, 0));
    circe_measure_destroy(NULL);
}

/* ---- values and gradients are the library's --------------------------------------------------------------------- */

static void equals_circe(void **state) {
    (void)state;
    static const circe_estimator estimators[] = {CIRCE_BIASED, CIRCE_DEBIASED, CIRCE_CENTERED, CIRCE_USTAT};
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    circe_kernel *kernel_x = test_kernel(p.context, "gaussian(0.8)");
    for (int64_t e = 0; e < COUNT(estimators); e++) {
        circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
        o.estimator = estimators[e];
        circe_measure *r = make(&p, &o);
        batch b = take(&p, e);
        double expected, biased;
        circe_mat x = test_copy(&b.x, CIRCE_FLOAT64), grad = test_zeros(B, DX, CIRCE_FLOAT64);
        assert_ok(circe_measure_circe(p.workspace, cme, kernel_x, &x, &b.y, &b.z, estimators[e], &expected, &grad));
        assert_ok(circe_measure_circe(p.workspace, cme, kernel_x, &x, &b.y, &b.z, CIRCE_BIASED, &biased, NULL));
        run(r, 0, &b);
        assert_near(b.value, expected, 1e-4, biased);
        assert_mat_near(&b.grad, &grad, 1e-4);
        double value;
        assert_ok(circe_measure_points(r, &x, &b.y, &b.z, &value, NULL));
        assert_near(value, expected, 1e-9, biased);
        assert_non_null(circe_measure_mean(r));
        circe_measure_destroy(r);
    }
}

/* Features that the caller made: the bits of those that the measure makes; they stay the caller's. */
static void features_of_the_caller(void **state) {
    (void)state;
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE), other = settled(CIRCE_MEASURE_HSIC);
    circe_features *features = NULL;
    circe_measure *m = NULL, *own = NULL, *hsic = NULL;
    assert_ok(circe_features_create(p.context, cme, &p.y, &p.z, CIRCE_FLOAT32, &features));
    assert_ok(circe_measure_create(p.context, &o, &m));
    assert_refused(circe_measure_bind_features(m, features), CIRCE_ERR_ARGUMENT, "with a mean");
    assert_ok(circe_measure_set_mean(m, cme));
    assert_ok(circe_measure_bind_features(m, features));
    assert_ok(circe_measure_create(p.context, &o, &own));
    assert_ok(circe_measure_set_mean(own, cme));
    assert_ok(circe_measure_bind(own, &p.y, &p.z));
    batch b = take(&p, 0), c = take(&p, 0);
    run(m, 0, &b);
    run(own, 0, &c);
    assert_true(b.value == c.value);
    b.index[1] = N;
    assert_refused(circe_measure_evaluate(m, b.index, B, &b.x, &b.value, NULL), CIRCE_ERR_ARGUMENT,
                   "index[1] is 60; the data set has 60 rows");
    assert_ok(circe_measure_create(p.context, &other, &hsic));
    assert_refused(circe_measure_bind_features(hsic, features), CIRCE_ERR_ARGUMENT, "bind hsic to y and z");
    circe_measure_destroy(hsic);
    circe_measure_destroy(own);
    circe_measure_destroy(m);
    circe_features_destroy(features);
}

/* z of ten dimensions and a narrow kernel: no low rank, so features without coordinates, in float32; the value is that
 * of the points. */
static void circe_of_high_rank(void **state) {
    enum { MANY = 800, FEW = 40, WIDE = 10 };
    (void)state;
    circe_context *context = test_context(0);
    circe_mat y = test_normal(1, FEW, 1), z = test_normal(2, FEW, WIDE), x = test_normal(3, FEW, 1);
    circe_mat holdout_y = test_normal(4, MANY, 1), holdout_z = test_normal(5, MANY, WIDE);
    circe_mat x32 = test_copy(&x, CIRCE_FLOAT32), grad = test_zeros(FEW, 1, CIRCE_FLOAT32);
    circe_mat own = test_zeros(FEW, 1, CIRCE_FLOAT32);
    int64_t index[FEW];
    for (int64_t i = 0; i < FEW; i++) index[i] = i;
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
    circe_measure *r = NULL;
    double value = NAN, expected = NAN;
    assert_ok(create(context, &o, &y, &z, &holdout_y, &holdout_z, &r));
    circe_cme_info info;
    circe_cme_get_info(circe_measure_mean(r), &info);
    assert_true(info.rank_z > 768);
    assert_ok(circe_measure_evaluate_at(r, 0, 0, index, FEW, &x32, &value, &grad));
    assert_ok(circe_measure_circe(test_workspace(context), circe_measure_mean(r), test_kernel(context, "gaussian(0.8)"),
                                  &x32, &y, &z, o.estimator, &expected, &own));
    /* float32 sums of terms that cancel, in another order: 1e-5 at most with every BLAS tried. */
    assert_near(value, expected, 1e-4, fabs(expected));
    assert_mat_near(&grad, &own, 1e-4);
    circe_measure_destroy(r);
}

static void equals_hscic(void **state) {
    (void)state;
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    circe_kernels kernels = {test_kernel(p.context, "gaussian(0.8)"), test_kernel(p.context, "gaussian(0.7)"),
                             test_kernel(p.context, "gaussian(1.3)")};
    circe_batch_options options;
    circe_batch_options_init(&options);
    options.ridge = one_ridge[0];
    for (int holdout = 0; holdout < 2; holdout++) {
        circe_measure_options o = settled(CIRCE_MEASURE_HSCIC);
        o.regress_z_on_holdout = holdout;
        circe_measure *r = make(&p, &o);
        batch b = take(&p, holdout);
        circe_mat grad = test_zeros(B, DX, CIRCE_FLOAT32);
        double expected, value;
        if (holdout)
            assert_ok(
                circe_measure_hscic_holdout(p.workspace, cme, kernels.x, &b.x, &b.y, &b.z, &options, &expected, &grad));
        else
            assert_ok(circe_measure_hscic(p.workspace, &kernels, &b.x, &b.y, &b.z, &options, &expected, &grad));
        run(r, 0, &b);
        assert_true(b.value == expected && expected > 0.0);
        assert_mat_equal(&b.grad, &grad);
        assert_ok(circe_measure_points(r, &b.x, &b.y, &b.z, &value, NULL));
        assert_true(value == expected);
        assert_true((circe_measure_mean(r) != NULL) == (holdout == 1));
        circe_measure_destroy(r);
    }
}

/* The first batch on itself, the second on the first. */
static void check_gcm(const points *p, const circe_measure_options *o, const circe_cme *holdout) {
    circe_measure *r = make(p, o);
    circe_kernel *kernel_y = o->gcm_regression == CIRCE_GCM_KERNEL ? test_kernel(p->context, "gaussian(0.7)") : NULL;
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.regression = o->gcm_regression;
    options.combine = o->gcm_combine;
    options.batch.ridge = one_ridge[0];
    options.holdout = holdout;
    batch first = take(p, 0), second = take(p, 1);
    run(r, 0, &first);
    run(r, 1, &second);
    double expected, value;
    circe_mat grad = test_zeros(B, DX, CIRCE_FLOAT32);
    assert_ok(circe_measure_gcm(p->workspace, kernel_y, &first.x, &first.y, &first.z, &options, &expected, &grad));
    assert_true(first.value == expected && expected > 0.1);
    assert_mat_equal(&first.grad, &grad);
    assert_ok(circe_measure_points(r, &first.x, &first.y, &first.z, &value, NULL));
    assert_true(value == expected);
    if (o->gcm_previous_batch) {
        options.previous_x = &first.x;
        options.previous_y = &first.y;
    }
    assert_ok(circe_measure_gcm(p->workspace, kernel_y, &second.x, &second.y, &second.z, &options, &expected, &grad));
    assert_true(second.value == expected);
    assert_mat_equal(&second.grad, &grad);
    circe_measure_destroy(r);
}

static void equals_gcm(void **state) {
    (void)state;
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "linear", &fit);
    circe_measure_options o = settled(CIRCE_MEASURE_GCM);
    assert_true(o.gcm_previous_batch); /* the default */
    check_gcm(&p, &o, NULL);
    o.gcm_previous_batch = false;
    check_gcm(&p, &o, NULL);
    o.regress_z_on_holdout = true;
    check_gcm(&p, &o, cme);
    o.gcm_previous_batch = true;
    o.regress_z_on_holdout = false;
    o.gcm_regression = CIRCE_GCM_LINEAR;
    o.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES;
    check_gcm(&p, &o, NULL);
    o.gcm_combine = CIRCE_GCM_LOGSUMEXP;
    check_gcm(&p, &o, NULL);
}

static void equals_hsic(void **state) {
    (void)state;
    points p = make_points();
    circe_kernels kernels = {.x = test_kernel(p.context, "gaussian(0.8)"),
                             .z = test_kernel(p.context, "gaussian(1.3)")};
    for (int biased = 0; biased < 2; biased++) {
        circe_measure_options o = settled(CIRCE_MEASURE_HSIC);
        o.estimator = biased ? CIRCE_BIASED : CIRCE_USTAT;
        circe_mat no_y = circe_mat_f64(NULL, 0, 0);
        circe_measure *r = NULL;
        assert_ok(create(p.context, &o, &no_y, &p.z, NULL, NULL, &r));
        batch b = take(&p, 3);
        circe_mat grad = test_zeros(B, DX, CIRCE_FLOAT32);
        double expected, value;
        assert_ok(circe_measure_hsic(p.workspace, &kernels, &b.x, &b.z,
                                     biased ? CIRCE_HSIC_BIASED : CIRCE_HSIC_UNBIASED, &expected, &grad));
        run(r, 0, &b);
        assert_true(b.value == expected);
        assert_mat_equal(&b.grad, &grad);
        assert_ok(circe_measure_points(r, &b.x, &no_y, &b.z, &value, NULL));
        assert_true(value == expected);
        circe_measure_destroy(r);
    }
}

/* The kinds that no network was trained with before: value and gradient of a batch, of all rows and of other points. */
static void equals_the_others(void **state) {
    (void)state;
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    circe_kernels kernels = {test_kernel(p.context, "gaussian(0.8)"), test_kernel(p.context, "gaussian(0.7)"),
                             test_kernel(p.context, "gaussian(1.3)")};
    circe_batch_options on_itself;
    circe_normalized_options normalized;
    circe_batch_options_init(&on_itself);
    circe_normalized_options_init(&normalized);
    on_itself.ridge = one_ridge[0];
    normalized.epsilon = 0.02;
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE_SPECTRAL, CIRCE_MEASURE_KCI, CIRCE_MEASURE_NOCCO,
                                               CIRCE_MEASURE_KPC};
    for (int64_t k = 0; k < COUNT(kinds); k++) {
        circe_measure_options o = settled(kinds[k]);
        o.epsilon = 0.02;
        circe_measure *r = make(&p, &o);
        batch b = take(&p, k);
        circe_mat grad = test_zeros(B, DX, CIRCE_FLOAT32), other = test_zeros(B, DX, CIRCE_FLOAT32);
        double expected = NAN, value = NAN;
        circe_workspace *w = p.workspace;
        if (kinds[k] == CIRCE_MEASURE_CIRCE_SPECTRAL)
            assert_ok(circe_measure_circe_spectral(w, cme, kernels.x, &b.x, &b.y, &b.z, &expected, &grad));
        if (kinds[k] == CIRCE_MEASURE_KCI)
            assert_ok(circe_measure_kci(w, &kernels, &b.x, &b.y, &b.z, &on_itself, &expected, &grad));
        if (kinds[k] == CIRCE_MEASURE_NOCCO)
            assert_ok(circe_measure_nocco(w, &kernels, &b.x, &b.y, &b.z, &normalized, &expected, &grad));
        if (kinds[k] == CIRCE_MEASURE_KPC)
            assert_ok(circe_measure_kpc(w, &kernels, &b.x, &b.y, &b.z, &normalized, &expected, &grad));
        run(r, 0, &b);
        assert_true(b.value == expected && expected > 0.0);
        assert_mat_equal(&b.grad, &grad);
        assert_ok(circe_measure_points(r, &b.x, &b.y, &b.z, &value, &other));
        assert_true(value == expected);
        assert_mat_equal(&other, &grad);
        circe_measure_destroy(r);
    }
}

/* A model and kernels that the caller has: no fit, and the same numbers. */
static void given_mean_and_kernels(void **state) {
    (void)state;
    points p = make_points();
    circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, one_ridge);
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        circe_measure *fitted = make(&p, &o), *given = NULL;
        circe_kernel *kernel_x = test_kernel(p.context, "gaussian(0.8)"),
                     *kernel_z = test_kernel(p.context, "gaussian(1.3)");
        o.kernels = (circe_kernels){.x = kernel_x, .z = kernel_z};
        o.sigma2_x = o.sigma2_z = 17.0; /* of no factor that is free */
        assert_ok(circe_measure_create(p.context, &o, &given));
        if (k != CIRCE_MEASURE_GCM) assert_ok(circe_measure_set_mean(given, cme));
        assert_ok(circe_measure_bind(given, &p.y, &p.z));
        batch a = take(&p, 1), b = take(&p, 1);
        run(fitted, 0, &a);
        run(given, 0, &b);
        assert_true(a.value == b.value);
        assert_mat_equal(&a.grad, &b.grad);
        circe_measure_destroy(fitted);
        circe_measure_destroy(given);
    }
}

/* No row numbers: all rows in their order. Another data set: another binding, here of a measure like the first. */
static void all_rows_and_others(void **state) {
    (void)state;
    points p = make_points();
    int64_t order[N];
    for (int64_t i = 0; i < N; i++) order[i] = i;
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        circe_measure *whole = make(&p, &o), *rows = make(&p, &o), *like = NULL;
        double a, b, c;
        assert_ok(circe_measure_evaluate(whole, NULL, N, &p.x, &a, NULL));
        assert_ok(circe_measure_evaluate(rows, order, N, &p.x, &b, NULL));
        assert_true(a == b);
        assert_ok(circe_measure_like(whole, &like));
        assert_ok(circe_measure_bind(like, &p.y, &p.z));
        for (int twice = 0; twice < 2; twice++) { /* it carries nothing */
            assert_ok(circe_measure_evaluate(like, NULL, N, &p.x, &c, NULL));
            assert_true(c == a);
        }
        assert_ok(circe_measure_bind(rows, &p.holdout_y, &p.holdout_z)); /* another data set, and back */
        assert_ok(circe_measure_bind(rows, &p.y, &p.z));
        assert_ok(circe_measure_evaluate(rows, NULL, N, &p.x, &b, NULL));
        assert_true(a == b);
        circe_measure_destroy(like);
        circe_measure_destroy(rows);
        circe_measure_destroy(whole);
    }
}

/* Of one that has seen no points yet: the kernel of y that was asked for, not the default. */
static void like_one_without_points(void **state) {
    (void)state;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_KCI);
    o.kernel_y = "laplace(0.4)";
    circe_measure *first = NULL, *like = NULL;
    double a, b;
    assert_ok(circe_measure_create(p.context, &o, &first));
    assert_ok(circe_measure_like(first, &like));
    assert_ok(circe_measure_points(first, &p.x, &p.y, &p.z, &a, NULL));
    assert_ok(circe_measure_points(like, &p.x, &p.y, &p.z, &b, NULL));
    assert_true(a == b);
    circe_measure_destroy(like);
    circe_measure_destroy(first);
}

/* Another kernel of x: as if the measure had been made with it; where there is none, nothing. */
static void another_kernel_of_x(void **state) {
    (void)state;
    points p = make_points();
    circe_kernel *kernel = NULL;
    assert_ok(circe_kernel_parse(p.context, "laplace(0.4)", &kernel));
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        circe_measure *changed = make(&p, &o), *made = NULL;
        o.kernel_x = "laplace(0.4)";
        made = make(&p, &o);
        double a, b;
        assert_ok(circe_measure_evaluate(changed, NULL, N, &p.x, &a, NULL));
        assert_ok(circe_measure_set_kernel_x(changed, kernel));
        assert_ok(circe_measure_set_state(changed, NULL, 0));
        assert_ok(circe_measure_evaluate(changed, NULL, N, &p.x, &a, NULL));
        assert_ok(circe_measure_evaluate(made, NULL, N, &p.x, &b, NULL));
        assert_true(a == b);
        assert_string_equal(circe_measure_text(changed), circe_measure_text(made));
        circe_measure_destroy(made);
        circe_measure_destroy(changed);
    }
    circe_kernel_destroy(kernel);
    assert_refused(circe_measure_set_kernel_x(NULL, NULL), CIRCE_ERR_ARGUMENT, "must not be NULL");
}

/* Measures that take turns in one scratch, which is there when they are gone. */
static void scratch_of_the_caller(void **state) {
    (void)state;
    points p = make_points();
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        circe_measure *own = make(&p, &o);
        o.workspace = p.workspace;
        circe_measure *borrowing = make(&p, &o), *other = make(&p, &o);
        double a, b, c;
        assert_ok(circe_measure_evaluate(own, NULL, N, &p.x, &a, NULL));
        assert_ok(circe_measure_evaluate(borrowing, NULL, N, &p.x, &b, NULL));
        circe_measure_destroy(borrowing);
        assert_ok(circe_measure_evaluate(other, NULL, N, &p.x, &c, NULL));
        assert_true(a == b && a == c && circe_workspace_bytes(p.workspace) > 0);
        circe_measure_destroy(other);
        circe_measure_destroy(own);
    }
}

/* The median of the first x of so many columns, and of y where there is no ridge to choose a width with. */
static void medians(void **state) {
    (void)state;
    points p = make_points();
    batch b = take(&p, 1), later = take(&p, 2);
    double sigma2_x, sigma2_y, expected, value;
    assert_ok(circe_median_sigma2(p.context, &b.x, 0, -1, &sigma2_x));
    assert_ok(circe_median_sigma2(p.context, &p.y, 0, -1, &sigma2_y));
    circe_measure_options o = settled(CIRCE_MEASURE_KPC);
    o.sigma2_x = 0.0;
    o.n_sigma2_y = 0;
    circe_measure *by_median = make(&p, &o);
    o.sigma2_x = sigma2_x;
    o.sigma2_y = &sigma2_y;
    o.n_sigma2_y = 1;
    circe_measure *by_hand = make(&p, &o);
    for (batch *each = &b;; each = &later) {
        assert_ok(circe_measure_evaluate(by_median, each->index, B, &each->x, &value, NULL));
        assert_ok(circe_measure_evaluate(by_hand, each->index, B, &each->x, &expected, NULL));
        assert_true(value == expected);
        if (each == &later) break;
    }
    circe_measure_destroy(by_median);
    circe_measure_destroy(by_hand);
}

/* Every row of the table has its name, its forms and their estimators. */
static void table(void **state) {
    (void)state;
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        const circe_measure_row *row = circe_measure_row_of((circe_measure_kind)k);
        assert_true((row->uses & CIRCE_USES_ESTIMATOR ? 1 : 0) == (row->forms[0].name != NULL));
        assert_true(row->usual_form == 0 || row->forms[row->usual_form - 1].least >= 2);
        assert_null(row->forms[4].name);
    }
    assert_int_equal(circe_measure_row_of(CIRCE_MEASURE_HSIC)->forms[1].estimator, CIRCE_USTAT);
    assert_null(circe_measure_row_of((circe_measure_kind)-1));
    assert_null(circe_measure_row_of(CIRCE_MEASURE_KINDS));
    assert_int_equal(circe_measure_find(NULL), -1);
}

/* Without a gradient the value is the same, and gcm remembers all the same. */
static void value_alone(void **state) {
    (void)state;
    points p = make_points();
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        circe_measure *with = make(&p, &o), *without = make(&p, &o);
        for (int64_t step = 0; step < 2; step++) {
            batch a = take(&p, step), b = take(&p, step);
            run(with, step, &a);
            assert_ok(circe_measure_evaluate_at(without, 0, step, b.index, B, &b.x, &b.value, NULL));
            assert_true(a.value == b.value);
        }
        circe_measure_destroy(with);
        circe_measure_destroy(without);
    }
}

/* ---- widths and their choice ------------------------------------------------------------------------------------ */

/* Widths for distances averaged over columns are widths times the columns. */
static void per_dimension(void **state) {
    (void)state;
    points p = make_points();
    static const double scaled[] = {0.7 * DY};
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options average = settled((circe_measure_kind)k), plain = average;
        average.per_dimension = true;
        plain.sigma2_x *= DX;
        plain.sigma2_y = scaled;
        plain.sigma2_z *= DZ;
        circe_measure *a = make(&p, &average), *b = make(&p, &plain);
        batch in_a = take(&p, 1), in_b = take(&p, 1);
        run(a, 0, &in_a);
        run(b, 0, &in_b);
        assert_true(in_a.value == in_b.value);
        assert_mat_equal(&in_a.grad, &in_b.grad);
        circe_measure_destroy(a);
        circe_measure_destroy(b);
    }
}

static void median_width(void **state) {
    (void)state;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_HSIC);
    double sigma2, value;
    assert_ok(circe_median_sigma2(p.context, &p.z, 0, -1, &sigma2));
    o.sigma2_z = 0.0;
    circe_measure *by_median = make(&p, &o);
    o.sigma2_z = sigma2;
    circe_measure *by_hand = make(&p, &o);
    batch b = take(&p, 1);
    run(by_hand, 0, &b);
    assert_ok(circe_measure_points(by_median, &b.x, &b.y, &b.z, &value, NULL));
    assert_true(value == b.value);
    circe_measure_destroy(by_median);
    circe_measure_destroy(by_hand);
    circe_mat constant = test_zeros(N, DZ, CIRCE_FLOAT64);
    o.sigma2_z = 0.0;
    assert_refused(create(p.context, &o, &p.y, &constant, NULL, NULL, &by_hand), CIRCE_ERR_VALUE, "median heuristic");
}

/* Kernels in words, with free widths. */
static void kernel_texts(void **state) {
    (void)state;
    points p = make_points();
    circe_kernels kernels = {test_kernel(p.context, "gaussian(0.8)"), test_kernel(p.context, "laplace(0.7)"),
                             test_kernel(p.context, "0:laplace(2)*1-2:gaussian(1.3)")};
    circe_batch_options options;
    circe_batch_options_init(&options);
    options.ridge = one_ridge[0];
    circe_measure_options o = settled(CIRCE_MEASURE_HSCIC);
    o.kernel_y = "laplace";
    o.kernel_z = "0:laplace(2)*1-2:gaussian";
    circe_measure *r = make(&p, &o);
    batch b = take(&p, 1);
    double expected;
    run(r, 0, &b);
    assert_ok(circe_measure_hscic(p.workspace, &kernels, &b.x, &b.y, &b.z, &options, &expected, NULL));
    assert_true(b.value == expected);
    circe_measure_destroy(r);
    o.kernel_y = "gausian";
    assert_refused(create(p.context, &o, &p.y, &p.z, NULL, NULL, &r), CIRCE_ERR_ARGUMENT, "gausian");
}

static const double grid_sigma2[] = {3.0, 0.7, 0.05}, grid_ridge[] = {0.001, 0.05, 1.0, 50.0};

/* Leave-one-out on the holdout chooses, as circe_cme_fit does; the batch measures use the choice. */
static void choices(void **state) {
    (void)state;
    points p = make_points();
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC, CIRCE_MEASURE_GCM,
                                               CIRCE_MEASURE_KCI};
    for (const circe_measure_kind *at = kinds; at < kinds + COUNT(kinds); at++)
        for (int grids = 0; grids < 4; grids++) {
            circe_measure_options o = settled(*at);
            if (grids & 1) o.sigma2_y = grid_sigma2, o.n_sigma2_y = COUNT(grid_sigma2);
            if (grids & 2) o.ridge = grid_ridge, o.n_ridge = COUNT(grid_ridge);
            circe_cme_options fit = test_options(CIRCE_METHOD_AUTO, NULL);
            fit.sigma2_y = o.sigma2_y;
            fit.n_sigma2_y = o.n_sigma2_y;
            fit.ridge = o.ridge;
            fit.n_ridge = o.n_ridge;
            circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian",
                                      *at == CIRCE_MEASURE_GCM ? "linear" : "gaussian(1.3)", &fit);
            circe_cme_info info;
            assert_ok(circe_cme_get_info(cme, &info));
            circe_measure *chosen = make(&p, &o);
            o.sigma2_y = &info.sigma2_y;
            o.ridge = &info.ridge;
            o.n_sigma2_y = o.n_ridge = 1;
            circe_measure *given = make(&p, &o);
            batch a = take(&p, 1), b = take(&p, 1);
            run(chosen, 0, &a);
            run(given, 0, &b);
            assert_true(a.value == b.value);
            assert_mat_equal(&a.grad, &b.grad);
            assert_true((circe_measure_mean(chosen) != NULL) == (grids != 0 || *at == CIRCE_MEASURE_CIRCE));
            circe_measure_destroy(chosen);
            circe_measure_destroy(given);
        }
}

/* No grid given: the library's, times the columns where widths are averages. */
static void default_grid(void **state) {
    (void)state;
    points p = make_points();
    circe_loo_table table;
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
    o.n_sigma2_y = o.n_ridge = 0;
    o.per_dimension = true;
    circe_measure *r = make(&p, &o);
    assert_ok(circe_cme_get_loo(circe_measure_mean(r), &table));
    double median;
    assert_ok(circe_median_sigma2(p.context, &p.holdout_y, 0, -1, &median));
    assert_int_equal(table.n_sigma2_y, 5);
    assert_int_equal(table.n_ridge, 5);
    assert_near(table.sigma2_y[1], median, 1e-7, median); /* whatever per_dimension says; 24 bits */
    assert_non_null(strstr(circe_measure_text(r), "circe, ustat"));
    assert_non_null(strstr(circe_measure_text(r), "leave-one-out"));
    assert_non_null(strstr(circe_measure_text(r), "80 holdout rows"));
    circe_measure_destroy(r);
}

static void holdout_needed(void **state) {
    (void)state;
    points p = make_points();
    circe_measure *r = NULL;
    circe_mat no_y = circe_mat_f64(NULL, 0, DY), no_z = circe_mat_f64(NULL, 0, DZ);
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
    assert_refused(create(p.context, &o, &p.y, &p.z, &no_y, &no_z, &r), CIRCE_ERR_ARGUMENT, "circe needs a holdout");
    assert_refused(create(p.context, &o, &p.y, &p.z, NULL, NULL, &r), CIRCE_ERR_ARGUMENT, "circe needs a holdout");
    o.kind = CIRCE_MEASURE_HSCIC;
    assert_ok(create(p.context, &o, &p.y, &p.z, &no_y, &no_z, &r));
    circe_measure_destroy(r);
    o.n_ridge = 0;
    assert_refused(create(p.context, &o, &p.y, &p.z, &no_y, &no_z, &r), CIRCE_ERR_ARGUMENT,
                   "leave-one-out on a holdout");
    o.kind = CIRCE_MEASURE_GCM;
    o.gcm_regression = CIRCE_GCM_LINEAR;
    assert_ok(create(p.context, &o, &p.y, &p.z, &no_y, &no_z, &r));
    circe_measure_destroy(r);
    o.regress_z_on_holdout = true;
    assert_refused(create(p.context, &o, &p.y, &p.z, &no_y, &no_z, &r), CIRCE_ERR_ARGUMENT,
                   "gcm regresses z on a holdout");
}

/* ---- random features -------------------------------------------------------------------------------------------- */

static void random_features(void **state) {
    (void)state;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
    o.method = CIRCE_METHOD_RFF;
    o.rff_features = 32;
    o.seed = 9;
    circe_cme_options fit = test_options(CIRCE_METHOD_RFF, one_ridge);
    fit.rff_batch = 32;
    fit.rff_pool = 64;
    fit.seed = 9;
    circe_cme *cme = test_fit(p.context, &p.holdout_y, &p.holdout_z, "gaussian(0.7)", "gaussian(1.3)", &fit);
    circe_kernel *kernel_x = test_kernel(p.context, "gaussian(0.8)");
    circe_measure *r = make(&p, &o);
    double first = NAN, other = NAN;
    static const int64_t steps[] = {0, 7, 250, 7, 0}; /* in any order: each is a function of its number */
    for (int64_t s = 0; s < COUNT(steps); s++) {
        batch b = take(&p, 1);
        double expected, value;
        circe_mat grad = test_zeros(B, DX, CIRCE_FLOAT32);
        run(r, steps[s], &b);
        assert_ok(circe_cme_rff_step(cme, steps[s]));
        assert_ok(circe_measure_circe(p.workspace, cme, kernel_x, &b.x, &b.y, &b.z, CIRCE_USTAT, &expected, &grad));
        assert_true(b.value == expected);
        assert_mat_equal(&b.grad, &grad);
        assert_ok(circe_measure_points(r, &b.x, &b.y, &b.z, &value, NULL));
        if (s == 0) first = value;
        assert_true(value == first); /* whatever the draw */
        if (s == 1) other = b.value;
        if (s == 2) assert_true(b.value != other);
    }
    o.method = CIRCE_METHOD_AUTO;
    circe_measure *exact = make(&p, &o);
    batch b = take(&p, 1);
    assert_ok(circe_measure_points(exact, &b.x, &b.y, &b.z, &other, NULL));
    assert_near(first, other, 1e-9, fabs(other));
    circe_measure_destroy(exact);
    circe_measure_destroy(r);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* Along a direction, by differences of the values of float64 points. */
static void gradients(void **state) {
    (void)state;
    points p = make_points();
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        circe_measure_options o = settled((circe_measure_kind)k);
        o.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES;
        circe_measure *r = make(&p, &o);
        batch b = take(&p, k);
        run(r, 0, &b);
        circe_mat direction = test_normal(77, B, DX);
        double slope = 0.0, size = 0.0, value[2];
        for (int side = 0; side < 2; side++) {
            circe_mat x = test_copy(&b.x, CIRCE_FLOAT64);
            for (int64_t i = 0; i < B; i++)
                for (int64_t c = 0; c < DX; c++)
                    test_set(&x, i, c, test_at(&x, i, c) + (side ? 1e-5 : -1e-5) * test_at(&direction, i, c));
            assert_ok(circe_measure_points(r, &x, &b.y, &b.z, &value[side], NULL));
        }
        for (int64_t i = 0; i < B; i++)
            for (int64_t c = 0; c < DX; c++) {
                slope += test_at(&b.grad, i, c) * test_at(&direction, i, c);
                size += fabs(test_at(&b.grad, i, c) * test_at(&direction, i, c));
            }
        assert_near((value[1] - value[0]) / 2e-5, slope, 1e-3, size);
        circe_measure_destroy(r);
    }
}

/* ---- what is carried -------------------------------------------------------------------------------------------- */

static void *state_of(circe_measure *r, size_t *bytes) {
    assert_ok(circe_measure_state_bytes(r, bytes));
    void *state = test_memory(*bytes);
    assert_ok(circe_measure_get_state(r, state));
    return state;
}

static void carried(void **unused) {
    (void)unused;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_GCM);
    circe_measure *whole = make(&p, &o), *resumed = make(&p, &o), *fresh = make(&p, &o);
    size_t nothing;
    state_of(whole, &nothing);
    assert_int_equal(nothing, 0);
    batch first = take(&p, 0), a = take(&p, 1), b = take(&p, 1), c = take(&p, 1);
    run(whole, 0, &first);
    size_t bytes;
    void *state = state_of(whole, &bytes);
    assert_true(bytes >= B * (sizeof(int64_t) + DX * sizeof(float)));
    assert_ok(circe_measure_set_state(resumed, state, bytes));
    run(whole, 1, &a);
    run(resumed, 1, &b);
    run(fresh, 1, &c);
    assert_true(a.value == b.value && a.value != c.value);
    assert_mat_equal(&a.grad, &b.grad);
    /* Nothing of it is left after the empty state. */
    assert_ok(circe_measure_set_state(whole, NULL, 0));
    run(whole, 2, &a);
    assert_true(a.value == c.value);
    /* value leaves no trace. */
    size_t before, after;
    void *one = state_of(whole, &before);
    double value;
    assert_ok(circe_measure_points(whole, &first.x, &first.y, &first.z, &value, NULL));
    void *two = state_of(whole, &after);
    assert_true(before == after && memcmp(one, two, before) == 0);
    circe_measure_destroy(whole);
    circe_measure_destroy(resumed);
    circe_measure_destroy(fresh);
}

/* Of float64 nothing is lost on the way. */
static void carried_in_float64(void **unused) {
    (void)unused;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_GCM);
    circe_measure *whole = make(&p, &o), *resumed = make(&p, &o);
    batch first = take(&p, 0), next = take(&p, 1);
    circe_mat x = test_normal(31, B, DX), y = test_normal(32, B, DX);
    double value, again;
    size_t bytes;
    assert_ok(circe_measure_evaluate(whole, first.index, B, &x, &value, NULL));
    void *state = state_of(whole, &bytes);
    assert_ok(circe_measure_set_state(resumed, state, bytes));
    assert_ok(circe_measure_evaluate(whole, next.index, B, &y, &value, NULL));
    assert_ok(circe_measure_evaluate(resumed, next.index, B, &y, &again, NULL));
    assert_true(value == again);
    circe_measure_destroy(whole);
    circe_measure_destroy(resumed);
}

/* Two layers, of other widths, do not see each other's batch. */
static void places(void **unused) {
    (void)unused;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_GCM);
    circe_measure *both = make(&p, &o), *alone = make(&p, &o), *resumed = make(&p, &o);
    circe_mat narrow = p.x;
    narrow.cols = 1; /* of the same rows: ld is larger than cols */
    for (int64_t step = 0; step < 3; step++) {
        batch a = take(&p, step), b = take(&p, step), c = take(&p, step);
        circe_mat x = test_rows(&narrow, a.index, B), grad = test_zeros(B, 1, CIRCE_FLOAT32);
        double value, again;
        assert_ok(circe_measure_evaluate_at(both, 1, step, a.index, B, &x, &value, &grad));
        assert_ok(circe_measure_evaluate_at(both, 0, step, a.index, B, &a.x, &a.value, &a.grad));
        run(alone, step, &b);
        assert_true(a.value == b.value);
        if (step == 2) {
            run(resumed, step, &c);
            assert_ok(circe_measure_evaluate_at(resumed, 1, step, a.index, B, &x, &again, &grad));
            assert_true(c.value == a.value && again == value);
        }
        size_t bytes;
        void *state = state_of(both, &bytes);
        assert_ok(circe_measure_set_state(resumed, state, bytes));
    }
    batch a = take(&p, 0);
    circe_mat x = test_rows(&narrow, a.index, B);
    assert_refused(circe_measure_evaluate_at(both, 0, 4, a.index, B, &x, &a.value, NULL), CIRCE_ERR_SHAPE,
                   "x has 1 columns, but had 2");
    circe_measure_destroy(both);
    circe_measure_destroy(alone);
    circe_measure_destroy(resumed);
}

static void damaged_state(void **unused) {
    (void)unused;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_GCM);
    circe_measure *r = make(&p, &o);
    batch first = take(&p, 0), a = take(&p, 1);
    run(r, 0, &first);
    size_t bytes;
    char *state = state_of(r, &bytes), *longer = test_memory(bytes + 8);
    memcpy(longer, state, bytes);
    for (size_t length = 1; length < bytes; length++)
        assert_refused(circe_measure_set_state(r, state, length), CIRCE_ERR_FORMAT, "damaged");
    assert_refused(circe_measure_set_state(r, longer, bytes + 8), CIRCE_ERR_FORMAT, "damaged");
    static const int64_t wrong[] = {-1, INT64_MAX, INT64_MIN, 1 << 20, N};
    for (int64_t w = 0; w < COUNT(wrong); w++)
        for (size_t word = 0; word < 3; word++) { /* places, rows, columns */
            char *copy = test_memory(bytes);
            memcpy(copy, state, bytes);
            memcpy(copy + word * sizeof(int64_t), &wrong[w], sizeof wrong[w]);
            assert_refused(circe_measure_set_state(r, copy, bytes), CIRCE_ERR_FORMAT, "damaged");
        }
    int64_t beyond = N;
    char *copy = test_memory(bytes);
    memcpy(copy, state, bytes);
    memcpy(copy + 3 * sizeof(int64_t), &beyond, sizeof beyond); /* the first row's index */
    assert_refused(circe_measure_set_state(r, copy, bytes), CIRCE_ERR_FORMAT, "damaged");
    run(r, 1, &a); /* as if there had been no batch before */
    circe_measure *fresh = make(&p, &o);
    batch b = take(&p, 1);
    run(fresh, 1, &b);
    assert_true(a.value == b.value);
    circe_measure_destroy(fresh);
    circe_measure_destroy(r);
    o.kind = CIRCE_MEASURE_HSIC;
    r = make(&p, &o);
    assert_refused(circe_measure_set_state(r, state, bytes), CIRCE_ERR_FORMAT, "another run");
    circe_measure_destroy(r);
}

/* ---- precision -------------------------------------------------------------------------------------------------- */

/* In float64 a batch has the value of the same points in float64, to 1e-12 of the largest kernel sum, and a gradient
 * that is rounded once; in float32 neither. Twice, since buffers stay. */
static void in_float64(void **state) {
    (void)state;
    points p = make_points();
    for (int64_t k = 0; k < COUNT(usual); k++) {
        circe_measure_options o = settled(usual[k]);
        o.gcm_previous_batch = false; /* as other points have it */
        circe_measure *single = make(&p, &o);
        o.dtype = CIRCE_FLOAT64;
        circe_measure *twice = make(&p, &o);
        assert_non_null(strstr(circe_measure_text(twice), "float64"));
        assert_null(strstr(circe_measure_text(single), "float64"));
        for (int64_t step = 0; step < 2; step++) {
            batch a = take(&p, step), b = take(&p, step);
            circe_mat x = test_copy(&b.x, CIRCE_FLOAT64);
            double expected;
            assert_ok(circe_measure_points(twice, &x, &b.y, &b.z, &expected, NULL));
            run(single, step, &a);
            run(twice, step, &b);
            assert_near(b.value, expected, 1e-12, 1.0);
            assert_near(a.value, expected, 1e-4, 1.0);
            assert_int_equal(a.value == b.value,
                             usual[k] == CIRCE_MEASURE_GCM); /* which works in float64 whatever x is */
            assert_mat_near(&a.grad, &b.grad, 1e-3);
        }
        circe_measure_destroy(single);
        circe_measure_destroy(twice);
    }
}

/* Against the library's own gradient in float64, whose every number is then rounded to float32. */
static void gradient_in_float64(void **state) {
    (void)state;
    points p = make_points();
    circe_measure_options o = settled(CIRCE_MEASURE_CIRCE);
    o.dtype = CIRCE_FLOAT64;
    circe_measure *r = make(&p, &o);
    batch b = take(&p, 0);
    circe_mat x = test_copy(&b.x, CIRCE_FLOAT64), grad = test_zeros(B, DX, CIRCE_FLOAT64);
    double value;
    assert_ok(circe_measure_circe(p.workspace, circe_measure_mean(r), test_kernel(p.context, "gaussian(0.8)"), &x, &b.y,
                                  &b.z, o.estimator, &value, &grad));
    run(r, 0, &b);
    assert_mat_near(&b.grad, &grad, 1e-7);
    circe_measure_destroy(r);
    o.dtype = (circe_dtype)7;
    assert_refused(create(p.context, &o, &p.y, &p.z, &p.holdout_y, &p.holdout_z, &r), CIRCE_ERR_ARGUMENT,
                   "neither float32 nor float64");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* From the third batch on (gcm's second is its first with a batch before) libcirce allocates nothing. (For
 * the rest of a step see test_trainer.) */
static void no_allocation(void **state) {
    (void)state;
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++)
        for (int which = 0; which < 4; which++) {
            test_allocator counter;
            circe_context_options options;
            circe_context_options_init(&options);
            options.allocator = test_counting(&counter);
            points p = make_points();
            p.context = test_context_with(&options);
            circe_measure_options o = settled((circe_measure_kind)k);
            o.regress_z_on_holdout = which % 2 == 1;
            o.dtype = which < 2 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
            circe_measure *r = make(&p, &o);
            batch batches[5];
            for (int64_t step = 0; step < COUNT(batches); step++) batches[step] = take(&p, step);
            for (int64_t step = 0; step < 2; step++) run(r, step, &batches[step]);
            int64_t calls = counter.calls;
            for (int64_t step = 2; step < COUNT(batches); step++) run(r, step, &batches[step]);
            assert_int_equal(counter.calls, calls);
            circe_measure_destroy(r);
        }
}

/* A model and kernels of another context may end, and that context with them, before the measure that was given them.
 */
static void outlives_what_it_was_given(void **state) {
    (void)state;
    points p = make_points();
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        test_allocator counter;
        circe_context_options options;
        circe_context_options_init(&options);
        options.allocator = test_counting(&counter);
        circe_context *other = NULL;
        assert_ok(circe_context_create(&options, &other));
        int64_t live = counter.live;
        circe_kernel *kernels[3] = {NULL};
        for (int v = 0; v < 3; v++)
            assert_ok(circe_kernel_create(v == 1 ? p.context : other, CIRCE_KERNEL_GAUSSIAN, 0.8, &kernels[v]));
        circe_cme *mean = NULL;
        circe_cme_options fit;
        circe_cme_options_init(&fit);
        assert_ok(circe_cme_fit(other, &p.holdout_y, &p.holdout_z, kernels[1], kernels[2], &fit, &mean));
        circe_measure_options o = settled((circe_measure_kind)k);
        o.kernels = (circe_kernels){.x = kernels[0], .z = kernels[2]};
        o.n_sigma2_y = 0;
        circe_measure *measure = NULL;
        assert_ok(circe_measure_create(p.context, &o, &measure));
        assert_ok(circe_measure_set_mean(measure, mean));
        circe_cme_destroy(mean);
        for (int v = 0; v < 3; v++) circe_kernel_destroy(kernels[v]);
        assert_int_equal(counter.live, live);
        circe_context_destroy(other);
        circe_measure_destroy(measure);
    }
}

/* Every allocation of libcirce fails once: an error, and nothing left behind. */
static void out_of_memory(void **state) {
    (void)state;
    points p = make_points();
    for (int k = CIRCE_MEASURE_CIRCE; k < CIRCE_MEASURE_KINDS; k++) {
        bool done = false;
        for (int64_t at = 1; !done; at++) {
            test_allocator counter;
            circe_context_options options;
            circe_context_options_init(&options);
            options.threads = 1;
            options.allocator = test_counting(&counter);
            circe_context *context = test_context_with(&options);
            int64_t live = counter.live;
            counter.fail_at = at;
            circe_measure_options o = settled((circe_measure_kind)k);
            circe_measure *r = NULL;
            batch b = take(&p, 0);
            circe_status status = create(context, &o, &p.y, &p.z, &p.holdout_y, &p.holdout_z, &r);
            if (status == CIRCE_OK) status = circe_measure_evaluate_at(r, 0, 0, b.index, B, &b.x, &b.value, &b.grad);
            assert_true(status == CIRCE_OK ||
                        (counter.failed && status == CIRCE_ERR_MEMORY)); /* some it can do without */
            circe_measure_destroy(r);
            assert_int_equal(counter.live, live);
            done = !counter.failed;
        }
    }
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refusals_of_order(void **state) {
    (void)state;
    points p = make_points();
    batch b = take(&p, 0);
    circe_measure_options o = settled(CIRCE_MEASURE_HSCIC);
    circe_measure *r = NULL;
    assert_ok(circe_measure_create(p.context, &o, &r));
    assert_refused(circe_measure_evaluate(r, b.index, B, &b.x, &b.value, NULL), CIRCE_ERR_ARGUMENT,
                   "has no data set; call circe_measure_bind");
    circe_measure_destroy(r);
    o = settled(CIRCE_MEASURE_CIRCE);
    assert_ok(circe_measure_create(p.context, &o, &r));
    assert_refused(circe_measure_points(r, &b.x, &b.y, &b.z, &b.value, NULL), CIRCE_ERR_ARGUMENT, "needs a holdout");
    circe_measure_destroy(r);
}

static void refusals(void **state) {
    (void)state;
    points p = make_points();
    circe_measure *r = NULL;
    circe_measure_options o = settled(CIRCE_MEASURE_HSCIC);
#define CREATE create(p.context, &o, &p.y, &p.z, &p.holdout_y, &p.holdout_z, &r)
    o.sigma2_x = -3.0;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "sigma2 of x is -3");
    o = settled(CIRCE_MEASURE_HSCIC);
    o.sigma2_z = -1.0;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "sigma2 of z is -1");
    o = settled(CIRCE_MEASURE_HSCIC);
    o.method = CIRCE_METHOD_RFF;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "method rff is for circe; hscic");
    o = settled(CIRCE_MEASURE_HSIC);
    o.estimator = CIRCE_CENTERED;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "hsic has the estimators biased and ustat, not centered");
    o = settled((circe_measure_kind)17);
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "measure 17 is not one of");
    o = settled(CIRCE_MEASURE_CIRCE);
    o.method = CIRCE_METHOD_RFF;
    o.rff_features = 0;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "random features is 0");
    static const double negative[] = {-0.1};
    o = settled(CIRCE_MEASURE_HSCIC);
    o.ridge = negative;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "the ridge is -0.1");
    o = settled(CIRCE_MEASURE_HSCIC);
    o.sigma2_y = negative;
    assert_refused(CREATE, CIRCE_ERR_ARGUMENT, "-0.1");
    o = settled(CIRCE_MEASURE_CIRCE);
    circe_mat narrow = p.holdout_z;
    narrow.cols = 1;
    assert_refused(create(p.context, &o, &p.y, &p.z, &p.holdout_y, &narrow, &r), CIRCE_ERR_SHAPE,
                   "2 and 3 columns; those of the holdout have 2 and 1");
    circe_mat shorter = p.y;
    shorter.rows--;
    assert_refused(create(p.context, &o, &shorter, &p.z, &p.holdout_y, &p.holdout_z, &r), CIRCE_ERR_SHAPE,
                   "59 rows and z has 60");
    test_set(&p.y, 3, 1, NAN);
    assert_refused(CREATE, CIRCE_ERR_VALUE, "y contains a NaN at row 3, column 1");
    test_set(&p.y, 3, 1, 0.0);

    batch b = take(&p, 0);
    o = settled(CIRCE_MEASURE_HSCIC);
    assert_ok(CREATE);
    b.index[2] = N;
    assert_refused(circe_measure_evaluate_at(r, 0, 0, b.index, B, &b.x, &b.value, NULL), CIRCE_ERR_ARGUMENT,
                   "the data set has no row 60; it has 60");
    b.index[2] = 0;
    assert_refused(circe_measure_evaluate_at(r, 0, 0, b.index, B - 1, &b.x, &b.value, NULL), CIRCE_ERR_SHAPE,
                   "16 rows");
    assert_refused(circe_measure_evaluate(r, NULL, B, &b.x, &b.value, NULL), CIRCE_ERR_SHAPE, "of the 60");
    assert_refused(circe_measure_points(r, &b.x, &b.z, &b.y, &b.value, NULL), CIRCE_ERR_SHAPE, "3 and 2 columns");
    test_set(&b.x, 0, 0, NAN);
    assert_refused(circe_measure_evaluate_at(r, 0, 0, b.index, B, &b.x, &b.value, NULL), CIRCE_ERR_VALUE, "x");
    circe_measure_destroy(r);
#undef CREATE
}

TEST_MAIN("measuring", TEST(names), TEST(table), TEST(none), TEST(equals_the_others), TEST(given_mean_and_kernels),
          TEST(all_rows_and_others), TEST(like_one_without_points), TEST(another_kernel_of_x),
          TEST(scratch_of_the_caller), TEST(medians), TEST(carried_in_float64), TEST(refusals_of_order),
          TEST(equals_circe), TEST(features_of_the_caller), TEST(circe_of_high_rank), TEST(equals_hscic),
          TEST(equals_gcm), TEST(equals_hsic), TEST(value_alone), TEST(per_dimension), TEST(median_width),
          TEST(kernel_texts), TEST(choices), TEST(default_grid), TEST(holdout_needed), TEST(random_features),
          TEST(gradients), TEST(carried), TEST(places), TEST(damaged_state), TEST(in_float64),
          TEST(gradient_in_float64), TEST(no_allocation), TEST(outlives_what_it_was_given), TEST(out_of_memory),
          TEST(refusals))
