/* What the runs say together: medians and ranges over seeds. */
#ifndef CLI_EXPERIMENT_SUMMARY_H
#define CLI_EXPERIMENT_SUMMARY_H

#include "experiment_plan.h"

/* Over the seeds; NaN where there is none. */
typedef struct summary_number {
    double median, low, high;
} summary_number;

/* One model, one method, one choice of gamma, rate and decay. */
typedef struct summary_row {
    int64_t group;
    synthetic_model model;
    int64_t method; /* -1: limits */
    double gamma, rate, decay;
    int64_t n, collapsed, failed; /* runs that are done, and of them collapsed; runs that failed */
    summary_number mse, vcf, vcf_support, variance, floor, validation_mse, validation_vcf, seconds;
    double score;                   /* the mean */
    const experiment_result *first; /* of the first run that is done, or NULL */
    bool chosen;                    /* the best mean score on validation data among the method's choices */
} summary_row;

typedef struct experiment_summary {
    summary_row *rows;
    int64_t n_rows;
    summary_row *tuning; /* the same of the runs that were chosen by */
    int64_t n_tuning;
} experiment_summary;

void experiment_summary_make(const experiment_plan *plan, experiment_summary *summary);
void experiment_summary_free(experiment_summary *summary);

/* The paper's number for a row, or NULL. */
const experiment_paper *experiment_summary_paper(const experiment_config *config, const summary_row *row);

#endif
