/* Man pages (troff, man(7)) from the table of spec.c. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "circe/version.h"
#include "cli/common/message.h"
#include "cli/help.h"
#include "io/io.h"

/* Text as troff reads it back unchanged: dashes that can be copied, no accidental escapes or requests. */
static void put(FILE *out, const char *text, size_t length) {
    bool line_start = true;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (line_start && (c == '.' || c == '\'')) fputs("\\&", out);
        line_start = c == '\n';
        switch (c) {
            case '-':
                fputs("\\-", out);
                break;
            case '\\':
                fputs("\\e", out);
                break;
            case '\'':
                fputs("\\(aq", out);
                break;
            case '`':
                fputs("\\(ga", out);
                break;
            case '^':
                fputs("\\(ha", out);
                break;
            case '~':
                fputs("\\(ti", out);
                break;
            default:
                fputc(c, out);
        }
    }
}

static void put_text(FILE *out, const char *text) { put(out, text, strlen(text)); }

static void put_paragraphs(FILE *out, const char *text) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        bool verbatim = strncmp(text, "  ", 2) == 0;
        fputs(verbatim ? ".PP\n.nf\n" : ".PP\n", out);
        put(out, text, length);
        fputs(verbatim ? "\n.fi\n" : "\n", out);
        text = end != NULL ? end + 2 : text + length;
    }
}

static void put_heading(FILE *out, const char *page, const char *name, const char *summary) {
    fprintf(out, ".TH %s 1 \"\" \"circe %s\" \"User Commands\"\n.SH NAME\n", page, CIRCE_VERSION_STRING);
    put_text(out, name);
    fputs(" \\- ", out);
    put_text(out, summary);
    fputc('\n', out);
}

static void put_examples(FILE *out, const spec_example *examples) {
    if (examples[0].line == NULL) return;
    fputs(".SH EXAMPLES\n", out);
    for (int i = 0; i < SPEC_MAX_EXAMPLES && examples[i].line != NULL; i++) {
        if (examples[i].what != NULL) {
            fputs(".PP\n", out);
            put_text(out, examples[i].what);
            fputs(":\n", out);
        }
        fputs(".PP\n.RS 4\n.nf\n", out);
        put_text(out, examples[i].line);
        fputs("\n.fi\n.RE\n", out);
    }
}

static void put_option(FILE *out, const circe_option *option) {
    char fallback[128];
    help_option_default(fallback, sizeof fallback, option);
    fputs(".TP\n", out);
    if (option->letter != 0) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", out);
    put_text(out, option->name);
    fputs("\\fR", out);
    if (option->value != NULL) {
        fputs(" \\fI", out);
        put_text(out, option->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    if (option->words != NULL && option->kind == CIRCE_OPTION_CHOICE) {
        put_text(out, option->words);
        fputs(".\n", out);
    }
    put_text(out, option->help);
    put_text(out, fallback);
    fputc('\n', out);
}

static void put_options(FILE *out, const spec_command *command) {
    const char *groups[SPEC_MAX_GROUPS];
    size_t n = spec_groups(command, groups);
    fputs(".SH OPTIONS\n", out);
    for (size_t g = 0; g < n; g++) {
        fprintf(out, ".SS %s\n", groups[g]);
        for (size_t i = 0; i < spec_n_rows(command); i++) {
            const circe_option *option = spec_row(command, i);
            if (strcmp(option->group, groups[g]) == 0) put_option(out, option);
        }
    }
}

static void put_argument(FILE *out, const spec_command *command) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    if (n > 0) fprintf(out, ".PP\n\\fI%s\\fR is one of:\n", command->argument);
    for (size_t i = 0; i < n; i++) {
        fputs(".TP\n\\fB", out);
        put_text(out, words[i]);
        fputs("\\fR\n", out);
        put_text(out, meanings[i]);
        fputc('\n', out);
    }
}

static void put_files(FILE *out) {
    fputs(".SH FILES\n", out);
    put_text(out, spec_files);
    fputc('\n', out);
}

static void put_exit_status(FILE *out) {
    fputs(".SH EXIT STATUS\n", out);
    put_text(out, spec_exit_status);
    fputc('\n', out);
}

static void put_command_page(FILE *out, const spec_command *command) {
    char page[64], name[64];
    snprintf(page, sizeof page, "CIRCE\\-%s", command->name);
    for (char *c = page + strlen("CIRCE\\-"); *c != '\0'; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    snprintf(name, sizeof name, "circe-%s", command->name);
    put_heading(out, page, name, command->summary);
    fprintf(out, ".SH SYNOPSIS\n\\fBcirce %s\\fR ", command->name);
    put_text(out, command->synopsis);
    fputs("\n.SH DESCRIPTION\n", out);
    put_paragraphs(out, command->explanation != NULL ? command->explanation : command->summary);
    put_argument(out, command);
    put_options(out, command);
    if (spec_find_row(command, "y", 1) < spec_n_rows(command)) put_files(out);
    put_exit_status(out);
    put_examples(out, command->examples);
    fputs(".SH SEE ALSO\n.BR circe (1)\n", out);
}

static void put_main_page(FILE *out) {
    put_heading(out, "CIRCE", "circe", spec_summary);
    fputs(".SH SYNOPSIS\n\\fBcirce\\fR \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n", out);
    put_paragraphs(out, spec_introduction);
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (spec_commands[i].hidden) continue;
        fprintf(out, ".TP\n\\fB%s\\fR\n", spec_commands[i].name);
        put_text(out, spec_commands[i].summary);
        fputc('\n', out);
    }
    put_files(out);
    put_exit_status(out);
    put_examples(out, spec_tour);
    fputs(".SH SEE ALSO\n", out);
    const char *separator = "";
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (spec_commands[i].hidden || i == SPEC_HELP) continue;
        fprintf(out, "%s.BR circe\\-%s (1)", separator, spec_commands[i].name);
        separator = ",\n";
    }
    fputc('\n', out);
}

/* One page into DIRECTORY/circe[-NAME].1; `command` is NULL for the main page. */
static int write_page(const char *directory, const spec_command *command) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    if (command != NULL)
        put_command_page(out, command);
    else
        put_main_page(out);
    fclose(out);
    char *path =
        small_format("%s/circe%s%s.1", directory, command != NULL ? "-" : "", command != NULL ? command->name : "");
    int status = message_refused(file_write_text(path, text, bytes));
    free(path);
    free(text);
    return status;
}

int manpage_write_all(const char *directory) {
    int status = write_page(directory, NULL);
    for (int i = 0; i < SPEC_N_COMMANDS && status == EXIT_DONE; i++) {
        if (!spec_commands[i].hidden && i != SPEC_HELP) status = write_page(directory, &spec_commands[i]);
    }
    return status;
}
