/* Kernels with sums over a batch: gradients of biases, losses, batch norm in use. Sums are double; each block writes
 * its part to a place of its own, and the parts are added in their order.
 *
 * The gradient of a bias comes with the derivative of the activation before it, so that the largest arrays of a step
 * are read and written once:
 *
 *     grad (rows, channels, points) := f'(out) grad,   d_bias_c := sum over rows and points of grad
 */
#include "train/cuda/common.cuh"

/* ---- biases ------------------------------------------------------------------------------------------------------ */

enum { PART = 8192, COLUMNS = 32, LINES = 8, ROWS = 64 }; /* numbers of a block's part; a block of a dense layer */

/* Parts of each channel. */
static int64_t parts_of(cuda_batch b) {
    if (b.points == 1) return (b.rows + ROWS - 1) / ROWS;
    int64_t rows = PART / b.points < 1 ? 1 : PART / b.points;
    return (b.rows + rows - 1) / rows;
}

int64_t train_cuda_bias_partials(cuda_batch batch) { return parts_of(batch) * batch.channels; }

/* Block (part, channel): rows [part * rows, + rows) of one channel. */
template <bool FOURS>
static __global__ void images_back(cuda_bend f, cuda_batch b, int rows, const float *out, float *grad,
                                   double *partial) {
    int64_t first = (int64_t)blockIdx.x * rows;
    int count = (int)(b.rows - first < rows ? b.rows - first : rows), width = FOURS ? b.points / 4 : b.points;
    float sum = 0.0f;
    for (int e = threadIdx.x; e < count * width; e += blockDim.x) {
        int64_t at = ((first + e / width) * b.channels + blockIdx.y) * (int64_t)width + e % width;
        if (FOURS) {
            float4 g = ((float4 *)grad)[at];
            if (f.kind != 0) {
                float4 o = ((const float4 *)out)[at];
                g = {bend_back(f, o.x, g.x), bend_back(f, o.y, g.y), bend_back(f, o.z, g.z), bend_back(f, o.w, g.w)};
                ((float4 *)grad)[at] = g;
            }
            sum += (g.x + g.y) + (g.z + g.w);
        } else {
            float g = grad[at];
            if (f.kind != 0) grad[at] = g = bend_back(f, out[at], g);
            sum += g;
        }
    }
    double all = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.y * (int64_t)gridDim.x + blockIdx.x] = all;
}

/* The same of (rows, channels): threads side by side take channels side by side. */
static __global__ void dense_back(cuda_bend f, cuda_batch b, const float *out, float *grad, double *partial) {
    __shared__ float sums[LINES][COLUMNS];
    int column = blockIdx.y * COLUMNS + threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * ROWS, end = first + ROWS < b.rows ? first + ROWS : b.rows;
    float sum = 0.0f;
    if (column < b.channels)
        for (int64_t r = first + threadIdx.y; r < end; r += LINES) {
            int64_t at = r * b.channels + column;
            float g = grad[at];
            if (f.kind != 0) grad[at] = g = bend_back(f, out[at], g);
            sum += g;
        }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= b.channels) return;
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

cudaError_t train_cuda_bias_back(cuda_bend f, cuda_batch batch, const float *out, float *grad, double *partial,
                                 float *d_bias, void *stream) {
    int64_t parts = parts_of(batch);
    int rows = PART / batch.points < 1 ? 1 : PART / batch.points;
    bool fours = batch.points % 4 == 0 && (((uintptr_t)out | (uintptr_t)grad) & 15) == 0;
    if (batch.points == 1)
        dense_back<<<dim3((unsigned)parts, (batch.channels + COLUMNS - 1) / COLUMNS), dim3(COLUMNS, LINES), 0,
                     on(stream)>>>(f, batch, out, grad, partial);
    else if (fours)
        images_back<true>
            <<<dim3((unsigned)parts, batch.channels), THREADS, 0, on(stream)>>>(f, batch, rows, out, grad, partial);
    else
        images_back<false>
            <<<dim3((unsigned)parts, batch.channels), THREADS, 0, on(stream)>>>(f, batch, rows, out, grad, partial);
    add_parts<<<(batch.channels * 32 + THREADS - 1) / THREADS, THREADS, 0, on(stream)>>>(parts, batch.channels, partial,
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

static __global__ void square_error(int64_t n, float slope, double scale, const float *p, const float *t,
                                    double *partial, double *value, float *grad) {
    double sum = 0.0;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        double difference = (double)p[i] - (double)t[i];
        sum += difference * difference;
        if (grad != NULL) grad[i] = slope * (p[i] - t[i]);
    }
    put_sum(sum, scale, partial, value);
}

/* NaN where the class is none, or a prediction is no number. */
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
                                     double *partial, double *value, float *grad) {
    double sum = 0.0;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        sum += row_entropy(cols, p + i * cols, t[i], scale, grad == NULL ? NULL : grad + i * cols);
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

cudaError_t train_cuda_mse(int64_t n, int64_t cols, const float *prediction, const float *target, double *partial,
                           double *value, float *grad, void *stream) {
    double scale = 1.0 / ((double)n * (double)cols);
    unsigned blocks = loss_blocks(n * cols);
    square_error<<<blocks, LOSS_THREADS, 0, on(stream)>>>(n * cols, (float)(2.0 * scale), scale, prediction, target,
                                                          partial, value, grad);
    return end_loss(blocks, scale, partial, value, stream);
}

cudaError_t train_cuda_cross_entropy(int64_t n, int64_t cols, const float *prediction, const float *target,
                                     double *partial, double *value, float *grad, void *stream) {
    double scale = 1.0 / (double)n;
    unsigned blocks = loss_blocks(n * cols);
    cross_entropy<<<blocks, LOSS_THREADS, 0, on(stream)>>>(n, cols, scale, prediction, target, partial, value, grad);
    return end_loss(blocks, scale, partial, value, stream);
}

/* ---- batch norm with running statistics -------------------------------------------------------------------------- */

/* A block a channel. */
static __global__ void norm_back(cuda_batch b, float epsilon, const float *in, const float *mean, const float *variance,
                                 const float *weight, const float *grad_out, float *grad_in, float *d_weight,
                                 float *d_bias) {
    int channel = blockIdx.x;
    float scale = rsqrtf(variance[channel] + epsilon), center = mean[channel], slope = weight[channel] * scale;
    double sum = 0.0, product = 0.0;
    for (int64_t e = threadIdx.x; e < b.rows * b.points; e += blockDim.x) {
        int64_t at = (e / b.points * b.channels + channel) * b.points + e % b.points;
        float g = grad_out[at];
        sum += g;
        product += (double)g * ((in[at] - center) * scale);
        grad_in[at] = slope * g;
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x != 0) return;
    d_weight[channel] = (float)product;
    d_bias[channel] = (float)sum;
}

cudaError_t train_cuda_norm_back(cuda_batch batch, float epsilon, const float *in, const float *mean,
                                 const float *variance, const float *weight, const float *grad_out, float *grad_in,
                                 float *d_weight, float *d_bias, void *stream) {
    norm_back<<<batch.channels, LOSS_THREADS, 0, on(stream)>>>(batch, epsilon, in, mean, variance, weight, grad_out,
                                                               grad_in, d_weight, d_bias);
    return cudaGetLastError();
}
