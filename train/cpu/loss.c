/* Losses, with their gradients.
 *
 *     p (n, c) predictions, t targets, w (n) weights of the rows, 1 if there are none
 *     mse            1/(n c) sum w_i (p_ij - t_ij)^2              d_p = 2 w_i (p - t) / (n c)
 *     cross-entropy  1/n sum_i w_i (log sum_j exp(p_ij) - p_it)   d_p = w_i (softmax(p) - one-hot) / n
 *
 * The largest p_ij of a row is subtracted before exp, so that nothing overflows. Values are summed in double, parts of
 * a batch one after the other. */
#include <math.h>

#include "train/cpu/cpu.h"
#include "train/parallel.h"

TRAIN_VECTOR_EXP float expf(float);

enum { LEAST = 8192, MAX_PARTS = 256 };

typedef struct batch {
    int64_t n, cols;
    const float *prediction, *target;
    const float *weight; /* (n); NULL: 1 */
    float *grad;         /* NULL: not wanted */
    double sums[MAX_PARTS];
} batch;

static double square_error(int64_t n, const float *p, const float *t, float scale, float *grad) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double difference = (double)p[i] - (double)t[i];
        sum += difference * difference;
    }
    for (int64_t i = 0; grad != NULL && i < n; i++) grad[i] = scale * (p[i] - t[i]);
    return sum;
}

/* Of n rows from `first`, all of one weight. */
static double square_errors(const batch *b, int64_t first, int64_t n, float weight) {
    int64_t at = first * b->cols;
    float scale = (float)(2.0 * (double)weight / ((double)b->n * (double)b->cols));
    return square_error(n * b->cols, b->prediction + at, b->target + at, scale, b->grad == NULL ? NULL : b->grad + at) *
           (double)weight / (double)b->cols;
}

static void mse_part(void *user, int64_t part, int64_t first, int64_t n) {
    batch *b = user;
    b->sums[part] = b->weight == NULL ? square_errors(b, first, n, 1.0f) : 0.0;
    for (int64_t i = first; b->weight != NULL && i < first + n; i++)
        b->sums[part] += square_errors(b, i, 1, b->weight[i]);
}

/* -1: none of 0..cols-1. */
static int64_t class_of(float target, int64_t cols) {
    return target >= 0.0f && target < (float)cols && target == floorf(target) ? (int64_t)target : -1;
}

/* sum_j exp(p_j - top), which exps keeps if it is not NULL. */
static double exponentials(int64_t cols, const float *restrict p, float top, float *restrict exps) {
    double sum = 0.0;
    if (exps == NULL) {
        for (int64_t j = 0; j < cols; j++) sum += (double)expf(p[j] - top);
        return sum;
    }
    for (int64_t j = 0; j < cols; j++) exps[j] = expf(p[j] - top);
    for (int64_t j = 0; j < cols; j++) sum += (double)exps[j];
    return sum;
}

/* NaN if there is no such class, or a prediction is NaN. */
static double row_entropy(int64_t cols, const float *p, float target, double weight, float *grad) {
    int64_t class = class_of(target, cols);
    float top = p[0];
    for (int64_t j = 1; j < cols; j++) top = p[j] > top ? p[j] : top;
    double sum = exponentials(cols, p, top, grad);
    for (int64_t j = 0; grad != NULL && j < cols; j++) grad[j] *= (float)(weight / sum);
    if (class < 0) return (double)NAN;
    if (grad != NULL) grad[class] -= (float)weight;
    return log(sum) - ((double)p[class] - (double)top);
}

static void entropy_part(void *user, int64_t part, int64_t first, int64_t n) {
    batch *b = user;
    double sum = 0.0;
    for (int64_t i = first; i < first + n; i++) {
        double weight = b->weight == NULL ? 1.0 : (double)b->weight[i];
        sum += weight * row_entropy(b->cols, b->prediction + i * b->cols, b->target[i], weight / (double)b->n,
                                    b->grad == NULL ? NULL : b->grad + i * b->cols);
    }
    b->sums[part] = sum;
}

void train_cpu_loss(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *prediction,
                    const float *target, const float *weight, double *value, float *grad) {
    batch b = {.n = n, .cols = cols, .prediction = prediction, .target = target, .weight = weight, .grad = grad};
    int64_t parts = circe_context_parts(device->context, n, LEAST / cols + 1);
    if (parts > MAX_PARTS) parts = MAX_PARTS;
    train_parallel(device->context, parts, n, kind == TRAIN_MSE ? mse_part : entropy_part, &b);
    *value = 0.0;
    for (int64_t part = 0; part < parts; part++) *value += b.sums[part];
    *value /= (double)n;
}
