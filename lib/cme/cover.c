/* A basis that covers a data set of any size.
 *
 * Pivoting reads every point once for every pivot, so beyond CIRCE__ALL_ROWS rows it works on candidates: a random
 * subset with the extremes of every column, because tails have few points and large residuals. Then a sample of the
 * other rows is checked, and rows with large residuals become candidates of another round. The caller measures the
 * residual over all rows, in a pass that it makes anyway. */
#include <string.h>

#include "cme/cme_parts.h"

enum {
    CANDIDATES = 4096,
    EXTREMES = 128,   /* of a column, at both ends */
    END_COLUMNS = 16, /* whose ends are looked for */
    SAMPLE = 65536,   /* rows that are checked */
    OUTLIERS = 4096,  /* of them, at most so many become candidates of a round */
    ROUNDS = 4,
    BLOCK = 2048,
};

/* The EXTREMES smallest and largest values of the first columns, an end of a column to a part. */
typedef struct extremes {
    const double *points;
    int64_t n, dim;
    int64_t index[2 * END_COLUMNS][EXTREMES]; /* of the smallest first, then of the largest */
} extremes;

/* A small sorted list, filled in one pass. */
static void find_extremes(void *user, int64_t part) {
    extremes *e = user;
    double value[EXTREMES] = {0}, sign = part % 2 == 0 ? 1.0 : -1.0;
    int64_t *index = e->index[part], held = 0;
    for (int64_t i = 0; i < e->n; i++) {
        double v = sign * e->points[i * e->dim + part / 2];
        if (held == EXTREMES && v >= value[EXTREMES - 1]) continue;
        int64_t at = held < EXTREMES ? held++ : EXTREMES - 1;
        for (; at > 0 && value[at - 1] > v; at--) {
            value[at] = value[at - 1];
            index[at] = index[at - 1];
        }
        value[at] = v;
        index[at] = i;
    }
}

static circe_status mark_extremes(const circe_context *context, const double *points, int64_t n, int64_t dim,
                                  bool *marked) {
    CIRCE__OWNED extremes *e = circe__alloc(context, 1, sizeof *e);
    if (e == NULL) return CIRCE_ERR_MEMORY;
    int64_t ends = 2 * circe__min(dim, END_COLUMNS);
    e->points = points;
    e->n = n;
    e->dim = dim;
    circe_context_run(context, ends, find_extremes, e);
    for (int64_t part = 0; part < ends; part++)
        for (int64_t k = 0; k < circe__min(EXTREMES, n); k++) marked[e->index[part][k]] = true;
    return CIRCE_OK;
}

/* Rows [marked] of points, the caller's to free. */
static double *gather(const circe_context *context, const double *points, int64_t n, int64_t dim, const bool *marked,
                      int64_t *count) {
    int64_t at = 0;
    *count = 0;
    for (int64_t i = 0; i < n; i++) *count += marked[i];
    double *rows = circe__alloc(context, *count * dim, sizeof *rows);
    for (int64_t i = 0; rows != NULL && i < n; i++)
        if (marked[i]) memcpy(rows + at++ * dim, points + i * dim, (size_t)dim * sizeof *rows);
    return rows;
}

static circe_status mark_random(const circe_context *context, int64_t n, int64_t k, circe_random generator,
                                bool *marked) {
    CIRCE__OWNED int64_t *subset = circe__alloc(context, k, sizeof *subset);
    if (subset == NULL) return CIRCE_ERR_MEMORY;
    circe__random_subset(context->threads, generator, n, k, subset);
    for (int64_t i = 0; i < k; i++) marked[subset[i]] = true;
    return CIRCE_OK;
}

/* Each rank has checked blocks of its own; then all know all of it. Only the first OUTLIERS stay. */
static circe_status merge(const circe__basis *basis, double totals[2], bool *outlying, int64_t n) {
    circe__sum(basis->by, totals, 2);
    if (outlying == NULL) return CIRCE_OK;
    if (circe__ranks_of(basis->by) != NULL) {
        double *flags = circe__alloc(basis->context, n, sizeof *flags);
        if (flags == NULL) return CIRCE_ERR_MEMORY;
        for (int64_t i = 0; i < n; i++) flags[i] = outlying[i];
        circe__sum(basis->by, flags, n);
        for (int64_t i = 0; i < n; i++) outlying[i] = flags[i] > 0.0;
        circe__free(basis->context, flags);
    }
    for (int64_t i = 0, marked = 0; i < n; i++) {
        marked += outlying[i];
        if (marked > OUTLIERS) outlying[i] = false;
    }
    return CIRCE_OK;
}

circe_status circe__basis_outliers(const circe__basis *basis, const double *points, int64_t n, double relative,
                                   bool *outlying, double *trace_residual) {
    if (basis->by != NULL && basis->by->ops->outliers != NULL)
        return basis->by->ops->outliers(basis, points, n, relative, outlying, trace_residual);
    const circe_context *context = basis->context;
    int64_t size, rank = circe__rank_of(basis->by, &size), rows = circe__min(n, BLOCK);
    double totals[2] = {0.0, 0.0}; /* trace, what is left of it */
    CIRCE__OWNED double *features = circe__alloc(context, rows * (basis->rank + 2), sizeof *features);
    CIRCE__OWNED void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    circe_status status = features == NULL || scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t i = rank * BLOCK; status == CIRCE_OK && i < n; i += size * BLOCK) {
        int64_t here = circe__min(BLOCK, n - i);
        double *diagonal = features + here * basis->rank, *residual = diagonal + here;
        circe__basis_features(basis, basis->rank, points + i * basis->dim, here, features, basis->rank, diagonal,
                              residual, scratch);
        for (int64_t k = 0; k < here; k++) {
            totals[0] += diagonal[k];
            totals[1] += residual[k];
            if (outlying != NULL) outlying[i + k] = residual[k] > relative * diagonal[k];
        }
    }
    status = circe__agree(basis->by, status);
    if (status == CIRCE_OK) status = merge(basis, totals, outlying, n);
    *trace_residual = totals[0] > 0.0 ? totals[1] / totals[0] : 0.0;
    return status;
}

/* One round: checks the points, and extends the basis by those that stick out. `settled` where none did. */
static circe_status extend_by_outliers(circe__basis *basis, const double *points, int64_t n, double relative,
                                       double tolerance, int64_t max_rank, const char *name, bool *settled) {
    const circe_context *context = basis->context;
    double *rows = NULL, residual = 0.0;
    int64_t count = 0, rank = basis->rank;
    CIRCE__OWNED bool *marked = circe__calloc(context, n, sizeof *marked);
    if (marked == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__basis_outliers(basis, points, n, relative, marked, &residual);
    if (status == CIRCE_OK) {
        rows = gather(context, points, n, basis->dim, marked, &count);
        if (rows == NULL) status = CIRCE_ERR_MEMORY;
    }
    if (status == CIRCE_OK && count > 0) status = circe__basis_extend(basis, rows, count, tolerance, max_rank, name);
    *settled = count == 0 || basis->rank == rank;
    circe__free(context, rows);
    return status;
}

circe_status circe__basis_settle(circe__basis *basis, const double *points, int64_t n, double relative,
                                 double tolerance, int64_t max_rank, const char *name) {
    circe_status status = CIRCE_OK;
    bool settled = false;
    for (int round = 0; status == CIRCE_OK && round < ROUNDS && !settled; round++)
        status = extend_by_outliers(basis, points, n, relative, tolerance, max_rank, name, &settled);
    return status;
}

circe_status circe__basis_cover(circe__basis *basis, const double *points, int64_t n, double tolerance,
                                int64_t max_rank, uint64_t seed, const char *name) {
    const circe_context *context = basis->context;
    int64_t dim = basis->dim, count = 0;
    double *rows = NULL;
    if (n <= CIRCE__ALL_ROWS) return circe__basis_extend(basis, points, n, tolerance, max_rank, name);
    bool *marked = circe__calloc(context, n, sizeof *marked);
    if (marked == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = mark_random(context, n, CANDIDATES, (circe_random){seed, 0x7069766f74u}, marked);
    if (status == CIRCE_OK) status = mark_extremes(context, points, n, dim, marked);
    if (status == CIRCE_OK) rows = gather(context, points, n, dim, marked, &count);
    if (rows == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = circe__basis_extend(basis, rows, count, tolerance, max_rank, name);
    circe__free(context, rows);
    rows = NULL;
    if (status == CIRCE_OK) {
        memset(marked, 0, (size_t)n);
        status = mark_random(context, n, circe__min(n, SAMPLE), (circe_random){seed, 0x73616d706c65u}, marked);
    }
    if (status == CIRCE_OK) rows = gather(context, points, n, dim, marked, &count);
    circe__free(context, marked);
    if (status == CIRCE_OK && rows == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK)
        status = circe__basis_settle(basis, rows, count, 100.0 * tolerance, tolerance, max_rank, name);
    circe__free(context, rows);
    return status;
}
