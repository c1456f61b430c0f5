/* Does a prediction depend on sensitive attributes, once the outcome is known; how much, between which groups, and how
 * sure is that? Other notions of fairness are the same question of other columns.
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

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_audit_schema;
CIRCE_API void circe_audit_options_init(circe_audit_options *options);

/* ---- the data -----------------------------------------------------------------------------------------------------
 */

typedef struct circe_audit_column {
    char *name;
    double *values;    /* (n) numbers; codes 0, 1, ... of texts; 1 for the positive one of two classes */
    char **categories; /* (n_categories) texts, or numbers where a column has few different ones; NULL: numbers */
    int64_t *code;     /* (n): the category of each row; NULL where there are none */
    int64_t n_categories;
    int is_text; /* the values are codes and nothing can be computed with them */
    int is_few;  /* categories because it has few different numbers, not because somebody said so */
    double mean, deviation;
} circe_audit_column;

typedef enum circe_audit_outcome {
    CIRCE_OUTCOME_NUMBERS = 0,
    CIRCE_OUTCOME_BINARY = 1,  /* two values: 0 and 1 */
    CIRCE_OUTCOME_CLASSES = 2, /* three or more categories */
} circe_audit_outcome;

/* What is asked of which columns, each also given the columns of options.given: x independent of the attribute given y.
 */
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
    int *compared;  /* (n_groups): 0 where it is too small to set a gap */
    double *centre; /* (n_groups): the median of the column in the group, or the number of the category */
    char **labels;  /* (n_groups): "0.02 to 0.1", or the category */
} circe_audit_groups;

/* ---- what is found ------------------------------------------------------------------------------------------------
 */

/* name, key in JSON, words. Of an outcome of two values: all but R2, the errors where the prediction lies in [0, 1]. Of
 * numbers: the last five. Of classes: the mean prediction. */
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

/* With a 95 % interval by resampling rows. NaN: it does not exist here. */
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
    CIRCE_GAP_PRECISION = 4,                 /* of the rows that are selected: predictive parity */
    CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE = 5, /* of the rows that are not */
    CIRCE_GAP_CALIBRATION = 6,               /* mean outcome at equal prediction */
    CIRCE_GAP_KINDS = 7,
} circe_audit_gap_kind;

CIRCE_API const char *circe_audit_gap_name(circe_audit_gap_kind kind);

/* The largest difference between two groups at an equal level of the outcome (of calibration: of the prediction),
 * averaged over the levels by their rows; or, of rates that know no level, of all rows that they are of. With
 * options.given, the difference between two groups is the mean over its cells where both are, by their rows. */
typedef struct circe_audit_gap {
    circe_audit_gap_kind kind;
    int64_t n_groups;            /* that were compared */
    circe_audit_estimate gap;    /* the interval is of the difference between the same two groups */
    double chance, chance_upper; /* mean and 95 % quantile where the groups are shuffled among rows of equal level */
    int64_t stratum;             /* the level at which it is widest; -1: it is at none */
    char *high, *low;            /* the groups with the largest and the smallest value there */
} circe_audit_gap;

/* The largest number of tests, of those that decide, of measures, of gaps, of one finding. */
enum { CIRCE_AUDIT_TESTS = 6, CIRCE_AUDIT_DECIDING = 2, CIRCE_AUDIT_MEASURES = 4, CIRCE_AUDIT_GAPS = 15 };

typedef struct circe_audit_test {
    const char *name;
    int64_t rows; /* that were given to it: all, or a random part */
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

/* One number for every group, with the half width of a 95 % interval of the mean. */
typedef struct circe_audit_profile {
    double *value, *half; /* (groups) */
} circe_audit_profile;

/* Of one notion, one prediction and one attribute. */
typedef struct circe_audit_finding {
    circe_audit_notion notion;
    int64_t prediction, attribute;
    circe_audit_test tests[CIRCE_AUDIT_TESTS]; /* the first n_deciding decide */
    int n_tests, n_deciding;
    int smallest;      /* of the deciding ones, that with the smallest p-value */
    double p_value;    /* that p-value, times n_deciding */
    double p_adjusted; /* Holm, across the attributes of one prediction */
    circe_trust trust;
    circe_audit_decision decision;
    char *verdict;
    int has_effects, has_calibration;
    circe_effects effects;
    circe_calibration_draws calibration[CIRCE_AUDIT_DECIDING]; /* of the deciding tests */
    circe_effects_along along;             /* the outcome, or for sufficiency the prediction, where it is a number */
    double measures[CIRCE_AUDIT_MEASURES]; /* circe_audit_measure_name; NaN: could not be had */
    int64_t measured_rows;
    circe_audit_gap gaps[CIRCE_AUDIT_GAPS];
    int n_gaps;
    circe_audit_metrics *groups;  /* (groups of the attribute) */
    circe_audit_profile residual; /* mean of what y leaves of x, in every group; NULL: x is classes */
    circe_audit_profile *strata;  /* (n_strata): mean of x in every group, at every level of y; NULL: y has none */
    int64_t n_strata;
} circe_audit_finding;

CIRCE_API const char *circe_audit_measure_name(int measure);

/* Of two predictions: their quality, or their gaps between the groups of an attribute. */
typedef struct circe_audit_difference {
    int64_t first, second, attribute; /* attribute -1: their quality */
    circe_audit_notion notion;        /* that the gap is of */
    const char *name;                 /* "AUC", "true positive rate" */
    circe_audit_estimate difference;  /* first less second; all draws see the same rows of both */
    int64_t better;                   /* the prediction that is better at it; -1: the interval holds 0 */
} circe_audit_difference;

/* What the 95 % interval says of a limit. */
typedef enum circe_audit_within {
    CIRCE_AUDIT_CANNOT_TELL = 0,
    CIRCE_AUDIT_WITHIN = 1,
    CIRCE_AUDIT_OUTSIDE = 2,
} circe_audit_within;

CIRCE_API const char *circe_audit_within_name(circe_audit_within within);

/* A limit of options.fail_if, for one prediction and one attribute. */
typedef struct circe_audit_check {
    char *condition;               /* "tpr_gap>0.1" */
    int64_t prediction, attribute; /* attribute -1: it is about the prediction alone */
    circe_audit_notion notion;
    circe_audit_estimate measured;
    double limit;
    int failed; /* the value is beyond the limit, or does not exist */
    circe_audit_within within;
    char *text; /* a sentence */
} circe_audit_check;

typedef struct circe_audit_result {
    char *source; /* the table's file */
    char *model;  /* whose predictions are the first; NULL: none */
    int64_t n, dropped;
    circe_audit_outcome outcome;
    char *positive, *negative; /* of CIRCE_OUTCOME_BINARY, as the table has them */
    double threshold, alpha;
    int64_t smallest_group, draws, seed;
    char *test, *transform, *machine;
    circe_audit_notion notions[CIRCE_NOTIONS];
    int64_t n_notions;
    circe_audit_column target, *predictions, *attributes, *given;
    int64_t n_predictions, n_attributes, n_given;
    double **residuals;            /* (n_notions, n_predictions) of (n): x less its mean given y; NULL: x is classes */
    circe_audit_groups strata;     /* outcomes that count as equal: its categories, or five groups of numbers */
    circe_audit_groups *levels;    /* (n_predictions): so of the predictions; NULL: sufficiency was not asked for */
    circe_audit_groups *groups;    /* (n_attributes): its categories, or ten groups of numbers */
    circe_audit_metrics *quality;  /* (n_predictions): of all rows */
    circe_audit_finding *findings; /* (n_notions, n_predictions, n_attributes) */
    int64_t n_findings;
    circe_audit_difference *differences; /* of every two predictions */
    int64_t n_differences;
    circe_audit_check *checks;
    int64_t n_checks;
    circe_notes warnings;
    circe_columns columns; /* how those were read that are not plain numbers */
    double seconds;
} circe_audit_result;

/* table NULL: the file options->data. The result belongs to the caller. */
CIRCE_API circe_status circe_audit(circe_context *context, const circe_table *table, const circe_audit_options *options,
                                   const circe_watch *watch, circe_audit_result **result);
CIRCE_API void circe_audit_result_free(circe_audit_result *result);

/* Of what a training predicts for its validation rows, to which it was not fitted: whether that depends on
 * --invariant-to once the target is known. The options' data, model, prediction, target and sensitive are not looked
 * at. */
CIRCE_API circe_status circe_training_audit(circe_context *context, const circe_training *training,
                                            const circe_audit_options *options, const circe_watch *watch,
                                            circe_audit_result **result);

/* How many checks failed. */
CIRCE_API int64_t circe_audit_failed(const circe_audit_result *result);

/* The result as JSON, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_audit_json(const circe_audit_result *result);

/* report.html, figures with their scripts and data, results.json and results.csv, in a folder, which is made unless it
 * is there. */
CIRCE_API circe_status circe_audit_report(const circe_audit_result *result, const char *folder);

CIRCE_END_DECLS

#endif
