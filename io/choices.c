/* Lists what a file contains, with the nearest spelling, for the error about a name that it does not have. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "io/io_parts.h"
#include "io/suggest.h"

void io__choices_init(io__choices *choices, const char *wanted) {
    memset(choices, 0, sizeof *choices);
    choices->wanted = wanted;
    choices->distance = SIZE_MAX;
}

static void consider(io__choices *choices, const char *name) {
    size_t distance = suggest_distance(choices->wanted, name);
    if (distance > suggest_allowed(choices->wanted) || distance >= choices->distance) return;
    choices->distance = distance;
    snprintf(choices->nearest, sizeof choices->nearest, "%s", name);
}

void io__choices_add(io__choices *choices, const char *name) {
    choices->count++;
    if (choices->wanted != NULL) consider(choices, name);
    if (choices->listed != choices->count - 1) return; /* the list was cut before */
    /* Room stays for how many there are and for the nearest. */
    size_t room = sizeof choices->list - choices->used - 128, length = strlen(name);
    if (length + 4 > room) return;
    choices->used +=
        (size_t)snprintf(choices->list + choices->used, room + 1, "%s'%s'", choices->listed > 0 ? ", " : "", name);
    choices->listed++;
}

const char *io__choices_text(io__choices *choices) {
    char *end = choices->list + choices->used;
    size_t room = sizeof choices->list - choices->used;
    int written = 0;
    if (choices->listed < choices->count)
        written =
            snprintf(end, room, "%s... (%lld in all)", choices->listed > 0 ? ", " : "", (long long)choices->count);
    if (choices->nearest[0] != '\0')
        snprintf(end + written, room - (size_t)written, "; did you mean '%s'?", choices->nearest);
    return choices->list;
}
