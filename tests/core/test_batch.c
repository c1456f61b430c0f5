/* The measures of the batch alone: HSIC, HSCIC (both regressions of z) and KCI. Golden values and gradients, the
 * formulas written as loops, low rank against dense, finite differences, invariances, known limits, bad input.
 *
 * Tolerances: golden as in test_golden.c, for the same reasons. Low rank against dense 1e-8 of the value: the factors
 * leave out 1e-14 of a trace of n <= 600, and a regression with ridge 1e-2 amplifies that by at most 1e2 n, on average
 * far less. */
#include "tests/golden_case.h"

typedef struct problem {
    circe_workspace *workspace;
    circe_kernels kernels;
    const circe_mat *x, *y, *z;
    circe_batch_options options;
    const circe_cme *cme; /* for the holdout regression */
} problem;

typedef circe_status (*measure_fn)(const problem *p, double *value, circe_mat *grad);
typedef circe_status (*witness_fn)(const problem *p, circe_mat *witness);

static circe_status hsic_biased(const problem *p, double *value, circe_mat *grad) {
    return circe_measure_hsic(p->workspace, &p->kernels, p->x, p->z, CIRCE_HSIC_BIASED, value, grad);
}

static circe_status hsic_unbiased(const problem *p, double *value, circe_mat *grad) {
    return circe_measure_hsic(p->workspace, &p->kernels, p->x, p->z, CIRCE_HSIC_UNBIASED, value, grad);
}

static circe_status hscic(const problem *p, double *value, circe_mat *grad) {
    return circe_measure_hscic(p->workspace, &p->kernels, p->x, p->y, p->z, &p->options, value, grad);
}

static circe_status hscic_holdout(const problem *p, double *value, circe_mat *grad) {
    return circe_measure_hscic_holdout(p->workspace, p->cme, p->kernels.x, p->x, p->y, p->z, &p->options, value, grad);
}

static circe_status kci(const problem *p, double *value, circe_mat *grad) {
    return circe_measure_kci(p->workspace, &p->kernels, p->x, p->y, p->z, &p->options, value, grad);
}

static circe_status witness_hsic_biased(const problem *p, circe_mat *witness) {
    return circe_witness_hsic(p->workspace, p->kernels.z, p->z, CIRCE_HSIC_BIASED, witness);
}

static circe_status witness_hsic_unbiased(const problem *p, circe_mat *witness) {
    return circe_witness_hsic(p->workspace, p->kernels.z, p->z, CIRCE_HSIC_UNBIASED, witness);
}

static circe_status witness_hscic(const problem *p, circe_mat *witness) {
    return circe_witness_hscic(p->workspace, &p->kernels, p->y, p->z, &p->options, witness);
}

static circe_status witness_hscic_holdout(const problem *p, circe_mat *witness) {
    return circe_witness_hscic_holdout(p->workspace, p->cme, p->y, p->z, &p->options, witness);
}

static circe_status witness_kci(const problem *p, circe_mat *witness) {
    return circe_witness_kci(p->workspace, &p->kernels, p->y, p->z, &p->options, witness);
}

typedef struct measure_case {
    const char *name; /* in expected.json; NULL: not there */
    measure_fn measure;
    witness_fn witness;
    bool conditional;
} measure_case;

static const measure_case measures[] = {
    {"hsic_biased", hsic_biased, witness_hsic_biased, false},
    {"hsic_unbiased", hsic_unbiased, witness_hsic_unbiased, false},
    {"hscic", hscic, witness_hscic, true},
    {"kci", kci, witness_kci, true},
    {NULL, hscic_holdout, witness_hscic_holdout, true},
};

/* ---- golden ---------------------------------------------------------------------------------------------------------
 */

static problem golden_problem(const golden_case *c, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                              circe_method method) {
    circe_kernels kernels = {test_kernel(c->context, c->kernel_x), test_kernel(c->context, c->kernel_y),
                             test_kernel(c->context, c->kernel_z)};
    return (problem){c->workspace, kernels, x, y, z, {c->ridge, method, 0.0}, NULL};
}

static void check_golden(const golden_case *c, const measure_case *m, circe_method method, circe_dtype dtype,
                         double tolerance) {
    circe_mat x = test_copy(&c->x, dtype), y = test_copy(&c->y, dtype), z = test_copy(&c->z, dtype);
    circe_mat grad = test_zeros(x.rows, x.cols, dtype);
    problem p = golden_problem(c, &x, &y, &z, method);
    char name[64];
    double value = NAN, expected = golden_number(c->expected, m->name);
    assert_ok(m->measure(&p, &value, &grad));
    assert_near(value, expected, tolerance, fabs(expected));
    snprintf(name, sizeof name, "grad_%s.npy", m->name);
    circe_mat expected_grad = test_golden_matrix(c->folder, name);
    if (strcmp(c->folder, "laplace_x") == 0) { /* see test_golden.c: the file contains NaN */
        circe_mat witness = test_zeros(x.rows, x.rows, CIRCE_FLOAT64);
        assert_true(isnan(test_at(&expected_grad, 0, 0)));
        assert_ok(m->witness(&p, &witness));
        expected_grad = golden_laplace_gradient(c, &witness);
    }
    assert_mat_near(&grad, &expected_grad, tolerance);
}

static void golden(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        for (int64_t m = 0; m < COUNT(measures); m++) {
            if (measures[m].name == NULL) continue;
            check_golden(&c, &measures[m], CIRCE_METHOD_AUTO, CIRCE_FLOAT64, 1e-9);
            check_golden(&c, &measures[m], CIRCE_METHOD_DENSE, CIRCE_FLOAT64, 1e-9);
            check_golden(&c, &measures[m], CIRCE_METHOD_LOWRANK, CIRCE_FLOAT64, 1e-9);
            check_golden(&c, &measures[m], CIRCE_METHOD_AUTO, CIRCE_FLOAT32, 1e-4);
            check_golden(&c, &measures[m], CIRCE_METHOD_LOWRANK, CIRCE_FLOAT32, 1e-4);
        }
        cJSON_Delete(c.expected);
    }
}

/* ---- data of this file ----------------------------------------------------------------------------------------------
 */

typedef struct sample {
    circe_context *context;
    circe_mat x, y, z;
    problem p;
} sample;

/* y in d_y dimensions, z = y_0 + noise, x = (y_0 + strength * z's noise, noise). */
static void draw(sample *s, int64_t n, int64_t d_y, double strength, const char *kernel_x, const char *kernel_y,
                 const char *kernel_z) {
    s->context = test_context(0);
    s->y = test_normal(11, n, d_y);
    s->z = test_normal(12, n, 1);
    s->x = test_normal(13, n, 2);
    for (int64_t i = 0; i < n; i++) {
        double noise = test_at(&s->z, i, 0);
        test_set(&s->z, i, 0, test_at(&s->y, i, 0) + 0.5 * noise);
        test_set(&s->x, i, 0, test_at(&s->y, i, 0) + strength * noise + 0.1 * test_at(&s->x, i, 0));
    }
    s->p = (problem){
        test_workspace(s->context),
        {test_kernel(s->context, kernel_x), test_kernel(s->context, kernel_y), test_kernel(s->context, kernel_z)},
        &s->x,
        &s->y,
        &s->z,
        {0.05, CIRCE_METHOD_AUTO, 0.0},
        NULL};
    circe_mat holdout_y = test_normal(21, 300, d_y), holdout_z = test_normal(22, 300, 1);
    for (int64_t i = 0; i < 300; i++)
        test_set(&holdout_z, i, 0, test_at(&holdout_y, i, 0) + 0.5 * test_at(&holdout_z, i, 0));
    double ridge = 0.1;
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    s->p.cme = test_fit(s->context, &holdout_y, &holdout_z, kernel_y, kernel_z, &options);
}

/* ---- low rank and dense ---------------------------------------------------------------------------------------------
 */

static double value_of(const measure_case *m, const problem *p) {
    double value = NAN;
    assert_ok(m->measure(p, &value, NULL));
    return value;
}

static void methods_agree(void **state) {
    (void)state;
    static const char *const kernels_y[] = {"gaussian(0.5)", "laplace(1)", "linear", "delta", "gaussian(0.5)"};
    static const int64_t dims[] = {1, 1, 2, 1, 4};
    for (int64_t k = 0; k < COUNT(dims); k++) {
        sample s;
        draw(&s, 600, dims[k], 0.5, "gaussian(1)", kernels_y[k], "gaussian(0.7)");
        for (int64_t m = 2; m < COUNT(measures); m++) {
            circe_mat grads[3];
            double values[3];
            for (int64_t method = 0; method < 3; method++) {
                grads[method] = test_zeros(600, 2, CIRCE_FLOAT64);
                s.p.options.method = (circe_method)method;
                assert_ok(measures[m].measure(&s.p, &values[method], &grads[method]));
            }
            for (int64_t method = 0; method < 2; method++) {
                assert_near(values[method], values[CIRCE_METHOD_DENSE], 1e-8, fabs(values[CIRCE_METHOD_DENSE]));
                assert_mat_near(&grads[method], &grads[CIRCE_METHOD_DENSE], 1e-8);
            }
        }
    }
}

/* HSCIC with the mean of z from a holdout, from its definition: a loop over the points y_k. */
static void holdout_regression(void **state) {
    (void)state;
    enum { N = 40 };
    sample s;
    draw(&s, N, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    circe_mat K_y = test_zeros(N, N, CIRCE_FLOAT64), K_x = test_zeros(N, N, CIRCE_FLOAT64);
    circe_mat residual = test_zeros(N, N, CIRCE_FLOAT64);
    assert_ok(circe_gram(s.context, s.p.kernels.y, &s.y, &s.y, &K_y));
    assert_ok(circe_gram(s.context, s.p.kernels.x, &s.x, &s.x, &K_x));
    assert_ok(circe_residual_gram(s.p.workspace, s.p.cme, &s.y, &s.z, &residual));
    /* W by conjugate gradients on (K_y + ridge I) w = column k of K_y: nothing of the library's */
    double expected = 0.0, W[N][N];
    for (int64_t k = 0; k < N; k++) {
        double r[N], d[N], q[N], rr = 0.0;
        for (int64_t i = 0; i < N; i++) {
            W[i][k] = 0.0;
            r[i] = d[i] = test_at(&K_y, i, k);
            rr += r[i] * r[i];
        }
        for (int64_t step = 0; step < 400 && rr > 1e-30; step++) {
            double dq = 0.0, next = 0.0;
            for (int64_t i = 0; i < N; i++) {
                q[i] = 0.05 * d[i];
                for (int64_t j = 0; j < N; j++) q[i] += test_at(&K_y, i, j) * d[j];
                dq += d[i] * q[i];
            }
            for (int64_t i = 0; i < N; i++) {
                W[i][k] += rr / dq * d[i];
                r[i] -= rr / dq * q[i];
                next += r[i] * r[i];
            }
            for (int64_t i = 0; i < N; i++) d[i] = r[i] + next / rr * d[i];
            rr = next;
        }
    }
    for (int64_t k = 0; k < N; k++) {
        double joint = 0.0, cross = 0.0, alone_x = 0.0, alone_z = 0.0;
        for (int64_t i = 0; i < N; i++) {
            double mean_x = 0.0, mean_z = 0.0;
            for (int64_t j = 0; j < N; j++) {
                joint += W[i][k] * W[j][k] * test_at(&K_x, i, j) * test_at(&residual, i, j);
                mean_x += W[j][k] * test_at(&K_x, i, j);
                mean_z += W[j][k] * test_at(&residual, i, j);
            }
            cross += W[i][k] * mean_x * mean_z;
            alone_x += W[i][k] * mean_x;
            alone_z += W[i][k] * mean_z;
        }
        expected += (joint - 2.0 * cross + alone_x * alone_z) / N;
    }
    for (int64_t method = 0; method < 3; method++) {
        double value = NAN;
        s.p.options.method = (circe_method)method;
        assert_ok(hscic_holdout(&s.p, &value, NULL));
        assert_near(value, expected, 1e-9, expected);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------
 */

static void finite_differences(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(1)", "laplace(2)", "linear", "0:gaussian(1)*1:laplace(1)"};
    const double step = 1e-5;
    for (int64_t k = 0; k < COUNT(kernels_x); k++) {
        sample s;
        draw(&s, 150, 1, 0.5, kernels_x[k], "gaussian(0.5)", "gaussian(0.7)");
        for (int64_t m = 0; m < COUNT(measures); m++) {
            circe_mat grad = test_zeros(150, 2, CIRCE_FLOAT64);
            double value = NAN;
            assert_ok(measures[m].measure(&s.p, &value, &grad));
            for (int64_t i = 0; i < 150; i += 37)
                for (int64_t c = 0; c < 2; c++) {
                    double kept = test_at(&s.x, i, c);
                    test_set(&s.x, i, c, kept + step);
                    double up = value_of(&measures[m], &s.p);
                    test_set(&s.x, i, c, kept - step);
                    double down = value_of(&measures[m], &s.p);
                    test_set(&s.x, i, c, kept);
                    assert_near(test_at(&grad, i, c), (up - down) / (2.0 * step), 1e-5, test_max(&grad));
                }
        }
    }
}

/* ---- properties -----------------------------------------------------------------------------------------------------
 */

static void permutation(void **state) {
    (void)state;
    enum { N = 200 };
    int64_t order[N];
    sample s;
    draw(&s, N, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    circe_random_permutation((circe_random){3, 4}, N, order);
    circe_mat x = test_rows(&s.x, order, N), y = test_rows(&s.y, order, N), z = test_rows(&s.z, order, N);
    problem permuted = s.p;
    permuted.x = &x, permuted.y = &y, permuted.z = &z;
    for (int64_t m = 0; m < COUNT(measures); m++) {
        double value = value_of(&measures[m], &s.p);
        assert_near(value_of(&measures[m], &permuted), value, 1e-10, fabs(value));
    }
}

static void float32_agrees(void **state) {
    (void)state;
    sample s;
    draw(&s, 400, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    for (int64_t m = 0; m < COUNT(measures); m++) {
        circe_mat grad = test_zeros(400, 2, CIRCE_FLOAT64), grad32 = test_zeros(400, 2, CIRCE_FLOAT32);
        circe_mat x32 = test_copy(&s.x, CIRCE_FLOAT32);
        double value = NAN, value32 = NAN;
        problem single = s.p;
        single.x = &x32;
        assert_ok(measures[m].measure(&s.p, &value, &grad));
        assert_ok(measures[m].measure(&single, &value32, &grad32));
        assert_near(value32, value, 1e-4, fabs(value)); /* the estimators cancel up to a digit of 1e-5 */
        assert_mat_near(&grad32, &grad, 1e-4);
    }
}

/* Independent given y: every conditional measure is a small part of what it is for a dependent feature, but HSIC, which
 * knows no y, is not. */
static void zero_where_independent(void **state) {
    (void)state;
    sample dependent, independent;
    draw(&dependent, 500, 1, 0.7, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    draw(&independent, 500, 1, 0.0, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    for (int64_t m = 0; m < COUNT(measures); m++) {
        double ratio = value_of(&measures[m], &independent.p) / value_of(&measures[m], &dependent.p);
        if (measures[m].conditional)
            assert_true(ratio < 0.25);
        else
            assert_true(ratio > 0.5);
    }
    for (int64_t i = 0; i < 500; i++) test_set(&independent.x, i, 0, 0.0); /* noise only: no marginal dependence */
    assert_true(fabs(value_of(&measures[1], &independent.p)) < 0.05 * value_of(&measures[1], &dependent.p));
}

static void constants(void **state) {
    (void)state;
    sample s;
    draw(&s, 160, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    double before[COUNT(measures)];
    for (int64_t m = 0; m < COUNT(measures); m++) before[m] = value_of(&measures[m], &s.p);
    for (int64_t i = 0; i < 160; i++) test_set(&s.z, i, 0, 0.3);
    for (int64_t m = 0; m < 4;
         m++) /* nothing can depend on a constant; W does not sum to one exactly, so HSCIC is small */
        assert_true(fabs(value_of(&measures[m], &s.p)) < (m == 2 ? 1e-3 : 1e-12) * before[m]);
}

/* With one value of y everywhere KCI is HSIC without a condition: R = I on centred vectors. */
static void constant_y(void **state) {
    (void)state;
    sample s;
    draw(&s, 160, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    for (int64_t i = 0; i < 160; i++) test_set(&s.y, i, 0, 0.3);
    double marginal = value_of(&measures[0], &s.p);
    assert_near(value_of(&measures[3], &s.p), 160.0 * marginal, 1e-10, 160.0 * marginal);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

static void second_call_allocates_nothing(void **state) {
    (void)state;
    for (int64_t n = 100; n <= 300; n += 200) {
        test_allocator counter = {.fail_at = -1};
        circe_context_options options;
        circe_context_options_init(&options);
        options.allocator = test_counting(&counter);
        sample s;
        draw(&s, n, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
        s.p.workspace = test_workspace(test_context_with(&options));
        circe_mat grad = test_zeros(n, 2, CIRCE_FLOAT64);
        for (int64_t m = 0; m < COUNT(measures); m++) {
            double value = NAN;
            assert_ok(measures[m].measure(&s.p, &value, &grad));
            int64_t calls = counter.calls;
            for (int64_t i = 0; i < n; i++) test_set(&s.y, i, 0, 1.1 * test_at(&s.y, i, 0)); /* another rank */
            assert_ok(measures[m].measure(&s.p, &value, &grad));
            assert_int_equal(counter.calls, calls);
        }
    }
}

/* ---- bad input ------------------------------------------------------------------------------------------------------
 */

static void bad_input(void **state) {
    (void)state;
    sample s;
    draw(&s, 20, 1, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    circe_mat fewer = s.z, wrong = test_zeros(20, 3, CIRCE_FLOAT64), three = s.z;
    double value = NAN;
    fewer.rows = 19;
    three.rows = 3;
    circe_mat x_three = s.x;
    x_three.rows = 3;
    problem p = s.p;
    p.z = &fewer;
    assert_refused(hscic(&p, &value, NULL), CIRCE_ERR_SHAPE, "z has 19");
    assert_refused(kci(&p, &value, NULL), CIRCE_ERR_SHAPE, "z has 19");
    assert_refused(hsic_biased(&p, &value, NULL), CIRCE_ERR_SHAPE, "x has 20 rows");
    p.z = &three, p.x = &x_three;
    assert_refused(hsic_unbiased(&p, &value, NULL), CIRCE_ERR_SHAPE, "at least 4 rows");
    p = s.p;
    assert_refused(hscic(&p, &value, &wrong), CIRCE_ERR_SHAPE, "grad is 20 by 3");
    assert_refused(hscic(&p, NULL, NULL), CIRCE_ERR_ARGUMENT, "value");
    p.options.ridge = 0.0;
    assert_refused(hscic(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "ridge must be a positive number");
    p.options.ridge = NAN;
    assert_refused(kci(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "ridge must be a positive number");
    p.options.ridge = 1e-18;
    assert_refused(kci(&p, &value, NULL), CIRCE_ERR_NUMERIC, "too small");
    p.options = (circe_batch_options){0.1, CIRCE_METHOD_RFF, 0.0};
    assert_refused(hscic(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "auto, lowrank and dense");
    p.options = (circe_batch_options){0.1, CIRCE_METHOD_AUTO, -1.0};
    assert_refused(hscic(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "tolerance");
    p = s.p;
    p.kernels.y = NULL;
    assert_refused(hscic(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "kernels of y and z");
    p.kernels.y = s.p.kernels.y, p.kernels.z = NULL;
    assert_refused(hsic_biased(&p, &value, NULL), CIRCE_ERR_ARGUMENT, "kernel of z");
    assert_refused(circe_measure_hsic(s.p.workspace, &s.p.kernels, &s.x, &s.z, (circe_hsic_estimator)7, &value, NULL),
                   CIRCE_ERR_ARGUMENT, "neither biased nor ustat");
    test_set(&s.y, 3, 0, NAN);
    assert_refused(hscic(&s.p, &value, NULL), CIRCE_ERR_VALUE, "y");
}

TEST_MAIN("batch", TEST(golden), TEST(methods_agree), TEST(holdout_regression), TEST(finite_differences),
          TEST(permutation), TEST(float32_agrees), TEST(zero_where_independent), TEST(constants), TEST(constant_y),
          TEST(second_call_allocates_nothing), TEST(bad_input))
