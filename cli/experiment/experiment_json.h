/* Structs into JSON and back, by the tables that read them from YAML: what a key is called and holds is said once. Keys
 * marked `plan`, lists of parts and texts that are NULL are left out. */
#ifndef CLI_EXPERIMENT_JSON_H
#define CLI_EXPERIMENT_JSON_H

#include <cjson/cJSON.h>

#include "cli/experiment/experiment_yaml.h"

void experiment_json_put(cJSON *object, const yaml_table *table, const void *part);

/* Reads on until the first thing that is missing or of the wrong kind. */
typedef struct json_reader {
    arena *owner; /* of texts and lists */
    const char *missing;
} json_reader;

const cJSON *json_reader_item(json_reader *reader, const cJSON *object, const char *name,
                              cJSON_bool (*is)(const cJSON *));
double json_reader_number(json_reader *reader, const cJSON *object, const char *name);
const char *json_reader_text(json_reader *reader, const cJSON *object, const char *name); /* "" where missing */

/* The struct starts as the table's init makes it. */
void experiment_json_get(json_reader *reader, const cJSON *object, const yaml_table *table, void *part);

#endif
