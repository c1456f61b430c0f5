/* YAML to a tree, by libyaml.
 *
 * libyaml's time grows with the square of the depth: a file of 100,000 brackets takes a minute. So a first pass counts
 * the events, and stops at the first one that is too deep, long before the end. */
#include "io/yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/small.h"

enum { MOST_BYTES = 1 << 20, MOST_DEPTH = 64 };

struct io_yaml_tree {
    yaml_document_t document; /* whose texts the nodes show */
    bool loaded;
    arena owner;
};

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static circe_status read_text(const char *path, char **out) {
    FILE *in = fopen(path, "rb");
    if (in == NULL) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, strerror(errno));
    char *text = *out = small_alloc(MOST_BYTES + 2);
    size_t bytes = fread(text, 1, MOST_BYTES + 1, in);
    bool broken = ferror(in) != 0;
    fclose(in);
    if (broken) return circe_fail(CIRCE_ERR_IO, "%s: it cannot be read", path);
    if (bytes > MOST_BYTES)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it is larger than a megabyte, which is too much for a settings file",
                          path);
    if (strlen(text) != bytes) return circe_fail(CIRCE_ERR_FORMAT, "%s: it is not text: it contains a zero byte", path);
    return CIRCE_OK;
}

static int change_of_depth(yaml_event_type_t type) {
    if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) return 1;
    return type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT ? -1 : 0;
}

/* The line where it is too deep, or 0. The loader refuses what is not YAML. */
static int64_t too_deep(const char *text) {
    yaml_parser_t parser;
    yaml_event_t event;
    int64_t line = 0;
    if (yaml_parser_initialize(&parser) == 0) return 0;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    int depth = 0;
    for (bool ended = false; !ended && line == 0 && yaml_parser_parse(&parser, &event) != 0;) {
        depth += change_of_depth(event.type);
        if (depth > MOST_DEPTH) line = (int64_t)event.start_mark.line + 1;
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return line;
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

static circe_status refuse_syntax(const io_yaml *file, const yaml_parser_t *parser) {
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    int64_t line = (int64_t)parser->problem_mark.line + 1;
    if (parser->context == NULL)
        io_yaml_refuse(file, line, NULL, "not YAML: %s", problem);
    else
        io_yaml_refuse(file, line, NULL, "not YAML: %s %s that begins in line %zu", problem, parser->context,
                       parser->context_mark.line + 1);
    return circe_fail_hint(
        CIRCE_ERR_FORMAT,
        "write one key per line, as KEY: VALUE with a space after the colon, and indent what belongs to a key");
}

static circe_status load(io_yaml *file) {
    yaml_parser_t parser;
    int64_t line = too_deep(file->text);
    if (line > 0) return io_yaml_refuse(file, line, NULL, "lists or mappings are nested more than %d deep", MOST_DEPTH);
    if (yaml_parser_initialize(&parser) == 0) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", file->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)file->text, strlen(file->text));
    file->tree->loaded = yaml_parser_load(&parser, &file->tree->document) != 0;
    circe_status status = file->tree->loaded ? CIRCE_OK : refuse_syntax(file, &parser);
    yaml_parser_delete(&parser);
    return status;
}

static const char *text_of(const yaml_node_t *node) {
    const char *text = (const char *)node->data.scalar.value;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != node->data.scalar.length) return NULL;
    return plain && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0) ? NULL : text;
}

/* Numbers of nodes are counted from 1; an alias is the number of what it stands for. */
static void fill(const yaml_node_t *from, const io_yaml_node *nodes, arena *owner, io_yaml_node *to) {
    to->line = (int64_t)from->start_mark.line + 1;
    to->kind = IO_YAML_SCALAR;
    if (from->type == YAML_SCALAR_NODE) to->text = text_of(from);
    if (from->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *items = from->data.sequence.items.start;
        int64_t n = from->data.sequence.items.top - items;
        to->kind = IO_YAML_LIST;
        to->items = arena_alloc(owner, (size_t)n * sizeof *to->items);
        for (int64_t i = 0; i < n; i++) to->items[to->n++] = &nodes[items[i] - 1];
    }
    if (from->type == YAML_MAPPING_NODE) {
        const yaml_node_pair_t *pairs = from->data.mapping.pairs.start;
        int64_t n = from->data.mapping.pairs.top - pairs;
        to->kind = IO_YAML_MAPPING;
        to->items = arena_alloc(owner, (size_t)(2 * n) * sizeof *to->items);
        to->keys = to->items + n;
        for (int64_t i = 0; i < n; i++, to->n++) {
            to->keys[i] = &nodes[pairs[i].key - 1];
            to->items[i] = &nodes[pairs[i].value - 1];
        }
    }
}

static void make_tree(io_yaml *file) {
    const yaml_node_t *first = file->tree->document.nodes.start;
    int64_t n = file->tree->document.nodes.top - first;
    io_yaml_node *nodes = arena_alloc(&file->tree->owner, (size_t)n * sizeof *nodes);
    for (int64_t i = 0; i < n; i++) fill(&first[i], nodes, &file->tree->owner, &nodes[i]);
    if (n > 0) file->root = nodes; /* libyaml's root is its first node */
}

circe_status io_yaml_read(const char *path, io_yaml **out) {
    io_yaml *file = small_alloc(sizeof *file);
    *file = (io_yaml){.path = path, .tree = small_alloc(sizeof *file->tree)};
    circe_status status = read_text(path, &file->text);
    if (status == CIRCE_OK && file->text != NULL) status = load(file);
    if (status == CIRCE_OK) make_tree(file);
    if (status != CIRCE_OK) io_yaml_free(file);
    *out = status == CIRCE_OK ? file : NULL;
    return status;
}

void io_yaml_free(io_yaml *file) {
    if (file == NULL) return;
    if (file->tree->loaded) yaml_document_delete(&file->tree->document);
    arena_free(&file->tree->owner);
    free(file->tree);
    free(file->text);
    free(file);
}

const io_yaml_node *io_yaml_find(const io_yaml_node *mapping, const char *key) {
    for (int64_t i = 0; mapping != NULL && mapping->kind == IO_YAML_MAPPING && i < mapping->n; i++)
        if (mapping->keys[i]->text != NULL && strcmp(mapping->keys[i]->text, key) == 0) return mapping->items[i];
    return NULL;
}

circe_status io_yaml_refuse(const io_yaml *file, int64_t line, const char *key, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return circe_fail(CIRCE_ERR_FORMAT, "%s, line %lld%s%s%s: %s", file->path, (long long)line,
                      key != NULL ? ", key '" : "", key != NULL ? key : "", key != NULL ? "'" : "", text);
}
