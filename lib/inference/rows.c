/* Tables in the host's memory or a device's: the operations that both have.
 *
 * From circe__rows_begin on, the tables of a data set's rows are made on the device of its options (data->device), if
 * it has more rows than LEAST_ROWS: below that, a test is a few milliseconds of choices, and its passes are shorter
 * than the launches that they would take. A table says where it lies, and an operation runs there. The rows that choose
 * the view of y (screen.c) are copied to the host, as are those that stand for all in the null's variance
 * (moments.c), and both sides where rows are put in random order (strata.c). */
#include <math.h>
#include <string.h>

#include "inference/inference_parts.h"

enum { LEAST_ROWS = CIRCE__ALL_ROWS };

void circe_test_device_destroy(circe_test_device *device) {
    if (device != NULL) device->ops->destroy(device);
}

/* ---- which tests ------------------------------------------------------------------------------------------------- */

static circe_status refuse(const char *what) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s on the CPU only; leave out the device, or choose cpu", what);
}

circe_status circe__rows_check(const circe_test_options *o) {
    if (o->device == NULL) return CIRCE_OK;
    if (!circe__kind_of(o)->on_device)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s runs on the CPU only; kci, circe, gcm and rcot run on a GPU too",
                          circe_test_method_name(o->method));
    if (o->groups != NULL || o->time != NULL) return refuse("tests with groups or time run");
    if (o->auxiliary_y != NULL) return refuse("tests with auxiliary rows run");
    if (o->mean == CIRCE_MEAN_SPLIT) return refuse("tests with a split run");
    if (o->regressor == CIRCE_REGRESSOR_FOREST) return refuse("random forests grow");
    return CIRCE_OK;
}

static circe_status column(circe_test_device *device, const double *from, int64_t n, circe__table *to) {
    *to = (circe__table){n, 1, NULL, device};
    circe_status status = device->ops->alloc(device, n, &to->data);
    return status == CIRCE_OK ? device->ops->upload(device, to->data, from, n) : status;
}

circe_status circe__rows_begin(circe__data *data) {
    circe_test_device *device = data->options.device;
    if (device == NULL || data->total <= LEAST_ROWS) return CIRCE_OK;
    circe_status status = device->ops->begin(device);
    if (status != CIRCE_OK) return status;
    data->device = device;
    data->options.memory = NULL; /* it holds tables of the host */
    status = column(device, data->root, data->total, &data->device_root);
    return status == CIRCE_OK ? column(device, data->unit, data->total, &data->device_unit) : status;
}

void circe__rows_end(circe__data *data) {
    if (data->device == NULL) return;
    circe__table_free(data->context, &data->device_root);
    circe__table_free(data->context, &data->device_unit);
    data->device->ops->end(data->device);
    data->device = NULL;
}

circe__data circe__on_host(const circe__data *data) {
    circe__data host = *data;
    host.device = NULL;
    return host;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

circe_status circe__table_at(const circe_context *context, circe_test_device *device, int64_t rows, int64_t cols,
                             circe__table *table) {
    if (device == NULL) return circe__table_new(context, rows, cols, table);
    *table = (circe__table){rows, cols, NULL, device};
    circe_status status = device->ops->alloc(device, circe__max(rows * cols, 1), &table->data);
    if (status != CIRCE_OK) *table = (circe__table){0};
    return status;
}

circe_status circe__to_device(const circe__data *data, circe__table *table) {
    circe__table there = {0};
    circe_test_device *device = data->device;
    if (device == NULL || table->device != NULL) return CIRCE_OK;
    circe_status status = circe__table_at(data->context, device, table->rows, table->cols, &there);
    if (status == CIRCE_OK) status = device->ops->upload(device, there.data, table->data, table->rows * table->cols);
    circe__table_free(data->context, table);
    *table = there;
    return status;
}

circe_status circe__to_host(const circe_context *context, const circe__table *from, circe__table *to) {
    if (from->device == NULL) return circe__table_copy(context, from, to);
    circe_status status = circe__table_new(context, from->rows, from->cols, to);
    if (status != CIRCE_OK) return status;
    return from->device->ops->download(from->device, to->data, from->data, from->rows * from->cols);
}

circe_status circe__pick_columns(const circe_context *context, const circe__table *from, const int64_t *index,
                                 int64_t cols, circe__table *to) {
    circe_status status = circe__table_at(context, from->device, from->rows, cols, to);
    if (status == CIRCE_OK && from->device != NULL)
        status = from->device->ops->columns(from->device, from->rows, from->data, from->cols, index, cols, to->data);
    if (status != CIRCE_OK) circe__table_free(context, to);
    if (status != CIRCE_OK || from->device != NULL) return status;
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t c = 0; c < cols; c++) to->data[i * cols + c] = from->data[i * from->cols + index[c]];
    return CIRCE_OK;
}

circe_status circe__some_columns(const circe_context *context, const circe__table *from, int64_t first, int64_t step,
                                 int64_t cols, circe__table *to) {
    CIRCE__OWNED int64_t *index = circe__alloc(context, cols + 1, sizeof *index);
    if (index == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t c = 0; c < cols; c++) index[c] = first + step * c;
    circe_status status = circe__pick_columns(context, from, index, cols, to);
    return status;
}

circe_status circe__rows_of(const circe__table *from, const int64_t *index, int64_t n, double *to) {
    int64_t cols = from->cols;
    if (from->device != NULL) return from->device->ops->rows(from->device, from->data, cols, index, n, to);
    for (int64_t i = 0; i < n; i++) memcpy(to + i * cols, from->data + index[i] * cols, (size_t)cols * sizeof *to);
    return CIRCE_OK;
}

circe_status circe__rows_features(const circe__data *data, const circe__basis *basis, const double *points, int64_t n,
                                  circe__table *features, double *left) {
    circe_test_device *device = data->device;
    double trace = 0.0, sum = 0.0;
    circe_status status = circe__table_at(data->context, device, n, basis->rank, features);
    if (status == CIRCE_OK) status = device->ops->features(device, basis, points, n, features->data, &trace, &sum);
    *left = trace > 0.0 ? sum / trace : 0.0;
    return status;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

circe_status circe__cross(const circe_context *context, const circe__table *a, int64_t p, const circe__table *b,
                          int64_t q, double *out) {
    int64_t lda = circe__max(a->cols, 1), ldb = circe__max(b->cols, 1);
    if (p == 0 || q == 0) return CIRCE_OK;
    if (a->device != NULL) return a->device->ops->cross(a->device, a->rows, a->data, p, lda, b->data, q, ldb, 1, out);
    context->backend->algebra->gemm(1, 0, p, q, a->rows, 1.0, a->data, lda, b->data, ldb, 0.0, out, q);
    return CIRCE_OK;
}

circe_status circe__squared(const circe_context *context, const circe__table *F, double *G) {
    int64_t r = F->cols, ld = circe__max(r, 1);
    if (F->device != NULL) return circe__cross(context, F, r, F, r, G);
    context->backend->algebra->gram_update(r, F->rows, F->data, ld, 0.0, G, ld);
    return CIRCE_OK;
}

circe_status circe__turned(const circe_context *context, const circe__table *from, const double *V, int64_t cols,
                           circe__table *to) {
    int64_t n = from->rows, k = from->cols, ld = circe__max(k, 1);
    circe_status status = circe__table_at(context, from->device, n, cols, to);
    if (status == CIRCE_OK && from->device != NULL)
        status = from->device->ops->times(from->device, n, k, cols, 1.0, from->data, ld, 1, V, 0.0, to->data, cols);
    if (status != CIRCE_OK) circe__table_free(context, to);
    if (status != CIRCE_OK || from->device != NULL) return status;
    context->backend->algebra->gemm(0, 1, n, cols, k, 1.0, from->data, ld, V, ld, 0.0, to->data, circe__max(cols, 1));
    return CIRCE_OK;
}

/* ---- passes that the host makes where they are needed ------------------------------------------------------------ */

circe_status circe__rows_weigh(const circe__data *data, circe__table *table) {
    circe_test_device *device = table->device;
    int64_t n = table->rows, cols = table->cols;
    double length = 0.0, *mean = circe__alloc(data->context, cols + 1, sizeof *mean);
    if (mean == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) length += data->root[i] * data->root[i];
    circe_status status =
        cols == 0 ? CIRCE_OK : device->ops->scale(device, n, cols, table->data, data->device_root.data, false);
    if (status == CIRCE_OK) status = circe__cross(data->context, &data->device_root, 1, table, cols, mean);
    for (int64_t c = 0; c < cols; c++) mean[c] /= length;
    if (status == CIRCE_OK) status = circe__rows_subtract(&data->device_root, mean, table);
    circe__free(data->context, mean);
    return status;
}

circe_status circe__rows_subtract(const circe__table *a, const double *b, circe__table *table) {
    circe_test_device *device = table->device;
    if (table->cols == 0 || a->cols == 0) return CIRCE_OK;
    return device->ops->times(device, a->rows, a->cols, table->cols, -1.0, a->data, a->cols, 0, b, 1.0, table->data,
                              table->cols);
}

/* Each is multiplied with its columns of the identity. */
circe_status circe__rows_beside(const circe__data *data, const circe__table *a, const circe__table *b, double scale,
                                circe__table *both) {
    const circe__table *parts[2] = {a, b};
    circe_test_device *device = both->device;
    int64_t wide = both->cols, most = circe__max(a->cols, b->cols);
    CIRCE__OWNED double *unit = circe__alloc(data->context, most * wide + 1, sizeof *unit);
    circe_status status = unit == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int t = a->cols > 0 ? 0 : 1; status == CIRCE_OK && t < 2; t++) {
        int64_t cols = parts[t]->cols, first = t == 0 ? 0 : a->cols;
        if (cols == 0) continue;
        memset(unit, 0, (size_t)(cols * wide) * sizeof *unit);
        for (int64_t c = 0; c < cols; c++) unit[c * wide + first + c] = t == 0 ? 1.0 : scale;
        status = device->ops->times(device, both->rows, cols, wide, 1.0, parts[t]->data, cols, 0, unit,
                                    first == 0 ? 0.0 : 1.0, both->data, wide);
    }
    return status;
}

circe_status circe__rows_squares(const circe__table *table, int64_t columns, const circe__regressor *regressor,
                                 double *squares) {
    return columns == 0 ? CIRCE_OK
                        : table->device->ops->squares(table->device, table->rows, table->data, columns, table->cols,
                                                      regressor == NULL ? NULL : regressor->leverage, squares);
}

circe_status circe__rows_square(const circe__data *data, const circe__table *table, int64_t columns,
                                const circe__regressor *regressor, double *sum) {
    CIRCE__OWNED double *squares = circe__alloc(data->context, columns + 1, sizeof *squares);
    *sum = 0.0;
    if (squares == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__rows_squares(table, columns, regressor, squares);
    for (int64_t c = 0; status == CIRCE_OK && c < columns; c++) *sum += squares[c];
    return status;
}

circe_status circe__size_of(const circe__data *data, const circe__table *table, double *size) {
    if (table->device != NULL) return circe__rows_square(data, table, table->cols, NULL, size);
    *size = circe__square_norm(table->data, table->rows * table->cols);
    return CIRCE_OK;
}

circe_status circe__rows_leverage(const circe__data *data, const circe__spectrum *spectrum, double ridge,
                                  circe__regressor *regressor, double *degrees) {
    circe_test_device *device = data->device;
    int64_t r = spectrum->rank;
    CIRCE__OWNED double *inverse = circe__alloc(data->context, r + 1, sizeof *inverse);
    if (inverse == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < r; k++) inverse[k] = 1.0 / (spectrum->s[k] + ridge);
    regressor->device = device;
    circe_status status = device->ops->alloc(device, spectrum->n, &regressor->leverage);
    if (status == CIRCE_OK)
        status = device->ops->leverage(device, spectrum->n, spectrum->Q, r, data->device_unit.data, inverse,
                                       regressor->leverage, degrees);
    return status;
}

circe_status circe__rows_divide(const circe__regressor *regressor, circe__table *table) {
    if (table->cols == 0) return CIRCE_OK;
    return table->device->ops->scale(table->device, table->rows, table->cols, table->data, regressor->leverage, true);
}

circe__rows_pair circe__rows_pair_of(const circe__pair *pair) {
    return (circe__rows_pair){pair->n, pair->p, pair->q, pair->left.data, pair->noise.data};
}

circe_status circe__rows_carried(const circe__pair *pair, double sums[2]) {
    const circe__rows_pair of = circe__rows_pair_of(pair);
    return pair->left.device->ops->carried(pair->left.device, &of, sums);
}

/* Columns of pairs: v_i = (left_ia noise_ib)^2. sums and squares (p q) over the rows. */
circe_status circe__rows_pair_squares(const circe__pair *pair, double *sums, double *squares) {
    circe_test_device *device = pair->left.device;
    int64_t n = pair->n, p = pair->p, q = pair->q;
    const double *left = pair->left.data, *noise = pair->noise.data;
    circe_status status = device->ops->cross(device, n, left, p, p, noise, q, q, 2, sums);
    if (status != CIRCE_OK || squares == NULL) return status;
    return device->ops->cross(device, n, left, p, p, noise, q, q, 4, squares);
}

circe_status circe__rows_wild(const circe__data *data, const circe__pair *pair, const double *inverse, int64_t draws,
                              uint64_t stream, double *null) {
    enum { DRAWS = 1024 };
    circe_test_device *device = pair->left.device;
    const circe__rows_pair of = circe__rows_pair_of(pair);
    int64_t words = circe__sign_words(pair->n), most = circe__min(draws, DRAWS);
    CIRCE__OWNED uint32_t *bits = circe__alloc(data->context, most * words, sizeof *bits);
    circe_status status = bits == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t d = 0; status == CIRCE_OK && d < draws; d += DRAWS) {
        int64_t here = circe__min(DRAWS, draws - d);
        circe__draw_words(data, stream, pair->n, d, here, bits);
        status = device->ops->wild(device, &of, bits, inverse, here, null + d);
        if (status == CIRCE_OK) status = circe__progress(data->context, "wild bootstrap", d + here, draws);
    }
    return status;
}

/* ---- both sides on the host -------------------------------------------------------------------------------------- */

circe_status circe__pair_to_host(const circe__data *data, const circe__pair *pair, circe__pair *host) {
    *host = (circe__pair){.n = pair->n, .p = pair->p, .q = pair->q, .scale = pair->scale};
    circe_status status = circe__to_host(data->context, &pair->left, &host->left);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &pair->right, &host->right);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &pair->noise, &host->noise);
    return status;
}
