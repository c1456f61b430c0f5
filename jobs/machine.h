/* With what a job computes, for its reports. */
#pragma once

#include "circe/context.h"

/* "0.1.0, avx512 instructions, OpenBLAS 0.3.21 (SkylakeX), 2 threads" */
/* "Intel Xeon ...", as the system names it; "unknown". */
const char *machine_processor(char *text, size_t size);

const char *machine_text(const circe_context *context, char *text, size_t size);
