/* The CPU backend: picks the loops for the best instruction set of this machine, or for the one that CIRCE_ISA
 * names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "backend/backend.h"
#include "backend/cpu/algebra.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/processor.h"
#include "core/core.h"

typedef struct choice {
    circe__processor needs;
    circe__backend backend;
} choice;

/* From the oldest on. */
static const choice choices[] = {
    {CIRCE__BASELINE, {"baseline", &circe__loops_baseline_f32, &circe__loops_baseline_f64, &circe__algebra_blas}},
#ifdef CIRCE_HAVE_X86_LOOPS
    {CIRCE__AVX2, {"avx2", &circe__loops_avx2_f32, &circe__loops_avx2_f64, &circe__algebra_blas}},
    {CIRCE__AVX512, {"avx512", &circe__loops_avx512_f32, &circe__loops_avx512_f64, &circe__algebra_blas}},
#endif
};
enum { N_CHOICES = sizeof choices / sizeof choices[0] };

/* "baseline, avx2": those that a processor can run. */
static void list_runnable(circe__processor processor, char *text, size_t size) {
    size_t length = 0;
    for (int i = 0; i < N_CHOICES && length < size; i++)
        if (choices[i].needs <= processor)
            length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", choices[i].backend.isa);
}

static const choice *find_choice(const char *isa) {
    for (int i = 0; i < N_CHOICES; i++)
        if (strcmp(choices[i].backend.isa, isa) == 0) return &choices[i];
    return NULL;
}

circe_status circe__backend_cpu(const circe__backend **backend) {
    circe__processor processor = circe__processor_level();
    const char *asked = getenv("CIRCE_ISA");
    char runnable[64];
    if (asked == NULL || asked[0] == '\0') {
        for (int i = 0; i < N_CHOICES; i++)
            if (choices[i].needs <= processor) *backend = &choices[i].backend;
        return CIRCE_OK;
    }
    const choice *found = find_choice(asked);
    list_runnable(processor, runnable, sizeof runnable);
    if (found == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "CIRCE_ISA is '%s', which is not an instruction set of circe; this machine has %s", asked,
                          runnable);
    if (found->needs > processor)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "CIRCE_ISA is '%s', which this processor lacks; this machine has %s",
                          asked, runnable);
    *backend = &found->backend;
    return CIRCE_OK;
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
