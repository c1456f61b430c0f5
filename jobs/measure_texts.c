/* The table of measures. */
#include "jobs/measure_texts.h"

#include <string.h>

const char measure_no_number[] =
    "the measure is not a finite number: the data are too large for this kernel; scale them, or use a gaussian kernel";

const measure measures[] = {
    {.kind = CIRCE_MEASURE_CIRCE,
     .summary = "Conditional. The squared Hilbert-Schmidt norm of the covariance between (x, y) and the residual of z "
                "given y. With enough rows it sees every kind of dependence. The mean of z given y is fitted on rows "
                "that are not measured. Use this one for training.",
     .reading = "0 = independent given y",
     .meaning = "0 would mean that x says nothing about z beyond y. Compare only values with the same kernels and the "
                "same y and z."},
    {.kind = CIRCE_MEASURE_CIRCE_SPECTRAL,
     .summary = "Conditional. The largest singular value of the same operator: only the strongest direction counts. It "
                "is never 0 on a sample, and its time grows with the cube of the rows.",
     .reading = "small = independent given y; never 0 on a sample",
     .meaning = "A value near 0 would mean that x says nothing about z beyond y. Compare only values with the same "
                "kernels and the same y and z."},
    {.kind = CIRCE_MEASURE_HSIC,
     .summary = "Marginal: does x depend on z at all? It does not use y, and --y is not needed. It sees every kind of "
                "dependence, including what x and z share only through y.",
     .reading = "0 = independent; marginal: y is not used",
     .meaning = "0 would mean that x and z are independent. The measure does not use y, so what x and z share through "
                "y counts as dependence.",
     .all_forms = true},
    {.kind = CIRCE_MEASURE_HSCIC,
     .summary = "Conditional. The HSIC of x and z at a given y, averaged over y. Rows with similar y stand in for rows "
                "with equal y. So with few rows or a large ridge, dependence through y leaks in.",
     .reading = "0 = independent given y; above it on a sample",
     .meaning = "0 would mean that x and z are independent at every y. Compare only values with the same kernels and "
                "the same y and z."},
    {.kind = CIRCE_MEASURE_GCM,
     .summary = "Conditional. The correlation between the residuals of x and of z given y, as a score that is about "
                "standard normal under independence. It is fast and needs no kernels of x and z. It is blind to "
                "dependence without correlation, such as between e and e^2.",
     .reading = "scores are about N(0, 1) if independent given y",
     .meaning = "If x and z are independent given y, the score of every pair of columns is about N(0, 1), so values "
                "above 3 are rare. The measure does not see dependence without correlation."},
    {.kind = CIRCE_MEASURE_KCI,
     .summary = "Conditional. The statistic of the KCI test: the HSIC of the residuals of (x, y) and of z given y. "
                "With enough rows it sees every kind of dependence. It grows with the number of rows, so compare "
                "values at equal numbers of rows.",
     .reading = "0 = independent given y; grows with the rows",
     .meaning = "0 would mean that x says nothing about z beyond y. The value grows with the number of rows, so "
                "compare only values with the same kernels and the same number of rows."},
    {.kind = CIRCE_MEASURE_NOCCO,
     .summary = "Conditional. The covariance divided by the spread of each variable, so every direction counts "
                "equally. The choice of kernels matters less; noise and --epsilon matter more.",
     .reading = "0 = independent given y; depends on --epsilon",
     .meaning = "0 would mean that x says nothing about z beyond y. Compare only values with the same --epsilon and "
                "the same number of rows."},
    {.kind = CIRCE_MEASURE_KPC,
     .summary = "Conditional. Of the variation in x that y does not explain, the share that z explains: 0 is none, 1 "
                "is all. It is not symmetric in x and z. A small --epsilon lets z explain noise.",
     .reading = "in [0, 1]: share of the residual of x that z explains",
     .meaning = "0 would mean that z explains nothing of x beyond y; 1 would mean that y and z determine x. On a "
                "sample it is above 0 even under independence."},
};

const size_t n_measures = sizeof measures / sizeof measures[0];

const char measure_all_name[] = "all";
const char measure_all_summary[] =
    "All measures on the same rows with the same kernels, in one table, with the time of each.";

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

const circe_measure_form *measure_find_form(const measure *what, const char *name) {
    const circe_measure_form *form = measure_row(what)->forms;
    while (form->name != NULL && strcmp(form->name, name) != 0) form++;
    return form->name != NULL ? form : NULL;
}
