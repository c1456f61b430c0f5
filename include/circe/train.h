/* Trains a network whose output does not depend on some columns once others are known. */
#ifndef CIRCE_TRAIN_H
#define CIRCE_TRAIN_H

#include "circe/predict.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_train_options {
#include "circe/options/train.def"
} circe_train_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_train_schema;
/* Sets every field to its default. */
CIRCE_API void circe_train_options_init(circe_train_options *options);

/* The predictors whose dependence is measured, and the measures. */
typedef enum circe_training_state {
    CIRCE_TRAINING_TARGET = 0,   /* the target itself, as a perfect predictor would give it */
    CIRCE_TRAINING_BASELINE = 1, /* the same network, trained without a regulariser */
    CIRCE_TRAINING_AFTER = 2,
    CIRCE_TRAINING_STATES = 3,
} circe_training_state;

typedef enum circe_training_measure {
    CIRCE_TRAINING_CIRCE = 0,
    CIRCE_TRAINING_HSCIC = 1,
    CIRCE_TRAINING_GCM = 2,
    CIRCE_TRAINING_HSIC = 3,
    CIRCE_TRAINING_MEASURES = 4,
} circe_training_measure;

/* One epoch: means over its batches, and losses on the validation rows at its end (NaN: not computed). */
typedef struct circe_training_epoch {
    double loss, regularizer, validation_loss, validation_regularizer, rate, gamma, seconds;
    double mean_kernel; /* of the features, between two rows; near 0 or 1, the regulariser sees nothing */
    double spread;      /* their standard deviation */
} circe_training_epoch;

/* The error of one column of the target, on the test rows (the validation rows if there are none). */
typedef struct circe_training_error {
    const char *name;
    double mse, standardised, r2; /* in squared units; relative to the variance of these rows; 1 minus that */
} circe_training_error;

/* A value with its 95 % interval. */
typedef struct circe_training_estimate {
    double value, lower, upper;
} circe_training_estimate;

/* How good a network is on rows that it was not trained on. */
typedef struct circe_training_score {
    int64_t rows;
    circe_training_estimate error; /* MSE relative to the variance of these rows, or cross-entropy */
    double accuracy, auc;          /* for classes; for two classes */
    double p_kci, p_gcm;           /* p-values for independence of the prediction and --invariant-to, given --given */
    circe_training_estimate kpc; /* what --invariant-to explains of the prediction's variation that --given does not */
    double kpc_chance;           /* its expected value without dependence, on this number of rows */
} circe_training_score;

/* One gamma of a search or a sweep, judged on rows that were left out in turn. */
typedef struct circe_training_trial {
    double gamma;
    circe_training_score score;
    int invariant; /* no dependence was found, or it is within the tolerance */
    int chosen;
} circe_training_trial;

/* The rows with one value of --invariant-to, or with a range of its numbers: rates for two classes, errors for
 * numbers. */
typedef struct circe_training_group {
    char *column, *group;
    int64_t rows;
    double selected[2], true_positive[2], false_positive[2], accuracy[2], error[2]; /* after, baseline */
} circe_training_group;

/* The result of a training. Unknown numbers are NaN, missing texts NULL. */
typedef struct circe_training {
    circe_model *model;                  /* the caller may take it and set it to NULL */
    char *path;                          /* the file of the model; NULL: none */
    char *data;                          /* the source of the rows */
    char *network;                       /* "3x64, relu, 8577 parameters" */
    char *regularizer;                   /* the measure and the choices made for it */
    char *images;                        /* "1152 of 42 by 48 pixels, grey, kept as bytes (2.3 MB)"; NULL: a table */
    char *target, *given, *invariant_to; /* "b, c, d and 9 more"; NULL: none */
    int given_is_target;
    int regularised; /* 0: without a regulariser, and gamma is 0 */
    double gamma;
    int64_t seed;
    int64_t rows, dropped; /* rows used; rows left out because cells are missing */
    int64_t training_rows, validation_rows;
    int64_t holdout_rows;  /* rows that taught the conditional mean; without a holdout, the training rows */
    circe_columns columns; /* columns that are not plain numbers */
    int64_t parameters;

    int64_t epochs, steps;
    int64_t best_epoch; /* index into history; -1: none */
    int stopped_early, resumed;
    double seconds, regularizer_seconds; /* in total, and for the regulariser */
    circe_training_epoch *history;       /* (epochs) */

    /* on the test rows, or on the validation rows if there are none */
    int64_t outputs;              /* columns of the target, or classes */
    const char *const *classes;   /* (outputs); NULL: numbers */
    circe_training_error *errors; /* (outputs); NULL: classes */
    double loss;                  /* MSE relative to the variance of these rows, or cross-entropy */
    double r2, spread;            /* for numbers, means over columns; spread: variance relative to the target's */
    double accuracy, majority;    /* for classes; the accuracy of always predicting the most frequent class */
    double floor;                 /* an estimate of E[Var(target | given)] relative to the variance of these rows */
    int64_t floor_rows;           /* rows of that estimate */
    double dependence[CIRCE_TRAINING_STATES][CIRCE_TRAINING_MEASURES];
    int64_t measured_rows;

    circe_notes warnings;

    int64_t test_rows; /* 0: there are none, and the validation rows are used */
    circe_training_score score, baseline_score;
    circe_training_estimate difference; /* the error minus that of the baseline, row by row */
    char *baseline;                     /* the model it is compared with; NULL: none */
    circe_training_trial *trials;       /* (n_trials), gamma ascending */
    int64_t n_trials, trial_rows;
    int gamma_chosen, gamma_reached; /* the search chose gamma; with it, no dependence is found */
    double tolerance;                /* of the search; NaN: tests decided */
    circe_training_group *groups;
    int64_t n_groups;
} circe_training;

/* Trains on `table` or, if it is NULL, on the file or images that the options name. The model stays in memory, and is
 * written to a file if `output` is given. Meanwhile a checkpoint next to that file keeps the training and the state of
 * a search for gamma. If the watch stops the training, the checkpoint stays and the function returns
 * CIRCE_ERR_CANCELLED. All ranks must call it; only the first gets the complete result. */
CIRCE_API circe_status circe_train(circe_context *context, const circe_table *table, const circe_train_options *options,
                                   const circe_watch *watch, circe_training **training);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_training_free(circe_training *training);

/* The result as `circe train --json` prints it, for circe_text_free; NULL: no memory. `report` names the folder of its
 * report; NULL: none. */
CIRCE_API char *circe_training_json(const circe_training *training, const char *report);

/* Writes report.html with its figures, results.json, results.csv (one row per epoch), predictions.csv (test rows),
 * sweep.csv (one row per gamma) and run.yaml, which repeats the training, into an existing folder. */
CIRCE_API circe_status circe_training_report(circe_context *context, const circe_training *training,
                                             const char *folder);

CIRCE_END_DECLS

#endif
