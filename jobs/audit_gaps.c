/* What people compare: groups of an attribute, at equal outcome.
 *
 *     strata   outcomes that count as equal: the classes, or five groups of a number
 *     m_sg     mean over the rows of stratum s and group g; cells of fewer than LEAST_IN_CELL rows are left out
 *     gap      sum_s share_s (max_g m_sg - min_g m_sg)
 *
 * Of a number, what is averaged is the prediction less its mean given the outcome (residuals): outcomes that differ
 * within a stratum would otherwise pass for a gap. A maximum over groups is positive by chance, the more so the more
 * groups there are: the same gap with the groups shuffled within every stratum says by how much. Groups that are too
 * small to be compared take no part in either. O(n) a shuffle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/random.h"
#include "io/quantile.h"
#include "io/small.h"
#include "jobs/audit_parts.h"

enum { LEAST_IN_CELL = 5, SHUFFLES = 200 };

static const int64_t coarse[AUDIT_COARSE] = {2, 4};

const char *circe_audit_gap_name(circe_audit_gap_kind kind) {
    static const char *const names[] = {"mean prediction", "true positive rate", "false positive rate",
                                        "selection rate", "precision"};
    return names[kind];
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void find_selected(audit_run *run) {
    const circe_audit_result *r = run->r;
    if (r->outcome != CIRCE_OUTCOME_BINARY) return;
    run->selected = small_alloc((size_t)r->n_predictions * sizeof *run->selected);
    run->decision = small_alloc((size_t)r->n_predictions * sizeof *run->decision);
    run->all_rows = small_alloc((size_t)r->n * sizeof *run->all_rows);
    for (int64_t p = 0; p < r->n_predictions; p++) {
        run->selected[p] = small_alloc((size_t)r->n * sizeof **run->selected);
        run->decision[p] = small_alloc((size_t)r->n * sizeof **run->decision);
        for (int64_t i = 0; i < r->n; i++) {
            run->decision[p][i] = r->predictions[p].values[i] >= r->threshold;
            run->selected[p][i] = (double)run->decision[p][i];
        }
    }
}

void audit_make_groups(audit_run *run) {
    circe_audit_result *r = run->r;
    audit_groups_make(&r->target, r->n, AUDIT_STRATA, 0, &r->strata);
    r->groups = small_alloc((size_t)r->n_attributes * sizeof *r->groups);
    run->coarse = small_alloc((size_t)(r->n_attributes * AUDIT_COARSE) * sizeof *run->coarse);
    for (int64_t a = 0; a < r->n_attributes; a++) {
        const circe_audit_column *c = &r->attributes[a];
        audit_groups_make(c, r->n, AUDIT_FINEST, r->smallest_group, &r->groups[a]);
        for (int b = 0; b < AUDIT_COARSE && c->categories == NULL; b++)
            audit_groups_make(c, r->n, coarse[b], 0, &run->coarse[a * AUDIT_COARSE + b]);
        int64_t small = r->groups[a].n_groups - audit_groups_compared(&r->groups[a]);
        if (small > 0)
            notes_add(&run->warnings,
                      "%lld of the groups of '%s' have fewer than %lld rows: they are shown, but no gap counts them "
                      "(--smallest-group)",
                      (long long)small, c->name, (long long)r->smallest_group);
    }
    find_selected(run);
}

/* ---- one gap ----------------------------------------------------------------------------------------------------- */

/* What is compared: means of `value` between groups, in each of the strata from..to-1. */
typedef struct comparison {
    circe_audit_gap_kind kind;
    const int64_t *stratum; /* (n) */
    int64_t n_strata, from, to;
    const double *value; /* (n) */
} comparison;

typedef struct table {
    int64_t n, n_strata, n_groups; /* n: rows of groups that are compared */
    int64_t from, to;              /* the strata that count */
    int64_t *stratum, *group;      /* (n), owned; the groups are shuffled */
    double *value;                 /* (n), owned */
    double *sum, *count, *size;    /* (strata, groups) twice, (strata) */
    int64_t *high, *low;           /* (strata): the groups that differ most; -1: none */
} table;

static void find_extremes(table *t, int64_t s) {
    double least = INFINITY, most = -INFINITY;
    t->high[s] = t->low[s] = -1;
    for (int64_t g = 0; g < t->n_groups; g++) {
        double count = t->count[s * t->n_groups + g], mean = t->sum[s * t->n_groups + g] / count;
        if (count < LEAST_IN_CELL) continue;
        if (mean > most) most = mean, t->high[s] = g;
        if (mean <= least) least = mean, t->low[s] = g; /* of equal ones the last, so that two groups differ by 0 */
    }
    if (t->high[s] == t->low[s]) t->high[s] = t->low[s] = -1; /* one group alone */
}

static double difference(const table *t, int64_t s) {
    int64_t high = s * t->n_groups + t->high[s], low = s * t->n_groups + t->low[s];
    return t->sum[high] / t->count[high] - t->sum[low] / t->count[low];
}

/* The mean gap over the strata, each weighted by its rows. */
static double gap_of(table *t) {
    double total = 0, rows = 0;
    memset(t->sum, 0, (size_t)(t->n_strata * t->n_groups) * sizeof *t->sum);
    memset(t->count, 0, (size_t)(t->n_strata * t->n_groups) * sizeof *t->count);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t cell = t->stratum[i] * t->n_groups + t->group[i];
        t->sum[cell] += t->value[i];
        t->count[cell] += 1;
    }
    for (int64_t s = 0; s < t->n_strata; s++) {
        t->high[s] = t->low[s] = -1;
        if (s < t->from || s >= t->to) continue;
        find_extremes(t, s);
        if (t->high[s] < 0) continue;
        total += t->size[s] * difference(t, s);
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

static void gap_by_chance(table *t, circe_random generator, circe_audit_gap *gap) {
    double drawn[SHUFFLES], *uniform = small_alloc((size_t)t->n * sizeof *uniform);
    int64_t *rows = rows_by_stratum(t);
    gap->chance = 0;
    for (int64_t d = 0; d < SHUFFLES; d++) {
        shuffle(t, rows, generator, (uint64_t)(d * t->n), uniform);
        drawn[d] = gap_of(t);
        gap->chance += drawn[d] / SHUFFLES;
    }
    quantile_sort(drawn, SHUFFLES);
    gap->chance_upper = quantile_at(drawn, SHUFFLES, 0.95);
    free(rows);
    free(uniform);
}

static table table_make(int64_t n_rows, const circe_audit_groups *groups, const comparison *c) {
    size_t n = (size_t)n_rows, n_strata = (size_t)c->n_strata, cells = n_strata * (size_t)groups->n_groups;
    table t = {.n_strata = c->n_strata,
               .n_groups = groups->n_groups,
               .from = c->from,
               .to = c->to,
               .stratum = small_alloc(n * sizeof *t.stratum),
               .group = small_alloc(n * sizeof *t.group),
               .value = small_alloc(n * sizeof *t.value),
               .sum = small_alloc(cells * sizeof *t.sum),
               .count = small_alloc(cells * sizeof *t.count),
               .size = small_alloc(n_strata * sizeof *t.size),
               .high = small_alloc(n_strata * sizeof *t.high),
               .low = small_alloc(n_strata * sizeof *t.low)};
    for (int64_t i = 0; i < n_rows; i++) {
        if (!groups->compared[groups->of[i]]) continue;
        t.stratum[t.n] = c->stratum[i];
        t.group[t.n] = groups->of[i];
        t.value[t.n++] = c->value[i];
        t.size[c->stratum[i]] += 1;
    }
    return t;
}

/* All but high and low, which a contrast takes over. */
static void table_free(table *t) {
    free(t->stratum);
    free(t->group);
    free(t->value);
    free(t->sum);
    free(t->count);
    free(t->size);
}

/* The groups at the outcome where they differ most. */
static void name_groups(const table *t, const circe_audit_groups *groups, circe_audit_gap *gap) {
    double widest = -1;
    gap->stratum = t->from;
    for (int64_t s = t->from; s < t->to; s++) {
        if (t->high[s] < 0 || difference(t, s) <= widest) continue;
        widest = difference(t, s);
        gap->stratum = s;
    }
    int64_t high = t->high[gap->stratum], low = t->low[gap->stratum];
    gap->high = small_format("%s", high >= 0 ? groups->labels[high] : "");
    gap->low = small_format("%s", low >= 0 ? groups->labels[low] : "");
}

static void add_contrast(audit_run *run, const circe_audit_finding *f, const circe_audit_groups *groups,
                         const comparison *what, const table *t, circe_audit_gap *gap) {
    size_t bytes = (size_t)t->n_strata * sizeof *t->high;
    audit_contrast *c = &run->contrasts[run->n_contrasts++];
    *c = (audit_contrast){.gap = gap,
                          .prediction = f->prediction,
                          .attribute = f->attribute,
                          .stratum = what->stratum,
                          .group = groups->of,
                          .value = what->value,
                          .n_strata = t->n_strata,
                          .high = memcpy(small_alloc(bytes), t->high, bytes),
                          .low = memcpy(small_alloc(bytes), t->low, bytes)};
}

static void find_gap(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups, const comparison *what) {
    circe_audit_gap *gap = &f->gaps[f->n_gaps++];
    table t = table_make(run->r->n, groups, what);
    *gap = (circe_audit_gap){
        .kind = what->kind, .n_groups = audit_groups_compared(groups), .gap = {gap_of(&t), (double)NAN, (double)NAN}};
    name_groups(&t, groups, gap);
    if (what->kind >= CIRCE_GAP_SELECTION_RATE) gap->stratum = -1;
    add_contrast(run, f, groups, what, &t, gap);
    gap_by_chance(&t, (circe_random){.seed = (uint64_t)run->options->seed, .stream = 77}, gap);
    free(t.high);
    free(t.low);
    table_free(&t);
}

/* Rates of decisions: at equal outcome; of all rows; and of the outcome among those that are selected. */
static void compare_rates(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups) {
    const double *selected = run->selected[f->prediction];
    const int64_t *outcome = run->r->strata.of;
    const comparison list[] = {
        {CIRCE_GAP_TRUE_POSITIVE_RATE, outcome, 2, 1, 2, selected},
        {CIRCE_GAP_FALSE_POSITIVE_RATE, outcome, 2, 0, 1, selected},
        {CIRCE_GAP_SELECTION_RATE, run->all_rows, 1, 0, 1, selected},
        {CIRCE_GAP_PRECISION, run->decision[f->prediction], 2, 1, 2, run->r->target.values},
    };
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) find_gap(run, f, groups, &list[k]);
}

static void compare(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups) {
    const circe_audit_result *r = run->r;
    bool numbers = r->outcome == CIRCE_OUTCOME_NUMBERS;
    int64_t n = r->strata.n_groups;
    const double *value = numbers ? r->residuals[f->prediction] : audit_prediction(r, f)->values;
    if (audit_groups_compared(groups) < 2) return;
    find_gap(run, f, groups, &(comparison){CIRCE_GAP_MEAN_PREDICTION, r->strata.of, n, 0, n, value});
    if (run->selected != NULL) compare_rates(run, f, groups);
}

/* Binnings of numbers, from coarse to fine, each with more groups than the one before. */
static void compare_binnings(audit_run *run, circe_audit_finding *f) {
    const circe_audit_groups *finest = &run->r->groups[f->attribute];
    int64_t last = 1;
    for (int b = 0; b < AUDIT_COARSE; b++) {
        const circe_audit_groups *groups = &run->coarse[f->attribute * AUDIT_COARSE + b];
        if (groups->n_groups > last && groups->n_groups < finest->n_groups) compare(run, f, groups);
        last = groups->n_groups > last ? groups->n_groups : last;
    }
    compare(run, f, finest);
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Mean of `value` over the rows of every group (of one stratum, or of all: -1), with 1.96 standard errors. */
static circe_audit_profile profile_of(const circe_audit_result *r, const circe_audit_groups *groups, int64_t stratum,
                                      const double *value) {
    int64_t n = groups->n_groups;
    circe_audit_profile p = {small_alloc((size_t)n * sizeof(double)), small_alloc((size_t)n * sizeof(double))};
    double *count = small_alloc((size_t)n * sizeof *count);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < r->n; i++) {
            int64_t g = groups->of[i];
            if (stratum >= 0 && r->strata.of[i] != stratum) continue;
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

void audit_compare_groups(audit_run *run, circe_audit_finding *f) {
    const circe_audit_result *r = run->r;
    const circe_audit_groups *finest = &r->groups[f->attribute];
    compare_binnings(run, f);
    f->residual = profile_of(r, finest, -1, r->residuals[f->prediction]);
    if (r->outcome == CIRCE_OUTCOME_NUMBERS) return;
    f->strata = small_alloc((size_t)r->strata.n_groups * sizeof *f->strata);
    for (int64_t s = 0; s < r->strata.n_groups; s++)
        f->strata[s] = profile_of(r, finest, s, audit_prediction(r, f)->values);
}
