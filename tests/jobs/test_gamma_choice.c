/* Which gamma is taken from a list of gammas with their errors and p-values: one test for each rule of gamma_choice.c.
 */
#include "jobs/gamma_choice.h"
#include "tests/support.h"

enum { MOST = 12 };

/* Gammas 1, 10, 100, ... with these errors and p-values, behind gamma 0, which has the error `plain` and depends. */
typedef struct trial {
    double error, p;
} trial;

static int64_t points_of(double plain, const trial *trials, int64_t n, gamma_point *points) {
    points[0] = (gamma_point){0.0, plain, gamma_height(1e-9)};
    for (int64_t i = 0; i < n; i++)
        points[i + 1] = (gamma_point){pow(10.0, (double)i), trials[i].error, gamma_height(trials[i].p)};
    return n + 1;
}

#define TAKEN(plain, reached, ...) \
    taken(plain, (const trial[]){__VA_ARGS__}, sizeof((const trial[]){__VA_ARGS__}) / sizeof(trial), reached)

static double taken(double plain, const trial *trials, size_t n, bool *reached) {
    const gamma_rules rules = gamma_rules_of_p(1.0, plain);
    gamma_point points[MOST];
    return gamma_take(points, points_of(plain, trials, (int64_t)n, points), &rules, reached);
}

static void height_is_a_normal_quantile(void **state) {
    (void)state;
    assert_near(gamma_height(0.5), 0.0, 1e-9, 1.0);
    assert_near(gamma_height(0.05), -1.6448536269514722, 1e-9, 1.0);
    assert_near(gamma_height(0.975), 1.959963984540054, 1e-9, 1.0);
    assert_true(isfinite(gamma_height(0.0)) && isfinite(gamma_height(1.0)));
}

/* Weak evidence of several parts adds up; one p-value stays what it is. */
static void p_values_combine(void **state) {
    (void)state;
    const double weak[] = {0.1, 0.1, 0.1, 0.1, 0.1}, even[] = {0.5, 0.5, 0.5}, none[] = {0.0, 0.0};
    assert_near(gamma_combined_p(weak, 1), 0.1, 1e-9, 1.0);
    assert_near(gamma_combined_p(weak, 5), 0.00208, 1e-4, 1.0); /* Phi(-1.2816 sqrt 5) */
    assert_near(gamma_combined_p(even, 3), 0.5, 1e-9, 1.0);
    assert_near(gamma_combined_p(none, 2), 1e-12, 1e-15, 1.0); /* as the tests give it */
}

static void smallest_that_is_high_enough(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.3, &reached, {0.3, 1e-6}, {0.35, 1e-3}, {0.4, 0.6}, {0.5, 0.7}, {0.6, 0.9});
    assert_near(gamma, 100.0, 0.0, 1.0);
    assert_true(reached);
}

/* A p-value near the level is found again on every second set of new rows. */
static void margin_above_the_level(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.3, &reached, {0.31, 1e-4}, {0.35, 0.2}, {0.4, 0.6}, {0.5, 0.7});
    assert_near(gamma, 100.0, 0.0, 1.0);
}

/* One unlucky test is smoothed by its neighbours, and so is a lucky one below the rest. */
static void single_tests_do_not_decide(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.3, &reached, {0.31, 1e-4}, {0.35, 0.8}, {0.4, 0.4}, {0.5, 0.7}, {0.6, 0.8});
    assert_near(gamma, 10.0, 0.0, 1.0);
    gamma = TAKEN(0.3, &reached, {0.31, 0.5}, {0.35, 1e-5}, {0.4, 1e-4}, {0.5, 0.5}, {0.6, 0.6});
    assert_near(gamma, 1000.0, 0.0, 1.0);
}

/* Two gammas pass at a small error; behind a dip by chance only one that loses most of it is high enough. */
static void dear_gammas_are_passed_over(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.14, &reached, {0.15, 1e-4}, {0.15, 0.13}, {0.2, 0.18}, {0.45, 0.02}, {0.84, 0.6});
    assert_in_range((int64_t)gamma, 10, 1000);
    gamma = TAKEN(0.14, &reached, {0.15, 1e-4}, {0.15, 1e-3}, {0.2, 0.005}, {0.45, 0.008}, {0.84, 0.6});
    assert_near(gamma, 10000.0, 0.0, 1.0); /* nothing smaller is enough */
    assert_true(reached);
}

/* Beyond a gamma that nearly passes, networks may become worse in both respects, until they are nearly constant. */
static void one_gamma_near_the_level_is_enough(void **state) {
    (void)state;
    bool reached = true;
    double gamma =
        TAKEN(0.17, &reached, {0.27, 0.042}, {0.56, 0.002}, {0.84, 0.012}, {0.89, 0.076}, {0.97, 0.17}, {1.04, 0.64});
    assert_near(gamma, 1.0, 0.0, 1.0);
    assert_false(reached);
}

/* The network without a regulariser is never taken, so that its worth passes nothing over: gamma 10 has half the worth
 * of gamma 1, but less of gamma 0's. */
static void plain_network_passes_nothing_over(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_p(1.0, 0.2);
    gamma_point points[] = {{0, 0.2, gamma_height(0.02)}, {1, 0.55, gamma_height(0.02)}, {10, 0.75, gamma_height(0.6)}};
    bool reached = false;
    assert_near(gamma_take(points, 3, &rules, &reached), 10.0, 0.0, 1.0);
    assert_true(reached);
}

/* Dependence that is just not found is reached, without the margin; one that is found on all is not, and then a larger
 * gamma is no margin. */
static void reached_at_the_level(void **state) {
    (void)state;
    bool reached = false;
    assert_near(TAKEN(0.3, &reached, {0.31, 1e-4}, {0.5, 0.06}), 10.0, 0.0, 1.0);
    assert_true(reached);
    assert_near(TAKEN(0.3, &reached, {0.3, 1e-3}, {0.31, 0.04}, {0.31, 0.04}), 10.0, 0.0, 1.0);
    assert_false(reached);
    assert_near(TAKEN(0.3, &reached, {0.31, 1e-4}, {0.4, 0.045}, {0.5, 0.06}), 10.0, 0.0, 1.0); /* nearly the most */
    assert_false(reached);
}

/* Where p-values stay near the level whatever gamma, the error decides. */
static void flat_p_values_do_not_buy_error(void **state) {
    (void)state;
    bool reached = false;
    double gamma =
        TAKEN(0.15, &reached, {0.2, 1e-9}, {0.24, 1e-3}, {0.32, 0.045}, {0.51, 0.047}, {0.69, 0.07}, {0.73, 0.12});
    assert_near(gamma, 100.0, 0.0, 1.0);
}

/* Cost is counted from the error of a constant: .66 is two thirds of what .64 has to lose here. */
static void cost_is_what_is_left_of_the_worth(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_p(0.68, 0.63);
    const trial trials[] = {{0.64, 0.15}, {0.642, 0.2}, {0.668, 0.03}, {0.672, 0.7}};
    gamma_point points[MOST];
    bool reached = false;
    double gamma = gamma_take(points, points_of(0.63, trials, 4, points), &rules, &reached);
    assert_true(gamma <= 10.0);
}

static void useless_gammas_are_never_taken(void **state) {
    (void)state;
    bool reached = true;
    double gamma = TAKEN(0.5, &reached, {0.55, 1e-6}, {0.7, 1e-3}, {0.97, 0.9}, {1.2, 0.9}, {INFINITY, 0.9});
    assert_near(gamma, 10.0, 0.0, 1.0); /* .97 is worth less than a tenth of .5 */
    assert_false(reached);
    gamma = TAKEN(0.999, &reached, {1.2, 0.9}, {1.3, 0.9});
    assert_near(gamma, 0.0, 0.0, 1.0);
    assert_false(!reached && gamma > 0.0);
}

/* p-values that are all as small as they get say nothing of which gamma leaves least. */
static void last_of_use_where_all_p_values_are_least(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_p(1.0, 0.05);
    const trial trials[] = {{0.46, 1e-12}, {0.89, 0.0}, {0.94, 1e-12}, {0.99, 1e-12}};
    gamma_point points[MOST];
    bool reached = true;
    int64_t n = points_of(0.05, trials, 4, points);
    points[0].height = gamma_height(1e-12);
    assert_near(gamma_take(points, n, &rules, &reached), 10.0, 0.0, 1.0); /* .94 is of no use */
    assert_near(gamma_next(points, n, &rules), 10.0, 0.0, 1.0);
    assert_false(reached);
}

/* With few rows the regulariser lowers the error: a larger gamma that costs nothing is margin. */
static void margin_for_nothing_is_taken(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.6, &reached, {0.59, 0.5}, {0.55, 0.6}, {0.5, 0.6}, {0.51, 0.7}, {0.6, 0.8});
    assert_near(gamma, 1000.0, 0.0, 1.0);
}

/* A small share of what a good prediction is worth is a large share of its error. */
static void margin_is_not_bought_with_error(void **state) {
    (void)state;
    bool reached = false;
    double gamma = TAKEN(0.118, &reached, {0.118, 0.61}, {0.118, 0.62}, {0.1176, 0.64}, {0.1192, 0.78}, {0.1309, 0.62});
    assert_near(gamma, 1000.0, 0.0, 1.0);
}

static void tolerance_takes_the_share(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_share(0.01, 1.0, 0.3);
    gamma_point points[] = {{0, 0.3, -0.2}, {1, 0.3, -0.05}, {10, 0.3, -0.009}, {100, 0.3, -0.001}};
    bool reached = false;
    assert_near(gamma_take(points, 4, &rules, &reached), 10.0, 0.0, 1.0);
    assert_true(reached);
}

/* Without a regulariser the network overfits and is worth little: gamma 0 is not on the curve, gamma 1 is its first. */
static void first_gamma_of_use_is_not_passed_over(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_share(0.01, 1.26, 1.2);
    gamma_point points[] = {{0, 1.2, -0.2}, {1, 0.9, -0.005}, {10, 0.92, -0.004}, {100, 0.95, -0.001}};
    bool reached = false;
    assert_near(gamma_take(points, 4, &rules, &reached), 1.0, 0.0, 1.0);
    assert_near(gamma_next(points, 4, &rules), 1.0, 0.0, 1.0);
    assert_true(reached);
}

/* ---- where to look next ------------------------------------------------------------------------------------------ */

static void looks_between_two_points(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_p(1.0, 0.3);
    const trial trials[] = {{0.3, 1e-4}, {0.35, 0.01}, {0.4, 0.9}, {0.45, 0.95}};
    gamma_point points[MOST];
    double next = gamma_next(points, points_of(0.3, trials, 4, points), &rules);
    assert_true(next > 13.0 && next < 95.0);
    assert_near(next, gamma_rounded(next), 1e-9 * next, 1.0);
}

static void looks_at_no_point_twice(void **state) {
    (void)state;
    const gamma_rules rules = gamma_rules_of_p(1.0, 0.3);
    gamma_point points[] = {
        {0, 0.3, -6}, {80, 0.3, gamma_height(0.25)}, {100, 0.31, gamma_height(0.35)}, {300, 0.5, 1}};
    assert_near(gamma_next(points, 4, &rules), 100.0, 0.0, 1.0);
    gamma_point none[] = {{0, 2.0, -6}, {10, 2.0, 1}};
    assert_true(isnan(gamma_next(none, 2, &rules)));
}

static void gammas_have_two_digits(void **state) {
    (void)state;
    assert_near(gamma_rounded(1234.5), 1200.0, 1e-9, 1.0);
    assert_near(gamma_rounded(0.098765), 0.099, 1e-12, 1.0);
}

TEST_MAIN("gamma_choice", TEST(height_is_a_normal_quantile), TEST(p_values_combine), TEST(smallest_that_is_high_enough),
          TEST(margin_above_the_level), TEST(single_tests_do_not_decide), TEST(dear_gammas_are_passed_over),
          TEST(one_gamma_near_the_level_is_enough), TEST(plain_network_passes_nothing_over), TEST(reached_at_the_level),
          TEST(flat_p_values_do_not_buy_error), TEST(cost_is_what_is_left_of_the_worth),
          TEST(useless_gammas_are_never_taken), TEST(last_of_use_where_all_p_values_are_least),
          TEST(margin_for_nothing_is_taken), TEST(margin_is_not_bought_with_error), TEST(tolerance_takes_the_share),
          TEST(first_gamma_of_use_is_not_passed_over), TEST(looks_between_two_points), TEST(looks_at_no_point_twice),
          TEST(gammas_have_two_digits))
