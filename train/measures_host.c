/* Regularisers on the host, for features of any device: x is brought here, the gradient is sent back. On the CPU both
 * are copies of some kilobytes. */
#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "measures.h"

struct train_measures {
    train_regularizer *regularizer;
    train_measure_plan plan;
    float *x, *grad; /* (batch, widest) */
};

static void close_measures(train_device *device, train_measures *m) {
    (void)device;
    if (m == NULL) return;
    free(m->x);
    free(m->grad);
    free(m);
}

static circe_status open_measures(train_device *device, train_regularizer *regularizer, const train_measure_plan *plan,
                                  train_measures **measures) {
    size_t numbers = (size_t)(plan->batch * (plan->widest > 0 ? plan->widest : 1));
    train_measures *m = calloc(1, sizeof *m);
    *measures = m;
    if (m != NULL) {
        *m = (train_measures){.regularizer = regularizer, .plan = *plan};
        m->x = calloc(numbers, sizeof *m->x);
        m->grad = calloc(numbers, sizeof *m->grad);
        if (m->x != NULL && m->grad != NULL) return CIRCE_OK;
    }
    close_measures(device, m);
    *measures = NULL;
    return train_fail(CIRCE_ERR_MEMORY, "no memory for batches of %lld rows", (long long)plan->batch);
}

static circe_status measure_batch(train_device *device, train_measures *m, const train_measured *p) {
    size_t bytes = (size_t)(p->n * p->cols) * sizeof *m->x;
    double value = NAN, loss = NAN;
    circe_mat x = circe_mat_f32(m->x, p->n, p->cols), grad = circe_mat_f32(m->grad, p->n, p->cols);
    circe_status status = CIRCE_OK;
    device->ops->download(device, &loss, p->loss, sizeof loss);
    device->ops->download(device, m->x, p->x, bytes);
    if (isfinite(loss))
        status = train_regularizer_batch_at(m->regularizer, p->place, p->step, p->host_index, p->n, &x, &value,
                                            p->grad != NULL ? &grad : NULL);
    if (status != CIRCE_OK) return status;
    device->ops->upload(device, p->value, &value, sizeof value);
    if (p->grad != NULL) device->ops->upload(device, p->grad, m->grad, bytes);
    return CIRCE_OK;
}

static circe_status measure_rows(train_device *device, train_measures *m, int64_t first, int64_t n, int64_t cols,
                                 const float *from, double *value) {
    circe_mat x = circe_mat_f32(m->x, n, cols), z = train_rows_of(m->plan.z, first, n);
    circe_mat y = m->plan.y->cols > 0 ? train_rows_of(m->plan.y, first, n) : *m->plan.y;
    device->ops->download(device, m->x, from, (size_t)(n * cols) * sizeof *m->x);
    return train_regularizer_value(m->regularizer, &x, &y, &z, value);
}

const train_measure_ops train_host_measures = {
    .open = open_measures, .close = close_measures, .batch = measure_batch, .rows = measure_rows};
