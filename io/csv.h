/* Internals of the reader of delimited text, which cuts the text into windows, and windows into stretches of whole
 * rows. */
#pragma once

#include "io/io_parts.h"

/* ---- csv_text.c ----------------------------------------------------------------------------------------------- */

/* A text in memory, or a plain file that is read piece by piece. A file is never mapped, so that one that is truncated
 * during reading gives an error and not a signal. */
typedef struct io__text {
    const char *memory; /* NULL: `descriptor` */
    int descriptor;
    uint64_t start, end; /* without the byte order mark, and without the line ends at the end */
    const char *name;
} io__text;

/* A piece of it in memory. */
typedef struct io__window {
    const char *data;
    size_t length;
    bool final; /* reaches the end of the text */
    char *buffer;
    size_t capacity;
} io__window;

/* Sets start and end; `bytes` is the size of all. Refuses a text without a row. */
circe_status io__text_begin(io__text *text, uint64_t bytes);

/* The window becomes the `length` bytes from `from` on, or what is left of them. */
circe_status io__window_load(const io__text *text, uint64_t from, size_t length, io__window *window);
void io__window_free(io__window *window);

/* ---- csv_cut.c ------------------------------------------------------------------------------------------------ */

/* Cuts a window that begins at a row into n stretches of whole rows: stretch k is [cut[k], cut[k + 1]); some may be
 * empty. What is behind cut[n] is the beginning of a row that goes on after the window. */
void io__cut_rows(const io__window *window, char delimiter, int n, size_t *cut);

/* Behind the row that begins at `at`; NULL if the text ends before its line does. */
const char *io__row_end(const char *at, const char *end, char delimiter);

/* ---- csv.c ---------------------------------------------------------------------------------------------------- */

/* The delimiter of a text in memory, and the names in its header, to be freed; NULL: it has none. */
circe_status io__csv_layout(const char *data, size_t bytes, const char *name, const io_reading *reading,
                            char *delimiter, char ***header);

/* ---- csv_rows.c ----------------------------------------------------------------------------------------------- */

/* What rows look like: the same for all of them. */
typedef struct io__layout {
    const io_reading *reading;
    bool check_utf8;    /* a text in memory is UTF-8 already */
    int64_t first_line; /* of the first row */
    char delimiter;
    const char *name;
    bool has_names;          /* for the text of a refusal */
    size_t n_fields;         /* in a row */
    const size_t *column_of; /* for each field its column, or IO__NOT_SELECTED */
    size_t n_columns;
} io__layout;

#define IO__NOT_SELECTED SIZE_MAX

/* The status of reading a file in windows if it is not UTF-8: it must then be converted as a whole. */
#define IO__NOT_UTF8 CIRCE_ERR_UNSUPPORTED

/* Rows that were read: a stretch of a window, or all before it. */
typedef struct io__rows {
    double *values; /* (n, columns) */
    bool *missing;  /* (n) */
    size_t n, value_capacity, missing_capacity;
    io__column *columns;
    int64_t lines; /* read, which is more than rows where fields hold line ends */
    int64_t n_missing;
    size_t first_missing_row, first_missing_column;
    int64_t first_missing_line; /* counted from the first of these */
} io__rows;

/* Reads a stretch of whole rows, whose first line is `line`, in place of what `rows` held. Which of its columns are
 * named as categories, `before` knows. */
circe_status io__rows_parse(const io__layout *layout, const io__rows *before, const char *data, size_t length,
                            int64_t line, io__rows *rows);

/* Adds up what the columns of `rows` and of `more`, which follows, have met, and gives the categories of `more` the
 * codes of `rows`. After that the cells can be copied to where they belong. false: no memory. */
bool io__rows_join(const io__layout *layout, io__rows *rows, io__rows *more);
/* Room for n rows more. false: no memory. */
bool io__rows_reserve(const io__layout *layout, io__rows *rows, size_t n);
void io__rows_free(const io__layout *layout, io__rows *rows);

/* ---- decimal.c: decimal numbers at the head of a text, fast and rounded to the last bit ----------------------- */

/* Reads the decimal number that begins at `at` (sign, digits, point, exponent) and sets *value to the nearest double.
 * Returns where it ends. NULL if no number begins here, or if this function cannot decide the nearest double: more than
 * 19 significant digits, a power of ten beyond 64, a tie too close to call. The caller then uses a slower method. */
const char *io__decimal(const char *at, const char *end, double *value);
