/* Internals of the CPU device that its files share. */
#pragma once

#include "train/device.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* A loop that is compiled for several instruction sets, of which the loader picks one. Sanitizers instrument the
 * function that picks, which runs before they do; clang knows the attribute under other names. */
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAIN_LOOP __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAIN_LOOP
#endif

/* The vector forms of these functions in libmvec; where the C library has none, loops call the scalar ones. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TRAIN_VECTOR_EXP __attribute__((simd("notinbranch")))
#if __GLIBC_PREREQ(2, 35)
#define TRAIN_VECTOR_TANH __attribute__((simd("notinbranch")))
#endif
#endif
#ifndef TRAIN_VECTOR_EXP
#define TRAIN_VECTOR_EXP
#endif
#ifndef TRAIN_VECTOR_TANH
#define TRAIN_VECTOR_TANH
#endif

/* Brackets arithmetic on numbers that decay towards zero (moments of dead units, gradients of saturated ones): this
 * thread flushes denormal numbers, which take x86 a hundred cycles each. */
#if defined(__x86_64__)
enum { TRAIN_CPU_FLUSH = 0x8040 }; /* results and operands */
static inline unsigned train_cpu_flush_begin(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | TRAIN_CPU_FLUSH);
    return before;
}
static inline void train_cpu_flush_end(unsigned before) { _mm_setcsr(before); }
#else
static inline unsigned train_cpu_flush_begin(void) { return 0; }
static inline void train_cpu_flush_end(unsigned before) { (void)before; }
#endif

extern const train_layer_ops train_cpu_dense, train_cpu_activation;

/* Layers for images, if the build has oneDNN. */
extern const train_image_ops train_cpu_images;
extern const train_layer_ops train_cpu_image_activation, train_cpu_convolution, train_cpu_pool, train_cpu_batch_norm,
    train_cpu_addition;

/* The derivative of the activation that a layer has applied to its own output: grad := grad f'(out), over the images of
 * a batch. Nothing where none is merged. */
void train_cpu_merged_backward(train_device *device, const train_layer *layer, int64_t rows, const float *out,
                               float *grad);
bool train_cpu_merges(train_layer_kind activation);

circe_status train_cpu_source_open(train_device *device, const train_source *source, train_source_handle **handle);
void train_cpu_source_close(train_device *device, train_source_handle *handle);
void train_cpu_source_gather(train_device *device, const train_source_handle *handle, const int64_t *index,
                             int64_t first, int64_t n, float *out);
void train_cpu_loss(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *prediction,
                    const float *target, const float *weight, double *value, float *grad);
void train_cpu_adamw(train_device *device, const train_adamw *how, int64_t n, const float *grads, float *params,
                     float *m, float *v);

/* ---- batch_norm_ranks.c: batch norm over processes, called by all the device's ranks
 * --------------------------------- */

/* mean and variance (channels) of the whole batch; returns how many numbers a channel has in all. sums: room for
 * channels + 1. */
int64_t train_ranks_statistics(const train_device *device, const train_layer *layer, int64_t rows, const float *in,
                               double *sums, float *mean, float *variance);

/* grad_in, and grads of weight and bias, are those for constant statistics: grad_in := with what the statistics add.
 * Room: sums for 2 channels, lines for 2 channels. */
void train_ranks_correct(const train_device *device, const train_layer *layer, const train_visit *pass, float epsilon,
                         double *sums, const float *mean, const float *variance, float *lines);
