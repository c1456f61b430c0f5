/* The first failure of a loop that runs on several threads: texts of errors are a thread's own, so the text is kept and
 * said again by the thread that started the loop. */
#ifndef IMAGES_FIRST_ERROR_H
#define IMAGES_FIRST_ERROR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "circe/status.h"

/* Starts as all zero. */
typedef struct first_error {
    atomic_flag taken;
    atomic_int status; /* written once, after the text */
    char text[1024];
} first_error;

static inline bool first_error_happened(first_error *error) { return atomic_load(&error->status) != CIRCE_OK; }

static inline void first_error_note(first_error *error, circe_status status) {
    if (status == CIRCE_OK || atomic_flag_test_and_set(&error->taken)) return;
    snprintf(error->text, sizeof error->text, "%s", circe_last_error());
    atomic_store(&error->status, (int)status);
}

/* After the loop. */
static inline circe_status first_error_status(first_error *error) {
    circe_status status = (circe_status)atomic_load(&error->status);
    return status == CIRCE_OK ? CIRCE_OK : circe_fail(status, "%s", error->text);
}

#endif
