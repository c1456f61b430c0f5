/* `circe --help` and `circe COMMAND --help`. */
#include "cli/help.h"

#include <string.h>

#include "cli/common/text.h"

enum { OPTION_COLUMN = 24, WORD_COLUMN = 20 }; /* words that are longer move their column */

void help_option_heading(char *out, size_t size, const circe_option *option) {
    char letter[8] = "";
    if (option->letter != 0) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(out, size, "%s--%s%s%s", letter, option->name, option->value != NULL ? " " : "",
             option->value != NULL ? option->value : "");
}

void help_option_default(char *out, size_t size, const circe_option *option) {
    out[0] = '\0';
    if (option->fallback != NULL) snprintf(out, size, " [default: %s]", option->fallback);
}

static void print_example(FILE *out, const spec_example *example) {
    if (example->what != NULL) fprintf(out, "  # %s\n", example->what);
    fprintf(out, "  %s\n", example->line);
}

static void print_option(FILE *out, const circe_option *option, int width) {
    char heading[128], fallback[128], text[2048];
    help_option_heading(heading, sizeof heading, option);
    help_option_default(fallback, sizeof fallback, option);
    bool list_words = option->words != NULL && option->kind == CIRCE_OPTION_CHOICE;
    snprintf(text, sizeof text, "%s%s%s%s", list_words ? option->words : "", list_words ? ". " : "", option->help,
             fallback);
    int at = fprintf(out, "  %s", heading);
    if (at > OPTION_COLUMN - 2) {
        fputc('\n', out);
        at = 0;
    }
    text_wrap(out, text, at, OPTION_COLUMN, width);
}

static void print_options(FILE *out, const spec_command *command, int width) {
    const char *groups[SPEC_MAX_GROUPS];
    size_t n = spec_groups(command, groups);
    for (size_t g = 0; g < n; g++) {
        fprintf(out, "%s%s\n", g == 0 ? "" : "\n", groups[g]);
        for (size_t i = 0; i < spec_n_rows(command); i++) {
            const circe_option *option = spec_row(command, i);
            if (strcmp(option->group, groups[g]) == 0) print_option(out, option, width);
        }
    }
}

static void print_argument(FILE *out, const spec_command *command, int width) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    if (n == 0) return;
    int column = WORD_COLUMN;
    for (size_t i = 0; i < n; i++)
        if ((int)strlen(words[i]) + 4 > column) column = (int)strlen(words[i]) + 4;
    fprintf(out, "%s is one of\n", command->argument);
    for (size_t i = 0; i < n; i++) text_wrap(out, meanings[i], fprintf(out, "  %s", words[i]), column, width);
    fputc('\n', out);
}

void help_command(FILE *out, const spec_command *command) {
    int width = text_width();
    text_wrap(out, command->summary, fprintf(out, "circe %s:", command->name), 0, width);
    fprintf(out, "\nUsage: circe %s %s\n\n", command->name, command->synopsis);
    if (command->explanation != NULL) text_paragraphs(out, command->explanation, width);
    print_argument(out, command, width);
    print_options(out, command, width);
    if (spec_find_row(command, "y", 1) < spec_n_rows(command)) {
        fprintf(out, "\nFiles\n");
        text_wrap(out, spec_files, 0, 2, width);
    }
    if (command->examples[0].line != NULL) fprintf(out, "\nExamples\n");
    for (int i = 0; i < SPEC_MAX_EXAMPLES && command->examples[i].line != NULL; i++)
        print_example(out, &command->examples[i]);
}

void help_overview(FILE *out) {
    int width = text_width();
    fprintf(out, "circe: %s\n\n", spec_summary);
    text_paragraphs(out, spec_introduction, width);
    fprintf(out, "Usage: circe COMMAND [options]\n\nCommands\n");
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (!spec_commands[i].hidden)
            text_wrap(out, spec_commands[i].summary, fprintf(out, "  %s", spec_commands[i].name), 14, width);
    }
    fprintf(out,
            "\n"
            "Getting started\n");
    for (int i = 0; i < SPEC_MAX_EXAMPLES && spec_tour[i].line != NULL; i++) print_example(out, &spec_tour[i]);
    fprintf(out, "\nFiles\n");
    text_wrap(out, spec_files, 0, 2, width);
    fprintf(out, "\nExit status\n");
    text_wrap(out, spec_exit_status, 0, 2, width);
    fprintf(out,
            "\n"
            "circe COMMAND --help  explains a command\n"
            "circe --version       shows the version and the libraries in use\n");
}
