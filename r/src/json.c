/* JSON into R: objects become named lists, arrays of numbers, booleans or texts vectors, other arrays lists; null is NA
 * in a vector and NULL in a list.
 *
 * Whatever is allocated is R's, so that R may jump out at any place. The text is the library's own and well formed; one
 * that is not ends in an error, not in a read beyond it. */
#include <stdlib.h>
#include <string.h>

#include "circe_r.h"

typedef struct reader {
    const char *at;
    int depth;
} reader;

enum { DEEPEST = 64 };

static SEXP read_value(reader *r);

static NORET void refuse(const reader *r) { Rf_error("the result of the library is not JSON here: %.20s", r->at); }

static void skip_space(reader *r) { r->at += strspn(r->at, " \t\r\n"); }

static int take(reader *r, char c) {
    skip_space(r);
    if (*r->at != c) return 0;
    r->at++;
    return 1;
}

static int take_word(reader *r, const char *word) {
    skip_space(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return 0;
    r->at += n;
    return 1;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* The library writes control characters alone as \u001b; all else is UTF-8. */
static char read_control(reader *r) {
    char digits[5] = {0}, *end;
    strncpy(digits, r->at, 4);
    unsigned long code = strtoul(digits, &end, 16);
    if (end != digits + 4 || code > 0x7F) refuse(r);
    r->at += 4;
    return (char)code;
}

static char read_escaped(reader *r) {
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    char c = *r->at;
    if (c == '\0') refuse(r);
    r->at++;
    if (c == 'u') return read_control(r);
    const char *found = strchr(letters, c);
    return found != NULL ? meanings[found - letters] : c;
}

/* No text is longer than what it was written as. */
static SEXP read_string(reader *r) {
    if (!take(r, '"')) refuse(r);
    const char *end = r->at;
    while (*end != '"' && *end != '\0') end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    char *buffer = R_alloc((size_t)(end - r->at) + 4, 1), *out = buffer;
    while (*r->at != '"') {
        if (*r->at == '\0') refuse(r);
        if (*r->at == '\\')
            r->at++, *out++ = read_escaped(r);
        else
            *out++ = *r->at++;
    }
    r->at++;
    return Rf_mkCharLenCE(buffer, (int)(out - buffer), CE_UTF8);
}

/* ---- arrays and objects ------------------------------------------------------------------------------------------ */

/* Values in a pairlist, counted: R grows no vectors. `tags`: their names, or NULL. */
static R_xlen_t read_items(reader *r, char end, SEXP *items, SEXP *tags, PROTECT_INDEX at_items,
                           PROTECT_INDEX at_tags) {
    R_xlen_t n = 0;
    if (take(r, end)) return 0;
    do {
        if (tags != NULL) {
            SEXP name = PROTECT(read_string(r));
            REPROTECT(*tags = Rf_cons(Rf_ScalarString(name), *tags), at_tags);
            UNPROTECT(1);
            if (!take(r, ':')) refuse(r);
        }
        SEXP value = PROTECT(read_value(r));
        REPROTECT(*items = Rf_cons(value, *items), at_items);
        UNPROTECT(1);
        n++;
    } while (take(r, ','));
    if (!take(r, end)) refuse(r);
    return n;
}

static SEXP vector_of(SEXP items, R_xlen_t n) {
    SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
    for (R_xlen_t i = n; i-- > 0; items = CDR(items)) SET_VECTOR_ELT(list, i, CAR(items));
    UNPROTECT(1);
    return list;
}

static SEXP read_object(reader *r) {
    SEXP items = R_NilValue, tags = R_NilValue;
    PROTECT_INDEX at_items, at_tags;
    PROTECT_WITH_INDEX(items, &at_items);
    PROTECT_WITH_INDEX(tags, &at_tags);
    R_xlen_t n = read_items(r, '}', &items, &tags, at_items, at_tags);
    SEXP list = PROTECT(vector_of(items, n)), names = PROTECT(Rf_allocVector(STRSXP, n));
    for (R_xlen_t i = n; i-- > 0; tags = CDR(tags)) SET_STRING_ELT(names, i, STRING_ELT(CAR(tags), 0));
    Rf_setAttrib(list, R_NamesSymbol, names);
    UNPROTECT(4);
    return list;
}

/* The one type of all elements that are not null; NILSXP: they are null, or there are none; VECSXP: they differ. */
static SEXPTYPE common_type(SEXP list) {
    SEXPTYPE type = NILSXP;
    for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
        SEXP value = VECTOR_ELT(list, i);
        SEXPTYPE own = (SEXPTYPE)TYPEOF(value);
        if (own == NILSXP) continue;
        if (own == VECSXP || Rf_xlength(value) != 1 || (type != NILSXP && own != type)) return VECSXP;
        type = own;
    }
    return type;
}

/* A list of single values as a vector of them. */
static SEXP simplified(SEXP list) {
    SEXPTYPE type = common_type(list);
    R_xlen_t n = Rf_xlength(list);
    if (n == 0 || type == VECSXP) return list;
    SEXP out = PROTECT(Rf_allocVector(type == NILSXP ? REALSXP : type, n));
    for (R_xlen_t i = 0; i < n; i++) {
        SEXP value = VECTOR_ELT(list, i);
        int missing = TYPEOF(value) == NILSXP;
        if (TYPEOF(out) == REALSXP)
            REAL(out)[i] = missing ? NA_REAL : REAL(value)[0];
        else if (TYPEOF(out) == LGLSXP)
            LOGICAL(out)[i] = missing ? NA_LOGICAL : LOGICAL(value)[0];
        else
            SET_STRING_ELT(out, i, missing ? NA_STRING : STRING_ELT(value, 0));
    }
    UNPROTECT(1);
    return out;
}

static SEXP read_array(reader *r) {
    SEXP items = R_NilValue;
    PROTECT_INDEX at_items;
    PROTECT_WITH_INDEX(items, &at_items);
    R_xlen_t n = read_items(r, ']', &items, NULL, at_items, at_items);
    SEXP list = PROTECT(vector_of(items, n));
    SEXP out = simplified(list);
    UNPROTECT(2);
    return out;
}

/* R_strtod reads a point in every locale. */
static SEXP read_number(reader *r) {
    char *end;
    double value = R_strtod(r->at, &end);
    if (end == r->at) refuse(r);
    r->at = end;
    return Rf_ScalarReal(value);
}

static SEXP read_value(reader *r) {
    SEXP value;
    if (++r->depth > DEEPEST) refuse(r);
    if (take(r, '{')) {
        value = read_object(r);
    } else if (take(r, '[')) {
        value = read_array(r);
    } else if (skip_space(r), *r->at == '"') {
        SEXP text = PROTECT(read_string(r));
        value = Rf_ScalarString(text);
        UNPROTECT(1);
    } else if (take_word(r, "true")) {
        value = Rf_ScalarLogical(1);
    } else if (take_word(r, "false")) {
        value = Rf_ScalarLogical(0);
    } else if (take_word(r, "null")) {
        value = R_NilValue;
    } else {
        value = read_number(r);
    }
    r->depth--;
    return value;
}

SEXP circe_r_json(SEXP text) {
    reader r = {.at = CHAR(STRING_ELT(text, 0))};
    SEXP value = PROTECT(read_value(&r));
    skip_space(&r);
    if (*r.at != '\0') refuse(&r);
    UNPROTECT(1);
    return value;
}
