/* Reading a file of settings as YAML, within limits. */
#ifndef CLI_YAML_LOAD_H
#define CLI_YAML_LOAD_H

#include <stdbool.h>
#include <stdio.h>
#include <yaml.h>

/* The whole text, to be freed whatever comes back; refuses what is too long, or no text. */
int yaml_load_text(const char *path, FILE *in, char **text, size_t *bytes);

/* The tree of it. *sound: there is one, to be deleted; else the parser knows what is wrong, unless that was said here
 * and the status is no EXIT_DONE. The parser is the caller's to delete either way. */
int yaml_load(const char *path, const char *text, size_t bytes, yaml_parser_t *parser, yaml_document_t *document,
              bool *sound);

#endif
