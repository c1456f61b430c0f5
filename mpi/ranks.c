/* Finds and loads the part that is linked with MPI, and builds the functions of ranks.h on its table. */
#define _GNU_SOURCE
#include "mpi/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "core/hash.h"

static struct {
    const ranks_engine *engine; /* NULL: one process */
    ranks_place place;
} here = {.place = {.size = 1, .neighbours = 1}};

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Looks beside the program (a build folder) and where an installation has it. MPI needs its symbols to be global,
 * because it loads parts of its own. */
static void *load(void) {
    static const char *const places[] = {"", RANKS_INSTALLED "/"};
    char program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) return NULL;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL) slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%scirce_mpi.so", program, places[i]);
        void *library = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (library != NULL || access(path, R_OK) == 0) return library;
    }
    return NULL;
}

static circe_status find_engine(const ranks_launch *launch, const ranks_engine **engine) {
    void *library = load();
    const char *problem = library == NULL ? dlerror() : NULL;
    if (library == NULL)
        return circe_fail(
            CIRCE_ERR_UNSUPPORTED,
            "%s started %d copies of this program, which %s%s; start one, or build circe with -DCIRCE_MPI=ON",
            launch->by, launch->size, problem != NULL ? "cannot load MPI: " : "was built without MPI",
            problem != NULL ? problem : "");
    union { /* a pointer to data becomes one to a function, as POSIX allows */
        void *symbol;
        ranks_engine_fn *function;
    } found = {dlsym(library, RANKS_ENGINE_SYMBOL)};
    *engine = found.symbol != NULL ? found.function() : NULL;
    if (*engine == NULL || (*engine)->version != RANKS_ENGINE_VERSION)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "circe_mpi.so and this program have different versions; install both from one build");
    return CIRCE_OK;
}

circe_status ranks_open(void) {
    ranks_launch launch = ranks_launched();
    const ranks_engine *engine = NULL;
    if (launch.by == NULL || launch.size == 1) return CIRCE_OK;
    if (launch.without)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "srun started %d tasks, but without MPI; use srun --mpi=pmix (srun --mpi=list shows the "
                          "alternatives), or CIRCE_CLUSTER=off for independent tasks",
                          launch.size);
    circe_status status = find_engine(&launch, &engine);
    if (status != CIRCE_OK || engine == NULL) return status;
    ranks_place place = {0};
    if (!engine->open(&place)) return circe_fail(CIRCE_ERR_UNSUPPORTED, "MPI could not be started");
    if (launch.size > 0 && place.size != launch.size)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "%s started %d processes, but %s sees %d; start circe with that MPI's own mpirun, or with "
                          "srun --mpi=pmix",
                          launch.by, launch.size, engine->name(), place.size);
    here.place = place;
    if (place.size > 1) here.engine = engine;
    return CIRCE_OK;
}

void ranks_close(void) {
    if (here.engine != NULL) here.engine->close();
    here.engine = NULL;
}

__attribute__((noreturn)) static void abort_all(int status) {
    if (here.engine != NULL) here.engine->abort(status);
    exit(status);
}

static void (*last_words)(const char *text);

void ranks_speak_last(void (*speak)(const char *text)) { last_words = speak; }

void ranks_give_up(const char *text) {
    char named[RANKS_TEXT_BYTES];
    if (here.place.rank > 0)
        snprintf(named, sizeof named, "rank %d on %s: %s", here.place.rank, here.place.host, text);
    else
        snprintf(named, sizeof named, "%s", text);
    if (last_words != NULL) last_words(named);
    abort_all(1);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

int ranks_rank(void) { return here.place.rank; }

int ranks_size(void) { return here.place.size; }

int ranks_neighbours(void) { return here.place.neighbours; }

const char *ranks_host(void) { return here.place.host; }

const ranks_engine *ranks_engine_used(void) { return here.engine; }

/* If the launcher bound this process to some cores, it uses those; otherwise the ranks divide the machine. */
int64_t ranks_cores(void) {
    cpu_set_t set;
    int64_t all = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t bound = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : all;
    int64_t share = circe__max(1, all / here.place.neighbours);
    return bound < all ? circe__max(1, bound) : share;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

void ranks_broadcast(int from, void *data, size_t bytes) {
    if (here.engine != NULL) here.engine->broadcast(from, data, bytes);
}

void ranks_sum(double *values, int64_t n) {
    if (here.engine != NULL) here.engine->sum(values, n);
}

void ranks_gather(const void *own, size_t bytes, void *everyones) {
    if (here.engine != NULL)
        here.engine->gather(own, bytes, everyones);
    else
        memcpy(everyones, own, bytes);
}

int ranks_first_report(int report, char *text, int *who) {
    int *reports = malloc((size_t)here.place.size * sizeof *reports), found = 0;
    if (reports == NULL) abort_all(1);
    ranks_gather(&report, sizeof report, reports);
    for (int rank = 0; rank < here.place.size && found == 0; rank++) {
        found = reports[rank];
        if (found != 0) *who = rank;
    }
    free(reports);
    if (found != 0) ranks_broadcast(*who, text, RANKS_TEXT_BYTES);
    return found;
}

/* The text of a failure elsewhere: its first line says what is wrong, the others are hints. */
static circe_status fail_again(circe_status status, char *text) {
    char *rest = text, *line = strsep(&rest, "\n");
    circe_fail(status, "%s", line);
    while ((line = strsep(&rest, "\n")) != NULL) circe_fail_hint(status, "%s", line);
    return status;
}

circe_status ranks_agree(circe_status status) {
    char text[RANKS_TEXT_BYTES] = "";
    int who = 0;
    if (here.engine == NULL) return status;
    if (status != CIRCE_OK) {
        const char *said = circe_last_error()[0] != '\0' ? circe_last_error() : circe_status_text(status);
        if (here.place.rank == 0)
            snprintf(text, sizeof text, "%s", said);
        else
            snprintf(text, sizeof text, "rank %d on %s: %s", here.place.rank, here.place.host, said);
    }
    circe_status worst = (circe_status)ranks_first_report((int)status, text, &who);
    return worst == CIRCE_OK ? CIRCE_OK : fail_again(worst, text);
}

circe_status ranks_same(const void *data, size_t bytes, const char *what) {
    uint64_t own = circe__hash_bytes(0, data, bytes), first = own;
    ranks_broadcast(0, &first, sizeof first);
    circe_status status = CIRCE_OK;
    if (own != first)
        status = circe_fail(CIRCE_ERR_VALUE, "%s differs from that of rank 0; every rank must see the same", what);
    return ranks_agree(status);
}
