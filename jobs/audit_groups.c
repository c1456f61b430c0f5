/* Rows in groups: of outcomes that count as equal, of attributes, of what is given; and random parts of the rows. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "circe/random.h"
#include "jobs/audit_parts.h"

static void group_categories(arena *owner, const circe_audit_column *c, int64_t n, int64_t smallest,
                             circe_audit_groups *g) {
    g->n_groups = c->n_categories;
    for (int64_t i = 0; i < n; i++) {
        g->of[i] = c->code[i];
        g->centre[c->code[i]] = c->values[i];
        g->rows[c->code[i]]++;
    }
    for (int64_t k = 0; k < g->n_groups; k++) {
        g->labels[k] = arena_text(owner, c->categories[k]);
        g->compared[k] = g->rows[k] >= smallest;
    }
}

/* A row of a sorted column, and the weight of the rows up to it, with it. */
typedef struct ranked {
    double value, upto;
} ranked;

static int ascending(const void *a, const void *b) {
    double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

static ranked *rank_rows(const double *values, const double *weights, int64_t n) {
    ranked *sorted = small_alloc((size_t)n * sizeof *sorted);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sorted[i] = (ranked){values[i], weights != NULL ? weights[i] : 1};
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    for (int64_t i = 0; i < n; i++) sorted[i].upto = sum += sorted[i].upto;
    return sorted;
}

/* What the rows up to `end` weigh. */
static double weight_upto(const ranked *sorted, int64_t end) { return end > 0 ? sorted[end - 1].upto : 0; }

/* The possible end of a group whose rows, with all before them, weigh closest to `wanted`: it lies between different
 * values, so ties stay together. Of two as close it is the second, whatever rounding left of the sums: `slack`. */
static int64_t end_of_group(const ranked *sorted, int64_t n, int64_t first, double wanted, double slack) {
    int64_t below = first, above = first;
    while (above < n && (above == first || sorted[above - 1].upto < wanted - slack)) {
        below = above++;
        while (above < n && sorted[above].value == sorted[above - 1].value) above++;
    }
    if (below == first) return above;
    return above == n || wanted - weight_upto(sorted, below) < sorted[above - 1].upto - wanted - slack ? below : above;
}

/* The mean of the values up to which, and from which, half of the weight is. */
static double median_of(const ranked *sorted, int64_t first, int64_t end, double slack) {
    double half = (weight_upto(sorted, first) + weight_upto(sorted, end)) / 2;
    int64_t low = first, high;
    while (low + 1 < end && sorted[low].upto < half - slack) low++;
    for (high = low; high + 1 < end && sorted[high].upto <= half + slack;) high++;
    return 0.5 * (sorted[low].value + sorted[high].value);
}

/* Significant digits that tell apart numbers between these ends: three more than the ends have in common. */
static int digits_between(double least, double largest) {
    enum { LEAST = 4, MOST = 17 };
    double common = log10(fmax(fabs(least), fabs(largest)) / (largest - least));
    return common > 1.0 && isfinite(common) ? (int)fmin(ceil(common) + 3.0, MOST) : LEAST;
}

static int64_t cut(arena *owner, const ranked *sorted, int64_t n, int64_t wanted, double *last, circe_audit_groups *g) {
    int64_t k = 0;
    int digits = n > 0 ? digits_between(sorted[0].value, sorted[n - 1].value) : 0;
    double all = weight_upto(sorted, n), slack = 1e-9 * all / (double)n;
    for (int64_t first = 0; first < n && k < wanted; k++) {
        double share = (double)(k + 1) / (double)wanted;
        int64_t end = k + 1 == wanted ? n : end_of_group(sorted, n, first, share * all, slack);
        last[k] = sorted[end - 1].value;
        g->centre[k] = median_of(sorted, first, end, slack);
        g->labels[k] = sorted[first].value == last[k]
                           ? arena_format(owner, "%.*g", digits, last[k])
                           : arena_format(owner, "%.*g to %.*g", digits, sorted[first].value, digits, last[k]);
        first = end;
    }
    return k;
}

static void group_numbers(arena *owner, const circe_audit_column *c, const double *weights, int64_t n, int64_t wanted,
                          circe_audit_groups *g) {
    OWNED ranked *sorted = rank_rows(c->values, weights, n);
    OWNED double *last = small_alloc((size_t)wanted * sizeof *last);
    g->n_groups = cut(owner, sorted, n, wanted, last, g);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k + 1 < g->n_groups && c->values[i] > last[k]) k++;
        g->of[i] = k;
        g->rows[k]++;
    }
    for (int64_t k = 0; k < g->n_groups; k++) g->compared[k] = 1;
}

circe_audit_groups audit_groups_make(arena *owner, const circe_audit_column *column, const double *weights, int64_t n,
                                     int64_t wanted, int64_t smallest) {
    size_t most = (size_t)(column->categories != NULL ? column->n_categories : wanted);
    circe_audit_groups groups = {.of = arena_alloc(owner, (size_t)n * sizeof *groups.of),
                                 .rows = arena_alloc(owner, most * sizeof *groups.rows),
                                 .compared = arena_alloc(owner, most * sizeof *groups.compared),
                                 .centre = arena_alloc(owner, most * sizeof *groups.centre),
                                 .labels = arena_alloc(owner, most * sizeof *groups.labels)};
    if (column->categories != NULL)
        group_categories(owner, column, n, smallest, &groups);
    else
        group_numbers(owner, column, weights, n, wanted, &groups);
    return groups;
}

int64_t audit_groups_compared(const circe_audit_groups *groups) {
    int64_t n = 0;
    for (int64_t g = 0; g < groups->n_groups; g++) n += groups->compared[g];
    return n;
}

/* ---- all groups of an audit -------------------------------------------------------------------------------------- */

static const int64_t coarse[AUDIT_COARSE] = {2, 4};

static void find_selected(audit_run *run) {
    const circe_audit_result *r = run->r;
    if (r->outcome != CIRCE_OUTCOME_BINARY) return;
    run->selected = arena_alloc(&run->owner, (size_t)r->n_predictions * sizeof *run->selected);
    run->decision = arena_alloc(&run->owner, (size_t)r->n_predictions * sizeof *run->decision);
    run->negative = arena_alloc(&run->owner, (size_t)r->n * sizeof *run->negative);
    for (int64_t i = 0; i < r->n; i++) run->negative[i] = 1 - r->target.values[i];
    for (int64_t p = 0; p < r->n_predictions; p++) {
        run->selected[p] = arena_alloc(&run->owner, (size_t)r->n * sizeof **run->selected);
        run->decision[p] = arena_alloc(&run->owner, (size_t)r->n * sizeof **run->decision);
        double threshold = audit_threshold(r, &r->predictions[p]);
        for (int64_t i = 0; i < r->n; i++) {
            run->decision[p][i] = r->predictions[p].values[i] >= threshold;
            run->selected[p][i] = (double)run->decision[p][i];
        }
    }
}

/* Every combination of the columns of --given that occurs is a cell; numbers are in five groups. */
static void find_cells(audit_run *run) {
    const circe_audit_result *r = run->r;
    run->cells = arena_alloc(&run->owner, (size_t)r->n * sizeof *run->cells);
    run->n_cells = 1;
    for (int64_t k = 0; k < r->n_given; k++) {
        OWNED_BY(arena_free) arena scratch = {0};
        circe_audit_groups groups = audit_groups_make(&scratch, &r->given[k], r->weights, r->n, AUDIT_STRATA, 0);
        int64_t all = run->n_cells * groups.n_groups, *cell = arena_alloc(&scratch, (size_t)all * sizeof *cell), n = 0;
        for (int64_t i = 0; i < r->n; i++) {
            run->cells[i] = run->cells[i] * groups.n_groups + groups.of[i];
            if (cell[run->cells[i]] == 0) cell[run->cells[i]] = ++n;
        }
        for (int64_t i = 0; i < r->n; i++) run->cells[i] = cell[run->cells[i]] - 1;
        run->n_cells = n;
    }
}

static void note_small_groups(audit_run *run, int64_t attribute) {
    const circe_audit_result *r = run->r;
    int64_t small = r->groups[attribute].n_groups - audit_groups_compared(&r->groups[attribute]);
    if (small == 0) return;
    notes_add(&run->warnings,
              "%lld group%s of '%s' %s fewer than %lld rows: the report shows %s, but the gaps leave %s out "
              "(--smallest-group)",
              (long long)small, small == 1 ? "" : "s", r->attributes[attribute].name, small == 1 ? "has" : "have",
              (long long)r->smallest_group, small == 1 ? "it" : "them", small == 1 ? "it" : "them");
}

static void make_levels(circe_audit_result *r) {
    r->strata = audit_groups_make(audit_owner(r), &r->target, r->weights, r->n, AUDIT_STRATA, 0);
    if (!audit_asks(r, CIRCE_NOTION_SUFFICIENCY)) return;
    r->levels = arena_alloc(audit_owner(r), (size_t)r->n_predictions * sizeof *r->levels);
    for (int64_t p = 0; p < r->n_predictions; p++)
        r->levels[p] = audit_groups_make(audit_owner(r), &r->predictions[p], r->weights, r->n, AUDIT_STRATA, 0);
}

void audit_make_groups(audit_run *run) {
    circe_audit_result *r = run->r;
    make_levels(r);
    r->groups = arena_alloc(audit_owner(r), (size_t)r->n_attributes * sizeof *r->groups);
    run->coarse = arena_alloc(&run->owner, (size_t)(r->n_attributes * AUDIT_COARSE) * sizeof *run->coarse);
    for (int64_t a = 0; a < r->n_attributes; a++) {
        const circe_audit_column *c = &r->attributes[a];
        r->groups[a] = audit_groups_make(audit_owner(r), c, r->weights, r->n, AUDIT_FINEST, r->smallest_group);
        for (int b = 0; b < AUDIT_COARSE && c->categories == NULL; b++)
            run->coarse[a * AUDIT_COARSE + b] = audit_groups_make(&run->owner, c, r->weights, r->n, coarse[b], 0);
        note_small_groups(run, a);
    }
    run->all_rows = arena_alloc(&run->owner, (size_t)r->n * sizeof *run->all_rows);
    find_cells(run);
    find_selected(run);
}

/* ---- random parts ------------------------------------------------------------------------------------------------ */

int64_t *audit_sample(arena *owner, int64_t all, int64_t most, int64_t seed, uint64_t stream, int64_t *n) {
    *n = all < most ? all : most;
    int64_t *rows = arena_alloc(owner, (size_t)*n * sizeof *rows);
    if (*n < all)
        circe_random_subset((circe_random){.seed = (uint64_t)seed, .stream = stream}, all, *n, rows);
    else
        for (int64_t i = 0; i < all; i++) rows[i] = i;
    return rows;
}

double *audit_take(arena *owner, const double *values, const int64_t *rows, int64_t n) {
    double *out = arena_alloc(owner, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = values[rows[i]];
    return out;
}
