/* The batch regressed on itself: S = K (K + ridge I)^-1, what HSCIC, GCM, KCI, NOCCO and KPC are made of. */
#pragma once

#include "circe/cme.h"
#include "kernels/kernels.h"

/* Points with their kernel, float64; the kernel's factors live in the workspace's slot FACTORS. With weights of the
 * workspace, each row of features is multiplied by the root of its weight, so that sums over rows are weighted ones:
 * the kernel matrix is D^1/2 K D^1/2 and its factor F D^1/2, D = diag(w). The constant function is then the vector of
 * the roots, and centring takes out the part along it. */
typedef struct circe__points {
    circe_mat mat;
    circe__factors kernel;
    const double *root; /* (n); NULL: no weights */
} circe__points;

/* Checks a variable of n rows (n = 0: any), and copies it to float64 in the slot. */
circe_status circe__points_take(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel,
                                const circe_mat *mat, int64_t n, const char *name, circe__points *points);

/* (a, b) side by side with the product kernel, in the slot; a and b were checked. */
circe_status circe__points_join(circe_workspace *workspace, circe__slot slot, const circe_kernel *kernel_a,
                                const circe_mat *a, const char *name_a, const circe_kernel *kernel_b,
                                const circe_mat *b, const char *name_b, circe__points *points);

typedef struct circe__smoother_options {
    double ridge;
    bool centered; /* K stands for HKH */
    circe_method method;
    double tolerance; /* of low rank: what a factor may leave out of the trace, and S of its eigenvalues (up to 1) */
    bool applied;     /* S is only multiplied with: low rank goes without its spectrum */
} circe__smoother_options;

/* Refuses a ridge that is not a positive number, and methods of other fits. */
circe_status circe__check_regression(double ridge, circe_method method);

/* Low rank: S = P P' with P (n, rank), P'P = diag(t); or, where it is only applied, S = P inverse P' with P' (rank, n)
 * in the place of P and no t. Dense: P is S itself (n, n) and t is NULL. */
typedef struct circe__smoother {
    int64_t n, rank;
    bool dense;
    double *P;
    const double *inverse;      /* (rank, rank) */
    const double *left, *right; /* low rank: P; with weights, HSCIC's D^1/2 P and D^-1/2 P */
    double *t;
} circe__smoother;

/* In the slot, by way of the slots FACTOR, SMOOTHER_WORK and TILES. `name` is the variable's. */
circe_status circe__smoother_make(circe_workspace *workspace, circe__slot slot, const circe__points *points,
                                  const circe__smoother_options *options, const char *name, circe__smoother *smoother);

/* out (n, m) := S in, or in - S in where `residual`; in and out may not overlap. Scratch in SMOOTHER_WORK. */
circe_status circe__smoother_apply(circe_workspace *workspace, const circe__smoother *smoother, int64_t m,
                                   const double *in, bool residual, double *out);

/* F (rank, n) in the slot FACTOR with K ~ F'F, to the tolerance and below `limit`, whatever rank that takes; rows
 * centred if requested. */
circe_status circe__points_factor(circe_workspace *workspace, const circe__points *points, double tolerance,
                                  double limit, bool centered, const char *name, double **F, int64_t *rank);

/* The same where `most` rows are enough; otherwise the rank is -1. */
circe_status circe__points_try(circe_workspace *workspace, const circe__points *points, double tolerance, int64_t most,
                               bool centered, const char *name, double **F, int64_t *rank);

/* K (n, n) := the kernel matrix, HKH where centered. */
circe_status circe__points_gram(circe_workspace *workspace, const circe__points *points, bool centered, double *K);

/* Ranks differ a little from batch to batch: scratch is taken for this one, so that later batches find it there. */
static inline int64_t circe__roomy(int64_t rank) { return (rank + 63) / 64 * 64; }

/* What low rank leaves out, at most, of the trace. */
static inline double circe__batch_tolerance(double asked, circe_dtype dtype) {
    return asked > 0.0 ? asked : dtype == CIRCE_FLOAT32 ? 1e-10 : 1e-14;
}
