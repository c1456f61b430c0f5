/* circe_scale and measures whose width follows the features: the median is the heuristic's, a scaled x under a kernel
 * of width 1 is x under that width, values do not depend on the scale of x, gradients are those of finite differences,
 * running widths are kept, and what the batches were like is told.
 *
 * Tolerances: float64 sums in another order, 1e-12; x rounded to float32 once more, 2e-6; finite differences with a
 * step of 1e-5 in float64, 1e-6 of the largest. */
#include "circe/scaling.h"

#include "tests/support.h"

enum { N = 48, D = 3, WIDE = 700 };

typedef struct setting {
    circe_context *context;
    circe_workspace *workspace;
    circe_mat x, y, z;
} setting;

static setting make(circe_dtype dtype, int64_t n) {
    setting s = {.context = test_context(0)};
    s.workspace = test_workspace(s.context);
    circe_mat x = test_normal(3, n, D);
    s.y = test_normal(1, n, 1);
    s.z = test_normal(2, n, 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < D; c++)
            test_set(&x, i, c, (1.0 + (double)c) * test_at(&x, i, c) + test_at(&s.z, i, 0) + 2.0);
    s.x = test_copy(&x, dtype);
    return s;
}

static const circe_scaling plain = {0};

/* ---- widths ------------------------------------------------------------------------------------------------------ */

static void median_of_few_rows(void **state) {
    (void)state;
    static const int64_t sizes[] = {2, 3, 4, 17, N, 63, 64};
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        setting s = make(CIRCE_FLOAT64, sizes[k]);
        circe_kernel *kernel = test_kernel(s.context, "0-1:gaussian*2:laplace");
        circe_mat out = test_zeros(sizes[k], D, CIRCE_FLOAT64);
        double widths[2] = {0}, expected;
        assert_ok(circe_scale(s.workspace, kernel, &plain, &s.x, widths, NULL, &out));
        assert_ok(circe_median_sigma2(s.context, &s.x, 0, 2, &expected));
        assert_near(widths[0], expected, 1e-12 * expected, 1.0);
        assert_ok(circe_median_sigma2(s.context, &s.x, 2, 1, &expected));
        assert_near(widths[1], expected, 1e-12 * expected, 1.0);
        assert_near(test_at(&out, 1, 0) * sqrt(widths[0]), test_at(&s.x, 1, 0), 1e-12, 1.0);
        assert_near(test_at(&out, 1, 2) * sqrt(widths[1]), test_at(&s.x, 1, 2), 1e-12, 1.0);
    }
}

/* Of many rows a subset of the pairs: within 10 % of the median of all, also where the rows are
 * sorted. */
static void median_of_many_rows(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT32, WIDE);
    circe_kernel *kernel = test_kernel(s.context, "gaussian");
    double width = 0.0, sorted = 0.0, all;
    assert_ok(circe_scale(s.workspace, kernel, &plain, &s.x, &width, NULL, NULL));
    assert_ok(circe_median_sigma2(s.context, &s.x, 0, -1, &all));
    assert_near(width, all, 0.1 * all, 1.0);
    circe_mat line = test_zeros(WIDE, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < WIDE; i++) test_set(&line, i, 0, (double)i);
    assert_ok(circe_scale(s.workspace, kernel, &plain, &line, &sorted, NULL, NULL));
    assert_ok(circe_median_sigma2(s.context, &line, 0, -1, &all));
    assert_near(sorted, all, 0.1 * all, 1.0);
}

static void degenerate(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    circe_kernel *kernel = test_kernel(s.context, "gaussian");
    circe_mat x = test_zeros(N, 1, CIRCE_FLOAT64), out = test_zeros(N, 1, CIRCE_FLOAT64);
    double width = 0.0, kept = 4.0;
    assert_ok(circe_scale(s.workspace, kernel, &plain, &x, &width, NULL, &out));
    assert_near(width, 1.0, 0.0, 1.0); /* constant, and nothing before */
    assert_ok(circe_scale(s.workspace, kernel, &plain, &x, &kept, NULL, &out));
    assert_near(kept, 4.0, 0.0, 1.0);
    for (int64_t i = 0; i < N / 6; i++) test_set(&x, i, 0, 3.0); /* most pairs coincide: the median of the others */
    assert_ok(circe_scale(s.workspace, kernel, &plain, &x, &width, NULL, &out));
    assert_near(width, 9.0, 1e-12, 1.0);
    for (int64_t i = 0; i < N; i++) test_set(&x, i, 0, 1e-30 * (double)(i * i));
    assert_ok(circe_scale(s.workspace, kernel, &plain, &x, &width, NULL, &out));
    assert_true(width > 0.0 && width < 1e-50);
    assert_true(fabs(test_at(&out, N - 1, 0)) < 1e3 && fabs(test_at(&out, N - 1, 0)) > 1.0);
}

static void running(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    circe_kernel *kernel = test_kernel(s.context, "gaussian");
    circe_scaling average = {.keep = 0.75}, frozen = {.keep = 0.75, .frozen = 1};
    double median = 0.0, width = 0.0, before;
    assert_ok(circe_scale(s.workspace, kernel, &plain, &s.x, &median, NULL, NULL));
    assert_ok(circe_scale(s.workspace, kernel, &average, &s.x, &width, NULL, NULL));
    assert_near(width, median, 0.0, 1.0); /* the first is the median */
    for (int64_t i = 0; i < N * D; i++) ((double *)s.x.data)[i] *= 2.0;
    assert_ok(circe_scale(s.workspace, kernel, &average, &s.x, &width, NULL, NULL));
    assert_near(width, 0.75 * median + 0.25 * 4.0 * median, 1e-12 * median, 1.0);
    before = width;
    assert_ok(circe_scale(s.workspace, kernel, &frozen, &s.x, &width, NULL, NULL));
    assert_near(width, before, 0.0, 1.0);
}

static void figures(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    static const char *const texts[] = {"gaussian(2)", "0:laplace(1)*1-2:gaussian(3)", "gaussian(1)*0:delta"};
    for (int64_t k = 0; k < COUNT(texts); k++) {
        circe_kernel *kernel = test_kernel(s.context, texts[k]);
        circe_mat K = test_zeros(N, N, CIRCE_FLOAT64);
        double widths[2], sums[CIRCE_N_FIGURES] = {1.0, 1.0, 1.0}, mean = 0.0, spread = 0.0;
        assert_ok(circe_scale(s.workspace, kernel, &plain, &s.x, widths, sums, NULL));
        assert_ok(circe_gram(s.context, kernel, &s.x, &s.x, &K));
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++) mean += i != j ? test_at(&K, i, j) / (double)(N * (N - 1)) : 0.0;
        for (int64_t c = 0; c < D; c++) {
            double m = 0.0, v = 0.0;
            for (int64_t i = 0; i < N; i++) m += test_at(&s.x, i, c) / N;
            for (int64_t i = 0; i < N; i++) v += pow(test_at(&s.x, i, c) - m, 2) / (N - 1);
            spread += v / D;
        }
        assert_near(sums[CIRCE_FIGURE_KERNEL], 1.0 + mean, 1e-12, 1.0);
        assert_near(sums[CIRCE_FIGURE_SPREAD], 1.0 + sqrt(spread), 1e-12, 1.0);
        assert_near(sums[CIRCE_FIGURE_BATCHES], 2.0, 0.0, 1.0);
    }
    circe_kernel *linear = test_kernel(s.context, "linear");
    double width, sums[CIRCE_N_FIGURES] = {0};
    assert_ok(circe_scale(s.workspace, linear, &plain, &s.x, &width, sums, NULL));
    assert_true(isnan(sums[CIRCE_FIGURE_KERNEL]));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* sum_ic w_ic out_ic^3 / 3 of x, its widths as they are. */
static double functional(setting *s, const circe_kernel *kernel, const circe_scaling *how, const circe_mat *x,
                         const circe_mat *w, circe_mat *grad) {
    circe_mat out = test_zeros(N, D, CIRCE_FLOAT64);
    double widths[2] = {1.7, 0.6}, value = 0.0;
    assert_ok(circe_scale(s->workspace, kernel, how, x, widths, NULL, &out));
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < D; c++) {
            double o = test_at(&out, i, c);
            value += test_at(w, i, c) * o * o * o / 3.0;
            if (grad != NULL) test_set(grad, i, c, test_at(w, i, c) * o * o);
        }
    if (grad != NULL) assert_ok(circe_scale_gradient(s->workspace, kernel, how, x, widths, grad));
    return value;
}

static void gradients(void **state) {
    (void)state;
    static const circe_normalize ways[] = {CIRCE_NORMALIZE_NONE, CIRCE_NORMALIZE_ROWS, CIRCE_NORMALIZE_BATCH};
    setting s = make(CIRCE_FLOAT64, N);
    circe_kernel *kernel = test_kernel(s.context, "0-1:gaussian*2:gaussian");
    circe_mat w = test_normal(9, N, D);
    for (int64_t k = 0; k < COUNT(ways); k++) {
        circe_scaling how = {.normalize = ways[k], .keep = 0.5, .frozen = 1};
        circe_mat grad = test_zeros(N, D, CIRCE_FLOAT64), moved = test_copy(&s.x, CIRCE_FLOAT64);
        double largest = 0.0, step = 1e-5;
        functional(&s, kernel, &how, &s.x, &w, &grad);
        for (int64_t e = 0; e < N * D; e++) largest = fmax(largest, fabs(((double *)grad.data)[e]));
        for (int64_t i = 0; i < N; i += 7)
            for (int64_t c = 0; c < D; c++) {
                double at = test_at(&s.x, i, c);
                test_set(&moved, i, c, at + step);
                double above = functional(&s, kernel, &how, &moved, &w, NULL);
                test_set(&moved, i, c, at - step);
                double below = functional(&s, kernel, &how, &moved, &w, NULL);
                test_set(&moved, i, c, at);
                assert_near(test_at(&grad, i, c), (above - below) / (2.0 * step), 1e-6 * largest, 1.0);
            }
    }
}

/* Rows and columns that cannot be normalised are zeros with a gradient of zeros, not NaN. */
static void nothing_to_normalize(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    circe_mat out = test_zeros(N, D, CIRCE_FLOAT64), grad = test_zeros(N, D, CIRCE_FLOAT64);
    double widths[1] = {0};
    for (int64_t c = 0; c < D; c++) test_set(&s.x, 5, c, 0.0);
    circe_scaling rows = {.normalize = CIRCE_NORMALIZE_ROWS}, batch = {.normalize = CIRCE_NORMALIZE_BATCH};
    for (int64_t e = 0; e < N * D; e++) ((double *)grad.data)[e] = 1.0;
    assert_ok(circe_scale(s.workspace, NULL, &rows, &s.x, widths, NULL, &out));
    assert_ok(circe_scale_gradient(s.workspace, NULL, &rows, &s.x, widths, &grad));
    assert_near(test_at(&out, 5, 1), 0.0, 0.0, 1.0);
    assert_near(test_at(&grad, 5, 1), 0.0, 0.0, 1.0);
    for (int64_t i = 0; i < N; i++) test_set(&s.x, i, 1, 1e6 / 3.0);
    for (int64_t e = 0; e < N * D; e++) ((double *)grad.data)[e] = (double)e;
    assert_ok(circe_scale(s.workspace, NULL, &batch, &s.x, widths, NULL, &out));
    assert_ok(circe_scale_gradient(s.workspace, NULL, &batch, &s.x, widths, &grad));
    assert_near(test_at(&out, 7, 1), 0.0, 0.0, 1.0);
    assert_near(test_at(&grad, 7, 1), 0.0, 0.0, 1.0);
    assert_true(fabs(test_at(&out, 7, 0)) > 0.0);
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

static const double one_width[] = {0.7}, one_ridge[] = {0.05};

static circe_measure_options options_of(circe_measure_kind kind, double sigma2_x, circe_normalize normalize) {
    circe_measure_options o;
    circe_measure_options_init(&o, kind);
    o.sigma2_x = sigma2_x;
    o.normalize_x = normalize;
    o.sigma2_y = one_width;
    o.ridge = one_ridge;
    o.n_sigma2_y = o.n_ridge = 1;
    o.per_dimension = 0;
    return o;
}

static circe_measure *bound(const setting *s, const circe_measure_options *o) {
    circe_measure *m = NULL;
    assert_ok(circe_measure_create(s->context, o, &m));
    assert_ok(circe_measure_fit(m, &s->y, &s->z));
    assert_ok(circe_measure_bind(m, &s->y, &s->z));
    return m;
}

static const circe_measure_kind with_kernels[] = {
    CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_CIRCE_SPECTRAL, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
    CIRCE_MEASURE_KCI,   CIRCE_MEASURE_NOCCO,          CIRCE_MEASURE_KPC,
};

/* The measure with that width given, whatever the kind. */
static void equals_the_width(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    double sigma2;
    assert_ok(circe_median_sigma2(s.context, &s.x, 0, -1, &sigma2));
    for (int64_t k = 0; k < COUNT(with_kernels); k++) {
        circe_measure_options follows = options_of(with_kernels[k], CIRCE_SIGMA2_MEDIAN, CIRCE_NORMALIZE_NONE);
        circe_measure_options given = options_of(with_kernels[k], sigma2, CIRCE_NORMALIZE_NONE);
        follows.dtype = given.dtype = CIRCE_FLOAT64;
        circe_measure *a = bound(&s, &follows), *b = bound(&s, &given);
        circe_mat grad_a = test_zeros(N, D, CIRCE_FLOAT64), grad_b = test_zeros(N, D, CIRCE_FLOAT64);
        double value_a, value_b;
        assert_ok(circe_measure_evaluate(a, NULL, N, &s.x, &value_a, &grad_a));
        assert_ok(circe_measure_evaluate(b, NULL, N, &s.x, &value_b, &grad_b));
        assert_near(value_a, value_b, 1e-9 * fabs(value_b), 1.0);
        assert_mat_near(&grad_a, &grad_b, 1e-8);
        assert_ok(circe_measure_points(a, &s.x, &s.y, &s.z, &value_a, &grad_a));
        assert_near(value_a, value_b, 1e-9 * fabs(value_b), 1.0);
        circe_measure_destroy(a);
        circe_measure_destroy(b);
    }
}

/* 1,000 times the features, and a thousandth: the same value; the gradient is that over the factor. */
static void free_of_scale(void **state) {
    (void)state;
    static const double factors[] = {1e3, 1e-3};
    setting s = make(CIRCE_FLOAT64, WIDE);
    for (int normalize = CIRCE_NORMALIZE_NONE; normalize <= CIRCE_NORMALIZE_BATCH; normalize++) {
        circe_measure_options o = options_of(CIRCE_MEASURE_HSIC, CIRCE_SIGMA2_MEDIAN, (circe_normalize)normalize);
        circe_measure *m = bound(&s, &o);
        circe_mat x = test_copy(&s.x, CIRCE_FLOAT64), grad = test_zeros(WIDE, D, CIRCE_FLOAT64);
        circe_mat other = test_zeros(WIDE, D, CIRCE_FLOAT64);
        double value, again;
        assert_ok(circe_measure_evaluate(m, NULL, WIDE, &x, &value, &grad));
        for (int64_t f = 0; f < COUNT(factors); f++) {
            for (int64_t e = 0; e < WIDE * D; e++) ((double *)x.data)[e] = ((double *)s.x.data)[e] * factors[f];
            assert_ok(circe_measure_evaluate(m, NULL, WIDE, &x, &again, &other));
            assert_near(again, value, 1e-10 * fabs(value), 1.0);
            for (int64_t e = 0; e < WIDE * D; e++) ((double *)other.data)[e] *= factors[f];
            assert_mat_near(&other, &grad, 1e-9);
        }
        circe_measure_destroy(m);
    }
}

/* With a running width a step's gradient is that of a value whose width stands still. */
static void gradients_of_measures(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    for (int normalize = CIRCE_NORMALIZE_NONE; normalize <= CIRCE_NORMALIZE_BATCH; normalize++)
        for (int64_t k = 0; k < COUNT(with_kernels); k++) {
            circe_measure_options o = options_of(with_kernels[k], CIRCE_SIGMA2_RUNNING, (circe_normalize)normalize);
            o.dtype = CIRCE_FLOAT64;
            circe_measure *m = bound(&s, &o);
            circe_mat grad = test_zeros(N, D, CIRCE_FLOAT64), moved = test_copy(&s.x, CIRCE_FLOAT64);
            double value, above, below, largest = 0.0, step = 1e-5;
            assert_ok(circe_measure_evaluate(m, NULL, N, &s.x, &value, &grad));
            for (int64_t e = 0; e < N * D; e++) largest = fmax(largest, fabs(((double *)grad.data)[e]));
            for (int64_t i = 0; i < N; i += 11) {
                double at = test_at(&s.x, i, i % D);
                test_set(&moved, i, i % D, at + step);
                assert_ok(circe_measure_points(m, &moved, &s.y, &s.z, &above, NULL));
                test_set(&moved, i, i % D, at - step);
                assert_ok(circe_measure_points(m, &moved, &s.y, &s.z, &below, NULL));
                test_set(&moved, i, i % D, at);
                assert_near(test_at(&grad, i, i % D), (above - below) / (2.0 * step), 1e-4 * largest, 1.0);
            }
            circe_measure_destroy(m);
        }
}

/* Kept by place, in the state, and used by a measure like it. */
static void running_state(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT32, N);
    circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE, CIRCE_SIGMA2_RUNNING, CIRCE_NORMALIZE_NONE);
    circe_measure *m = bound(&s, &o), *other = bound(&s, &o), *like = NULL;
    circe_mat twice = test_copy(&s.x, CIRCE_FLOAT32);
    double value, expected;
    size_t bytes = 0;
    for (int64_t e = 0; e < N * D; e++) ((float *)twice.data)[e] *= 5.0f;
    assert_ok(circe_measure_evaluate_at(m, 0, 0, NULL, N, &s.x, &value, NULL));
    assert_ok(circe_measure_evaluate_at(m, 1, 0, NULL, N, &twice, &value, NULL));
    assert_ok(circe_measure_state_bytes(m, &bytes));
    assert_int_equal(bytes, sizeof(int64_t) + 2 * sizeof(double));
    char kept[64];
    assert_ok(circe_measure_get_state(m, kept));
    assert_ok(circe_measure_set_state(other, kept, bytes));
    assert_ok(circe_measure_evaluate_at(m, 0, 1, NULL, N, &twice, &expected, NULL));
    assert_ok(circe_measure_evaluate_at(other, 0, 1, NULL, N, &twice, &value, NULL));
    assert_near(value, expected, 0.0, 1.0);
    assert_refused(circe_measure_set_state(other, kept, bytes - 1), CIRCE_ERR_FORMAT, "damaged");
    double bad = -1.0;
    memcpy(kept + sizeof(int64_t), &bad, sizeof bad);
    assert_refused(circe_measure_set_state(other, kept, bytes), CIRCE_ERR_FORMAT, "width of -1");

    assert_ok(circe_measure_like(m, &like));
    assert_ok(circe_measure_bind(like, &s.y, &s.z));
    assert_ok(circe_measure_points_at(m, 1, &s.x, &s.y, &s.z, &expected, NULL));
    assert_ok(circe_measure_evaluate_at(like, 1, 0, NULL, N, &s.x, &value, NULL));
    assert_near(value, expected, 1e-6 * fabs(expected), 1.0);
    circe_measure_destroy(like);
    circe_measure_destroy(m);
    circe_measure_destroy(other);
}

static void figures_of_batches(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT32, N);
    circe_measure_options o = options_of(CIRCE_MEASURE_HSIC, 1e-4, CIRCE_NORMALIZE_NONE);
    circe_measure *m = bound(&s, &o);
    circe_x_figures found;
    double value;
    for (int64_t step = 0; step < 3; step++)
        assert_ok(circe_measure_evaluate_at(m, 0, step, NULL, N, &s.x, &value, NULL));
    assert_ok(circe_measure_points(m, &s.x, &s.y, &s.z, &value, NULL));
    assert_ok(circe_measure_figures(m, 0, &found));
    assert_int_equal(found.batches, 3);
    assert_true(found.mean_kernel < 0.01);
    assert_true(found.spread > 1.0 && found.spread < 4.0);
    assert_near(found.sigma2, 1e-4, 1e-12, 1.0);
    assert_ok(circe_measure_figures(m, 0, &found));
    assert_int_equal(found.batches, 0);
    circe_measure_destroy(m);
    o = options_of(CIRCE_MEASURE_HSIC, CIRCE_SIGMA2_MEDIAN, CIRCE_NORMALIZE_BATCH);
    m = bound(&s, &o);
    assert_ok(circe_measure_evaluate(m, NULL, N, &s.x, &value, NULL));
    assert_ok(circe_measure_figures(m, 0, &found));
    assert_true(found.mean_kernel > 0.4 && found.mean_kernel < 0.7);
    assert_true(found.spread > 1.0); /* of the features, not of what the kernel sees */
    circe_measure_destroy(m);
}

static void threads_agree(void **state) {
    (void)state;
    double values[2], value;
    for (int threads = 1; threads <= 2; threads++) {
        setting s = make(CIRCE_FLOAT32, WIDE);
        s.context = test_context(threads);
        circe_measure_options o = options_of(CIRCE_MEASURE_HSIC, CIRCE_SIGMA2_MEDIAN, CIRCE_NORMALIZE_BATCH);
        circe_measure *m = bound(&s, &o);
        circe_x_figures found;
        assert_ok(circe_measure_evaluate(m, NULL, WIDE, &s.x, &value, NULL));
        assert_ok(circe_measure_figures(m, 0, &found));
        values[threads - 1] = found.sigma2;
        circe_measure_destroy(m);
    }
    assert_near(values[0], values[1], 0.0, 1.0);
}

static void refusals(void **state) {
    (void)state;
    setting s = make(CIRCE_FLOAT64, N);
    circe_kernel *both = test_kernel(s.context, "gaussian*0-1:gaussian(1)");
    double widths[2] = {0};
    assert_refused(circe_scale(s.workspace, both, &plain, &s.x, widths, NULL, NULL), CIRCE_ERR_UNSUPPORTED,
                   "needs its own columns");
    circe_scaling rows = {.normalize = CIRCE_NORMALIZE_ROWS}, none = {.normalize = (circe_normalize)7};
    circe_scaling keeps = {.keep = 1.0};
    circe_mat column = test_zeros(N, 1, CIRCE_FLOAT64);
    assert_refused(circe_scale(s.workspace, NULL, &rows, &column, widths, NULL, NULL), CIRCE_ERR_ARGUMENT,
                   "x has one column");
    assert_refused(circe_scale(s.workspace, NULL, &none, &s.x, widths, NULL, NULL), CIRCE_ERR_ARGUMENT, "normalize 7");
    assert_refused(circe_scale(s.workspace, NULL, &keeps, &s.x, widths, NULL, NULL), CIRCE_ERR_ARGUMENT, "keep is 1");
    circe_measure *m = NULL;
    circe_measure_options o = options_of(CIRCE_MEASURE_GCM, 1.0, CIRCE_NORMALIZE_BATCH);
    assert_refused(circe_measure_create(s.context, &o, &m), CIRCE_ERR_ARGUMENT, "gcm has no kernel of x");
    test_set(&s.x, 3, 1, NAN);
    assert_refused(circe_scale(s.workspace, NULL, &plain, &s.x, widths, NULL, NULL), CIRCE_ERR_VALUE,
                   "x contains a NaN at row 3, column 1");
}

TEST_MAIN("scaling", TEST(median_of_few_rows), TEST(median_of_many_rows), TEST(degenerate), TEST(running),
          TEST(figures), TEST(gradients), TEST(nothing_to_normalize), TEST(equals_the_width), TEST(free_of_scale),
          TEST(gradients_of_measures), TEST(running_state), TEST(figures_of_batches), TEST(threads_agree),
          TEST(refusals))
