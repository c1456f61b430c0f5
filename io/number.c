/* Parses numbers in text that does not end in NUL, and recognises text that looks like a number but is not one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/csv.h"
#include "io/io_parts.h"

enum { MAX_TEXT = 1023 };

static const char *skip_sign(const char *at) { return at + (*at == '+' || *at == '-'); }

static const char *skip_digits(const char *at) { return at + strspn(at, "0123456789"); }

/* The whole text is one decimal number: strtod alone would accept blanks, hexadecimal and "nan(...)". */
static bool is_decimal(const char *text) {
    const char *start = skip_sign(text), *at = skip_digits(start);
    bool digits = at > start;
    if (*at == '.') {
        start = at + 1;
        at = skip_digits(start);
        digits = digits || at > start;
    }
    if (digits && (*at == 'e' || *at == 'E')) {
        start = skip_sign(at + 1);
        at = skip_digits(start);
        digits = at > start;
    }
    return digits && *at == '\0';
}

/* What decimal.c leaves to its caller, strtod parses. No double needs more than 767 digits to differ from its
 * neighbours, so longer texts do not count as numbers. Neither do numbers that are too large for a double. Numbers that
 * are too small become 0, the nearest double. */
bool io__number(const char *text, size_t length, char point, double *value) {
    char copy[MAX_TEXT + 1];
    if (point == '.' && io__decimal(text, text + length, value) == text + length) return true;
    if (length > MAX_TEXT) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (point != '.') {
        char *found = strchr(copy, point);
        if (strchr(copy, '.') != NULL) return false;
        if (found != NULL) *found = '.';
        if (io__decimal(copy, copy + length, value) == copy + length) return true;
    }
    if (strlen(copy) != length || !is_decimal(copy)) return false;
    *value = strtod(copy, NULL);
    return isfinite(*value);
}

bool io_number(const char *text, double *value) { return io__number(text, strlen(text), '.', value); }

bool io_number_vanished(const char *text, double value) {
    return value == 0.0 && strpbrk(text, "123456789") != NULL && strcspn(text, "123456789") < strcspn(text, "eE");
}

/* ---- missing ------------------------------------------------------------------------------------------------- */

static bool same_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

bool io__is_nan(const char *text, size_t length) {
    return same_word(text, length, "nan") || same_word(text, length, "-nan");
}

bool io__is_missing(const io_reading *reading, const char *text, size_t length) {
    static const char *const words[] = {"?", "NA", "N/A", "NaN", "null", "-NaN"};
    if (length == 0) return true;
    for (size_t i = 0; !reading->only_empty && length <= 4 && i < sizeof words / sizeof words[0]; i++)
        if (same_word(text, length, words[i])) return true;
    for (int64_t i = 0; i < reading->n_missing; i++)
        if (same_word(text, length, reading->missing[i])) return true;
    return false;
}

bool io__is_missing_number(const io_reading *reading, double value) {
    double word;
    for (int64_t i = 0; i < reading->n_missing; i++)
        if (io_number(reading->missing[i], &word) && word == value) return true;
    return false;
}

/* ---- what looks like a number -------------------------------------------------------------------------------- */

/* Dashes and the typographic minus, U+2010 to U+2015 and U+2212, in UTF-8. */
static size_t foreign_minus(const char *text, size_t length) {
    if (length < 3) return 0;
    bool dash = memcmp(text, "\xe2\x80", 2) == 0 && (unsigned char)text[2] >= 0x90 && (unsigned char)text[2] <= 0x95;
    return dash || memcmp(text, "\xe2\x88\x92", 3) == 0 ? 3 : 0;
}

static bool is_infinity(const char *text, size_t length) {
    if (length > 0 && (text[0] == '-' || text[0] == '+')) text++, length--;
    return same_word(text, length, "inf") || same_word(text, length, "infinity");
}

static bool is_hexadecimal(const char *text, size_t length) {
    if (length > 0 && (text[0] == '-' || text[0] == '+')) text++, length--;
    if (length < 3 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) return false;
    return strspn(text + 2, "0123456789abcdefABCDEF.pP+-") >= length - 2;
}

/* More than a double can hold: 1e999. */
static bool is_overflow(const char *text) {
    return text[strspn(text, "+-.0123456789eE")] == '\0' && isinf(strtod(text, NULL));
}

/* How many bytes a space between thousands takes: a plain one, U+00A0, U+2009 or U+202F before three digits. */
static size_t thousands_space(const char *text, size_t length) {
    static const char *const spaces[] = {" ", "\xc2\xa0", "\xe2\x80\x89", "\xe2\x80\xaf"};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size_t bytes = strlen(spaces[i]), digits = 0;
        if (length < bytes || memcmp(text, spaces[i], bytes) != 0) continue;
        while (bytes + digits < length && text[bytes + digits] >= '0' && text[bytes + digits] <= '9') digits++;
        return digits == 3 ? bytes : 0;
    }
    return 0;
}

/* Leaves out a sign of dollar, pound, yen or euro before or after the number. */
static void cut_currency(const char **text, size_t *length) {
    static const char *const signs[] = {"$", "\xc2\xa3", "\xc2\xa5", "\xe2\x82\xac"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t bytes = strlen(signs[i]);
        if (*length <= bytes) continue;
        bool before = memcmp(*text, signs[i], bytes) == 0;
        if (!before && memcmp(*text + *length - bytes, signs[i], bytes) != 0) continue;
        *text += before ? bytes : 0;
        *length -= bytes;
    }
    while (*length > 0 && **text == ' ') ++*text, --*length;
    while (*length > 0 && (*text)[*length - 1] == ' ') --*length;
}

io__likeness io__looks_like_number(const char *text, size_t length, char point) {
    char copy[64], *to = copy;
    double value;
    if (length == 0 || length >= sizeof copy) return IO__WORD;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (is_infinity(text, length) || is_hexadecimal(copy, length) || is_overflow(copy)) return IO__ODD_NUMBER;
    if (io__number(text, length, point == ',' ? '.' : ',', &value)) return IO__OTHER_POINT;
    size_t minus = foreign_minus(text, length);
    if (minus > 0) *to++ = '-';
    text += minus;
    length -= minus;
    cut_currency(&text, &length);
    for (size_t i = 0; i < length; i++) {
        bool last = i + 1 == length;
        size_t space = i > 0 ? thousands_space(text + i, length - i) : 0;
        if (space > 0) {
            i += space - 1;
            continue;
        }
        if (text[i] == '_' || text[i] == '\'' || text[i] == ',' || (text[i] == '%' && last)) continue;
        *to++ = (char)(text[i] == 'd' || text[i] == 'D' ? 'e' : text[i]);
    }
    return io__number(copy, (size_t)(to - copy), point, &value) ? IO__ODD_NUMBER : IO__WORD;
}
