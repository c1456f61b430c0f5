/* From YAML. (libcyaml, which has tables as well, reads 1e3 as the whole number 1 and any word as true, and names the
 * line before the wrong one.) */
#include "io/fields.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/options.h"
#include "io/io.h"
#include "io/suggest.h"

/* The position of a value, and what is needed to read it. */
typedef struct place {
    const io_yaml *file;
    arena *owner;
    const io_field *field;
    const io_yaml_node *node;
} place;

CIRCE_PRINTF(2, 3)
static circe_status refuse(const place *at, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return io_yaml_refuse(at->file, at->node->line, at->field->name, "%s", text);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The scalar's text, or NULL with a refusal. */
static const char *scalar(const place *at, const char *expected) {
    if (at->node->text != NULL && at->node->text[0] != '\0') return at->node->text;
    refuse(at, "%s is expected, as in %s: %s", expected, at->field->name, at->field->example);
    return NULL;
}

static circe_status check_range(const place *at, double value) {
    const io_field *f = at->field;
    if ((f->low == 0 && f->high == 0) || (value >= f->low && value <= f->high)) return CIRCE_OK;
    if (f->low == DBL_MIN && value < f->low) return refuse(at, "it must be greater than 0, not %.10g", value);
    if (f->low == DBL_MIN) return refuse(at, "it must be at most %.10g, not %.10g", f->high, value);
    if (isinf(f->high)) return refuse(at, "it must be at least %.10g, not %.10g", f->low, value);
    return refuse(at, "it must be from %.10g to %.10g, not %.10g", f->low, f->high, value);
}

/* Strictly: the whole text is the number. */
static bool whole_number(const char *text, double *value) {
    char *end = NULL;
    errno = 0;
    *value = (double)strtoll(text, &end, 10);
    return end != text && *end == '\0' && !isspace((unsigned char)text[0]) && errno != ERANGE && fabs(*value) <= 9e15;
}

static circe_status read_number(const place *at, bool whole, double *value) {
    const char *expected = whole ? "a whole number" : "a number", *text = scalar(at, expected);
    if (text == NULL) return CIRCE_ERR_FORMAT;
    if (!(whole ? whole_number(text, value) : io_number(text, value)))
        return refuse(at, "%s is expected, as in %s: %s, not '%s'", expected, at->field->name, at->field->example,
                      text);
    if (!whole && io_number_vanished(text, *value))
        return refuse(at, "%s is too small: it would become 0; write 0 if you mean 0", text);
    return check_range(at, *value);
}

static circe_status read_list(const place *at, io_numbers *out) {
    bool single = at->node->kind == IO_YAML_SCALAR;
    if (at->node->kind == IO_YAML_MAPPING)
        return refuse(at, "a list of numbers is expected, as in %s: %s", at->field->name, at->field->example);
    int64_t n = single ? 1 : at->node->n;
    if (n == 0) return refuse(at, "the list is empty; at least one number is needed");
    double *values = arena_alloc(at->owner, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        place item = *at;
        if (!single) item.node = at->node->items[i];
        circe_status status = read_number(&item, at->field->kind == FIELD_WHOLES, &values[i]);
        if (status != CIRCE_OK) return status;
        for (int64_t j = 0; j < i; j++)
            if (values[j] == values[i]) return refuse(&item, "%.10g is in the list twice", values[i]);
    }
    *out = (io_numbers){values, n};
    return CIRCE_OK;
}

static circe_status read_word(const place *at, int *out) {
    const char *text = scalar(at, "a word");
    if (text == NULL) return CIRCE_ERR_FORMAT;
    *out = circe_word_index(at->field->words, text);
    if (*out >= 0) return CIRCE_OK;
    return suggest_word(refuse(at, "it must be one of %s, not '%s'", at->field->words, text), at->field->words, text);
}

static circe_status read_text(const place *at, const char **out) {
    const char *text = scalar(at, "a text");
    if (text == NULL) return CIRCE_ERR_FORMAT;
    for (const char *c = text; at->field->kind == FIELD_NAME && *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            return refuse(at, "'%s' becomes part of file names, so only letters, digits, - and _ are allowed", text);
    *out = arena_text(at->owner, text);
    return CIRCE_OK;
}

static circe_status read_truth(const place *at, bool *out) {
    const char *text = scalar(at, "true or false");
    if (text == NULL) return CIRCE_ERR_FORMAT;
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0) return CIRCE_OK;
    return refuse(at, "true or false is expected, not '%s'", text);
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* `at`: the mapping; its field is of no matter. */
static circe_status read_mapping(const place *at, const io_fields *table, bool over, void *into);

static const char *name_of(const io_fields *table, const io_parts *list, int64_t i) {
    const char *name = NULL;
    memcpy(&name, (const char *)list->items + (size_t)i * table->bytes + table->list[table->name - 1].offset,
           sizeof name);
    return name;
}

/* The element of the list with the name that a mapping gives, or NULL. */
static const void *find_named(const io_fields *table, const io_parts *list, const io_yaml_node *mapping) {
    const io_yaml_node *name = table->name > 0 ? io_yaml_find(mapping, table->list[table->name - 1].name) : NULL;
    for (int64_t i = 0; name != NULL && name->text != NULL && i < list->n; i++)
        if (strcmp(name_of(table, list, i), name->text) == 0)
            return (const char *)list->items + (size_t)i * table->bytes;
    return NULL;
}

static circe_status check_names(const place *at, const io_fields *table, const io_parts *list) {
    for (int64_t i = 0; table->name > 0 && i < list->n; i++)
        for (int64_t j = 0; j < i; j++)
            if (strcmp(name_of(table, list, i), name_of(table, list, j)) == 0)
                return refuse(at, "two elements are called '%s'; a name tells them apart", name_of(table, list, i));
    return CIRCE_OK;
}

static circe_status read_parts(const place *at, io_parts *list) {
    const io_fields *table = at->field->part;
    if (at->node->kind != IO_YAML_LIST)
        return refuse(at, "a list is expected, each element after a dash: - %s: %s", table->list[0].name,
                      table->list[0].example);
    if (at->node->n == 0) return refuse(at, "the list is empty; at least one element is needed");
    io_parts read = {.n = at->node->n};
    read.items = arena_alloc(at->owner, (size_t)read.n * table->bytes);
    for (int64_t i = 0; i < read.n; i++) {
        void *part = (char *)read.items + (size_t)i * table->bytes;
        place item = *at;
        item.node = at->node->items[i];
        const void *before = find_named(table, list, item.node);
        if (before != NULL)
            memcpy(part, before, table->bytes);
        else if (table->init != NULL)
            table->init(part);
        circe_status status = read_mapping(&item, table, before != NULL, part);
        if (status != CIRCE_OK) return status;
    }
    *list = read;
    return check_names(at, table, list);
}

static circe_status read_value(const place *at, bool over, void *member) {
    double number = 0;
    circe_status status = CIRCE_OK;
    switch (at->field->kind) {
        case FIELD_TEXT:
        case FIELD_NAME:
            return read_text(at, member);
        case FIELD_WORD:
            return read_word(at, member);
        case FIELD_WHOLE:
            status = read_number(at, true, &number);
            if (status == CIRCE_OK) *(int64_t *)member = (int64_t)number;
            return status;
        case FIELD_NUMBER:
            return read_number(at, false, member);
        case FIELD_TRUTH:
            return read_truth(at, member);
        case FIELD_WHOLES:
        case FIELD_NUMBERS:
            return read_list(at, member);
        case FIELD_PART:
            return read_mapping(at, at->field->part, over, member);
        case FIELD_PARTS:
            return read_parts(at, member);
        case FIELD_LATER:
            break;
    }
    return CIRCE_OK;
}

static circe_status unknown_key(const place *at, const io_fields *table, const io_yaml_node *key) {
    enum { MOST = 32 };
    const char *names[MOST];
    size_t n = 0;
    while ((int64_t)n < table->n && n < MOST) names[n] = table->list[n].name, n++;
    circe_status status = io_yaml_refuse(at->file, key->line, key->text, "%s has no such key", table->what);
    const char *nearest = suggest_nearest(key->text, names, n);
    if (nearest != NULL) return circe_fail_hint(status, "did you mean %s?", nearest);
    char list[512] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    return circe_fail_hint(status, "its keys are %s", list);
}

/* Pair `i` of the mapping; line_met has where each field of the table was met, or 0. */
static circe_status read_pair(const place *at, int64_t i, const io_fields *table, bool over, int64_t *line_met,
                              void *into) {
    const io_yaml_node *key = at->node->keys[i];
    if (key->text == NULL)
        return io_yaml_refuse(at->file, key->line, NULL, "the name of a key is expected, as in %s: %s",
                              table->list[0].name, table->list[0].example);
    for (int64_t k = 0; k < table->n; k++) {
        const io_field *field = &table->list[k];
        if (strcmp(field->name, key->text) != 0) continue;
        if (line_met[k] > 0)
            return io_yaml_refuse(at->file, key->line, key->text, "it already occurs in line %lld",
                                  (long long)line_met[k]);
        line_met[k] = key->line;
        const place value = {at->file, at->owner, field, at->node->items[i]};
        return read_value(&value, over, (char *)into + field->offset);
    }
    return unknown_key(at, table, key);
}

static circe_status read_mapping(const place *at, const io_fields *table, bool over, void *into) {
    enum { MOST = 32 };
    int64_t line_met[MOST] = {0}, line = at->node->line;
    circe_status status = CIRCE_OK;
    if (at->node->kind != IO_YAML_MAPPING)
        return io_yaml_refuse(at->file, line, NULL, "%s is expected: keys and their values, as in %s: %s", table->what,
                              table->list[0].name, table->list[0].example);
    for (int64_t i = 0; status == CIRCE_OK && i < at->node->n; i++)
        status = read_pair(at, i, table, over, line_met, into);
    for (int64_t k = 0; status == CIRCE_OK && !over && k < table->n; k++)
        if (table->list[k].required && line_met[k] == 0)
            status = io_yaml_refuse(at->file, line, NULL, "%s lacks the key '%s', as in %s: %s", table->what,
                                    table->list[k].name, table->list[k].name, table->list[k].example);
    if (status == CIRCE_OK && table->check != NULL) status = table->check(at->file, line, into);
    return status;
}

circe_status io_fields_read(const io_yaml *file, const io_fields *table, arena *owner, void *into) {
    const place at = {.file = file, .owner = owner, .node = file->root};
    if (file->root == NULL)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it is empty; its first line may read %s: %s", file->path,
                          table->list[0].name, table->list[0].example);
    return read_mapping(&at, table, false, into);
}

circe_status io_fields_read_over(const io_yaml *file, const io_yaml_node *mapping, const io_fields *table, arena *owner,
                                 void *into) {
    const place at = {.file = file, .owner = owner, .node = mapping};
    return read_mapping(&at, table, true, into);
}
