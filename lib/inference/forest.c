/* A random forest (Breiman 2001) as a regression on y: computes its out-of-bag residuals of a target.
 *
 * Every tree is grown on rows drawn with replacement. It splits at the best place among a random third of the columns,
 * down to LEAST_LEAF rows. A row is predicted by the trees that were not grown on it, so its residual is one out of
 * sample, as leave-one-out residuals are. Trees are added up in PARTS parts, in their order: the same bits on any
 * number of threads. O(trees n d log(n)^2). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inference/faces.h"

enum { TREES = 240, PARTS = 16, LEAST_LEAF = 5, MOST_COLUMNS = 64 };

typedef struct entry {
    double value;
    int64_t row;
} entry;

typedef struct forest {
    const circe__data *data;
    const circe__variable *y;
    const circe__table *target; /* (n, q), not weighted */
    int64_t n, d, q, tried;
    double *sums;    /* (PARTS, n, q): predictions of rows out of bag */
    int32_t *counts; /* (PARTS, n) */
} forest;

/* One tree at a time; what a part owns. */
typedef struct growing {
    const forest *f;
    uint64_t stream, drawn; /* random numbers so far */
    int64_t *bag, *out;     /* (n): rows in the bag, rows out of it */
    entry *sorted;          /* (n) */
    double *sums;           /* (n, q) of this part */
    int32_t *counts;
    double total[MOST_COLUMNS], below[MOST_COLUMNS];
} growing;

static int by_value(const void *a, const void *b) {
    const entry *p = a, *q = b;
    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return p->row < q->row ? -1 : p->row > q->row;
}

static double uniform(growing *g) {
    double u;
    circe_random_uniform((circe_random){g->f->data->options.seed, g->stream}, g->drawn++, 1, &u);
    return u;
}

typedef struct place {
    double gain, value;
    int64_t column; /* -1: none */
} place;

/* The best place along column c for the rows bag[first, end). */
static void try_column(growing *g, int64_t first, int64_t end, int64_t c, place *best) {
    const forest *f = g->f;
    int64_t n = end - first, q = f->q;
    for (int64_t i = 0; i < n; i++)
        g->sorted[i] = (entry){f->y->points[g->bag[first + i] * f->d + c], g->bag[first + i]};
    qsort(g->sorted, (size_t)n, sizeof *g->sorted, by_value);
    memset(g->below, 0, (size_t)q * sizeof *g->below);
    for (int64_t i = 0; i + LEAST_LEAF < n; i++) {
        const double *row = f->target->data + g->sorted[i].row * q;
        double gain = 0.0, left = (double)(i + 1), right = (double)(n - i - 1);
        for (int64_t k = 0; k < q; k++) g->below[k] += row[k];
        if (i + 1 < LEAST_LEAF || g->sorted[i].value == g->sorted[i + 1].value) continue;
        for (int64_t k = 0; k < q; k++) {
            double difference = g->below[k] / left - (g->total[k] - g->below[k]) / right;
            gain += difference * difference;
        }
        gain *= left * right;
        if (gain > best->gain) *best = (place){gain, circe__between(g->sorted[i].value, g->sorted[i + 1].value), c};
    }
}

/* Puts rows at or below the place first; returns how many there are. */
static int64_t divide(const forest *f, int64_t *rows, int64_t n, const place *at) {
    int64_t low = 0;
    for (int64_t i = 0; i < n; i++)
        if (f->y->points[rows[i] * f->d + at->column] <= at->value) {
            int64_t held = rows[low];
            rows[low++] = rows[i];
            rows[i] = held;
        }
    return low;
}

/* Grows the node of bag[first, end), and predicts out[out_first, out_end) by it. */
static void grow(growing *g, int64_t first, int64_t end, int64_t out_first, int64_t out_end) {
    const forest *f = g->f;
    int64_t q = f->q;
    place best = {0.0, 0.0, -1};
    if (out_first == out_end) return;
    memset(g->total, 0, (size_t)q * sizeof *g->total);
    for (int64_t i = first; i < end; i++)
        for (int64_t k = 0; k < q; k++) g->total[k] += f->target->data[g->bag[i] * q + k];
    for (int64_t t = 0; end - first >= 2 * LEAST_LEAF && t < f->tried; t++)
        try_column(g, first, end, circe__min((int64_t)(uniform(g) * (double)f->d), f->d - 1), &best);
    if (best.column < 0) {
        for (int64_t i = out_first; i < out_end; i++) {
            g->counts[g->out[i]]++;
            for (int64_t k = 0; k < q; k++) g->sums[g->out[i] * q + k] += g->total[k] / (double)(end - first);
        }
        return;
    }
    int64_t middle = first + divide(f, g->bag + first, end - first, &best);
    int64_t out_middle = out_first + divide(f, g->out + out_first, out_end - out_first, &best);
    grow(g, first, middle, out_first, out_middle);
    grow(g, middle, end, out_middle, out_end);
}

static void grow_tree(growing *g, int64_t tree) {
    int64_t n = g->f->n, n_out = 0;
    g->stream = CIRCE__STREAM_FOREST + (uint64_t)tree;
    g->drawn = 0;
    memset(g->sorted, 0, (size_t)n * sizeof *g->sorted);
    for (int64_t i = 0; i < n; i++) {
        g->bag[i] = circe__min((int64_t)(uniform(g) * (double)n), n - 1);
        g->sorted[g->bag[i]].row = 1;
    }
    for (int64_t i = 0; i < n; i++)
        if (g->sorted[i].row == 0) g->out[n_out++] = i;
    grow(g, 0, n, 0, n_out);
}

typedef struct planting {
    const forest *f;
    int64_t *rows;  /* (PARTS, 2 n) */
    entry *entries; /* (PARTS, n) */
    int64_t round;
} planting;

static void run_part(void *user, int64_t part) {
    const planting *p = user;
    const forest *f = p->f;
    growing g = {.f = f,
                 .bag = p->rows + part * 2 * f->n,
                 .out = p->rows + part * 2 * f->n + f->n,
                 .sorted = p->entries + part * f->n,
                 .sums = f->sums + part * f->n * f->q,
                 .counts = f->counts + part * f->n};
    grow_tree(&g, p->round * PARTS + part);
}

/* Grows one tree per part at a time, so that the work can be stopped in between. */
static circe_status plant(planting *p) {
    const circe_context *context = p->f->data->context;
    circe_status status = CIRCE_OK;
    for (; status == CIRCE_OK && p->round < TREES / PARTS; p->round++) {
        circe_context_run(context, PARTS, run_part, p);
        status = circe__progress(context, "trees", (p->round + 1) * PARTS, TREES);
    }
    return status;
}

/* target := target - the mean of the predictions, times the root of the weights. */
static void subtract(const forest *f, circe__table *target) {
    for (int64_t i = 0; i < f->n; i++) {
        double count = 0.0;
        for (int64_t part = 0; part < PARTS; part++) count += f->counts[part * f->n + i];
        for (int64_t k = 0; count > 0.0 && k < f->q; k++) {
            double sum = 0.0;
            for (int64_t part = 0; part < PARTS; part++) sum += f->sums[(part * f->n + i) * f->q + k];
            target->data[i * f->q + k] -= f->data->root[i] * sum / count;
        }
    }
}

circe_status circe__forest_residual(const circe__data *data, circe__table *target) {
    const circe_context *context = data->context;
    int64_t n = target->rows, q = target->cols;
    if (q == 0 || data->y.dim == 0) return CIRCE_OK;
    if (q > MOST_COLUMNS)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "a forest takes at most %d columns of x or z; there are %lld",
                          MOST_COLUMNS, (long long)q);
    CIRCE__OWNED_BY(circe__table_drop) circe__table plain = {0};
    const circe__variable *y = circe__columns(data);
    forest f = {.data = data, .y = y, .target = &plain, .n = n, .d = y->dim, .q = q, .tried = (y->dim + 2) / 3};
    f.sums = circe__calloc(context, PARTS * n * q, sizeof *f.sums);
    f.counts = circe__calloc(context, PARTS * n, sizeof *f.counts);
    planting p = {&f, circe__alloc(context, PARTS * 2 * n, sizeof *p.rows),
                  circe__alloc(context, PARTS * n, sizeof *p.entries), 0};
    circe_status status = circe__table_copy(context, target, &plain);
    if (f.sums == NULL || f.counts == NULL || p.rows == NULL || p.entries == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) {
        for (int64_t e = 0; e < n * q; e++) plain.data[e] /= data->root[e / q];
        status = plant(&p);
    }
    if (status == CIRCE_OK) subtract(&f, target);
    circe__free(context, f.sums);
    circe__free(context, f.counts);
    circe__free(context, p.rows);
    circe__free(context, p.entries);
    return status;
}
