/* Sorting by the bits of the values, eight at a time: as unsigned numbers they are ordered as the values are, once
 * negative ones are complemented and positive ones have their sign bit set. qsort calls a function for every
 * comparison. O(n). */
#include "core/sort.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 8, BINS = 256 };

static uint64_t key_of(double value) {
    double plain = value + 0.0; /* -0 is 0 */
    uint64_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void circe__sort(double *values, int64_t n) { qsort(values, (size_t)n, sizeof *values, ascending); }

double circe__quantile(const double *sorted, int64_t n, double share) {
    double at = share * (double)(n - 1);
    int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

void circe__sort_entries(circe__entry *entries, circe__entry *spare, int64_t n) {
    int64_t counts[DIGITS][BINS] = {{0}};
    circe__entry *from = entries, *to = spare;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = key_of(entries[i].value);
        for (int d = 0; d < DIGITS; d++) counts[d][key >> 8 * d & (BINS - 1)]++;
    }
    for (int d = 0; d < DIGITS && n > 1; d++) {
        int64_t *count = counts[d], before = 0;
        if (count[key_of(entries[0].value) >> 8 * d & (BINS - 1)] == n) continue; /* all have the same digit */
        for (int bin = 0; bin < BINS; bin++) {
            int64_t here = count[bin];
            count[bin] = before;
            before += here;
        }
        for (int64_t i = 0; i < n; i++) to[count[key_of(from[i].value) >> 8 * d & (BINS - 1)]++] = from[i];
        circe__entry *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != entries) memcpy(entries, from, (size_t)n * sizeof *entries);
}
