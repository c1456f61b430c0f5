/* The kernels of OpenBLAS.
 *
 * An OpenBLAS for all processors (DYNAMIC_ARCH) chooses its kernels when it is loaded, by the processor's model. Up to
 * 0.3.21 it gives a model that it does not know the oldest ones, SSE3, which take 3 to 5 times as long as those for the
 * AVX2 or AVX-512 that is there. Its own variable OPENBLAS_CORETYPE names others, but is read at that moment only,
 * which is past when a library that links with OpenBLAS comes to run. So the choice is made once more: OpenBLAS exports
 * the function that makes it, and that function reads the variable. A choice that the user made stays.
 *
 * To change kernels while a product is computed would spoil it: block sizes differ. It is done only while this library
 * is loaded, and only if nobody can be computing: OpenBLAS came after us, with us, or there are no threads but this one
 * and those of OpenBLAS itself, which work for a caller only. Elsewhere circe_blas_note says what to do.
 *
 * Nothing here needs OpenBLAS: the symbols are weak, and missing in other libraries. */
#define _GNU_SOURCE /* dl_iterate_phdr, environ */
#include "backend/cpu/blas_core.h"

#include <dirent.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "circe/version.h"

#define WEAK __attribute__((weak))

WEAK char *openblas_get_config(void);
WEAK char *openblas_get_corename(void);
WEAK int openblas_get_parallel(void);
WEAK int openblas_get_num_threads(void);
WEAK void gotoblas_dynamic_init(void);
WEAK void gotoblas_dynamic_quit(void);
WEAK char *bli_info_get_version_str(void);
WEAK int bli_arch_query_id(void);
WEAK char *bli_arch_string(int id);

enum { PTHREADS = 1 }; /* openblas_get_parallel: threads of its own */

static const char variable[] = "OPENBLAS_CORETYPE";
static char name[64], note[512];

/* ---- what is there ----------------------------------------------------------------------------------------------- */

/* "OpenBLAS 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
static void settle_name(void) {
    if (bli_info_get_version_str != NULL) {
        snprintf(name, sizeof name, "BLIS %s", bli_info_get_version_str());
    } else if (openblas_get_config != NULL) {
        const char *config = openblas_get_config();
        size_t word = strcspn(config, " "), length = word + (config[word] == ' ');
        snprintf(name, sizeof name, "%.*s", (int)(length + strcspn(config + length, " ")), config);
    } else {
        snprintf(name, sizeof name, "%s", CIRCE_BUILD_BLAS);
    }
}

const char *circe_blas_name(void) { return name; }

const char *circe_blas_core(void) {
    if (bli_arch_query_id != NULL && bli_arch_string != NULL) return bli_arch_string(bli_arch_query_id());
    return openblas_get_corename != NULL ? openblas_get_corename() : "";
}

const char *circe_blas_note(void) { return note[0] != '\0' ? note : NULL; }

circe__processor circe__blas_core_level(const char *core) {
    static const char *const sse[] = {"Unknown", "Generic", "Katmai",       "Coppermine", "Northwood",  "Prescott",
                                      "Banias",  "Atom",    "Core2",        "Penryn",     "Dunnington", "Nehalem",
                                      "Athlon",  "Opteron", "Opteron_SSE3", "Barcelona",  "Nano",       "Bobcat"};
    static const char *const avx[] = {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller"};
    static const char *const avx2[] = {"Haswell", "Excavator", "Zen"};
    for (size_t i = 0; i < sizeof sse / sizeof sse[0]; i++)
        if (strcasecmp(core, sse[i]) == 0) return CIRCE__BASELINE;
    for (size_t i = 0; i < sizeof avx / sizeof avx[0]; i++)
        if (strcasecmp(core, avx[i]) == 0) return CIRCE__AVX;
    for (size_t i = 0; i < sizeof avx2 / sizeof avx2[0]; i++)
        if (strcasecmp(core, avx2[i]) == 0) return CIRCE__AVX2;
    return CIRCE__AVX512;
}

/* ---- whether anybody may be computing ---------------------------------------------------------------------------- */

static bool holds(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
        if (object->dlpi_phdr[i].p_type == PT_LOAD && address >= start &&
            address - start < object->dlpi_phdr[i].p_memsz)
            return true;
    }
    return false;
}

enum { OURS_FIRST = 1, BLAS_FIRST = 2 };

static int which_first(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    if (holds(object, (uintptr_t)which_first)) return OURS_FIRST;
    return holds(object, (uintptr_t)openblas_get_corename) ? BLAS_FIRST : 0;
}

/* The loader lists what it loaded in this order, and a library before what it brings. */
static bool came_with_us(void) { return dl_iterate_phdr(which_first, NULL) == OURS_FIRST; }

/* Of this process; many where that cannot be found out. */
static int count_threads(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL) return 1 << 30;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static bool nobody_computes(void) {
    bool pool = openblas_get_parallel != NULL && openblas_get_parallel() == PTHREADS;
    return came_with_us() || count_threads() <= (pool ? openblas_get_num_threads() : 1);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* The name by which OpenBLAS takes the kernels of a level. Those for Haswell are no slower on AMD's processors than
 * those for Zen. */
static const char *core_of(circe__processor level) {
    static const char *const cores[] = {"PRESCOTT", "SANDYBRIDGE", "HASWELL", "SKYLAKEX"};
    return cores[level];
}

/* OpenBLAS chooses again, from the best kernels for this processor on: its build may lack the newest. The variable is
 * not set in the program's environment, which other threads may be reading: a copy with one line more stands in its
 * place meanwhile. They may hold on to it, so it stays. */
static void choose_again(circe__processor processor) {
    static char line[64], **copy;
    char **original = environ;
    size_t n = 0;
    while (original != NULL && original[n] != NULL) n++;
    char **larger = realloc(copy, (n + 2) * sizeof *larger);
    if (larger == NULL) return;
    copy = larger;
    copy[0] = line;
    for (size_t i = 0; i < n; i++) copy[i + 1] = original[i];
    copy[n + 1] = NULL;
    environ = copy;
    for (circe__processor level = processor; level > circe__blas_core_level(openblas_get_corename()); level--) {
        snprintf(line, sizeof line, "%s=%s", variable, core_of(level));
        gotoblas_dynamic_quit();
        gotoblas_dynamic_init();
    }
    environ = original;
}

static void settle_note(circe__processor processor, const char *remedy) {
    static const char *const has[] = {"SSE", "AVX", "AVX2", "AVX-512"};
    snprintf(note, sizeof note,
             "%s computes with its kernels for %s, although this processor has %s: matrix products are slower than "
             "they could be. To make them faster, %s.",
             name, openblas_get_corename(), has[processor], remedy);
}

/* Of a core that the user asked for: what is less than AVX2 costs a factor, AVX2 in place of AVX-512 little. */
static void judge_forced(circe__processor processor) {
    char remedy[64];
    circe__processor level = circe__blas_core_level(openblas_get_corename());
    snprintf(remedy, sizeof remedy, "unset %s", variable);
    if (level < processor && level < CIRCE__AVX2) settle_note(processor, remedy);
}

static void judge_own(circe__processor processor) {
    bool callable = gotoblas_dynamic_init != NULL && gotoblas_dynamic_quit != NULL;
    bool dynamic = openblas_get_config != NULL && strstr(openblas_get_config(), "DYNAMIC_ARCH") != NULL;
    char remedy[128];
    if (circe__blas_core_level(openblas_get_corename()) >= processor) return;
    bool tried = callable && nobody_computes();
    if (tried) choose_again(processor);
    if (circe__blas_core_level(openblas_get_corename()) >= processor) return;
    if (dynamic && !tried)
        snprintf(remedy, sizeof remedy, "set %s=%s before the program starts", variable, core_of(processor));
    else
        snprintf(remedy, sizeof remedy, "install a newer OpenBLAS that is built for all processors (DYNAMIC_ARCH)");
    settle_note(processor, remedy);
}

/* Gives OpenBLAS the kernels of this processor where its own are older, and settles what circe_blas_note says. */
__attribute__((constructor)) static void settle(void) {
    circe__processor processor = circe__processor_level();
    settle_name();
    if (openblas_get_corename == NULL || bli_info_get_version_str != NULL) return;
    if (processor == CIRCE__BASELINE) return;
    if (getenv(variable) != NULL)
        judge_forced(processor);
    else
        judge_own(processor);
}
