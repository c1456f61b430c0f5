/* The parts of an audit, which work on its result one after another.
 *
 * p  predictions, a  attributes; finding (p, a) is findings[p * n_attributes + a]. */
#ifndef JOBS_AUDIT_PARTS_H
#define JOBS_AUDIT_PARTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "circe/audit.h"
#include "jobs/notes.h"

/* One run: what was asked, with what it is computed, and what was found so far. */
typedef struct audit_run {
    const circe_audit_options *options;
    circe_context *context;
    circe_workspace *workspace;
    const circe_watch *watch;
    notes warnings;
    circe_audit_result *r;
    int64_t step, steps;        /* of the progress */
    circe_audit_groups *coarse; /* (n_attributes, AUDIT_COARSE): attributes of numbers in fewer groups */
    double **selected;          /* (n_predictions) of (n): 1 where it counts as positive; NULL: not two classes */
    int64_t **decision;         /* the same as numbers of a stratum */
    int64_t *all_rows;          /* (n) zeros: all rows are one stratum */
    struct audit_contrast *contrasts;
    int64_t n_contrasts;
} audit_run;

static inline circe_audit_finding *audit_at(const circe_audit_result *r, int64_t prediction, int64_t attribute) {
    return &r->findings[prediction * r->n_attributes + attribute];
}

static inline const circe_audit_column *audit_prediction(const circe_audit_result *r, const circe_audit_finding *f) {
    return &r->predictions[f->prediction];
}

static inline const circe_audit_column *audit_attribute(const circe_audit_result *r, const circe_audit_finding *f) {
    return &r->attributes[f->attribute];
}

/* One more stage begins; CIRCE_ERR_CANCELLED where the watch asks to stop. */
circe_status audit_step(audit_run *run, const circe_audit_finding *f, const char *stage);

/* ---- the data -----------------------------------------------------------------------------------------------------
 */

/* Reads and checks the table's columns. */
circe_status audit_data_read(audit_run *run, const circe_table *table);
void audit_column_free(circe_audit_column *column);

/* ---- groups -------------------------------------------------------------------------------------------------------
 */

enum { AUDIT_STRATA = 5, AUDIT_FINEST = 10, AUDIT_COARSE = 2 };

/* By categories; or `wanted` groups by quantiles, of which there can be fewer, since ties stay together. Categories of
 * fewer than `smallest` rows are not compared. */
void audit_groups_make(const circe_audit_column *column, int64_t n, int64_t wanted, int64_t smallest,
                       circe_audit_groups *groups);
void audit_groups_free(circe_audit_groups *groups);
int64_t audit_groups_compared(const circe_audit_groups *groups);

/* Up to `most` rows at random, ascending; all of them where there are no more. To be freed. */
int64_t *audit_sample(int64_t all, int64_t most, int64_t seed, uint64_t stream, int64_t *n);
/* Those rows of a column; to be freed. */
double *audit_take(const double *values, const int64_t *rows, int64_t n);

/* ---- what is found ------------------------------------------------------------------------------------------------
 */

/* What the outcome leaves of every prediction: r->residuals. */
circe_status audit_find_residuals(audit_run *run);

/* Tests, effects, place and calibration of one finding. */
circe_status audit_judge(audit_run *run, circe_audit_finding *f);
/* Holm's correction, decisions and verdicts: once all are judged. */
void audit_conclude(circe_audit_result *r);

circe_status audit_measure(audit_run *run, circe_audit_finding *f);

/* The strata of the outcome, the groups of the attributes, and who counts as positive. */
void audit_make_groups(audit_run *run);
/* Gaps between groups, and profiles along the attribute. */
void audit_compare_groups(audit_run *run, circe_audit_finding *f);

/* Whether differences between this prediction and the outcome mean something. */
bool audit_has_errors(const circe_audit_result *r, int64_t prediction);

/* ---- metrics and resampling ---------------------------------------------------------------------------------------
 */

/* The rows in the order of a prediction, which is what an AUC needs. */
typedef struct audit_ranking {
    const circe_audit_result *r;
    bool errors;                 /* they mean something: audit_has_errors */
    int64_t *order;              /* (n): rows by their prediction, ascending; owned */
    double *predicted, *outcome; /* (n) in that order; owned */
} audit_ranking;

circe_status audit_ranking_make(const circe_audit_result *r, int64_t prediction, audit_ranking *out);
void audit_ranking_free(audit_ranking *ranking);

/* Scratch for so many groups; to be freed. */
typedef struct audit_sums audit_sums;
audit_sums *audit_sums_make(int64_t n_groups);

/* out[g * CIRCE_METRICS + m] of the groups of[0..n) (NULL: all rows are one), rows counting weight[row] times (NULL:
 * once). */
void audit_metrics_of(const audit_ranking *ranking, const uint8_t *weight, const int64_t *of, int64_t n_groups,
                      audit_sums *scratch, double *out);

/* A gap between fixed groups: sum_s share_s (m_s,high - m_s,low), over the strata where both are given. */
typedef struct audit_contrast {
    circe_audit_gap *gap;
    int64_t prediction, attribute;
    const int64_t *stratum, *group; /* (n), borrowed */
    const double *value;            /* (n), borrowed */
    int64_t n_strata, *high, *low;  /* (n_strata): the groups; -1: none. Owned */
} audit_contrast;

/* Everything that was drawn again. */
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

/* ---- limits -------------------------------------------------------------------------------------------------------
 */

/* Refuses what --fail-if cannot mean, before anything is read. */
circe_status audit_checks_parse(const circe_audit_options *options);
void audit_checks_make(const circe_audit_options *options, circe_audit_result *r);

/* ---- words --------------------------------------------------------------------------------------------------------
 */

/* A share in percent with two digits: "0.42 %", "12 %"; returns `out`. */
const char *audit_percent(double share, char *out, size_t size);

/* A number with at least two digits: "0.40", "0.0031", "1234". */
const char *audit_digits(double value, char *out, size_t size);

/* folder NULL: no "report". */
cJSON *audit_json(const circe_audit_result *r, const char *folder);

#endif
