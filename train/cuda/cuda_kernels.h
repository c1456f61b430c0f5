/* The kernels of the GPU device, as its C files start them. Every function queues work on the stream and returns CUDA's
 * error, 0 for none. All arrays are in the GPU's memory. The order of every sum depends on the sizes alone: there are
 * no atomic additions, and the same inputs give the same bits. */
#pragma once

#include <driver_types.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Activations as numbers of train_layer_kind; 0: none. `slope` is that of leaky ReLU. */
typedef struct cuda_bend {
    int kind;
    float slope;
} cuda_bend;

/* Points as source.h describes them, with its arrays in the GPU's memory. */
typedef struct cuda_points {
    int element;
    const void *values;
    int64_t stride; /* numbers of a row of floats, bytes of others */
    const int32_t *stored;
    const int8_t *shift;
    int plane, once, cols; /* pixels of a channel, of all of them, and with their repetitions */
    int height, width;
    float scale, offset, background;
} cuda_points;

/* A batch of rows by channels by points. */
typedef struct cuda_batch {
    int64_t rows;
    int channels, points;
} cuda_batch;

/* A dense layer: rows by inputs to rows by outputs. */
typedef struct cuda_dense {
    int64_t rows;
    int inputs, outputs;
} cuda_dense;

/* ---- moving.cu --------------------------------------------------------------------------------------------------- */
cudaError_t train_cuda_gather_points(const cuda_points *from, const int64_t *index, int64_t first, int64_t n,
                                     float *out, void *stream);
cudaError_t train_cuda_gather(const float *from, int64_t cols, const int64_t *index, int64_t n, float *out,
                              void *stream);
cudaError_t train_cuda_pick(const void *blocks, int64_t words, const int64_t *which, void *to, void *stream);
cudaError_t train_cuda_append(double *blocks, int64_t n, int64_t *which, const double *from, void *stream);

/* ---- elementwise.cu ---------------------------------------------------------------------------------------------- */
/* y += a x; y += *a x */
cudaError_t train_cuda_add(int64_t n, float a, const float *x, float *y, void *stream);
cudaError_t train_cuda_add_times(int64_t n, const double *a, const float *x, float *y, void *stream);
/* Of float32 or, where `half`, bfloat16: out := f(in), also in place; out := f(x + y) */
cudaError_t train_cuda_bend(cuda_bend f, int64_t n, bool half, const void *in, void *out, void *stream);
cudaError_t train_cuda_bend_sum(cuda_bend f, int64_t n, bool half, const void *x, const void *y, void *out,
                                void *stream);
/* grad_in := f'(.) grad_out, by the output of f; also in place */
cudaError_t train_cuda_bend_back(cuda_bend f, int64_t n, bool half, const void *out, const void *grad_out,
                                 void *grad_in, void *stream);
/* x := f(x + bias) of a dense layer's output */
cudaError_t train_cuda_bias(cuda_bend f, cuda_dense layer, const float *bias, float *x, void *stream);

/* ---- sums.cu ----------------------------------------------------------------------------------------------------- */
/* grad := f'(.) grad, in place, by the output of f (no f: left as it is); d_bias := its sums over rows. `partial` has
 * room for train_cuda_bias_partials doubles. */
int64_t train_cuda_bias_partials(cuda_dense layer);
cudaError_t train_cuda_bias_back(cuda_bend f, cuda_dense layer, const float *out, float *grad, double *partial,
                                 float *d_bias, void *stream);
/* The loss of rows times their weights (NULL: 1) and, if grad is not NULL, its gradient; `partial` has room for
 * TRAIN_CUDA_LOSS_PARTIALS doubles. */
enum { TRAIN_CUDA_LOSS_PARTIALS = 64 };
cudaError_t train_cuda_mse(int64_t n, int64_t cols, const float *prediction, const float *target, const float *weight,
                           double *partial, double *value, float *grad, void *stream);
cudaError_t train_cuda_cross_entropy(int64_t n, int64_t cols, const float *prediction, const float *target,
                                     const float *weight, double *partial, double *value, float *grad, void *stream);
/* ---- chain.cu, dense.cu ------------------------------------------------------------------------------------------ */
/* A small dense layer, out = f(in W' + b), with in (rows, inputs) and out (rows, outputs). */
typedef struct cuda_link {
    int inputs, outputs;
    cuda_bend f;
    const float *in, *W, *b;
    float *out;
    float *before;    /* of backward: (rows, outputs), the gradient before the activation */
    float *d_W, *d_b; /* the same */
    void *scratch; /* the same: train_cuda_dense_bytes, zeroed before it is first used and left alone between calls */
} cuda_link;
enum { TRAIN_CUDA_LINKS = 16 }; /* of a chain: each reads the one before */
/* Whether a layer is small enough. */
bool train_cuda_is_link(int inputs, int outputs);
int64_t train_cuda_dense_bytes(int64_t rows, int inputs, int outputs);
cudaError_t train_cuda_chain_forward(int64_t rows, int n, const cuda_link *links, void *stream);
/* `before` of every layer, and grad_in, from the gradient at the last output; grad_in NULL: not wanted. */
cudaError_t train_cuda_chain_back(int64_t rows, int n, const cuda_link *links, const float *grad_out, float *grad_in,
                                  void *stream);
/* d_W and d_b of every layer, from `before`. */
cudaError_t train_cuda_dense_weights(int64_t rows, int n, const cuda_link *links, void *stream);

/* ---- pooling.cu -------------------------------------------------------------------------------------------------- */
/* A square window that moves over images: rows by channels by height by width to outputs by out_height by out_width. */
typedef struct cuda_window {
    int64_t rows;
    int channels, height, width, outputs, out_height, out_width, kernel, stride, padding;
} cuda_window;
/* Whether this is a max-pool of 2 by 2 whose windows lie side by side, and whose lines can be read four numbers at a
 * time. */
bool train_cuda_pool_halves(cuda_window window);
cudaError_t train_cuda_pool_forward(cuda_window window, const float *in, float *out, void *stream);
/* To the first of the largest numbers of each window. */
cudaError_t train_cuda_pool_back(cuda_window window, const float *in, const float *out, const float *grad_out,
                                 float *grad_in, void *stream);

/* ---- last_*.cu: images with their channels last, (points, channels), of float32 or, where `half`, bfloat16 --------
 */
/* a x + b of a channel: of a batch norm a = weight / deviation, b = bias - mean a. NULL: mean 0, deviation 1, weight 1,
 * bias 0. */
typedef struct cuda_norm {
    const float *mean, *deviation, *variance; /* deviation, inverse; or the variance in its place */
    const float *weight, *bias;
} cuda_norm;
/* Scratch for the sums below, zeroed before it is first used and left alone between calls. */
int64_t train_cuda_last_bytes(int channels);
/* Mean and inverse deviation (channels) of a batch, and the running ones moved towards them by a tenth. */
cudaError_t train_cuda_last_statistics(int64_t points, int channels, bool half, const void *x, void *scratch,
                                       float *mean, float *deviation, float *running_mean, float *running_variance,
                                       void *stream);
/* out := f(a x + b); also in place */
cudaError_t train_cuda_last_bend(int64_t points, int channels, bool half, cuda_bend f, cuda_norm norm, const void *x,
                                 void *out, void *stream);
/* The gradients of that, with mean and deviation those of the batch, or fixed. */
cudaError_t train_cuda_last_norm_back(int64_t points, int channels, bool half, cuda_bend f, cuda_norm norm, bool fixed,
                                      const void *x, const void *grad, void *scratch, float *d_weight, float *d_bias,
                                      void *grad_in, void *stream);
/* grad := f'(.) grad, in place, by the output of f; d_bias (channels) := its sums. */
cudaError_t train_cuda_last_bias_back(int64_t points, int channels, bool half, cuda_bend f, const void *out, void *grad,
                                      void *scratch, float *d_bias, void *stream);
/* Max-pools, of windows with fewer than 255 numbers; `taken` has a byte for each number of `out`. */
bool train_cuda_last_pools(cuda_window window);
cudaError_t train_cuda_last_pool(cuda_window window, bool half, const void *in, void *out, uint8_t *taken,
                                 void *stream);
cudaError_t train_cuda_last_pool_back(cuda_window window, bool half, const uint8_t *taken, const void *grad,
                                      void *grad_in, void *stream);
/* (rows, points, channels) to the mean over the points */
cudaError_t train_cuda_last_mean(cuda_batch batch, bool half, const void *in, void *out, void *stream);
cudaError_t train_cuda_last_mean_back(cuda_batch batch, bool half, const void *grad, void *grad_in, void *stream);
/* From (rows, channels, points) in float32 to (rows, points, width), 0 in channels up to the width; and back, of as
 * many channels as there are. */
cudaError_t train_cuda_last_pack(cuda_batch batch, int width, bool half, const float *plain, void *images,
                                 void *stream);
cudaError_t train_cuda_last_unpack(cuda_batch batch, bool half, const void *images, float *plain, void *stream);
/* The same where a convolution with a stride has become one without, of s s times the channels: its window, images, and
 * weights. */
cuda_window train_cuda_last_folded(cuda_window window, int width);
cudaError_t train_cuda_last_fold(cuda_window window, int width, bool half, const float *plain, void *images,
                                 void *stream);
cudaError_t train_cuda_last_fold_weights(cuda_window window, int width, bool half, const float *plain, void *weights,
                                         void *stream);
cudaError_t train_cuda_last_unfold_weights(cuda_window window, int width, bool half, const void *weights, float *plain,
                                           void *stream);
/* A convolution's weights from (outputs, channels, taps) in float32 to (outputs, taps, width); and back. */
cudaError_t train_cuda_last_weights(cuda_window window, int width, bool half, const float *plain, void *weights,
                                    void *stream);
cudaError_t train_cuda_last_weights_back(cuda_window window, int width, bool half, const void *weights, float *plain,
                                         void *stream);

/* ---- halving_*.cu ------------------------------------------------------------------------------------------------ */
/* Whether this is a convolution that halves images of few channels: 3 by 3, stride 2, padding 1. */
bool train_cuda_halves(cuda_window window);
/* Whether they can apply this max-pool to their own output, behind the activation. */
bool train_cuda_halves_and_pools(cuda_window window, cuda_window pool);
/* What a convolution shows, with the gradient there, which is left as it is. With a pool behind it, out and grad are
 * the pool's, and `taken` (as many bytes) says which number of each window was the first of the largest: 0 to 3. */
typedef struct cuda_shown {
    cuda_bend f;
    const float *out, *grad;
    const uint8_t *taken; /* NULL: no pool */
} cuda_shown;
/* out := f(in * weights + bias), pooled where `taken` is not NULL; bias NULL: none */
cudaError_t train_cuda_halve(cuda_window window, cuda_bend f, const float *in, const float *weights, const float *bias,
                             uint8_t *taken, float *out, void *stream);
cudaError_t train_cuda_halve_data(cuda_window window, cuda_shown shown, const float *weights, float *grad_in,
                                  void *stream);
/* d_params: the gradient of the weights and, if there is one, of the bias behind them; scratch of this many bytes. With
 * tf32 by the tensor units where that pays. */
int64_t train_cuda_halve_bytes(cuda_window window);
cudaError_t train_cuda_halve_weights(cuda_window window, cuda_shown shown, bool tf32, bool bias, const float *in,
                                     void *scratch, float *d_params, void *stream);
/* The first two with TF32, by the tensor units; whether they pay. */
bool train_cuda_halves_by_tensor_units(cuda_window window);
cudaError_t train_cuda_halve_tf32(cuda_window window, cuda_bend f, const float *in, const float *weights,
                                  const float *bias, uint8_t *taken, float *out, void *stream);
cudaError_t train_cuda_halve_data_tf32(cuda_window window, cuda_shown shown, const float *weights, float *grad_in,
                                       void *stream);

/* ---- adamw.cu ---------------------------------------------------------------------------------------------------- */
/* `how` is a train_adamw in the GPU's memory. */
cudaError_t train_cuda_adamw_step(const void *how, int64_t n, const float *grads, float *params, float *m, float *v,
                                  void *stream);

#ifdef __cplusplus
}
#endif
