/* Files of numbers: .npy, .npz, .csv and .safetensors, read into one kind of table, and .npy written.
 *
 * A source is PATH or PATH:SELECTION. The selection names the member of an .npz, the tensor of a .safetensors, or the
 * columns of a .csv (comma-separated names, or indices counted from 0). PATH - is standard input. Files compressed by
 * gzip are unpacked. Nothing in a file is trusted before it has been checked, and every error names the file, the place
 * and what would be right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circe/matrix.h"
#include "circe/status.h"

/* How columns are read; zeros: the usual way.
 *
 * A cell is a number, missing, or text. Missing are empty cells, ?, NA, N/A, NaN and null in any case, and the words in
 * `missing`; a word that is a number matches every cell of that value, in arrays too. A column is categories if
 * `categories` names it, or if none of its cells is a number. A column with both numbers and text, or with numbers in
 * another notation only, is refused: one unreadable cell must not change what a column is. */
typedef struct io_reading {
    char **categories; /* names of columns, or their indices from 0; a name the file does not have is no error here */
    int64_t n_categories;
    bool *found;    /* (n_categories): set where the name is that of a column that was read; may be NULL */
    bool all;       /* every column is categories */
    char **missing; /* more words for missing */
    int64_t n_missing;
    bool only_empty;    /* of the usual words for missing, the empty cell alone */
    char decimal;       /* ',' or '.'; 0 is '.' */
    const char *format; /* "csv", "tsv", "npy", "npz" or "safetensors", whatever the name says; NULL: by the name */
} io_reading;

typedef enum io_format { IO_UNKNOWN, IO_NPY, IO_NPZ, IO_CSV, IO_TSV, IO_SAFETENSORS } io_format;

/* What was asked for, or what the path ends with, without .gz. */
io_format io_format_of(const char *path, const char *asked);

/* How one column was read. */
typedef struct io_column {
    int64_t n_missing;    /* cells */
    int64_t n_categories; /* 0: numbers */
    bool named;           /* categories because the reader was told so */
    bool boolean;         /* 0 and 1 stand for False and True */
} io_column;

/* A matrix with what its file said of the columns. A one-dimensional array is a single column. */
typedef struct io_table {
    circe_mat values;    /* (rows, cols) contiguous; float32 where the file held f2 or f4, else float64 */
    char **names;        /* cols names, or NULL if the file has none */
    bool *categorical;   /* cols flags: the column held text and `values` holds its codes 0, 1, ... in order of
                            first appearance; NULL if no column can be categorical */
    char ***categories;  /* for a categorical column its category texts, NULL-terminated; else NULL */
    io_column *columns;  /* cols, or NULL if all are plain numbers */
    bool *missing_rows;  /* rows flags: some selected cell is missing (its value is NaN); NULL: none is */
    int64_t n_missing;   /* rows with a missing cell */
    bool counts_up;      /* the first row is 0, 1, 2 or the like: it may have been meant as names */
    char *first_missing; /* where the first one is, for people: "row 3 (line 5), column 'age'"; NULL: none */
    void *mapping;       /* the file mapped into memory where `values` points into it, else NULL */
    size_t mapping_bytes;
    char *source;    /* the text it was read from */
    int64_t *row_of; /* (rows): which row of the source each is; NULL: all are there */
} io_table;

/* Reads a source. `columns` overrides the selection of a .csv and may be NULL. */
circe_status io_read(const char *source, const char *columns, io_table *table);
circe_status io_read_as(const char *source, const char *columns, const io_reading *reading, io_table *table);
void io_table_free(io_table *table);
/* Replaces the table's values by these, (rows, cols), and takes ownership of them. */
void io_table_take(io_table *table, double *values, int64_t cols);

/* What reading a source would give, from its header alone; of a .csv from its size and the lengths of its first rows.
 */
typedef struct io_shape {
    int64_t rows, cols; /* rows = -1: a pipe, which cannot be looked into */
    bool exact;         /* else the rows are an estimate */
    double bytes;       /* of memory that the table takes */
} io_shape;

circe_status io_read_shape(const char *source, const char *columns, const char *format, io_shape *shape);

/* A .csv or .tsv as it is, in UTF-8, row by row. */
typedef struct io_lines {
    char *text;
    char **rows;   /* (n_rows), each with a '\0' instead of its line end; the first is the header's, if any */
    char **header; /* names, and NULL behind the last; NULL: there are none */
    int64_t n_rows;
    char delimiter;
} io_lines;

circe_status io_read_lines(const char *path, const io_reading *reading, io_lines *lines);
void io_lines_free(io_lines *lines);

/* How many threads read a large table, from now on; 0: as many as OpenMP would use. */
void io_use_threads(int threads);

/* Readers of each format from memory, as io_read uses them and as the fuzzers call them. `name` is for error texts;
 * `selection` may be NULL. None keeps a pointer into `data`. */
circe_status io_parse_npy(const void *data, size_t bytes, const char *name, io_table *table);
circe_status io_parse_npz(const void *data, size_t bytes, const char *name, const char *selection, io_table *table);
circe_status io_parse_csv_as(const char *data, size_t bytes, const char *name, const char *columns,
                             const io_reading *reading, io_table *table);
circe_status io_parse_safetensors(const void *data, size_t bytes, const char *name, const char *selection,
                                  io_table *table);

/* Reads the numbers of a table that came from arrays in this way: named columns, which must hold whole numbers, become
 * categories, and numbers that are words for missing become NaN. */
circe_status io_table_read_as(io_table *table, const io_reading *reading);

/* The whole text is one decimal number that a double can hold: no infinity, no NaN, no hexadecimal, no locale. */
bool io_number(const char *text, double *value);
/* It was not 0, but is too small for a double. */
bool io_number_vanished(const char *text, double value);

/* Keeps the rows with keep[i] true, in place, or in new memory if the table is mapped. */
circe_status io_table_keep_rows(io_table *table, const bool *keep);
/* Which row of the source row i is, for messages: rows may have been left out. */
int64_t io_table_row(const io_table *table, int64_t i);

/* Writes a contiguous or strided view as .npy (version 1.0, C order). Atomic for plain files: written beside, synced,
 * renamed; pipes and devices are written directly. Errors of a full disk are reported. */
circe_status io_write_npy(const char *path, const circe_mat *values);

/* Rows first to first + n of a matrix, in its memory. */
static inline circe_mat io_rows(const circe_mat *m, int64_t first, int64_t n) {
    return (circe_mat){(char *)m->data + (size_t)(first * m->ld) * circe_dtype_size(m->dtype), n, m->cols, m->ld,
                       m->dtype};
}

/* An output that only one process at a time may write. It is refused while another process holds it, and the kernel
 * releases it if this process is killed. Half-written files of killed processes beside it are removed. */
typedef struct io_lock io_lock;
circe_status io_lock_take(const char *path, io_lock **lock);
void io_lock_release(io_lock *lock); /* takes NULL */

/* ---- text from outside ------------------------------------------------------------------------------------------- */

/* A copy in which every character that a terminal would obey is made visible. The caller frees it; NULL: no memory.
 * `lines`: line ends and tabs come from the caller and stay. */
char *io_visible(const char *text, size_t bytes, bool lines);

/* A copy as UTF-8, which the caller frees. Valid UTF-8 stays as it is, and other bytes are read as Latin-1. NULL: no
 * memory. */
char *io_to_utf8(const char *text, size_t bytes);
