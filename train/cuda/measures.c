/* Regularisers on the GPU, by libcirce's circe/cuda.h, on the stream that trains: what they need of the training rows
 * is copied there once, as float32.
 *
 *     circe   residual features y (N, d_y), zeta (N, q)                      of validation rows as well
 *     hsic    z (N, d_z), the batch's rows gathered
 *     hscic   y and z (N, .); with z's mean from the holdout, residual features in the place of z
 *     gcm     y and z, z_hat (N, d_z) where z is regressed on the holdout; the batch before, x and y of each place
 *
 * Left to the host: circe by random features or with a z of high rank, and whatever is to be measured in float64.
 * Validation rows of hscic and gcm with z's mean from the holdout, and of gcm, are measured by the host as well: they
 * come once an epoch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/cuda/cuda.h"
#include "train/measures.h"
#include "train/regularizer_parts.h"

/* The batch before at one place. */
typedef struct previous {
    int64_t rows; /* 0: there was none */
    float *x, *y; /* (batch, cols), (batch, d_y) */
    int64_t *index;
    int64_t cols;
} previous;

struct train_measures {
    train_regularizer *regularizer;
    train_measure_plan plan;
    circe_cuda *cuda;                         /* the device's */
    circe_cuda_features *features, *checking; /* of training and of validation rows; NULL: none */
    circe_mat y, z;                           /* (N, .), views of the features or of what follows */
    circe_mat z_hat;                          /* no rows: none */
    circe_mat checking_y, checking_z;
    float *blocks[6]; /* owned */
    int n_blocks;
    float *batch_z;      /* of hsic */
    double *value;       /* of validation rows */
    circe_method method; /* of hscic's and gcm's regressions of a batch */
    previous *places;
    train_measures *host; /* for what the GPU does not do */
};

typedef struct measure_row {
    circe_status (*open)(train_device *device, train_measures *m);
    circe_status (*batch)(train_device *device, train_measures *m, const train_measured *p,
                          const circe_kernels *kernels, const circe_mat *x, circe_mat *grad);
    /* NULL: the host does. */
    circe_status (*rows)(train_measures *m, int64_t first, const circe_kernels *kernels, const circe_mat *x);
} measure_row;

/* ---- rows on the GPU --------------------------------------------------------------------------------------------- */

static circe_status own(train_device *device, train_measures *m, int64_t rows, int64_t cols, float **block) {
    *block = device->ops->allocate(device, (size_t)(rows * cols > 0 ? rows * cols : 1) * sizeof **block);
    if (*block == NULL) return CIRCE_ERR_MEMORY;
    m->blocks[m->n_blocks++] = *block;
    return CIRCE_OK;
}

static double element(const circe_mat *m, int64_t i, int64_t j) {
    int64_t at = i * m->ld + j;
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[at] : ((const double *)m->data)[at];
}

static circe_status bring(train_device *device, train_measures *m, const circe_mat *from, circe_mat *to) {
    int64_t n = from->rows * from->cols;
    float *copy = malloc((size_t)(n > 0 ? n : 1) * sizeof *copy), *block = NULL;
    if (copy == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "no memory to bring %lld rows to the GPU", (long long)from->rows);
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t j = 0; j < from->cols; j++) copy[i * from->cols + j] = (float)element(from, i, j);
    circe_status status = own(device, m, from->rows, from->cols, &block);
    if (status == CIRCE_OK) device->ops->upload(device, block, copy, (size_t)n * sizeof *copy);
    free(copy);
    *to = circe_mat_f32(block, from->rows, from->cols);
    return status == CIRCE_OK ? device->ops->check(device) : status;
}

static circe_mat training(double *values, int64_t rows, int64_t cols) { return circe_mat_f64(values, rows, cols); }

static circe_status bring_training(train_device *device, train_measures *m) {
    const train_regularizer *r = m->regularizer;
    circe_mat y = training(r->y, r->n_rows, r->cols_y), z = training(r->z, r->n_rows, r->cols_z);
    circe_status status = r->cols_y > 0 ? bring(device, m, &y, &m->y) : CIRCE_OK;
    return status == CIRCE_OK ? bring(device, m, &z, &m->z) : status;
}

static circe_status bring_checking(train_device *device, train_measures *m) {
    if (m->plan.z == NULL) return CIRCE_OK;
    circe_status status = m->regularizer->cols_y > 0 ? bring(device, m, m->plan.y, &m->checking_y) : CIRCE_OK;
    return status == CIRCE_OK ? bring(device, m, m->plan.z, &m->checking_z) : status;
}

/* Features in another form than columns stay with the host. */
static circe_status bring_features(train_measures *m, const circe_features *features, circe_cuda_features **copy,
                                   circe_mat *y, circe_mat *zeta) {
    circe_mat views[2];
    circe_status status = circe_features_get(features, &views[0], &views[1]);
    if (status == CIRCE_ERR_RANK) return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s", circe_last_error());
    if (status == CIRCE_OK) status = circe_cuda_features_create(m->cuda, features, copy);
    if (status == CIRCE_OK) status = circe_cuda_features_get(*copy, y, zeta);
    return status;
}

/* ---- circe ------------------------------------------------------------------------------------------------------- */

static circe_status open_circe(train_device *device, train_measures *m) {
    const train_regularizer *r = m->regularizer;
    circe_features *checking = NULL;
    (void)device;
    if (r->features == NULL) return circe_fail(CIRCE_ERR_UNSUPPORTED, "there are no residual features");
    circe_status status = bring_features(m, r->features, &m->features, &m->y, &m->z);
    if (status != CIRCE_OK || m->plan.z == NULL) return status;
    status = circe_features_create(r->context, r->cme, m->plan.y, m->plan.z, CIRCE_FLOAT32, &checking);
    if (status == CIRCE_OK) status = bring_features(m, checking, &m->checking, &m->checking_y, &m->checking_z);
    circe_features_destroy(checking);
    return status == CIRCE_ERR_UNSUPPORTED ? CIRCE_OK : status;
}

static circe_status batch_circe(train_device *device, train_measures *m, const train_measured *p,
                                const circe_kernels *kernels, const circe_mat *x, circe_mat *grad) {
    (void)device;
    return circe_cuda_measure_circe(m->cuda, circe_cme_kernel_y(m->regularizer->cme), &m->y, &m->z, p->index, p->n,
                                    kernels->x, x, m->regularizer->options.estimator, p->value, grad);
}

static circe_status rows_circe(train_measures *m, int64_t first, const circe_kernels *kernels, const circe_mat *x) {
    circe_mat y = train_rows_of(&m->checking_y, first, x->rows), zeta = train_rows_of(&m->checking_z, first, x->rows);
    return circe_cuda_measure_circe(m->cuda, circe_cme_kernel_y(m->regularizer->cme), &y, &zeta, NULL, x->rows,
                                    kernels->x, x, m->regularizer->options.estimator, m->value, NULL);
}

/* ---- hsic -------------------------------------------------------------------------------------------------------- */

static circe_hsic_estimator hsic_estimator(const train_measures *m) {
    return m->regularizer->options.estimator == CIRCE_BIASED ? CIRCE_HSIC_BIASED : CIRCE_HSIC_UNBIASED;
}

static circe_status open_hsic(train_device *device, train_measures *m) {
    circe_status status = bring_training(device, m);
    if (status == CIRCE_OK) status = bring_checking(device, m);
    return status == CIRCE_OK ? own(device, m, m->plan.batch, m->z.cols, &m->batch_z) : status;
}

static circe_status batch_hsic(train_device *device, train_measures *m, const train_measured *p,
                               const circe_kernels *kernels, const circe_mat *x, circe_mat *grad) {
    circe_mat z = circe_mat_f32(m->batch_z, p->n, m->z.cols);
    device->ops->gather(device, m->z.data, m->z.cols, p->index, p->n, m->batch_z);
    return circe_cuda_measure_hsic(m->cuda, kernels, x, &z, hsic_estimator(m), p->value, grad);
}

static circe_status rows_hsic(train_measures *m, int64_t first, const circe_kernels *kernels, const circe_mat *x) {
    circe_mat z = train_rows_of(&m->checking_z, first, x->rows);
    return circe_cuda_measure_hsic(m->cuda, kernels, x, &z, hsic_estimator(m), m->value, NULL);
}

/* ---- hscic ------------------------------------------------------------------------------------------------------- */

/* Low rank where the training rows, or as many of them as are looked at, need no more than three quarters of the
 * pivots that a batch may have: a batch is a part of them, and what is left out of it is counted against its own trace.
 */
static circe_status choose_method(train_measures *m, const circe_kernel *kernel_y) {
    enum { MOST_ROWS = 16384, MOST_RANK = 72 };
    circe_batch_options options = train_regularizer_batch_options(m->regularizer);
    int64_t step = (m->y.rows + MOST_ROWS - 1) / MOST_ROWS, rank = -1;
    circe_mat some = {m->y.data, m->y.rows / step, m->y.cols, m->y.ld * step, m->y.dtype};
    double tolerance = options.tolerance > 0.0 ? options.tolerance : 1e-10; /* as circe_batch_options has it */
    m->method = CIRCE_METHOD_DENSE;
    if (options.method == CIRCE_METHOD_DENSE || kernel_y == NULL) return CIRCE_OK;
    options.tolerance = fmax(tolerance * fmin(1.0, (double)m->plan.batch / (double)some.rows), 1e-15);
    circe_status status = circe_cuda_batch_rank(m->cuda, kernel_y, &some, &options, &rank);
    if (rank >= 0 && rank <= MOST_RANK) m->method = CIRCE_METHOD_LOWRANK;
    return status;
}

static circe_status reserve(train_measures *m, const circe_kernel *kernel_y) {
    circe_status status = choose_method(m, kernel_y);
    if (status != CIRCE_OK) return status;
    return (circe_cuda_reserve_batch(m->cuda, m->plan.batch, m->plan.widest, m->y.cols, m->z.cols, CIRCE_FLOAT32));
}

static circe_status open_hscic(train_device *device, train_measures *m) {
    const train_regularizer *r = m->regularizer;
    circe_features *features = NULL;
    circe_status status;
    if (!train_regularizer_holds_out(r)) {
        status = bring_training(device, m);
        if (status == CIRCE_OK) status = bring_checking(device, m);
        return status == CIRCE_OK ? reserve(m, r->kernel_y) : status;
    }
    circe_mat y = training(r->y, r->n_rows, r->cols_y), z = training(r->z, r->n_rows, r->cols_z);
    status = circe_features_create(r->context, r->cme, &y, &z, CIRCE_FLOAT32, &features);
    if (status == CIRCE_OK) status = bring_features(m, features, &m->features, &m->y, &m->z);
    circe_features_destroy(features);
    return status == CIRCE_OK ? reserve(m, circe_cme_kernel_y(r->cme)) : status;
}

static circe_status batch_hscic(train_device *device, train_measures *m, const train_measured *p,
                                const circe_kernels *kernels, const circe_mat *x, circe_mat *grad) {
    circe_batch_options options = train_regularizer_batch_options(m->regularizer);
    (void)device;
    options.method = m->method;
    if (train_regularizer_holds_out(m->regularizer))
        return circe_cuda_measure_hscic_holdout(m->cuda, circe_cme_kernel_y(m->regularizer->cme), &m->y, &m->z,
                                                p->index, kernels->x, x, &options, p->value, grad);
    return circe_cuda_measure_hscic(m->cuda, kernels, x, &m->y, &m->z, p->index, &options, p->value, grad);
}

static circe_status rows_hscic(train_measures *m, int64_t first, const circe_kernels *kernels, const circe_mat *x) {
    circe_batch_options options = train_regularizer_batch_options(m->regularizer);
    options.method = CIRCE_METHOD_DENSE; /* these rows are not those that the method was chosen for */
    circe_mat y = train_rows_of(&m->checking_y, first, x->rows), z = train_rows_of(&m->checking_z, first, x->rows);
    return circe_cuda_measure_hscic(m->cuda, kernels, x, &y, &z, NULL, &options, m->value, NULL);
}

/* ---- gcm --------------------------------------------------------------------------------------------------------- */

static circe_status bring_mean(train_device *device, train_measures *m) {
    const train_regularizer *r = m->regularizer;
    circe_mat y = training(r->y, r->n_rows, r->cols_y);
    double *mean = malloc((size_t)(r->n_rows * r->cols_z) * sizeof *mean);
    if (mean == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the mean of z");
    circe_mat z_hat = circe_mat_f64(mean, r->n_rows, r->cols_z);
    circe_status status = circe_cme_mean(r->workspace, r->cme, &y, &z_hat);
    if (status == CIRCE_OK) status = bring(device, m, &z_hat, &m->z_hat);
    free(mean);
    return status;
}

static circe_status open_previous(train_device *device, train_measures *m) {
    int64_t batch = m->plan.batch;
    m->places = calloc((size_t)m->plan.places, sizeof *m->places);
    if (m->places == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the batch before");
    for (int64_t k = 0; k < m->plan.places; k++) {
        previous *p = &m->places[k];
        p->x = device->ops->allocate(device, (size_t)(batch * m->plan.widest) * sizeof *p->x);
        p->y = device->ops->allocate(device, (size_t)(batch * m->y.cols) * sizeof *p->y);
        p->index = device->ops->allocate(device, (size_t)batch * sizeof *p->index);
        if (p->x == NULL || p->y == NULL || p->index == NULL) return CIRCE_ERR_MEMORY;
    }
    return CIRCE_OK;
}

static circe_status open_gcm(train_device *device, train_measures *m) {
    circe_status status = bring_training(device, m);
    if (status == CIRCE_OK && train_regularizer_holds_out(m->regularizer)) status = bring_mean(device, m);
    if (status == CIRCE_OK && train_regularizer_carries(m->regularizer)) status = open_previous(device, m);
    bool linear = m->regularizer->options.gcm_regression == CIRCE_GCM_LINEAR;
    return status == CIRCE_OK ? reserve(m, linear ? NULL : m->regularizer->kernel_y) : status;
}

static circe_status remember(train_device *device, train_measures *m, const train_measured *p) {
    previous *last = &m->places[p->place];
    cudaStream_t stream = train_cuda_of(device)->stream;
    last->rows = p->n;
    last->cols = p->cols;
    cudaError_t error =
        cudaMemcpyAsync(last->x, p->x, (size_t)(p->n * p->cols) * sizeof *last->x, cudaMemcpyDeviceToDevice, stream);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(last->index, p->index, (size_t)p->n * sizeof *last->index, cudaMemcpyDeviceToDevice,
                                stream);
    device->ops->gather(device, m->y.data, m->y.cols, p->index, p->n, last->y);
    return train_cuda_status(error, "keeping the batch");
}

static circe_status batch_gcm(train_device *device, train_measures *m, const train_measured *p,
                              const circe_kernels *kernels, const circe_mat *x, circe_mat *grad) {
    circe_gcm_options options = train_regularizer_gcm_options(m->regularizer);
    options.batch.method = m->method;
    const previous *last = m->places == NULL || m->places[p->place].rows == 0 ? NULL : &m->places[p->place];
    circe_mat before_x, before_y;
    if (last != NULL) {
        before_x = circe_mat_f32(last->x, last->rows, last->cols);
        before_y = circe_mat_f32(last->y, last->rows, m->y.cols);
        options.previous_x = &before_x;
        options.previous_y = &before_y;
    }
    circe_status status = circe_cuda_measure_gcm(
        m->cuda, kernels->y, x, &m->y, &m->z, m->z_hat.rows > 0 ? &m->z_hat : NULL, p->index, &options, p->value, grad);
    return status == CIRCE_OK && m->places != NULL ? remember(device, m, p) : status;
}

static circe_status collect(train_device *device, train_measures *m) {
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; m->places != NULL && k < m->plan.places && status == CIRCE_OK; k++) {
        const previous *p = &m->places[k];
        if (p->rows == 0) continue;
        int64_t *index = malloc((size_t)p->rows * sizeof *index);
        float *x = malloc((size_t)(p->rows * p->cols) * sizeof *x);
        if (index != NULL && x != NULL) {
            circe_mat view = circe_mat_f32(x, p->rows, p->cols);
            device->ops->download(device, index, p->index, (size_t)p->rows * sizeof *index);
            device->ops->download(device, x, p->x, (size_t)(p->rows * p->cols) * sizeof *x);
            status = device->ops->check(device);
            if (status == CIRCE_OK) status = train_regularizer_remember(m->regularizer, k, index, &view);
        } else {
            status = circe_fail(CIRCE_ERR_MEMORY, "no memory for the batch before");
        }
        free(index);
        free(x);
    }
    return status;
}

static circe_status adopt(train_device *device, train_measures *m) {
    for (int64_t k = 0; m->places != NULL && k < m->plan.places; k++) {
        const train_previous *from = train_regularizer_previous(m->regularizer, k);
        previous *p = &m->places[k];
        p->rows = 0;
        if (from == NULL || from->rows > m->plan.batch || from->cols > m->plan.widest) continue;
        p->rows = from->rows;
        p->cols = from->cols;
        device->ops->upload(device, p->x, from->x, (size_t)(p->rows * p->cols) * sizeof *p->x);
        device->ops->upload(device, p->index, from->index, (size_t)p->rows * sizeof *p->index);
        device->ops->gather(device, m->y.data, m->y.cols, p->index, p->rows, p->y);
    }
    return device->ops->check(device);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const measure_row rows[] = {
    [TRAIN_REG_CIRCE] = {open_circe, batch_circe, rows_circe},
    [TRAIN_REG_HSCIC] = {open_hscic, batch_hscic, rows_hscic},
    [TRAIN_REG_GCM] = {open_gcm, batch_gcm, NULL},
    [TRAIN_REG_HSIC] = {open_hsic, batch_hsic, rows_hsic},
};

static const measure_row *row_of(const train_measures *m) {
    size_t kind = (size_t)m->regularizer->options.kind;
    return kind < sizeof rows / sizeof *rows && rows[kind].open != NULL ? &rows[kind] : NULL;
}

static void close_measures(train_device *device, train_measures *m) {
    if (m == NULL) return;
    circe_cuda_features_destroy(m->features);
    circe_cuda_features_destroy(m->checking);
    for (int k = 0; k < m->n_blocks; k++) device->ops->release(device, m->blocks[k]);
    for (int64_t k = 0; m->places != NULL && k < m->plan.places; k++) {
        device->ops->release(device, m->places[k].x);
        device->ops->release(device, m->places[k].y);
        device->ops->release(device, m->places[k].index);
    }
    free(m->places);
    device->ops->release(device, m->value);
    train_host_measures.close(device, m->host);
    free(m);
}

static circe_status open_rest(train_device *device, train_measures *m) {
    m->value = device->ops->allocate(device, sizeof *m->value);
    if (m->value == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe_cuda_reserve(m->cuda, m->plan.batch, m->plan.widest, CIRCE_FLOAT32);
    if (status != CIRCE_OK || m->plan.z == NULL || m->checking_z.rows > 0) return status;
    return train_host_measures.open(device, m->regularizer, &m->plan, &m->host);
}

static circe_status open_measures(train_device *device, train_regularizer *regularizer, const train_measure_plan *plan,
                                  train_measures **measures) {
    train_measures *m = calloc(1, sizeof *m);
    *measures = NULL;
    if (m == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a regulariser on the GPU");
    *m = (train_measures){.regularizer = regularizer, .plan = *plan, .cuda = train_cuda_of(device)->measure};
    const measure_row *row = regularizer->options.dtype == CIRCE_FLOAT32 ? row_of(m) : NULL;
    circe_status status = row != NULL ? row->open(device, m) : CIRCE_ERR_UNSUPPORTED;
    if (status == CIRCE_OK) status = open_rest(device, m);
    if (status == CIRCE_OK)
        *measures = m;
    else
        close_measures(device, m);
    return status;
}

static circe_status find_kernels(const train_measures *m, int64_t cols, circe_kernels *kernels) {
    *kernels = (circe_kernels){.y = m->regularizer->kernel_y, .z = m->regularizer->kernel_z};
    return train_regularizer_kernel_x(m->regularizer, cols, &kernels->x);
}

static circe_status measure_batch(train_device *device, train_measures *m, const train_measured *p) {
    circe_kernels kernels;
    circe_mat x = circe_mat_f32(p->x, p->n, p->cols), grad = circe_mat_f32(p->grad, p->n, p->cols);
    circe_status status = find_kernels(m, p->cols, &kernels);
    if (status != CIRCE_OK) return status;
    return row_of(m)->batch(device, m, p, &kernels, &x, p->grad != NULL ? &grad : NULL);
}

static circe_status measure_rows(train_device *device, train_measures *m, int64_t first, int64_t n, int64_t cols,
                                 const float *from, double *value) {
    circe_kernels kernels;
    circe_mat x = circe_mat_f32(from, n, cols);
    if (m->host != NULL) return train_host_measures.rows(device, m->host, first, n, cols, from, value);
    circe_status status = find_kernels(m, cols, &kernels);
    if (status == CIRCE_OK) status = row_of(m)->rows(m, first, &kernels, &x);
    if (status != CIRCE_OK) return status;
    device->ops->download(device, value, m->value, sizeof *value);
    return device->ops->check(device);
}

const train_measure_ops train_cuda_measures = {.queues = true,
                                               .open = open_measures,
                                               .close = close_measures,
                                               .batch = measure_batch,
                                               .rows = measure_rows,
                                               .collect = collect,
                                               .adopt = adopt};
