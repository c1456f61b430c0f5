/* Edit distance with transpositions (optimal string alignment), because people swap letters when they mistype. */
#include "io/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/owned.h"
#include "circe/options.h"

enum { LONGEST = 63 };

static int lower(char c) { return tolower((unsigned char)c); }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b; LONGEST for very long texts. */
size_t suggest_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    if (n >= LONGEST || m >= LONGEST) return LONGEST;
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t replaced = before[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            now[j] = smaller(replaced, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = smaller(now[j], earlier[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

size_t suggest_allowed(const char *text) {
    size_t length = strlen(text);
    return length <= 1 ? 0 : length <= 3 ? 1 : length <= 7 ? 2 : 3; /* fewer than all letters */
}

const char *suggest_nearest(const char *text, const char *const *words, size_t n) {
    const char *nearest = NULL;
    size_t best = suggest_allowed(text) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t distance = suggest_distance(text, words[i]);
        if (distance < best) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

/* "a, b, c"; to be freed. NULL: no memory. */
static char *join(const char *const *words, size_t n) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    for (size_t i = 0; i < n; i++) fprintf(out, "%s%s", i > 0 ? ", " : "", words[i]);
    fclose(out);
    return text;
}

circe_status suggest_refuse(const char *kind, const char *name, const char *usage, const char *const *words, size_t n) {
    const char *nearest = name != NULL ? suggest_nearest(name, words, n) : NULL;
    OWNED char *list = join(words, n);
    if (name != NULL)
        circe_fail(CIRCE_ERR_ARGUMENT, "there is no %s '%s'", kind, name);
    else
        circe_fail(CIRCE_ERR_ARGUMENT, "which %s? %s", kind, usage);
    if (list != NULL) circe_fail_hint(CIRCE_ERR_ARGUMENT, "%ss: %s", kind, list);
    if (nearest != NULL) circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean '%s'?", nearest);
    return CIRCE_ERR_ARGUMENT;
}

const char *io_word_at(const char *words, int k, char *out, size_t size) {
    for (; words != NULL && k > 0; k--) {
        words = strchr(words, '|');
        if (words != NULL) words++;
    }
    if (words != NULL) snprintf(out, size, "%.*s", (int)strcspn(words, "|"), words);
    return words != NULL ? out : NULL;
}

circe_status suggest_word(circe_status status, const char *words, const char *text) {
    enum { MOST = 16 };
    char list[MOST][LONGEST + 1];
    const char *found[MOST];
    size_t n = 0;
    while (n < MOST && (found[n] = io_word_at(words, (int)n, list[n], sizeof list[n])) != NULL) n++;
    const char *nearest = suggest_nearest(text, found, n);
    return nearest != NULL ? circe_fail_hint(status, "did you mean %s?", nearest) : status;
}

int circe_word_index(const char *words, const char *text) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *at = words; at != NULL; index++) {
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0) return index;
        at = strchr(at, '|');
        if (at != NULL) at++;
    }
    return -1;
}
