/* The instruction sets of this processor, as far as our loops and the kernels of a BLAS depend on them. */
#pragma once

typedef enum circe__processor {
    CIRCE__BASELINE, /* what every processor of this architecture has */
    CIRCE__AVX,
    CIRCE__AVX2,   /* x86-64-v3 */
    CIRCE__AVX512, /* x86-64-v4 */
} circe__processor;

/* The operating system's part (saving the wide registers) is asked for too. */
static inline circe__processor circe__processor_level(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return CIRCE__AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return CIRCE__AVX2;
    if (__builtin_cpu_supports("avx")) return CIRCE__AVX;
#endif
    return CIRCE__BASELINE;
}
