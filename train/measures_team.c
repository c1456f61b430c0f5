/* Regularisers of a batch whose rows are spread over processes: each sends the features of its slice to all, so that
 * every process has the batch as one process would have it, and each keeps the gradient of its own rows. On the CPU.
 *
 * CIRCE with residual features in coordinates divides its O(B^2) work among the processes (circe_company); of the other
 * measures, whose work is one of regressions, every process does all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "measures.h"

struct train_measures {
    train_regularizer *regularizer;
    train_measure_plan plan;
    float *x, *grad; /* (batch, widest) */
    size_t *bytes;   /* (size): what comes from whom */
};

static void close_measures(train_device *device, train_measures *m) {
    (void)device;
    if (m == NULL) return;
    train_regularizer_set_company(m->regularizer, NULL);
    free(m->x);
    free(m->grad);
    free(m->bytes);
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
        m->bytes = calloc((size_t)plan->team->size, sizeof *m->bytes);
        train_regularizer_set_company(regularizer,
                                      &(circe_company){plan->team->rank, plan->team->size, plan->team->sum_of, NULL});
        if (m->x != NULL && m->grad != NULL && m->bytes != NULL) return CIRCE_OK;
    }
    close_measures(device, m);
    *measures = NULL;
    return train_fail(CIRCE_ERR_MEMORY, "no memory for batches of %lld rows", (long long)plan->batch);
}

/* m->x (rows, cols) := the slices x of all. */
static circe_mat gather(train_measures *m, int64_t rows, int64_t cols, const float *x) {
    const train_team *team = m->plan.team;
    for (int k = 0; k < team->size; k++) {
        int64_t n = 0;
        train_team_slice(rows, k, team->size, &n);
        m->bytes[k] = (size_t)(n * cols) * sizeof *x;
    }
    team->gather(x, m->bytes, m->x);
    return circe_mat_f32(m->x, rows, cols);
}

/* An x that is no number is everybody's, and so is the end of the run: the value tells it. */
static circe_status as_value(circe_status status, double *value) {
    if (status != CIRCE_ERR_VALUE && status != CIRCE_ERR_NUMERIC) return status;
    *value = NAN;
    return CIRCE_OK;
}

static circe_status measure_batch(train_device *device, train_measures *m, const train_measured *p) {
    const train_team *team = m->plan.team;
    int64_t n = 0, batch = m->plan.batch, first = train_team_slice(batch, team->rank, team->size, &n);
    circe_mat x = gather(m, batch, p->cols, p->x), grad = circe_mat_f32(m->grad, batch, p->cols);
    circe_status status = as_value(train_regularizer_batch_at(m->regularizer, p->place, p->step, p->host_index, batch,
                                                              &x, p->value, p->grad != NULL ? &grad : NULL),
                                   p->value);
    (void)device;
    if (status == CIRCE_OK && p->grad != NULL)
        memcpy(p->grad, m->grad + first * p->cols, (size_t)(n * p->cols) * sizeof *p->grad);
    return status;
}

static circe_status measure_rows(train_device *device, train_measures *m, int64_t first, int64_t n, int64_t cols,
                                 const float *from, double *value) {
    const train_team *team = m->plan.team;
    circe_mat x = gather(m, n, cols, from), z = train_rows_of(m->plan.z, first, n);
    circe_mat y = m->plan.y->cols > 0 ? train_rows_of(m->plan.y, first, n) : *m->plan.y;
    (void)device;
    *value = 0.0;
    if ((first / m->plan.batch) % team->size != team->rank) return CIRCE_OK;
    return as_value(train_regularizer_value(m->regularizer, &x, &y, &z, value), value);
}

const train_measure_ops train_team_measures = {
    .open = open_measures, .close = close_measures, .batch = measure_batch, .rows = measure_rows};
