/* How a job reads the cells of its tables, according to its options. */
#pragma once

#include "io/io.h"
#include "io/list.h"

/* The options of the same names (circe/options/reading.def, missing.def); NULL: the default. */
typedef struct reading_options {
    const char *categories, *na, *decimal, *missing, *format;
} reading_options;

/* From the options of a job that has them all. */
#define READING_OF(options) \
    ((reading_options){(options)->categories, (options)->na, (options)->decimal, (options)->missing, (options)->format})

/* What io_read_as takes. */
typedef struct reading {
    io_reading how;
    name_list items;      /* of --categories, as they are given */
    name_list categories; /* those that concern what is read, without their "z:" */
    name_list missing;
    int64_t *item; /* (categories): which of the items each was; -1: none */
    bool *found;   /* (categories) */
} reading;

/* For a table that has all columns. */
circe_status reading_open(const reading_options *options, reading *out);

/* For the columns of one variable, where "LABEL:age" is its column age. `own`: it has a file or an array of its own,
 * which LABEL and `selection` (may be NULL) name as a whole. */
circe_status reading_open_for(const reading_options *options, const char *label, const char *selection, bool own,
                              reading *out);

/* One more column that is categories whatever the options say. */
void reading_add_category(reading *r, const char *name);
void reading_free(reading *r);

/* After reading: which items of --categories were found, as flags (items) that the caller frees; NULL: there are no
 * items. */
bool *reading_met(const reading *r);
