/* Fields of delimited text by RFC 4180: a field in double quotes may hold delimiters, line ends and, doubled, quotes.
 * More lenient than it in what real files need: lines may end in LF, CRLF or CR; blanks around a field do not belong
 * to it unless they are quoted; a quote inside an unquoted field is itself. */

#include "io/csv.h"
#include "io/io_parts.h"

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* At a delimiter, a line end or the end of the data: steps over it. */
static void end_field(io__scanner *scanner, io__field *field) {
    field->last = scanner->at == scanner->end || *scanner->at != scanner->delimiter;
    if (scanner->at == scanner->end) return;
    char c = *scanner->at++;
    if (!field->last) return;
    if (c == '\r' && scanner->at < scanner->end && *scanner->at == '\n') scanner->at++;
    scanner->line++;
}

static bool ends_field(const io__scanner *scanner, char c) { return c == scanner->delimiter || c == '\n' || c == '\r'; }

static void plain_field(io__scanner *scanner, io__field *field) {
    const char *start = scanner->at;
    while (scanner->at < scanner->end && !ends_field(scanner, *scanner->at)) scanner->at++;
    const char *stop = scanner->at;
    while (stop > start && is_blank(stop[-1])) stop--;
    field->text = start;
    field->length = (size_t)(stop - start);
}

/* The end of the quoted text that starts at `at`; its doubled quotes and line ends counted. NULL: it does not end. */
static const char *closing_quote(io__scanner *scanner, const char *at, size_t *n_doubled) {
    *n_doubled = 0;
    for (; at < scanner->end; at++) {
        if (*at == '\n' || (*at == '\r' && !(at + 1 < scanner->end && at[1] == '\n'))) scanner->line++;
        if (*at != '"') continue;
        if (at + 1 == scanner->end || at[1] != '"') return at;
        at++;
        (*n_doubled)++;
    }
    return NULL;
}

static bool undouble(io__scanner *scanner, io__field *field) {
    char *to = io__grow(scanner->scratch, &scanner->scratch_capacity, field->length, 1);
    if (to == NULL) return false;
    scanner->scratch = to;
    for (size_t i = 0; i < field->length; i++) {
        *to++ = field->text[i];
        if (field->text[i] == '"') i++;
    }
    field->text = scanner->scratch;
    field->length = (size_t)(to - scanner->scratch);
    return true;
}

static circe_status quoted_field(io__scanner *scanner, io__field *field) {
    int64_t line = scanner->line;
    size_t n_doubled;
    const char *start = scanner->at + 1, *stop = closing_quote(scanner, start, &n_doubled);
    if (stop == NULL)
        return circe_fail(CIRCE_ERR_FORMAT, "%s, line %lld: a quoted field begins and does not end", scanner->name,
                          (long long)line);
    field->text = start;
    field->length = (size_t)(stop - start);
    if (n_doubled > 0 && !undouble(scanner, field)) return io__no_memory(scanner->name);
    scanner->at = stop + 1;
    while (scanner->at < scanner->end && is_blank(*scanner->at) && *scanner->at != scanner->delimiter) scanner->at++;
    if (scanner->at < scanner->end && !ends_field(scanner, *scanner->at))
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s, line %lld: text follows the closing quote of a field (a quote inside is written twice)",
                          scanner->name, (long long)scanner->line);
    return CIRCE_OK;
}

circe_status io__next_field(io__scanner *scanner, io__field *field) {
    circe_status status = CIRCE_OK;
    while (scanner->at < scanner->end && is_blank(*scanner->at) && *scanner->at != scanner->delimiter) scanner->at++;
    if (scanner->at < scanner->end && *scanner->at == '"')
        status = quoted_field(scanner, field);
    else
        plain_field(scanner, field);
    if (status == CIRCE_OK) end_field(scanner, field);
    return status;
}

bool io__next_number(io__scanner *scanner, io__field *field, double *value) {
    const char *stop = io__decimal(scanner->at, scanner->end, value);
    if (stop == NULL || (stop < scanner->end && !ends_field(scanner, *stop))) return false;
    scanner->at = stop;
    end_field(scanner, field);
    return true;
}
