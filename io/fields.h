/* Describes structs by a table of their fields, which are read from YAML, written as JSON and read back. So the name
 * and type of a field are defined once. Every error names file, line and key, and what would be right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "io/json_values.h"
#include "io/suggest.h"
#include "io/yaml.h"

typedef struct io_numbers {
    double *values;
    int64_t n;
} io_numbers;

typedef struct io_parts {
    void *items; /* n structs of the table's size */
    int64_t n;
} io_parts;

/* What a field holds, and the type of its member. */
typedef enum io_field_kind {
    FIELD_TEXT = 1, /* const char * */
    FIELD_NAME,     /* the same, made of letters, digits, - and _: it becomes part of file names */
    FIELD_WORD,     /* int: the index among `words` */
    FIELD_WHOLE,    /* int64_t */
    FIELD_NUMBER,   /* double */
    FIELD_TRUTH,    /* bool: true or false */
    FIELD_WHOLES,   /* io_numbers: whole numbers, each once; one number stands for a list of it */
    FIELD_NUMBERS,  /* io_numbers: the same of any numbers */
    FIELD_PART,     /* a struct of the table `part` */
    FIELD_PARTS,    /* io_parts of structs of the table `part` */
    FIELD_LATER,    /* nothing: the caller reads it with io_fields_read_over */
} io_field_kind;

typedef struct io_field {
    const char *name;
    io_field_kind kind;
    size_t offset;
    const char *example; /* a value that would be right, for messages */
    bool required;       /* unless the struct already holds something, as under io_fields_read_over */
    double low, high;    /* of numbers; both 0: any; low = DBL_MIN: greater than 0 */
    const char *words;   /* "a|b|c" */
    const struct io_fields *part;
    bool not_in_json;
} io_field;

typedef struct io_fields {
    const char *what; /* "a method", for messages */
    const io_field *list;
    int64_t n;
    size_t bytes;             /* of the struct */
    void (*init)(void *part); /* defaults; NULL: zeros */
    /* What no single field can tell; may be NULL. */
    circe_status (*check)(const io_yaml *file, int64_t line, const void *part);
    int64_t name; /* 1 + the index of the FIELD_NAME by which a list read over another finds what it changes; 0: none */
} io_fields;

/* A list of rows, X(KIND, member, "key", "example", ...), makes both the members of a struct and its table:
 *
 *     IO_STRUCT(data, DATA)
 *     #define OWNER data
 *     static const io_field rows[] = {DATA(IO_ROW)};  */
#define IO_STRUCT(type, LIST) \
    typedef struct type {     \
        LIST(IO_MEMBER)       \
    } type;
#define IO_MEMBER(type, member, ...) IO_TYPE_##type member;
#define IO_ROW(type, member, key, text, ...) \
    {.name = key, .kind = FIELD_##type, .offset = offsetof(OWNER, member), .example = text, __VA_ARGS__},

#define IO_TYPE_TEXT const char *
#define IO_TYPE_NAME const char *
#define IO_TYPE_WORD int
#define IO_TYPE_WHOLE int64_t
#define IO_TYPE_NUMBER double
#define IO_TYPE_TRUTH bool
#define IO_TYPE_WHOLES io_numbers
#define IO_TYPE_NUMBERS io_numbers

/* ---- from YAML: texts and lists go into the arena ---------------------------------------------------------------- */

/* The whole file into a struct. */
circe_status io_fields_read(const io_yaml *file, const io_fields *table, arena *owner, void *into);

/* A mapping of the file over a struct that is read already: keys that are there replace what was, lists as a whole; of
 * a list with names, the elements that are named stay, each changed by what its keys say. */
circe_status io_fields_read_over(const io_yaml *file, const io_yaml_node *mapping, const io_fields *table, arena *owner,
                                 void *into);

/* ---- JSON: fields that are not_in_json, lists of parts and texts that are NULL are left out ---------------------- */

void io_fields_put(cJSON *object, const io_fields *table, const void *part);

/* Reads on until the first thing that is missing or of the wrong kind. */
typedef struct io_json_reader {
    arena *owner; /* of texts and lists */
    const char *missing;
} io_json_reader;

const cJSON *io_json_item(io_json_reader *reader, const cJSON *object, const char *name,
                          cJSON_bool (*is)(const cJSON *));
double io_json_number(io_json_reader *reader, const cJSON *object, const char *name);
const char *io_json_text(io_json_reader *reader, const cJSON *object, const char *name); /* "" where missing */

/* The struct starts as the table's init makes it. */
void io_fields_get(io_json_reader *reader, const cJSON *object, const io_fields *table, void *part);
