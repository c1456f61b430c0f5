/* The arguments of one command, checked against the table of spec.c: what is here is in its range. */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include <math.h>

#include "circe/options.h"
#include "cli/spec.h"

typedef struct args_value {
    bool given;       /* on the command line or in --config; otherwise the default, if there is one */
    const char *text; /* as written; NULL where there is neither */
    int choice;       /* SPEC_CHOICE: the index of the word */
    int64_t integer;  /* SPEC_INTEGER, SPEC_BYTES */
    double *numbers;  /* SPEC_NUMBER, SPEC_POSITIVE(S); NULL where the word was given */
    int64_t n_numbers;
} args_value;

typedef struct args {
    const spec_command *command;
    const char *argument; /* the positional one, or NULL */
    args_value values[OPT_COUNT];
    char **owned; /* texts that came from a file */
    size_t n_owned;
} args;

/* argv[0..argc) is what follows the command's name. Prints what is wrong and returns EXIT_INPUT, or returns EXIT_DONE.
 * Where --help is among the arguments nothing else is demanded. The texts point into argv, or belong to *out. */
int args_parse(const spec_command *command, int argc, char **argv, args *out);

/* The option of this name that the command takes, or OPT_COUNT. */
spec_option_id args_find(const spec_command *command, const char *name);

/* Gives an option a value as if it had been on the command line; the text (malloc; NULL for a flag) is taken over. */
int args_set(args *out, spec_option_id id, char *text);
void args_free(args *arguments);

/* The options of a job := its defaults and what was given of them; other options are the command's own. */
circe_status args_options(const args *arguments, const circe_schema *schema, void *options);

static inline bool args_given(const args *arguments, spec_option_id id) { return arguments->values[id].given; }

static inline const char *args_text(const args *arguments, spec_option_id id) { return arguments->values[id].text; }

static inline int64_t args_integer(const args *arguments, spec_option_id id) { return arguments->values[id].integer; }

/* SPEC_NUMBER, SPEC_POSITIVE: NaN where there is none, or where the word was given. */
static inline double args_number(const args *arguments, spec_option_id id) {
    const args_value *value = &arguments->values[id];
    return value->n_numbers > 0 ? value->numbers[0] : (double)NAN;
}

static inline int args_choice(const args *arguments, spec_option_id id) { return arguments->values[id].choice; }

#endif
