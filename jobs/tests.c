/* The table of tests, and what their results are kept in. */
#include "jobs/tests.h"

#include <math.h>
#include <string.h>

const test_kind tests[] = {
    {.name = "kci",
     .method = CIRCE_TEST_KCI,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_WEIGHTS,
     .summary = "Conditional. Compares the residuals of (x, y) and of z given y; both regressions use all rows. With "
                "enough rows it sees every kind of dependence. Start with this one."},
    {.name = "circe",
     .method = CIRCE_TEST_CIRCE,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_AUXILIARY | TEST_SPLIT | TEST_MEAN | TEST_WEIGHTS,
     .summary = "Conditional. Uses CIRCE's operator. Only z is regressed on y, so pairs (y, z) without an x help "
                "(--auxiliary-y, --auxiliary-z)."},
    {.name = "splitkci",
     .method = CIRCE_TEST_SPLITKCI,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_SPLIT,
     .summary = "Conditional. Like kci, but the regressions and the test use different rows. It is the most careful "
                "test if y is hard to regress on. It tests fewer rows, so it finds less."},
    {.name = "gcm",
     .method = CIRCE_TEST_GCM,
     .uses = TEST_CONDITIONS | TEST_REGRESSION | TEST_WEIGHTS,
     .summary = "Conditional. The correlation between the residuals of x and of z given y. It is fast and robust. It "
                "is blind to dependence without correlation, such as between e and e^2."},
    {.name = "rcot",
     .method = CIRCE_TEST_RCOT,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_MILLIONS | TEST_WEIGHTS,
     .summary = "Conditional. Like kci, but with a few random Fourier features. It tests a million rows in seconds. It "
                "is blind to what these features do not show."},
    {.name = "hsic",
     .method = CIRCE_TEST_HSIC,
     .uses = TEST_KERNELS | TEST_WEIGHTS,
     .summary = "Marginal: does x depend on z at all? It does not use y, and --y is not needed."},
    {.name = "wgcm",
     .method = CIRCE_TEST_WGCM,
     .uses = TEST_CONDITIONS | TEST_REGRESSION | TEST_WEIGHTS,
     .summary = "Conditional. Like gcm, but also with signs that change along y. So it sees a correlation that is "
                "positive for some y and negative for others."},
    {.name = "pcm",
     .method = CIRCE_TEST_PCM,
     .uses = TEST_CONDITIONS,
     .summary =
         "Conditional. Does z help to predict x beyond y? One half of the rows learns how, and the other half tests "
         "it. It sees squares and interactions that gcm misses. It is blind to dependence in the spread of x alone."},
};

const size_t n_tests = sizeof tests / sizeof tests[0];

const char test_regressors[] = "kernel|linear|forest";

const char test_all_name[] = "all";
const char test_all_summary[] =
    "All tests on the same rows, in one table, for an overview. For a decision, choose one test before you see the "
    "p-values.";

const test_kind *test_find(const char *name) {
    for (size_t i = 0; i < n_tests; i++) {
        if (strcmp(tests[i].name, name) == 0) return &tests[i];
    }
    return NULL;
}

const char *test_null_words(circe_test_null null) {
    switch (null) {
        case CIRCE_NULL_AUTO:
            break;
        case CIRCE_NULL_GAMMA:
            return "a gamma distribution with the same mean and variance";
        case CIRCE_NULL_SPECTRAL:
            return "a weighted sum of chi-squares";
        case CIRCE_NULL_WILD:
            return "random signs on the residuals";
        case CIRCE_NULL_PERMUTATION:
            return "rows of z shuffled among rows of equal y";
        case CIRCE_NULL_NORMAL:
            return "the standard normal distribution";
        case CIRCE_NULL_MULTIPLIER:
            return "random signs, applied to the maximum";
    }
    return "not needed";
}

circe_test_options test_options_of(const circe_test_job_options *from, const test_kind *what) {
    circe_test_options o;
    int regressor = circe_word_index(test_regressors, from->regressor);
    circe_test_options_init(&o);
    o.method = what->method;
    circe_test_null_parse(from->null, &o.null);
    o.draws = from->draws;
    o.seed = (uint64_t)from->seed;
    o.alpha = from->alpha;
    o.skip_checks = from->no_checks;
    circe_transform_parse(from->transform, &o.transform);
    if (from->block != CIRCE_UNSET) o.block = (double)from->block;
    if ((what->uses & TEST_REGRESSION) && regressor >= 0)
        o.regressor = (circe_test_regressor)(CIRCE_REGRESSOR_KERNEL + regressor);
    if (what->uses & TEST_MEAN) o.mean = (circe_test_mean)circe_word_index("auto|rows|split", from->mean);
    if ((what->uses & TEST_SPLIT) && !isnan(from->test_share)) o.test_share = from->test_share;
    return o;
}

circe_effects_along test_along_make(arena *owner, const char *column, int64_t points) {
    double *block = arena_alloc(owner, (size_t)(5 * points) * sizeof *block);
    return (circe_effects_along){.column = arena_text(owner, column),
                                 .points = points,
                                 .place = block,
                                 .value = block + points,
                                 .lower = block + 2 * points,
                                 .upper = block + 3 * points,
                                 .null_upper = block + 4 * points};
}
