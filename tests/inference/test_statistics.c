/* CIRCE as an estimator, over many draws with fixed seeds: what the paper's theorems say of its mean and its spread.
 *
 * The model:  y ~ N(0, 1),  z = y^2 + e,  e ~ N(0, 1/4).  With the linear kernel on z the conditional mean is known,
 * E[psi(z) | y] = y^2, so the exact residual feature is zeta = e, and CIRCE with the true conditional mean is
 *
 *     C(x) = || E[ phi(x) (x) psi(y) e ] ||^2.
 *
 * Under conditional independence x = cos(y) + noise, C = 0. Under the alternative x = cos(y) + 2 e, C > 0. */
#include "tests/support.h"

enum { DIM_ZETA = 1 };

typedef struct sample {
    circe_mat x, y, e;
} sample;

/* Draw number `draw` of B points; the batch overwrites the last one of the same size. */
static void draw_sample(sample *s, uint64_t draw, bool dependent) {
    int64_t B = s->x.rows;
    circe_random generator = {.seed = 77 + dependent, .stream = draw};
    double *x = s->x.data, *y = s->y.data, *e = s->e.data;
    circe_random_normal(generator, 0, B, y);
    circe_random_normal(generator, (uint64_t)B, B, e);
    circe_random_normal(generator, 2 * (uint64_t)B, B, x);
    for (int64_t i = 0; i < B; i++) {
        e[i] *= 0.5;
        x[i] = cos(y[i]) + (dependent ? 2.0 * e[i] : 0.5 * x[i]);
    }
}

typedef struct summary {
    double mean, sd, error; /* the standard error of the mean */
} summary;

static summary summarise(const double *v, int64_t n) {
    summary s = {0};
    for (int64_t i = 0; i < n; i++) s.mean += v[i] / (double)n;
    for (int64_t i = 0; i < n; i++) s.sd += (v[i] - s.mean) * (v[i] - s.mean) / (double)(n - 1);
    s.sd = sqrt(s.sd);
    s.error = s.sd / sqrt((double)n);
    return s;
}

/* make check-long takes ten times the draws, which makes every standard error three times smaller. */
static int64_t effort(void) { return getenv("CIRCE_LONG") == NULL ? 1 : 10; }

/* The estimator over `draws` batches of B points, with the true conditional mean. */
static summary run(circe_estimator estimator, int64_t B, int64_t draws, bool dependent) {
    draws *= effort();
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    sample s = {test_zeros(B, 1, CIRCE_FLOAT64), test_zeros(B, 1, CIRCE_FLOAT64),
                test_zeros(B, DIM_ZETA, CIRCE_FLOAT64)};
    circe_mat witness = test_zeros(B, B, CIRCE_FLOAT64);
    double *values = test_memory((size_t)draws * sizeof *values);
    for (int64_t d = 0; d < draws; d++) {
        draw_sample(&s, (uint64_t)d, dependent);
        assert_ok(circe_witness_features(workspace, kernel, &s.y, &s.e, estimator, &witness));
        assert_ok(circe_contract(workspace, kernel, &s.x, &witness, &values[d], NULL));
    }
    return summarise(values, draws);
}

/* Debiased and ustat are unbiased: over 2,000 draws the mean is zero within three standard errors. */
static void zero_under_independence(void **state) {
    (void)state;
    const circe_estimator unbiased[] = {CIRCE_DEBIASED, CIRCE_USTAT};
    for (int64_t k = 0; k < COUNT(unbiased); k++) {
        summary s = run(unbiased[k], 60, 2000, false);
        assert_near(s.mean, 0.0, 3.0, s.error);
        assert_true(s.sd > 0.0);
    }
}

/* Under the alternative the mean is far from zero, and the same for both: ten standard errors, and three. */
static void positive_under_dependence(void **state) {
    (void)state;
    summary debiased = run(CIRCE_DEBIASED, 60, 1000, true), ustat = run(CIRCE_USTAT, 60, 1000, true);
    summary spread = run(CIRCE_DEBIASED, 60, 1000, false);
    assert_true(debiased.mean > 10.0 * debiased.error && debiased.mean > 3.0 * spread.sd);
    assert_true(ustat.mean > 10.0 * ustat.error);
    assert_near(debiased.mean, ustat.mean, 3.0, hypot(debiased.error, ustat.error));
    /* And the same at every size of the batch: the estimators have no bias to lose. */
    summary larger = run(CIRCE_DEBIASED, 240, 1000, true);
    assert_near(debiased.mean, larger.mean, 3.0, hypot(debiased.error, larger.error));
}

/* Biased: what the diagonal adds is E[k(x,x) Q_ii] / (B - 1), here 1/4 / (B - 1), since k = 1 and E e^2 = 1/4. Twice
 * the batch halves it. Centered has a bias of the same order, and of less than the diagonal's size. */
static void bias_falls_as_one_over_B(void **state) {
    (void)state;
    for (int64_t B = 40; B <= 160; B *= 2) {
        summary independent = run(CIRCE_BIASED, B, 1000, false), truth = run(CIRCE_DEBIASED, B, 1000, false);
        double bias = 0.25 / (double)(B - 1);
        assert_near(independent.mean, bias, 3.0, independent.error);
        assert_near(independent.mean - truth.mean, bias, 0.02, bias); /* the same draws: only the diagonal differs */
        summary centered = run(CIRCE_CENTERED, B, 1000, false);
        assert_true(centered.mean > 3.0 * centered.error && centered.mean < bias);
    }
    summary at = run(CIRCE_CENTERED, 50, 2000, false), twice = run(CIRCE_CENTERED, 100, 2000, false);
    assert_near(at.mean / twice.mean, 2.0, 0.15, 2.0); /* 3 standard errors of the ratio, and O(1/B) of the order */
    /* The same under the alternative, where the truth is not zero. */
    summary biased = run(CIRCE_BIASED, 80, 1000, true), unbiased = run(CIRCE_DEBIASED, 80, 1000, true);
    assert_near(biased.mean - unbiased.mean, 0.25 / 79.0, 0.02, 0.25 / 79.0);
}

/* O_p(1/sqrt(B)): the slope of log sd against log B under the alternative, where the estimator is not degenerate. A
 * standard deviation from 800 draws is known to 2.5 %, the slope over a factor of 16 to about 0.01; the next order,
 * 1/B, bends it below -1/2 while B is small: margin 0.08. */
static void spread_falls_as_root_B(void **state) {
    static const int64_t sizes[] = {50, 100, 200, 400, 800}, draws[] = {800, 800, 800, 600, 300};
    (void)state;
    for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
        double sx = 0.0, sy = 0.0, sxx = 0.0, sxy = 0.0, n = (double)COUNT(sizes);
        for (int64_t k = 0; k < COUNT(sizes); k++) {
            double lx = log((double)sizes[k]), ly = log(run(e, sizes[k], draws[k], true).sd);
            sx += lx, sy += ly, sxx += lx * lx, sxy += lx * ly;
        }
        double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
        assert_near(slope, -0.5, 0.08, 1.0);
    }
}

/* The same with a fitted conditional mean. Categories of y and a holdout of 20,000 rows: frequencies are known to
 * 1 %, which moves the mean of the estimator by about 1 / 20,000 of k(z, z), a fifth of its standard error here. */
static void fitted_conditional_mean(void **state) {
    enum { B = 80, DRAWS = 600, HOLDOUT = 20000, Y = 3 };
    static const double ridge = 1e-3;
    (void)state;
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    circe_kernel *kernel_x = test_kernel(context, "gaussian(1)");
    circe_mat holdout_y = test_categories(1, HOLDOUT, 1, Y), holdout_z = test_normal(2, HOLDOUT, 1);
    for (int64_t i = 0; i < HOLDOUT; i++)
        test_set(&holdout_z, i, 0, test_at(&holdout_y, i, 0) + test_at(&holdout_z, i, 0));
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    circe_cme *cme = test_fit(context, &holdout_y, &holdout_z, "delta", "gaussian(1)", &options);
    circe_mat x = test_zeros(B, 1, CIRCE_FLOAT64), y = test_zeros(B, 1, CIRCE_FLOAT64);
    circe_mat z = test_zeros(B, 1, CIRCE_FLOAT64), noise = test_zeros(B, 2, CIRCE_FLOAT64);
    const circe_estimator unbiased[] = {CIRCE_DEBIASED, CIRCE_USTAT};
    for (int64_t k = 0; k < COUNT(unbiased); k++)
        for (int dependent = 0; dependent < 2; dependent++) {
            double values[DRAWS];
            for (uint64_t d = 0; d < DRAWS; d++) {
                circe_random generator = {1000 + (uint64_t)dependent, d};
                circe_random_uniform(generator, 0, B, y.data);
                circe_random_normal(generator, B, 2 * B, noise.data);
                for (int64_t i = 0; i < B; i++) {
                    double category = floor(test_at(&y, i, 0) * Y);
                    test_set(&y, i, 0, category);
                    test_set(&z, i, 0, category + test_at(&noise, i, 0));
                    test_set(&x, i, 0, category + test_at(&noise, i, dependent ? 0 : 1));
                }
                assert_ok(circe_measure_circe(workspace, cme, kernel_x, &x, &y, &z, unbiased[k], &values[d], NULL));
            }
            summary s = summarise(values, DRAWS);
            if (dependent)
                assert_true(s.mean > 10.0 * s.error);
            else
                assert_near(s.mean, 0.0, 3.0, s.error);
        }
}

TEST_MAIN("statistics", TEST(zero_under_independence), TEST(positive_under_dependence), TEST(bias_falls_as_one_over_B),
          TEST(spread_falls_as_root_B), TEST(fitted_conditional_mean))
