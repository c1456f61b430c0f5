/* Features of a kernel by partial Cholesky factorisation with diagonal pivoting.
 *
 *     K ~ F F',  F (n, r),   F_i = L^-1 k(pivots, p_i),   K_pp = L L'
 *
 * Greedy pivots (the point with the largest residual next) are near-optimal, cost O(n r^2) and O(n r) memory, never
 * form K, and the trace of what is left, sum_i k(p_i, p_i) - |F_i|^2, is known at every step. L inherits the square
 * root of the conditioning of K_pp, so features lose digits only where they are small: F F' is accurate to rounding.
 * That holds for the explicit L^-1 as well, and dtrmm runs at three times the speed of dtrsm.
 *
 * Past SWITCH_RANK the kernel is not of low rank; then LAPACK's blocked dpstrf on the whole matrix is faster than
 * steps that read all of F.
 *
 * A linear kernel is the inner product of its columns, so these are its features: the pivots are the unit vectors, and
 * L = I. Pivots among the points would lose the spread of columns far from 0, whose squares k(p, p) hides. */
#include <math.h>
#include <string.h>

#include "cme/cme_parts.h"

enum {
    SWITCH_RANK = 768,
    MOST_COLUMNS = 256, /* of a linear kernel that are its features; more of them may have a much lower rank */
};

circe_status circe__basis_init(const circe_context *context, const circe_kernel *kernel, int64_t dim, const char *name,
                               circe__basis *basis) {
    *basis = (circe__basis){.context = context, .dim = dim};
    circe_status status = circe__resolve(context, kernel, dim, name, &basis->factors);
    if (status == CIRCE_OK) basis->n_factors = circe_kernel_n_factors(kernel);
    return status;
}

void circe__basis_free(circe__basis *basis) {
    if (basis->context == NULL) return;
    circe__free(basis->context, basis->factors);
    circe__free(basis->context, basis->points);
    circe__free(basis->context, basis->L);
    circe__free(basis->context, basis->inverse);
    *basis = (circe__basis){0};
}

circe_status circe__basis_reserve(circe__basis *basis, int64_t capacity) {
    if (capacity <= basis->capacity) return CIRCE_OK;
    double *points = circe__alloc(basis->context, capacity * basis->dim, sizeof *points);
    double *L = circe__calloc(basis->context, capacity * capacity, sizeof *L);
    if (points == NULL || L == NULL) {
        circe__free(basis->context, points);
        circe__free(basis->context, L);
        return CIRCE_ERR_MEMORY;
    }
    for (int64_t i = 0; i < basis->rank; i++)
        memcpy(L + i * capacity, basis->L + i * basis->capacity, (size_t)basis->rank * sizeof *L);
    if (basis->rank > 0) memcpy(points, basis->points, (size_t)(basis->rank * basis->dim) * sizeof *points);
    circe__free(basis->context, basis->points);
    circe__free(basis->context, basis->L);
    basis->points = points;
    basis->L = L;
    basis->capacity = capacity;
    return CIRCE_OK;
}

circe_status circe__basis_copy(const circe__basis *from, circe__basis *to) {
    *to =
        (circe__basis){.context = from->context, .dim = from->dim, .n_factors = from->n_factors, .scale = from->scale};
    to->factors = circe__alloc(from->context, from->n_factors, sizeof *to->factors);
    if (to->factors == NULL || circe__basis_reserve(to, from->rank) != CIRCE_OK) {
        circe__basis_free(to);
        return CIRCE_ERR_MEMORY;
    }
    memcpy(to->factors, from->factors, (size_t)from->n_factors * sizeof *to->factors);
    memcpy(to->points, from->points, (size_t)(from->rank * from->dim) * sizeof *to->points);
    for (int64_t i = 0; i < from->rank; i++)
        memcpy(to->L + i * to->capacity, from->L + i * from->capacity, (size_t)from->rank * sizeof *to->L);
    to->rank = from->rank;
    circe_status status = circe__basis_invert(to);
    if (status != CIRCE_OK) circe__basis_free(to);
    return status;
}

circe_status circe__basis_invert(circe__basis *basis) {
    int64_t r = basis->rank;
    double *inverse = circe__calloc(basis->context, r * r, sizeof *inverse);
    if (inverse == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < r; i++)
        memcpy(inverse + i * r, basis->L + i * basis->capacity, (size_t)(i + 1) * sizeof *inverse);
    circe__free(basis->context, basis->inverse);
    basis->inverse = inverse;
    if (basis->context->backend->algebra->invert_lower(r, inverse, r) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_NUMERIC, "the Cholesky factor of the pivots is singular");
}

int64_t circe__basis_ranks(const circe__basis *basis, int64_t n) {
    enum { LEAST_ROWS = 16, LEAST = 5000 };
    int64_t r = basis->rank, row = r + r * r / 32 + 1; /* nanoseconds: kernel values, and the product with L^-1 */
    return circe__max(1, circe__min(circe__count_parts(basis->context->threads, n * row, LEAST), n / LEAST_ROWS));
}

size_t circe__basis_part_bytes(const circe__basis *basis) {
    size_t bytes = circe__loops_for(basis->context->backend, CIRCE_FLOAT64)->gram_bytes(basis->rank, basis->dim, 1);
    return (bytes + 63) & ~(size_t)63;
}

size_t circe__basis_bytes(const circe__basis *basis) {
    return (size_t)basis->context->threads * circe__basis_part_bytes(basis);
}

void circe__basis_part(const circe__basis *basis, int64_t rank, const double *points, int64_t n, double *features,
                       int64_t ld, double *diagonal, double *residual, void *scratch) {
    const circe__backend *backend = basis->context->backend;
    circe_mat a = circe_mat_f64(points, n, basis->dim), b = circe_mat_f64(basis->points, rank, basis->dim);
    circe_mat out = {features, n, rank, ld, CIRCE_FLOAT64};
    unsigned rounding = circe__flush_begin();
    if (rank > 0) {
        backend->f64->gram(circe__basis_kernel(basis), &a, &b, &out, 1, scratch);
        backend->algebra->multiply_rows(n, rank, basis->inverse, basis->rank, features, ld);
    }
    for (int64_t i = 0; i < n && (diagonal != NULL || residual != NULL); i++) {
        double own = circe__kernel_diagonal(circe__basis_kernel(basis), points + i * basis->dim), square = 0.0;
#pragma omp simd reduction(+ : square)
        for (int64_t k = 0; k < rank; k++) square += features[i * ld + k] * features[i * ld + k];
        if (diagonal != NULL) diagonal[i] = own;
        if (residual != NULL) residual[i] = fmax(own - square, 0.0);
    }
    circe__flush_end(rounding);
}

/* Rows in parts. */
typedef struct feature_rows {
    const circe__basis *basis;
    int64_t rank, n, ld, parts;
    const double *points;
    double *features, *diagonal, *residual;
    char *scratch;
} feature_rows;

static void run_features(void *user, int64_t part) {
    const feature_rows *w = user;
    int64_t first = circe__cut(w->n, w->parts, part), rows = circe__cut(w->n, w->parts, part + 1) - first;
    circe__basis_part(w->basis, w->rank, w->points + first * w->basis->dim, rows, w->features + first * w->ld, w->ld,
                      w->diagonal == NULL ? NULL : w->diagonal + first,
                      w->residual == NULL ? NULL : w->residual + first,
                      w->scratch + (size_t)part * circe__basis_part_bytes(w->basis));
}

void circe__basis_features(const circe__basis *basis, int64_t rank, const double *points, int64_t n, double *features,
                           int64_t ld, double *diagonal, double *residual, void *scratch) {
    feature_rows w = {basis,  rank,     n,        ld,       circe__basis_ranks(basis, n),
                      points, features, diagonal, residual, (char *)scratch};
    circe_context_run(basis->context, w.parts, run_features, &w);
}

int64_t circe__basis_rank_at(const circe__basis *basis, double relative) {
    for (int64_t k = 0; k < basis->rank; k++) {
        double pivot = basis->L[k * basis->capacity + k];
        if (pivot * pivot <= relative * basis->scale) return k;
    }
    return basis->rank;
}

/* ---- pivoting -------------------------------------------------------------------------------------------------- */

/* Work on the candidates. */
typedef struct pivoting {
    circe__basis *basis;
    const double *points; /* (n, dim) */
    int64_t n;
    double *F; /* (n, ld) */
    int64_t ld;
    double *residual; /* (n) */
    double *column;   /* (n) */
    double trace;
    double left;   /* the sum of the residuals */
    int64_t worst; /* where the largest is */
    struct found {
        double left;
        int64_t worst;
    } * found; /* (threads): of the parts of a step */
} pivoting;

/* The columns that there are, into rows of another length. The first to write to memory waits until there is some. */
typedef struct growth {
    const pivoting *work;
    double *grown;
    int64_t ld;
} growth;

static void run_growth(void *user, int64_t first, int64_t end) {
    const growth *g = user;
    size_t bytes = (size_t)g->work->basis->rank * sizeof(double);
    for (int64_t i = first; i < end; i++) memcpy(g->grown + i * g->ld, g->work->F + i * g->work->ld, bytes);
}

/* Doubles the columns of F up to the rank that may be needed. */
static circe_status grow_features(pivoting *work, int64_t max_rank) {
    const circe_context *context = work->basis->context;
    int64_t rank = work->basis->rank, ld = circe__min(circe__max(2 * work->ld, rank + 64), max_rank);
    double *grown = circe__alloc(context, work->n * ld, sizeof *grown);
    if (grown == NULL) return CIRCE_ERR_MEMORY;
    growth g = {work, grown, ld};
    circe__run_ranges(context->threads, work->n, 16384 / (rank + 1) + 1, run_growth, &g);
    circe__free(context, work->F);
    work->F = grown;
    work->ld = ld;
    return circe__basis_reserve(work->basis, ld);
}

static int64_t largest(const double *v, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (v[i] > v[at]) at = i;
    return at;
}

/* Column r of F for point p as a pivot, and what it leaves of the residuals. The pivot's own row of F is read by all
 * and stays as it is. */
typedef struct pivot_step {
    pivoting *work;
    int64_t p, parts;
    double root;
} pivot_step;

static void run_step(void *user, int64_t part) {
    const pivot_step *step = user;
    const pivoting *work = step->work;
    const circe__basis *basis = work->basis;
    int64_t first = circe__cut(work->n, step->parts, part), end = circe__cut(work->n, step->parts, part + 1);
    struct found found = {0.0, first};
    int64_t r = basis->rank, ld = work->ld, dim = basis->dim;
    const double *pivot = work->points + step->p * dim, *row = work->F + step->p * ld;
    for (int64_t i = first; i < end; i++) {
        const double *f = work->F + i * ld;
        double dot = 0.0;
#pragma omp simd reduction(+ : dot)
        for (int64_t k = 0; k < r; k++) dot += f[k] * row[k];
        double value =
            (circe__kernel_value(circe__basis_kernel(basis), work->points + i * dim, pivot) - dot) / step->root;
        work->F[i * ld + r] = value;
        work->residual[i] = i == step->p ? 0.0 : fmax(work->residual[i] - value * value, 0.0);
        found.left += work->residual[i];
        if (work->residual[i] > work->residual[found.worst]) found.worst = i;
    }
    work->found[part] = found;
}

/* One step: point p becomes pivot number r; column r of F and the residuals follow. */
static void add_pivot(pivoting *work, int64_t p) {
    circe__basis *basis = work->basis;
    int64_t r = basis->rank, dim = basis->dim, least = 8192 / (r + 16) + 1; /* rows: 10 microseconds */
    pivot_step step = {work, p, circe__count_parts(basis->context->threads, work->n, least), sqrt(work->residual[p])};
    circe_context_run(basis->context, step.parts, run_step, &step);
    work->F[p * work->ld + r] = step.root;
    work->left = 0.0;
    work->worst = 0;
    for (int64_t part = 0; part < step.parts; part++) {
        work->left += work->found[part].left;
        if (work->residual[work->found[part].worst] > work->residual[work->worst])
            work->worst = work->found[part].worst;
    }
    memcpy(basis->L + r * basis->capacity, work->F + p * work->ld, (size_t)(r + 1) * sizeof(double));
    memcpy(basis->points + r * dim, work->points + p * dim, (size_t)dim * sizeof(double));
    basis->rank = r + 1;
}

static double sum(const double *v, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += v[i];
    return total;
}

/* Features of the candidates in the basis as it is, and their residuals. */
static circe_status start_pivoting(pivoting *work) {
    circe__basis *basis = work->basis;
    const circe_context *context = basis->context;
    work->ld = basis->rank + 64;
    work->F = circe__alloc(context, work->n * work->ld, sizeof *work->F);
    work->residual = circe__alloc(context, work->n, sizeof *work->residual);
    work->column = circe__alloc(context, work->n, sizeof *work->column);
    work->found = circe__alloc(context, context->threads, sizeof *work->found);
    CIRCE__OWNED void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    circe_status status = CIRCE_ERR_MEMORY;
    if (work->F != NULL && work->residual != NULL && work->column != NULL && work->found != NULL && scratch != NULL)
        status = circe__basis_reserve(basis, work->ld);
    if (status == CIRCE_OK) {
        circe__basis_features(basis, basis->rank, work->points, work->n, work->F, work->ld, work->column,
                              work->residual, scratch);
        work->trace = sum(work->column, work->n);
        basis->scale = fmax(basis->scale, work->column[largest(work->column, work->n)]);
        work->left = sum(work->residual, work->n);
        work->worst = largest(work->residual, work->n);
    }
    return status;
}

static void end_pivoting(const pivoting *work) {
    const circe_context *context = work->basis->context;
    circe__free(context, work->F);
    circe__free(context, work->residual);
    circe__free(context, work->column);
    circe__free(context, work->found);
}

/* From an empty basis: the whole matrix, LAPACK's blocked pivoted Cholesky. */
static circe_status pivot_by_lapack(pivoting *work, double tolerance, int64_t max_rank, int64_t *found) {
    circe__basis *basis = work->basis;
    const circe_context *context = basis->context;
    int64_t n = work->n;
    circe_status status =
        circe__memory_check(context, 8.0 * 3.0 * (double)n * (double)n, "a kernel matrix of full rank",
                            "use fewer holdout points or a larger tolerance");
    if (status != CIRCE_OK) return status;
    CIRCE__OWNED double *K = circe__alloc(context, n * n, sizeof *K),
                        *lapack = circe__alloc(context, 2 * n, sizeof *lapack);
    CIRCE__OWNED int *pivots = circe__alloc(context, n, sizeof *pivots);
    CIRCE__OWNED void *scratch =
        circe__alloc(context, (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, n, basis->dim), 1);
    if (K == NULL || lapack == NULL || pivots == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_mat points = circe_mat_f64(work->points, n, basis->dim), out = circe__mat(K, n, n, CIRCE_FLOAT64);
    circe__gram(context, circe__basis_kernel(basis), &points, &points, &out, scratch);
    *found = context->backend->algebra->pivoted_cholesky(n, K, tolerance * basis->scale, pivots, lapack);
    if (*found > max_rank) return CIRCE_ERR_RANK;
    basis->rank = 0;
    status = circe__basis_reserve(basis, *found);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < *found; i++) {
        for (int64_t k = 0; k <= i; k++) basis->L[i * basis->capacity + k] = K[k * n + i];
        memcpy(basis->points + i * basis->dim, work->points + pivots[i] * basis->dim,
               (size_t)basis->dim * sizeof(double));
    }
    basis->rank = *found;
    return status;
}

circe_status circe__basis_refuse(int64_t max_rank, double left, const char *name) {
    return circe_fail(CIRCE_ERR_RANK,
                      "the kernel matrix of %s does not have low rank: after %lld pivots a share of %.1e of its trace "
                      "is left; use a larger tolerance or sigma2, or fewer points with method dense",
                      name, (long long)max_rank, left);
}

static circe_status refuse_rank(const pivoting *work, int64_t max_rank, const char *name) {
    return circe__basis_refuse(max_rank, work->left / work->trace, name);
}

circe_status circe__basis_decay(circe__basis *basis, const double *points, int64_t n, int64_t count,
                                const int64_t *ranks, double *left) {
    pivoting work = {.basis = basis, .points = points, .n = n};
    circe_status status = start_pivoting(&work);
    for (int64_t k = 0; status == CIRCE_OK && k < count; k++) {
        while (status == CIRCE_OK && basis->rank < ranks[k]) {
            int64_t p = work.worst;
            if (work.residual[p] <= 4e-16 * basis->scale) break;
            if (basis->rank == work.ld) status = grow_features(&work, circe__max(ranks[count - 1], work.ld + 1));
            if (status == CIRCE_OK) add_pivot(&work, p);
        }
        left[k] = work.trace > 0.0 ? work.left / work.trace : 0.0;
    }
    end_pivoting(&work);
    return status;
}

bool circe__basis_is_columns(const circe__basis *basis) {
    return circe__is_linear(basis->factors, basis->n_factors) && basis->scale == 0.0 && basis->rank > 0;
}

/* The scale stays 0: however small a column is beside the others, all of it counts. */
static circe_status take_columns(circe__basis *basis) {
    const circe_kernel_factor *factor = basis->factors;
    circe_status status = circe__basis_reserve(basis, factor->n_cols);
    if (status != CIRCE_OK) return status;
    basis->rank = factor->n_cols;
    memset(basis->points, 0, (size_t)(basis->rank * basis->dim) * sizeof *basis->points);
    for (int64_t k = 0; k < basis->rank; k++)
        basis->points[k * basis->dim + factor->first_col + k] = basis->L[k * basis->capacity + k] = 1.0;
    return circe__basis_invert(basis);
}

circe_status circe__basis_extend(circe__basis *basis, const double *points, int64_t n, double tolerance,
                                 int64_t max_rank, const char *name) {
    if (circe__basis_is_columns(basis)) return CIRCE_OK;
    bool fresh = basis->rank == 0 && circe__is_linear(basis->factors, basis->n_factors);
    if (fresh && basis->factors->n_cols <= circe__min(circe__min(n, max_rank), MOST_COLUMNS))
        return take_columns(basis);
    if (basis->by != NULL) return basis->by->ops->extend(basis, points, n, tolerance, max_rank, name);
    pivoting work = {.basis = basis, .points = points, .n = n};
    int64_t first_rank = basis->rank;
    circe_status status = start_pivoting(&work);
    while (status == CIRCE_OK) {
        int64_t p = work.worst;
        bool done = work.left <= tolerance * work.trace || work.residual[p] <= 4e-16 * basis->scale;
        if (done) break;
        if (first_rank == 0 && basis->rank == SWITCH_RANK && n <= CIRCE__ALL_ROWS) {
            int64_t found = 0;
            status = pivot_by_lapack(&work, tolerance, max_rank, &found);
            if (status == CIRCE_ERR_RANK) status = refuse_rank(&work, SWITCH_RANK, name);
            break;
        }
        if (basis->rank >= max_rank) {
            status = refuse_rank(&work, max_rank, name);
            break;
        }
        if (basis->rank == work.ld) status = grow_features(&work, circe__max(max_rank, work.ld + 1));
        if (status == CIRCE_OK) add_pivot(&work, p);
    }
    end_pivoting(&work);
    return status == CIRCE_OK ? circe__basis_invert(basis) : status;
}
