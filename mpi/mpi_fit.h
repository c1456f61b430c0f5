/* Fitting a conditional mean by several processes. */
#ifndef RANKS_FIT_H
#define RANKS_FIT_H

#include "circe/cme.h"

/* circe_cme_fit by every rank, each with the same data and options; all. Process 0 gets the model,
 * the others NULL. Differences between what they hold are refused, as are more processes than rows. Equal to the fit of
 * one process but for rounding. */
circe_status ranks_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const circe_kernel *kernel_y,
                       const circe_kernel *kernel_z, const circe_cme_options *options, circe_cme **cme);

/* All: refused, with a text that names the first process that holds another matrix than process 0. */
circe_status ranks_same_data(const circe_mat *matrix, const char *what);

#endif
