/* How far a prediction depends on Z given Y, by one yardstick for all methods of an image experiment. */
#ifndef CLI_EXPERIMENT_YARDSTICK_H
#define CLI_EXPERIMENT_YARDSTICK_H

#include "cli/experiment/experiment_result.h"
#include "images/part.h"

enum { YARDSTICK_CHUNKS = 8 }; /* the fewest, for a standard error */

/* CIRCE (ustat) of the prediction (n, float32) on the rows of `part`, as its mean over chunks of rows, less the same
 * with Z exchanged among rows of equal Y: experiment_yardstick.c says why. Sets NUMBER_DEPENDENCE and those after it.
 */
circe_status experiment_yardstick_apply(circe_context *context, const experiment_settings *settings,
                                        const image_part *part, const image_part *holdout, const float *prediction,
                                        experiment_result *result);

#endif
