#include "jobs/columns.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/json.h"

static void describe(const input *in, int64_t c, circe_columns *out) {
    const io_table *table = in->described;
    const io_column *column = table->columns != NULL ? &table->columns[c] : NULL;
    if (column == NULL || (column->n_categories == 0 && column->n_missing == 0)) return;
    out->column = small_grow(out->column, (out->n + 1) * sizeof *out->column);
    out->column[out->n++] =
        (circe_column){.variable = in->of != VARIABLE_TABLE ? variable_label(in->of) : NULL,
                       .name = table->names != NULL ? small_format("%s", table->names[c]) : small_format("%" PRId64, c),
                       .categories = column->n_categories,
                       .missing = column->n_missing,
                       .named = column->named};
}

circe_columns columns_described(const input *const *group, int n) {
    circe_columns out = {0};
    for (int k = 0; k < n; k++)
        for (int64_t c = 0; c < group[k]->values.cols; c++) describe(group[k], c, &out);
    return out;
}

void columns_add_few(circe_columns *columns, const char *name, int64_t categories) {
    size_t i = 0;
    while (i < columns->n && strcmp(columns->column[i].name, name) != 0) i++;
    if (i == columns->n) {
        columns->column = small_grow(columns->column, (columns->n + 1) * sizeof *columns->column);
        columns->column[columns->n++] = (circe_column){.name = small_format("%s", name)};
    }
    columns->column[i].categories = categories;
    columns->column[i].few = 1;
}

void columns_clear(circe_columns *columns) {
    for (size_t i = 0; i < columns->n; i++) free(columns->column[i].name);
    free(columns->column);
    *columns = (circe_columns){0};
}

const char *columns_because(const circe_column *column) {
    return column->named ? "it was named so" : column->few ? "it has few different values" : "no cell is a number";
}

void json_columns(cJSON *object, const circe_columns *columns) {
    cJSON *list = cJSON_AddArrayToObject(object, "columns");
    for (size_t i = 0; i < columns->n; i++) {
        const circe_column *c = &columns->column[i];
        cJSON *out = json_item(list);
        if (c->variable != NULL) cJSON_AddStringToObject(out, "variable", c->variable);
        cJSON_AddStringToObject(out, "column", c->name);
        cJSON_AddStringToObject(out, "read_as", c->categories > 0 ? "categories" : "numbers");
        if (c->categories > 0) {
            json_integer(out, "categories", c->categories);
            cJSON_AddStringToObject(out, "because", columns_because(c));
        }
        if (c->missing > 0) json_integer(out, "missing", c->missing);
    }
}
