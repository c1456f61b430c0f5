/* Man pages (troff, man(7)) from the table of spec.c. */
#include <string.h>

#include "base/small.h"
#include "circe/version.h"
#include "cli/common/message.h"
#include "cli/common/text.h"
#include "cli/help.h"

/* Text as troff reads it back unchanged: dashes that can be copied, no accidental escapes or requests. */
static void put(FILE *out, const char *text, size_t length) {
    static const char special[] = "-\\'`^~";
    static const char *const escapes[] = {"\\-", "\\e", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    bool line_start = true;
    for (size_t i = 0; i < length; i++) {
        const char *found = memchr(special, text[i], sizeof special - 1);
        if (line_start && (text[i] == '.' || text[i] == '\'')) fputs("\\&", out);
        line_start = text[i] == '\n';
        if (found != NULL)
            fputs(escapes[found - special], out);
        else
            fputc(text[i], out);
    }
}

static void put_text(FILE *out, const char *text) { put(out, text, strlen(text)); }

static void put_line(FILE *out, const char *text) {
    put_text(out, text);
    fputc('\n', out);
}

static void put_paragraph(FILE *out, const char *text, size_t length, bool verbatim) {
    fputs(verbatim ? ".PP\n.nf\n" : ".PP\n", out);
    put(out, text, length);
    fputs(verbatim ? "\n.fi\n" : "\n", out);
}

static void put_heading(FILE *out, const char *page, const char *name, const char *summary) {
    fprintf(out, ".TH %s 1 \"\" \"circe %s\" \"User Commands\"\n.SH NAME\n", page, CIRCE_VERSION_STRING);
    put_text(out, name);
    fputs(" \\- ", out);
    put_line(out, summary);
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
    put_line(out, fallback);
}

static void put_group(FILE *out, const char *name, bool first) {
    fprintf(out, "%s.SS %s\n", first ? ".SH OPTIONS\n" : "", name);
}

static void put_argument(FILE *out, const spec_command *command) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    if (n > 0) fprintf(out, ".PP\n\\fI%s\\fR is one of:\n", command->argument);
    for (size_t i = 0; i < n; i++) {
        fputs(".TP\n\\fB", out);
        put_text(out, words[i]);
        fputs("\\fR\n", out);
        put_line(out, meanings[i]);
    }
}

static void put_files(FILE *out) {
    fputs(".SH FILES\n", out);
    put_line(out, spec_files);
}

static void put_exit_status(FILE *out) {
    fputs(".SH EXIT STATUS\n", out);
    put_line(out, spec_exit_status);
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
    text_paragraphs(out, command->explanation != NULL ? command->explanation : command->summary, put_paragraph);
    put_argument(out, command);
    help_options(out, command, put_group, put_option);
    if (spec_find_row(command, "y", 1) < spec_n_rows(command)) put_files(out);
    put_exit_status(out);
    put_examples(out, command->examples);
    fputs(".SH SEE ALSO\n.BR circe (1)\n", out);
}

static void put_main_page(FILE *out, const spec_command *all) {
    (void)all;
    put_heading(out, "CIRCE", "circe", spec_summary);
    fputs(".SH SYNOPSIS\n\\fBcirce\\fR \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n", out);
    text_paragraphs(out, spec_introduction, put_paragraph);
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (spec_commands[i].hidden) continue;
        fprintf(out, ".TP\n\\fB%s\\fR\n", spec_commands[i].name);
        put_line(out, spec_commands[i].summary);
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

int manpage_write_all(const char *directory) {
    OWNED char *path = small_format("%s/circe.1", directory);
    int status = help_write_page(path, put_main_page, NULL);
    return status == EXIT_DONE ? help_write_pages(directory, "circe-", ".1", put_command_page) : status;
}
