/* Rows in random order among rows of equal y: against the exact distribution of a table of counts, levels where classes
 * are rare, and what is refused. What rows of equal and of like y object to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "circe/circe.h"
#include "tests/support.h"

enum { ROWS = 60 };

static circe_context *make_context(int threads) {
    circe_context_options options;
    circe_context *context = NULL;
    circe_context_options_init(&options);
    options.threads = threads;
    assert_int_equal(circe_context_create(&options, &context), CIRCE_OK);
    return context;
}

static circe_test_result run(circe_context *context, circe_test_method method, int64_t draws, uint64_t seed, double *x,
                             double *y, double *z, int64_t n) {
    circe_test_options options;
    circe_test_result result;
    circe_test_options_init(&options);
    options.method = method;
    options.draws = draws;
    options.seed = seed;
    circe_mat a = circe_mat_f64(x, n, 1), b = circe_mat_f64(y, n, 1), c = circe_mat_f64(z, n, 1);
    assert_int_equal(circe_test(context, &a, &b, &c, &options, &result), CIRCE_OK);
    return result;
}

static double log_choose(int64_t n, int64_t k) {
    return lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1);
}

/* P(the count of rows with x = z = 1 is as far from its mean as `seen`), of a table with these margins. */
static double exact_p(int64_t n, int64_t ones_x, int64_t ones_z, int64_t seen) {
    double mean = (double)ones_x * (double)ones_z / (double)n, p = 0.0;
    for (int64_t k = 0; k <= ones_x && k <= ones_z; k++) {
        if (n - ones_x < ones_z - k) continue;
        if (fabs((double)k - mean) < fabs((double)seen - mean) - 1e-9) continue;
        p += exp(log_choose(ones_x, k) + log_choose(n - ones_x, ones_z - k) - log_choose(n, ones_z));
    }
    return p;
}

/* One value of y: every method's statistic orders the orders as the count does. */
static void counts_are_exact(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    circe_context *context = make_context(2);
    for (int64_t seen = 0; seen <= 4; seen += 2) {
        double x[ROWS] = {0}, y[ROWS], z[ROWS] = {0};
        for (int64_t i = 0; i < ROWS; i++) y[i] = 3.0;
        for (int64_t i = 0; i < 8; i++) x[i] = 1.0;
        for (int64_t i = 8 - seen; i < 8 - seen + 12; i++) z[i] = 1.0;
        double expected = exact_p(ROWS, 8, 12, seen), error = 4.0 * sqrt(expected * (1 - expected) / DRAWS) + 1e-4;
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            circe_test_result r = run(context, methods[m], DRAWS, 7, x, y, z, ROWS);
            assert_int_equal(r.null, CIRCE_NULL_PERMUTATION);
            if (fabs(r.p_value - expected) > error)
                fail_msg("method %d, count %d: p = %g, exactly %g", (int)methods[m], (int)seen, r.p_value, expected);
            assert_true(r.mid_p < r.p_value);
        }
    }
    circe_context_destroy(context);
}

/* Classes of 3 % and 2.5 %, both more frequent in one value of y, and independent within it. */
static void draw_rare(uint64_t seed, int64_t n, double *x, double *y, double *z) {
    double *u = malloc(3 * (size_t)n * sizeof *u);
    assert_non_null(u);
    circe_random_uniform((circe_random){seed, 1}, 0, 3 * n, u);
    for (int64_t i = 0; i < n; i++) {
        y[i] = u[3 * i] < 0.5;
        x[i] = u[3 * i + 1] < (y[i] > 0 ? 0.045 : 0.015);
        z[i] = u[3 * i + 2] < (y[i] > 0 ? 0.035 : 0.015);
    }
    free(u);
}

static void rare_classes_hold_the_level(void **state) {
    (void)state;
    enum { N = 500, SETS = 300 };
    static double x[N], y[N], z[N];
    circe_context *context = make_context(2);
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_GCM};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        int rejected = 0;
        for (uint64_t s = 0; s < SETS; s++) {
            draw_rare(s, N, x, y, z);
            rejected += run(context, methods[m], 199, s, x, y, z, N).p_value <= 0.05;
        }
        if (rejected > 29) fail_msg("method %d rejects %d of %d at .05", (int)methods[m], rejected, SETS); /* 1e-4 */
    }
    circe_context_destroy(context);
}

/* With weights, groups, time or a split no row is permuted, and these nulls reject such data too often (.25 to .40 with
 * weights, groups or time, .23 for splitkci): trust must object to every rejection. 40 data sets reject at least once
 * by far; draws few, for speed. */
static void rejections_of_rare_classes_without_permutations_are_doubtful(void **state) {
    (void)state;
    enum { N = 500, SETS = 40 };
    static double x[N], y[N], z[N], weights[N], groups[N], time[N];
    circe_context *context = make_context(2);
    const circe_test_method methods[] = {CIRCE_TEST_GCM, CIRCE_TEST_GCM, CIRCE_TEST_GCM, CIRCE_TEST_SPLITKCI};
    for (int64_t i = 0; i < N; i++) {
        weights[i] = 0.5 + (double)(i % 3);
        groups[i] = (double)(i / 5);
        time[i] = (double)i;
    }
    for (int k = 0; k < 4; k++) {
        int rejected = 0;
        for (uint64_t set = 0; set < SETS; set++) {
            circe_test_options options;
            circe_test_result result;
            circe_test_options_init(&options);
            options.method = methods[k];
            options.draws = 199;
            options.weights = k == 0 ? weights : NULL;
            options.groups = k == 1 ? groups : NULL;
            options.time = k == 2 ? time : NULL;
            draw_rare(set, N, x, y, z);
            circe_mat a = circe_mat_f64(x, N, 1), b = circe_mat_f64(y, N, 1), c = circe_mat_f64(z, N, 1);
            assert_int_equal(circe_test(context, &a, &b, &c, &options, &result), CIRCE_OK);
            if (result.p_value > 0.05) continue;
            rejected++;
            if (result.trust == CIRCE_TRUST_GOOD) fail_msg("case %d, set %d: %s", k, (int)set, result.verdict);
        }
        assert_true(rejected > 0);
    }
    circe_context_destroy(context);
}

/* Indicators of rare classes, and a y of numbers: gcm's largest score has no normal distribution, and rejected .77 of
 * such data. At .05, more than 8 of 40 are rejected with a chance of 1e-4. */
static void indicators_of_rare_classes_hold_the_level(void **state) {
    (void)state;
    enum { N = 500, CLASSES = 4, SETS = 40, MOST = 8 };
    static double x[N * CLASSES], y[N], z[N * CLASSES], u[3 * N];
    const double upto[CLASSES] = {0.02, 0.04, 0.1, 1.0};
    int rejected = 0;
    circe_context *context = make_context(2);
    for (uint64_t set = 0; set < SETS; set++) {
        circe_test_options options;
        circe_test_result result;
        circe_random_uniform((circe_random){set, 2}, 0, 3 * N, u);
        for (int64_t i = 0; i < N; i++) {
            int a = 0, b = 0;
            y[i] = u[3 * i];
            while (u[3 * i + 1] > upto[a]) a++;
            while (u[3 * i + 2] > upto[b]) b++;
            for (int c = 0; c < CLASSES; c++) x[i * CLASSES + c] = c == a, z[i * CLASSES + c] = c == b;
        }
        circe_test_options_init(&options);
        options.method = CIRCE_TEST_GCM;
        options.draws = 199;
        circe_mat k = circe_mat_f64(x, N, CLASSES), l = circe_mat_f64(y, N, 1), m = circe_mat_f64(z, N, CLASSES);
        assert_int_equal(circe_test(context, &k, &l, &m, &options, &result), CIRCE_OK);
        rejected += result.p_value <= 0.05;
    }
    if (rejected > MOST) fail_msg("%d of %d rejected", rejected, SETS);
    circe_context_destroy(context);
}

static void dependence_is_found_and_threads_agree(void **state) {
    (void)state;
    enum { N = 2000 };
    static double x[N], y[N], z[N];
    circe_context *one = make_context(1), *four = make_context(4);
    draw_rare(5, N, x, y, z);
    for (int64_t i = 0; i < N; i++)
        if (z[i] > 0 && i % 2 == 0) x[i] = 1.0;
    circe_test_result a = run(one, CIRCE_TEST_KCI, 999, 3, x, y, z, N);
    circe_test_result b = run(four, CIRCE_TEST_KCI, 999, 3, x, y, z, N);
    assert_true(a.p_value < 1e-3);
    assert_true(fabs(a.p_value - b.p_value) <= 1e-6 * a.p_value && a.mid_p == b.mid_p);
    circe_context_destroy(one);
    circe_context_destroy(four);
}

static void refused_where_values_are_many(void **state) {
    (void)state;
    double x[ROWS], y[ROWS], z[ROWS];
    circe_context *context = make_context(1);
    circe_test_options options;
    circe_test_result result;
    for (int64_t i = 0; i < ROWS; i++) x[i] = sin((double)i), y[i] = (double)i, z[i] = cos((double)(i * i));
    circe_mat a = circe_mat_f64(x, ROWS, 1), b = circe_mat_f64(y, ROWS, 1), c = circe_mat_f64(z, ROWS, 1);
    circe_test_options_init(&options);
    options.null = CIRCE_NULL_PERMUTATION;
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        options.method = methods[m];
        assert_int_equal(circe_test(context, &a, &b, &c, &options, &result), CIRCE_ERR_UNSUPPORTED);
    }
    circe_context_destroy(context);
}

/* The mean of x (which = 0) or z at a row of y. */
typedef double mean_fn(const double *y, int which, uint64_t set);

typedef struct answers {
    int rejected, objected; /* objected: rejections with an objection */
} answers;

/* Tests sets of n rows whose noises have the correlation rho; uniform y (n, dim) are rounded down to `levels` values
 * (0: as they are). */
static answers judge(circe_test_method method, int sets, int64_t n, int64_t dim, int levels, double rho,
                     mean_fn *mean) {
    answers found = {0, 0};
    circe_context *context = make_context(2);
    double *x = malloc((size_t)n * sizeof *x), *z = malloc((size_t)n * sizeof *z);
    double *y = malloc((size_t)(n * dim) * sizeof *y), *noise = malloc(2 * (size_t)n * sizeof *noise);
    assert_true(x != NULL && y != NULL && z != NULL && noise != NULL);
    for (int set = 0; set < sets; set++) {
        const uint64_t seed = (uint64_t)set;
        circe_test_options options;
        circe_test_result result;
        circe_random_uniform((circe_random){seed, 3}, 0, n * dim, y);
        circe_random_normal((circe_random){seed, 4}, 0, 2 * n, noise);
        for (int64_t e = 0; levels > 0 && e < n * dim; e++) y[e] = floor((double)levels * y[e]);
        for (int64_t i = 0; i < n; i++) {
            double shared = noise[2 * i];
            x[i] = mean(y + i * dim, 0, seed) + 0.5 * shared;
            z[i] = mean(y + i * dim, 1, seed) + 0.5 * (rho * shared + sqrt(1.0 - rho * rho) * noise[2 * i + 1]);
        }
        circe_test_options_init(&options);
        options.method = method;
        options.seed = seed;
        circe_mat a = circe_mat_f64(x, n, 1), b = circe_mat_f64(y, n, dim), c = circe_mat_f64(z, n, 1);
        assert_int_equal(circe_test(context, &a, &b, &c, &options, &result), CIRCE_OK);
        if (result.p_value > 0.05) {
            assert_true(isnan(result.within_p));
            continue;
        }
        found.rejected++;
        found.objected += result.trust != CIRCE_TRUST_GOOD;
    }
    free(x);
    free(y);
    free(z);
    free(noise);
    circe_context_destroy(context);
    return found;
}

static double of_weekday(const double *y, int which, uint64_t set) {
    (void)which;
    (void)set;
    return fmod(*y, 7.0) >= 5.0;
}

static double of_season(const double *y, int which, uint64_t set) {
    (void)set;
    return (which == 0 ? sin : cos)(*y / 58.0);
}

/* Most of these nulls are rejected, and p among rows of equal y is uniform: an objection fails to come with a chance of
 * .05, so to more than 3 of 12 with one of .002. */
static void rows_of_equal_y_object_to_what_jumps_from_day_to_day(void **state) {
    (void)state;
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_GCM, CIRCE_TEST_PCM, CIRCE_TEST_SPLITKCI};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        answers a = judge(methods[m], 12, 1000, 1, 365, 0.0, of_weekday);
        if (a.rejected < 9 || a.rejected - a.objected > 3)
            fail_msg("method %d: %d of 12 rejected, %d objected to", (int)methods[m], a.rejected, a.objected);
    }
    answers many = judge(CIRCE_TEST_RCOT, 8, 21000, 1, 365, 0.0, of_weekday); /* too many rows for its table of them */
    if (many.rejected < 6 || many.rejected - many.objected > 3)
        fail_msg("rcot: %d of 8 rejected, %d objected to", many.rejected, many.objected);
}

static void rows_of_equal_y_confirm_dependence(void **state) {
    (void)state;
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_GCM, CIRCE_TEST_SPLITKCI, CIRCE_TEST_RCOT};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        answers a = judge(methods[m], 12, 1000, 1, 365, 0.5, of_season);
        if (a.rejected < 10 || a.objected > 1)
            fail_msg("method %d: %d of 12 rejected, %d objected to", (int)methods[m], a.rejected, a.objected);
    }
    answers many = judge(CIRCE_TEST_RCOT, 6, 21000, 1, 365, 0.1, of_season);
    if (many.rejected < 6 || many.objected > 0)
        fail_msg("rcot: %d of 6 rejected, %d objected to", many.rejected, many.objected);
}

/* The value of the nearest of 15 places, which are others in every set, as are x and z. */
static double of_region(const double *y, int which, uint64_t set) {
    enum { REGIONS = 15, DIM = 3 };
    double places[DIM * REGIONS], values[2 * REGIONS], least = HUGE_VAL, value = 0.0;
    circe_random_uniform((circe_random){set, 5}, 0, DIM * REGIONS, places);
    circe_random_normal((circe_random){set, 6}, 0, 2 * REGIONS, values);
    for (int r = 0; r < REGIONS; r++) {
        double square = 0.0;
        for (int c = 0; c < DIM; c++) square += (y[c] - places[DIM * r + c]) * (y[c] - places[DIM * r + c]);
        if (square >= least) continue;
        least = square;
        value = values[2 * r + which];
    }
    return value;
}

static double of_waves(const double *y, int which, uint64_t set) {
    (void)set;
    return which == 0 ? sin(6.0 * y[0]) + y[1] : cos(5.0 * y[1]) - y[0];
}

/* Jumps across planes in any direction: most are rejected, and 24 sets have one or two without an objection by chance,
 * as many as a level of .05. Smooth functions with dependence are left alone: of 24 rejections an objection to 1 in 25
 * makes more than 4 with a chance of .003. */
static void near_rows_object_to_regions(void **state) {
    (void)state;
    enum { SETS = 24, MOST = 4 };
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_RCOT};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        answers null = judge(methods[m], SETS, 1000, 3, 0, 0.0, of_region);
        answers smooth = judge(methods[m], SETS, 500, 2, 0, 0.5, of_waves);
        if (null.rejected - null.objected > MOST || smooth.objected > MOST || smooth.rejected < SETS - 2)
            fail_msg("method %d: regions %d rejected, %d objected to; smooth %d and %d", (int)methods[m], null.rejected,
                     null.objected, smooth.rejected, smooth.objected);
    }
}

static double of_staircase(const double *y, int which, uint64_t set) {
    (void)which;
    (void)set;
    return 0.5 * floor(8.0 * y[0]) + 4.0 * y[1];
}

/* Steps along one of three columns beside a line in another: nearly all are rejected, since a smooth fit cuts through
 * the steps, and rows near each other in all three columns show nothing of it. */
static void trees_object_to_staircases(void **state) {
    (void)state;
    enum { SETS = 10, LEAST = 6, MOST = 2 };
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        answers a = judge(methods[m], SETS, 3000, 3, 0, 0.0, of_staircase);
        if (a.rejected < LEAST || a.rejected - a.objected > MOST)
            fail_msg("method %d: %d of %d rejected, %d objected to", (int)methods[m], a.rejected, SETS, a.objected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_equal_y_object_to_what_jumps_from_day_to_day),
        cmocka_unit_test(rows_of_equal_y_confirm_dependence),
        cmocka_unit_test(near_rows_object_to_regions),
        cmocka_unit_test(trees_object_to_staircases),
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(rare_classes_hold_the_level),
        cmocka_unit_test(rejections_of_rare_classes_without_permutations_are_doubtful),
        cmocka_unit_test(indicators_of_rare_classes_hold_the_level),
        cmocka_unit_test(dependence_is_found_and_threads_agree),
        cmocka_unit_test(refused_where_values_are_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
