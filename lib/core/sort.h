/* Numbers and rows in the order of their values, and quantiles. */
#pragma once

#include <stdint.h>

#include "core/rooms.h"

CIRCE_ROOMS void circe__sort(double *values, int64_t n);

/* The quantile `share` in [0, 1] of sorted values, interpolated linearly between neighbours. */
CIRCE_ROOMS double circe__quantile(const double *sorted, int64_t n, double share);

typedef struct circe__entry {
    double value; /* not NaN */
    int64_t row;
} circe__entry;

/* Ascending; entries of equal values, as 0 and -0 are, keep their order. spare (n) is scratch. */
CIRCE_ROOMS void circe__sort_entries(circe__entry *entries, circe__entry *spare, int64_t n);
