/* Residual features of a whole data set, once: zeta (N, q) beside y, in the dtype of the training.
 *
 * The basis of z is first extended until it spans the data set's z as well (most often it already does), so that the
 * dot product of any two rows is their K^c. Rows are then made in blocks. A z that would need columns by the thousand
 * (many dimensions, rough kernels) has implicit features instead (implicit.c). */
#include <string.h>

#include "cme/cme_parts.h"

#include "core/settings.h"

struct circe_features {
    circe_context *context;
    circe_mat y, zeta;
    circe__implicit implicit; /* used instead of zeta, whose data are then NULL */
};

void circe_features_destroy(circe_features *features) {
    if (features == NULL) return;
    circe__free(features->context, features->y.data);
    circe__free(features->context, features->zeta.data);
    circe__implicit_free(features->context, &features->implicit);
    circe__free(features->context, features);
}

/* The columns kept: the leading ones that matter to the dtype, and those of the extension. */
typedef struct layout {
    int64_t leading, rank, extended;
} layout;

static circe_status fill_blocks(const circe_cme *cme, const circe__basis *basis, layout l, const double *y,
                                const double *z, circe_features *features) {
    enum { BLOCK = 2048 };
    circe_context *context = features->context;
    int64_t N = features->zeta.rows, rows = circe__min(N, BLOCK);
    circe_workspace *workspace = NULL;
    CIRCE__OWNED double *f = circe__alloc(context, rows * l.extended, sizeof *f);
    CIRCE__OWNED double *mean = circe__alloc(context, rows * l.leading, sizeof *mean);
    CIRCE__OWNED double *zeta = circe__calloc(context, rows * features->zeta.cols, sizeof *zeta);
    CIRCE__OWNED void *scratch = circe__alloc(context, (int64_t)circe__basis_bytes(basis), 1);
    circe_status status = circe_workspace_create(context, &workspace);
    if (f == NULL || mean == NULL || zeta == NULL || scratch == NULL) status = CIRCE_ERR_MEMORY;
    for (int64_t i = 0; status == CIRCE_OK && i < N; i += BLOCK) {
        int64_t n = circe__min(BLOCK, N - i), q = features->zeta.cols;
        circe__basis_features(basis, l.extended, z + i * basis->dim, n, f, l.extended, NULL, NULL, scratch);
        status = circe__cme_mean(workspace, cme, y + i * cme->info.dim_y, n, l.leading, mean, l.leading);
        if (status != CIRCE_OK) break;
        for (int64_t k = 0; k < n; k++) {
            for (int64_t c = 0; c < l.leading; c++) zeta[k * q + c] = f[k * l.extended + c] - mean[k * l.leading + c];
            for (int64_t c = l.rank; c < l.extended; c++) zeta[k * q + l.leading + c - l.rank] = f[k * l.extended + c];
        }
        circe_mat from = circe__mat(zeta, n, q, CIRCE_FLOAT64), to = circe__rows(&features->zeta, i, n);
        circe__copy_mat(&from, &to);
        status = circe__progress(context, "residual features", i + n, N);
    }
    circe_workspace_destroy(workspace);
    return status;
}

static circe_status no_memory_for(circe_mat mat) { return mat.data == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK; }

static circe_status build_zeta(const circe_cme *cme, const circe__basis *basis, const double *y64, const double *z64,
                               circe_features *features) {
    circe_context *context = features->context;
    circe_dtype dtype = features->y.dtype;
    int64_t rank = cme->z_basis.rank, n = features->y.rows;
    /* Points beyond the holdout's span have large coordinates along its weakest pivots: then none is left out. */
    int64_t leading =
        basis->rank > rank ? rank : circe__basis_rank_at(&cme->z_basis, 0.01 * circe__accuracy(cme, dtype));
    layout l = {leading, rank, basis->rank};
    int64_t q = circe__max(1, l.leading + l.extended - l.rank);
    circe_status status =
        circe__memory_check(context, (double)circe_dtype_size(dtype) * (double)n * (double)q,
                            "the residual features of this data set", "compute them for each batch instead");
    if (status != CIRCE_OK) return status;
    features->zeta = circe__mat(circe__alloc(context, n * q, circe_dtype_size(dtype)), n, q, dtype);
    status = no_memory_for(features->zeta);
    return status == CIRCE_OK ? fill_blocks(cme, basis, l, y64, z64, features) : status;
}

static circe_status build(const circe_cme *cme, const circe_mat *y, const double *y64, const double *z64,
                          circe_dtype dtype, circe_features *features) {
    enum { MAX_RANK = 1024 }; /* from here on implicit features are made sooner and are faster */
    circe_context *context = features->context;
    circe__basis basis = {0};
    double accuracy = circe__accuracy(cme, dtype);
    features->y =
        circe__mat(circe__alloc(context, y->rows * y->cols, circe_dtype_size(dtype)), y->rows, y->cols, dtype);
    circe_status status = no_memory_for(features->y);
    if (status != CIRCE_OK) return status;
    circe__copy_points(cme->kernel_y, y, &features->y);
    status = cme->z_basis.rank < MAX_RANK * 3 / 4 ? circe__basis_copy(&cme->z_basis, &basis) : CIRCE_ERR_RANK;
    if (status == CIRCE_OK) status = circe__basis_settle(&basis, z64, y->rows, accuracy, 0.1 * accuracy, MAX_RANK, "z");
    if (status == CIRCE_OK)
        status = build_zeta(cme, &basis, y64, z64, features);
    else if (status == CIRCE_ERR_RANK)
        status = circe__implicit_fill(context, cme, y64, z64, y->rows, dtype, &features->implicit);
    circe__basis_free(&basis);
    return status;
}

circe_status circe_features_create(circe_context *context, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                                   circe_dtype dtype, circe_features **features) {
    CIRCE_OWN_SETTINGS;
    circe_workspace *workspace = NULL;
    circe_features *made = NULL;
    double *y64 = NULL, *z64 = NULL;
    if (context == NULL || cme == NULL || features == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, cme and features must not be NULL");
    *features = NULL;
    if (cme->rff != NULL)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "a model of method rff has no residual features: its K^c is not a Gram matrix");
    if (dtype != CIRCE_FLOAT32 && dtype != CIRCE_FLOAT64)
        return circe_fail(CIRCE_ERR_ARGUMENT, "dtype must be CIRCE_FLOAT32 or CIRCE_FLOAT64");
    circe_status status = circe_workspace_create(context, &workspace);
    if (status == CIRCE_OK) status = circe__cme_points(workspace, CIRCE__SLOT_Y, y, cme->info.dim_y, "y", &y64);
    if (status == CIRCE_OK) status = circe__cme_points(workspace, CIRCE__SLOT_Z, z, cme->info.dim_z, "z", &z64);
    if (status == CIRCE_OK && y->rows != z->rows)
        status = circe_fail(CIRCE_ERR_SHAPE, "y has %lld rows and z has %lld; they must be the same points",
                            (long long)y->rows, (long long)z->rows);
    if (status == CIRCE_OK) {
        made = circe__calloc(context, 1, sizeof *made);
        status = made == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    }
    if (status == CIRCE_OK) {
        made->context = context;
        int previous = circe__threads_begin(context);
        unsigned rounding = circe__flush_begin();
        status = build(cme, y, y64, z64, dtype, made);
        circe__flush_end(rounding);
        status = circe__threads_finish(previous, status);
    }
    circe_workspace_destroy(workspace);
    if (status == CIRCE_OK)
        *features = made;
    else
        circe_features_destroy(made);
    return status;
}

const circe__implicit *circe__features_implicit(const circe_features *features) {
    return features->implicit.m.data != NULL ? &features->implicit : NULL;
}

static circe_status refuse_implicit(const circe_features *features) {
    if (circe__features_implicit(features) == NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_RANK,
                      "z has a high rank, so the residual features of this data set have no coordinates; only "
                      "circe_measure_circe_cached can use them");
}

circe_status circe_features_get(const circe_features *features, circe_mat *y, circe_mat *zeta) {
    if (features == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "features must not be NULL");
    circe_status status = zeta != NULL ? refuse_implicit(features) : CIRCE_OK;
    if (status != CIRCE_OK) return status;
    if (y != NULL) *y = features->y;
    if (zeta != NULL) *zeta = features->zeta;
    return CIRCE_OK;
}

static circe_status check_gathered(const circe_mat *from, const circe_mat *to, int64_t n, const char *name) {
    circe_status status = circe__check_mat(to, name, 1);
    if (status != CIRCE_OK) return status;
    if (to->rows == n && to->cols == from->cols && to->dtype == from->dtype) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "%s must be %lld by %lld and have the dtype of the features", name, (long long)n,
                      (long long)from->cols);
}

void circe__gather_rows(const circe_mat *from, const int64_t *index, int64_t n, circe_mat *to) {
    size_t size = circe_dtype_size(from->dtype);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to->data + (size_t)(i * to->ld) * size,
               (const char *)from->data + (size_t)(index[i] * from->ld) * size, (size_t)from->cols * size);
}

circe_status circe_features_gather(const circe_features *features, const int64_t *index, int64_t n, circe_mat *y_out,
                                   circe_mat *zeta_out) {
    CIRCE_OWN_SETTINGS;
    if (features == NULL || index == NULL || n < 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "features and index must not be NULL, and n at least 1");
    circe_status status = refuse_implicit(features);
    if (status == CIRCE_OK) status = check_gathered(&features->y, y_out, n, "y_out");
    if (status == CIRCE_OK) status = check_gathered(&features->zeta, zeta_out, n, "zeta_out");
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= features->y.rows)
            return circe_fail(CIRCE_ERR_ARGUMENT, "index[%lld] is %lld; the data set has %lld rows, counted from 0",
                              (long long)i, (long long)index[i], (long long)features->y.rows);
    circe__gather_rows(&features->y, index, n, y_out);
    circe__gather_rows(&features->zeta, index, n, zeta_out);
    return CIRCE_OK;
}
