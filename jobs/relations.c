/* A column determines another if rows of equal values in it are alike in the other, or if the other rises or falls with
 * it throughout. Rows that all differ are alike in nothing, so the first needs evidence: that many rows whose values
 * occurred before would have contradicted it if the columns were independent.
 *
 *     n         rows
 *     entries   a column's values in ascending order, each with its row
 *     repeats   rows whose value occurred before, in that order */
#include "jobs/relations.h"

#include <stdlib.h>

#include "base/small.h"
#include "core/sort.h"

enum { LEAST_ROWS = 20, LEAST_EVIDENCE = 10 };

/* Values of the columns in one, equal where all of them are equal. */
typedef struct joined {
    circe__entry *entries; /* (n), ascending */
    int64_t n, repeats;
    bool ordered; /* greater values mean more: one column of numbers */
} joined;

static bool join(const column_table *table, const int64_t *cols, int64_t n_cols, circe__entry *spare, joined *out) {
    const int64_t n = table->in.values.rows;
    *out = (joined){.entries = calloc((size_t)n, sizeof *out->entries), .n = n};
    OWNED double *code = calloc((size_t)n, sizeof *code); /* of the columns so far: their order */
    if (out->entries == NULL || code == NULL) return false;
    for (int64_t k = 0; k < n_cols; k++) {
        /* By this column within equal codes: the sort keeps the order of equal entries. */
        for (int64_t i = 0; i < n; i++) out->entries[i] = (circe__entry){column_value(table, i, cols[k]), i};
        circe__sort_entries(out->entries, spare, n);
        for (int64_t i = 0; i < n && k > 0; i++) out->entries[i].value = code[out->entries[i].row];
        if (k > 0) circe__sort_entries(out->entries, spare, n);
        out->repeats = 0;
        double last = 0.0, rank = 0.0, column_last = 0.0;
        for (int64_t i = 0; i < n; i++) {
            int64_t row = out->entries[i].row;
            double before = k > 0 ? code[row] : 0.0, value = column_value(table, row, cols[k]);
            bool same = i > 0 && before == last && value == column_last;
            out->repeats += same;
            rank += !same;
            last = before, column_last = value;
            out->entries[i].value = rank;
        }
        for (int64_t i = 0; i < n; i++) code[out->entries[i].row] = out->entries[i].value;
    }
    out->ordered = n_cols == 1 && column_categories(table, cols[0]) == NULL;
    return true;
}

/* The chance that two rows differ in a column, and how many do not have its most frequent value. */
static bool spread_of(const column_table *table, int64_t col, double *differ, int64_t *others) {
    const int64_t n = table->in.values.rows;
    OWNED double *sorted = malloc((size_t)n * sizeof *sorted);
    int64_t run = 0, most = 0;
    if (sorted == NULL) return false;
    for (int64_t i = 0; i < n; i++) sorted[i] = column_value(table, i, col);
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

static bool determines(const column_table *table, const joined *from, int64_t col) {
    enum { RARE = 3 }; /* rows of a rare value may lie at one end by chance */
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
    if (!spread_of(table, col, &differ, &others)) return false;
    return ((up || down) && others >= RARE) || (double)from->repeats * differ >= LEAST_EVIDENCE;
}

void relations_free(relations *all) {
    for (int64_t k = 0; k < all->n; k++) free(all->of[k].entries);
    free(all->of);
    *all = (relations){0};
}

bool relations_make(const column_table *table, const int64_t *cols, int64_t n, relations *out) {
    const int64_t rows = table->in.values.rows;
    OWNED circe__entry *spare = malloc((size_t)rows * sizeof *spare);
    *out = (relations){0};
    if (spare == NULL || rows < LEAST_ROWS) return false;
    *out = (relations){small_alloc((size_t)(n + 1) * sizeof *out->of), n > 1 ? n + 1 : n};
    for (int64_t k = 0; k < out->n; k++)
        if (!(k < n ? join(table, &cols[k], 1, spare, &out->of[k]) : join(table, cols, n, spare, &out->of[k])))
            return false;
    return true;
}

bool relations_determine(const column_table *table, const relations *from, int64_t col) {
    for (int64_t k = 0; k < from->n; k++)
        if (determines(table, &from->of[k], col)) return true;
    return false;
}
