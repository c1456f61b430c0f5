/* The median heuristic: sigma2 = (median pairwise distance)^2.
 *
 * Exact up to SUBSET rows (2 million pairs); beyond, on a subset drawn with a fixed seed, whose median of pairs has a
 * relative error of about 1/sqrt(SUBSET). The median of the squared distances is the square of the median.
 *
 * Distances are taken in units of a power of two near the largest number, which is exact: so their squares neither
 * overflow nor vanish. Where the width itself does, it is refused: a kernel of width infinity or 0 sees nothing. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"

enum { SUBSET = 2048 };

static void swap(double *a, double *b) {
    double kept = *a;
    *a = *b;
    *b = kept;
}

/* Hoare's selection: the k-th smallest of v[0..n), which it reorders. */
static double kth_smallest(double *v, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        double pivot = v[low + (high - low) / 2];
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do i++;
            while (v[i] < pivot);
            do j--;
            while (v[j] > pivot);
            if (i >= j) break;
            swap(&v[i], &v[j]);
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return v[k];
}

static double median(double *v, int64_t n) {
    double upper = kth_smallest(v, n, n / 2);
    if (n % 2 == 1) return upper;
    double lower = v[0];
    for (int64_t i = 1; i < n / 2; i++)
        if (v[i] > lower) lower = v[i];
    return 0.5 * (lower + upper);
}

static int64_t drop_zeros(double *v, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (v[i] > 0.0) v[kept++] = v[i];
    return kept;
}

/* The exponent of the largest number, by which all are scaled; 0 where squares are safe as they are. */
static int scale_of(const double *values, int64_t n) {
    const double safe = 0x1p300;
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(values[i]));
    return largest == 0.0 || (largest < safe && largest > 1.0 / safe) ? 0 : ilogb(largest);
}

/* sigma2 back in the units of the points. */
static circe_status unscale(double scaled, int exponent, double *sigma2) {
    *sigma2 = ldexp(scaled, 2 * exponent);
    if (isfinite(*sigma2) && (*sigma2 >= DBL_MIN || exponent == 0)) return CIRCE_OK;
    return circe__fail(CIRCE_ERR_VALUE,
                       "the median distance of the points is %.3g, whose square no double can hold; %s them by %.0e",
                       ldexp(sqrt(scaled), exponent), exponent > 0 ? "divide" : "multiply",
                       ldexp(1.0, exponent > 0 ? exponent : -exponent));
}

circe_status circe_median_sigma2(circe_context *context, const circe_mat *points, int64_t first_col, int64_t n_cols,
                                 double *sigma2) {
    if (context == NULL || sigma2 == NULL)
        return circe__fail(CIRCE_ERR_ARGUMENT, "context and sigma2 must not be NULL");
    circe_status status = circe__check_data(points, "the points of the median heuristic", 2);
    if (status != CIRCE_OK) return status;
    if (n_cols == -1) n_cols = points->cols - first_col;
    if (first_col < 0 || n_cols < 1 || n_cols > points->cols - first_col)
        return circe__fail(CIRCE_ERR_SHAPE, "the median heuristic was asked for columns outside the %lld there are",
                           (long long)points->cols);

    int64_t n = circe__min(points->rows, SUBSET), pairs = n * (n - 1) / 2, at = 0;
    int64_t *rows = circe__alloc(context, n, sizeof *rows);
    double *copy = circe__alloc(context, n * n_cols, sizeof *copy);
    double *squares = circe__alloc(context, pairs, sizeof *squares);
    if (rows == NULL || copy == NULL || squares == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    circe_random_subset((circe_random){.seed = 0, .stream = 0x6d656469616eu}, points->rows, n, rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < n_cols; c++) copy[i * n_cols + c] = circe__at(points, rows[i], first_col + c);
    int exponent = scale_of(copy, n * n_cols);
    for (int64_t e = 0; exponent != 0 && e < n * n_cols; e++) copy[e] = ldexp(copy[e], -exponent);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double square = 0.0;
            for (int64_t c = 0; c < n_cols; c++) {
                double difference = copy[i * n_cols + c] - copy[j * n_cols + c];
                square += difference * difference;
            }
            squares[at++] = square;
        }
    *sigma2 = median(squares, pairs);
    if (*sigma2 == 0.0) {
        int64_t distinct = drop_zeros(squares, pairs);
        if (distinct > 0) *sigma2 = median(squares, distinct);
    }
    if (*sigma2 > 0.0)
        status = unscale(*sigma2, exponent, sigma2);
    else
        status = circe__fail(CIRCE_ERR_VALUE,
                             "the points are all equal, so the median heuristic has no width to offer; give sigma2");

done:
    circe__free(context, rows);
    circe__free(context, copy);
    circe__free(context, squares);
    return status;
}
