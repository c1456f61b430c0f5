/* Warns of columns that determine each other, as copies under another name do: then the invariance is there from the
 * start, or cannot be had, or the target is among the features.
 *
 * A column determines another if rows of equal values in it are alike in the other, or if the other rises or falls with
 * it throughout. Rows that all differ are alike in nothing, so the first needs evidence: that many rows whose values
 * occurred before would have contradicted it if the columns were independent.
 *
 *     n         rows
 *     entries   a column's values in ascending order, each with its row
 *     repeats   rows whose value occurred before, in that order */
#include <stdlib.h>

#include "base/small.h"
#include "core/sort.h"
#include "jobs/training.h"

enum { LEAST_ROWS = 20, LEAST_EVIDENCE = 10 };

/* Values of the columns in one, equal where all of them are equal. */
typedef struct joined {
    circe__entry *entries; /* (n), ascending */
    int64_t n, repeats;
    bool ordered; /* greater values mean more: one column of numbers */
} joined;

static bool join(const training_set *set, const training_role *role, circe__entry *spare, joined *out) {
    const int64_t n = set->table.in.values.rows;
    *out = (joined){.entries = calloc((size_t)n, sizeof *out->entries), .n = n};
    OWNED double *code = calloc((size_t)n, sizeof *code); /* of the columns so far: their order */
    if (out->entries == NULL || code == NULL) return false;
    for (int64_t k = 0; k < role->n; k++) {
        /* By this column within equal codes: the sort keeps the order of equal entries. */
        for (int64_t i = 0; i < n; i++)
            out->entries[i] = (circe__entry){column_value(&set->table, i, role->cols[k]), i};
        circe__sort_entries(out->entries, spare, n);
        for (int64_t i = 0; i < n && k > 0; i++) out->entries[i].value = code[out->entries[i].row];
        if (k > 0) circe__sort_entries(out->entries, spare, n);
        out->repeats = 0;
        double last = 0.0, rank = 0.0, column_last = 0.0;
        for (int64_t i = 0; i < n; i++) {
            int64_t row = out->entries[i].row;
            double before = k > 0 ? code[row] : 0.0, value = column_value(&set->table, row, role->cols[k]);
            bool same = i > 0 && before == last && value == column_last;
            out->repeats += same;
            rank += !same;
            last = before, column_last = value;
            out->entries[i].value = rank;
        }
        for (int64_t i = 0; i < n; i++) code[out->entries[i].row] = out->entries[i].value;
    }
    out->ordered = role->n == 1 && column_categories(&set->table, role->cols[0]) == NULL;
    return true;
}

/* The chance that two rows differ in a column, and how many do not have its most frequent value. */
static bool spread_of(const training_set *set, int64_t col, double *differ, int64_t *others) {
    const int64_t n = set->table.in.values.rows;
    OWNED double *sorted = malloc((size_t)n * sizeof *sorted);
    int64_t run = 0, most = 0;
    if (sorted == NULL) return false;
    for (int64_t i = 0; i < n; i++) sorted[i] = column_value(&set->table, i, col);
    circe__sort(sorted, n);
    *differ = 1.0;
    for (int64_t i = 0; i < n; i++) {
        run = i > 0 && sorted[i] == sorted[i - 1] ? run + 1 : 1;
        if (run > most) most = run;
        if (i + 1 < n && sorted[i + 1] == sorted[i]) continue;
        *differ -= ((double)run / (double)n) * ((double)run / (double)n);
    }
    *others = n - most;
    return true;
}

static bool determines(const training_set *set, const joined *from, int64_t col) {
    enum { RARE = 3 }; /* rows of a rare value may lie at one end by chance */
    const column_table *table = &set->table;
    bool up = from->ordered && column_categories(table, col) == NULL, down = up;
    double differ = 0.0;
    int64_t others = 0;
    for (int64_t i = 1; i < from->n; i++) {
        double last = column_value(table, from->entries[i - 1].row, col);
        double value = column_value(table, from->entries[i].row, col);
        if (value != last && from->entries[i].value == from->entries[i - 1].value) return false;
        up = up && value >= last;
        down = down && value <= last;
        if (!up && !down && from->repeats < LEAST_EVIDENCE) return false;
    }
    if (!spread_of(set, col, &differ, &others)) return false;
    return ((up || down) && others >= RARE) || (double)from->repeats * differ >= LEAST_EVIDENCE;
}

/* The columns of a role: each alone, then all together, of which rows are less often alike. */
typedef struct joins {
    joined *of;
    int64_t n;
} joins;

static void joins_free(joins *all) {
    for (int64_t k = 0; k < all->n; k++) free(all->of[k].entries);
    free(all->of);
}

static bool join_role(const training_set *set, const training_role *role, circe__entry *spare, joins *out) {
    *out = (joins){small_alloc((size_t)(role->n + 1) * sizeof *out->of), role->n > 1 ? role->n + 1 : role->n};
    for (int64_t k = 0; k < out->n; k++) {
        training_role one = {.cols = &role->cols[k], .n = 1};
        if (!join(set, k < role->n ? &one : role, spare, &out->of[k])) return false;
    }
    return true;
}

static bool any_determines(const training_set *set, const joins *from, int64_t col) {
    for (int64_t k = 0; k < from->n; k++)
        if (determines(set, &from->of[k], col)) return true;
    return false;
}

/* The target may be predicted from itself under another name. */
static void note_features(training_job *job, circe__entry *spare) {
    const training_set *set = job->set;
    OWNED_BY(joins_free) joins target = {0};
    if (set->target.n > 1 || !join_role(set, &set->target, spare, &target)) return;
    for (int64_t k = 0; k < set->features.n; k++) {
        const training_role one = {.cols = &set->features.cols[k], .n = 1};
        OWNED_BY(joins_free) joins feature = {0};
        if (any_determines(set, &target, one.cols[0]) && join_role(set, &one, spare, &feature) &&
            any_determines(set, &feature, set->target.cols[0]))
            notes_add(&job->warnings,
                      "the feature '%s' and the target '%s' determine each other in every row: is it the target under "
                      "another name?",
                      training_column(set, &set->features, k), training_column(set, &set->target, 0));
    }
}

static void note_invariance(training_job *job, circe__entry *spare) {
    const training_set *set = job->set;
    const bool conditional = job->kind != CIRCE_MEASURE_HSIC;
    OWNED_BY(joins_free) joins given = {0}, invariant = {0};
    if (!join_role(set, &set->given, spare, &given) || !join_role(set, &set->invariant, spare, &invariant)) return;
    for (int64_t k = 0; k < set->invariant.n && conditional; k++)
        if (any_determines(set, &given, set->invariant.cols[k]))
            notes_add(&job->warnings,
                      "--given determines '%s' of --invariant-to in every row: once --given is known, nothing can "
                      "depend on it, so there is nothing to regularise, and what is reported of this dependence is "
                      "noise",
                      training_column(set, &set->invariant, k));
    for (int64_t k = 0; k < set->target.n; k++)
        if (any_determines(set, &invariant, set->target.cols[k]) &&
            !(conditional && (set->given_is_target || any_determines(set, &given, set->target.cols[k]))))
            notes_add(&job->warnings,
                      "--invariant-to determines the target '%s' in every row: a prediction that does not depend on it "
                      "can tell no more about the target than %s",
                      training_column(set, &set->target, k), conditional ? "--given does" : "a constant");
}

/* A warning that memory does not allow is left out. */
void training_note_relations(training_job *job) {
    const training_set *set = job->set;
    const int64_t n = set->table.in.values.rows;
    OWNED circe__entry *spare = malloc((size_t)n * sizeof *spare);
    if (spare == NULL || n < LEAST_ROWS) return;
    note_features(job, spare);
    if (set->has_invariant) note_invariance(job, spare);
}
