/* A training from inside: the run while it goes on, and what its result, its JSON and its report are made from. */
#ifndef JOBS_TRAINING_H
#define JOBS_TRAINING_H

#include "jobs/notes.h"
#include "jobs/predictor.h"
#include "jobs/train_set.h"
#include "report/report.h"
#include "train/regularizer.h"

/* The result, with all that it points to. */
typedef struct trained {
    circe_training result; /* first: what the caller holds */
    training_set set;
    circe_measure_kind kind;
    float *before, *after; /* (validation rows, outputs): predictions as the network gives them */
    cJSON *settings;       /* data, columns, split and every option that shapes the result */
    char *yaml;            /* the run as a file of settings */
} trained;

static inline const trained *trained_of(const circe_training *result) { return (const trained *)(const void *)result; }

/* A run on its way to one. */
typedef struct training_job {
    circe_context *context;
    const circe_train_options *options;
    const circe_watch *watch;
    trained *made;
    training_set *set; /* of `made` */
    notes warnings;
    const char *net; /* --net, or what is taken without it */
    io_lock *lock;   /* of the output; NULL: another rank's affair */
    char *checkpoint, *fingerprint;
    circe_measure_kind kind;
    double gamma;
    double *sigma2_y, *ridge; /* --sigma2-y, --ridge */
    int64_t n_sigma2_y, n_ridge;
    int64_t *layers; /* that are regularised */
    int64_t n_layers;
    train_device *device;
    train_network *network;
    circe_measure *regularizer; /* NULL: none */
    int64_t outputs;
    train_result result;
    double began, reported; /* on the clock: this process's first step; the last word to the watch */
    int64_t began_step;     /* its number */
} training_job;

/* The regulariser's options as the job has them, for any kind. */
void training_regularizer_options(const training_job *job, circe_measure_kind kind, circe_measure_options *options);

/* Networks with a name have activations of their own. */
bool training_brings_activation(const char *net);

/* z as a regulariser of this kind sees it. */
const circe_mat *training_z(const training_part *part, circe_measure_kind kind);

/* Error, measures, floor: into the result (train_scores.c). */
circe_status training_judge(training_job *job);

/* mean (rows of `at`, columns of x) := E[x | y] by kernel ridge regression of x on y, --given as in the set, width and
 * ridge by leave-one-out; float64. */
circe_status training_conditional_mean(circe_context *context, const training_set *set, const circe_mat *y,
                                       const circe_mat *x, const circe_mat *at, circe_mat *mean);

/* Of validation row `row`: its target (of numbers) and its prediction in the table's units; its class. */
double training_target_in_units(const trained *t, int64_t row, int64_t col);
double training_prediction_in_units(const trained *t, int64_t row, int64_t col);
int64_t training_true_class(const trained *t, int64_t row);
int64_t training_found_class(const trained *t, int64_t row);

/* ---- several processes (train_ranks.c) --------------------------------------------------------------------------- */

/* Those that mpirun or srun started, as the loop trains with them; NULL: this one alone. */
const train_ranks *training_ranks(void);

/* Keeps, of the training rows, this process's slice. */
void training_ranks_divide(training_set *set);

/* ---- texts (train_json.c) ---------------------------------------------------------------------------------------- */

/* Into the result, from a job that is done but for its model. */
void training_describe(training_job *job);

/* ---- the report (train_report.c, train_figures.c) ---------------------------------------------------------------- */

/* While it is written. */
typedef struct training_page {
    circe_context *context;
    const trained *t;
    const char *folder;
    report *page;
    circe_status status; /* the first failure */
} training_page;

/* Each draws a figure into the folder and adds it to the page. */
void training_show_history(training_page *p);
void training_show_predictions(training_page *p);
void training_show_residuals(training_page *p);

#endif
