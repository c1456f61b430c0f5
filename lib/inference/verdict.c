/* What the checks say, in words: the trust in a p-value, and the verdict. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inference/inference_parts.h"

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

/* Reasons, joined in one sentence, which leaves room for what stands before it. */
typedef struct reasons {
    circe_trust trust;
    char text[CIRCE_TEST_TEXT - 160];
    size_t used;
} reasons;

/* A reason for which there is no room is left out whole; it still counts. */
__attribute__((format(printf, 3, 4))) static void object(reasons *r, circe_trust trust, const char *format, ...) {
    char reason[sizeof r->text];
    va_list arguments;
    if (trust > r->trust) r->trust = trust;
    va_start(arguments, format);
    int wrote = vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (wrote < 0 || r->used + (size_t)wrote + sizeof "; " > sizeof r->text) return;
    r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "%s%s", r->used > 0 ? "; " : "", reason);
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
               "the residuals of x and of z still depend on y (checks: p = %.2g and %.2g), so the p-value may be too "
               "small",
               t->x.check_p, t->z.check_p);
    else if (!t->x.used && z)
        object(r, failed(&t->z, sure) ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "the residuals of z still depend on y (check: p = %.2g), so the p-value may be too small", t->z.check_p);
}

/* The test on normal scores finds dependence that this one missed, or misses what this one found. The factors keep
 * chance differences between two p-values of the same data below the level. A p-value from draws has a least value;
 * reaching it counts as clear if there are enough draws. */
static bool clearly_found(double p, int64_t draws, double alpha) {
    double least = draws > 0 ? 1.0 / (1.0 + (double)draws) : 0.0;
    return p < alpha / 1000.0 || (p <= least && least <= alpha / 5.0);
}

static void judge_rows(const circe_test_result *t, double alpha, reasons *r) {
    const double few = 10.0;
    if (isnan(t->robust_p)) return;
    bool missed = t->p_value > alpha && clearly_found(t->robust_p, t->draws, alpha);
    bool vanished = t->p_value <= alpha && t->robust_p > 2.0 * alpha && t->robust_p > 10.0 * t->p_value;
    char p[32];
    if (!missed && !vanished) return;
    snprintf(p, sizeof p, t->robust_p <= 1e-12 ? "p < 1e-12" : "p = %.2g", t->robust_p);
    object(r, t->effective_rows < few ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
           "about %.0f of %lld rows outweigh all others (outliers, or numbers that stand for missing values), and on "
           "normal scores %s; use the transform normal-scores",
           fmax(1.0, t->effective_rows), (long long)t->n_tested, p);
}

/* A statistic so far beyond its bound does not come of such a misfit, were it four times as large as estimated. */
static bool is_beyond(const circe_test_result *t, double alpha) {
    const double times = 4.0;
    return 0.5 * t->p_value < circe__normal_tail(circe__normal_quantile(0.5 * alpha) + times * t->misfit);
}

/* A misfit that is common among good fits moves a statistic a little: it may explain a p-value near alpha, but none far
 * below. Of rejections of dependent data hardly one has both. */
static void judge_misfit(const circe_test_result *t, double alpha, reasons *r) {
    const double some = 0.55, more = 0.8, much = 3.0;
    double least = t->draws > 0 ? 1.0 / (1.0 + (double)t->draws) : 0.0;
    bool far_below = t->p_value < alpha / 50.0 || t->p_value <= least;
    if (isnan(t->misfit) || t->misfit < (far_below ? more : some) || is_beyond(t, alpha)) return;
    object(r, t->misfit < much ? CIRCE_TRUST_DOUBTFUL : CIRCE_TRUST_POOR,
           "the regressions on y use %.0f and %.0f degrees of freedom, and their errors together could move the "
           "statistic by %.1f standard deviations, so the p-value may be too small",
           t->x.degrees, t->z.degrees, t->misfit);
}

/* A dependence of which the test sees only the share s of the degrees of freedom has about the p-value p^s there. */
static void judge_within(const circe_test_result *t, double alpha, reasons *r) {
    if (isnan(t->within_p)) return;
    if (t->within_p > fmax(alpha, pow(t->p_value, 0.5 * t->within_share)))
        object(r, t->p_value < alpha / 50.0 ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "rows of equal y show no such dependence (p = %.2g), so the regressions may miss something of y",
               t->within_p);
}

/* Too many degrees of freedom, or features of y that were left out and would have been used. */
static void judge_features(const circe__data *data, const circe_test_result *t, reasons *r) {
    const circe_test_regression *sides[] = {&t->x, &t->z};
    const char *names[] = {"x", "z"};
    for (int k = 0; k < 2; k++) {
        const circe_test_regression *s = sides[k];
        if (!s->used) continue;
        const bool made = k == 1 && circe__kind_of(&data->options)->one_sided; /* pcm's f is a smooth function of y */
        if (s->degrees > (double)s->rows / 3.0 && !made)
            object(r, CIRCE_TRUST_DOUBTFUL, "the regression of %s uses %.0f degrees of freedom on %lld rows", names[k],
                   s->degrees, (long long)s->rows);
        if (s->left_out > 0.1 && s->degrees > 0.5 * (double)s->rank)
            object(r, CIRCE_TRUST_DOUBTFUL, "the features of y for %s leave out %.0f %% of its kernel", names[k],
                   100.0 * s->left_out);
    }
}

/* Nothing was permuted, which alone is right for sums of so few products. */
static void judge_classes(const circe__data *data, const circe_test_result *t, reasons *r) {
    if (circe__too_rare(data, t))
        object(r, CIRCE_TRUST_DOUBTFUL,
               "the rarest values of x and of z are expected to meet in only %.2g rows, too few for this null "
               "distribution; %s",
               t->expected_count,
               circe__kind_of(&data->options)->splits
                   ? "use kci or gcm"
                   : "without weights, groups, time and auxiliary rows, rows are permuted instead");
}

/* Rare classes do not invalidate the p-value, but the test has little power for them. */
static void note_classes(circe_test_result *t) {
    const double few = 5.0;
    size_t used = strlen(t->verdict), room = sizeof t->verdict - used;
    if (!(t->expected_count < few) || t->rank_x == 0 || t->rank_z == 0) return;
    int wrote = snprintf(
        t->verdict + used, room,
        " The rarest values of x and of z are expected to meet in only %.2g rows, so the test can see little of them.",
        t->expected_count);
    if (wrote < 0 || (size_t)wrote >= room) t->verdict[used] = '\0';
}

static void judge_sizes(const circe_test_result *t, reasons *r) {
    const circe_test_regression *sides[] = {&t->x, &t->z};
    const char *names[] = {"x", "z"};
    if (t->blocks > 0 && t->blocks < 10)
        object(r, CIRCE_TRUST_DOUBTFUL, "there are only %lld %s, so the p-value rests on few signs",
               (long long)t->blocks, t->block_length > 0.0 ? "blocks" : "groups");
    if (t->n_tested < 50)
        object(r, CIRCE_TRUST_DOUBTFUL, "there are only %lld rows, so the test misses weak dependence",
               (long long)t->n_tested);
    for (int k = 0; k < 2; k++) {
        const circe_test_regression *s = sides[k];
        if (!s->used) continue;
        if (s->remaining < 1e-6)
            object(r, CIRCE_TRUST_DOUBTFUL, "y determines %s almost completely, so little is left to test", names[k]);
    }
}

void circe__verdict(const circe__data *data, circe_test_result *t) {
    reasons r = {.trust = CIRCE_TRUST_GOOD};
    const char *given = data->y.dim > 0 && !circe__kind_of(&data->options)->marginal ? " given y" : "";
    char p[48];
    snprintf(p, sizeof p, t->p_value <= 1e-12 ? "p < 1e-12" : "p = %.3g", t->p_value);
    judge_rows(t, data->options.alpha, &r);
    /* What a regression misses makes p-values too small: there is nothing to object to in a large one, or where rows of
     * equal y show the same. */
    if (t->p_value <= data->options.alpha) {
        if (!(t->within_p <= data->options.alpha)) {
            judge_checks(t, &r);
            judge_misfit(t, data->options.alpha, &r);
        }
        judge_within(t, data->options.alpha, &r);
        judge_features(data, t, &r);
        judge_classes(data, t, &r);
    }
    judge_sizes(t, &r);
    t->trust = r.trust;
    if (t->rank_x == 0 || t->rank_z == 0) {
        const char *which = data->x.constant   ? "x is constant"
                            : data->z.constant ? "z is constant"
                                               : "y determines x or z up to rounding";
        t->trust = CIRCE_TRUST_GOOD;
        snprintf(t->verdict, sizeof t->verdict, "%s, so there is nothing to test: p = 1.", which);
        return;
    }
    int used =
        t->p_value <= data->options.alpha
            ? snprintf(t->verdict, sizeof t->verdict, "x and z depend on each other%s (%s, at level %g). ", given, p,
                       data->options.alpha)
            : snprintf(
                  t->verdict, sizeof t->verdict,
                  "No dependence of x and z%s was found (%s, at level %g). This does not prove that there is none. ",
                  given, p, data->options.alpha);
    const char *trust = r.trust == CIRCE_TRUST_GOOD       ? "The checks found no reason to distrust this p-value"
                        : r.trust == CIRCE_TRUST_DOUBTFUL ? "Use this p-value with care: "
                                                          : "Do not trust this p-value: ";
    snprintf(t->verdict + used, sizeof t->verdict - (size_t)used, "%s%s.", trust, r.text);
    note_classes(t);
}
