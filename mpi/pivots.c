/* Pivoted Cholesky over ranks: the candidates' rows of F (n, r) and their residuals are divided, and every pivot is
 * found by a reduction.
 *
 *     each rank   its largest residual and the sum of its residuals            O(n / N)
 *     all         the largest of all is the pivot p; the sum tells the end     one gather of 24 bytes per rank
 *     p's owner   F_p (r), which is row r of L as well                         one broadcast
 *     each rank   column r of F and new residuals of its rows                  O(n r / N)
 *
 * The pivots are those of one process (lib/cme/basis.c), because residuals are computed in the same way and ties go to
 * the lowest row. If the kernel does not have low rank, one process factors the whole matrix as it would alone. */
#include <math.h>
#include <string.h>

#include "mpi/mpi_parts.h"

enum {
    SWITCH_RANK = 768, /* as in basis.c */
};

/* What a rank reports about its values: the largest, its row, and the sum. */
typedef struct standing {
    double largest, sum;
    int64_t index;
} standing;

typedef struct pivoting {
    circe__basis *basis;
    const double *points; /* (n, dim), all of them */
    int64_t n;
    int64_t first, mine; /* rows of this rank */
    double *F;           /* (mine, ld) */
    int64_t ld;
    double *residual;    /* (mine) */
    double *column;      /* (mine) */
    double *row;         /* (ld): F_p */
    standing *standings; /* of every rank */
    double trace;        /* of all */
} pivoting;

/* ---- by reduction ------------------------------------------------------------------------------------------------ */

/* The row with the largest of all values, the first of equals; and the sum of all. In the order of ranks, so that every
 * process comes to the same bits. */
static standing stand(const pivoting *work, const double *values) {
    standing own = {.largest = -1.0, .index = work->n}, all = {.largest = -1.0}, *of = work->standings;
    for (int64_t i = 0; i < work->mine; i++) {
        own.sum += values[i];
        if (values[i] > own.largest) own.largest = values[i], own.index = work->first + i;
    }
    ranks_gather(&own, sizeof own, of);
    for (int rank = 0; rank < ranks_size(); rank++) {
        all.sum += of[rank].sum;
        if (of[rank].largest > all.largest) all.largest = of[rank].largest, all.index = of[rank].index;
    }
    return all;
}

static int owner_of(int64_t n, int64_t row) {
    int rank = (int)(row * ranks_size() / n);
    while (rank > 0 && n * rank / ranks_size() > row) rank--;
    while (rank + 1 < ranks_size() && n * (rank + 1) / ranks_size() <= row) rank++;
    return rank;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static circe_status grow(pivoting *work, int64_t ld) {
    const circe_context *context = work->basis->context;
    int64_t rank = work->basis->rank;
    double *F = circe__alloc(context, circe__max(work->mine, 1) * ld, sizeof *F);
    double *row = circe__alloc(context, ld + 1, sizeof *row);
    if (F == NULL || row == NULL) {
        circe__free(context, F);
        circe__free(context, row);
        return CIRCE_ERR_MEMORY;
    }
    for (int64_t i = 0; work->F != NULL && i < work->mine; i++)
        memcpy(F + i * ld, work->F + i * work->ld, (size_t)rank * sizeof *F);
    circe__free(context, work->F);
    circe__free(context, work->row);
    work->F = F;
    work->row = row;
    work->ld = ld;
    return circe__basis_reserve(work->basis, ld);
}

/* Features of this rank's rows in the basis as it is. */
static circe_status begin(pivoting *work) {
    circe__basis *basis = work->basis;
    const circe_context *context = basis->context;
    int64_t rows = circe__max(work->mine, 1);
    work->residual = circe__alloc(context, rows, sizeof *work->residual);
    work->column = circe__alloc(context, rows, sizeof *work->column);
    work->standings = circe__alloc(context, ranks_size(), sizeof *work->standings);
    void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    circe_status status = grow(work, basis->rank + 64);
    if (work->residual == NULL || work->column == NULL || work->standings == NULL || scratch == NULL)
        status = CIRCE_ERR_MEMORY;
    status = ranks_agree(status);
    if (status == CIRCE_OK && work->mine > 0)
        circe__basis_features(basis, basis->rank, work->points + work->first * basis->dim, work->mine, work->F,
                              work->ld, work->column, work->residual, scratch);
    if (status == CIRCE_OK) {
        standing diagonal = stand(work, work->column);
        work->trace = diagonal.sum;
        basis->scale = fmax(basis->scale, diagonal.largest);
    }
    circe__free(context, scratch);
    return status;
}

static int64_t count_parts(const pivoting *work) {
    enum { LEAST_PRODUCTS = 250000 }; /* of a part */
    const circe__basis *basis = work->basis;
    return circe__min(circe__max(work->mine, 1),
                      circe__count_parts(basis->context->threads, work->mine * basis->rank, LEAST_PRODUCTS));
}

typedef struct columning {
    const pivoting *work;
    const double *pivot;
    double root;
} columning;

/* New features of points [first, first + n) of this rank's. */
static void extend_rows(const columning *c, int64_t first, int64_t n) {
    const pivoting *work = c->work;
    const circe__basis *basis = work->basis;
    int64_t r = basis->rank;
    for (int64_t i = first; i < first + n; i++) {
        const double *f = work->F + i * work->ld, *point = work->points + (work->first + i) * basis->dim;
        double dot = 0.0;
#pragma omp simd reduction(+ : dot)
        for (int64_t k = 0; k < r; k++) dot += f[k] * work->row[k];
        work->column[i] = (circe__kernel_value(circe__basis_kernel(basis), point, c->pivot) - dot) / c->root;
    }
}

static void extend_part(void *user, int64_t part) {
    const columning *c = user;
    int64_t parts = count_parts(c->work), first = circe__cut(c->work->mine, parts, part);
    extend_rows(c, first, circe__cut(c->work->mine, parts, part + 1) - first);
}

/* Point p, whose residual is given, becomes pivot number r. */
static void add_pivot(pivoting *work, int64_t p, double residual) {
    circe__basis *basis = work->basis;
    int64_t r = basis->rank, ld = work->ld, dim = basis->dim, local = p - work->first;
    const double *pivot = work->points + p * dim;
    bool own = local >= 0 && local < work->mine;
    double root = sqrt(residual);
    if (own) memcpy(work->row, work->F + local * ld, (size_t)r * sizeof *work->row);
    ranks_broadcast(owner_of(work->n, p), work->row, (size_t)r * sizeof *work->row);
    work->row[r] = root;
    columning c = {.work = work, .pivot = pivot, .root = root};
    circe_context_run(basis->context, count_parts(work), extend_part, &c);
    if (own) work->column[local] = root;
    for (int64_t i = 0; i < work->mine; i++) {
        work->F[i * ld + r] = work->column[i];
        work->residual[i] = fmax(work->residual[i] - work->column[i] * work->column[i], 0.0);
    }
    if (own) work->residual[local] = 0.0;
    memcpy(basis->L + r * basis->capacity, work->row, (size_t)(r + 1) * sizeof(double));
    memcpy(basis->points + r * dim, pivot, (size_t)dim * sizeof(double));
    basis->rank = r + 1;
}

/* ---- one for all ------------------------------------------------------------------------------------------------- */

/* Rank 0 extends an empty basis by itself, and the others take it over. */
static circe_status extend_at_first(pivoting *work, double tolerance, int64_t max_rank, const char *name) {
    circe__basis *basis = work->basis;
    const circe__fit_by *by = basis->by;
    circe_status status = CIRCE_OK;
    basis->rank = 0;
    if (ranks_rank() == 0) {
        basis->by = NULL;
        status = circe__basis_extend(basis, work->points, work->n, tolerance, max_rank, name);
        basis->by = by;
    }
    status = ranks_agree(status);
    if (status != CIRCE_OK) return status;
    int64_t rank = basis->rank;
    ranks_broadcast(0, &rank, sizeof rank);
    ranks_broadcast(0, &basis->scale, sizeof basis->scale);
    status = ranks_agree(circe__basis_reserve(basis, rank));
    if (status != CIRCE_OK) return status;
    basis->rank = rank;
    ranks_broadcast(0, basis->points, (size_t)(rank * basis->dim) * sizeof(double));
    for (int64_t i = 0; i < rank; i++)
        ranks_broadcast(0, basis->L + i * basis->capacity, (size_t)rank * sizeof(double));
    return CIRCE_OK;
}

circe_status ranks_extend(circe__basis *basis, const double *points, int64_t n, double tolerance, int64_t max_rank,
                          const char *name) {
    pivoting work = {.basis = basis, .points = points, .n = n};
    int64_t first_rank = basis->rank;
    work.first = ranks_slice(n, &work.mine);
    circe_status status = begin(&work);
    while (status == CIRCE_OK) {
        standing next = stand(&work, work.residual);
        if (next.sum <= tolerance * work.trace || next.largest <= 4e-16 * basis->scale) break;
        if (first_rank == 0 && basis->rank == SWITCH_RANK && n <= CIRCE__ALL_ROWS) {
            status = extend_at_first(&work, tolerance, max_rank, name);
            break;
        }
        if (basis->rank >= max_rank) {
            status = circe__basis_refuse(max_rank, next.sum / work.trace, name);
            break;
        }
        if (basis->rank == work.ld)
            status = ranks_agree(
                grow(&work, circe__min(circe__max(2 * work.ld, basis->rank + 64), circe__max(max_rank, work.ld + 1))));
        if (status == CIRCE_OK) add_pivot(&work, next.index, next.largest);
    }
    circe__free(basis->context, work.F);
    circe__free(basis->context, work.row);
    circe__free(basis->context, work.residual);
    circe__free(basis->context, work.column);
    circe__free(basis->context, work.standings);
    return status == CIRCE_OK ? circe__basis_invert(basis) : status;
}
