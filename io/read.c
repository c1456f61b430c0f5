/* A source, PATH or PATH:SELECTION, to a table: finds the file, brings it into memory, picks the reader. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "files/mapped.h"
#include "internal.h"

/* Smaller arrays are copied: a mapping holds on to the file, and is of no use below this. */
enum { MIN_MAPPED_BYTES = 1 << 20 };

typedef enum file_format { UNKNOWN, NPY, NPZ, CSV, TSV, SAFETENSORS } file_format;

typedef struct extension {
    const char *text;
    file_format format;
} extension;

static const extension extensions[] = {
    {".npy", NPY}, {".npz", NPZ}, {".csv", CSV}, {".tsv", TSV}, {".safetensors", SAFETENSORS},
};

static file_format format_of_name(const char *path) {
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        size_t n = strlen(extensions[i].text);
        if (length > n && strcasecmp(path + length - n, extensions[i].text) == 0) return extensions[i].format;
    }
    return UNKNOWN;
}

/* What comes through a pipe has no name of its own: there, text is read as .csv. */
static file_format format_of_content(const circe__mapped *file) {
    const unsigned char *data = file->data;
    if (file->bytes >= 6 && memcmp(data, "\x93NUMPY", 6) == 0) return NPY;
    if (file->bytes >= 4 && memcmp(data, "PK", 2) == 0 && (data[2] == 3 || data[2] == 5)) return NPZ;
    if (file->bytes >= 9 && data[8] == '{' && data[5] == 0 && data[6] == 0 && data[7] == 0) return SAFETENSORS;
    return file->plain ? UNKNOWN : CSV;
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

/* A path that exists as a whole wins; then the longest PATH of a PATH:SELECTION that does, whose colon is overwritten
 * to end it. Where none exists, the name of a known format before the last colon is the path, for the error's sake. */
static const char *split(char *path) {
    char *last = strrchr(path, ':');
    if (exists(path)) return NULL;
    for (char *colon = path + strlen(path); colon-- > path;) {
        if (*colon != ':') continue;
        *colon = '\0';
        if (exists(path)) return colon + 1;
        *colon = ':';
    }
    if (last == NULL) return NULL;
    *last = '\0';
    if (format_of_name(path) != UNKNOWN) return last + 1;
    *last = ':';
    return NULL;
}

/* The table's values are the file's own bytes; the mapping moves from `file` to the table. */
static circe_status map_npy(circe__mapped *file, size_t header_bytes, const io__array *array, const char *name,
                            io_table *table, io_error *error) {
    memset(table, 0, sizeof *table);
    table->source = strdup(name);
    if (table->source == NULL) return io__no_memory(error, name);
    table->values = (circe_mat){(char *)file->data + header_bytes, array->rows, array->cols, array->cols,
                                io__element_dtype(array->element)};
    table->mapping = file->data;
    table->mapping_bytes = file->mapped_bytes;
    *file = (circe__mapped){.data = NULL};
    return CIRCE_OK;
}

static circe_status read_npy(circe__mapped *file, const char *name, io_table *table, io_error *error) {
    io__array array = {0};
    size_t header_bytes = 0;
    if (file->bytes < MIN_MAPPED_BYTES) return io_parse_npy(file->data, file->bytes, name, table, error);
    circe_status status = io__npy_measure(file->data, file->bytes, name, &header_bytes, error);
    if (status != CIRCE_OK) return status;
    if (header_bytes > file->bytes) return io_parse_npy(file->data, file->bytes, name, table, error);
    status = io__npy_header(file->data, header_bytes, file->bytes - header_bytes, name, &array, error);
    if (status != CIRCE_OK) return status;
    if (io__array_is_native(&array) && header_bytes % io__element_size(array.element) == 0)
        return map_npy(file, header_bytes, &array, name, table, error);
    return io__array_convert(&array, (const char *)file->data + header_bytes, name, table, error);
}

static circe_status read_format(circe__mapped *file, file_format format, const char *path, const char *selection,
                                const char *columns, const io_reading *reading, io_table *table, io_error *error) {
    if (columns != NULL && format != CSV && format != TSV && format != UNKNOWN)
        return io__fail(error, CIRCE_ERR_ARGUMENT, "%s: columns can be selected from a .csv or .tsv only", path);
    if (columns == NULL) columns = selection;
    const char *data = file->bytes > 0 ? file->data : "";
    switch (format) {
        case NPY:
            if (selection != NULL)
                return io__fail(error, CIRCE_ERR_ARGUMENT, "%s: an .npy is one array; ':%.100s' selects nothing in it",
                                path, selection);
            return read_npy(file, path, table, error);
        case NPZ:
            return io_parse_npz(data, file->bytes, path, selection, table, error);
        case CSV:
            return io_parse_csv_as(data, file->bytes, path, columns, reading, table, error);
        case TSV:
            return io__parse_delimited(data, file->bytes, '\t', path, columns, reading, table, error);
        case SAFETENSORS:
            return io_parse_safetensors(data, file->bytes, path, selection, table, error);
        case UNKNOWN:
            break;
    }
    return io__fail(error, CIRCE_ERR_FORMAT,
                    "%s: its format is not known; .npy, .npz, .csv, .tsv and .safetensors can be read", path);
}

circe_status io_read(const char *source, const char *columns, io_table *table, io_error *error) {
    return io_read_as(source, columns, NULL, table, error);
}

circe_status io_read_as(const char *source, const char *columns, const io_reading *reading, io_table *table,
                        io_error *error) {
    circe__mapped file = {.data = NULL};
    memset(table, 0, sizeof *table);
    char *path = strdup(source), *text = strdup(source);
    if (path == NULL || text == NULL) {
        free(path);
        free(text);
        return io__no_memory(error, source);
    }
    const char *selection = split(path);
    circe_status status;
    int problem = circe__map_file(path, &file);
    if (problem != 0) {
        status = io__fail(error, CIRCE_ERR_IO, "%s: %s", path, circe__map_problem(problem));
    } else {
        file_format format = format_of_name(path);
        if (format == UNKNOWN) format = format_of_content(&file);
        bool delimited = format == CSV || format == TSV;
        status = delimited ? io__file_to_utf8(&file, path, error) : CIRCE_OK;
        if (status == CIRCE_OK) status = read_format(&file, format, path, selection, columns, reading, table, error);
        circe__unmap(&file);
        bool array = format == NPY || format == NPZ || format == SAFETENSORS;
        if (status == CIRCE_OK && array && reading != NULL) {
            status = io_table_read_as(table, reading, error);
            if (status != CIRCE_OK) io_table_free(table);
        }
    }
    if (status == CIRCE_OK) {
        free(table->source);
        table->source = text;
        text = NULL;
    }
    free(path);
    free(text);
    return status;
}
