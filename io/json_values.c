#include "io/json_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/io.h"

static cJSON *number(double value) {
    char text[32];
    if (!isfinite(value)) return cJSON_CreateNull();
    snprintf(text, sizeof text, "%.17g", value);
    return cJSON_CreateRaw(text);
}

static cJSON *numbers(const double *values, int64_t n) {
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < n; i++) cJSON_AddItemToArray(array, number(values[i]));
    return array;
}

void json_word(cJSON *object, const char *name, const char *text) {
    cJSON_AddItemToObject(object, name, text != NULL ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void json_words(cJSON *object, const char *name, const char *const *texts, int64_t n) {
    cJSON *array = cJSON_AddArrayToObject(object, name);
    for (int64_t i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateString(texts[i]));
}

void json_number(cJSON *object, const char *name, double value) { cJSON_AddItemToObject(object, name, number(value)); }

void json_integer(cJSON *object, const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    cJSON_AddItemToObject(object, name, cJSON_CreateRaw(text));
}

void json_numbers(cJSON *object, const char *name, const double *values, int64_t n) {
    cJSON_AddItemToObject(object, name, numbers(values, n));
}

void json_table(cJSON *object, const char *name, const double *values, int64_t rows, int64_t cols) {
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < rows; i++) cJSON_AddItemToArray(array, numbers(values + i * cols, cols));
    cJSON_AddItemToObject(object, name, array);
}

void json_interval(cJSON *object, double value, double lower, double upper) {
    json_number(object, "value", value);
    json_number(object, "lower", lower);
    json_number(object, "upper", upper);
}

cJSON *json_item(cJSON *list) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    return item;
}

/* Names of files and columns may be in any encoding, and JSON is UTF-8. */
char *json_utf8(const cJSON *object, bool lines) {
    char *raw = lines ? cJSON_Print(object) : cJSON_PrintUnformatted(object);
    char *text = raw != NULL ? io_to_utf8(raw, strlen(raw)) : NULL;
    cJSON_free(raw);
    return text;
}
