/* The conditional mean of z given y from options: shared by fit and measure. */
#pragma once

#include "circe/circe.h"
#include "io/inputs.h"
#include "jobs/kernel_choice.h"

/* What a fit takes. */
typedef struct fitting_options {
    kernel_choice y, z;
    circe_cme_options cme; /* its grids are in `numbers` */
    double *numbers;       /* owned */
    double sigma2_z;
} fitting_options;

/* From the options of a job; it must not be moved in memory then. */
circe_status fitting_open(const circe_schema *schema, const void *job, fitting_options *out);
void fitting_close(fitting_options *options);

/* The options that only a fit uses and that contradict a finished model: the first one given, or NULL. */
const char *fitting_option_given(const circe_schema *schema, const void *job);
/* Options that the method has no use for. */
void fitting_note_unused(const circe_schema *schema, const void *job, notes *warnings);

/* Fits on y and z with the kernels of the options. If there are several ranks, all of them take part; rank 0 gets the
 * model, the others NULL. `linear_z` fits the mean of z itself instead, by a linear kernel. Adds to `warnings` what the
 * user should know. */
circe_status fitting_run(circe_context *context, const fitting_options *options, const input *y, const input *z,
                         bool linear_z, notes *warnings, circe_cme **cme);

/* Tries a low rank of at most max_rank. *fits is false if y does not have one. */
circe_status fitting_quick(circe_context *context, const fitting_options *options, const input *y, const input *z,
                           bool linear_z, int64_t max_rank, notes *warnings, circe_cme **cme, bool *fits);

/* The same with kernels at hand (that of y may be free: the grid chooses) and, unless it is 0, this ridge alone. */
circe_status fitting_with(circe_context *context, const fitting_options *options, const input *y, const input *z,
                          const circe_kernel *kernel_y, const circe_kernel *kernel_z, double ridge, notes *warnings,
                          circe_cme **cme);

/* If a kernel matrix does not have low rank, adds a hint to the error; returns the status. */
circe_status fitting_hint(circe_status status);

/* Notes on variables that are constant: the measure is then defined, but says nothing. */
void fitting_note_constant(const input *in, notes *warnings);
