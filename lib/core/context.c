/* Contexts: threads, log, progress. backend/context.c creates them, with the loops that the processor can run. */
#include "circe/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "core/threads.h"

void circe_context_options_init(circe_context_options *options) { memset(options, 0, sizeof *options); }

void circe_context_destroy(circe_context *context) {
    if (context != NULL) context->options.allocator.release(context->options.allocator.user, context);
}

int circe_context_threads(const circe_context *context) { return context->threads; }

void circe__log(const circe_context *context, circe_log_level level, const char *format, ...) {
    char text[1024];
    va_list arguments;
    if (context->options.log == NULL) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->options.log(context->options.log_user, level, text);
}

circe_status circe__progress(const circe_context *context, const char *stage, int64_t done, int64_t total) {
    if (circe__helping())
        return circe__stopped() ? circe_fail(CIRCE_ERR_CANCELLED, "cancelled by the caller during: %s", stage)
                                : CIRCE_OK;
    if (context->options.progress == NULL) return CIRCE_OK;
    if (context->options.progress(context->options.progress_user, stage, done, total) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_CANCELLED, "cancelled by the caller during: %s", stage);
}

double circe__seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
