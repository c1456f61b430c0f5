/* The arguments of one command, checked against the table of spec.c: what is here is in its range. */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include "spec.h"

typedef struct args_value {
    bool given;       /* on the command line; otherwise the default, if there is one */
    const char *text; /* as written; NULL where there is neither */
    int choice;       /* SPEC_CHOICE: the index of the word */
    int64_t integer;  /* SPEC_INTEGER, SPEC_BYTES */
    double *numbers;  /* SPEC_POSITIVE(S); NULL where the word was given */
    int64_t n_numbers;
} args_value;

typedef struct args {
    const spec_command *command;
    const char *argument; /* the positional one, or NULL */
    args_value values[OPT_COUNT];
} args;

/* argv[0..argc) is what follows the command's name. Prints what is wrong and returns EXIT_INPUT, or returns EXIT_DONE.
 * Where --help is among the arguments nothing else is demanded. The texts point into argv. */
int args_parse(const spec_command *command, int argc, char **argv, args *out);
void args_free(args *arguments);

static inline bool args_given(const args *arguments, spec_option_id id) { return arguments->values[id].given; }

static inline const char *args_text(const args *arguments, spec_option_id id) { return arguments->values[id].text; }

static inline int64_t args_integer(const args *arguments, spec_option_id id) { return arguments->values[id].integer; }

static inline int args_choice(const args *arguments, spec_option_id id) { return arguments->values[id].choice; }

#endif
