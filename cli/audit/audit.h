/* One run of `circe audit`: predictions, an outcome and sensitive attributes, and what was found of every pair of a
 * prediction and an attribute.
 *
 * p  predictions, a  attributes; finding (p, a) is findings[p * n_attributes + a]. */
#ifndef CLI_AUDIT_H
#define CLI_AUDIT_H

#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "cli/test/test_calibration.h"
#include "cli/test/test_output.h"
#include "io/column_table.h"

/* ---- the data ---------------------------------------------------------------------------------------------------- */

/* A column in float64. Text has codes 0, 1, ...; of two classes, 1 is the positive one. */
typedef struct audit_column {
    const char *name;
    double *values;          /* (n), owned */
    char *const *categories; /* the texts, NULL-terminated; NULL: numbers. Borrowed from the table. */
    int64_t n_categories;
    double mean, deviation;
} audit_column;

typedef enum audit_outcome {
    OUTCOME_NUMBERS,
    OUTCOME_BINARY,  /* two values: 0 and 1 */
    OUTCOME_CLASSES, /* text of three words or more */
} audit_outcome;

typedef struct audit_data {
    column_table table;
    int64_t n, dropped;
    audit_outcome outcome;
    char *positive, *negative; /* of OUTCOME_BINARY, as the table has them; owned */
    double threshold;
    audit_column target;
    audit_column *predictions, *attributes; /* owned */
    int64_t n_predictions, n_attributes;
} audit_data;

/* Reads and checks. Prints what is wrong and returns an exit status. */
int audit_data_read(const args *arguments, audit_data *data);
void audit_data_free(audit_data *data);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Rows in groups, by quantiles of a number or by categories. */
typedef struct audit_groups {
    int64_t n_groups;
    int64_t *of;    /* (n): the group of each row */
    double *centre; /* (n_groups): the median of the column in the group, or the code of the category */
    char **labels;  /* (n_groups): "0.02 to 0.1", or the category; owned */
} audit_groups;

/* Ties stay together, so there can be fewer groups than asked for. Categories: as many as there are. */
void audit_groups_make(const audit_column *column, int64_t n, int64_t wanted, audit_groups *groups);
void audit_groups_free(audit_groups *groups);

/* ---- what is found ----------------------------------------------------------------------------------------------- */

/* The largest difference between groups, averaged over the outcomes; and what chance alone would make of it. */
typedef struct audit_gap {
    const char *what; /* one of audit_gap_names */
    int64_t n_groups;
    double value;
    double chance, chance_upper; /* mean and 95 % quantile where the groups are shuffled among rows of equal outcome */
} audit_gap;

enum { AUDIT_FINEST = 10, AUDIT_BINNINGS = 3, AUDIT_GAP_KINDS = 3, AUDIT_MOST_GAPS = AUDIT_GAP_KINDS * AUDIT_BINNINGS };

/* One number for every group of the finest binning, with the half width of a 95 % interval. */
typedef struct audit_profile {
    double *value, *half; /* (groups), owned */
} audit_profile;

enum { AUDIT_TESTS = 6, AUDIT_DECIDING = 2, AUDIT_MEASURES = 4, AUDIT_MOST_STRATA = 8 };

typedef struct audit_test {
    const char *name;
    int64_t rows; /* that were given to it: all, or a random part */
    bool failed;
    char error[256];
    circe_test_result result;
} audit_test;

typedef enum audit_decision { DECISION_DEPENDS, DECISION_NOT_FOUND, DECISION_UNSURE } audit_decision;

typedef struct audit_finding {
    const audit_column *prediction, *attribute;
    audit_test tests[AUDIT_TESTS]; /* the first n_deciding decide */
    int n_tests, n_deciding;
    int smallest;      /* of the deciding ones, that with the smallest p-value */
    double p_value;    /* that p-value, times n_deciding */
    double p_adjusted; /* Holm, across the attributes of one prediction */
    audit_decision decision;
    char *verdict; /* owned */
    bool has_effects, has_calibration;
    circe_effects effects;
    calibration calibration[AUDIT_DECIDING]; /* of the deciding tests */
    test_along along;
    double measures[AUDIT_MEASURES]; /* audit_measure_names; NaN: could not be had */
    int64_t measured_rows;
    audit_gap gaps[AUDIT_MOST_GAPS];
    int n_gaps;
    audit_profile error, squared;            /* along the attribute: mean error, root of its mean square */
    audit_profile residual;                  /* mean of what the outcome leaves of the prediction */
    audit_profile strata[AUDIT_MOST_STRATA]; /* mean prediction, for every class of the outcome */
} audit_finding;

typedef struct audit {
    const args *arguments;
    session s;
    const char *folder;
    double alpha;
    audit_data data;
    double **residuals;   /* (n_predictions) of (n): the prediction less its mean given the outcome */
    audit_groups *finest; /* (n_attributes): ten groups, or categories */
    audit_groups outcome; /* the classes of the outcome, or five groups of it */
    audit_finding *findings;
    double seconds;
    notes warnings;
} audit;

static inline audit_finding *audit_at(const audit *a, int64_t prediction, int64_t attribute) {
    return &a->findings[prediction * a->data.n_attributes + attribute];
}

/* Up to `most` rows at random, ascending; all of them where there are no more. To be freed. */
int64_t *audit_sample(const audit *a, int64_t most, uint64_t stream, int64_t *n);
/* Those rows of a column; to be freed. */
double *audit_take(const audit_column *column, const int64_t *rows, int64_t n);

/* ---- the parts, each for one finding or for all; print what is wrong and return an exit status --------------------
 */

/* What the outcome leaves of every prediction: a->residuals. */
int audit_find_residuals(audit *a);

/* Tests, effects, place and calibration. */
int audit_judge(audit *a, audit_finding *f);
/* Holm's correction, decisions and verdicts: once all are judged. */
void audit_conclude(audit *a);

extern const char *const audit_measure_names[AUDIT_MEASURES];
int audit_measure(audit *a, audit_finding *f);

/* "mean prediction" and the two rates. */
extern const char *const audit_gap_names[AUDIT_GAP_KINDS];

/* Gaps between groups, and profiles along the attribute. */
void audit_compare_groups(audit *a, audit_finding *f);

/* The trust in the p-value: that of the test it is from; where that says nothing, the worst of those that decide. */
circe_trust audit_trust(const audit *a, const audit_finding *f);

/* In units of the outcome's own, whether a prediction can be compared with it at all. */
bool audit_has_errors(const audit *a);

cJSON *audit_json(const audit *a);
void audit_text(const audit *a);
int audit_report_write(const audit *a);

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef struct audit_writer {
    const audit *a;
    report *page;
    int status; /* the first failure */
} audit_writer;

/* Each draws a figure of one attribute into the folder and adds it to the page. */
void audit_show_residuals(audit_writer *w, int64_t attribute);
void audit_show_place(audit_writer *w, int64_t attribute);
void audit_show_errors(audit_writer *w, int64_t attribute);
void audit_show_calibration(audit_writer *w, int64_t attribute);

#endif
