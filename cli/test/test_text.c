/* The result of `circe test` as people read it. */
#include "cli/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/output.h"
#include "cli/common/text.h"
#include "jobs/kernel_choice.h"
#include "jobs/test_json.h"
#include "jobs/tests.h"

static void text_cell(int used, const char *format, double value) {
    char cell[32] = "-";
    if (used && isfinite(value)) snprintf(cell, sizeof cell, format, value);
    printf("  %12s", cell);
}

static void text_line(const circe_test_result *r, const char *name, const char *format, double x, double z,
                      const char *meaning) {
    printf("  %-18s", name);
    text_cell(r->x.used, format, x);
    text_cell(r->z.used, format, z);
    printf("   %s\n", meaning);
}

static void text_regressions(const circe_test_result *r) {
    bool there = (r->x.used && r->x.rank > 0) || (r->z.used && r->z.rank > 0);
    if (!there) return; /* without y, a constant is all they have */
    printf("\n  %-18s  %12s  %12s\n", "regression on y", "of x", "of z");
    text_line(r, "left over", "%.3f", r->x.remaining, r->z.remaining, "share of the variance that y does not explain");
    text_line(r, "leave-one-out", "%.3f", r->x.loo_error, r->z.loo_error,
              "error on left-out rows, relative to that of the mean");
    text_line(r, "degrees of freedom", "%.1f", r->x.degrees, r->z.degrees, "effective, including the constant");
    text_line(r, "ridge", "%.3g", r->x.ridge, r->z.ridge, "a fraction of what leave-one-out chose, to undersmooth");
    text_line(r, "rows", "%.0f", (double)r->x.rows, (double)r->z.rows, "used in the regression");
    text_line(r, "rank", "%.0f", (double)r->x.rank, (double)r->z.rank, "number of features of y");
    text_line(r, "free of y", "%.3g", r->x.check_p, r->z.check_p, "p-value; small: the residuals still depend on y");
    if (r->x.used && r->z.used)
        printf("  %-18s  for x: %s; for z: %s\n", "features of y", r->x.basis, r->z.basis);
    else
        printf("  %-18s  %s\n", "features of y", r->x.used ? r->x.basis : r->z.basis);
    if (isfinite(r->misfit))
        printf("  %-18s  %12.2f   standard deviations: the shift that the errors of both could cause\n", "misfit",
               r->misfit);
    if (isfinite(r->within_p))
        printf("  %-18s  %12.3g   p-value with rows permuted within equal y\n", "equal y", r->within_p);
}

static void text_kernel_row(const char *name, const char *kernel) {
    char text[CIRCE_TEST_KERNEL_TEXT];
    if (kernel[0] != '\0') text_row(name, "%s", kernel_short_text(kernel, text, sizeof text));
}

static void test_text(const circe_test_result *r) {
    char time[32];
    text_row("statistic", "%.6g; under independence: mean %.4g, standard deviation %.3g", r->statistic, r->null_mean,
             r->null_sd);
    if (r->draws > 0)
        text_row("null", "%s: %s, %" PRId64 " draws", circe_test_null_name(r->null), test_null_words(r->null),
                 r->draws);
    else
        text_row("null", "%s: %s", circe_test_null_name(r->null), test_null_words(r->null));
    if (r->n_train > 0)
        text_row("rows", "%" PRId64 ": %" PRId64 " tested, %" PRId64 " used only in the regressions; in %s", r->n,
                 r->n_tested, r->n_train, text_seconds(r->seconds, time, sizeof time));
    else
        text_row("rows", "%" PRId64 ", in %s", r->n_tested, text_seconds(r->seconds, time, sizeof time));
    if (r->block_length > 0)
        text_row("blocks", "%" PRId64 ", of about %.0f times each, count as independent", r->blocks, r->block_length);
    else if (r->blocks > 0)
        text_row("groups", "%" PRId64 " count as independent, rows within them do not", r->blocks);
    if (isfinite(r->effective_rows))
        text_row("effective rows", "%.0f rows effectively determine the statistic (or, if fewer, one of the columns)",
                 fmax(1.0, r->effective_rows));
    if (isfinite(r->robust_p)) {
        char p[48];
        text_row("on normal scores", "p %s; computed because few rows carry much weight",
                 test_p_equals(r->robust_p, p, sizeof p));
    }
    text_kernel_row("kernel of x", r->kernel_x);
    text_kernel_row("kernel of y", r->kernel_y);
    text_kernel_row("kernel of z", r->kernel_z);
    text_regressions(r);
}

static void text_effect(const char *name, const circe_effect *e, const char *meaning) {
    printf("  %-18s  %6.3f   [%.3f, %.3f]   %6.3f by chance   %s\n", name, e->value, e->lower, e->upper, e->chance,
           meaning);
}

static void test_text_effects(const circe_effects *effects) {
    char time[32];
    printf("\n  effect size          value   95 %% interval\n");
    text_effect("KPC", &effects->kpc, "share of the residual of x that z explains");
    text_effect("CIRCE, normalised", &effects->circe, "0: none, 1: the largest possible");
    text_row("rows", "%" PRId64 ", in %s", effects->rows, text_seconds(effects->seconds, time, sizeof time));
}

static void test_text_along(const circe_effects_along *along) {
    if (along->column == NULL) return;
    bool is_long = strlen(along->column) > 12; /* then the name gets its own line, to keep the columns aligned */
    if (is_long) printf("\n  along %s", along->column);
    printf("\n  %s%-12s  %10s  %22s  %12s\n", is_long ? "      " : "along ", is_long ? "" : along->column, "CIRCE",
           "95 % interval", "chance up to");
    for (int64_t i = 0; i < along->points; i++) {
        char interval[48];
        snprintf(interval, sizeof interval, "[%.4f, %.4f]", along->lower[i], along->upper[i]);
        printf("  %18.5g  %10.4f  %22s  %12.4f%s\n", along->place[i], along->value[i], interval, along->null_upper[i],
               along->value[i] > along->null_upper[i] ? "  *" : "");
    }
}

static void calibration_text(const circe_calibration_draws *c, double alpha) {
    enum { WIDTH = 40 };
    double expected = (double)c->repetitions / CIRCE_CALIBRATION_BINS;
    double scale = expected;
    char time[32];
    for (int b = 0; b < CIRCE_CALIBRATION_BINS; b++) scale = fmax(scale, (double)c->counts[b]);
    printf("\n  p-values of %" PRId64 " data sets with x drawn again given y, independently of z (in %s)\n\n",
           c->repetitions, text_seconds(c->seconds, time, sizeof time));
    int mark = (int)lround(WIDTH * expected / scale);
    for (int b = 0; b < CIRCE_CALIBRATION_BINS; b++) {
        int length = (int)lround(WIDTH * (double)c->counts[b] / scale);
        printf("  %.2f - %.2f  ", b / (double)CIRCE_CALIBRATION_BINS, (b + 1) / (double)CIRCE_CALIBRATION_BINS);
        for (int i = 1; i <= WIDTH; i++) putchar(i <= length ? '#' : i == mark ? '|' : ' ');
        printf("  %" PRId64 "\n", c->counts[b]);
    }
    printf("  %*s| %.3g in each if the test is calibrated\n\n", 12 + mark, "", expected);
    text_row("at most alpha", "%.3g %% of them (95 %% interval %.3g to %.3g %%); alpha is %g %%",
             100 * c->summary.level, 100 * c->summary.level_lower, 100 * c->summary.level_upper, 100 * alpha);
    text_row("uniform", "p = %.3g (Kolmogorov-Smirnov test)", c->summary.uniform_p);
    putchar('\n');
    text_wrap(stdout, c->summary.verdict, 0, 0, text_width());
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void text_data(const circe_test_job_result *r) {
    text_columns(&r->columns);
    if (strcmp(r->transform, "none") != 0) text_row("transform", "%s", r->transform);
}

static void text_size(const circe_test_job_result *r) {
    if (r->effects != NULL) test_text_effects(r->effects);
    test_text_along(&r->along);
}

static void text_one(const circe_test_job_result *r, bool quiet) {
    const circe_test_result *t = &r->tests[0].result;
    char p[32];
    printf("p %s    %s test of x independent of z%s\n", test_p_equals(t->p_value, p, sizeof p), r->method,
           r->conditional ? " given y" : "");
    if (quiet) return;
    putchar('\n');
    text_wrap(stdout, t->verdict, 0, 0, text_width());
    printf("Trust: %s.\n\n", circe_trust_name(t->trust));
    test_text(t);
    if (r->rows < r->given) text_row("rows given", "%" PRId64 "; a random sample of them was tested", r->given);
    text_data(r);
    text_size(r);
    if (r->calibration != NULL) calibration_text(r->calibration, r->alpha);
}

static void text_tested(const circe_tested *t) {
    const circe_test_result *r = &t->result;
    char p[32];
    if (t->error != NULL)
        printf("  %-9s  %10s  failed: %s\n", t->method, "-", t->error);
    else
        printf("  %-9s  %10s  %-11s  %13.6g  %8" PRId64 "  %9.4f  %s%s\n", t->method,
               test_p_text(r->p_value, p, sizeof p), circe_test_null_name(r->null), r->statistic, r->n_tested,
               r->seconds, circe_trust_name(r->trust),
               test_find(t->method)->uses & TEST_CONDITIONS ? "" : " (marginal: y is not used)");
}

static void text_all(const circe_test_job_result *r, bool quiet) {
    printf("  %-9s  %10s  %-11s  %13s  %8s  %9s  %s\n", "test", "p-value", "null", "statistic", "tested", "seconds",
           "trust");
    for (size_t i = 0; i < r->n; i++) text_tested(&r->tests[i]);
    if (quiet) return;
    text_data(r);
    text_size(r);
    putchar('\n');
    text_wrap(stdout,
              "Do not take the smallest of these p-values: that would find dependence where there is none. Choose one "
              "test beforehand. `circe test METHOD` shows the details of its p-value.",
              0, 0, text_width());
}

void test_result_text(const circe_test_job_result *r, bool quiet) {
    if (r->n > 1)
        text_all(r, quiet);
    else
        text_one(r, quiet);
}

/* ---- many tests -------------------------------------------------------------------------------------------------- */

static void text_answer(const circe_answer *a, const int width[3]) {
    char p[3][32];
    printf("  %-*s  %-*s  %-*s", width[0], a->x, width[1], a->z, width[2], a->y != NULL ? a->y : "-");
    if (a->error != NULL)
        printf("  %10s  failed: %s\n", "-", a->error);
    else
        printf("  %10s  %10s  %10s  %s\n", test_p_text(a->result.p_value, p[0], sizeof p[0]),
               test_p_text(a->p_holm, p[1], sizeof p[1]), test_p_text(a->p_bh, p[2], sizeof p[2]),
               circe_trust_name(a->result.trust));
}

void tests_result_text(const circe_tests_result *r, bool quiet) {
    int width[3] = {1, 1, 5};
    size_t found = 0;
    for (size_t i = 0; i < r->n; i++) {
        const char *const texts[] = {r->answers[i].x, r->answers[i].z, r->answers[i].y != NULL ? r->answers[i].y : ""};
        for (int k = 0; k < 3; k++)
            if ((int)strlen(texts[k]) > width[k]) width[k] = (int)strlen(texts[k]);
        found += r->answers[i].error == NULL && r->answers[i].p_holm <= r->alpha;
    }
    printf("  %-*s  %-*s  %-*s  %10s  %10s  %10s  %s\n", width[0], "x", width[1], "z", width[2], "given", "p-value",
           "Holm", "BH", "trust");
    for (size_t i = 0; i < r->n; i++) text_answer(&r->answers[i], width);
    if (quiet) return;
    printf("\n%zu of %zu tests (%s) find dependence at level %g, adjusted for their number (Holm).\n", found, r->n,
           r->method, r->alpha);
    if (r->n_cached > 0) printf("%zu results came from the cache.\n", r->n_cached);
}
