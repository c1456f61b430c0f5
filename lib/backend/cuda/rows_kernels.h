/* Passes over tables of many rows (lib/cme/rows.h) between the products of libraries: float64, row-major. Launches
 * return 0 or a cudaError_t; sums are taken in an order that the sizes alone decide. */
#pragma once

#include "backend/cuda/launching.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out (n, ld), the first k columns := sqrt(2) root[i] cos(points (n, dim) frequency (dim, k) + offset (k)). */
int circe__cuda_cosines(const double *points, int64_t n, int dim, const double *frequency, const double *offset,
                        int64_t k, const double *root, double *out, int64_t ld, void *stream);

/* to (n, cols) := the elements of from (n, ld) to the power of 2 or 4. */
int circe__cuda_powers(const double *from, int64_t n, int64_t cols, int64_t ld, int power, double *to, void *stream);

/* to (n, cols) := the columns index[0..cols) of from (n, ld); to (m, cols) := the rows index[0..m) of from (., cols).
 */
int circe__cuda_columns(const double *from, int64_t n, int64_t ld, const int64_t *index, int64_t cols, double *to,
                        void *stream);
int circe__cuda_some_rows(const double *from, int64_t cols, const int64_t *index, int64_t m, double *to, void *stream);

/* parts (circe__cuda_square_parts(n), cols) := sums of squares of columns over blocks of rows, a row times rest of its
 * leverage unless that is NULL; out (cols) := their sums. */
int64_t circe__cuda_square_parts(int64_t n);
int circe__cuda_squares(const double *a, int64_t n, int64_t cols, int64_t ld, const double *leverage, double *parts,
                        double *out, void *stream);

/* Row i of the table times by[i], or over rest of by[i]. */
int circe__cuda_scale_rows(double *table, int64_t n, int64_t cols, const double *by, int over_rest, void *stream);

/* out (n) := unit^2 + sum_k Q_k^2 inverse_k. */
int circe__cuda_row_leverage(const double *Q, int64_t n, int64_t rank, const double *unit, const double *inverse,
                             double *out, void *stream);

/* error[l n_all + i], l up to ridges: squared leave-one-out residuals of row i under ridge l, whose predictions are
 * means (n, ridges columns); error[ridges n_all + i] of the mean alone. inverse (ridges, rank). */
int circe__cuda_row_loo(const double *Q, int64_t rank, const double *unit, const double *target, int64_t ld,
                        int64_t columns, const double *inverse, const double *means, int64_t ridges, int64_t n,
                        int64_t n_all, double *error, void *stream);

/* out (n, cols) := target (n, ldt) - rest of the leverage times noise (n, ldn). */
int circe__cuda_fitted(const double *target, int64_t ldt, const double *noise, int64_t ldn, const double *leverage,
                       int64_t n, int64_t cols, double *out, void *stream);

/* v[i] := |left_i|^2 |noise_i|^2, v[n + i] its square. */
int circe__cuda_carried(const double *left, int64_t p, const double *noise, int64_t q, int64_t n, double *v,
                        void *stream);

/* C (n, cols): columns [first, first + cols) of left_i (x) noise_i. */
int circe__cuda_row_products(const double *left, int64_t p, const double *noise, int64_t q, int64_t n, int64_t first,
                             int64_t cols, double *C, void *stream);

/* signs (draws, rows): 1 where bit (i % 32) of words[d each + i / 32] is set, else -1, i from `row` on, a multiple of
 * 32. */
int circe__cuda_signs(const uint32_t *words, int64_t each, int64_t row, int64_t rows, int64_t draws, double *signs,
                      void *stream);

/* null[d] := null[d] + |sums_d|^2 or, unless inverse (cols) is NULL, the larger of null[d] and |sums_d| inverse; sums
 * (draws, cols). */
int circe__cuda_gather_draws(const double *sums, int64_t draws, int64_t cols, const double *inverse, double *null,
                             void *stream);

#ifdef __cplusplus
}
#endif
