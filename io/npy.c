/* NumPy's .npy: magic, version, header length, a Python dictionary as text, then the array's bytes.
 *
 *     \x93NUMPY 1 0 <u2 length> {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }   \n
 *
 * The dictionary is parsed by hand and strictly: three known keys, each once, in any order. */
#include <string.h>

#include "io/io_parts.h"

enum { VERSION_AT = 6, LENGTH_AT = 8, MAX_HEADER = 1 << 20, MAX_DESCR = 32 };

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct cursor {
    const char *start, *at, *end;
    const char *problem; /* NULL: none so far */
} cursor;

static bool refuse(cursor *c, const char *problem) {
    if (c->problem == NULL) c->problem = problem;
    return false;
}

static void skip_blanks(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Takes one character after blanks, if it is the next. */
static bool take(cursor *c, char wanted) {
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
    c->at += length;
    return true;
}

static bool take_string(cursor *c, char *text, size_t capacity) {
    size_t length = 0;
    char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
    if (quote == '\0') return refuse(c, "a quoted text was expected");
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if ((unsigned char)*c->at < 0x20 || *c->at == '\\') return refuse(c, "a text contains an escape");
        if (length + 1 == capacity) return refuse(c, "a text is too long");
        text[length++] = *c->at;
    }
    if (c->at == c->end) return refuse(c, "a text does not end");
    c->at++;
    text[length] = '\0';
    return true;
}

/* Python 2 wrote long integers with an L. */
static bool take_size(cursor *c, int64_t *value) {
    skip_blanks(c);
    if (c->at < c->end && *c->at == '-') return refuse(c, "the shape contains a negative number");
    if (c->at == c->end || *c->at < '0' || *c->at > '9') return refuse(c, "the shape must consist of whole numbers");
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, (int64_t)(*c->at - '0'), value))
            return refuse(c, "the shape contains a number beyond 2^63");
    if (c->at < c->end && *c->at == 'L') c->at++;
    return true;
}

static bool take_shape(cursor *c, io_array *array) {
    bool comma = true;
    array->n_dims = 0;
    if (!take(c, '(')) return refuse(c, "'shape' must be a tuple");
    while (!take(c, ')')) {
        if (!comma) return refuse(c, "a comma is missing in 'shape'");
        if (array->n_dims == IO_MAX_DIMS) return refuse(c, "'shape' has more than 64 dimensions");
        if (!take_size(c, &array->shape[array->n_dims++])) return false;
        comma = take(c, ',');
    }
    if (array->n_dims == 1 && !comma) return refuse(c, "'shape' must be a tuple");
    return true;
}

static bool take_order(cursor *c, io_array *array) {
    array->fortran = take_word(c, "True");
    return array->fortran || take_word(c, "False") || refuse(c, "'fortran_order' must be True or False");
}

/* A list is the description of a record; it is passed on as "[" and refused with its own text. */
static bool take_descr(cursor *c, char *descr) {
    skip_blanks(c);
    if (c->at < c->end && *c->at == '[') {
        strcpy(descr, "[");
        c->at = c->end;
        return true;
    }
    return take_string(c, descr, MAX_DESCR);
}

typedef enum key { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 } key;

static bool take_item(cursor *c, unsigned *seen, io_array *array, char *descr) {
    char name[MAX_DESCR];
    if (!take_string(c, name, sizeof name)) return false;
    unsigned found = strcmp(name, "descr") == 0           ? KEY_DESCR
                     : strcmp(name, "fortran_order") == 0 ? KEY_ORDER
                     : strcmp(name, "shape") == 0         ? KEY_SHAPE
                                                          : 0u;
    if (found == 0) return refuse(c, "the keys must be 'descr', 'fortran_order' and 'shape'");
    if (*seen & found) return refuse(c, "a key occurs twice");
    *seen |= found;
    if (!take(c, ':')) return refuse(c, "a colon is missing after a key");
    if (found == KEY_DESCR) return take_descr(c, descr);
    return found == KEY_ORDER ? take_order(c, array) : take_shape(c, array);
}

static bool take_dictionary(cursor *c, io_array *array, char *descr) {
    unsigned seen = 0;
    bool comma = true;
    if (!take(c, '{')) return refuse(c, "it must begin with '{'");
    while (!take(c, '}')) {
        if (!comma) return refuse(c, "a comma is missing between two keys");
        if (!take_item(c, &seen, array, descr)) return false;
        if (descr[0] == '[') return true;
        comma = take(c, ',');
    }
    skip_blanks(c);
    if (c->at != c->end) return refuse(c, "something follows the closing '}'");
    return seen == KEY_ALL || refuse(c, "one of 'descr', 'fortran_order' and 'shape' is missing");
}

typedef struct dtype {
    const char *code;
    io_element element;
} dtype;

static const dtype dtypes[] = {
    {"f2", IO_F2}, {"f4", IO_F4}, {"f8", IO_F8}, {"i1", IO_I1}, {"i2", IO_I2}, {"i4", IO_I4},
    {"i8", IO_I8}, {"u1", IO_U1}, {"u2", IO_U2}, {"u4", IO_U4}, {"u8", IO_U8}, {"b1", IO_BOOL},
};

/* What an array that is not of numbers holds, from the letter of its dtype. */
static const char *what_it_holds(char letter) {
    switch (letter) {
        case '[':
        case 'V':
            return "records (a structured dtype)";
        case 'O':
            return "Python objects";
        case 'c':
            return "complex numbers";
        case 'S':
        case 'U':
        case 'a':
            return "text";
        case 'm':
        case 'M':
            return "dates or times";
    }
    return "elements of another dtype";
}

static circe_status read_descr(const char *descr, io_array *array, const char *name) {
    bool marked = descr[0] != '\0' && strchr("<>=|", descr[0]) != NULL;
    const char *code = marked ? descr + 1 : descr;
    array->big_endian = descr[0] == '>';
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(code, dtypes[i].code) != 0) continue;
        array->element = dtypes[i].element;
        return CIRCE_OK;
    }
    return circe_fail(
        CIRCE_ERR_FORMAT,
        "%s: it contains %s ('%s'); only float16 to float64, integers and bool can be read: convert with astype", name,
        what_it_holds(code[0]), descr[0] == '[' ? "[...]" : descr);
}

circe_status io_npy_measure(const unsigned char *prefix, size_t available, const char *name, size_t *header_bytes) {
    if (available < sizeof magic || memcmp(prefix, magic, sizeof magic) != 0)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it is not an .npy: it does not begin with \\x93NUMPY", name);
    size_t major = available > VERSION_AT ? prefix[VERSION_AT] : 1, length_bytes = major == 1 ? 2 : 4, length = 0;
    if (available < LENGTH_AT + length_bytes)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it ends after %zu bytes, before its header", name, available);
    if (major < 1 || major > 3 || prefix[VERSION_AT + 1] != 0)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its .npy version is %zu.%d; only 1.0, 2.0 and 3.0 can be read", name,
                          major, prefix[VERSION_AT + 1]);
    for (size_t i = length_bytes; i-- > 0;) length = length << 8 | prefix[LENGTH_AT + i];
    if (length > MAX_HEADER)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it claims a header of %zu bytes; it is damaged", name, length);
    *header_bytes = LENGTH_AT + length_bytes + length;
    return CIRCE_OK;
}

circe_status io_npy_header(const unsigned char *header, size_t header_bytes, uint64_t data_bytes, const char *name,
                           io_array *array) {
    char descr[MAX_DESCR] = "", shape[256];
    size_t text_at = LENGTH_AT + (header[VERSION_AT] == 1 ? 2u : 4u);
    const char *text = (const char *)header;
    cursor c = {text + text_at, text + text_at, text + header_bytes, NULL};
    memset(array, 0, sizeof *array);
    if (!take_dictionary(&c, array, descr))
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its header is damaged at byte %zu: %s", name,
                          text_at + (size_t)(c.at - c.start), c.problem);
    circe_status status = read_descr(descr, array, name);
    if (status == CIRCE_OK) status = io_array_measure(array, name);
    if (status != CIRCE_OK) return status;
    if (array->bytes == data_bytes) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: it is damaged: the header claims shape %s of '%s', %zu bytes, and the file contains %llu",
                      name, io_shape_text(array, shape, sizeof shape), descr, array->bytes,
                      (unsigned long long)data_bytes);
}

circe_status io_parse_npy(const void *data, size_t bytes, const char *name, io_table *table) {
    io_array array = {0};
    size_t header_bytes = 0;
    memset(table, 0, sizeof *table);
    circe_status status = io_npy_measure(data, bytes, name, &header_bytes);
    if (status != CIRCE_OK) return status;
    if (header_bytes > bytes)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it claims %zu bytes of header, but the file has %zu in all", name,
                          header_bytes, bytes);
    status = io_npy_header(data, header_bytes, bytes - header_bytes, name, &array);
    if (status != CIRCE_OK) return status;
    return io_array_convert(&array, (const char *)data + header_bytes, name, table);
}
