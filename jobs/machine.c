#include "jobs/machine.h"

#include <stdio.h>
#include <string.h>

#include "circe/circe.h"

const char *machine_processor(char *text, size_t size) {
    char line[512];
    FILE *in = fopen("/proc/cpuinfo", "r");
    snprintf(text, size, "unknown");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(text, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (in != NULL) fclose(in);
    return text;
}

const char *machine_text(const circe_context *context, char *text, size_t size) {
    int threads = circe_context_threads(context);
    const char *core = circe_blas_core();
    snprintf(text, size, "%s, %s instructions, %s%s%s%s, %d thread%s", circe_version(), circe_context_isa(context),
             circe_blas_name(), core[0] != '\0' ? " (" : "", core, core[0] != '\0' ? ")" : "", threads,
             threads == 1 ? "" : "s");
    return text;
}
