/* Fitting a conditional mean by several processes. */
#pragma once

#include "circe/cme.h"

/* circe_cme_fit by all ranks, each with the same data and options. Process 0 gets the model, the others NULL. Ranks
 * with different data are refused, and so are more processes than rows. The result equals the fit of one process up to
 * rounding. */
circe_status ranks_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                       const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme);

/* All: fails, with a text that names the first process whose matrix differs from that of process 0. */
circe_status ranks_same_data(const circe_mat *matrix, const char *what);
