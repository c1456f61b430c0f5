/* Regularisers on the GPU: the measure itself goes there (circe_measure_to_cuda), and one like it for the validation
 * rows. What the GPU does not do, the host does: all of it, or the validation rows alone, which come once an epoch. */
#include <stdlib.h>

#include "circe/status.h"
#include "train/cuda/cuda.h"
#include "train/measures.h"

struct train_measures {
    circe_measure *regularizer, *checking; /* of training and of validation rows; checking NULL: none */
    int64_t *rows;                         /* 0, 1, ..., of validation */
    double *value;                         /* of validation rows */
    train_measures *host;                  /* for validation rows; NULL: the GPU does them */
};

static void close_measures(train_device *device, train_measures *m) {
    if (m == NULL) return;
    circe_measure_to_cuda(m->regularizer, NULL, 0, 0, 0);
    circe_measure_destroy(m->checking);
    device->ops->release(device, m->rows);
    device->ops->release(device, m->value);
    train_host_measures.close(device, m->host);
    free(m);
}

static circe_status number_rows(train_device *device, train_measures *m, int64_t n) {
    int64_t *numbers = malloc((size_t)n * sizeof *numbers);
    m->rows = device->ops->allocate(device, (size_t)n * sizeof *m->rows);
    m->value = device->ops->allocate(device, sizeof *m->value);
    for (int64_t i = 0; numbers != NULL && i < n; i++) numbers[i] = i;
    bool made = numbers != NULL && m->rows != NULL && m->value != NULL;
    if (made) device->ops->upload(device, m->rows, numbers, (size_t)n * sizeof *numbers);
    free(numbers);
    return made ? device->ops->check(device) : CIRCE_ERR_MEMORY;
}

static circe_status open_checking(train_device *device, train_measures *m, const train_measure_plan *plan) {
    circe_status status = circe_measure_like(m->regularizer, &m->checking);
    if (status == CIRCE_OK) status = circe_measure_bind(m->checking, plan->y, plan->z);
    if (status == CIRCE_OK)
        status = circe_measure_to_cuda(m->checking, train_cuda_of(device)->measure, plan->batch, plan->widest, 1);
    if (status == CIRCE_OK) return number_rows(device, m, plan->z->rows);
    return status == CIRCE_ERR_UNSUPPORTED ? train_host_measures.open(device, m->regularizer, plan, &m->host) : status;
}

static circe_status open_measures(train_device *device, circe_measure *regularizer, const train_measure_plan *plan,
                                  train_measures **measures) {
    train_measures *m = calloc(1, sizeof *m);
    *measures = NULL;
    if (m == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for a regulariser on the GPU");
    m->regularizer = regularizer;
    circe_status status =
        circe_measure_to_cuda(regularizer, train_cuda_of(device)->measure, plan->batch, plan->widest, plan->places);
    if (status == CIRCE_OK && plan->z != NULL) status = open_checking(device, m, plan);
    if (status == CIRCE_OK)
        *measures = m;
    else
        close_measures(device, m);
    return status;
}

static circe_status measure_batch(train_device *device, train_measures *m, const train_measured *p) {
    circe_mat x = circe_mat_f32(p->x, p->n, p->cols), grad = circe_mat_f32(p->grad, p->n, p->cols);
    (void)device;
    return circe_measure_evaluate_at(m->regularizer, p->place, 0, p->index, p->n, &x, p->value,
                                     p->grad != NULL ? &grad : NULL);
}

static circe_status measure_rows(train_device *device, train_measures *m, int64_t first, int64_t n, int64_t cols,
                                 const float *from, double *value) {
    circe_mat x = circe_mat_f32(from, n, cols);
    if (m->host != NULL) return train_host_measures.rows(device, m->host, first, n, cols, from, value);
    circe_status status = circe_measure_evaluate(m->checking, m->rows + first, n, &x, m->value, NULL);
    if (status != CIRCE_OK) return status;
    device->ops->download(device, value, m->value, sizeof *value);
    return device->ops->check(device);
}

const train_measure_ops train_cuda_measures = {
    .queues = true, .open = open_measures, .close = close_measures, .batch = measure_batch, .rows = measure_rows};
