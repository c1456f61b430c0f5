/* Weights of rows: repeated rows, rows of weight 0, explicit formulas, gradients, the conditional mean, refusals.
 *
 * A whole weight stands for that many copies of a row. With N copies in all of n rows, and weights that are 1 on
 * average, a ridge of the copies is N / n times that of the rows, and a sum over pairs (N / n)^2 times (docs/math.md).
 *
 * Tolerances, relative to the value or to the largest element: 1e-9 where regressions of condition 1e3 are solved in
 * two ways, 1e-12 for sums of the same numbers in another order, 1e-6 for finite differences with a step of 1e-5, 1e-4
 * for float32, whose inputs are rounded to 6e-8. */
#include "tests/support.h"

enum { N = 40, COPIES = 3 };

/* Rows, whole weights 0 .. 3 (0 at every ninth row), and the same rows repeated. */
typedef struct sample {
    circe_context *context;
    circe_mat x, y, z, X, Y, Z; /* capitals: repeated */
    double w[N];
    int64_t of[N * COPIES], n, positive; /* of: the row that each of n copies is of */
    circe_cme *mean;
} sample;

static sample draw(void) {
    sample s = {
        .context = test_context(2), .y = test_normal(1, N, 1), .z = test_normal(2, N, 1), .x = test_normal(3, N, 2)};
    for (int64_t i = 0; i < N; i++) {
        s.w[i] = i % 9 == 4 ? 0 : (double)(1 + i % COPIES);
        s.positive += s.w[i] > 0;
        test_set(&s.z, i, 0, test_at(&s.y, i, 0) + 0.5 * test_at(&s.z, i, 0));
        test_set(&s.x, i, 0, test_at(&s.z, i, 0) + 0.5 * test_at(&s.x, i, 0));
        for (int64_t k = 0; k < (int64_t)s.w[i]; k++) s.of[s.n++] = i;
    }
    s.X = test_rows(&s.x, s.of, s.n);
    s.Y = test_rows(&s.y, s.of, s.n);
    s.Z = test_rows(&s.z, s.of, s.n);
    circe_mat y = test_normal(4, 100, 1), z = test_normal(5, 100, 1);
    for (int64_t i = 0; i < 100; i++) test_set(&z, i, 0, test_at(&y, i, 0) + 0.5 * test_at(&z, i, 0));
    s.mean = test_fit(s.context, &y, &z, "gaussian(0.5)", "gaussian(0.7)", NULL);
    return s;
}

/* A measure of kernels with widths, made for one value. weights NULL: none. */
static circe_status measure(const sample *s, circe_measure_kind kind, circe_estimator estimator, circe_method method,
                            double ridge, const double *weights, const circe_mat *x, const circe_mat *y,
                            const circe_mat *z, double *value, circe_mat *grad) {
    circe_measure_options o;
    circe_measure *m = NULL;
    circe_measure_options_init(&o, kind);
    o.estimator = estimator;
    o.kernel_x = "gaussian(1)", o.kernel_y = "gaussian(0.5)", o.kernel_z = "gaussian(0.7)";
    o.sigma2_x = 1.0, o.ridge = &ridge, o.n_ridge = 1;
    o.method = method;
    o.gcm_previous_batch = 0;
    circe_status status = circe_measure_create(s->context, &o, &m);
    if (status == CIRCE_OK && (kind == CIRCE_MEASURE_CIRCE || kind == CIRCE_MEASURE_CIRCE_SPECTRAL))
        status = circe_measure_set_mean(m, s->mean);
    if (status == CIRCE_OK) status = circe_measure_set_weights(m, weights, x->rows);
    if (status == CIRCE_OK) status = circe_measure_points(m, x, y, z, value, grad);
    circe_measure_destroy(m);
    return status;
}

static double value_of(const sample *s, circe_measure_kind kind, circe_estimator estimator, circe_method method,
                       double ridge, const double *weights, const circe_mat *x, const circe_mat *y,
                       const circe_mat *z) {
    double value = NAN;
    assert_ok(measure(s, kind, estimator, method, ridge, weights, x, y, z, &value, NULL));
    return value;
}

static const struct {
    circe_measure_kind kind;
    circe_estimator estimator;
    double power;   /* of n / N: what a repeated value has in comparison */
    bool corrected; /* by B / (B - 1) */
} statistics[] = {{CIRCE_MEASURE_CIRCE, CIRCE_BIASED, 0, true},
                  {CIRCE_MEASURE_CIRCE, CIRCE_CENTERED, 0, true},
                  {CIRCE_MEASURE_CIRCE_SPECTRAL, CIRCE_BIASED, 0, false},
                  {CIRCE_MEASURE_HSIC, CIRCE_BIASED, 0, false},
                  {CIRCE_MEASURE_HSCIC, CIRCE_BIASED, 0, false},
                  {CIRCE_MEASURE_KCI, CIRCE_BIASED, 1, false},
                  {CIRCE_MEASURE_NOCCO, CIRCE_BIASED, 0, false},
                  {CIRCE_MEASURE_KPC, CIRCE_BIASED, 0, false},
                  {CIRCE_MEASURE_GCM, CIRCE_BIASED, 0, false}};

static const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};

/* How many rows of equal weight count as much as these: n in GCM's sqrt(n). */
static double effective(const sample *s) {
    double squares = 0.0;
    for (int64_t i = 0; i < N; i++) squares += s->w[i] * s->w[i];
    return (double)s->n * (double)s->n / squares;
}

/* What the value of the repeated rows must be multiplied by. */
static double factor_of(const sample *s, int64_t k) {
    double n = (double)s->positive, all = (double)s->n, factor = pow(n / all, statistics[k].power);
    if (statistics[k].kind == CIRCE_MEASURE_GCM) return sqrt(effective(s) / all);
    return statistics[k].corrected ? factor * (n / (n - 1)) / (all / (all - 1)) : factor;
}

static void repeated_rows(void **state) {
    (void)state;
    const sample s = draw();
    double ridge = 0.3, share = (double)s.positive / (double)s.n;
    for (int64_t k = 0; k < COUNT(statistics); k++)
        for (int64_t m = 0; m < COUNT(methods); m++) {
            circe_mat g = test_zeros(N, 2, CIRCE_FLOAT64), G = test_zeros(s.n, 2, CIRCE_FLOAT64);
            circe_mat sums = test_zeros(N, 2, CIRCE_FLOAT64);
            double value = NAN, repeated = NAN;
            assert_ok(measure(&s, statistics[k].kind, statistics[k].estimator, methods[m], ridge * share, s.w, &s.x,
                              &s.y, &s.z, &value, &g));
            assert_ok(measure(&s, statistics[k].kind, statistics[k].estimator, methods[m], ridge, NULL, &s.X, &s.Y,
                              &s.Z, &repeated, &G));
            assert_true(fabs(value) > 1e-6);
            assert_near(value, factor_of(&s, k) * repeated, 1e-9, fabs(value));
            for (int64_t i = 0; i < s.n; i++)
                for (int64_t c = 0; c < 2; c++)
                    test_set(&sums, s.of[i], c, test_at(&sums, s.of[i], c) + factor_of(&s, k) * test_at(&G, i, c));
            assert_mat_near(&g, &sums, 1e-8);
        }
}

/* GCM in all its forms: either regression, on itself, on a batch before that has weights of its own, and z on a
 * holdout; value, gradient and table. The repeated rows, before too, have a larger ridge (see above). Products of
 * nearly proportional residuals take another way through the code: mean^2 exceeds their variance a thousandfold. */
static void gcm_forms(void **state) {
    (void)state;
    const sample s = draw();
    double ridge = 0.3, share = (double)s.positive / (double)s.n, v[N];
    int64_t of[N * COPIES], n = 0, positive = 0;
    circe_mat x0 = test_normal(6, N, 2), y0 = test_normal(7, N, 1), flat = test_normal(8, N, 1);
    for (int64_t i = 0; i < N; i++) {
        v[i] = (double)((i + 1) % (COPIES + 1));
        positive += v[i] > 0;
        test_set(&flat, i, 0, 100.0 + (i % 2 == 0 ? 1.0 : -1.0) + 1e-2 * test_at(&flat, i, 0));
        for (int64_t k = 0; k < (int64_t)v[i]; k++) of[n++] = i;
    }
    circe_mat X0 = test_rows(&x0, of, n), Y0 = test_rows(&y0, of, n), Flat = test_rows(&flat, s.of, s.n);
    circe_kernel *kernel = test_kernel(s.context, "gaussian(0.5)");
    circe_cme *linear = test_fit(s.context, &s.y, &s.z, "gaussian(0.5)", "linear", NULL);
    circe_workspace *weighted = test_workspace(s.context), *plain = test_workspace(s.context);
    double before = ridge * (double)positive / (double)n, scale = sqrt(effective(&s) / (double)s.n);
    for (int form = 0; form < 16; form++)
        for (int combine = CIRCE_GCM_MAX; combine <= CIRCE_GCM_LOGSUMEXP; combine++) {
            circe_gcm_options a, b;
            bool close = form >= 8, previous = form & 2;
            circe_mat x = close ? flat : s.x, X = close ? Flat : s.X, z = close ? flat : s.z, Z = close ? Flat : s.Z;
            if (close && (previous || form & 4)) continue;
            circe_gcm_options_init(&a);
            a.regression = form & 1 ? CIRCE_GCM_LINEAR : CIRCE_GCM_KERNEL;
            a.combine = combine;
            if (form & 4) a.holdout = linear;
            b = a;
            /* What regresses x on the batch before does not regress on the batch, unless z does. */
            a.batch.ridge = previous ? before : ridge * share;
            b.batch.ridge = ridge;
            if (previous) {
                if (!a.holdout && a.regression == CIRCE_GCM_KERNEL) continue; /* two ridges in one call */
                a.previous_x = &x0, a.previous_y = &y0, a.previous_weights = v;
                b.previous_x = &X0, b.previous_y = &Y0;
            }
            b.sharpness = scale; /* log(mean cosh(beta T)) / beta */
            double value, repeated;
            circe_mat g = test_zeros(N, x.cols, CIRCE_FLOAT64), G = test_zeros(s.n, x.cols, CIRCE_FLOAT64);
            circe_mat sums = test_zeros(N, x.cols, CIRCE_FLOAT64), t = test_zeros(x.cols, 1, CIRCE_FLOAT64);
            circe_mat T = test_zeros(x.cols, 1, CIRCE_FLOAT64);
            assert_ok(circe_workspace_set_weights(weighted, s.w, N));
            assert_ok(circe_measure_gcm(weighted, kernel, &x, &s.y, &z, &a, &value, &g));
            assert_ok(circe_gcm_table(weighted, kernel, &x, &s.y, &z, &a, &t));
            assert_ok(circe_measure_gcm(plain, kernel, &X, &s.Y, &Z, &b, &repeated, &G));
            assert_ok(circe_gcm_table(plain, kernel, &X, &s.Y, &Z, &b, &T));
            assert_near(value, scale * repeated, 1e-9, fabs(value));
            for (int64_t c = 0; c < x.cols; c++)
                assert_near(test_at(&t, c, 0), scale * test_at(&T, c, 0), 1e-9, fabs(value));
            for (int64_t i = 0; i < s.n; i++)
                for (int64_t c = 0; c < x.cols; c++)
                    test_set(&sums, s.of[i], c, test_at(&sums, s.of[i], c) + scale * test_at(&G, i, c));
            assert_mat_near(&g, &sums, close ? 1e-6 : 1e-8);
        }
}

/* Equal weights, whatever they are, to the last bit, and rows of weight 0: as without them. */
static void equal_and_zero(void **state) {
    (void)state;
    const sample s = draw();
    static const circe_estimator all[] = {CIRCE_BIASED, CIRCE_DEBIASED, CIRCE_CENTERED, CIRCE_USTAT};
    double equal[N], some[N];
    int64_t kept[N], n = 0;
    for (int64_t i = 0; i < N; i++) {
        equal[i] = 7e300;
        some[i] = i % 5 != 2 ? 0.25 : 0.0;
        if (some[i] > 0) kept[n++] = i;
    }
    circe_mat x = test_rows(&s.x, kept, n), y = test_rows(&s.y, kept, n), z = test_rows(&s.z, kept, n);
    for (int kind = CIRCE_MEASURE_CIRCE; kind < CIRCE_MEASURE_KINDS; kind++)
        for (int64_t e = 0; e < COUNT(all); e++)
            for (int64_t m = 0; m < COUNT(methods); m++) {
                circe_measure_kind of = (circe_measure_kind)kind;
                if (of == CIRCE_MEASURE_HSIC ? all[e] == CIRCE_DEBIASED || all[e] == CIRCE_CENTERED
                                             : of != CIRCE_MEASURE_CIRCE && e > 0)
                    continue;
                double plain = value_of(&s, of, all[e], methods[m], 0.1, NULL, &s.x, &s.y, &s.z);
                assert_true(value_of(&s, of, all[e], methods[m], 0.1, equal, &s.x, &s.y, &s.z) == plain);
                plain = value_of(&s, of, all[e], methods[m], 0.1, NULL, &x, &y, &z);
                assert_near(value_of(&s, of, all[e], methods[m], 0.1, some, &s.x, &s.y, &s.z), plain, 1e-9,
                            fabs(plain));
            }
}

/* ---- estimators without repeated rows ---------------------------------------------------------------------------- */

static double gram(const circe_mat *m, double sigma2, int64_t i, int64_t j) {
    double square = 0;
    for (int64_t c = 0; c < m->cols; c++) square += pow(test_at(m, i, c) - test_at(m, j, c), 2);
    return exp(-square / (2 * sigma2));
}

/* The U-statistic of HSIC and the mean over pairs, from their definitions, over four and two different rows. */
static void unbiased_estimators(void **state) {
    (void)state;
    enum { FEW = 8 };
    const sample s = draw();
    const double w[FEW] = {0.5, 2, 1, 3.7, 0.1, 1, 0, 2.2};
    circe_mat x = test_rows(&s.x, s.of, 0), Q = test_zeros(FEW, FEW, CIRCE_FLOAT64);
    int64_t first[FEW];
    for (int64_t i = 0; i < FEW; i++) first[i] = i;
    x = test_rows(&s.x, first, FEW);
    circe_mat y = test_rows(&s.y, first, FEW), z = test_rows(&s.z, first, FEW);
    double up = 0, down = 0, circe_up = 0, pairs = 0, pair_sum = 0;
    assert_ok(circe_residual_gram(test_workspace(s.context), s.mean, &y, &z, &Q));
#define CIRCE_Q(i, j) (gram(&y, 0.5, i, j) * test_at(&Q, i, j))
    for (int64_t i = 0; i < FEW; i++)
        for (int64_t j = 0; j < FEW; j++) {
            if (i == j) continue;
            pairs += w[i] * w[j];
            pair_sum += w[i] * w[j] * gram(&x, 1, i, j) * CIRCE_Q(i, j);
            for (int64_t k = 0; k < FEW; k++)
                for (int64_t m = 0; m < FEW; m++) {
                    if (k == i || k == j || m == i || m == j || m == k) continue;
                    double weight = w[i] * w[j] * w[k] * w[m], K = gram(&x, 1, i, j);
                    down += weight;
                    up += weight * K * (gram(&z, 0.7, i, j) + gram(&z, 0.7, k, m) - 2 * gram(&z, 0.7, i, k));
                    circe_up += weight * K * (CIRCE_Q(i, j) + CIRCE_Q(k, m) - 2 * CIRCE_Q(i, k));
                }
        }
    double value = value_of(&s, CIRCE_MEASURE_HSIC, CIRCE_USTAT, CIRCE_METHOD_AUTO, 0.1, w, &x, &y, &z);
    assert_near(value, up / down, 1e-12, 1);
    value = value_of(&s, CIRCE_MEASURE_CIRCE, CIRCE_USTAT, CIRCE_METHOD_AUTO, 0.1, w, &x, &y, &z);
    assert_near(value, circe_up / down, 1e-9, 1);
    value = value_of(&s, CIRCE_MEASURE_CIRCE, CIRCE_DEBIASED, CIRCE_METHOD_AUTO, 0.1, w, &x, &y, &z);
    assert_near(value, pair_sum / pairs, 1e-9, 1);
}

static void finite_differences(void **state) {
    (void)state;
    const sample s = draw();
    static const circe_measure_kind kinds[] = {
        CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_CIRCE_SPECTRAL, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
        CIRCE_MEASURE_KCI,   CIRCE_MEASURE_NOCCO,          CIRCE_MEASURE_KPC,  CIRCE_MEASURE_GCM};
    const double step = 1e-5;
    double w[N];
    for (int64_t i = 0; i < N; i++) w[i] = i == 3 ? 0 : 0.1 + (double)(i * i % 13);
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int64_t m = 0; m < COUNT(methods); m++) {
            circe_mat g = test_zeros(N, 2, CIRCE_FLOAT64), slope = test_zeros(N, 2, CIRCE_FLOAT64);
            double value;
            assert_ok(measure(&s, kinds[k], CIRCE_USTAT, methods[m], 0.1, w, &s.x, &s.y, &s.z, &value, &g));
            for (int64_t e = 0; e < 2 * N; e++) {
                circe_mat up = test_copy(&s.x, CIRCE_FLOAT64), down = test_copy(&s.x, CIRCE_FLOAT64);
                test_set(&up, e / 2, e % 2, test_at(&s.x, e / 2, e % 2) + step);
                test_set(&down, e / 2, e % 2, test_at(&s.x, e / 2, e % 2) - step);
                double rise = value_of(&s, kinds[k], CIRCE_USTAT, methods[m], 0.1, w, &up, &s.y, &s.z) -
                              value_of(&s, kinds[k], CIRCE_USTAT, methods[m], 0.1, w, &down, &s.y, &s.z);
                test_set(&slope, e / 2, e % 2, rise / (2 * step));
            }
            assert_mat_near(&g, &slope, 1e-6);
            assert_near(test_at(&g, 3, 0), 0, 0, 1); /* a row of weight 0 has none */
        }
}

/* ---- the conditional mean ---------------------------------------------------------------------------------------- */

static circe_cme *fit(const sample *s, const circe_mat *y, const circe_mat *z, circe_method method, double ridge,
                      const double *weights) {
    circe_cme_options o = test_options(method, &ridge);
    o.weights = weights;
    return test_fit(s->context, y, z, "gaussian(0.5)", "linear", &o);
}

static circe_mat mean_at(const sample *s, const circe_cme *cme, const circe_mat *y) {
    circe_mat out = test_zeros(y->rows, 1, CIRCE_FLOAT64);
    assert_ok(circe_cme_mean(test_workspace(s->context), cme, y, &out));
    return out;
}

/* Weighted ridge regression is that of the repeated rows, and its residual Gram matrix as well. */
static void mean_of_repeated_rows(void **state) {
    (void)state;
    const sample s = draw();
    double ridge = 0.3, share = (double)s.positive / (double)s.n;
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_cme *weighted = fit(&s, &s.y, &s.z, methods[m], ridge * share, s.w);
        circe_cme *repeated = fit(&s, &s.Y, &s.Z, methods[m], ridge, NULL);
        circe_mat a = mean_at(&s, weighted, &s.y), b = mean_at(&s, repeated, &s.y);
        circe_mat A = test_zeros(N, N, CIRCE_FLOAT64), B = test_zeros(N, N, CIRCE_FLOAT64);
        circe_cme_info info;
        assert_mat_near(&a, &b, 1e-9);
        assert_ok(circe_residual_gram(test_workspace(s.context), weighted, &s.y, &s.z, &A));
        assert_ok(circe_residual_gram(test_workspace(s.context), repeated, &s.y, &s.z, &B));
        assert_mat_near(&A, &B, 1e-9);
        assert_ok(circe_cme_get_info(weighted, &info));
        assert_int_equal(info.rows, s.positive);
    }
}

/* Every row is left out with all of its weight; the error is the weighted mean of the squares. */
static void leave_one_out(void **state) {
    (void)state;
    const sample s = draw();
    double ridge = 0.3;
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_cme *all = fit(&s, &s.y, &s.z, methods[m], ridge, s.w);
        circe_cme_info info;
        double total = 0, error = 0;
        for (int64_t i = 0; i < N; i++) total += s.w[i];
        for (int64_t i = 0; i < N; i++) {
            double w[N], share = (total - s.w[i]) / ((double)(s.positive - 1) * total / (double)s.positive);
            if (s.w[i] == 0) continue;
            memcpy(w, s.w, sizeof w);
            w[i] = 0;
            circe_mat y = test_rows(&s.y, &i, 1);
            circe_mat hat = mean_at(&s, fit(&s, &s.y, &s.z, methods[m], ridge / share, w), &y);
            error += s.w[i] / total * pow(test_at(&s.z, i, 0) - test_at(&hat, 0, 0), 2);
        }
        assert_ok(circe_cme_get_info(all, &info));
        assert_near(info.loo_error, error, 1e-7,
                    error); /* low rank leaves out 1e-12 of the trace, of each fit another part */
    }
}

/* ---- a data set, float32 ----------------------------------------------------------------------------------------- */

/* Rows of a bound data set have the weights they had there, in either dtype, with residual features and without. */
static void bound_rows(void **state) {
    (void)state;
    const sample s = draw();
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_GCM};
    int64_t rows[24];
    double w[24], expected, value;
    for (int64_t i = 0; i < 24; i++) rows[i] = (i * 7) % N, w[i] = s.w[rows[i]];
    circe_mat x = test_rows(&s.x, rows, 24), y = test_rows(&s.y, rows, 24), z = test_rows(&s.z, rows, 24);
    circe_mat narrow = test_copy(&x, CIRCE_FLOAT32);
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int dtype = 0; dtype < 2; dtype++) {
            circe_measure_options o;
            circe_measure *m = NULL;
            double ridge = 0.1;
            circe_measure_options_init(&o, kinds[k]);
            o.kernel_x = "gaussian(1)", o.kernel_y = "gaussian(0.5)", o.kernel_z = "gaussian(0.7)";
            o.ridge = &ridge, o.n_ridge = 1;
            o.dtype = dtype == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
            assert_ok(circe_measure_create(s.context, &o, &m));
            if (kinds[k] == CIRCE_MEASURE_CIRCE) assert_ok(circe_measure_set_mean(m, s.mean));
            assert_ok(circe_measure_set_weights(m, s.w, N));
            assert_ok(circe_measure_bind(m, &s.y, &s.z));
            assert_ok(circe_measure_evaluate(m, rows, 24, &narrow, &value, NULL));
            expected = value_of(&s, kinds[k], CIRCE_USTAT, CIRCE_METHOD_AUTO, 0.1, w, &x, &y, &z);
            assert_near(value, expected, 1e-4, fabs(expected));
            int64_t none[] = {4, 13, 22, 31};
            circe_mat few = test_rows(&s.x, none, 4), grad = test_zeros(4, 2, CIRCE_FLOAT64);
            assert_ok(circe_measure_evaluate(m, none, 4, &few, &value, &grad));
            assert_near(value, 0, 0, 1);
            circe_mat short_grad = test_zeros(3, 2, CIRCE_FLOAT64);
            assert_refused(circe_measure_evaluate(m, none, 4, &few, &value, &short_grad), CIRCE_ERR_SHAPE,
                           "grad is 3 by 2");
            rows[5] = INT64_C(1) << 32; /* so far away that looking up its weight would end the test */
            assert_refused(circe_measure_evaluate(m, rows, 24, &narrow, &value, NULL), CIRCE_ERR_ARGUMENT,
                           "the data set has no row 4294967296");
            rows[5] = (5 * 7) % N;
            circe_measure_destroy(m);
        }
}

/* In a data set GCM regresses x on the batch before, with the weights that its rows have; a batch of which fewer than
 * four rows count is passed over. */
static void batch_before(void **state) {
    (void)state;
    const sample s = draw();
    enum { B = 20 };
    int64_t first[B], second[B], none[] = {4, 13, 22, 31};
    double w[2][B], value, expected;
    for (int64_t i = 0; i < B; i++) first[i] = i, second[i] = B + i, w[0][i] = s.w[i], w[1][i] = s.w[B + i];
    circe_mat x0 = test_rows(&s.x, first, B), y0 = test_rows(&s.y, first, B), few = test_rows(&s.x, none, 4);
    circe_mat x = test_rows(&s.x, second, B), y = test_rows(&s.y, second, B), z = test_rows(&s.z, second, B);
    circe_workspace *workspace = test_workspace(s.context);
    circe_measure_options o;
    circe_measure *m = NULL;
    circe_gcm_options g;
    double ridge = 0.1;
    circe_measure_options_init(&o, CIRCE_MEASURE_GCM);
    o.kernel_y = "gaussian(0.5)", o.ridge = &ridge, o.n_ridge = 1, o.dtype = CIRCE_FLOAT64;
    assert_ok(circe_measure_create(s.context, &o, &m));
    assert_ok(circe_measure_set_weights(m, s.w, N));
    assert_ok(circe_measure_bind(m, &s.y, &s.z));
    assert_ok(circe_measure_evaluate(m, first, B, &x0, &value, NULL));
    assert_ok(circe_measure_evaluate(m, none, 4, &few, &value, NULL));
    assert_ok(circe_measure_evaluate(m, second, B, &x, &value, NULL));
    circe_gcm_options_init(&g);
    g.batch.ridge = ridge, g.previous_x = &x0, g.previous_y = &y0, g.previous_weights = w[0];
    assert_ok(circe_workspace_set_weights(workspace, w[1], B));
    assert_ok(circe_measure_gcm(workspace, test_kernel(s.context, "gaussian(0.5)"), &x, &y, &z, &g, &expected, NULL));
    assert_near(value, expected, 1e-12, fabs(expected));
    circe_measure_destroy(m);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void **state) {
    (void)state;
    sample s = draw();
    double value, w[N], zero[N] = {0}, one[N] = {1}, ridge = 0.1;
    circe_cme *cme = NULL;
    circe_workspace *workspace = test_workspace(s.context);
    circe_kernel *kernel = test_kernel(s.context, "gaussian(1)");
    circe_kernels kernels = {kernel, kernel, kernel};
#define MEASURE(kind, weights) \
    measure(&s, kind, CIRCE_USTAT, CIRCE_METHOD_AUTO, 0.1, weights, &s.x, &s.y, &s.z, &value, NULL)
    assert_refused(MEASURE(CIRCE_MEASURE_HSIC, zero), CIRCE_ERR_VALUE, "all weights are 0");
    assert_refused(MEASURE(CIRCE_MEASURE_HSIC, one), CIRCE_ERR_SHAPE, "needs at least 4 rows; there is 1");
    assert_refused(MEASURE(CIRCE_MEASURE_CIRCE, one), CIRCE_ERR_SHAPE, "needs at least 4 rows; there is 1");
    const double bad[] = {-1, NAN, INFINITY};
    for (int64_t k = 0; k < COUNT(bad); k++) {
        memcpy(w, s.w, sizeof w);
        w[5] = bad[k];
        assert_refused(MEASURE(CIRCE_MEASURE_HSIC, w), CIRCE_ERR_VALUE, "weight of row 5");
        circe_cme_options o = test_options(CIRCE_METHOD_AUTO, &ridge);
        o.weights = w;
        assert_refused(circe_cme_fit(s.context, &s.y, &s.z, kernel, kernel, &o, &cme), CIRCE_ERR_VALUE,
                       "weight of row 5");
        o.weights = one;
        assert_refused(circe_cme_fit(s.context, &s.y, &s.z, kernel, kernel, &o, &cme), CIRCE_ERR_SHAPE, "only one row");
    }
    for (int64_t i = 0; i < N; i++) w[i] = 1.0;
    assert_ok(circe_workspace_set_weights(workspace, w, N - 1)); /* equal ones have a number too */
    assert_refused(circe_measure_hsic(workspace, &kernels, &s.x, &s.z, CIRCE_HSIC_BIASED, &value, NULL),
                   CIRCE_ERR_SHAPE, "39 weights for 40 rows");
    assert_ok(circe_workspace_set_weights(workspace, s.w, N - 1));
    assert_refused(circe_measure_hsic(workspace, &kernels, &s.x, &s.z, CIRCE_HSIC_BIASED, &value, NULL),
                   CIRCE_ERR_SHAPE, "39 weights for 40 rows");
    assert_refused(circe_measure_kci(workspace, &kernels, &s.x, &s.y, &s.z, NULL, &value, NULL), CIRCE_ERR_SHAPE,
                   "39 weights");
    assert_refused(circe_measure_kpc(workspace, &kernels, &s.x, &s.y, &s.z, NULL, &value, NULL), CIRCE_ERR_SHAPE,
                   "39 weights");
    assert_refused(circe_measure_circe_spectral(workspace, s.mean, kernel, &s.x, &s.y, &s.z, &value, NULL),
                   CIRCE_ERR_SHAPE, "39 weights");
}

/* Two rows with nearly all of the weight: finite, and those two rows alone for a biased measure. */
static void huge_ratio(void **state) {
    (void)state;
    const sample s = draw();
    double w[N];
    for (int64_t i = 0; i < N; i++) w[i] = i == 3 || i == 8 ? 1e12 : 1;
    int64_t two[] = {3, 8};
    circe_mat x = test_rows(&s.x, two, 2), y = test_rows(&s.y, two, 2), z = test_rows(&s.z, two, 2);
    double few = value_of(&s, CIRCE_MEASURE_HSIC, CIRCE_BIASED, CIRCE_METHOD_AUTO, 0.1, NULL, &x, &y, &z);
    assert_near(value_of(&s, CIRCE_MEASURE_HSIC, CIRCE_BIASED, CIRCE_METHOD_AUTO, 0.1, w, &s.x, &s.y, &s.z), few, 1e-9,
                few);
    for (int64_t k = 0; k < COUNT(statistics); k++)
        assert_true(
            isfinite(value_of(&s, statistics[k].kind, CIRCE_BIASED, CIRCE_METHOD_AUTO, 0.1, w, &s.x, &s.y, &s.z)));
}

TEST_MAIN("weights", TEST(repeated_rows), TEST(equal_and_zero), TEST(unbiased_estimators), TEST(finite_differences),
          TEST(mean_of_repeated_rows), TEST(leave_one_out), TEST(bound_rows), TEST(batch_before), TEST(gcm_forms),
          TEST(refusals), TEST(huge_ratio))
