/* The wild bootstrap: the statistic if every row's residual keeps its size and gets a random sign.
 *
 *     T* = |left' diag(e) noise|^2,   e_i = +-1,   left (n, p), noise (n, q)
 *
 * `left` is orthogonal to what the regressions can explain, so multiplying it with e o noise is regressing e o noise
 * again: each draw repeats the whole estimation (pair.c). All draws are one matrix product, in one of two forms:
 *
 *     products  C (n, p q), C_i = left_i (x) noise_i:  T*_d = |(e C)_d|^2,   2 draws n p q operations, C in blocks
 *     pairs     W (n, n) = left left' o noise noise':  T*_d = e_d' W e_d,    2 draws n^2, W in blocks of rows
 *
 * whichever is less. The sign of (draw, row) is a bit of the number at a fixed position of the stream. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"

enum {
    WORD = 32,           /* signs in one uniform number */
    BLOCK_ROWS = 512,    /* a multiple of WORD */
    BLOCK_COLUMNS = 512, /* of C at a time */
    PAIR_ROWS = 256,     /* of W at a time */
};

void circe__signs(uint64_t seed, uint64_t stream, int64_t total_rows, int64_t draw, int64_t draws, int64_t first,
                  int64_t n, double *out, int64_t ld) {
    enum { HELD = 64 };
    int64_t words = (total_rows + WORD - 1) / WORD, here = (n + WORD - 1) / WORD;
    circe_random generator = {seed, stream};
    for (int64_t d = 0; d < draws; d++)
        for (int64_t w = 0; w < here; w += HELD) {
            double uniform[HELD];
            int64_t count = circe__min(HELD, here - w);
            circe_random_uniform(generator, (uint64_t)((draw + d) * words + first / WORD + w), count, uniform);
            for (int64_t k = 0; k < count; k++) {
                uint32_t bits = (uint32_t)(uniform[k] * 4294967296.0);
                int64_t at = (w + k) * WORD, end = circe__min(at + WORD, n);
                for (int64_t i = at; i < end; i++) out[d * ld + i] = (bits >> (i - at)) & 1u ? 1.0 : -1.0;
            }
        }
}

int64_t circe__sign_words(int64_t n) { return (n + WORD - 1) / WORD; }

typedef struct wording {
    circe_random generator;
    int64_t words, draw;
    uint32_t *to;
} wording;

static void run_words(void *user, int64_t first, int64_t end) {
    enum { HELD = 256 };
    const wording *w = user;
    for (int64_t e = first; e < end; e += HELD) {
        double uniform[HELD];
        int64_t count = circe__min(HELD, end - e);
        circe_random_uniform(w->generator, (uint64_t)(w->draw * w->words + e), count, uniform);
        for (int64_t k = 0; k < count; k++) w->to[e + k] = (uint32_t)(uniform[k] * 4294967296.0);
    }
}

void circe__draw_words(const circe__data *data, uint64_t stream, int64_t n, int64_t draw, int64_t draws,
                       uint32_t *words) {
    enum { LEAST = 1 << 14 };
    wording w = {{data->options.seed, stream}, circe__sign_words(n), draw, words};
    circe__run_ranges(data->context->threads, draws * w.words, LEAST, run_words, &w);
}

typedef struct bootstrap {
    uint64_t stream;
    int64_t draws;
    double *of_blocks; /* (draws, blocks): signs of blocks of dependent rows; NULL: every row has its own */
} bootstrap;

/* The signs of rows [first, first + n). */
static void draw_signs(const circe__data *data, const bootstrap *b, int64_t total, int64_t first, int64_t n,
                       double *out, int64_t ld) {
    if (b->of_blocks != NULL)
        circe__spread_signs(data, b->of_blocks, b->draws, first, n, out, ld);
    else
        circe__signs(data->options.seed, b->stream, total, 0, b->draws, first, n, out, ld);
}

/* Adds what a block of columns of C contributes. sums (draws, columns). */
static void gather_draws(const double *sums, const double *inverse, int64_t draws, int64_t columns, double *null) {
    for (int64_t d = 0; d < draws; d++) {
        const double *row = sums + d * columns;
        if (inverse == NULL)
            null[d] += circe__square_norm(row, columns);
        else
            for (int64_t k = 0; k < columns; k++) null[d] = fmax(null[d], fabs(row[k]) * inverse[k]);
    }
}

/* C (n, columns): columns [first, first + columns) of left_i (x) noise_i for rows [row, row + n). */
static void product_block(const circe__pair *pair, int64_t row, int64_t n, int64_t first, int64_t columns, double *C) {
    int64_t p = pair->p, q = pair->q;
    for (int64_t i = 0; i < n; i++) {
        const double *a = pair->left.data + (row + i) * p, *b = pair->noise.data + (row + i) * q;
        for (int64_t k = 0, l = first / q, m = first % q; k < columns; k++) {
            C[i * columns + k] = a[l] * b[m];
            if (++m == q) {
                m = 0;
                l++;
            }
        }
    }
}

static circe_status by_products(const circe__data *data, const circe__pair *pair, const double *inverse,
                                const bootstrap *b, double *null) {
    const circe_context *context = data->context;
    int64_t draws = b->draws, n = pair->n, all = pair->p * pair->q, columns = circe__min(all, BLOCK_COLUMNS);
    CIRCE__OWNED double *C = circe__alloc(context, BLOCK_ROWS * columns, sizeof *C);
    CIRCE__OWNED double *signs = circe__alloc(context, draws * BLOCK_ROWS, sizeof *signs);
    CIRCE__OWNED double *sums = circe__alloc(context, draws * columns, sizeof *sums);
    circe_status status = C == NULL || signs == NULL || sums == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t first = 0; status == CIRCE_OK && first < all; first += BLOCK_COLUMNS) {
        int64_t here = circe__min(BLOCK_COLUMNS, all - first);
        for (int64_t row = 0; status == CIRCE_OK && row < n; row += BLOCK_ROWS) {
            int64_t rows = circe__min(BLOCK_ROWS, n - row);
            product_block(pair, row, rows, first, here, C);
            draw_signs(data, b, n, row, rows, signs, BLOCK_ROWS);
            context->backend->algebra->gemm(0, 0, draws, here, rows, 1.0, signs, BLOCK_ROWS, C, here,
                                            row == 0 ? 0.0 : 1.0, sums, here);
            status = circe__progress(context, "wild bootstrap", first + here * (row + rows) / n, all);
        }
        if (status == CIRCE_OK) gather_draws(sums, inverse == NULL ? NULL : inverse + first, draws, here, null);
    }
    return status;
}

static circe_status by_pairs(const circe__data *data, const circe__pair *pair, const bootstrap *b, double *null) {
    const circe_context *context = data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t draws = b->draws, n = pair->n, p = pair->p, q = pair->q;
    CIRCE__OWNED double *W = circe__alloc(context, 2 * PAIR_ROWS * n, sizeof *W);
    double *K = W == NULL ? NULL : W + PAIR_ROWS * n;
    CIRCE__OWNED double *signs = circe__alloc(context, draws * n, sizeof *signs);
    CIRCE__OWNED double *sums = circe__alloc(context, draws * PAIR_ROWS, sizeof *sums);
    circe_status status = W == NULL || signs == NULL || sums == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) draw_signs(data, b, n, 0, n, signs, n);
    for (int64_t row = 0; status == CIRCE_OK && row < n; row += PAIR_ROWS) {
        int64_t rows = circe__min(PAIR_ROWS, n - row);
        algebra->gemm(0, 1, rows, n, p, 1.0, pair->left.data + row * p, p, pair->left.data, p, 0.0, W, n);
        algebra->gemm(0, 1, rows, n, q, 1.0, pair->noise.data + row * q, q, pair->noise.data, q, 0.0, K, n);
        for (int64_t e = 0; e < rows * n; e++) W[e] *= K[e];
        algebra->gemm(0, 1, draws, rows, n, 1.0, signs, n, W, n, 0.0, sums, rows);
        for (int64_t d = 0; d < draws; d++)
            for (int64_t i = 0; i < rows; i++) null[d] += signs[d * n + row + i] * sums[d * rows + i];
        status = circe__progress(context, "wild bootstrap", row + rows, n);
    }
    return status;
}

circe_status circe__wild(const circe__data *data, const circe__pair *pair, const double *inverse, int64_t draws,
                         uint64_t stream, double *null) {
    enum { MOST_PAIR_ROWS = 16384 };
    double products = (double)draws * (double)pair->p * (double)pair->q;
    double pairs = ((double)draws + (double)(pair->p + pair->q)) * (double)pair->n;
    memset(null, 0, (size_t)draws * sizeof *null);
    if (pair->p == 0 || pair->q == 0) return CIRCE_OK;
    if (pair->left.device != NULL) return circe__rows_wild(data, pair, inverse, draws, stream, null);
    bootstrap b = {stream, draws, NULL};
    circe_status status = circe__block_signs(data, stream, draws, &b.of_blocks);
    if (status == CIRCE_OK && inverse == NULL && pairs < products && pair->n <= MOST_PAIR_ROWS)
        status = by_pairs(data, pair, &b, null);
    else if (status == CIRCE_OK)
        status = by_products(data, pair, inverse, &b, null);
    circe__free(data->context, b.of_blocks);
    return status;
}

double circe__rank_p(double value, const double *null, int64_t draws) {
    int64_t above = 0;
    double least = value - 1e-9 * fabs(value); /* equal up to rounding, as if all rows are equal */
    for (int64_t d = 0; d < draws; d++) above += null[d] >= least;
    return (1.0 + (double)above) / (1.0 + (double)draws);
}

void circe__report_draws(double value, const double *null, int64_t draws, double scale, circe_test_result *result) {
    double mean = 0.0, square = 0.0;
    for (int64_t d = 0; d < draws; d++) mean += null[d] / (double)draws;
    for (int64_t d = 0; d < draws; d++) square += (null[d] - mean) * (null[d] - mean) / (double)draws;
    result->statistic = scale * value;
    result->null_mean = scale * mean;
    result->null_sd = scale * sqrt(square);
    result->p_value = circe__rank_p(value, null, draws);
    result->draws = draws;
}
