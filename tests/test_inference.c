/* The tests of conditional independence: tails against closed forms, statistics and nulls against their definitions by
 * brute force, threads, weights, degenerate data, refusals, memory; calibration, effect sizes and place. Levels and
 * power are in test_inference_levels.c. */
#include "inference/effect.h"
#include "inference/fourier.h"
#include "inference/internal.h"
#include "support.h"

static const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_SPLITKCI,
                                            CIRCE_TEST_GCM, CIRCE_TEST_RCOT,  CIRCE_TEST_HSIC};

static circe_test_options options_of(circe_test_method method) {
    circe_test_options options;
    circe_test_options_init(&options);
    options.method = method;
    options.draws = 200;
    options.seed = 5;
    return options;
}

/* x = y + e, z = y + e': independent given y; `shared` puts as much of e into z. */
typedef struct sample {
    circe_mat x, y, z;
} sample;

static sample draw(uint64_t stream, int64_t n, double shared) {
    sample s = {test_normal(3 * stream, n, 1), test_normal(3 * stream + 1, n, 1), test_normal(3 * stream + 2, n, 1)};
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&s.y, i, 0), e = test_at(&s.x, i, 0);
        test_set(&s.x, i, 0, y + 0.5 * e);
        test_set(&s.z, i, 0, sin(y) + 0.5 * test_at(&s.z, i, 0) + shared * e);
    }
    return s;
}

static circe_test_result run(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                             const circe_test_options *options) {
    circe_test_result result;
    assert_ok(circe_test(context, x, y, z, options, &result));
    assert_true(result.p_value > 0.0 && result.p_value <= 1.0);
    assert_true(isfinite(result.statistic) && result.verdict[0] != '\0');
    return result;
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */

/* Q(1, x) = e^-x, Q(1/2, x) = erfc(sqrt x), Q(k, x) a Poisson sum: to 1e-13 relative, both sides of a + 1. */
static void gamma_tails(void **state) {
    (void)state;
    const double at[] = {1e-6, 0.1, 0.9, 1.0, 1.6, 2.5, 7.0, 30.0, 200.0};
    for (int64_t i = 0; i < COUNT(at); i++) {
        double x = at[i], poisson = 0.0, term = exp(-x);
        assert_near(circe__gamma_tail(1.0, x), exp(-x), 1e-13, exp(-x));
        assert_near(circe__gamma_tail(0.5, x), erfc(sqrt(x)), 1e-12, erfc(sqrt(x)));
        for (int k = 0; k < 12; k++, term *= x / k) poisson += term;
        assert_near(circe__gamma_tail(12.0, x), poisson, 1e-12, poisson);
    }
    assert_true(circe__gamma_tail(3.0, 0.0) == 1.0 && circe__gamma_tail(3.0, -1.0) == 1.0);
    assert_true(circe__gamma_tail(1e5, 1e5) > 0.49 && circe__gamma_tail(1e5, 1e5) < 0.51);
    assert_near(circe__normal_tail(1.959963984540054), 0.025, 1e-12, 1.0);
    assert_true(circe__clip_p(0.0) == 1e-12 && circe__clip_p(2.0) == 1.0 && circe__clip_p(0.3) == 0.3);
}

/* Chi-squares with 2 and 8 degrees of freedom, and a mixture with a closed form: w = {2, 2, 1, 1}, that is 2 E1 times 2
 * plus 1, whose tail is 2 e^(-x/4) - e^(-x/2). The saddlepoint formula is right to some percent, far out as
 * well; two equal weights are its worst case. */
static void weighted_tails(void **state) {
    (void)state;
    const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1}, mixture[] = {2, 2, 1, 1};
    const double at[] = {0.5, 2.0, 3.9, 8.0, 20.0, 60.0, 200.0};
    for (int64_t i = 0; i < COUNT(at); i++) {
        double x = at[i], exact = 2.0 * exp(-x / 4.0) - exp(-x / 2.0);
        assert_near(circe__weighted_tail(ones, 8, x), circe__gamma_tail(4.0, x / 2.0), 0.02,
                    circe__gamma_tail(4.0, x / 2.0));
        assert_near(circe__weighted_tail(ones, 2, x), exp(-x / 2.0), 0.09, exp(-x / 2.0));
        assert_near(circe__weighted_tail(mixture, 4, x), exact, 0.06, exact);
    }
    assert_near(circe__weighted_tail(mixture, 4, 6.0), circe__weighted_tail(mixture, 4, 6.001), 1e-3,
                1.0); /* its mean */
    assert_true(circe__weighted_tail(mixture, 4, 0.0) == 1.0);
    const double nothing[] = {0.0};
    assert_true(circe__weighted_tail(nothing, 1, 0.0) == 1.0);
}

static void ranks(void **state) {
    (void)state;
    const double null[] = {1.0, 2.0, 3.0, 4.0};
    assert_true(circe__rank_p(3.5, null, 4) == 2.0 / 5.0);
    assert_true(circe__rank_p(9.0, null, 4) == 1.0 / 5.0);
    assert_true(circe__rank_p(0.0, null, 4) == 1.0);
    assert_true(circe__rank_p(3.0, null, 4) == 3.0 / 5.0); /* ties count */
}

/* ---- the null, by brute force -------------------------------------------------------------------------------------
 */

static circe__data bare(circe_context *context, int64_t n) {
    circe__data data = {.context = context, .n = n, .total = n, .given = n};
    circe_test_options_init(&data.options);
    data.options.seed = 9;
    return data;
}

static circe__pair random_pair(int64_t n, int64_t p, int64_t q) {
    circe_mat left = test_normal(71, n, p), noise = test_normal(72, n, q);
    return (circe__pair){.n = n,
                         .p = p,
                         .q = q,
                         .left = {n, p, left.data},
                         .right = {n, q, noise.data},
                         .noise = {n, q, noise.data},
                         .scale = 1.0};
}

static double brute_wild(const circe__pair *pair, const double *signs, const double *inverse) {
    double sum = 0.0, largest = 0.0;
    for (int64_t a = 0; a < pair->p; a++)
        for (int64_t b = 0; b < pair->q; b++) {
            double entry = 0.0;
            for (int64_t i = 0; i < pair->n; i++)
                entry += pair->left.data[i * pair->p + a] * signs[i] * pair->noise.data[i * pair->q + b];
            sum += entry * entry;
            if (inverse != NULL) largest = fmax(largest, fabs(entry) * inverse[a * pair->q + b]);
        }
    return inverse == NULL ? sum : largest;
}

/* Few columns: by products; many: by pairs; both are the definition, to rounding. Signs are +-1, balanced. */
static void wild_draws(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    const int64_t sizes[][3] = {{70, 2, 3}, {70, 30, 20}, {1100, 3, 2}};
    for (int64_t s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s][0], draws = 40;
        circe__data data = bare(context, n);
        circe__pair pair = random_pair(n, sizes[s][1], sizes[s][2]);
        double *null = test_memory((size_t)draws * sizeof *null), *signs = test_memory((size_t)(draws * n) * 8),
               sum = 0.0;
        assert_ok(circe__wild(&data, &pair, NULL, draws, 1, null));
        circe__signs(9, 1, n, 0, draws, 0, n, signs, n);
        for (int64_t d = 0; d < draws; d++) {
            double exact = brute_wild(&pair, signs + d * n, NULL);
            assert_near(null[d], exact, 1e-11, exact);
        }
        for (int64_t e = 0; e < draws * n; e++) {
            assert_true(fabs(signs[e]) == 1.0);
            sum += signs[e];
        }
        assert_true(fabs(sum) < 5.0 * sqrt((double)(draws * n)));
        double *inverse = test_memory((size_t)(pair.p * pair.q) * sizeof *inverse);
        for (int64_t e = 0; e < pair.p * pair.q; e++) inverse[e] = 1.0 + (double)(e % 3);
        assert_ok(circe__wild(&data, &pair, inverse, draws, 1, null));
        assert_near(null[3], brute_wild(&pair, signs + 3 * n, inverse), 1e-12, null[3]);
    }
}

/* Mean and variance of the normal null from W; the eigenvalues have the same sum and sum of squares. From a part of the
 * rows: to 30 percent. */
static void moments(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    const int64_t sizes[][3] = {{300, 3, 4}, {120, 20, 10}};
    for (int64_t s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s][0], count = 0;
        circe__data data = bare(context, n);
        circe__pair pair = random_pair(n, sizes[s][1], sizes[s][2]);
        double trace = 0.0, square = 0.0, mean, variance, rough, *weights = NULL, sum = 0.0, squares = 0.0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double l = 0.0, r = 0.0;
                for (int64_t a = 0; a < pair.p; a++)
                    l += pair.left.data[i * pair.p + a] * pair.left.data[j * pair.p + a];
                for (int64_t b = 0; b < pair.q; b++)
                    r += pair.noise.data[i * pair.q + b] * pair.noise.data[j * pair.q + b];
                square += 2.0 * l * r * l * r;
                if (i == j) trace += l * r;
            }
        assert_ok(circe__moments(&data, &pair, 4096, &mean, &variance));
        assert_near(mean, trace, 1e-12, trace);
        assert_near(variance, square, 1e-12, square);
        assert_ok(circe__moments(&data, &pair, n * 2 / 3, &mean, &rough));
        assert_near(rough, square, 0.3, square);
        assert_ok(circe__null_weights(&data, &pair, &weights, &count));
        for (int64_t k = 0; k < count; k++) {
            sum += weights[k];
            squares += 2.0 * weights[k] * weights[k];
            assert_true(k == 0 || weights[k] <= weights[k - 1]);
        }
        assert_near(sum, trace, 1e-10, trace);
        assert_near(squares, square, 1e-10, square);
        circe__free(context, weights);
    }
}

/* ---- regression, by brute force -----------------------------------------------------------------------------------
 */

/* Solves A v = b for few unknowns, by elimination with pivoting; A and b are overwritten. */
static void solve(double *A, double *b, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
        for (int64_t j = 0; j < n; j++) {
            double held = A[k * n + j];
            A[k * n + j] = A[best * n + j];
            A[best * n + j] = held;
        }
        double held = b[k];
        b[k] = b[best];
        b[best] = held;
        for (int64_t i = k + 1; i < n; i++) {
            double times = A[i * n + k] / A[k * n + k];
            for (int64_t j = k; j < n; j++) A[i * n + j] -= times * A[k * n + j];
            b[i] -= times * b[k];
        }
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        for (int64_t j = k + 1; j < n; j++) b[k] -= A[k * n + j] * b[j];
        b[k] /= A[k * n + k];
    }
}

/* The prediction at row `at` of weighted kernel ridge with a free constant, fitted without the row `without`:
 * min sum w_i (t_i - c - (K a)_i)^2 + ridge a'K a, that is (K + ridge W^-1) a + c 1 = t, 1'a = 0. */
static double predict(const double *y, const double *t, const double *w, int64_t n, double sigma2, double ridge,
                      int64_t without, int64_t at) {
    int64_t m = n - (without >= 0), size = m + 1, rows[64];
    double A[65 * 65] = {0}, b[65] = {0}, value;
    for (int64_t i = 0, k = 0; i < n; i++)
        if (i != without) rows[k++] = i;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) {
            double d = y[rows[i]] - y[rows[j]];
            A[i * size + j] = exp(-0.5 * d * d / sigma2) + (i == j ? ridge / w[rows[i]] : 0.0);
        }
        A[i * size + m] = A[m * size + i] = 1.0;
        b[i] = t[rows[i]];
    }
    solve(A, b, size);
    value = b[m];
    for (int64_t i = 0; i < m; i++) {
        double d = y[at] - y[rows[i]];
        value += b[i] * exp(-0.5 * d * d / sigma2);
    }
    return value;
}

/* Residuals, leverages and leave-one-out errors are those of the definition, with weights; also where the fit goes
 * through every point. To 1e-5: what y's features leave out over the ridge. */
static void check_regression(circe_context *context, const char *kernel, double sigma2, double ridge) {
    enum { N = 24 };
    circe_mat x = test_normal(1, N, 1), y = test_normal(2, N, 1), z = test_normal(3, N, 1);
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    double weights[N], total = 0.0, error = 0.0, alone, expected = 0.0;
    for (int64_t i = 0; i < N; i++) total += weights[i] = 0.5 + (double)(i % 4);
    options.kernel_y = test_kernel(context, kernel);
    options.kernel_z = test_kernel(context, "linear");
    options.weights = weights;
    circe__data data;
    circe__spectrum spectrum;
    circe__regressor regressor = {0};
    assert_ok(circe__data_begin(context, &x, &y, &z, &options, &data));
    assert_ok(circe__spectrum_make(&data, 1.0, &spectrum));
    assert_ok(circe__regressor_set(&data, &spectrum, ridge, &regressor));
    circe__table target = {N, 1, test_memory(N * sizeof(double))}, residual = {N, 1, test_memory(N * sizeof(double))};
    const double *zs = z.data, *ys = y.data;
    for (int64_t i = 0; i < N; i++) target.data[i] = zs[i];
    circe__weigh(&data, &target);
    memcpy(residual.data, target.data, N * sizeof(double));
    assert_ok(circe__residual(&regressor, &residual));
    for (int64_t i = 0; i < N; i++) weights[i] *= N / total; /* the library's scale: a mean of 1 */
    for (int64_t i = 0; i < N; i++) {
        double in = zs[i] - predict(ys, zs, weights, N, sigma2, ridge, -1, i);
        double out = zs[i] - predict(ys, zs, weights, N, sigma2, ridge, i, i);
        assert_near(residual.data[i], sqrt(weights[i]) * in, 1e-6, 1.0);
        assert_near(1.0 - regressor.leverage[i], in / out, 1e-5, 1.0);
        expected += weights[i] * out * out / N;
    }
    assert_ok(circe__loo(&data, &spectrum, &target, &ridge, 1, &error, &alone));
    assert_near(error, expected, 1e-5, expected);
    circe__free(context, regressor.leverage);
    circe__spectrum_free(context, &spectrum);
    circe__data_free(&data);
}

static void regressions(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    check_regression(context, "gaussian(0.7)", 0.7, 0.05);
    check_regression(context, "gaussian(0.00001)", 0.00001, 1e-4);
}

/* The ridge used: a tenth of the chosen one, or as much of it as leaves two thirds of the degrees of freedom. */
static void undersmoothing(void **state) {
    (void)state;
    double s[30];
    circe__spectrum spectrum = {.n = 30, .rank = 30, .s = s};
    for (int k = 0; k < 30; k++) s[k] = k < 4 ? 10.0 : 1e-3;
    assert_near(circe__undersmoothed(&spectrum, 0.1, 0.1), 0.01, 1e-12, 1.0);
    for (int k = 0; k < 30; k++) s[k] = 1.0;
    double ridge = circe__undersmoothed(&spectrum, 8.0, 0.1), degrees = 1.0 + 30.0 / (1.0 + ridge);
    assert_true(ridge > 0.8 && ridge < 8.0 && degrees <= 10.0);
    assert_near(circe__undersmoothed(&spectrum, 0.5, 0.1), 0.5, 1e-12, 1.0); /* never above the chosen one */
}

/* ---- statistics against their definitions -------------------------------------------------------------------------
 */

/* S of kernel ridge with a free constant, dense: 11'/n + ~K (~K + ridge I)^-1, by solving for every column. */
static void dense_residual(const double *K, int64_t n, double ridge, double *R) {
    double *A = test_memory((size_t)(n * n) * 8), *C = test_memory((size_t)(n * n) * 8),
           *b = test_memory((size_t)n * 8);
    double *row = test_memory((size_t)n * 8), mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) row[i] += K[i * n + j] / (double)n;
        mean += row[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) C[i * n + j] = K[i * n + j] - row[i] - row[j] + mean;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t e = 0; e < n * n; e++) A[e] = C[e];
        for (int64_t i = 0; i < n; i++) {
            A[i * n + i] += ridge;
            b[i] = C[i * n + j];
        }
        solve(A, b, n);
        for (int64_t i = 0; i < n; i++) R[i * n + j] = (i == j) - 1.0 / (double)n - b[i];
    }
}

static void gaussian(const circe_mat *a, double sigma2, double *K) {
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->rows; j++) {
            double d = test_at(a, i, 0) - test_at(a, j, 0);
            K[i * a->rows + j] = exp(-0.5 * d * d / sigma2);
        }
}

static double *multiply(const double *A, const double *B, int64_t n) {
    double *C = test_memory((size_t)(n * n) * sizeof *C);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    return C;
}

/* kci = tr(R K_(x,y) R R K_z R) / n. Features leave out 1e-5 of the traces. */
static void kci_statistic(void **state) {
    (void)state;
    enum { N = 40 };
    circe_context *context = test_context(1);
    sample s = draw(1, N, 0.3);
    double *Kx = test_memory(N * N * 8), *Ky = test_memory(N * N * 8), *Kz = test_memory(N * N * 8);
    double *R = test_memory(N * N * 8), ridge = 0.2, value = 0.0;
    gaussian(&s.x, 1.5, Kx);
    gaussian(&s.y, 0.8, Ky);
    gaussian(&s.z, 1.1, Kz);
    dense_residual(Ky, N, ridge, R);
    for (int64_t e = 0; e < N * N; e++) Kx[e] *= Ky[e];
    double *left = multiply(multiply(R, Kx, N), R, N), *right = multiply(multiply(R, Kz, N), R, N);
    for (int64_t e = 0; e < N * N; e++) value += left[e] * right[e] / N;
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    options.kernel_x = test_kernel(context, "gaussian(1.5)");
    options.kernel_y = test_kernel(context, "gaussian(0.8)");
    options.kernel_z = test_kernel(context, "gaussian(1.1)");
    options.ridge = &ridge;
    options.n_ridge = 1;
    options.undersmoothing = 1.0;
    circe_test_result result = run(context, &s.x, &s.y, &s.z, &options);
    assert_near(result.statistic, value, 2e-3, value);
    options.undersmoothing = 0.5;
    assert_near(run(context, &s.x, &s.y, &s.z, &options).z.ridge, 0.1, 1e-12, 1.0);
}

/* n times the library's biased HSIC. */
static void hsic_statistic(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    sample s = draw(2, 80, 0.3);
    circe_kernels kernels = {test_kernel(context, "gaussian(1)"), NULL, test_kernel(context, "laplace(2)")};
    circe_test_options options = options_of(CIRCE_TEST_HSIC);
    double value;
    options.kernel_x = kernels.x;
    options.kernel_z = kernels.z;
    assert_ok(circe_measure_hsic(workspace, &kernels, &s.x, &s.z, CIRCE_HSIC_BIASED, &value, NULL));
    assert_near(run(context, &s.x, NULL, &s.z, &options).statistic, 80.0 * value, 1e-3, 80.0 * value);
}

/* One column each, least squares on [1, y]: r_x.z over the root of sum r_x^2 (r_z / (1 - h))^2. */
static void gcm_statistic(void **state) {
    (void)state;
    enum { N = 50 };
    circe_context *context = test_context(1);
    sample s = draw(3, N, 0.2);
    const double *v[3] = {s.x.data, s.y.data, s.z.data};
    double mean[3] = {0}, yy = 0.0, slope[3] = {0}, r[3][N], top = 0.0, bottom = 0.0;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < N; i++) mean[k] += v[k][i] / N;
    for (int64_t i = 0; i < N; i++) yy += (v[1][i] - mean[1]) * (v[1][i] - mean[1]);
    for (int k = 0; k < 3; k += 2) {
        for (int64_t i = 0; i < N; i++) slope[k] += (v[k][i] - mean[k]) * (v[1][i] - mean[1]) / yy;
        for (int64_t i = 0; i < N; i++) r[k][i] = v[k][i] - mean[k] - slope[k] * (v[1][i] - mean[1]);
    }
    for (int64_t i = 0; i < N; i++) {
        double h = 1.0 / N + (v[1][i] - mean[1]) * (v[1][i] - mean[1]) / yy, e = r[2][i] / (1.0 - h);
        top += r[0][i] * r[2][i];
        bottom += r[0][i] * r[0][i] * e * e;
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regression = CIRCE_GCM_LINEAR;
    circe_test_result result = run(context, &s.x, &s.y, &s.z, &options);
    double T = top / sqrt(bottom);
    assert_near(result.statistic, T, 1e-9, fabs(T));
    assert_near(result.p_value, erfc(fabs(T) / sqrt(2.0)), 1e-9, 1.0);
    assert_int_equal(result.null, CIRCE_NULL_NORMAL);
    assert_near(result.z.degrees, 2.0, 1e-9, 1.0);
}

/* Random features of a product of gaussian and delta: mean products over 4,000 are the kernel to 0.06. */
static void fourier_features(void **state) {
    (void)state;
    enum { N = 12, FEATURES = 4000 };
    circe_context *context = test_context(1);
    circe_mat x = test_normal(1, N, 2), z = test_normal(2, N, 1);
    for (int64_t i = 0; i < N; i++) test_set(&x, i, 1, (double)(i % 3));
    const char *texts[] = {"0:gaussian(2)*1:delta", "laplace(4)"};
    for (int64_t k = 0; k < COUNT(texts); k++) {
        circe_test_options options = options_of(CIRCE_TEST_RCOT);
        circe_kernel *kernel = test_kernel(context, texts[k]);
        double root[N], *out = test_memory(N * FEATURES * sizeof *out);
        circe__data data;
        circe__fourier fourier;
        options.kernel_x = kernel;
        assert_ok(circe__data_begin(context, &x, NULL, &z, &options, &data));
        assert_ok(circe__fourier_draw(&data, &data.x, 1.0, FEATURES, 7, "x", &fourier));
        for (int64_t i = 0; i < N; i++) root[i] = 1.0;
        circe__fourier_features(&fourier, data.x.points, root, N, out, FEATURES);
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++) {
                double dot = 0.0,
                       exact = test_kernel_value(kernel, (double *)x.data + 2 * i, (double *)x.data + 2 * j, 2);
                for (int64_t f = 0; f < FEATURES; f++) dot += out[i * FEATURES + f] * out[j * FEATURES + f] / FEATURES;
                assert_near(dot, exact, 0.06, 1.0);
            }
        circe__fourier_free(context, &fourier);
        circe__data_free(&data);
    }
}

/* ---- properties of every method -----------------------------------------------------------------------------------
 */

/* The same seed, the same p-value on 1, 2 and 3 threads; another seed draws others. */
static void threads_and_seeds(void **state) {
    (void)state;
    sample s = draw(4, 600, 0.05);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result one = run(test_context(1), &s.x, &s.y, &s.z, &options);
        for (int threads = 2; threads <= 3; threads++) {
            circe_test_result more = run(test_context(threads), &s.x, &s.y, &s.z, &options);
            if (one.draws > 0)
                assert_true(more.p_value == one.p_value);
            else
                assert_near(more.p_value, one.p_value, 1e-9, 1.0);
            assert_near(more.statistic, one.statistic, 1e-9, fabs(one.statistic) + one.null_sd);
        }
        options.seed = 6;
        circe_test_result other = run(test_context(1), &s.x, &s.y, &s.z, &options);
        if (one.draws > 0) assert_true(other.null_mean != one.null_mean || one.null_mean == 0.0);
    }
}

/* Many blocks of rows in rcot, pivots from candidates in kci: still the same. */
static void threads_on_many_rows(void **state) {
    (void)state;
    sample s = draw(40, 9000, 0.01);
    const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_RCOT};
    for (int64_t m = 0; m < COUNT(some); m++) {
        circe_test_options options = options_of(some[m]);
        circe_test_result one = run(test_context(1), &s.x, &s.y, &s.z, &options);
        circe_test_result more = run(test_context(3), &s.x, &s.y, &s.z, &options);
        assert_near(more.p_value, one.p_value, 1e-8, 1.0);
        assert_near(more.statistic, one.statistic, 1e-9, one.statistic);
    }
}

/* Dependence and none, both seen by every method; the verdict says which. */
static void decisions(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample none = draw(5, 400, 0.0), some = draw(6, 400, 0.5);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result yes = run(context, &some.x, &some.y, &some.z, &options);
        assert_true(yes.p_value < 0.01);
        assert_non_null(strstr(yes.verdict, "depend on each other"));
        assert_true(yes.seconds > 0.0 && yes.n == 400 && yes.n_tested + yes.n_train <= 400);
        if (methods[m] == CIRCE_TEST_HSIC) continue; /* marginally they depend */
        circe_test_result no = run(context, &none.x, &none.y, &none.z, &options);
        assert_true(no.p_value > 0.05);
        assert_non_null(strstr(no.verdict, "No dependence"));
        assert_true(no.z.used && no.z.degrees > 1.0 && no.z.remaining > 0.1 && no.z.remaining < 0.9);
        assert_true(no.z.loo_error > 0.1 && no.z.loo_error < 1.0);
        if (methods[m] != CIRCE_TEST_RCOT) assert_true(no.z.check_p > 0.01);
    }
}

/* Every null of a method comes to about the same. */
static void nulls_agree(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(7, 300, 0.12);
    const struct {
        circe_test_method method;
        circe_test_null nulls[3];
    } cases[] = {{CIRCE_TEST_KCI, {CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_CIRCE, {CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_HSIC, {CIRCE_NULL_GAMMA, CIRCE_NULL_PERMUTATION, CIRCE_NULL_WILD}},
                 {CIRCE_TEST_GCM, {CIRCE_NULL_NORMAL, CIRCE_NULL_MULTIPLIER, CIRCE_NULL_NORMAL}},
                 {CIRCE_TEST_RCOT, {CIRCE_NULL_SPECTRAL, CIRCE_NULL_GAMMA, CIRCE_NULL_AUTO}}};
    for (int64_t c = 0; c < COUNT(cases); c++) {
        double p[3];
        const circe_mat *z = cases[c].method == CIRCE_TEST_HSIC ? &s.y : &s.z;
        circe_mat far = test_normal(900, 300, 1); /* hsic: no dependence, a p-value in the middle */
        for (int k = 0; k < 3; k++) {
            circe_test_options options = options_of(cases[c].method);
            options.null = cases[c].nulls[k];
            options.draws = 2000;
            circe_test_result result =
                run(context, cases[c].method == CIRCE_TEST_HSIC ? &far : &s.x, &s.y, z, &options);
            assert_true(options.null == CIRCE_NULL_AUTO || result.null == options.null);
            p[k] = result.p_value;
        }
        assert_near(p[1], p[0], 0.07, 1.0);
        assert_near(p[2], p[0], 0.07, 1.0);
    }
}

static void check_degenerate(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                             bool nothing) {
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        options.draws = 50;
        circe_test_result result = run(context, x, y, z, &options);
        if (!nothing) continue;
        assert_true(result.p_value == 1.0 && result.statistic == 0.0);
        assert_non_null(strstr(result.verdict, "nothing is left"));
    }
}

/* Constants: p = 1. Equal rows, ties, x = y, z = y, a constant y, more columns than rows, few rows: an answer. */
static void degenerate_data(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(8, 60, 0.3);
    circe_mat constant = test_zeros(60, 1, CIRCE_FLOAT64), ties = test_categories(4, 60, 1, 3),
              copies = test_normal(9, 60, 1);
    circe_mat wide = test_normal(10, 60, 80), narrow = test_zeros(60, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < 60; i++) {
        test_set(&constant, i, 0, 1e6);
        test_set(&copies, i, 0, test_at(&copies, i % 5, 0));
        test_set(&narrow, i, 0, i == 17 ? 1.0 : 0.0);
    }
    check_degenerate(context, &constant, &s.y, &s.z, true);
    check_degenerate(context, &s.x, &s.y, &constant, true);
    check_degenerate(context, &constant, &constant, &constant, true);
    check_degenerate(context, &s.x, &constant, &s.z, false);
    check_degenerate(context, &ties, &ties, &ties, false);
    check_degenerate(context, &copies, &copies, &copies, false);
    check_degenerate(context, &s.y, &s.y, &s.z, false);
    check_degenerate(context, &s.x, &s.y, &s.y, false);
    check_degenerate(context, &s.y, &s.y, &s.y, false);
    check_degenerate(context, &narrow, &s.y, &s.z, false);
    check_degenerate(context, &s.x, &wide, &s.z, false);
    check_degenerate(context, &wide, &s.y, &wide, false);
    circe_mat x8 = test_normal(1, 12, 1), y8 = test_normal(2, 12, 1), z8 = test_normal(3, 12, 1);
    check_degenerate(context, &x8, &y8, &z8, false);
}

/* No y is y of 0 columns is a constant y: the marginal test. */
static void empty_y(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(11, 200, 0.0);
    circe_mat none = test_zeros(200, 1, CIRCE_FLOAT64), constant = none, other = test_normal(99, 200, 1);
    none.cols = 0;
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        circe_test_result a = run(context, &s.x, NULL, &s.z, &options), b = run(context, &s.x, &none, &s.z, &options);
        circe_test_result c = run(context, &s.x, &constant, &s.z, &options);
        assert_true(a.p_value == b.p_value && a.statistic == b.statistic);
        assert_true(a.p_value < 0.01); /* x and z share y */
        if (methods[m] != CIRCE_TEST_RCOT) assert_near(a.statistic, c.statistic, 1e-6, a.statistic);
        assert_null(strstr(a.verdict, "given y"));
        assert_true(run(context, &s.x, NULL, &other, &options).p_value > 0.01);
    }
}

/* Equal weights are none; a row of weight 0 is not there; a weight of 2 is about the row twice. */
static void weights(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(12, 160, 0.15);
    double equal[160], half[160];
    int64_t kept[120];
    for (int64_t i = 0; i < 160; i++) {
        equal[i] = 7.0;
        half[i] = i < 120 ? 1.0 : 0.0;
        if (i < 120) kept[i] = i;
    }
    circe_mat x = test_rows(&s.x, kept, 120), y = test_rows(&s.y, kept, 120), z = test_rows(&s.z, kept, 120);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]), with = options;
        circe_test_result refused;
        if (methods[m] == CIRCE_TEST_SPLITKCI) {
            with.weights = equal;
            assert_refused(circe_test(context, &s.x, &s.y, &s.z, &with, &refused), CIRCE_ERR_UNSUPPORTED, "weights");
            continue;
        }
        if (methods[m] == CIRCE_TEST_HSIC) options.null = with.null = CIRCE_NULL_WILD;
        with.weights = equal;
        assert_near(run(context, &s.x, &s.y, &s.z, &with).p_value, run(context, &s.x, &s.y, &s.z, &options).p_value,
                    1e-9, 1.0);
        with.weights = half;
        circe_test_result part = run(context, &s.x, &s.y, &s.z, &with), alone = run(context, &x, &y, &z, &options);
        assert_near(part.p_value, alone.p_value, 1e-9, 1.0);
        assert_near(part.statistic, alone.statistic, 1e-9, fabs(alone.statistic));
        assert_true(part.n == 160 && part.n_used == 120);
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regression = CIRCE_GCM_LINEAR;
    for (int64_t i = 0; i < 160; i++) half[i] = i < 40 ? 2.0 : 1.0;
    circe_mat both[3];
    const circe_mat *single[3] = {&s.x, &s.y, &s.z};
    for (int k = 0; k < 3; k++) {
        both[k] = test_zeros(200, 1, CIRCE_FLOAT64);
        for (int64_t i = 0; i < 200; i++) test_set(&both[k], i, 0, test_at(single[k], i < 160 ? i : i - 160, 0));
    }
    circe_test_result twice = run(context, &both[0], &both[1], &both[2], &options);
    options.weights = half;
    circe_test_result weighted = run(context, &s.x, &s.y, &s.z, &options);
    assert_near(weighted.statistic, twice.statistic, 0.15, fabs(twice.statistic)); /* fewer independent rows */
}

/* Categories under a delta kernel: names do not matter, dependence through them is seen. */
static void categories(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(13, 300, 0.0);
    circe_mat z = test_categories(5, 300, 1, 3), renamed = test_copy(&z, CIRCE_FLOAT64), mixed = test_normal(6, 300, 2);
    const double names[] = {11.0, -4.0, 0.5};
    for (int64_t i = 0; i < 300; i++) {
        double category = test_at(&z, i, 0);
        test_set(&renamed, i, 0, names[(int)category]);
        if (category == 1.0) test_set(&s.x, i, 0, test_at(&s.x, i, 0) + 0.5);
        test_set(&mixed, i, 1, category);
    }
    const circe_test_method some[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_SPLITKCI};
    for (int64_t m = 0; m < COUNT(some); m++) {
        circe_test_options options = options_of(some[m]);
        options.kernel_z = test_kernel(context, "delta");
        circe_test_result a = run(context, &s.x, &s.y, &z, &options), b = run(context, &s.x, &s.y, &renamed, &options);
        assert_true(a.p_value == b.p_value && a.p_value < 0.01);
        options.kernel_z = test_kernel(context, "0:gaussian*1:delta");
        assert_true(run(context, &s.x, &s.y, &mixed, &options).p_value < 0.05);
        options.kernel_y = test_kernel(context, "0:gaussian*1:delta");
        options.kernel_z = NULL;
        assert_true(run(context, &s.x, &mixed, &s.z, &options).p_value <= 1.0);
    }
}

/* y of four values in no order: means of every value, no smoothness, no bias. x and z jump with y and are independent
 * given it; a regression that takes y for a line would see dependence. */
static void few_values(void **state) {
    (void)state;
    enum { N = 240 };
    circe_context *context = test_context(1);
    circe_mat x = test_normal(41, N, 1), y = test_categories(42, N, 1, 4), z = test_normal(43, N, 1);
    const double jump[] = {3.0, -2.0, 4.0, 0.0};
    for (int64_t i = 0; i < N; i++) {
        double at = jump[(int)test_at(&y, i, 0)];
        test_set(&x, i, 0, test_at(&x, i, 0) + at);
        test_set(&z, i, 0, test_at(&z, i, 0) - at);
    }
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_test_options options = options_of(methods[m]);
        if (methods[m] == CIRCE_TEST_HSIC || methods[m] == CIRCE_TEST_RCOT) continue;
        circe_test_result result = run(context, &x, &y, &z, &options);
        assert_true(result.p_value > 0.05 && result.z.sigma2_multiple == 0.0);
        assert_near(result.z.degrees, 4.0, 1e-6, 1.0);
        if (methods[m] != CIRCE_TEST_SPLITKCI) assert_true(result.z.check_p == 1.0);
    }
}

/* circe's mean: from the rows, from a split, with auxiliary rows; sizes are reported. */
static void circe_means(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(14, 200, 0.5), more = draw(15, 300, 0.5), none = draw(16, 200, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_CIRCE);
    options.mean = CIRCE_MEAN_SPLIT;
    options.test_share = 0.4;
    circe_test_result split = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(split.n_tested == 80 && split.n_train == 120 && split.p_value < 0.05);
    assert_true(run(context, &none.x, &none.y, &none.z, &options).p_value > 0.01);
    options.auxiliary_y = &more.y;
    options.auxiliary_z = &more.z;
    split = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(split.n_tested == 80 && split.n_train == 420 && split.p_value < 0.05);
    options.mean = CIRCE_MEAN_AUTO;
    circe_test_result all = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(all.n_tested == 200 && all.n_train == 300 && all.z.rows == 500 && all.p_value < 0.01);
}

static void refusals(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(17, 30, 0.0);
    circe_mat few = test_normal(1, 7, 1), other = test_normal(2, 29, 1), bad = test_copy(&s.x, CIRCE_FLOAT64);
    circe_test_result result;
    double weight[30] = {0}, negative[30], grid[] = {-1.0};
    for (int64_t i = 0; i < 30; i++) negative[i] = i == 3 ? -1.0 : 1.0;
    test_set(&bad, 4, 0, NAN);
    assert_refused(circe_test(NULL, &s.x, &s.y, &s.z, NULL, &result), CIRCE_ERR_ARGUMENT, "context");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, NULL, NULL), CIRCE_ERR_ARGUMENT, "result");
    assert_refused(circe_test(context, &few, &few, &few, NULL, &result), CIRCE_ERR_SHAPE, "at least 8 rows");
    assert_refused(circe_test(context, &s.x, &s.y, &other, NULL, &result), CIRCE_ERR_SHAPE, "same points");
    assert_refused(circe_test(context, &bad, &s.y, &s.z, NULL, &result), CIRCE_ERR_VALUE, "row 4");
    circe_test_options o = options_of(CIRCE_TEST_KCI);
    const circe_test_options fine = o;
    o.weights = weight;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "positive weight");
    o.weights = negative;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_VALUE, "row 3");
    o = fine;
    o.null = CIRCE_NULL_PERMUTATION;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "permutation");
    o = fine;
    o.draws = 0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "draws");
    o = fine;
    o.undersmoothing = 0.0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "undersmoothing");
    o = fine;
    o.alpha = 1.0;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "alpha");
    o = fine;
    o.ridge = grid;
    o.n_ridge = 1;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "ridge");
    o = fine;
    o.auxiliary_y = &s.y;
    o.auxiliary_z = &s.z;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "circe");
    o.method = CIRCE_TEST_CIRCE;
    o.auxiliary_z = &other;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "auxiliary");
    o = options_of(CIRCE_TEST_HSIC);
    o.weights = negative;
    negative[3] = 1.0;
    o.null = CIRCE_NULL_PERMUTATION;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "gamma");
    o = options_of(CIRCE_TEST_GCM);
    o.null = CIRCE_NULL_NORMAL;
    circe_mat two = test_normal(8, 30, 2);
    assert_refused(circe_test(context, &two, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "multiplier");
    o = options_of(CIRCE_TEST_RCOT);
    o.kernel_x = test_kernel(context, "linear");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_UNSUPPORTED, "linear");
    o = fine;
    o.kernel_y = test_kernel(context, "3:gaussian");
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_SHAPE, "y");
    o = fine;
    o.method = (circe_test_method)12;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &o, &result), CIRCE_ERR_ARGUMENT, "method");
    circe_test_method method;
    circe_test_null null;
    assert_refused(circe_test_method_parse("kcii", &method), CIRCE_ERR_ARGUMENT, "splitkci");
    assert_refused(circe_test_null_parse("beta", &null), CIRCE_ERR_ARGUMENT, "gamma");
    for (int64_t m = 0; m < COUNT(methods); m++) {
        assert_ok(circe_test_method_parse(circe_test_method_name(methods[m]), &method));
        assert_int_equal(method, methods[m]);
    }
    assert_ok(circe_test_null_parse("wild", &null));
    assert_int_equal(null, CIRCE_NULL_WILD);
}

/* ---- trust --------------------------------------------------------------------------------------------------------
 */

/* A regression that cannot follow: a linear kernel of y where x and z are waves of it. The p-value is wrong, and the
 * verdict says so. */
static void mistrust(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(18, 400, 0.0);
    for (int64_t i = 0; i < 400; i++) {
        double y = test_at(&s.y, i, 0);
        test_set(&s.x, i, 0, sin(3.0 * y) + 0.2 * test_at(&s.x, i, 0));
        test_set(&s.z, i, 0, sin(3.0 * y) + 0.2 * test_at(&s.z, i, 0));
    }
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.regression = CIRCE_GCM_LINEAR;
    circe_test_result bad = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(bad.p_value < 0.01 && bad.trust == CIRCE_TRUST_POOR && bad.z.check_p < 1e-4);
    assert_non_null(strstr(bad.verdict, "Do not trust it"));
    options.regression = CIRCE_GCM_KERNEL;
    circe_test_result good = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(good.trust == CIRCE_TRUST_GOOD && good.z.check_p > 0.01);
    assert_string_equal(circe_trust_name(good.trust), "good");
}

/* ---- calibration --------------------------------------------------------------------------------------------------
 */

/* p-values of a dependent data set drawn again without dependence: not small. The summary of known lists. */
static void calibration(void **state) {
    (void)state;
    enum { R = 40 };
    circe_context *context = test_context(1);
    sample s = draw(19, 150, 0.6);
    double p[R], again[R], even[100], low[100];
    int64_t counts[10];
    circe_calibration summary;
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_true(run(context, &s.x, &s.y, &s.z, &options).p_value < 0.01);
    assert_ok(circe_test_calibrate(context, &s.x, &s.y, &s.z, &options, R, p));
    assert_ok(circe_test_calibrate(test_context(2), &s.x, &s.y, &s.z, &options, R, again));
    for (int64_t r = 0; r < R; r++) assert_near(p[r], again[r], 1e-9, 1.0);
    assert_ok(circe_calibration_summary(p, R, 0.05, 10, counts, &summary));
    assert_true(summary.trust == CIRCE_TRUST_GOOD && summary.uniform_p > 0.001);
    for (int64_t i = 0; i < 100; i++) {
        even[i] = ((double)i + 0.5) / 100.0;
        low[i] = even[i] * even[i] * even[i];
    }
    assert_ok(circe_calibration_summary(even, 100, 0.05, 10, counts, &summary));
    assert_true(summary.level == 0.05 && summary.level_lower < 0.05 && summary.level_upper > 0.05);
    for (int k = 0; k < 10; k++) assert_int_equal(counts[k], 10);
    assert_true(summary.uniform_p > 0.99);
    assert_ok(circe_calibration_summary(low, 100, 0.05, 0, NULL, &summary));
    assert_true(summary.trust == CIRCE_TRUST_POOR && summary.uniform_p < 1e-4);
    assert_refused(circe_calibration_summary(even, 0, 0.05, 0, NULL, &summary), CIRCE_ERR_ARGUMENT, "at least 1");
    assert_refused(circe_test_calibrate(context, &s.x, &s.y, &s.z, &options, 0, p), CIRCE_ERR_ARGUMENT, "repetition");
}

/* ---- effects ------------------------------------------------------------------------------------------------------
 */

/* The normalised value is the sum over pairs of different rows that the definition says. */
static void effect_definition(void **state) {
    (void)state;
    enum { N = 15, P = 3, Q = 2 };
    circe_context *context = test_context(1);
    circe_mat left = test_normal(81, N, P), right = test_normal(82, N, Q);
    circe__data data = bare(context, N);
    circe__sides sides = {N, {N, P, left.data}, {N, Q, right.data}};
    double sums[3] = {0}, M[P * Q], value, norm;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) {
            double l = 0.0, r = 0.0;
            if (i == j) continue;
            for (int64_t a = 0; a < P; a++) l += test_at(&left, i, a) * test_at(&left, j, a);
            for (int64_t b = 0; b < Q; b++) r += test_at(&right, i, b) * test_at(&right, j, b);
            sums[0] += l * r;
            sums[1] += l * l;
            sums[2] += r * r;
        }
    assert_ok(circe__sides_sums(&data, &sides, NULL, N, M, &value, &norm));
    assert_near(value, sums[0] / sqrt(sums[1] * sums[2]), 1e-12, 1.0);
    assert_near(norm, sqrt(sums[1] * sums[2]), 1e-12, norm);
}

static void effects(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample none = draw(20, 300, 0.0), some = draw(21, 300, 0.3), much = draw(22, 300, 2.0);
    circe_effects e[3];
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_ok(circe_test_effects(context, &none.x, &none.y, &none.z, &options, 60, &e[0]));
    assert_ok(circe_test_effects(context, &some.x, &some.y, &some.z, &options, 60, &e[1]));
    assert_ok(circe_test_effects(context, &much.x, &much.y, &much.z, &options, 60, &e[2]));
    for (int k = 0; k < 3; k++) {
        const circe_effect *both[] = {&e[k].kpc, &e[k].circe};
        for (int b = 0; b < 2; b++)
            assert_true(both[b]->lower >= 0.0 && both[b]->lower <= both[b]->value && both[b]->value <= both[b]->upper &&
                        both[b]->upper <= 1.0 && both[b]->chance < 0.1);
    }
    assert_true(e[0].circe.value < 0.02 && e[0].circe.lower == 0.0);
    assert_true(e[1].circe.lower > 0.0 && e[2].circe.value > 0.4 && e[2].kpc.value > 0.7);
    assert_true(e[0].kpc.value < e[1].kpc.value && e[1].kpc.value < e[2].kpc.value);
    assert_ok(circe_test_effects(context, &much.x, NULL, &much.z, &options, 20, &e[0]));
    assert_refused(circe_test_effects(context, &much.x, NULL, &much.z, &options, 5, &e[0]), CIRCE_ERR_ARGUMENT, "20");
}

/* Dependence where y > 0 alone: above the bound there, not elsewhere; the mean over places is near the effect. */
static void along_y(void **state) {
    (void)state;
    enum { N = 600, PLACES = 8 };
    circe_context *context = test_context(1);
    sample s = draw(23, N, 0.0);
    for (int64_t i = 0; i < N; i++) {
        double y = test_at(&s.y, i, 0), z = test_at(&s.z, i, 0);
        if (y > 0.0) test_set(&s.x, i, 0, y + z - sin(y));
    }
    double place[PLACES], value[PLACES], lower[PLACES], upper[PLACES], bound[PLACES];
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_ok(circe_test_along(context, &s.x, &s.y, &s.z, &options, 0, PLACES, place, value, lower, upper, bound));
    for (int g = 0; g < PLACES; g++) {
        assert_true(lower[g] <= value[g] && value[g] <= upper[g]);
        assert_true(g == 0 || place[g] > place[g - 1]);
        if (place[g] > 0.5) assert_true(value[g] > bound[g] && lower[g] > 0.0);
        if (place[g] < -0.5) assert_true(value[g] <= bound[g] + 1e-3);
    }
    assert_refused(circe_test_along(context, &s.x, &s.y, &s.z, &options, 1, PLACES, place, value, lower, upper, bound),
                   CIRCE_ERR_SHAPE, "column 1");
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */

/* Every allocation fails once: reported as such, nothing left behind. */
static void out_of_memory(void **state) {
    (void)state;
    static test_allocator counter;
    circe_context_options context_options;
    circe_context_options_init(&context_options);
    context_options.threads = 1;
    context_options.allocator = test_counting(&counter);
    circe_context *context = test_context_with(&context_options);
    circe_mat x = test_normal(1, 24, 1), y = test_normal(2, 24, 1), z = test_normal(3, 24, 1);
    const double one[] = {1.0};
    for (int64_t m = 0; m < COUNT(methods) + 4; m++) {
        circe_test_options options = options_of(m < COUNT(methods) ? methods[m] : CIRCE_TEST_CIRCE);
        options.draws = 20;
        options.width = options.ridge = one;
        options.n_width = options.n_ridge = 1;
        options.features_y = 5;
        if (m == COUNT(methods)) options.mean = CIRCE_MEAN_SPLIT;
        int64_t before = counter.live;
        for (int64_t k = 0;; k++) {
            circe_test_result result;
            circe_effects made;
            double p[2], a[2], b[2], c[2], d[2];
            counter.calls = 0;
            counter.failed = false;
            counter.fail_at = k;
            circe_status status;
            if (m == COUNT(methods) + 1)
                status = circe_test_calibrate(context, &x, &y, &z, &options, 1, p);
            else if (m == COUNT(methods) + 2)
                status = circe_test_effects(context, &x, &y, &z, &options, 20, &made);
            else if (m == COUNT(methods) + 3)
                status = circe_test_along(context, &x, &y, &z, &options, 0, 2, a, b, c, d, p);
            else
                status = circe_test(context, &x, &y, &z, &options, &result);
            counter.fail_at = -1;
            assert_int_equal(counter.live, before);
            if (!counter.failed) {
                assert_int_equal(status, CIRCE_OK);
                break;
            }
            assert_int_equal(status, CIRCE_ERR_MEMORY);
            if (k > 60) k += k / 8; /* the tail in strides: its calls repeat */
        }
    }
}

TEST_MAIN("inference", TEST(gamma_tails), TEST(weighted_tails), TEST(ranks), TEST(wild_draws), TEST(moments),
          TEST(regressions), TEST(undersmoothing), TEST(kci_statistic), TEST(hsic_statistic), TEST(gcm_statistic),
          TEST(fourier_features), TEST(threads_and_seeds), TEST(threads_on_many_rows), TEST(decisions),
          TEST(nulls_agree), TEST(degenerate_data), TEST(empty_y), TEST(weights), TEST(categories), TEST(few_values),
          TEST(circe_means), TEST(refusals), TEST(mistrust), TEST(calibration), TEST(effect_definition), TEST(effects),
          TEST(along_y), TEST(out_of_memory))
