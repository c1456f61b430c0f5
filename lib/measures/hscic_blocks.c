/* HSCIC where the kernel matrix K (n, n) of z is given as such: because z has no low rank, or because it is the matrix
 * of residuals. Symbols and formulas are those of hscic.c. Rows go in blocks, each in one part. */
#include <string.h>

#include "measures/hscic.h"

enum { BLOCK = 64 };

/* Row i of G, up to the diagonal: scale (product o K - update). */
static void write_row(const double *product, const double *K, const double *update, double scale, int64_t i,
                      circe_mat *witness) {
    if (witness->dtype == CIRCE_FLOAT32) {
        float *out = (float *)witness->data + i * witness->ld;
        for (int64_t j = 0; j <= i; j++) out[j] = (float)(scale * (product[j] * K[j] - update[j]));
    } else {
        double *out = (double *)witness->data + i * witness->ld;
        for (int64_t j = 0; j <= i; j++) out[j] = scale * (product[j] * K[j] - update[j]);
    }
}

/* One thread's rows: U_i = (P_i P') o (T_i P') with T = K P, its column sums into `sums`, and (U P)_i. With weights the
 * first P and that of T are D^1/2 P, the last D^-1/2 P. */
static void block_of_u(const circe__algebra *algebra, const circe__smoother *smoother, const double *T, int64_t i0,
                       int64_t rows, double *W, double *sums, double *UP) {
    int64_t n = smoother->n, r = smoother->rank;
    const double *P = smoother->P;
    double *U = W + BLOCK * n;
    algebra->gemm(0, 1, rows, n, r, 1.0, smoother->left + i0 * r, r, P, r, 0.0, W, n);
    algebra->gemm(0, 1, rows, n, r, 1.0, T + i0 * r, r, P, r, 0.0, U, n);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            U[i * n + j] *= W[i * n + j];
            sums[j] += U[i * n + j];
        }
    algebra->gemm(0, 0, rows, r, n, 1.0, U, n, smoother->right, r, 0.0, UP + i0 * r, r);
}

/* Blocks of rows in parts, each with buffers of its own. */
typedef struct blocks {
    const circe__algebra *algebra;
    const circe__smoother *smoother;
    int64_t n, parts, each; /* each: numbers of a part's buffers */
    double *buffers;
    const double *T;
    double *UP;
    const double *a, *left, *right, *K;
    double scale; /* of G */
    circe_mat *witness;
} blocks;

static int64_t count_blocks(const blocks *b) { return (b->n + BLOCK - 1) / BLOCK; }

/* A part takes every parts-th block, and the sums of the parts are added in their order. */
static void run_u(void *user, int64_t part) {
    const blocks *b = user;
    double *W = b->buffers + part * b->each, *sums = W + 2 * BLOCK * b->n;
    memset(sums, 0, (size_t)b->n * sizeof *sums);
    for (int64_t k = part; k < count_blocks(b); k += b->parts)
        block_of_u(b->algebra, b->smoother, b->T, k * BLOCK, circe__min(BLOCK, b->n - k * BLOCK), W, sums, b->UP);
}

circe_status circe__hscic_blocks(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                 double *s, double *UP) {
    const circe_context *context = workspace->context;
    const double *w = circe__weights_of(workspace);
    int64_t n = smoother->n, r = smoother->rank;
    blocks b = {context->backend->algebra, smoother, n, .each = (2 * BLOCK + 1) * n, .UP = UP};
    b.parts = circe__min(context->threads, count_blocks(&b));
    double *T = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, n * circe__roomy(r), sizeof *T);
    b.buffers = circe__take(workspace, CIRCE__SLOT_GRAM_X, b.parts * b.each, sizeof *b.buffers);
    if (T == NULL || b.buffers == NULL) return CIRCE_ERR_MEMORY;
    b.T = T;
    b.algebra->gemm(0, 0, n, r, n, 1.0, K, n, smoother->left, r, 0.0, T, r);
    circe_context_run(context, b.parts, run_u, &b);
    for (int64_t j = 0; j < n; j++) {
        s[j] = 0.0;
        for (int64_t part = 0; part < b.parts; part++) s[j] += b.buffers[part * b.each + 2 * BLOCK * n + j];
        if (w != NULL) s[j] = w[j] > 0.0 ? s[j] / w[j] : 0.0;
    }
    return CIRCE_OK;
}

static void assemble_block(const blocks *b, int64_t block, double *product, double *update) {
    int64_t n = b->n, r = b->smoother->rank, i0 = block * BLOCK, rows = circe__min(BLOCK, n - i0), cols = i0 + rows;
    b->algebra->gemm(0, 1, rows, cols, r, 1.0, b->a + i0 * r, r, b->a, r, 0.0, product, n);
    b->algebra->gemm(0, 1, rows, cols, 2 * r, 1.0, b->left + i0 * 2 * r, 2 * r, b->right, 2 * r, 0.0, update, n);
    for (int64_t i = 0; i < rows; i++)
        write_row(product + i * n, b->K + (i0 + i) * n, update + i * n, b->scale, i0 + i, b->witness);
}

/* Rows grow longer: a part takes its blocks from the front and from the back, in turns. */
static void run_assembly(void *user, int64_t part) {
    const blocks *b = user;
    double *product = b->buffers + part * b->each, *update = product + BLOCK * b->n;
    int64_t all = count_blocks(b);
    for (int64_t row = 0; row * b->parts < all; row++) {
        int64_t block = row * b->parts + (row % 2 == 0 ? part : b->parts - 1 - part);
        if (block < all) assemble_block(b, block, product, update);
    }
}

circe_status circe__hscic_assemble(circe_workspace *workspace, const circe__smoother *smoother, const double *VP,
                                   const double *K, circe_mat *witness) {
    const circe_context *context = workspace->context;
    circe_mat A;
    circe__update sides;
    blocks b = {context->backend->algebra,       smoother, smoother->n,
                .each = 2 * BLOCK * smoother->n, .K = K,   .witness = witness};
    b.scale = 1.0 / (double)circe__counted(workspace, b.n);
    b.parts = circe__min(context->threads, count_blocks(&b));
    circe_status status = circe__hscic_take_sides(workspace, smoother, CIRCE_FLOAT64, &A, &sides);
    b.buffers = circe__take(workspace, CIRCE__SLOT_GRAM_X, b.parts * b.each, sizeof *b.buffers);
    if (status != CIRCE_OK || b.buffers == NULL) return CIRCE_ERR_MEMORY;
    circe__hscic_sides(smoother, VP, &A, &sides);
    b.a = A.data;
    b.left = sides.left.data;
    b.right = sides.right.data;
    circe_context_run(context, b.parts, run_assembly, &b);
    return CIRCE_OK;
}

/* ---- S itself ---------------------------------------------------------------------------------------------------- */

typedef struct whole {
    int64_t n;
    const double *W, *K;
    double *V, *product, *s;
    circe_mat *witness;
    const double *root; /* (n): those of the weights; NULL: there are none */
    double scale;       /* of G */
} whole;

/* Columns of V := U - W diag(s) / 2, from those of K W. With weights W stands for D^1/2 S, and V for V D^1/2. */
static void run_v(void *user, int64_t first, int64_t end) {
    const whole *w = user;
    int64_t n = w->n;
    memset(w->s + first, 0, (size_t)(end - first) * sizeof *w->s);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = first; j < end; j++) w->s[j] += w->V[i * n + j] *= w->W[i * n + j];
    for (int64_t j = first; w->root != NULL && j < end; j++) {
        double per = w->root[j] > 0.0 ? 1.0 / w->root[j] : 0.0;
        w->s[j] *= per * per;
        for (int64_t i = 0; i < n; i++) w->V[i * n + j] *= per;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = first; j < end; j++) w->V[i * n + j] -= 0.5 * w->W[i * n + j] * w->s[j];
}

/* A block of rows of G, from both ends in turns, as they grow longer. V W' + W V' is taken tile by tile, as whole
 * columns would miss the cache at every step. */
static void run_witness(void *user, int64_t part) {
    const whole *w = user;
    int64_t n = w->n, block = part % 2 == 0 ? part / 2 : (n + BLOCK - 1) / BLOCK - 1 - part / 2;
    int64_t i0 = block * BLOCK, i1 = circe__min(i0 + BLOCK, n);
    double *product = w->product;
    for (int64_t j0 = 0; j0 < i1; j0 += BLOCK)
        for (int64_t i = i0; i < i1; i++)
            for (int64_t j = j0; j < circe__min(j0 + BLOCK, i); j++) product[i * n + j] += product[j * n + i];
    for (int64_t i = i0; i < i1; i++) {
        product[i * n + i] *= 2.0;
        write_row(w->V + i * n, w->K + i * n, product + i * n, w->scale, i, w->witness);
    }
}

/* W = S: W W' by a symmetric product, V W' by a general one. */
circe_status circe__hscic_dense(circe_workspace *workspace, const circe__smoother *smoother, const double *K,
                                circe_mat *witness) {
    const circe_context *context = workspace->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t n = smoother->n;
    double *V = circe__take(workspace, CIRCE__SLOT_VECTORS, 2 * n * n + n, sizeof *V);
    if (V == NULL) return CIRCE_ERR_MEMORY;
    whole w = {n,
               smoother->P,
               K,
               V,
               V + n * n,
               V + 2 * n * n,
               witness,
               circe__roots_of(workspace),
               1.0 / (double)circe__counted(workspace, n)};
    int weighted = w.root != NULL; /* then W is not its own transpose */
    algebra->gemm(0, 0, n, n, n, 1.0, K, n, w.W, n, 0.0, V, n);
    circe__run_ranges(context->threads, n, circe__max(16, 8192 / n), run_v, &w);
    algebra->gemm(0, weighted, n, n, n, 1.0, V, n, w.W, n, 0.0, w.product, n);
    if (weighted)
        algebra->gemm(0, 1, n, n, n, 1.0, w.W, n, w.W, n, 0.0, V, n);
    else
        algebra->gram_update(n, n, w.W, n, 0.0, V, n);
    circe_context_run(context, (n + BLOCK - 1) / BLOCK, run_witness, &w);
    return CIRCE_OK;
}
