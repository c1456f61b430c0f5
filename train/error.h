/* Errors of the training library: as in libcirce, a status and a text for people. */
#ifndef TRAIN_ERROR_H
#define TRAIN_ERROR_H

#include "circe/status.h"

/* Sets this thread's text and returns the status: return train_fail(CIRCE_ERR_..., "..."). */
circe_status train_fail(circe_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A failed call of libcirce: keeps its text. */
circe_status train_pass(circe_status status);

/* What went wrong in the last failed call of train_* on this thread. */
const char *train_last_error(void);

#endif
