/* Makes text from outside (file names, cells, names in an archive) safe to show.
 *
 * A terminal obeys control characters: a name can move the cursor, colour the screen, set the window's title or send an
 * answer on behalf of the user. They are shown as JSON writes them, \u001b. So are the C1 controls, DEL, and the marks
 * that change the direction of writing, which can disguise a text. A byte that is not valid UTF-8 is shown as \xe9. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

size_t circe__utf8_bytes(const char *text, size_t left, uint32_t *code) {
    static const struct {
        unsigned char mask, lead, bytes;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    const unsigned char *at = (const unsigned char *)text;
    for (size_t f = 0; left > 0 && f < sizeof forms / sizeof *forms; f++) {
        if ((at[0] & forms[f].mask) != forms[f].lead) continue;
        if (forms[f].bytes > left) return 0;
        *code = at[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].bytes; i++) {
            if ((at[i] & 0xc0) != 0x80) return 0;
            *code = *code << 6 | (at[i] & 0x3fu);
        }
        bool valid = *code >= forms[f].least && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
        return valid ? forms[f].bytes : 0;
    }
    return 0;
}

bool circe__is_utf8(const char *text, size_t bytes) {
    enum { WORD = sizeof(uint64_t) };
    for (size_t at = 0; at < bytes;) {
        uint64_t word = 0;
        uint32_t code;
        if (bytes - at >= WORD) memcpy(&word, text + at, WORD);
        if (bytes - at >= WORD && (word & UINT64_C(0x8080808080808080)) == 0) { /* eight letters of ASCII */
            at += WORD;
            continue;
        }
        size_t taken = circe__utf8_bytes(text + at, bytes - at, &code);
        if (taken == 0) return false;
        at += taken;
    }
    return true;
}

/* Byte b of Latin-1 is the character of code b, which takes two bytes. */
size_t circe__to_utf8(const char *text, size_t bytes, char *out) {
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t taken = circe__utf8_bytes(text + at, bytes - at, &code);
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
    return used;
}

/* Controls, line and paragraph separators, marks and overrides of direction. */
static bool is_obeyed(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

size_t circe__visible(const char *text, size_t bytes, bool lines, char *out, size_t size) {
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        char shown[CIRCE__VISIBLE_GROWTH + 1];
        uint32_t code = 0;
        size_t taken = circe__utf8_bytes(text + at, bytes - at, &code), length = taken;
        if (taken == 0)
            length = (size_t)snprintf(shown, sizeof shown, "\\x%02x", (unsigned char)text[at]);
        else if (is_obeyed(code) && !(lines && (code == '\n' || code == '\t')))
            length = (size_t)snprintf(shown, sizeof shown, "\\u%04x", (unsigned)(code & 0xffff));
        else
            memcpy(shown, text + at, taken);
        if (used + length >= size) break;
        memcpy(out + used, shown, length);
        used += length;
        at += taken > 0 ? taken : 1;
    }
    if (size > 0) out[used] = '\0';
    return used;
}
