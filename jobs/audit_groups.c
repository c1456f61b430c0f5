/* Rows in groups: of outcomes that count as equal, of attributes, of what is given; and random parts of the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/random.h"
#include "io/quantile.h"
#include "jobs/audit_parts.h"

static void group_categories(const circe_audit_column *c, int64_t n, int64_t smallest, circe_audit_groups *g) {
    g->n_groups = c->n_categories;
    for (int64_t i = 0; i < n; i++) {
        g->of[i] = c->code[i];
        g->centre[c->code[i]] = c->values[i];
        g->rows[c->code[i]]++;
    }
    for (int64_t k = 0; k < g->n_groups; k++) {
        g->labels[k] = small_format("%s", c->categories[k]);
        g->compared[k] = g->rows[k] >= smallest;
    }
}

/* The possible end of a group that is nearest to `wanted`: it lies between different values, so ties stay together. */
static int64_t end_of_group(const double *sorted, int64_t n, int64_t first, int64_t wanted) {
    int64_t end = wanted > first ? wanted : first + 1;
    int64_t above = end, below = end;
    while (above < n && sorted[above] == sorted[end - 1]) above++;
    while (below > first && sorted[below - 1] == sorted[above - 1]) below--;
    if (above == end || below == first) return above;
    return above == n || end - below < above - end ? below : above;
}

static int64_t cut(const double *sorted, int64_t n, int64_t wanted, double *last, circe_audit_groups *g) {
    int64_t k = 0;
    for (int64_t first = 0; first < n && k < wanted; k++) {
        int64_t end = (int64_t)llround((double)(k + 1) / (double)wanted * (double)n);
        end = k + 1 == wanted ? n : end_of_group(sorted, n, first, end);
        last[k] = sorted[end - 1];
        g->centre[k] = quantile_at(sorted + first, end - first, 0.5);
        g->labels[k] = sorted[first] == last[k] ? small_format("%.4g", last[k])
                                                : small_format("%.4g to %.4g", sorted[first], last[k]);
        first = end;
    }
    return k;
}

static void group_numbers(const circe_audit_column *c, int64_t n, int64_t wanted, circe_audit_groups *g) {
    OWNED double *sorted = small_alloc((size_t)n * sizeof *sorted), *last = small_alloc((size_t)wanted * sizeof *last);
    memcpy(sorted, c->values, (size_t)n * sizeof *sorted);
    quantile_sort(sorted, n);
    g->n_groups = cut(sorted, n, wanted, last, g);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k + 1 < g->n_groups && c->values[i] > last[k]) k++;
        g->of[i] = k;
        g->rows[k]++;
    }
    for (int64_t k = 0; k < g->n_groups; k++) g->compared[k] = 1;
}

void audit_groups_make(const circe_audit_column *column, int64_t n, int64_t wanted, int64_t smallest,
                       circe_audit_groups *groups) {
    size_t most = (size_t)(column->categories != NULL ? column->n_categories : wanted);
    *groups = (circe_audit_groups){.of = small_alloc((size_t)n * sizeof *groups->of),
                                   .rows = small_alloc(most * sizeof *groups->rows),
                                   .compared = small_alloc(most * sizeof *groups->compared),
                                   .centre = small_alloc(most * sizeof *groups->centre),
                                   .labels = small_alloc(most * sizeof *groups->labels)};
    if (column->categories != NULL)
        group_categories(column, n, smallest, groups);
    else
        group_numbers(column, n, wanted, groups);
}

void audit_groups_free(circe_audit_groups *groups) {
    for (int64_t k = 0; k < groups->n_groups; k++) free(groups->labels[k]);
    free(groups->labels);
    free(groups->centre);
    free(groups->compared);
    free(groups->rows);
    free(groups->of);
    *groups = (circe_audit_groups){0};
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
    run->selected = small_alloc((size_t)r->n_predictions * sizeof *run->selected);
    run->decision = small_alloc((size_t)r->n_predictions * sizeof *run->decision);
    run->negative = small_alloc((size_t)r->n * sizeof *run->negative);
    for (int64_t i = 0; i < r->n; i++) run->negative[i] = 1 - r->target.values[i];
    for (int64_t p = 0; p < r->n_predictions; p++) {
        run->selected[p] = small_alloc((size_t)r->n * sizeof **run->selected);
        run->decision[p] = small_alloc((size_t)r->n * sizeof **run->decision);
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
    run->cells = small_alloc((size_t)r->n * sizeof *run->cells);
    run->n_cells = 1;
    for (int64_t k = 0; k < r->n_given; k++) {
        circe_audit_groups groups;
        audit_groups_make(&r->given[k], r->n, AUDIT_STRATA, 0, &groups);
        int64_t all = run->n_cells * groups.n_groups, *cell = small_alloc((size_t)all * sizeof *cell), n = 0;
        for (int64_t i = 0; i < r->n; i++) {
            run->cells[i] = run->cells[i] * groups.n_groups + groups.of[i];
            if (cell[run->cells[i]] == 0) cell[run->cells[i]] = ++n;
        }
        for (int64_t i = 0; i < r->n; i++) run->cells[i] = cell[run->cells[i]] - 1;
        run->n_cells = n;
        free(cell);
        audit_groups_free(&groups);
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
    audit_groups_make(&r->target, r->n, AUDIT_STRATA, 0, &r->strata);
    if (!audit_asks(r, CIRCE_NOTION_SUFFICIENCY)) return;
    r->levels = small_alloc((size_t)r->n_predictions * sizeof *r->levels);
    for (int64_t p = 0; p < r->n_predictions; p++)
        audit_groups_make(&r->predictions[p], r->n, AUDIT_STRATA, 0, &r->levels[p]);
}

void audit_make_groups(audit_run *run) {
    circe_audit_result *r = run->r;
    make_levels(r);
    r->groups = small_alloc((size_t)r->n_attributes * sizeof *r->groups);
    run->coarse = small_alloc((size_t)(r->n_attributes * AUDIT_COARSE) * sizeof *run->coarse);
    for (int64_t a = 0; a < r->n_attributes; a++) {
        const circe_audit_column *c = &r->attributes[a];
        audit_groups_make(c, r->n, AUDIT_FINEST, r->smallest_group, &r->groups[a]);
        for (int b = 0; b < AUDIT_COARSE && c->categories == NULL; b++)
            audit_groups_make(c, r->n, coarse[b], 0, &run->coarse[a * AUDIT_COARSE + b]);
        note_small_groups(run, a);
    }
    run->all_rows = small_alloc((size_t)r->n * sizeof *run->all_rows);
    find_cells(run);
    find_selected(run);
}

/* ---- random parts ------------------------------------------------------------------------------------------------ */

int64_t *audit_sample(int64_t all, int64_t most, int64_t seed, uint64_t stream, int64_t *n) {
    *n = all < most ? all : most;
    int64_t *rows = small_alloc((size_t)*n * sizeof *rows);
    if (*n < all)
        circe_random_subset((circe_random){.seed = (uint64_t)seed, .stream = stream}, all, *n, rows);
    else
        for (int64_t i = 0; i < all; i++) rows[i] = i;
    return rows;
}

double *audit_take(const double *values, const int64_t *rows, int64_t n) {
    double *out = small_alloc((size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = values[rows[i]];
    return out;
}
