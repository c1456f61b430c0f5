/* Text from outside: what a terminal would obey made visible, and Latin-1 as UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "internal.h"

char *io_visible(const char *text, size_t bytes, bool lines) {
    size_t size;
    if (__builtin_mul_overflow(bytes, (size_t)CIRCE__VISIBLE_GROWTH, &size) ||
        __builtin_add_overflow(size, (size_t)1, &size))
        return NULL;
    char *out = malloc(size);
    if (out != NULL) circe__visible(text, bytes, lines, out, size);
    return out;
}

size_t io_utf8_bytes(const char *text, size_t left) {
    uint32_t code;
    return circe__utf8_bytes(text, left, &code);
}

bool io_is_utf8(const char *text, size_t bytes) {
    enum { WORD = sizeof(uint64_t) };
    for (size_t at = 0; at < bytes;) {
        uint64_t word = 0;
        if (bytes - at >= WORD) memcpy(&word, text + at, WORD);
        if (bytes - at >= WORD && (word & UINT64_C(0x8080808080808080)) == 0) { /* eight letters of ASCII */
            at += WORD;
            continue;
        }
        size_t taken = io_utf8_bytes(text + at, bytes - at);
        if (taken == 0) return false;
        at += taken;
    }
    return true;
}

/* Byte b of Latin-1 is the character of code b, which takes two bytes. */
char *io_to_utf8(const char *text, size_t bytes, size_t *length) {
    size_t used = 0;
    if (bytes > SIZE_MAX / 2 - 1) return NULL;
    char *out = malloc(2 * bytes + 1);
    for (size_t at = 0; out != NULL && at < bytes;) {
        size_t taken = io_utf8_bytes(text + at, bytes - at);
        unsigned char byte = (unsigned char)text[at];
        if (taken > 0) {
            memcpy(out + used, text + at, taken);
            used += taken;
        } else {
            out[used++] = (char)(0xc0 | byte >> 6);
            out[used++] = (char)(0x80 | (byte & 0x3f));
        }
        at += taken > 0 ? taken : 1;
    }
    if (out == NULL) return NULL;
    out[used] = '\0';
    *length = used;
    return out;
}
