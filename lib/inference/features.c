/* Features of kernels for tests: K ~ F F', F (n, r), by pivoted Cholesky, with a largest rank.
 *
 * A test is valid under any kernel, including F F': what the features leave out costs power, never the level. So
 * tolerances are those of statistics (a thousandth of the trace), not of arithmetic, and a rank that would cost too
 * much is cut and reported. Up to 8,192 rows, all are candidates for pivots; beyond that, pivots come from a few
 * thousand (cme/cover.c). O(n r^2). */
#include <math.h>
#include <string.h>

#include "inference/inference_parts.h"
#include "inference/memory.h"

void circe__table_drop(circe__table *table) {
    if (table->device != NULL)
        table->device->ops->free(table->device, table->data);
    else
        circe__free_local(&table->data);
}

void circe__table_free(const circe_context *context, circe__table *table) {
    if (table->device != NULL)
        table->device->ops->free(table->device, table->data);
    else
        circe__free(context, table->data);
    *table = (circe__table){0};
}

circe_status circe__table_new(const circe_context *context, int64_t rows, int64_t cols, circe__table *table) {
    *table = (circe__table){rows, cols, circe__alloc(context, circe__max(rows * cols, 1), sizeof(double)), NULL};
    return table->data == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

typedef struct copying {
    const double *from;
    double *to;
} copying;

static void run_copy(void *user, int64_t first, int64_t end) {
    const copying *c = user;
    memcpy(c->to + first, c->from + first, (size_t)(end - first) * sizeof *c->to);
}

circe_status circe__table_copy(const circe_context *context, const circe__table *from, circe__table *to) {
    enum { LEAST = 1 << 14 }; /* numbers */
    circe_status status = circe__table_at(context, from->device, from->rows, from->cols, to);
    copying c = {from->data, to->data};
    if (status == CIRCE_OK && from->device != NULL)
        return from->device->ops->copy(from->device, to->data, from->data, from->rows * from->cols);
    if (status == CIRCE_OK) circe__run_ranges(context->threads, from->rows * from->cols, LEAST, run_copy, &c);
    return status;
}

double circe__square_norm(const double *a, int64_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * a[i];
    return sum;
}

typedef struct transposition {
    const double *F; /* (cols, n) */
    int64_t n;
    circe__table *features;
} transposition;

static void run_transpose(void *user, int64_t first, int64_t end) {
    enum { BLOCK = 16 }; /* rows whose lines of the table stay in the cache */
    const transposition *t = user;
    int64_t cols = t->features->cols;
    for (int64_t i0 = first; i0 < end; i0 += BLOCK)
        for (int64_t k = 0; k < cols; k++)
            for (int64_t i = i0; i < circe__min(i0 + BLOCK, end); i++)
                t->features->data[i * cols + k] = t->F[k * t->n + i];
}

/* All rows are candidates: the backend's factor (r, n), transposed. */
static circe_status factor_rows(const circe_context *context, const circe_kernel *kernel, const double *points,
                                int64_t n, int64_t dim, double tolerance, int64_t most, const char *name,
                                circe__table *features, double *left) {
    const circe__loops *loops = circe__loops_for(context->backend, CIRCE_FLOAT64);
    CIRCE__OWNED circe_kernel_factor *factors = NULL;
    CIRCE__OWNED double *F = NULL;
    CIRCE__OWNED void *scratch = NULL;
    int64_t capacity = circe__min(most, n);
    circe_status status = circe__resolve(context, kernel, dim, name, &factors);
    if (status != CIRCE_OK) return status;
    F = circe__alloc(context, capacity * n, sizeof *F);
    scratch = circe__alloc(context, (int64_t)loops->factor_bytes(n, dim, context->threads), 1);
    status = F == NULL || scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_mat mat = circe_mat_f64(points, n, dim), out = circe__mat(F, capacity, n, CIRCE_FLOAT64);
        circe__factors resolved = {factors, circe_kernel_n_factors(kernel)};
        circe__factored result =
            loops->factor(resolved, &mat, tolerance, HUGE_VAL, 0, &out, NULL, context->threads, scratch);
        *left = result.trace > 0.0 ? fmax(result.left, 0.0) / result.trace : 0.0;
        status = circe__table_new(context, n, result.rank, features);
    }
    transposition t = {F, n, features};
    if (status == CIRCE_OK) circe__run_ranges(context->threads, n, 8192 / (features->cols + 1) + 1, run_transpose, &t);
    return status;
}

/* For rcot, whose features of y are a few hundred at most: so many random rows hold as good pivots as all of them. A
 * category that these rows miss would have no feature, and a linear kernel needs none (cme/basis.c). */
enum { RCOT_CANDIDATES = 1000 };

static bool few_candidates(const circe__data *data, const circe_kernel *kernel, int64_t n) {
    for (int64_t f = 0; f < kernel->n_factors; f++)
        if (kernel->factors[f].kind == CIRCE_KERNEL_DELTA || kernel->factors[f].kind == CIRCE_KERNEL_LINEAR)
            return false;
    return circe__kind_of(&data->options)->frugal && n > RCOT_CANDIDATES + RCOT_CANDIDATES / 2;
}

/* The basis of the pivots among some points (m, dim). */
static circe_status pivots_among(const double *points, int64_t m, double tolerance, int64_t most, circe__basis *basis) {
    const circe_context *context = basis->context;
    const circe__loops *loops = circe__loops_for(context->backend, CIRCE_FLOAT64);
    int64_t capacity = circe__min(most, m), dim = basis->dim;
    CIRCE__OWNED int64_t *pivots = circe__alloc(context, capacity, sizeof *pivots);
    CIRCE__OWNED double *F = circe__alloc(context, capacity * m, sizeof *F);
    CIRCE__OWNED void *scratch = circe__alloc(context, (int64_t)loops->factor_bytes(m, dim, context->threads), 1);
    circe_status status = pivots == NULL || F == NULL || scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_mat mat = circe_mat_f64(points, m, dim), out = circe__mat(F, capacity, m, CIRCE_FLOAT64);
        int64_t rank = loops
                           ->factor(circe__basis_kernel(basis), &mat, tolerance, HUGE_VAL, 0, &out, pivots,
                                    context->threads, scratch)
                           .rank;
        status = circe__basis_reserve(basis, rank);
        for (int64_t k = 0; status == CIRCE_OK && k < rank; k++) {
            memcpy(basis->points + k * dim, points + pivots[k] * dim, (size_t)dim * sizeof *points);
            for (int64_t j = 0; j <= k; j++) basis->L[k * basis->capacity + j] = F[j * m + pivots[k]];
        }
        basis->rank = status == CIRCE_OK ? rank : 0;
    }
    return status == CIRCE_OK ? circe__basis_invert(basis) : status;
}

static circe_status pivots_of_some(const circe__data *data, const double *points, int64_t n, int64_t dim,
                                   double tolerance, int64_t most, circe__basis *basis) {
    const circe_context *context = data->context;
    CIRCE__OWNED int64_t *index = circe__alloc(context, RCOT_CANDIDATES, sizeof *index);
    CIRCE__OWNED double *rows = circe__alloc(context, RCOT_CANDIDATES * dim, sizeof *rows);
    circe_status status = index == NULL || rows == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, n, RCOT_CANDIDATES, index);
        for (int64_t i = 0; i < RCOT_CANDIDATES; i++)
            memcpy(rows + i * dim, points + index[i] * dim, (size_t)dim * sizeof *rows);
        status = pivots_among(rows, RCOT_CANDIDATES, tolerance, most, basis);
    }
    return status;
}

/* Pivots from candidates, then the features of every row. */
static circe_status cover_rows(const circe__data *data, const circe_kernel *kernel, const double *points, int64_t n,
                               int64_t dim, double tolerance, int64_t most, const char *name, circe__table *features,
                               double *left) {
    const circe_context *context = data->context;
    circe__basis basis = {0};
    void *scratch = NULL;
    double *residual = NULL, sum = 0.0, trace = 0.0;
    circe_status status = circe__basis_init(context, kernel, dim, name, &basis);
    if (data->device != NULL) basis.by = data->device->by;
    if (status == CIRCE_OK)
        status = few_candidates(data, kernel, n)
                     ? pivots_of_some(data, points, n, dim, tolerance, most, &basis)
                     : circe__basis_cover(&basis, points, n, tolerance, most, data->options.seed, name);
    if (status == CIRCE_ERR_RANK) status = circe__basis_invert(&basis);
    if (status == CIRCE_OK) status = circe__progress(context, "features", 1, 2);
    if (status == CIRCE_OK && data->device != NULL) {
        status = circe__rows_features(data, &basis, points, n, features, left);
        goto done;
    }
    if (status == CIRCE_OK) status = circe__table_new(context, n, basis.rank, features);
    if (status != CIRCE_OK) goto done;
    scratch = circe__alloc(context, (int64_t)circe__basis_bytes(&basis), 1);
    residual = circe__alloc(context, 2 * n, sizeof *residual);
    status = scratch == NULL || residual == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status != CIRCE_OK) goto done;
    circe__basis_features(&basis, basis.rank, points, n, features->data, basis.rank, residual + n, residual, scratch);
    for (int64_t i = 0; i < n; i++) {
        sum += residual[i];
        trace += residual[n + i];
    }
    *left = trace > 0.0 ? sum / trace : 0.0;
    status = circe__progress(context, "features", 2, 2);

done:
    circe__basis_free(&basis);
    circe__free(context, scratch);
    circe__free(context, residual);
    if (status != CIRCE_OK) circe__table_free(context, features);
    return status;
}

static circe__key key_of(const circe__data *data, const circe_kernel *kernel, const double *points, int64_t n,
                         int64_t dim, double tolerance, int64_t most) {
    const double numbers[] = {(double)n, (double)dim, tolerance, (double)most};
    circe__key key = circe__key_begin('f');
    if (data->options.memory == NULL) return key;
    circe__key_add(&key, numbers, sizeof numbers);
    circe__key_add(&key, points, (size_t)(n * dim) * sizeof *points);
    for (int64_t f = 0; f < kernel->n_factors; f++) circe__key_factor(&key, &kernel->factors[f]);
    return key;
}

circe_status circe__features_of(const circe__data *data, const circe_kernel *kernel, const double *points, int64_t n,
                                int64_t dim, double tolerance, int64_t most, const char *name, circe__table *features,
                                double *left) {
    *features = (circe__table){0};
    *left = 0.0;
    if (n > CIRCE__ALL_ROWS || few_candidates(data, kernel, n))
        return cover_rows(data, kernel, points, n, dim, tolerance, most, name, features, left);
    circe__key key = key_of(data, kernel, points, n, dim, tolerance, most);
    if (circe__recall_table(data, key, features, left)) return CIRCE_OK;
    circe_status status = factor_rows(data->context, kernel, points, n, dim, tolerance, most, name, features, left);
    if (status == CIRCE_OK) circe__remember_table(data, key, features, *left);
    return status;
}

circe_status circe__joint_features(const circe__data *data, double tolerance, int64_t most, circe__table *features,
                                   double *left) {
    const circe__variable *x = &data->x, *y = &data->y;
    circe_kernel *kernel = NULL;
    int64_t n = data->n, dim = x->dim + y->dim;
    if (y->dim == 0)
        return circe__features_of(data, x->kernel, x->points, n, dim, tolerance, most, "x", features, left);
    CIRCE__OWNED double *points = circe__alloc(data->context, n * dim, sizeof *points);
    circe_status status = points == NULL ? CIRCE_ERR_MEMORY : circe__kernel_copy(data->context, x->kernel, &kernel);
    for (int64_t f = 0; status == CIRCE_OK && f < kernel->n_factors; f++) /* "to the last column" no longer means x */
        if (kernel->factors[f].n_cols == -1) kernel->factors[f].n_cols = x->dim - kernel->factors[f].first_col;
    for (int64_t f = 0; status == CIRCE_OK && f < circe_kernel_n_factors(y->kernel); f++) {
        circe_kernel_factor factor = y->kernel->factors[f];
        factor.first_col += x->dim;
        status = circe_kernel_multiply(kernel, &factor);
    }
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        memcpy(points + i * dim, x->points + i * x->dim, (size_t)x->dim * sizeof *points);
        memcpy(points + i * dim + x->dim, y->points + i * y->dim, (size_t)y->dim * sizeof *points);
    }
    if (status == CIRCE_OK)
        status = circe__features_of(data, kernel, points, n, dim, tolerance, most, "(x, y)", features, left);
    circe_kernel_destroy(kernel);
    return status;
}

/* Rows in WEIGHED_BLOCKS blocks, whose sums are added in their order: the same bits on any number of threads. */
enum { WEIGHED_BLOCKS = 32, WEIGHED_COLUMNS = 256 };

typedef struct weighing {
    const double *root;
    circe__table *table;
    int64_t first, cols;                          /* the columns of this turn */
    double sums[WEIGHED_BLOCKS][WEIGHED_COLUMNS]; /* of root times what has been weighed */
    double mean[WEIGHED_COLUMNS];
} weighing;

static double *weighed_row(const weighing *w, int64_t i) { return w->table->data + i * w->table->cols + w->first; }

static void run_weigh(void *user, int64_t block) {
    weighing *w = user;
    int64_t end = circe__cut(w->table->rows, WEIGHED_BLOCKS, block + 1);
    double *restrict sums = w->sums[block];
    memset(sums, 0, (size_t)w->cols * sizeof *sums);
    for (int64_t i = circe__cut(w->table->rows, WEIGHED_BLOCKS, block); i < end; i++) {
        double *restrict row = weighed_row(w, i), root = w->root[i];
        for (int64_t c = 0; c < w->cols; c++) {
            row[c] *= root;
            sums[c] += root * row[c];
        }
    }
}

static void run_center(void *user, int64_t block) {
    const weighing *w = user;
    int64_t end = circe__cut(w->table->rows, WEIGHED_BLOCKS, block + 1);
    for (int64_t i = circe__cut(w->table->rows, WEIGHED_BLOCKS, block); i < end; i++) {
        double *restrict row = weighed_row(w, i), root = w->root[i];
        for (int64_t c = 0; c < w->cols; c++) row[c] -= w->mean[c] * root;
    }
}

circe_status circe__weigh(const circe__data *data, circe__table *table) {
    enum { LEAST = 8192 }; /* numbers: 5 microseconds */
    if (table->device != NULL) return circe__rows_weigh(data, table);
    weighing w = {.root = data->root, .table = table};
    double length = 0.0;
    for (int64_t i = 0; i < table->rows; i++) length += data->root[i] * data->root[i];
    for (; w.first < table->cols; w.first += WEIGHED_COLUMNS) {
        w.cols = circe__min(WEIGHED_COLUMNS, table->cols - w.first);
        int threads = (int)circe_context_parts(data->context, table->rows * w.cols, LEAST);
        circe__run_on(threads, WEIGHED_BLOCKS, run_weigh, &w);
        memset(w.mean, 0, sizeof w.mean);
        for (int64_t block = 0; block < WEIGHED_BLOCKS; block++)
            for (int64_t c = 0; c < w.cols; c++) w.mean[c] += w.sums[block][c] / length;
        circe__run_on(threads, WEIGHED_BLOCKS, run_center, &w);
    }
    return CIRCE_OK;
}

circe_status circe__compress(const circe__data *data, circe__table *table, circe__table *along, int64_t most,
                             double *lost) {
    const circe__algebra *algebra = data->context->backend->algebra;
    int64_t q = table->cols;
    *lost = 0.0;
    if (q <= most) return CIRCE_OK;
    CIRCE__OWNED double *V = circe__alloc(data->context, 3 * q * q + 8 * q + 8, sizeof *V);
    CIRCE__OWNED int *iwork = circe__alloc(data->context, 3 + 5 * q, sizeof *iwork);
    circe__table *both[2] = {table, along};
    circe_status status = V == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        double *w = V + q * q, kept = 0.0, all = 0.0;
        status = circe__squared(data->context, table, V);
        if (status == CIRCE_OK && algebra->eigen(q, V, w, w + q, iwork) != 0)
            status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of features did not converge");
        for (int64_t k = 0; status == CIRCE_OK && k < q; k++) {
            all += w[k];
            if (k >= q - most) kept += w[k];
        }
        *lost = all > 0.0 ? 1.0 - kept / all : 0.0;
    }
    for (int b = 0; status == CIRCE_OK && b < 2; b++) {
        circe__table rotated;
        if (both[b] == NULL) continue;
        status = circe__turned(data->context, both[b], V + (q - most) * q, most, &rotated);
        if (status != CIRCE_OK) break;
        circe__table_free(data->context, both[b]);
        *both[b] = rotated;
    }
    return status;
}
