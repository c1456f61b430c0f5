/* What all jobs share: tables in memory, and a watch that follows progress and can stop a job.
 *
 * A job takes its options (circe/options.h), a table or the files that its options name, and a watch; it returns a
 * result. It never prints and never ends the program. */
#ifndef CIRCE_JOB_H
#define CIRCE_JOB_H

#include "circe/context.h"
#include "circe/options.h"

CIRCE_BEGIN_DECLS

/* A table: named columns of equal length, with numbers (NaN: missing) or texts (NULL: missing). Added columns are
 * copied. */
typedef struct circe_table circe_table;

CIRCE_API circe_status circe_table_create(int64_t rows, circe_table **table);
CIRCE_API void circe_table_free(circe_table *table);
/* The numbers lie `stride` doubles apart. */
CIRCE_API circe_status circe_table_add_numbers(circe_table *table, const char *name, const double *values,
                                               int64_t stride);
/* The numbers 0 and 1, which results name False and True. */
CIRCE_API circe_status circe_table_add_booleans(circe_table *table, const char *name, const double *values,
                                                int64_t stride);
CIRCE_API circe_status circe_table_add_texts(circe_table *table, const char *name, const char *const *texts);
/* Texts that are categories whatever they look like, without the option `categories`. */
CIRCE_API circe_status circe_table_add_categories(circe_table *table, const char *name, const char *const *texts);
CIRCE_API int64_t circe_table_rows(const circe_table *table);

/* Callbacks while a job runs; any of them may be NULL. */
typedef struct circe_watch {
    void *user;
    /* `text` says what the job is doing; `done` rises from 0 to 1. Return non-zero to stop: the job then returns
     * CIRCE_ERR_CANCELLED. */
    int (*progress)(void *user, double done, const char *text);
    /* A sentence that the user should read. The result lists it too. */
    void (*warning)(void *user, const char *text);
    /* A sentence that is useful before waiting, such as how long a step will take. The result does not list it. */
    void (*note)(void *user, const char *text);
} circe_watch;

/* Sentences, in the order in which they occurred. */
typedef struct circe_notes {
    char **text;
    size_t n;
} circe_notes;

/* How a column that is not plain numbers was read. */
typedef struct circe_column {
    const char *variable; /* "x", "y" or "z"; NULL: a column of one table */
    char *name;           /* its name, or its number */
    int64_t categories;   /* 0: numbers */
    int64_t missing;      /* cells */
    int named;            /* categories because an option says so, and not because no cell is a number */
    int few;              /* categories because it has few different numbers */
} circe_column;

typedef struct circe_columns {
    circe_column *column;
    size_t n;
} circe_columns;

/* Frees a text that a function of this library returned. */
CIRCE_API void circe_text_free(char *text);

CIRCE_END_DECLS

#endif
