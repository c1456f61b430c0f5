/* Batch norm of a batch whose rows are spread over processes: its statistics, and what they add to the gradient.
 *
 *     images (rows, blocks, points, b), as images.c keeps them; m numbers per channel here, M in all processes
 *     mean = sum in / M, variance = sum (in - mean)^2 / M, in two passes, each summed in float64 over all
 *     d in = (weight / s) (d out - (S1 + h S2) / M),  h = (in - mean) / s, s = sqrt(variance + epsilon),
 *     S1 = sum d out, S2 = sum d out h, over all
 *
 * Process k computes with d out / w_k, w_k = m / M being its share of the objective (trainer_ranks.c), so in its units
 * the sum is (w_1 S1_1 + w_2 S1_2 + ...) / m. oneDNN does the rest as for constant statistics. */
#include <math.h>
#include <string.h>

#include "train/cpu/cpu.h"
#include "train/cpu/onednn.h"

enum { MOST_BLOCK = 16 };

typedef struct images {
    int64_t rows, channels, points, b, blocks;
} images;

static images measure_up(const train_layer *layer, int64_t rows) {
    images i = {.rows = rows, .channels = layer->in.size[0], .points = layer->in.size[1] * layer->in.size[2]};
    i.b = onednn_image_block();
    i.blocks = (i.channels + i.b - 1) / i.b;
    return i;
}

/* Sums the channels of one block: `in`, or squares around the mean. Channels beyond the last are 0. */
TRAIN_LOOP static void sum_block(const images *i, int64_t block, const float *in, const float *mean, double *sums) {
    double total[MOST_BLOCK] = {0};
    float around[MOST_BLOCK] = {0};
    int64_t there = i->channels - block * i->b < i->b ? i->channels - block * i->b : i->b;
    if (mean != NULL) memcpy(around, mean + block * i->b, (size_t)there * sizeof *around);
    for (int64_t r = 0; r < i->rows; r++) {
        const float *row = in + (r * i->blocks + block) * i->points * i->b;
        for (int64_t p = 0; p < i->points; p++)
            for (int64_t c = 0; c < there; c++) {
                double v = (double)row[p * i->b + c];
                double off = v - (double)around[c];
                total[c] += mean != NULL ? off * off : v;
            }
    }
    memcpy(sums + block * i->b, total, (size_t)there * sizeof *sums);
}

typedef struct summing {
    const images *images;
    const float *in, *mean;
    double *sums;
} summing;

static void sum_part(void *user, int64_t block) {
    const summing *s = user;
    sum_block(s->images, block, s->in, s->mean, s->sums);
}

static void sum_channels(const train_device *device, const images *i, const float *in, const float *mean,
                         double *sums) {
    summing s = {.images = i, .in = in, .mean = mean, .sums = sums};
    circe_context_run(device->context, i->blocks, sum_part, &s);
}

int64_t train_ranks_statistics(const train_device *device, const train_layer *layer, int64_t rows, const float *in,
                               double *sums, float *mean, float *variance) {
    images i = measure_up(layer, rows);
    double total = 0.0;
    sum_channels(device, &i, in, NULL, sums);
    sums[i.channels] = (double)(rows * i.points);
    device->ranks->sum(sums, i.channels + 1);
    total = sums[i.channels];
    for (int64_t c = 0; c < i.channels; c++) mean[c] = (float)(sums[c] / total);
    sum_channels(device, &i, in, mean, sums);
    device->ranks->sum(sums, i.channels);
    for (int64_t c = 0; c < i.channels; c++) variance[c] = (float)(sums[c] / total);
    return (int64_t)total;
}

TRAIN_LOOP static void correct_block(const images *i, int64_t block, const float *in, const float *shift,
                                     const float *slope, float *grad_in) {
    int64_t there = i->channels - block * i->b < i->b ? i->channels - block * i->b : i->b;
    for (int64_t r = 0; r < i->rows; r++) {
        int64_t at = (r * i->blocks + block) * i->points * i->b;
        for (int64_t p = 0; p < i->points; p++)
            for (int64_t c = 0; c < there; c++)
                grad_in[at + p * i->b + c] -= shift[block * i->b + c] + slope[block * i->b + c] * in[at + p * i->b + c];
    }
}

typedef struct correcting {
    const images *images;
    const float *in, *shift, *slope;
    float *grad_in;
} correcting;

static void correct_part(void *user, int64_t block) {
    const correcting *c = user;
    correct_block(c->images, block, c->in, c->shift, c->slope, c->grad_in);
}

void train_ranks_correct(const train_device *device, const train_layer *layer, const train_visit *pass, float epsilon,
                         double *sums, const float *mean, const float *variance, float *lines) {
    images i = measure_up(layer, pass->rows);
    double m = (double)(pass->rows * i.points);
    float *shift = lines, *slope = lines + i.channels;
    for (int64_t c = 0; c < 2 * i.channels; c++) sums[c] = device->weight * (double)pass->grads[c]; /* S2, S1 */
    device->ranks->sum(sums, 2 * i.channels);
    for (int64_t c = 0; c < i.channels; c++) {
        double s = sqrt((double)variance[c] + (double)epsilon), factor = (double)pass->params[c] / (s * m);
        slope[c] = (float)(factor * sums[c] / s);
        shift[c] = (float)(factor * (sums[i.channels + c] - sums[c] * (double)mean[c] / s));
    }
    correcting all = {.images = &i, .in = pass->in, .shift = shift, .slope = slope, .grad_in = pass->grad_in};
    circe_context_run(device->context, i.blocks, correct_part, &all);
}
