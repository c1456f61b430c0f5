/* The conditional mean of z given y from the command line's options: shared by `fit` and `measure`. */
#ifndef CLI_FITTING_H
#define CLI_FITTING_H

#include "circe/circe.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "io/inputs.h"

/* Fits on y and z with the kernels of the options, by all ranks where there are several: rank 0 gets the model, the
 * others NULL; `linear_z` fits the mean of z itself instead, by a linear kernel.
 * What the user should know of it is added to `warnings`. Prints what is wrong and returns an exit status. */
int fitting_run(const session *s, const args *arguments, const input *y, const input *z, bool linear_z, notes *warnings,
                circe_cme **cme);

/* An attempt with a low rank of at most max_rank: *fitted is CIRCE_ERR_RANK, and nothing was printed, where y has none.
 */
int fitting_quick(const session *s, const args *arguments, const input *y, const input *z, bool linear_z,
                  int64_t max_rank, notes *warnings, circe_cme **cme, circe_status *fitted);

/* The same with kernels at hand (that of y may be free: the grid chooses) and, unless it is 0, this ridge alone. Prints
 * nothing. */
circe_status fitting_with(const session *s, const args *arguments, const input *y, const input *z,
                          const circe_kernel *kernel_y, const circe_kernel *kernel_z, double ridge, notes *warnings,
                          circe_cme **cme);

/* Notes on variables that are constant: the measure is then defined, but says nothing. */
void fitting_note_constant(const input *in, notes *warnings);

/* The options that only a fit uses and that contradict a finished model: the first one given, or OPT_COUNT. */
spec_option_id fitting_option_given(const args *arguments);

#endif
