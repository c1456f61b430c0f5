/* The measures that `circe measure` offers. Another one is another row of the table in measures.c. */
#ifndef CLI_MEASURES_H
#define CLI_MEASURES_H

#include <stdbool.h>
#include <stddef.h>

#include "circe/circe.h"

typedef struct measure_problem {
    circe_workspace *workspace;
    const circe_cme *cme;
    const circe_kernel *kernel_x;
    const circe_mat *x, *y, *z;
    circe_estimator estimator;
} measure_problem;

typedef struct measure {
    const char *name;
    const char *summary;
    bool has_estimators; /* --estimator chooses; otherwise there is only one form */
    circe_status (*evaluate)(const measure_problem *problem, double *value, circe_mat *grad);
} measure;

extern const measure measures[];
extern const size_t n_measures;

/* NULL where there is none. */
const measure *measure_find(const char *name);

#endif
