#include "jobs/texts.h"

#include <stdio.h>
#include <stdlib.h>

const char *text_widths(const char *text, char *out, size_t size) {
    size_t at = 0;
    while (*text != '\0' && at + 32 < size) {
        char *end = NULL;
        double width = *text == '(' ? strtod(text + 1, &end) : 0;
        if (end != NULL && *end == ')') {
            at += (size_t)snprintf(out + at, size - at, "(%.5g", width);
            text = end;
        } else {
            out[at++] = *text++;
        }
    }
    out[at] = '\0';
    return out;
}
