/* What an experiment leaves behind: results.csv, results.json, figures and report.html in its folder, and a table on
 * standard output. */
#ifndef CLI_EXPERIMENT_OUTPUT_H
#define CLI_EXPERIMENT_OUTPUT_H

#include "cli/experiment/experiment_summary.h"
#include "report/report.h"

typedef struct experiment_outcome {
    const experiment_plan *plan;
    const experiment_summary *summary;
    const char *command; /* that made it, as a person would repeat it */
    int64_t jobs;
    double seconds; /* of this time; runs that were done before are not in them */
} experiment_outcome;

/* All of it; prints what is wrong and returns an exit status. */
int experiment_output(const experiment_outcome *outcome, bool json);

/* ---- its parts --------------------------------------------------------------------------------------------------- */

/* Which rows a table for people has. */
typedef enum experiment_rows { ROWS_CHOSEN, ROWS_ALL, ROWS_TUNING, ROWS_TUNING_CHOSEN } experiment_rows;

/* One row a run, with all digits; its cells live in the arena. */
void experiment_run_table(const experiment_plan *plan, arena *owner, report_table *table);
void experiment_print_table(const report_table *table);

#endif
