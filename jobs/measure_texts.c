/* The table of measures. */
#include "jobs/measure_texts.h"

#include <string.h>

const char measure_no_number[] =
    "the measure is no finite number: the data are too large for this kernel; scale them, or give a gaussian kernel";

const measure measures[] = {
    {.kind = CIRCE_MEASURE_CIRCE,
     .summary = "Conditional. The squared Hilbert-Schmidt norm of the covariance of x and y with what y leaves of z. "
                "Sees every kind of dependence, given enough rows; the mean of z given y is fitted on rows that are "
                "not measured. The one to train with.",
     .reading = "0 = independent given y",
     .meaning = "0 would mean that x tells nothing about z beyond y. Compare values of the same kernels and data."},
    {.kind = CIRCE_MEASURE_CIRCE_SPECTRAL,
     .summary = "Conditional. The largest singular value of the same operator instead: the single strongest direction "
                "counts. Never 0 on a sample; time grows with the cube of the rows.",
     .reading = "small = independent given y; never 0 on a sample",
     .meaning =
         "Near 0 would mean that x tells nothing about z beyond y. Compare values of the same kernels and data."},
    {.kind = CIRCE_MEASURE_HSIC,
     .summary = "Marginal: does x depend on z at all? y is not used and --y not needed. Sees every kind of dependence, "
                "also what x and z share only through y.",
     .reading = "0 = independent; marginal: y is not used",
     .meaning = "0 would mean that x and z are independent. What they share through y counts: y is not used.",
     .all_forms = true},
    {.kind = CIRCE_MEASURE_HSCIC,
     .summary =
         "Conditional. The HSIC of x and z at a given y, averaged over y. Rows of similar y stand in for rows of "
         "equal y, so with few rows or a large ridge dependence through y leaks in.",
     .reading = "0 = independent given y; above it on a sample",
     .meaning = "0 would mean that x and z are independent at every y. Compare values of the same kernels and data."},
    {.kind = CIRCE_MEASURE_GCM,
     .summary = "Conditional. The correlation of what y leaves of x with what it leaves of z, as a score that is about "
                "standard normal where they are independent. Fast, no kernels of x and z; blind to dependence without "
                "correlation, as between e and e^2.",
     .reading = "of scores about N(0, 1) if independent given y",
     .meaning = "Where x and z are independent given y, every pair of their columns scores about N(0, 1): above 3 is "
                "rare. Dependence without correlation is not seen."},
    {.kind = CIRCE_MEASURE_KCI,
     .summary = "Conditional. The statistic of the KCI test: the HSIC of what y leaves of (x, y) and of z. Sees every "
                "kind of dependence, given enough rows; grows with the rows, so compare at equal numbers of them.",
     .reading = "0 = independent given y; grows with the rows",
     .meaning =
         "0 would mean that x tells nothing about z beyond y. It grows with the rows: compare values of the same "
         "kernels and as many rows."},
    {.kind = CIRCE_MEASURE_NOCCO,
     .summary =
         "Conditional. The covariance divided by the spread of each variable, so that every direction counts alike: "
         "the choice of kernels matters less, noise and --epsilon matter more.",
     .reading = "0 = independent given y; depends on --epsilon",
     .meaning = "0 would mean that x tells nothing about z beyond y. Compare values of the same --epsilon and as many "
                "rows."},
    {.kind = CIRCE_MEASURE_KPC,
     .summary = "Conditional. The share of what y does not explain of x that z explains: 0 none, 1 all of it. Not "
                "symmetric in x and z; a small --epsilon lets z explain noise.",
     .reading = "in [0, 1]: share of the rest of x that z explains",
     .meaning =
         "0 would mean that z explains nothing of x beyond y, 1 that y and z determine x. On a sample it is above "
         "0 also under independence."},
};

const size_t n_measures = sizeof measures / sizeof measures[0];

const char measure_all_name[] = "all";
const char measure_all_summary[] =
    "Every measure on the same rows with the same kernels, in one table, with the time of each.";

const measure *measure_find(const char *name) {
    int kind = circe_measure_find(name);
    for (size_t i = 0; i < n_measures; i++) {
        if ((int)measures[i].kind == kind) return &measures[i];
    }
    return NULL;
}

const circe_measure_row *measure_row(const measure *what) { return circe_measure_row_of(what->kind); }

const char *measure_name(const measure *what) { return measure_row(what)->name; }

unsigned measure_uses(const measure *what) {
    unsigned uses = measure_row(what)->uses;
    return uses & CIRCE_USES_MEAN ? uses | USES_FIT : uses;
}

int measure_n_forms(const measure *what) {
    int n = 0;
    while (measure_row(what)->forms[n].name != NULL) n++;
    return n;
}

int measure_find_form(const measure *what, const char *name) {
    for (int form = 1; form <= measure_n_forms(what); form++) {
        if (strcmp(measure_form_name(what, form), name) == 0) return form;
    }
    return 0;
}

const char *measure_form_name(const measure *what, int form) {
    return form > 0 ? measure_row(what)->forms[form - 1].name : NULL;
}

circe_estimator measure_estimator(const measure *what, int form) {
    return form > 0 ? measure_row(what)->forms[form - 1].estimator : CIRCE_USTAT;
}

int64_t measure_least_rows(const measure *what, int form) {
    return form > 0 ? measure_row(what)->forms[form - 1].least : 2;
}
