/* Internals of circe_scale, for its counterpart on a GPU. */
#pragma once

#include "circe/scaling.h"
#include "kernels/kernels.h"

circe_status circe__check_scaling(const circe_scaling *scaling, int64_t cols);

/* The factors of a kernel (NULL: none) with their columns resolved, those without a width as they are, in the slot
 * FACTORS; refused where a width that follows the features has no columns of its own. */
circe_status circe__following_factors(circe_workspace *workspace, const circe_kernel *kernel, int64_t cols,
                                      circe__factors *factors);
