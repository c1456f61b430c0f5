/* Inside of the conditional mean embedding.
 *
 * Data flow of a fit:   fit.c   y, z -> float64, the basis of z (basis.c), then for every sigma2 of the grid:
 *                         lowrank.c / dense.c   a regression: spectrum and vectors of K_YY, its projection of psi(Z)
 *                         regression.c          leave-one-out errors of every ridge, weights of the best so far
 *                       -> model.c (circe_cme), saved and loaded by model_file.c
 * Data flow of a batch: residual.c   y, z -> zeta, used by features.c (whole data sets) and by lib/measures. */
#pragma once

#include "circe/cme.h"
#include "core/rooms.h"
#include "kernels/kernels.h"

enum {
    CIRCE__ALL_ROWS = 8192,   /* up to here pivots are chosen among all rows, and their matrix may be formed */
    CIRCE__BLOCK_ROWS = 1024, /* rows of features at a time in a pass over the holdout */
    CIRCE__MAX_EIGEN = 32000, /* LAPACK's workspace of 2 n^2 numbers is counted in 32 bits */
};

typedef struct circe__fit_by circe__fit_by;
typedef struct circe__curves circe__curves;
typedef struct circe__parts circe__parts; /* of a matrix that others hold: theirs */

/* ---- basis.c: features of a kernel by pivoted Cholesky ------------------------------------------------------- */

typedef struct circe__basis {
    const circe_context *context;
    const circe__fit_by *by;      /* while others make it; else NULL */
    circe_kernel_factor *factors; /* owned */
    int64_t n_factors;
    int64_t dim;  /* columns of a point */
    int64_t rank; /* r */
    int64_t capacity;
    double *points;  /* (r, dim): the pivots */
    double *L;       /* (r, capacity) lower triangular: K_pp = L L' */
    double *inverse; /* (r, r): L^-1 */
    double scale;    /* the largest k(p, p) met; 0 where columns are the features */
} circe__basis;

circe_status circe__basis_init(const circe_context *context, const circe_kernel *kernel, int64_t dim, const char *name,
                               circe__basis *basis);
void circe__basis_free(circe__basis *basis);
circe_status circe__basis_copy(const circe__basis *from, circe__basis *to);
static inline circe__factors circe__basis_kernel(const circe__basis *basis) {
    return (circe__factors){basis->factors, basis->n_factors};
}

/* Whether its features are the columns of a linear kernel themselves. */
bool circe__basis_is_columns(const circe__basis *basis);

/* Adds pivots out of `points` (n, dim) until trace(K - FF') <= tolerance * trace(K) on them. CIRCE_ERR_RANK, with the
 * basis as far as it came, where that would take more than max_rank. */
CIRCE_ROOMS circe_status circe__basis_extend(circe__basis *basis, const double *points, int64_t n, double tolerance,
                                             int64_t max_rank, const char *name);

/* Room for `capacity` pivots; what is there stays. */
CIRCE_ROOMS circe_status circe__basis_reserve(circe__basis *basis, int64_t capacity);

/* The error for more than max_rank pivots: CIRCE_ERR_RANK with a text. `left` is a share of the trace. */
CIRCE_ROOMS circe_status circe__basis_refuse(int64_t max_rank, double left, const char *name);

/* Makes L^-1, for callers that filled in points and L themselves. */
CIRCE_ROOMS circe_status circe__basis_invert(circe__basis *basis);

/* The same for a data set of any size; see cover.c. */
circe_status circe__basis_cover(circe__basis *basis, const double *points, int64_t n, double tolerance,
                                int64_t max_rank, uint64_t seed, const char *name);

/* Extends the basis until no point's residual exceeds `relative` times its k(p, p), or a few rounds are over. */
circe_status circe__basis_settle(circe__basis *basis, const double *points, int64_t n, double relative,
                                 double tolerance, int64_t max_rank, const char *name);

/* trace(K - FF') / trace(K) over the points; `outlying` (n flags, or NULL) marks those whose residual exceeds
 * `relative` times their k(p, p), the first few thousand of them. */
circe_status circe__basis_outliers(const circe__basis *basis, const double *points, int64_t n, double relative,
                                   bool *outlying, double *trace_residual);

/* features (n, ld): the first `rank` coordinates of psi(point) in the basis; diagonal[i] = k(p_i, p_i) and
 * residual[i] = k(p_i, p_i) - |features_i|^2, at least 0; each may be NULL. scratch of circe__basis_bytes. */
CIRCE_ROOMS size_t circe__basis_bytes(const circe__basis *basis);
CIRCE_ROOMS void circe__basis_features(const circe__basis *basis, int64_t rank, const double *points, int64_t n,
                                       double *features, int64_t ld, double *diagonal, double *residual, void *scratch);

/* The same on the calling thread alone, for callers that divide rows among circe__basis_ranks threads themselves.
 * Scratch of circe__basis_part_bytes. */
int64_t circe__basis_ranks(const circe__basis *basis, int64_t n);
size_t circe__basis_part_bytes(const circe__basis *basis);
void circe__basis_part(const circe__basis *basis, int64_t rank, const double *points, int64_t n, double *features,
                       int64_t ld, double *diagonal, double *residual, void *scratch);

/* left[k] := the share of the trace that ranks[k] pivots (ascending) leave, chosen among these points. */
circe_status circe__basis_decay(circe__basis *basis, const double *points, int64_t n, int64_t count,
                                const int64_t *ranks, double *left);

/* ---- judge.c: whether low rank is worth an attempt --------------------------------------------------------------- */

/* CIRCE_ERR_RANK if a sample of the rows shows that max_rank pivots will not be enough, so that the error comes before
 * the work and not after it. `sigma2` is for the text; 0: none. */
circe_status circe__judge_rank(const circe_context *context, const circe_kernel *kernel, const double *points,
                               int64_t n, int64_t dim, double tolerance, int64_t max_rank, uint64_t seed, double sigma2,
                               const char *name);

/* How many leading pivots leave every candidate's residual below `relative` * scale. */
int64_t circe__basis_rank_at(const circe__basis *basis, double relative);

/* ---- regression: mu(y) for one kernel of y ------------------------------------------------------------------- */

/* The holdout data and what every regression on it shares. Rows of weight 0 are left out before; each other row of the
 * features of y and of z is multiplied by the root of its weight, and the rest is the same: weighted ridge regression.
 */
typedef struct circe__holdout {
    circe_context *context;
    const circe_cme_options *options; /* grids filled in */
    const double *y, *z;              /* (M, dim) float64 */
    int64_t rows, dim_y, dim_z;
    const double *root; /* (M): the roots of the weights, whose mean is 1; NULL: rows count alike */
    const circe__basis *z_basis;
    const circe__fit_by *by;         /* NULL: this process alone */
    int64_t steps_done, steps_total; /* of progress */
    double *units;                   /* of each factor of y's kernel: what a width of the grid is a multiple of */
} circe__holdout;

/* K_YY (or F_y'F_y, which has the same non-zero spectrum) = sum_k s_k v_k v_k'. With n = r_y (low rank) or M (dense):
 * weights(ridge) = V' diag(1 / (s + ridge)) G is (n, r_z). */
typedef struct circe__regression {
    circe_method solver;
    circe__basis y_basis; /* low rank only */
    int64_t n;
    double *s;       /* (n) ascending, at least 0 */
    double *vectors; /* (n, n): v_k is row k */
    double *G;       /* (n, r_z): V F_y' F_z, or V F_z */
    double trace_residual;
    const circe__fit_by *by; /* NULL: this process alone */
    circe__parts *parts;     /* a dense fit by others keeps this instead of vectors and G. Owned */
} circe__regression;

circe_status circe__lowrank_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, int64_t max_rank,
                                    circe__regression *regression);
circe_status circe__lowrank_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                int64_t n_ridge, double *error);
circe_status circe__dense_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, circe__regression *regression);
circe_status circe__dense_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                              int64_t n_ridge, double *error);
double circe__dense_fit_bytes(int64_t rows, int64_t rank_z);

/* Rows of A (n, cols) times the roots of their weights; its columns too, where `both` (n = cols). */
static inline void circe__scale_by_roots(const double *root, int64_t n, int64_t cols, bool both, double *A) {
    for (int64_t e = 0; e < n * cols; e++) A[e] *= both ? root[e / cols] * root[e % cols] : root[e / cols];
}

CIRCE_ROOMS void circe__regression_free(const circe_context *context, circe__regression *regression);
/* Eigendecomposition of the symmetric `vectors` in place, negative rounding set to 0. */
circe_status circe__regression_decompose(const circe_context *context, circe__regression *regression);
/* The smallest ridge whose result the arithmetic supports. */
double circe__regression_safe_ridge(const circe__regression *regression, int64_t rows);
/* (n, r_z), the caller's to free. */
circe_status circe__regression_weights(const circe_context *context, const circe__regression *regression,
                                       int64_t rank_z, double ridge, double **weights);

/* (K_YY + ridge I)^-1 (n, n), the caller's to free; dense only. */
circe_status circe__regression_inverse(const circe_context *context, const circe__regression *regression, double ridge,
                                       double **inverse);

/* ---- rff.c ---------------------------------------------------------------------------------------------------- */

typedef struct circe__rff circe__rff;

void circe__rff_free(const circe_context *context, circe__rff *rff);
void circe__rff_step(const circe_context *context, circe__rff *rff, int64_t step);
/* out (n, n) := -A - A' + B of algorithm 2, that is K^c without K_zz. */
circe_status circe__rff_correction(circe_workspace *workspace, const circe__rff *rff, const double *y, const double *z,
                                   int64_t n, double *out);

/* ---- a fit by others: ranks, a GPU ------------------------------------------------------------------------------- */

/* Processes that fit together (mpi/fit.c). Each has all the points and calls the same functions in the same order. For
 * sums over rows, each rank sums its own rows and the ranks add up the results. Rank 0 ends with the model, the others
 * only with its description. */
typedef struct circe__fit_ranks {
    int64_t rank, size;
    circe_status (*agree)(circe_status status); /* the worst of all, with its text */
    void (*sum)(double *values, int64_t n);     /* over the ranks; the same bits in each */
    void (*share)(void *data, size_t bytes);    /* that of rank 0 */
} circe__fit_ranks;

/* The heavy parts of a fit that others compute: mpi/ over ranks, lib/cuda on a GPU. They replace the functions of these
 * names: circe__basis_extend, circe__dense_*, circe__basis_outliers, the sums of circe__lowrank_prepare (S into
 * regression->vectors), circe__lowrank_loo, circe__regression_decompose. Each of the last four may be NULL: the
 * ordinary function then runs, on the rows of each rank. */
typedef struct circe__fit_ops {
    circe_status (*extend)(circe__basis *basis, const double *points, int64_t n, double tolerance, int64_t max_rank,
                           const char *name);
    double (*dense_bytes)(int64_t rows, int64_t rank_z, int64_t n_ridge); /* on this machine */
    circe_status (*dense_prepare)(circe__holdout *holdout, const circe_kernel *kernel_y, circe__regression *regression);
    circe_status (*dense_loo)(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                              int64_t n_ridge, double *error);
    circe_status (*dense_weights)(const circe__regression *regression, double ridge, double **weights);
    void (*dense_free)(const circe_context *context, circe__parts *parts);
    circe_status (*outliers)(const circe__basis *basis, const double *points, int64_t n, double relative,
                             bool *outlying, double *trace_residual);
    circe_status (*sums)(circe__holdout *holdout, circe__regression *regression, double *cross);
    circe_status (*lowrank_loo)(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                int64_t n_ridge, double *error);
    circe_status (*decompose)(const circe_context *context, circe__regression *regression);
} circe__fit_ops;

struct circe__fit_by {
    const circe__fit_ops *ops;
    const circe__fit_ranks *ranks; /* NULL: one process */
};

static inline const circe__fit_ranks *circe__ranks_of(const circe__fit_by *by) { return by == NULL ? NULL : by->ranks; }
static inline circe_status circe__agree(const circe__fit_by *by, circe_status status) {
    return by == NULL || by->ranks == NULL ? status : by->ranks->agree(status);
}
static inline void circe__sum(const circe__fit_by *by, double *values, int64_t n) {
    if (by != NULL && by->ranks != NULL) by->ranks->sum(values, n);
}
/* Which of how many this process is. */
static inline int64_t circe__rank_of(const circe__fit_by *by, int64_t *size) {
    const circe__fit_ranks *ranks = circe__ranks_of(by);
    *size = ranks == NULL ? 1 : ranks->size;
    return ranks == NULL ? 0 : ranks->rank;
}

/* circe_cme_fit by others; ranks hold the same data and options. */
CIRCE_ROOMS circe_status circe__cme_fit(circe_context *context, const circe__fit_by *by, const circe_mat *y,
                                        const circe_mat *z, const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                                        const circe_cme_options *options, circe_cme **cme);

/* ---- model.c -------------------------------------------------------------------------------------------------- */

struct circe_cme {
    circe_context *context;
    circe_cme_info info;
    circe_kernel *kernel_y, *kernel_z;
    double tolerance;
    int64_t n_sigma2_y, n_ridge;
    double *sigma2_y, *ridge, *error, *ridge_used; /* the leave-one-out table */
    char **warnings;
    int64_t n_warnings;
    circe__basis z_basis;
    circe__basis y_basis;           /* low rank */
    circe_kernel_factor *y_factors; /* dense: the kernel of y, resolved */
    double *points_y;               /* dense: (M, dim_y) */
    double *points_z;               /* RFF and small dense models: (M, dim_z) beside points_y */
    double *root;                   /* RFF models whose rows have weights: (M), their roots; else NULL */
    double *weights;                /* (r_y or M, r_z) */
    double *inverse;                /* small dense models: (K_YY + ridge I)^-1 (M, M); see residual.c */
    circe__rff *rff;
    circe__curves *curves; /* curves.c; NULL: none */
    int64_t rff_pool, rff_batch, rff_every;
    uint64_t seed;
};

circe_status circe__cme_new(circe_context *context, circe_cme **cme);
circe_status circe__cme_warn(circe_cme *cme, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Builds the random features from points_y, points_z and the model's kernels: after a fit and after a load. */
circe_status circe__cme_attach_rff(circe_cme *cme);

/* ---- residual.c ------------------------------------------------------------------------------------------------ */

/* out (n, ld), the first rank_z columns := mu(y) in the basis of z. */
circe_status circe__cme_mean(circe_workspace *workspace, const circe_cme *cme, const double *y, int64_t n,
                             int64_t rank_z, double *out, int64_t ld);

/* zeta (n, q) of a batch in float64, in the workspace's slot ZETA. If points of z lie outside the span of the
 * holdout's, zeta gets columns for their part outside it, so that zeta zeta' = K^c holds for any batch. `accuracy` is
 * relative to k(z, z): columns that matter less are left out. */
circe_status circe__cme_zeta(circe_workspace *workspace, const circe_cme *cme, const double *y, const double *z,
                             int64_t n, double accuracy, double **zeta, int64_t *q);

/* ---- implicit.c: K^c_ij = k(z_i, z_j) - h_i . m_j - m_i . h_j, where z has no low rank ------------------------- */

typedef struct circe__implicit {
    circe_mat z;    /* (n, d_z) */
    circe_mat m, h; /* (n, r) */
} circe__implicit;

/* For n points, in the dtype. `implicit` is the caller's to free, from `context`, also after a failure. */
circe_status circe__implicit_fill(circe_context *context, const circe_cme *cme, const double *y, const double *z,
                                  int64_t n, circe_dtype dtype, circe__implicit *implicit);
void circe__implicit_free(const circe_context *context, circe__implicit *implicit);

/* The implicit features of a data set, NULL if it has zeta. */
const circe__implicit *circe__features_implicit(const circe_features *features);

/* to (n, cols) := the rows index[0..n) of from, which lie within it. */
void circe__gather_rows(const circe_mat *from, const int64_t *index, int64_t n, circe_mat *to);

/* y (n, dim_y) or z as contiguous float64, in the given slot, checked: rows, columns, finite. */
circe_status circe__cme_points(circe_workspace *workspace, circe__slot slot, const circe_mat *points, int64_t dim,
                               const char *name, double **out);

/* Whether K^c should be computed as a matrix (circe_residual_gram). Models without zeta (rff) need it, and a small
 * dense model in float64 is more accurate with it, as long as the batch is small enough for several n by n matrices. */
static inline bool circe__cme_prefers_gram(const circe_cme *cme, circe_dtype dtype, int64_t n) {
    enum { MAX_ROWS = 4096 };
    return cme->rff != NULL || (cme->inverse != NULL && dtype == CIRCE_FLOAT64 && n <= MAX_ROWS);
}

/* What float32 and float64 batches need of zeta. */
static inline double circe__accuracy(const circe_cme *cme, circe_dtype dtype) {
    double tight = 10.0 * cme->tolerance;
    return dtype == CIRCE_FLOAT32 && tight < 1e-8 ? 1e-8 : tight;
}
