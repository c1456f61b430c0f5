/* The one description of the command line: every command and option with its default, its range and its texts. The
 * parser, the help, the man pages and the shell completions are all made from it. */
#ifndef CLI_SPEC_H
#define CLI_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum spec_command_id {
    SPEC_FIT,
    SPEC_MEASURE,
    SPEC_DEMO,
    SPEC_BENCH,
    SPEC_HELP,
    SPEC_COMPLETION,
    SPEC_MAN,
    SPEC_N_COMMANDS,
} spec_command_id;

/* In the order in which help shows them. */
typedef enum spec_option_id {
    OPT_X,
    OPT_Y,
    OPT_Z,
    OPT_DATA,
    OPT_COLUMNS_X,
    OPT_COLUMNS_Y,
    OPT_COLUMNS_Z,
    OPT_MISSING,
    OPT_MODEL,
    OPT_HOLDOUT_Y,
    OPT_HOLDOUT_Z,
    OPT_HOLDOUT_DATA,
    OPT_ESTIMATOR,
    OPT_GRAD,
    OPT_DTYPE,
    OPT_KERNEL_X,
    OPT_KERNEL_Y,
    OPT_KERNEL_Z,
    OPT_SIGMA2_X,
    OPT_SIGMA2_Y,
    OPT_SIGMA2_Z,
    OPT_RIDGE,
    OPT_FORCE_RIDGE,
    OPT_METHOD,
    OPT_TOLERANCE,
    OPT_MAX_RANK,
    OPT_RFF_FEATURES,
    OPT_RFF_BATCH,
    OPT_RFF_EVERY,
    OPT_N,
    OPT_QUICK,
    OPT_LARGE,
    OPT_SEED,
    OPT_THREADS,
    OPT_MEMORY,
    OPT_OUTPUT_MODEL,
    OPT_OUTPUT_DIR,
    OPT_JSON,
    OPT_QUIET,
    OPT_HELP,
    OPT_COUNT,
} spec_option_id;

typedef enum spec_kind {
    SPEC_FLAG,
    SPEC_TEXT,
    SPEC_PATH,
    SPEC_CHOICE,    /* one of `words`, "a|b|c" */
    SPEC_INTEGER,   /* low <= value <= high */
    SPEC_POSITIVE,  /* a number > 0 and < high, or the word in `words` */
    SPEC_POSITIVES, /* a comma-separated list of them, or the word */
    SPEC_BYTES,     /* 512M, 4G, ... */
} spec_kind;

typedef struct spec_option {
    const char *name; /* without the dashes */
    char letter;      /* the short form, or 0 */
    spec_kind kind;
    unsigned commands; /* which take it: SPEC_BIT(id) or-ed together */
    unsigned required; /* which cannot do without it */
    const char *value; /* what help calls its value; NULL for a flag */
    const char *words;
    const char *fallback; /* the default, as a user would write it; NULL: none */
    double low, high;
    const char *group;
    const char *help;
} spec_option;

#define SPEC_BIT(command) (1u << (command))

typedef struct spec_example {
    const char *what;
    const char *line;
} spec_example;

#define SPEC_MAX_EXAMPLES 5

typedef struct spec_command {
    const char *name;
    bool hidden;          /* left out of `circe --help` */
    const char *argument; /* its positional argument; NULL: none */
    const char *synopsis; /* what follows the name in a usage line */
    const char *summary;  /* one line, no full stop */
    const char
        *explanation; /* paragraphs separated by a blank line; lines that start with two spaces stay as they are */
    spec_example examples[SPEC_MAX_EXAMPLES];
} spec_command;

extern const spec_option spec_options[OPT_COUNT];
extern const spec_command spec_commands[SPEC_N_COMMANDS];

/* What `circe --help` and circe(1) say around the list of commands. */
extern const char spec_summary[];
extern const char spec_introduction[];
extern const char spec_files[];
extern const char spec_exit_status[];
extern const spec_example spec_tour[SPEC_MAX_EXAMPLES];

/* NULL where there is none. */
const spec_command *spec_find_command(const char *name);
bool spec_takes(const spec_command *command, spec_option_id option);
bool spec_requires(const spec_command *command, spec_option_id option);

/* The words a command's positional argument may be, with what each means; returns how many (at most `limit`). */
size_t spec_argument_words(const spec_command *command, const char **words, const char **meanings, size_t limit);

/* The index of a text among the words "a|b|c", or -1. */
int spec_word_index(const char *words, const char *text);

#endif
