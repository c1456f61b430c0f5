/* The table of tests. */
#include "jobs/tests.h"

#include <string.h>

const test_kind tests[] = {
    {.name = "kci",
     .method = CIRCE_TEST_KCI,
     .uses = TEST_KERNELS | TEST_CONDITIONS,
     .summary = "Conditional. What y leaves of (x, y) against what it leaves of z, both sides regressed on all rows. "
                "Sees every kind of dependence, given enough rows. The one to start with."},
    {.name = "circe",
     .method = CIRCE_TEST_CIRCE,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_AUXILIARY | TEST_SPLIT | TEST_MEAN,
     .summary = "Conditional. CIRCE's operator: z alone is regressed, so pairs (y, z) without an x help "
                "(--auxiliary-y, --auxiliary-z)."},
    {.name = "splitkci",
     .method = CIRCE_TEST_SPLITKCI,
     .uses = TEST_KERNELS | TEST_CONDITIONS | TEST_SPLIT,
     .summary = "Conditional. As kci, but the regressions see other rows than the test does. The most careful where y "
                "is hard to regress on; fewer rows are tested, so it finds less."},
    {.name = "gcm",
     .method = CIRCE_TEST_GCM,
     .uses = TEST_CONDITIONS | TEST_REGRESSION,
     .summary = "Conditional. The correlation of what y leaves of x with what it leaves of z. Fast and robust; blind "
                "to dependence without correlation, as between e and e^2."},
    {.name = "rcot",
     .method = CIRCE_TEST_RCOT,
     .uses = TEST_KERNELS | TEST_CONDITIONS,
     .summary = "Conditional. As kci with a few random Fourier features: a million rows in seconds, and blind to what "
                "these few do not show."},
    {.name = "hsic",
     .method = CIRCE_TEST_HSIC,
     .uses = TEST_KERNELS,
     .summary = "Marginal: does x depend on z at all? y is not used and --y not needed."},
    {.name = "wgcm",
     .method = CIRCE_TEST_WGCM,
     .uses = TEST_CONDITIONS | TEST_REGRESSION,
     .summary = "Conditional. As gcm, and also with signs that change along y: sees correlation that is positive here "
                "and negative there."},
    {.name = "pcm",
     .method = CIRCE_TEST_PCM,
     .uses = TEST_CONDITIONS,
     .summary = "Conditional. Does z help to predict x beyond y? One half of the rows learns how, the other tests it. "
                "Sees squares and interactions that gcm does not; blind to dependence in the spread of x alone."},
};

const size_t n_tests = sizeof tests / sizeof tests[0];

const char test_all_name[] = "all";
const char test_all_summary[] =
    "Every test on the same rows, in one table. To look around with: a p-value that counts is of one test, chosen "
    "before.";

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
            return "a gamma distribution of the same mean and variance";
        case CIRCE_NULL_SPECTRAL:
            return "a weighted sum of chi-squares";
        case CIRCE_NULL_WILD:
            return "random signs on the residuals";
        case CIRCE_NULL_PERMUTATION:
            return "rows of z in random order, among rows of equal y";
        case CIRCE_NULL_NORMAL:
            return "the standard normal distribution";
        case CIRCE_NULL_MULTIPLIER:
            return "random signs, of the maximum";
    }
    return "none was needed";
}
