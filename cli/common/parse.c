/* The parser of command lines: --option value, --option=value, -o value, -ovalue, and -- before positional arguments
 * that start with a dash. */
#include "cli/common/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "cli/common/message.h"
#include "io/suggest.h"

static int refuse(const spec_command *command, const char *problem, const char *text) {
    message_fail(EXIT_INPUT, "%s '%s'", problem, text);
    message_hint("circe %s --help lists the options", command->name);
    return EXIT_INPUT;
}

static size_t find_letter(const spec_command *command, char letter) {
    size_t i = 0, n = spec_n_rows(command);
    while (i < n && spec_row(command, i)->letter != letter) i++;
    return i;
}

static int unknown_option(const spec_command *command, const char *name, size_t length) {
    size_t n = spec_n_rows(command);
    OWNED const char **names = small_alloc(n * sizeof *names);
    for (size_t i = 0; i < n; i++) names[i] = spec_row(command, i)->name;
    OWNED char *text = small_format("%.*s", (int)length, name);
    const char *nearest = suggest_nearest(text, names, n);
    message_fail(EXIT_INPUT, "there is no option --%s", text);
    if (nearest != NULL)
        message_hint("did you mean --%s?", nearest);
    else
        message_hint("circe %s --help lists the options", command->name);
    return EXIT_INPUT;
}

static int set(args *out, size_t i, const char *text) {
    const spec_command *command = out->command;
    const char *name = spec_row(command, i)->name;
    bool job = command->job != NULL && i < command->job->n;
    circe_status status = job ? circe_options_set(command->job, out->options, name, text)
                              : circe_options_set(command->own, &out->own, name, text);
    out->given[i] = true;
    return status == CIRCE_OK ? EXIT_DONE : message_refused(status);
}

static bool is_option(const spec_command *command, const char *word) {
    return word[0] == '-' && word[1] == '-' &&
           spec_find_row(command, word + 2, strcspn(word + 2, "=")) < spec_n_rows(command);
}

/* Stores an option; `inlined` is the value written with it (NULL: take the next argument). */
static int store(args *out, size_t i, const char *inlined, int argc, char **argv, int *at) {
    const circe_option *row = spec_row(out->command, i);
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL, *text = inlined;
    if (out->given[i]) return message_fail(EXIT_INPUT, "--%s is given twice", row->name);
    if (row->kind == CIRCE_OPTION_FLAG)
        return inlined == NULL ? set(out, i, "true") : message_fail(EXIT_INPUT, "--%s takes no value", row->name);
    bool taken = inlined == NULL && next != NULL &&
                 (row->kind == CIRCE_OPTION_COUNT ? isdigit((unsigned char)next[0]) : !is_option(out->command, next));
    if (taken) text = argv[++*at];
    if (text == NULL && row->kind == CIRCE_OPTION_COUNT) text = row->fallback;
    if (text == NULL) return message_fail(EXIT_INPUT, "--%s needs a value: --%s %s", row->name, row->name, row->value);
    return set(out, i, text);
}

int args_set(args *out, size_t i, char *text) {
    char **grown = realloc(out->owned, (out->n_owned + 1) * sizeof *grown);
    if (grown == NULL) {
        free(text);
        return message_fail(EXIT_WORK, "out of memory");
    }
    out->owned = grown;
    out->owned[out->n_owned++] = text;
    return set(out, i, text);
}

static int parse_one(args *out, int argc, char **argv, int *at) {
    const spec_command *command = out->command;
    const char *word = argv[*at];
    size_t n = spec_n_rows(command);
    if (word[0] == '-' && word[1] == '-') {
        size_t length = strcspn(word + 2, "="), i = spec_find_row(command, word + 2, length);
        if (i == n) return unknown_option(command, word + 2, length);
        return store(out, i, word[2 + length] == '=' ? word + 3 + length : NULL, argc, argv, at);
    }
    if (word[0] == '-' && word[1] != '\0') {
        size_t i = find_letter(command, word[1]);
        if (i == n || (spec_row(command, i)->kind == CIRCE_OPTION_FLAG && word[2] != '\0'))
            return refuse(command, "there is no option", word);
        return store(out, i, word[2] != '\0' ? word + 2 : NULL, argc, argv, at);
    }
    if (command->argument == NULL || out->argument != NULL) return refuse(command, "unexpected argument", word);
    out->argument = word;
    return EXIT_DONE;
}

static int check_required(const args *out) {
    const spec_command *command = out->command;
    for (size_t i = 0; i < spec_n_rows(command); i++) {
        const circe_option *row = spec_row(command, i);
        if (!row->required || out->given[i]) continue;
        if (row->letter != 0)
            message_fail(EXIT_INPUT, "-%c %s is required", row->letter, row->value);
        else
            message_fail(EXIT_INPUT, "--%s %s is required", row->name, row->value);
        message_hint("usage: circe %s %s", command->name, command->synopsis);
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    }
    return false;
}

/* Every option its default. */
static void begin(const spec_command *command, args *out) {
    *out = (args){.command = command, .given = small_alloc(spec_n_rows(command) * sizeof *out->given)};
    circe_options_init(command->own, &out->own);
    if (command->job == NULL) return;
    out->options = small_alloc(command->job->bytes);
    circe_options_init(command->job, out->options);
}

int args_parse(const spec_command *command, int argc, char **argv, args *out) {
    begin(command, out);
    out->own.help = asks_for_help(argc, argv);
    if (out->own.help) return EXIT_DONE;
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        int status = EXIT_DONE;
        if (!only_arguments && strcmp(argv[i], "--") == 0)
            only_arguments = true;
        else if (only_arguments && (command->argument == NULL || out->argument != NULL))
            status = refuse(command, "unexpected argument", argv[i]);
        else if (only_arguments)
            out->argument = argv[i];
        else
            status = parse_one(out, argc, argv, &i);
        if (status != EXIT_DONE) return status;
    }
    int status = out->own.config != NULL ? config_read(out) : EXIT_DONE;
    return status == EXIT_DONE ? check_required(out) : status;
}

void args_free(args *arguments) {
    for (size_t i = 0; i < arguments->n_owned; i++) free(arguments->owned[i]);
    free(arguments->owned);
    free(arguments->options);
    free(arguments->given);
}
