/* Kernels with sums over a batch: gradients of biases, losses. Sums are double; each block writes
 * its part to a place of its own, and the parts are added in their order.
 *
 * The gradient of a bias comes with the derivative of the activation before it, so that the largest arrays of a step
 * are read and written once:
 *
 *     grad (rows, outputs) := f'(out) grad,   d_bias_o := sum over rows of grad
 */
#include "train/cuda/early.cuh"

/* ---- biases of dense layers -------------------------------------------------------------------------------------- */

enum { COLUMNS = 32, LINES = 8, ROWS = 64 };

static int64_t parts_of(cuda_dense d) { return (d.rows + ROWS - 1) / ROWS; }

int64_t train_cuda_bias_partials(cuda_dense layer) { return parts_of(layer) * layer.outputs; }

/* Block (part, channels): threads side by side take channels side by side. */
static __global__ void dense_back(cuda_bend f, cuda_dense d, const float *out, float *grad, double *partial) {
    __shared__ float sums[LINES][COLUMNS];
    int column = blockIdx.y * COLUMNS + threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * ROWS, end = first + ROWS < d.rows ? first + ROWS : d.rows;
    float sum = 0.0f;
    if (column < d.outputs)
        for (int64_t r = first + threadIdx.y; r < end; r += LINES) {
            int64_t at = r * d.outputs + column;
            float g = grad[at];
            if (f.kind != 0) grad[at] = g = bend_back(f, out[at], g);
            sum += g;
        }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= d.outputs) return;
    double all = 0.0;
    for (int k = 0; k < LINES; k++) all += sums[k][threadIdx.x];
    partial[column * (int64_t)gridDim.x + blockIdx.x] = all;
}

/* A warp a channel. */
static __global__ void add_parts(int64_t parts, int channels, const double *partial, float *d_bias) {
    int channel = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    double sum = 0.0;
    if (channel >= channels) return;
    for (int64_t p = lane; p < parts; p += 32) sum += partial[channel * parts + p];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) d_bias[channel] = (float)sum;
}

cudaError_t train_cuda_bias_back(cuda_bend f, cuda_dense layer, const float *out, float *grad, double *partial,
                                 float *d_bias, void *stream) {
    int64_t parts = parts_of(layer);
    dense_back<<<dim3((unsigned)parts, (layer.outputs + COLUMNS - 1) / COLUMNS), dim3(COLUMNS, LINES), 0, on(stream)>>>(
        f, layer, out, grad, partial);
    add_parts<<<(layer.outputs * 32 + THREADS - 1) / THREADS, THREADS, 0, on(stream)>>>(parts, layer.outputs, partial,
                                                                                        d_bias);
    return cudaGetLastError();
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

enum { LOSS_THREADS = 512, LOSS_PART = 4096 };

static unsigned loss_blocks(int64_t items) {
    int64_t blocks = (items + LOSS_PART - 1) / LOSS_PART;
    return (unsigned)(blocks < 1 ? 1 : blocks > TRAIN_CUDA_LOSS_PARTIALS ? TRAIN_CUDA_LOSS_PARTIALS : blocks);
}

/* Thread 0 of a block has its sum; of the only block, the loss. */
static __device__ void put_sum(double sum, double scale, double *partial, double *value) {
    sum = block_sum(sum);
    if (threadIdx.x != 0) return;
    if (gridDim.x == 1)
        *value = sum * scale;
    else
        partial[blockIdx.x] = sum;
}

static __global__ void square_error(int64_t n, int64_t cols, float slope, double scale, const float *p, const float *t,
                                    const float *w, double *partial, double *value, float *grad) {
    double sum = 0.0;
    take_turn();
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        double difference = (double)p[i] - (double)t[i];
        float weight = w == NULL ? 1.0f : w[i / cols];
        sum += (double)weight * difference * difference;
        if (grad != NULL) grad[i] = weight * slope * (p[i] - t[i]);
    }
    put_sum(sum, scale, partial, value);
}

/* NaN if there is no such class, or a prediction is NaN. */
static __device__ double row_entropy(int64_t cols, const float *p, float target, double weight, float *grad) {
    bool is_class = target >= 0.0f && target < (float)cols && target == floorf(target);
    float top = p[0];
    double sum = 0.0;
    for (int64_t j = 1; j < cols; j++) top = p[j] > top ? p[j] : top;
    for (int64_t j = 0; j < cols; j++) sum += (double)expf(p[j] - top);
    for (int64_t j = 0; grad != NULL && j < cols; j++) grad[j] = expf(p[j] - top) * (float)(weight / sum);
    if (!is_class) return nan("");
    int64_t at = (int64_t)target;
    if (grad != NULL) grad[at] -= (float)weight;
    return log(sum) - ((double)p[at] - (double)top);
}

static __global__ void cross_entropy(int64_t n, int64_t cols, double scale, const float *p, const float *t,
                                     const float *w, double *partial, double *value, float *grad) {
    double sum = 0.0;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        double weight = w == NULL ? 1.0 : (double)w[i];
        sum += weight * row_entropy(cols, p + i * cols, t[i], weight * scale, grad == NULL ? NULL : grad + i * cols);
    }
    put_sum(sum, scale, partial, value);
}

static __global__ void add_losses(int parts, double scale, const double *partial, double *value) {
    double sum = 0.0;
    for (int k = 0; k < parts; k++) sum += partial[k];
    *value = sum * scale;
}

static cudaError_t end_loss(unsigned blocks, double scale, const double *partial, double *value, void *stream) {
    if (blocks > 1) add_losses<<<1, 1, 0, on(stream)>>>((int)blocks, scale, partial, value);
    return cudaGetLastError();
}

cudaError_t train_cuda_mse(int64_t n, int64_t cols, const float *prediction, const float *target, const float *weight,
                           double *partial, double *value, float *grad, void *stream) {
    double scale = 1.0 / ((double)n * (double)cols);
    unsigned blocks = loss_blocks(n * cols);
    cudaError_t error = start_early(square_error, blocks, LOSS_THREADS, stream, n * cols, cols, (float)(2.0 * scale),
                                    scale, prediction, target, weight, partial, value, grad);
    return error == cudaSuccess ? end_loss(blocks, scale, partial, value, stream) : error;
}

cudaError_t train_cuda_cross_entropy(int64_t n, int64_t cols, const float *prediction, const float *target,
                                     const float *weight, double *partial, double *value, float *grad, void *stream) {
    double scale = 1.0 / (double)n;
    unsigned blocks = loss_blocks(n * cols);
    cross_entropy<<<blocks, LOSS_THREADS, 0, on(stream)>>>(n, cols, scale, prediction, target, weight, partial, value,
                                                           grad);
    return end_loss(blocks, scale, partial, value, stream);
}
