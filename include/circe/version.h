#ifndef CIRCE_VERSION_H
#define CIRCE_VERSION_H

#include "circe/export.h"

#define CIRCE_VERSION_MAJOR 0
#define CIRCE_VERSION_MINOR 1
#define CIRCE_VERSION_PATCH 0
#define CIRCE_VERSION_STRING "0.1.0"

CIRCE_BEGIN_DECLS

/* The version of the library that is loaded, to compare with the macros of the headers compiled against. */
CIRCE_API const char *circe_version(void);

/* The libraries this build stands on, one "name version" per line. */
CIRCE_API const char *circe_build_info(void);

CIRCE_END_DECLS

#endif
