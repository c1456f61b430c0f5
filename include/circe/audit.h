/* Audits predictions: do they depend on sensitive attributes once the outcome is known, how strongly, and between which
 * groups? Other notions of fairness ask the same question about other columns.
 *
 *     circe_audit_options_init(&options);
 *     options.prediction = "score", options.target = "repaid", options.sensitive = "age,sex";
 *     circe_audit(context, table, &options, NULL, &audit);
 *     circe_audit_report(audit, "report");
 *     circe_audit_result_free(audit); */
#ifndef CIRCE_AUDIT_H
#define CIRCE_AUDIT_H

#include "circe/test_job.h"
#include "circe/train.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_audit_options {
#include "circe/options/audit.def"
} circe_audit_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_audit_schema;
CIRCE_API void circe_audit_options_init(circe_audit_options *options);

/* ---- the data ---------------------------------------------------------------------------------------------------- */

typedef struct circe_audit_column {
    char *name;
    double *values;    /* (n): numbers, codes 0, 1, ... of texts, or 1 for the positive one of two classes */
    char **categories; /* (n_categories): texts, or the different numbers of a column that has few; NULL: numbers */
    int64_t *code;     /* (n): the category of each row; NULL: numbers */
    int64_t n_categories;
    int is_text;    /* the values are codes, not numbers to compute with */
    int is_few;     /* treated as categories because the column has few different numbers */
    int is_boolean; /* the numbers 0 and 1 are called False and True */
    int is_constant;
    int is_label; /* the prediction is one of the outcome's two values, and needs no threshold */
    double mean, deviation;
} circe_audit_column;

typedef enum circe_audit_outcome {
    CIRCE_OUTCOME_NUMBERS = 0,
    CIRCE_OUTCOME_BINARY = 1,  /* two values: 0 and 1 */
    CIRCE_OUTCOME_CLASSES = 2, /* three or more categories */
} circe_audit_outcome;

/* Which x must be independent of the attribute, given which y. The columns of options.given are always part of y. */
typedef enum circe_audit_notion {
    CIRCE_NOTION_SEPARATION = 0,   /* the prediction, given the outcome: equalised odds */
    CIRCE_NOTION_INDEPENDENCE = 1, /* the prediction, given nothing else: demographic parity */
    CIRCE_NOTION_SUFFICIENCY = 2,  /* the outcome, given the prediction: predictive parity, calibration within groups */
    CIRCE_NOTIONS = 3,
} circe_audit_notion;

/* "separation", "independence", "sufficiency". */
CIRCE_API const char *circe_audit_notion_name(circe_audit_notion notion);

/* Rows in groups: the categories of a column, or quantiles of its numbers. */
typedef struct circe_audit_groups {
    int64_t n_groups;
    int64_t *of;    /* (n): the group of each row */
    int64_t *rows;  /* (n_groups) */
    int *compared;  /* (n_groups): 0 if the group is too small to be compared */
    double *centre; /* (n_groups): the median of the column in the group, or the number of the category */
    char **labels;  /* (n_groups): "0.02 to 0.1", or the category */
} circe_audit_groups;

/* ---- what is found ----------------------------------------------------------------------------------------------- */

/* name, key in JSON, words. For an outcome with two values: all but R2, and the errors only if the prediction lies in
 * [0, 1]. For numbers: the last five. For three or more classes: the mean prediction, or the accuracy of predicted
 * classes. */
#define CIRCE_AUDIT_METRIC_MAP(X)                                                          \
    X(SELECTION_RATE, "selection_rate", "selection rate")                                  \
    X(TRUE_POSITIVE_RATE, "true_positive_rate", "true positive rate")                      \
    X(FALSE_POSITIVE_RATE, "false_positive_rate", "false positive rate")                   \
    X(PRECISION, "precision", "precision")                                                 \
    X(NEGATIVE_PREDICTIVE_VALUE, "negative_predictive_value", "negative predictive value") \
    X(ACCURACY, "accuracy", "accuracy")                                                    \
    X(AUC, "auc", "AUC")                                                                   \
    X(MEAN_OUTCOME, "mean_outcome", "mean outcome")                                        \
    X(MEAN_PREDICTION, "mean_prediction", "mean prediction")                               \
    X(MEAN_ERROR, "mean_error", "mean error")                                              \
    X(ROOT_MEAN_SQUARE_ERROR, "root_mean_square_error", "RMS error")                       \
    X(R2, "r2", "R²")

typedef enum circe_audit_metric {
#define CIRCE_AUDIT_METRIC_ENUM(name, key, words) CIRCE_METRIC_##name,
    CIRCE_AUDIT_METRIC_MAP(CIRCE_AUDIT_METRIC_ENUM)
#undef CIRCE_AUDIT_METRIC_ENUM
        CIRCE_METRICS
} circe_audit_metric;

CIRCE_API const char *circe_audit_metric_key(circe_audit_metric metric);
CIRCE_API const char *circe_audit_metric_name(circe_audit_metric metric);

/* A value with a 95 % interval from resampled rows. NaN: it does not exist here. */
typedef struct circe_audit_estimate {
    double value, lower, upper;
} circe_audit_estimate;

typedef struct circe_audit_metrics {
    circe_audit_estimate of[CIRCE_METRICS];
} circe_audit_metrics;

typedef enum circe_audit_gap_kind {
    CIRCE_GAP_MEAN_PREDICTION = 0,
    CIRCE_GAP_TRUE_POSITIVE_RATE = 1,
    CIRCE_GAP_FALSE_POSITIVE_RATE = 2,
    CIRCE_GAP_SELECTION_RATE = 3,            /* of all rows: demographic parity */
    CIRCE_GAP_PRECISION = 4,                 /* of the selected rows: predictive parity */
    CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE = 5, /* of the rows that are not selected */
    CIRCE_GAP_CALIBRATION = 6,               /* mean outcome at equal prediction */
    CIRCE_GAP_KINDS = 7,
} circe_audit_gap_kind;

CIRCE_API const char *circe_audit_gap_name(circe_audit_gap_kind kind);

/* The largest difference between two groups at equal levels of the outcome (for calibration: of the prediction),
 * averaged over the levels by their numbers of rows. Rates without levels use all their rows. With options.given, the
 * difference between two groups is the mean over the cells that contain both, weighted by their rows. */
typedef struct circe_audit_gap {
    circe_audit_gap_kind kind;
    int64_t n_groups;            /* groups compared */
    circe_audit_estimate gap;    /* the interval is for the difference between these two groups */
    double chance, chance_upper; /* mean and 95 % quantile if groups are shuffled among rows of equal level */
    int64_t stratum;             /* the level with the widest gap; -1: there are no levels */
    char *category;              /* with three or more classes: the class whose share differs; NULL: a mean or a rate */
    char *high, *low;            /* the groups with the largest and the smallest value there */
} circe_audit_gap;

/* The largest numbers of tests, of deciding tests and of measures per finding. */
enum { CIRCE_AUDIT_TESTS = 6, CIRCE_AUDIT_DECIDING = 2, CIRCE_AUDIT_MEASURES = 4 };

typedef struct circe_audit_test {
    const char *name;
    int64_t rows; /* all, or a random sample */
    int failed;
    char error[256];
    circe_test_result result;
} circe_audit_test;

typedef enum circe_audit_decision {
    CIRCE_AUDIT_DEPENDS = 0,
    CIRCE_AUDIT_NOT_FOUND = 1,
    CIRCE_AUDIT_UNSURE = 2,
} circe_audit_decision;

/* "depends", "no dependence found", "cannot be said". */
CIRCE_API const char *circe_audit_decision_name(circe_audit_decision decision);

/* One mean per group, with its 95 % interval. */
typedef struct circe_audit_profile {
    double *value, *lower, *upper; /* (groups) */
} circe_audit_profile;

/* The result for one notion, one prediction and one attribute. */
typedef struct circe_audit_finding {
    circe_audit_notion notion;
    int64_t prediction, attribute;
    circe_audit_test tests[CIRCE_AUDIT_TESTS]; /* the first n_deciding decide; none if x is constant */
    int n_tests, n_deciding;
    int smallest;      /* the deciding test with the smallest p-value */
    double p_value;    /* the smallest p-value times n_deciding */
    double p_adjusted; /* adjusted by Holm over the attributes of one prediction */
    circe_trust trust;
    circe_audit_decision decision;
    char *verdict;
    int has_effects, has_calibration;
    circe_effects effects;
    circe_audit_estimate
        kpc_above_chance; /* effects.kpc minus its `chance`, at least 0: what limits and verdicts use */
    circe_calibration_draws calibration[CIRCE_AUDIT_DECIDING]; /* one per deciding test */
    circe_effects_along along; /* along the outcome, or for sufficiency along the prediction, if it is a number */
    double measures[CIRCE_AUDIT_MEASURES]; /* named by circe_audit_measure_name; NaN: could not be computed */
    int64_t measured_rows;
    circe_audit_gap *gaps;
    int n_gaps;
    circe_audit_metrics *groups;   /* (n_groups of the attribute) */
    circe_audit_profile *residual; /* (n_parts): the mean residual of x given y, per group */
    int64_t n_parts;               /* of x: 1, or one per class if x is text */
    circe_audit_profile *strata;   /* (n_strata): the mean of x per group at each level of y; NULL: y has no levels */
    int64_t n_strata;
} circe_audit_finding;

CIRCE_API const char *circe_audit_measure_name(int measure);

/* Compares two predictions by their quality, or by their gaps between the groups of an attribute. */
typedef struct circe_audit_difference {
    int64_t first, second, attribute; /* attribute -1: their quality */
    circe_audit_notion notion;        /* of the gap */
    const char *name;                 /* "AUC", "true positive rate" */
    circe_audit_estimate difference;  /* first minus second; every draw resamples the same rows of both */
    int64_t better;                   /* the better prediction; -1: the interval contains 0 */
} circe_audit_difference;

/* Whether the 95 % interval lies within a limit. */
typedef enum circe_audit_within {
    CIRCE_AUDIT_CANNOT_TELL = 0,
    CIRCE_AUDIT_WITHIN = 1,
    CIRCE_AUDIT_OUTSIDE = 2,
} circe_audit_within;

CIRCE_API const char *circe_audit_within_name(circe_audit_within within);

/* A limit of options.fail_if, for one prediction and one attribute. */
typedef struct circe_audit_check {
    char *condition;               /* "tpr_gap>0.1" */
    int64_t prediction, attribute; /* attribute -1: the limit concerns the prediction alone */
    circe_audit_notion notion;
    circe_audit_estimate measured;
    double limit;
    int failed; /* the value exceeds the limit, or does not exist */
    circe_audit_within within;
    char *text; /* a sentence */
} circe_audit_check;

typedef struct circe_audit_result {
    char *source; /* the file of the table */
    char *model;  /* the model that made the first predictions; NULL: none */
    int64_t n, dropped;
    char *weights_name; /* the column of the weights; NULL: every row counts once */
    double *weights;    /* (n), 1 on average */
    double weights_sum; /* of the column */
    int64_t weightless; /* rows of weight 0, which were left out */
    circe_audit_outcome outcome;
    char *positive, *negative; /* for CIRCE_OUTCOME_BINARY, as written in the table */
    double threshold, alpha;
    int64_t smallest_group, draws, seed;
    char *test, *transform, *machine;
    circe_audit_notion notions[CIRCE_NOTIONS];
    int64_t n_notions;
    circe_audit_column target, *predictions, *attributes, *given;
    int64_t n_predictions, n_attributes, n_given;
    double **residuals;            /* (n_notions, n_predictions), each (n_parts, n): x minus its mean given y */
    circe_audit_groups strata;     /* levels of the outcome: its categories, or five groups of numbers */
    circe_audit_groups *levels;    /* (n_predictions): levels of each prediction; NULL: sufficiency was not asked for */
    circe_audit_groups *groups;    /* (n_attributes): the categories of each, or ten groups of numbers */
    circe_audit_metrics *quality;  /* (n_predictions): on all rows */
    circe_audit_finding *findings; /* (n_notions, n_predictions, n_attributes) */
    int64_t n_findings;
    circe_audit_difference *differences; /* one or more per pair of predictions */
    int64_t n_differences;
    circe_audit_check *checks;
    int64_t n_checks;
    circe_notes warnings;
    circe_columns columns; /* how columns that are not plain numbers were read */
    double seconds;
} circe_audit_result;

/* Audits `table` or, if it is NULL, the file options->data. The caller frees the result. */
CIRCE_API circe_status circe_audit(circe_context *context, const circe_table *table, const circe_audit_options *options,
                                   const circe_watch *watch, circe_audit_result **result);
CIRCE_API void circe_audit_result_free(circe_audit_result *result);

/* Audits what a trained network predicts for rows that it was not trained on: does the prediction depend on
 * --invariant-to once the target is known? Ignores data, model, prediction, target and sensitive of the options. */
CIRCE_API circe_status circe_training_audit(circe_context *context, const circe_training *training,
                                            const circe_audit_options *options, const circe_watch *watch,
                                            circe_audit_result **result);

/* The number of failed checks. */
CIRCE_API int64_t circe_audit_failed(const circe_audit_result *result);

/* The result as JSON, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_audit_json(const circe_audit_result *result);

/* Writes report.html, figures with their scripts and data, results.json and results.csv into a folder, and creates the
 * folder if needed. */
CIRCE_API circe_status circe_audit_report(const circe_audit_result *result, const char *folder);

CIRCE_END_DECLS

#endif
