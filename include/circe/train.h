/* Training of a network whose output does not depend on some columns, once others are known. */
#ifndef CIRCE_TRAIN_H
#define CIRCE_TRAIN_H

#include "circe/predict.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_train_options {
#include "circe/options/train.def"
} circe_train_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_train_schema;
CIRCE_API void circe_train_options_init(circe_train_options *options);

/* Whose dependence is measured, and by what. */
typedef enum circe_training_state {
    CIRCE_TRAINING_TARGET = 0,   /* the target itself: what a perfect predictor without a regulariser would show */
    CIRCE_TRAINING_BASELINE = 1, /* the network that it is compared with: the same one, trained without a regulariser */
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

/* One epoch: means over its batches, and the validation rows at its end (NaN: not looked at). */
typedef struct circe_training_epoch {
    double loss, regularizer, validation_loss, validation_regularizer, rate, gamma, seconds;
    double mean_kernel; /* of the regularised features between two rows: near 0 or 1 the regulariser sees nothing */
    double spread;      /* their standard deviation */
} circe_training_epoch;

/* Of one column of the target, on the judged rows. */
typedef struct circe_training_error {
    const char *name;
    double mse, standardised, r2; /* in units; in units of these rows' variance; 1 less that */
} circe_training_error;

/* A value with its 95 % interval. */
typedef struct circe_training_estimate {
    double value, lower, upper;
} circe_training_estimate;

/* What a network is worth on rows that it was not trained on. */
typedef struct circe_training_score {
    int64_t rows;
    circe_training_estimate error; /* MSE in units of these rows' variance, or cross-entropy */
    double accuracy, auc;          /* of classes; the second of two */
    double p_kci, p_gcm;           /* of tests that the prediction does not depend on --invariant-to given --given */
    circe_training_estimate kpc;   /* the share of what --given leaves of the prediction that --invariant-to explains */
    double kpc_chance;             /* what it is without any dependence, on so many rows */
} circe_training_score;

/* One gamma of a search or a sweep, on rows that were left out in turn. */
typedef struct circe_training_trial {
    double gamma;
    circe_training_score score;
    int invariant; /* dependence was not found, or is within the tolerance */
    int chosen;
} circe_training_trial;

/* Rows of one value of --invariant-to, or of a range of its numbers: rates of classes of two, errors of numbers. */
typedef struct circe_training_group {
    char *column, *group;
    int64_t rows;
    double selected[2], true_positive[2], false_positive[2], accuracy[2], error[2]; /* after, baseline */
} circe_training_group;

/* What came of a training. Numbers that are not known are NaN, texts that say nothing NULL. */
typedef struct circe_training {
    circe_model *model;                  /* may be taken, and NULL left in its place */
    char *path;                          /* where it was written; NULL: nowhere */
    char *data;                          /* what the rows were read from */
    char *network;                       /* "3x64, relu, 8577 parameters" */
    char *regularizer;                   /* the measure and the choices made for it */
    char *images;                        /* "1152 of 42 by 48 pixels, grey, kept as bytes (2.3 MB)"; NULL: a table */
    char *target, *given, *invariant_to; /* "b, c, d and 9 more"; NULL: there are none */
    int given_is_target;
    int regularised; /* 0: without a regulariser, and gamma is 0 */
    double gamma;
    int64_t seed;
    int64_t rows, dropped; /* used; with missing cells, and left out */
    int64_t training_rows, validation_rows;
    int64_t
        holdout_rows; /* that the conditional mean was learnt from: the training rows' own where there is no holdout */
    circe_columns columns; /* that are not plain numbers */
    int64_t parameters;

    int64_t epochs, steps;
    int64_t best_epoch; /* row of history; -1: none */
    int stopped_early, resumed;
    double seconds, regularizer_seconds; /* the second are a part of the first */
    circe_training_epoch *history;       /* (epochs) */

    /* on the judged rows */
    int64_t outputs;              /* columns of the target, or classes */
    const char *const *classes;   /* (outputs); NULL: numbers */
    circe_training_error *errors; /* (outputs); NULL: classes */
    double loss;                  /* MSE in units of these rows' variance, or cross-entropy */
    double r2, spread;            /* of numbers, means over the columns; variance of the prediction in the target's */
    double accuracy, majority;    /* of classes; of always naming the most frequent one */
    double floor;                 /* E[Var(target | given)] in units of these rows' variance, estimated */
    int64_t floor_rows;           /* that it was estimated on */
    double dependence[CIRCE_TRAINING_STATES][CIRCE_TRAINING_MEASURES];
    int64_t measured_rows;

    circe_notes warnings;

    int64_t test_rows;       /* 0: the judged rows are those of validation */
    double validation_error; /* of the epoch that was kept, as `score` has it */
    circe_training_score score, baseline_score;
    circe_training_estimate difference; /* error less that of the baseline, row by row */
    char *baseline;                     /* what it is compared with; NULL: nothing */
    circe_training_trial *trials;       /* (n_trials), gamma ascending */
    int64_t n_trials, trial_rows;
    int gamma_chosen, gamma_reached; /* by the search; with which dependence is not found any more */
    double tolerance;                /* that it was searched for with; NaN: by tests */
    circe_training_group *groups;
    int64_t n_groups;
} circe_training;

/* Trains on `table`; NULL: on the file, or the images, that the options name. The model is kept in memory, and written
 * where `output` is given, with a checkpoint beside it on the way, and what a search for gamma has found so far. A run
 * that the watch stops leaves its checkpoint and returns CIRCE_ERR_CANCELLED. Of several processes, all call it, and
 * the result of the first is whole. */
CIRCE_API circe_status circe_train(circe_context *context, const circe_table *table, const circe_train_options *options,
                                   const circe_watch *watch, circe_training **training);
CIRCE_API void circe_training_free(circe_training *training);

/* The result as `circe train --json` prints it, for circe_text_free; NULL: no memory. `report` is the folder of its
 * report, which it names; NULL: none. */
CIRCE_API char *circe_training_json(const circe_training *training, const char *report);

/* report.html with its figures, results.json, results.csv (one row per epoch), predictions.csv (of the judged rows),
 * sweep.csv (one row per gamma) and run.yaml, which runs it again, into a folder that is there. */
CIRCE_API circe_status circe_training_report(circe_context *context, const circe_training *training,
                                             const char *folder);

CIRCE_END_DECLS

#endif
