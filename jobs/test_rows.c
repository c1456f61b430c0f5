/* Weights, groups and times of the rows of a test. */
#include "jobs/test_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"

static const char *const option_names[N_ROW_COLUMNS] = {"weights", "groups", "time"};
static const variable kinds[N_ROW_COLUMNS] = {VARIABLE_WEIGHTS, VARIABLE_GROUPS, VARIABLE_TIME};

void row_columns_of(const circe_test_job_options *options, row_column columns[N_ROW_COLUMNS]) {
    columns[ROW_WEIGHTS].source = options->weights;
    columns[ROW_GROUPS].source = options->groups;
    columns[ROW_TIME].source = options->time;
}

void row_columns_free(row_column columns[N_ROW_COLUMNS]) {
    for (int k = 0; k < N_ROW_COLUMNS; k++) {
        input_free(&columns[k].in);
        free(columns[k].values);
    }
}

int row_columns_join(row_column columns[N_ROW_COLUMNS], variable *variables, input **group, int n) {
    for (int k = 0; k < N_ROW_COLUMNS; k++) {
        if (columns[k].source == NULL) continue;
        variables[n] = kinds[k];
        group[n++] = &columns[k].in;
    }
    return n;
}

static circe_status check_weights(const char *source, const input *from, const double *values) {
    double sum = 0;
    for (int64_t i = 0; i < from->values.rows; i++) {
        if (values[i] < 0)
            return circe_fail(CIRCE_ERR_VALUE, "--weights %s: row %" PRId64 " is %g; a weight must be at least 0",
                              source, io_table_row(&from->table, i), values[i]);
        if (!isnan(values[i])) sum += values[i];
    }
    return sum > 0 ? CIRCE_OK : circe_fail(CIRCE_ERR_VALUE, "--weights: all weights are 0, so no rows are left");
}

/* 2024-03-31, with or without a time after it: such texts sort as the dates do. */
static bool is_date(const char *text) {
    static const char form[] = "dddd-dd-dd";
    for (size_t i = 0; form[i] != '\0'; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i]) return false;
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Codes of dates become their order. */
static circe_status order_dates(char *const *texts, double *values, int64_t rows) {
    int64_t n = 0;
    for (; texts[n] != NULL; n++)
        if (!is_date(texts[n]))
            return circe_fail(CIRCE_ERR_VALUE, "--time must contain numbers or dates such as 2024-03-31, not '%s'",
                              texts[n]);
    OWNED char **sorted = malloc((size_t)(n + 1) * sizeof *sorted);
    if (sorted == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " dates", n);
    memcpy(sorted, texts, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_text);
    for (int64_t i = 0; i < rows; i++) {
        if (isnan(values[i])) continue;
        char *const *place = bsearch(&texts[(int64_t)values[i]], sorted, (size_t)n, sizeof *sorted, by_text);
        values[i] = (double)(place - sorted);
    }
    return CIRCE_OK;
}

circe_status row_values_take(int kind, const char *source, const input *from, int64_t first, int64_t columns,
                             double *values) {
    const circe_mat *m = &from->values;
    char *const *texts = from->described->categories != NULL ? from->described->categories[first] : NULL;
    if (columns != 1 || (texts != NULL && kind == ROW_WEIGHTS))
        return circe_fail(CIRCE_ERR_VALUE, "--%s must be one column%s, not %s", option_names[kind],
                          kind == ROW_WEIGHTS ? " of numbers" : "", source);
    for (int64_t i = 0; i < m->rows; i++) values[i] = circe__at(m, i, first);
    if (kind == ROW_WEIGHTS) return check_weights(source, from, values);
    return kind == ROW_TIME && texts != NULL ? order_dates(texts, values, m->rows) : CIRCE_OK;
}

static circe_status take(row_column *column, int kind) {
    const circe_mat *m = &column->in.values;
    free(column->values);
    column->values = malloc((size_t)m->rows * sizeof *column->values);
    if (column->values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", m->rows);
    return row_values_take(kind, column->source, &column->in, 0, m->cols, column->values);
}

circe_status row_columns_take(row_column columns[N_ROW_COLUMNS]) {
    circe_status status = CIRCE_OK;
    for (int k = 0; k < N_ROW_COLUMNS && status == CIRCE_OK; k++)
        if (columns[k].source != NULL) status = take(&columns[k], k);
    return status;
}
