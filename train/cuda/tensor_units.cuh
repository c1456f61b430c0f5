/* The tensor units' product of a warp, with factors of 11 bits and sums of float32:
 *
 *     sum (16, 8) += a (16, 8) b (8, 8)
 *
 * Lane 4 r + k has a (r, k), a (r + 8, k), a (r, k + 4), a (r + 8, k + 4); b (k, r), b (k + 4, r); and of the sum
 * (r, 2 k), (r, 2 k + 1), (r + 8, 2 k), (r + 8, 2 k + 1). The lower 13 bits of factors are ignored, so they must have
 * been rounded. */
#pragma once

enum { TENSOR_M = 16, TENSOR_N = 8, TENSOR_K = 8 };

static __device__ inline void multiply_tf32(const float (&a)[4], const float (&b)[2], float (&sum)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
