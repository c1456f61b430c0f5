#include "cli/common/suggest.h"

#include <stdio.h>

#include "cli/common/message.h"
#include "io/nearest.h"

int suggest_refuse(const char *kind, const char *name, const char *usage, const char *const *words, size_t n) {
    const char *nearest = name != NULL ? io_nearest(name, words, n) : NULL;
    if (name != NULL)
        message_note("there is no %s '%s'", kind, name);
    else
        message_note("which %s? %s", kind, usage);
    fprintf(stderr, "%ss: ", kind);
    for (size_t i = 0; i < n; i++) fprintf(stderr, "%s%s", i > 0 ? ", " : "", words[i]);
    fputc('\n', stderr);
    if (nearest != NULL) message_hint("did you mean '%s'?", nearest);
    return EXIT_INPUT;
}
