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

/* Adds the word of "a|b|c" that is nearest to `text` to an error, as a hint, if one is near. Returns the status. */
circe_status suggest_word(circe_status status, const char *words, const char *text);

/* Word k of "a|b|c" into `out`, which it returns; NULL: there are not so many. The index of a text among them, or -1,
 * is circe_word_index (circe/options.h). */
const char *io_word_at(const char *words, int k, char *out, size_t size);
