/* Predictions of a model that circe_train wrote. */
#ifndef CIRCE_PREDICT_H
#define CIRCE_PREDICT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_predict_options {
#include "circe/options/predict.def"
} circe_predict_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_predict_schema;
CIRCE_API void circe_predict_options_init(circe_predict_options *options);

CIRCE_END_DECLS

#endif
