/* Quantiles of times. */
#pragma once

#include <stdint.h>

void quantile_sort(double *values, int64_t n);

/* The quantile q in [0, 1] of sorted values, interpolated linearly between neighbours. */
double quantile_at(const double *sorted, int64_t n, double q);
