/* HSCIC where the kernel matrix K (n, n) of z is given as such: because z has no low rank, or because it is the matrix
 * of residuals. Symbols and formulas are those of hscic.c. Rows go in blocks, each by one thread with BLAS on that
 * thread alone. */
#include <omp.h>
#include <string.h>

#include "measures/hscic.h"

enum { BLOCK = 64 };

/* Row i of G, up to the diagonal: (product o K - update) / n. */
static void write_row(const double *product, const double *K, const double *update, int64_t i, circe_mat *witness) {
    double scale = 1.0 / (double)witness->rows;
    if (witness->dtype == CIRCE_FLOAT32) {
        float *out = (float *)witness->data + i * witness->ld;
        for (int64_t j = 0; j <= i; j++) out[j] = (float)(scale * (product[j] * K[j] - update[j]));
    } else {
        double *out = (double *)witness->data + i * witness->ld;
        for (int64_t j = 0; j <= i; j++) out[j] = scale * (product[j] * K[j] - update[j]);
    }
}

/* One thread's rows: U_i = (P_i P') o (T_i P') with T = K P, its column sums into `sums`, and (U P)_i. */
static void block_of_u(const circe__algebra *algebra, const circe__smoother *smoother, const double *T, int64_t i0,
                       int64_t rows, double *W, double *sums, double *UP) {
    int64_t n = smoother->n, r = smoother->rank;
    const double *P = smoother->P;
    double *U = W + BLOCK * n;
    algebra->gemm(0, 1, rows, n, r, 1.0, P + i0 * r, r, P, r, 0.0, W, n);
    algebra->gemm(0, 1, rows, n, r, 1.0, T + i0 * r, r, P, r, 0.0, U, n);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            U[i * n + j] *= W[i * n + j];
            sums[j] += U[i * n + j];
        }
    algebra->gemm(0, 0, rows, r, n, 1.0, U, n, P, r, 0.0, UP + i0 * r, r);
}

/* Each thread takes every team-th block and its sums are added in their order: a thread count gives the same bits every
 * time. */
circe_status circe__hscic_blocks(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                 double *s, double *UP) {
    const circe_context *context = workspace->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t n = smoother->n, r = smoother->rank, blocks = (n + BLOCK - 1) / BLOCK, each = (2 * BLOCK + 1) * n;
    int team = (int)circe__min(context->threads, blocks);
    double *T = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, n * circe__roomy(r), sizeof *T);
    double *buffers = circe__take(workspace, CIRCE__SLOT_GRAM_X, team * each, sizeof *buffers);
    if (T == NULL || buffers == NULL) return CIRCE_ERR_MEMORY;
    algebra->gemm(0, 0, n, r, n, 1.0, K, n, smoother->P, r, 0.0, T, r);
#pragma omp parallel for schedule(static, 1) num_threads(team)
    for (int t = 0; t < team; t++) {
        double *W = buffers + t * each, *sums = W + 2 * BLOCK * n;
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (int64_t block = t; block < blocks; block += team)
            block_of_u(algebra, smoother, T, block * BLOCK, circe__min(BLOCK, n - block * BLOCK), W, sums, UP);
    }
    for (int64_t j = 0; j < n; j++) {
        s[j] = 0.0;
        for (int t = 0; t < team; t++) s[j] += buffers[t * each + 2 * BLOCK * n + j];
    }
    return CIRCE_OK;
}

circe_status circe__hscic_assemble(circe_workspace *workspace, const circe__smoother *smoother, const double *VP,
                                   const double *K, circe_mat *witness) {
    const circe_context *context = workspace->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t n = smoother->n, r = smoother->rank, blocks = (n + BLOCK - 1) / BLOCK;
    int team = (int)circe__min(context->threads, blocks);
    circe_mat A;
    circe__update sides;
    circe_status status = circe__hscic_take_sides(workspace, smoother, CIRCE_FLOAT64, &A, &sides);
    double *buffers = circe__take(workspace, CIRCE__SLOT_GRAM_X, 2 * team * BLOCK * n, sizeof *buffers);
    if (status != CIRCE_OK || buffers == NULL) return CIRCE_ERR_MEMORY;
    circe__hscic_sides(smoother, VP, &A, &sides);
    const double *a = A.data, *left = sides.left.data, *right = sides.right.data;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (int64_t block = blocks - 1; block >= 0; block--) {
        double *product = buffers + (int64_t)omp_get_thread_num() * 2 * BLOCK * n, *update = product + BLOCK * n;
        int64_t i0 = block * BLOCK, rows = circe__min(BLOCK, n - i0), cols = i0 + rows;
        algebra->gemm(0, 1, rows, cols, r, 1.0, a + i0 * r, r, a, r, 0.0, product, n);
        algebra->gemm(0, 1, rows, cols, 2 * r, 1.0, left + i0 * 2 * r, 2 * r, right, 2 * r, 0.0, update, n);
        for (int64_t i = 0; i < rows; i++)
            write_row(product + i * n, K + (i0 + i) * n, update + i * n, i0 + i, witness);
    }
    return CIRCE_OK;
}

/* W = S: W W' by a symmetric product, V W' by a general one. */
circe_status circe__hscic_dense(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                circe_mat *witness) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t n = smoother->n;
    const double *W = smoother->P;
    double *V = circe__take(workspace, CIRCE__SLOT_VECTORS, 2 * n * n + n, sizeof *V);
    if (V == NULL) return CIRCE_ERR_MEMORY;
    double *product = V + n * n, *s = product + n * n;
    algebra->gemm(0, 0, n, n, n, 1.0, K, n, W, n, 0.0, V, n);
    memset(s, 0, (size_t)n * sizeof *s);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) s[j] += V[i * n + j] *= W[i * n + j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) V[i * n + j] -= 0.5 * W[i * n + j] * s[j];
    algebra->gemm(0, 0, n, n, n, 1.0, V, n, W, n, 0.0, product, n);
    algebra->gram_update(n, n, W, n, 0.0, V, n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) product[i * n + j] += product[j * n + i];
        product[i * n + i] *= 2.0;
        write_row(V + i * n, K + i * n, product + i * n, i, witness);
    }
    return CIRCE_OK;
}
