/* Tables: release, selection of rows; error texts and growing blocks, which every reader needs. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "io/io_parts.h"

circe_status io__no_memory(const char *name) {
    return circe_fail(CIRCE_ERR_MEMORY, "%s: not enough memory to read it", name);
}

void *io__grow(void *block, size_t *capacity, size_t needed, size_t size) {
    size_t wanted = *capacity < 16 ? 16 : *capacity, bytes;
    if (block != NULL && needed <= *capacity) return block;
    while (wanted < needed)
        if (__builtin_mul_overflow(wanted, (size_t)2, &wanted)) return NULL;
    if (__builtin_mul_overflow(wanted, size, &bytes)) return NULL;
    void *grown = realloc(block, bytes);
    if (grown != NULL) *capacity = wanted;
    return grown;
}

void io_table_free(io_table *table) {
    if (table == NULL) return;
    if (table->mapping != NULL)
        munmap(table->mapping, table->mapping_bytes);
    else
        free(table->values.data);
    if (table->categories != NULL)
        for (int64_t c = 0; c < table->values.cols; c++) free(table->categories[c]); /* one block each */
    free(table->categories);
    free(table->names); /* one block with its texts */
    free(table->categorical);
    free(table->columns);
    free(table->missing_rows);
    free(table->first_missing);
    free(table->row_of);
    free(table->source);
    memset(table, 0, sizeof *table);
}

circe_status io__table_own(io_table *table) {
    circe_mat *values = &table->values;
    if (table->mapping == NULL) return CIRCE_OK;
    size_t bytes = (size_t)(values->rows * values->cols) * circe_dtype_size(values->dtype);
    void *own = malloc(bytes);
    if (own == NULL) return io__no_memory(table->source != NULL ? table->source : "the table");
    memcpy(own, values->data, bytes);
    munmap(table->mapping, table->mapping_bytes);
    values->data = own;
    table->mapping = NULL;
    table->mapping_bytes = 0;
    return CIRCE_OK;
}

void io_table_take(io_table *table, double *values, int64_t cols) {
    if (table->mapping != NULL)
        munmap(table->mapping, table->mapping_bytes);
    else
        free(table->values.data);
    table->mapping = NULL;
    table->mapping_bytes = 0;
    table->values = circe_mat_f64(values, table->values.rows, cols);
}

static void keep_missing(io_table *table, const bool *keep) {
    int64_t kept = 0, n_missing = 0;
    if (table->missing_rows == NULL) return;
    for (int64_t i = 0; i < table->values.rows; i++) {
        if (!keep[i]) continue;
        n_missing += table->missing_rows[i];
        table->missing_rows[kept++] = table->missing_rows[i];
    }
    table->n_missing = n_missing;
    if (n_missing > 0) return;
    free(table->missing_rows);
    free(table->first_missing);
    table->missing_rows = NULL;
    table->first_missing = NULL;
}

int64_t io_table_row(const io_table *table, int64_t i) { return table->row_of != NULL ? table->row_of[i] : i; }

circe_status io_table_keep_rows(io_table *table, const bool *keep) {
    circe_mat *values = &table->values;
    size_t row_bytes = (size_t)values->cols * circe_dtype_size(values->dtype);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < values->rows; i++) n_kept += keep[i];
    if (n_kept == 0)
        return circe_fail(CIRCE_ERR_VALUE, "%s: no row is left of its %lld",
                          table->source != NULL ? table->source : "the table", (long long)values->rows);
    int64_t *row_of = malloc((size_t)n_kept * sizeof *row_of);
    char *to = table->mapping == NULL ? values->data : malloc((size_t)n_kept * row_bytes);
    if (to == NULL || row_of == NULL) {
        free(row_of);
        if (table->mapping != NULL) free(to);
        return io__no_memory(table->source != NULL ? table->source : "the table");
    }

    const char *from = values->data;
    for (int64_t i = 0, k = 0; i < values->rows; i++, from += row_bytes) {
        if (!keep[i]) continue;
        memmove(to + (size_t)k * row_bytes, from, row_bytes);
        row_of[k++] = io_table_row(table, i);
    }
    free(table->row_of);
    table->row_of = row_of;
    keep_missing(table, keep);
    if (table->mapping != NULL) munmap(table->mapping, table->mapping_bytes);
    table->mapping = NULL;
    table->mapping_bytes = 0;
    values->data = to;
    values->rows = n_kept;
    return CIRCE_OK;
}
