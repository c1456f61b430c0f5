/* Models as .safetensors: the arrays under their names here, the description in the metadata.
 *
 *     z.points (r_z, d_z), z.L (r_z, r_z)          the basis of z
 *     y.points (r_y or M, d_y), y.L (r_y, r_y)     the basis of y (low rank), or the holdout's y (dense, rff)
 *     weights (r_y or M, r_z)                      mu(y) = weights' f_y(y)
 *     holdout.z, inverse (M, M)                    small dense models: (K_YY + ridge I)^-1
 *     holdout.y, holdout.z                         rff: a redraw needs them
 *     holdout.root                                 rff with weights of rows: their roots
 *     loo.sigma2_y, loo.ridge, loo.error, loo.ridge_used
 *
 * A file is used only after every shape has been checked against the others. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/safetensors.h"
#include "cme/curves.h"
#include "core/settings.h"

#define FORMAT_NAME "circe.conditional_mean"
#define FORMAT_VERSION "2"
#define WITH_ROOTS "3"       /* where holdout.root must not be overlooked */
#define WITHOUT_CHECKSUM "1" /* as older versions wrote them */

/* ---- saving ------------------------------------------------------------------------------------------------------ */

enum { MAX_TENSORS = 16, MAX_OWN_METADATA = 16, MAX_METADATA = 24 + MAX_OWN_METADATA, VALUE_CHARS = 40 };

typedef struct writer {
    circe_tensor tensors[MAX_TENSORS];
    int64_t n_tensors;
    circe_metadata metadata[MAX_METADATA];
    char values[MAX_METADATA][VALUE_CHARS];
    int64_t n_metadata;
} writer;

static void add_tensor(writer *w, const char *name, const double *data, int64_t rows, int64_t cols) {
    circe_tensor *t = &w->tensors[w->n_tensors++];
    *t = (circe_tensor){.name = name, .dtype = "F64", .n_dims = cols < 0 ? 1 : 2, .data = data};
    t->shape[0] = rows;
    t->shape[1] = cols;
    t->bytes = (size_t)(rows * (cols < 0 ? 1 : cols)) * sizeof(double);
}

static void add_text(writer *w, const char *key, const char *value) {
    w->metadata[w->n_metadata++] = (circe_metadata){key, value};
}

static void add_number(writer *w, const char *key, double value) {
    char *text = w->values[w->n_metadata];
    snprintf(text, VALUE_CHARS, "%.17g", value);
    add_text(w, key, text);
}

static void add_count(writer *w, const char *key, uint64_t value) {
    char *text = w->values[w->n_metadata];
    snprintf(text, VALUE_CHARS, "%llu", (unsigned long long)value);
    add_text(w, key, text);
}

/* L without the room it may have to grow. */
static double *packed_factor(const circe_context *context, const circe__basis *basis) {
    double *L = circe__alloc(context, basis->rank * basis->rank, sizeof *L);
    for (int64_t i = 0; L != NULL && i < basis->rank; i++)
        memcpy(L + i * basis->rank, basis->L + i * basis->capacity, (size_t)basis->rank * sizeof *L);
    return L;
}

static void describe(writer *w, const circe_cme *cme) {
    const circe_cme_info *info = &cme->info;
    add_text(w, "format", FORMAT_NAME);
    add_text(w, "format_version", cme->root != NULL ? WITH_ROOTS : FORMAT_VERSION);
    add_text(w, "method", circe_method_name(info->method));
    add_text(w, "solver", circe_method_name(info->solver));
    add_text(w, "kernel_y", circe_kernel_text(cme->kernel_y));
    add_text(w, "kernel_z", circe_kernel_text(cme->kernel_z));
    add_count(w, "rows", (uint64_t)info->rows);
    add_count(w, "seed", cme->seed);
    add_count(w, "rff_pool", (uint64_t)cme->rff_pool);
    add_count(w, "rff_batch", (uint64_t)cme->rff_batch);
    add_count(w, "rff_every", (uint64_t)cme->rff_every);
    add_number(w, "tolerance", cme->tolerance);
    add_number(w, "sigma2_y", info->sigma2_y);
    add_number(w, "ridge", info->ridge);
    add_number(w, "ridge_safe", info->ridge_safe);
    add_count(w, "ridge_raised", info->ridge_raised != 0);
    add_number(w, "loo_error", info->loo_error);
    add_number(w, "trace_residual_y", info->trace_residual_y);
    add_number(w, "trace_residual_z", info->trace_residual_z);
    add_number(w, "scale_y", cme->y_basis.scale);
    add_number(w, "scale_z", cme->z_basis.scale);
    add_number(w, "seconds", info->seconds);
}

circe_status circe_cme_save(const circe_cme *cme, const char *path) { return circe_cme_save_with(cme, path, NULL, 0); }

circe_status circe_cme_save_with(const circe_cme *cme, const char *path, const circe_metadata *metadata,
                                 int64_t n_metadata) {
    CIRCE_OWN_SETTINGS;
    if (cme == NULL || path == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme and path must not be NULL");
    if (n_metadata < 0 || n_metadata > MAX_OWN_METADATA || (metadata == NULL && n_metadata > 0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "a model can store 0 to %d texts of the caller, not %lld",
                          MAX_OWN_METADATA, (long long)n_metadata);
    circe_context *context = cme->context;
    const circe_cme_info *info = &cme->info;
    bool lowrank = info->solver == CIRCE_METHOD_LOWRANK;
    circe_status status = CIRCE_ERR_MEMORY;
    writer *w = circe__calloc(context, 1, sizeof *w);
    double *Lz = packed_factor(context, &cme->z_basis);
    double *Ly = lowrank ? packed_factor(context, &cme->y_basis) : NULL;
    if (w == NULL || Lz == NULL || (lowrank && Ly == NULL)) goto done;
    /* Made now, so that a failed allocation cannot leave an empty kernel text in the file. */
    if (*circe_kernel_text(cme->kernel_y) == '\0' || *circe_kernel_text(cme->kernel_z) == '\0') goto done;
    add_tensor(w, "z.points", cme->z_basis.points, info->rank_z, info->dim_z);
    add_tensor(w, "z.L", Lz, info->rank_z, info->rank_z);
    if (lowrank) {
        add_tensor(w, "y.points", cme->y_basis.points, info->rank_y, info->dim_y);
        add_tensor(w, "y.L", Ly, info->rank_y, info->rank_y);
    } else {
        add_tensor(w, "y.points", cme->points_y, info->rows, info->dim_y);
    }
    add_tensor(w, "weights", cme->weights, info->rank_y, info->rank_z);
    if (cme->rff != NULL) add_tensor(w, "holdout.y", cme->points_y, info->rows, info->dim_y);
    if (cme->points_z != NULL) add_tensor(w, "holdout.z", cme->points_z, info->rows, info->dim_z);
    if (cme->root != NULL) add_tensor(w, "holdout.root", cme->root, info->rows, -1);
    if (cme->inverse != NULL) add_tensor(w, "inverse", cme->inverse, info->rows, info->rows);
    if (cme->sigma2_y != NULL) add_tensor(w, "loo.sigma2_y", cme->sigma2_y, cme->n_sigma2_y, -1);
    add_tensor(w, "loo.ridge", cme->ridge, cme->n_ridge, -1);
    add_tensor(w, "loo.error", cme->error, cme->n_sigma2_y, cme->n_ridge);
    add_tensor(w, "loo.ridge_used", cme->ridge_used, cme->n_sigma2_y, cme->n_ridge);
    describe(w, cme);
    for (int64_t i = 0; i < n_metadata; i++) add_text(w, metadata[i].key, metadata[i].value);
    status = circe_tensor_file_write(context, path, w->tensors, w->n_tensors, w->metadata, w->n_metadata);

done:
    circe__free(context, w);
    circe__free(context, Lz);
    circe__free(context, Ly);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    circe_context *context;
    circe_tensor_file *file;
    const char *path;
} reader;

__attribute__((format(printf, 2, 3))) static circe_status damaged(const reader *r, const char *format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: not a usable circe model: %s", r->path, what);
}

/* A float64 matrix (or vector, cols = -1) of the given shape, copied; rows = -1 takes what is there. */
static circe_status read_tensor(const reader *r, const char *name, int64_t *rows, int64_t cols, double **out) {
    circe_tensor t;
    circe_status status = circe_tensor_file_find(r->file, name, &t);
    if (status != CIRCE_OK) return status;
    int dims = cols < 0 ? 1 : 2;
    if (strcmp(t.dtype, "F64") != 0 || t.n_dims != dims || (*rows >= 0 && t.shape[0] != *rows) ||
        (dims == 2 && t.shape[1] != cols))
        return damaged(r, "the shape or dtype of tensor %s does not fit the rest of the model", name);
    *rows = t.shape[0];
    *out = circe__alloc(r->context, *rows * (dims == 2 ? cols : 1), sizeof **out);
    if (*out == NULL) return CIRCE_ERR_MEMORY;
    memcpy(*out, t.data, t.bytes);
    for (size_t i = 0; i < t.bytes / sizeof **out; i++)
        if (!isfinite((*out)[i]) && strncmp(name, "loo.", 4) != 0)
            return damaged(r, "tensor %s contains NaN or infinity", name);
    return CIRCE_OK;
}

static circe_status read_number(const reader *r, const char *key, double *value) {
    const char *text = circe_tensor_file_metadata(r->file, key);
    char *end;
    if (text == NULL) return damaged(r, "no %s", key);
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(*value)) return CIRCE_OK;
    return damaged(r, "%s is '%.63s'", key, text);
}

static circe_status read_count(const reader *r, const char *key, int64_t *value) {
    double number = 0.0;
    circe_status status = read_number(r, key, &number);
    if (status != CIRCE_OK) return status;
    if (number < 0.0 || number > 1e15 || number != floor(number)) return damaged(r, "%s is %g", key, number);
    *value = (int64_t)number;
    return CIRCE_OK;
}

static circe_status read_method(const reader *r, const char *key, circe_method *method) {
    const char *text = circe_tensor_file_metadata(r->file, key);
    for (circe_method m = CIRCE_METHOD_LOWRANK; text != NULL && m <= CIRCE_METHOD_RFF; m++)
        if (strcmp(text, circe_method_name(m)) == 0) {
            *method = m;
            return CIRCE_OK;
        }
    return damaged(r, "its method is unknown");
}

static circe_status read_kernel(const reader *r, const char *key, circe_kernel **kernel) {
    const char *text = circe_tensor_file_metadata(r->file, key);
    if (text == NULL) return damaged(r, "it names no kernels");
    circe_status status = circe_kernel_parse(r->context, text, kernel);
    if (status == CIRCE_ERR_ARGUMENT) return damaged(r, "a kernel in it cannot be read");
    return status;
}

static circe_status read_basis(const reader *r, const circe_kernel *kernel, const char *name, const char *points_name,
                               const char *factor_name, const char *scale_name, circe__basis *basis) {
    circe_tensor t;
    circe_status status = circe_tensor_file_find(r->file, points_name, &t);
    if (status != CIRCE_OK) return status;
    if (t.n_dims != 2 || t.shape[1] < 1) return damaged(r, "the pivots are not a matrix");
    status = circe__basis_init(r->context, kernel, t.shape[1], name, basis);
    if (status != CIRCE_OK) return status;
    int64_t rank = -1;
    status = read_tensor(r, points_name, &rank, basis->dim, &basis->points);
    if (status == CIRCE_OK) status = read_tensor(r, factor_name, &rank, rank, &basis->L);
    if (status == CIRCE_OK) status = read_number(r, scale_name, &basis->scale);
    if (status != CIRCE_OK) return status;
    basis->rank = basis->capacity = rank;
    for (int64_t i = 0; i < rank; i++)
        if (!(basis->L[i * rank + i] > 0.0)) return damaged(r, "a triangular factor is singular");
    return circe__basis_invert(basis);
}

static circe_status read_numbers(const reader *r, circe_cme *cme) {
    static const char *const counts[] = {"rows", "rff_pool", "rff_batch", "rff_every"};
    static const char *const numbers[] = {"tolerance",        "sigma2_y",         "ridge",  "ridge_safe", "loo_error",
                                          "trace_residual_y", "trace_residual_z", "seconds"};
    int64_t *to_count[] = {&cme->info.rows, &cme->rff_pool, &cme->rff_batch, &cme->rff_every};
    double *to_number[] = {&cme->tolerance,
                           &cme->info.sigma2_y,
                           &cme->info.ridge,
                           &cme->info.ridge_safe,
                           &cme->info.loo_error,
                           &cme->info.trace_residual_y,
                           &cme->info.trace_residual_z,
                           &cme->info.seconds};
    circe_status status = CIRCE_OK;
    int64_t raised = 0;
    for (size_t i = 0; status == CIRCE_OK && i < sizeof counts / sizeof *counts; i++)
        status = read_count(r, counts[i], to_count[i]);
    for (size_t i = 0; status == CIRCE_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = read_number(r, numbers[i], to_number[i]);
    if (status == CIRCE_OK) status = read_count(r, "ridge_raised", &raised);
    cme->info.ridge_raised = raised != 0;
    const char *seed = circe_tensor_file_metadata(r->file, "seed");
    cme->seed = seed == NULL ? 0 : strtoull(seed, NULL, 10);
    if (status == CIRCE_OK && (!(cme->tolerance > 0.0 && cme->tolerance < 1.0) || !(cme->info.ridge > 0.0)))
        return damaged(r, "its tolerance or ridge is out of range");
    return status;
}

static circe_status read_table(const reader *r, circe_cme *cme) {
    circe_tensor t;
    int64_t rows = -1, cells = 1;
    circe_status status = read_tensor(r, "loo.ridge", &rows, -1, &cme->ridge);
    cme->n_ridge = rows;
    if (status == CIRCE_OK && circe_tensor_file_find(r->file, "loo.sigma2_y", &t) == CIRCE_OK) {
        cells = -1;
        status = read_tensor(r, "loo.sigma2_y", &cells, -1, &cme->sigma2_y);
    }
    cme->n_sigma2_y = cells;
    if (status == CIRCE_OK) status = read_tensor(r, "loo.error", &cells, cme->n_ridge, &cme->error);
    if (status == CIRCE_OK) status = read_tensor(r, "loo.ridge_used", &cells, cme->n_ridge, &cme->ridge_used);
    return status;
}

/* The y side: a basis (low rank) or the holdout's points (dense); RFF has the points either way. */
static circe_status read_y(const reader *r, bool weighted, circe_cme *cme) {
    circe_tensor t;
    circe_status status = circe_tensor_file_find(r->file, "y.points", &t);
    if (status != CIRCE_OK) return status;
    if (t.n_dims != 2 || t.shape[1] < 1) return damaged(r, "y.points is not a matrix");
    cme->info.dim_y = t.shape[1];
    if (cme->info.solver == CIRCE_METHOD_LOWRANK) {
        status = read_basis(r, cme->kernel_y, "y", "y.points", "y.L", "scale_y", &cme->y_basis);
        cme->info.rank_y = cme->y_basis.rank;
    } else {
        cme->info.rank_y = cme->info.rows;
        status = read_tensor(r, "y.points", &cme->info.rows, cme->info.dim_y, &cme->points_y);
    }
    if (status == CIRCE_OK) status = circe__resolve(cme->context, cme->kernel_y, cme->info.dim_y, "y", &cme->y_factors);
    if (status == CIRCE_OK && cme->info.method == CIRCE_METHOD_RFF) {
        circe__free(r->context, cme->points_y);
        cme->points_y = NULL;
        status = read_tensor(r, "holdout.y", &cme->info.rows, cme->info.dim_y, &cme->points_y);
    }
    bool inverse = cme->info.solver == CIRCE_METHOD_DENSE && circe_tensor_file_find(r->file, "inverse", &t) == CIRCE_OK;
    if (status == CIRCE_OK && inverse)
        status = read_tensor(r, "inverse", &cme->info.rows, cme->info.rows, &cme->inverse);
    if (status == CIRCE_OK && (inverse || cme->info.method == CIRCE_METHOD_RFF))
        status = read_tensor(r, "holdout.z", &cme->info.rows, cme->info.dim_z, &cme->points_z);
    if (status == CIRCE_OK && weighted) status = read_tensor(r, "holdout.root", &cme->info.rows, -1, &cme->root);
    return status;
}

static circe_status read_model(const reader *r, circe_cme *cme) {
    const char *format = circe_tensor_file_metadata(r->file, "format");
    const char *version = circe_tensor_file_metadata(r->file, "format_version");
    if (format == NULL || strcmp(format, FORMAT_NAME) != 0)
        return damaged(r, "its metadata do not describe a model (circe fit writes models)");
    bool old = version != NULL && strcmp(version, WITHOUT_CHECKSUM) == 0;
    bool weighted = version != NULL && strcmp(version, WITH_ROOTS) == 0;
    if (version == NULL || (!old && !weighted && strcmp(version, FORMAT_VERSION) != 0))
        return damaged(r, "it has another version of the format; fit it again");
    if (!old && circe_tensor_file_metadata(r->file, "checksum") == NULL) return damaged(r, "its checksum is missing");
    circe_status status = read_numbers(r, cme);
    if (status == CIRCE_OK) status = read_method(r, "method", &cme->info.method);
    if (status == CIRCE_OK) status = read_method(r, "solver", &cme->info.solver);
    if (status == CIRCE_OK && cme->info.solver == CIRCE_METHOD_RFF) status = damaged(r, "its solver is rff");
    if (status == CIRCE_OK) status = read_kernel(r, "kernel_y", &cme->kernel_y);
    if (status == CIRCE_OK) status = read_kernel(r, "kernel_z", &cme->kernel_z);
    if (status == CIRCE_OK) status = read_basis(r, cme->kernel_z, "z", "z.points", "z.L", "scale_z", &cme->z_basis);
    cme->info.dim_z = cme->z_basis.dim;
    cme->info.rank_z = cme->z_basis.rank;
    if (status == CIRCE_OK) status = read_y(r, weighted, cme);
    if (status == CIRCE_OK) status = read_tensor(r, "weights", &cme->info.rank_y, cme->info.rank_z, &cme->weights);
    if (status == CIRCE_OK) status = read_table(r, cme);
    if (status == CIRCE_OK && cme->info.method == CIRCE_METHOD_RFF) {
        if (cme->rff_pool < 1 || cme->rff_batch < 1 || cme->rff_batch > cme->rff_pool || cme->rff_every < 1)
            return damaged(r, "its numbers of random features are out of range");
        status = circe__cme_attach_rff(cme);
    }
    return status;
}

circe_status circe_cme_load(circe_context *context, const char *path, circe_cme **cme) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || path == NULL || cme == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, path and cme must not be NULL");
    *cme = NULL;
    reader r = {.context = context, .path = path};
    circe_cme *made = NULL;
    circe_status status = circe_tensor_file_open(context, path, &r.file);
    if (status == CIRCE_OK) status = circe__cme_new(context, &made);
    if (status == CIRCE_OK) {
        int previous = circe__threads_begin(context);
        status = read_model(&r, made);
        if (status == CIRCE_OK) status = circe__curves_make(made);
        status = circe__threads_finish(previous, status);
    }
    circe_tensor_file_close(r.file);
    if (status == CIRCE_OK)
        *cme = made;
    else
        circe_cme_destroy(made);
    return status;
}
