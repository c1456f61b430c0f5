/* Which BLAS this process runs on, and the choice of its kernels. */
#pragma once

#include "backend/cpu/processor.h"

/* What a processor must have to run the kernels that OpenBLAS calls `core`. An unknown name belongs to a processor
 * newer than this file, and counts as CIRCE__AVX512. */
circe__processor circe__blas_core_level(const char *core);
