/* Blocks of rows that depend on each other, and what the bootstrap needs of them.
 *
 * The sum over rows of left_i (x) noise_i has the variance of its sums over blocks, if blocks are independent. So one
 * sign per block gives the null of dependent rows, as one sign per row gives that of independent rows. In time, blocks
 * are stretches of a series. If they are too short, the sums of neighbours are correlated; if they are too long, there
 * are few of them. Andrews' (1991) rule for the Bartlett window, the weight that products of rows get on average from
 * blocks cut at random, balances both:
 *
 *     length = 1.1447 (alpha units)^(1/3),
 *     alpha = sum_c 4 r^2 s^4 / ((1 - r)^6 (1 + r)^2) / sum_c s^4 / (1 - r)^4
 *
 * over components c of the products, r and s^2 their autocorrelation at lag 1 and the variance of what it does not
 * explain. That minimises a squared error; a level needs less bias, hence LONGER. */
#include "inference/dependence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMPONENTS = 8, LEAST_BLOCKS = 8, MOMENT_DRAWS = 400 };
static const double LONGER = 3.0;
static const double regression_share = 0.04; /* the longest stretch that is left out of a regression */

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void blocks_free(const circe_context *context, circe__blocks *b) {
    circe__free(context, b->of);
    circe__free(context, b->rows);
    circe__free(context, b->start);
    *b = (circe__blocks){0};
}

static circe_status blocks_new(const circe_context *context, int64_t n, circe__blocks *b) {
    *b = (circe__blocks){.of = circe__alloc(context, n, sizeof *b->of),
                         .rows = circe__alloc(context, n, sizeof *b->rows),
                         .start = circe__calloc(context, n + 1, sizeof *b->start)};
    return b->of == NULL || b->rows == NULL || b->start == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

/* Fills rows and starts from `of`; the rows of a block keep the given order. */
static circe_status blocks_list(const circe_context *context, int64_t n, const int64_t *order, circe__blocks *b) {
    CIRCE__OWNED int64_t *next = circe__alloc(context, b->k + 1, sizeof *next);
    if (next == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) b->start[b->of[i] + 1]++;
    for (int64_t k = 0; k < b->k; k++) b->start[k + 1] += b->start[k];
    memcpy(next, b->start, (size_t)b->k * sizeof *next);
    for (int64_t i = 0; i < n; i++) b->rows[next[b->of[order[i]]]++] = order[i];
    return CIRCE_OK;
}

/* Groups, or stretches of about `length` units of every series. */
static circe_status cut(const circe_context *context, const circe__dependence *d, double length, circe__blocks *b) {
    circe_status status = blocks_new(context, d->n, b);
    int64_t g = 0, before = 0;
    for (int64_t i = 0, parts = 0; status == CIRCE_OK && i < d->n; i++) {
        while (d->unit[i] >= d->first[g + 1]) {
            before += parts;
            parts = 0;
            g++;
        }
        int64_t units = d->first[g + 1] - d->first[g];
        parts = d->series ? circe__max(1, (int64_t)((double)units / length + 0.5)) : 1;
        b->of[d->order[i]] = before + (d->unit[i] - d->first[g]) * parts / units;
        b->k = before + parts;
    }
    return status == CIRCE_OK ? blocks_list(context, d->n, d->order, b) : status;
}

/* ---- rows in order ----------------------------------------------------------------------------------------------- */

typedef struct entry {
    double group, time;
    int64_t row;
} entry;

static int by_place(const void *a, const void *b) {
    const entry *p = a, *q = b;
    if (p->group != q->group) return p->group < q->group ? -1 : 1;
    if (p->time != q->time) return p->time < q->time ? -1 : 1;
    return p->row < q->row ? -1 : p->row > q->row;
}

static circe_status check_column(const double *values, int64_t n, const char *name) {
    for (int64_t i = 0; values != NULL && i < n; i++)
        if (!isfinite(values[i]))
            return circe_fail(CIRCE_ERR_VALUE, "the %s of row %lld is %g; it must be a finite number", name,
                              (long long)i, values[i]);
    return CIRCE_OK;
}

static circe_status sort_rows(const circe__data *data, circe__dependence *d) {
    const circe_test_options *o = &data->options;
    CIRCE__OWNED entry *e = circe__alloc(data->context, d->n, sizeof *e);
    if (e == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < d->n; i++) {
        int64_t row = data->row[i];
        e[i] = (entry){o->groups != NULL ? o->groups[row] : 0.0, o->time != NULL ? o->time[row] : 0.0, i};
    }
    qsort(e, (size_t)d->n, sizeof *e, by_place);
    for (int64_t i = 0; i < d->n; i++) {
        bool other = i == 0 || e[i].group != e[i - 1].group;
        if (other) d->first[d->groups++] = d->units;
        if (other || e[i].time != e[i - 1].time) d->units++;
        d->unit[i] = d->units - 1;
        d->order[i] = e[i].row;
    }
    d->first[d->groups] = d->units;
    return CIRCE_OK;
}

static circe__dependence *dependence_new(const circe_context *context, int64_t n) {
    circe__dependence *d = circe__calloc(context, 1, sizeof *d);
    if (d == NULL) return NULL;
    d->n = n;
    d->order = circe__alloc(context, n, sizeof *d->order);
    d->unit = circe__alloc(context, n, sizeof *d->unit);
    d->first = circe__alloc(context, n + 1, sizeof *d->first);
    if (d->order != NULL && d->unit != NULL && d->first != NULL) return d;
    circe__dependence_free(context, d);
    return NULL;
}

void circe__dependence_free(const circe_context *context, circe__dependence *d) {
    if (d == NULL) return;
    circe__free(context, d->order);
    circe__free(context, d->unit);
    circe__free(context, d->first);
    blocks_free(context, &d->left_out);
    blocks_free(context, &d->blocks);
    circe__free(context, d);
}

/* ---- the length of stretches ------------------------------------------------------------------------------------- */

typedef struct persistence {
    double above, below; /* of alpha */
} persistence;

/* One component: value (units), which is centred in place. */
static void add_component(const circe__dependence *d, double *value, persistence *all) {
    double mean = 0.0, variance = 0.0, next = 0.0;
    for (int64_t u = 0; u < d->units; u++) mean += value[u] / (double)d->units;
    for (int64_t u = 0; u < d->units; u++) value[u] -= mean;
    for (int64_t u = 0; u < d->units; u++) variance += value[u] * value[u] / (double)d->units;
    for (int64_t g = 0; g < d->groups; g++)
        for (int64_t u = d->first[g]; u + 1 < d->first[g + 1]; u++) next += value[u] * value[u + 1] / (double)d->units;
    if (!(variance > 0.0)) return;
    double r = fmin(fmax(next / variance, 0.0), 0.97), s2 = variance * (1.0 - r * r), rest = (1.0 - r) * (1.0 - r);
    all->above += s2 * s2 * 4.0 * r * r / (rest * rest * rest * (1.0 + r) * (1.0 + r));
    all->below += s2 * s2 / (rest * rest);
}

/* From the products of columns of two tables, summed over the rows of a unit. */
static circe_status find_length(const circe__data *data, const double *left, int64_t p, const double *right, int64_t q,
                                double *length) {
    const circe__dependence *d = data->dependence;
    double *value = circe__alloc(data->context, d->units, sizeof *value);
    persistence all = {0.0, 0.0};
    if (value == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t a = 0; a < circe__min(p, COMPONENTS); a++)
        for (int64_t b = 0; b < circe__min(q, COMPONENTS); b++) {
            memset(value, 0, (size_t)d->units * sizeof *value);
            for (int64_t i = 0; i < d->n; i++)
                value[d->unit[i]] += left[d->order[i] * p + a] * right[d->order[i] * q + b];
            add_component(d, value, &all);
        }
    circe__free(data->context, value);
    double alpha = all.below > 0.0 ? all.above / all.below : 0.0;
    *length = fmax(1.0, LONGER * 1.1447 * cbrt(alpha * (double)d->units));
    return CIRCE_OK;
}

/* Columns about their means. */
static circe_status centred(const circe__data *data, const circe__variable *v, circe__table *out) {
    circe_status status = circe__table_new(data->context, data->n, v->dim, out);
    for (int64_t c = 0; status == CIRCE_OK && c < v->dim; c++) {
        double mean = 0.0;
        for (int64_t i = 0; i < data->n; i++) mean += v->points[i * v->dim + c] / (double)data->n;
        for (int64_t i = 0; i < data->n; i++) out->data[i * v->dim + c] = v->points[i * v->dim + c] - mean;
    }
    return status;
}

/* The stretches to leave out of regressions, before there are residuals: from the products of the columns
 * themselves. */
static circe_status first_length(const circe__data *data, double *length) {
    CIRCE__OWNED_BY(circe__table_drop) circe__table x = {0}, z = {0};
    circe_status status = centred(data, &data->x, &x);
    if (status == CIRCE_OK) status = centred(data, &data->z, &z);
    if (status == CIRCE_OK) status = find_length(data, x.data, x.cols, z.data, z.cols, length);
    *length = fmax(1.0, fmin(*length, regression_share * (double)data->dependence->units));
    return status;
}

/* ---- the options ------------------------------------------------------------------------------------------------- */

static circe_status check_options(const circe_test_options *o) {
    const circe__kind *kind = circe__kind_of(o);
    if (kind->splits)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "%s does not support groups or time, because it would split rows that depend on each other; "
                          "kci, circe, gcm, wgcm, rcot and hsic do",
                          kind->name);
    if (o->auxiliary_y != NULL || o->mean == CIRCE_MEAN_SPLIT)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "groups and time cannot be combined with auxiliary rows or a split");
    if (o->null == CIRCE_NULL_GAMMA || o->null == CIRCE_NULL_SPECTRAL ||
        (o->null == CIRCE_NULL_PERMUTATION && !kind->marginal))
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "the null %s needs independent rows; with groups or time, %s has the null %s",
                          circe_test_null_name(o->null), kind->name, kind->columns ? "multiplier" : "wild");
    if (!(o->block >= 0.0 && isfinite(o->block)) || (o->block > 0.0 && o->block < 1.0))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "block is %g; it must be a number of times, at least 1, or 0 for automatic", o->block);
    return CIRCE_OK;
}

static circe_status check_count(const circe__dependence *d) {
    if (d->blocks.k >= 5) return CIRCE_OK;
    return d->series
               ? circe_fail(
                     CIRCE_ERR_VALUE,
                     "%lld times in blocks of %.0f give only %lld of the 5 blocks that are needed: use shorter blocks",
                     (long long)d->units, d->length, (long long)d->blocks.k)
               : circe_fail(CIRCE_ERR_VALUE, "there %s %lld group%s; at least 5 are needed",
                            d->blocks.k == 1 ? "is" : "are", (long long)d->blocks.k, d->blocks.k == 1 ? "" : "s");
}

circe_status circe__dependence_make(circe__data *data) {
    const circe_test_options *o = &data->options;
    if (o->groups == NULL && o->time == NULL)
        return o->block > 0.0 ? circe_fail(CIRCE_ERR_ARGUMENT, "a block length needs the time of the rows") : CIRCE_OK;
    if (o->block > 0.0 && o->time == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "a block length needs the time of the rows; without it, each group is one block");
    circe_status status = check_options(o);
    if (status == CIRCE_OK) status = check_column(o->groups, data->given, "group");
    if (status == CIRCE_OK) status = check_column(o->time, data->given, "time");
    if (status != CIRCE_OK) return status;
    circe__dependence *d = data->dependence = dependence_new(data->context, data->n);
    if (d == NULL) return CIRCE_ERR_MEMORY;
    d->series = o->time != NULL;
    d->length = o->block;
    status = sort_rows(data, d);
    if (status == CIRCE_OK && d->series && !(o->block > 0.0)) status = first_length(data, &d->length);
    if (status == CIRCE_OK) status = cut(data->context, d, d->length, &d->left_out);
    if (status == CIRCE_OK) status = cut(data->context, d, d->length, &d->blocks);
    return status == CIRCE_OK ? check_count(d) : status;
}

circe_status circe__dependence_subset(const circe__data *data, const int64_t *index, int64_t n,
                                      circe__dependence **subset) {
    const circe__dependence *from = data->dependence;
    *subset = NULL;
    if (from == NULL) return CIRCE_OK;
    circe__dependence *d = dependence_new(data->context, n);
    if (d == NULL) return CIRCE_ERR_MEMORY;
    circe__blocks *b = &d->left_out;
    circe_status status = blocks_new(data->context, n, b);
    int64_t *number = circe__alloc(data->context, from->left_out.k, sizeof *number);
    if (number == NULL) status = CIRCE_ERR_MEMORY;
    for (int64_t k = 0; status == CIRCE_OK && k < from->left_out.k; k++) number[k] = -1;
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        int64_t *at = &number[from->left_out.of[index[i]]];
        if (*at < 0) *at = b->k++;
        b->of[i] = *at;
        d->order[i] = i;
    }
    if (status == CIRCE_OK) status = blocks_list(data->context, n, d->order, b);
    circe__free(data->context, number);
    *subset = d;
    return status;
}

circe_status circe__refuse_dependent(const circe_test_options *options, const char *what) {
    if (options == NULL || (options->groups == NULL && options->time == NULL)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s needs independent rows: use it without groups and time", what);
}

/* ---- the bootstrap ----------------------------------------------------------------------------------------------- */

static circe_status leading(const circe__data *data, const circe__table *from, circe__table *to) {
    double lost;
    circe_status status = circe__table_copy(data->context, from, to);
    return status == CIRCE_OK ? circe__compress(data, to, NULL, COMPONENTS, &lost) : status;
}

circe_status circe__dependence_settle(const circe__data *data, const circe__pair *pair, circe_test_result *result) {
    circe__dependence *d = data->dependence;
    circe_status status = CIRCE_OK;
    if (d == NULL) return CIRCE_OK;
    if (d->series && !(data->options.block > 0.0) && pair->p * pair->q > 0) {
        CIRCE__OWNED_BY(circe__table_drop) circe__table left = {0}, noise = {0};
        status = leading(data, &pair->left, &left);
        if (status == CIRCE_OK) status = leading(data, &pair->noise, &noise);
        if (status == CIRCE_OK) status = find_length(data, left.data, left.cols, noise.data, noise.cols, &d->length);
        d->length = fmax(1.0, fmin(d->length, (double)d->units / LEAST_BLOCKS));
        blocks_free(data->context, &d->blocks);
        if (status == CIRCE_OK) status = cut(data->context, d, d->length, &d->blocks);
    }
    result->blocks = d->blocks.k;
    result->block_length = d->series ? d->length : 0.0;
    return status;
}

circe_status circe__block_signs(const circe__data *data, uint64_t stream, int64_t draws, double **signs) {
    *signs = NULL;
    if (data->dependence == NULL) return CIRCE_OK;
    int64_t k = data->dependence->blocks.k;
    *signs = circe__alloc(data->context, draws * k, sizeof **signs);
    if (*signs == NULL) return CIRCE_ERR_MEMORY;
    circe__signs(data->options.seed, stream, k, 0, draws, 0, k, *signs, k);
    return CIRCE_OK;
}

void circe__spread_signs(const circe__data *data, const double *signs, int64_t draws, int64_t first, int64_t n,
                         double *out, int64_t ld) {
    const circe__blocks *blocks = &data->dependence->blocks;
    for (int64_t d = 0; d < draws; d++)
        for (int64_t i = 0; i < n; i++) out[d * ld + i] = signs[d * blocks->k + blocks->of[first + i]];
}

circe_status circe__block_squares(const circe__data *data, const circe__pair *pair, double *squares) {
    const circe__blocks *b = &data->dependence->blocks;
    int64_t p = pair->p, q = pair->q;
    CIRCE__OWNED double *sum = circe__alloc(data->context, p * q + 1, sizeof *sum);
    if (sum == NULL) return CIRCE_ERR_MEMORY;
    memset(squares, 0, (size_t)(p * q) * sizeof *squares);
    for (int64_t k = 0; k < b->k; k++) {
        memset(sum, 0, (size_t)(p * q) * sizeof *sum);
        for (int64_t r = b->start[k]; r < b->start[k + 1]; r++) {
            const double *left = pair->left.data + b->rows[r] * p, *noise = pair->noise.data + b->rows[r] * q;
            for (int64_t e = 0; e < p * q; e++) sum[e] += left[e / q] * noise[e % q];
        }
        for (int64_t e = 0; e < p * q; e++) squares[e] += sum[e] * sum[e];
    }
    return CIRCE_OK;
}

circe_status circe__block_moments(const circe__data *data, const circe__pair *pair, double *mean, double *variance) {
    CIRCE__OWNED double *null = circe__alloc(data->context, MOMENT_DRAWS, sizeof *null);
    *mean = *variance = 0.0;
    if (null == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__wild(data, pair, NULL, MOMENT_DRAWS, (uint64_t)CIRCE__STREAM_SIGNS + 1, null);
    for (int64_t d = 0; status == CIRCE_OK && d < MOMENT_DRAWS; d++) *mean += null[d] / MOMENT_DRAWS;
    for (int64_t d = 0; status == CIRCE_OK && d < MOMENT_DRAWS; d++)
        *variance += (null[d] - *mean) * (null[d] - *mean) / MOMENT_DRAWS;
    return status;
}

/* ---- blocks that move -------------------------------------------------------------------------------------------- */

static int64_t size_of(const circe__blocks *b, int64_t k) { return b->start[k + 1] - b->start[k]; }

/* Every group takes the place of another of its size: the next of that size in the random order `by`. queue (k) lists
 * the blocks by size; from[size] (n + 2) says where those of a size begin. */
static void swap_groups(const circe__blocks *b, const int64_t *by, int64_t n, int64_t *queue, int64_t *from,
                        int64_t *order) {
    memset(from, 0, (size_t)(n + 2) * sizeof *from);
    for (int64_t k = 0; k < b->k; k++) from[size_of(b, k) + 2]++;
    for (int64_t size = 1; size < n + 2; size++) from[size] += from[size - 1];
    for (int64_t k = 0; k < b->k; k++) queue[from[size_of(b, by[k]) + 1]++] = by[k];
    memmove(from + 1, from, (size_t)(n + 1) * sizeof *from); /* the ends of sizes are the beginnings of the next */
    for (int64_t k = 0; k < b->k; k++) {
        int64_t size = size_of(b, k), other = queue[from[size + 1]++];
        for (int64_t i = 0; i < size; i++) order[b->rows[b->start[k] + i]] = b->rows[b->start[other] + i];
    }
}

static bool any_alike(const circe__blocks *b) {
    for (int64_t k = 1; k < b->k; k++)
        for (int64_t l = 0; l < k; l++)
            if (size_of(b, k) == size_of(b, l)) return true;
    return false;
}

/* Joins the stretches in random order. */
static void join_stretches(const circe__dependence *d, const int64_t *by, int64_t *order) {
    const circe__blocks *b = &d->blocks;
    int64_t at = 0;
    for (int64_t k = 0; k < b->k; k++)
        for (int64_t r = b->start[by[k]]; r < b->start[by[k] + 1]; r++) order[d->order[at++]] = b->rows[r];
}

circe_status circe__block_order(const circe__data *data, int64_t draw, int64_t *order) {
    const circe__dependence *d = data->dependence;
    int64_t k = d->blocks.k;
    if (d->series && d->groups > 1)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "several series cannot be permuted; use the null wild");
    if (draw == 0 && !d->series && !any_alike(&d->blocks))
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "permutations exchange groups of equal size, but no two groups have the same number of rows; "
                          "use the null wild");
    CIRCE__OWNED int64_t *by = circe__alloc(data->context, 2 * k + d->n + 2, sizeof *by);
    if (by == NULL) return CIRCE_ERR_MEMORY;
    circe_random_permutation((circe_random){data->options.seed, CIRCE__STREAM_PERMUTE + (uint64_t)draw}, k, by);
    if (d->series)
        join_stretches(d, by, order);
    else
        swap_groups(&d->blocks, by, d->n, by + k, by + 2 * k, order);
    return CIRCE_OK;
}
