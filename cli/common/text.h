/* Plain text for people: wrapping to the width of the terminal. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdio.h>

/* Columns to write help in: the terminal's, between 60 and 100; 80 where there is none. */
int text_width(void);

/* Writes words wrapped between `indent` and `width`. The cursor is at column `at`; the last line is ended. */
void text_wrap(FILE *out, const char *text, int at, int indent, int width);

/* Paragraphs as in spec.h: wrapped, except lines that start with two spaces. */
void text_paragraphs(FILE *out, const char *text, int width);

#endif
