/* Can the p-value be trusted? Residuals against y, degrees of freedom, what is left to test; and the answer in words.
 *
 * The check: if a regression on y is good, its residuals are uncorrelated with every function of y. Left is a kernel of
 * y of a third of the width that the regression chose, residualised; right, the regression's target: the statistic and
 * its null are those of pair.c, with the gamma distribution (from at most 1,024 rows, since a few percent of the null's
 * spread do not matter here). A regression that is too smooth leaves structure at that scale, and the check sees it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inference/internal.h"

enum { CHECK_RANK = 96, CHECK_COLUMNS = 48, CHECK_ROWS = 1024 };

static void keep_columns(circe__table *t, int64_t columns) {
    if (t->cols <= columns) return;
    for (int64_t i = 0; i < t->rows; i++)
        memmove(t->data + i * columns, t->data + i * t->cols, (size_t)columns * sizeof(double));
    t->cols = columns;
}

static circe_status copy_columns(const circe__data *data, const circe__table *from, int64_t columns, circe__table *to) {
    circe_status status = circe__table_copy(data->context, from, to);
    if (status == CIRCE_OK) keep_columns(to, columns);
    return status;
}

circe_status circe__check_residual(const circe__data *data, circe__regressor *regressor, const circe__table *target,
                                   const circe__table *noise) {
    const double narrower = 0.1; /* of sigma2: a third of the width */
    double multiple = regressor->info.sigma2_multiple, left = 0.0, mean = 0.0, variance = 0.0;
    circe_kernel *kernel = NULL;
    circe__pair pair = {.n = data->total};
    if (data->y.dim == 0) return CIRCE_OK; /* nothing to be free of */
    if (data->by_value && multiple == 0.0) {
        regressor->info.check_p = 1.0; /* means of every value leave nothing of y */
        return CIRCE_OK;
    }
    circe_status status = circe__scaled_kernel(data, &data->y, narrower * (multiple > 0.0 ? multiple : 1.0), &kernel);
    if (status == CIRCE_OK)
        status = circe__features_of(data, kernel, data->y.points, data->total, data->y.dim, 1e-3, CHECK_RANK, "y",
                                    &pair.left, &left);
    if (status == CIRCE_OK) circe__weigh(data, &pair.left);
    if (status == CIRCE_OK) status = circe__residual(regressor, &pair.left);
    if (status == CIRCE_OK) status = copy_columns(data, target, CHECK_COLUMNS, &pair.right);
    if (status == CIRCE_OK) status = copy_columns(data, noise, CHECK_COLUMNS, &pair.noise);
    pair.p = pair.left.cols;
    pair.q = pair.right.cols;
    if (status == CIRCE_OK) status = circe__moments(data, &pair, CHECK_ROWS, &mean, &variance);
    double value = status == CIRCE_OK ? circe__pair_statistic(data, &pair) : 0.0;
    if (isnan(value)) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK)
        regressor->info.check_p = mean > 0.0 ? circe__clip_p(circe__moment_tail(mean, variance, value)) : 1.0;
    circe_kernel_destroy(kernel);
    circe__pair_free(data->context, &pair);
    return status;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

const char *circe_trust_name(circe_trust trust) {
    switch (trust) {
        case CIRCE_TRUST_GOOD:
            return "good";
        case CIRCE_TRUST_DOUBTFUL:
            return "doubtful";
        case CIRCE_TRUST_POOR:
            return "poor";
    }
    return "unknown";
}

/* Reasons, joined in one sentence. */
typedef struct reasons {
    circe_trust trust;
    char text[CIRCE_TEST_TEXT / 2];
    size_t used;
} reasons;

__attribute__((format(printf, 3, 4))) static void object(reasons *r, circe_trust trust, const char *format, ...) {
    va_list arguments;
    int wrote;
    if (trust > r->trust) r->trust = trust;
    if (r->used > 0) r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "; ");
    if (r->used >= sizeof r->text) return;
    va_start(arguments, format);
    wrote = vsnprintf(r->text + r->used, sizeof r->text - r->used, format, arguments);
    va_end(arguments);
    r->used += wrote > 0 ? (size_t)wrote : 0;
    if (r->used >= sizeof r->text) r->used = sizeof r->text - 1;
}

static bool failed(const circe_test_regression *side, double level) {
    return side->used && !isnan(side->check_p) && side->check_p < level;
}

/* Both sides regressed: the errors of the two fits multiply, so one good fit carries the test. */
static void judge_checks(const circe_test_result *t, reasons *r) {
    const double level = 0.01, sure = 1e-4;
    bool x = failed(&t->x, level), z = failed(&t->z, level);
    if (t->x.used && x && z)
        object(r, failed(&t->x, sure) && failed(&t->z, sure) ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "what the regressions on y leave of x and of z still depends on y (checks: p = %.2g and %.2g), so the "
               "p-value may be too small",
               t->x.check_p, t->z.check_p);
    else if (!t->x.used && z)
        object(r, failed(&t->z, sure) ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "what the regression on y leaves of z still depends on y (check: p = %.2g), so the p-value may be too "
               "small",
               t->z.check_p);
}

static void judge_sizes(const circe_test_result *t, reasons *r) {
    const circe_test_regression *sides[] = {&t->x, &t->z};
    const char *names[] = {"x", "z"};
    if (t->n_tested < 50)
        object(r, CIRCE_TRUST_DOUBTFUL, "%lld rows are few: small dependence is not seen", (long long)t->n_tested);
    for (int k = 0; k < 2; k++) {
        const circe_test_regression *s = sides[k];
        if (!s->used) continue;
        if (s->degrees > (double)s->rows / 3.0)
            object(r, CIRCE_TRUST_DOUBTFUL, "the regression of %s uses %.0f degrees of freedom on %lld rows", names[k],
                   s->degrees, (long long)s->rows);
        if (s->left_out > 0.1)
            object(r, CIRCE_TRUST_DOUBTFUL, "the features of y for %s leave out %.0f %% of its kernel", names[k],
                   100.0 * s->left_out);
        if (s->remaining < 1e-6)
            object(r, CIRCE_TRUST_DOUBTFUL, "y all but determines %s, and little is left to test", names[k]);
    }
}

void circe__verdict(const circe__data *data, circe_test_result *t) {
    reasons r = {.trust = CIRCE_TRUST_GOOD};
    const char *given = data->y.dim > 0 && t->method != CIRCE_TEST_HSIC ? " given y" : "";
    char p[48];
    snprintf(p, sizeof p, t->p_value <= 1e-12 ? "p < 1e-12" : "p = %.3g", t->p_value);
    judge_checks(t, &r);
    judge_sizes(t, &r);
    t->trust = r.trust;
    if (t->rank_x == 0 || t->rank_z == 0) {
        const char *which = data->x.constant   ? "x is constant"
                            : data->z.constant ? "z is constant"
                                               : "y leaves nothing but rounding of x or z";
        t->trust = CIRCE_TRUST_GOOD;
        snprintf(t->verdict, sizeof t->verdict, "%s: nothing is left that could depend, p = 1.", which);
        return;
    }
    int used = t->p_value <= data->options.alpha
                   ? snprintf(t->verdict, sizeof t->verdict, "x and z depend on each other%s (%s, at level %g). ",
                              given, p, data->options.alpha)
                   : snprintf(t->verdict, sizeof t->verdict,
                              "No dependence of x and z%s was found (%s, at level %g); that is no proof of none. ",
                              given, p, data->options.alpha);
    const char *trust = r.trust == CIRCE_TRUST_GOOD       ? "Nothing speaks against trusting this p-value"
                        : r.trust == CIRCE_TRUST_DOUBTFUL ? "Trust it with care: "
                                                          : "Do not trust it: ";
    snprintf(t->verdict + used, sizeof t->verdict - (size_t)used, "%s%s.", trust, r.text);
}
