/* Tests on a GPU: circe__rows_ops by cuBLAS and the kernels of backend/cuda/rows.cu. Pivots and features are those of
 * fits (fit_basis.c, fit_memory.c). Tables come from a pool of the handle's stream, so that making and freeing one
 * takes microseconds; what an operation needs besides is freed when it ends. */
#include "cme/rows.h"
#include "backend/cuda/rows_kernels.h"
#include "cuda/fit_parts.h"

enum { WILD_ROWS = 8192, WILD_COLUMNS = 2048 };

typedef struct rows_device {
    circe_test_device device; /* first: what lib/inference hands back is this */
    circe__fitter fitter;
    cudaMemPool_t pool;
    int previous; /* the GPU that was current before the test */
} rows_device;

static rows_device *of(circe_test_device *d) { return (rows_device *)(void *)d; }

static cudaStream_t stream_of(const rows_device *r) { return r->fitter.cuda->stream; }

static circe_status launched(int error) { return circe__cuda_status((cudaError_t)error, "starting a part of a test"); }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static circe_status take(rows_device *r, int64_t doubles, double **data) {
    size_t bytes = (size_t)circe__max(doubles, 1) * sizeof(double);
    void *found = NULL;
    cudaError_t error = cudaMallocFromPoolAsync(&found, bytes, r->pool, stream_of(r));
    *data = found;
    if (error == cudaSuccess) return CIRCE_OK;
    *data = NULL;
    if (error != cudaErrorMemoryAllocation) return circe__cuda_status(error, "taking memory of the GPU");
    cudaGetLastError();
    return circe_fail(CIRCE_ERR_MEMORY, "the GPU does not have %.1f MB left for a test; use fewer rows, or the CPU",
                      (double)bytes / 1e6);
}

static void give(rows_device *r, double *data) {
    if (data != NULL) cudaFreeAsync(data, stream_of(r));
}

/* Small numbers of the host's, there; the caller gives them back. */
static circe_status place(rows_device *r, const void *from, size_t bytes, double **data) {
    circe_status status = take(r, (int64_t)((bytes + sizeof(double) - 1) / sizeof(double)), data);
    if (status != CIRCE_OK || bytes == 0) return status;
    return circe__cuda_status(cudaMemcpyAsync(*data, from, bytes, cudaMemcpyHostToDevice, stream_of(r)),
                              "copying to the GPU");
}

static circe_status place_doubles(rows_device *r, const double *from, int64_t doubles, double **data) {
    return place(r, from, (size_t)doubles * sizeof *from, data);
}

static circe_status fetch(rows_device *r, double *to, const double *from, int64_t doubles) {
    return circe__fit_download(&r->fitter, to, from, (size_t)doubles * sizeof *to);
}

/* out (count), the host's := sums of n numbers each, from `stride` of each other. */
static circe_status fetch_sums(rows_device *r, const double *values, int64_t n, int64_t count, double *out) {
    double *totals = NULL;
    circe_status status = take(r, count, &totals);
    if (status == CIRCE_OK) status = circe__fit_clear(&r->fitter, totals, count);
    if (status == CIRCE_OK) status = launched(circe__cuda_add_sums(values, n, n, count, totals, stream_of(r)));
    if (status == CIRCE_OK) status = fetch(r, out, totals, count);
    give(r, totals);
    return status;
}

static circe_status rows_begin(circe_test_device *d) {
    rows_device *r = of(d);
    if (circe__cuda_is_capturing(r->fitter.cuda))
        return circe_fail(CIRCE_ERR_ARGUMENT, "a test waits for the GPU and cannot be captured in a graph");
    circe_status status = circe__cuda_begin(r->fitter.cuda, &r->previous);
    if (status != CIRCE_OK) return status;
    status = circe__cuda_algebra_begin(r->fitter.cuda);
    if (status != CIRCE_OK) circe__cuda_end(r->fitter.cuda, r->previous);
    return status;
}

static void rows_end(circe_test_device *d) {
    rows_device *r = of(d);
    cudaStreamSynchronize(stream_of(r));
    circe__cuda_end(r->fitter.cuda, r->previous);
}

static void rows_destroy(circe_test_device *d) {
    rows_device *r = of(d);
    const circe_cuda *cuda = r->fitter.cuda;
    int previous = 0;
    if (circe__cuda_begin(cuda, &previous) == CIRCE_OK) {
        cudaStreamSynchronize(cuda->stream);
        for (int k = 0; k < CIRCE__FIT_SLOTS; k++) cudaFree(r->fitter.blocks[k]);
        if (r->pool != NULL) cudaMemPoolDestroy(r->pool);
        circe__cuda_end(cuda, previous);
    }
    circe__free(cuda->context, r);
}

static circe_status rows_alloc(circe_test_device *d, int64_t doubles, double **data) {
    return take(of(d), doubles, data);
}

static void rows_free(circe_test_device *d, double *data) { give(of(d), data); }

static circe_status rows_upload(circe_test_device *d, double *to, const double *from, int64_t doubles) {
    return circe__fit_upload(&of(d)->fitter, to, from, doubles);
}

static circe_status rows_download(circe_test_device *d, double *to, const double *from, int64_t doubles) {
    return fetch(of(d), to, from, doubles);
}

static circe_status rows_copy(circe_test_device *d, double *to, const double *from, int64_t doubles) {
    return circe__cuda_status(
        cudaMemcpyAsync(to, from, (size_t)doubles * sizeof *to, cudaMemcpyDeviceToDevice, stream_of(of(d))),
        "copying on the GPU");
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static circe_status rows_features(circe_test_device *d, const circe__basis *basis, const double *points, int64_t n,
                                  double *features, double *trace, double *left) {
    rows_device *r = of(d);
    circe__fit_basis b;
    int64_t dim = basis->dim, block = circe__fit_block_rows(n, basis->rank);
    double *own = NULL, *residual = NULL, sums[2] = {0.0, 0.0};
    circe_status status = circe__fit_place_basis(&r->fitter, basis, true, &b);
    if (status == CIRCE_OK) status = place_doubles(r, points, n * dim, &own);
    if (status == CIRCE_OK) status = take(r, 2 * n, &residual);
    for (int64_t i = 0; status == CIRCE_OK && b.rank > 0 && i < n; i += block)
        status = circe__fit_features(&r->fitter, &b, own + i * dim, circe__min(block, n - i), features + i * b.rank);
    if (status == CIRCE_OK)
        status = launched(circe__cuda_residuals(&b.kernel, own, n, b.cols, features, b.rank, 1, residual, residual + n,
                                                stream_of(r)));
    if (status == CIRCE_OK) status = fetch_sums(r, residual, n, 2, sums);
    *trace = sums[0];
    *left = sums[1];
    give(r, own);
    give(r, residual);
    return status;
}

static circe_status rows_cosines(circe_test_device *d, const double *points, int64_t n, int64_t dim,
                                 const double *frequency, const double *offset, int64_t k, const double *root,
                                 double *out, int64_t ld) {
    rows_device *r = of(d);
    double *own = NULL, *waves = NULL, *shift = NULL;
    circe_status status = place_doubles(r, points, n * dim, &own);
    if (status == CIRCE_OK) status = place_doubles(r, frequency, dim * k, &waves);
    if (status == CIRCE_OK) status = place_doubles(r, offset, k, &shift);
    if (status == CIRCE_OK && n * k > 0)
        status = launched(circe__cuda_cosines(own, n, (int)dim, waves, shift, k, root, out, ld, stream_of(r)));
    give(r, own);
    give(r, waves);
    give(r, shift);
    return status;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static circe_status rows_times(circe_test_device *d, int64_t n, int64_t k, int64_t m, double alpha, const double *a,
                               int64_t lda, int trans, const double *b, double beta, double *c, int64_t ldc) {
    rows_device *r = of(d);
    double *small = NULL;
    if (n == 0 || m == 0) return CIRCE_OK;
    circe_status status = place_doubles(r, b, k * m, &small);
    if (status == CIRCE_OK)
        status = circe__cuda_gemm(r->fitter.cuda, 0, trans, n, m, k, alpha, a, lda, small, circe__max(trans ? k : m, 1),
                                  beta, c, ldc);
    give(r, small);
    return status;
}

/* own := the elements to the power, or `from` itself; the caller gives it back if it is another. */
static circe_status powers_of(rows_device *r, const double *from, int64_t n, int64_t cols, int64_t *ld, int power,
                              double **own, const double **to) {
    *own = NULL;
    *to = from;
    if (power == 1) return CIRCE_OK;
    circe_status status = take(r, n * cols, own);
    if (status == CIRCE_OK) status = launched(circe__cuda_powers(from, n, cols, *ld, power, *own, stream_of(r)));
    *to = *own;
    *ld = cols;
    return status;
}

static circe_status rows_cross(circe_test_device *d, int64_t n, const double *a, int64_t p, int64_t lda,
                               const double *b, int64_t q, int64_t ldb, int power, double *out) {
    rows_device *r = of(d);
    double *product = NULL, *own_a = NULL, *own_b = NULL;
    const double *left = a, *right = b;
    if (p == 0 || q == 0) return CIRCE_OK;
    circe_status status = take(r, p * q, &product);
    if (status == CIRCE_OK) status = powers_of(r, a, n, p, &lda, power, &own_a, &left);
    if (status == CIRCE_OK) status = powers_of(r, b, n, q, &ldb, power, &own_b, &right);
    if (status == CIRCE_OK)
        status = circe__cuda_gemm(r->fitter.cuda, 1, 0, p, q, n, 1.0, left, lda, right, ldb, 0.0, product, q);
    if (status == CIRCE_OK) status = fetch(r, out, product, p * q);
    give(r, product);
    give(r, own_a);
    give(r, own_b);
    return status;
}

/* ---- rows and columns -------------------------------------------------------------------------------------------- */

static circe_status rows_columns(circe_test_device *d, int64_t n, const double *from, int64_t ld, const int64_t *index,
                                 int64_t cols, double *to) {
    rows_device *r = of(d);
    double *places = NULL;
    if (n * cols == 0) return CIRCE_OK;
    circe_status status = place(r, index, (size_t)cols * sizeof *index, &places);
    if (status == CIRCE_OK)
        status =
            launched(circe__cuda_columns(from, n, ld, (const int64_t *)(const void *)places, cols, to, stream_of(r)));
    give(r, places);
    return status;
}

static circe_status rows_rows(circe_test_device *d, const double *from, int64_t cols, const int64_t *index, int64_t m,
                              double *to) {
    rows_device *r = of(d);
    double *places = NULL, *own = NULL;
    if (m * cols == 0) return CIRCE_OK;
    circe_status status = place(r, index, (size_t)m * sizeof *index, &places);
    if (status == CIRCE_OK) status = take(r, m * cols, &own);
    if (status == CIRCE_OK)
        status =
            launched(circe__cuda_some_rows(from, cols, (const int64_t *)(const void *)places, m, own, stream_of(r)));
    if (status == CIRCE_OK) status = fetch(r, to, own, m * cols);
    give(r, places);
    give(r, own);
    return status;
}

static circe_status rows_squares(circe_test_device *d, int64_t n, const double *a, int64_t cols, int64_t ld,
                                 const double *leverage, double *out) {
    rows_device *r = of(d);
    double *parts = NULL;
    int64_t count = circe__cuda_square_parts(n);
    circe_status status = take(r, (count + 1) * cols, &parts);
    if (status == CIRCE_OK)
        status = launched(circe__cuda_squares(a, n, cols, ld, leverage, parts, parts + count * cols, stream_of(r)));
    if (status == CIRCE_OK) status = fetch(r, out, parts + count * cols, cols);
    give(r, parts);
    return status;
}

static circe_status rows_scale(circe_test_device *d, int64_t n, int64_t cols, double *table, const double *by,
                               bool over_rest) {
    return n * cols == 0 ? CIRCE_OK : launched(circe__cuda_scale_rows(table, n, cols, by, over_rest, stream_of(of(d))));
}

/* ---- regressions ------------------------------------------------------------------------------------------------- */

static circe_status rows_leverage(circe_test_device *d, int64_t n, const double *Q, int64_t rank, const double *unit,
                                  const double *inverse, double *out, double *sum) {
    rows_device *r = of(d);
    double *own = NULL;
    circe_status status = place_doubles(r, inverse, rank, &own);
    if (status == CIRCE_OK) status = launched(circe__cuda_row_leverage(Q, n, rank, unit, own, out, stream_of(r)));
    if (status == CIRCE_OK) status = fetch_sums(r, out, n, 1, sum);
    give(r, own);
    return status;
}

static circe_status rows_loo(circe_test_device *d, const circe__rows_loo *j, double *errors) {
    rows_device *r = of(d);
    double *inverse = NULL, *scaled = NULL, *means = NULL, *error = NULL;
    int64_t wide = j->ridges * j->columns, block = circe__fit_block_rows(j->n, wide), rank = j->rank;
    circe_status status = place_doubles(r, j->inverse, j->ridges * rank, &inverse);
    if (status == CIRCE_OK) status = place_doubles(r, j->scaled, rank * wide, &scaled);
    if (status == CIRCE_OK) status = take(r, block * wide, &means);
    if (status == CIRCE_OK) status = take(r, (j->ridges + 1) * j->n, &error);
    for (int64_t i = 0; status == CIRCE_OK && i < j->n; i += block) {
        int64_t here = circe__min(block, j->n - i);
        status = circe__cuda_gemm(r->fitter.cuda, 0, 0, here, wide, rank, 1.0, j->Q + i * rank, circe__max(rank, 1),
                                  scaled, wide, 0.0, means, wide);
        if (status == CIRCE_OK)
            status = launched(circe__cuda_row_loo(j->Q + i * rank, rank, j->unit + i, j->target + i * j->ld, j->ld,
                                                  j->columns, inverse, means, j->ridges, here, j->n, error + i,
                                                  stream_of(r)));
    }
    if (status == CIRCE_OK) status = fetch_sums(r, error, j->n, j->ridges + 1, errors);
    give(r, inverse);
    give(r, scaled);
    give(r, means);
    give(r, error);
    return status;
}

static circe_status rows_fitted(circe_test_device *d, int64_t n, int64_t cols, const double *target, int64_t ldt,
                                const double *noise, int64_t ldn, const double *leverage, double *out) {
    return n * cols == 0
               ? CIRCE_OK
               : launched(circe__cuda_fitted(target, ldt, noise, ldn, leverage, n, cols, out, stream_of(of(d))));
}

/* ---- the null ---------------------------------------------------------------------------------------------------- */

static circe_status rows_carried(circe_test_device *d, const circe__rows_pair *pair, double sums[2]) {
    rows_device *r = of(d);
    double *v = NULL;
    circe_status status = take(r, 2 * pair->n, &v);
    if (status == CIRCE_OK)
        status = launched(circe__cuda_carried(pair->left, pair->p, pair->noise, pair->q, pair->n, v, stream_of(r)));
    if (status == CIRCE_OK) status = fetch_sums(r, v, pair->n, 2, sums);
    give(r, v);
    return status;
}

/* C (rows, cols): columns [first, first + cols) of left_i (x) noise_i, i from `row` on. */
static circe_status products(rows_device *r, const circe__rows_pair *pair, int64_t row, int64_t rows, int64_t first,
                             int64_t cols, double *C) {
    return launched(circe__cuda_row_products(pair->left + row * pair->p, pair->p, pair->noise + row * pair->q, pair->q,
                                             rows, first, cols, C, stream_of(r)));
}

static circe_status rows_product_gram(circe_test_device *d, const circe__rows_pair *pair, double *gram) {
    rows_device *r = of(d);
    int64_t size = pair->p * pair->q, block = circe__fit_block_rows(pair->n, size);
    double *C = NULL, *own = NULL;
    if (size == 0) return CIRCE_OK;
    circe_status status = take(r, block * size, &C);
    if (status == CIRCE_OK) status = take(r, size * size, &own);
    for (int64_t i = 0; status == CIRCE_OK && i < pair->n; i += block) {
        int64_t here = circe__min(block, pair->n - i);
        status = products(r, pair, i, here, 0, size, C);
        if (status == CIRCE_OK)
            status = circe__cuda_gemm(r->fitter.cuda, 1, 0, size, size, here, 1.0, C, size, C, size, i == 0 ? 0.0 : 1.0,
                                      own, size);
    }
    if (status == CIRCE_OK) status = fetch(r, gram, own, size * size);
    give(r, C);
    give(r, own);
    return status;
}

/* What a block of columns adds to the draws. */
static circe_status wild_columns(rows_device *r, const circe__rows_pair *pair, const uint32_t *words, int64_t first,
                                 int64_t cols, int64_t draws, double *signs, double *C, double *sums) {
    int64_t each = (pair->n + 31) / 32;
    circe_status status = CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && i < pair->n; i += WILD_ROWS) {
        int64_t here = circe__min(WILD_ROWS, pair->n - i);
        status = products(r, pair, i, here, first, cols, C);
        if (status == CIRCE_OK) status = launched(circe__cuda_signs(words, each, i, here, draws, signs, stream_of(r)));
        if (status == CIRCE_OK)
            status = circe__cuda_gemm(r->fitter.cuda, 0, 0, draws, cols, here, 1.0, signs, here, C, cols,
                                      i == 0 ? 0.0 : 1.0, sums, cols);
    }
    return status;
}

static circe_status rows_wild(circe_test_device *d, const circe__rows_pair *pair, const uint32_t *words,
                              const double *inverse, int64_t draws, double *null) {
    rows_device *r = of(d);
    int64_t size = pair->p * pair->q, most = circe__min(size, WILD_COLUMNS), rows = circe__min(WILD_ROWS, pair->n);
    double *bits = NULL, *signs = NULL, *C = NULL, *sums = NULL, *scales = NULL, *own = NULL;
    circe_status status = place(r, words, (size_t)(draws * ((pair->n + 31) / 32)) * sizeof *words, &bits);
    if (status == CIRCE_OK) status = take(r, draws * rows, &signs);
    if (status == CIRCE_OK) status = take(r, rows * most, &C);
    if (status == CIRCE_OK) status = take(r, draws * most, &sums);
    if (status == CIRCE_OK && inverse != NULL) status = place_doubles(r, inverse, size, &scales);
    if (status == CIRCE_OK) status = take(r, draws, &own);
    if (status == CIRCE_OK) status = circe__fit_clear(&r->fitter, own, draws);
    for (int64_t first = 0; status == CIRCE_OK && first < size; first += most) {
        int64_t cols = circe__min(most, size - first);
        status = wild_columns(r, pair, (const uint32_t *)(const void *)bits, first, cols, draws, signs, C, sums);
        if (status == CIRCE_OK)
            status = launched(
                circe__cuda_gather_draws(sums, draws, cols, scales == NULL ? NULL : scales + first, own, stream_of(r)));
    }
    if (status == CIRCE_OK) status = fetch(r, null, own, draws);
    double *const all[] = {bits, signs, C, sums, scales, own};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) give(r, all[k]);
    return status;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static const circe__fit_ops fit_ops = {.extend = circe__fit_extend, .outliers = circe__fit_outliers};

static const circe__rows_ops rows_ops = {.begin = rows_begin,
                                         .end = rows_end,
                                         .destroy = rows_destroy,
                                         .alloc = rows_alloc,
                                         .free = rows_free,
                                         .upload = rows_upload,
                                         .download = rows_download,
                                         .copy = rows_copy,
                                         .features = rows_features,
                                         .cosines = rows_cosines,
                                         .times = rows_times,
                                         .cross = rows_cross,
                                         .columns = rows_columns,
                                         .rows = rows_rows,
                                         .squares = rows_squares,
                                         .scale = rows_scale,
                                         .leverage = rows_leverage,
                                         .loo = rows_loo,
                                         .fitted = rows_fitted,
                                         .carried = rows_carried,
                                         .product_gram = rows_product_gram,
                                         .wild = rows_wild};

/* Keeps what it has been given: a test asks for the same sizes again and again. */
static circe_status open_pool(rows_device *r) {
    struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = r->fitter.cuda->device}};
    uint64_t all = UINT64_MAX;
    circe_status status =
        circe__cuda_status(cudaMemPoolCreate(&r->pool, &properties), "making a pool of the GPU's memory");
    if (status != CIRCE_OK) return status;
    return circe__cuda_status(cudaMemPoolSetAttribute(r->pool, cudaMemPoolAttrReleaseThreshold, &all),
                              "setting up a pool of the GPU's memory");
}

circe_status circe_cuda_test_device(circe_cuda *cuda, circe_test_device **device) {
    int previous = 0;
    if (device != NULL) *device = NULL;
    if (cuda == NULL || device == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and device must not be NULL");
    rows_device *r = circe__calloc(cuda->context, 1, sizeof *r);
    if (r == NULL) return CIRCE_ERR_MEMORY;
    r->fitter.cuda = cuda;
    r->fitter.by.ops = &fit_ops;
    r->device = (circe_test_device){&rows_ops, &r->fitter.by};
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status == CIRCE_OK) {
        status = open_pool(r);
        circe__cuda_end(cuda, previous);
    }
    if (status == CIRCE_OK)
        *device = &r->device;
    else
        rows_destroy(&r->device);
    return status;
}
