/* A configuration is a YAML mapping from the long names of options to their values:
 *
 *     data: people.csv
 *     features: [a, y, z]        # or a,y,z, as on the command line
 *     gamma: 1000
 *     resume: true               # flags are true or false
 *
 * It is read by libyaml as a tree whose nodes know their lines, so that every refusal can name one. */
#include "cli/common/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/yaml_load.h"
#include "io/list.h"
#include "io/suggest.h"

typedef struct reader {
    args *arguments;
    const char *path;
    yaml_document_t *document;
    size_t *line_of; /* (rows): where an option was met; 0: not yet */
} reader;

static size_t line_of(const yaml_node_t *node) { return node->start_mark.line + 1; }

static const char *scalar(const yaml_node_t *node) { return (const char *)node->data.scalar.value; }

/* A scalar that C can hold as a text, and which says something. */
static bool is_text(const yaml_node_t *node) {
    if (node == NULL || node->type != YAML_SCALAR_NODE) return false;
    const char *text = scalar(node);
    if (strlen(text) != node->data.scalar.length) return false;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return true;
    return text[0] != '\0' && strcmp(text, "~") != 0 && strcmp(text, "null") != 0;
}

static bool takes_list(const circe_option *option) {
    return option->kind == CIRCE_OPTION_LIST || option->kind == CIRCE_OPTION_POSITIVES;
}

static int refuse_value(const circe_option *option) {
    if (option->kind == CIRCE_OPTION_FLAG)
        return message_fail(EXIT_INPUT, "true or false is expected: %s: true", option->name);
    const char *example = option->fallback != NULL ? option->fallback : option->value;
    if (takes_list(option))
        return message_fail(EXIT_INPUT, "a value or a list of them is expected: %s: [%s]", option->name, example);
    return message_fail(EXIT_INPUT, "one value is expected: %s: %s", option->name, example);
}

static int read_flag(reader *r, size_t id, const yaml_node_t *value) {
    bool on = is_text(value) && strcmp(scalar(value), "true") == 0;
    if (!on && !(is_text(value) && strcmp(scalar(value), "false") == 0))
        return refuse_value(spec_row(r->arguments->command, id));
    return on ? args_set(r->arguments, id, small_format("true")) : EXIT_DONE;
}

/* "a,y,z"; NULL where an item is no text. */
static char *join(reader *r, const yaml_node_t *list) {
    char *text = NULL;
    size_t bytes = 0;
    bool sound = list->data.sequence.items.top > list->data.sequence.items.start;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    for (yaml_node_item_t *item = list->data.sequence.items.start; item < list->data.sequence.items.top; item++) {
        const yaml_node_t *node = yaml_document_get_node(r->document, *item);
        sound = sound && is_text(node);
        if (!sound) break;
        if (item > list->data.sequence.items.start) fputc(',', out);
        name_list_put(out, scalar(node));
    }
    fclose(out);
    if (sound) return text;
    free(text);
    return NULL;
}

static int read_value(reader *r, size_t id, const yaml_node_t *value) {
    const circe_option *option = spec_row(r->arguments->command, id);
    char *text = NULL;
    if (option->kind == CIRCE_OPTION_FLAG) return read_flag(r, id, value);
    if (is_text(value))
        text = small_format("%s", scalar(value));
    else if (value != NULL && value->type == YAML_SEQUENCE_NODE && takes_list(option))
        text = join(r, value);
    return text != NULL ? args_set(r->arguments, id, text) : refuse_value(option);
}

/* In a file: not help, nor another file. */
static bool may_be_set(const circe_option *row) {
    return strcmp(row->name, "help") != 0 && strcmp(row->name, "config") != 0;
}

static int unknown_key(const reader *r, const char *key) {
    const spec_command *command = r->arguments->command;
    size_t n = 0;
    const char **names = small_alloc(spec_n_rows(command) * sizeof *names);
    for (size_t i = 0; i < spec_n_rows(command); i++) {
        if (may_be_set(spec_row(command, i))) names[n++] = spec_row(command, i)->name;
    }
    const char *nearest = suggest_nearest(key, names, n);
    message_note("there is no such option");
    if (nearest != NULL)
        message_hint("did you mean %s?", nearest);
    else
        message_hint("keys are the long names of options; circe %s --help lists them", command->name);
    free(names);
    return EXIT_INPUT;
}

static int read_pair(reader *r, const yaml_node_t *key, const yaml_node_t *value) {
    if (!is_text(key)) return message_fail(EXIT_INPUT, "the name of an option is expected, as in gamma: 1000");
    const spec_command *command = r->arguments->command;
    size_t id = spec_find_row(command, scalar(key), strlen(scalar(key)));
    if (id == spec_n_rows(command) || !may_be_set(spec_row(command, id))) return unknown_key(r, scalar(key));
    if (r->line_of[id] > 0) return message_fail(EXIT_INPUT, "it was there before, in line %zu", r->line_of[id]);
    r->line_of[id] = line_of(key);
    return r->arguments->given[id] ? EXIT_DONE : read_value(r, id, value);
}

/* The same, with messages that say where. */
static int read_pair_at(reader *r, const yaml_node_pair_t *pair) {
    const yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
    char *place = is_text(key) ? small_format("%s, line %zu, key '%s': ", r->path, line_of(key), scalar(key))
                               : small_format("%s, line %zu: ", r->path, line_of(key));
    message_set_place(place);
    int status = read_pair(r, key, yaml_document_get_node(r->document, pair->value));
    message_set_place(NULL);
    free(place);
    return status;
}

static int read_root(reader *r) {
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    int status = EXIT_DONE;
    if (root == NULL) return message_fail(EXIT_INPUT, "%s: it is empty; a line of it reads gamma: 1000", r->path);
    if (root->type != YAML_MAPPING_NODE)
        return message_fail(EXIT_INPUT, "%s, line %zu: options and their values are expected, as in gamma: 1000",
                            r->path, line_of(root));
    /* The options of the command line win: what is given now stays. */
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         status == EXIT_DONE && pair < root->data.mapping.pairs.top; pair++)
        status = read_pair_at(r, pair);
    return status;
}

static int refuse_syntax(const char *path, const yaml_parser_t *parser) {
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    size_t line = parser->problem_mark.line + 1, began = parser->context_mark.line + 1;
    if (parser->context == NULL)
        message_note("%s, line %zu: not YAML: %s", path, line, problem);
    else
        message_note("%s, line %zu: not YAML: %s %s that begins in line %zu", path, line, problem, parser->context,
                     began);
    message_hint("one option a line: NAME: VALUE, with a space after the colon");
    return EXIT_INPUT;
}

static int read_text(args *arguments, const char *path, const char *text, size_t bytes) {
    yaml_parser_t parser;
    yaml_document_t document;
    bool sound = false;
    int status = yaml_load(path, text, bytes, &parser, &document, &sound);
    if (sound) {
        size_t *lines = small_alloc(spec_n_rows(arguments->command) * sizeof *lines);
        reader r = {.arguments = arguments, .path = path, .document = &document, .line_of = lines};
        status = read_root(&r);
        free(lines);
        yaml_document_delete(&document);
    } else if (status == EXIT_DONE) {
        status = refuse_syntax(path, &parser);
    }
    yaml_parser_delete(&parser);
    return status;
}

int config_read(args *arguments) {
    const char *path = arguments->own.config;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return message_fail(EXIT_INPUT, "--config %s: %s", path, strerror(errno));
    char *text = NULL;
    size_t bytes = 0;
    int status = yaml_load_text(path, file, &text, &bytes);
    fclose(file);
    if (status == EXIT_DONE) status = read_text(arguments, path, text, bytes);
    free(text);
    return status;
}
