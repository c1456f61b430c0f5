/* The experiments of the paper. */
#ifndef CIRCE_EXPERIMENT_H
#define CIRCE_EXPERIMENT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_experiment_options {
#include "circe/options/experiment.def"
} circe_experiment_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_experiment_schema;
CIRCE_API void circe_experiment_options_init(circe_experiment_options *options);

CIRCE_END_DECLS

#endif
