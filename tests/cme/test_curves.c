/* Residual features by interpolation (lib/cme/curves.c): against the exact ones, in and beyond the range of the
 * holdout, for widths that need few pieces and many; and which models have none. */
#include "cme/curves.h"
#include "tests/support.h"

/* f(at) by the terms of its piece, in plain loops. */
static void curve_at(const circe__curve *curve, double at, double *out) {
    double pieces = (at - curve->first) * curve->per;
    int64_t k = (int64_t)fmax(0.0, fmin(floor(pieces), (double)(curve->pieces - 1)));
    double t = 2.0 * (pieces - (double)k) - 1.0;
    for (int64_t o = 0; o < curve->outputs; o++) {
        out[o] = 0.0;
        for (int64_t c = 0; c < CIRCE__CURVE_TERMS; c++)
            out[o] = out[o] * t + curve->terms[(k * CIRCE__CURVE_TERMS + c) * curve->outputs + o];
    }
}

static circe_cme *fit_pair(circe_context *context, int64_t rows, const char *kernel_y, const char *kernel_z) {
    static const double ridge = 0.01;
    circe_mat y = test_normal(1, rows, 1), z = test_normal(2, rows, 1);
    for (int64_t i = 0; i < rows; i++) test_set(&z, i, 0, 0.5 * test_at(&z, i, 0) + sin(test_at(&y, i, 0)));
    circe_cme_options options = test_options(CIRCE_METHOD_LOWRANK, &ridge);
    return test_fit(context, &y, &z, kernel_y, kernel_z, &options);
}

/* zeta of the curves against psi(z) - mu(y) at points between their ends. 4e-9: twice the curves' own tolerance, one
 * for each side. What the columns beyond q hold is at most the accuracy of float32, 1e-8 of K^c. */
static void check_zeta(const char *kernel_y, const char *kernel_z) {
    enum { N = 500 };
    circe_context *context = test_context(2);
    circe_workspace *workspace = test_workspace(context);
    circe_cme *cme = fit_pair(context, 800, kernel_y, kernel_z);
    const circe__curves *curves = cme->curves;
    assert_non_null(curves);
    double y[N], z[N], mean[256], features[256], *zeta = NULL;
    circe_mat u = test_uniform(3, N, 2);
    assert_true(curves->mean.outputs <= 256);
    for (int64_t i = 0; i < N; i++) {
        y[i] = curves->mean.first + test_at(&u, i, 0) * (double)curves->mean.pieces / curves->mean.per;
        z[i] = curves->features.first + test_at(&u, i, 1) * (double)curves->features.pieces / curves->features.per;
    }
    assert_true(circe__curves_hold(curves, y, z, N));
    int64_t q = 0;
    assert_ok(circe__cme_zeta(workspace, cme, y, z, N, 1e-6, &zeta, &q));
    for (int64_t i = 0; i < N; i++) {
        double beyond = 0.0;
        curve_at(&curves->mean, y[i], mean);
        curve_at(&curves->features, z[i], features);
        for (int64_t k = 0; k < q && k < curves->q; k++)
            assert_true(fabs(features[k] - mean[k] - zeta[i * q + k]) <= 4e-9);
        for (int64_t k = curves->q; k < q; k++) beyond += zeta[i * q + k] * zeta[i * q + k];
        assert_true(beyond <= 1e-8);
    }
}

static void zeta_agrees(void **state) {
    (void)state;
    check_zeta("gaussian(1)", "gaussian(1)");
    check_zeta("gaussian(0.1)", "gaussian(3)");
    check_zeta("gaussian(10)", "gaussian(0.2)");
}

/* The ends: z ends where psi(z) leaves the basis, y a quarter of the range beyond the holdout. */
static void ends(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_cme *cme = fit_pair(context, 800, "gaussian(1)", "gaussian(1)");
    double inside = 0.0, far = 50.0, edge = cme->curves->features.first;
    assert_true(circe__curves_hold(cme->curves, &inside, &inside, 1));
    assert_false(circe__curves_hold(cme->curves, &far, &inside, 1));
    assert_false(circe__curves_hold(cme->curves, &inside, &far, 1));
    assert_true(edge > -8.0 && edge < -1.0);
    edge -= 1e-9;
    assert_false(circe__curves_hold(cme->curves, &inside, &edge, 1));
}

/* The measure in float32 by the curves, and in float64, which has none: 1e-5 of the value's own scale, as everywhere.
 */
static void measure_agrees(void **state) {
    enum { N = 300 };
    (void)state;
    circe_context *context = test_context(3);
    circe_workspace *workspace = test_workspace(context);
    circe_cme *cme = fit_pair(context, 1000, "gaussian(1)", "gaussian(1)");
    circe_mat x = test_normal(5, N, 2), y = test_uniform(6, N, 1), z = test_uniform(7, N, 1);
    circe_mat narrow = test_copy(&x, CIRCE_FLOAT32), grad = test_zeros(N, 2, CIRCE_FLOAT64);
    circe_mat grad32 = test_zeros(N, 2, CIRCE_FLOAT32);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    assert_true(circe__curves_hold(cme->curves, y.data, z.data, N));
    for (circe_estimator estimator = CIRCE_BIASED; estimator <= CIRCE_USTAT; estimator++) {
        double exact = NAN, value = NAN, largest = 0.0;
        assert_ok(circe_measure_circe(workspace, cme, kernel, &x, &y, &z, estimator, &exact, &grad));
        assert_ok(circe_measure_circe(workspace, cme, kernel, &narrow, &y, &z, estimator, &value, &grad32));
        double scale = 1.0 / N; /* of sum |G o K|, with K^c of order one */
        assert_true(fabs(value - exact) <= 1e-5 * scale);
        for (int64_t i = 0; i < N; i++)
            for (int64_t c = 0; c < 2; c++)
                largest = fmax(largest, fabs(test_at(&grad, i, c) - test_at(&grad32, i, c)));
        assert_true(largest <= 1e-5 * scale);
    }
}

/* A kernel that is not smooth, several columns, a dense model: the exact way alone. */
static void none(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    static const double ridge = 0.1;
    assert_null(fit_pair(context, 60, "laplace(1)", "gaussian(1)")->curves);
    assert_null(fit_pair(context, 60, "gaussian(1)", "delta")->curves);
    circe_mat y = test_normal(1, 60, 2), z = test_normal(2, 60, 1);
    circe_cme_options options = test_options(CIRCE_METHOD_LOWRANK, &ridge);
    assert_null(test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", &options)->curves);
    options.method = CIRCE_METHOD_DENSE;
    circe_mat line = test_normal(1, 60, 1);
    assert_null(test_fit(context, &line, &z, "gaussian(1)", "gaussian(1)", &options)->curves);
}

TEST_MAIN("curves", TEST(zeta_agrees), TEST(ends), TEST(measure_agrees), TEST(none))
