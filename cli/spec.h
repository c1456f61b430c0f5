/* The commands and their texts. Their options are rows: those of the job (circe/options.h) and those of the command
 * itself (cli/own.h). The parser, the help, the man pages and the shell completions are all made from these. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/own.h"

typedef enum spec_command_id {
    SPEC_FIT,
    SPEC_MEASURE,
    SPEC_TEST,
    SPEC_AUDIT,
    SPEC_TRAIN,
    SPEC_PREDICT,
    SPEC_EXPERIMENT,
    SPEC_EXPERIMENT_RUN,
    SPEC_DATA,
    SPEC_DEMO,
    SPEC_BENCH,
    SPEC_HELP,
    SPEC_COMPLETION,
    SPEC_MAN,
    SPEC_REFERENCE,
    SPEC_N_COMMANDS,
} spec_command_id;

typedef struct spec_example {
    const char *what;
    const char *line;
} spec_example;

#define SPEC_MAX_EXAMPLES 8

typedef struct spec_command {
    const char *name;
    bool hidden;          /* left out of `circe --help` */
    const char *argument; /* its positional argument; NULL: none */
    const char *synopsis; /* what follows the name in a usage line */
    const char *summary;  /* one line, no full stop */
    const char
        *explanation; /* paragraphs separated by a blank line; lines that start with two spaces stay as they are */
    spec_example examples[SPEC_MAX_EXAMPLES];
    const circe_schema *job; /* NULL: it has none */
    const circe_schema *own;
} spec_command;

extern const spec_command spec_commands[SPEC_N_COMMANDS];

/* What `circe --help` and circe(1) say around the list of commands. */
extern const char spec_summary[];
extern const char spec_introduction[];
extern const char spec_files[];
extern const char spec_exit_status[];
extern const spec_example spec_tour[SPEC_MAX_EXAMPLES];

/* NULL if there is none. */
const spec_command *spec_find_command(const char *name);
/* Its rows, those of the job first: how many there are, and one of them. */
size_t spec_n_rows(const spec_command *command);
const circe_option *spec_row(const spec_command *command, size_t i);
/* The number of the row of this name (of `length` letters); spec_n_rows: there is none. */
size_t spec_find_row(const spec_command *command, const char *name, size_t length);

/* The words a command's positional argument may be, with what each means; returns how many (at most `limit`). */
size_t spec_argument_words(const spec_command *command, const char **words, const char **meanings, size_t limit);
