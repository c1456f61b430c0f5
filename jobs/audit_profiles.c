/* Means along an attribute, group by group, with intervals: what the figures show. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "jobs/audit_parts.h"

/* squares: sum w^2 (value - mean)^2; count: sum w; 1.96 standard errors on either side, but within the range of the
 * values: a mean of shares is a share. */
static void find_interval(circe_audit_profile *p, int64_t group, double squares, double count, double rows,
                          const double *range) {
    double half = rows >= 2 ? 1.96 * sqrt(squares / (count * (count - count / rows))) : (double)NAN;
    p->lower[group] = isnan(half) ? half : fmax(p->value[group] - half, range[0]);
    p->upper[group] = isnan(half) ? half : fmin(p->value[group] + half, range[1]);
}

/* Mean of `value` over the rows of every group (at one level, or of all: -1), with its 95 % interval. */
static circe_audit_profile profile_of(const circe_audit_result *r, const circe_audit_groups *groups,
                                      const circe_audit_groups *levels, int64_t level, const double *value) {
    int64_t n = groups->n_groups, n_rows = r->n;
    size_t bytes = (size_t)n * sizeof(double);
    arena *owner = audit_owner(r);
    circe_audit_profile p = {arena_alloc(owner, bytes), arena_alloc(owner, bytes), arena_alloc(owner, bytes)};
    OWNED double *count = small_alloc(bytes), *rows = small_alloc(bytes), *squares = small_alloc(bytes);
    double range[] = {INFINITY, -INFINITY};
    for (int64_t i = 0; i < n_rows; i++) {
        range[0] = fmin(range[0], value[i]);
        range[1] = fmax(range[1], value[i]);
        if (level >= 0 && levels->of[i] != level) continue;
        p.value[groups->of[i]] += audit_weight(r, i) * value[i];
        count[groups->of[i]] += audit_weight(r, i);
        rows[groups->of[i]] += 1;
    }
    for (int64_t g = 0; g < n; g++) p.value[g] = rows[g] >= 1 ? p.value[g] / count[g] : (double)NAN;
    for (int64_t i = 0; i < n_rows; i++) {
        double less = audit_weight(r, i) * (value[i] - p.value[groups->of[i]]);
        if (level < 0 || levels->of[i] == level) squares[groups->of[i]] += less * less;
    }
    for (int64_t g = 0; g < n; g++) find_interval(&p, g, squares[g], count[g], rows[g], range);
    return p;
}

/* Computes means at the levels of an outcome with classes, and of a prediction. */
static void find_profiles(const circe_audit_result *r, circe_audit_finding *f) {
    const circe_audit_groups *levels = audit_levels(r, f), *finest = &r->groups[f->attribute];
    bool numbers = f->notion == CIRCE_NOTION_SEPARATION && r->outcome == CIRCE_OUTCOME_NUMBERS;
    if (levels == NULL || numbers || f->n_parts > 1) return;
    f->n_strata = levels->n_groups;
    f->strata = arena_alloc(audit_owner(r), (size_t)f->n_strata * sizeof *f->strata);
    for (int64_t s = 0; s < f->n_strata; s++)
        f->strata[s] = profile_of(r, finest, levels, s, audit_compared_value(r, f, 0));
}

void audit_find_profiles(const circe_audit_result *r, circe_audit_finding *f) {
    f->residual = arena_alloc(audit_owner(r), (size_t)f->n_parts * sizeof *f->residual);
    for (int64_t k = 0; k < f->n_parts; k++)
        f->residual[k] = profile_of(r, &r->groups[f->attribute], NULL, -1, audit_residual(r, f, k));
    find_profiles(r, f);
}
