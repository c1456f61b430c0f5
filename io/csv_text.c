/* Text in windows. A plain file is read with pread, so that only the part being parsed is in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/csv.h"

/* Fills `to` from a position in the file. If the file ends earlier, it was truncated after its size was read. */
static circe_status fill(const io__text *text, uint64_t from, size_t length, char *to) {
    while (length > 0) {
        ssize_t got = pread(text->descriptor, to, length, (off_t)from);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", text->name, strerror(errno));
        if (got == 0) return circe_fail(CIRCE_ERR_IO, "%s: the file was cut short while it was read", text->name);
        to += got;
        from += (uint64_t)got;
        length -= (size_t)got;
    }
    return CIRCE_OK;
}

circe_status io__window_load(const io__text *text, uint64_t from, size_t length, io__window *window) {
    uint64_t left = text->end - from;
    if (length > left) length = (size_t)left;
    window->length = length;
    window->final = length == left;
    if (text->memory != NULL) {
        window->data = text->memory + from;
        return CIRCE_OK;
    }
    char *buffer = io__grow(window->buffer, &window->capacity, length > 0 ? length : 1, 1);
    if (buffer == NULL) return io__no_memory(text->name);
    window->data = window->buffer = buffer;
    return fill(text, from, length, buffer);
}

void io__window_free(io__window *window) {
    free(window->buffer);
    *window = (io__window){0};
}

/* Steps back over the line ends at the end, which are no rows. */
static circe_status trim(io__text *text) {
    enum { PIECE = 4096 };
    char piece[PIECE];
    while (text->end > text->start) {
        uint64_t left = text->end - text->start;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        const char *bytes = text->memory != NULL ? text->memory + text->end - n : piece;
        circe_status status = text->memory != NULL ? CIRCE_OK : fill(text, text->end - n, n, piece);
        if (status != CIRCE_OK) return status;
        for (size_t i = n; i > 0; i--, text->end--)
            if (bytes[i - 1] != '\n' && bytes[i - 1] != '\r') return CIRCE_OK;
    }
    return circe_fail(CIRCE_ERR_VALUE, "%s: the file is empty", text->name);
}

circe_status io__text_begin(io__text *text, uint64_t bytes) {
    char mark[4];
    text->start = 0;
    text->end = bytes;
    if (bytes >= sizeof mark) {
        circe_status status = CIRCE_OK;
        if (text->memory != NULL)
            memcpy(mark, text->memory, sizeof mark);
        else
            status = fill(text, 0, sizeof mark, mark);
        if (status != CIRCE_OK) return status;
        if (memcmp(mark, "\xef\xbb\xbf", 3) == 0) text->start = 3;
        if (memcmp(mark, "PK\3\4", 4) == 0)
            return circe_fail(CIRCE_ERR_FORMAT,
                              "%s: it is no text but a zip archive, as .xlsx files are; export it as .csv", text->name);
        if (memcmp(mark, "\xff\xfe", 2) == 0 || memcmp(mark, "\xfe\xff", 2) == 0)
            return circe_fail(CIRCE_ERR_FORMAT, "%s: the text is in UTF-16; save it in UTF-8", text->name);
    }
    return trim(text);
}
