#include "cuda/libraries.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#ifndef CIRCE_CUDA_LIBRARY_DIR
#define CIRCE_CUDA_LIBRARY_DIR "/usr/local/cuda/lib64" /* a build names that of its own toolkit */
#endif

/* The names of the files carry the major version; cuBLAS and the JIT linker count as the toolkit does. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const circe__library blas_library = {
    "cuBLAS", "libcublas.so." TEXT(CUBLAS_VER_MAJOR), "nvidia-cublas", {"libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)}};
static const circe__library solver_library = {
    "cuSOLVER",
    "libcusolver.so." TEXT(CUSOLVER_VER_MAJOR),
    "nvidia-cusolver",
    {"libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), "libcublas.so." TEXT(CUBLAS_VER_MAJOR),
     "libnvJitLink.so." TEXT(CUBLAS_VER_MAJOR), "libcusparse.so.12"}};

static const char *const blas_names[] = {CIRCE__BLAS(CIRCE__LIBRARY_NAME)};
static const char *const solver_names[] = {CIRCE__SOLVER(CIRCE__LIBRARY_NAME)};

static void *open_in(const char *folder, const char *file) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* What it needs is opened from the same folder first: the loader then finds it by its name. */
static void *open_with_needs(const char *folder, const circe__library *library) {
    for (size_t k = 0; k < sizeof library->needs / sizeof *library->needs && library->needs[k] != NULL; k++)
        open_in(folder, library->needs[k]);
    return open_in(folder, library->file);
}

/* In folders that colons separate. */
static void *open_in_some(const char *folders, const circe__library *library) {
    void *found = NULL;
    for (const char *at = folders, *end; found == NULL && at != NULL && *at != '\0'; at = *end == ':' ? end + 1 : end) {
        char folder[4096];
        end = at + strcspn(at, ":");
        int length = snprintf(folder, sizeof folder, "%.*s", (int)(end - at), at);
        if (length > 0 && (size_t)length < sizeof folder) found = open_with_needs(folder, library);
    }
    return found;
}

static void *find(const circe__library *library) {
    void *found = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (found == NULL) found = open_in_some(getenv("CIRCE_CUDA_LIBRARIES"), library);
    if (found == NULL) found = open_with_needs(CIRCE_CUDA_LIBRARY_DIR, library);
    return found;
}

circe_status circe__library_open(const circe__library *library, void *table, const char *const *names, int n) {
    void *found = find(library), **functions = table;
    if (found == NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "this call needs %s, but %s was not found; install CUDA %d's libraries (pip install %s) and "
                          "name their folder in LD_LIBRARY_PATH or CIRCE_CUDA_LIBRARIES",
                          library->name, library->file, CUDART_VERSION / 1000, library->package);
    for (int k = 0; k < n; k++) {
        functions[k] = dlsym(found, names[k]);
        if (functions[k] == NULL)
            return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s has no function %s; the library was built with CUDA %d.%d",
                              library->file, names[k], CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    }
    return CIRCE_OK;
}

circe_status circe__libraries_load(circe__blas *blas, circe__solver *solver) {
    circe_status status =
        circe__library_open(&blas_library, blas, blas_names, (int)(sizeof blas_names / sizeof *blas_names));
    if (status == CIRCE_OK)
        status = circe__library_open(&solver_library, solver, solver_names,
                                     (int)(sizeof solver_names / sizeof *solver_names));
    return status;
}
