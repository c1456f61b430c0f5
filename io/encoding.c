/* One input per category. */
#include "io/encoding.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "io/json_values.h"

enum { MOST_COLUMNS = 1 << 24 };

static void reserve(encoding *e, int64_t n) {
    e->count = small_alloc((size_t)n * sizeof *e->count);
    e->categories = small_alloc((size_t)n * sizeof *e->categories);
}

static void count_up(encoding *e) {
    e->n_columns = e->n_inputs = 0;
    for (int64_t i = 0; i < e->names.n; i++) {
        e->n_columns += e->count[i];
        e->n_inputs += e->categories[i].n > 0 ? e->categories[i].n : e->count[i];
    }
}

void encoding_make(const column_table *table, const name_list *names, const int64_t *count, const int64_t *cols,
                   encoding *out) {
    *out = (encoding){0};
    reserve(out, names->n);
    for (int64_t i = 0, at = 0; i < names->n; at += count[i++]) {
        name_list_add(&out->names, names->names[i]);
        out->count[i] = count[i];
        char *const *texts = count[i] == 1 ? column_categories(table, cols[at]) : NULL;
        for (; texts != NULL && *texts != NULL; texts++) name_list_add(&out->categories[i], *texts);
    }
    count_up(out);
}

void encoding_free(encoding *e) {
    for (int64_t i = 0; i < e->names.n; i++) name_list_free(&e->categories[i]);
    name_list_free(&e->names);
    free(e->categories);
    free(e->count);
    *e = (encoding){0};
}

void encoding_inputs(const encoding *e, const column_table *table, const int64_t *cols, name_list *inputs) {
    for (int64_t i = 0, at = 0; i < e->names.n; at += e->count[i++]) {
        const name_list *categories = &e->categories[i];
        for (int64_t c = 0; c < categories->n; c++) {
            OWNED char *name = small_format("%s=%s", e->names.names[i], categories->names[c]);
            name_list_add(inputs, name);
        }
        for (int64_t c = 0; categories->n == 0 && c < e->count[i]; c++)
            name_list_add(inputs, column_name(table, cols[at + c]));
    }
}

/* ---- a table's texts to inputs ----------------------------------------------------------------------------------- */

static circe_status unknown_category(const column_table *table, int64_t row, int64_t col, const name_list *known,
                                     const char *text) {
    OWNED char *list = name_list_join(known);
    circe_fail(CIRCE_ERR_VALUE,
               "%s: row %" PRId64 ", column '%s' is '%s', which did not occur in training; the model knows %s",
               input_source(&table->in), row, column_name(table, col), text, list);
    return CIRCE_ERR_VALUE;
}

/* The column was read as categories, as in training; without a cell it has no texts. */
static circe_status apply_categories(const column_table *table, int64_t col, const name_list *known, int64_t ld,
                                     double *out) {
    char *const *texts = column_categories(table, col);
    for (int64_t i = 0; i < table->in.values.rows; i++, out += ld) {
        double value = column_value(table, i, col);
        bool missing = isnan(value);
        int64_t code = missing ? -1 : name_list_find(known, texts[(int64_t)value]);
        if (!missing && code < 0) return unknown_category(table, i, col, known, texts[(int64_t)value]);
        for (int64_t c = 0; c < known->n; c++) out[c] = missing ? (double)NAN : (double)(c == code);
    }
    return CIRCE_OK;
}

static circe_status apply_numbers(const column_table *table, int64_t col, int64_t ld, double *out) {
    char *const *texts = column_categories(table, col);
    if (texts != NULL)
        return circe_fail(CIRCE_ERR_VALUE, "%s: column '%s' contains text ('%s'), but the model was trained on numbers",
                          input_source(&table->in), column_name(table, col), texts[0]);
    for (int64_t i = 0; i < table->in.values.rows; i++, out += ld) *out = column_value(table, i, col);
    return CIRCE_OK;
}

circe_status encoding_apply(const encoding *e, const column_table *table, const int64_t *cols, double *out) {
    circe_status status = CIRCE_OK;
    int64_t input_at = 0, col_at = 0;
    for (int64_t i = 0; i < e->names.n && status == CIRCE_OK; i++) {
        const name_list *known = &e->categories[i];
        if (known->n > 0) {
            status = apply_categories(table, cols[col_at], known, e->n_inputs, out + input_at);
            input_at += known->n;
        }
        for (int64_t c = 0; known->n == 0 && c < e->count[i] && status == CIRCE_OK; c++)
            status = apply_numbers(table, cols[col_at + c], e->n_inputs, out + input_at++);
        col_at += e->count[i];
    }
    return status;
}

/* ---- in the model ------------------------------------------------------------------------------------------------ */

cJSON *encoding_json(const encoding *e) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < e->names.n; i++) {
        cJSON *column = json_item(list);
        cJSON_AddStringToObject(column, "name", e->names.names[i]);
        if (e->count[i] != 1) cJSON_AddNumberToObject(column, "columns", (double)e->count[i]);
        const name_list *texts = &e->categories[i];
        if (texts->n > 0) json_words(column, "categories", (const char *const *)texts->names, texts->n);
    }
    return list;
}

static bool parse_column(const cJSON *column, encoding *out, int64_t i) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(column, "name"), *text = NULL;
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(column, "columns");
    const cJSON *texts = cJSON_GetObjectItemCaseSensitive(column, "categories");
    if (!cJSON_IsString(name) || (texts != NULL && !cJSON_IsArray(texts))) return false;
    name_list_add(&out->names, name->valuestring);
    out->count[i] = 1;
    if (count != NULL) {
        if (!cJSON_IsNumber(count) || !(count->valuedouble >= 1 && count->valuedouble <= MOST_COLUMNS)) return false;
        out->count[i] = (int64_t)count->valuedouble;
    }
    cJSON_ArrayForEach(text, texts) {
        if (!cJSON_IsString(text)) return false;
        name_list_add(&out->categories[i], text->valuestring);
    }
    return texts == NULL || out->count[i] == 1;
}

bool encoding_parse(const cJSON *json, encoding *out) {
    const cJSON *column = NULL;
    int64_t i = 0;
    *out = (encoding){0};
    if (!cJSON_IsArray(json) || cJSON_GetArraySize(json) < 1) return false;
    reserve(out, cJSON_GetArraySize(json));
    bool sound = true;
    cJSON_ArrayForEach(column, json) sound = sound && parse_column(column, out, i++);
    count_up(out);
    return sound;
}
