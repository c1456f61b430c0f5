/* A word that is none of those there are. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* Refuses what follows the command's name: no such `kind` ("measure") as `name`, or none given (NULL), where `usage`
 * says what would be right; with the words that there are. Returns EXIT_INPUT. */
int suggest_refuse(const char *kind, const char *name, const char *usage, const char *const *words, size_t n);

#endif
