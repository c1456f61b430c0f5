/* Estimates how long a test of many rows takes, from a test of some of them.
 *
 * Beyond CIRCE__ALL_ROWS rows features come from pivots among candidates, whose number no longer grows, and every
 * method passes over the rows a fixed number of times: time and memory grow with the rows. (HSIC changes its null at
 * 20,000 rows and is probed beyond.) So one test of PROBE_ROWS random rows predicts the rest, up to changes in the load
 * of the machine. */
#include <math.h>

#include "inference/inference_parts.h"

#include "core/settings.h"

enum {
    PROBE_ROWS = 10000,
    PROBE_ROWS_HSIC = 25000,
    SURE_ROWS = 50000,
    PROBE_ROWS_DEVICE = 100000, /* fewer take as long */
    SURE_ROWS_DEVICE = 1000000,
};

/* Copies rows of one variable. data = NULL: there is no memory, or no variable. */
static circe_mat take(const circe_context *context, const circe_mat *from, const int64_t *rows, int64_t n) {
    if (from == NULL || from->cols == 0) return (circe_mat){0};
    size_t size = circe_dtype_size(from->dtype);
    circe_mat to = {circe__alloc(context, n * from->cols, size), n, from->cols, from->cols, from->dtype};
    if (to.data != NULL) circe__gather_rows(from, rows, n, &to);
    return to;
}

static circe_status probe(circe_context *context, const circe_mat *variable[3], const circe_test_options *options,
                          int64_t n, circe_test_result *result) {
    circe_test_options own = *options;
    circe_mat part[3] = {{0}};
    const double **columns[3] = {&own.weights, &own.groups, &own.time};
    CIRCE__OWNED int64_t *rows = circe__alloc(context, n, sizeof *rows);
    CIRCE__OWNED double *scratch = circe__alloc(context, 3 * n, sizeof *scratch);
    circe_status status = rows == NULL || scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) circe_random_subset((circe_random){options->seed, 0x706c616eu}, variable[0]->rows, n, rows);
    for (int k = 0; status == CIRCE_OK && k < 3; k++) {
        bool wanted = variable[k] != NULL && variable[k]->cols > 0;
        part[k] = take(context, variable[k], rows, n);
        if (wanted && part[k].data == NULL) status = CIRCE_ERR_MEMORY;
    }
    for (int k = 0; status == CIRCE_OK && k < 3; k++) {
        if (*columns[k] == NULL) continue;
        for (int64_t i = 0; i < n; i++) scratch[k * n + i] = (*columns[k])[rows[i]];
        *columns[k] = scratch + k * n;
    }
    if (status == CIRCE_OK)
        status = circe_test(context, &part[0], part[1].data != NULL ? &part[1] : NULL, &part[2], &own, result);
    for (int k = 0; k < 3; k++) circe__free(context, part[k].data);
    return status;
}

/* The largest of 1, 2 and 5 times a power of ten up to `most`, so that small differences in time give the same
 * sample. */
static int64_t round_down(double most) {
    static const int64_t steps[] = {5, 2, 1};
    for (int64_t power = 1000000000000; power >= 1; power /= 10)
        for (int k = 0; k < 3; k++)
            if ((double)(steps[k] * power) <= most) return steps[k] * power;
    return 1;
}

/* Counts the features of every row: of y, of the joint and of z, before and after regression. */
static double bytes_per_row(const circe_test_result *r) {
    return 8.0 * 4.0 * (double)(circe__max(r->x.rank, r->z.rank) + r->rank_x + r->rank_z + 8);
}

circe_status circe_test_foresee(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                const circe_test_options *given, double seconds, circe_test_plan *plan) {
    CIRCE_OWN_SETTINGS;
    circe_test_options options;
    circe_test_result result;
    if (context == NULL || x == NULL || z == NULL || plan == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, x, z and plan must not be NULL");
    *plan = (circe_test_plan){.rows = x->rows, .seconds = NAN, .bytes = NAN};
    circe_status status = circe__test_fill(given, &options);
    const bool device = options.device != NULL;
    if (status != CIRCE_OK || x->rows <= (device ? SURE_ROWS_DEVICE : SURE_ROWS)) return status;
    if (z->rows != x->rows || (y != NULL && y->cols > 0 && y->rows != x->rows))
        return CIRCE_OK; /* circe_test reports it */
    int64_t n = device ? PROBE_ROWS_DEVICE : circe__kind_of(&options)->marginal ? PROBE_ROWS_HSIC : PROBE_ROWS;
    const circe_mat *variables[3] = {x, y, z};
    status = probe(context, variables, &options, n, &result);
    if (status != CIRCE_OK) return status;
    plan->seconds = result.seconds * (double)x->rows / (double)n;
    plan->bytes = bytes_per_row(&result) * (double)x->rows;
    double by_time = seconds / plan->seconds, by_memory = 0.5 * circe__memory_available(context) / plan->bytes;
    double share = fmin(by_time, by_memory);
    if (share < 1.0) plan->rows = circe__max(n, round_down(share * (double)x->rows));
    return CIRCE_OK;
}
