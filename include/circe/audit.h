/* Does a prediction depend on sensitive attributes, once the outcome is known? */
#ifndef CIRCE_AUDIT_H
#define CIRCE_AUDIT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_audit_options {
#include "circe/options/audit.def"
} circe_audit_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_audit_schema;
CIRCE_API void circe_audit_options_init(circe_audit_options *options);

CIRCE_END_DECLS

#endif
