/* A table as text, row by row, for callers that add columns to it. */
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "files/mapped.h"
#include "io/csv.h"
#include "io/place.h"

static void end_row(char *at, char *end) {
    while (end > at && (end[-1] == '\n' || end[-1] == '\r')) end--;
    *end = '\0';
}

/* The reader takes one row per line, blank ones too, and none at the end. */
static void cut(io_lines *lines, size_t bytes) {
    char *end = lines->text + bytes, *at = lines->text;
    int64_t room = 0;
    if (bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
    while (end > at && (end[-1] == '\n' || end[-1] == '\r')) end--;
    *end = '\0';
    while (at < end) {
        const char *next = io__row_end(at, end, lines->delimiter);
        char *stop = next != NULL ? lines->text + (next - lines->text) : end;
        if (lines->n_rows == room) {
            room = room > 0 ? 2 * room : 1024;
            lines->rows = small_grow(lines->rows, (size_t)room * sizeof *lines->rows);
        }
        lines->rows[lines->n_rows++] = at;
        if (next != NULL) end_row(at, stop);
        at = stop;
    }
}

static circe_status read_text(const char *path, const char *name, const io_reading *reading, io_lines *lines) {
    io__place place;
    circe__mapped file = {.data = NULL};
    circe_status status = io__place_open(path, &place);
    if (status != CIRCE_OK) return status;
    int problem = circe__map_file(place.file, &file);
    if (problem != 0) status = circe_fail(CIRCE_ERR_IO, "%s: %s", name, circe__map_problem(problem));
    if (status == CIRCE_OK) status = io__file_to_utf8(&file, name);
    if (status == CIRCE_OK)
        status = io__csv_layout(file.data, file.bytes, name, reading, &lines->delimiter, &lines->header);
    if (status == CIRCE_OK) lines->text = malloc(file.bytes + 1);
    if (status == CIRCE_OK && lines->text == NULL) status = io__no_memory(name);
    if (lines->text != NULL) {
        memcpy(lines->text, file.data, file.bytes);
        cut(lines, file.bytes);
    }
    circe__unmap(&file);
    io__place_close(&place);
    return status;
}

circe_status io_read_lines(const char *path, const io_reading *reading, io_lines *lines) {
    io_format format = io_format_of(path, reading != NULL ? reading->format : NULL);
    const char *name = io_is_standard_input(path) ? "standard input" : path;
    *lines = (io_lines){.delimiter = format == IO_TSV ? '\t' : 0};
    if (format != IO_CSV && format != IO_TSV && format != IO_UNKNOWN)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: columns can be added only to a .csv or .tsv", name);
    return read_text(path, name, reading, lines);
}

void io_lines_free(io_lines *lines) {
    free(lines->text);
    free(lines->rows);
    free(lines->header);
    *lines = (io_lines){0};
}
