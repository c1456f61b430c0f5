/* Kernels: each against its formula, products, ranges of columns, both precisions and odd sizes; the text form, there
 * and back; the median heuristic against sorting all pairs. */
#include "tests/support.h"

/* ---- Gram matrices -------------------------------------------------------------------------------------------------
 */

/* 1e-14 in float64, a few units of the last place in an exponent of order ten; 2e-6 in float32, for the same reason. */
static void gram_matrices(void **state) {
    static const struct {
        const char *text;
        int64_t cols;
    } cases[] = {
        {"gaussian(0.7)", 1},
        {"gaussian(3)", 5},
        {"laplace(0.7)", 1},
        {"laplace(3)", 6},
        {"linear", 1},
        {"linear", 17},
        {"delta", 1},
        {"delta", 2},
        {"0:gaussian(1)*1:laplace(2)*2:linear*3:delta", 4},
        {"0-1:gaussian(2)*2-:delta", 4},
        {"1-:laplace(1)*gaussian(4)", 3},
        {"linear*linear*0:delta", 3},
    };
    static const int64_t sizes[][2] = {{1, 1}, {3, 70}, {64, 64}, {65, 33}, {130, 7}};
    (void)state;
    circe_context *context = test_context(0);
    for (int64_t k = 0; k < COUNT(cases); k++)
        for (int64_t s = 0; s < COUNT(sizes); s++)
            for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
                circe_kernel *kernel = test_kernel(context, cases[k].text);
                bool codes = strstr(cases[k].text, "delta") != NULL;
                int64_t d = cases[k].cols, n = sizes[s][0], m = sizes[s][1];
                circe_mat a = codes ? test_categories(1, n, d, 3) : test_normal(1, n, d);
                circe_mat b = codes ? test_categories(2, m, d, 3) : test_normal(2, m, d);
                /* What float32 holds exactly, so that the formula sees the same points. */
                circe_mat a32 = test_copy(&a, CIRCE_FLOAT32), b32 = test_copy(&b, CIRCE_FLOAT32);
                a = test_copy(&a32, CIRCE_FLOAT64), b = test_copy(&b32, CIRCE_FLOAT64);
                circe_mat expected = test_zeros(n, m, CIRCE_FLOAT64), out = test_zeros(n, m, dtype);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < m; j++)
                        test_set(&expected, i, j,
                                 test_kernel_value(kernel, (const double *)a.data + i * d,
                                                   (const double *)b.data + j * d, d));
                if (dtype == CIRCE_FLOAT32)
                    assert_ok(circe_gram(context, kernel, &a32, &b32, &out));
                else
                    assert_ok(circe_gram(context, kernel, &a, &b, &out));
                assert_mat_near(&out, &expected, dtype == CIRCE_FLOAT64 ? 1e-14 : 2e-6);
            }
}

/* The laplace kernel of width 1 at distance t is exp(-t), with nothing rounded before it (sqrt(t^2) = t): within 1.5
 * units of the last place all the way down, and exactly 1 at 0. */
static void exponentials(void **state) {
    enum { N = 20000 };
    (void)state;
    circe_context *context = test_context(1);
    circe_kernel *kernel = test_kernel(context, "laplace(1)");
    for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
        double lowest = dtype == CIRCE_FLOAT32 ? 86.9 : 344.0, unit = dtype == CIRCE_FLOAT32 ? 0x1p-23 : 0x1p-52;
        circe_mat origin = test_zeros(1, 1, dtype), points = test_zeros(N, 1, dtype), out = test_zeros(1, N, dtype);
        for (int64_t i = 0; i < N; i++) test_set(&points, i, 0, lowest * pow((double)i / (N - 1), 3.0));
        assert_ok(circe_gram(context, kernel, &origin, &points, &out));
        assert_true(test_at(&out, 0, 0) == 1.0);
        for (int64_t i = 1; i < N; i++) {
            double truth = exp(-test_at(&points, i, 0));
            assert_near(test_at(&out, 0, i), truth, 1.5 * unit, truth);
        }
    }
}

/* Far away a kernel is nothing, not NaN; at no distance exactly one. */
static void extremes(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const char *const kernels[] = {"gaussian(1)", "laplace(1)", "gaussian(1e-12)", "delta"};
    for (int64_t k = 0; k < COUNT(kernels); k++) {
        double far[] = {0.0, 1e6, -1e150};
        float near[] = {0.0f, 1e6f, -1e18f};
        double out[9];
        float out32[9];
        circe_mat a = circe_mat_f64(far, 3, 1), a32 = circe_mat_f32(near, 3, 1);
        circe_mat gram = circe_mat_f64(out, 3, 3), gram32 = circe_mat_f32(out32, 3, 3);
        assert_ok(circe_gram(context, test_kernel(context, kernels[k]), &a, &a, &gram));
        assert_ok(circe_gram(context, test_kernel(context, kernels[k]), &a32, &a32, &gram32));
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                assert_true(i == j ? out[i * 3 + j] == 1.0 : out[i * 3 + j] >= 0.0 && out[i * 3 + j] < 1e-300);
                assert_true(i == j ? out32[i * 3 + j] == 1.0f : out32[i * 3 + j] >= 0.0f && out32[i * 3 + j] < 1e-37f);
            }
    }
}

static int stop_at(void *user, const char *stage, int64_t done, int64_t total) {
    int64_t *calls = user;
    assert_true(strcmp(stage, "gram") == 0 && done <= total);
    return --*calls == 0;
}

/* A large one is made in blocks of rows: the caller can stop it, and the bits are those of any part. */
static void gram_in_blocks(void **state) {
    (void)state;
    enum { ROWS = 2100, COLS = 5000, FIRST = 1664 };
    int64_t calls = 1;
    circe_context_options options;
    circe_context_options_init(&options);
    options.progress = stop_at;
    options.progress_user = &calls;
    circe_context *context = test_context_with(&options);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    circe_mat a64 = test_normal(1, ROWS, 2), b64 = test_normal(2, COLS, 2);
    circe_mat a = test_copy(&a64, CIRCE_FLOAT32), b = test_copy(&b64, CIRCE_FLOAT32);
    circe_mat out = test_zeros(ROWS, COLS, CIRCE_FLOAT32), part = test_zeros(2, COLS, CIRCE_FLOAT32);
    assert_refused(circe_gram(context, kernel, &a, &b, &out), CIRCE_ERR_CANCELLED, "during: gram");
    assert_ok(circe_gram(context, kernel, &a, &b, &out));
    assert_true(calls < 0);
    circe_mat rows = {(float *)a.data + FIRST * a.ld, 2, a.cols, a.ld, a.dtype};
    assert_ok(circe_gram(context, kernel, &rows, &b, &part));
    for (int64_t i = 0; i < 2; i++)
        assert_memory_equal((float *)part.data + i * part.ld, (float *)out.data + (FIRST + i) * out.ld,
                            COLS * sizeof(float));
}

static void gram_refuses(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)"), *unbound = test_kernel(context, "gaussian*0:delta");
    circe_mat a = test_normal(1, 4, 3), b = test_normal(2, 5, 3), c = test_normal(3, 5, 2);
    circe_mat out = test_zeros(4, 5, CIRCE_FLOAT64), out32 = test_zeros(4, 5, CIRCE_FLOAT32);
    assert_refused(circe_gram(context, kernel, &a, &c, &out), CIRCE_ERR_SHAPE, "4 by 3, b 5 by 2");
    assert_refused(circe_gram(context, kernel, &b, &b, &out), CIRCE_ERR_SHAPE, "out must be");
    assert_refused(circe_gram(context, kernel, &a, &b, &out32), CIRCE_ERR_ARGUMENT, "the same dtype");
    assert_refused(circe_gram(context, unbound, &a, &b, &out), CIRCE_ERR_ARGUMENT, "no width yet");
    assert_refused(circe_gram(context, test_kernel(context, "3:gaussian(1)"), &a, &b, &out), CIRCE_ERR_SHAPE,
                   "columns that a and b does not have: it has 3");
    assert_refused(circe_gram(context, test_kernel(context, "1-3:linear"), &a, &b, &out), CIRCE_ERR_SHAPE,
                   "1-3:linear");
    assert_refused(circe_gram(context, kernel, NULL, &b, &out), CIRCE_ERR_ARGUMENT, "a must not be NULL");
    test_set(&a, 3, 2, INFINITY);
    assert_refused(circe_gram(context, kernel, &a, &b, &out), CIRCE_ERR_VALUE, "an infinity at row 3, column 2");
    a.ld = 2;
    assert_refused(circe_gram(context, kernel, &a, &b, &out), CIRCE_ERR_SHAPE, "row distance");
    a.ld = 3, a.dtype = (circe_dtype)9;
    assert_refused(circe_gram(context, kernel, &a, &b, &out), CIRCE_ERR_ARGUMENT, "dtype 9");
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_round_trip(void **state) {
    static const struct {
        const char *text, *printed;
        int64_t factors, free;
    } cases[] = {
        {"gaussian", "gaussian", 1, 1},
        {"laplace(0.5)", "laplace(0.5)", 1, 0},
        {"0-2:gaussian*3:delta", "0-2:gaussian*3:delta", 2, 1},
        {" 4-:laplace(1e3) * 0:linear ", "4-:laplace(1000)*0:linear", 2, 0},
        {"gaussian(0.1)", "gaussian(0.10000000000000001)", 1, 0},
        {"0:gaussian*1:gaussian*2:gaussian(2)", "0:gaussian*1:gaussian*2:gaussian(2)", 3, 2},
        {"2147483647:linear", "2147483647:linear", 1, 0},
    };
    (void)state;
    circe_context *context = test_context(1);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        circe_kernel *kernel = test_kernel(context, cases[k].text);
        assert_string_equal(circe_kernel_text(kernel), cases[k].printed);
        assert_int_equal(circe_kernel_n_factors(kernel), cases[k].factors);
        assert_int_equal(circe_kernel_n_free(kernel), cases[k].free);
        circe_kernel *back = test_kernel(context, circe_kernel_text(kernel)), *copy = NULL;
        assert_ok(circe_kernel_copy(kernel, &copy));
        for (int64_t f = 0; f < cases[k].factors; f++) {
            circe_kernel_factor a, b, c;
            assert_ok(circe_kernel_get_factor(kernel, f, &a));
            assert_ok(circe_kernel_get_factor(back, f, &b));
            assert_ok(circe_kernel_get_factor(copy, f, &c));
            assert_true(a.kind == b.kind && a.sigma2 == b.sigma2);
            assert_true(a.first_col == b.first_col && a.n_cols == b.n_cols);
            assert_true(a.kind == c.kind && a.sigma2 == c.sigma2);
            assert_true(a.first_col == c.first_col && a.n_cols == c.n_cols);
        }
        circe_kernel_destroy(copy);
    }
}

static void text_refusals(void **state) {
    static const char *const cases[] = {
        "",
        "gauss",
        "Gaussian",
        "gaussian(",
        "gaussian()",
        "gaussian(-1)",
        "gaussian(0)",
        "gaussian(x)",
        "gaussian(nan)",
        "laplace(inf)",
        "linear(2)",
        "delta(1)",
        "3-1:gaussian",
        "0:",
        "0:gaussian*",
        "*gaussian",
        "gaussian x",
        "0 gaussian",
        "99999999999:linear",
        "-1:linear",
        "gaussian(1",
        "gaussian(1))",
        "0-1-2:linear",
        "gaussian,linear",
        "4-99999999999:linear",
    };
    (void)state;
    circe_context *context = test_context(1);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        circe_kernel *kernel = (circe_kernel *)context; /* must become NULL */
        char quoted[64];
        snprintf(quoted, sizeof quoted, "kernel '%s'", cases[k]);
        assert_refused(circe_kernel_parse(context, cases[k], &kernel), CIRCE_ERR_ARGUMENT, quoted);
        assert_null(kernel);
    }
}

static void building(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_kernel *kernel = NULL;
    assert_ok(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, 0.0, &kernel));
    circe_kernel_factor factor = {.kind = CIRCE_KERNEL_LAPLACE, .sigma2 = 2.0, .first_col = 1, .n_cols = 2};
    assert_ok(circe_kernel_multiply(kernel, &factor));
    assert_string_equal(circe_kernel_text(kernel), "gaussian*1-2:laplace(2)");
    assert_ok(circe_kernel_bind(kernel, 3.0)); /* free factors only */
    assert_string_equal(circe_kernel_text(kernel), "gaussian(3)*1-2:laplace(2)");
    assert_int_equal(circe_kernel_n_free(kernel), 0);
    assert_refused(circe_kernel_bind(kernel, -1.0), CIRCE_ERR_ARGUMENT, "it must be positive");
    factor.n_cols = 0;
    assert_refused(circe_kernel_multiply(kernel, &factor), CIRCE_ERR_ARGUMENT, "0 columns");
    factor = (circe_kernel_factor){.kind = CIRCE_KERNEL_GAUSSIAN, .sigma2 = NAN, .n_cols = -1};
    assert_refused(circe_kernel_multiply(kernel, &factor), CIRCE_ERR_ARGUMENT, "sigma2 of the gaussian kernel");
    assert_refused(circe_kernel_get_factor(kernel, 2, &factor), CIRCE_ERR_ARGUMENT, "no factor 2");
    circe_kernel_destroy(kernel);
    assert_refused(circe_kernel_create(context, (circe_kernel_kind)7, 1.0, &kernel), CIRCE_ERR_ARGUMENT, "kind 7");
    assert_null(kernel);
    assert_refused(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, -2.0, &kernel), CIRCE_ERR_ARGUMENT, "-2");
    assert_int_equal(circe_kernel_n_factors(NULL), 0);
    assert_string_equal(circe_kernel_text(NULL), "");
    circe_kernel_destroy(NULL);
}

/* ---- the median heuristic ---------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every pair, sorted; zeros left out where they are more than half. */
static double median_by_sorting(const circe_mat *points, int64_t first, int64_t n_cols) {
    int64_t n = points->rows, count = 0;
    double *squares = malloc((size_t)(n * (n - 1) / 2) * sizeof *squares);
    assert_non_null(squares);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double square = 0.0;
            for (int64_t c = first; c < first + n_cols; c++) {
                double difference = test_at(points, i, c) - test_at(points, j, c);
                square += difference * difference;
            }
            squares[count++] = square;
        }
    qsort(squares, (size_t)count, sizeof *squares, by_size);
    int64_t from = 0;
    if (0.5 * (squares[(count - 1) / 2] + squares[count / 2]) == 0.0)
        while (from < count && squares[from] == 0.0) from++;
    double low = squares[from + (count - from - 1) / 2], high = squares[from + (count - from) / 2];
    free(squares);
    return 0.5 * (low + high);
}

static void median_of_few(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    for (int64_t n = 2; n < 40; n++) {
        circe_mat points = test_normal((uint64_t)n, n, 4), codes = test_categories((uint64_t)n, n, 1, 7);
        double sigma2 = NAN, expected = median_by_sorting(&points, 1, 2);
        assert_ok(circe_median_sigma2(context, &points, 1, 2, &sigma2));
        assert_near(sigma2, expected, 1e-15, expected);
        expected = median_by_sorting(&points, 0, 4);
        assert_ok(circe_median_sigma2(context, &points, 0, -1, &sigma2));
        assert_near(sigma2, expected, 1e-15, expected);
        circe_mat points32 = test_copy(&points, CIRCE_FLOAT32);
        expected = median_by_sorting(&points32, 3, 1);
        assert_ok(circe_median_sigma2(context, &points32, 3, -1, &sigma2));
        assert_near(sigma2, expected, 1e-15, expected);
        if (n < 20) continue; /* ties, in whole numbers */
        expected = median_by_sorting(&codes, 0, 1);
        assert_ok(circe_median_sigma2(context, &codes, 0, 1, &sigma2));
        assert_true(sigma2 == expected);
    }
    circe_mat exact = test_normal(77, 2048, 1);
    double sigma2 = NAN, expected = median_by_sorting(&exact, 0, 1);
    assert_ok(circe_median_sigma2(context, &exact, 0, -1, &sigma2));
    assert_near(sigma2, expected, 1e-15, expected); /* still every pair */
}

static void median_with_ties(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_mat points = test_zeros(30, 1, CIRCE_FLOAT64);
    double sigma2 = NAN;
    assert_refused(circe_median_sigma2(context, &points, 0, -1, &sigma2), CIRCE_ERR_VALUE, "all points are equal");
    test_set(&points, 4, 0, 3.0); /* 29 pairs at distance 3 out of 435 */
    assert_ok(circe_median_sigma2(context, &points, 0, -1, &sigma2));
    assert_true(sigma2 == 9.0);
    test_set(&points, 5, 0, -5.0); /* 28 at 3, 28 at 5, one at 8 */
    assert_ok(circe_median_sigma2(context, &points, 0, -1, &sigma2));
    assert_true(sigma2 == median_by_sorting(&points, 0, 1) && sigma2 == 25.0);
}

/* Beyond 2,048 rows a fixed subset: the same every time, and near the median of all pairs. The spread of a median of
 * pairs over 2,048 rows is 1.5 % of sigma2 for normal data; 6 % are four of them. */
static void median_of_many(void **state) {
    (void)state;
    circe_context *context = test_context(1), *other = test_context(2);
    circe_mat points = test_normal(88, 100000, 2);
    double sigma2 = NAN, again = NAN;
    assert_ok(circe_median_sigma2(context, &points, 0, 1, &sigma2));
    assert_ok(circe_median_sigma2(other, &points, 0, 1, &again));
    assert_true(sigma2 == again);
    double truth = 2.0 * 0.6744897501960817 * 0.6744897501960817; /* the difference of two is N(0, 2) */
    assert_near(sigma2, truth, 0.06, truth);
    assert_ok(circe_median_sigma2(context, &points, 0, 2, &sigma2));
    assert_near(sigma2, 4.0 * log(2.0), 0.06, 4.0 * log(2.0)); /* twice a chi-squared of two degrees */
}

static void median_binds(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_mat points = test_normal(99, 50, 3);
    circe_kernel *kernel = test_kernel(context, "0:gaussian*1-2:laplace*gaussian(7)");
    assert_ok(circe_kernel_bind_median(kernel, &points));
    circe_kernel_factor factor;
    assert_ok(circe_kernel_get_factor(kernel, 0, &factor));
    double expected = median_by_sorting(&points, 0, 1);
    assert_near(factor.sigma2, expected, 1e-15, expected);
    assert_ok(circe_kernel_get_factor(kernel, 1, &factor));
    expected = median_by_sorting(&points, 1, 2);
    assert_near(factor.sigma2, expected, 1e-15, expected);
    assert_ok(circe_kernel_get_factor(kernel, 2, &factor));
    assert_true(factor.sigma2 == 7.0);
    double sigma2 = NAN;
    assert_refused(circe_median_sigma2(context, &points, 2, 2, &sigma2), CIRCE_ERR_SHAPE, "outside the 3 columns");
    points.rows = 1;
    assert_refused(circe_median_sigma2(context, &points, 0, -1, &sigma2), CIRCE_ERR_SHAPE, "at least 2 rows");
}

/* Scaling by a power of two is exact: the width scales with the points, until no double can hold it. */
static void median_at_the_edge(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    const int safe[] = {400, 505, -400, -505}, beyond[] = {600, 1000, -600, -990};
    circe_mat points = test_normal(12, 40, 2), scaled = test_zeros(40, 2, CIRCE_FLOAT64);
    double sigma2 = NAN, expected = NAN, sorted = median_by_sorting(&points, 0, 2);
    assert_ok(circe_median_sigma2(context, &points, 0, -1, &expected));
    assert_near(expected, sorted, 1e-15, sorted); /* where products are fused, the last digit differs */
    for (int k = 0; k < 8; k++) {
        int exponent = k < 4 ? safe[k] : beyond[k - 4];
        for (int64_t i = 0; i < 40; i++)
            for (int64_t c = 0; c < 2; c++) test_set(&scaled, i, c, ldexp(test_at(&points, i, c), exponent));
        if (k >= 4) {
            assert_refused(circe_median_sigma2(context, &scaled, 0, -1, &sigma2), CIRCE_ERR_VALUE,
                           "whose square no double can hold");
            continue;
        }
        assert_ok(circe_median_sigma2(context, &scaled, 0, -1, &sigma2));
        assert_true(sigma2 == ldexp(expected, 2 * exponent));
    }
}

TEST_MAIN("kernels", TEST(gram_matrices), TEST(exponentials), TEST(extremes), TEST(gram_in_blocks), TEST(gram_refuses),
          TEST(text_round_trip), TEST(text_refusals), TEST(building), TEST(median_of_few), TEST(median_with_ties),
          TEST(median_of_many), TEST(median_binds), TEST(median_at_the_edge))
