/* Lines of text folded to the width of a terminal. */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include <stddef.h>

/* Lines longer than `width` are broken between words and continue under the last column of the line (the text after two
 * or more spaces). Words are never broken: a path that is longer stays whole. NULL: no memory. */
char *fold_lines(const char *text, size_t bytes, int width);

#endif
