/* What all jobs share: data in memory, and someone who watches.
 *
 * A job takes its options (circe/options.h), a table or the files that its options name, and a watch; it returns a
 * result. It never prints and never ends the program. */
#ifndef CIRCE_JOB_H
#define CIRCE_JOB_H

#include "circe/context.h"
#include "circe/options.h"

CIRCE_BEGIN_DECLS

/* Columns of one length, with names: numbers (NaN: missing) or texts (NULL: missing). What is added is copied. */
typedef struct circe_table circe_table;

CIRCE_API circe_status circe_table_create(int64_t rows, circe_table **table);
CIRCE_API void circe_table_free(circe_table *table);
/* The numbers lie `stride` doubles apart. */
CIRCE_API circe_status circe_table_add_numbers(circe_table *table, const char *name, const double *values,
                                               int64_t stride);
CIRCE_API circe_status circe_table_add_texts(circe_table *table, const char *name, const char *const *texts);
CIRCE_API int64_t circe_table_rows(const circe_table *table);

/* Told while a job runs; any of the functions may be NULL. */
typedef struct circe_watch {
    void *user;
    /* `text` says what is being done, `done` of 1. Not 0: stop; the job returns CIRCE_ERR_CANCELLED. */
    int (*progress)(void *user, double done, const char *text);
    /* A sentence that the user should read; the result lists it too. */
    void (*warning)(void *user, const char *text);
    /* What is good to know before waiting: how long a step will take. No result has it. */
    void (*note)(void *user, const char *text);
} circe_watch;

/* Sentences, in the order in which they came up. */
typedef struct circe_notes {
    char **text;
    size_t n;
} circe_notes;

/* How columns were read that are not plain numbers. */
typedef struct circe_column {
    const char *variable; /* "x", "y" or "z"; NULL: of a table of all columns */
    char *name;           /* its name, or its number */
    int64_t categories;   /* 0: numbers */
    int64_t missing;      /* cells */
    int named;            /* categories because an option says so; else because no cell is a number */
    int few;              /* or because it has few different numbers */
} circe_column;

typedef struct circe_columns {
    circe_column *column;
    size_t n;
} circe_columns;

/* Frees a text that a function of this library returned. */
CIRCE_API void circe_text_free(char *text);

CIRCE_END_DECLS

#endif
