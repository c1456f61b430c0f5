/* Tables of many rows in the memory of a device: what a test asks of it.
 *
 * A table (n, cols) is row-major float64 without gaps unless it has a leading dimension; `n` is large, everything else
 * is small. What is small comes from the host's memory and goes there: choices of views, widths, ranks and ridges are
 * the host's. lib/inference has the algorithms, once, and calls these where a table lies on a device (rows.c there);
 * lib/cuda fills them. An operation is done, or queued in order, when it returns; those with a host output wait. */
#pragma once

#include "circe/test.h"
#include "cme/cme_parts.h"

/* Leave-one-out errors of `ridges` ridges on the first `columns` columns of a target. */
typedef struct circe__rows_loo {
    int64_t n, rank, columns, ridges;
    const double *Q, *unit; /* device: (n, rank), (n) */
    const double *target;   /* device: (n, ld) */
    int64_t ld;
    const double *inverse; /* (ridges, rank) */
    const double *scaled;  /* (rank, ridges columns) */
} circe__rows_loo;

/* left (n, p) and noise (n, q), both on the device. */
typedef struct circe__rows_pair {
    int64_t n, p, q;
    const double *left, *noise;
} circe__rows_pair;

typedef struct circe__rows_ops {
    /* Around a test: the device becomes current for this thread, and is given back. */
    circe_status (*begin)(circe_test_device *d);
    void (*end)(circe_test_device *d);
    void (*destroy)(circe_test_device *d);

    circe_status (*alloc)(circe_test_device *d, int64_t doubles, double **data);
    void (*free)(circe_test_device *d, double *data);
    circe_status (*upload)(circe_test_device *d, double *to, const double *from, int64_t doubles);
    circe_status (*download)(circe_test_device *d, double *to, const double *from, int64_t doubles);
    circe_status (*copy)(circe_test_device *d, double *to, const double *from, int64_t doubles);

    /* features (n, rank) of points (n, dim), which the host holds; *trace: the sum of k(p, p), *left: what they leave.
     */
    circe_status (*features)(circe_test_device *d, const circe__basis *basis, const double *points, int64_t n,
                             double *features, double *trace, double *left);
    /* out (n, ld), the first k columns := sqrt(2) root[i] cos(points (n, dim) frequency (dim, k) + offset (k)); all but
     * root and out are the host's. */
    circe_status (*cosines)(circe_test_device *d, const double *points, int64_t n, int64_t dim, const double *frequency,
                            const double *offset, int64_t k, const double *root, double *out, int64_t ld);

    /* c (n, m) := alpha a (n, k) b + beta c; b (k, m), or (m, k) if trans, is the host's. */
    circe_status (*times)(circe_test_device *d, int64_t n, int64_t k, int64_t m, double alpha, const double *a,
                          int64_t lda, int trans, const double *b, double beta, double *c, int64_t ldc);
    /* out (p, q), the host's := a' b, of elements to the power of 1, 2 or 4. */
    circe_status (*cross)(circe_test_device *d, int64_t n, const double *a, int64_t p, int64_t lda, const double *b,
                          int64_t q, int64_t ldb, int power, double *out);
    /* to (n, cols) := the columns index[0..cols) of from (n, ld). */
    circe_status (*columns)(circe_test_device *d, int64_t n, const double *from, int64_t ld, const int64_t *index,
                            int64_t cols, double *to);
    /* to (m, cols), the host's := the rows index[0..m) of from (., cols). */
    circe_status (*rows)(circe_test_device *d, const double *from, int64_t cols, const int64_t *index, int64_t m,
                         double *to);
    /* out (cols), the host's := the sum of squares of every column, a row times `rest` of its leverage unless NULL. */
    circe_status (*squares)(circe_test_device *d, int64_t n, const double *a, int64_t cols, int64_t ld,
                            const double *leverage, double *out);
    /* Row i of the table times by[i], or over `rest` of by[i]. */
    circe_status (*scale)(circe_test_device *d, int64_t n, int64_t cols, double *table, const double *by,
                          bool over_rest);
    /* out (n) := unit^2 + sum_k Q_k^2 inverse_k, inverse (rank) the host's; *sum of it. */
    circe_status (*leverage)(circe_test_device *d, int64_t n, const double *Q, int64_t rank, const double *unit,
                             const double *inverse, double *out, double *sum);
    /* errors (ridges + 1), the host's := sums over the rows of squared leave-one-out residuals; last, of the mean
     * alone. */
    circe_status (*loo)(circe_test_device *d, const circe__rows_loo *job, double *errors);
    /* out (n, cols) := target (n, ldt) - rest of its leverage times noise (n, ldn). */
    circe_status (*fitted)(circe_test_device *d, int64_t n, int64_t cols, const double *target, int64_t ldt,
                           const double *noise, int64_t ldn, const double *leverage, double *out);
    /* sums[0], sums[1] := sum of v_i and of v_i^2, v_i = |left_i|^2 |noise_i|^2. */
    circe_status (*carried)(circe_test_device *d, const circe__rows_pair *pair, double sums[2]);
    /* gram (p q, p q), the host's := C'C, C_i = left_i (x) noise_i. */
    circe_status (*product_gram)(circe_test_device *d, const circe__rows_pair *pair, double *gram);
    /* null[0..draws), the host's := |e C|^2, or the largest of |e C| inverse (p q) if that is not NULL; the sign of
     * (draw, row i) is bit i % 32 of words (draws, (n + 31) / 32): 1 if set, else -1. */
    circe_status (*wild)(circe_test_device *d, const circe__rows_pair *pair, const uint32_t *words,
                         const double *inverse, int64_t draws, double *null);
} circe__rows_ops;

struct circe_test_device {
    const circe__rows_ops *ops;
    const circe__fit_by *by; /* who chooses pivots; NULL: the host */
};

/* 1 - leverage, kept away from 0. */
static inline double circe__rest_of(double leverage) { return leverage < 0.99 ? 1.0 - leverage : 0.01; }
