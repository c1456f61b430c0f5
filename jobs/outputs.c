/* -o data.csv beside --data data.csv is a slip of the hand that costs a table. Files are compared, not names: ./a and a
 * are one. */
#include "jobs/outputs.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/small.h"
#include "io/paths.h"

/* A file, or that of FILE:SELECTION. */
static bool find_file(const char *source, struct stat *info) {
    const char *colon = strrchr(source, ':');
    if (stat(source, info) == 0) return true;
    if (colon == NULL) return false;
    OWNED char *path = small_format("%.*s", (int)(colon - source), source);
    return stat(path, info) == 0;
}

circe_status output_check(const circe_schema *schema, const void *options, const char *name) {
    const circe_option *own = circe_schema_find(schema, name);
    const char *path = circe_options_text(schema, options, name, NULL, 0);
    OWNED char *option = own->letter != 0 ? small_format("-%c", own->letter) : small_format("--%s", name);
    struct stat to, from;
    circe_status status = path_check_writable(option, path);
    if (status != CIRCE_OK || stat(path, &to) != 0 || !S_ISREG(to.st_mode)) return status;
    for (size_t i = 0; i < schema->n; i++) {
        const circe_option *row = &schema->rows[i];
        const char *source = row->kind == CIRCE_OPTION_PATH && row != own
                                 ? circe_options_text(schema, options, row->name, NULL, 0)
                                 : NULL;
        if (source == NULL || strcmp(row->name, "weights") == 0)
            continue; /* a network may be trained on, in its place */
        if (find_file(source, &from) && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            return circe_fail(CIRCE_ERR_ARGUMENT, "%s %s would overwrite what --%s reads; name another file", option,
                              path, row->name);
    }
    return CIRCE_OK;
}
