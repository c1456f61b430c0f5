/* Training of a network whose output does not depend on some columns, once others are known. */
#ifndef CIRCE_TRAIN_H
#define CIRCE_TRAIN_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_train_options {
#include "circe/options/train.def"
} circe_train_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_train_schema;
CIRCE_API void circe_train_options_init(circe_train_options *options);

CIRCE_END_DECLS

#endif
