/* Moments and spectrum of the null |left' diag(g) noise|^2 = g' W g, W_ij = (left_i . left_j) (noise_i . noise_j).
 *
 * For normal g it is a weighted sum of chi-squares, the weights being the eigenvalues of W (or of C'C, C_i = left_i (x)
 * noise_i, which has the same): mean trace W, variance 2 |W|_F^2. The eigenvalues of W/n converge to those of the
 * covariance of left (x) noise, so beyond a few thousand rows, whose n^2 pairs take long, a random part of the rows
 * gives them. The mean is always exact and carries the scale. */
#include <math.h>
#include <string.h>

#include "inference/inference_parts.h"

enum { ROWS = 64, COLUMNS = 96, EXACT = 1024, HELD = 16384 };

/* Copies some rows of the pair to separate tables: all of them if there are at most `most`. */
typedef struct sample {
    int64_t n;
    const double *left, *noise;
    double *owned;
} sample;

static circe_status take_sample(const circe__data *data, const circe__pair *pair, int64_t most, sample *s) {
    int64_t p = pair->p, q = pair->q;
    *s = (sample){pair->n, pair->left.data, pair->noise.data, NULL};
    if (pair->n <= most && pair->left.device == NULL) return CIRCE_OK;
    most = circe__min(most, pair->n);
    int64_t *index = circe__alloc(data->context, most, sizeof *index);
    double *owned = circe__alloc(data->context, most * (p + q), sizeof *owned);
    if (index == NULL || owned == NULL) {
        circe__free(data->context, index);
        circe__free(data->context, owned);
        return CIRCE_ERR_MEMORY;
    }
    circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, pair->n, most, index);
    circe_status status = circe__rows_of(&pair->left, index, most, owned);
    if (status == CIRCE_OK) status = circe__rows_of(&pair->noise, index, most, owned + most * p);
    *s = (sample){most, owned, owned + most * p, owned};
    circe__free(data->context, index);
    return status;
}

/* W of rows [row, row + rows) against all of the sample's; K is scratch of the same size. */
static void weight_rows(const circe__data *data, const circe__pair *pair, const sample *s, int64_t row, int64_t rows,
                        double *W, double *K) {
    const circe__algebra *algebra = data->context->backend->algebra;
    int64_t p = pair->p, q = pair->q, m = s->n;
    algebra->gemm(0, 1, rows, m, p, 1.0, s->left + row * p, p, s->left, p, 0.0, W, m);
    algebra->gemm(0, 1, rows, m, q, 1.0, s->noise + row * q, q, s->noise, q, 0.0, K, m);
    for (int64_t e = 0; e < rows * m; e++) W[e] *= K[e];
}

static double diagonal_at(const circe__pair *pair, int64_t i) {
    return circe__square_norm(pair->left.data + i * pair->p, pair->p) *
           circe__square_norm(pair->noise.data + i * pair->q, pair->q);
}

/* W is symmetric: this is its part left of the diagonal, in blocks of ROWS rows. The sums of the blocks are added in
 * their order: the same bits on any number of threads. Single precision is enough for a sum of squares of many pairs,
 * whose relative error is that of one number, 1e-7. Both sides are in units of a power of two near their largest
 * number, so that no product is lost. */
typedef struct squares {
    const circe__data *data;
    const circe__pair *pair;
    int64_t n, blocks;
    float *left, *noise; /* (n, p), (n, q) */
    double *off;         /* (blocks): sums of squares left of the diagonal */
} squares;

/* to (size) := from over a power of two, whose exponent is returned. */
static int to_single(const double *from, int64_t size, float *to) {
    double largest = 0.0;
    for (int64_t e = 0; e < size; e++) largest = fabs(from[e]) > largest ? fabs(from[e]) : largest;
    int exponent = largest > 0.0 && isfinite(largest) ? ilogb(largest) : 0;
    double scale = ldexp(1.0, -exponent);
    for (int64_t e = 0; e < size; e++) to[e] = (float)(from[e] * scale);
    return exponent;
}

/* Those of rows [row, row + rows) and columns [col, col + cols). */
static double square_tile(const squares *w, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    const circe__algebra *algebra = w->data->context->backend->algebra;
    int64_t p = w->pair->p, q = w->pair->q;
    float W[ROWS * COLUMNS], K[ROWS * COLUMNS];
    double sum = 0.0;
    algebra->gemm_f32(0, 1, rows, cols, p, 1.0f, w->left + row * p, p, w->left + col * p, p, 0.0f, W, cols);
    algebra->gemm_f32(0, 1, rows, cols, q, 1.0f, w->noise + row * q, q, w->noise + col * q, q, 0.0f, K, cols);
    for (int64_t i = 0; i < rows; i++) {
        double square = 0.0;
        int64_t end = circe__min(cols, row + i - col);
#pragma omp simd reduction(+ : square)
        for (int64_t j = 0; j < end; j++) {
            double v = (double)(W[i * cols + j] * K[i * cols + j]);
            square += v * v;
        }
        sum += square;
    }
    return sum;
}

/* The last blocks are the longest and come first. */
static void run_squares(void *user, int64_t part) {
    const squares *q = user;
    int64_t b = q->blocks - 1 - part, row = b * ROWS, rows = circe__min(ROWS, q->n - row);
    q->off[b] = 0.0;
    for (int64_t col = 0; col < row + rows; col += COLUMNS)
        q->off[b] += square_tile(q, row, rows, col, circe__min(COLUMNS, row + rows - col));
}

/* The sum of squares of W beside its diagonal. */
static circe_status square_sums(const circe__data *data, const circe__pair *pair, const sample *s, double *sum) {
    const circe_context *context = data->context;
    int64_t p = pair->p, q = pair->q;
    squares w = {data, pair, s->n, .blocks = (s->n + ROWS - 1) / ROWS};
    w.off = circe__alloc(context, w.blocks, sizeof *w.off);
    w.left = circe__alloc(context, s->n * (p + q), sizeof *w.left);
    circe_status status = w.off == NULL || w.left == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        w.noise = w.left + s->n * p;
        int exponent = to_single(s->left, s->n * p, w.left) + to_single(s->noise, s->n * q, w.noise);
        circe_context_run(context, w.blocks, run_squares, &w);
        for (int64_t b = 0; b < w.blocks; b++) *sum += ldexp(2.0 * w.off[b], 4 * exponent);
    }
    circe__free(context, w.left);
    circe__free(context, w.off);
    return status;
}

/* Sums over the diagonal of W and over its squares, in blocks that are added in their order. */
enum { DIAGONAL_BLOCKS = 32 };

typedef struct diagonals {
    const circe__pair *pair;
    double trace[DIAGONAL_BLOCKS], square[DIAGONAL_BLOCKS];
} diagonals;

static void run_diagonal(void *user, int64_t block) {
    diagonals *d = user;
    double trace = 0.0, square = 0.0;
    int64_t end = circe__cut(d->pair->n, DIAGONAL_BLOCKS, block + 1);
    for (int64_t i = circe__cut(d->pair->n, DIAGONAL_BLOCKS, block); i < end; i++) {
        double w = diagonal_at(d->pair, i);
        trace += w;
        square += w * w;
    }
    d->trace[block] = trace;
    d->square[block] = square;
}

static circe_status sum_diagonal(const circe__data *data, const circe__pair *pair, double *trace, double *square) {
    diagonals d = {.pair = pair};
    double sums[2] = {0.0, 0.0};
    if (pair->left.device != NULL) {
        circe_status status = pair->p * pair->q == 0 ? CIRCE_OK : circe__rows_carried(pair, sums);
        *trace = sums[0];
        *square = sums[1];
        return status;
    }
    int64_t threads = circe_context_parts(data->context, pair->n * (pair->p + pair->q + 8), 1 << 14);
    circe__run_on((int)threads, DIAGONAL_BLOCKS, run_diagonal, &d);
    *trace = *square = 0.0;
    for (int64_t block = 0; block < DIAGONAL_BLOCKS; block++) {
        *trace += d.trace[block];
        *square += d.square[block];
    }
    return CIRCE_OK;
}

circe_status circe__moments(const circe__data *data, const circe__pair *pair, int64_t most, double *mean,
                            double *variance) {
    int64_t n = pair->n;
    double trace, diagonal, off = 0.0;
    sample s = {0};
    circe_status status = sum_diagonal(data, pair, &trace, &diagonal);
    *mean = trace;
    *variance = 0.0;
    if (status != CIRCE_OK || pair->p == 0 || pair->q == 0) return status;
    status = take_sample(data, pair, most, &s);
    if (status == CIRCE_OK) status = square_sums(data, pair, &s, &off);
    if (status != CIRCE_OK) {
        circe__free(data->context, s.owned);
        return status;
    }
    double pairs = (double)n * (double)(n - 1) / ((double)s.n * (double)(s.n - 1));
    *variance = 2.0 * (diagonal + off * pairs);
    circe__free(data->context, s.owned);
    return CIRCE_OK;
}

/* C (p q) := left (x) noise of a row. */
static void multiply_out(const double *restrict left, int64_t p, const double *restrict noise, int64_t q,
                         double *restrict C) {
    for (int64_t a = 0; a < p; a++)
        for (int64_t b = 0; b < q; b++) C[a * q + b] = left[a] * noise[b];
}

/* The Gram matrix C'C (p q, p q), lower triangle, in blocks of rows. */
static circe_status product_gram(const circe__data *data, const circe__pair *pair, double *gram) {
    int64_t p = pair->p, q = pair->q, size = p * q;
    const circe__rows_pair there = circe__rows_pair_of(pair);
    if (pair->left.device != NULL) return pair->left.device->ops->product_gram(pair->left.device, &there, gram);
    int64_t most = circe__max(ROWS, HELD / circe__max(size, 1));
    CIRCE__OWNED double *C = circe__alloc(data->context, most * size, sizeof *C);
    if (C == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t row = 0; row < pair->n; row += most) {
        int64_t rows = circe__min(most, pair->n - row);
        for (int64_t i = 0; i < rows; i++)
            multiply_out(pair->left.data + (row + i) * p, p, pair->noise.data + (row + i) * q, q, C + i * size);
        data->context->backend->algebra->gram_update(size, rows, C, size, row == 0 ? 0.0 : 1.0, gram, size);
    }
    return CIRCE_OK;
}

static circe_status sample_gram(const circe__data *data, const circe__pair *pair, const sample *s, double *gram) {
    CIRCE__OWNED double *K = circe__alloc(data->context, s->n * s->n, sizeof *K);
    if (K == NULL) return CIRCE_ERR_MEMORY;
    weight_rows(data, pair, s, 0, s->n, gram, K);
    double scale = (double)pair->n / (double)s->n;
    for (int64_t e = 0; e < s->n * s->n; e++) gram[e] *= scale;
    return CIRCE_OK;
}

circe_status circe__null_weights(const circe__data *data, const circe__pair *pair, double **weights, int64_t *n) {
    const circe_context *context = data->context;
    bool products = pair->p * pair->q <= circe__min(pair->n, EXACT);
    sample s = {0};
    *weights = NULL;
    *n = 0;
    circe_status status = products ? CIRCE_OK : take_sample(data, pair, EXACT, &s);
    if (status != CIRCE_OK) {
        circe__free(context, s.owned);
        return status;
    }
    int64_t size = products ? pair->p * pair->q : s.n;
    CIRCE__OWNED double *gram = circe__alloc(context, 3 * size * size + 6 * size + 8, sizeof *gram);
    double *w = circe__alloc(context, size + 1, sizeof *w);
    CIRCE__OWNED int *iwork = circe__alloc(context, 3 + 5 * size, sizeof *iwork);
    status = gram == NULL || w == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && size > 0)
        status = products ? product_gram(data, pair, gram) : sample_gram(data, pair, &s, gram);
    if (status == CIRCE_OK && size > 0 &&
        context->backend->algebra->eigenvalues(size, gram, w, gram + size * size, iwork) != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the null did not converge");
    for (int64_t k = 0; status == CIRCE_OK && k < size; k++) w[k] = fmax(w[k], 0.0);
    for (int64_t k = 0; status == CIRCE_OK && k < size / 2; k++) { /* ascending to descending */
        double held = w[k];
        w[k] = w[size - 1 - k];
        w[size - 1 - k] = held;
    }
    circe__free(context, s.owned);
    if (status != CIRCE_OK) {
        circe__free(context, w);
        return status;
    }
    *weights = w;
    *n = size;
    return CIRCE_OK;
}
