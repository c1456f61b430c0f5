/* Arrays of .npy and .npz files, piece by piece: for readers of more than tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/io.h"

/* ---- arrays ------------------------------------------------------------------------------------------------- */

enum { IO_MAX_DIMS = 64 };

typedef enum io_element {
    IO_F2,
    IO_BF16,
    IO_F4,
    IO_F8,
    IO_I1,
    IO_I2,
    IO_I4,
    IO_I8,
    IO_U1,
    IO_U2,
    IO_U4,
    IO_U8,
    IO_BOOL,
} io_element;

/* An array as a file describes it, borrowed. The first dimension is rows, the others are flattened to columns. */
typedef struct io_array {
    io_element element;
    bool big_endian;
    bool fortran; /* the first index runs fastest */
    int n_dims;
    int64_t shape[IO_MAX_DIMS];
    int64_t rows, cols; /* of the table, set by io_array_measure */
    size_t bytes;       /* of the data, likewise */
} io_array;

size_t io_element_size(io_element element);
circe_dtype io_element_dtype(io_element element);

/* Sets rows, cols and bytes; refuses what has no dimension, no element, or overflows. */
circe_status io_array_measure(io_array *array, const char *name);
const char *io_shape_text(const io_array *array, char *text, size_t capacity);

/* The data are what a table holds as they stand: row-major, little-endian float32 or float64. */
bool io_array_is_native(const io_array *array);

/* Converts array->bytes bytes at `data` into a new table. */
circe_status io_array_convert(const io_array *array, const void *data, const char *name, io_table *table);

/* The same from a block that was allocated with malloc: where it is native, the table takes it and *data is NULL. */
circe_status io_array_adopt(const io_array *array, void **data, const char *name, io_table *table);

/* ---- .npy header -------------------------------------------------------------------------------------------- */

enum { IO_NPY_PREFIX = 12 }; /* bytes that tell the length of the header */

/* From the first bytes of a file: how many there are before the data. */
circe_status io_npy_measure(const unsigned char *prefix, size_t available, const char *name, size_t *header_bytes);
/* From the header_bytes of io_npy_measure; `data_bytes` follow it in the file. */
circe_status io_npy_header(const unsigned char *header, size_t header_bytes, uint64_t data_bytes, const char *name,
                           io_array *array);

/* ---- a member of an .npz, piece by piece ---------------------------------------------------------------------- */

typedef struct io_member io_member;

/* Opens the array that `selection` names (NULL: the only one) and reads its header. `data`, the archive, and `error`
 * must stay while it is open. */
circe_status io_member_open(const void *data, size_t bytes, const char *name, const char *selection, io_member **member,
                            io_array *array);
const char *io_member_name(const io_member *member); /* "PATH:MEMBER" */
/* The next bytes of its data; after the last of them io_member_end compares the checksum. */
circe_status io_member_read(io_member *member, void *to, uint64_t bytes);
circe_status io_member_end(io_member *member);
void io_member_close(io_member *member);
