/* A file of questions: its first line names the columns x, z and, where something is given, y, in any order and case;
 * each other line is a test. A cell lists columns of the data as the command line does: income,"age, in years". Cells
 * are separated by tabs where the first line has one, by semicolons where it has one and no comma, otherwise by commas,
 * and may be quoted. */
#include "jobs/test_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/small.h"

enum { ROLE_X, ROLE_Y, ROLE_Z, ROLES, MOST_FIELDS = 64 };
static const char *const role_names[ROLES] = {"x", "y", "z"};

typedef struct parser {
    const char *path;
    char separator;
    int64_t line;
    int role[MOST_FIELDS]; /* of a field; -1: another column, which is passed over */
    int n_fields;
} parser;

static char *trimmed(char *text) {
    while (*text == ' ') text++;
    for (char *end = text + strlen(text); end > text && (end[-1] == ' ' || end[-1] == '\r'); end--) end[-1] = '\0';
    return text;
}

/* Cuts a line into fields, in place: their count, or -1 if a quote is not closed. */
static int cut(char *line, char separator, char *fields[MOST_FIELDS]) {
    int n = 0;
    for (char *at = line; n < MOST_FIELDS;) {
        char *to = at;
        bool quoted = *at == '"';
        fields[n++] = at;
        if (quoted) {
            for (at++; *at != '\0' && !(at[0] == '"' && at[1] != '"'); at++) {
                if (*at == '"') at++;
                *to++ = *at;
            }
            if (*at != '"') return -1;
            at++;
        }
        while (*at != '\0' && *at != separator) *to++ = *at++;
        bool last = *at == '\0';
        *to = '\0';
        if (last) break;
        at++;
    }
    return n;
}

static circe_status read_header(parser *p, char *line) {
    char *fields[MOST_FIELDS];
    int found[ROLES] = {0, 0, 0};
    p->separator = strchr(line, '\t') != NULL                               ? '\t'
                   : strchr(line, ',') == NULL && strchr(line, ';') != NULL ? ';'
                                                                            : ',';
    p->n_fields = cut(line, p->separator, fields);
    if (p->n_fields < 0) return circe_fail(CIRCE_ERR_FORMAT, "%s: line 1: a quote is not closed", p->path);
    for (int f = 0; f < p->n_fields; f++) {
        p->role[f] = -1;
        for (int r = 0; r < ROLES; r++)
            if (strcasecmp(trimmed(fields[f]), role_names[r]) == 0) found[p->role[f] = r]++;
    }
    for (int r = 0; r < ROLES; r++)
        if (found[r] > 1 || (found[r] == 0 && r != ROLE_Y))
            return circe_fail(CIRCE_ERR_FORMAT,
                              "%s: line 1 has %s column '%s'; it names the columns x, z and, to condition, y", p->path,
                              found[r] == 0 ? "no" : "more than one", role_names[r]);
    return CIRCE_OK;
}

static circe_status read_line(arena *owner, const parser *p, char *line, circe_question *q) {
    char nothing[] = "", *fields[MOST_FIELDS], *cells[ROLES] = {nothing, nothing, nothing};
    int n = cut(line, p->separator, fields);
    if (n < 0) return circe_fail(CIRCE_ERR_FORMAT, "%s: line %" PRId64 ": a quote is not closed", p->path, p->line);
    if (n != p->n_fields)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: line %" PRId64 " has %d cells, and line 1 has %d", p->path, p->line, n,
                          p->n_fields);
    for (int f = 0; f < n; f++)
        if (p->role[f] >= 0) cells[p->role[f]] = trimmed(fields[f]);
    for (int r = 0; r < ROLES; r++)
        if (r != ROLE_Y && cells[r][0] == '\0')
            return circe_fail(CIRCE_ERR_FORMAT,
                              "%s: line %" PRId64 ", column '%s' is empty; it names columns of the data", p->path,
                              p->line, role_names[r]);
    bool given = cells[ROLE_Y][0] != '\0';
    *q = (circe_question){arena_text(owner, cells[ROLE_X]), given ? arena_text(owner, cells[ROLE_Y]) : NULL,
                          arena_text(owner, cells[ROLE_Z])};
    return CIRCE_OK;
}

circe_status pairs_read(arena *owner, const char *path, circe_question **questions, int64_t **lines, int64_t *n) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    parser p = {.path = path};
    char *line = NULL;
    size_t size = 0;
    int64_t room = 0;
    circe_status status = CIRCE_OK;
    *questions = NULL;
    *lines = NULL;
    *n = 0;
    if (file == NULL) return circe_fail(CIRCE_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    for (ssize_t bytes; status == CIRCE_OK && (bytes = getline(&line, &size, file)) >= 0;) {
        if (bytes > 0 && line[bytes - 1] == '\n') line[bytes - 1] = '\0';
        p.line++;
        if (p.line == 1) {
            char *first = strncmp(line, "\xef\xbb\xbf", 3) == 0 ? line + 3 : line;
            status = read_header(&p, first);
            continue;
        }
        if (trimmed(line)[0] == '\0') continue;
        if (*n == room) {
            room = room > 0 ? 2 * room : 64;
            *questions = small_grow(*questions, (size_t)room * sizeof **questions);
            *lines = small_grow(*lines, (size_t)room * sizeof **lines);
        }
        status = read_line(owner, &p, line, &(*questions)[*n]);
        if (status == CIRCE_OK) (*lines)[(*n)++] = p.line;
    }
    free(line);
    if (status == CIRCE_OK && ferror(file)) /* a folder can be opened, and not read */
        status = circe_fail(CIRCE_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (file != stdin) fclose(file);
    if (status == CIRCE_OK && *n == 0)
        status =
            circe_fail(CIRCE_ERR_FORMAT, "%s contains no tests: after the line 'x,z,y', every line is a test", path);
    return status;
}
