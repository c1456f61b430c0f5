/* The table of measures. */
#include "measures.h"

#include <string.h>

static circe_status evaluate_circe(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_circe(p->workspace, p->cme, p->kernel_x, p->x, p->y, p->z, p->estimator, value, grad);
}

static circe_status evaluate_circe_spectral(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_circe_spectral(p->workspace, p->cme, p->kernel_x, p->x, p->y, p->z, value, grad);
}

const measure measures[] = {
    {"circe", "squared Hilbert-Schmidt norm of the conditional covariance of x and z given y", true, evaluate_circe},
    {"circe-spectral", "its largest singular value instead", false, evaluate_circe_spectral},
};

const size_t n_measures = sizeof measures / sizeof measures[0];

const measure *measure_find(const char *name) {
    for (size_t i = 0; i < n_measures; i++) {
        if (strcmp(measures[i].name, name) == 0) return &measures[i];
    }
    return NULL;
}
