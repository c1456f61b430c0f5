/* NVIDIA's libraries, opened when they are first needed.
 *
 * libcirce is not linked with them, so a program starts where they are not installed, and a call that needs one says
 * what to install. A library is a table of function pointers, filled from its shared object:
 *
 *     #define BLAS(X) X(cublasCreate_v2) X(cublasDgemm_v2)
 *     struct { BLAS(CIRCE__LIBRARY_POINTER) } blas;
 *     static const char *const names[] = {BLAS(CIRCE__LIBRARY_NAME)};
 *     circe__library_open(&library, &blas, names, n)
 *
 * The types come from NVIDIA's headers, which a build needs. */
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include "circe/status.h"
#include "core/rooms.h"

#define CIRCE__LIBRARY_POINTER(function) __typeof__(function) *function;
#define CIRCE__LIBRARY_NAME(function) #function,

typedef struct circe__library {
    const char *name;     /* for the text: "cuBLAS" */
    const char *file;     /* "libcublas.so.13" */
    const char *package;  /* of PyPI: "nvidia-cublas" */
    const char *needs[4]; /* files to open before it, where it is not on the loader's path */
} circe__library;

/* Fills `table`, an array of function pointers, with the functions of these names. The library stays open until the
 * process ends. CIRCE_ERR_UNSUPPORTED, with what to install, if it or one of its functions is missing. Looks where
 * the loader does (a library that the process has opened already is that one), then in the folders CIRCE_CUDA_LIBRARIES
 * of the environment (a:b), then in that of the toolkit the library was built with. */
CIRCE_ROOMS circe_status circe__library_open(const circe__library *library, void *table, const char *const *names,
                                             int n);

#define CIRCE__BLAS(X)       \
    X(cublasCreate_v2)       \
    X(cublasDestroy_v2)      \
    X(cublasSetStream_v2)    \
    X(cublasSetWorkspace_v2) \
    X(cublasDgemm_v2)        \
    X(cublasDgemmStridedBatched)

#define CIRCE__SOLVER(X)           \
    X(cusolverDnCreate)            \
    X(cusolverDnDestroy)           \
    X(cusolverDnCreateParams)      \
    X(cusolverDnDestroyParams)     \
    X(cusolverDnSetStream)         \
    X(cusolverDnDpotrf_bufferSize) \
    X(cusolverDnDpotrf)            \
    X(cusolverDnXsyevd_bufferSize) \
    X(cusolverDnXsyevd)

typedef struct circe__blas {
    CIRCE__BLAS(CIRCE__LIBRARY_POINTER)
} circe__blas;

typedef struct circe__solver {
    CIRCE__SOLVER(CIRCE__LIBRARY_POINTER)
} circe__solver;

/* cuBLAS and cuSOLVER. */
circe_status circe__libraries_load(circe__blas *blas, circe__solver *solver);
