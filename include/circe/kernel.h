/* Kernels: products of factors, each on a range of columns.
 *
 *     gaussian  exp(-|a-b|^2 / (2 sigma2))
 *     laplace   exp(-|a-b| / sqrt(sigma2))
 *     linear    a.b
 *     delta     1 if a = b in every column, else 0      (categories)
 *
 * A factor whose sigma2 is 0 is *free*: its width is still to be chosen, by leave-one-out in circe_cme_fit or by
 * circe_kernel_bind_median. Functions that evaluate a kernel refuse one with free factors. */
#ifndef CIRCE_KERNEL_H
#define CIRCE_KERNEL_H

#include "circe/context.h"
#include "circe/matrix.h"

CIRCE_BEGIN_DECLS

typedef enum circe_kernel_kind {
    CIRCE_KERNEL_GAUSSIAN = 1,
    CIRCE_KERNEL_LAPLACE = 2,
    CIRCE_KERNEL_LINEAR = 3,
    CIRCE_KERNEL_DELTA = 4,
} circe_kernel_kind;

typedef struct circe_kernel circe_kernel;

typedef struct circe_kernel_factor {
    circe_kernel_kind kind;
    double sigma2; /* gaussian and laplace: > 0, or 0 while free; others: 0 */
    int64_t first_col;
    int64_t n_cols; /* -1: from first_col to the last column */
} circe_kernel_factor;

/* One factor over all columns. */
CIRCE_API circe_status circe_kernel_create(circe_context *context, circe_kernel_kind kind, double sigma2,
                                           circe_kernel **kernel);

/* From text, as on the command line: factors joined by '*', each [COLUMNS:]NAME[(SIGMA2)], COLUMNS an index or a
 * range. "gaussian", "laplace(0.5)", "0-2:gaussian*3:delta". */
CIRCE_API circe_status circe_kernel_parse(circe_context *context, const char *text, circe_kernel **kernel);

/* kernel := kernel * factor. */
CIRCE_API circe_status circe_kernel_multiply(circe_kernel *kernel, const circe_kernel_factor *factor);

/* Copies a kernel. */
CIRCE_API circe_status circe_kernel_copy(const circe_kernel *kernel, circe_kernel **copy);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_kernel_destroy(circe_kernel *kernel);

/* The number of factors. */
CIRCE_API int64_t circe_kernel_n_factors(const circe_kernel *kernel);
/* Factor number `index`, from 0. */
CIRCE_API circe_status circe_kernel_get_factor(const circe_kernel *kernel, int64_t index, circe_kernel_factor *factor);
/* The number of factors whose width is still free. */
CIRCE_API int64_t circe_kernel_n_free(const circe_kernel *kernel);

/* Gives every free factor this width, or the median heuristic of its columns of `points`. */
CIRCE_API circe_status circe_kernel_bind(circe_kernel *kernel, double sigma2);
/* Gives every free factor the median heuristic of its columns. */
CIRCE_API circe_status circe_kernel_bind_median(circe_kernel *kernel, const circe_mat *points);

/* The text that circe_kernel_parse reads back to an equal kernel. Valid until the kernel changes. */
CIRCE_API const char *circe_kernel_text(const circe_kernel *kernel);

/* The median heuristic: sigma2 = (median over pairs of |a-b|)^2 on columns first_col .. first_col+n_cols-1 (-1: to the
 * last). Exact up to 2,048 rows; with more, computed on a fixed random subset of that size. If more than half of the
 * pairs coincide, the median is over the other pairs. Constant points are refused. */
CIRCE_API circe_status circe_median_sigma2(circe_context *context, const circe_mat *points, int64_t first_col,
                                           int64_t n_cols, double *sigma2);

/* out(i, j) = k(a_i, b_j). All three have one dtype. */
CIRCE_API circe_status circe_gram(circe_context *context, const circe_kernel *kernel, const circe_mat *a,
                                  const circe_mat *b, circe_mat *out);

CIRCE_END_DECLS

#endif
