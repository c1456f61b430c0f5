/* What every fuzz target does with a table that a reader accepted: looks at each part of it as a caller would. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise is as bad as a broken memory. */
static inline void fuzz_require(int holds) {
    if (!holds) abort();
}

/* Reads every byte, for the address sanitizer to see. */
static inline void fuzz_touch(const void *data, size_t bytes) {
    static volatile unsigned char sink;
    unsigned char sum = 0;
    for (size_t i = 0; i < bytes; i++) sum ^= ((const unsigned char *)data)[i];
    sink = sum;
    (void)sink;
}

static inline void fuzz_use_texts(const io_table *table) {
    for (int64_t c = 0; c < table->values.cols; c++) {
        if (table->names != NULL) fuzz_require(strlen(table->names[c]) < SIZE_MAX);
        if (table->categorical == NULL || !table->categorical[c]) continue;
        int64_t n = 0;
        while (table->categories[c][n] != NULL) n++;
        for (int64_t i = 0; i < table->values.rows; i++) {
            double code = ((const double *)table->values.data)[i * table->values.ld + c];
            fuzz_require(code != code || (code >= 0.0 && code < (double)n));
        }
    }
}

static inline void fuzz_keep_some(io_table *table) {
    int64_t rows = table->values.rows;
    bool *keep = malloc((size_t)rows * sizeof *keep);
    if (keep == NULL) return;
    for (int64_t i = 0; i < rows; i++) keep[i] = i % 2 == 0;
    fuzz_require(io_table_keep_rows(table, keep) == CIRCE_OK);
    fuzz_require(table->values.rows == (rows + 1) / 2);
    free(keep);
}

/* Takes the result of a reader: an error needs a text, a table must be whole. Frees it. */
static inline void fuzz_check(circe_status status, io_table *table) {
    if (status != CIRCE_OK) {
        fuzz_require(circe_last_error()[0] != '\0' && table->values.data == NULL && table->source == NULL);
        return;
    }
    fuzz_require(table->values.rows > 0 && table->values.cols > 0 && table->values.ld == table->values.cols);
    fuzz_require((table->n_missing > 0) == (table->missing_rows != NULL));
    fuzz_require((table->n_missing > 0) == (table->first_missing != NULL));
    fuzz_touch(table->values.data,
               (size_t)table->values.rows * (size_t)table->values.cols * circe_dtype_size(table->values.dtype));
    fuzz_use_texts(table);
    fuzz_keep_some(table);
    io_table_free(table);
}
