/* The options that belong to a command and not to its job: how the machine is used, and what is printed. One struct for
 * all commands; each takes some of its rows. */
#pragma once

#include "circe/options.h"

typedef struct own_options {
    int64_t threads, memory; /* CIRCE_UNSET: the library's choice */
    const char *output;      /* of `test`, `audit`, `demo`, `experiment-run` */
    const char *report, *config, *device;
    int no_report, audit, json, csv, quiet, verbose, help;
    /* of bench */
    int quick, large;
    const char *only, *precision;
    /* of demo */
    int64_t n, epochs;
    int64_t seed; /* of both */
} own_options;

extern const circe_schema own_fit, own_measure, own_test, own_audit, own_train, own_predict, own_experiment,
    own_experiment_run, own_data, own_demo, own_bench, own_help;
