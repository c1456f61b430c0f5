/* Columns of a table as a network sees them: standardised by the statistics of the training rows, which the model
 * keeps; rows split into training, validation, holdout and test by a seed. */
#pragma once

#include "circe/circe.h"

typedef struct train_scaler {
    int64_t cols;
    double *mean, *deviation; /* owned; a constant column has deviation 1 */
} train_scaler;

/* Statistics of rows index[0..n) (NULL: all rows, whatever n); the variance is over n, so that these rows become of
 * variance 1. Refuses NaN and infinities. */
circe_status train_scaler_fit(const circe_mat *values, const int64_t *index, int64_t n, train_scaler *scaler);
void train_scaler_free(train_scaler *scaler);
/* out (n, cols), float32 or float64 := the standardised rows index[0..n) (NULL: all rows, whatever n). Refuses NaN and
 * infinities, and numbers that overflow in float32. */
circe_status train_scaler_apply(const train_scaler *scaler, const circe_mat *values, const int64_t *index, int64_t n,
                                circe_mat *out);

/* A partition of n rows: shares of validation, holdout and test (rounded; a share above 0 is at least one row), the
 * rest is for training. In random order. Owned. */
typedef struct train_split {
    int64_t *training, *validation, *holdout, *test;
    int64_t n_training, n_validation, n_holdout, n_test;
} train_split;

circe_status train_split_make(int64_t n, double validation, double holdout, double test, uint64_t seed,
                              train_split *split);
void train_split_free(train_split *split);
