/* A measure at work: rows of its data set, other points, and what it carries from batch to batch.
 *
 * From the second batch of a size on, nothing is allocated: kernels of x are kept for each number of columns, and
 * gathered rows and the previous batch have memory that stays. */
#include <string.h>

#include "measures/measuring_parts.h"

#include "core/settings.h"

/* ---- the batch before -------------------------------------------------------------------------------------------- */

void circe__measure_forget(circe_measure *m) {
    for (int64_t p = 0; p < m->n_places; p++) {
        circe__free(m->context, m->places[p].rows);
        circe__free(m->context, m->places[p].x);
    }
    circe__free(m->context, m->places);
    m->places = NULL;
    m->n_places = 0;
}

/* NULL: there is no memory. */
static circe__previous *find_place(circe_measure *m, int64_t place) {
    if (place < m->n_places) return &m->places[place];
    circe__previous *grown = circe__calloc(m->context, place + 1, sizeof *grown);
    if (grown == NULL) return NULL;
    if (m->n_places > 0) memcpy(grown, m->places, (size_t)m->n_places * sizeof *grown);
    circe__free(m->context, m->places);
    m->places = grown;
    m->n_places = place + 1;
    return &grown[place];
}

static circe_status make_room(circe_measure *m, circe__previous *p, int64_t n, int64_t cols, circe_dtype dtype) {
    bool fits = n <= p->room && cols == p->cols && dtype == p->dtype;
    p->n = 0;
    if (fits) return CIRCE_OK;
    circe__free(m->context, p->rows);
    circe__free(m->context, p->x);
    *p = (circe__previous){.cols = cols, .dtype = dtype};
    p->rows = circe__alloc(m->context, circe__max(n, 1), sizeof *p->rows);
    p->x = circe__alloc(m->context, circe__max(n * cols, 1), circe_dtype_size(dtype));
    p->room = p->rows != NULL && p->x != NULL ? n : 0;
    return p->rows != NULL && p->x != NULL ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

const circe__previous *circe__measure_previous(const circe_measure *m, int64_t place) {
    return place < m->n_places && m->places[place].n > 0 ? &m->places[place] : NULL;
}

circe_status circe__measure_remember(circe_measure *m, int64_t place, const int64_t *rows, const circe_mat *x) {
    circe__previous *p = find_place(m, place);
    if (p == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = make_room(m, p, x->rows, x->cols, x->dtype);
    if (status != CIRCE_OK) return status;
    circe_mat kept = circe__mat(p->x, x->rows, x->cols, x->dtype);
    circe__copy_mat(x, &kept);
    memcpy(p->rows, rows, (size_t)x->rows * sizeof *rows);
    p->n = x->rows;
    return CIRCE_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static circe_status gather(circe_measure *m, circe__slot slot, const double *from, int64_t cols, const int64_t *rows,
                           int64_t n, circe_mat *to) {
    double *at = circe__take(m->workspace, slot, circe__max(n * cols, 1), sizeof *at);
    if (at == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; cols > 0 && i < n; i++) memcpy(at + i * cols, from + rows[i] * cols, (size_t)cols * sizeof *at);
    *to = circe__mat(at, n, cols, CIRCE_FLOAT64);
    return CIRCE_OK;
}

static circe_status all_rows(circe_measure *m, int64_t n, const int64_t **rows) {
    int64_t *all = circe__take(m->workspace, CIRCE__SLOT_BATCH_ROWS, circe__max(n, 1), sizeof *all);
    if (all == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) all[i] = i;
    *rows = all;
    return CIRCE_OK;
}

/* previous_x and previous_y of the points, where there was a batch before. */
static circe_status recall(circe_measure *m, int64_t place, circe_mat *previous_x, circe_mat *previous_y,
                           circe__measured_points *points) {
    const circe__previous *p = circe__measure_previous(m, place);
    if (p == NULL) return CIRCE_OK;
    if (p->cols != points->x->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "x has %lld columns, but had %lld in the previous batch",
                          (long long)points->x->cols, (long long)p->cols);
    circe_status status = gather(m, CIRCE__SLOT_PREVIOUS_Y, m->y, m->cols_y, p->rows, p->n, previous_y);
    *previous_x = circe__mat(p->x, p->n, p->cols, p->dtype);
    points->previous_x = previous_x;
    points->previous_y = previous_y;
    if (status != CIRCE_OK || m->weights == NULL) return status;
    double *weights = circe__take(m->workspace, CIRCE__SLOT_PREVIOUS_WEIGHTS, p->n, sizeof *weights);
    for (int64_t i = 0; weights != NULL && i < p->n; i++) weights[i] = m->weights[p->rows[i]];
    points->previous_weights = weights;
    return weights != NULL ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

/* In float64 where that was asked for. */
static circe_status measure_batch(circe_measure *m, circe__measured_points *points, double *value, circe_mat *grad) {
    const circe_mat *x = points->x;
    if (m->options.dtype == CIRCE_FLOAT32 || x->dtype == CIRCE_FLOAT64) return m->measure(m, points, value, grad);
    circe_mat wide_x, wide_grad;
    circe_status status = circe__widen(m->workspace, x, grad, &wide_x, &wide_grad);
    if (status != CIRCE_OK) return status;
    points->x = &wide_x;
    status = m->measure(m, points, value, grad != NULL ? &wide_grad : NULL);
    if (status == CIRCE_OK && grad != NULL) circe__copy_mat(&wide_grad, grad);
    points->x = x;
    return status;
}

/* The weights of a batch of the data set, if it has some. A batch of fewer rows of positive weight than any estimator
 * needs says nothing: *nothing. Nor is it remembered as the batch before. */
static circe_status weigh_batch(circe_measure *m, const int64_t *rows, int64_t n, bool *nothing) {
    enum { LEAST = 4 };
    int64_t positive = 0;
    if (m->weights == NULL) return CIRCE_OK;
    double *of = circe__take(m->workspace, CIRCE__SLOT_BATCH_WEIGHTS, n, sizeof *of);
    if (of == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        of[i] = m->weights[rows[i]];
        positive += of[i] > 0.0;
    }
    *nothing = positive < LEAST;
    return *nothing ? CIRCE_OK : circe_workspace_set_weights(m->workspace, of, n);
}

static circe_status measure_nothing(const circe_mat *x, double *value, circe_mat *grad) {
    *value = 0.0;
    circe_status status = grad != NULL ? circe__check_output(grad, x->rows, x->cols, x->dtype, "grad") : CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && grad != NULL && i < grad->rows; i++)
        for (int64_t c = 0; c < grad->cols; c++) circe__set(grad, i, c, 0.0);
    return status;
}

static circe_status check_batch(const circe_measure *m, int64_t place, const int64_t *rows, int64_t n,
                                const circe_mat *x, const double *value) {
    if (m == NULL || x == NULL || value == NULL || n < 1 || place < 0 || place >= CIRCE__MOST_PLACES)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "measure, x and value must not be NULL, n must be at least 1, and place at least 0");
    if (m->n_rows < 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the measure has no data set; call circe_measure_bind first");
    if (x->rows != n || (rows == NULL && n != m->n_rows))
        return circe_fail(CIRCE_ERR_SHAPE, "x has %lld rows, but %lld of the %lld rows of the data set are asked for",
                          (long long)x->rows, (long long)n, (long long)m->n_rows);
    return CIRCE_OK;
}

static circe_status check_rows(const circe_measure *m, const int64_t *rows, int64_t n) {
    for (int64_t i = 0; rows != NULL && i < n; i++)
        if (rows[i] < 0 || rows[i] >= m->n_rows)
            return circe_fail(CIRCE_ERR_ARGUMENT, "the data set has no row %lld; it has %lld, counted from 0",
                              (long long)rows[i], (long long)m->n_rows);
    return CIRCE_OK;
}

circe_status circe_measure_evaluate_at(circe_measure *m, int64_t place, int64_t step, const int64_t *rows, int64_t n,
                                       const circe_mat *x, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    circe_mat y, z, previous_x, previous_y, room;
    circe__measured_points points = {.rows = rows, .step = step, .x = x, .y = &y, .z = &z};
    circe_status status = check_batch(m, place, rows, n, x, value);
    if (status == CIRCE_OK && m->device != NULL) return m->device->evaluate(m, place, rows, n, x, value, grad);
    if (status == CIRCE_OK && (m->features == NULL || m->weights != NULL)) /* or circe_measure_circe_cached does */
        status = check_rows(m, rows, n);
    if (status == CIRCE_OK) status = circe__measure_scale(m, place, true, x, &room, &points.x);
    if (status == CIRCE_OK) status = circe__measure_kernel_x(m, points.x, &points.kernel_x);
    if (status == CIRCE_OK && rows == NULL) status = all_rows(m, n, &points.rows);
    if (status == CIRCE_OK && m->y != NULL)
        status = gather(m, CIRCE__SLOT_BATCH_Y, m->y, m->cols_y, points.rows, n, &y);
    if (status == CIRCE_OK && m->y != NULL)
        status = gather(m, CIRCE__SLOT_BATCH_Z, m->z, m->cols_z, points.rows, n, &z);
    bool carries = status == CIRCE_OK && circe__measure_carries(m);
    bool nothing = false;
    if (carries) status = recall(m, place, &previous_x, &previous_y, &points);
    if (status == CIRCE_OK) status = weigh_batch(m, points.rows, n, &nothing);
    if (status == CIRCE_OK) status = nothing ? measure_nothing(x, value, grad) : measure_batch(m, &points, value, grad);
    if (m != NULL) circe__weights_used(m->workspace);
    if (status == CIRCE_OK && grad != NULL) status = circe__measure_scale_back(m, x, grad);
    return status == CIRCE_OK && carries && !nothing ? circe__measure_remember(m, place, points.rows, x) : status;
}

circe_status circe_measure_evaluate(circe_measure *m, const int64_t *rows, int64_t n, const circe_mat *x, double *value,
                                    circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return circe_measure_evaluate_at(m, 0, 0, rows, n, x, value, grad);
}

static circe_status measure_points(circe_measure *m, int64_t place, const circe_mat *x, const circe_mat *y,
                                   const circe_mat *z, double *value, circe_mat *grad) {
    circe_mat room;
    circe__measured_points points = {.x = x, .y = y, .z = z};
    if (m->n_rows >= 0 && ((m->cols_y > 0 && y->cols != m->cols_y) || z->cols != m->cols_z))
        return circe_fail(CIRCE_ERR_SHAPE,
                          "y and z have %lld and %lld columns; those of the data set have %lld "
                          "and %lld",
                          (long long)y->cols, (long long)z->cols, (long long)m->cols_y, (long long)m->cols_z);
    circe_status status = circe__measure_settle(m, y, z);
    if (status == CIRCE_OK) status = circe__measure_scale(m, place, false, x, &room, &points.x);
    if (status == CIRCE_OK) status = circe__measure_kernel_x(m, points.x, &points.kernel_x);
    if (status == CIRCE_OK) status = m->measure(m, &points, value, grad);
    return status == CIRCE_OK && grad != NULL ? circe__measure_scale_back(m, x, grad) : status;
}

circe_status circe_measure_points_at(circe_measure *m, int64_t place, const circe_mat *x, const circe_mat *y,
                                     const circe_mat *z, double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    if (m == NULL || x == NULL || y == NULL || z == NULL || value == NULL || place < 0 || place >= CIRCE__MOST_PLACES)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "measure, x, y, z and value must not be NULL, and place must be at least 0");
    bool on_device = m->device != NULL && m->device->points != NULL;
    circe_status status =
        on_device ? m->device->points(m, x, y, z, value, grad) : measure_points(m, place, x, y, z, value, grad);
    circe__weights_used(m->workspace); /* used */
    return status;
}

circe_status circe_measure_points(circe_measure *m, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                  double *value, circe_mat *grad) {
    CIRCE_OWN_SETTINGS;
    return circe_measure_points_at(m, 0, x, y, z, value, grad);
}

/* ---- state: running widths (following.c), or the number of places, and of each its rows, columns, numbers, x ---- */

/* Added to the columns of an x of float64. */
static const int64_t wide = INT64_C(1) << 62;

static size_t x_bytes(const circe__previous *p) { return (size_t)(p->n * p->cols) * circe_dtype_size(p->dtype); }

circe_status circe_measure_state_bytes(circe_measure *m, size_t *bytes) {
    *bytes = 0;
    circe_status status = m != NULL && m->device != NULL ? m->device->collect(m) : CIRCE_OK;
    if (status != CIRCE_OK || m == NULL) return status;
    *bytes = circe__measure_widths_bytes(m);
    if (m->n_places == 0) return status;
    *bytes = sizeof(int64_t);
    for (int64_t p = 0; p < m->n_places; p++)
        *bytes += (2 + (size_t)m->places[p].n) * sizeof(int64_t) + x_bytes(&m->places[p]);
    return CIRCE_OK;
}

static void put(char **at, const void *from, size_t bytes) {
    if (bytes > 0) memcpy(*at, from, bytes);
    *at += bytes;
}

circe_status circe_measure_get_state(const circe_measure *m, void *state) {
    char *at = state;
    size_t widths = m != NULL ? circe__measure_widths_bytes(m) : 0;
    if (m == NULL || (m->n_places == 0 && widths == 0)) return CIRCE_OK;
    if (state == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "state must not be NULL");
    if (widths > 0) {
        circe__measure_get_widths(m, state);
        return CIRCE_OK;
    }
    put(&at, &m->n_places, sizeof m->n_places);
    for (int64_t k = 0; k < m->n_places; k++) {
        const circe__previous *p = &m->places[k];
        int64_t cols = p->cols + (p->dtype == CIRCE_FLOAT64 ? wide : 0);
        put(&at, &p->n, sizeof p->n);
        put(&at, &cols, sizeof cols);
        put(&at, p->rows, (size_t)p->n * sizeof *p->rows);
        put(&at, p->x, x_bytes(p));
    }
    return CIRCE_OK;
}

/* What is left of a state to read. */
typedef struct reader {
    const char *at;
    size_t left;
} reader;

static bool take(reader *in, void *to, size_t bytes) {
    if (bytes > in->left) return false;
    if (bytes > 0) memcpy(to, in->at, bytes);
    in->at += bytes;
    in->left -= bytes;
    return true;
}

static circe_status damaged(void) {
    return circe_fail(CIRCE_ERR_FORMAT, "the measure's state is damaged or belongs to another run");
}

static circe_status read_place(circe_measure *m, int64_t place, reader *in) {
    int64_t n = -1, cols = -1;
    if (!take(in, &n, sizeof n) || !take(in, &cols, sizeof cols)) return damaged();
    circe_dtype dtype = cols >= wide ? CIRCE_FLOAT64 : CIRCE_FLOAT32;
    if (cols >= wide) cols -= wide;
    if (n < 0 || cols < 0 || (size_t)n > in->left || (size_t)cols > in->left ||
        (n > 0 && (double)n * (double)cols > (double)in->left))
        return damaged();
    circe__previous *p = find_place(m, place);
    circe_status status = p == NULL ? CIRCE_ERR_MEMORY : make_room(m, p, n, cols, dtype);
    if (status != CIRCE_OK) return status;
    if (!take(in, p->rows, (size_t)n * sizeof *p->rows) ||
        !take(in, p->x, (size_t)(n * cols) * circe_dtype_size(dtype)))
        return damaged();
    for (int64_t i = 0; i < n; i++)
        if (p->rows[i] < 0 || p->rows[i] >= m->n_rows) return damaged();
    p->n = n;
    return CIRCE_OK;
}

static circe_status read_places(circe_measure *m, reader in) {
    int64_t places = 0;
    if (in.left == 0) return CIRCE_OK;
    if (m != NULL && in.at != NULL && circe__measure_runs(m)) return circe__measure_set_widths(m, in.at, in.left);
    if (m == NULL || in.at == NULL || !circe__measure_carries(m)) return damaged();
    if (!take(&in, &places, sizeof places) || places < 0 || places > CIRCE__MOST_PLACES) return damaged();
    circe_status status = CIRCE_OK;
    for (int64_t p = 0; p < places && status == CIRCE_OK; p++) status = read_place(m, p, &in);
    return status == CIRCE_OK && in.left > 0 ? damaged() : status;
}

static void forget_all(circe_measure *m) {
    circe__measure_forget(m);
    circe__measure_forget_widths(m);
}

circe_status circe_measure_set_state(circe_measure *m, const void *state, size_t bytes) {
    CIRCE_OWN_SETTINGS;
    if (m != NULL) forget_all(m);
    circe_status status = read_places(m, (reader){state, bytes});
    if (status != CIRCE_OK && m != NULL) forget_all(m);
    return status == CIRCE_OK && m != NULL && m->device != NULL ? m->device->adopt(m) : status;
}
