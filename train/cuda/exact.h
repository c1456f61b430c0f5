/* Convolutions of float32 images with their channels last, on the tensor units, as accurate as float32. */
#pragma once

#include "train/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this convolution is supported: channels and outputs must fill whole tiles. */
bool train_cuda_exact_suits(cuda_window window);
/* weights (outputs, taps, channels); turned (channels, taps, outputs), with the taps in reverse. */
cudaError_t train_cuda_exact_turn(cuda_window window, const float *weights, float *turned, void *stream);
cudaError_t train_cuda_exact_forward(cuda_window window, const float *in, const float *weights, float *out,
                                     void *stream);
cudaError_t train_cuda_exact_data(cuda_window window, const float *grad, const float *turned, float *grad_in,
                                  void *stream);
/* d_weights (outputs, taps, channels); scratch of this many bytes. */
int64_t train_cuda_exact_bytes(cuda_window window);
cudaError_t train_cuda_exact_weights(cuda_window window, const float *in, const float *grad, void *scratch,
                                     float *d_weights, void *stream);

#ifdef __cplusplus
}
#endif
