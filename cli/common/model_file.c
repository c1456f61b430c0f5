/* Categories in the metadata of a model file, under the key circe_categories:
 *
 *     {"y": [null, ["female", "male"]], "z": [null]}
 *
 * an entry per column, null for numbers, else the texts in the order of their codes. */
#include "model_file.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The whole file in memory; NULL where it cannot be read. */
static unsigned char *read_all(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    if (file == NULL) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 8) {
        *bytes = (size_t)ftell(file);
        rewind(file);
        data = malloc(*bytes);
        if (data != NULL && fread(data, 1, *bytes, file) != *bytes) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

static uint64_t read_length(const unsigned char *data) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | data[i];
    return length;
}

/* The header with one more entry of metadata, as a safetensors file begins: its length in 8 bytes, little-endian, then
 * the JSON, padded by spaces. Offsets of tensors count from the end of the header and stay valid. */
static unsigned char *extend_header(const char *header, size_t length, const char *value, size_t *bytes) {
    cJSON *json = cJSON_ParseWithLength(header, length);
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(json, "__metadata__");
    if (json != NULL && metadata == NULL) metadata = cJSON_AddObjectToObject(json, "__metadata__");
    cJSON_AddStringToObject(metadata, categories_key, value);
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (text == NULL) return NULL;
    size_t size = strlen(text), padded = (size + 7) / 8 * 8;
    unsigned char *out = malloc(8 + padded);
    if (out != NULL) {
        for (int i = 0; i < 8; i++) out[i] = (unsigned char)((uint64_t)padded >> (8 * i));
        memset(out + 8, ' ', padded);
        memcpy(out + 8, text, size);
        *bytes = 8 + padded;
    }
    cJSON_free(text);
    return out;
}

/* path := the model in `plain`, with the categories. */
static int write_with_categories(const char *plain, const char *path, const char *categories) {
    size_t bytes = 0, header_bytes = 0;
    unsigned char *data = read_all(plain, &bytes), *header = NULL;
    char *whole = NULL;
    int status = EXIT_DONE;
    uint64_t length = data != NULL ? read_length(data) : 0;
    if (data != NULL && length <= bytes - 8)
        header = extend_header((const char *)data + 8, (size_t)length, categories, &header_bytes);
    size_t rest = header != NULL ? bytes - 8 - (size_t)length : 0;
    if (header != NULL) whole = malloc(header_bytes + rest);
    if (whole == NULL) {
        status = message_write(path, "could not be prepared: out of memory");
    } else {
        io_error error = {""};
        memcpy(whole, header, header_bytes);
        memcpy(whole + header_bytes, data + 8 + length, rest);
        if (io_write_text(path, whole, header_bytes + rest, &error) != CIRCE_OK)
            status = message_write(path, error.text);
    }
    free(whole);
    free(header);
    free(data);
    return status;
}

static int save_plain(const circe_cme *cme, const char *path) {
    circe_status status = circe_cme_save(cme, path);
    return status == CIRCE_OK ? EXIT_DONE : message_write(path, circe_last_error());
}

int model_save(const circe_cme *cme, const input *y, const input *z, const char *path) {
    if (!input_has_text(y) && !input_has_text(z)) return save_plain(cme, path);
    const char *folder = getenv("TMPDIR");
    char *plain = small_format("%s/circe-model-XXXXXX", folder != NULL ? folder : "/tmp");
    int file = mkstemp(plain);
    if (file < 0) {
        free(plain);
        return message_write(path, "no temporary file could be made (TMPDIR)");
    }
    close(file);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "y", categories_of(y));
    cJSON_AddItemToObject(json, "z", categories_of(z));
    char *categories = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    int status = save_plain(cme, plain);
    if (status == EXIT_DONE) status = write_with_categories(plain, path, categories);
    unlink(plain);
    free(plain);
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
static int align_to_model(const cJSON *columns, const char *path, input *in) {
    int64_t n = in->values.cols;
    bool *categorical = small_alloc((size_t)n * sizeof *categorical);
    char ***categories = small_alloc((size_t)n * sizeof *categories);
    bool sound = columns == NULL || (cJSON_IsArray(columns) && cJSON_GetArraySize(columns) == n);
    for (int64_t j = 0; columns != NULL && sound && j < n; j++) {
        const cJSON *column = cJSON_GetArrayItem(columns, (int)j);
        sound = is_column(column);
        categorical[j] = sound && cJSON_IsArray(column);
        categories[j] = categorical[j] ? texts_of(column) : NULL;
    }
    char *source = small_format("%s", path);
    io_table table = {.values = in->values, .categorical = categorical, .categories = categories, .source = source};
    input reference = {.of = in->of, .values = in->values, .described = &table, .table = table};
    int status = sound ? input_align(&reference, in)
                       : message_fail(EXIT_INPUT, "%s: its metadata %s is damaged", path, categories_key);
    for (int64_t j = 0; j < n; j++) free(categories[j]);
    free(categories);
    free(categorical);
    free(source);
    return status;
}

static int align_inputs(circe_context *context, const char *path, input *y, input *z) {
    circe_tensor_file *file = NULL;
    circe_status opened = circe_tensor_file_open(context, path, &file);
    if (opened != CIRCE_OK) return message_library(opened, path);
    const char *text = circe_tensor_file_metadata(file, categories_key);
    cJSON *json = text != NULL ? cJSON_Parse(text) : NULL;
    int status = EXIT_DONE;
    if (text != NULL && json == NULL)
        status = message_fail(EXIT_INPUT, "%s: its metadata %s is damaged", path, categories_key);
    if (status == EXIT_DONE) status = align_to_model(cJSON_GetObjectItemCaseSensitive(json, "y"), path, y);
    if (status == EXIT_DONE) status = align_to_model(cJSON_GetObjectItemCaseSensitive(json, "z"), path, z);
    cJSON_Delete(json);
    circe_tensor_file_close(file);
    return status;
}

static int check_columns(const char *path, const input *in, int64_t expected) {
    if (in->values.cols == expected) return EXIT_DONE;
    return message_fail(EXIT_INPUT, "%s has %" PRId64 " column%s, but the model %s was fitted with %" PRId64 " for %s",
                        input_source(in), in->values.cols, in->values.cols == 1 ? "" : "s", path, expected,
                        in->of->label);
}

int model_load(circe_context *context, const char *path, input *y, input *z, circe_cme **cme) {
    circe_status loaded = circe_cme_load(context, path, cme);
    if (loaded != CIRCE_OK) return message_library(loaded, path);
    circe_cme_info info;
    circe_cme_get_info(*cme, &info);
    int status = check_columns(path, y, info.dim_y);
    if (status == EXIT_DONE) status = check_columns(path, z, info.dim_z);
    return status == EXIT_DONE ? align_inputs(context, path, y, z) : status;
}
