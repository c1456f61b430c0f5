/* Kernels as the options describe them, with column names and defaults resolved. */
#ifndef CLI_KERNELS_H
#define CLI_KERNELS_H

#include "circe/circe.h"
#include "inputs.h"

/* The kernel of one variable. Names of columns come from `in`. Widths that neither the text nor --sigma2-* fixes are
 * bound to the median heuristic of `in`; for y, those are left free where a grid is to choose. Adds a note where
 * --sigma2-* has nothing to act on. Prints what is wrong and returns an exit status. */
int kernel_from_options(circe_context *context, const args *arguments, const input *in, notes *warnings,
                        circe_kernel **kernel);

/* The widths of a bound kernel, one for each factor that has one; returns how many. */
int64_t kernel_widths(const circe_kernel *kernel, double *widths, int64_t limit);

#endif
