/* The median heuristic: sigma2 = (median pairwise distance)^2.
 *
 * Exact up to SUBSET rows (2 million pairs); beyond, on a subset drawn with a fixed seed, whose median of pairs has a
 * relative error of about 1/sqrt(SUBSET). The median of the squared distances is the square of the median.
 *
 * Distances are scaled by a power of two near the largest number, which is exact and keeps their squares from
 * overflowing or vanishing. If the width itself overflows or vanishes, it is refused: a kernel of width infinity or 0
 * sees nothing. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#include "core/settings.h"

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

/* ---- selection in one -------------------------------------------------------------------------------------------- */

/* The k-th smallest has those before it on its left. */
static double median_here(double *v, int64_t n) {
    double upper = kth_smallest(v, n, n / 2), lower = 0.0;
    if (n % 2 == 1) return upper;
    for (int64_t i = 0; i < n / 2; i++) lower = fmax(lower, v[i]);
    return 0.5 * (lower + upper);
}

/* ---- selection in parts ------------------------------------------------------------------------------------------ */

/* Numbers of at least 0 are ordered as their bits are. Two counts of all numbers, by the exponent and then by the first
 * bits of the fraction, leave a few that the k-th smallest is among. */
enum { BINS = 2048, EXPONENT = 52, FRACTION = 41, LEAST = 20000 };

typedef struct selection {
    const double *v;
    int64_t n, parts;
    int64_t exponent; /* -1: count these; else count fractions of this exponent */
    int64_t *counts;  /* (parts, BINS) */
} selection;

static int64_t bits_at(double v, int shift) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (int64_t)(bits >> shift);
}

/* Neighbours often fall into one bin: several counts, so that none waits for the one before it, and no branch that
 * depends on the numbers. */
static void run_count(void *user, int64_t part) {
    enum { WAYS = 4 };
    const selection *s = user;
    int64_t *counts = s->counts + part * BINS, end = circe__cut(s->n, s->parts, part + 1);
    uint32_t ways[WAYS][BINS + 1]; /* the last one: of another exponent */
    memset(ways, 0, sizeof ways);
    for (int64_t i = circe__cut(s->n, s->parts, part); i < end; i++) {
        int64_t exponent = bits_at(s->v[i], EXPONENT), fraction = bits_at(s->v[i], FRACTION) % BINS;
        int64_t bin = s->exponent < 0 ? exponent : exponent == s->exponent ? fraction : BINS;
        ways[i % WAYS][bin]++;
    }
    for (int64_t bin = 0; bin < BINS; bin++) {
        counts[bin] = 0;
        for (int way = 0; way < WAYS; way++) counts[bin] += ways[way][bin];
    }
}

/* The bin that holds the k-th smallest of those counted; k becomes its place among those in the bin. */
static int64_t bin_of(selection *s, int threads, int64_t *k) {
    circe__run_on(threads, s->parts, run_count, s);
    for (int64_t bin = 0; bin < BINS; bin++) {
        int64_t count = 0;
        for (int64_t part = 0; part < s->parts; part++) count += s->counts[part * BINS + bin];
        if (*k < count) return bin;
        *k -= count;
    }
    return BINS - 1;
}

/* The k-th smallest of v[0..n) and, if before is not NULL, the one before it; few (n) is scratch. */
static double select_kth(selection *s, int threads, int64_t k, double *few, double *before) {
    int64_t held = 0, place = k;
    s->exponent = -1;
    int64_t exponent = bin_of(s, threads, &place);
    s->exponent = exponent;
    int64_t key = exponent * BINS + bin_of(s, threads, &place);
    for (int64_t i = 0; i < s->n; i++)
        if (bits_at(s->v[i], FRACTION) == key) few[held++] = s->v[i];
    double found = kth_smallest(few, held, place);
    if (before != NULL && place > 0) *before = kth_smallest(few, held, place - 1);
    if (before != NULL && place == 0) *before = select_kth(s, threads, k - 1, few, NULL);
    return found;
}

enum { SAMPLE = 512, APART = 48 }; /* three standard deviations of a place in the sample are 34 */

/* few := those of v[0..*n), which may be few itself, that lie between two numbers of a sample about the k-th smallest;
 * *n and *k then count among these. false where the k-th and the one before it are not both among them. */
static bool narrow(const double *v, double *few, int64_t *n, int64_t *k) {
    double sample[SAMPLE];
    int64_t held = 0, below = 0, step = *n / SAMPLE, place = *k * SAMPLE / *n;
    for (int64_t i = 0; i < SAMPLE; i++) sample[i] = v[i * step + (i * 7919) % step];
    double low = kth_smallest(sample, SAMPLE, circe__max(place - APART, 0));
    double high = kth_smallest(sample, SAMPLE, circe__min(place + APART, SAMPLE - 1));
    for (int64_t i = 0; i < *n; i++) {
        double own = v[i];
        few[held] = own;
        held += (own >= low) & (own <= high); /* no branch that depends on the numbers */
        below += own < low;
    }
    *n = held;
    *k -= below;
    return *k >= 1 && *k < held;
}

/* *found := the median by passes that each keep a fifth of the numbers; false if it slips through, or n is small. few
 * (n) is scratch. */
static bool median_between(const double *v, int64_t n, double *few, double *found) {
    int64_t held = n, before = 2 * n, k = n / 2;
    if (n < 8 * SAMPLE) return false;
    for (const double *from = v; held >= 8 * SAMPLE && held <= before / 2; from = few) { /* ties end it early */
        before = held;
        if (!narrow(from, few, &held, &k)) return false;
    }
    *found = kth_smallest(few, held, k);
    if (n % 2 == 0) *found = 0.5 * (*found + kth_smallest(few, held, k - 1));
    return true;
}

static double median(selection *s, int threads, double *few) {
    double found;
    if (s->parts == 1 && median_between(s->v, s->n, few, &found)) return found;
    double lower = 0.0, upper = select_kth(s, threads, s->n / 2, few, s->n % 2 == 1 ? NULL : &lower);
    return s->n % 2 == 1 ? upper : 0.5 * (lower + upper);
}

static int64_t drop_zeros(double *v, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (v[i] > 0.0) v[kept++] = v[i];
    return kept;
}

double circe__median_of_squares(double *v, int64_t n) {
    double found = n > 0 ? median_here(v, n) : 0.0;
    if (found > 0.0 || n < 1) return found;
    int64_t kept = drop_zeros(v, n);
    return kept > 0 ? median_here(v, kept) : 0.0;
}

/* ---- distances --------------------------------------------------------------------------------------------------- */

typedef struct distances {
    const double *points; /* (cols, n) */
    int64_t n, cols;
    double *squares; /* of row i with those before it, from i (i - 1) / 2 on */
} distances;

enum { TOGETHER = 4 }; /* columns in one pass over the pairs */

/* out[j] (rows) += the squares of own[c] - columns[c][j] over up to TOGETHER columns, which are `ld` apart. */
static void add_squares(const double *own, const double *columns, int64_t ld, int64_t cols, int64_t rows,
                        double *restrict out) {
    const double *a = columns, *b = a + ld, *c = b + ld, *d = c + ld;
    if (cols == TOGETHER) {
        double p = own[0], q = own[ld], r = own[2 * ld], s = own[3 * ld];
        for (int64_t j = 0; j < rows; j++)
            out[j] = out[j] + (p - a[j]) * (p - a[j]) + (q - b[j]) * (q - b[j]) + (r - c[j]) * (r - c[j]) +
                     (s - d[j]) * (s - d[j]);
        return;
    }
    for (int64_t k = 0; k < cols; k++)
        for (int64_t j = 0; j < rows; j++)
            out[j] += (own[k * ld] - columns[k * ld + j]) * (own[k * ld] - columns[k * ld + j]);
}

/* Rows from both ends, which makes the ranges equal. */
static void run_distances(void *user, int64_t first, int64_t end) {
    const distances *d = user;
    for (int64_t k = first; k < end; k++) {
        int64_t i = k % 2 == 0 ? k / 2 : d->n - 1 - k / 2;
        double *out = d->squares + i * (i - 1) / 2;
        memset(out, 0, (size_t)i * sizeof *out);
        for (int64_t c = 0; c < d->cols; c += TOGETHER)
            add_squares(d->points + c * d->n + i, d->points + c * d->n, d->n, circe__min(TOGETHER, d->cols - c), i,
                        out);
    }
}

/* The exponent of the largest number, by which all are scaled; 0 if squares are safe as they are. */
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
    return circe_fail(CIRCE_ERR_VALUE,
                      "the median distance of the points is %.3g, whose square no double can hold; %s them by %.0e",
                      ldexp(sqrt(scaled), exponent), exponent > 0 ? "divide" : "multiply",
                      ldexp(1.0, exponent > 0 ? exponent : -exponent));
}

circe_status circe_median_sigma2(circe_context *context, const circe_mat *points, int64_t first_col, int64_t n_cols,
                                 double *sigma2) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || sigma2 == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and sigma2 must not be NULL");
    circe_status status = circe__check_data(points, "the points of the median heuristic", 2);
    if (status != CIRCE_OK) return status;
    if (n_cols == -1) n_cols = points->cols - first_col;
    if (first_col < 0 || n_cols < 1 || n_cols > points->cols - first_col)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "the columns for the median heuristic lie outside the %lld columns of the points",
                          (long long)points->cols);

    int64_t n = circe__min(points->rows, SUBSET), pairs = n * (n - 1) / 2;
    int threads = context->threads;
    selection s = {.n = pairs, .parts = circe__count_parts(threads, pairs, LEAST)};
    CIRCE__OWNED int64_t *rows = circe__alloc(context, n, sizeof *rows);
    CIRCE__OWNED double *copy = circe__alloc(context, n * n_cols, sizeof *copy);
    double *squares = circe__alloc(context, pairs, sizeof *squares);
    CIRCE__OWNED double *few = circe__alloc(context, pairs, sizeof *few);
    s.counts = circe__alloc(context, s.parts * BINS, sizeof *s.counts);
    if (rows == NULL || copy == NULL || squares == NULL || few == NULL || s.counts == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    circe__random_subset(threads, (circe_random){.seed = 0, .stream = 0x6d656469616eu}, points->rows, n, rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < n_cols; c++) copy[c * n + i] = circe__at(points, rows[i], first_col + c);
    int exponent = scale_of(copy, n * n_cols);
    for (int64_t e = 0; exponent != 0 && e < n * n_cols; e++) copy[e] = ldexp(copy[e], -exponent);
    distances d = {copy, n, n_cols, squares};
    circe__run_ranges(threads, n, LEAST / n + 1, run_distances, &d);
    s.v = squares;
    *sigma2 = median(&s, threads, few);
    if (*sigma2 == 0.0) {
        s.n = drop_zeros(squares, pairs);
        if (s.n > 0) *sigma2 = median(&s, threads, few);
    }
    if (*sigma2 > 0.0)
        status = unscale(*sigma2, exponent, sigma2);
    else
        status =
            circe_fail(CIRCE_ERR_VALUE, "all points are equal, so the median heuristic finds no width; give sigma2");

done:
    circe__free(context, squares);
    circe__free(context, s.counts);
    return status;
}
