/* The passes of rcot_rows.c on a device, in blocks of rows: memory does not grow with n there either. The formulas are
 * the same; sums of blocks are added on the host, in their order. */
#include <string.h>

#include "inference/rcot_parts.h"

enum { ROWS = 1 << 17 };

static bool any_category(const circe__fourier *f) {
    for (int64_t c = 0; c < f->dim; c++)
        if (f->category[c]) return true;
    return false;
}

/* One variable's columns. */
static circe_status some_features(const circe__rcot_layout *l, const circe__fourier *f, const double *points,
                                  int64_t first, const circe__table *Phi, int64_t column) {
    circe_test_device *device = Phi->device;
    if (f->n == 0) return CIRCE_OK;
    return device->ops->cosines(device, points + first * f->dim, Phi->rows, f->dim, f->frequency, f->offset, f->n,
                                l->data->device_root.data + first, Phi->data + column, Phi->cols);
}

typedef struct making {
    const circe__rcot_layout *l;
    int64_t first;
    double *out;
} making;

static void run_features(void *user, int64_t begin, int64_t end) {
    const making *w = user;
    circe__rcot_features(w->l, w->first + begin, end - begin, w->out + begin * w->l->all);
}

/* Categories have phases by their value's bits, which the host draws. */
static circe_status features_of_host(const circe__rcot_layout *l, int64_t first, int64_t rows, circe__table *Phi) {
    enum { LEAST = 16 };
    circe_status status = circe__table_new(l->data->context, rows, l->all, Phi);
    making w = {l, first, Phi->data};
    if (status == CIRCE_OK) circe__run_ranges(l->data->context->threads, rows, LEAST, run_features, &w);
    return status == CIRCE_OK ? circe__to_device(l->data, Phi) : status;
}

/* Phi (rows, all), times root. */
static circe_status features(const circe__rcot_layout *l, int64_t first, int64_t rows, circe__table *Phi) {
    const circe__data *d = l->data;
    if ((l->fy > 0 && any_category(&l->y)) || any_category(&l->x) || any_category(&l->z))
        return features_of_host(l, first, rows, Phi);
    circe_status status = circe__table_at(d->context, d->device, rows, l->all, Phi);
    if (status == CIRCE_OK) status = some_features(l, &l->y, d->y.points, first, Phi, 0);
    if (status == CIRCE_OK) status = some_features(l, &l->x, d->x.points, first, Phi, l->fy);
    return status == CIRCE_OK ? some_features(l, &l->z, d->z.points, first, Phi, l->fy + l->fx) : status;
}

/* Rows of a column on the device, still the data's. */
static circe__table part_of(const circe__table *column, int64_t first, int64_t rows) {
    return (circe__table){rows, 1, column->data + first, column->device};
}

static void add(double *to, const double *from, int64_t n) {
    for (int64_t e = 0; e < n; e++) to[e] += from[e];
}

circe_status circe__rcot_gram_there(const circe__rcot_layout *l, double *sums) {
    const circe_context *context = l->data->context;
    int64_t all = l->all, n = l->data->n;
    double *own = circe__alloc(context, all * (all + 1), sizeof *own);
    circe_status status = own == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    memset(sums, 0, (size_t)(all * (all + 1)) * sizeof *sums);
    for (int64_t first = 0; status == CIRCE_OK && first < n; first += ROWS) {
        circe__table Phi = {0}, root = part_of(&l->data->device_root, first, circe__min(ROWS, n - first));
        status = features(l, first, root.rows, &Phi);
        if (status == CIRCE_OK) status = circe__cross(context, &Phi, all, &Phi, all, own);
        if (status == CIRCE_OK) status = circe__cross(context, &root, 1, &Phi, all, own + all * all);
        if (status == CIRCE_OK) add(sums, own, all * (all + 1));
        circe__table_free(context, &Phi);
    }
    circe__free(context, own);
    return status;
}

/* What a block of the second pass is made of. */
typedef struct block {
    circe__table Phi, q, x, z, left, residual, noise;
    double *leverage;
} block;

static void block_free(const circe_context *context, circe_test_device *device, block *b) {
    circe__table *const tables[] = {&b->Phi, &b->q, &b->x, &b->z, &b->left, &b->residual, &b->noise};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(context, tables[k]);
    if (b->leverage != NULL) device->ops->free(device, b->leverage);
}

/* to := from - q C, C being columns [first, first + columns of from) of the coefficients. */
static circe_status subtract_fit(const circe__rcot_layout *l, const circe__rcot_maps *m, const block *b,
                                 const circe__table *from, int64_t first, circe__table *to) {
    const circe_context *context = l->data->context;
    int64_t cols = from->cols;
    double *C = circe__alloc(context, l->fy * cols + 1, sizeof *C);
    if (C == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < l->fy; k++)
        memcpy(C + k * cols, m->coefficients + k * m->wide + first, (size_t)cols * sizeof *C);
    circe_status status = circe__table_copy(context, from, to);
    if (status == CIRCE_OK) status = circe__rows_subtract(&b->q, C, to);
    circe__free(context, C);
    return status;
}

/* Features about their means, y's turned to the eigenvectors; both sides; the noise over 1 - leverage is made last. */
static circe_status block_fill(const circe__rcot_layout *l, const circe__rcot_maps *m, int64_t first, int64_t rows,
                               block *b) {
    const circe__data *d = l->data;
    circe_test_device *device = d->device;
    const circe__table root = part_of(&d->device_root, first, rows);
    int64_t fx = l->fx;
    circe_status status = features(l, first, rows, &b->Phi);
    if (status == CIRCE_OK) status = circe__rows_subtract(&root, l->mean, &b->Phi);
    if (status == CIRCE_OK) status = circe__table_at(d->context, device, rows, l->fy, &b->q);
    if (status == CIRCE_OK && l->fy > 0)
        status =
            device->ops->times(device, rows, l->fy, l->fy, 1.0, b->Phi.data, l->all, 1, l->V, 0.0, b->q.data, l->fy);
    if (status == CIRCE_OK) status = circe__some_columns(d->context, &b->Phi, l->fy, 1, fx, &b->x);
    if (status == CIRCE_OK) status = circe__some_columns(d->context, &b->Phi, l->fy + fx, 1, l->fz, &b->z);
    if (status == CIRCE_OK) status = subtract_fit(l, m, b, &b->x, 0, &b->left);
    if (status == CIRCE_OK) status = subtract_fit(l, m, b, &b->x, fx, &b->residual);
    if (status == CIRCE_OK) status = subtract_fit(l, m, b, &b->z, 2 * fx, &b->noise);
    return status;
}

/* sums of the block, as visit_products of rcot_rows.c makes them. */
static circe_status block_sums(const circe__rcot_layout *l, const circe__rcot_maps *m, int64_t first, block *b,
                               double *sums) {
    const circe__data *d = l->data;
    circe_test_device *device = d->device;
    int64_t rows = b->x.rows, size = l->fx * l->fz;
    double *norms = sums + size + size * size, degrees;
    const circe__table *of[4] = {&b->x, &b->z, &b->residual, &b->noise};
    circe_status status = circe__cross(d->context, &b->left, l->fx, &b->z, l->fz, sums);
    for (int k = 0; status == CIRCE_OK && k < 4; k++) status = circe__size_of(d, of[k], &norms[k]);
    if (status == CIRCE_OK) status = device->ops->alloc(device, rows, &b->leverage);
    if (status == CIRCE_OK)
        status = device->ops->leverage(device, rows, b->q.data, l->fy, d->device_unit.data + first, m->inverse,
                                       b->leverage, &degrees);
    if (status == CIRCE_OK) status = device->ops->scale(device, rows, l->fz, b->noise.data, b->leverage, true);
    const circe__rows_pair pair = {rows, l->fx, l->fz, b->left.data, b->noise.data};
    if (status == CIRCE_OK) status = device->ops->carried(device, &pair, norms + 4);
    return status == CIRCE_OK ? device->ops->product_gram(device, &pair, sums + size) : status;
}

circe_status circe__rcot_products_there(const circe__rcot_layout *l, const circe__rcot_maps *m, double *sums) {
    const circe_context *context = l->data->context;
    int64_t size = l->fx * l->fz, all = size * (size + 1) + CIRCE__RCOT_NORMS, n = l->data->n;
    double *own = circe__alloc(context, all, sizeof *own);
    circe_status status = own == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    memset(sums, 0, (size_t)all * sizeof *sums);
    for (int64_t first = 0; status == CIRCE_OK && first < n; first += ROWS) {
        block b = {0};
        status = block_fill(l, m, first, circe__min(ROWS, n - first), &b);
        if (status == CIRCE_OK) status = block_sums(l, m, first, &b, own);
        if (status == CIRCE_OK) add(sums, own, all);
        block_free(context, l->data->device, &b);
    }
    circe__free(context, own);
    return status;
}
