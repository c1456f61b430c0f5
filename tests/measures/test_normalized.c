/* NOCCO and KPC: golden values, low rank, dense and every mixture of them, finite differences, float32, invariances,
 * closed forms, what is independent and what is not, degenerate and large batches, memory, bad input.
 *
 * Tolerances, relative to the value or to the largest element of the gradient:
 *   golden: 1e-9 in float64, where both sides solve systems of condition 1 / epsilon = 1e3; 1e-4 in float32, whose
 *     inputs are rounded to 6e-8.
 *   low rank against dense: 1e-9, what the default tolerance promises of a value of about 1; gradients 1e-8, since
 *     they carry another 1 - R, of which the largest eigenvalues leave epsilon.
 *   finite differences, step 1e-5: 1e-6 for smooth kernels, that is step^2 times the third derivative, and values right
 *     to 1e-12; 1e-5 for laplace, whose derivatives grow as 1 / distance. */
#include "measures/normalized.h"
#include "tests/golden_case.h"

typedef circe_status (*measure_fn)(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                                   const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                                   double *value, circe_mat *grad);

static const struct {
    const char *name; /* in expected.json */
    measure_fn measure;
} measures[] = {{"nocco", circe_measure_nocco}, {"kpc", circe_measure_kpc}};

enum { NOCCO, KPC };

static const circe_method methods[] = {CIRCE_METHOD_AUTO, CIRCE_METHOD_LOWRANK, CIRCE_METHOD_DENSE};

typedef struct sample {
    circe_context *context;
    circe_workspace *workspace;
    circe_kernels kernels;
    circe_mat x, y, z;
    circe_normalized_options options;
} sample;

static double value_of(int64_t m, const sample *s) {
    double value = NAN;
    assert_ok(measures[m].measure(s->workspace, &s->kernels, &s->x, &s->y, &s->z, &s->options, &value, NULL));
    return value;
}

static circe_mat gradient_of(int64_t m, const sample *s, double *value) {
    circe_mat grad = test_zeros(s->x.rows, s->x.cols, s->x.dtype);
    assert_ok(measures[m].measure(s->workspace, &s->kernels, &s->x, &s->y, &s->z, &s->options, value, &grad));
    return grad;
}

static void set_kernels(sample *s, const char *x, const char *y, const char *z) {
    s->kernels = (circe_kernels){test_kernel(s->context, x), test_kernel(s->context, y), test_kernel(s->context, z)};
}

/* y ~ N(0, 1), z = y + noise / 2, x = (y + strength * the noise of z + noise / 10, noise). */
static sample draw(int64_t n, double strength, const char *kernel_x, const char *kernel_y, const char *kernel_z) {
    sample s = {.context = test_context(0), .y = test_normal(11, n, 1), .z = test_normal(12, n, 1)};
    s.workspace = test_workspace(s.context);
    s.x = test_normal(13, n, 2);
    for (int64_t i = 0; i < n; i++) {
        double noise = test_at(&s.z, i, 0);
        test_set(&s.z, i, 0, test_at(&s.y, i, 0) + 0.5 * noise);
        test_set(&s.x, i, 0, test_at(&s.y, i, 0) + strength * noise + 0.1 * test_at(&s.x, i, 0));
    }
    set_kernels(&s, kernel_x, kernel_y, kernel_z);
    circe_normalized_options_init(&s.options);
    return s;
}

static void fill(circe_mat *m, double value) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++) test_set(m, i, j, value);
}

static void scale(circe_mat *m, double by) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++) test_set(m, i, j, by * test_at(m, i, j));
}

/* ---- golden ---------------------------------------------------------------------------------------------------------
 */

static sample golden_sample(const golden_case *c, circe_dtype dtype) {
    sample s = {.context = c->context, .workspace = c->workspace};
    s.x = test_copy(&c->x, dtype), s.y = test_copy(&c->y, dtype), s.z = test_copy(&c->z, dtype);
    set_kernels(&s, c->kernel_x, c->kernel_y, c->kernel_z);
    circe_normalized_options_init(&s.options); /* epsilon 1e-3, as there */
    return s;
}

static void golden(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        sample s64 = golden_sample(&c, CIRCE_FLOAT64), s32 = golden_sample(&c, CIRCE_FLOAT32);
        for (int64_t m = 0; m < COUNT(measures); m++) {
            double expected = golden_number(c.expected, measures[m].name);
            for (int64_t k = 0; k < COUNT(methods); k++) {
                s64.options.method = s32.options.method = methods[k];
                assert_near(value_of(m, &s64), expected, 1e-9, expected);
                assert_near(value_of(m, &s32), expected, 1e-4, expected);
            }
        }
        cJSON_Delete(c.expected);
    }
}

/* ---- low rank and dense ---------------------------------------------------------------------------------------------
 */

/* Whether auto makes the regressions on (x, y), y and (z, y) dense. */
static void check_kinds(const sample *s, const bool *dense) {
    circe__normalized m;
    circe__smoother smoother;
    double value;
    assert_ok(circe__normalized_begin(s->workspace, &s->kernels, &s->x, &s->y, &s->z, &s->options, &value, NULL, &m));
    assert_ok(circe__normalized_pair(&m, true, &smoother));
    assert_int_equal(smoother.dense, dense[0]);
    assert_ok(circe__normalized_y(&m, &smoother));
    assert_int_equal(smoother.dense, dense[1]);
    assert_ok(circe__normalized_pair(&m, false, &smoother));
    assert_int_equal(smoother.dense, dense[2]);
}

/* Every mixture that can occur: a pair with y is of high rank where y is. KPC meets its x in all of its ways: as a
 * factor, in blocks of rows, as a matrix. */
static void methods_agree(void **state) {
    (void)state;
    static const struct {
        const char *x, *y, *z;
        bool dense[3];    /* (x, y), y, (z, y) */
        double tolerance; /* of the gradient; all linear, NOCCO's is 1e-5 of the terms that it sums */
    } cases[] = {
        {"gaussian(60)", "gaussian(2)", "gaussian(2)", {false, false, false}, 1e-8},
        {"laplace(1)", "gaussian(2)", "gaussian(2)", {true, false, false}, 1e-8},
        {"gaussian(60)", "gaussian(2)", "laplace(1)", {false, false, true}, 1e-8},
        {"laplace(1)", "gaussian(2)", "laplace(1)", {true, false, true}, 1e-8},
        {"laplace(1)", "laplace(1)", "gaussian(2)", {true, true, true}, 1e-8},
        {"linear", "linear", "linear", {false, false, false}, 1e-6},
        {"0:gaussian(8)", "linear", "gaussian(2)*linear", {false, false, false}, 1e-8},
    };
    for (int64_t c = 0; c < COUNT(cases); c++) {
        sample s = draw(500, 0.5, cases[c].x, cases[c].y, cases[c].z);
        check_kinds(&s, cases[c].dense);
        for (int64_t m = 0; m < COUNT(measures); m++) {
            double values[COUNT(methods)];
            circe_mat grads[COUNT(methods)];
            for (int64_t k = 0; k < COUNT(methods); k++) {
                s.options.method = methods[k];
                grads[k] = gradient_of(m, &s, &values[k]);
                assert_near(value_of(m, &s), values[k], 1e-13, values[k]); /* without a gradient */
            }
            assert_near(values[0], values[2], 1e-9, values[2]);
            assert_near(values[1], values[2], 1e-9, values[2]);
            assert_mat_near(&grads[0], &grads[2], cases[c].tolerance);
            assert_mat_near(&grads[1], &grads[2], cases[c].tolerance);
        }
    }
}

/* A small epsilon is a large condition: 1e-6 leaves ten digits of the values. */
static void small_epsilon(void **state) {
    (void)state;
    sample s = draw(400, 0.5, "gaussian(4)", "gaussian(1)", "gaussian(1)");
    s.options.epsilon = 1e-6;
    for (int64_t m = 0; m < COUNT(measures); m++) {
        s.options.method = CIRCE_METHOD_LOWRANK;
        double lowrank = value_of(m, &s);
        s.options.method = CIRCE_METHOD_DENSE;
        assert_near(lowrank, value_of(m, &s), 1e-9, lowrank);
    }
}

static void defaults(void **state) {
    (void)state;
    sample s = draw(200, 0.5, "gaussian(4)", "gaussian(1)", "gaussian(1)");
    circe_normalized_options_init(NULL);
    for (int64_t m = 0; m < COUNT(measures); m++) {
        double value = NAN, same = value_of(m, &s);
        assert_ok(measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, NULL, &value, NULL));
        assert_true(value == same);
        s.options.epsilon = 2e-3;
        assert_true(fabs(value_of(m, &s) - value) > 1e-3 * value);
        circe_normalized_options_init(&s.options);
        s.options.method = CIRCE_METHOD_LOWRANK;
        s.options.tolerance = 1e-3; /* coarse: near, and not the same */
        assert_near(value_of(m, &s), value, 1e-3, value);
        assert_true(fabs(value_of(m, &s) - value) > 1e-11 * value);
        circe_normalized_options_init(&s.options);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------
 */

static void check_differences(int64_t m, sample *s, double tolerance) {
    const double step = 1e-5;
    double value = NAN;
    circe_mat grad = gradient_of(m, s, &value);
    for (int64_t i = 0; i < s->x.rows; i += 13)
        for (int64_t c = 0; c < s->x.cols; c++) {
            double kept = test_at(&s->x, i, c);
            test_set(&s->x, i, c, kept + step);
            double up = value_of(m, s);
            test_set(&s->x, i, c, kept - step);
            double down = value_of(m, s);
            test_set(&s->x, i, c, kept);
            assert_near(test_at(&grad, i, c), (up - down) / (2.0 * step), tolerance, test_max(&grad));
        }
}

static void finite_differences(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(1)", "linear", "0:linear*gaussian(3)", "laplace(2)",
                                            "0:gaussian(1)*1:laplace(1)"};
    for (int64_t k = 0; k < COUNT(kernels_x); k++)
        for (int64_t m = 0; m < COUNT(measures); m++)
            for (int64_t method = 1; method < COUNT(methods); method++) {
                sample s = draw(90, 0.5, kernels_x[k], "gaussian(0.5)", "gaussian(0.7)");
                s.options.method = methods[method];
                check_differences(m, &s, strstr(kernels_x[k], "laplace") == NULL ? 1e-6 : 1e-5);
            }
}

/* Where auto mixes low rank and dense. */
static void finite_differences_mixed(void **state) {
    (void)state;
    static const char *const kernels[][2] = {{"laplace(1)", "gaussian(2)"}, {"gaussian(8)", "laplace(1)"}};
    for (int64_t k = 0; k < COUNT(kernels); k++)
        for (int64_t m = 0; m < COUNT(measures); m++) {
            sample s = draw(260, 0.5, kernels[k][0], "gaussian(4)", kernels[k][1]);
            check_differences(m, &s, 1e-5);
        }
}

/* A linear kernel of incomes, whose matrix is 1e12 times the ridge: a part along the constants that rounding leaves in
 * a regression would be divided by the ridge in NOCCO's gradient. Weighted rows have other constants. */
static void finite_differences_large(void **state) {
    (void)state;
    enum { N = 27 };
    double weights[N];
    for (int weighted = 0; weighted < 2; weighted++) {
        sample s = draw(N, 0.5, "gaussian(0.1)", "gaussian(1)", "linear");
        for (int64_t i = 0; i < N; i++) {
            test_set(&s.z, i, 0, 5e4 + 3e4 * test_at(&s.z, i, 0));
            weights[i] = 1.0 + (double)(i % 3);
        }
        s.options.method = CIRCE_METHOD_DENSE;
        if (weighted) assert_ok(circe_workspace_set_weights(s.workspace, weights, N));
        check_differences(NOCCO, &s, 1e-5);
    }
}

/* Rounding errors are eps trace / ridge: from a thousandth on, no value is returned. */
static void ridge_below_rounding(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(measures); m++) {
        sample s = draw(20, 0.5, "gaussian(1)", "gaussian(1)", "linear");
        double value;
        scale(&s.z, 1e5);
        circe_status status = measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, &s.options, &value, NULL);
        assert_int_equal(status, CIRCE_ERR_NUMERIC);
        assert_non_null(strstr(circe_last_error(), "is too small for the kernel matrix of (z, y)"));
    }
}

static void float32_agrees(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(4)", "laplace(2)", "linear"};
    for (int64_t k = 0; k < COUNT(kernels_x); k++)
        for (int64_t m = 0; m < COUNT(measures); m++)
            for (int64_t method = 1; method < COUNT(methods); method++) {
                sample s = draw(300, 0.5, kernels_x[k], "gaussian(0.5)", "gaussian(0.7)"), single = s;
                double value = NAN, value32 = NAN;
                s.options.method = single.options.method = methods[method];
                single.x = test_copy(&s.x, CIRCE_FLOAT32);
                if (k == 1) single.y = test_copy(&s.y, CIRCE_FLOAT32), single.z = test_copy(&s.z, CIRCE_FLOAT32);
                circe_mat grad = gradient_of(m, &s, &value), grad32 = gradient_of(m, &single, &value32);
                assert_near(value32, value, 1e-5, value);
                assert_mat_near(&grad32, &grad, 1e-4);
            }
}

/* Linear kernels of columns far from 0: C_x takes almost all from what the witness meets in the contraction. y is to be
 * the same numbers in both dtypes. */
static void float32_of_linear_kernels(void **state) {
    (void)state;
    static const struct {
        const char *x, *y;
    } kernels[] = {{"linear", "linear"}, {"gaussian(4)", "linear"}, {"linear", "gaussian(0.5)"}};
    for (int64_t k = 0; k < COUNT(kernels); k++)
        for (int64_t m = 0; m < COUNT(measures); m++) {
            sample s = draw(24, 0.5, kernels[k].x, kernels[k].y, "gaussian(0.7)"), single = s;
            for (int64_t i = 0; i < s.y.rows; i++) test_set(&s.y, i, 0, test_at(&s.y, i, 0) + 30.0);
            single.x = test_copy(&s.x, CIRCE_FLOAT32);
            s.x = test_copy(&single.x, CIRCE_FLOAT64);
            double value = NAN, value32 = NAN;
            circe_mat grad = gradient_of(m, &s, &value), grad32 = gradient_of(m, &single, &value32);
            assert_near(value32, value, 1e-5, value);
            assert_mat_near(&grad32, &grad, 1e-5);
        }
}

/* ---- properties -----------------------------------------------------------------------------------------------------
 */

static void permutation(void **state) {
    (void)state;
    enum { N = 200 };
    int64_t order[N];
    circe_random_permutation((circe_random){3, 4}, N, order);
    for (int64_t m = 0; m < COUNT(measures); m++)
        for (int64_t method = 1; method < COUNT(methods); method++) {
            sample s = draw(N, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
            s.options.method = methods[method];
            double value = NAN, permuted_value = NAN;
            circe_mat grad = gradient_of(m, &s, &value), expected = test_rows(&grad, order, N);
            s.x = test_rows(&s.x, order, N), s.y = test_rows(&s.y, order, N), s.z = test_rows(&s.z, order, N);
            circe_mat permuted = gradient_of(m, &s, &permuted_value);
            assert_near(permuted_value, value, 1e-10, value); /* other pivots, other roundings */
            assert_mat_near(&permuted, &expected, 1e-8);
        }
}

static void symmetry(void **state) {
    (void)state;
    for (int64_t method = 0; method < COUNT(methods); method++) {
        sample s = draw(300, 0.5, "gaussian(8)", "gaussian(0.5)", "laplace(0.7)"), turned = s;
        s.options.method = turned.options.method = methods[method];
        turned.x = s.z, turned.z = s.x;
        turned.kernels.x = s.kernels.z, turned.kernels.z = s.kernels.x;
        double value = value_of(NOCCO, &s);
        assert_near(value_of(NOCCO, &turned), value, 1e-9, value);
        assert_true(fabs(value_of(KPC, &turned) - value_of(KPC, &s)) > 0.01); /* which KPC is not */
    }
}

/* With widths by the median the units of a variable do not matter. */
static void rescaling(void **state) {
    (void)state;
    for (int64_t variable = 0; variable < 3; variable++)
        for (int64_t m = 0; m < COUNT(measures); m++) {
            double values[2];
            for (int64_t k = 0; k < 2; k++) {
                sample s = draw(300, 0.5, "gaussian", "laplace", "gaussian");
                circe_mat *mats[] = {&s.x, &s.y, &s.z};
                if (k == 1) scale(mats[variable], variable == 1 ? 2e-3 : 700.0);
                circe_kernel *kernels[] = {test_kernel(s.context, "gaussian"), test_kernel(s.context, "laplace"),
                                           test_kernel(s.context, "gaussian")};
                for (int64_t v = 0; v < 3; v++) assert_ok(circe_kernel_bind_median(kernels[v], mats[v]));
                s.kernels = (circe_kernels){kernels[0], kernels[1], kernels[2]};
                values[k] = value_of(m, &s);
            }
            assert_near(values[1], values[0], 1e-9, values[0]);
        }
}

/* Every row twice: the spectrum of ~G and the ridge double alike, so the values stay, and each copy has half of the
 * gradient. */
static sample doubled(const sample *s) {
    int64_t n = s->x.rows, *index = test_memory((size_t)(2 * n) * sizeof *index);
    sample twice = *s;
    for (int64_t i = 0; i < 2 * n; i++) index[i] = i % n;
    twice.x = test_rows(&s->x, index, 2 * n);
    twice.y = test_rows(&s->y, index, 2 * n);
    twice.z = test_rows(&s->z, index, 2 * n);
    return twice;
}

static void duplicated_rows(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(1)", "laplace(1)", "linear"};
    for (int64_t k = 0; k < COUNT(kernels_x); k++)
        for (int64_t m = 0; m < COUNT(measures); m++)
            for (int64_t method = 0; method < COUNT(methods); method++) {
                sample s = draw(120, 0.5, kernels_x[k], "gaussian(0.5)", "gaussian(0.7)");
                s.options.method = methods[method];
                sample twice = doubled(&s);
                double value = NAN, again = NAN;
                circe_mat grad = gradient_of(m, &s, &value), both = gradient_of(m, &twice, &again);
                assert_near(again, value, 1e-9, value);
                scale(&both, 2.0);
                both.rows = s.x.rows;
                assert_mat_near(&both, &grad, 1e-8);
            }
}

/* ---- closed forms and limits ----------------------------------------------------------------------------------------
 */

/* Of two rows every ~G has one eigenvalue that is not zero, (k_11 + k_22) / 2 - k_12. */
static void two_rows(void **state) {
    (void)state;
    for (int64_t method = 0; method < COUNT(methods); method++) {
        sample s = draw(2, 0.5, "gaussian(4)", "gaussian(2)", "laplace(1)");
        s.options = (circe_normalized_options){0.05, methods[method], 0.0};
        double square = 0.0, apart_y = test_at(&s.y, 0, 0) - test_at(&s.y, 1, 0);
        for (int64_t c = 0; c < 2; c++) square += pow(test_at(&s.x, 0, c) - test_at(&s.x, 1, c), 2.0);
        double k_x = exp(-0.125 * square), k_y = exp(-0.25 * apart_y * apart_y);
        double k_z = exp(-fabs(test_at(&s.z, 0, 0) - test_at(&s.z, 1, 0)));
        double R_x = (1.0 - k_x * k_y) / (1.1 - k_x * k_y), R_y = (1.0 - k_y) / (1.1 - k_y);
        double R_z = (1.0 - k_z * k_y) / (1.1 - k_z * k_y);
        double nocco = R_x * R_z * pow(1.0 - R_y, 2.0), kpc = pow((R_y - R_z) / (1.0 - R_y), 2.0);
        assert_near(value_of(NOCCO, &s), nocco, 1e-12, nocco);
        assert_near(value_of(KPC, &s), kpc, 1e-12, kpc);
        check_differences(NOCCO, &s, 1e-6);
        circe_mat grad = gradient_of(KPC, &s, &kpc); /* no x in the closed form */
        assert_true(test_max(&grad) < 1e-12);
    }
}

/* A z that says nothing: KPC is 0. NOCCO keeps what the ridge leaves of y, as it does with a constant x. */
static void constant_z(void **state) {
    (void)state;
    for (int64_t method = 0; method < COUNT(methods); method++) {
        sample s = draw(160, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
        s.options.method = methods[method];
        double before = value_of(NOCCO, &s);
        fill(&s.z, 0.3);
        assert_true(fabs(value_of(KPC, &s)) < 1e-15);
        assert_true(value_of(NOCCO, &s) < 0.05 * before && value_of(NOCCO, &s) > 0.0);
    }
}

/* A constant y is no y: the kernel of y could as well be 1 everywhere. */
static void constant_y(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(measures); m++)
        for (int64_t method = 0; method < COUNT(methods); method++) {
            sample s = draw(160, 0.5, "gaussian(1)", "gaussian(1e14)", "gaussian(0.7)");
            s.options.method = methods[method];
            double flat = value_of(m, &s);
            fill(&s.y, 0.3);
            assert_near(value_of(m, &s), flat, 1e-9, flat);
            check_differences(m, &s, 1e-6);
        }
}

/* Nothing to explain: KPC says 0, whatever y and z, and its gradient is 0. */
static void constant_x(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(1)", "laplace(1)", "linear", "gaussian(1)*linear"};
    for (int64_t k = 0; k < COUNT(kernels_x); k++)
        for (int64_t method = 0; method < COUNT(methods); method++)
            for (int64_t dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
                sample s = draw(400, 0.5, kernels_x[k], "gaussian(0.5)", "gaussian(0.7)");
                s.options.method = methods[method];
                fill(&s.x, 0.3);
                s.x = test_copy(&s.x, (circe_dtype)dtype);
                circe_mat wide = test_zeros(400, 4, (circe_dtype)dtype), grad = wide;
                double value = NAN;
                fill(&wide, 7.0);
                grad.cols = 2;
                assert_ok(circe_measure_kpc(s.workspace, &s.kernels, &s.x, &s.y, &s.z, &s.options, &value, &grad));
                assert_true(value == 0.0 && test_max(&grad) == 0.0);
                assert_true(test_at(&wide, 0, 2) == 7.0 && test_at(&wide, 398, 3) == 7.0);
                assert_true(isfinite(value_of(NOCCO, &s)));
            }
}

/* Everything constant, and kernels that are zero everywhere. */
static void nothing_at_all(void **state) {
    (void)state;
    static const double levels[] = {0.0, 0.3};
    for (int64_t l = 0; l < COUNT(levels); l++)
        for (int64_t m = 0; m < COUNT(measures); m++)
            for (int64_t method = 0; method < COUNT(methods); method++) {
                sample s = draw(40, 0.5, "linear", "linear", l == 0 ? "linear" : "gaussian(1)");
                s.options.method = methods[method];
                fill(&s.x, levels[l]), fill(&s.y, levels[l]), fill(&s.z, levels[l]);
                double value = NAN;
                circe_mat grad = gradient_of(m, &s, &value);
                assert_true(fabs(value) < 1e-20 && test_max(&grad) < 1e-12);
            }
}

/* A far too wide kernel of x makes a constant of it: 0, not a quotient of roundings. A merely wide one does not. */
static void wide_kernel(void **state) {
    (void)state;
    for (int64_t method = 0; method < COUNT(methods); method++) {
        sample s = draw(200, 0.5, "gaussian(1e15)", "gaussian(0.5)", "gaussian(0.7)");
        s.options.method = methods[method];
        assert_true(value_of(KPC, &s) == 0.0);
        set_kernels(&s, "gaussian(1e8)", "gaussian(0.5)", "gaussian(0.7)");
        double wide = value_of(KPC, &s); /* k ~ 1 - |a - b|^2 / (2 sigma2): KPC of the linear kernel */
        set_kernels(&s, "linear", "gaussian(0.5)", "gaussian(0.7)");
        assert_near(wide, value_of(KPC, &s), 1e-5, wide);
    }
}

/* ---- what they measure ----------------------------------------------------------------------------------------------
 */

/* The mean over some orders of z. */
static double shuffled(int64_t m, const sample *s) {
    enum { ORDERS = 5 };
    int64_t n = s->x.rows, *order = test_memory((size_t)n * sizeof *order);
    double mean = 0.0;
    sample other = *s;
    for (uint64_t k = 0; k < ORDERS; k++) {
        circe_random_permutation((circe_random){5, k}, n, order);
        other.z = test_rows(&s->z, order, n);
        mean += value_of(m, &other) / ORDERS;
    }
    return mean;
}

/* z is independent of y, and x = cos(2 y) + strength sin(z) + noise / 10. */
static sample draw_effect(int64_t n, double strength) {
    sample s = draw(n, 0.0, "gaussian(20)", "gaussian(1)", "gaussian(1)");
    circe_mat noise = test_normal(31, n, 1);
    s.x = test_zeros(n, 1, CIRCE_FLOAT64);
    s.z = test_normal(32, n, 1);
    for (int64_t i = 0; i < n; i++)
        test_set(&s.x, i, 0,
                 sin(test_at(&s.y, i, 0)) + strength * sin(test_at(&s.z, i, 0)) + 0.1 * test_at(&noise, i, 0));
    return s;
}

static void independent_and_not(void **state) {
    (void)state;
    sample none = draw_effect(500, 0.0), strong = draw_effect(500, 2.0);
    assert_true(value_of(KPC, &strong) > 0.95);
    assert_true(value_of(KPC, &none) < 0.1);
    for (int64_t m = 0; m < COUNT(measures); m++) {
        double by_chance = shuffled(m, &none);
        assert_true(value_of(m, &none) > 0.5 * by_chance && value_of(m, &none) < 2.0 * by_chance);
        assert_true(value_of(m, &strong) > 4.0 * shuffled(m, &strong));
    }
}

/* x and z share y and nothing else: dependent, but not given y. */
static void dependent_through_y(void **state) {
    (void)state;
    sample through = draw(500, 0.0, "0:gaussian(1)", "gaussian(1)", "gaussian(1)");
    sample direct = draw(500, 0.5, "0:gaussian(1)", "gaussian(1)", "gaussian(1)");
    assert_true(value_of(KPC, &direct) > 0.8 && value_of(KPC, &through) < 0.2);
    assert_true(value_of(NOCCO, &direct) > 3.0 * value_of(NOCCO, &through));
}

/* ---- large batches --------------------------------------------------------------------------------------------------
 */

/* Beyond 8192 rows factors grow in steps. The value takes no n by n matrix, also where the rank of x, in two dimensions
 * (some hundred), or with laplace (high), is not small. */
static void large_batch(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"0:gaussian(1)", "gaussian(0.3)", "laplace(1)"};
    for (int64_t k = 0; k < COUNT(kernels_x); k++) {
        sample s = draw(4200, 0.5, kernels_x[k], "gaussian(1)", "gaussian(1)"), twice = doubled(&s);
        twice.workspace = test_workspace(s.context);
        double n = (double)twice.x.rows, kpc = value_of(KPC, &s);
        assert_near(value_of(KPC, &twice), kpc, 1e-9, kpc);
        if (k == 0) {
            double nocco = value_of(NOCCO, &s);
            assert_near(value_of(NOCCO, &twice), nocco, 1e-9, nocco);
        }
        assert_true((double)circe_workspace_bytes(twice.workspace) < 0.5 * 8.0 * n * n);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

static void second_call_allocates_nothing(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(8)", "laplace(1)"};
    for (int64_t n = 100; n <= 400; n += 300)
        for (int64_t k = 0; k < COUNT(kernels_x); k++)
            for (int64_t method = 0; method < COUNT(methods); method++) {
                test_allocator *counter = test_memory(sizeof *counter);
                circe_context_options options;
                circe_context_options_init(&options);
                options.allocator = test_counting(counter);
                sample s = draw(n, 0.5, kernels_x[k], "gaussian(2)", "gaussian(2)");
                s.workspace = test_workspace(test_context_with(&options));
                s.options.method = methods[method];
                circe_mat grad = test_zeros(n, 2, CIRCE_FLOAT64);
                for (int64_t m = 0; m < COUNT(measures); m++) {
                    double value = NAN;
                    gradient_of(m, &s, &value);
                    int64_t calls = counter->calls;
                    scale(&s.y, 1.02); /* another rank */
                    assert_ok(
                        measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, &s.options, &value, &grad));
                    assert_int_equal(counter->calls, calls);
                }
            }
}

/* The k-th allocation fails, for every k until none is left to fail. */
static void out_of_memory(void **state) {
    (void)state;
    static const char *const kernels_x[] = {"gaussian(8)", "laplace(1)"};
    sample s = draw(150, 0.5, "gaussian(8)", "gaussian(2)", "gaussian(2)");
    for (int64_t v = 0; v < COUNT(kernels_x) * COUNT(measures) * COUNT(methods); v++) {
        circe_status status = CIRCE_ERR_MEMORY;
        double value = NAN;
        circe_mat grad = test_zeros(150, 2, CIRCE_FLOAT64);
        s.options.method = methods[v / 4];
        set_kernels(&s, kernels_x[v / 2 % 2], "gaussian(2)", "gaussian(2)");
        for (int64_t k = 0; status != CIRCE_OK; k++) {
            test_allocator *counter = test_memory(sizeof *counter);
            circe_context_options options;
            circe_context_options_init(&options);
            options.allocator = test_counting(counter);
            s.workspace = test_workspace(test_context_with(&options));
            counter->calls = 0, counter->fail_at = k;
            status = measures[v % 2].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, &s.options, &value, &grad);
            counter->fail_at = -1;
            if (status != CIRCE_OK) assert_int_equal(status, CIRCE_ERR_MEMORY);
            assert_int_equal(status != CIRCE_OK, counter->failed);
            assert_true(k < 100);
        }
    }
}

static void memory_limit(void **state) {
    (void)state;
    circe_context_options options;
    circe_context_options_init(&options);
    sample s = draw(600, 0.5, "gaussian(8)", "gaussian(2)", "gaussian(2)");
    s.options.method = CIRCE_METHOD_DENSE;
    static const struct {
        size_t bytes;
        const char *text;
    } limits[] = {{1000000, "a dense regression"}, {4000000, "a measure by matrices"}}; /* a matrix takes 2.9 MB */
    for (int64_t l = 0; l < COUNT(limits); l++)
        for (int64_t m = 0; m < COUNT(measures); m++) {
            double value = NAN;
            options.memory_limit = limits[l].bytes;
            s.workspace = test_workspace(test_context_with(&options));
            assert_refused(measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, &s.options, &value, NULL),
                           CIRCE_ERR_MEMORY, limits[l].text);
        }
}

/* ---- bad input ------------------------------------------------------------------------------------------------------
 */

static circe_status call(int64_t m, const sample *s) {
    double value = NAN;
    return measures[m].measure(s->workspace, &s->kernels, &s->x, &s->y, &s->z, &s->options, &value, NULL);
}

static void bad_options(void **state) {
    (void)state;
    const sample s = draw(20, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    static const double epsilons[] = {0.0, -1e-3, NAN, INFINITY}, tolerances[] = {-1e-3, 1.0, NAN};
    for (int64_t m = 0; m < COUNT(measures); m++) {
        sample bad = s;
        for (int64_t k = 0; k < COUNT(epsilons); k++) {
            bad.options.epsilon = epsilons[k];
            assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "epsilon is");
        }
        bad.options.epsilon = 1e-18;
        assert_refused(call(m, &bad), CIRCE_ERR_NUMERIC, "too small");
        bad = s;
        for (int64_t k = 0; k < COUNT(tolerances); k++) {
            bad.options.tolerance = tolerances[k];
            assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "tolerance must be 0");
        }
        bad = s;
        bad.options.method = CIRCE_METHOD_RFF;
        assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "auto, lowrank and dense");
    }
}

static void bad_shapes(void **state) {
    (void)state;
    const sample s = draw(20, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    circe_mat wrong = test_zeros(20, 3, CIRCE_FLOAT64), single = test_zeros(20, 2, CIRCE_FLOAT32);
    circe_mat constant = test_zeros(20, 2, CIRCE_FLOAT64);
    double value = NAN;
    for (int64_t m = 0; m < COUNT(measures); m++) {
        sample bad = s;
        bad.x.rows = 19;
        assert_refused(call(m, &bad), CIRCE_ERR_SHAPE, "x has 19 rows");
        bad = s;
        bad.z.rows = 19;
        assert_refused(call(m, &bad), CIRCE_ERR_SHAPE, "z has 19 rows");
        bad = s;
        bad.x.rows = bad.y.rows = bad.z.rows = 1;
        assert_refused(call(m, &bad), CIRCE_ERR_SHAPE, "at least 2 rows");
        assert_refused(measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, NULL, &value, &wrong),
                       CIRCE_ERR_SHAPE, "grad is 20 by 3");
        assert_refused(measures[m].measure(s.workspace, &s.kernels, &s.x, &s.y, &s.z, NULL, &value, &single),
                       CIRCE_ERR_ARGUMENT, "grad must have the dtype of x");
    }
    fill(&constant, 0.3); /* refused also where there is nothing to compute */
    assert_refused(circe_measure_kpc(s.workspace, &s.kernels, &constant, &s.y, &s.z, NULL, &value, &wrong),
                   CIRCE_ERR_SHAPE, "grad is 20 by 3");
}

static void bad_pointers_and_values(void **state) {
    (void)state;
    const sample s = draw(20, 0.5, "gaussian(1)", "gaussian(0.5)", "gaussian(0.7)");
    double value = NAN;
    for (int64_t m = 0; m < COUNT(measures); m++) {
        measure_fn f = measures[m].measure;
        assert_refused(f(NULL, &s.kernels, &s.x, &s.y, &s.z, NULL, &value, NULL), CIRCE_ERR_ARGUMENT, "workspace");
        assert_refused(f(s.workspace, NULL, &s.x, &s.y, &s.z, NULL, &value, NULL), CIRCE_ERR_ARGUMENT, "kernels");
        assert_refused(f(s.workspace, &s.kernels, NULL, &s.y, &s.z, NULL, &value, NULL), CIRCE_ERR_ARGUMENT, "x must");
        assert_refused(f(s.workspace, &s.kernels, &s.x, NULL, &s.z, NULL, &value, NULL), CIRCE_ERR_ARGUMENT, "y must");
        assert_refused(f(s.workspace, &s.kernels, &s.x, &s.y, NULL, NULL, &value, NULL), CIRCE_ERR_ARGUMENT, "z must");
        assert_refused(f(s.workspace, &s.kernels, &s.x, &s.y, &s.z, NULL, NULL, NULL), CIRCE_ERR_ARGUMENT, "value");
        sample bad = s;
        bad.kernels.x = NULL;
        assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "kernel of x");
        bad.kernels = s.kernels, bad.kernels.z = NULL;
        assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "kernel of z");
        set_kernels(&bad, "gaussian(1)", "gaussian", "gaussian(1)");
        assert_refused(call(m, &bad), CIRCE_ERR_ARGUMENT, "kernel of y (gaussian) has no width");
        set_kernels(&bad, "5:gaussian(1)", "gaussian(1)", "gaussian(1)");
        assert_refused(call(m, &bad), CIRCE_ERR_SHAPE, "kernel of x");
        const struct {
            circe_mat *mat;
            const char *text;
        } holes[] = {{&bad.x, "x contains a NaN at row 3"}, {&bad.y, "y contains a NaN"}, {&bad.z, "z contains a NaN"}};
        for (int64_t k = 0; k < COUNT(holes); k++) {
            bad = s;
            *holes[k].mat = test_copy(holes[k].mat, CIRCE_FLOAT64);
            test_set(holes[k].mat, 3, 0, NAN);
            assert_refused(call(m, &bad), CIRCE_ERR_VALUE, holes[k].text);
        }
    }
}

TEST_MAIN("normalized", TEST(golden), TEST(methods_agree), TEST(small_epsilon), TEST(defaults),
          TEST(finite_differences), TEST(finite_differences_mixed), TEST(finite_differences_large),
          TEST(ridge_below_rounding), TEST(float32_agrees), TEST(float32_of_linear_kernels), TEST(permutation),
          TEST(symmetry), TEST(rescaling), TEST(duplicated_rows), TEST(two_rows), TEST(constant_z), TEST(constant_y),
          TEST(constant_x), TEST(nothing_at_all), TEST(wide_kernel), TEST(independent_and_not),
          TEST(dependent_through_y), TEST(large_batch), TEST(second_call_allocates_nothing), TEST(out_of_memory),
          TEST(memory_limit), TEST(bad_options), TEST(bad_shapes), TEST(bad_pointers_and_values))
