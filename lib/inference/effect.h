/* Residuals of x and z on a sample of rows, for effect sizes and their place along y. */
#pragma once

#include "inference/inference_parts.h"

/* left (n, p) and right (n, q): residuals of both sides, of few columns. */
typedef struct circe__sides {
    int64_t n;
    circe__table left, right;
} circe__sides;

circe_status circe__sides_make(const circe__data *data, circe__sides *sides);
void circe__sides_free(const circe_context *context, circe__sides *sides);

/* The rows index[0..n) of both; index NULL: all. M (p, q) = sum of left_i (x) right_i, and the normalisation: the value
 * is (|M|^2 - sum |left_i|^2 |right_i|^2) / norm. */
circe_status circe__sides_sums(const circe__data *data, const circe__sides *sides, const int64_t *index, int64_t n,
                               double *M, double *value, double *norm);

/* Takes at most `most` random rows of the data: index (part->n) and the part. The caller frees both. */
circe_status circe__some_rows(const circe__data *data, int64_t most, int64_t **index, circe__data *part);
