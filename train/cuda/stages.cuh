/* Asynchronous copies from the GPU's memory to shared memory, in stages. The thread does other work meanwhile. */
#pragma once

/* 16 bytes, zeros where there is nothing. (CUDA's own function would branch on how many.) */
static __device__ inline void bring(float *to, const float *from, bool there) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

/* 4 bytes. */
static __device__ inline void bring_one(float *to, const float *from, bool there) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

static __device__ inline void end_stage() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

/* All stages of this thread but the last `LEFT` are there. */
template <int LEFT>
static __device__ inline void wait_stage() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(LEFT) : "memory");
}
