/* Internals of the CUDA API: the handle, checks of device pointers, CUDA's errors as statuses. */
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/launching.h"
#include "circe/cuda.h"
#include "core/settings.h"
#include "measures/measure_parts.h"

enum { CIRCE__CUDA_MAX_BLOCKS = 64 };

/* Scratch by growth; the last block is the largest. Blocks that were outgrown stay: a captured graph may still use
 * them. */
typedef struct circe__cuda_scratch {
    struct {
        void *data;
        size_t bytes;
    } blocks[CIRCE__CUDA_MAX_BLOCKS];
    int n;
} circe__cuda_scratch;

typedef struct circe__cuda_algebra circe__cuda_algebra; /* cuBLAS and cuSOLVER; algebra.h */

struct circe_cuda {
    circe_context *context;
    circe_workspace *workspace; /* for the factors of kernels */
    int device;
    int overlap, large_tiles; /* what the device can do; see backend/cuda/device.h */
    cudaStream_t stream;
    circe__cuda_scratch scratch;  /* of one call */
    circe__cuda_scratch points;   /* of a measure that is handed points: what it prepares for the calls that it makes */
    circe__cuda_algebra *algebra; /* NULL until something needs it */
};

/* Success, or the status with CUDA's own words; `what` says what was being done. */
circe_status circe__cuda_status(cudaError_t error, const char *what);

/* The handle's device becomes current; `previous` is what the end gives back. */
circe_status circe__cuda_begin(const circe_cuda *cuda, int *previous);
void circe__cuda_end(const circe_cuda *cuda, int previous);

/* The stream is being captured: nothing may be allocated or waited for. */
bool circe__cuda_is_capturing(const circe_cuda *cuda);

/* At least this many bytes of one of the handle's scratches, or of that of a call. Refuses to grow while the stream is
 * being captured. */
circe_status circe__cuda_grow(const circe_cuda *cuda, circe__cuda_scratch *scratch, size_t bytes, void **data);
circe_status circe__cuda_take(circe_cuda *cuda, size_t bytes, void **scratch);

/* Pieces of scratch: first counted, with a base of NULL, and then taken; each aligned to 256 bytes. */
typedef struct circe__cuda_pieces {
    char *base;
    size_t used;
} circe__cuda_pieces;

static inline void *circe__cuda_piece(circe__cuda_pieces *pieces, size_t bytes) {
    size_t at = pieces->used;
    pieces->used += (bytes + 255) & ~(size_t)255;
    return pieces->base == NULL ? NULL : pieces->base + at;
}

static inline double *circe__cuda_doubles(circe__cuda_pieces *pieces, int64_t count) {
    return circe__cuda_piece(pieces, (size_t)count * sizeof(double));
}

/* Device memory of its own. */
circe_status circe__cuda_alloc(size_t bytes, const char *what, void **data);
/* Rows of `width` bytes to the device, in the order of the handle's stream, and waits: cudaMemcpy on the default stream
 * may return before small copies have arrived, and a stream of the caller's does not wait for that one. */
circe_status circe__cuda_upload(const circe_cuda *cuda, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                size_t width, size_t rows, const char *what);

/* The pointer is memory of the handle's GPU. */
circe_status circe__cuda_check_pointer(const circe_cuda *cuda, const void *pointer, const char *name);

/* A view as the measures check it, and its memory. */
circe_status circe__cuda_check_mat(const circe_cuda *cuda, const circe_mat *mat, const char *name, int64_t min_rows);

/* Factors as the device code takes them. */
circe_status circe__cuda_kernel_of(circe__factors factors, const char *name, circe__cuda_kernel *kernel);

/* ---- measures.c: what measures check, and the contraction as a job ---------------------------------------- */

circe_status circe__cuda_check_dtype(const circe_mat *mat, circe_dtype dtype, const char *name, const char *as);
circe_status circe__cuda_check_rows(int64_t rows, int64_t n, const char *name);
circe_status circe__cuda_set_kernel(circe_cuda *cuda, const circe_kernel *kernel, int64_t cols, const char *name,
                                    circe__cuda_kernel *out);

/* x, value and grad of the contraction, into the job. */
circe_status circe__cuda_set_contraction(circe_cuda *cuda, const circe_mat *x, double *value, const circe_mat *grad,
                                         circe__cuda_job *job);

static inline circe__cuda_points circe__cuda_points_of(const circe_mat *mat) {
    return (circe__cuda_points){mat->data, mat->ld, (int)mat->cols};
}
