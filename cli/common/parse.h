/* The arguments of one command: its job's options and its own, as the command line and --config have them. What is here
 * is in its range. */
#pragma once

#include <stdbool.h>

#include "cli/spec.h"

typedef struct args {
    const spec_command *command;
    const char *argument; /* the positional one, or NULL */
    void *options;        /* the job's: circe_fit_options, ...; NULL: it has none */
    own_options own;
    bool *given;  /* (rows): on the command line or in --config */
    char **owned; /* texts that came from a file */
    size_t n_owned;
} args;

/* argv[0..argc) is what follows the command's name. Prints what is wrong and returns EXIT_INPUT, or returns EXIT_DONE.
 * Where --help is among the arguments nothing else is demanded. The texts point into argv, or belong to *out. */
int args_parse(const spec_command *command, int argc, char **argv, args *out);

/* Gives row i a value as if it had been on the command line; the text (malloc) is taken over. */
int args_set(args *out, size_t i, char *text);
void args_free(args *arguments);

/* Adds the options of the file that --config names, except those that are given already. Values are checked by the code
 * that checks the command line's. Prints what is wrong, with file, line and key, and returns an exit status. */
int config_read(args *arguments);
