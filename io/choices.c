/* What a file offers, listed in the text that refuses a name it does not have, with the nearest spelling. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/io_parts.h"

enum { MAX_SPELLING = 63 };

static int smallest(int a, int b, int c) {
    int least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's, blind to case. Names too long to be typed are far from everything. */
static int edit_distance(const char *a, const char *b) {
    int row[MAX_SPELLING + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX_SPELLING || m > MAX_SPELLING) return 1000;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int differs = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            int next = smallest(row[j] + 1, row[j - 1] + 1, diagonal + differs);
            diagonal = row[j];
            row[j] = next;
        }
    }
    return row[m];
}

void io__choices_init(io__choices *choices, const char *wanted) {
    memset(choices, 0, sizeof *choices);
    choices->wanted = wanted;
    choices->distance = 1000;
}

static void consider(io__choices *choices, const char *name) {
    int distance = edit_distance(choices->wanted, name);
    int close = (int)strlen(choices->wanted) / 3 + 1;
    if (distance > close || distance >= (int)strlen(choices->wanted) || distance >= choices->distance) return;
    choices->distance = distance;
    snprintf(choices->nearest, sizeof choices->nearest, "%s", name);
}

void io__choices_add(io__choices *choices, const char *name) {
    choices->count++;
    if (choices->wanted != NULL && strlen(choices->wanted) <= MAX_SPELLING) consider(choices, name);
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
