/* Categories in the metadata of a model file, under the key circe_categories:
 *
 *     {"y": [null, ["female", "male"]], "z": [null]}
 *
 * an entry per column, null for numbers, else the texts in the order of their codes. */
#include "jobs/model_file.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/small.h"

static const char categories_key[] = "circe_categories";

static cJSON *categories_of(const input *in) {
    cJSON *columns = cJSON_CreateArray();
    for (int64_t j = 0; j < in->values.cols; j++) {
        const io_table *table = in->described;
        if (table->categorical == NULL || !table->categorical[j]) {
            cJSON_AddItemToArray(columns, cJSON_CreateNull());
            continue;
        }
        cJSON *texts = cJSON_CreateArray();
        for (char **text = table->categories[j]; *text != NULL; text++)
            cJSON_AddItemToArray(texts, cJSON_CreateString(*text));
        cJSON_AddItemToArray(columns, texts);
    }
    return columns;
}

circe_status model_save(const circe_cme *cme, const input *y, const input *z, const char *path) {
    bool text = input_has_text(y) || input_has_text(z);
    char *categories = NULL;
    if (text) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddItemToObject(json, "y", categories_of(y));
        cJSON_AddItemToObject(json, "z", categories_of(z));
        categories = cJSON_PrintUnformatted(json);
        cJSON_Delete(json);
        if (categories == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: could not be prepared: out of memory", path);
    }
    const circe_metadata own = {categories_key, categories};
    circe_status status = circe_cme_save_with(cme, path, &own, text ? 1 : 0);
    cJSON_free(categories);
    return status;
}

/* null, or a list of texts. */
static bool is_column(const cJSON *column) {
    const cJSON *text = NULL;
    cJSON_ArrayForEach(text, column) {
        if (!cJSON_IsString(text)) return false;
    }
    return cJSON_IsArray(column) || cJSON_IsNull(column);
}

static char **texts_of(const cJSON *column) {
    int n = cJSON_GetArraySize(column);
    char **texts = small_alloc(((size_t)n + 1) * sizeof *texts);
    for (int i = 0; i < n; i++) texts[i] = cJSON_GetArrayItem(column, i)->valuestring; /* owned by the JSON */
    return texts;
}

/* Codes as in the model, described by `columns` (NULL: it had no text). */
static circe_status align_to_model(const cJSON *columns, const char *path, input *in) {
    int64_t n = in->values.cols;
    OWNED bool *categorical = small_alloc((size_t)n * sizeof *categorical);
    OWNED char ***categories = small_alloc((size_t)n * sizeof *categories);
    bool sound = columns == NULL || (cJSON_IsArray(columns) && cJSON_GetArraySize(columns) == n);
    for (int64_t j = 0; columns != NULL && sound && j < n; j++) {
        const cJSON *column = cJSON_GetArrayItem(columns, (int)j);
        sound = is_column(column);
        categorical[j] = sound && cJSON_IsArray(column);
        categories[j] = categorical[j] ? texts_of(column) : NULL;
    }
    OWNED char *source = small_format("%s", path);
    io_table table = {.values = in->values, .categorical = categorical, .categories = categories, .source = source};
    input reference = {.of = in->of, .values = in->values, .described = &table, .table = table};
    circe_status status = sound ? input_align_to_fit(&reference, in)
                                : circe_fail(CIRCE_ERR_FORMAT, "%s: its metadata %s is damaged", path, categories_key);
    for (int64_t j = 0; j < n; j++) free(categories[j]);
    return status;
}

static void note_checksum(const circe_tensor_file *file, const char *path, notes *warnings) {
    if (circe_tensor_file_metadata(file, "checksum") == NULL) notes_add(warnings, MODEL_WITHOUT_CHECKSUM, path);
}

static circe_status align_inputs(circe_context *context, const char *path, input *y, input *z, notes *warnings) {
    circe_tensor_file *file = NULL;
    circe_status opened = circe_tensor_file_open(context, path, &file);
    if (opened != CIRCE_OK) return opened;
    note_checksum(file, path, warnings);
    const char *text = circe_tensor_file_metadata(file, categories_key);
    cJSON *json = text != NULL ? cJSON_Parse(text) : NULL;
    circe_status status = CIRCE_OK;
    if (text != NULL && json == NULL)
        status = circe_fail(CIRCE_ERR_FORMAT, "%s: its metadata %s is damaged", path, categories_key);
    if (status == CIRCE_OK) status = align_to_model(cJSON_GetObjectItemCaseSensitive(json, "y"), path, y);
    if (status == CIRCE_OK) status = align_to_model(cJSON_GetObjectItemCaseSensitive(json, "z"), path, z);
    cJSON_Delete(json);
    circe_tensor_file_close(file);
    return status;
}

static circe_status check_columns(const char *path, const input *in, int64_t expected) {
    if (in->values.cols == expected) return CIRCE_OK;
    return circe_fail(
        CIRCE_ERR_SHAPE, "%s has %" PRId64 " column%s, but the model %s was fitted with %" PRId64 " for %s",
        input_source(in), in->values.cols, in->values.cols == 1 ? "" : "s", path, expected, variable_label(in->of));
}

circe_status model_load(circe_context *context, const char *path, input *y, input *z, notes *warnings,
                        circe_cme **cme) {
    circe_status loaded = circe_cme_load(context, path, cme);
    if (loaded != CIRCE_OK) return loaded;
    circe_cme_info info;
    circe_cme_get_info(*cme, &info);
    circe_status status = check_columns(path, y, info.dim_y);
    if (status == CIRCE_OK) status = check_columns(path, z, info.dim_z);
    return status == CIRCE_OK ? align_inputs(context, path, y, z, warnings) : status;
}
