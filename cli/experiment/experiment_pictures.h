/* Pictures that all runs of an experiment share: rendered or read once, before the first run, kept as a file of bytes
 * in the experiment's folder, and mapped by every run. dSprites as drawn needs none of this: a run draws what it shows
 * in a fraction of a second. */
#ifndef CLI_EXPERIMENT_PICTURES_H
#define CLI_EXPERIMENT_PICTURES_H

#include "circe/circe.h"
#include "cli/experiment/experiment_config.h"
#include "images/yaleb.h"

/* Sees to the pictures of every model that needs it, and notes in the model where they lie: FOLDER/data. `folder`, an
 * existing folder, is the experiment's. Prints what is wrong and returns an exit status. */
int experiment_pictures_prepare(experiment_config *config, const char *folder, bool quiet);

/* The file again, in a run; closed by circe_tensor_file_close, which voids what points into it. */
circe_status experiment_pictures_open(circe_context *context, const experiment_model *model, circe_tensor_file **file,
                                      circe_tensor *pixels);
/* With the names that faces have; names are copied, pixels point into the file. */
circe_status experiment_pictures_faces(circe_context *context, const experiment_model *model, circe_tensor_file **file,
                                       yaleb_store *store);

#endif
