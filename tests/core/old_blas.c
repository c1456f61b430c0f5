/* Makes the OpenBLAS of this system one that does not know the processor, when it is loaded before the program
 * (LD_PRELOAD): left to itself it takes the kernels for Prescott, as versions do that are older than the processor.
 * CIRCE_TEST_FIRST names others. What OPENBLAS_CORETYPE asks for it takes as ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

void gotoblas_dynamic_init(void);

void gotoblas_dynamic_init(void) {
    void *openblas = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD); /* which is calling */
    void (*real)(void) = openblas != NULL ? (void (*)(void))dlsym(openblas, "gotoblas_dynamic_init") : NULL;
    const char *first = getenv("CIRCE_TEST_FIRST");
    int unknown = getenv("OPENBLAS_CORETYPE") == NULL;
    if (real == NULL) return;
    if (unknown) setenv("OPENBLAS_CORETYPE", first != NULL ? first : "PRESCOTT", 1);
    real();
    if (unknown) unsetenv("OPENBLAS_CORETYPE");
}
