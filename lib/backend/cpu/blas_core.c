/* The kernels of OpenBLAS.
 *
 * An OpenBLAS for all processors (DYNAMIC_ARCH) chooses its kernels by the processor's model when it is loaded. Up to
 * 0.3.21 it uses its oldest kernels (SSE3) for a model that it does not know. They take 3 to 5 times as long as those
 * for the AVX2 or AVX-512 that the processor has. The variable OPENBLAS_CORETYPE names other kernels, but OpenBLAS
 * reads it only while it is loaded, before a library that links with it can run. So this file makes the choice once
 * more: OpenBLAS exports the function that chooses, and that function reads the variable. A choice that the user made
 * stays.
 *
 * Changing kernels during a product would spoil it, because block sizes differ. So the change happens only while this
 * library is loaded, and only if nobody can be computing: OpenBLAS was loaded after or with this library, or the
 * process has no threads except this one and those of OpenBLAS, which work only for a caller. In all other cases
 * circe_blas_note says what to do.
 *
 * Nothing here requires OpenBLAS: the symbols are weak, and other libraries do not have them. */
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

/* The threads of this process; a large number if that cannot be found out. */
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

/* The name under which OpenBLAS has the kernels of a level. The kernels for Haswell are as fast on AMD's processors as
 * those for Zen. */
static const char *core_of(circe__processor level) {
    static const char *const cores[] = {"PRESCOTT", "SANDYBRIDGE", "HASWELL", "SKYLAKEX"};
    return cores[level];
}

/* Makes OpenBLAS choose again. It tries the best kernels for this processor first, since its build may lack the newest.
 * The variable is not set in the program's environment, because other threads may be reading that. A copy with one more
 * line replaces it for the moment; other threads may keep pointers into the copy, so it is never freed. */
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

/* For a core that the user requested: less than AVX2 is several times slower, but AVX2 instead of AVX-512 costs
 * little. */
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
