/* Which BLAS this process runs on, and the choice of its kernels. */
#ifndef CIRCE_BLAS_CORE_H
#define CIRCE_BLAS_CORE_H

#include "backend/cpu/processor.h"

/* What the kernels that OpenBLAS calls `core` need of a processor. A name that is not known belongs to a processor
 * newer than this file, and counts as CIRCE__AVX512. */
circe__processor circe__blas_core_level(const char *core);

#endif
