/* Completion scripts for bash and zsh from the table of spec.c. */
#include <string.h>

#include "cli/help.h"

static void put_words(FILE *out, const char *words) {
    for (const char *c = words; *c != '\0'; c++) fputc(*c == '|' ? ' ' : *c, out);
}

static void put_visible_commands(FILE *out) {
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (!spec_commands[i].hidden) fprintf(out, "%s ", spec_commands[i].name);
    }
}

/* Whether file names may follow: for paths, and for variables, which name a file and perhaps some of its columns. */
static bool takes_files(const circe_option *option) {
    return option->kind == CIRCE_OPTION_PATH || strncmp(option->value, "FILE", 4) == 0;
}

/* Whether a command's positional argument is a file. */
static bool argument_is_file(const spec_command *command) {
    return command->argument != NULL && strcmp(command->argument, "DATA") == 0;
}

/* The cases "--option) what may follow ;;" of one command. */
static void bash_values(FILE *out, const spec_command *command) {
    for (size_t i = 0; i < spec_n_rows(command); i++) {
        const circe_option *option = spec_row(command, i);
        if (option->value == NULL) continue;
        fprintf(out, "                --%s", option->name);
        if (option->letter != 0) fprintf(out, "|-%c", option->letter);
        if (takes_files(option))
            fputs(") files; return ;;\n", out);
        else if (option->words != NULL) {
            fputs(") COMPREPLY=($(compgen -W \"", out);
            put_words(out, option->words);
            fputs("\" -- \"$cur\")); return ;;\n", out);
        } else
            fputs(") return ;;\n", out);
    }
}

static void bash_command(FILE *out, const spec_command *command) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    fprintf(out, "        %s)\n            case $prev in\n", command->name);
    bash_values(out, command);
    fputs("            esac\n            words=\"", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s ", words[i]);
    for (size_t i = 0; i < spec_n_rows(command); i++) fprintf(out, "--%s ", spec_row(command, i)->name);
    fputs("\"\n", out);
    if (argument_is_file(command)) fputs("            [[ $cur == -* ]] || { files; return; }\n", out);
    fputs("            ;;\n", out);
}

void completion_bash(FILE *out) {
    fputs(
        "# Completion of circe for bash, made by `circe completion bash`.\n"
        "_circe() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
        "    COMPREPLY=()\n"
        "    files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); }\n"
        "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"",
        out);
    put_visible_commands(out);
    fputs(
        "--help --version\" -- \"$cur\"))\n"
        "        return\n"
        "    fi\n"
        "    case ${COMP_WORDS[1]} in\n",
        out);
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (!spec_commands[i].hidden) bash_command(out, &spec_commands[i]);
    }
    fputs(
        "    esac\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "}\n"
        "complete -F _circe circe\n",
        out);
}

/* Text inside '...[...]' of an _arguments specification. */
static void zsh_text(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'')
            fputs("'\\''", out);
        else {
            if (strchr("[]:\\", text[i]) != NULL) fputc('\\', out);
            fputc(text[i], out);
        }
    }
}

/* Its first sentence is enough beside an option. */
static size_t first_sentence(const char *text) {
    const char *end = strstr(text, ". ");
    return end != NULL ? (size_t)(end - text) : strlen(text) - (text[strlen(text) - 1] == '.');
}

static void zsh_option(FILE *out, const circe_option *option) {
    fputs("                '", out);
    const char *equals = option->value != NULL ? "=" : "";
    if (option->letter != 0)
        fprintf(out, "(-%c --%s)'{-%c%s,--%s%s}'", option->letter, option->name, option->letter, *equals ? "+" : "",
                option->name, equals);
    else
        fprintf(out, "--%s%s", option->name, equals);
    fputc('[', out);
    zsh_text(out, option->help, first_sentence(option->help));
    fputc(']', out);
    if (option->value != NULL) {
        fprintf(out, ":%s:", option->value);
        if (takes_files(option))
            fputs("_files", out);
        else if (option->words != NULL) {
            fputc('(', out);
            put_words(out, option->words);
            fputc(')', out);
        }
    }
    fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const spec_command *command) {
    const char *words[32], *meanings[32];
    size_t n = spec_argument_words(command, words, meanings, 32);
    fprintf(out, "        %s)\n            _arguments \\\n", command->name);
    for (size_t i = 0; i < spec_n_rows(command); i++) zsh_option(out, spec_row(command, i));
    if (n > 0) {
        fprintf(out, "                '1:%s:(", command->argument);
        for (size_t i = 0; i < n; i++) fprintf(out, "%s%s", i > 0 ? " " : "", words[i]);
        fputs(")' \\\n", out);
    } else if (argument_is_file(command)) {
        fputs("                '1:DATA:_files' \\\n", out);
    }
    fputs("                && return ;;\n", out);
}

void completion_zsh(FILE *out) {
    fputs(
        "#compdef circe\n"
        "# Completion of circe for zsh, made by `circe completion zsh`.\n"
        "_circe() {\n"
        "    local -a commands\n"
        "    commands=(\n",
        out);
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (spec_commands[i].hidden) continue;
        fprintf(out, "        '%s:", spec_commands[i].name);
        zsh_text(out, spec_commands[i].summary, strlen(spec_commands[i].summary));
        fputs("'\n", out);
    }
    fputs(
        "    )\n"
        "    if (( CURRENT == 2 )); then\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    shift words\n"
        "    (( CURRENT-- ))\n"
        "    case $words[1] in\n",
        out);
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (!spec_commands[i].hidden) zsh_command(out, &spec_commands[i]);
    }
    fputs(
        "    esac\n"
        "}\n"
        "if [[ $zsh_eval_context[-1] = loadautofunc ]]; then _circe \"$@\"; else compdef _circe circe; fi\n",
        out);
}
