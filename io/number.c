/* Numbers out of text that does not end in NUL.
 *
 * A decimal of up to 19 digits is an integer times a power of ten. Where both are exact in a double (below 2^53, at
 * most 10^22), one multiplication or division rounds once and gives the nearest double; everything else goes to strtod,
 * after its form was checked here: strtod alone would take hexadecimal and "nan(...)". */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

enum { MAX_TEXT = 1023, MAX_EXACT_POWER = 22, MAX_DIGITS = 19 };

static const double powers_of_ten[MAX_EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct decimal {
    bool negative;
    uint64_t digits; /* of the first 19 that count */
    int n_digits;
    int64_t power; /* of ten */
} decimal;

static const char *take_digits(const char *at, const char *end, decimal *d, bool fraction) {
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (d->n_digits < MAX_DIGITS) d->digits = 10 * d->digits + (uint64_t)(*at - '0');
        if (d->digits > 0) d->n_digits++;
        if (fraction) d->power--;
    }
    return at;
}

/* At an 'e': the end of the exponent, or NULL where none follows. Beyond 10^6 its exact size does not matter. */
static const char *take_exponent(const char *at, const char *end, decimal *d) {
    int64_t exponent = 0;
    bool negative = false;
    at++;
    if (at < end && (*at == '+' || *at == '-')) negative = *at++ == '-';
    if (at == end || *at < '0' || *at > '9') return NULL;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (exponent < 1000000) exponent = 10 * exponent + (*at - '0');
    d->power += negative ? -exponent : exponent;
    return at;
}

/* The whole text is one decimal number. */
static bool scan(const char *at, const char *end, decimal *d) {
    if (at < end && (*at == '+' || *at == '-')) d->negative = *at++ == '-';
    const char *start = at;
    at = take_digits(at, end, d, false);
    size_t written = (size_t)(at - start);
    if (at < end && *at == '.') {
        const char *fraction = ++at;
        at = take_digits(at, end, d, true);
        written += (size_t)(at - fraction);
    }
    if (written == 0) return false;
    if (at < end && (*at == 'e' || *at == 'E')) at = take_exponent(at, end, d);
    return at == end;
}

/* No double needs more than 767 digits to be told from its neighbours: longer texts are not taken for numbers. */
static bool convert_slowly(const char *text, size_t length, double *value) {
    char copy[MAX_TEXT + 1];
    if (length > MAX_TEXT) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *value = strtod(copy, NULL);
    return true;
}

static bool is_infinity(const char *text, size_t length, double *value) {
    bool negative = length > 0 && text[0] == '-';
    if (length > 0 && (text[0] == '-' || text[0] == '+')) text++, length--;
    if (!(length == 3 && strncasecmp(text, "inf", 3) == 0) && !(length == 8 && strncasecmp(text, "infinity", 8) == 0))
        return false;
    *value = negative ? -__builtin_inf() : __builtin_inf();
    return true;
}

bool io__number(const char *text, size_t length, double *value) {
    decimal d = {0};
    if (!scan(text, text + length, &d)) return is_infinity(text, length, value);
    if (d.n_digits > MAX_DIGITS || d.digits > (1ull << 53) || d.power < -MAX_EXACT_POWER || d.power > MAX_EXACT_POWER)
        return convert_slowly(text, length, value);
    double magnitude = (double)d.digits;
    magnitude = d.power < 0 ? magnitude / powers_of_ten[-d.power] : magnitude * powers_of_ten[d.power];
    *value = d.negative ? -magnitude : magnitude;
    return true;
}

bool io__is_missing(const char *text, size_t length) {
    static const char *const words[] = {"", "?", "NA", "N/A", "NaN", "null", "-NaN"};
    if (length > 4) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && strncasecmp(text, words[i], length) == 0) return true;
    return false;
}
