/* One run of a measure: what is asked, the rows, the regression and the kernels, ready to be evaluated. */
#pragma once

#include "circe/measure_job.h"
#include "jobs/fitting.h"
#include "jobs/measure_texts.h"

/* Everything of one run, freed as one. */
typedef struct measure_job {
    circe_context *context;
    const circe_measure_job_options *options;
    const circe_watch *watch;
    input_options inputs;
    fitting_options fitting;
    kernel_choice choice_x;
    circe_dtype dtype;
    circe_transform transform;
    int64_t wanted;                 /* of --rows: 0 if it is not given, or ALL_ROWS */
    const measure *what;            /* NULL: all of them */
    const circe_measure_form *form; /* of `what`, or of circe among all; NULL: there is nothing to choose */
    unsigned uses;                  /* of `what` as the options have it, or of all together */
    bool hold_out;                  /* --regress-z holdout, where it acts */
    circe_mean_source source;
    input x, y, z;                                /* the rows that are measured; y is empty where it is not used */
    input holdout_y, holdout_z;                   /* the rows that are fitted on; unused with a model */
    input read_x, read_y, read_z;                 /* all rows */
    input weights, holdout_weights, read_weights; /* of the same rows; empty if rows count alike */
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

/* Whether an option differs from its default. */
bool measure_job_given(const measure_job *job, const char *name);

/* ---- measure_options.c ------------------------------------------------------------------------------------------- */

/* Everything that the options alone decide: which measure, which form, what it uses, where the mean comes from. Refuses
 * what contradicts. */
circe_status measure_job_choose(measure_job *job, const char *name);

/* Adds a note for every option given that had nothing to act on. */
void measure_job_note_unused(measure_job *job);

/* ---- measure.c --------------------------------------------------------------------------------------------------- */

/* Reads the rows, obtains the mean and settles kernels, width and ridge. */
circe_status measure_job_prepare(measure_job *job);
void measure_job_free(measure_job *job);

/* The measure, of a form and with a mean of z from rows that are not measured (NULL: none), for points of the job. It
 * borrows the mean. */
circe_status measure_job_open(const measure_job *job, const measure *what, const circe_measure_form *form,
                              const circe_cme *mean, circe_measure **made);

/* The mean of z itself from rows that are not measured, with the width and ridge of the job's mean: the mean at hand
 * where its kernel of z is linear, otherwise a fit of its own, which the caller destroys (*own). */
circe_status measure_job_linear_mean(measure_job *job, const circe_cme **mean, circe_cme **own);

/* ---- measure_blocks.c: more rows than can be measured at once, as the mean over random blocks -------------------- */

/* Before reading: refuses what must be measured at once (--rows all, --grad) and cannot. `foreseen`: the rows of the
 * files, or -1. */
circe_status measure_blocks_foresee(const measure_job *job, int64_t foreseen);

/* Sets in_blocks, where the rows are too many to be measured at once or the options ask for blocks. */
void measure_blocks_decide(measure_job *job);

/* x, y and z := some rows to settle kernels, width and ridge on. */
circe_status measure_blocks_sample(measure_job *job);

/* Rows to fit the mean on, and the same sample of the others. Fits, since how many rows serve depends on y. */
circe_status measure_blocks_split(measure_job *job);

/* The value of one measure, of all rows or as the mean over blocks within `seconds`; `blocks` then tells how many and
 * the standard error (blocks->blocks = 0: at once). */
circe_status measure_evaluate(const measure_job *job, circe_measure *made, double seconds, double *value,
                              circe_mat *grad, circe_block_result *blocks);
