/* The reference of the commands for the site (MyST Markdown), from the table of spec.c. */
#include <ctype.h>
#include <string.h>

#include "base/small.h"
#include "cli/common/text.h"
#include "cli/help.h"

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

static void put_paragraph(FILE *out, const char *text, size_t length, bool verbatim) {
    OWNED char *paragraph = small_format("%.*s", (int)length, text);
    if (verbatim)
        fprintf(out, "```text\n%s\n```", paragraph);
    else
        put(out, paragraph);
    fputs("\n\n", out);
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

static void put_group(FILE *out, const char *name, bool first) {
    (void)first;
    fprintf(out, "## %s\n\n", name);
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
    text_paragraphs(out, command->explanation != NULL ? command->explanation : command->summary, put_paragraph);
    put_argument(out, command);
    help_options(out, command, put_group, put_option);
    put_examples(out, command->examples);
}

int reference_write_all(const char *directory) { return help_write_pages(directory, "", ".md", put_page); }
