/* "Did you mean": the nearest of the words that would have been right. */
#ifndef IO_NEAREST_H
#define IO_NEAREST_H

#include <stddef.h>

/* The word nearest to `text`, or NULL where none is near enough to be a slip of the fingers. */
const char *io_nearest(const char *text, const char *const *words, size_t n);

#endif
