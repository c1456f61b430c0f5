/* Dense layers: out = in W' + 1 b', by BLAS.
 *
 *     in (n, p), out (n, q), W (q, p), b (q)             forward    2 n p q flop
 *     d_W += d_out' in, d_b += d_out' 1, d_in = d_out W  backward   4 n p q flop
 *
 * Layers of some 64 units and batches of some hundred rows are small for BLAS. OpenBLAS has kernels for small products
 * that read the matrices where they lie instead of packing them first; on a core with AVX-512 they reach 170 GFLOP/s
 * for products with W and in, where the others reach 110, and 90 for products with W'. Hence the two measures here: W
 * is transposed first, and the rows are taken in blocks that are small enough.
 *
 * Rows do not meet: threads call this with rows of their own, and BLAS stays on the calling thread. */
#include <cblas.h>
#include <string.h>

#include "train/cpu/cpu.h"

enum {
    SMALL = 1000000,    /* m n k of the largest product that OpenBLAS calls small */
    BLOCK = 64 * 4096,  /* and of those that suit the first cache */
    LEAST_ROWS = 48,    /* below, the kernels lose their speed again */
    TRANSPOSED = 16384, /* W of up to this many numbers is transposed, on the stack */
};

static int block_rows(int64_t n, int64_t p, int64_t q) {
    int64_t rows = BLOCK / (p * q);
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    return (int)(rows > n || rows * p * q > SMALL ? n : rows);
}

/* c (m, n) := a (m, k) b (k, n) + beta c */
static void multiply(int m, int n, int k, const float *a, const float *b, float beta, float *c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, a, k, b, n, beta, c, n);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* t (p, q) := W', rows o..o+3 of W */
static void transpose_four(int64_t p, int64_t q, const float *W, int64_t o, float *t) {
    int64_t i = 0;
    const float *row = W + o * p;
    for (; i + 4 <= p; i += 4) {
        __m128 a = _mm_loadu_ps(row + i), b = _mm_loadu_ps(row + p + i), c = _mm_loadu_ps(row + 2 * p + i),
               d = _mm_loadu_ps(row + 3 * p + i);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(t + i * q + o, a);
        _mm_storeu_ps(t + (i + 1) * q + o, b);
        _mm_storeu_ps(t + (i + 2) * q + o, c);
        _mm_storeu_ps(t + (i + 3) * q + o, d);
    }
    for (; i < p; i++)
        for (int64_t k = 0; k < 4; k++) t[i * q + o + k] = row[k * p + i];
}
#else
static void transpose_four(int64_t p, int64_t q, const float *W, int64_t o, float *t) {
    for (int64_t i = 0; i < p; i++)
        for (int64_t k = 0; k < 4; k++) t[i * q + o + k] = W[(o + k) * p + i];
}
#endif

static void transpose(int64_t p, int64_t q, const float *W, float *t) {
    int64_t o = 0;
    for (; o + 4 <= q; o += 4) transpose_four(p, q, W, o, t);
    for (; o < q; o++)
        for (int64_t i = 0; i < p; i++) t[i * q + o] = W[o * p + i];
}

/* out (n, q) := 1 b', by doubling: a call of memcpy a row would cost as much as the copying. */
static void fill_rows(int64_t n, int64_t q, const float *b, float *out) {
    memcpy(out, b, (size_t)q * sizeof *out);
    for (int64_t done = 1; done < n; done *= 2)
        memcpy(out + done * q, out, (size_t)((n - done < done ? n - done : done) * q) * sizeof *out);
}

static void forward_small(int n, int p, int q, const float *W, const float *b, const float *in, float *out) {
    float t[TRANSPOSED] __attribute__((aligned(64)));
    int block = block_rows(n, p, q);
    transpose(p, q, W, t);
    for (int64_t r = 0; r < n; r += block) {
        int rows = n - r < block ? (int)(n - r) : block;
        fill_rows(rows, q, b, out + r * q);
        multiply(rows, q, p, in + r * p, t, 1.0f, out + r * q);
    }
}

static void forward(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                    float *out) {
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], n = (int)rows;
    const float *W = params, *b = params + (int64_t)p * q;
    unsigned before = train_cpu_flush_begin();
    (void)device;
    if (q == 1) {
        fill_rows(n, q, b, out);
        cblas_sgemv(CblasRowMajor, CblasNoTrans, n, p, 1.0f, in, p, W, 1, 1.0f, out, 1);
    } else if ((int64_t)p * q <= TRANSPOSED) {
        forward_small(n, p, q, W, b, in, out);
    } else {
        fill_rows(n, q, b, out);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, q, p, 1.0f, in, p, W, p, 1.0f, out, q);
    }
    train_cpu_flush_end(before);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* sums (q) += d_out' 1 */
TRAIN_LOOP static void add_columns(int64_t n, int64_t q, const float *restrict d_out, float *restrict sums) {
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < q; o++) sums[o] += d_out[r * q + o];
}

static void backward(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                     const float *out, float *grad_out, float *grad_in, float *grads) {
    int p = (int)layer->fan_in, q = (int)layer->out.size[0], block = block_rows(rows, p, q);
    float *d_b = grads + (int64_t)p * q;
    unsigned before = train_cpu_flush_begin();
    (void)device, (void)out;
    for (int64_t r = 0; r < rows; r += block) {
        const float *d_out = grad_out + r * q;
        int n = rows - r < block ? (int)(rows - r) : block;
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, q, p, n, 1.0f, d_out, q, in + r * p, p, 1.0f, grads, p);
        add_columns(n, q, d_out, d_b);
        if (grad_in != NULL) multiply(n, p, q, d_out, params, 0.0f, grad_in + r * p);
    }
    train_cpu_flush_end(before);
}

const train_layer_ops train_cpu_dense = {.rowwise = true, .forward = forward, .backward = backward};
