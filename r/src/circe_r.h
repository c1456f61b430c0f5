/* What the files of this folder share. R's errors are long jumps: whatever memory of the library a call holds lies in
 * one `held`, which held_run frees on every way out. */
#pragma once

#include <circe/circe.h>
#include <circe/jobs.h>

#define R_NO_REMAP
#include <Rinternals.h>

/* All that one call may own. Members start as NULL. */
typedef struct held {
    SEXP arguments; /* a list, protected by the caller */
    circe_context *context;
    circe_table *table;
    void *options;
    circe_test_job_result *test;
    circe_measure_job_result *measure;
    circe_audit_result *audit;
    circe_training *training;
    circe_predictions *predictions;
    circe_model *model;
    char *text;
    circe_watch watch;
    int interrupted;
} held;

/* Calls body(held) and frees what it holds, also where R jumps out of it. */
SEXP held_run(SEXP (*body)(void *), SEXP arguments);

/* An element of the arguments; R_NilValue where there is none of that name. */
SEXP held_argument(const held *h, const char *name);

/* A context of the threads that the arguments name, which asks R for interrupts. */
circe_status held_open(held *h);

/* The columns that the arguments have, as a table; none: no table. */
circe_status held_read(held *h);

/* Memory for the options of a job, with those of the arguments set. */
circe_status held_options(held *h, const circe_schema *schema);

/* list(status, text): what R code makes a condition of. An interrupt has the status -1. */
SEXP held_failure(const held *h, circe_status status);

/* A text of the library, or NA. */
SEXP held_text(const char *text);
