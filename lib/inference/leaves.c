/* Trees for missed.c: grown on some rows, while others fall into their leaves.
 *
 * A split is along a column of y, a leading direction of a side's metric, or a product of two columns, at one of BINS
 * quantiles: a leaf's sums in these bins give every place along a direction in one pass. The leaf that gains most is
 * split next. Each tree tries about half of the directions. O(m d) for each level of a tree. */
#include <string.h>

#include "core/sort.h"
#include "inference/missed.h"

enum {
    BINS = 32,
    LEAST_LEAF = 5,
    WIDTH = CIRCE__GROWN_COLUMNS + 1,
    MOST_COLUMNS = 32,
    MOST_DIRECTIONS = 2,
    MOST_PAIRED = 8
};

/* The number of directions and, if `to` is not NULL, their values, direction by direction. The last columns of a metric
 * are its leading directions. */
static int64_t fill_values(const circe__data *data, const int64_t *index, int64_t m, double *to) {
    const circe__variable *y = circe__columns(data);
    int64_t dim = 0;
    for (int64_t c = 0; c < circe__min(y->dim, MOST_COLUMNS); c++, dim++)
        for (int64_t i = 0; to != NULL && i < m; i++) *to++ = y->points[index[i] * y->dim + c];
    for (int t = 0; t < 2 && data->faces != NULL && y->dim > 1; t++) {
        const circe__variable *metric = &data->faces->metric[t];
        for (int64_t c = 1; c <= circe__min(metric->dim, MOST_DIRECTIONS); c++, dim++)
            for (int64_t i = 0; to != NULL && i < m; i++) *to++ = metric->points[(index[i] + 1) * metric->dim - c];
    }
    for (int64_t a = 0; y->dim <= MOST_PAIRED && a < y->dim; a++)
        for (int64_t b = a + 1; b < y->dim; b++, dim++)
            for (int64_t i = 0; to != NULL && i < m; i++) {
                const double *row = y->points + index[i] * y->dim;
                *to++ = row[a] * row[b];
            }
    return dim;
}

/* The bin of every row along every direction; rows of equal value share one. */
static void set_bins(circe__leaves *t, const double *values, circe__entry *entries) {
    for (int64_t c = 0; c < t->dim; c++) {
        for (int64_t i = 0; i < t->m; i++) entries[i] = (circe__entry){values[c * t->m + i], i};
        circe__sort_entries(entries, entries + t->m, t->m);
        int64_t bin = 0;
        for (int64_t i = 0; i < t->m; i++) {
            if (i == 0 || entries[i].value != entries[i - 1].value) bin = BINS * i / t->m;
            t->bins[entries[i].row * t->dim + c] = (unsigned char)bin;
        }
    }
}

circe_status circe__leaves_make(const circe__data *data, const int64_t *index, const circe__table *target,
                                circe__leaves *t) {
    const circe_context *context = data->context;
    int64_t m = target->rows, dim = fill_values(data, index, m, NULL);
    *t = (circe__leaves){.m = m, .dim = dim, .target = target};
    t->bins = circe__alloc(context, m * dim + 1, sizeof *t->bins);
    t->rows = circe__alloc(context, 2 * m, sizeof *t->rows);
    t->tried = circe__alloc(context, dim + 1, sizeof *t->tried);
    CIRCE__OWNED double *values = circe__alloc(context, m * dim + 1, sizeof *values);
    CIRCE__OWNED circe__entry *entries = circe__alloc(context, 2 * m, sizeof *entries);
    bool made = t->bins != NULL && t->rows != NULL && t->tried != NULL && values != NULL && entries != NULL;
    if (made) {
        fill_values(data, index, m, values);
        set_bins(t, values, entries);
    }
    return made ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

void circe__leaves_free(const circe_context *context, circe__leaves *t) {
    circe__free(context, t->bins);
    circe__free(context, t->rows);
    circe__free(context, t->tried);
}

/* The best place along direction c: n / (n_l n_r) |S_l - (n_l / n) S|^2 for the sums S of all rows and S_l of those
 * that go left. */
static void try_direction(const circe__leaves *t, circe__leaf *l, int64_t c, const double *total) {
    int64_t q = t->target->cols;
    double bins[BINS][WIDTH] = {{0.0}}, left[WIDTH] = {0.0}, n = (double)l->n;
    for (int64_t i = l->first; i < l->first + l->n; i++) {
        double *bin = bins[t->bins[t->rows[i] * t->dim + c]], *row = t->target->data + t->rows[i] * q;
        bin[q] += 1.0;
        for (int64_t k = 0; k < q; k++) bin[k] += row[k];
    }
    for (int b = 0; b + 1 < BINS; b++) {
        double gain = 0.0, share;
        for (int64_t k = 0; k <= q; k++) left[k] += bins[b][k];
        if (left[q] < LEAST_LEAF) continue;
        if (n - left[q] < LEAST_LEAF) break;
        share = left[q] / n;
        for (int64_t k = 0; k < q; k++) gain += (left[k] - share * total[k]) * (left[k] - share * total[k]);
        gain /= share * (n - left[q]);
        if (gain > l->gain) {
            l->gain = gain;
            l->along = c;
            l->place = b;
        }
    }
}

static void find_best(const circe__leaves *t, circe__leaf *l) {
    int64_t q = t->target->cols, tried = circe__max(circe__min(t->dim, 3), (t->dim + 1) / 2);
    double total[WIDTH] = {0.0};
    l->gain = 0.0;
    if (l->n < 2 * LEAST_LEAF) return;
    for (int64_t i = l->first; i < l->first + l->n; i++)
        for (int64_t k = 0; k < q; k++) total[k] += t->target->data[t->rows[i] * q + k];
    for (int64_t c = 0; c < tried; c++) try_direction(t, l, t->tried[c], total);
}

/* Puts rows that go left first; returns how many there are. */
static int64_t divide(const circe__leaves *t, const circe__leaf *l, int64_t *rows, int64_t n) {
    int64_t low = 0;
    for (int64_t i = 0; i < n; i++)
        if (t->bins[rows[i] * t->dim + l->along] <= l->place) {
            int64_t held = rows[low];
            rows[low++] = rows[i];
            rows[i] = held;
        }
    return low;
}

static void split(circe__leaves *t, int64_t k) {
    circe__leaf *l = &t->leaves[k], *other = &t->leaves[t->n];
    int64_t low = divide(t, l, t->rows + l->first, l->n), seen = divide(t, l, t->rows + l->seen, l->n_seen);
    *other = (circe__leaf){
        .from = k, .first = l->first + low, .n = l->n - low, .seen = l->seen + seen, .n_seen = l->n_seen - seen};
    l->n = low;
    l->n_seen = seen;
    t->n++;
    find_best(t, l);
    find_best(t, other);
}

void circe__leaves_grow(circe__leaves *t, circe_random random, const int64_t *order, int64_t grown, int64_t most) {
    memcpy(t->rows, order, (size_t)t->m * sizeof *t->rows);
    circe_random_permutation(random, t->dim, t->tried);
    t->n = 1;
    t->leaves[0] = (circe__leaf){.first = 0, .n = grown, .seen = grown, .n_seen = t->m - grown};
    find_best(t, &t->leaves[0]);
    while (t->n < circe__min(most, CIRCE__MOST_LEAVES)) {
        int64_t k = 0;
        for (int64_t l = 1; l < t->n; l++)
            if (t->leaves[l].gain > t->leaves[k].gain) k = l;
        if (!(t->leaves[k].gain > 0.0)) return;
        split(t, k);
    }
}
