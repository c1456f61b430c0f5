/* The conditional mean embedding of Z given Y, mu(y) = E[psi(Z) | Y = y], by kernel ridge regression on M holdout
 * points, and the residual features zeta(y, z) = psi(z) - mu(y) in coordinates. docs/math.md has the derivations. */
#ifndef CIRCE_CME_H
#define CIRCE_CME_H

#include "circe/kernel.h"
#include "circe/safetensors.h"

CIRCE_BEGIN_DECLS

typedef enum circe_method {
    CIRCE_METHOD_AUTO = 0,    /* low rank if the rank turns out small, otherwise dense */
    CIRCE_METHOD_LOWRANK = 1, /* pivoted Cholesky, O(M r^2) */
    CIRCE_METHOD_DENSE = 2,   /* eigendecomposition, O(M^3) */
    CIRCE_METHOD_RFF = 3,     /* the paper's algorithm 2 */
} circe_method;

/* Its name in options and texts. */
CIRCE_API const char *circe_method_name(circe_method method);

typedef struct circe_cme circe_cme;

typedef struct circe_cme_options {
    circe_method method;
    const double *sigma2_y; /* grid for the free factors of the kernel of y; n_sigma2_y = 0: 10, 1, .1, .01 and .001
                             * times the median heuristic of each factor's columns */
    int64_t n_sigma2_y;
    const double *ridge; /* grid of lambda in (K + lambda I); n_ridge = 0: {.01, .1, 1, 10, 100} */
    int64_t n_ridge;
    double tolerance;      /* for low-rank factors: trace(K - LL') <= tolerance * trace(K) */
    int64_t max_rank;      /* 0: what memory allows, at most 4,096 for y */
    int force_ridge;       /* non-zero: keep a ridge that is too small for the conditioning */
    uint64_t seed;         /* for pivot candidates (M > 8,192) and random features */
    int64_t rff_pool;      /* D_0: features drawn at each redraw */
    int64_t rff_batch;     /* D: features used in each batch; 0: all */
    int64_t rff_every;     /* L: batches between redraws */
    const double *weights; /* (M): what each row counts, at least 0; only their ratios matter. NULL: rows count alike.
                            * Not for fits on a GPU. */
} circe_cme_options;

/* Sets every field to its default. */
CIRCE_API void circe_cme_options_init(circe_cme_options *options);

/* Fits y (M, d_y) and z (M, d_z), in float32 or float64, with float64 arithmetic. kernel_z must have a width; kernel_y
 * may be free. Copies what it needs. */
CIRCE_API circe_status circe_cme_fit(circe_context *context, const circe_mat *y, const circe_mat *z,
                                     const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                                     const circe_cme_options *options, circe_cme **cme);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_cme_destroy(circe_cme *cme);

typedef struct circe_cme_info {
    circe_method method;
    circe_method solver; /* what solved the regression: low rank or dense (differs from method for RFF) */
    int64_t rows;        /* M */
    int64_t dim_y, dim_z;
    int64_t rank_y, rank_z;
    double trace_residual_y, trace_residual_z; /* trace(K - LL') / trace(K) */
    double sigma2_y;                           /* the chosen one; 0: kernel_y had no free factor */
    double ridge;                              /* used */
    double ridge_safe;                         /* the smallest that the conditioning allows */
    int ridge_raised;                          /* the given ridge was smaller and was raised to it */
    double loo_error;                          /* at the chosen point */
    double seconds;
    int width_at_edge; /* sigma2_y is the smallest (-1) or largest (1) of the grid; 0 after loading */
} circe_cme_info;

/* Sizes, ranks and choices of a fitted model. */
CIRCE_API circe_status circe_cme_get_info(const circe_cme *cme, circe_cme_info *info);

/* The leave-one-out table; pointers into the model. error and ridge_used are (n_sigma2_y, n_ridge) row-major. */
typedef struct circe_loo_table {
    int64_t n_sigma2_y, n_ridge;
    const double *sigma2_y, *ridge;
    const double *error;
    const double *ridge_used; /* larger than ridge if that was not safe */
} circe_loo_table;

/* The leave-one-out table of a fitted model. */
CIRCE_API circe_status circe_cme_get_loo(const circe_cme *cme, circe_loo_table *table);

/* Sentences that the user should read about this fit. If y or z is constant, that comes first. */
CIRCE_API int64_t circe_cme_n_warnings(const circe_cme *cme);
/* Warning number `index`, from 0. Belongs to the model. */
CIRCE_API const char *circe_cme_warning(const circe_cme *cme, int64_t index);

/* Both have widths and belong to the model. */
CIRCE_API const circe_kernel *circe_cme_kernel_y(const circe_cme *cme);
/* The kernel of z, which belongs to the model. */
CIRCE_API const circe_kernel *circe_cme_kernel_z(const circe_cme *cme);

/* Models are .safetensors files. Saving replaces an existing file as a whole or not at all. Loading verifies a
 * checksum; files of older versions have none. circe_cme_save_with also stores up to 16 texts of the caller, for
 * circe_tensor_file_metadata. */
CIRCE_API circe_status circe_cme_save(const circe_cme *cme, const char *path);
/* Saves the model with texts of the caller. */
CIRCE_API circe_status circe_cme_save_with(const circe_cme *cme, const char *path, const circe_metadata *metadata,
                                           int64_t n_metadata);
/* Loads a saved model. */
CIRCE_API circe_status circe_cme_load(circe_context *context, const char *path, circe_cme **cme);

/* out (B, B) = K^c, the Gram matrix of the residuals, without the factor K_yy. */
CIRCE_API circe_status circe_residual_gram(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                           const circe_mat *z, circe_mat *out);

/* out (B, d_z) = E[z | y], in the coordinates of z, for a model whose kernel of z is linear over all columns; any
 * method but RFF. The model does not know directions of z that hold less than the fit's tolerance of its sum of
 * squares, so the columns of z should have comparable sizes. */
CIRCE_API circe_status circe_cme_mean(circe_workspace *workspace, const circe_cme *cme, const circe_mat *y,
                                      circe_mat *out);

/* For method RFF: moves to batch number `step`. Draws D_0 new features when step crosses a multiple of L, and picks the
 * D features of this batch. The result depends on (seed, step) only, not on the order of calls. */
CIRCE_API circe_status circe_cme_rff_step(circe_cme *cme, int64_t step);

/* Residual features of a whole data set, computed once and gathered per batch: K^c of any two rows is the dot product
 * of their features. Not for method RFF, whose K^c is not such a product. If z has a high rank and would need more than
 * about a thousand columns (many dimensions, rough kernels), the features have another form, exact up to rounding of
 * k(z, z). circe_measure_circe_cached uses it; the two functions below refuse it with CIRCE_ERR_RANK. */
typedef struct circe_features circe_features;

/* Computes the residual features of y (N, d_y) and z (N, d_z), in this dtype. */
CIRCE_API circe_status circe_features_create(circe_context *context, const circe_cme *cme, const circe_mat *y,
                                             const circe_mat *z, circe_dtype dtype, circe_features **features);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_features_destroy(circe_features *features);

/* Views into the object: y (N, d_y) and zeta (N, q). Columns of y far from 0 begin at 0 where float32 would not tell
 * their rows apart and the kernel reads only differences. */
CIRCE_API circe_status circe_features_get(const circe_features *features, circe_mat *y, circe_mat *zeta);

/* y_out (n, d_y) and zeta_out (n, q): the rows index[0..n). */
CIRCE_API circe_status circe_features_gather(const circe_features *features, const int64_t *index, int64_t n,
                                             circe_mat *y_out, circe_mat *zeta_out);

CIRCE_END_DECLS

#endif
