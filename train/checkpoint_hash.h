/* A 64-bit hash of what a run is trained on. */
#pragma once

#include "train/trainer.h"

/* The hash of everything that a run sees of n points is the sum of two: one of how pixels are shown, and one of the
 * points. The latter covers what each point shows, its shift, target, y and z, and its position, where the data begin
 * at `first`. It is the same for any number of threads, and can be summed over parts of the points. */
uint64_t train_hash_form(const train_source *features, int64_t n);
uint64_t train_hash_points(const circe_context *context, const train_data *data, int64_t first);
