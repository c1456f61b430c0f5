/* `circe --help` and `circe COMMAND --help`. */
#include "cli/help.h"

#include <string.h>

#include "base/file.h"
#include "base/small.h"
#include "cli/common/message.h"
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

static void print_option(FILE *out, const circe_option *option) {
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
    text_wrap(out, text, at, OPTION_COLUMN, text_width());
}

static bool same_group(const spec_command *command, size_t i, size_t k) {
    return strcmp(spec_row(command, i)->group, spec_row(command, k)->group) == 0;
}

void help_options(FILE *out, const spec_command *command, void (*group)(FILE *out, const char *name, bool first),
                  void (*option)(FILE *out, const circe_option *option)) {
    size_t n = spec_n_rows(command);
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;
        while (!same_group(command, first, i)) first++;
        if (first < i) continue;
        group(out, spec_row(command, i)->group, i == 0);
        for (size_t k = i; k < n; k++)
            if (same_group(command, k, i)) option(out, spec_row(command, k));
    }
}

int help_write_page(const char *path, help_page_fn *page, const spec_command *command) {
    OWNED char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return message_fail(EXIT_WORK, "out of memory");
    page(out, command);
    fclose(out);
    return message_refused(file_write_text(path, text, bytes));
}

int help_write_pages(const char *directory, const char *prefix, const char *ending, help_page_fn *page) {
    int status = EXIT_DONE;
    for (int i = 0; i < SPEC_N_COMMANDS && status == EXIT_DONE; i++) {
        if (spec_commands[i].hidden || i == SPEC_HELP) continue;
        OWNED char *path = small_format("%s/%s%s%s", directory, prefix, spec_commands[i].name, ending);
        status = help_write_page(path, page, &spec_commands[i]);
    }
    return status;
}

static void print_group(FILE *out, const char *name, bool first) { fprintf(out, "%s%s\n", first ? "" : "\n", name); }

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
    if (command->explanation != NULL) text_paragraphs(out, command->explanation, text_paragraph);
    print_argument(out, command, width);
    help_options(out, command, print_group, print_option);
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
    text_paragraphs(out, spec_introduction, text_paragraph);
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
            "circe COMMAND --help    explains a command\n"
            "circe --version         shows the version and the libraries in use\n"
            "circe completion SHELL  prints the completion script of bash or zsh\n");
}
