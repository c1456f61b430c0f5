/* Batch norm over processes, for batch_norm.c. Called by all the device's ranks. */
#ifndef TRAIN_CPU_BATCH_NORM_RANKS_H
#define TRAIN_CPU_BATCH_NORM_RANKS_H

#include "train/cpu/cpu.h"

/* mean and variance (channels) of the whole batch; returns how many numbers a channel has in all. sums: room for
 * channels + 1. */
int64_t train_ranks_statistics(const train_device *device, const train_layer *layer, int64_t rows, const float *in,
                               double *sums, float *mean, float *variance);

/* grad_in, and grads of weight and bias, are those for constant statistics: grad_in := with what the statistics add.
 * Room: sums for 2 channels, lines for 2 channels. */
void train_ranks_correct(const train_device *device, const train_layer *layer, const train_visit *pass, float epsilon,
                         double *sums, const float *mean, const float *variance, float *lines);

#endif
