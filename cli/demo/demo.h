/* What `circe demo` makes, for its text and its report. */
#pragma once

#include "circe/train.h"
#include "cli/common/session.h"
#include "train/synthetic.h"

enum { DEMO_FREE, DEMO_INVARIANT, DEMO_LINES };

/* One of the two predictors. */
typedef struct demo_line {
    int place;         /* among the lines */
    const char *name;  /* of its model and of its column in test.csv */
    const char *title; /* for people */
    char *command;     /* that trains it as well */
    circe_training *training;
    double *prediction;           /* of the test points, in units of b */
    double mse, vcf, vcf_support; /* in units of Var(b) */
} demo_line;

typedef struct demo {
    const char *folder;
    char *program, *shell_folder; /* the command as it was called, and the folder, as a shell takes them */
    int64_t points, epochs, seed;
    session s;
    synthetic_model model;
    synthetic_sample training, test;
    demo_line lines[DEMO_LINES];
    double deviation; /* of b, on all points of train.csv */
    double floor;     /* of the test points, in units of Var(b) */
    double seconds;
} demo;

/* CIRCE of a line's predictions, on the test rows of its training. */
static inline double demo_circe(const demo_line *line) {
    return line->training->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE];
}

static inline double demo_at(const circe_mat *column, int64_t row) { return ((const double *)column->data)[row]; }

/* Writes report.html with its figures. */
circe_status demo_report_write(const demo *d);
