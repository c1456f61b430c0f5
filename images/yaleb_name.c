/* Names of the files: yaleB, the identity (2 digits), _P, the pose (2), A, the azimuth (sign and 3), E, the elevation
 * (sign and 2), .pgm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images/yaleb.h"

/* `digits` digits at *text, which moves on. */
static bool take_number(const char **text, int digits, int *value) {
    *value = 0;
    for (int i = 0; i < digits; i++, ++*text) {
        if (**text < '0' || **text > '9') return false;
        *value = 10 * *value + (**text - '0');
    }
    return true;
}

static bool take_signed(const char **text, int digits, int *value) {
    char sign = **text;
    if (sign != '+' && sign != '-') return false;
    ++*text;
    if (!take_number(text, digits, value)) return false;
    if (sign == '-') *value = -*value;
    return true;
}

static bool take_word(const char **text, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0) return false;
    *text += length;
    return true;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

yaleb_kind yaleb_parse_name(const char *file, yaleb_name *name) {
    const char *at = file;
    yaleb_name n = {0};
    if (!take_word(&at, "yaleB")) return YALEB_OTHER;
    if (ends_with(file, ".bad")) return YALEB_BAD;
    if (!ends_with(file, ".pgm")) return YALEB_OTHER;
    if (!take_number(&at, 2, &n.identity) || !take_word(&at, "_P") || !take_number(&at, 2, &n.pose)) return YALEB_WRONG;
    if (n.pose >= FACES_POSES) return YALEB_WRONG;
    if (strcmp(at, "_Ambient.pgm") == 0) return YALEB_AMBIENT;
    if (!take_word(&at, "A") || !take_signed(&at, 3, &n.azimuth) || !take_word(&at, "E") ||
        !take_signed(&at, 2, &n.elevation) || strcmp(at, ".pgm") != 0)
        return YALEB_WRONG;
    if (n.azimuth < -180 || n.azimuth > 180 || n.elevation < -90 || n.elevation > 90) return YALEB_WRONG;
    *name = n;
    return YALEB_PICTURE;
}

yaleb_name yaleb_name_of(int64_t identity, int pose, int light) {
    return (yaleb_name){faces_numbers[identity], pose, faces_lights[light].azimuth, faces_lights[light].elevation};
}

void yaleb_format_name(const yaleb_name *name, char file[YALEB_NAME_BYTES]) {
    snprintf(file, YALEB_NAME_BYTES, "yaleB%02d_P%02dA%+04dE%+03d.pgm", name->identity, name->pose, name->azimuth,
             name->elevation);
}

int yaleb_compare(const yaleb_name *a, const yaleb_name *b) {
    if (a->identity != b->identity) return a->identity < b->identity ? -1 : 1;
    if (a->pose != b->pose) return a->pose < b->pose ? -1 : 1;
    if (a->azimuth != b->azimuth) return a->azimuth < b->azimuth ? -1 : 1;
    return a->elevation < b->elevation ? -1 : a->elevation > b->elevation;
}

static int compare(const void *a, const void *b) { return yaleb_compare(a, b); }

int64_t yaleb_find(const yaleb_name *names, int64_t n, const yaleb_name *wanted) {
    const yaleb_name *found = bsearch(wanted, names, (size_t)n, sizeof *names, compare);
    return found == NULL ? -1 : found - names;
}
