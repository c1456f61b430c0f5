/* Residual features on the device: the parts of a model that a batch needs, copied there once; features of a data set
 * that the CPU made, copied there once.
 *
 * On the CPU, a batch gets as many columns as its z outside the holdout's span needs. Here the number must not depend
 * on the points, because the host does not see them: there are a few columns more than the rank, and they are 0 if
 * nothing is left. Eight columns bring a dozen points in the tails of a smooth kernel below 1e-10, and cost 16 of the
 * 262 multiply-adds per pair (rank 34, d_x = 64). If eight are not enough, `left` says so. */
#include <string.h>

#include "cuda/cuda_parts.h"

struct circe_cuda_model {
    circe_cuda *cuda;
    const circe_cme *cme;
    void *memory; /* what the pointers below point into */
    circe__cuda_kernel kernel_y, kernel_z;
    circe__cuda_points pivots_y, pivots_z;
    int64_t rank_y, rank_z;
    int extra; /* columns for points outside the span */
    const double *inverse_y, *inverse_z, *weights;
};

struct circe_cuda_features {
    circe_cuda *cuda;
    circe_mat y, zeta;
};

/* ---- models ---------------------------------------------------------------------------------------------- */

/* The pieces of a model, in the order in which they lie in device memory. */
typedef struct packing {
    double *host;
    int64_t used;
} packing;

/* Returns where the piece begins. */
static int64_t put(packing *p, const double *data, int64_t count) {
    int64_t at = p->used;
    if (p->host != NULL && count > 0) memcpy(p->host + at, data, (size_t)count * sizeof *data);
    p->used += count;
    return at;
}

/* The transpose of (n, n). */
static int64_t put_transposed(packing *p, const double *data, int64_t n) {
    int64_t at = p->used;
    for (int64_t i = 0; p->host != NULL && i < n; i++)
        for (int64_t j = 0; j < n; j++) p->host[at + j * n + i] = data[i * n + j];
    p->used += n * n;
    return at;
}

/* First without memory, to count; then with it. `base` is the device's. */
static void pack(circe_cuda_model *model, packing *p, double *base) {
    const circe_cme *cme = model->cme;
    const circe__basis *zb = &cme->z_basis, *yb = &cme->y_basis;
    bool dense = cme->info.solver == CIRCE_METHOD_DENSE;
    int64_t dim_y = cme->info.dim_y, dim_z = cme->info.dim_z;
    model->rank_z = zb->rank;
    model->rank_y = dense ? cme->info.rows : yb->rank;
    p->used = 0;
    int64_t pivots_z = put(p, zb->points, zb->rank * dim_z);
    int64_t inverse_z = put_transposed(p, zb->inverse, zb->rank);
    int64_t pivots_y = put(p, dense ? cme->points_y : yb->points, model->rank_y * dim_y);
    int64_t inverse_y = dense ? 0 : put_transposed(p, yb->inverse, yb->rank);
    int64_t weights = put(p, cme->weights, model->rank_y * model->rank_z);
    if (base == NULL) return;
    model->pivots_z = (circe__cuda_points){base + pivots_z, dim_z, (int)dim_z};
    model->pivots_y = (circe__cuda_points){base + pivots_y, dim_y, (int)dim_y};
    model->inverse_z = base + inverse_z;
    model->inverse_y = dense ? NULL : base + inverse_y;
    model->weights = base + weights;
}

static circe_status copy_model(circe_cuda_model *model) {
    circe_cuda *cuda = model->cuda;
    packing p = {0};
    int previous = 0;
    pack(model, &p, NULL);
    size_t bytes = (size_t)p.used * sizeof(double);
    p.host = circe__alloc(cuda->context, p.used, sizeof *p.host);
    if (p.host == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__cuda_begin(cuda, &previous);
    if (status == CIRCE_OK) {
        status = circe__cuda_alloc(bytes, "a model", &model->memory);
        if (status == CIRCE_OK) {
            pack(model, &p, model->memory);
            status =
                circe__cuda_upload(cuda, model->memory, bytes, p.host, bytes, bytes, 1, "copying a model to the GPU");
        }
        circe__cuda_end(cuda, previous);
    }
    circe__free(cuda->context, p.host);
    return status;
}

/* A linear kernel whose basis is complete leaves nothing out. One of a rank in the hundreds is rough: its points stick
 * out by the dozen, and a few columns that each cost n rank would not help. */
static int extra_columns(const circe_cuda_model *model) {
    enum { MOST_RANK = 512 };
    const circe__cuda_kernel *kernel = &model->kernel_z;
    bool complete =
        kernel->n == 1 && kernel->items[0].kind == CIRCE_KERNEL_LINEAR && model->rank_z >= kernel->items[0].n_cols;
    return complete || model->rank_z > MOST_RANK ? 0 : CIRCE__CUDA_OUTSIDE_COLUMNS;
}

circe_status circe_cuda_model_create(circe_cuda *cuda, const circe_cme *cme, circe_cuda_model **model) {
    CIRCE_OWN_SETTINGS;
    if (cuda == NULL || cme == NULL || model == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "cuda, cme and model must not be NULL");
    *model = NULL;
    if (cme->rff != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "a model of method rff has no residual features: its K^c is not a Gram matrix");
    circe_cuda_model *made = circe__calloc(cuda->context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->cuda = cuda;
    made->cme = cme;
    circe__factors kernel_y = cme->info.solver == CIRCE_METHOD_DENSE
                                  ? (circe__factors){cme->y_factors, circe_kernel_n_factors(cme->kernel_y)}
                                  : circe__basis_kernel(&cme->y_basis);
    circe_status status = circe__cuda_kernel_of(kernel_y, "y", &made->kernel_y);
    if (status == CIRCE_OK) status = circe__cuda_kernel_of(circe__basis_kernel(&cme->z_basis), "z", &made->kernel_z);
    if (status == CIRCE_OK) status = copy_model(made);
    if (status == CIRCE_OK) made->extra = extra_columns(made);
    if (status == CIRCE_OK)
        *model = made;
    else
        circe_cuda_model_destroy(made);
    return status;
}

static void release(const circe_cuda *cuda, void *memory) {
    int previous = 0;
    if (memory == NULL || circe__cuda_begin(cuda, &previous) != CIRCE_OK) return;
    cudaFree(memory);
    circe__cuda_end(cuda, previous);
}

void circe_cuda_model_destroy(circe_cuda_model *model) {
    if (model == NULL) return;
    release(model->cuda, model->memory);
    circe__free(model->cuda->context, model);
}

int64_t circe_cuda_model_columns(const circe_cuda_model *model) {
    return model == NULL ? 0 : model->rank_z + model->extra;
}

/* ---- a batch --------------------------------------------------------------------------------------------- */

static circe_status check_points(const circe_cuda *cuda, const circe_mat *mat, int64_t cols, const circe_mat *zeta,
                                 const char *name) {
    circe_status status = circe__cuda_check_mat(cuda, mat, name, 1);
    if (status != CIRCE_OK) return status;
    if (mat->cols != cols)
        return circe_fail(CIRCE_ERR_SHAPE, "%s has %lld columns; the model was fitted on %lld", name,
                          (long long)mat->cols, (long long)cols);
    if (mat->rows != zeta->rows)
        return circe_fail(CIRCE_ERR_SHAPE, "%s has %lld rows and zeta has %lld; they must be the same points", name,
                          (long long)mat->rows, (long long)zeta->rows);
    if (mat->dtype != zeta->dtype)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s and zeta have different dtypes; on a GPU they must have the same",
                          name);
    return CIRCE_OK;
}

circe_status circe_cuda_residual_features(circe_cuda *cuda, const circe_cuda_model *model, const circe_mat *y,
                                          const circe_mat *z, circe_mat *zeta, double *left) {
    CIRCE_OWN_SETTINGS;
    void *scratch = NULL;
    int previous = 0;
    if (cuda == NULL || model == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and model must not be NULL");
    if (model->cuda->device != cuda->device)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the model lies on GPU %d; the handle was opened for GPU %d",
                          model->cuda->device, cuda->device);
    circe_status status = circe__cuda_check_mat(cuda, zeta, "zeta", 1);
    if (status == CIRCE_OK && zeta->cols != circe_cuda_model_columns(model))
        status = circe_fail(CIRCE_ERR_SHAPE, "zeta has %lld columns; the model's residual features have %lld",
                            (long long)zeta->cols, (long long)circe_cuda_model_columns(model));
    if (status == CIRCE_OK) status = check_points(cuda, y, model->cme->info.dim_y, zeta, "y");
    if (status == CIRCE_OK) status = check_points(cuda, z, model->cme->info.dim_z, zeta, "z");
    if (status == CIRCE_OK && left != NULL) status = circe__cuda_check_pointer(cuda, left, "left");
    if (status == CIRCE_OK) status = circe__cuda_begin(cuda, &previous);
    if (status != CIRCE_OK) return status;
    double accuracy = circe__accuracy(model->cme, zeta->dtype);
    circe__cuda_zeta job = {.double_precision = zeta->dtype == CIRCE_FLOAT64,
                            .n = zeta->rows,
                            .kernel_y = model->kernel_y,
                            .kernel_z = model->kernel_z,
                            .y = circe__cuda_points_of(y),
                            .z = circe__cuda_points_of(z),
                            .pivots_y = model->pivots_y,
                            .pivots_z = model->pivots_z,
                            .rank_y = model->rank_y,
                            .rank_z = model->rank_z,
                            .inverse_y = model->inverse_y,
                            .inverse_z = model->inverse_z,
                            .weights = model->weights,
                            .zeta = zeta->data,
                            .ld_zeta = zeta->ld,
                            .extra = model->extra,
                            .accuracy = accuracy,
                            .enough = 0.1 * accuracy * model->cme->z_basis.scale,
                            .left = left};
    status = circe__cuda_take(cuda, circe__cuda_zeta_bytes(&job), &scratch);
    if (status == CIRCE_OK)
        status = circe__cuda_status((cudaError_t)circe__cuda_zeta_launch(&job, scratch, cuda->stream),
                                    "starting residual features");
    circe__cuda_end(cuda, previous);
    return status;
}

/* ---- a data set ------------------------------------------------------------------------------------------ */

static circe_status copy_mat(const circe_cuda *cuda, const circe_mat *from, circe_mat *to) {
    size_t size = circe_dtype_size(from->dtype);
    void *data = NULL;
    circe_status status =
        circe__cuda_alloc((size_t)from->rows * (size_t)from->cols * size, "the features of a data set", &data);
    if (status != CIRCE_OK) return status;
    *to = circe__mat(data, from->rows, from->cols, from->dtype);
    return circe__cuda_upload(cuda, data, (size_t)to->ld * size, from->data, (size_t)from->ld * size,
                              (size_t)from->cols * size, (size_t)from->rows, "copying features to the GPU");
}

circe_status circe_cuda_features_create(circe_cuda *cuda, const circe_features *features, circe_cuda_features **copy) {
    CIRCE_OWN_SETTINGS;
    circe_mat y, zeta;
    int previous = 0;
    if (cuda == NULL || copy == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cuda and copy must not be NULL");
    *copy = NULL;
    circe_status status = circe_features_get(features, &y, &zeta);
    if (status != CIRCE_OK) return status;
    circe_cuda_features *made = circe__calloc(cuda->context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->cuda = cuda;
    status = circe__cuda_begin(cuda, &previous);
    if (status == CIRCE_OK) {
        status = copy_mat(cuda, &y, &made->y);
        if (status == CIRCE_OK) status = copy_mat(cuda, &zeta, &made->zeta);
        circe__cuda_end(cuda, previous);
    }
    if (status == CIRCE_OK)
        *copy = made;
    else
        circe_cuda_features_destroy(made);
    return status;
}

void circe_cuda_features_destroy(circe_cuda_features *copy) {
    if (copy == NULL) return;
    release(copy->cuda, copy->y.data);
    release(copy->cuda, copy->zeta.data);
    circe__free(copy->cuda->context, copy);
}

circe_status circe_cuda_features_get(const circe_cuda_features *copy, circe_mat *y, circe_mat *zeta) {
    if (copy == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "copy must not be NULL");
    if (y != NULL) *y = copy->y;
    if (zeta != NULL) *zeta = copy->zeta;
    return CIRCE_OK;
}
