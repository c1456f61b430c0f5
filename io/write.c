/* Writing arrays; how a file is replaced whole or not at all is in files/atomic.c. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "files/atomic.h"
#include "io/io_parts.h"

enum { NPY_ALIGNMENT = 64, MAX_NPY_HEADER = 256, PACKED_BYTES = 1 << 16 };

/* Magic, version 1.0, length, and the dictionary, padded with blanks so that the data begin at a multiple of 64. */
static size_t npy_header(const circe_mat *values, char *header) {
    enum { PREFIX = 10 };
    int length = snprintf(header + PREFIX, MAX_NPY_HEADER - PREFIX,
                          "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%lld, %lld), }",
                          circe_dtype_size(values->dtype), (long long)values->rows, (long long)values->cols);
    size_t used = PREFIX + (size_t)length;
    size_t total = (used + 1 + NPY_ALIGNMENT - 1) / NPY_ALIGNMENT * NPY_ALIGNMENT;
    memset(header + used, ' ', total - used - 1);
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - PREFIX) & 0xff);
    header[9] = (char)((total - PREFIX) >> 8);
    return total;
}

/* Rows with gaps between them, gathered so that a narrow matrix is not written row by row. */
static int write_strided(circe__atomic *file, const circe_mat *values) {
    char packed[PACKED_BYTES];
    size_t size = circe_dtype_size(values->dtype), row_bytes = (size_t)values->cols * size, used = 0;
    int problem = 0;
    for (int64_t i = 0; i < values->rows && problem == 0; i++) {
        const char *row = (const char *)values->data + (size_t)i * (size_t)values->ld * size;
        if (used + row_bytes > sizeof packed) {
            problem = circe__atomic_write(file, packed, used);
            used = 0;
        }
        if (row_bytes > sizeof packed) {
            if (problem == 0) problem = circe__atomic_write(file, row, row_bytes);
        } else {
            memcpy(packed + used, row, row_bytes);
            used += row_bytes;
        }
    }
    return problem == 0 ? circe__atomic_write(file, packed, used) : problem;
}

circe_status io_write_npy(const char *path, const circe_mat *values) {
    circe__atomic file;
    char header[MAX_NPY_HEADER];
    if (values->rows < 0 || values->cols < 0 || values->ld < values->cols)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: cannot be written: the matrix has an impossible shape", path);
    int problem = circe__atomic_open(&file, path);
    if (problem != 0) return file_refuse(path, problem);
    problem = circe__atomic_write(&file, header, npy_header(values, header));
    if (problem == 0 && values->ld == values->cols)
        problem = circe__atomic_write(&file, values->data,
                                      (size_t)values->rows * (size_t)values->cols * circe_dtype_size(values->dtype));
    else if (problem == 0)
        problem = write_strided(&file, values);
    return file_finish(&file, path, problem);
}
