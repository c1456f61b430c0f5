/* The first failure of a loop that runs on several threads: texts of errors are a thread's own, so the text is kept and
 * said again by the thread that started the loop. */
#ifndef IMAGES_FIRST_ERROR_H
#define IMAGES_FIRST_ERROR_H

#include <stdbool.h>
#include <stdio.h>

#include "error.h"

typedef struct first_error {
    circe_status status;
    char text[1024];
} first_error;

static inline bool first_error_happened(const first_error *error) {
    int status;
#pragma omp atomic read
    status = error->status;
    return status != CIRCE_OK;
}

static inline void first_error_note(first_error *error, circe_status status) {
    if (status == CIRCE_OK) return;
#pragma omp critical(images_first_error)
    if (!first_error_happened(error)) {
        snprintf(error->text, sizeof error->text, "%s", train_last_error());
#pragma omp atomic write
        error->status = status;
    }
}

static inline circe_status first_error_status(const first_error *error) {
    return error->status == CIRCE_OK ? CIRCE_OK : train_fail(error->status, "%s", error->text);
}

#endif
