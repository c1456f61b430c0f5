/* Reads a source, PATH or PATH:SELECTION, into a table: finds the file, brings it into memory, and picks the reader. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owned.h"
#include "files/mapped.h"
#include "io/csv.h"
#include "io/place.h"

/* Smaller arrays are copied: a mapping holds on to the file, and is of no use below this. */
enum { MIN_MAPPED_BYTES = 1 << 20 };

/* Looked at before a file is read. */
enum { MOST_HEADER = 1 << 16, MOST_ARCHIVE = 1 << 28 };

static bool is_packed(const char *path) {
    size_t length = strlen(path);
    return length > 3 && strcasecmp(path + length - 3, ".gz") == 0;
}

static const struct {
    const char *ending;
    io_format format;
} endings[] = {
    {"npy", IO_NPY}, {"npz", IO_NPZ}, {"csv", IO_CSV}, {"tsv", IO_TSV}, {"safetensors", IO_SAFETENSORS},
};

/* That of table.csv.gz is csv. */
static io_format format_of_name(const char *path) {
    size_t length = strlen(path);
    if (is_packed(path)) length -= 3;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i].ending);
        if (length > n + 1 && path[length - n - 1] == '.' && strncasecmp(path + length - n, endings[i].ending, n) == 0)
            return endings[i].format;
    }
    return IO_UNKNOWN;
}

io_format io_format_of(const char *path, const char *asked) {
    for (size_t i = 0; asked != NULL && i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(asked, endings[i].ending) == 0) return endings[i].format;
    return format_of_name(path);
}

/* What other programs keep tables in, and people try first. */
static bool is_foreign(const char *path) {
    static const char *const all[] = {"xlsx", "xls",      "ods", "parquet", "feather", "arrow", "json", "sav",
                                      "dta",  "sas7bdat", "rds", "rda",     "pkl",     "h5",    "hdf5"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof all / sizeof *all; i++)
        if (strcasecmp(dot + 1, all[i]) == 0) return true;
    return false;
}

/* The contents of a pipe have no file name, so text is read as .csv. */
static io_format format_of_content(const circe__mapped *file, bool plain) {
    const unsigned char *data = file->data;
    if (file->bytes >= 6 && memcmp(data, "\x93NUMPY", 6) == 0) return IO_NPY;
    if (file->bytes >= 4 && memcmp(data, "PK", 2) == 0 && (data[2] == 3 || data[2] == 5)) return IO_NPZ;
    if (file->bytes >= 9 && data[8] == '{' && data[5] == 0 && data[6] == 0 && data[7] == 0) return IO_SAFETENSORS;
    return plain ? IO_UNKNOWN : IO_CSV;
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

/* A path that exists as a whole comes first, then the longest existing PATH of a PATH:SELECTION, whose colon is
 * overwritten to end it. If none exists, the name of a known format before the last colon is the path, for the error
 * message. */
static const char *split(char *path) {
    char *last = strrchr(path, ':');
    if (io_is_standard_input(path)) {
        char *selection = path[1] == ':' ? path + 2 : NULL;
        path[1] = '\0';
        return selection;
    }
    if (exists(path)) return NULL;
    for (char *colon = path + strlen(path); colon-- > path;) {
        if (*colon != ':') continue;
        *colon = '\0';
        if (exists(path)) return colon + 1;
        *colon = ':';
    }
    if (last == NULL) return NULL;
    *last = '\0';
    if (format_of_name(path) != IO_UNKNOWN) return last + 1;
    *last = ':';
    return NULL;
}

/* The table's values are the file's own bytes; the mapping moves from `file` to the table. */
static circe_status map_npy(circe__mapped *file, size_t header_bytes, const io_array *array, const char *name,
                            io_table *table) {
    memset(table, 0, sizeof *table);
    table->source = strdup(name);
    if (table->source == NULL) return io__no_memory(name);
    table->values = (circe_mat){(char *)file->data + header_bytes, array->rows, array->cols, array->cols,
                                io_element_dtype(array->element)};
    table->mapping = file->data;
    table->mapping_bytes = file->mapped_bytes;
    *file = (circe__mapped){.data = NULL};
    return CIRCE_OK;
}

static circe_status read_npy(circe__mapped *file, const char *name, io_table *table) {
    io_array array = {0};
    size_t header_bytes = 0;
    if (file->bytes < MIN_MAPPED_BYTES) return io_parse_npy(file->data, file->bytes, name, table);
    circe_status status = io_npy_measure(file->data, file->bytes, name, &header_bytes);
    if (status != CIRCE_OK) return status;
    if (header_bytes > file->bytes) return io_parse_npy(file->data, file->bytes, name, table);
    status = io_npy_header(file->data, header_bytes, file->bytes - header_bytes, name, &array);
    if (status != CIRCE_OK) return status;
    if (io_array_is_native(&array) && header_bytes % io_element_size(array.element) == 0)
        return map_npy(file, header_bytes, &array, name, table);
    return io_array_convert(&array, (const char *)file->data + header_bytes, name, table);
}

static circe_status read_format(circe__mapped *file, io_format format, const char *path, const char *selection,
                                const char *columns, const io_reading *reading, io_table *table) {
    if (is_foreign(path) && format != IO_CSV && format != IO_TSV)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: circe does not read %s files; export the table as .csv", path,
                          strrchr(path, '.'));
    if (columns != NULL && format != IO_CSV && format != IO_TSV && format != IO_UNKNOWN)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: columns can be selected only from a .csv or .tsv", path);
    if (columns == NULL) columns = selection;
    const char *data = file->bytes > 0 ? file->data : "";
    switch (format) {
        case IO_NPY:
            if (selection != NULL)
                return circe_fail(CIRCE_ERR_ARGUMENT, "%s: an .npy is one array; ':%.100s' selects nothing in it", path,
                                  selection);
            return read_npy(file, path, table);
        case IO_NPZ:
            return io_parse_npz(data, file->bytes, path, selection, table);
        case IO_CSV:
            return io_parse_csv_as(data, file->bytes, path, columns, reading, table);
        case IO_TSV:
            return io__parse_delimited(data, file->bytes, '\t', path, columns, reading, table);
        case IO_SAFETENSORS:
            return io_parse_safetensors(data, file->bytes, path, selection, table);
        case IO_UNKNOWN:
            break;
    }
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: its format is unknown; .npy, .npz, .csv, .tsv and .safetensors can be read; --format names "
                      "the format of other files",
                      path);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The header alone, however long the file is. */
static circe_status npy_array(const char *path, uint64_t bytes, io_array *array) {
    unsigned char header[MOST_HEADER];
    size_t header_bytes = 0, there = bytes < sizeof header ? (size_t)bytes : sizeof header;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, strerror(errno));
    there = fread(header, 1, there, file);
    fclose(file);
    circe_status status = io_npy_measure(header, there, path, &header_bytes);
    if (status == CIRCE_OK && header_bytes > there)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the file ends within its header", path);
    return status == CIRCE_OK ? io_npy_header(header, header_bytes, bytes - header_bytes, path, array) : status;
}

static circe_status npz_array(const circe__mapped *file, const char *path, const char *selection, io_array *array) {
    io_member *member = NULL;
    circe_status status = io_member_open(file->data, file->bytes, path, selection, &member, array);
    if (status == CIRCE_OK) io_member_close(member);
    return status;
}

static circe_status archive_array(const char *path, io_format format, const char *selection, io_array *array) {
    circe__mapped file = {.data = NULL};
    int problem = circe__map_file(path, &file);
    if (problem != 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, circe__map_problem(problem));
    circe_status status = format == IO_NPZ ? npz_array(&file, path, selection, array)
                                           : io__safetensors_shape(file.data, file.bytes, path, selection, array);
    circe__unmap(&file);
    return status;
}

/* Small archives are opened to find the sizes. Of larger ones, only the size of the file is known. */
static circe_status array_shape(const char *path, uint64_t bytes, io_format format, const char *selection,
                                io_shape *shape) {
    io_array array = {0};
    circe_status status = CIRCE_OK;
    if (format == IO_NPY)
        status = npy_array(path, bytes, &array);
    else if ((format == IO_NPZ || format == IO_SAFETENSORS) && bytes <= MOST_ARCHIVE)
        status = archive_array(path, format, selection, &array);
    else
        shape->bytes = (double)bytes;
    if (status == CIRCE_OK && array.rows > 0) {
        double size = (double)circe_dtype_size(io_element_dtype(array.element));
        *shape = (io_shape){array.rows, array.cols, true, (double)array.rows * (double)array.cols * size};
    }
    return status;
}

static circe_status text_shape(const char *path, char delimiter, const char *columns, io_shape *shape) {
    struct stat info;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, strerror(errno));
    circe_status status = CIRCE_OK;
    if (fstat(descriptor, &info) == 0 && info.st_size > 0)
        status = io__shape_delimited(descriptor, (uint64_t)info.st_size, delimiter, path, columns, NULL, shape);
    close(descriptor);
    return status;
}

circe_status io_read_shape(const char *source, const char *columns, const char *asked, io_shape *shape) {
    struct stat info;
    *shape = (io_shape){.rows = -1};
    OWNED char *path = strdup(source);
    if (path == NULL) return io__no_memory(source);
    const char *selection = split(path);
    io_format format = io_format_of(path, asked);
    circe_status status = CIRCE_OK;
    if (!is_packed(path) && stat(path, &info) == 0 && S_ISREG(info.st_mode))
        status = format == IO_CSV || format == IO_TSV
                     ? text_shape(path, format == IO_TSV ? '\t' : 0, columns != NULL ? columns : selection, shape)
                     : array_shape(path, (uint64_t)info.st_size, format, selection, shape);
    return status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* What is read: its bytes, and what messages call it. */
typedef struct opened {
    io__place place;
    const char *name;
    io_format format;
} opened;

/* A plain file of delimited text, which is not brought into memory as a whole. false: it is something else. */
static bool read_text(const opened *from, const char *columns, const io_reading *reading, io_table *table,
                      circe_status *status) {
    struct stat info;
    if (from->format != IO_CSV && from->format != IO_TSV) return false;
    int descriptor = open(from->place.file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false; /* for the general way to explain */
    bool plain = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    if (plain)
        *status = io__read_delimited(descriptor, (uint64_t)info.st_size, from->format == IO_TSV ? '\t' : 0, from->name,
                                     columns, reading, table);
    close(descriptor);
    return plain && *status != IO__NOT_UTF8; /* Latin-1 is converted as a whole */
}

static circe_status read_whole(const opened *from, const char *selection, const char *columns,
                               const io_reading *reading, io_table *table) {
    circe__mapped file = {.data = NULL};
    int problem = circe__map_file(from->place.file, &file);
    if (problem != 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", from->name, circe__map_problem(problem));
    io_format format = from->format;
    if (format == IO_UNKNOWN) format = format_of_content(&file, from->place.plain);
    circe_status status = format == IO_CSV || format == IO_TSV ? io__file_to_utf8(&file, from->name) : CIRCE_OK;
    if (status == CIRCE_OK) status = read_format(&file, format, from->name, selection, columns, reading, table);
    circe__unmap(&file);
    bool array = format == IO_NPY || format == IO_NPZ || format == IO_SAFETENSORS;
    if (status == CIRCE_OK && array && reading != NULL) {
        status = io_table_read_as(table, reading);
        if (status != CIRCE_OK) io_table_free(table);
    }
    return status;
}

static circe_status read_source(const char *path, const char *selection, const char *columns, const io_reading *reading,
                                io_table *table) {
    opened from = {.name = io_is_standard_input(path) ? "standard input" : path,
                   .format = io_format_of(path, reading != NULL ? reading->format : NULL)};
    bool text = from.format == IO_CSV || from.format == IO_TSV;
    if (text && columns != NULL && selection != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s:%.100s: options name the columns here; leave out ':%.100s'", path,
                          selection, selection);
    circe_status status = io__place_open(path, &from.place);
    if (status != CIRCE_OK) return status;
    if (!read_text(&from, columns != NULL ? columns : selection, reading, table, &status))
        status = read_whole(&from, selection, columns, reading, table);
    io__place_close(&from.place);
    return status;
}

circe_status io_read(const char *source, const char *columns, io_table *table) {
    return io_read_as(source, columns, NULL, table);
}

circe_status io_read_as(const char *source, const char *columns, const io_reading *reading, io_table *table) {
    memset(table, 0, sizeof *table);
    char *path = strdup(source), *text = strdup(source);
    if (path == NULL || text == NULL) {
        free(path);
        free(text);
        return io__no_memory(source);
    }
    const char *selection = split(path);
    circe_status status = read_source(path, selection, columns, reading, table);
    if (status == CIRCE_OK && !io_is_standard_input(path)) {
        free(table->source);
        table->source = text;
        text = NULL;
    }
    free(path);
    free(text);
    return status;
}
