/* Model files as the command keeps them: the library's, with the categories of text columns noted in the metadata, so
 * that the same texts get the same codes when the model is used on another table. */
#ifndef CLI_MODEL_FILE_H
#define CLI_MODEL_FILE_H

#include "circe/circe.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/inputs.h"

/* Both print what is wrong and return an exit status. */
int model_save(const circe_cme *cme, const input *y, const input *z, const char *path);

/* Of a model file at %s. */
#define MODEL_WITHOUT_CHECKSUM "%s has no checksum, as an older circe wrote it: damage to it would not be noticed"

/* Loads a model and gives the text columns of y and z the codes it was fitted with. */
int model_load(circe_context *context, const char *path, input *y, input *z, notes *warnings, circe_cme **cme);

#endif
