/* Means along an attribute, group by group, with intervals: what the figures show. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "jobs/audit_parts.h"

/* Mean of `value` over the rows of every group (at one level, or of all: -1), with 1.96 standard errors. */
static circe_audit_profile profile_of(const circe_audit_groups *groups, int64_t n_rows,
                                      const circe_audit_groups *levels, int64_t level, const double *value) {
    int64_t n = groups->n_groups;
    circe_audit_profile p = {small_alloc((size_t)n * sizeof(double)), small_alloc((size_t)n * sizeof(double))};
    double *count = small_alloc((size_t)n * sizeof *count);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < n_rows; i++) {
            int64_t g = groups->of[i];
            if (level >= 0 && levels->of[i] != level) continue;
            if (pass == 0)
                p.value[g] += value[i], count[g] += 1;
            else
                p.half[g] += (value[i] - p.value[g]) * (value[i] - p.value[g]);
        }
        for (int64_t g = 0; g < n; g++) {
            if (pass == 0)
                p.value[g] = count[g] >= 1 ? p.value[g] / count[g] : (double)NAN;
            else
                p.half[g] = count[g] >= 2 ? 1.96 * sqrt(p.half[g] / (count[g] * (count[g] - 1))) : (double)NAN;
        }
    }
    free(count);
    return p;
}

/* At the levels of an outcome of classes, and of a prediction. */
static void find_profiles(const circe_audit_result *r, circe_audit_finding *f) {
    const circe_audit_groups *levels = audit_levels(r, f), *finest = &r->groups[f->attribute];
    bool numbers = f->notion == CIRCE_NOTION_SEPARATION && r->outcome == CIRCE_OUTCOME_NUMBERS;
    if (levels == NULL || numbers || f->n_parts > 1) return;
    f->n_strata = levels->n_groups;
    f->strata = small_alloc((size_t)f->n_strata * sizeof *f->strata);
    for (int64_t s = 0; s < f->n_strata; s++)
        f->strata[s] = profile_of(finest, r->n, levels, s, audit_compared_value(r, f, 0));
}

void audit_find_profiles(const circe_audit_result *r, circe_audit_finding *f) {
    f->residual = small_alloc((size_t)f->n_parts * sizeof *f->residual);
    for (int64_t k = 0; k < f->n_parts; k++)
        f->residual[k] = profile_of(&r->groups[f->attribute], r->n, NULL, -1, audit_residual(r, f, k));
    find_profiles(r, f);
}
