/* Residual features of a data set whose z has high rank. Coordinates of psi(z) would take thousands of columns per row,
 * so K^c is computed without them.
 *
 *     mu(y) = C' a(y) lies in the span of the rows of C (r_y, r_z). With T (r, r_z) an orthonormal basis of that span,
 *     m = T mu(y),  g = T f_z(z):     K^c_ij = k(z_i, z_j) - g_i . m_j - m_i . g_j + m_i . m_j
 *                                            = k(z_i, z_j) - h_i . m_j - m_i . h_j,      h = g - m / 2
 *
 * r is at most the rank of y's side, 30 to 100 for a smooth y of one column, whatever the rank of z. |m| and |g| are at
 * most sqrt(k(z, z)), so sums in float32 lose only the digits of the difference itself: the error of K^c is relative to
 * k(z, z), not to K^c. That is why features with coordinates are used if few coordinates are enough.
 *
 * Cost: an orthonormal basis O(r^2 r_z) once, O(N r_z (r_z + r)) for N rows, 2 r + d_z numbers per row. */
#include <string.h>

#include "cme/cme_parts.h"

/* T (r, r_z): its rows span those of the weights. The caller frees it. */
static circe_status span_of_means(const circe_context *context, const circe_cme *cme, double **T, int64_t *r) {
    int64_t rank_z = cme->z_basis.rank;
    int64_t rows = cme->info.solver == CIRCE_METHOD_LOWRANK ? cme->y_basis.rank : cme->info.rows;
    *r = circe__min(rows, rank_z);
    *T = circe__alloc(context, rows * rank_z, sizeof **T);
    CIRCE__OWNED double *work = circe__alloc(context, 65 * circe__max(rows, rank_z), sizeof *work);
    circe_status status = *T == NULL || work == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        memcpy(*T, cme->weights, (size_t)(rows * rank_z) * sizeof **T);
        context->backend->algebra->orthonormal_rows(rows, rank_z, *T, work);
    }
    return status;
}

/* Memory of a block of rows. */
typedef struct block {
    double *f, *mean; /* (rows, r_z) */
    double *g, *m;    /* (rows, r) */
    void *scratch;
    circe_workspace *workspace;
} block;

static void free_block(const circe_context *context, block *b) {
    circe_workspace_destroy(b->workspace);
    circe__free(context, b->f);
    circe__free(context, b->mean);
    circe__free(context, b->g);
    circe__free(context, b->m);
    circe__free(context, b->scratch);
}

static circe_status make_block(circe_context *context, const circe_cme *cme, int64_t rows, int64_t r, block *b) {
    int64_t rank_z = cme->z_basis.rank;
    b->f = circe__alloc(context, rows * rank_z, sizeof *b->f);
    b->mean = circe__alloc(context, rows * rank_z, sizeof *b->mean);
    b->g = circe__alloc(context, rows * r, sizeof *b->g);
    b->m = circe__alloc(context, rows * r, sizeof *b->m);
    b->scratch = circe__alloc(context, (int64_t)circe__basis_bytes(&cme->z_basis), 1);
    if (b->f == NULL || b->mean == NULL || b->g == NULL || b->m == NULL || b->scratch == NULL) return CIRCE_ERR_MEMORY;
    return circe_workspace_create(context, &b->workspace);
}

/* m and h of n rows, in the block's m and g. */
static circe_status fill_block(const circe_cme *cme, const double *T, int64_t r, const double *y, const double *z,
                               int64_t n, block *b) {
    const circe__algebra *algebra = cme->context->backend->algebra;
    int64_t rank_z = cme->z_basis.rank;
    circe__basis_features(&cme->z_basis, rank_z, z, n, b->f, rank_z, NULL, NULL, b->scratch);
    circe_status status = circe__cme_mean(b->workspace, cme, y, n, rank_z, b->mean, rank_z);
    if (status != CIRCE_OK) return status;
    algebra->gemm(0, 1, n, r, rank_z, 1.0, b->mean, rank_z, T, rank_z, 0.0, b->m, r);
    algebra->gemm(0, 1, n, r, rank_z, 1.0, b->f, rank_z, T, rank_z, 0.0, b->g, r);
    for (int64_t e = 0; e < n * r; e++) b->g[e] -= 0.5 * b->m[e];
    return CIRCE_OK;
}

circe_status circe__implicit_fill(circe_context *context, const circe_cme *cme, const double *y, const double *z,
                                  int64_t n, circe_dtype dtype, circe__implicit *implicit) {
    enum { BLOCK = 2048 };
    size_t size = circe_dtype_size(dtype);
    int64_t r = 0, dim_z = cme->info.dim_z;
    double *T = NULL;
    block b = {0};
    circe_status status = span_of_means(context, cme, &T, &r);
    if (status == CIRCE_OK)
        status = circe__memory_check(context, (double)size * (double)n * (double)(2 * r + dim_z),
                                     "the residual features of this data set", "compute them for each batch instead");
    if (status == CIRCE_OK) status = make_block(context, cme, circe__min(n, BLOCK), r, &b);
    if (status != CIRCE_OK) goto done;
    implicit->z = circe__mat(circe__alloc(context, n * dim_z, size), n, dim_z, dtype);
    implicit->m = circe__mat(circe__alloc(context, n * r, size), n, r, dtype);
    implicit->h = circe__mat(circe__alloc(context, n * r, size), n, r, dtype);
    if (implicit->z.data == NULL || implicit->m.data == NULL || implicit->h.data == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    circe_mat points = circe_mat_f64(z, n, dim_z);
    circe__copy_points(cme->kernel_z, &points, &implicit->z);
    for (int64_t i = 0; i < n && status == CIRCE_OK; i += BLOCK) {
        int64_t rows = circe__min(BLOCK, n - i);
        status = fill_block(cme, T, r, y + i * cme->info.dim_y, z + i * dim_z, rows, &b);
        if (status != CIRCE_OK) break;
        circe_mat m = circe_mat_f64(b.m, rows, r), h = circe_mat_f64(b.g, rows, r);
        circe_mat to_m = circe__rows(&implicit->m, i, rows), to_h = circe__rows(&implicit->h, i, rows);
        circe__copy_mat(&m, &to_m);
        circe__copy_mat(&h, &to_h);
        status = circe__progress(context, "residual features", i + rows, n);
    }

done:
    circe__free(context, T);
    free_block(context, &b);
    return status;
}

void circe__implicit_free(const circe_context *context, circe__implicit *implicit) {
    circe__free(context, implicit->z.data);
    circe__free(context, implicit->m.data);
    circe__free(context, implicit->h.data);
}
