/* Status codes. Every fallible function of libcirce returns one; circe_last_error() holds the details.
 * Numbers never change their meaning between versions. */
#ifndef CIRCE_STATUS_H
#define CIRCE_STATUS_H

#include "circe/export.h"

CIRCE_BEGIN_DECLS

/* name, number, what it means in general */
#define CIRCE_STATUS_MAP(X)                                                           \
    X(OK, 0, "success")                                                               \
    X(ERR_ARGUMENT, 1, "an argument is out of its range")                             \
    X(ERR_SHAPE, 2, "the shapes of the arguments do not agree")                       \
    X(ERR_VALUE, 3, "the data contain NaN or infinity, or are otherwise unusable")    \
    X(ERR_MEMORY, 4, "not enough memory")                                             \
    X(ERR_NUMERIC, 5, "a factorisation failed")                                       \
    X(ERR_RANK, 6, "the kernel matrix does not have low rank at this tolerance")      \
    X(ERR_IO, 7, "a file could not be read")                                          \
    X(ERR_FORMAT, 8, "a file is damaged or has another format")                       \
    X(ERR_UNSUPPORTED, 9, "this combination or build does not support the operation") \
    X(ERR_CANCELLED, 10, "the caller's progress callback asked to stop")              \
    X(ERR_DEVICE, 11, "the GPU or its driver reported an error")                      \
    X(ERR_WRITE, 12, "a file could not be written")

typedef enum circe_status {
#define CIRCE_STATUS_ENUM(name, number, text) CIRCE_##name = number,
    CIRCE_STATUS_MAP(CIRCE_STATUS_ENUM)
#undef CIRCE_STATUS_ENUM
} circe_status;

/* The general meaning of a status, and its name ("CIRCE_ERR_SHAPE"). Never NULL. */
CIRCE_API const char *circe_status_text(circe_status status);
/* The name of a status, such as "CIRCE_ERR_SHAPE". */
CIRCE_API const char *circe_status_name(circe_status status);

/* What went wrong in this thread's last failed call, as a sentence. Never NULL; empty before any failure.
 * Valid until the next failing call of the same thread. */
CIRCE_API const char *circe_last_error(void);

/* For callbacks and for libraries that use this one: sets this thread's error text and returns `status`, so that a
 * failure reads: return circe_fail(CIRCE_ERR_..., "..."). Control characters are made visible. */
CIRCE_API circe_status circe_fail(circe_status status, const char *format, ...) CIRCE_PRINTF(2, 3);

/* Adds a line to the error text that says what to do. */
CIRCE_API circe_status circe_fail_hint(circe_status status, const char *format, ...) CIRCE_PRINTF(2, 3);

CIRCE_END_DECLS

#endif
