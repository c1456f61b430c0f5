/* The conditional mean of z given y, from files to a model. */
#ifndef CIRCE_FIT_H
#define CIRCE_FIT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_fit_options {
#include "circe/options/fit.def"
} circe_fit_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_fit_schema;
CIRCE_API void circe_fit_options_init(circe_fit_options *options);

CIRCE_END_DECLS

#endif
