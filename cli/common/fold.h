/* Lines of text folded to the width of a terminal. */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include <stddef.h>

/* Lines that are longer than `width` go on below, between words, under the last column of the line (what follows two
 * spaces or more). A word is never broken: a path that is longer stays whole. NULL: no memory. */
char *fold_lines(const char *text, size_t bytes, int width);

#endif
