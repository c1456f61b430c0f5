/* The CPU backend: picks the loops for the instruction set this machine has. */
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

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

#if defined(__x86_64__)
enum { FLUSH_TO_ZERO = 0x8040 }; /* results and operands */

unsigned circe__flush_begin(void) {
    unsigned previous = _mm_getcsr();
    _mm_setcsr(previous | FLUSH_TO_ZERO);
    return previous;
}

void circe__flush_end(unsigned previous) {
    unsigned others = _mm_getcsr() & ~(unsigned)FLUSH_TO_ZERO; /* flags raised meanwhile stay */
    _mm_setcsr(others | (previous & FLUSH_TO_ZERO));
}
#else
unsigned circe__flush_begin(void) { return 0; }

void circe__flush_end(unsigned previous) { (void)previous; }
#endif
