/* The reference of the commands for the site (MyST Markdown), from the table of spec.c. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/common/message.h"
#include "cli/help.h"
#include "io/io.h"

/* Text that Markdown shows unchanged, except for `code` and for dashes, which stay dashes. */
static void put(FILE *out, const char *text) {
    bool code = false;
    for (; *text != '\0'; text++) {
        if (*text == '`') code = !code;
        if (!code && strchr("\\*_<>[]{}$|#", *text) != NULL) fputc('\\', out);
        if (!code && text[0] == '-' && text[1] == '-' && isalpha((unsigned char)text[2])) {
            size_t n = 2 + strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
            fprintf(out, "`%.*s`", (int)n, text);
            text += n - 1;
        } else {
            fputc(*text, out);
        }
    }
}

static void put_explanation(FILE *out, const char *text) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        char *paragraph = strndup(text, length);
        if (paragraph == NULL) return;
        bool verbatim = strncmp(text, "  ", 2) == 0;
        if (verbatim)
            fprintf(out, "```text\n%s\n```\n\n", paragraph);
        else {
            put(out, paragraph);
            fputs("\n\n", out);
        }
        free(paragraph);
        text = end != NULL ? end + 2 : text + length;
    }
}

static void put_option(FILE *out, const circe_option *option) {
    char heading[128], fallback[128];
    help_option_heading(heading, sizeof heading, option);
    help_option_default(fallback, sizeof fallback, option);
    fprintf(out, "`%s`\n: ", heading + strspn(heading, " "));
    if (option->words != NULL && option->kind == CIRCE_OPTION_CHOICE) {
        fprintf(out, "`%s`. ", option->words);
    }
    put(out, option->help);
    put(out, fallback);
    fputs("\n\n", out);
}

static void put_options(FILE *out, const spec_command *command) {
    const char *groups[SPEC_MAX_GROUPS];
    size_t n = spec_groups(command, groups);
    for (size_t g = 0; g < n; g++) {
        fprintf(out, "## %s\n\n", groups[g]);
        for (size_t i = 0; i < spec_n_rows(command); i++) {
            const circe_option *option = spec_row(command, i);
            if (strcmp(option->group, groups[g]) == 0) put_option(out, option);
        }
    }
}

static void put_argument(FILE *out, const spec_command *command) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    if (n > 0) fprintf(out, "`%s` is one of:\n\n", command->argument);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "`%s`\n: ", words[i]);
        put(out, meanings[i]);
        fputs("\n\n", out);
    }
}

static void put_examples(FILE *out, const spec_example *examples) {
    if (examples[0].line == NULL) return;
    fputs("## Examples\n\n", out);
    for (int i = 0; i < SPEC_MAX_EXAMPLES && examples[i].line != NULL; i++) {
        if (examples[i].what != NULL) {
            put(out, examples[i].what);
            fputs(":\n\n", out);
        }
        fprintf(out, "```sh\n%s\n```\n\n", examples[i].line);
    }
}

static void put_page(FILE *out, const spec_command *command) {
    fprintf(out, "# circe %s\n\n```text\ncirce %s %s\n```\n\n", command->name, command->name, command->synopsis);
    put_explanation(out, command->explanation != NULL ? command->explanation : command->summary);
    put_argument(out, command);
    put_options(out, command);
    put_examples(out, command->examples);
}

static int write_page(const char *directory, const spec_command *command) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    put_page(out, command);
    fclose(out);
    char *path = small_format("%s/%s.md", directory, command->name);
    int status = message_refused(file_write_text(path, text, bytes));
    free(path);
    free(text);
    return status;
}

int reference_write_all(const char *directory) {
    int status = EXIT_DONE;
    for (int i = 0; i < SPEC_N_COMMANDS && status == EXIT_DONE; i++) {
        if (!spec_commands[i].hidden && i != SPEC_HELP) status = write_page(directory, &spec_commands[i]);
    }
    return status;
}
