/* The fit of lib/cme by ranks. A low-rank fit divides the rows among ranks, a dense fit the kernel matrix. */
#include "mpi/mpi_fit.h"

#include "core/hash.h"
#include "mpi/mpi_parts.h"

/* Of positive weight: up to here a fit takes a tenth of a second, and dense models keep an inverse as well. */
enum { ALONE_ROWS = 512 };

static void sum(double *values, int64_t n) { ranks_sum(values, n); }

static void share(void *data, size_t bytes) { ranks_broadcast(0, data, bytes); }

static uint64_t hash_mat(const circe_mat *m) {
    int64_t shape[3] = {m->rows, m->cols, (int64_t)m->dtype};
    size_t size = circe_dtype_size(m->dtype);
    uint64_t hash = circe__hash_bytes(0, shape, sizeof shape);
    for (int64_t i = 0; i < m->rows; i++)
        hash = circe__hash_bytes(hash, (const char *)m->data + (size_t)(i * m->ld) * size, (size_t)m->cols * size);
    return hash;
}

static uint64_t hash_options(const circe_cme_options *o) {
    const double reals[] = {o->tolerance};
    const int64_t integers[] = {(int64_t)o->method, o->max_rank,  o->force_ridge, (int64_t)o->seed, o->rff_pool,
                                o->rff_batch,       o->rff_every, o->n_sigma2_y,  o->n_ridge};
    uint64_t hash = circe__hash_bytes(0, reals, sizeof reals);
    hash = circe__hash_bytes(hash, integers, sizeof integers);
    if (o->n_sigma2_y > 0) hash = circe__hash_bytes(hash, o->sigma2_y, (size_t)o->n_sigma2_y * sizeof(double));
    if (o->n_ridge > 0) hash = circe__hash_bytes(hash, o->ridge, (size_t)o->n_ridge * sizeof(double));
    return hash;
}

/* Their number as well: it may differ where some ranks have weights and others none. */
static circe_status check_same_weights(const double *weights, int64_t n) {
    circe_mat as = circe_mat_f64(weights, weights != NULL ? n : 0, 1);
    uint64_t hash = hash_mat(&as);
    return ranks_same(&hash, sizeof hash, "the data of the weights");
}

/* Rows that count, 0 if the fit will refuse the weights. */
static int64_t count_rows(const circe_mat *y, const circe_cme_options *options) {
    if (options == NULL || options->weights == NULL) return y->rows;
    int64_t positive = 0;
    for (int64_t i = 0; i < y->rows; i++) positive += options->weights[i] > 0.0;
    return positive;
}

circe_status ranks_same_data(const circe_mat *matrix, const char *what) {
    if (ranks_size() == 1) return CIRCE_OK;
    uint64_t hash = hash_mat(matrix);
    return ranks_same(&hash, sizeof hash, what);
}

static circe_status check_same(const circe_mat *y, const circe_mat *z, const circe_cme_options *options) {
    uint64_t of_options = options == NULL ? 0 : hash_options(options);
    circe_status status = ranks_same_data(y, "the data of y");
    if (status == CIRCE_OK) status = ranks_same_data(z, "the data of z");
    if (status == CIRCE_OK) status = ranks_same(&of_options, sizeof of_options, "the options of the fit");
    return status == CIRCE_OK ? check_same_weights(options != NULL ? options->weights : NULL, y->rows) : status;
}

/* The kernel as rank 0 has it: widths that were computed from data may differ in their last bits between processors. */
static circe_status same_kernel(const circe_kernel *kernel, const char *what, circe_kernel **copy) {
    int64_t n = circe_kernel_n_factors(kernel);
    circe_status status = ranks_same(&n, sizeof n, what);
    if (status == CIRCE_OK) status = ranks_agree(circe_kernel_copy(kernel, copy));
    if (status != CIRCE_OK) return status;
    ranks_broadcast(0, (*copy)->factors, (size_t)n * sizeof *(*copy)->factors);
    circe__free((*copy)->context, (*copy)->text);
    (*copy)->text = NULL;
    return CIRCE_OK;
}

static circe_status check_arguments(const circe_context *context, const circe_mat *y, const circe_mat *z,
                                    const circe_kernel *kernel_y, const circe_kernel *kernel_z) {
    if (context == NULL || kernel_y == NULL || kernel_z == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, kernels and cme must not be NULL");
    circe_status status = circe__check_mat(y, "y", 2);
    if (status == CIRCE_OK) status = circe__check_mat(z, "z", 2);
    if (status == CIRCE_OK && y->rows < ranks_size())
        status = circe_fail(CIRCE_ERR_ARGUMENT, "%lld rows cannot be divided among %d ranks; start at most %lld",
                            (long long)y->rows, ranks_size(), (long long)y->rows);
    return status;
}

static circe_status fit_together(circe_context *context, const circe_mat *y, const circe_mat *z,
                                 const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                                 const circe_cme_options *options, circe_cme **cme) {
    static const circe__fit_ops ops = {.extend = ranks_extend,
                                       .dense_bytes = ranks_dense_bytes,
                                       .dense_prepare = ranks_dense_prepare,
                                       .dense_loo = ranks_dense_loo,
                                       .dense_weights = ranks_dense_weights,
                                       .dense_free = ranks_dense_free};
    const circe__fit_ranks ranks = {ranks_rank(), ranks_size(), ranks_agree, sum, share};
    const circe__fit_by by = {&ops, &ranks};
    circe_status status = ranks_agree(circe__cme_fit(context, &by, y, z, kernel_y, kernel_z, options, cme));
    if ((status == CIRCE_OK && ranks_rank() == 0) || cme == NULL) return status;
    circe_cme_destroy(*cme);
    *cme = NULL;
    return status;
}

circe_status ranks_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                       const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme) {
    circe_kernel *own_y = NULL, *own_z = NULL;
    if (ranks_size() == 1) return circe_cme_fit(context, y, z, kernel_y, kernel_z, options, cme);
    if (cme != NULL) *cme = NULL;
    circe_status status = ranks_agree(check_arguments(context, y, z, kernel_y, kernel_z));
    if (status == CIRCE_OK) status = check_same(y, z, options);
    if (status == CIRCE_OK) status = same_kernel(kernel_y, "the kernel of y", &own_y);
    if (status == CIRCE_OK) status = same_kernel(kernel_z, "the kernel of z", &own_z);
    if (status == CIRCE_OK && count_rows(y, options) <= ALONE_ROWS) {
        if (ranks_rank() == 0) status = circe_cme_fit(context, y, z, own_y, own_z, options, cme);
        status = ranks_agree(status);
    } else if (status == CIRCE_OK) {
        status = fit_together(context, y, z, own_y, own_z, options, cme);
    }
    circe_kernel_destroy(own_y);
    circe_kernel_destroy(own_z);
    return status;
}
