/* Pictures for the image experiments. */
#ifndef CIRCE_DATA_H
#define CIRCE_DATA_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_data_options {
#include "circe/options/data.def"
} circe_data_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_data_schema;
CIRCE_API void circe_data_options_init(circe_data_options *options);

CIRCE_END_DECLS

#endif
