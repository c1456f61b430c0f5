/* The internals of a training: the run in progress, and what its result, its JSON and its report are made from. */
#pragma once

#include "base/arena.h"
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
    float *baseline, *after; /* (judged rows, outputs): predictions as the network gives them; NULL: none */
    cJSON *settings;         /* data, columns, split and every option that shapes the result */
    const char *yaml;        /* the run as a file of settings */
    arena owner;             /* of texts and small lists */
} trained;

static inline const trained *trained_of(const circe_training *result) { return (const trained *)(const void *)result; }

#define TRAINING_SHARE 0.9 /* of the progress; then the networks are judged */

/* Warnings given so far, the number of epochs checked, and the spread of the features in the first of them. */
enum { TRAINING_NARROW = 1, TRAINING_CONSTANT = 2, TRAINING_DRIFT = 4 };
typedef struct training_watchman {
    unsigned said;
    int64_t epochs;
    double spread;
} training_watchman;

/* A run on its way to one. */
typedef struct training_job {
    circe_context *context;
    circe_train_options settled;        /* what was asked for, with the batch that the rows allow */
    const circe_train_options *options; /* these */
    const circe_table *table;           /* NULL: files */
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
    double reported;       /* on the clock: the last word to the watch */
    double from, to;       /* the share of the whole that the training at hand is, up to TRAINING_SHARE */
    char stage[96];        /* what it is for: "gamma 300, fold 2 of 5: "; "": the network itself */
    circe_model *compared; /* --baseline; NULL: none is named */
    bool search_resumed;   /* gammas were read from a file */
    training_watchman watchman;
} training_job;

/* ---- settings (train_settings.c) --------------------------------------------------------------------------------- */

/* Refuses options that do not go together, and fills kind, gamma, net, sigma2_y and ridge. */
circe_status training_check_settings(training_job *job);
/* The regulariser needs some rows in a batch. */
circe_status training_check_batch(const training_job *job);
/* Rows for the conditional mean, or for the choice of width and ridge. */
bool training_needs_holdout(const training_job *job);
/* Warns about options that do nothing here, and says what was done to the data. */
void training_note_unused(training_job *job);
/* Warns of columns that determine each other (train_relations.c). */
void training_note_relations(training_job *job);

/* The regulariser's options as the job has them, for any kind. */
void training_regularizer_options(const training_job *job, circe_measure_kind kind, circe_measure_options *options);

/* Networks with a name have activations of their own. */
bool training_brings_activation(const char *net);

/* z as a regulariser of this kind sees it. */
const circe_mat *training_z(const training_part *part, circe_measure_kind kind);

/* ---- trainings (train.c) ----------------------------------------------------------------------------------------- */

/* A network that is trained in addition to the requested one. */
typedef struct training_trial {
    const training_part *rows, *watched; /* to learn from; for the curve, NULL: none */
    circe_measure *regularizer;          /* NULL: none */
    double gamma;
    uint64_t seed;
    int64_t epochs, patience;
} training_trial;

/* Trains job->network anew, without checkpoints. */
circe_status training_try(training_job *job, const training_trial *trial);
/* out (part's rows, outputs) := the output of job->network for them. The caller frees it. */
circe_status training_ask(const training_job *job, const training_part *part, float **out);
/* The regulariser of the job for these rows, of which `holdout` (NULL: they themselves) teach the conditional mean. */
circe_status training_regularizer_for(const training_job *job, const training_part *rows, const training_part *holdout,
                                      circe_measure **regularizer);

/* ---- the watchman (train_watchman.c) ----------------------------------------------------------------------------- */

void training_watch_epochs(training_job *job, const train_epoch *history, int64_t epochs);
/* Checks the requested network after it has been judged. */
void training_watch_end(training_job *job);

/* ---- the choice of gamma (train_gamma.c, train_search_file.c) ---------------------------------------------------- */

/* If gamma is to be chosen, or a sweep is requested: sets job->gamma and the result's trials. */
circe_status training_choose_gamma(training_job *job);
/* What the search has found, in a file beside the model: read where the run is resumed. Removed with `forget`. */
circe_status training_search_load(training_job *job, circe_training_trial **trials, int64_t *n);
circe_status training_search_save(const training_job *job, const circe_training_trial *trials, int64_t n);
void training_search_forget(const training_job *job);

/* ---- what a prediction is worth (train_score.c, train_groups.c) -------------------------------------------------- */

/* loss (n) := of every row, MSE over its columns or cross-entropy. */
void training_row_losses(const training_set *set, const training_part *part, const float *outputs, double *loss);
/* The class of a row of outputs. */
static inline int64_t training_likeliest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++) best = row[c] > row[best] ? c : best;
    return best;
}
/* What they are divided by: the variance of the part's target, a mean over its columns; 1 of classes. */
double training_loss_unit(const training_set *set, const training_part *part);
/* The mean of n values with its interval, by drawing rows again. */
circe_training_estimate training_mean(const double *values, int64_t n, int64_t seed);
/* Of so many rows, where nothing is known: NaN. */
circe_training_score training_unknown_score(int64_t rows);
/* Error, rates, tests and effect; `intervals`: of KPC too, which take long. */
circe_status training_score(const training_job *job, const training_part *part, const float *outputs, bool intervals,
                            circe_training_score *score);
/* Its halves: error and rates; tests and effect. */
circe_status training_score_error(const training_job *job, const training_part *part, const float *outputs,
                                  circe_training_score *score);
circe_status training_score_dependence(const training_job *job, const training_part *part, const float *outputs,
                                       bool intervals, circe_training_score *score);
/* Rates or errors of the groups of --invariant-to, into the result. */
circe_status training_compare_groups(training_job *job);

/* ---- the comparison (train_baseline.c) --------------------------------------------------------------------------- */

/* Whether there is one; that of --baseline is loaded before anything takes long. */
bool training_has_baseline(const training_job *job);
circe_status training_open_baseline(training_job *job);
/* job->made->baseline: of the same network without the regulariser, or of --baseline. */
circe_status training_make_baseline(training_job *job);
/* Is it the same network without the regulariser? */
bool training_compares_itself(const circe_training *result);

/* Error, measures, floor: into the result (train_scores.c). */
circe_status training_judge(training_job *job);

/* mean (rows of `at`, columns of x) := E[x | y] by kernel ridge regression of x on y, --given as in the set, width and
 * ridge by leave-one-out; float64. */
circe_status training_conditional_mean(circe_context *context, const training_set *set, const circe_mat *y,
                                       const circe_mat *x, const circe_mat *at, circe_mat *mean);

/* For judged row `row`: its target (if it is a number) and its prediction in the table's units; its class. */
double training_target_in_units(const trained *t, int64_t row, int64_t col);
double training_prediction_in_units(const trained *t, int64_t row, int64_t col);
int64_t training_true_class(const trained *t, int64_t row);
int64_t training_found_class(const trained *t, int64_t row);

/* ---- several processes (train_ranks.c) --------------------------------------------------------------------------- */

/* The processes that mpirun or srun started, for the training loop; NULL: there is only this one. */
const train_ranks *training_ranks(void);

/* Keeps only this process's slice of the training rows. */
void training_ranks_divide(training_set *set);
/* The device for this process. With "cuda" and "auto", each rank of a machine gets another GPU as long as there are
 * enough. */
const char *training_device(const char *name, char own[16]);

/* ---- texts (train_json.c) ---------------------------------------------------------------------------------------- */

/* Into the result, from a job whose network is trained. */
void training_describe(training_job *job);
/* What shapes the result, as a file of settings; to be freed. */
char *training_yaml(const training_job *job);

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
void training_show_features(training_page *p);
void training_show_sweep(training_page *p);
void training_show_predictions(training_page *p);
void training_show_residuals(training_page *p);
