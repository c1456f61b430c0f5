/* Fits on the device: its memory, by slots, and the features of a basis there. */
#include "cuda/fit_parts.h"

enum {
    BLOCK_DOUBLES = 32 << 20, /* numbers that a block of rows may take */
    BLOCK_LEAST = 1024,       /* rows */
};

circe_status circe__fit_take(circe__fitter *f, circe__fit_slot which, int64_t doubles, double **data) {
    size_t bytes = (size_t)circe__max(doubles, 1) * sizeof(double);
    circe_status status = CIRCE_OK;
    if (f->bytes[which] < bytes) {
        cudaFree(f->blocks[which]);
        f->bytes[which] = 0;
        status = circe__cuda_alloc(bytes, "a fit", &f->blocks[which]);
        if (status == CIRCE_OK) f->bytes[which] = bytes;
    }
    *data = f->blocks[which];
    return status;
}

circe_status circe__fit_upload(circe__fitter *f, double *to, const double *from, int64_t doubles) {
    return circe__cuda_status(
        cudaMemcpyAsync(to, from, (size_t)doubles * sizeof *to, cudaMemcpyHostToDevice, f->cuda->stream),
        "copying to the GPU");
}

circe_status circe__fit_place(circe__fitter *f, circe__fit_slot which, const double *from, int64_t doubles,
                              double **data) {
    circe_status status = circe__fit_take(f, which, doubles, data);
    return status == CIRCE_OK ? circe__fit_upload(f, *data, from, doubles) : status;
}

/* Waits for what was queued. */
circe_status circe__fit_download(circe__fitter *f, void *to, const void *from, size_t bytes) {
    circe_status status = circe__cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, f->cuda->stream),
                                             "copying from the GPU");
    if (status != CIRCE_OK) return status;
    return circe__cuda_status(cudaStreamSynchronize(f->cuda->stream), "waiting for a fit on the GPU");
}

circe_status circe__fit_clear(circe__fitter *f, double *data, int64_t doubles) {
    return circe__cuda_status(cudaMemsetAsync(data, 0, (size_t)doubles * sizeof *data, f->cuda->stream),
                              "clearing memory of the GPU");
}

circe_status circe__fit_launched(int error) {
    return circe__cuda_status((cudaError_t)error, "starting a part of a fit");
}

circe_status circe__fit_place_basis(circe__fitter *f, const circe__basis *from, bool of_y, circe__fit_basis *to) {
    *to = (circe__fit_basis){.rank = from->rank, .cols = (int)from->dim};
    circe_status status = circe__cuda_kernel_of(circe__basis_kernel(from), of_y ? "y" : "z", &to->kernel);
    if (status == CIRCE_OK)
        status = circe__fit_place(f, of_y ? CIRCE__FIT_PIVOTS_Y : CIRCE__FIT_PIVOTS_Z, from->points,
                                  from->rank * from->dim, &to->pivots);
    if (status == CIRCE_OK)
        status = circe__fit_place(f, of_y ? CIRCE__FIT_INVERSE_Y : CIRCE__FIT_INVERSE_Z, from->inverse,
                                  from->rank * from->rank, &to->inverse);
    return status;
}

/* K (n, rank) := the kernel of points against the pivots. */
circe_status circe__fit_gram(circe__fitter *f, const circe__fit_basis *b, const double *points, int64_t n, double *K) {
    return circe__fit_launched(
        circe__cuda_gram(&b->kernel, points, n, b->pivots, b->rank, b->cols, K, f->cuda->stream));
}

/* features (n, rank) = K L^-T, by way of CIRCE__FIT_GRAM. */
circe_status circe__fit_features(circe__fitter *f, const circe__fit_basis *b, const double *points, int64_t n,
                                 double *out) {
    double *K = NULL;
    int64_t r = b->rank;
    circe_status status = circe__fit_take(f, CIRCE__FIT_GRAM, n * r, &K);
    if (status == CIRCE_OK) status = circe__fit_gram(f, b, points, n, K);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(f->cuda, 0, 1, n, r, r, 1.0, K, r, b->inverse, r, 0.0, out, r);
}

/* Rows at a time, where a row takes so many numbers. */
int64_t circe__fit_block_rows(int64_t rows, int64_t doubles) {
    return circe__min(rows, circe__max(BLOCK_DOUBLES / circe__max(doubles, 1), BLOCK_LEAST));
}

circe_status circe__fit_finish(circe__fitter *f, const double *totals, int64_t n_ridge, int64_t rows, double *error) {
    circe_status status = circe__fit_download(f, error, totals, (size_t)n_ridge * sizeof *error);
    for (int64_t l = 0; status == CIRCE_OK && l < n_ridge; l++) error[l] /= (double)rows;
    return status;
}
