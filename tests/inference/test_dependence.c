/* Rows that depend on each other: levels where the plain tests fail, what blocks of one row come to, residuals of
 * blocks that were left out against a fit without them, and what is refused. */
#include "inference/dependence.h"
#include "tests/inference/inference_support.h"

/* Two AR(1) noises around functions of y, n rows in order of time; or, with groups, effects of groups of `size`. */
typedef struct rows {
    sample s;
    double *of; /* (n): the time, or the group */
} rows;

static rows series(uint64_t stream, int64_t n, double rho, double shared) {
    rows r = {draw(stream, n, 0.0), test_memory((size_t)n * sizeof(double))};
    circe_mat e = test_normal(900000 + 2 * stream, n, 2);
    double u = 0.0, v = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&r.s.y, i, 0), fresh = i == 0 ? 1.0 : sqrt(1.0 - rho * rho);
        u = rho * u + fresh * test_at(&e, i, 0);
        v = rho * v + fresh * test_at(&e, i, 1);
        test_set(&r.s.x, i, 0, y + 0.5 * u);
        test_set(&r.s.z, i, 0, sin(y) + 0.5 * v + shared * u);
        r.of[i] = (double)i;
    }
    return r;
}

static rows groups(uint64_t stream, int64_t n, int64_t size, double shared) {
    rows r = {draw(stream, n, 0.0), test_memory((size_t)n * sizeof(double))};
    circe_mat e = test_normal(700000 + 2 * stream, n, 2);
    for (int64_t i = 0; i < n; i++) {
        int64_t g = i / size;
        test_set(&r.s.x, i, 0, test_at(&r.s.x, i, 0) + test_at(&e, g, 0));
        test_set(&r.s.z, i, 0, test_at(&r.s.z, i, 0) + test_at(&e, g, 1) + shared * test_at(&e, g, 0));
        r.of[i] = (double)((g * 7919) % 1000); /* no order in their numbers */
    }
    return r;
}

enum { SETS = 120, HALF = 60 }; /* for a level, and for what is far above it */

/* The share of data sets with p <= .05. */
static double share(circe_context *context, circe_test_method method, bool in_time, bool told, double shared) {
    uint64_t sets = told && shared == 0.0 ? SETS : HALF;
    int rejected = 0;
    for (uint64_t s = 0; s < sets; s++) {
        rows r = in_time ? series(s, 160, 0.8, shared) : groups(s, 160, 8, shared);
        circe_test_options options = options_of(method);
        options.skip_checks = 1;
        if (told && in_time) options.time = r.of;
        if (told && !in_time) options.groups = r.of;
        const circe_mat *y = method == CIRCE_TEST_HSIC ? NULL : &r.s.y;
        rejected += run(context, &r.s.x, y, &r.s.z, &options).p_value <= 0.05;
    }
    return rejected / (double)sets;
}

/* Of 120 true nulls at level .05, more than 14 are rejected with a probability of .0006: .117. */
static void levels_hold_where_plain_tests_fail(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    const circe_test_method methods[] = {CIRCE_TEST_KCI, CIRCE_TEST_CIRCE, CIRCE_TEST_GCM, CIRCE_TEST_RCOT};
    for (int m = 0; m < 4; m++) { /* each once: their signs are drawn in one place */
        bool in_time = m % 2 == 0;
        double plain = share(context, methods[m], in_time, false, 0.0);
        double told = share(context, methods[m], in_time, true, 0.0);
        if (plain < 0.15 || told > 0.117)
            fail_msg("%s, %s: %.3f of plain tests reject, %.3f of those that know", circe_test_method_name(methods[m]),
                     in_time ? "series" : "groups", plain, told);
    }
}

static void dependence_is_still_found(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    assert_true(share(context, CIRCE_TEST_GCM, false, true, 1.0) > 0.6);
    assert_true(share(context, CIRCE_TEST_GCM, true, true, 1.0) > 0.7);
}

/* The noise of a block is what a regression on the other rows leaves of it. */
static void left_out_blocks_are_not_seen(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    enum { N = 60, SIZE = 6 };
    rows r = groups(3, N, SIZE, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    options.groups = r.of;
    circe__data data;
    circe__spectrum spectrum = {0};
    circe__regressor regressor = {0};
    circe__sight sight = {CIRCE__KERNEL, 0, 1.0, 0, 0.0};
    circe__table target = {0}, left = {0};
    assert_ok(circe__data_begin(context, &r.s.x, &r.s.y, &r.s.z, &options, &data));
    assert_ok(circe__spectrum_make(&data, &sight, &spectrum));
    assert_ok(circe__regressor_set(&data, &spectrum, 0.1, &regressor));
    assert_ok(circe__table_new(context, N, 1, &target));
    for (int64_t i = 0; i < N; i++) target.data[i] = test_at(&r.s.z, i, 0);
    circe__weigh(&data, &target);
    assert_ok(circe__noise(&data, &regressor, &target, &left));
    /* Another value of a row of a block changes the residuals of that block by as much, and those of no row else of
     * it: they come from a fit without the block. */
    circe__table again = {0};
    double before[SIZE];
    for (int64_t i = 0; i < SIZE; i++) before[i] = left.data[i];
    target.data[2] += 1.0;
    assert_ok(circe__noise(&data, &regressor, &target, &again));
    for (int64_t i = 0; i < SIZE; i++) /* the floor of 1e-3 in the system is what the tolerance is for */
        assert_true(fabs(again.data[i] - before[i] - (i == 2)) < 5e-3);
    circe__table_free(context, &left);
    circe__table_free(context, &again);
    circe__table_free(context, &target);
    circe__free(context, regressor.leverage);
    circe__spectrum_free(context, &spectrum);
    circe__data_free(&data);
}

/* Groups of one row each are independent rows: the wild bootstrap, sign by sign. */
static void groups_of_one_are_rows(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    sample s = draw(11, 100, 0.3);
    double numbers[100];
    for (int i = 0; i < 100; i++) numbers[i] = i;
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    options.null = CIRCE_NULL_WILD;
    options.kernel_y = test_kernel(context, "gaussian"); /* a given kernel: no tree, which groups do without */
    double plain = run(context, &s.x, &s.y, &s.z, &options).p_value;
    options.groups = numbers;
    circe_test_result told = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(fabs(told.p_value - plain) < 1e-12);
    assert_int_equal(told.blocks, 100);
}

static void blocks_follow_the_memory_of_the_series(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    rows slow = series(5, 600, 0.9, 0.0), fast = series(5, 600, 0.0, 0.0);
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    options.time = slow.of;
    double of_slow = run(context, &slow.s.x, &slow.s.y, &slow.s.z, &options).block_length;
    double of_fast = run(context, &fast.s.x, &fast.s.y, &fast.s.z, &options).block_length;
    assert_true(of_slow > 15 && of_fast < 8);
    options.block = 30;
    circe_test_result given = run(context, &slow.s.x, &slow.s.y, &slow.s.z, &options);
    assert_true(given.block_length == 30 && given.blocks == 20);
}

/* hsic moves groups of one size, and stretches of time. */
static void permutations_move_blocks(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    int rejected[2] = {0, 0};
    for (uint64_t s = 0; s < SETS; s++)
        for (int in_time = 0; in_time < 2; in_time++) {
            rows r = in_time ? series(s, 160, 0.8, 0.0) : groups(s, 160, 8, 0.0);
            circe_test_options options = options_of(CIRCE_TEST_HSIC);
            options.null = CIRCE_NULL_PERMUTATION;
            options.skip_checks = 1;
            if (in_time)
                options.time = r.of;
            else
                options.groups = r.of;
            /* without y, x and z are related by it: only the noises are asked */
            for (int64_t i = 0; i < 160; i++) {
                double y = test_at(&r.s.y, i, 0);
                test_set(&r.s.x, i, 0, test_at(&r.s.x, i, 0) - y);
                test_set(&r.s.z, i, 0, test_at(&r.s.z, i, 0) - sin(y));
            }
            rejected[in_time] += run(context, &r.s.x, NULL, &r.s.z, &options).p_value <= 0.05;
        }
    assert_in_range(rejected[0], 0, 14);
    assert_in_range(rejected[1], 0, 14);
}

static void refused(circe_context *context, const sample *s, const circe_test_options *options, const char *words) {
    circe_test_result result;
    assert_true(circe_test(context, &s->x, &s->y, &s->z, options, &result) != CIRCE_OK);
    if (strstr(circe_last_error(), words) == NULL) fail_msg("'%s' does not say '%s'", circe_last_error(), words);
}

static void what_does_not_apply_is_refused(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    rows r = groups(1, 80, 8, 0.0);
    double p[20];
    circe_effects effects;
    circe_test_options options = options_of(CIRCE_TEST_SPLITKCI);
    options.groups = r.of;
    refused(context, &r.s, &options, "splitkci does not support groups");
    options.method = CIRCE_TEST_KCI;
    options.null = CIRCE_NULL_GAMMA;
    refused(context, &r.s, &options, "needs independent rows");
    options.null = CIRCE_NULL_AUTO;
    options.block = 4;
    refused(context, &r.s, &options, "each group is one block");
    options.block = 0;
    assert_true(circe_test_calibrate(context, &r.s.x, &r.s.y, &r.s.z, &options, 20, p) == CIRCE_ERR_UNSUPPORTED);
    assert_true(circe_test_effects(context, &r.s.x, &r.s.y, &r.s.z, &options, 20, &effects) == CIRCE_ERR_UNSUPPORTED);
    for (int64_t i = 0; i < 80; i++) r.of[i] = (double)(i / 20);
    refused(context, &r.s, &options, "there are 4 groups; at least 5 are needed");
    r.of[7] = NAN;
    refused(context, &r.s, &options, "the group of row 7 is nan");
}

TEST_MAIN("dependence", TEST(levels_hold_where_plain_tests_fail), TEST(dependence_is_still_found),
          TEST(left_out_blocks_are_not_seen), TEST(groups_of_one_are_rows),
          TEST(blocks_follow_the_memory_of_the_series), TEST(permutations_move_blocks),
          TEST(what_does_not_apply_is_refused))
