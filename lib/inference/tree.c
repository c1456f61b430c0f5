/* Leaves of a regression tree: where a target jumps along a column of y.
 *
 * A kernel blurs a jump over its width, and what it leaves there is common to x and z. A split is found to a few rows,
 * whatever n is. The tree is grown best split first, each the one that takes most from the sum of squares over the
 * target's leading columns; the number of splits is that of the least generalised cross-validation error with
 * SPLIT_DEGREES for every split, since its place was searched for. O(n d q) a level, on at most MOST_ROWS rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inference/faces.h"

enum { MOST_COLUMNS = 6, MOST_LEAVES = 64, LEAST_LEAF = 6, MOST_DIM = 32, MOST_ROWS = 200000 };
static const double SPLIT_DEGREES = 4.0;

typedef struct leaf {
    int64_t first, n;   /* its rows: tree.rows[first .. first + n) */
    double gain, place; /* of its best split: value <= place goes left */
    int64_t column;     /* -1: none */
} leaf;

typedef struct tree {
    const circe__data *data;
    const circe__table *target;
    int64_t columns, n_leaves;
    int64_t *rows;
    struct entry {
        double value;
        int64_t row;
    } * sorted; /* (n) scratch */
    leaf leaves[MOST_LEAVES];
} tree;

static int by_value(const void *a, const void *b) {
    const struct entry *p = a, *q = b;
    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return p->row < q->row ? -1 : p->row > q->row;
}

/* The best place along column c for a leaf whose rows are in `sorted`. */
static void try_column(const tree *t, leaf *l, int64_t c, const double *total) {
    int64_t q = t->columns, stride = t->target->cols;
    double below[MOST_COLUMNS] = {0.0};
    for (int64_t i = 0; i + 1 < l->n; i++) {
        const double *row = t->target->data + t->sorted[i].row * stride;
        double gain = 0.0, left = (double)(i + 1), right = (double)(l->n - i - 1);
        for (int64_t k = 0; k < q; k++) below[k] += row[k];
        if (i + 1 < LEAST_LEAF || l->n - i - 1 < LEAST_LEAF || t->sorted[i].value == t->sorted[i + 1].value) continue;
        for (int64_t k = 0; k < q; k++) {
            double d = below[k] / left - (total[k] - below[k]) / right;
            gain += d * d;
        }
        gain *= left * right / (left + right);
        if (gain <= l->gain) continue;
        l->gain = gain;
        l->place = 0.5 * (t->sorted[i].value + t->sorted[i + 1].value);
        l->column = c;
    }
}

static void best_split(const tree *t, leaf *l) {
    double total[MOST_COLUMNS] = {0.0};
    int64_t dim = t->data->y.dim;
    l->gain = 0.0;
    l->column = -1;
    if (l->n < 2 * LEAST_LEAF) return;
    for (int64_t i = 0; i < l->n; i++)
        for (int64_t k = 0; k < t->columns; k++)
            total[k] += t->target->data[t->rows[l->first + i] * t->target->cols + k];
    for (int64_t c = 0; c < circe__min(dim, MOST_DIM); c++) {
        for (int64_t i = 0; i < l->n; i++) {
            int64_t row = t->rows[l->first + i];
            t->sorted[i] = (struct entry){t->data->y.points[row * dim + c], row};
        }
        qsort(t->sorted, (size_t)l->n, sizeof *t->sorted, by_value);
        try_column(t, l, c, total);
    }
}

/* Leaf k becomes itself and a new one. */
static void split(tree *t, int64_t k) {
    leaf *l = &t->leaves[k], *other = &t->leaves[t->n_leaves++];
    int64_t dim = t->data->y.dim, low = l->first, high = l->first + l->n;
    while (low < high) { /* rows above the place to the end */
        int64_t row = t->rows[low];
        if (t->data->y.points[row * dim + l->column] <= l->place) {
            low++;
        } else {
            t->rows[low] = t->rows[--high];
            t->rows[high] = row;
        }
    }
    *other = (leaf){.first = low, .n = l->first + l->n - low};
    l->n = low - l->first;
    best_split(t, l);
    best_split(t, other);
}

/* Grows to MOST_LEAVES, noting the number of splits that is best; then once more to that number. */
static int64_t grow(tree *t, int64_t splits, double total) {
    int64_t n = t->target->rows, best = 0;
    double left = total, least = total;
    for (int64_t i = 0; i < n; i++) t->rows[i] = i;
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

circe_status circe__tree_grow(const circe__data *data, const circe__table *target, int side) {
    const circe_context *context = data->context;
    circe__faces *faces = data->faces;
    int64_t n = target->rows;
    tree t = {.data = data, .target = target, .columns = circe__min(target->cols, MOST_COLUMNS)};
    double total = 0.0, *leaf_of = NULL;
    faces->splits[side] = 0;
    if (n != data->total || n > MOST_ROWS || t.columns == 0) return CIRCE_OK;
    t.rows = circe__alloc(context, n, sizeof *t.rows);
    t.sorted = circe__alloc(context, n, sizeof *t.sorted);
    leaf_of = circe__alloc(context, n, sizeof *leaf_of);
    circe_status status = t.rows == NULL || t.sorted == NULL || leaf_of == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++)
        total += circe__square_norm(target->data + i * target->cols, t.columns);
    int64_t splits = status == CIRCE_OK ? grow(&t, circe__min(MOST_LEAVES - 1, n / 20), total) : 0;
    if (splits > 0) {
        grow(&t, splits, total);
        for (int64_t l = 0; l < t.n_leaves; l++)
            for (int64_t i = 0; i < t.leaves[l].n; i++) leaf_of[t.rows[t.leaves[l].first + i]] = (double)l;
        status = circe__face_set(data, leaf_of, 1, CIRCE_KERNEL_DELTA, &faces->leaves[side]);
        leaf_of = NULL;
        faces->splits[side] = splits;
    }
    circe__free(context, t.rows);
    circe__free(context, t.sorted);
    circe__free(context, leaf_of);
    return status;
}
