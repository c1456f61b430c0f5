/* The parser of command lines: --option value, --option=value, -o value, -ovalue, and -- before positional arguments
 * that start with a dash. */
#include "cli/common/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/config.h"
#include "cli/common/message.h"
#include "io/io.h"
#include "io/suggest.h"

static int refuse(const spec_command *command, const char *problem, const char *text) {
    message_note("%s '%s'", problem, text);
    message_hint("circe %s --help lists the options", command->name);
    return EXIT_INPUT;
}

static spec_option_id find_option(const spec_command *command, const char *name, size_t length) {
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        const char *candidate = spec_options[id].name;
        if (spec_takes(command, id) && strlen(candidate) == length && memcmp(candidate, name, length) == 0) return id;
    }
    return OPT_COUNT;
}

static spec_option_id find_letter(const spec_command *command, char letter) {
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        if (spec_takes(command, id) && spec_options[id].letter == letter) return id;
    }
    return OPT_COUNT;
}

static int unknown_option(const spec_command *command, const char *name, size_t length) {
    const char *names[OPT_COUNT];
    size_t n = 0;
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        if (spec_takes(command, id)) names[n++] = spec_options[id].name;
    }
    char *text = strndup(name, length);
    const char *nearest = text != NULL ? suggest_nearest(text, names, n) : NULL;
    message_note("there is no option --%.*s", (int)length, name);
    if (nearest != NULL)
        message_hint("did you mean --%s?", nearest);
    else
        message_hint("circe %s --help lists the options", command->name);
    free(text);
    return EXIT_INPUT;
}

static int bad_choice(const spec_option *option, const char *text) {
    char *copy = small_format("%s", option->words);
    const char *words[16];
    size_t n = 0;
    char *rest = NULL;
    for (char *word = strtok_r(copy, "|", &rest); word != NULL && n < 16; word = strtok_r(NULL, "|", &rest))
        words[n++] = word;
    const char *nearest = suggest_nearest(text, words, n);
    message_note("--%s is one of %s, not '%s'", option->name, option->words, text);
    if (nearest != NULL) message_hint("did you mean %s?", nearest);
    free(copy);
    return EXIT_INPUT;
}

static int convert_integer(const spec_option *option, const char *text, args_value *value) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return message_fail(EXIT_INPUT, "--%s takes a whole number, not '%s'", option->name, text);
    if (errno == ERANGE || (double)number < option->low || (double)number > option->high)
        return message_fail(EXIT_INPUT, "--%s must be between %.0f and %.0f, not %s", option->name, option->low,
                            option->high, text);
    value->integer = number;
    return EXIT_DONE;
}

/* strtod alone takes hexadecimal, blanks and words, and makes 0 of what is too small. */
static int read_number(const spec_option *option, const char *text, double *number) {
    if (!io_number(text, number))
        return message_fail(EXIT_INPUT, "--%s: '%s' is not a number%s%s", option->name, text,
                            option->words != NULL ? " or the word " : "", option->words != NULL ? option->words : "");
    if (io_number_vanished(text, *number))
        return message_fail(EXIT_INPUT, "--%s: %s is too small: it would become 0; write 0 where that is meant",
                            option->name, text);
    return EXIT_DONE;
}

/* A size as 512M, 4G, 1.5g or a plain number of bytes. */
static int convert_bytes(const spec_option *option, const char *text, args_value *value) {
    static const char units[] = "KMGT";
    char *end = NULL;
    bool decimal = isdigit((unsigned char)text[0]) && text[1] != 'x' && text[1] != 'X';
    double number = strtod(text, &end);
    bool valid = decimal && isfinite(number) && number > 0;
    if (valid && *end != '\0') {
        const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
        valid = unit != NULL;
        for (const char *u = units; valid && u <= unit; u++) number *= 1024;
        end++;
        if (*end == 'i' || *end == 'I') end++;
        if (*end == 'B' || *end == 'b') end++;
        valid = valid && *end == '\0';
    }
    if (!valid || number < 1 || number > 9e18)
        return message_fail(EXIT_INPUT, "--%s takes a size such as 512M or 4G, not '%s'", option->name, text);
    value->integer = (int64_t)number;
    return EXIT_DONE;
}

static int convert_number(const spec_option *option, const char *text, args_value *value) {
    double number;
    int status = read_number(option, text, &number);
    if (status != EXIT_DONE) return status;
    if (option->high > 0 && (number < option->low || number > option->high))
        return message_fail(EXIT_INPUT, "--%s must be between %g and %g, not %s", option->name, option->low,
                            option->high, text);
    if (number < option->low)
        return message_fail(EXIT_INPUT, "--%s must be at least %g, not %s", option->name, option->low, text);
    value->numbers = small_alloc(sizeof *value->numbers);
    value->numbers[0] = number;
    value->n_numbers = 1;
    return EXIT_DONE;
}

/* One positive number of text[0..length). */
static int convert_positive(const spec_option *option, const char *text, size_t length, double *out) {
    char piece[64];
    if (length == 0 || length >= sizeof piece)
        return message_fail(EXIT_INPUT, "--%s: '%.*s' is not a number", option->name, (int)length, text);
    memcpy(piece, text, length);
    piece[length] = '\0';
    int status = read_number(option, piece, out);
    if (status != EXIT_DONE) return status;
    if (!(*out > 0) || !isfinite(*out))
        return message_fail(EXIT_INPUT, "--%s must be greater than 0, not %s", option->name, piece);
    if (option->high > 0 && *out >= option->high)
        return message_fail(EXIT_INPUT, "--%s must be less than %g, not %s", option->name, option->high, piece);
    return EXIT_DONE;
}

static int convert_positives(const spec_option *option, const char *text, args_value *value) {
    if (option->words != NULL && strcmp(option->words, text) == 0) return EXIT_DONE;
    size_t n = 1;
    for (const char *c = text; *c != '\0'; c++) n += *c == ',';
    if (n > 1 && option->kind == SPEC_POSITIVE)
        return message_fail(EXIT_INPUT, "--%s takes one number, not '%s'", option->name, text);
    value->numbers = small_alloc(n * sizeof *value->numbers);
    for (const char *piece = text; piece != NULL;) {
        size_t length = strcspn(piece, ",");
        int status = convert_positive(option, piece, length, &value->numbers[value->n_numbers]);
        if (status != EXIT_DONE) return status;
        value->n_numbers++;
        piece = piece[length] == ',' ? piece + length + 1 : NULL;
    }
    return EXIT_DONE;
}

static int convert(const spec_option *option, args_value *value) {
    const char *text = value->text;
    switch (option->kind) {
        case SPEC_FLAG:
            return EXIT_DONE;
        case SPEC_TEXT:
        case SPEC_LIST:
        case SPEC_PATH:
            return text[0] != '\0' ? EXIT_DONE : message_fail(EXIT_INPUT, "--%s has an empty value", option->name);
        case SPEC_CHOICE:
            value->choice = spec_word_index(option->words, text);
            return value->choice >= 0 ? EXIT_DONE : bad_choice(option, text);
        case SPEC_INTEGER:
        case SPEC_COUNT:
            return convert_integer(option, text, value);
        case SPEC_NUMBER:
            return convert_number(option, text, value);
        case SPEC_BYTES:
            return convert_bytes(option, text, value);
        case SPEC_POSITIVE:
        case SPEC_POSITIVES:
            return convert_positives(option, text, value);
    }
    return EXIT_DONE;
}

/* Stores an option; `inlined` is the value written with it (NULL: take the next argument). */
static int store(args *out, spec_option_id id, const char *inlined, int argc, char **argv, int *at) {
    const spec_option *option = &spec_options[id];
    args_value *value = &out->values[id];
    if (value->given) return message_fail(EXIT_INPUT, "--%s is given twice", option->name);
    value->given = true;
    if (option->kind == SPEC_FLAG)
        return inlined == NULL ? EXIT_DONE : message_fail(EXIT_INPUT, "--%s takes no value", option->name);
    value->text = inlined;
    if (option->kind == SPEC_COUNT && inlined == NULL) {
        bool number = *at + 1 < argc && isdigit((unsigned char)argv[*at + 1][0]);
        value->text = number ? argv[++*at] : option->fallback;
    } else if (inlined == NULL && *at + 1 < argc) {
        const char *next = argv[*at + 1];
        bool is_option = next[0] == '-' && next[1] == '-' &&
                         find_option(out->command, next + 2, strcspn(next + 2, "=")) != OPT_COUNT;
        if (!is_option) value->text = argv[++*at];
    }
    if (value->text == NULL)
        return message_fail(EXIT_INPUT, "--%s needs a value: --%s %s", option->name, option->name, option->value);
    return convert(option, value);
}

spec_option_id args_find(const spec_command *command, const char *name) {
    return find_option(command, name, strlen(name));
}

int args_set(args *out, spec_option_id id, char *text) {
    args_value *value = &out->values[id];
    value->given = true;
    if (text == NULL) return EXIT_DONE;
    char **grown = realloc(out->owned, (out->n_owned + 1) * sizeof *grown);
    if (grown == NULL) {
        free(text);
        return message_fail(EXIT_WORK, "out of memory");
    }
    out->owned = grown;
    out->owned[out->n_owned++] = text;
    value->text = text;
    return convert(&spec_options[id], value);
}

static int parse_one(args *out, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    if (word[0] == '-' && word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        spec_option_id id = find_option(out->command, word + 2, length);
        if (id == OPT_COUNT) return unknown_option(out->command, word + 2, length);
        return store(out, id, word[2 + length] == '=' ? word + 3 + length : NULL, argc, argv, at);
    }
    if (word[0] == '-' && word[1] != '\0') {
        spec_option_id id = find_letter(out->command, word[1]);
        if (id == OPT_COUNT) return refuse(out->command, "there is no option", word);
        if (spec_options[id].kind == SPEC_FLAG && word[2] != '\0')
            return refuse(out->command, "there is no option", word);
        return store(out, id, word[2] != '\0' ? word + 2 : NULL, argc, argv, at);
    }
    if (out->command->argument == NULL || out->argument != NULL)
        return refuse(out->command, "unexpected argument", word);
    out->argument = word;
    return EXIT_DONE;
}

static int check_required(const args *out) {
    const spec_command *command = out->command;
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        const spec_option *option = &spec_options[id];
        if (!spec_requires(command, id) || out->values[id].given) continue;
        if (option->letter != 0)
            message_note("-%c %s is required", option->letter, option->value);
        else
            message_note("--%s %s is required", option->name, option->value);
        message_hint("usage: circe %s %s", command->name, command->synopsis);
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

static int fill_defaults(args *out) {
    for (spec_option_id id = 0; id < OPT_COUNT; id++) {
        args_value *value = &out->values[id];
        if (value->given || spec_options[id].fallback == NULL || !spec_takes(out->command, id)) continue;
        value->text = spec_options[id].fallback;
        int status = convert(&spec_options[id], value);
        if (status != EXIT_DONE) return status;
    }
    return EXIT_DONE;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    }
    return false;
}

int args_parse(const spec_command *command, int argc, char **argv, args *out) {
    *out = (args){.command = command};
    out->values[OPT_HELP].given = asks_for_help(argc, argv);
    if (out->values[OPT_HELP].given) return EXIT_DONE;
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
    int status = args_given(out, OPT_CONFIG) ? config_read(out) : EXIT_DONE;
    if (status == EXIT_DONE) status = check_required(out);
    return status == EXIT_DONE ? fill_defaults(out) : status;
}

circe_status args_options(const args *arguments, const circe_schema *schema, void *options) {
    circe_status status = CIRCE_OK;
    circe_options_init(schema, options);
    for (size_t i = 0; i < schema->n && status == CIRCE_OK; i++) {
        const char *name = schema->rows[i].name;
        spec_option_id id = args_find(arguments->command, name);
        if (id == OPT_COUNT || !args_given(arguments, id)) continue;
        bool flag = spec_options[id].kind == SPEC_FLAG;
        status = circe_options_set(schema, options, name, flag ? "true" : args_text(arguments, id));
    }
    return status;
}

void args_free(args *arguments) {
    for (size_t i = 0; i < arguments->n_owned; i++) free(arguments->owned[i]);
    free(arguments->owned);
    for (spec_option_id id = 0; id < OPT_COUNT; id++) free(arguments->values[id].numbers);
}
