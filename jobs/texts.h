/* Texts for people that several results have. */
#ifndef JOBS_TEXTS_H
#define JOBS_TEXTS_H

#include <stddef.h>

/* A text with the numbers in its parentheses, which are widths, cut to 5 digits: "gaussian(0.70951)". */
const char *text_widths(const char *text, char *out, size_t size);

#endif
