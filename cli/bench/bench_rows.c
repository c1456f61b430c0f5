/* Rows of what was found, and tables of them. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owned.h"
#include "cli/bench/bench.h"
#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/table.h"
#include "core/sort.h"
#include "report/cells.h"

cJSON *bench_row(cJSON *found, const char *list) {
    cJSON *rows = cJSON_GetObjectItemCaseSensitive(found, list);
    return json_item(rows != NULL ? rows : cJSON_AddArrayToObject(found, list));
}

int bench_repeat(call_fn *call, void *user, int64_t warm, int64_t least, double budget, cJSON *row) {
    enum { MAX_REPETITIONS = 2001 };
    static double times[MAX_REPETITIONS];
    double start = job_clock();
    int64_t n = 0;
    for (int64_t number = -warm; n < MAX_REPETITIONS && (n < least || job_clock() - start < budget); number++) {
        double before = job_clock();
        if (number == 0) start = before;
        circe_status status = call(user, number < 0 ? number + warm : number);
        if (status != CIRCE_OK) return message_refused(status);
        if (progress_interrupted()) return message_fail(EXIT_WORK, "interrupted");
        if (number >= 0) times[n++] = job_clock() - before;
    }
    circe__sort(times, n);
    json_number(row, "median_ms", 1e3 * circe__quantile(times, n, 0.5));
    json_number(row, "q1_ms", 1e3 * circe__quantile(times, n, 0.25));
    json_number(row, "q3_ms", 1e3 * circe__quantile(times, n, 0.75));
    json_integer(row, "repetitions", n);
    return EXIT_DONE;
}

bool bench_mat(const double *base, const double *noise, double weight, int64_t rows, int64_t cols, circe_dtype dtype,
               circe_mat *out) {
    int64_t n = rows * cols;
    void *data = malloc((size_t)n * circe_dtype_size(dtype));
    *out = (circe_mat){data, rows, cols, cols, dtype};
    for (int64_t i = 0; data != NULL && i < n; i++) {
        double value = base[i] + (noise != NULL ? weight * noise[i] : 0.0);
        if (dtype == CIRCE_FLOAT32)
            ((float *)data)[i] = (float)value;
        else
            ((double *)data)[i] = value;
    }
    return data != NULL;
}

circe_status bench_call(void *problem, int64_t number) {
    bench_problem *p = problem;
    circe_mat *grad = p->grad.data != NULL ? &p->grad : NULL;
    double value = 0;
    if (p->features == NULL) return circe_measure_points(p->measure, &p->x, &p->y, &p->z, &value, grad);
    int64_t batches = p->y.rows / p->x.rows;
    const int64_t *rows = p->order + number % batches * p->x.rows;
    return circe_measure_evaluate(p->measure, rows, p->x.rows, &p->x, &value, grad);
}

void bench_problem_free(bench_problem *p) {
    circe_measure_destroy(p->measure);
    circe_features_destroy(p->features);
    free(p->order);
    free(p->x.data);
    free(p->y.data);
    free(p->z.data);
    free(p->grad.data);
}

double bench_number(const cJSON *row, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, name);
    return cJSON_IsRaw(item) ? strtod(item->valuestring, NULL) : (double)NAN;
}

static void add_cell(cells *list, const cJSON *row, const bench_column *column) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, column->name);
    double value = bench_number(row, column->name) / (column->unit > 0 ? column->unit : 1);
    if (cJSON_IsString(item))
        cells_add(list, "%s", item->valuestring);
    else if (value == floor(value))
        cells_add(list, "%.0f", value);
    else
        cells_add_number(list, value);
}

void bench_table(const char *title, const cJSON *rows, const bench_column *columns) {
    const cJSON *row = NULL;
    OWNED_BY(cells_free) cells list = {0};
    if (cJSON_GetArraySize(rows) == 0) return;
    for (const bench_column *c = columns; c->name != NULL; c++)
        cells_column(&list, c->title, !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(rows->child, c->name)));
    cJSON_ArrayForEach(row, rows) {
        for (const bench_column *c = columns; c->name != NULL; c++) add_cell(&list, row, c);
    }
    printf("\n%s\n\n", title);
    report_table table = cells_table(&list, "", NULL, 0);
    text_table(&table, 2);
}
