/* What people compare: groups of an attribute, at equal outcome.
 *
 *     strata   outcomes that count as equal: the classes, or five groups of a number
 *     m_sg     mean over the rows of stratum s and group g; cells of fewer than LEAST_IN_CELL rows are left out
 *     gap      sum_s share_s (max_g m_sg - min_g m_sg)
 *
 * Of a number, what is averaged is the prediction less its mean given the outcome (a->residuals): outcomes that differ
 * within a stratum would otherwise pass for a gap. A maximum over groups is positive by chance, the more so the more
 * groups there are: the same gap with the groups shuffled within every stratum says by how much. O(n) a shuffle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/quantile.h"

enum { LEAST_IN_CELL = 5, SHUFFLES = 200 };

const char *const audit_gap_names[AUDIT_GAP_KINDS] = {"mean prediction", "true positive rate", "false positive rate"};

static const int64_t binnings[AUDIT_BINNINGS] = {2, 4, AUDIT_FINEST};

/* ---- one gap ----------------------------------------------------------------------------------------------------- */

typedef struct table {
    int64_t n, n_strata, n_groups;
    const int64_t *stratum;
    int64_t *group; /* (n), owned: shuffled */
    const double *value;
    double *sum, *count, *size; /* (strata, groups) twice, (strata) */
} table;

/* The mean gap over the strata from..to-1, each weighted by its rows. */
static double gap_of(table *t, int64_t from, int64_t to) {
    double total = 0, rows = 0;
    memset(t->sum, 0, (size_t)(t->n_strata * t->n_groups) * sizeof *t->sum);
    memset(t->count, 0, (size_t)(t->n_strata * t->n_groups) * sizeof *t->count);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t cell = t->stratum[i] * t->n_groups + t->group[i];
        t->sum[cell] += t->value[i];
        t->count[cell] += 1;
    }
    for (int64_t s = from; s < to; s++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t g = 0; g < t->n_groups; g++) {
            double count = t->count[s * t->n_groups + g];
            if (count < LEAST_IN_CELL) continue;
            low = fmin(low, t->sum[s * t->n_groups + g] / count);
            high = fmax(high, t->sum[s * t->n_groups + g] / count);
        }
        if (high < low) continue;
        total += t->size[s] * (high - low);
        rows += t->size[s];
    }
    return rows > 0 ? total / rows : (double)NAN;
}

/* Fisher and Yates among the rows of each stratum, which `rows` lists one stratum after another. */
static void shuffle(table *t, const int64_t *rows, circe_random generator, uint64_t first, double *uniform) {
    circe_random_uniform(generator, first, t->n, uniform);
    for (int64_t start = 0, s = 0; s < t->n_strata; s++) {
        int64_t m = (int64_t)t->size[s];
        for (int64_t k = m - 1; k > 0; k--) {
            int64_t other = (int64_t)(uniform[start + k] * (double)(k + 1));
            int64_t *a = &t->group[rows[start + k]], *b = &t->group[rows[start + (other <= k ? other : k)]];
            int64_t held = *a;
            *a = *b, *b = held;
        }
        start += m;
    }
}

static int64_t *rows_by_stratum(const table *t) {
    int64_t *rows = small_alloc((size_t)t->n * sizeof *rows), at = 0;
    for (int64_t s = 0; s < t->n_strata; s++) {
        for (int64_t i = 0; i < t->n; i++) {
            if (t->stratum[i] == s) rows[at++] = i;
        }
    }
    return rows;
}

static void gap_by_chance(table *t, int64_t from, int64_t to, circe_random generator, audit_gap *gap) {
    double drawn[SHUFFLES], *uniform = small_alloc((size_t)t->n * sizeof *uniform);
    int64_t *rows = rows_by_stratum(t);
    gap->chance = 0;
    for (int64_t d = 0; d < SHUFFLES; d++) {
        shuffle(t, rows, generator, (uint64_t)(d * t->n), uniform);
        drawn[d] = gap_of(t, from, to);
        gap->chance += drawn[d] / SHUFFLES;
    }
    quantile_sort(drawn, SHUFFLES);
    gap->chance_upper = quantile_at(drawn, SHUFFLES, 0.95);
    free(rows);
    free(uniform);
}

static audit_gap find_gap(const audit *a, const audit_groups *groups, const double *value, int64_t from, int64_t to,
                          const char *what) {
    const audit_groups *strata = &a->outcome;
    size_t cells = (size_t)(strata->n_groups * groups->n_groups), n = (size_t)a->data.n;
    table t = {.n = a->data.n,
               .n_strata = strata->n_groups,
               .n_groups = groups->n_groups,
               .stratum = strata->of,
               .group = small_alloc(n * sizeof *t.group),
               .value = value,
               .sum = small_alloc(cells * sizeof *t.sum),
               .count = small_alloc(cells * sizeof *t.count),
               .size = small_alloc((size_t)strata->n_groups * sizeof *t.size)};
    memcpy(t.group, groups->of, n * sizeof *t.group);
    for (int64_t i = 0; i < t.n; i++) t.size[t.stratum[i]] += 1;
    audit_gap gap = {.what = what, .n_groups = groups->n_groups, .value = gap_of(&t, from, to)};
    circe_random generator = {.seed = (uint64_t)args_integer(a->arguments, OPT_SEED), .stream = 77};
    gap_by_chance(&t, from, to, generator, &gap);
    free(t.group);
    free(t.sum);
    free(t.count);
    free(t.size);
    return gap;
}

/* ---- the binnings ------------------------------------------------------------------------------------------------ */

/* 1 where the prediction counts as positive. */
static double *decisions_of(const audit *a, const audit_column *prediction) {
    double *out = small_alloc((size_t)a->data.n * sizeof *out);
    for (int64_t i = 0; i < a->data.n; i++) out[i] = prediction->values[i] >= a->data.threshold;
    return out;
}

static void compare_binning(const audit *a, const audit_groups *groups, const double *value, const double *decision,
                            audit_finding *f) {
    int64_t n = a->outcome.n_groups;
    f->gaps[f->n_gaps++] = find_gap(a, groups, value, 0, n, audit_gap_names[0]);
    if (decision == NULL) return;
    f->gaps[f->n_gaps++] = find_gap(a, groups, decision, 1, 2, audit_gap_names[1]);
    f->gaps[f->n_gaps++] = find_gap(a, groups, decision, 0, 1, audit_gap_names[2]);
}

static void compare_binnings(const audit *a, audit_finding *f) {
    bool numbers = a->data.outcome == OUTCOME_NUMBERS;
    const double *value = numbers ? a->residuals[f->prediction - a->data.predictions] : f->prediction->values;
    double *decision = a->data.outcome == OUTCOME_BINARY ? decisions_of(a, f->prediction) : NULL;
    int64_t last = 0;
    for (int b = 0; b < AUDIT_BINNINGS; b++) {
        audit_groups groups;
        audit_groups_make(f->attribute, a->data.n, binnings[b], &groups);
        if (groups.n_groups > last && groups.n_groups > 1) compare_binning(a, &groups, value, decision, f);
        last = groups.n_groups > last ? groups.n_groups : last;
        audit_groups_free(&groups);
    }
    free(decision);
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Mean of `value` over the rows of every group (of one stratum, or of all: -1), with 1.96 standard errors. */
static audit_profile profile_of(const audit *a, const audit_groups *groups, int64_t stratum, const double *value) {
    int64_t n = groups->n_groups;
    audit_profile p = {small_alloc((size_t)n * sizeof(double)), small_alloc((size_t)n * sizeof(double))};
    double *count = small_alloc((size_t)n * sizeof *count);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < a->data.n; i++) {
            int64_t g = groups->of[i];
            if (stratum >= 0 && a->outcome.of[i] != stratum) continue;
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

bool audit_has_errors(const audit *a) { return a->data.outcome != OUTCOME_CLASSES; }

static void profile_errors(const audit *a, const audit_groups *groups, audit_finding *f) {
    size_t n = (size_t)a->data.n;
    double *error = small_alloc(n * sizeof *error), *square = small_alloc(n * sizeof *square);
    for (size_t i = 0; i < n; i++) {
        error[i] = f->prediction->values[i] - a->data.target.values[i];
        square[i] = error[i] * error[i];
    }
    f->error = profile_of(a, groups, -1, error);
    f->squared = profile_of(a, groups, -1, square);
    for (int64_t g = 0; g < groups->n_groups; g++) { /* of the root: d sqrt(m) = dm / (2 sqrt(m)) */
        double root = sqrt(f->squared.value[g]);
        f->squared.half[g] = root > 0 ? f->squared.half[g] / (2 * root) : 0;
        f->squared.value[g] = root;
    }
    free(square);
    free(error);
}

void audit_compare_groups(audit *a, audit_finding *f) {
    const audit_groups *finest = &a->finest[f->attribute - a->data.attributes];
    compare_binnings(a, f);
    f->residual = profile_of(a, finest, -1, a->residuals[f->prediction - a->data.predictions]);
    if (audit_has_errors(a)) profile_errors(a, finest, f);
    if (a->data.outcome == OUTCOME_NUMBERS) return;
    for (int64_t s = 0; s < a->outcome.n_groups; s++) f->strata[s] = profile_of(a, finest, s, f->prediction->values);
}
