/* Quantiles of times. */
#ifndef IO_QUANTILE_H
#define IO_QUANTILE_H

#include <stdint.h>

void quantile_sort(double *values, int64_t n);

/* Of sorted values, linear between neighbours; q in [0, 1]. */
double quantile_at(const double *sorted, int64_t n, double q);

#endif
