/* Finds the ends of rows without reading their fields.
 *
 * A line end is the end of a row unless it is quoted. Whether it is quoted is known only from the beginning of its row,
 * because a quote opens a quoted field only at the start of a field. Rows without quotes can be skipped, though. So the
 * quotes of a window are found first, and only rows with quotes are scanned, by the rules of csv_scan.c. */
#include <string.h>

#include "io/csv.h"

static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

/* Behind the line end at `at`. */
static const char *step_over(const char *at, const char *end) {
    return at[0] == '\r' && at + 1 < end && at[1] == '\n' ? at + 2 : at + 1;
}

/* Behind the first line end from `at` on; `end` if there is none. */
static const char *next_line(const char *at, const char *end) {
    while (at < end && !is_line_end(*at)) at++;
    return at < end ? step_over(at, end) : end;
}

/* The last row start in [from, at]: behind the last line end before `at`, or `from`. */
static const char *row_start(const char *from, const char *at) {
    while (at > from && !is_line_end(at[-1])) at--;
    return at;
}

/* At the opening quote of a field: behind the closing one, or `end`. */
static const char *skip_quoted(const char *at, const char *end) {
    for (at++; at < end; at++) {
        if (*at != '"') continue;
        if (at + 1 == end || at[1] != '"') return at + 1;
        at++;
    }
    return end;
}

const char *io__row_end(const char *at, const char *end, char delimiter) {
    while (at < end) {
        while (at < end && (*at == ' ' || *at == '\t') && *at != delimiter) at++;
        if (at < end && *at == '"') at = skip_quoted(at, end);
        while (at < end && *at != delimiter && !is_line_end(*at)) at++;
        if (at == end) return NULL;
        if (*at != delimiter) return step_over(at, end);
        at++;
    }
    return NULL;
}

typedef struct cutter {
    const char *data, *end;
    char delimiter;
    size_t *cut;
    int n, next; /* stretches; the next cut that is to be made */
} cutter;

static size_t target(const cutter *c, int k) { return (size_t)(c->end - c->data) * (size_t)k / (size_t)c->n; }

/* Rows end at `at`: makes the cuts that were waiting for a place like this. */
static void reach(cutter *c, const char *at) {
    while (c->next < c->n && (size_t)(at - c->data) >= target(c, c->next)) c->cut[c->next++] = (size_t)(at - c->data);
}

/* [from, to) are whole rows without a quote: cuts at the first row end behind each target among them. */
static void cut_plain(cutter *c, const char *from, const char *to) {
    while (c->next < c->n && from < to && target(c, c->next) <= (size_t)(to - c->data)) {
        const char *aim = c->data + target(c, c->next);
        reach(c, aim > from ? next_line(aim - 1, to) : from);
    }
}

/* Behind the last row that is complete. A carriage return at the very end may be half a line end. */
static const char *cut_all(cutter *c) {
    const char *at = c->data;
    while (at < c->end) {
        const char *quote = memchr(at, '"', (size_t)(c->end - at));
        const char *stop = quote != NULL ? quote : c->end;
        const char *row = row_start(at, stop);
        cut_plain(c, at, row);
        at = row;
        if (quote == NULL) break;
        row = io__row_end(at, c->end, c->delimiter);
        if (row == NULL) break;
        at = row;
        reach(c, at);
    }
    return at;
}

void io__cut_rows(const io__window *window, char delimiter, int n, size_t *cut) {
    bool half = !window->final && window->length > 0 && window->data[window->length - 1] == '\r';
    cutter c = {.data = window->data,
                .end = window->data + window->length - half,
                .delimiter = delimiter,
                .cut = cut,
                .n = n,
                .next = 1};
    cut[0] = 0;
    size_t last = (size_t)(cut_all(&c) - window->data);
    cut[n] = window->final ? window->length : last;
    for (int k = c.next; k < n; k++) cut[k] = cut[n];
}
