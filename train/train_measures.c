/* Regularisers, on the device or on the host.
 *
 * On a GPU the measure itself is moved there (circe_measure_to_cuda), and so is a second one for the validation rows,
 * which are measured once per epoch. The host does what the GPU cannot: it downloads x and uploads the gradient. On the
 * CPU both are copies of a few kilobytes.
 *
 * If the rows of a batch are spread over processes, each sends the features of its slice to all others. So every
 * process has the whole batch, as a single process would, and keeps the gradient of its own rows. CIRCE with residual
 * features in coordinates divides its O(B^2) work among the processes (circe_ranks). The other measures consist of
 * regressions, which every process computes in full. */
#include "train/train_measures.h"

#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "train/regularizer.h"

struct train_measures {
    circe_measure *regularizer;
    train_measure_plan plan;
    bool queues;             /* the regulariser is on the device */
    circe_measure *checking; /* one like it for validation rows, on the device; NULL: the host does */
    int64_t *rows;           /* 0, 1, ..., of validation, and the value there; on the device */
    double *value;
    float *x, *grad; /* (batch, widest) in host memory; NULL: the host has nothing to do */
    size_t *bytes;   /* (processes): what comes from whom; NULL: alone */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

void train_measures_close(train_device *device, train_measures *m) {
    if (m == NULL) return;
    if (m->plan.ranks != NULL) circe_measure_set_ranks(m->regularizer, NULL);
    if (m->queues) circe_measure_to_cuda(m->regularizer, NULL, 0, 0, 0);
    circe_measure_destroy(m->checking);
    device->ops->release(device, m->rows);
    device->ops->release(device, m->value);
    free(m->x);
    free(m->grad);
    free(m->bytes);
    free(m);
}

static circe_status no_memory(const train_measures *m) {
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for batches of %lld rows", (long long)m->plan.batch);
}

static circe_status number_rows(train_device *device, train_measures *m) {
    int64_t n = m->plan.z->rows, *numbers = malloc((size_t)(n > 0 ? n : 1) * sizeof *numbers);
    m->rows = device->ops->allocate(device, (size_t)(n > 0 ? n : 1) * sizeof *m->rows);
    m->value = device->ops->allocate(device, sizeof *m->value);
    for (int64_t i = 0; numbers != NULL && i < n; i++) numbers[i] = i;
    bool complete = numbers != NULL && m->rows != NULL && m->value != NULL;
    if (complete) device->ops->upload(device, m->rows, numbers, (size_t)n * sizeof *numbers);
    free(numbers);
    return complete ? device->ops->check(device) : CIRCE_ERR_MEMORY;
}

/* CIRCE_ERR_UNSUPPORTED: not for this measure, which stays with the host. */
static circe_status go_there(train_device *device, const train_measures *m, circe_measure *measure) {
    circe_cuda *gpu = m->plan.ranks == NULL && device->ops->measures != NULL ? device->ops->measures(device) : NULL;
    if (gpu == NULL) return CIRCE_ERR_UNSUPPORTED;
    return circe_measure_to_cuda(measure, gpu, m->plan.batch, m->plan.widest, m->plan.places);
}

static circe_status open_checking(train_device *device, train_measures *m) {
    circe_status status = circe_measure_like(m->regularizer, &m->checking);
    if (status == CIRCE_OK) status = circe_measure_bind(m->checking, m->plan.y, m->plan.z);
    if (status == CIRCE_OK) status = go_there(device, m, m->checking);
    if (status == CIRCE_OK) return number_rows(device, m);
    circe_measure_destroy(m->checking);
    m->checking = NULL;
    return status;
}

static circe_status open_host(train_measures *m) {
    const train_ranks *ranks = m->plan.ranks;
    size_t numbers = (size_t)(m->plan.batch * (m->plan.widest > 0 ? m->plan.widest : 1));
    m->x = calloc(numbers, sizeof *m->x);
    m->grad = calloc(numbers, sizeof *m->grad);
    if (m->x == NULL || m->grad == NULL) return no_memory(m);
    if (ranks == NULL) return CIRCE_OK;
    const circe_ranks all = {.rank = ranks->rank, .size = ranks->size, .sum = ranks->sum_of};
    circe_measure_set_ranks(m->regularizer, &all);
    m->bytes = calloc((size_t)ranks->size, sizeof *m->bytes);
    return m->bytes != NULL ? CIRCE_OK : no_memory(m);
}

circe_status train_measures_open(train_device *device, circe_measure *regularizer, const train_measure_plan *plan,
                                 train_measures **measures) {
    train_measures *m = *measures = calloc(1, sizeof *m);
    if (m == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a regulariser");
    *m = (train_measures){.regularizer = regularizer, .plan = *plan};
    circe_status status = go_there(device, m, regularizer);
    m->queues = status == CIRCE_OK;
    if (m->queues && plan->z != NULL) status = open_checking(device, m);
    if (status == CIRCE_ERR_UNSUPPORTED) status = open_host(m);
    if (status == CIRCE_OK) return CIRCE_OK;
    train_measures_close(device, m);
    *measures = NULL;
    return status;
}

bool train_measures_queue(const train_measures *m) { return m == NULL || m->queues; }

/* Rows first .. first + n - 1. */
/* ---- features and gradients on their way ------------------------------------------------------------------------- */

/* The features of `rows` points, of which x is what is here: all of them, or this process's slice. */
static circe_mat fetch(train_device *device, train_measures *m, int64_t rows, int64_t cols, const float *x) {
    const train_ranks *ranks = m->plan.ranks;
    if (ranks == NULL) device->ops->download(device, m->x, x, (size_t)(rows * cols) * sizeof *x);
    for (int k = 0; ranks != NULL && k < ranks->size; k++) {
        int64_t n = 0;
        train_ranks_slice(rows, k, ranks->size, &n);
        m->bytes[k] = (size_t)(n * cols) * sizeof *x;
    }
    if (ranks == NULL) return circe_mat_f32(m->x, rows, cols);
    device->ops->download(device, m->grad, x, m->bytes[ranks->rank]); /* which is free until the gradient comes */
    ranks->gather(m->grad, m->bytes, m->x);
    return circe_mat_f32(m->x, rows, cols);
}

static void send(train_device *device, const train_measures *m, const train_measured *p) {
    const train_ranks *ranks = m->plan.ranks;
    int64_t n = p->n, first = ranks != NULL ? train_ranks_slice(m->plan.batch, ranks->rank, ranks->size, &n) : 0;
    if (p->grad != NULL)
        device->ops->upload(device, p->grad, m->grad + first * p->cols, (size_t)(n * p->cols) * sizeof *m->grad);
}

/* If one rank sees NaN or an infinity in x, all ranks stop: the value tells the others. */
static circe_status as_value(const train_measures *m, circe_status status, double *value) {
    if (m->plan.ranks == NULL || (status != CIRCE_ERR_VALUE && status != CIRCE_ERR_NUMERIC)) return status;
    *value = NAN;
    return CIRCE_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static circe_status batch_on_host(train_device *device, train_measures *m, const train_measured *p) {
    int64_t n = m->plan.ranks != NULL ? m->plan.batch : p->n;
    double value = NAN, loss = NAN;
    circe_mat x = fetch(device, m, n, p->cols, p->x), grad = circe_mat_f32(m->grad, n, p->cols);
    circe_status status = CIRCE_OK;
    device->ops->download(device, &loss, p->loss, sizeof loss);
    if (m->plan.ranks != NULL || isfinite(loss))
        status = circe_measure_evaluate_at(m->regularizer, p->place, p->step, p->host_index, n, &x, &value,
                                           p->grad != NULL ? &grad : NULL);
    status = as_value(m, status, &value);
    if (status != CIRCE_OK) return status;
    device->ops->upload(device, p->value, &value, sizeof value);
    send(device, m, p);
    return CIRCE_OK;
}

circe_status train_measures_batch(train_device *device, train_measures *m, const train_measured *p) {
    circe_mat x = circe_mat_f32(p->x, p->n, p->cols), grad = circe_mat_f32(p->grad, p->n, p->cols);
    if (!m->queues) return batch_on_host(device, m, p);
    return circe_measure_evaluate_at(m->regularizer, p->place, p->step, p->index, p->n, &x, p->value,
                                     p->grad != NULL ? &grad : NULL);
}

/* Several ranks measure in turn. */
static circe_status rows_on_host(train_device *device, train_measures *m, int64_t place, int64_t first, int64_t n,
                                 int64_t cols, const float *from, double *value) {
    const train_ranks *ranks = m->plan.ranks;
    circe_mat x = fetch(device, m, n, cols, from), z = circe__rows(m->plan.z, first, n);
    circe_mat y = m->plan.y->cols > 0 ? circe__rows(m->plan.y, first, n) : *m->plan.y;
    *value = 0.0;
    if (ranks != NULL && first / m->plan.batch % ranks->size != ranks->rank) return CIRCE_OK;
    bool enough = true;
    circe_status status = CIRCE_OK;
    if (m->plan.weight != NULL && circe_measure_has_weights(m->regularizer))
        status = train_regularizer_weigh(m->regularizer, m->plan.weight + first, n, &enough);
    if (status != CIRCE_OK || !enough) return status; /* too few rows to be measured: 0 */
    return as_value(m, circe_measure_points_at(m->regularizer, place, &x, &y, &z, value, NULL), value);
}

circe_status train_measures_rows(train_device *device, train_measures *m, int64_t place, int64_t first, int64_t n,
                                 int64_t cols, const float *from, double *value) {
    circe_mat x = circe_mat_f32(from, n, cols);
    if (m->checking == NULL) return rows_on_host(device, m, place, first, n, cols, from, value);
    circe_status status = circe_measure_evaluate_at(m->checking, place, 0, m->rows + first, n, &x, m->value, NULL);
    if (status != CIRCE_OK) return status;
    device->ops->download(device, value, m->value, sizeof *value);
    return device->ops->check(device);
}
