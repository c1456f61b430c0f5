/* What the runs say together: medians and ranges over seeds. */
#ifndef CLI_EXPERIMENT_SUMMARY_H
#define CLI_EXPERIMENT_SUMMARY_H

#include "cli/experiment/experiment_plan.h"

/* Over the seeds; NaN where there is none. */
typedef struct summary_number {
    double median, low, high, mean;
} summary_number;

/* One model, one method, one choice of gamma, rate and decay. */
typedef struct summary_row {
    int64_t group;
    const experiment_model *model;
    int64_t d;
    int64_t method; /* -1: nothing is trained */
    bool regularized;
    experiment_choice choice;
    int64_t n, failed; /* runs that are done, and that failed */
    summary_number number[N_NUMBERS];
    summary_number score;           /* what is chosen by: the kind's */
    summary_number signal;          /* the score that regularised runs would have; of pictures, the dependence */
    int64_t collapsed;              /* of the runs that are done */
    const experiment_result *first; /* of the first run that is done, or NULL */
    bool chosen;                    /* the best of the method's choices, on validation data */
    bool best_ood;                  /* the smallest median error out of domain among them: no choice */
} summary_row;

typedef struct experiment_summary {
    summary_row *rows;
    int64_t n_rows;
    summary_row *tuning; /* the same of the runs that were chosen by */
    int64_t n_tuning;
} experiment_summary;

void experiment_summary_make(const experiment_plan *plan, experiment_summary *summary);
void experiment_summary_free(experiment_summary *summary);

/* The rows of one group (-1: all), of tuning runs or of all others, in the order of the plan; none is marked. To be
 * freed. */
summary_row *experiment_summary_rows(const experiment_plan *plan, int64_t group, bool tuning, int64_t *n_rows);

/* The paper's number for a row, or NULL. */
const experiment_paper *experiment_summary_paper(const experiment_config *config, const summary_row *row);

#endif
