/* Both directions, a kind of key at a time. */
#include "cli/experiment/experiment_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/output.h"
#include "cli/spec.h"

static bool is_setting(const yaml_key *key) {
    return !key->plan && key->kind != KEY_PART && key->kind != KEY_PARTS && key->kind != KEY_LATER;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

/* Word number `index` of "a|b|c". */
static void put_word(cJSON *object, const yaml_key *key, int index) {
    const char *start = key->words;
    for (int i = 0; i < index && start != NULL; i++) {
        start = strchr(start, '|');
        if (start != NULL) start++;
    }
    if (index < 0 || start == NULL) return; /* not said */
    char *word = small_format("%.*s", (int)strcspn(start, "|"), start);
    cJSON_AddStringToObject(object, key->name, word);
    free(word);
}

static void put_value(cJSON *object, const yaml_key *key, const void *member) {
    const yaml_numbers *list = member;
    const char *text = NULL;
    switch (key->kind) {
        case KEY_TEXT:
        case KEY_NAME:
            memcpy(&text, member, sizeof text);
            if (text != NULL) cJSON_AddStringToObject(object, key->name, text);
            break;
        case KEY_WORD:
            put_word(object, key, *(const int *)member);
            break;
        case KEY_WHOLE:
            json_integer(object, key->name, *(const int64_t *)member);
            break;
        case KEY_NUMBER:
            json_number(object, key->name, *(const double *)member);
            break;
        case KEY_TRUTH:
            cJSON_AddBoolToObject(object, key->name, *(const bool *)member);
            break;
        case KEY_WHOLES:
        case KEY_NUMBERS:
            json_numbers(object, key->name, list->values, list->n);
            break;
        case KEY_PART:
        case KEY_PARTS:
        case KEY_LATER:
            break;
    }
}

void experiment_json_put(cJSON *object, const yaml_table *table, const void *part) {
    for (int64_t k = 0; k < table->n_keys; k++)
        if (is_setting(&table->keys[k])) put_value(object, &table->keys[k], (const char *)part + table->keys[k].offset);
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static void miss(json_reader *reader, const char *name) {
    if (reader->missing == NULL) reader->missing = name;
}

const cJSON *json_reader_item(json_reader *reader, const cJSON *object, const char *name,
                              cJSON_bool (*is)(const cJSON *)) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (is(found)) return found;
    miss(reader, name);
    return NULL;
}

double json_reader_number(json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *found = json_reader_item(reader, object, name, cJSON_IsNumber);
    return found != NULL ? found->valuedouble : 0;
}

const char *json_reader_text(json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *found = json_reader_item(reader, object, name, cJSON_IsString);
    return found != NULL ? arena_text(reader->owner, found->valuestring) : "";
}

static yaml_numbers get_numbers(json_reader *reader, const cJSON *object, const char *name) {
    const cJSON *list = json_reader_item(reader, object, name, cJSON_IsArray);
    yaml_numbers out = {.n = list != NULL ? cJSON_GetArraySize(list) : 0};
    if (out.n > 0) out.values = arena_alloc(reader->owner, (size_t)out.n * sizeof *out.values);
    for (int i = 0; i < (int)out.n; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        out.values[i] = cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
    }
    return out;
}

/* Absent: not said, where the struct starts so. */
static void get_word(json_reader *reader, const cJSON *object, const yaml_key *key, int *index) {
    if (*index < 0 && !cJSON_HasObjectItem(object, key->name)) return;
    *index = spec_word_index(key->words, json_reader_text(reader, object, key->name));
    if (*index < 0) miss(reader, key->name);
    if (*index < 0) *index = 0;
}

static void get_value(json_reader *reader, const cJSON *object, const yaml_key *key, void *member) {
    const char *text = NULL;
    switch (key->kind) {
        case KEY_TEXT:
        case KEY_NAME:
            if (cJSON_HasObjectItem(object, key->name)) text = json_reader_text(reader, object, key->name);
            memcpy(member, &text, sizeof text);
            break;
        case KEY_WORD:
            get_word(reader, object, key, member);
            break;
        case KEY_WHOLE:
            *(int64_t *)member = (int64_t)json_reader_number(reader, object, key->name);
            break;
        case KEY_NUMBER:
            *(double *)member = json_reader_number(reader, object, key->name);
            break;
        case KEY_TRUTH:
            *(bool *)member = cJSON_IsTrue(json_reader_item(reader, object, key->name, cJSON_IsBool));
            break;
        case KEY_WHOLES:
        case KEY_NUMBERS:
            *(yaml_numbers *)member = get_numbers(reader, object, key->name);
            break;
        case KEY_PART:
        case KEY_PARTS:
        case KEY_LATER:
            break;
    }
}

void experiment_json_get(json_reader *reader, const cJSON *object, const yaml_table *table, void *part) {
    memset(part, 0, table->bytes);
    if (table->init != NULL) table->init(part);
    for (int64_t k = 0; object != NULL && k < table->n_keys; k++)
        if (is_setting(&table->keys[k]))
            get_value(reader, object, &table->keys[k], (char *)part + table->keys[k].offset);
}
