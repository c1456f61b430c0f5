/* The reader. libyaml makes a tree whose nodes know their lines; a table says what may stand where. (libcyaml, which
 * has tables as well, reads 1e3 as the whole number 1 and any word as true, and names the line before the wrong one.)
 */
#include "cli/experiment/experiment_yaml.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/common/yaml_load.h"
#include "cli/spec.h"
#include "io/io.h"
#include "io/suggest.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct arena_block {
    struct arena_block *before;
    max_align_t data[];
};

void *arena_alloc(arena *owner, size_t bytes) {
    struct arena_block *block = small_alloc(sizeof *block + bytes);
    block->before = owner->last;
    owner->last = block;
    return block->data;
}

char *arena_text(arena *owner, const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(arena_alloc(owner, bytes), text, bytes);
}

void arena_free(arena *owner) {
    while (owner->last != NULL) {
        struct arena_block *before = owner->last->before;
        free(owner->last);
        owner->last = before;
    }
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

struct yaml_file {
    arena *owner;
    const char *path;
    yaml_document_t document;
};

static int64_t line_of(const yaml_node_t *node) { return (int64_t)node->start_mark.line + 1; }

int yaml_refuse(const yaml_file *file, int64_t line, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    message_note("%s, line %lld: %s", file->path, (long long)line, length >= 0 ? text : "out of memory");
    if (length >= 0) free(text);
    return EXIT_INPUT;
}

static int read_text(const char *path, arena *owner, char **text) {
    FILE *in = fopen(path, "rb");
    char *read = NULL;
    size_t bytes = 0;
    if (in == NULL) return message_fail(EXIT_INPUT, "%s: %s", path, strerror(errno));
    int status = yaml_load_text(path, in, &read, &bytes);
    fclose(in);
    if (status == EXIT_DONE) *text = arena_text(owner, read);
    free(read);
    return status;
}

static int parse(const char *path, const char *text, yaml_file *file) {
    yaml_parser_t parser;
    bool sound = false;
    int status = yaml_load(path, text, strlen(text), &parser, &file->document, &sound);
    if (status == EXIT_DONE && !sound) {
        message_note("%s, line %zu: not YAML: %s", path, parser.problem_mark.line + 1,
                     parser.problem != NULL ? parser.problem : "it cannot be read");
        message_hint("one key a line, KEY: VALUE with a space after the colon; what belongs to a key is indented");
        status = EXIT_INPUT;
    }
    yaml_parser_delete(&parser);
    return status;
}

int yaml_open(const char *path, arena *owner, yaml_file **file, const char **text) {
    char *whole = NULL;
    *file = NULL;
    int status = read_text(path, owner, &whole);
    if (status != EXIT_DONE || whole == NULL) return status;
    yaml_file *opened = small_alloc(sizeof *opened);
    opened->owner = owner;
    opened->path = arena_text(owner, path);
    status = parse(path, whole, opened);
    if (status == EXIT_DONE) {
        *file = opened;
        if (text != NULL) *text = whole;
    } else {
        free(opened);
    }
    return status;
}

void yaml_close(yaml_file *file) {
    if (file == NULL) return;
    yaml_document_delete(&file->document);
    free(file);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Where a value stands: for messages. */
typedef struct place {
    const yaml_file *file;
    const yaml_key *key;
    const yaml_node_t *node;
} place;

static const yaml_node_t *node_at(const yaml_file *file, int index) {
    return yaml_document_get_node((yaml_document_t *)&file->document, index); /* it only reads */
}

PRINTF_LIKE(2, 3)
static int refuse(const place *at, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    message_note("%s, line %lld, key '%s': %s", at->file->path, (long long)line_of(at->node), at->key->name,
                 length >= 0 ? text : "out of memory");
    if (length >= 0) free(text);
    return EXIT_INPUT;
}

/* The scalar's text, or NULL with a refusal. */
static const char *scalar(const place *at, const char *expected, int *status) {
    const char *text = at->node->type == YAML_SCALAR_NODE ? (const char *)at->node->data.scalar.value : NULL;
    if (text != NULL && text[0] != '\0' && strlen(text) == at->node->data.scalar.length) return text;
    *status = refuse(at, "%s is expected, as in %s: %s", expected, at->key->name, at->key->example);
    return NULL;
}

static int check_range(const place *at, double value) {
    const yaml_key *key = at->key;
    if ((key->low == 0 && key->high == 0) || (value >= key->low && value <= key->high)) return EXIT_DONE;
    if (key->low == DBL_MIN && value < key->low) return refuse(at, "it must be greater than 0, not %.10g", value);
    if (isinf(key->high)) return refuse(at, "it must be at least %.10g, not %.10g", key->low, value);
    return refuse(at, "it must be from %.10g to %.10g, not %.10g", key->low, key->high, value);
}

/* Strictly: the whole text is the number. */
static int read_number(const place *at, bool whole, double *value) {
    int status = EXIT_DONE;
    const char *expected = whole ? "a whole number" : "a number", *text = scalar(at, expected, &status);
    if (text == NULL) return status;
    char *end = NULL;
    errno = 0;
    bool sound = whole || io_number(text, value);
    if (whole) {
        *value = (double)strtoll(text, &end, 10);
        sound =
            end != text && *end == '\0' && !isspace((unsigned char)text[0]) && errno != ERANGE && fabs(*value) <= 9e15;
    } else if (sound && io_number_vanished(text, *value)) {
        return refuse(at, "%s is too small: it would become 0; write 0 where that is meant", text);
    }
    if (!sound)
        return refuse(at, "%s is expected, as in %s: %s, not '%s'", expected, at->key->name, at->key->example, text);
    return check_range(at, *value);
}

static int read_list(const place *at, yaml_numbers *out) {
    bool whole = at->key->kind == KEY_WHOLES, single = at->node->type == YAML_SCALAR_NODE;
    if (!single && at->node->type != YAML_SEQUENCE_NODE)
        return refuse(at, "a list of numbers is expected, as in %s: %s", at->key->name, at->key->example);
    const yaml_node_item_t *items = at->node->data.sequence.items.start;
    int64_t n = single ? 1 : at->node->data.sequence.items.top - items;
    if (n == 0) return refuse(at, "the list is empty; at least one number is needed");
    double *values = arena_alloc(at->file->owner, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        place item = *at;
        if (!single) item.node = node_at(at->file, items[i]);
        int status = read_number(&item, whole, &values[i]);
        if (status != EXIT_DONE) return status;
        for (int64_t j = 0; j < i; j++)
            if (values[j] == values[i]) return refuse(&item, "%.10g is in the list twice", values[i]);
    }
    *out = (yaml_numbers){values, n};
    return EXIT_DONE;
}

static int read_word(const place *at, int *out) {
    enum { MOST = 16 };
    const char *words[MOST];
    size_t n = 0;
    int status = EXIT_DONE;
    const char *text = scalar(at, "a word", &status);
    if (text == NULL) return status;
    *out = spec_word_index(at->key->words, text);
    if (*out >= 0) return EXIT_DONE;
    char *copy = arena_text(at->file->owner, at->key->words), *rest = NULL;
    for (char *word = strtok_r(copy, "|", &rest); word != NULL && n < MOST; word = strtok_r(NULL, "|", &rest))
        words[n++] = word;
    refuse(at, "it is one of %s, not '%s'", at->key->words, text);
    const char *nearest = suggest_nearest(text, words, n);
    if (nearest != NULL) message_hint("did you mean %s?", nearest);
    return EXIT_INPUT;
}

static int read_plain_text(const place *at, const char **out) {
    int status = EXIT_DONE;
    const char *text = scalar(at, "a text", &status);
    if (text == NULL) return status;
    for (const char *c = text; at->key->kind == KEY_NAME && *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            return refuse(at, "'%s' becomes part of file names: letters, digits, - and _ are allowed", text);
    *out = arena_text(at->file->owner, text);
    return EXIT_DONE;
}

static int read_truth(const place *at, bool *out) {
    int status = EXIT_DONE;
    const char *text = scalar(at, "true or false", &status);
    if (text == NULL) return status;
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0) return EXIT_DONE;
    return refuse(at, "true or false is expected, not '%s'", text);
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

static int read_mapping(const yaml_file *file, const yaml_node_t *node, const yaml_table *table, bool over, void *into);

static const char *name_of(const yaml_table *table, const void *part) {
    const char *name = NULL;
    if (table->name > 0) memcpy(&name, (const char *)part + table->keys[table->name - 1].offset, sizeof name);
    return name;
}

/* The element of the list with the name that a mapping gives, or NULL. */
static const void *find_named(const yaml_file *file, const yaml_table *table, const yaml_parts *list,
                              const yaml_node_t *mapping) {
    if (table->name == 0 || mapping->type != YAML_MAPPING_NODE) return NULL;
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top;
         pair++) {
        const yaml_node_t *key = node_at(file, pair->key), *value = node_at(file, pair->value);
        if (key->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE ||
            strcmp((const char *)key->data.scalar.value, table->keys[table->name - 1].name) != 0)
            continue;
        for (int64_t i = 0; i < list->n; i++) {
            const void *part = (const char *)list->items + (size_t)i * table->bytes;
            if (strcmp(name_of(table, part), (const char *)value->data.scalar.value) == 0) return part;
        }
    }
    return NULL;
}

static int check_names(const place *at, const yaml_table *table, const yaml_parts *list) {
    for (int64_t i = 0; table->name > 0 && i < list->n; i++)
        for (int64_t j = 0; j < i; j++) {
            const char *name = name_of(table, (const char *)list->items + (size_t)i * table->bytes);
            if (strcmp(name, name_of(table, (const char *)list->items + (size_t)j * table->bytes)) == 0)
                return refuse(at, "two elements are called '%s'; a name tells them apart", name);
        }
    return EXIT_DONE;
}

static int read_parts(const place *at, yaml_parts *list) {
    const yaml_table *table = at->key->part;
    if (at->node->type != YAML_SEQUENCE_NODE)
        return refuse(at, "a list is expected, each element after a dash: - %s: %s", table->keys[0].name,
                      table->keys[0].example);
    const yaml_node_item_t *items = at->node->data.sequence.items.start;
    yaml_parts read = {.n = at->node->data.sequence.items.top - items};
    if (read.n == 0) return refuse(at, "the list is empty; at least one element is needed");
    read.items = arena_alloc(at->file->owner, (size_t)read.n * table->bytes);
    for (int64_t i = 0; i < read.n; i++) {
        void *part = (char *)read.items + (size_t)i * table->bytes;
        const yaml_node_t *node = node_at(at->file, items[i]);
        const void *before = find_named(at->file, table, list, node);
        if (before != NULL)
            memcpy(part, before, table->bytes);
        else if (table->init != NULL)
            table->init(part);
        int status = read_mapping(at->file, node, table, before != NULL, part);
        if (status != EXIT_DONE) return status;
    }
    *list = read;
    return check_names(at, table, list);
}

static int read_value(const place *at, bool over, void *member) {
    double number = 0;
    int status = EXIT_DONE;
    switch (at->key->kind) {
        case KEY_TEXT:
        case KEY_NAME:
            return read_plain_text(at, member);
        case KEY_WORD:
            return read_word(at, member);
        case KEY_WHOLE:
            status = read_number(at, true, &number);
            if (status == EXIT_DONE) *(int64_t *)member = (int64_t)number;
            return status;
        case KEY_NUMBER:
            return read_number(at, false, member);
        case KEY_TRUTH:
            return read_truth(at, member);
        case KEY_WHOLES:
        case KEY_NUMBERS:
            return read_list(at, member);
        case KEY_PART:
            return read_mapping(at->file, at->node, at->key->part, over, member);
        case KEY_PARTS:
            return read_parts(at, member);
        case KEY_LATER:
            break;
    }
    return EXIT_DONE;
}

static int unknown_key(const yaml_file *file, int64_t line, const yaml_table *table, const char *name) {
    enum { MOST = 32 };
    const char *names[MOST];
    size_t n = 0;
    while ((int64_t)n < table->n_keys && n < MOST) names[n] = table->keys[n].name, n++;
    const char *nearest = suggest_nearest(name, names, n);
    message_note("%s, line %lld, key '%s': %s has no such key", file->path, (long long)line, name, table->what);
    if (nearest != NULL) {
        message_hint("did you mean %s?", nearest);
        return EXIT_INPUT;
    }
    char list[512] = "";
    for (size_t i = 0, at = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", names[i]);
    message_hint("its keys are %s", list);
    return EXIT_INPUT;
}

/* One "key: value"; line_met has where each key of the table was met, or 0. */
static int read_pair(const yaml_file *file, const yaml_node_pair_t *pair, const yaml_table *table, bool over,
                     int64_t *line_met, void *into) {
    const yaml_node_t *name = node_at(file, pair->key);
    if (name->type != YAML_SCALAR_NODE)
        return yaml_refuse(file, line_of(name), "the name of a key is expected, as in %s: %s", table->keys[0].name,
                           table->keys[0].example);
    for (int64_t k = 0; k < table->n_keys; k++) {
        const yaml_key *key = &table->keys[k];
        if (strcmp(key->name, (const char *)name->data.scalar.value) != 0) continue;
        if (line_met[k] > 0) {
            const place at = {file, key, name};
            return refuse(&at, "it was there before, in line %lld", (long long)line_met[k]);
        }
        line_met[k] = line_of(name);
        const place at = {file, key, node_at(file, pair->value)};
        return read_value(&at, over, (char *)into + key->offset);
    }
    return unknown_key(file, line_of(name), table, (const char *)name->data.scalar.value);
}

static int read_mapping(const yaml_file *file, const yaml_node_t *node, const yaml_table *table, bool over,
                        void *into) {
    enum { MOST = 32 };
    int64_t line_met[MOST] = {0};
    int status = EXIT_DONE;
    if (node->type != YAML_MAPPING_NODE)
        return yaml_refuse(file, line_of(node), "%s is expected: keys and their values, as in %s: %s", table->what,
                           table->keys[0].name, table->keys[0].example);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         status == EXIT_DONE && pair < node->data.mapping.pairs.top; pair++)
        status = read_pair(file, pair, table, over, line_met, into);
    for (int64_t k = 0; status == EXIT_DONE && !over && k < table->n_keys; k++)
        if (table->keys[k].required && line_met[k] == 0)
            status = yaml_refuse(file, line_of(node), "%s lacks the key '%s', as in %s: %s", table->what,
                                 table->keys[k].name, table->keys[k].name, table->keys[k].example);
    if (status == EXIT_DONE && table->check != NULL) status = table->check(file, line_of(node), into);
    return status;
}

int yaml_read(const yaml_file *file, const yaml_table *table, void *into) {
    const yaml_node_t *root = yaml_document_get_root_node((yaml_document_t *)&file->document);
    if (root == NULL)
        return message_fail(EXIT_INPUT, "%s: it is empty; its first line may read %s: %s", file->path,
                            table->keys[0].name, table->keys[0].example);
    return read_mapping(file, root, table, false, into);
}

int yaml_read_over(const yaml_file *file, const char *key, const yaml_table *table, void *into) {
    const yaml_node_t *root = yaml_document_get_root_node((yaml_document_t *)&file->document);
    if (root == NULL || root->type != YAML_MAPPING_NODE) return EXIT_DONE;
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = node_at(file, pair->key);
        if (name->type == YAML_SCALAR_NODE && strcmp((const char *)name->data.scalar.value, key) == 0)
            return read_mapping(file, node_at(file, pair->value), table, true, into);
    }
    return EXIT_DONE;
}
