/* What the tests of conditional independence are made of: tails against closed forms; nulls, regressions, statistics
 * and the effect's sums against their definitions by brute force. */
#include "inference/effect.h"
#include "inference/fourier.h"
#include "inference/inference_parts.h"
#include "tests/inference/inference_support.h"

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
    /* About its mean the formula is 0 / 0 and its limit takes over, with a jump of 1e-3. */
    assert_near(circe__weighted_tail(mixture, 4, 6.0), circe__weighted_tail(mixture, 4, 6.001), 2e-3, 1.0);
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
        assert_near(variance, square, 1e-6, square); /* pairs are multiplied in single precision */
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
    assert_ok(circe__spectrum_make(&data, &(circe__sight){CIRCE__KERNEL, 0, 1.0, 0, 0.0}, &spectrum));
    assert_ok(circe__regressor_set(&data, &spectrum, ridge, &regressor));
    circe__table target = {N, 1, test_memory(N * sizeof(double)), NULL};
    circe__table residual = {N, 1, test_memory(N * sizeof(double)), NULL};
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
    options.regressor = CIRCE_REGRESSOR_LINEAR;
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

/* Of any size, to two units in the last place of 1: near multiples of pi / 2, beyond what the series takes, in vectors
 * and in what is left of them. */
static void cosines(void **state) {
    (void)state;
    enum { N = 1203 };
    const circe__loops *loops = circe__loops_for(test_context(1)->backend, CIRCE_FLOAT64);
    double v[N], x[N];
    for (int64_t i = 0; i < N; i++) {
        double near = M_PI_2 * (double)(i - N / 2) * (i % 5 == 0 ? 997.0 : 1.0);
        x[i] = v[i] = i % 7 == 3 ? near * 1e7 : i % 2 == 0 ? near : 1.37 * near + 0.1;
    }
    v[5] = x[5] = NAN;
    loops->cosines(N, v);
    assert_true(isnan(v[5]));
    for (int64_t i = 0; i < N; i++)
        if (i != 5) assert_near(v[i], cos(x[i]), 5e-16, 1.0);
}

/* The normalised value is the sum over pairs of different rows that the definition says. */
static void effect_definition(void **state) {
    (void)state;
    enum { N = 15, P = 3, Q = 2 };
    circe_context *context = test_context(1);
    circe_mat left = test_normal(81, N, P), right = test_normal(82, N, Q);
    circe__data data = bare(context, N);
    circe__sides sides = {N, {N, P, left.data, NULL}, {N, Q, right.data, NULL}};
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

TEST_MAIN("inference_definitions", TEST(gamma_tails), TEST(weighted_tails), TEST(ranks), TEST(wild_draws),
          TEST(moments), TEST(regressions), TEST(undersmoothing), TEST(kci_statistic), TEST(hsic_statistic),
          TEST(gcm_statistic), TEST(fourier_features), TEST(cosines), TEST(effect_definition))
