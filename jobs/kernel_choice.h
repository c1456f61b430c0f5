/* Kernels as the options describe them, with column names and defaults resolved. */
#pragma once

#include "circe/circe.h"
#include "io/inputs.h"
#include "jobs/notes.h"

/* How widths that the kernel's text leaves free are to be set. */
typedef enum width_rule {
    WIDTH_ONE,  /* by the one number of --sigma2-*; otherwise by the median heuristic, also where the default is a list
                 */
    WIDTH_GRID, /* numbers are left to leave-one-out: the kernel stays free; median is bound */
    WIDTH_FREE, /* left to the library */
} width_rule;

/* --kernel-* and --sigma2-* of one variable. */
typedef struct kernel_choice {
    const char *kernel;   /* NULL: the default for its columns */
    const double *sigma2; /* none: the median */
    int64_t n_sigma2;
    bool given;     /* the widths are not the default */
    bool automatic; /* a grid is wanted, and the library has one */
} kernel_choice;

/* The kernel of one variable. Names of columns come from `in`, and so does the median. Adds a note where --sigma2-* has
 * nothing to act on. */
circe_status kernel_make(circe_context *context, const kernel_choice *choice, const input *in, width_rule rule,
                         notes *warnings, circe_kernel **kernel);

/* The text of a kernel of n columns: gaussian for numbers, delta for categories, one factor per column or, for `runs`,
 * over each run of columns of a kind. The caller frees it. */
char *kernel_of_columns(const bool *categories, int64_t n, bool runs);

/* Whether a kernel of `cols` columns is a.b over all of them. */
bool kernel_is_linear(const circe_kernel *kernel, int64_t cols);

/* The widths of a bound kernel, one for each factor that has one; returns how many. */
int64_t kernel_widths(const circe_kernel *kernel, double *widths, int64_t limit);

/* The text of a kernel with widths of 5 digits, as "gaussian(0.70951)"; or any text with numbers in parentheses. */
const char *kernel_short_text(const char *text, char *out, size_t size);
