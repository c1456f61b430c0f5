/* The batch regressed on itself by a factor of low rank. With K ~ F'F, F (r, n), as lib/measures/smoother.c has it,
 *
 *     K (K + ridge I)^-1 = F'(F F' + ridge I)^-1 F = P'P,   P = L^-1 F,   L L' = F F' + ridge I (r, r)
 *
 * O(n r^2) instead of O(n^3). The host must not wait for the rank, so all matrices have the maximal number of rows,
 * which are 0 beyond the rank. If that many are not enough, everything becomes NaN, and the caller, who requested low
 * rank, has to request the dense form. */
#include "cuda/lowrank.h"

#include "measures/smoother.h"

enum { MOST = CIRCE__CUDA_BATCH_RANK };

bool circe__cuda_lowrank_wanted(const circe_cuda *cuda, const circe_batch_options *options, int64_t n) {
    return options->method == CIRCE_METHOD_LOWRANK && n > MOST && cuda->large_tiles;
}

static int has_clusters(const circe_cuda *cuda) { return cuda->overlap && cuda->large_tiles; }

void circe__cuda_lowrank_take(circe__cuda_pieces *pieces, circe__cuda_lowrank *l) {
    l->P = circe__cuda_doubles(pieces, MOST * l->n);
    l->F = circe__cuda_doubles(pieces, MOST * l->n);
    l->S = circe__cuda_doubles(pieces, MOST * MOST);
    l->X = circe__cuda_doubles(pieces, MOST * MOST);
    l->left = circe__cuda_doubles(pieces, l->n);
    l->rank = circe__cuda_piece(pieces, sizeof(int));
}

static circe__cuda_lowrank_job job_of(const circe__cuda_lowrank *l, const circe__cuda_kernel *kernel,
                                      const double *points, int cols) {
    return (circe__cuda_lowrank_job){.kernel = *kernel,
                                     .points = points,
                                     .n = l->n,
                                     .cols = cols,
                                     .tolerance = l->tolerance,
                                     .limit = 1e-6 * l->ridge,
                                     .ridge = l->ridge,
                                     .F = l->F,
                                     .left = l->left,
                                     .rank = l->rank,
                                     .S = l->S,
                                     .X = l->X};
}

circe_status circe__cuda_lowrank_make(circe_cuda *cuda, const circe__cuda_kernel *kernel, int cols,
                                      const double *points, const circe__cuda_lowrank *l, const double *others,
                                      const circe__cuda_lowrank *of_others) {
    const circe__cuda_lowrank *wanted[2] = {NULL, NULL};
    circe__cuda_lowrank_pair jobs = {.n = 0};
    if (l != NULL) jobs.of[jobs.n] = job_of(l, kernel, points, cols), wanted[jobs.n++] = l;
    if (of_others != NULL) jobs.of[jobs.n] = job_of(of_others, kernel, others, cols), wanted[jobs.n++] = of_others;
    if (jobs.n == 0) return CIRCE_OK;
    circe_status status = circe__cuda_launched(circe__cuda_lowrank_factor(&jobs, has_clusters(cuda), cuda->stream));
    for (int k = 0; k < jobs.n && status == CIRCE_OK; k++) {
        const circe__cuda_lowrank *w = wanted[k];
        status = circe__cuda_gemm(cuda, 0, 1, MOST, MOST, w->n, 1.0, w->F, w->n, w->F, w->n, 0.0, w->S, MOST);
    }
    if (status == CIRCE_OK) status = circe__cuda_launched(circe__cuda_lowrank_invert(&jobs, cuda->stream));
    for (int k = 0; k < jobs.n && status == CIRCE_OK; k++) {
        const circe__cuda_lowrank *w = wanted[k];
        status = circe__cuda_gemm(cuda, 0, 0, MOST, w->n, MOST, 1.0, w->X, MOST, w->F, w->n, 0.0, w->P, w->n);
    }
    return status;
}

circe_status circe__cuda_lowrank_subtract(circe_cuda *cuda, const circe__cuda_lowrank *l, double *r, int64_t cols,
                                          double *inner) {
    int64_t n = l->n;
    circe_status status = circe__cuda_gemm(cuda, 0, 1, cols, MOST, n, 1.0, r, n, l->P, n, 0.0, inner, MOST);
    if (status != CIRCE_OK) return status;
    return circe__cuda_gemm(cuda, 0, 0, cols, n, MOST, -1.0, inner, MOST, l->P, n, 1.0, r, n);
}

/* ---- how many pivots ------------------------------------------------------------------------------------- */

static circe_status count_pivots(circe_cuda *cuda, const circe__cuda_kernel *kernel, const circe__cuda_rows *rows,
                                 circe__cuda_lowrank *l, int *rank) {
    int cols = rows->points.cols;
    circe__cuda_pieces pieces = {0};
    void *scratch = NULL;
    double *points = circe__cuda_doubles(&pieces, l->n * cols);
    circe__cuda_lowrank_take(&pieces, l);
    circe_status status = circe__cuda_take(cuda, pieces.used, &scratch);
    if (status != CIRCE_OK) return status;
    pieces = (circe__cuda_pieces){scratch, 0};
    points = circe__cuda_doubles(&pieces, l->n * cols);
    circe__cuda_lowrank_take(&pieces, l);
    circe__cuda_lowrank_pair jobs = {.of = {job_of(l, kernel, points, cols)}, .n = 1};
    status = circe__cuda_launched(circe__cuda_load(rows, cols, 1, points, cuda->stream));
    if (status == CIRCE_OK)
        status = circe__cuda_launched(circe__cuda_lowrank_factor(&jobs, has_clusters(cuda), cuda->stream));
    if (status == CIRCE_OK)
        status = circe__cuda_status(cudaMemcpyAsync(rank, l->rank, sizeof *rank, cudaMemcpyDeviceToHost, cuda->stream),
                                    "copying a rank");
    return status == CIRCE_OK ? circe__cuda_status(cudaStreamSynchronize(cuda->stream), "counting pivots") : status;
}

circe_status circe_cuda_batch_rank(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                   const circe_batch_options *options, int64_t *rank) {
    CIRCE_OWN_SETTINGS;
    circe_batch_options own;
    circe__cuda_kernel kernel;
    circe__cuda_rows rows;
    int previous = 0, found = -1;
    if (cuda == NULL || kernel_y == NULL || y == NULL || rank == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "cuda, kernel_y, y and rank must not be NULL");
    *rank = -1;
    circe_status status = circe__cuda_batch_options(&options, &own);
    if (status == CIRCE_OK) status = circe__cuda_rows_of(cuda, y, NULL, y->rows, y->dtype, "y", &rows);
    if (status == CIRCE_OK) status = circe__cuda_set_kernel(cuda, kernel_y, y->cols, "y", &kernel);
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    circe__cuda_lowrank l = {
        .n = y->rows, .ridge = options->ridge, .tolerance = circe__batch_tolerance(options->tolerance, y->dtype)};
    status = count_pivots(cuda, &kernel, &rows, &l, &found);
    circe__cuda_end(cuda, previous);
    *rank = found;
    return status;
}
