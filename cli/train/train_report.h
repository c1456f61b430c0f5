/* A report while it is written. */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include "report/cells.h"
#include "cli/train/train_job.h"

typedef struct report_writer {
    const training_job *job;
    const char *folder;
    report *page;
    int status; /* the first failure */
} report_writer;

/* A file that could not be written. */
void report_writer_fail(report_writer *w, const char *path, const char *text);

/* Of a validation row, in the table's units; for targets that are numbers. */
double training_target_in_units(const training_job *job, int64_t row, int64_t col);
double training_prediction_in_units(const training_job *job, int64_t row, int64_t col);

/* Each draws a figure into the folder and adds it to the page. */
void training_show_history(report_writer *w);
void training_show_predictions(report_writer *w);
void training_show_residuals(report_writer *w);

#endif
