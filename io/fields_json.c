/* Structs into JSON and back, one kind of field at a time. */
#include <math.h>
#include <string.h>

#include "circe/options.h"
#include "io/fields.h"

static bool is_put(const io_field *field) {
    return !field->not_in_json && field->kind != FIELD_PART && field->kind != FIELD_PARTS && field->kind != FIELD_LATER;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static void put_value(cJSON *object, const io_field *field, const void *member) {
    const io_numbers *list = member;
    const char *text = NULL;
    char word[64];
    int index;
    switch (field->kind) {
        case FIELD_TEXT:
        case FIELD_NAME:
            memcpy(&text, member, sizeof text);
            if (text != NULL) cJSON_AddStringToObject(object, field->name, text);
            break;
        case FIELD_WORD:
            index = *(const int *)member; /* below 0: not said */
            text = index >= 0 ? io_word_at(field->words, index, word, sizeof word) : NULL;
            if (text != NULL) cJSON_AddStringToObject(object, field->name, text);
            break;
        case FIELD_WHOLE:
            json_integer(object, field->name, *(const int64_t *)member);
            break;
        case FIELD_NUMBER:
            json_number(object, field->name, *(const double *)member);
            break;
        case FIELD_TRUTH:
            cJSON_AddBoolToObject(object, field->name, *(const bool *)member);
            break;
        case FIELD_WHOLES:
        case FIELD_NUMBERS:
            json_numbers(object, field->name, list->values, list->n);
            break;
        case FIELD_PART:
        case FIELD_PARTS:
        case FIELD_LATER:
            break;
    }
}

void io_fields_put(cJSON *object, const io_fields *table, const void *part) {
    for (int64_t k = 0; k < table->n; k++)
        if (is_put(&table->list[k])) put_value(object, &table->list[k], (const char *)part + table->list[k].offset);
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static void miss(io_json_reader *reader, const char *name) {
    if (reader->missing == NULL) reader->missing = name;
}

const cJSON *io_json_item(io_json_reader *reader, const cJSON *object, const char *name,
                          cJSON_bool (*is)(const cJSON *)) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (is(found)) return found;
    miss(reader, name);
    return NULL;
}

double io_json_number(io_json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *found = io_json_item(reader, object, name, cJSON_IsNumber);
    return found != NULL ? found->valuedouble : 0;
}

const char *io_json_text(io_json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *found = io_json_item(reader, object, name, cJSON_IsString);
    return found != NULL ? arena_text(reader->owner, found->valuestring) : "";
}

static io_numbers get_numbers(io_json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *list = io_json_item(reader, object, name, cJSON_IsArray);
    io_numbers out = {.n = list != NULL ? cJSON_GetArraySize(list) : 0};
    if (out.n > 0) out.values = arena_alloc(reader->owner, (size_t)out.n * sizeof *out.values);
    for (int i = 0; i < (int)out.n; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        out.values[i] = cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
    }
    return out;
}

/* Absent: not said, where the struct starts so. */
static void get_word(io_json_reader *reader, const cJSON *object, const io_field *field, int *index) {
    if (*index < 0 && !cJSON_HasObjectItem(object, field->name)) return;
    *index = circe_word_index(field->words, io_json_text(reader, object, field->name));
    if (*index < 0) miss(reader, field->name);
    if (*index < 0) *index = 0;
}

static void get_value(io_json_reader *reader, const cJSON *object, const io_field *field, void *member) {
    const char *text = NULL;
    switch (field->kind) {
        case FIELD_TEXT:
        case FIELD_NAME:
            if (cJSON_HasObjectItem(object, field->name)) text = io_json_text(reader, object, field->name);
            memcpy(member, &text, sizeof text);
            break;
        case FIELD_WORD:
            get_word(reader, object, field, member);
            break;
        case FIELD_WHOLE:
            *(int64_t *)member = (int64_t)io_json_number(reader, object, field->name);
            break;
        case FIELD_NUMBER:
            *(double *)member = io_json_number(reader, object, field->name);
            break;
        case FIELD_TRUTH:
            *(bool *)member = cJSON_IsTrue(io_json_item(reader, object, field->name, cJSON_IsBool));
            break;
        case FIELD_WHOLES:
        case FIELD_NUMBERS:
            *(io_numbers *)member = get_numbers(reader, object, field->name);
            break;
        case FIELD_PART:
        case FIELD_PARTS:
        case FIELD_LATER:
            break;
    }
}

void io_fields_get(io_json_reader *reader, const cJSON *object, const io_fields *table, void *part) {
    memset(part, 0, table->bytes);
    if (table->init != NULL) table->init(part);
    for (int64_t k = 0; object != NULL && k < table->n; k++)
        if (is_put(&table->list[k])) get_value(reader, object, &table->list[k], (char *)part + table->list[k].offset);
}
