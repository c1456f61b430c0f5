#include "jobs/machine.h"

#include <stdio.h>

#include "circe/circe.h"

const char *machine_text(const circe_context *context, char *text, size_t size) {
    int threads = circe_context_threads(context);
    const char *core = circe_blas_core();
    snprintf(text, size, "%s, %s instructions, %s%s%s%s, %d thread%s", circe_version(), circe_context_isa(context),
             circe_blas_name(), core[0] != '\0' ? " (" : "", core, core[0] != '\0' ? ")" : "", threads,
             threads == 1 ? "" : "s");
    return text;
}
