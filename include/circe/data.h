/* Draws the pictures of the image experiments, in the format of the published data sets. */
#ifndef CIRCE_DATA_H
#define CIRCE_DATA_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_data_options {
#include "circe/options/data.def"
} circe_data_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_data_schema;
/* Sets every field to its default. */
CIRCE_API void circe_data_options_init(circe_data_options *options);

/* What was written. */
typedef struct circe_data_made {
    int64_t pictures, width, height;
} circe_data_made;

/* `set` is "faces", "dsprites", or "contact-sheet" (one picture that shows some of a set's pictures). */
CIRCE_API circe_status circe_data(circe_context *context, const char *set, const circe_data_options *options,
                                  const circe_watch *watch, circe_data_made *made);

CIRCE_END_DECLS

#endif
