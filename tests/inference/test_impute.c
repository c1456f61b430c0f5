/* Missing cells filled in: nothing to fill changes nothing, cells come from rows that are alike, the null keeps its
 * level where dependence is found, and what cannot be filled in is refused. */
#include "tests/inference/inference_support.h"

static circe_test_result impute(circe_context *context, const sample *s, const circe_test_options *options) {
    circe_test_result result;
    assert_ok(circe_test_impute(context, &s->x, &s->y, &s->z, options, 5, &result));
    assert_true(result.p_value > 0.0 && result.p_value <= 1.0);
    assert_int_equal(result.imputations, 5);
    return result;
}

/* Every `step`-th cell of x, from `first`, goes. */
static void punch(circe_mat *m, int64_t first, int64_t step) {
    for (int64_t i = first; i < m->rows; i += step) test_set(m, i, 0, NAN);
}

static void nothing_missing_is_the_test_itself(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    sample s = draw(3, 120, 0.2);
    double plain = run(context, &s.x, &s.y, &s.z, &options).p_value;
    assert_true(fabs(impute(context, &s, &options).p_value - plain) < 1e-9 * plain + 1e-12);
}

/* 60 nulls: more than 9 rejections at .05 have a probability of .002. */
static void levels_and_power(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    int rejected[2] = {0, 0};
    for (uint64_t k = 0; k < 60; k++)
        for (int dependent = 0; dependent < 2; dependent++) {
            circe_test_options options = options_of(CIRCE_TEST_GCM);
            sample s = draw(k, 150, dependent ? 0.4 : 0.0);
            options.skip_checks = 1;
            punch(&s.x, 0, 5);
            punch(&s.y, 1, 9);
            punch(&s.z, 2, 5);
            rejected[dependent] += impute(context, &s, &options).p_value <= 0.05;
        }
    assert_in_range(rejected[0], 0, 9);
    assert_in_range(rejected[1], 45, 60);
}

static void refused(circe_context *context, const sample *s, int64_t imputations, const char *words) {
    circe_test_result result;
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    assert_true(circe_test_impute(context, &s->x, &s->y, &s->z, &options, imputations, &result) != CIRCE_OK);
    if (strstr(circe_last_error(), words) == NULL) fail_msg("'%s' does not say '%s'", circe_last_error(), words);
}

static void what_cannot_be_filled_in_is_refused(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    sample s = draw(1, 30, 0.0);
    refused(context, &s, 1, "the number of imputations is 1");
    punch(&s.x, 1, 1);
    refused(context, &s, 5, "column 0 of x has a value in only 1 of");
    s = draw(2, 30, 0.0);
    test_set(&s.z, 4, 0, INFINITY);
    refused(context, &s, 5, "infinite number at row 4");
    s = draw(2, 30, 0.0);
    punch(&s.x, 0, 2);
    punch(&s.z, 1, 2);
    test_set(&s.z, 0, 0, NAN); /* row 0 misses both, and no row has both */
    refused(context, &s, 5, "no other row has all the cells that are missing in row 0");
}

static int stop_at_cells(void *user, const char *stage, int64_t done, int64_t total) {
    (void)user, (void)done, (void)total;
    return strcmp(stage, "missing cells") == 0;
}

/* The search for donors, which looks at all rows for each, can be stopped wherever the cells are that are missing. */
static void stopped(void **state) {
    (void)state;
    circe_context_options how;
    circe_context_options_init(&how);
    how.progress = stop_at_cells;
    circe_context *context = test_context_with(&how);
    circe_test_options options = options_of(CIRCE_TEST_GCM);
    circe_test_result result;
    sample s = draw(4, 60, 0.0);
    punch(&s.x, 7, 1000);
    assert_refused(circe_test_impute(context, &s.x, &s.y, &s.z, &options, 5, &result), CIRCE_ERR_CANCELLED,
                   "missing cells");
}

TEST_MAIN("impute", TEST(nothing_missing_is_the_test_itself), TEST(levels_and_power),
          TEST(what_cannot_be_filled_in_is_refused), TEST(stopped))
