/* YAML files into structs, by a table that says what each key may hold. Every refusal names file, line and key, and
 * what would be right. */
#ifndef CLI_EXPERIMENT_YAML_H
#define CLI_EXPERIMENT_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of texts and lists, freed all at once. */
typedef struct arena {
    struct arena_block *last;
} arena;

void *arena_alloc(arena *owner, size_t bytes); /* zeroed */
char *arena_text(arena *owner, const char *text);
void arena_free(arena *owner);

typedef struct yaml_numbers {
    double *values;
    int64_t n;
} yaml_numbers;

typedef struct yaml_parts {
    void *items; /* n structs of the table's size */
    int64_t n;
} yaml_parts;

/* What a key holds, and the type of the member it is read into. */
typedef enum yaml_key_kind {
    KEY_TEXT = 1, /* const char * */
    KEY_NAME,     /* the same, made of letters, digits, - and _: it becomes part of file names */
    KEY_WORD,     /* int: the index among `words` */
    KEY_WHOLE,    /* int64_t */
    KEY_NUMBER,   /* double */
    KEY_TRUTH,    /* bool: true or false */
    KEY_WHOLES,   /* yaml_numbers: whole numbers, each once; one number stands for a list of it */
    KEY_NUMBERS,  /* yaml_numbers: the same of any numbers */
    KEY_PART,     /* a struct of the table `part` */
    KEY_PARTS,    /* yaml_parts of structs of the table `part` */
    KEY_LATER,    /* nothing: the caller reads it with yaml_read_over */
} yaml_key_kind;

typedef struct yaml_key {
    const char *name;
    yaml_key_kind kind;
    size_t offset;
    const char *example; /* a value that would be right, for messages */
    bool required;       /* unless the struct already holds something, as under yaml_read_over */
    double low, high;    /* of numbers; both 0: any; low = DBL_MIN: greater than 0 */
    const char *words;   /* "a|b|c" */
    const struct yaml_table *part;
    bool plan; /* it says which runs there are, not how one is done: no setting of a run (experiment_json.h) */
} yaml_key;

typedef struct yaml_file yaml_file;

typedef struct yaml_table {
    const char *what; /* "a method", for messages */
    const yaml_key *keys;
    int64_t n_keys;
    size_t bytes;
    void (*init)(void *part);                                            /* defaults; NULL: zeros */
    int (*check)(const yaml_file *file, int64_t line, const void *part); /* what no single key can tell; may be NULL */
    int64_t name; /* 1 + the index of the KEY_NAME by which a list read over another finds what it changes; 0: none */
} yaml_table;

/* Opens a file; *text, where not NULL, gets what stands in it (in the arena). Like all here: prints what is wrong and
 * returns an exit status. */
int yaml_open(const char *path, arena *owner, yaml_file **file, const char **text);
void yaml_close(yaml_file *file);

/* The whole file into a struct. */
int yaml_read(const yaml_file *file, const yaml_table *table, void *into);

/* The mapping under a KEY_LATER of the file's top level over a struct that is read already: keys that are there replace
 * what was, lists as a whole; of a list with names, the elements that are named stay, each changed by what its keys
 * say. Nothing happens where there is no such key. */
int yaml_read_over(const yaml_file *file, const char *key, const yaml_table *table, void *into);

/* "FILE, line N: TEXT", and EXIT_INPUT: for checks. */
int yaml_refuse(const yaml_file *file, int64_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
