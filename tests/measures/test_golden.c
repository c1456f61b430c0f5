/* CIRCE on the golden cases: values, gradients, residual Gram matrices and leave-one-out tables that an independent
 * float64 implementation wrote straight from the dense formulas.
 *
 * Tolerances, relative to the value or to the largest element:
 *   float64, model chosen by auto (dense at these sizes): 1e-9. Both sides solve systems of condition up to
 *     |K| / ridge ~ 1e4, which leaves 1e-12 of eps, and the estimators cancel up to two digits.
 *   float64, low rank: 5e-6. A factorisation that leaves out 1e-12 of the trace is right to its square root, 1e-6, in
 *     inner products with points that are not pivots. Single elements of the residual Gram matrix: 7e-5, that is
 *     sqrt(1e-12 M / ridge), by which the regression can amplify it; sums over the batch average over the few that have
 *     it.
 *   float32: 1e-4. Inputs are rounded to 6e-8 relative, and debiased and ustat keep a tenth of the sum they cancel.
 *
 * The golden gradients of laplace_x are all NaN: automatic differentiation of |x_i - x_i| at a coinciding point (the
 * diagonal) divides zero by zero. There the gradient is checked against its formula, with the diagonal's share, which
 * is constant, left out, and against finite differences. */
#include "tests/golden_case.h"

static const circe_estimator estimators[] = {CIRCE_BIASED, CIRCE_DEBIASED, CIRCE_CENTERED, CIRCE_USTAT};

static circe_cme *fit_case(const golden_case *c, circe_method method) {
    circe_cme_options options = test_options(method, &c->ridge);
    return test_fit(c->context, &c->holdout_y, &c->holdout_z, c->kernel_y, c->kernel_z, &options);
}

static double expected_value(const golden_case *c, const char *name) {
    char key[32];
    snprintf(key, sizeof key, "circe_%s", name);
    return golden_number(c->expected, key);
}

/* ---- values --------------------------------------------------------------------------------------------------------
 */

static void check_values(const golden_case *c, circe_method method, circe_dtype dtype, double tolerance) {
    circe_cme *cme = fit_case(c, method);
    circe_kernel *kernel_x = test_kernel(c->context, c->kernel_x);
    circe_mat x = test_copy(&c->x, dtype), y = test_copy(&c->y, dtype), z = test_copy(&c->z, dtype);
    double value = NAN;
    for (int64_t e = 0; e < COUNT(estimators); e++) {
        double expected = expected_value(c, circe_estimator_name(estimators[e]));
        assert_ok(circe_measure_circe(c->workspace, cme, kernel_x, &x, &y, &z, estimators[e], &value, NULL));
        assert_near(value, expected, tolerance, fabs(expected));
    }
    double expected = expected_value(c, "spectral");
    assert_ok(circe_measure_circe_spectral(c->workspace, cme, kernel_x, &x, &y, &z, &value, NULL));
    assert_near(value, expected, tolerance, fabs(expected));
}

static void values(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        check_values(&c, CIRCE_METHOD_AUTO, CIRCE_FLOAT64, 1e-9);
        check_values(&c, CIRCE_METHOD_DENSE, CIRCE_FLOAT64, 1e-9);
        check_values(&c, CIRCE_METHOD_LOWRANK, CIRCE_FLOAT64, 5e-6);
        check_values(&c, CIRCE_METHOD_AUTO, CIRCE_FLOAT32, 1e-4);
        check_values(&c, CIRCE_METHOD_LOWRANK, CIRCE_FLOAT32, 1e-4);
        cJSON_Delete(c.expected);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------
 */

static circe_mat laplace_gradient(const golden_case *c, const circe_cme *cme, circe_estimator estimator) {
    circe_mat witness = test_zeros(c->x.rows, c->x.rows, CIRCE_FLOAT64);
    assert_ok(circe_witness_circe(c->workspace, cme, &c->y, &c->z, estimator, &witness));
    return golden_laplace_gradient(c, &witness);
}

/* Central differences, step 1e-5. */
static circe_mat finite_differences(const golden_case *c, const circe_cme *cme, circe_estimator estimator) {
    const double step = 1e-5;
    circe_mat x = test_copy(&c->x, CIRCE_FLOAT64), grad = test_zeros(c->x.rows, c->x.cols, CIRCE_FLOAT64);
    circe_kernel *kernel_x = test_kernel(c->context, c->kernel_x);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t k = 0; k < x.cols; k++) {
            double kept = test_at(&x, i, k), up = NAN, down = NAN;
            test_set(&x, i, k, kept + step);
            assert_ok(circe_measure_circe(c->workspace, cme, kernel_x, &x, &c->y, &c->z, estimator, &up, NULL));
            test_set(&x, i, k, kept - step);
            assert_ok(circe_measure_circe(c->workspace, cme, kernel_x, &x, &c->y, &c->z, estimator, &down, NULL));
            test_set(&x, i, k, kept);
            test_set(&grad, i, k, (up - down) / (2.0 * step));
        }
    return grad;
}

static circe_mat gradient(const golden_case *c, const circe_cme *cme, circe_estimator estimator, circe_dtype dtype) {
    circe_mat x = test_copy(&c->x, dtype), y = test_copy(&c->y, dtype), z = test_copy(&c->z, dtype);
    circe_mat grad = test_zeros(x.rows, x.cols, dtype);
    double value = NAN;
    assert_ok(circe_measure_circe(c->workspace, cme, test_kernel(c->context, c->kernel_x), &x, &y, &z, estimator,
                                  &value, &grad));
    return grad;
}

static void gradients(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        circe_cme *dense = fit_case(&c, CIRCE_METHOD_AUTO), *lowrank = fit_case(&c, CIRCE_METHOD_LOWRANK);
        for (int64_t e = 0; e < COUNT(estimators); e++) {
            char name[64];
            snprintf(name, sizeof name, "grad_circe_%s.npy", circe_estimator_name(estimators[e]));
            circe_mat expected = test_golden_matrix(c.folder, name);
            circe_mat grad64 = gradient(&c, dense, estimators[e], CIRCE_FLOAT64);
            if (strcmp(c.folder, "laplace_x") == 0) {
                assert_true(isnan(test_at(&expected, 0, 0)));
                expected = laplace_gradient(&c, dense, estimators[e]);
                circe_mat differences = finite_differences(&c, dense, estimators[e]);
                assert_mat_near(&grad64, &differences, 1e-6); /* step^2 / distance^2 of the closest pair */
            }
            assert_mat_near(&grad64, &expected, 1e-9);
            circe_mat grad_lowrank = gradient(&c, lowrank, estimators[e], CIRCE_FLOAT64);
            assert_mat_near(&grad_lowrank, &expected, 5e-6);
            circe_mat grad32 = gradient(&c, dense, estimators[e], CIRCE_FLOAT32);
            assert_mat_near(&grad32, &expected, 1e-4);
        }
        cJSON_Delete(c.expected);
    }
}

static void residual_grams(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        circe_mat expected = test_golden_matrix(c.folder, "residual_gram.npy");
        circe_mat gram = test_zeros(c.y.rows, c.y.rows, CIRCE_FLOAT64);
        assert_ok(circe_residual_gram(c.workspace, fit_case(&c, CIRCE_METHOD_AUTO), &c.y, &c.z, &gram));
        assert_mat_near(&gram, &expected, 1e-9);
        assert_ok(circe_residual_gram(c.workspace, fit_case(&c, CIRCE_METHOD_LOWRANK), &c.y, &c.z, &gram));
        assert_mat_near(&gram, &expected, 7e-5);
        circe_mat gram32 = test_zeros(c.y.rows, c.y.rows, CIRCE_FLOAT32);
        assert_ok(circe_residual_gram(c.workspace, fit_case(&c, CIRCE_METHOD_AUTO), &c.y, &c.z, &gram32));
        assert_mat_near(&gram32, &expected, 1e-4);
        cJSON_Delete(c.expected);
    }
}

/* ---- leave-one-out ----------------------------------------------------------------------------------------------- */

static int64_t numbers(const cJSON *array, double *out, int64_t capacity) {
    int64_t n = cJSON_GetArraySize(array);
    assert_true(n > 0 && n <= capacity);
    for (int64_t i = 0; i < n; i++) out[i] = cJSON_GetArrayItem(array, (int)i)->valuedouble;
    return n;
}

/* The tolerances of the values, for the same reasons. */
static void check_table(const golden_case *c, circe_method method, double tolerance) {
    enum { LARGEST = 16 };
    double sigma2_y[LARGEST], ridge[LARGEST], row[LARGEST];
    const cJSON *loo = cJSON_GetObjectItemCaseSensitive(c->expected, "loo");
    const cJSON *errors = cJSON_GetObjectItemCaseSensitive(loo, "error");
    const cJSON *best = cJSON_GetObjectItemCaseSensitive(loo, "best");
    circe_cme_options options = test_options(method, NULL);
    options.sigma2_y = sigma2_y;
    options.n_sigma2_y = numbers(cJSON_GetObjectItemCaseSensitive(loo, "sigma2_y"), sigma2_y, LARGEST);
    options.ridge = ridge;
    options.n_ridge = numbers(cJSON_GetObjectItemCaseSensitive(loo, "ridge"), ridge, LARGEST);
    circe_cme *cme = test_fit(c->context, &c->holdout_y, &c->holdout_z, c->free_y, c->kernel_z, &options);
    circe_loo_table table;
    circe_cme_info info;
    assert_ok(circe_cme_get_loo(cme, &table));
    assert_ok(circe_cme_get_info(cme, &info));
    assert_int_equal(table.n_sigma2_y, options.n_sigma2_y);
    assert_int_equal(table.n_ridge, options.n_ridge);
    for (int64_t s = 0; s < table.n_sigma2_y; s++) {
        assert_int_equal(numbers(cJSON_GetArrayItem(errors, (int)s), row, LARGEST), table.n_ridge);
        assert_true(table.sigma2_y[s] == sigma2_y[s]);
        for (int64_t l = 0; l < table.n_ridge; l++) {
            assert_true(table.ridge[l] == ridge[l]);
            assert_true(table.ridge_used[s * table.n_ridge + l] == ridge[l]);
            assert_near(table.error[s * table.n_ridge + l], row[l], tolerance, row[l]);
        }
    }
    assert_true(info.sigma2_y == golden_number(best, "sigma2_y"));
    assert_true(info.ridge == golden_number(best, "ridge"));
}

static void leave_one_out(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        check_table(&c, CIRCE_METHOD_AUTO, 1e-9);
        check_table(&c, CIRCE_METHOD_LOWRANK, 5e-6);
        cJSON_Delete(c.expected);
    }
}

static void leave_one_out_by_refitting(void **state) {
    (void)state;
    for (int64_t f = 0; f < GOLDEN_CASES; f++) {
        golden_case c = golden_load(golden_folders[f]);
        circe_cme_info info;
        double expected = golden_number(c.expected, "loo_brute_force_at_params");
        assert_ok(circe_cme_get_info(fit_case(&c, CIRCE_METHOD_AUTO), &info));
        assert_near(info.loo_error, expected, 1e-9, expected);
        assert_true(info.sigma2_y == 0.0); /* nothing was free */
        assert_true(info.ridge == c.ridge && !info.ridge_raised);
        cJSON_Delete(c.expected);
    }
}

TEST_MAIN("golden", TEST(values), TEST(gradients), TEST(residual_grams), TEST(leave_one_out),
          TEST(leave_one_out_by_refitting))
