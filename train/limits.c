/* Computes, by Monte Carlo, the least error of any predictor that is invariant to Z, and the VCF of the best
 * unregularised one.
 *
 *     f(a, y, z) = E[B | A, Y, Z], in closed form (equations.h);  v_B = Var(B | A, Y, Z), a constant
 *     floor        E_y Var(f(A, y, Z) | y) + v_B, over Var(B)
 *     vcf          E_{y, e_A} Var_{z' ~ P(Z)} f(A(z', y, e_A), y, z'), over Var(B)
 *     vcf_support  the same with z' ~ P(Z | y)
 *
 * n values of y, DRAWS of (Z, e_A) for each; every variance is the unbiased one over DRAWS values, so that the means
 * over y have no bias however few the draws. z' ~ P(Z) are the z of the next rows of the block: independent of the
 * row's y, and whole rows. Standard errors by the delta method from the sums of blocks, which are independent of each
 * other, while rows of a block are not.
 *
 * A and B see Z_3, ..., Z_d of multivariate 1 through their sum only, which is drawn as one normal number.
 *
 * In univariate 1, f is heavy-tailed: exp(-AY) contains exp(-0.5 z' e_A Y), with a product of Gaussians in the
 * exponent, so the population's VCF is infinite. The draws responsible are very rare: one draw of z' ~ P(Z) in four
 * million has |f| above 25 deviations of B (of P(Z | y) none in 5 * 10^7), but it can outweigh all others together. So
 * f is bounded at these 25 deviations. Any bound from 10 to 100 gives the same VCF to 0.2 %, which is that of samples
 * without such a draw.
 *
 * Cost: n * (d_y + 2 to 4 * DRAWS) normal numbers and 3 * DRAWS evaluations of A and f. Sums are kept by block, in
 * order: the same bits for any number of threads. */
#include <stdlib.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/equations.h"
#include "train/parallel.h"

enum { BLOCK = 256, DRAWS = 4, MOST_NORMALS = 4, INNER_DRAWS = 1024, COLUMNS_AT_ONCE = 64, LEAST_N = 1024 };

/* The variances that are averaged over y. */
typedef enum part { WITHIN, ELSEWHERE, SUPPORT, PARTS } part;

/* Sums over the rows of a block. */
typedef struct sums {
    double b, b_squared; /* over all draws */
    double variance[PARTS];
} sums;

typedef struct conditional {
    equation_z z;
    double noise; /* of A */
} conditional;

/* Normal numbers that a draw of (Z, e_A) takes. */
static int64_t normals_a_draw(const synthetic_model *model) { return model->kind == SYNTHETIC_MULTIVARIATE_1 ? 4 : 2; }

/* (Z, e_A) given y from independent standard normal numbers. */
static conditional draw_given(const synthetic_model *model, const equation_y *y, const double *normal) {
    double mean = equation_mean_z(y), d = (double)synthetic_dim_z(model);
    conditional c = {.z.first = mean + normal[0], .noise = EQUATION_NOISE_DEVIATION * normal[1]};
    c.z.sum = c.z.first;
    if (model->kind == SYNTHETIC_MULTIVARIATE_1) {
        c.z.second = mean + normal[2];
        c.z.sum += c.z.second + (d - 2.0) * mean + sqrt(d - 2.0) * normal[3];
    }
    return c;
}

/* f after an intervention. */
static double best(synthetic_kind kind, const equation_y *y, const equation_z *z, double noise) {
    const double most = 215.0; /* 25 deviations of B in univariate 1 */
    double f = equation_b(kind, y, z, equation_a(kind, y, z, noise));
    return kind == SYNTHETIC_UNIVARIATE_1 ? fmax(-most, fmin(most, f)) : f;
}

/* Row by row, in pieces: d_y has no bound that a stack would like. */
static void draw_y(const synthetic_model *model, uint64_t seed, int64_t row, equation_y *y) {
    double piece[COLUMNS_AT_ONCE];
    int64_t cols = synthetic_dim_y(model);
    *y = (equation_y){0};
    for (int64_t c = 0; c < cols; c += COLUMNS_AT_ONCE) {
        int64_t n = cols - c < COLUMNS_AT_ONCE ? cols - c : COLUMNS_AT_ONCE;
        circe_random_normal(equation_random(seed, EQUATION_LIMITS_Y, 0), (uint64_t)(row * cols + c), n, piece);
        if (c == 0) y->first = piece[0];
        equation_add_y(y, piece, n);
    }
}

static sums sum_block(const synthetic_model *model, uint64_t seed, int64_t first) {
    equation_y y[BLOCK];
    conditional draw[BLOCK][DRAWS];
    double normal[BLOCK * DRAWS * MOST_NORMALS];
    int64_t each = normals_a_draw(model);
    sums s = {0};
    circe_random_normal(equation_random(seed, EQUATION_LIMITS, 0), (uint64_t)(first * DRAWS * each),
                        BLOCK * DRAWS * each, normal);
    for (int64_t i = 0; i < BLOCK; i++) {
        draw_y(model, seed, first + i, &y[i]);
        for (int64_t k = 0; k < DRAWS; k++) draw[i][k] = draw_given(model, &y[i], normal + (i * DRAWS + k) * each);
    }
    for (int64_t i = 0; i < BLOCK; i++) {
        double f[PARTS][DRAWS];
        for (int64_t k = 0; k < DRAWS; k++) {
            const equation_z *z = &draw[i][k].z, *other = &draw[(i + 1 + k) % BLOCK][k].z;
            f[WITHIN][k] = best(model->kind, &y[i], z, draw[i][k].noise);
            f[ELSEWHERE][k] = best(model->kind, &y[i], other, draw[i][0].noise);
            f[SUPPORT][k] = best(model->kind, &y[i], z, draw[i][0].noise);
            s.b += f[WITHIN][k];
            s.b_squared += f[WITHIN][k] * f[WITHIN][k];
        }
        for (int p = 0; p < PARTS; p++) s.variance[p] += equation_variance(f[p], DRAWS);
    }
    return s;
}

/* Var(B) and the mean of B from all draws. */
static double total_variance(const sums *blocks, int64_t n_blocks, double v_b, double *mean) {
    double b = 0.0, b_squared = 0.0, n = (double)n_blocks * BLOCK * DRAWS;
    for (int64_t t = 0; t < n_blocks; t++) {
        b += blocks[t].b;
        b_squared += blocks[t].b_squared;
    }
    *mean = b / n;
    return b_squared / n - *mean * *mean + v_b;
}

/* ratio := mean of (variance + added) / total. Its standard error is that of the mean, over blocks, of
 * variance + added - ratio * (b - mean)^2. */
static void divide(const sums *blocks, int64_t n_blocks, part which, double added, double v_b, double *ratio,
                   double *error) {
    double mean, sum = 0.0, squares = 0.0, total = total_variance(blocks, n_blocks, v_b, &mean);
    for (int64_t t = 0; t < n_blocks; t++) sum += blocks[t].variance[which];
    *ratio = (sum / ((double)n_blocks * BLOCK) + added) / total;
    for (int64_t t = 0; t < n_blocks; t++) {
        double own = blocks[t].variance[which] / BLOCK + added;
        double spread = (blocks[t].b_squared - 2.0 * mean * blocks[t].b) / (BLOCK * DRAWS) + mean * mean + v_b;
        squares += (own - *ratio * spread) * (own - *ratio * spread);
    }
    *error = sqrt(squares / ((double)n_blocks * ((double)n_blocks - 1.0))) / total;
}

/* A loop over blocks of draws, or over rows. */
typedef struct loop {
    const synthetic_model *model;
    uint64_t seed;
    const synthetic_sample *sample;
    sums *blocks;
    double *rows;
} loop;

static void sum_one(void *user, int64_t block) {
    const loop *l = user;
    l->blocks[block] = sum_block(l->model, l->seed, block * BLOCK);
}

circe_status synthetic_compute_limits(const circe_context *context, const synthetic_model *model, uint64_t seed,
                                      int64_t n, synthetic_limits *limits) {
    circe_status status = synthetic_check(model);
    if (status != CIRCE_OK) return status;
    if (n < LEAST_N || n > (INT64_C(1) << 40))
        return circe_fail(CIRCE_ERR_ARGUMENT, "limits cannot use %lld draws; the number must be %d to 2^40",
                          (long long)n, LEAST_N);
    int64_t n_blocks = (n + BLOCK - 1) / BLOCK;
    OWNED sums *blocks = malloc((size_t)n_blocks * sizeof *blocks);
    if (blocks == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the limits from %lld draws", (long long)n);
    loop l = {.model = model, .seed = seed, .blocks = blocks};
    circe_context_run(context, n_blocks, sum_one, &l);
    double v_b = equation_variance_b(model->kind);
    divide(blocks, n_blocks, WITHIN, v_b, v_b, &limits->floor, &limits->floor_error);
    divide(blocks, n_blocks, ELSEWHERE, 0.0, v_b, &limits->vcf, &limits->vcf_error);
    divide(blocks, n_blocks, SUPPORT, 0.0, v_b, &limits->vcf_support, &limits->vcf_support_error);
    return CIRCE_OK;
}

/* ---- the floor of a sample --------------------------------------------------------------------------------------- */

/* Var(B | y) of one row. 1,024 draws know it to 5 % or so, and the mean over 2,000 rows to 0.1 %. */
static double conditional_variance(const synthetic_model *model, uint64_t seed, int64_t row, const double *values) {
    double normal[INNER_DRAWS * MOST_NORMALS], b[INNER_DRAWS];
    int64_t each = normals_a_draw(model);
    equation_y y = equation_read_y(values, synthetic_dim_y(model));
    circe_random_normal(equation_random(seed, EQUATION_FLOOR, row), 0, INNER_DRAWS * each, normal);
    for (int64_t k = 0; k < INNER_DRAWS; k++) {
        conditional c = draw_given(model, &y, normal + k * each);
        b[k] = best(model->kind, &y, &c.z, c.noise);
    }
    return equation_variance(b, INNER_DRAWS) + equation_variance_b(model->kind);
}

static void find_variances(void *user, int64_t first, int64_t n) {
    const loop *l = user;
    int64_t cols = l->sample->y.cols;
    for (int64_t i = first; i < first + n; i++)
        l->rows[i] = conditional_variance(l->model, l->seed, i, (const double *)l->sample->y.data + i * cols);
}

circe_status synthetic_conditional_variance(const circe_context *context, const synthetic_model *model,
                                            const synthetic_sample *sample, uint64_t seed, double *variance) {
    circe_status status = synthetic_check(model);
    if (status != CIRCE_OK) return status;
    if (sample->y.data == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "the sample must not be empty");
    int64_t n = sample->n, cols = synthetic_dim_y(model);
    if (sample->y.cols != cols)
        return circe_fail(CIRCE_ERR_SHAPE, "y of the sample has %lld columns, but y of %s with d = %lld has %lld",
                          (long long)sample->y.cols, synthetic_name(model->kind), (long long)model->d, (long long)cols);
    OWNED double *rows = malloc((size_t)n * sizeof *rows);
    double sum = 0.0;
    if (rows == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the variances of %lld rows", (long long)n);
    loop l = {.model = model, .seed = seed, .sample = sample, .rows = rows};
    train_ranges(context, n, 1, find_variances, &l);
    for (int64_t i = 0; i < n; i++) sum += rows[i];
    *variance = sum / (double)n;
    return CIRCE_OK;
}
