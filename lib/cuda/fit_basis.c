/* Fits on the device: pivots of a basis, one kernel for all of them (backend/cuda/fit.cu), and the points that it
 * leaves out. */
#include <math.h>
#include <string.h>

#include "cuda/fit_parts.h"

enum {
    SWITCH_RANK = 768,    /* as lib/cme/basis.c */
    HOST_TRIANGLE = 256,  /* the same for the inverse of L */
    FIRST_CAPACITY = 256, /* rows of F to begin with */
};

/* F of the points in the circe__fit_basis as it is (rank, n), and what it leaves of them. */
static circe_status start_pivoting(circe__fitter *f, const circe__basis *from, circe__cuda_pivoting *p,
                                   double *diagonal) {
    circe__fit_basis b;
    double *K = NULL;
    int64_t n = p->n, r = from->rank;
    circe_status status = CIRCE_OK;
    if (r > 0) {
        status = circe__fit_place_basis(f, from, true, &b);
        if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_GRAM, n * r, &K);
        if (status == CIRCE_OK)
            status =
                circe__fit_launched(circe__cuda_gram(&b.kernel, b.pivots, r, p->points, n, b.cols, K, f->cuda->stream));
        if (status == CIRCE_OK)
            status = circe__cuda_gemm(f->cuda, 0, 0, r, n, r, 1.0, b.inverse, r, K, n, 0.0, p->F, n);
    }
    if (status != CIRCE_OK) return status;
    return circe__fit_launched(
        circe__cuda_residuals(&p->kernel, p->points, n, p->cols, p->F, r, 0, diagonal, p->left, f->cuda->stream));
}

/* Trace and the largest k(p, p) decide when to stop. */
static circe_status set_limits(circe__fitter *f, circe__basis *to, const double *diagonal, double tolerance,
                               circe__cuda_pivoting *p, double *trace) {
    const circe_context *context = f->cuda->context;
    double *host = circe__alloc(context, p->n, sizeof *host);
    if (host == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__fit_download(f, host, diagonal, (size_t)p->n * sizeof *host);
    *trace = 0.0;
    for (int64_t i = 0; status == CIRCE_OK && i < p->n; i++) {
        *trace += host[i];
        to->scale = fmax(to->scale, host[i]);
    }
    circe__free(context, host);
    p->enough = tolerance * *trace;
    p->least = 4e-16 * to->scale;
    p->switch_least = tolerance * to->scale;
    p->switch_rank = to->rank == 0 && p->n <= CIRCE__ALL_ROWS ? SWITCH_RANK : -1;
    return status;
}

/* Twice the rows of F; what is there stays. */
static circe_status grow(circe__fitter *f, circe__cuda_pivoting *p, int64_t rank, int64_t most) {
    double *grown = NULL;
    int64_t capacity = circe__min(2 * p->capacity, most);
    circe_status status = circe__fit_take(f, CIRCE__FIT_GROWN, capacity * p->n, &grown);
    if (status == CIRCE_OK)
        status = circe__cuda_status(cudaMemcpyAsync(grown, p->F, (size_t)(rank * p->n) * sizeof *grown,
                                                    cudaMemcpyDeviceToDevice, f->cuda->stream),
                                    "copying on the GPU");
    if (status != CIRCE_OK) return status;
    void *block = f->blocks[CIRCE__FIT_FACTOR]; /* the two slots change names */
    size_t bytes = f->bytes[CIRCE__FIT_FACTOR];
    f->blocks[CIRCE__FIT_FACTOR] = f->blocks[CIRCE__FIT_GROWN];
    f->bytes[CIRCE__FIT_FACTOR] = f->bytes[CIRCE__FIT_GROWN];
    f->blocks[CIRCE__FIT_GROWN] = block;
    f->bytes[CIRCE__FIT_GROWN] = bytes;
    p->F = grown;
    p->capacity = capacity;
    p->first = rank;
    return CIRCE_OK;
}

static circe_status find_pivots(circe__fitter *f, circe__cuda_pivoting *p, int64_t most, double trace, const char *name,
                                circe__cuda_pivoted *found) {
    for (;;) {
        circe_status status = circe__fit_launched(circe__cuda_pivot(p, f->cuda->stream));
        if (status == CIRCE_OK) status = circe__fit_download(f, found, p->to, sizeof *found);
        if (status != CIRCE_OK || found->complete) return status;
        if (p->capacity >= most) {
            bool switched = p->switch_rank >= 0 && found->rank > p->switch_rank;
            return switched ? circe__basis_refuse(p->switch_rank, found->left_at_switch / trace, name)
                            : circe__basis_refuse(most, found->left / trace, name);
        }
        status = grow(f, p, found->rank, most);
        if (status != CIRCE_OK) return status;
    }
}

/* The new pivots and their rows of L, into the basis. */
static circe_status keep_pivots(circe__fitter *f, circe__basis *to, const double *points, const circe__cuda_pivoting *p,
                                int64_t first, int64_t rank) {
    const circe_context *context = f->cuda->context;
    double *L = NULL;
    CIRCE__OWNED int64_t *chosen = circe__alloc(context, rank, sizeof *chosen);
    circe_status status = chosen == NULL ? CIRCE_ERR_MEMORY : circe__basis_reserve(to, rank);
    int64_t ld = to->capacity;
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_GRAM, rank * ld, &L);
    if (status == CIRCE_OK)
        status =
            circe__fit_launched(circe__cuda_pivot_rows(p->F, p->n, p->pivots, first, rank, L, ld, f->cuda->stream));
    if (status == CIRCE_OK) status = circe__fit_download(f, chosen, p->pivots, (size_t)rank * sizeof *chosen);
    for (int64_t k = first; status == CIRCE_OK && k < rank; k++)
        memcpy(to->points + k * to->dim, points + chosen[k] * to->dim, (size_t)to->dim * sizeof(double));
    if (status == CIRCE_OK && rank > first)
        status = circe__cuda_status(
            cudaMemcpy2D(to->L + first * ld, (size_t)ld * sizeof *L, L + first * ld, (size_t)ld * sizeof *L,
                         (size_t)rank * sizeof *L, (size_t)(rank - first), cudaMemcpyDeviceToHost),
            "copying pivots from the GPU");
    if (status == CIRCE_OK) to->rank = rank;
    return status;
}

static circe_status invert_basis(circe__fitter *f, circe__basis *b) {
    int64_t r = b->rank;
    double *L = NULL, *X = NULL;
    if (r <= HOST_TRIANGLE) return circe__basis_invert(b);
    double *inverse = circe__alloc(f->cuda->context, r * r, sizeof *inverse);
    if (inverse == NULL) return CIRCE_ERR_MEMORY;
    circe__free(f->cuda->context, b->inverse);
    b->inverse = inverse;
    circe_status status = circe__fit_take(f, CIRCE__FIT_GRAM, 2 * r * r, &L);
    if (status != CIRCE_OK) return status;
    X = L + r * r;
    status = circe__cuda_upload(f->cuda, L, (size_t)r * sizeof *L, b->L, (size_t)b->capacity * sizeof *L,
                                (size_t)r * sizeof *L, (size_t)r, "copying pivots to the GPU");
    if (status == CIRCE_OK) status = circe__cuda_triangle_invert(f->cuda, r, L, X);
    return status == CIRCE_OK ? circe__fit_download(f, inverse, X, (size_t)(r * r) * sizeof *inverse) : status;
}

circe_status circe__fit_extend(circe__basis *b, const double *points, int64_t n, double tolerance, int64_t max_rank,
                               const char *name) {
    circe__fitter *f = circe__fitter_of(b->by);
    circe__cuda_pivoting p = {.n = n, .cols = (int)b->dim, .first = b->rank};
    circe__cuda_pivoted found = {0};
    double *own = NULL, *state = NULL, trace = 0.0;
    int64_t first = b->rank, most = circe__min(circe__max(max_rank, first), first + n);
    p.capacity = circe__min(first + FIRST_CAPACITY, most);
    circe_status status = circe__cuda_kernel_of(circe__basis_kernel(b), name, &p.kernel);
    if (status == CIRCE_OK) status = circe__fit_place(f, CIRCE__FIT_POINTS, points, n * b->dim, &own);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_FACTOR, p.capacity * n, &p.F);
    /* residuals and k(p, p); what surveys leave; the result; the pivots */
    if (status == CIRCE_OK)
        status = circe__fit_take(f, CIRCE__FIT_STATE, 2 * n + CIRCE__CUDA_PIVOT_PARTS + 8 + most, &state);
    if (status != CIRCE_OK) return status;
    p.points = own;
    p.left = state;
    p.parts = state + 2 * n;
    void *result = p.parts + CIRCE__CUDA_PIVOT_PARTS, *pivots = p.parts + CIRCE__CUDA_PIVOT_PARTS + 8;
    p.to = result;
    p.pivots = pivots;
    status = start_pivoting(f, b, &p, state + n);
    if (status == CIRCE_OK) status = set_limits(f, b, state + n, tolerance, &p, &trace);
    if (status == CIRCE_OK) status = find_pivots(f, &p, most, trace, name, &found);
    if (status == CIRCE_OK || status == CIRCE_ERR_RANK) { /* too many: those that were found stay, as on the host */
        circe_status kept = keep_pivots(f, b, points, &p, first, found.rank);
        if (kept != CIRCE_OK) status = kept;
    }
    return status == CIRCE_OK ? invert_basis(f, b) : status;
}

/* Marks of the first few thousand rows that stick out, as lib/cme/cover.c wants them. */
static circe_status mark(circe__fitter *f, const double *residuals, int64_t here, int64_t rows, double relative,
                         bool *outlying, int64_t *marked) {
    enum { OUTLIERS = 4096 }; /* as there */
    CIRCE__OWNED double *host = circe__alloc(f->cuda->context, 2 * rows, sizeof *host);
    if (host == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__fit_download(f, host, residuals, (size_t)(2 * rows) * sizeof *host);
    for (int64_t i = 0; status == CIRCE_OK && i < here; i++) {
        bool out = host[rows + i] > relative * host[i] && *marked < OUTLIERS;
        *marked += out;
        outlying[i] = out;
    }
    return status;
}

circe_status circe__fit_outliers(const circe__basis *from, const double *points, int64_t n, double relative,
                                 bool *outlying, double *trace_residual) {
    circe__fitter *f = circe__fitter_of(from->by);
    circe__fit_basis b;
    double *own = NULL, *F = NULL, *residuals = NULL, *totals = NULL, found[2] = {0.0, 0.0};
    int64_t rows = circe__fit_block_rows(n, 2 * from->rank + 2), marked = 0;
    circe_status status = circe__fit_place_basis(f, from, false, &b);
    if (status == CIRCE_OK) status = circe__fit_place(f, CIRCE__FIT_POINTS, points, n * from->dim, &own);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_FEATURES_Z, rows * from->rank, &F);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_RESIDUALS, 2 * rows, &residuals);
    if (status == CIRCE_OK) status = circe__fit_take(f, CIRCE__FIT_STATE, 2, &totals);
    if (status == CIRCE_OK) status = circe__fit_clear(f, totals, 2);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i += rows) {
        int64_t here = circe__min(rows, n - i);
        status = circe__fit_features(f, &b, own + i * from->dim, here, F);
        if (status == CIRCE_OK)
            status = circe__fit_launched(circe__cuda_residuals(&b.kernel, own + i * from->dim, here, b.cols, F, b.rank,
                                                               1, residuals, residuals + rows, f->cuda->stream));
        if (status == CIRCE_OK)
            status = circe__fit_launched(circe__cuda_add_sums(residuals, here, rows, 2, totals, f->cuda->stream));
        if (status == CIRCE_OK && outlying != NULL)
            status = mark(f, residuals, here, rows, relative, outlying + i, &marked);
    }
    if (status == CIRCE_OK) status = circe__fit_download(f, found, totals, sizeof found);
    *trace_residual = found[0] > 0.0 ? found[1] / found[0] : 0.0;
    return status;
}
