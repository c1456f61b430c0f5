/* Decimal numbers at the head of a text, fast and rounded to the last bit. */
#ifndef CIRCE_IO_DECIMAL_H
#define CIRCE_IO_DECIMAL_H

/* Reads the decimal number that begins at `at` (sign, digits, point, exponent) and sets *value to the nearest double.
 * Returns where it ends. NULL if no number begins here, or if this function cannot decide the nearest double: more than
 * 19 significant digits, a power of ten beyond 64, a tie too close to call. The caller then uses a slower method. */
const char *io__decimal(const char *at, const char *end, double *value);

#endif
