/* Text in memory, its way into a file, and its escaping. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/owned.h"
#include "core/core.h"
#include "report/report_parts.h"

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

circe_status report__save(report__text *text, const char *path) {
    if (!report__close(text)) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", path);
    OWNED char *whole = text->text;
    return file_write_text(path, whole, text->bytes);
}

void report__escape(FILE *out, const char *text) {
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    uint32_t code;
    while (at < end) {
        size_t bytes = circe__utf8_bytes((const char *)at, (size_t)(end - at), &code);
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
