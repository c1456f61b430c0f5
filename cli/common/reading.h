/* How the cells of a command's tables are read, from its options, and what it says of columns that are not plain
 * numbers. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include <cjson/cJSON.h>

#include "cli/common/inputs.h"
#include "cli/common/list.h"

/* --categories, --na and --decimal for the columns of one variable. */
typedef struct reading {
    io_reading how;
    name_list categories, missing;
    int64_t *item; /* (categories): which of the items of --categories each was */
    bool *found;   /* (categories) */
} reading;

/* `of` NULL: of a table that has all columns. Prints what is wrong and returns an exit status. */
int reading_open(const args *arguments, const variable *of, reading *out);
/* One more column that is categories whatever the options say. */
void reading_add_category(reading *r, const char *name);
void reading_free(reading *r);

/* After reading: which items of --categories were met; (items) flags, to be freed. */
bool *reading_met(const args *arguments, const reading *r);

/* Refuses an item of --categories that none of the inputs has met. */
int reading_check(const args *arguments, input *const *group, int n);

/* "columns": [{"variable": "z", "column": "sex", "read_as": "categories", "categories": 2, "because": "no cell is a
 * number"}, {"variable": "x", "column": "age", "read_as": "numbers", "missing": 3}]: those that are not plain numbers.
 */
void reading_json(cJSON *object, const input *const *group, int n);
void reading_text(const input *const *group, int n);

#endif
