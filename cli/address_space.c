/* Checks, before anything else, that there is address space for OpenBLAS.
 *
 * If there is not (ulimit -v), OpenBLAS's allocator retries forever, and it does so while it is loaded, before main.
 * The functions of .preinit_array run before the constructors of libraries, and may use little more than system calls.
 * What a job needs beyond that is claimed when its context is created. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/common/message.h"

__attribute__((weak)) char *openblas_get_config(void); /* another BLAS has none, and needs no more than it uses */

enum { BUFFER_MB = 128, MOST_THREADS = 64 };

/* Of OpenBLAS, as it counts them. */
static int count_threads(char **environment) {
    static const char *const names[] = {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="};
    cpu_set_t processors;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (char **entry = environment; *entry != NULL; entry++) {
            size_t length = strlen(names[k]);
            int number = strncmp(*entry, names[k], length) == 0 ? atoi(*entry + length) : 0;
            if (number > 0) return number < MOST_THREADS ? number : MOST_THREADS;
        }
    int number = sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 1;
    return number < MOST_THREADS ? number : MOST_THREADS;
}

static void check_address_space(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    if (openblas_get_config == NULL) return;
    int threads = count_threads(environment);
    size_t bytes = (size_t)threads * BUFFER_MB << 20;
    void *probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe != MAP_FAILED) {
        munmap(probe, bytes);
        return;
    }
    char text[512];
    int length = snprintf(text, sizeof text,
                          "circe: not enough memory: OpenBLAS needs %d MB of address space for %d thread%s, but less "
                          "is available (ulimit -v shows the limit)\nhint: raise the limit%s\n",
                          threads * BUFFER_MB, threads, threads == 1 ? "" : "s",
                          threads == 1 ? "" : ", or set OMP_NUM_THREADS=1, which needs less");
    if (write(STDERR_FILENO, text, (size_t)length) != length) _exit(EXIT_WORK);
    _exit(EXIT_WORK);
}

__attribute__((section(".preinit_array"), used)) static void (*const checked)(int, char **,
                                                                              char **) = check_address_space;
