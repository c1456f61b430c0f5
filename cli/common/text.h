/* Plain text for people: wrapping to the width of the terminal. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Columns to write help in: the terminal's, between 60 and 100; 80 if there is none. */
int text_width(void);

/* Writes words wrapped between `indent` and `width`. The cursor is at column `at`; the last line is ended. */
void text_wrap(FILE *out, const char *text, int at, int indent, int width);

/* Paragraphs as in spec.h, one after the other; those that start with two spaces are verbatim. */
typedef void text_paragraph_fn(FILE *out, const char *text, size_t length, bool verbatim);
void text_paragraphs(FILE *out, const char *text, text_paragraph_fn *put);

/* One for the terminal: wrapped, unless it is verbatim. */
void text_paragraph(FILE *out, const char *text, size_t length, bool verbatim);
