/* The measures that `circe measure` offers, with what each makes use of. Another one is another row of the table in
 * measures.c. */
#ifndef CLI_MEASURES_H
#define CLI_MEASURES_H

#include <stdbool.h>
#include <stddef.h>

#include "circe/circe.h"

/* What a measure makes use of. Options that act on something else are ignored, with a note. */
enum {
    USES_Y = 1 << 0,
    USES_KERNEL_X = 1 << 1,
    USES_KERNEL_Z = 1 << 2,
    USES_REGRESSION = 1 << 3, /* on y, by a kernel */
    USES_RIDGE = 1 << 4,
    USES_EPSILON = 1 << 5,
    USES_BATCH = 1 << 6,    /* the measured rows are regressed on themselves */
    USES_MEAN = 1 << 7,     /* the conditional mean of z from rows that are not measured */
    USES_FIT = 1 << 8,      /* circe_cme_fit, be it for that mean or to choose width and ridge */
    USES_GCM = 1 << 9,      /* --regression and --combine */
    MAY_USE_MEAN = 1 << 10, /* USES_MEAN with --regress-z holdout */
};

/* What is measured, prepared: a measure takes what it uses. */
typedef struct measure_problem {
    circe_workspace *workspace;
    const circe_mat *x, *y, *z;
    circe_kernels kernels;
    const circe_cme *mean; /* from rows that are not measured; without a kernel of z it is E[z | y] itself */
    bool hold_out;         /* a measure that may do without the mean takes it */
    int form;              /* 1, 2, ... among the measure's forms */
    circe_batch_options batch;
    circe_normalized_options normalized;
    circe_gcm_options gcm; /* how to regress and combine; the rest comes from the fields above */
} measure_problem;

/* A form of a measure, chosen by --estimator. */
typedef struct measure_form {
    const char *name;
    int64_t least; /* rows it needs */
} measure_form;

#define MEASURE_MAX_FORMS 4

typedef struct measure {
    const char *name;
    const char *summary; /* for help: what it is, what it is blind to */
    const char *reading; /* a few words beside a value: what 0 means, which scale */
    const char *meaning; /* the same below a single value */
    unsigned uses;
    measure_form forms[MEASURE_MAX_FORMS]; /* in the order of the library's enumeration; none: there is only one form */
    int usual_form;
    bool all_forms;    /* `measure all` shows each */
    int64_t most_rows; /* `measure all` leaves it out beyond these; 0: never */
    double matrices;   /* of all pairs of rows that it holds at once; 0: none, but some hundred numbers a row */
    circe_status (*evaluate)(const measure_problem *problem, double *value, circe_mat *grad);
} measure;

extern const measure measures[];
extern const size_t n_measures;

/* The word for all of them, and what it does. */
extern const char measure_all_name[];
extern const char measure_all_summary[];

/* NULL where there is none. */
const measure *measure_find(const char *name);

/* How many forms; 0 where there is nothing to choose. */
int measure_n_forms(const measure *what);

/* The number of the form with this name, or 0. */
int measure_find_form(const measure *what, const char *name);

/* The name of a form, or NULL where there is nothing to choose. */
const char *measure_form_name(const measure *what, int form);

/* The rows that a form needs. */
int64_t measure_least_rows(const measure *what, int form);

/* What is said of a value that is none. */
extern const char measure_no_number[];

#endif
