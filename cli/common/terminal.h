/* Controls what reaches the terminal on standard output. */
#pragma once

#include <stddef.h>

/* From now on, control characters in the output are made visible, and long lines are folded on a terminal. */
void terminal_guard(void);

/* What follows keeps its long lines. */
void terminal_unfolded(void);

/* The output that follows is data for a program: it goes unchanged into a pipe or a file. */
void terminal_data(void);

/* What follows is not printed at all. */
void terminal_silence(void);

/* Lines longer than `width` are broken between words and continue under the last column of the line (the text after two
 * or more spaces). Words are never broken: a path that is longer stays whole. NULL: no memory. */
char *fold_lines(const char *text, size_t bytes, int width);
