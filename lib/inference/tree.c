/* Leaves of a regression tree: where a target jumps along a column of y, or along a direction that metric.c found.
 *
 * A kernel blurs a jump over its width, and x and z share what it leaves there. A split finds the place to within a few
 * rows, whatever n is. Jumps need not follow the columns: y_1 + y_2 > 0 is one split along the leading direction of the
 * metric, y_1 y_2 > 0 one along a product. The tree grows best split first: the one that reduces the sum of squares
 * over the target's leading columns most. The number of splits minimises the generalised cross-validation error with
 * SPLIT_DEGREES per split, since its place was searched for. Rows are sorted once along each column, and stay so within
 * their leaves. O(n d q) per level, on at most MOST_ROWS rows. */
#include <math.h>
#include <string.h>

#include "core/sort.h"
#include "inference/faces.h"

enum {
    MOST_COLUMNS = 6,
    MOST_LEAVES = 64,
    LEAST_LEAF = 6,
    MOST_DIM = 32,
    MOST_DIRECTIONS = 2,
    MOST_PAIRED = 8,
    MOST_STEPS = 3,
    MOST_ROWS = 200000
};
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
    double *values;         /* (dim, n): columns of y, directions, products */
    int32_t *sorted;        /* (dim, n): rows by their value */
    int32_t *order, *spare; /* (dim, n): the same, leaf by leaf; (n) scratch */
    leaf leaves[MOST_LEAVES];
    struct cut {
        int64_t leaf, column;
        double place;
    } cuts[MOST_LEAVES]; /* number s makes leaf s */
} tree;

static int32_t *order_of(const tree *t, int64_t c) { return t->order + c * t->target->rows; }

static double value_of(const tree *t, int64_t row, int64_t c) { return t->values[c * t->target->rows + row]; }

/* entries (2 n): scratch. */
static void sort_rows(tree *t, circe__entry *entries) {
    int64_t n = t->target->rows;
    for (int64_t c = 0; c < t->dim; c++) {
        for (int64_t i = 0; i < n; i++) entries[i] = (circe__entry){value_of(t, i, c), i};
        circe__sort_entries(entries, entries + n, n);
        for (int64_t i = 0; i < n; i++) t->sorted[c * n + i] = (int32_t)entries[i].row;
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

/* Grows up to MOST_LEAVES leaves. Returns the best number of splits and the generalised cross-validation error there,
 * `extra` degrees of freedom being used up already. Stops as soon as more than `few` splits are better
 * than fewer. */
static int64_t grow(tree *t, double extra, int64_t few, double *error) {
    int64_t n = t->target->rows, best = 0, most = circe__min(MOST_LEAVES - 1, n / 20);
    double left = circe__square_norm(t->target->data, n * t->columns);
    *error = HUGE_VAL;
    t->n_leaves = 1;
    t->leaves[0] = (leaf){.first = 0, .n = n};
    best_split(t, &t->leaves[0]);
    for (int64_t s = 0; s <= most; s++) {
        double free = 1.0 - (1.0 + extra + (SPLIT_DEGREES + log((double)t->dim)) * (double)s) / (double)n;
        int64_t k = 0;
        if (free > 0.1 && left / (free * free) < *error) {
            *error = left / (free * free);
            best = s;
        }
        for (int64_t l = 1; l < t->n_leaves; l++)
            if (t->leaves[l].gain > t->leaves[k].gain) k = l;
        if (best > few || s == most || !(t->leaves[k].gain > 0.0)) break;
        left -= t->leaves[k].gain;
        split(t, k);
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

/* What a split may be along: the number of these and, if t->values is not NULL, their values. The last columns of a
 * metric are its leading directions. Two columns have no product here: around 0 it has so many rows that small errors
 * of a place matter, and a metric of products follows their function well enough. */
static int64_t fill_values(const tree *t, int side) {
    const circe__variable *y = circe__columns(t->data), *metric = &t->data->faces->metric[side];
    int64_t n = t->target->rows, dim = 0, plain = circe__min(y->dim, MOST_DIM);
    double *to = t->values;
    for (int64_t c = 0; c < plain; c++, dim++)
        for (int64_t i = 0; to != NULL && i < n; i++) *to++ = y->points[i * y->dim + c];
    for (int64_t c = 1; c <= circe__min(metric->dim, MOST_DIRECTIONS); c++, dim++)
        for (int64_t i = 0; to != NULL && i < n; i++) *to++ = metric->points[(i + 1) * metric->dim - c];
    for (int64_t a = 0; y->dim > 2 && y->dim <= MOST_PAIRED && a < y->dim; a++)
        for (int64_t b = a + 1; b < y->dim; b++, dim++)
            for (int64_t i = 0; to != NULL && i < n; i++) *to++ = y->points[i * y->dim + a] * y->points[i * y->dim + b];
    return dim;
}

/* What the tree is grown on: the columns of x or z themselves if they are few numbers, since a jump is one split of
 * them and many of their features; otherwise the target's first columns. */
static circe_status plain_target(const circe__data *data, const circe__table *target, int side, circe__table *out) {
    const circe__variable *v = side == 0 ? &data->x : &data->z;
    bool numbers = v->dim > 0 && v->dim <= MOST_COLUMNS && (side == 1 || data->n == data->total);
    for (int64_t f = 0; numbers && f < v->kernel->n_factors; f++)
        numbers = v->kernel->factors[f].kind != CIRCE_KERNEL_DELTA;
    int64_t columns = numbers ? v->dim : circe__min(target->cols, MOST_COLUMNS);
    circe_status status = circe__table_new(data->context, target->rows, columns, out);
    for (int64_t i = 0; status == CIRCE_OK && i < target->rows; i++)
        memcpy(out->data + i * columns, numbers ? v->points + i * columns : target->data + i * target->cols,
               (size_t)columns * sizeof(double));
    if (status != CIRCE_OK || !numbers) return status;
    circe__standardize(out->data, out->rows, out->rows, columns);
    circe__weigh(data, out);
    return CIRCE_OK;
}

/* rest := what least squares on the columns of y leaves of it: a line would take many splits. */
static circe_status take_lines(const circe__data *data, circe__table *rest) {
    circe__spectrum lines = {0};
    circe_status status = circe__spectrum_linear(data, &lines);
    const circe__regressor regressor = {.data = data, .spectrum = &lines};
    if (status == CIRCE_OK) status = circe__residual(&regressor, rest);
    circe__spectrum_free(data->context, &lines);
    return status;
}

/* faces->leaves and steps of the side, from the first splits of its tree. */
static circe_status keep_leaves(const tree *t, int64_t splits, int side) {
    const circe__data *data = t->data;
    circe__table *steps = &data->faces->steps[side];
    int64_t n = t->target->rows, kept = circe__min(splits, MOST_STEPS);
    double *leaf_of = circe__alloc(data->context, n, sizeof *leaf_of);
    circe__table_free(data->context, steps);
    circe_status status = leaf_of == NULL ? CIRCE_ERR_MEMORY : circe__table_new(data->context, n, kept, steps);
    if (status != CIRCE_OK) {
        circe__free(data->context, leaf_of);
        return status;
    }
    for (int64_t i = 0; i < n; i++) {
        leaf_of[i] = (double)leaf_after(t, splits, i);
        for (int64_t k = 0; k < kept; k++)
            steps->data[i * kept + k] = value_of(t, i, t->cuts[k + 1].column) > t->cuts[k + 1].place ? 1.0 : -1.0;
    }
    data->faces->splits[side] = splits;
    return circe__face_set(data, leaf_of, 1, CIRCE_KERNEL_DELTA, &data->faces->leaves[side]);
}

/* Grows trees along the columns alone, along everything, and the same without lines; keeps the best. A function that no
 * first split can see, as sign(y_1 y_2), is found by chance, which more places to split at make smaller. */
static circe_status grow_best(tree *t, circe__table *rest, int side, int64_t few) {
    const circe__data *data = t->data;
    int64_t all = t->dim, dim = circe__columns(data)->dim, plain = circe__min(dim, MOST_DIM);
    double least = HUGE_VAL, error;
    circe_status status = CIRCE_OK;
    for (int k = 0; status == CIRCE_OK && k < (dim > 1 ? 3 : 1); k++) {
        if (k == 2) status = take_lines(data, rest);
        t->columns = rest->cols;
        t->dim = k == 0 ? plain : all;
        memcpy(t->order, t->sorted, (size_t)(t->dim * rest->rows) * sizeof *t->order);
        int64_t splits = status == CIRCE_OK ? grow(t, k == 2 ? (double)dim : 0.0, few, &error) : 0;
        if (splits == 0 || error >= least) continue;
        least = error;
        status = keep_leaves(t, splits, side);
    }
    return status;
}

circe_status circe__tree_grow(const circe__data *data, const circe__table *target, int side, int64_t few) {
    const circe_context *context = data->context;
    int64_t n = target->rows;
    CIRCE__OWNED_BY(circe__table_drop) circe__table rest = {0};
    tree t = {.data = data, .target = &rest};
    data->faces->splits[side] = 0;
    if (n != data->total || n > MOST_ROWS || target->cols == 0 || data->y.dim == 0) return CIRCE_OK;
    t.dim = fill_values(&t, side);
    t.order = circe__alloc(context, t.dim * n, sizeof *t.order);
    t.values = circe__alloc(context, t.dim * n, sizeof *t.values);
    t.spare = circe__alloc(context, n, sizeof *t.spare);
    t.sorted = circe__alloc(context, t.dim * n, sizeof *t.sorted);
    CIRCE__OWNED circe__entry *entries = circe__alloc(context, 2 * n, sizeof *entries);
    bool made = t.order != NULL && t.sorted != NULL && t.values != NULL && t.spare != NULL && entries != NULL;
    circe_status status = made ? plain_target(data, target, side, &rest) : CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) {
        fill_values(&t, side);
        sort_rows(&t, entries);
        status = grow_best(&t, &rest, side, few);
    }
    circe__free(context, t.order);
    circe__free(context, t.sorted);
    circe__free(context, t.values);
    circe__free(context, t.spare);
    return status;
}
