/* Whether a kernel matrix is of low rank, from a sample of its rows.
 *
 * The share e(k) of the trace that k pivots leave falls like exp(-c k^p): p is 2 / d for a gaussian kernel on a bounded
 * piece of d dimensions, and smaller for heavy tails. Two values, at half and at all of PIVOTS pivots among SAMPLE
 * random rows, give c and p, and so what max_rank pivots would leave:
 *
 *     log e(R) = log e(k) (R / k)^p,   p = log2(log e(k) / log e(k / 2)),  at most 2
 *
 * If that is above the tolerance, the fit is refused. The sample is optimistic: outlying rows, which need pivots of
 * their own, are rare in it, and the best pivots leave less of few rows than of many. So every fit that is refused
 * would have failed after minutes, and a fit that is attempted may still fail. A variable with few different values has
 * low rank however narrow its kernel is, so it is not judged. O(SAMPLE PIVOTS^2). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cme/cme_parts.h"

enum { SAMPLE = 3072, PIVOTS = 768, VALUES_SAMPLE = 16384 };

/* A random sample of rows; the caller frees it. */
static double *sample_rows(const circe_context *context, const double *points, int64_t n, int64_t dim, int64_t count,
                           uint64_t seed) {
    CIRCE__OWNED int64_t *rows = circe__alloc(context, count, sizeof *rows);
    double *sample = circe__alloc(context, count * dim, sizeof *sample);
    if (rows != NULL && sample != NULL) {
        circe__random_subset(context->threads, (circe_random){seed, 0x6a75646765u}, n, count, rows);
        for (int64_t i = 0; i < count; i++)
            memcpy(sample + i * dim, points + rows[i] * dim, (size_t)dim * sizeof *sample);
    } else {
        circe__free(context, sample);
        sample = NULL;
    }
    return sample;
}

static int ascending(const void *a, const void *b) {
    uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    return (i > k) - (i < k);
}

/* How many different rows there are, told apart by a 64-bit sum of their bits. -1: no memory. */
static int64_t count_values(const circe_context *context, const double *points, int64_t n, int64_t dim) {
    CIRCE__OWNED uint64_t *sums = circe__alloc(context, n, sizeof *sums);
    int64_t different = 1;
    if (sums == NULL) return -1;
    for (int64_t i = 0; i < n; i++) {
        uint64_t sum = 14695981039346656037u;
        for (int64_t c = 0; c < dim; c++) {
            uint64_t bits;
            memcpy(&bits, &points[i * dim + c], sizeof bits);
            sum = (sum ^ bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u;
            sum ^= sum >> 32;
        }
        sums[i] = sum;
    }
    qsort(sums, (size_t)n, sizeof *sums, ascending);
    for (int64_t i = 1; i < n; i++) different += sums[i] != sums[i - 1];
    return different;
}

static circe_status few_values(const circe_context *context, const double *points, int64_t n, int64_t dim,
                               int64_t max_rank, uint64_t seed, bool *few) {
    int64_t count = circe__min(n, VALUES_SAMPLE);
    double *sample = sample_rows(context, points, n, dim, count, seed);
    int64_t different = sample != NULL ? count_values(context, sample, count, dim) : -1;
    circe__free(context, sample);
    *few = different <= max_rank;
    return different < 0 ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

/* The logarithm of what max_rank pivots would leave. */
static double predict(const double left[2], int64_t max_rank) {
    double half = log(left[0]), all = log(left[1]);
    if (!(half < 0.0) || !(all < half)) return all; /* nothing falls */
    double p = fmin(log2(all / half), 2.0);
    return all * pow((double)max_rank / PIVOTS, p);
}

static circe_status refuse(const char *name, double sigma2, double left, double expected, int64_t max_rank,
                           double tolerance) {
    char width[48] = "";
    if (sigma2 > 0.0) snprintf(width, sizeof width, " at sigma2 %g", sigma2);
    return circe_fail(CIRCE_ERR_RANK,
                      "the kernel matrix of %s%s does not have low rank: in a sample, %d pivots leave a share of %.1e "
                      "of its trace; the %lld pivots allowed would leave about %.1e, and the tolerance is %.1e; use a "
                      "larger sigma2, fewer rows (a dense fit needs no low rank), or a larger tolerance",
                      name, width, PIVOTS, left, (long long)max_rank, expected, tolerance);
}

circe_status circe__judge_rank(const circe_context *context, const circe_kernel *kernel, const double *points,
                               int64_t n, int64_t dim, double tolerance, int64_t max_rank, uint64_t seed, double sigma2,
                               const char *name) {
    static const int64_t ranks[2] = {PIVOTS / 2, PIVOTS};
    double left[2] = {0.0, 0.0};
    bool few = false;
    if (n <= SAMPLE || max_rank <= PIVOTS) return CIRCE_OK;
    circe_status status = few_values(context, points, n, dim, max_rank, seed, &few);
    if (status != CIRCE_OK || few) return status;
    circe__basis basis = {0};
    double *sample = sample_rows(context, points, n, dim, SAMPLE, seed);
    status = sample == NULL ? CIRCE_ERR_MEMORY : circe__basis_init(context, kernel, dim, name, &basis);
    if (status == CIRCE_OK) status = circe__basis_decay(&basis, sample, SAMPLE, 2, ranks, left);
    circe__basis_free(&basis);
    circe__free(context, sample);
    if (status != CIRCE_OK || left[1] <= tolerance) return status;
    double expected = predict(left, max_rank);
    return expected > log(tolerance) ? refuse(name, sigma2, left[1], exp(expected), max_rank, tolerance) : CIRCE_OK;
}
