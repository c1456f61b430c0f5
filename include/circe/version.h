#ifndef CIRCE_VERSION_H
#define CIRCE_VERSION_H

#include "circe/export.h"

#define CIRCE_VERSION_MAJOR 0
#define CIRCE_VERSION_MINOR 2
#define CIRCE_VERSION_PATCH 0
#define CIRCE_VERSION_STRING "0.2.0"

CIRCE_BEGIN_DECLS

/* The version of the library that is loaded, to compare with the macros of the headers compiled against. */
CIRCE_API const char *circe_version(void);

/* The libraries that this build uses, one "name version" per line. */
CIRCE_API const char *circe_build_info(void);

/* The BLAS of this process ("OpenBLAS 0.3.21") and the processor that its kernels are for ("SkylakeX", or "" if
 * unknown). An OpenBLAS that does not know the processor uses its oldest kernels. When this library is loaded, it
 * selects better ones, unless OPENBLAS_CORETYPE is set or other threads may be using OpenBLAS. */
CIRCE_API const char *circe_blas_name(void);
/* The processor that the kernels of BLAS are for. */
CIRCE_API const char *circe_blas_core(void);

/* NULL, or a sentence that says why the BLAS is slower here than it could be, and what to do. A new context logs it as
 * a warning. */
CIRCE_API const char *circe_blas_note(void);

CIRCE_END_DECLS

#endif
