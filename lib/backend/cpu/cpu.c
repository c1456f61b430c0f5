/* The CPU backend: picks the loops for the instruction set this machine has. */
#include <omp.h>

#include "backend/backend.h"
#include "backend/cpu/algebra.h"
#include "backend/cpu/loops.h"
#include "core/core.h"

static const circe__backend generic = {"cpu", "generic", &circe__loops_generic_f32, &circe__loops_generic_f64,
                                       &circe__algebra_blas};
#ifdef CIRCE_HAVE_X86_LOOPS
static const circe__backend avx2 = {"cpu", "avx2", &circe__loops_avx2_f32, &circe__loops_avx2_f64,
                                    &circe__algebra_blas};
static const circe__backend avx512 = {"cpu", "avx512", &circe__loops_avx512_f32, &circe__loops_avx512_f64,
                                      &circe__algebra_blas};
#endif

const circe__backend *circe__backend_cpu(void) {
#ifdef CIRCE_HAVE_X86_LOOPS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return &avx2;
#endif
    return &generic;
}

int circe__threads_begin(const circe_context *context) {
    int previous = omp_get_max_threads();
    omp_set_num_threads(context->threads);
    return previous;
}

void circe__threads_end(int previous) { omp_set_num_threads(previous); }
