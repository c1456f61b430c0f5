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
    SPEC_N_COMMANDS,
} spec_command_id;

/* In the order in which help shows them. */
typedef enum spec_option_id {
    OPT_PREDICTOR,
    OPT_TABLE,
    OPT_FEATURES,
    OPT_TARGET,
    OPT_GIVEN,
    OPT_INVARIANT_TO,
    OPT_PREDICTION,
    OPT_AUDIT_TARGET,
    OPT_FEW_VALUES,
    OPT_NUMBERS,
    OPT_SMALLEST_GROUP,
    OPT_FAIL_IF,
    OPT_SENSITIVE,
    OPT_POSITIVE,
    OPT_THRESHOLD,
    OPT_X,
    OPT_Y,
    OPT_Z,
    OPT_DATA,
    OPT_COLUMNS_X,
    OPT_COLUMNS_Y,
    OPT_COLUMNS_Z,
    OPT_CATEGORIES,
    OPT_NA,
    OPT_DECIMAL,
    OPT_MISSING,
    OPT_MISSING_ROWS,
    OPT_ROWS,
    OPT_ROW_WEIGHTS,
    OPT_TRANSFORM,
    OPT_VALIDATION,
    OPT_HOLDOUT,
    OPT_IMAGES,
    OPT_PATH_COLUMN,
    OPT_ARRAY,
    OPT_LABELS,
    OPT_IMAGE_SIZE,
    OPT_CHANNELS,
    OPT_REGULARIZER,
    OPT_GAMMA,
    OPT_GAMMA_WARMUP,
    OPT_TRAIN_ESTIMATOR,
    OPT_LAYERS,
    OPT_MODEL,
    OPT_HOLDOUT_Y,
    OPT_HOLDOUT_Z,
    OPT_HOLDOUT_DATA,
    OPT_REGRESS_Z,
    OPT_ESTIMATOR,
    OPT_REGRESSION,
    OPT_COMBINE,
    OPT_BLOCK_ROWS,
    OPT_BLOCKS,
    OPT_SECONDS,
    OPT_GRAD,
    OPT_DTYPE,
    OPT_AUDIT_TEST,
    OPT_ALPHA,
    OPT_NULL,
    OPT_DRAWS,
    OPT_TEST_REGRESSION,
    OPT_AUXILIARY_Y,
    OPT_AUXILIARY_Z,
    OPT_TEST_MEAN,
    OPT_TEST_SHARE,
    OPT_CALIBRATE,
    OPT_AUDIT_CALIBRATE,
    OPT_EFFECTS,
    OPT_KERNEL_X,
    OPT_KERNEL_Y,
    OPT_KERNEL_Z,
    OPT_SIGMA2_X,
    OPT_SIGMA2_Y,
    OPT_SIGMA2_Z,
    OPT_TRAIN_SIGMA2_X,
    OPT_TRAIN_SIGMA2_Y,
    OPT_TRAIN_SIGMA2_Z,
    OPT_RIDGE,
    OPT_EPSILON,
    OPT_FORCE_RIDGE,
    OPT_METHOD,
    OPT_TOLERANCE,
    OPT_MAX_RANK,
    OPT_RFF_FEATURES,
    OPT_RFF_BATCH,
    OPT_RFF_EVERY,
    OPT_N,
    OPT_DATA_FROM,
    OPT_SIZE,
    OPT_IDENTITIES,
    OPT_QUICK,
    OPT_EXPERIMENT_QUICK,
    OPT_SEEDS,
    OPT_EXPERIMENT_CONFIG,
    OPT_LARGE,
    OPT_ONLY,
    OPT_NET,
    OPT_ACTIVATION,
    OPT_INIT,
    OPT_WEIGHTS,
    OPT_LOSS,
    OPT_EPOCHS,
    OPT_BATCH,
    OPT_RATE,
    OPT_DECAY,
    OPT_WARMUP,
    OPT_PATIENCE,
    OPT_TRAIN_DTYPE,
    OPT_CHECKPOINT_EPOCHS,
    OPT_CHECKPOINT_MINUTES,
    OPT_RESUME,
    OPT_SEED,
    OPT_DEVICE,
    OPT_PRECISION,
    OPT_THREADS,
    OPT_DEMO_THREADS,
    OPT_JOBS,
    OPT_RUN_THREADS,
    OPT_MEMORY,
    OPT_OUTPUT_MODEL,
    OPT_OUTPUT_DIR,
    OPT_OUTPUT_DATA,
    OPT_SHEET,
    OPT_FORCE,
    OPT_OUTPUT_RESULTS,
    OPT_OUTPUT_RUN,
    OPT_OUTPUT_PREDICTIONS,
    OPT_OUTPUT_FIGURES,
    OPT_OUTPUT_AUDIT,
    OPT_REPORT,
    OPT_NO_REPORT,
    OPT_CONFIG,
    OPT_JSON,
    OPT_QUIET,
    OPT_HELP,
    OPT_COUNT,
} spec_option_id;

typedef enum spec_kind {
    SPEC_FLAG,
    SPEC_TEXT,
    SPEC_LIST, /* texts separated by commas */
    SPEC_PATH,
    SPEC_CHOICE,    /* one of `words`, "a|b|c" */
    SPEC_INTEGER,   /* low <= value <= high */
    SPEC_COUNT,     /* the same; without a value it is `fallback` */
    SPEC_NUMBER,    /* low <= a number <= high; high = 0: no upper limit */
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
