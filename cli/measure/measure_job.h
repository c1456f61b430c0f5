/* One run of `circe measure`: what is asked, the rows, the regression and the kernels, ready to be evaluated. */
#ifndef CLI_MEASURE_JOB_H
#define CLI_MEASURE_JOB_H

#include "cli/common/fitting.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "cli/measure/measures.h"
#include "io/inputs.h"

/* Where z's regression on y comes from. */
typedef enum mean_source {
    MEAN_OF_BATCH, /* the measured rows themselves, or there is none */
    MEAN_FROM_MODEL,
    MEAN_FROM_HOLDOUT,
    MEAN_FROM_SPLIT,
} mean_source;

/* Everything of one run, freed as one. */
typedef struct measure_job {
    const args *arguments;
    const measure *what; /* NULL: all of them */
    int form;            /* of `what`, or of circe among all; 0: there is nothing to choose */
    unsigned uses;       /* of `what` as the options have it, or of all together */
    bool hold_out;       /* --regress-z holdout, where it acts */
    mean_source source;
    session s;
    input x, y, z;                /* the rows that are measured; y is empty where it is not used */
    input holdout_y, holdout_z;   /* the rows that are fitted on; unused with a model */
    input read_x, read_y, read_z; /* all rows */
    int64_t dropped, dropped_holdout;
    int64_t given;  /* rows without missing cells, before --rows; those of x, y and z */
    bool in_blocks; /* x, y and z are a sample to settle kernels and ridge on; blocks of read_* are measured */
    int64_t *held;  /* split into blocks: the rows of read_* that were fitted on, ascending */
    int64_t n_held;
    circe_cme *mean;                     /* fitted on rows that are not measured; NULL: none is used */
    circe_cme *choice;                   /* leave-one-out on the measured rows; NULL: nothing was to choose */
    circe_kernel *own_x, *own_y, *own_z; /* from options; NULL: not used, or a model's */
    circe_kernels kernels;               /* those in use */
    double ridge;                        /* of the batch's regression, or of the mean; 0: none */
    notes warnings;
} measure_job;

/* Everything that the options alone decide: which measure, which form, what it uses, where the mean comes from. Refuses
 * what contradicts. All here print what is wrong and return an exit status. */
int measure_job_choose(const args *arguments, measure_job *job);

/* Adds a note for every option given that had nothing to act on. */
void measure_job_note_unused(measure_job *job);

/* Reads the rows, obtains the mean and settles kernels, width and ridge. */
int measure_job_prepare(measure_job *job);

/* What to evaluate; points into the job. */
measure_problem measure_job_problem(const measure_job *job);

/* The mean of z itself from rows that are not measured, with the width and ridge of the job's mean: the mean at hand
 * where its kernel of z is linear, otherwise a fit of its own, which the caller destroys (*own). Prints nothing; what
 * is wrong with a model that does not serve is in *refusal, to be freed. */
circe_status measure_job_linear_mean(measure_job *job, const circe_cme **mean, circe_cme **own, char **refusal);

void measure_job_free(measure_job *job);

/* The one form, and the table of all measures: each from a chosen job to its output. */
int measure_one(measure_job *job);
int measure_all(measure_job *job);

#endif
