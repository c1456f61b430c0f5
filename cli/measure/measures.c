/* The table of measures. */
#include "cli/measure/measures.h"

#include <string.h>

const char measure_no_number[] =
    "the measure is no finite number: the data are too large for this kernel; scale them, or give a gaussian kernel";

/* Forms are numbered as the library numbers its estimators. */
_Static_assert(CIRCE_BIASED == 1 && CIRCE_DEBIASED == 2 && CIRCE_CENTERED == 3 && CIRCE_USTAT == 4, "forms of circe");
_Static_assert(CIRCE_HSIC_BIASED == 1 && CIRCE_HSIC_UNBIASED == 2, "forms of hsic");

static circe_status evaluate_circe(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_circe(p->workspace, p->mean, p->kernels.x, p->x, p->y, p->z, (circe_estimator)p->form, value,
                               grad);
}

static circe_status evaluate_circe_spectral(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_circe_spectral(p->workspace, p->mean, p->kernels.x, p->x, p->y, p->z, value, grad);
}

static circe_status evaluate_hsic(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_hsic(p->workspace, &p->kernels, p->x, p->z, (circe_hsic_estimator)p->form, value, grad);
}

static circe_status evaluate_hscic(const measure_problem *p, double *value, circe_mat *grad) {
    if (p->hold_out)
        return circe_measure_hscic_holdout(p->workspace, p->mean, p->kernels.x, p->x, p->y, p->z, &p->batch, value,
                                           grad);
    return circe_measure_hscic(p->workspace, &p->kernels, p->x, p->y, p->z, &p->batch, value, grad);
}

static circe_status evaluate_gcm(const measure_problem *p, double *value, circe_mat *grad) {
    circe_gcm_options options = p->gcm;
    options.batch = p->batch;
    options.holdout = p->hold_out ? p->mean : NULL;
    return circe_measure_gcm(p->workspace, p->kernels.y, p->x, p->y, p->z, &options, value, grad);
}

static circe_status evaluate_kci(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_kci(p->workspace, &p->kernels, p->x, p->y, p->z, &p->batch, value, grad);
}

static circe_status evaluate_nocco(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_nocco(p->workspace, &p->kernels, p->x, p->y, p->z, &p->normalized, value, grad);
}

static circe_status evaluate_kpc(const measure_problem *p, double *value, circe_mat *grad) {
    return circe_measure_kpc(p->workspace, &p->kernels, p->x, p->y, p->z, &p->normalized, value, grad);
}

enum {
    KERNELS = USES_KERNEL_X | USES_KERNEL_Z,
    HELD_OUT = USES_Y | USES_REGRESSION | USES_RIDGE | USES_MEAN | USES_FIT,
    ON_ITSELF = USES_Y | USES_REGRESSION | USES_RIDGE | USES_BATCH,
    NORMALIZED = USES_Y | USES_REGRESSION | USES_EPSILON | USES_BATCH,
};

const measure measures[] = {
    {.name = "circe",
     .summary = "Conditional. The squared Hilbert-Schmidt norm of the covariance of x and y with what y leaves of z. "
                "Sees every kind of dependence, given enough rows; the mean of z given y is fitted on rows that are "
                "not measured. The one to train with.",
     .reading = "0 = independent given y",
     .meaning = "0 would mean that x tells nothing about z beyond y. Compare values of the same kernels and data.",
     .uses = KERNELS | HELD_OUT,
     .forms = {{"biased", 2}, {"debiased", 2}, {"centered", 2}, {"ustat", 4}},
     .usual_form = CIRCE_CENTERED,
     .matrices = 1,
     .evaluate = evaluate_circe},
    {.name = "circe-spectral",
     .summary = "Conditional. The largest singular value of the same operator instead: the single strongest direction "
                "counts. Never 0 on a sample; time grows with the cube of the rows.",
     .reading = "small = independent given y; never 0 on a sample",
     .meaning = "Near 0 would mean that x tells nothing about z beyond y. Compare values of the same kernels and data.",
     .uses = KERNELS | HELD_OUT,
     .most_rows = 4000,
     .matrices = 10,
     .evaluate = evaluate_circe_spectral},
    {.name = "hsic",
     .summary = "Marginal: does x depend on z at all? y is not used and --y not needed. Sees every kind of dependence, "
                "also what x and z share only through y.",
     .reading = "0 = independent; marginal: y is not used",
     .meaning = "0 would mean that x and z are independent. What they share through y counts: y is not used.",
     .uses = KERNELS,
     .forms = {{"biased", 2}, {"unbiased", 4}},
     .usual_form = CIRCE_HSIC_BIASED,
     .all_forms = true,
     .matrices = 1,
     .evaluate = evaluate_hsic},
    {.name = "hscic",
     .summary =
         "Conditional. The HSIC of x and z at a given y, averaged over y. Rows of similar y stand in for rows of "
         "equal y, so with few rows or a large ridge dependence through y leaks in.",
     .reading = "0 = independent given y; above it on a sample",
     .meaning = "0 would mean that x and z are independent at every y. Compare values of the same kernels and data.",
     .uses = KERNELS | ON_ITSELF | MAY_USE_MEAN,
     .matrices = 4,
     .evaluate = evaluate_hscic},
    {.name = "gcm",
     .summary = "Conditional. The correlation of what y leaves of x with what it leaves of z, as a score that is about "
                "standard normal where they are independent. Fast, no kernels of x and z; blind to dependence without "
                "correlation, as between e and e^2.",
     .reading = "of scores about N(0, 1) if independent given y",
     .meaning = "Where x and z are independent given y, every pair of their columns scores about N(0, 1): above 3 is "
                "rare. Dependence without correlation is not seen.",
     .uses = ON_ITSELF | USES_GCM | MAY_USE_MEAN,
     .evaluate = evaluate_gcm},
    {.name = "kci",
     .summary = "Conditional. The statistic of the KCI test: the HSIC of what y leaves of (x, y) and of z. Sees every "
                "kind of dependence, given enough rows; grows with the rows, so compare at equal numbers of them.",
     .reading = "0 = independent given y; grows with the rows",
     .meaning =
         "0 would mean that x tells nothing about z beyond y. It grows with the rows: compare values of the same "
         "kernels and as many rows.",
     .uses = KERNELS | ON_ITSELF,
     .matrices = 2,
     .evaluate = evaluate_kci},
    {.name = "nocco",
     .summary =
         "Conditional. The covariance divided by the spread of each variable, so that every direction counts alike: "
         "the choice of kernels matters less, noise and --epsilon matter more.",
     .reading = "0 = independent given y; depends on --epsilon",
     .meaning = "0 would mean that x tells nothing about z beyond y. Compare values of the same --epsilon and as many "
                "rows.",
     .uses = KERNELS | NORMALIZED,
     .matrices = 4,
     .evaluate = evaluate_nocco},
    {.name = "kpc",
     .summary = "Conditional. The share of what y does not explain of x that z explains: 0 none, 1 all of it. Not "
                "symmetric in x and z; a small --epsilon lets z explain noise.",
     .reading = "in [0, 1]: share of the rest of x that z explains",
     .meaning =
         "0 would mean that z explains nothing of x beyond y, 1 that y and z determine x. On a sample it is above "
         "0 also under independence.",
     .uses = KERNELS | NORMALIZED,
     .matrices = 4,
     .evaluate = evaluate_kpc},
};

const size_t n_measures = sizeof measures / sizeof measures[0];

const char measure_all_name[] = "all";
const char measure_all_summary[] =
    "Every measure on the same rows with the same kernels, in one table, with the time of each.";

const measure *measure_find(const char *name) {
    for (size_t i = 0; i < n_measures; i++) {
        if (strcmp(measures[i].name, name) == 0) return &measures[i];
    }
    return NULL;
}

int measure_n_forms(const measure *what) {
    int n = 0;
    while (n < MEASURE_MAX_FORMS && what->forms[n].name != NULL) n++;
    return n;
}

int measure_find_form(const measure *what, const char *name) {
    for (int form = 1; form <= measure_n_forms(what); form++) {
        if (strcmp(what->forms[form - 1].name, name) == 0) return form;
    }
    return 0;
}

const char *measure_form_name(const measure *what, int form) { return form > 0 ? what->forms[form - 1].name : NULL; }

int64_t measure_least_rows(const measure *what, int form) { return form > 0 ? what->forms[form - 1].least : 2; }
