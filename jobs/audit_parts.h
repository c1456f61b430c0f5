/* The parts of an audit, which work on its result one after another.
 *
 * k  notions, p  predictions, a  attributes; finding (k, p, a) is findings[(k * n_predictions + p) * n_attributes + a].
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "circe/audit.h"
#include "io/list.h"
#include "jobs/notes.h"

enum { AUDIT_LEAST_ROWS = 50 };

/* One run: the options, what it computes with, and the findings so far. */
typedef struct audit_run {
    const circe_audit_options *options;
    circe_context *context;
    circe_workspace *workspace;
    const circe_watch *watch;
    notes warnings;
    circe_audit_result *r;
    double work, all_work;      /* done, and in all: audit_progress.c */
    circe_audit_groups *coarse; /* (n_attributes, AUDIT_COARSE): attributes of numbers in fewer groups */
    double **selected;          /* (n_predictions) of (n): 1 if it counts as positive; NULL: not two classes */
    int64_t **decision;         /* the same as numbers of a level */
    double *negative;           /* (n): 1 if the outcome is negative */
    int64_t *all_rows;          /* (n) zeros: all rows are one level */
    int64_t *cells, n_cells;    /* (n): rows whose columns of --given count as equal; one cell if there are none */
    struct audit_contrast *contrasts;
    int64_t n_contrasts;
    arena owner; /* of the rest */
} audit_run;

/* x independent of z given y. */
typedef struct audit_question {
    const circe_audit_column *x, *z;
    const circe_audit_column **y; /* (n_y), numbers first */
    int64_t n_y, n_numbers;
    const circe_audit_column *level; /* the column of y that is not of --given; NULL: there is none */
    bool x_is_classes, x_is_words;   /* words: three classes or more, not numbers to compute with */
    const char *given;               /* the names of y's columns, "repaid and age"; "": none */
} audit_question;

/* The result, with all that it points to. */
typedef struct audited {
    circe_audit_result result; /* first: what the caller holds */
    audit_question *questions; /* (n_findings) */
    arena owner;
} audited;

static inline arena *audit_owner(const circe_audit_result *r) { return &((audited *)(uintptr_t)r)->owner; }

static inline circe_audit_finding *audit_at(const circe_audit_result *r, int64_t notion, int64_t prediction,
                                            int64_t attribute) {
    return &r->findings[(notion * r->n_predictions + prediction) * r->n_attributes + attribute];
}

static inline const circe_audit_column *audit_prediction(const circe_audit_result *r, const circe_audit_finding *f) {
    return &r->predictions[f->prediction];
}

static inline const circe_audit_column *audit_attribute(const circe_audit_result *r, const circe_audit_finding *f) {
    return &r->attributes[f->attribute];
}

/* The value from which a prediction of two classes counts as positive. */
static inline double audit_threshold(const circe_audit_result *r, const circe_audit_column *prediction) {
    return prediction->is_label ? 0.5 : r->threshold;
}

/* What a row counts. */
static inline double audit_weight(const circe_audit_result *r, int64_t row) {
    return r->weights != NULL ? r->weights[row] : 1;
}

static inline circe_audit_estimate audit_effect(const circe_effect *e) {
    return (circe_audit_estimate){e->value, e->lower, e->upper};
}

static inline bool audit_asks(const circe_audit_result *r, circe_audit_notion notion) {
    for (int64_t k = 0; k < r->n_notions; k++)
        if (r->notions[k] == notion) return true;
    return false;
}

/* What y leaves of a part of x, row by row. */
static inline const double *audit_residual(const circe_audit_result *r, const circe_audit_finding *f, int64_t part) {
    return r->residuals[(f - r->findings) / r->n_attributes] + part * r->n;
}

/* Begins one more stage; CIRCE_ERR_CANCELLED if the watch asks to stop. */
void audit_progress_begin(audit_run *run);
circe_status audit_step(audit_run *run, const circe_audit_finding *f, const char *stage);
circe_status audit_step_intervals(audit_run *run, double share);

/* ---- the data ---------------------------------------------------------------------------------------------------- */

/* What a model predicts, as columns of the table. */
typedef struct audit_model {
    name_list names;    /* of the columns; owned */
    double **values;    /* (names), each with one number per row of the table; NaN if a cell is missing */
    const char *target; /* that is predicted */
} audit_model;

/* Does nothing if no model was named. */
circe_status audit_model_predict(audit_run *run, const circe_table *table, audit_model *model);

/* Reads and checks the table's columns. */
circe_status audit_data_read(audit_run *run, const circe_table *table);
/* Computes the mean and deviation of its values. */
void audit_column_describe(circe_audit_column *column, int64_t n);

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* Of all findings, once they know what they are about. */
void audit_questions_make(circe_audit_result *r);
const audit_question *audit_question_of(const circe_audit_result *r, const circe_audit_finding *f);

/* Rows that count as equal in the outcome, or for sufficiency in the prediction; NULL: all do. */
const circe_audit_groups *audit_levels(const circe_audit_result *r, const circe_audit_finding *f);

/* The class of a part; NULL: x is not text. */
const char *audit_part_name(const circe_audit_result *r, const circe_audit_finding *f, int64_t part);

/* Some rows of a question, as the library takes them. */
typedef struct audit_rows {
    arena owner;                 /* of the rest */
    double *x, *y, *z, *weights; /* weights NULL: every row counts once */
    circe_mat mat_x, mat_y, mat_z;
} audit_rows;

audit_rows audit_rows_take(const circe_audit_result *r, const audit_question *q, const int64_t *index, int64_t n);
void audit_rows_free(audit_rows *rows);

/* Delta kernels for categories; NULL for numbers: the library's own choice. */
typedef struct audit_kernels {
    circe_kernel *x, *y, *z;
} audit_kernels;

circe_status audit_kernels_make(const audit_run *run, const audit_question *q, audit_kernels *k);
void audit_kernels_free(audit_kernels *k);
/* The kernel of y's columns, with the width of its gaussian still free. */
circe_status audit_kernel_y(const audit_run *run, const audit_question *q, circe_kernel **kernel);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

enum { AUDIT_STRATA = 5, AUDIT_FINEST = 10, AUDIT_COARSE = 2, AUDIT_RATES = 4 }; /* rates: of a finding, at most */

/* By categories; or `wanted` groups of about the same weight by quantiles, of which there can be fewer, since ties stay
 * together. weights NULL: rows count alike. Categories of fewer than `smallest` rows are not compared. */
circe_audit_groups audit_groups_make(arena *owner, const circe_audit_column *column, const double *weights, int64_t n,
                                     int64_t wanted, int64_t smallest);
int64_t audit_groups_compared(const circe_audit_groups *groups);

/* Up to `most` random rows, ascending; all of them if there are no more. */
int64_t *audit_sample(arena *owner, int64_t all, int64_t most, int64_t seed, uint64_t stream, int64_t *n);
/* Those rows of a column. */
double *audit_take(arena *owner, const double *values, const int64_t *rows, int64_t n);

/* ---- what is found ----------------------------------------------------------------------------------------------- */

/* What every y leaves of its x: r->residuals. */
circe_status audit_find_residuals(audit_run *run);

/* Tests, effects, place and calibration of one finding. */
circe_status audit_judge(audit_run *run, circe_audit_finding *f);
/* Holm's correction, decisions and verdicts: once all are judged. */
void audit_conclude(circe_audit_result *r);

circe_status audit_measure(audit_run *run, circe_audit_finding *f);

/* A finding's gap of one kind. For an attribute of numbers, it is between four groups: they show what two would hide,
 * and chance adds less than with ten. With several classes, it is the largest gap. NULL: there is none. */
const circe_audit_gap *audit_gap_of(const circe_audit_finding *f, circe_audit_gap_kind kind);

/* The levels of outcome and predictions, the groups of the attributes, and who counts as positive. */
void audit_make_groups(audit_run *run);
/* Finds gaps between the groups of the attribute; for numbers, from coarse to fine. */
void audit_find_gaps(audit_run *run, circe_audit_finding *f);
/* What is compared at equal y: a part of x, minus its mean if that changes within a level. */
const double *audit_compared_value(const circe_audit_result *r, const circe_audit_finding *f, int64_t part);
/* Means along the attribute: f->residual, f->strata. */
void audit_find_profiles(const circe_audit_result *r, circe_audit_finding *f);

/* Whether differences between this prediction and the outcome mean something. */
bool audit_has_errors(const circe_audit_result *r, int64_t prediction);

/* ---- metrics and resampling -------------------------------------------------------------------------------------- */

/* The rows in the order of a prediction, which is what an AUC needs. */
typedef struct audit_ranking {
    const circe_audit_result *r;
    bool errors;                 /* errors mean something: audit_has_errors */
    double threshold;            /* audit_threshold */
    bool labels;                 /* three or more classes: `predicted` is 1 if the label is right */
    int64_t *order;              /* (n): rows by their prediction, ascending */
    double *predicted, *outcome; /* (n) in that order */
} audit_ranking;

circe_status audit_ranking_make(arena *owner, const circe_audit_result *r, int64_t prediction, audit_ranking *out);

/* Scratch for that many groups. The caller frees it. */
typedef struct audit_sums audit_sums;
audit_sums *audit_sums_make(int64_t n_groups);

/* out[g * CIRCE_METRICS + m] of the groups of[0..n) (NULL: all rows are one), rows drawn weight[row] times (NULL:
 * once), each counting its weight of --weights. */
void audit_metrics_of(const audit_ranking *ranking, const uint8_t *weight, const int64_t *of, int64_t n_groups,
                      audit_sums *scratch, double *out);

/* A gap between fixed groups: sum_s share_s sum_c share_sc (m_sc,high - m_sc,low), over levels s and, within these,
 * over the cells c of --given that contain both groups. */
enum { AUDIT_LOW = 0, AUDIT_HIGH = 1, AUDIT_OTHER = 2, AUDIT_SLOTS = 3 };

typedef struct audit_contrast {
    circe_audit_gap *gap;
    const double *value; /* (n), borrowed */
    int64_t n_strata, n_cells;
    int32_t *slot; /* (n): (level * n_cells + cell) * AUDIT_SLOTS + low, high or other; behind the last: it takes no
                      part */
    bool *used;    /* (n_strata, n_cells): both groups are there */
} audit_contrast;

/* All resampled numbers. */
typedef struct audit_draws {
    int64_t draws, width;
    const double *drawn; /* (draws, width): metrics of all rows and of groups, prediction by prediction, contrasts */
    int64_t stride;      /* from the metrics of one prediction to those of the next */
    int64_t contrasts;   /* where they begin */
} audit_draws;

/* Differences between predictions: r->differences. */
void audit_compare_predictions(audit_run *run, const audit_draws *draws);

/* Metrics of all rows and of every group, with intervals, and the intervals of the contrasts' gaps. */
circe_status audit_resample(audit_run *run);

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Refuses invalid limits in --fail-if before anything is read. */
circe_status audit_checks_parse(const circe_audit_options *options);
void audit_checks_make(const circe_audit_options *options, circe_audit_result *r);

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A number with at least two digits: "0.40", "0.0031", "1234". */
const char *audit_digits(double value, char *out, size_t size);

/* folder NULL: no "report". */
cJSON *audit_json(const circe_audit_result *r, const char *folder);
