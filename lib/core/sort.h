/* Rows in the order of their values. */
#pragma once

#include <stdint.h>

typedef struct circe__entry {
    double value; /* not NaN */
    int64_t row;
} circe__entry;

/* Ascending; entries of equal values, as 0 and -0 are, keep their order. spare (n) is scratch. */
void circe__sort_entries(circe__entry *entries, circe__entry *spare, int64_t n);
