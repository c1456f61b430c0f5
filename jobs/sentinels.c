/* The largest or smallest value of a column is suspect if it lies beyond 20 interquartile ranges, more than half of
 * that distance is empty, and either several rows have exactly this value, which a continuous distribution does not
 * produce, or it lies beyond 1e5 interquartile ranges. At most a tenth of the rows may have it; otherwise it is part of
 * the distribution. */
#include "jobs/sentinels.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "core/core.h"
#include "core/sort.h"

enum { LEAST_ROWS = 20 };

/* Takes the values sorted from the suspected end inwards. Returns how many rows have the end value; 0: it is not
 * suspect. */
static int64_t suspect(const double *sorted, int64_t n, int64_t step, double quartile, double range) {
    const double far = 20, beyond = 1e5, share = 0.1;
    int64_t at = step > 0 ? 0 : n - 1, count = 1;
    double end = sorted[at], way = fabs(end - quartile);
    while (count < n && sorted[at + count * step] == end) count++;
    if (count == n || (double)count > share * (double)n || !(way > far * range)) return 0;
    double gap = fabs(end - sorted[at + count * step]);
    return gap > 0.5 * way && (count > 1 || way > beyond * range) ? count : 0;
}

/* Neighbours between which float64 has no number: whole numbers beyond 2^53 that lay closer are equal now. Returns the
 * first of such a pair, or 0. */
static double beyond_digits(const double *sorted, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (fabs(sorted[i]) > 0x1p53 && sorted[i] == nextafter(sorted[i - 1], INFINITY)) return sorted[i - 1];
    return 0.0;
}

static char *column_name(const input *in, int64_t c) {
    return in->described->names != NULL ? small_format("'%s'", in->described->names[c]) : small_format("%" PRId64, c);
}

static void note_column(const input *in, int64_t c, const double *sorted, int64_t n, notes *warnings) {
    double low = circe__quantile(sorted, n, 0.25), high = circe__quantile(sorted, n, 0.75),
           close = beyond_digits(sorted, n);
    OWNED char *name = column_name(in, c);
    if (close != 0.0)
        notes_add(warnings,
                  "column %s of %s has values near %.17g that differ by less than float64 can tell apart, and are "
                  "equal now; subtract a common number before, or name it in --categories",
                  name, input_source(in), close);
    for (int64_t step = -1; step <= 1 && high > low; step += 2) {
        int64_t count = suspect(sorted, n, step, step > 0 ? low : high, high - low);
        double value = sorted[step > 0 ? 0 : n - 1];
        if (count == 0) continue;
        notes_add(warnings,
                  "column %s of %s is %.10g in %" PRId64
                  " row%s, far from all other values; if it stands for a missing value, --na %.10g --missing drop "
                  "leaves these rows out",
                  name, input_source(in), value, count, count == 1 ? "" : "s", value);
    }
}

/* Names, dates and amounts with a unit are categories to the reader, and no two rows are alike in them. */
static void note_texts(const input *in, int64_t c, notes *warnings) {
    int64_t rows = in->values.rows, texts = input_n_categories(in, c);
    if (texts <= rows / 2) return;
    OWNED char *name = column_name(in, c);
    notes_add(warnings,
              "column %s of %s has %" PRId64 " categories in %" PRId64
              " rows: nothing can be learned from a column in which hardly any rows are alike; leave it out, or if its "
              "cells stand for numbers, write them as 1234.5",
              name, input_source(in), texts, rows);
}

/* Whether two texts are one but for case and spaces. */
static bool are_alike(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (*a == '\0') return true;
    }
}

/* "Yes" and "yes" are two categories, and hardly ever meant to be. */
static void note_alike(const input *in, int64_t c, notes *warnings) {
    enum { MOST = 500 };
    int64_t n = input_n_categories(in, c);
    char *const *texts = in->described->categories[c];
    for (int64_t i = 0; i < n && n <= MOST; i++)
        for (int64_t j = 0; j < i; j++) {
            if (!are_alike(texts[j], texts[i])) continue;
            OWNED char *name = column_name(in, c);
            notes_add(warnings,
                      "column %s of %s has the categories '%s' and '%s', which count as two; if that is a slip, write "
                      "them alike",
                      name, input_source(in), texts[j], texts[i]);
            return;
        }
}

/* Programs write the numbers of columns as their names. */
static void note_first_row(const input *const *group, int k, notes *warnings) {
    for (int before = 0; before < k; before++)
        if (group[before]->table.counts_up && strcmp(input_source(group[before]), input_source(group[k])) == 0) return;
    if (group[k]->table.counts_up)
        notes_add(warnings,
                  "line 1 of %s contains only numbers, so it is read as a row, and columns are counted from 0; but it "
                  "counts up as a header may: if it is one, write names",
                  input_source(group[k]));
}

/* Whether two columns have the same numbers, or the same texts, in every row, and lack the same ones. */
static bool are_equal(const input *a, int64_t i, const input *b, int64_t j) {
    const bool text = input_n_categories(a, i) > 0;
    double first = NAN;
    bool constant = true;
    if (text != (input_n_categories(b, j) > 0)) return false;
    for (int64_t row = 0; row < a->values.rows; row++) {
        double one = circe__at(&a->values, row, i), other = circe__at(&b->values, row, j);
        if (isnan(one) != isnan(other)) return false;
        if (isnan(one)) continue;
        if (text ? strcmp(a->described->categories[i][(int64_t)one], b->described->categories[j][(int64_t)other]) != 0
                 : one != other)
            return false;
        if (isnan(first)) first = one;
        constant = constant && one == first;
    }
    return !constant;
}

static bool has(const input *a, const input *b, variable of) { return a->of == of || b->of == of; }

/* x, y and z that have a column in common, under whatever name: the answer is known before it is asked. */
static void note_equal(const input *a, const input *b, notes *warnings) {
    for (int64_t i = 0; i < a->values.cols; i++)
        for (int64_t j = 0; j < b->values.cols; j++) {
            if (!are_equal(a, i, b, j)) continue;
            OWNED char *one = column_name(a, i), *other = column_name(b, j);
            notes_add(warnings, "column %s of %s and column %s of %s are equal in every row: %s", one,
                      variable_label(a->of), other, variable_label(b->of),
                      !has(a, b, VARIABLE_Y)   ? "they depend on each other, whatever y is"
                      : !has(a, b, VARIABLE_X) ? "once y is known, nothing can depend on it"
                                               : "once y is known, it tells nothing more");
        }
}

void sentinels_note(const input *const *group, int n, notes *warnings) {
    for (int k = 0; k < n; k++) {
        note_first_row(group, k, warnings);
        for (int before = 0; before < k; before++)
            if (group[k]->values.rows >= LEAST_ROWS) note_equal(group[before], group[k], warnings);
    }
    for (int k = 0; k < n; k++) {
        const circe_mat *m = &group[k]->values;
        OWNED double *sorted = m->rows >= LEAST_ROWS ? malloc((size_t)m->rows * sizeof *sorted) : NULL;
        for (int64_t c = 0; sorted != NULL && c < m->cols; c++) {
            if (input_n_categories(group[k], c) > 0) {
                note_texts(group[k], c, warnings);
                note_alike(group[k], c, warnings);
                continue;
            }
            for (int64_t i = 0; i < m->rows; i++) sorted[i] = circe__at(m, i, c);
            circe__sort(sorted, m->rows);
            note_column(group[k], c, sorted, m->rows, warnings);
        }
    }
}
