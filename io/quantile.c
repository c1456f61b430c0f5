#include "io/quantile.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void quantile_sort(double *values, int64_t n) { qsort(values, (size_t)n, sizeof *values, ascending); }

double quantile_at(const double *sorted, int64_t n, double q) {
    double at = q * (double)(n - 1);
    int64_t low = (int64_t)at;
    double rest = at - (double)low;
    return low + 1 < n ? sorted[low] * (1 - rest) + sorted[low + 1] * rest : sorted[low];
}
