/* Text in memory, its way into a file, and its escaping. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "io.h"

bool report__fail(report_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (error != NULL) vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void report__open(report__text *text) {
    *text = (report__text){0};
    text->out = open_memstream(&text->text, &text->bytes);
}

bool report__close(report__text *text) {
    bool whole = text->out != NULL && ferror(text->out) == 0;
    if (text->out != NULL && fclose(text->out) != 0) whole = false;
    text->out = NULL;
    if (whole) return true;
    free(text->text);
    text->text = NULL;
    return false;
}

bool report__save(report__text *text, const char *path, report_error *error) {
    io_error problem = {""};
    if (!report__close(text)) return report__fail(error, "%s: out of memory", path);
    circe_status status = io_write_text(path, text->text, text->bytes, &problem);
    free(text->text);
    text->text = NULL;
    return status == CIRCE_OK || report__fail(error, "%.*s", (int)sizeof error->text - 1, problem.text);
}

/* Bytes of the UTF-8 character at `text`, or 0 where it is none (overlong forms and surrogates included). */
static size_t character_bytes(const unsigned char *text) {
    static const struct {
        unsigned char mask, lead, bytes;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if ((text[0] & forms[f].mask) != forms[f].lead) continue;
        uint32_t code = text[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].bytes; i++) {
            if ((text[i] & 0xc0) != 0x80) return 0; /* the terminating 0 as well */
            code = code << 6 | (text[i] & 0x3fu);
        }
        bool valid = code >= forms[f].least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        return valid ? forms[f].bytes : 0;
    }
    return 0;
}

void report__escape(FILE *out, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t bytes = character_bytes(at);
        if (bytes == 0) {
            fputs("\xef\xbf\xbd", out); /* U+FFFD */
            at++;
            continue;
        }
        if (*at == '&')
            fputs("&amp;", out);
        else if (*at == '<')
            fputs("&lt;", out);
        else if (*at == '>')
            fputs("&gt;", out);
        else if (*at == '"')
            fputs("&quot;", out);
        else if (*at == '\'')
            fputs("&#39;", out);
        else if ((*at >= 0x20 && *at != 0x7f) || *at == '\n' || *at == '\t')
            fwrite(at, 1, bytes, out);
        at += bytes;
    }
}
