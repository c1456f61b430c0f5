/* KPC (Huang, Deb, Sen 2020), the kernel partial correlation: how much of what y leaves of x the pair (y, z) explains.
 *
 *     S = ~G (~G + n epsilon I)^-1,  ~G = HGH     of y, and of (y, z) with the product kernel   (smoother.h)
 *     M = S_y - S_yz,  N = I - S_y                (n, n)
 *     value = num / den,  num = tr(M ~K_x M),  den = tr(N ~K_x N)
 *
 * Neither M nor N sees x, so the gradient is the contraction with (M M - value (N N - 11'/n)) / den: N leaves constants
 * alone, M has none, and both are symmetric.
 *
 * Low rank:  S = P P', P'P = diag(t)  (smoother.h);  q is the rank of ~K_x, r = r_y + r_yz
 *
 *     T = [P_y, P_yz]                             (n, r)
 *     A = [P_y t_y - P_yz X', P_yz t_yz - P_y X]  (n, r), X = P_y'P_yz:   M M = A T'
 *     N N = I - P_y diag(2 - t_y) P_y'
 *
 * and with ~K_x = F'F, F (q, n): num = |F M|^2, den = |F N|^2, sums of squares that lose nothing where they are small.
 * O(n r^2 + n q r) and no n by n matrix. If x has high rank, num = <K_x T, A> and likewise den, with K_x made in blocks
 * of rows: O(n^2 r). Dense: M M and N N as matrices, O(n^3). The gradient takes O(n^2 r) for its witness. */
#include <math.h>

#include "measures/normalized.h"

#include "core/settings.h"

enum {
    BLOCK = 256,        /* rows of a matrix in the making */
    MOST_RANK = 1024,   /* of x: beyond this rank, blocks of rows cost less than the factorisation */
    SMALLEST_RATIO = 3, /* low rank pays up to n / 3 */
};

/* Relative to trace(K_x). A smaller denominator is rounding: nothing of x is left for z to explain. */
static const double nothing_left = 1e-13;

/* What low rank leaves out of trace(K_x): the denominator can be as small as epsilon^2 of it, where y explains x. */
static const double tolerance_x = 1e-15;

static circe_status take_x(const circe__normalized *m, circe__points *x) {
    return circe__points_take(m->workspace, CIRCE__SLOT_X, m->kernels->x, m->x, m->n, "x", x);
}

/* The witness has no constants, so that the gradient does not see the mean of a linear kernel's columns either. */
static circe_status contract_x(const circe__normalized *m, const circe_mat *witness) {
    double unused;
    circe_mat x;
    circe_status status = circe__from_mean(m->workspace, CIRCE__SLOT_X, m->kernels->x, m->x, &x);
    return status == CIRCE_OK ? circe__contract(m->workspace, m->kernels->x, &x, witness, NULL, &unused, m->grad)
                              : status;
}

/* num / den, or false if there is nothing to explain. */
static bool divide(const circe__points *x, double num, double den, double *value) {
    double trace = 0.0;
    for (int64_t i = 0; i < x->mat.rows; i++)
        trace += circe__kernel_diagonal(x->kernel, (const double *)x->mat.data + i * x->mat.ld);
    if (!(den > nothing_left * trace)) return false;
    *value = fmax(num, 0.0) / den; /* rounding can leave it below */
    return true;
}

/* ---- low rank ---------------------------------------------------------------------------------------------------- */

typedef struct sides {
    int64_t n, r, r_y, r_yz;
    double *T, *A;
    const double *t_y;
} sides;

static circe_status make_sides(circe_workspace *workspace, const circe__smoother *y, const circe__smoother *yz,
                               sides *s) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t n = y->n, r_y = y->rank, r_yz = yz->rank, r = r_y + r_yz;
    double *T = circe__take(workspace, CIRCE__SLOT_VECTORS, 2 * n * circe__roomy(r), sizeof *T);
    double *X = circe__take(workspace, CIRCE__SLOT_SMOOTHER_WORK, circe__roomy(r_y) * circe__roomy(r_yz), sizeof *X);
    if (T == NULL || X == NULL) return CIRCE_ERR_MEMORY;
    double *A = T + n * r;
    *s = (sides){n, r, r_y, r_yz, T, A, y->t};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < r_y; k++) T[i * r + k] = y->P[i * r_y + k];
        for (int64_t k = 0; k < r_yz; k++) T[i * r + r_y + k] = yz->P[i * r_yz + k];
        for (int64_t k = 0; k < r; k++) A[i * r + k] = T[i * r + k] * (k < r_y ? y->t[k] : yz->t[k - r_y]);
    }
    algebra->gemm(1, 0, r_y, r_yz, n, 1.0, T, r, T + r_y, r, 0.0, X, circe__max(r_yz, 1));
    algebra->gemm(0, 1, n, r_y, r_yz, -1.0, T + r_y, r, X, circe__max(r_yz, 1), 1.0, A, r);
    algebra->gemm(0, 0, n, r_yz, r_y, -1.0, T, r, X, circe__max(r_yz, 1), 1.0, A + r_y, r);
    return CIRCE_OK;
}

/* F (q, n) in the slot FACTOR with K_x ~ F'F, rows centred; `thin` is false if x has too high a rank for it. */
static circe_status factor_x(const circe__normalized *m, const circe__points *x, double **F, int64_t *q, bool *thin) {
    int64_t most = circe__min(circe__max(m->n / SMALLEST_RATIO, 1), MOST_RANK);
    double tolerance = m->asked > 0.0 ? m->asked : tolerance_x;
    *thin = true;
    if (x->root != NULL) return circe__points_factor(m->workspace, x, tolerance, HUGE_VAL, true, "x", F, q);
    circe_status status = circe__points_try(m->workspace, x, tolerance, most, true, "x", F, q);
    *thin = *q >= 0;
    return status;
}

/* From F (q, n): U = F S_y, then F N = F - U and F M = U - F S_yz. */
static circe_status values_thin(circe_workspace *workspace, const sides *s, const double *F, int64_t q, double *num,
                                double *den) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    int64_t n = s->n, r = s->r;
    double *FT = circe__take(workspace, CIRCE__SLOT_FEATURES_Z, circe__roomy(q) * circe__roomy(r), sizeof *FT);
    double *U = circe__take(workspace, CIRCE__SLOT_ZETA, circe__roomy(q) * n, sizeof *U);
    if (FT == NULL || U == NULL) return CIRCE_ERR_MEMORY;
    algebra->gemm(0, 0, q, r, n, 1.0, F, n, s->T, r, 0.0, FT, r);
    algebra->gemm(0, 1, q, n, s->r_y, 1.0, FT, r, s->T, r, 0.0, U, n);
    *den = 0.0;
    for (int64_t k = 0; k < q; k++) {
        double sum = 0.0;
        for (int64_t i = k * n; i < (k + 1) * n; i++) sum += (F[i] - U[i]) * (F[i] - U[i]);
        *den += sum;
    }
    algebra->gemm(0, 1, q, n, s->r_yz, -1.0, FT + s->r_y, r, s->T + s->r_y, r, 1.0, U, n);
    *num = circe__dot(U, U, q * n);
    return CIRCE_OK;
}

/* From K_x in blocks of rows; T is centred, so K_x T stands for ~K_x T. */
static circe_status values_blocks(circe_workspace *workspace, const sides *s, const circe__points *x, double *num,
                                  double *den) {
    const circe_context *context = workspace->context;
    int64_t n = s->n, r = s->r, size = circe__min(BLOCK, n);
    double *K = circe__take(workspace, CIRCE__SLOT_GRAM_X, size * (n + circe__roomy(r)), sizeof *K);
    void *scratch = circe__take(workspace, CIRCE__SLOT_TILES,
                                (int64_t)circe__gram_bytes(context, CIRCE_FLOAT64, n, x->mat.cols), 1);
    if (K == NULL || scratch == NULL) return CIRCE_ERR_MEMORY;
    double *KT = K + size * n;
    *num = *den = 0.0;
    for (int64_t i0 = 0; i0 < n; i0 += size) {
        int64_t rows = circe__min(size, n - i0);
        circe_mat block = circe__mat(K, rows, n, CIRCE_FLOAT64), points = circe__rows(&x->mat, i0, rows);
        circe__gram(context, x->kernel, &points, &x->mat, &block, scratch);
        context->backend->algebra->gemm(0, 0, rows, r, n, 1.0, K, n, s->T, r, 0.0, KT, r);
        *num += circe__dot(KT, s->A + i0 * r, rows * r);
        for (int64_t i = 0; i < rows; i++) {
            double mean = 0.0, explained = 0.0;
            for (int64_t j = 0; j < n; j++) mean += K[i * n + j] / (double)n;
            for (int64_t k = 0; k < s->r_y; k++)
                explained += (2.0 - s->t_y[k]) * KT[i * r + k] * s->T[(i0 + i) * r + k];
            *den += K[i * n + i0 + i] - mean - explained;
        }
    }
    return CIRCE_OK;
}

/* A := A + value [P_y (2 - t_y), 0], so that M M - value N N = A T' - value I; then row blocks of the lower triangle.
 */
static circe_status lowrank_witness(circe_workspace *workspace, const sides *s, double value, double den,
                                    circe_mat *witness) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    const double *root = circe__roots_of(workspace);
    int64_t n = s->n, r = s->r, size = circe__min(BLOCK, n);
    double rows_counted = (double)circe__counted(workspace, n);
    double *block = circe__take(workspace, CIRCE__SLOT_GRAM_X, size * (n + circe__roomy(r)), sizeof *block);
    if (block == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < s->r_y; k++) s->A[i * r + k] += value * (2.0 - s->t_y[k]) * s->T[i * r + k];
    for (int64_t i0 = 0; i0 < n; i0 += size) {
        int64_t rows = circe__min(size, n - i0), cols = i0 + rows;
        algebra->gemm(0, 1, rows, cols, r, 1.0 / den, s->A + i0 * r, r, s->T, r, 0.0, block, cols);
        for (int64_t i = 0; i < rows; i++) {
            double *row = block + i * cols;
            for (int64_t j = 0; j <= i0 + i; j++)
                row[j] += value / den / rows_counted * (root != NULL ? root[i0 + i] * root[j] : 1.0);
            row[i0 + i] -= value / den;
            circe__write_lower(row, i0 + i, witness);
        }
    }
    return CIRCE_OK;
}

static circe_status kpc_lowrank(const circe__normalized *m, const circe__smoother *y, const circe__smoother *yz) {
    circe_workspace *workspace = m->workspace;
    sides s;
    circe__points x;
    circe_mat witness;
    double *F = NULL, num = 0.0, den = 0.0;
    int64_t q = 0;
    bool thin = false;
    circe_status status = make_sides(workspace, y, yz, &s);
    if (status == CIRCE_OK) status = take_x(m, &x);
    if (status == CIRCE_OK) status = factor_x(m, &x, &F, &q, &thin);
    if (status == CIRCE_OK)
        status = thin ? values_thin(workspace, &s, F, q, &num, &den) : values_blocks(workspace, &s, &x, &num, &den);
    if (status != CIRCE_OK) return status;
    if (!divide(&x, num, den, m->value)) return circe__normalized_nothing(m);
    if (m->grad == NULL) return CIRCE_OK;
    status = circe__begin_measure(workspace, m->x, m->n, &witness);
    if (status == CIRCE_OK) status = lowrank_witness(workspace, &s, *m->value, den, &witness);
    if (status == CIRCE_OK) circe__weigh_by_roots(workspace, &witness);
    if (status == CIRCE_OK) status = contract_x(m, &witness);
    return status;
}

/* ---- dense ------------------------------------------------------------------------------------------------------- */

/* S as a matrix: its own, or P P' in the slot GRAM_Q. Of two smoothers at most one is of low rank here. */
static circe_status as_matrix(circe_workspace *workspace, const circe__smoother *S, double **matrix) {
    *matrix = S->P;
    if (S->dense) return CIRCE_OK;
    circe_status status = circe__take_matrices(workspace, CIRCE__SLOT_GRAM_Q, S->n, 1, matrix);
    if (status != CIRCE_OK) return status;
    workspace->context->backend->algebra->gemm(0, 1, S->n, S->n, S->rank, 1.0, S->P, S->rank, S->P, S->rank, 0.0,
                                               *matrix, S->n);
    return CIRCE_OK;
}

/* Lower triangles of M M and N N - 11'/n, from matrices that become M and N. */
static void square_both(const circe_workspace *workspace, int64_t n, double *S_y, double *S_yz, double *MM,
                        double *NN) {
    const circe__algebra *algebra = workspace->context->backend->algebra;
    const double *root = circe__roots_of(workspace);
    double share = 1.0 / (double)circe__counted(workspace, n);
    for (int64_t e = 0; e < n * n; e++) {
        S_yz[e] = S_y[e] - S_yz[e];
        S_y[e] = -S_y[e];
    }
    for (int64_t i = 0; i < n; i++) S_y[i * n + i] += 1.0;
    algebra->gram_update(n, n, S_yz, n, 0.0, MM, n);
    algebra->gram_update(n, n, S_y, n, 0.0, NN, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) NN[i * n + j] -= root != NULL ? share * root[i] * root[j] : share;
}

/* <A, K>, both symmetric, of A the lower triangle. */
static double dot_lower(const double *A, const double *K, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += 2.0 * circe__dot(A + i * n, K + i * n, i) + A[i * n + i] * K[i * n + i];
    return total;
}

static circe_status kpc_dense(const circe__normalized *m, const circe__smoother *y, const circe__smoother *yz) {
    circe_workspace *workspace = m->workspace;
    int64_t n = m->n;
    double *S_y = NULL, *S_yz = NULL, *K = NULL, *MM = NULL;
    circe__points x;
    circe_mat witness;
    circe_status status = circe__take_matrices(workspace, CIRCE__SLOT_VECTORS, n, 2, &MM);
    if (status == CIRCE_OK) status = circe__take_matrices(workspace, CIRCE__SLOT_GRAM_X, n, 1, &K);
    if (status == CIRCE_OK) status = as_matrix(workspace, y, &S_y);
    if (status == CIRCE_OK) status = as_matrix(workspace, yz, &S_yz);
    if (status == CIRCE_OK) status = take_x(m, &x);
    if (status == CIRCE_OK) status = circe__points_gram(workspace, &x, true, K);
    if (status != CIRCE_OK) return status;
    double *NN = MM + n * n;
    square_both(workspace, n, S_y, S_yz, MM, NN);
    double den = dot_lower(NN, K, n);
    if (!divide(&x, dot_lower(MM, K, n), den, m->value)) return circe__normalized_nothing(m);
    if (m->grad == NULL) return CIRCE_OK;
    status = circe__begin_measure(workspace, m->x, n, &witness);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i * n; j <= i * n + i; j++) MM[j] = (MM[j] - *m->value * NN[j]) / den;
        circe__write_lower(MM + i * n, i, &witness);
    }
    circe__weigh_by_roots(workspace, &witness);
    return contract_x(m, &witness);
}

circe_status circe_measure_kpc(circe_workspace *workspace, const circe_kernels *kernels, const circe_mat *x,
                               const circe_mat *y, const circe_mat *z, const circe_normalized_options *options,
                               double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe__normalized m;
    circe__smoother S_y, S_yz;
    circe_status status = circe__normalized_begin(workspace, kernels, x, y, z, options, value, grad, &m);
    if (status != CIRCE_OK) return status;
    int previous = circe__threads_begin(workspace->context);
    status = circe__normalized_y(&m, &S_y);
    if (status == CIRCE_OK) status = circe__normalized_pair(&m, false, &S_yz);
    if (status == CIRCE_OK)
        status = S_y.dense || S_yz.dense ? kpc_dense(&m, &S_y, &S_yz) : kpc_lowrank(&m, &S_y, &S_yz);
    return circe__threads_finish(previous, status);
}
