/* One run of `circe train`: settings, points, network and regulariser, and what came of them. `circe demo` makes two.
 */
#ifndef CLI_TRAIN_JOB_H
#define CLI_TRAIN_JOB_H

#include "cli/common/output.h"
#include "cli/common/session.h"
#include "cli/train/train_set.h"
#include "train/model.h"
#include "train/regularizer.h"
#include "train/trainer.h"

/* Whose dependence is measured. */
typedef enum training_state {
    STATE_TARGET, /* the target itself: what a perfect predictor without a regulariser would show */
    STATE_BEFORE, /* the network before its first step */
    STATE_AFTER,
    N_STATES,
} training_state;

/* By what. */
typedef enum training_measure {
    MEASURED_CIRCE,
    MEASURED_HSCIC,
    MEASURED_GCM,
    MEASURED_HSIC,
    N_MEASURED
} training_measure;

extern const char *const training_measure_name[N_MEASURED];

/* Of one column of the target, on the validation rows. */
typedef struct training_error {
    double mse, standardised, r2; /* in units; in units of the training rows' variance; 1 - MSE / variance */
} training_error;

typedef struct training_scores {
    training_error *columns;   /* (targets); NULL for classes */
    double loss;               /* MSE of standardised columns, or cross-entropy */
    double r2;                 /* mean over the columns */
    double accuracy, majority; /* of classes; of always naming the most frequent one */
    double spread;             /* variance of the prediction in units of the target's, mean over the columns */
    double floor;              /* E[Var(target | given)] in the same units, estimated; NaN: not known */
    int64_t floor_rows;        /* rows it was estimated on */
    int64_t measured_rows;
    double value[N_STATES][N_MEASURED]; /* NaN: not measured */
} training_scores;

typedef struct training_job {
    const args *arguments;
    const session *s;
    const char *label; /* before the text of the progress bar; NULL: none */
    const char *output;
    const char *net; /* --net, or what is taken without it */
    io_lock *lock;   /* of the output; NULL: another rank's affair */
    char *checkpoint, *fingerprint;
    circe_measure_kind kind;
    double gamma;
    int64_t *layers; /* that are regularised */
    int64_t n_layers;
    training_set set;
    train_device *device;
    train_network *network;
    circe_measure *regularizer; /* NULL: none */
    int64_t outputs;
    train_model model;
    train_result result;
    float *before, *after; /* (validation rows, outputs): predictions as the network gives them */
    training_scores scores;
    notes warnings;
    size_t said;        /* how many of them were printed */
    double began;       /* on the clock, of this process's first step */
    int64_t began_step; /* its number */
    int64_t last_tenth; /* of the run that a line was printed for */
} training_job;

/* All print what is wrong and return an exit status. */

/* Checks settings, reads the data and builds everything up to the first step. */
int training_job_open(const args *arguments, const session *s, const char *label, training_job *job);
/* Trains; an interrupted run says how to resume and returns EXIT_WORK. */
int training_job_run(training_job *job);
/* Error, measures, floor: scores and predictions. */
int training_job_judge(training_job *job);
/* Writes the model and removes the checkpoint. */
int training_job_save(training_job *job);
void training_job_free(training_job *job);
/* Says that the user stopped it and how to go on; returns EXIT_WORK. */
int training_job_interrupted(const training_job *job);
/* Prints the warnings that were not printed yet. */
void training_job_say(training_job *job);

/* The network, for people: "3x64, relu, 8577 parameters". */
const char *training_network_text(const training_job *job, char *out, size_t size);

/* The regulariser and what was chosen for it, for people. */
const char *training_regularizer_text(const training_job *job, char *out, size_t size);

/* Data, columns, split and every option that shapes the result. */
cJSON *training_settings_json(const training_job *job);

/* The regulariser's options as the command line has them, for any kind. */
void training_regularizer_options(const training_job *job, circe_measure_kind kind, circe_measure_options *options);

/* z as a regulariser of this kind sees it. */
const circe_mat *training_z(const training_part *part, circe_measure_kind kind);

/* mean (rows of `at`, columns of x) := E[x | y] by kernel ridge regression of x on y, --given as in the set, width and
 * ridge by leave-one-out; float64. */
circe_status training_conditional_mean(const training_job *job, const circe_mat *y, const circe_mat *x,
                                       const circe_mat *at, circe_mat *mean);

/* ---- what people and programs get (train_output.c, train_report.c) ----------------------------------------------- */

void training_print(const training_job *job, const char *report);
cJSON *training_json(const training_job *job, const char *report);
int training_report_write(const training_job *job, const char *folder);

#endif
