/* RCoT of many rows, rows of equal y alone: functions of y are constant there, so nothing is regressed.
 *
 *     within        sum over the values of y of sum_i (x_i - mean) (x) (z_i - mean)
 *     E |within|^2  over all orders of z's rows within equal y: sum of |x - mean|^2 |z - mean|^2 / (rows - 1)
 *
 * The distribution is taken to be as wide against its mean as the null's. Rows are taken value by value, in blocks that
 * may cut a value's rows in two. */
#include <string.h>

#include "inference/rcot_parts.h"

enum {
    BLOCK = 256, /* rows at a time: their features stay in the second cache */
    CHUNKS = 64, /* partial sums, added in order: the same bits for any number of threads */
};

typedef struct looking_within {
    const circe__rcot_layout *l;
    const circe__strata *equal;
    int64_t chunks, size; /* size: numbers in a chunk's sums */
    double *sums;         /* (chunks, size): within (fx, fz), its mean square */
    double *scratch;      /* (chunks, BLOCK, columns of x and z, fx, fz) */
} looking_within;

/* Features (rows, f) of a variable, of the rows at `index`; points: scratch. */
static void features_at(const circe__fourier *f, const circe__variable *v, const int64_t *index, int64_t rows,
                        const double *root, double *points, double *out) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(points + i * v->dim, v->points + index[i] * v->dim, (size_t)v->dim * sizeof *points);
    circe__fourier_features(f, points, root, rows, out, f->n);
}

/* Subtracts the means of the columns. Returns the sum of squares. */
static double about_means(double *a, int64_t rows, int64_t cols) {
    for (int64_t c = 0; c < cols; c++) {
        double mean = 0.0;
        for (int64_t i = 0; i < rows; i++) mean += a[i * cols + c] / (double)rows;
        for (int64_t i = 0; i < rows; i++) a[i * cols + c] -= mean;
    }
    return circe__square_norm(a, rows * cols);
}

static void add_value(int64_t rows, double *x, int64_t fx, double *z, int64_t fz, double *sums) {
    if (rows < 2) return;
    sums[fx * fz] += about_means(x, rows, fx) * about_means(z, rows, fz) / (double)(rows - 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t a = 0; a < fx; a++)
            for (int64_t b = 0; b < fz; b++) sums[a * fz + b] += x[i * fx + a] * z[i * fz + b];
}

static void run_within(void *user, int64_t chunk) {
    const looking_within *w = user;
    const circe__rcot_layout *l = w->l;
    const circe__data *d = l->data;
    int64_t n = d->n, fx = l->fx, fz = l->fz, wide = d->x.dim + d->z.dim + fx + fz;
    double *x = w->scratch + chunk * BLOCK * (wide + 1), *z = x + BLOCK * fx, *points = z + BLOCK * fz;
    double *one = points + BLOCK * (d->x.dim + d->z.dim), *sums = w->sums + chunk * w->size;
    for (int64_t i = 0; i < BLOCK; i++) one[i] = 1.0;
    for (int64_t first = BLOCK * chunk; first < n; first += BLOCK * w->chunks) {
        const int64_t *row = w->equal->rows + first, rows = circe__min(BLOCK, n - first);
        int64_t begin = 0;
        features_at(&l->x, &d->x, row, rows, one, points, x);
        features_at(&l->z, &d->z, row, rows, one, points, z);
        for (int64_t i = 1; i <= rows; i++) {
            const double *y = d->y.points;
            int64_t dim = d->y.dim;
            if (i < rows && memcmp(y + row[i] * dim, y + row[i - 1] * dim, (size_t)dim * sizeof *y) == 0) continue;
            add_value(i - begin, x + begin * fx, fx, z + begin * fz, fz, sums);
            begin = i;
        }
    }
}

circe_status circe__rcot_within(const circe__rcot_layout *l, circe_test_result *result) {
    const circe_context *context = l->data->context;
    circe__data plain = *l->data;
    plain.by_value = false; /* of few values, random features do not make means either */
    circe__strata equal = {0};
    looking_within w = {l, &equal, circe__min(CHUNKS, (plain.n + BLOCK - 1) / BLOCK), l->fx * l->fz + 1, NULL, NULL};
    if (!circe__looks_within(&plain, result)) return CIRCE_OK;
    circe_status status = circe__equal_rows(&plain, &equal);
    if (status != CIRCE_OK || equal.k == 0) goto done;
    w.sums = circe__calloc(context, w.chunks * w.size, sizeof *w.sums);
    w.scratch =
        circe__alloc(context, w.chunks * BLOCK * (plain.x.dim + plain.z.dim + l->fx + l->fz + 1), sizeof *w.scratch);
    status = w.sums == NULL || w.scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status != CIRCE_OK) goto done;
    circe_context_run(context, w.chunks, run_within, &w);
    for (int64_t c = 1; c < w.chunks; c++)
        for (int64_t e = 0; e < w.size; e++) w.sums[e] += w.sums[c * w.size + e];
    double mean = w.sums[w.size - 1], wide = result->null_sd / result->null_mean;
    if (mean > 0.0 && result->null_mean > 0.0) {
        double value = circe__square_norm(w.sums, w.size - 1);
        result->within_p = circe__clip_p(circe__moment_tail(mean, wide * wide * mean * mean, value));
        result->within_share = circe__share_within(&equal, plain.n);
    }

done:
    circe__strata_free(context, &equal);
    circe__free(context, w.sums);
    circe__free(context, w.scratch);
    return status;
}
