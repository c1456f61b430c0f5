/* Options as rows of a table: sets defaults, parses values, and refuses what is out of range. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/options.h"
#include "core/settings.h"
#include "io/io.h"
#include "io/suggest.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

const circe_option *circe_schema_find(const circe_schema *schema, const char *name) {
    for (size_t i = 0; i < schema->n; i++)
        if (strcmp(schema->rows[i].name, name) == 0) return &schema->rows[i];
    return NULL;
}

const char *circe_schema_nearest(const circe_schema *schema, const char *name) {
    OWNED const char **names = malloc((schema->n + 1) * sizeof *names);
    if (names == NULL) return NULL;
    for (size_t i = 0; i < schema->n; i++) names[i] = schema->rows[i].name;
    return suggest_nearest(name, names, schema->n);
}

/* The number that represents a word: CIRCE_AUTO is the first, and each next one is one less. */
static const char *word_of(const circe_option *row, double value, char *out, size_t size) {
    bool stands = row->words != NULL && value <= CIRCE_AUTO && value > CIRCE_AUTO - 16.0 && value == floor(value);
    return stands ? io_word_at(row->words, (int)(CIRCE_AUTO - value), out, size) : NULL;
}

/* A row's field, by the type that its kind has. */
typedef union field {
    void *at;
    int *flag;
    int64_t *integer;
    double *number;
    const char **text;
} field;

static field field_of(const circe_option *row, const void *options) {
    return (field){.at = (char *)(uintptr_t)options + row->offset};
}

typedef enum field_type { FIELD_FLAG, FIELD_INTEGER, FIELD_NUMBER, FIELD_TEXT } field_type;

static field_type type_of(const circe_option *row) {
    switch (row->kind) {
        case CIRCE_OPTION_FLAG:
            return FIELD_FLAG;
        case CIRCE_OPTION_INTEGER:
        case CIRCE_OPTION_COUNT:
        case CIRCE_OPTION_BYTES:
            return FIELD_INTEGER;
        case CIRCE_OPTION_NUMBER:
        case CIRCE_OPTION_POSITIVE:
            return FIELD_NUMBER;
        case CIRCE_OPTION_TEXT:
        case CIRCE_OPTION_LIST:
        case CIRCE_OPTION_PATH:
        case CIRCE_OPTION_CHOICE:
        case CIRCE_OPTION_POSITIVES:
            break;
    }
    return FIELD_TEXT;
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static circe_status refuse_word(const circe_option *row, const char *text) {
    circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be one of %s, not '%s'", row->name, row->words, text);
    return suggest_word(CIRCE_ERR_ARGUMENT, row->words, text);
}

static circe_status check_integer(const circe_option *row, double value, const char *shown) {
    if (row->kind == CIRCE_OPTION_BYTES || (value >= row->low && value <= row->high)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be between %.0f and %.0f, not %s", row->name, row->low, row->high,
                      shown);
}

static circe_status check_positive(const circe_option *row, double value, const char *shown) {
    if (!(value > 0) || !isfinite(value))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be greater than 0, not %s", row->name, shown);
    if (row->high > 0 && value >= row->high)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be less than %g, not %s", row->name, row->high, shown);
    return CIRCE_OK;
}

static circe_status check_number(const circe_option *row, double value, const char *shown) {
    if (row->kind == CIRCE_OPTION_POSITIVE) return check_positive(row, value, shown);
    if (row->high > 0 && (value < row->low || value > row->high))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be between %g and %g, not %s", row->name, row->low, row->high,
                          shown);
    if (value < row->low)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be at least %g, not %s", row->name, row->low, shown);
    return CIRCE_OK;
}

/* ---- from texts -------------------------------------------------------------------------------------------------- */

/* strtod alone would accept hexadecimal, blanks and words, and would turn numbers that are too small into 0. */
static circe_status read_number(const circe_option *row, const char *text, double *number) {
    if (!io_number(text, number))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s: '%s' is not a number%s%s", row->name, text,
                          row->words == NULL                ? ""
                          : strchr(row->words, '|') != NULL ? " or one of "
                                                            : " or the word ",
                          row->words != NULL ? row->words : "");
    if (io_number_vanished(text, *number))
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s: %s is too small: it would become 0; write 0 if you mean 0",
                          row->name, text);
    return CIRCE_OK;
}

static circe_status parse_number(const circe_option *row, const char *text, double *out) {
    int word = row->words != NULL ? circe_word_index(row->words, text) : -1;
    if (word >= 0) {
        *out = CIRCE_AUTO - word;
        return CIRCE_OK;
    }
    if (row->kind == CIRCE_OPTION_POSITIVE && strchr(text, ',') != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s takes one number, not '%s'", row->name, text);
    double number;
    circe_status status = read_number(row, text, &number);
    if (status == CIRCE_OK) status = check_number(row, number, text);
    if (status == CIRCE_OK) *out = number;
    return status;
}

static circe_status parse_integer(const circe_option *row, const char *text, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s takes a whole number, not '%s'", row->name, text);
    circe_status status = check_integer(row, errno == ERANGE ? NAN : (double)number, text);
    if (status == CIRCE_OK) *out = number;
    return status;
}

/* A size as 512M, 4G, 1.5g or a plain number of bytes. */
static circe_status parse_bytes(const circe_option *row, const char *text, int64_t *out) {
    static const char units[] = "KMGT";
    char *end = NULL;
    bool decimal = isdigit((unsigned char)text[0]) && text[1] != 'x' && text[1] != 'X';
    double number = strtod(text, &end);
    bool valid = decimal && isfinite(number) && number > 0;
    if (valid && *end != '\0') {
        const char *unit = strchr(units, toupper((unsigned char)*end));
        valid = unit != NULL;
        for (const char *u = units; valid && u <= unit; u++) number *= 1024;
        end++;
        if (*end == 'i' || *end == 'I') end++;
        if (*end == 'B' || *end == 'b') end++;
        valid = valid && *end == '\0';
    }
    if (!valid || number < 1 || number > 9e18)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s takes a size such as 512M or 4G, not '%s'", row->name, text);
    *out = (int64_t)number;
    return CIRCE_OK;
}

/* Every number of a list; values may be NULL. */
static circe_status read_list(const circe_option *row, const char *text, double *values, int64_t *n) {
    *n = 0;
    for (const char *piece = text; piece != NULL;) {
        char one[64];
        double number;
        size_t length = strcspn(piece, ",");
        if (length == 0 || length >= sizeof one)
            return circe_fail(CIRCE_ERR_ARGUMENT, "--%s: '%.*s' is not a number", row->name, (int)length, piece);
        memcpy(one, piece, length);
        one[length] = '\0';
        circe_status status = read_number(row, one, &number);
        if (status == CIRCE_OK) status = check_positive(row, number, one);
        if (status != CIRCE_OK) return status;
        if (values != NULL) values[*n] = number;
        (*n)++;
        piece = piece[length] == ',' ? piece + length + 1 : NULL;
    }
    return CIRCE_OK;
}

/* Whether a text is one of the row's; texts are kept as they are. */
static circe_status check_text(const circe_option *row, const char *text) {
    int64_t n;
    if (text[0] == '\0') return circe_fail(CIRCE_ERR_ARGUMENT, "--%s has an empty value", row->name);
    if (row->kind == CIRCE_OPTION_CHOICE)
        return circe_word_index(row->words, text) >= 0 ? CIRCE_OK : refuse_word(row, text);
    bool word = row->words != NULL && circe_word_index(row->words, text) >= 0;
    return row->kind == CIRCE_OPTION_POSITIVES && !word ? read_list(row, text, NULL, &n) : CIRCE_OK;
}

static circe_status parse(const circe_option *row, field to, const char *text) {
    circe_status status = CIRCE_OK;
    switch (type_of(row)) {
        case FIELD_FLAG:
            *to.flag = strcmp(text, "true") == 0;
            if (*to.flag || strcmp(text, "false") == 0) return CIRCE_OK;
            return circe_fail(CIRCE_ERR_ARGUMENT, "--%s must be true or false, not '%s'", row->name, text);
        case FIELD_INTEGER:
            return row->kind == CIRCE_OPTION_BYTES ? parse_bytes(row, text, to.integer)
                                                   : parse_integer(row, text, to.integer);
        case FIELD_NUMBER:
            return parse_number(row, text, to.number);
        case FIELD_TEXT:
            status = check_text(row, text);
            if (status == CIRCE_OK) *to.text = text;
            return status;
    }
    return CIRCE_OK;
}

circe_status circe_options_set(const circe_schema *schema, void *options, const char *name, const char *text) {
    CIRCE_OWN_SETTINGS;
    const circe_option *row = circe_schema_find(schema, name);
    if (row != NULL) return parse(row, field_of(row, options), text);
    const char *nearest = circe_schema_nearest(schema, name);
    circe_fail(CIRCE_ERR_ARGUMENT, "%s has no option --%s", schema->job, name);
    return nearest != NULL ? circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean --%s?", nearest) : CIRCE_ERR_ARGUMENT;
}

circe_status circe_options_numbers(const circe_schema *schema, const void *options, const char *name, double *values,
                                   int64_t *n) {
    CIRCE_OWN_SETTINGS;
    const circe_option *row = circe_schema_find(schema, name);
    const char *text = *field_of(row, options).text;
    *n = 0;
    if (text == NULL || (row->words != NULL && circe_word_index(row->words, text) >= 0)) return CIRCE_OK;
    return read_list(row, text, values, n);
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

static void clear(const circe_option *row, field to) {
    switch (type_of(row)) {
        case FIELD_FLAG:
            *to.flag = 0;
            break;
        case FIELD_INTEGER:
            *to.integer = row->kind == CIRCE_OPTION_COUNT ? 0 : CIRCE_UNSET;
            break;
        case FIELD_NUMBER:
            *to.number = NAN;
            break;
        case FIELD_TEXT:
            *to.text = NULL;
            break;
    }
}

static void set_default(const circe_option *row, field to) {
    clear(row, to);
    if (row->fallback != NULL && row->kind != CIRCE_OPTION_COUNT) parse(row, to, row->fallback);
}

void circe_options_init(const circe_schema *schema, void *options) {
    memset(options, 0, schema->bytes);
    for (size_t i = 0; i < schema->n; i++) set_default(&schema->rows[i], field_of(&schema->rows[i], options));
}

static bool same_text(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

static bool is_default(const circe_option *row, field now) {
    union {
        int flag;
        int64_t integer;
        double number;
        const char *text;
    } usual = {0};
    set_default(row, (field){.at = &usual});
    switch (type_of(row)) {
        case FIELD_FLAG:
            return *now.flag == usual.flag;
        case FIELD_INTEGER:
            return *now.integer == usual.integer;
        case FIELD_NUMBER:
            return *now.number == usual.number || (isnan(*now.number) && isnan(usual.number));
        case FIELD_TEXT:
            break;
    }
    return same_text(*now.text, usual.text);
}

int circe_options_given(const circe_schema *schema, const void *options, const char *name) {
    const circe_option *row = circe_schema_find(schema, name);
    return row != NULL && !is_default(row, field_of(row, options));
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status check_row(const circe_option *row, field now) {
    char shown[40];
    switch (type_of(row)) {
        case FIELD_FLAG:
            return CIRCE_OK;
        case FIELD_INTEGER:
            snprintf(shown, sizeof shown, "%lld", (long long)*now.integer);
            return is_default(row, now) ? CIRCE_OK : check_integer(row, (double)*now.integer, shown);
        case FIELD_NUMBER:
            snprintf(shown, sizeof shown, "%.17g", *now.number);
            if (is_default(row, now) || word_of(row, *now.number, shown, sizeof shown) != NULL) return CIRCE_OK;
            return isfinite(*now.number) ? check_number(row, *now.number, shown)
                                         : circe_fail(CIRCE_ERR_ARGUMENT, "--%s is not a finite number", row->name);
        case FIELD_TEXT:
            break;
    }
    return *now.text != NULL ? check_text(row, *now.text) : CIRCE_OK;
}

circe_status circe_options_check(const circe_schema *schema, const void *options) {
    CIRCE_OWN_SETTINGS;
    for (size_t i = 0; i < schema->n; i++) {
        const circe_option *row = &schema->rows[i];
        field now = field_of(row, options);
        circe_status status = check_row(row, now);
        if (status != CIRCE_OK) return status;
        if (!row->required || !is_default(row, now)) continue;
        if (row->letter != 0) return circe_fail(CIRCE_ERR_ARGUMENT, "-%c %s is required", row->letter, row->value);
        return circe_fail(CIRCE_ERR_ARGUMENT, "--%s %s is required", row->name, row->value);
    }
    return CIRCE_OK;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

/* As few digits as read back the same. */
static const char *number_text(double value, char *out, size_t size) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

const char *circe_options_text(const circe_schema *schema, const void *options, const char *name, char *out,
                               size_t size) {
    CIRCE_OWN_SETTINGS;
    const circe_option *row = circe_schema_find(schema, name);
    if (row == NULL) return NULL;
    field now = field_of(row, options);
    if (type_of(row) == FIELD_FLAG) return *now.flag ? "true" : "false";
    if (type_of(row) == FIELD_TEXT) return *now.text;
    if (is_default(row, now)) return row->fallback;
    if (type_of(row) == FIELD_NUMBER && word_of(row, *now.number, out, size) != NULL) return out;
    if (type_of(row) == FIELD_NUMBER) return number_text(*now.number, out, size);
    snprintf(out, size, "%lld", (long long)*now.integer);
    return out;
}
