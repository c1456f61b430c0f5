/* Regularisers at work: batches of training rows, other points, and the state that checkpoints keep.
 *
 * A batch allocates nothing from the second of its size on: kernels of x are kept by their number of columns, gathered
 * rows and previous batches have buffers that stay. */
#include "train/regularizer.h"

#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/regularizer_parts.h"

const char *train_regularizer_name(train_regularizer_kind kind) {
    int row = (int)kind;
    return row >= 0 && row < train_regularizer_n_rows ? train_regularizer_rows[row].name : "unknown";
}

int train_regularizer_find(const char *name) {
    for (int k = 0; k < train_regularizer_n_rows; k++)
        if (strcmp(train_regularizer_rows[k].name, name) == 0) return k;
    return -1;
}

void train_regularizer_destroy(train_regularizer *r) {
    if (r == NULL) return;
    circe_workspace_destroy(r->workspace);
    circe_features_destroy(r->features);
    circe_cme_destroy(r->exact);
    circe_cme_destroy(r->cme);
    circe_kernel_destroy(r->kernel_y);
    circe_kernel_destroy(r->kernel_z);
    for (int64_t k = 0; k < r->n_x_kernels; k++) circe_kernel_destroy(r->x_kernels[k].kernel);
    for (int64_t p = 0; p < r->n_places; p++) {
        free(r->places[p].index);
        free(r->places[p].x);
    }
    free(r->x_kernels);
    free(r->places);
    free(r->y);
    free(r->z);
    free(r->batch_y);
    free(r->batch_z);
    free(r->previous_y);
    free(r->wide_x);
    free(r->wide_grad);
    free(r);
}

const circe_cme *train_regularizer_cme(const train_regularizer *r) { return r == NULL ? NULL : r->cme; }

const char *train_regularizer_text(const train_regularizer *r) { return r == NULL ? "none" : r->text; }

void train_regularizer_set_company(train_regularizer *r, const circe_company *company) {
    circe_workspace_set_company(r->workspace, company);
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static circe_status no_memory(int64_t rows) {
    return circe_fail(CIRCE_ERR_MEMORY, "no memory for a batch of %lld rows in the regulariser", (long long)rows);
}

/* A zeroed block in the place of another, whose content is not kept. */
static void *renew(void *block, int64_t count, size_t size) {
    free(block);
    return calloc((size_t)(count > 0 ? count : 1), size);
}

circe_status train_regularizer_kernel_x(train_regularizer *r, int64_t cols, const circe_kernel **kernel) {
    for (int64_t k = 0; k < r->n_x_kernels; k++)
        if (r->x_kernels[k].cols == cols) {
            *kernel = r->x_kernels[k].kernel;
            return CIRCE_OK;
        }
    circe_kernel *made = NULL;
    double sigma2 = r->options.sigma2_x * (r->options.per_dimension ? (double)cols : 1.0);
    circe_status status = circe_kernel_create(r->context, CIRCE_KERNEL_GAUSSIAN, sigma2, &made);
    if (status != CIRCE_OK) return status;
    train_x_kernel *grown = realloc(r->x_kernels, (size_t)(r->n_x_kernels + 1) * sizeof *grown);
    if (grown == NULL) {
        circe_kernel_destroy(made);
        return no_memory(0);
    }
    grown[r->n_x_kernels++] = (train_x_kernel){cols, made};
    r->x_kernels = grown;
    *kernel = made;
    return CIRCE_OK;
}

static void gather(const double *from, int64_t cols, const int64_t *index, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) memcpy(to + i * cols, from + index[i] * cols, (size_t)cols * sizeof *to);
}

static circe_status gather_batch(train_regularizer *r, const int64_t *index, int64_t n, circe_mat *y, circe_mat *z) {
    if (n > r->room) {
        r->batch_y = renew(r->batch_y, n * r->cols_y, sizeof *r->batch_y);
        r->batch_z = renew(r->batch_z, n * r->cols_z, sizeof *r->batch_z);
        r->room = r->batch_y != NULL && r->batch_z != NULL ? n : 0;
        if (r->room == 0) return no_memory(n);
    }
    gather(r->y, r->cols_y, index, n, r->batch_y);
    gather(r->z, r->cols_z, index, n, r->batch_z);
    *y = circe_mat_f64(r->batch_y, n, r->cols_y);
    *z = circe_mat_f64(r->batch_z, n, r->cols_z);
    return CIRCE_OK;
}

/* ---- float64 ----------------------------------------------------------------------------------------------------- */

/* x as float64, and room for its gradient. */
static circe_status widen(train_regularizer *r, const circe_mat *x, circe_mat *wide_x, circe_mat *wide_grad) {
    int64_t numbers = x->rows * x->cols;
    if (numbers > r->wide_room) {
        r->wide_x = renew(r->wide_x, numbers, sizeof *r->wide_x);
        r->wide_grad = renew(r->wide_grad, numbers, sizeof *r->wide_grad);
        r->wide_room = r->wide_x != NULL && r->wide_grad != NULL ? numbers : 0;
        if (r->wide_room == 0) return no_memory(x->rows);
    }
    const float *from = x->data;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) r->wide_x[i * x->cols + j] = (double)from[i * x->ld + j];
    *wide_x = circe_mat_f64(r->wide_x, x->rows, x->cols);
    *wide_grad = circe_mat_f64(r->wide_grad, x->rows, x->cols);
    return CIRCE_OK;
}

static void narrow(const circe_mat *wide, circe_mat *grad) {
    const double *from = wide->data;
    float *to = grad->data;
    for (int64_t i = 0; i < wide->rows; i++)
        for (int64_t j = 0; j < wide->cols; j++) to[i * grad->ld + j] = (float)from[i * wide->cols + j];
}

/* Of a batch, in the precision that was asked for. */
static circe_status measure(train_regularizer *r, train_points *points, double *value, circe_mat *grad) {
    circe_mat wide_x, wide_grad;
    if (r->options.dtype == CIRCE_FLOAT32) return r->row->measure(r, points, value, grad);
    circe_status status = widen(r, points->x, &wide_x, &wide_grad);
    if (status != CIRCE_OK) return status;
    train_points wide = *points;
    wide.x = &wide_x;
    status = r->row->measure(r, &wide, value, grad != NULL ? &wide_grad : NULL);
    if (status == CIRCE_OK && grad != NULL) narrow(&wide_grad, grad);
    return status;
}

/* ---- the previous batch ----------------------------------------------------------------------------------------- */

enum { MOST_PLACES = 4096 };

bool train_regularizer_carries(const train_regularizer *r) {
    return (r->row->needs & TRAIN_USES_PREVIOUS) && r->options.gcm_previous_batch && r->y != NULL;
}

/* NULL: there is no memory. */
static train_previous *find_place(train_regularizer *r, int64_t place) {
    if (place >= r->n_places) {
        train_previous *grown = realloc(r->places, (size_t)(place + 1) * sizeof *grown);
        if (grown == NULL) return NULL;
        memset(grown + r->n_places, 0, (size_t)(place + 1 - r->n_places) * sizeof *grown);
        r->places = grown;
        r->n_places = place + 1;
    }
    return r->places != NULL ? &r->places[place] : NULL;
}

static circe_status make_room(train_previous *p, int64_t rows, int64_t cols) {
    if (rows <= p->room && cols == p->cols) return CIRCE_OK;
    p->rows = 0;
    p->cols = cols;
    p->index = renew(p->index, rows, sizeof *p->index);
    p->x = renew(p->x, rows * cols, sizeof *p->x);
    p->room = p->index != NULL && p->x != NULL ? rows : 0;
    return p->room == rows ? CIRCE_OK : no_memory(rows);
}

/* previous_x and previous_y of the points, where there was a batch before. */
static circe_status recall(train_regularizer *r, const train_previous *p, const circe_mat *x, circe_mat *previous_x,
                           circe_mat *previous_y, train_points *points) {
    if (p->rows == 0) return CIRCE_OK;
    if (p->cols != x->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "x has %lld columns and had %lld in the batch before", (long long)x->cols,
                          (long long)p->cols);
    if (p->rows > r->previous_room) {
        r->previous_y = renew(r->previous_y, p->rows * r->cols_y, sizeof *r->previous_y);
        r->previous_room = r->previous_y != NULL ? p->rows : 0;
        if (r->previous_room == 0) return no_memory(p->rows);
    }
    gather(r->y, r->cols_y, p->index, p->rows, r->previous_y);
    *previous_x = circe_mat_f32(p->x, p->rows, p->cols);
    *previous_y = circe_mat_f64(r->previous_y, p->rows, r->cols_y);
    points->previous_x = previous_x;
    points->previous_y = previous_y;
    return CIRCE_OK;
}

static circe_status remember(train_previous *p, const int64_t *index, const circe_mat *x) {
    circe_status status = make_room(p, x->rows, x->cols);
    if (status != CIRCE_OK) return status;
    const float *from = x->data;
    for (int64_t i = 0; i < x->rows; i++) memcpy(p->x + i * x->cols, from + i * x->ld, (size_t)x->cols * sizeof *from);
    memcpy(p->index, index, (size_t)x->rows * sizeof *index);
    p->rows = x->rows;
    return CIRCE_OK;
}

const train_previous *train_regularizer_previous(const train_regularizer *r, int64_t place) {
    return place < r->n_places && r->places[place].rows > 0 ? &r->places[place] : NULL;
}

circe_status train_regularizer_remember(train_regularizer *r, int64_t place, const int64_t *index, const circe_mat *x) {
    train_previous *previous = find_place(r, place);
    return previous == NULL ? no_memory(x->rows) : remember(previous, index, x);
}

/* ---- batches and other points ----------------------------------------------------------------------------------- */

static circe_status check_batch(const train_regularizer *r, int64_t place, const int64_t *index, int64_t n,
                                const circe_mat *x) {
    if (r == NULL || index == NULL || x == NULL || n < 1 || place < 0 || place >= MOST_PLACES)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "regulariser, index and x must not be NULL, and n and place not below 1 "
                          "and 0");
    if (x->dtype != CIRCE_FLOAT32 || x->rows != n)
        return circe_fail(CIRCE_ERR_SHAPE, "x must be %lld rows of float32; it has %lld rows", (long long)n,
                          (long long)x->rows);
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= r->n_rows)
            return circe_fail(CIRCE_ERR_ARGUMENT, "row %lld is none of the %lld training rows", (long long)index[i],
                              (long long)r->n_rows);
    return CIRCE_OK;
}

circe_status train_regularizer_batch_at(train_regularizer *r, int64_t place, int64_t step, const int64_t *index,
                                        int64_t n, const circe_mat *x, double *value, circe_mat *grad) {
    circe_mat y, z, previous_x, previous_y;
    train_points points = {.index = index, .step = step, .x = x, .y = &y, .z = &z};
    train_previous *previous = NULL;
    circe_status status = check_batch(r, place, index, n, x);
    if (status == CIRCE_OK) status = train_regularizer_kernel_x(r, x->cols, &points.kernel_x);
    if (status == CIRCE_OK && r->y != NULL) status = gather_batch(r, index, n, &y, &z);
    if (status == CIRCE_OK && train_regularizer_carries(r)) {
        previous = find_place(r, place);
        status = previous == NULL ? no_memory(n) : recall(r, previous, x, &previous_x, &previous_y, &points);
    }
    if (status != CIRCE_OK) return status;
    status = measure(r, &points, value, grad);
    if (status != CIRCE_OK) return status;
    return previous != NULL ? remember(previous, index, x) : CIRCE_OK;
}

circe_status train_regularizer_batch(train_regularizer *r, int64_t step, const int64_t *index, int64_t n,
                                     const circe_mat *x, double *value, circe_mat *grad) {
    return train_regularizer_batch_at(r, 0, step, index, n, x, value, grad);
}

circe_status train_regularizer_value(train_regularizer *r, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                     double *value) {
    train_points points = {.x = x, .y = y, .z = z};
    if (r == NULL || x == NULL || y == NULL || z == NULL || value == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "regulariser, x, y, z and value must not be NULL");
    if (((r->row->needs & TRAIN_USES_Y) && y->cols != r->cols_y) || z->cols != r->cols_z)
        return circe_fail(CIRCE_ERR_SHAPE, "y and z have %lld and %lld columns; those of training have %lld and %lld",
                          (long long)y->cols, (long long)z->cols, (long long)r->cols_y, (long long)r->cols_z);
    circe_status status = train_regularizer_kernel_x(r, x->cols, &points.kernel_x);
    return status == CIRCE_OK ? r->row->measure(r, &points, value, NULL) : status;
}

/* ---- state: the number of places, then for each its rows, columns, index and x ----------------------------------- */

static size_t place_bytes(int64_t rows, int64_t cols) {
    return 2 * sizeof(int64_t) + (size_t)rows * sizeof(int64_t) + (size_t)(rows * cols) * sizeof(float);
}

size_t train_regularizer_state_bytes(const train_regularizer *r) {
    if (r == NULL || r->n_places == 0) return 0;
    size_t bytes = sizeof(int64_t);
    for (int64_t p = 0; p < r->n_places; p++) bytes += place_bytes(r->places[p].rows, r->places[p].cols);
    return bytes;
}

static void put(char **at, const void *from, size_t bytes) {
    if (bytes > 0) memcpy(*at, from, bytes);
    *at += bytes;
}

void train_regularizer_get_state(const train_regularizer *r, void *state) {
    char *at = state;
    if (train_regularizer_state_bytes(r) == 0) return;
    put(&at, &r->n_places, sizeof r->n_places);
    for (int64_t k = 0; k < r->n_places; k++) {
        const train_previous *p = &r->places[k];
        put(&at, &p->rows, sizeof p->rows);
        put(&at, &p->cols, sizeof p->cols);
        put(&at, p->index, (size_t)p->rows * sizeof *p->index);
        put(&at, p->x, (size_t)(p->rows * p->cols) * sizeof *p->x);
    }
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
    return circe_fail(CIRCE_ERR_FORMAT, "the regulariser's state is damaged or of another run");
}

static circe_status read_place(train_regularizer *r, int64_t place, reader *in) {
    int64_t rows = -1, cols = -1;
    if (!take(in, &rows, sizeof rows) || !take(in, &cols, sizeof cols)) return damaged();
    if (rows < 0 || cols < 0 || (size_t)rows > in->left || (size_t)cols > in->left ||
        (rows > 0 && (double)rows * (double)cols > (double)in->left))
        return damaged();
    train_previous *p = find_place(r, place);
    circe_status status = p == NULL ? no_memory(rows) : make_room(p, rows, cols);
    if (status != CIRCE_OK) return status;
    if (!take(in, p->index, (size_t)rows * sizeof *p->index) || !take(in, p->x, (size_t)(rows * cols) * sizeof *p->x))
        return damaged();
    for (int64_t i = 0; i < rows; i++)
        if (p->index[i] < 0 || p->index[i] >= r->n_rows) return damaged();
    p->rows = rows;
    return CIRCE_OK;
}

static void forget(train_regularizer *r) {
    for (int64_t p = 0; p < r->n_places; p++) r->places[p].rows = 0;
}

circe_status train_regularizer_set_state(train_regularizer *r, const void *state, size_t bytes) {
    reader in = {state, bytes};
    int64_t places = 0;
    if (r != NULL) forget(r);
    if (bytes == 0) return CIRCE_OK;
    if (r == NULL || state == NULL || !train_regularizer_carries(r)) return damaged();
    if (!take(&in, &places, sizeof places) || places < 0 || places > MOST_PLACES) return damaged();
    circe_status status = CIRCE_OK;
    for (int64_t p = 0; p < places && status == CIRCE_OK; p++) status = read_place(r, p, &in);
    if (status == CIRCE_OK && in.left > 0) status = damaged();
    if (status != CIRCE_OK) forget(r);
    return status;
}
