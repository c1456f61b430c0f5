/* Leaves of a regression tree: where a target jumps along a column of y.
 *
 * A kernel blurs a jump over its width, and x and z share what it leaves there. A split finds the place to within a few
 * rows, whatever n is. The tree grows best split first: the one that reduces the sum of squares over the target's
 * leading columns most. The number of splits minimises the generalised cross-validation error with SPLIT_DEGREES per
 * split, since its place was searched for. Rows are sorted once along each column, and stay so within their leaves. O(n
 * d q) per level, on at most MOST_ROWS rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inference/faces.h"

enum { MOST_COLUMNS = 6, MOST_LEAVES = 64, LEAST_LEAF = 6, MOST_DIM = 32, MOST_ROWS = 200000 };
static const double SPLIT_DEGREES = 4.0;

typedef struct leaf {
    int64_t first, n;   /* its rows: [first, first + n) of each column's order */
    double gain, place; /* of its best split: value <= place goes left */
    int64_t column;     /* -1: none */
} leaf;

typedef struct tree {
    const circe__data *data;
    const circe__table *target;
    int64_t columns, dim, n_leaves;
    int32_t *order, *spare; /* (dim, n): rows by their value, leaf by leaf; (n) scratch */
    leaf leaves[MOST_LEAVES];
    struct cut {
        int64_t leaf, column;
        double place;
    } cuts[MOST_LEAVES]; /* number s makes leaf s */
} tree;

static int32_t *order_of(const tree *t, int64_t c) { return t->order + c * t->target->rows; }

static double value_of(const tree *t, int64_t row, int64_t c) { return t->data->y.points[row * t->data->y.dim + c]; }

typedef struct entry {
    double value;
    int64_t row;
} entry;

static int by_value(const void *a, const void *b) {
    const entry *p = a, *q = b;
    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return p->row < q->row ? -1 : p->row > q->row;
}

static void sort_rows(tree *t, entry *entries) {
    int64_t n = t->target->rows;
    for (int64_t c = 0; c < t->dim; c++) {
        for (int64_t i = 0; i < n; i++) entries[i] = (entry){value_of(t, i, c), i};
        qsort(entries, (size_t)n, sizeof *entries, by_value);
        for (int64_t i = 0; i < n; i++) order_of(t, c)[i] = (int32_t)entries[i].row;
    }
}

/* The best place along column c. */
static void try_column(const tree *t, leaf *l, int64_t c, const double *total) {
    int64_t q = t->columns, stride = t->target->cols;
    const int32_t *rows = order_of(t, c) + l->first;
    double below[MOST_COLUMNS] = {0.0};
    for (int64_t i = 0; i + 1 < l->n; i++) {
        const double *row = t->target->data + rows[i] * stride;
        double gain = 0.0, left = (double)(i + 1), right = (double)(l->n - i - 1);
        for (int64_t k = 0; k < q; k++) below[k] += row[k];
        if (i + 1 < LEAST_LEAF || l->n - i - 1 < LEAST_LEAF) continue;
        double here = value_of(t, rows[i], c), next = value_of(t, rows[i + 1], c);
        if (here == next) continue;
        for (int64_t k = 0; k < q; k++) {
            double d = below[k] / left - (total[k] - below[k]) / right;
            gain += d * d;
        }
        gain *= left * right / (left + right);
        if (gain <= l->gain) continue;
        l->gain = gain;
        l->place = circe__between(here, next);
        l->column = c;
    }
}

static void best_split(const tree *t, leaf *l) {
    double total[MOST_COLUMNS] = {0.0};
    const int32_t *rows = order_of(t, 0) + l->first;
    l->gain = 0.0;
    l->column = -1;
    if (l->n < 2 * LEAST_LEAF) return;
    for (int64_t i = 0; i < l->n; i++)
        for (int64_t k = 0; k < t->columns; k++) total[k] += t->target->data[rows[i] * t->target->cols + k];
    for (int64_t c = 0; c < t->dim; c++) try_column(t, l, c, total);
}

/* Splits the leaf's part of an order: rows up to the place come first, all in their old order. Returns how many. */
static int64_t part_rows(const tree *t, const leaf *l, int32_t *rows) {
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (value_of(t, rows[i], l->column) <= l->place)
            rows[low++] = rows[i];
        else
            t->spare[high++] = rows[i];
    }
    memcpy(rows + low, t->spare, (size_t)high * sizeof *rows);
    return low;
}

/* Splits leaf k into itself and a new one. */
static void split(tree *t, int64_t k) {
    leaf *l = &t->leaves[k], *other = &t->leaves[t->n_leaves];
    int64_t low = 0;
    t->cuts[t->n_leaves++] = (struct cut){k, l->column, l->place};
    for (int64_t c = 0; c < t->dim; c++) low = part_rows(t, l, order_of(t, c) + l->first);
    *other = (leaf){.first = l->first + low, .n = l->n - low};
    l->n = low;
    best_split(t, l);
    best_split(t, other);
}

/* Grows up to `splits` splits, and returns the best number of them. */
static int64_t grow(tree *t, int64_t splits, double total) {
    int64_t n = t->target->rows, best = 0;
    double left = total, least = total;
    t->n_leaves = 1;
    t->leaves[0] = (leaf){.first = 0, .n = n};
    best_split(t, &t->leaves[0]);
    for (int64_t s = 1; s <= splits; s++) {
        int64_t k = 0;
        for (int64_t l = 1; l < t->n_leaves; l++)
            if (t->leaves[l].gain > t->leaves[k].gain) k = l;
        if (!(t->leaves[k].gain > 0.0)) break;
        left -= t->leaves[k].gain;
        split(t, k);
        double free = 1.0 - (1.0 + SPLIT_DEGREES * (double)s) / (double)n;
        double error = free > 0.1 ? left / (free * free) : HUGE_VAL;
        if (error < least) {
            least = error;
            best = s;
        }
    }
    return best;
}

/* The leaf of a row after the first `splits` splits. */
static int64_t leaf_after(const tree *t, int64_t splits, int64_t row) {
    int64_t at = 0;
    for (int64_t s = 1; s <= splits; s++)
        if (t->cuts[s].leaf == at && value_of(t, row, t->cuts[s].column) > t->cuts[s].place) at = s;
    return at;
}

circe_status circe__tree_grow(const circe__data *data, const circe__table *target, int side) {
    const circe_context *context = data->context;
    circe__faces *faces = data->faces;
    int64_t n = target->rows;
    tree t = {.data = data, .target = target, .columns = circe__min(target->cols, MOST_COLUMNS)};
    double total = 0.0, *leaf_of = NULL;
    t.dim = circe__min(data->y.dim, MOST_DIM);
    faces->splits[side] = 0;
    if (n != data->total || n > MOST_ROWS || t.columns == 0 || t.dim == 0) return CIRCE_OK;
    t.order = circe__alloc(context, t.dim * n, sizeof *t.order);
    t.spare = circe__alloc(context, n, sizeof *t.spare);
    leaf_of = circe__alloc(context, n, sizeof *leaf_of);
    entry *entries = circe__alloc(context, n, sizeof *entries);
    bool made = t.order != NULL && t.spare != NULL && leaf_of != NULL && entries != NULL;
    circe_status status = made ? CIRCE_OK : CIRCE_ERR_MEMORY;
    if (made) sort_rows(&t, entries);
    for (int64_t i = 0; made && i < n; i++) total += circe__square_norm(target->data + i * target->cols, t.columns);
    int64_t splits = made ? grow(&t, circe__min(MOST_LEAVES - 1, n / 20), total) : 0;
    if (splits > 0) {
        for (int64_t i = 0; i < n; i++) leaf_of[i] = (double)leaf_after(&t, splits, i);
        status = circe__face_set(data, leaf_of, 1, CIRCE_KERNEL_DELTA, &faces->leaves[side]);
        leaf_of = NULL;
        faces->splits[side] = splits;
    }
    circe__free(context, t.order);
    circe__free(context, t.spare);
    circe__free(context, leaf_of);
    circe__free(context, entries);
    return status;
}
