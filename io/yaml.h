/* Settings files: YAML as a tree whose nodes know their lines, so that every error can name one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "circe/status.h"

typedef struct io_yaml_node {
    enum { IO_YAML_SCALAR = 1, IO_YAML_LIST, IO_YAML_MAPPING } kind;
    int64_t line;                      /* counted from 1 */
    const char *text;                  /* of a scalar that says something; NULL: nothing, ~ or null, or a byte 0 */
    int64_t n;                         /* elements of a list, pairs of a mapping */
    const struct io_yaml_node **items; /* (n) the elements, or the values */
    const struct io_yaml_node **keys;  /* (n) of a mapping; of any kind, as YAML allows it */
} io_yaml_node;

typedef struct io_yaml {
    const char *path;
    char *text;               /* all of the file */
    const io_yaml_node *root; /* NULL: there is nothing in it */
    struct io_yaml_tree *tree;
} io_yaml;

/* Reads a file. CIRCE_ERR_IO if it cannot be read; CIRCE_ERR_FORMAT if it is not YAML, is longer than a megabyte, or is
 * nested too deeply. The path is borrowed. */
circe_status io_yaml_read(const char *path, io_yaml **file);
void io_yaml_free(io_yaml *file); /* takes NULL */

/* The value under this key of a mapping, or NULL. */
const io_yaml_node *io_yaml_find(const io_yaml_node *mapping, const char *key);

/* Fails with CIRCE_ERR_FORMAT: "FILE, line N, key 'KEY': TEXT", without the key if it is NULL. */
circe_status io_yaml_refuse(const io_yaml *file, int64_t line, const char *key, const char *format, ...)
    CIRCE_PRINTF(4, 5);
