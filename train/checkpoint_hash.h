/* A 64-bit hash of what a run is trained on. */
#ifndef TRAIN_CHECKPOINT_HASH_H
#define TRAIN_CHECKPOINT_HASH_H

#include "train/trainer.h"

/* Continues `hash` by a word, or by these bytes and how many they are. */
uint64_t train_hash_word(uint64_t hash, uint64_t word);
uint64_t train_hash_bytes(uint64_t hash, const void *data, size_t bytes);

/* Of all that a run sees of n points is the sum of two: how pixels are shown; and for every point what it shows, its
 * shift, target, y and z, and its place, of which `first` is that of the data's first. The latter is the same for any
 * number of threads, and a sum over any parts of the points. */
uint64_t train_hash_form(const train_source *features, int64_t n);
uint64_t train_hash_points(const circe_context *context, const train_data *data, int64_t first);

#endif
