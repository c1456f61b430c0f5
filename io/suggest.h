/* "Did you mean": finds the nearest correct word. */
#pragma once

#include <stddef.h>

#include "circe/status.h"

/* The number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other, ignoring
 * case; and how many of them still count as a typing error in a text of this length. */
size_t suggest_distance(const char *a, const char *b);
size_t suggest_allowed(const char *text);

/* The word nearest to `text`, or NULL if none is near enough to be a typing error. */
const char *suggest_nearest(const char *text, const char *const *words, size_t n);

/* Refuses what follows the command's name: no such `kind` ("measure") as `name`, or none given (NULL), where `usage`
 * says what would be right; with the words that there are. */
circe_status suggest_refuse(const char *kind, const char *name, const char *usage, const char *const *words, size_t n);

/* The index of a text among the words "a|b|c", or -1. */
int io_word_index(const char *words, const char *text);
