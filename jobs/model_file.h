/* Model files of the jobs. They are the library's files, with the categories of text columns in the metadata, so that
 * the same texts get the same codes when the model is used on another table. */
#pragma once

#include "circe/circe.h"
#include "io/inputs.h"
#include "jobs/notes.h"

circe_status model_save(const circe_cme *cme, const input *y, const input *z, const char *path);

/* Of a model file at %s. */
#define MODEL_WITHOUT_CHECKSUM \
    "%s has no checksum because an older circe wrote it, so damage to the file would not be noticed"

/* Loads a model and gives the text columns of y and z the codes it was fitted with. */
circe_status model_load(circe_context *context, const char *path, input *y, input *z, notes *warnings, circe_cme **cme);
