/* A configuration is a YAML mapping from the long names of options to their values:
 *
 *     data: people.csv
 *     features: [a, y, z]        # or a,y,z, as on the command line
 *     gamma: 1000
 *     resume: true               # flags are true or false
 *
 * Every refusal names its line. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/list.h"
#include "io/suggest.h"
#include "io/yaml.h"

typedef struct reader {
    args *arguments;
    const io_yaml *file;
    int64_t *line_of; /* (rows): where an option was met; 0: not yet */
} reader;

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

static int read_flag(reader *r, size_t id, const io_yaml_node *value) {
    bool on = value->text != NULL && strcmp(value->text, "true") == 0;
    if (!on && (value->text == NULL || strcmp(value->text, "false") != 0))
        return refuse_value(spec_row(r->arguments->command, id));
    return on ? args_set(r->arguments, id, small_format("true")) : EXIT_DONE;
}

/* "a,y,z"; NULL if an item is not text. */
static char *join(const io_yaml_node *list) {
    char *text = NULL;
    size_t bytes = 0;
    bool sound = list->n > 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    for (int64_t i = 0; i < list->n && sound; i++) {
        sound = list->items[i]->text != NULL;
        if (sound && i > 0) fputc(',', out);
        if (sound) name_list_put(out, list->items[i]->text);
    }
    fclose(out);
    if (sound) return text;
    free(text);
    return NULL;
}

static int read_value(reader *r, size_t id, const io_yaml_node *value) {
    const circe_option *option = spec_row(r->arguments->command, id);
    char *text = NULL;
    if (option->kind == CIRCE_OPTION_FLAG) return read_flag(r, id, value);
    if (value->text != NULL)
        text = small_format("%s", value->text);
    else if (value->kind == IO_YAML_LIST && takes_list(option))
        text = join(value);
    return text != NULL ? args_set(r->arguments, id, text) : refuse_value(option);
}

/* In a file: not help, nor another file. */
static bool may_be_set(const circe_option *row) {
    return strcmp(row->name, "help") != 0 && strcmp(row->name, "config") != 0;
}

static int unknown_key(const reader *r, const char *key) {
    const spec_command *command = r->arguments->command;
    size_t n = 0;
    OWNED const char **names = small_alloc(spec_n_rows(command) * sizeof *names);
    for (size_t i = 0; i < spec_n_rows(command); i++) {
        if (may_be_set(spec_row(command, i))) names[n++] = spec_row(command, i)->name;
    }
    const char *nearest = suggest_nearest(key, names, n);
    message_fail(EXIT_INPUT, "there is no such option");
    if (nearest != NULL)
        message_hint("did you mean %s?", nearest);
    else
        message_hint("keys are the long names of options; circe %s --help lists them", command->name);
    return EXIT_INPUT;
}

static int read_pair(reader *r, const io_yaml_node *key, const io_yaml_node *value) {
    if (key->text == NULL) return message_fail(EXIT_INPUT, "the name of an option is expected, as in gamma: 1000");
    const spec_command *command = r->arguments->command;
    size_t id = spec_find_row(command, key->text, strlen(key->text));
    if (id == spec_n_rows(command) || !may_be_set(spec_row(command, id))) return unknown_key(r, key->text);
    if (r->line_of[id] > 0)
        return message_fail(EXIT_INPUT, "it already occurs in line %lld", (long long)r->line_of[id]);
    r->line_of[id] = key->line;
    return r->arguments->given[id] ? EXIT_DONE : read_value(r, id, value);
}

/* The same, with messages that say where. */
static int read_pair_at(reader *r, const io_yaml_node *key, const io_yaml_node *value) {
    const char *path = r->file->path;
    OWNED char *place = key->text != NULL
                            ? small_format("%s, line %lld, key '%s': ", path, (long long)key->line, key->text)
                            : small_format("%s, line %lld: ", path, (long long)key->line);
    message_set_place(place);
    int status = read_pair(r, key, value);
    message_set_place(NULL);
    return status;
}

static int read_root(reader *r) {
    const io_yaml_node *root = r->file->root;
    int status = EXIT_DONE;
    if (root == NULL)
        return message_fail(EXIT_INPUT, "%s: it is empty; a line should look like gamma: 1000", r->file->path);
    if (root->kind != IO_YAML_MAPPING)
        return message_fail(EXIT_INPUT, "%s, line %lld: options and their values are expected, as in gamma: 1000",
                            r->file->path, (long long)root->line);
    /* The options of the command line win: what is given now stays. */
    for (int64_t i = 0; status == EXIT_DONE && i < root->n; i++)
        status = read_pair_at(r, root->keys[i], root->items[i]);
    return status;
}

int config_read(args *arguments) {
    reader r = {.arguments = arguments};
    io_yaml *file = NULL;
    circe_status read = io_yaml_read(arguments->own.config, &file);
    if (read == CIRCE_ERR_IO) return message_fail(EXIT_INPUT, "--config %s", circe_last_error());
    if (read != CIRCE_OK) return message_refused(read);
    r.file = file;
    r.line_of = small_alloc(spec_n_rows(arguments->command) * sizeof *r.line_of);
    int status = read_root(&r);
    free(r.line_of);
    io_yaml_free(file);
    return status;
}
