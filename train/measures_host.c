/* Regularisers on the host, for features of any device: x is brought here, the gradient is sent back. On the CPU both
 * are copies of some kilobytes.
 *
 * Of a batch whose rows are spread over processes each sends the features of its slice to all, so that every process
 * has the batch as one process would have it, and keeps the gradient of its own rows. CIRCE with residual features in
 * coordinates divides its O(B^2) work among the processes (circe_ranks); of the other measures, whose work is one of
 * regressions, every process does all. */
#include <math.h>
#include <stdlib.h>

#include "circe/status.h"
#include "train/measures.h"

struct train_measures {
    circe_measure *regularizer;
    train_measure_plan plan;
    float *x, *grad; /* (batch, widest) */
    size_t *bytes;   /* (processes): what comes from whom; NULL: alone */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void close_measures(train_device *device, train_measures *m) {
    (void)device;
    if (m == NULL) return;
    if (m->plan.team != NULL) circe_measure_set_ranks(m->regularizer, NULL);
    free(m->x);
    free(m->grad);
    free(m->bytes);
    free(m);
}

static bool join(train_measures *m) {
    const train_team *team = m->plan.team;
    if (team == NULL) return true;
    const circe_ranks ranks = {.rank = team->rank, .size = team->size, .sum = team->sum_of};
    circe_measure_set_ranks(m->regularizer, &ranks);
    m->bytes = calloc((size_t)team->size, sizeof *m->bytes);
    return m->bytes != NULL;
}

static circe_status open_measures(train_device *device, circe_measure *regularizer, const train_measure_plan *plan,
                                  train_measures **measures) {
    size_t numbers = (size_t)(plan->batch * (plan->widest > 0 ? plan->widest : 1));
    train_measures *m = calloc(1, sizeof *m);
    *measures = m;
    if (m != NULL) {
        *m = (train_measures){.regularizer = regularizer, .plan = *plan};
        m->x = calloc(numbers, sizeof *m->x);
        m->grad = calloc(numbers, sizeof *m->grad);
        if (join(m) && m->x != NULL && m->grad != NULL) return CIRCE_OK;
    }
    close_measures(device, m);
    *measures = NULL;
    return circe_fail(CIRCE_ERR_MEMORY, "no memory for batches of %lld rows", (long long)plan->batch);
}

/* ---- features and gradients on their way ------------------------------------------------------------------------- */

/* The features of `rows` points, of which x is what is here: all of them, or this process's slice. */
static circe_mat fetch(train_device *device, train_measures *m, int64_t rows, int64_t cols, const float *x) {
    const train_team *team = m->plan.team;
    if (team == NULL) device->ops->download(device, m->x, x, (size_t)(rows * cols) * sizeof *x);
    for (int k = 0; team != NULL && k < team->size; k++) {
        int64_t n = 0;
        train_team_slice(rows, k, team->size, &n);
        m->bytes[k] = (size_t)(n * cols) * sizeof *x;
    }
    if (team != NULL) team->gather(x, m->bytes, m->x);
    return circe_mat_f32(m->x, rows, cols);
}

static void send(train_device *device, const train_measures *m, const train_measured *p) {
    const train_team *team = m->plan.team;
    int64_t n = p->n, first = team != NULL ? train_team_slice(m->plan.batch, team->rank, team->size, &n) : 0;
    if (p->grad != NULL)
        device->ops->upload(device, p->grad, m->grad + first * p->cols, (size_t)(n * p->cols) * sizeof *m->grad);
}

/* In a team an x that is no number is everybody's, and so is the end of the run: the value tells it. */
static circe_status as_value(const train_measures *m, circe_status status, double *value) {
    if (m->plan.team == NULL || (status != CIRCE_ERR_VALUE && status != CIRCE_ERR_NUMERIC)) return status;
    *value = NAN;
    return CIRCE_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static circe_status measure_batch(train_device *device, train_measures *m, const train_measured *p) {
    int64_t n = m->plan.team != NULL ? m->plan.batch : p->n;
    double value = NAN, loss = NAN;
    circe_mat x = fetch(device, m, n, p->cols, p->x), grad = circe_mat_f32(m->grad, n, p->cols);
    circe_status status = CIRCE_OK;
    device->ops->download(device, &loss, p->loss, sizeof loss);
    if (m->plan.team != NULL || isfinite(loss))
        status = circe_measure_evaluate_at(m->regularizer, p->place, p->step, p->host_index, n, &x, &value,
                                           p->grad != NULL ? &grad : NULL);
    status = as_value(m, status, &value);
    if (status != CIRCE_OK) return status;
    device->ops->upload(device, p->value, &value, sizeof value);
    send(device, m, p);
    return CIRCE_OK;
}

/* Of a team the processes measure in turn. */
static circe_status measure_rows(train_device *device, train_measures *m, int64_t first, int64_t n, int64_t cols,
                                 const float *from, double *value) {
    const train_team *team = m->plan.team;
    circe_mat x = fetch(device, m, n, cols, from), z = train_rows_of(m->plan.z, first, n);
    circe_mat y = m->plan.y->cols > 0 ? train_rows_of(m->plan.y, first, n) : *m->plan.y;
    *value = 0.0;
    if (team != NULL && first / m->plan.batch % team->size != team->rank) return CIRCE_OK;
    return as_value(m, circe_measure_points(m->regularizer, &x, &y, &z, value, NULL), value);
}

const train_measure_ops train_host_measures = {
    .open = open_measures, .close = close_measures, .batch = measure_batch, .rows = measure_rows};
