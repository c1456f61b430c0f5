/* Shared by the readers: error texts, arrays on their way into a table, lists of names. */
#pragma once

#include "io/arrays.h"
#include "io/io.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are used in place: this code is for little-endian");

/* ---- errors ------------------------------------------------------------------------------------------------- */

circe_status io__no_memory(const char *name);

/* Room for `needed` elements: doubles *capacity and moves the block where it is too small. NULL: no memory, and the old
 * block still stands. */
void *io__grow(void *block, size_t *capacity, size_t needed, size_t size);

/* Moves the values of a mapped table into memory of its own. */
circe_status io__table_own(io_table *table);

/* ---- choices: what a file offers, for the text that refuses a name it does not have ---------------------------- */

typedef struct io__choices {
    const char *wanted;
    char list[512]; /* "'a', 'b'", cut where it grows too long */
    size_t used;
    int64_t count, listed;
    char nearest[64]; /* the closest spelling; empty: none is close */
    size_t distance;
} io__choices;

void io__choices_init(io__choices *choices, const char *wanted); /* wanted may be NULL: only list */
void io__choices_add(io__choices *choices, const char *name);
/* "'a', 'b', ... (7 in all); did you mean 'b'?" */
const char *io__choices_text(io__choices *choices);

/* ---- .safetensors -------------------------------------------------------------------------------------------- */

/* The array that `selection` names, as io_parse_safetensors finds it. */
circe_status io__safetensors_shape(const void *data, size_t bytes, const char *name, const char *selection,
                                   io_array *array);

/* ---- text --------------------------------------------------------------------------------------------------- */

/* Texts one after another in one block, numbered in order of arrival. */
typedef struct io__texts {
    char *bytes;
    size_t used, capacity;
    size_t *offsets;
    size_t count, count_capacity;
} io__texts;

bool io__texts_add(io__texts *texts, const char *text, size_t length); /* false: no memory */
const char *io__texts_get(const io__texts *texts, size_t index);
/* As one block to be freed with free: pointers, NULL, and the texts behind them. NULL: no memory. */
char **io__texts_block(const io__texts *texts);
void io__texts_free(io__texts *texts);

/* Different texts and their codes 0, 1, ... in order of first appearance. */
typedef struct io__dictionary {
    io__texts texts;
    size_t *slots; /* code + 1, or 0 if free */
    size_t n_slots;
} io__dictionary;

/* The code of a text, which is added where it is new. false: no memory. */
bool io__dictionary_code(io__dictionary *dictionary, const char *text, size_t length, size_t *code);
void io__dictionary_free(io__dictionary *dictionary);

/* A decimal number that a double can hold, in full. No locale, no hexadecimal, no infinity, no NaN. */
bool io__number(const char *text, size_t length, char point, double *value);
bool io__is_nan(const char *text, size_t length);
/* By the words of the reading; and numbers by those of them that are numbers. */
bool io__is_missing(const io_reading *reading, const char *text, size_t length);
bool io__is_missing_number(const io_reading *reading, double value);

/* Of a text that is not a number. */
typedef enum io__likeness {
    IO__WORD,
    IO__OTHER_POINT, /* a number with a decimal comma, or with a point where the comma was asked for */
    IO__ODD_NUMBER,  /* 5%, 1_000, 0x10, 1d3, inf, 1e999, a typographic minus */
} io__likeness;

io__likeness io__looks_like_number(const char *text, size_t length, char point);

/* ---- columns ------------------------------------------------------------------------------------------------- */

enum { IO__FEW = 3, IO__CELL_TEXT = 40 };

/* The first cells of one kind, for the text of a refusal. */
typedef struct io__sample {
    int64_t n; /* of all of that kind */
    struct {
        int64_t row, line;
        char text[IO__CELL_TEXT];
    } cell[IO__FEW];
} io__sample;

/* A column of text on its way to being numbers or categories. */
typedef struct io__column {
    bool named; /* the reading calls it categories */
    io__sample numbers, texts;
    int64_t n_missing;
    int64_t n_other_point, n_odd; /* texts that look like numbers */
    io__dictionary categories;
} io__column;

typedef enum io__cell { IO__CELL_READ, IO__CELL_MISSING, IO__CELL_NO_MEMORY } io__cell;

/* Whether the reading names the column (name NULL: it has only its index). */
bool io__is_named(const io_reading *reading, const char *name, size_t index);

/* One cell: its number, its code, or NaN if it is missing. */
io__cell io__column_take(io__column *column, const io_reading *reading, const char *text, size_t length, int64_t row,
                         int64_t line, double *cell);

/* After the last cell: refuses a column that is neither numbers nor categories. `name` is for people. */
circe_status io__column_judge(const io__column *column, const io_reading *reading, const char *file, const char *name);

/* Room for what is known of the columns of a table. false: no memory. */
bool io__begin_description(io_table *table);

/* One column of a table of numbers, as io_table_read_as reads it. */
circe_status io__array_column_as(io_table *table, const io_reading *reading, int64_t c, bool named);

/* ---- delimited text ----------------------------------------------------------------------------------------- */

typedef struct io__scanner {
    const char *at, *end;
    char delimiter;
    int64_t line; /* of `at`, counted from 1 */
    const char *name;
    char *scratch; /* owned: a field with its doubled quotes undone */
    size_t scratch_capacity;
} io__scanner;

typedef struct io__field {
    const char *text; /* valid until the next field is read */
    size_t length;
    bool last; /* of its row */
} io__field;

circe_status io__next_field(io__scanner *scanner, io__field *field);
/* The same where the field is nothing but a decimal number. false: it is something else, and still the next field. */
bool io__next_number(io__scanner *scanner, io__field *field, double *value);

/* io_parse_csv_as with another delimiter. */
circe_status io__parse_delimited(const char *data, size_t bytes, char delimiter, const char *name, const char *columns,
                                 const io_reading *reading, io_table *table);
/* Rows and columns from the beginning of a plain file. */
circe_status io__shape_delimited(int descriptor, uint64_t bytes, char delimiter, const char *name, const char *columns,
                                 const io_reading *reading, io_shape *shape);
/* The same from a plain file of this many bytes, of which only pieces are in memory at a time. */
circe_status io__read_delimited(int descriptor, uint64_t bytes, char delimiter, const char *name, const char *columns,
                                const io_reading *reading, io_table *table);

/* ---- text in Latin-1 ---------------------------------------------------------------------------------------- */

struct circe__mapped;

/* The bytes of a table of text, which may be in Latin-1, as UTF-8: names are then the same everywhere. */
circe_status io__file_to_utf8(struct circe__mapped *file, const char *name);
