/* The options of jobs, described once. options/JOB.def has a row for each option of a job. The fields of
 * circe_JOB_options, their defaults and range checks, the command line, settings files, help, man pages, and the
 * signatures and documentation of the Python package all come from it. To add an option, add a row.
 *
 * What a field holds, by the kind of its row:
 *
 *     FLAG                            int            0 or 1
 *     INTEGER, BYTES                  int64_t        CIRCE_UNSET: not given
 *     COUNT                           int64_t        0: not given; on the command line the number may be left out
 *     NUMBER, POSITIVE                double         NaN: not given; CIRCE_AUTO: the word in `words` ("median");
 *                                                    CIRCE_AUTO - 1: the second, where there are several
 *     TEXT, PATH, CHOICE              const char *   NULL: not given; CHOICE is one of `words`
 *     LIST, POSITIVES                 const char *   as on the command line: a,b,"c,d"
 *
 * Texts are borrowed: they must live as long as the options. Messages name options as the command line does. */
#ifndef CIRCE_OPTIONS_H
#define CIRCE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "circe/status.h"

CIRCE_BEGIN_DECLS

#define CIRCE_UNSET ((int64_t)-1)
#define CIRCE_AUTO (-1.0)
#define CIRCE_LARGEST 9007199254740992.0 /* 2^53: every integer up to here is exact in a double */

typedef enum circe_option_kind {
    CIRCE_OPTION_FLAG = 0,
    CIRCE_OPTION_TEXT = 1,
    CIRCE_OPTION_LIST = 2, /* texts separated by commas; quotes keep a text together */
    CIRCE_OPTION_PATH = 3,
    CIRCE_OPTION_CHOICE = 4,    /* one of `words`, "a|b|c" */
    CIRCE_OPTION_INTEGER = 5,   /* low <= value <= high */
    CIRCE_OPTION_COUNT = 6,     /* the same; `fallback` if no value is given */
    CIRCE_OPTION_NUMBER = 7,    /* low <= a number <= high; high = 0: no upper limit */
    CIRCE_OPTION_POSITIVE = 8,  /* a number > 0 and < high, or one of `words` */
    CIRCE_OPTION_POSITIVES = 9, /* a comma-separated list of such numbers, or one of `words` */
    CIRCE_OPTION_BYTES = 10,    /* 512M, 4G, ... */
} circe_option_kind;

typedef struct circe_option {
    const char *name; /* "gamma-warmup" */
    circe_option_kind kind;
    size_t offset; /* of the field */
    int required;
    char letter;          /* the short form on the command line, or 0 */
    const char *value;    /* the name of its value in the help; NULL for a flag */
    const char *words;    /* of CHOICE, POSITIVE, POSITIVES */
    const char *fallback; /* the default, as a user would write it; NULL: none */
    double low, high;
    const char *unit;  /* "epochs"; NULL: none */
    const char *group; /* "Training" */
    const char *help;  /* one sentence, or a few */
} circe_option;

typedef struct circe_schema {
    const char *job;
    size_t bytes; /* of the options */
    const circe_option *rows;
    size_t n;
} circe_schema;

/* ---- a row's field ----------------------------------------------------------------------------------------------- */

#define CIRCE_FIELD_FLAG int
#define CIRCE_FIELD_TEXT const char *
#define CIRCE_FIELD_LIST const char *
#define CIRCE_FIELD_PATH const char *
#define CIRCE_FIELD_CHOICE const char *
#define CIRCE_FIELD_INTEGER int64_t
#define CIRCE_FIELD_COUNT int64_t
#define CIRCE_FIELD_NUMBER double
#define CIRCE_FIELD_POSITIVE double
#define CIRCE_FIELD_POSITIVES const char *
#define CIRCE_FIELD_BYTES int64_t

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

/* `job` is "fit", "train", ... Returns NULL if there is no such job. */
CIRCE_API const circe_schema *circe_schema_of(const char *job);

/* The row with this name, or NULL. */
CIRCE_API const circe_option *circe_schema_find(const circe_schema *schema, const char *name);

/* The name most similar to `name`, or NULL. */
CIRCE_API const char *circe_schema_nearest(const circe_schema *schema, const char *name);

/* Sets every field to its default. */
CIRCE_API void circe_options_init(const circe_schema *schema, void *options);

/* Sets a field from a text written as on the command line; a flag from "true" or "false". */
CIRCE_API circe_status circe_options_set(const circe_schema *schema, void *options, const char *name, const char *text);

/* Writes the numbers of a POSITIVES field into `values`, which may be NULL to count them. There are none if the field
 * is not given or is a word. */
CIRCE_API circe_status circe_options_numbers(const circe_schema *schema, const void *options, const char *name,
                                             double *values, int64_t *n);

/* A field as written on the command line: its own text, or a text in `out`, which needs 40 bytes. NULL: not given. */
CIRCE_API const char *circe_options_text(const circe_schema *schema, const void *options, const char *name, char *out,
                                         size_t size);

/* Non-zero if a field differs from its default. */
CIRCE_API int circe_options_given(const circe_schema *schema, const void *options, const char *name);

/* Fails if a value is out of range or not one of its words, or if a required option is missing. Every job starts with
 * it. */
CIRCE_API circe_status circe_options_check(const circe_schema *schema, const void *options);

/* The index of a text among the words "a|b|c", or -1. */
CIRCE_API int circe_word_index(const char *words, const char *text);

CIRCE_END_DECLS

#endif
