/* A 64-bit hash: of files, and of what a run is trained on. */
#ifndef TRAIN_CHECKPOINT_HASH_H
#define TRAIN_CHECKPOINT_HASH_H

#include "trainer.h"

/* Continues `hash` by a word, or by these bytes and how many they are. */
uint64_t train_hash_word(uint64_t hash, uint64_t word);
uint64_t train_hash_bytes(uint64_t hash, const void *data, size_t bytes);

/* Of all that a run sees of the data: how pixels are shown, and for every point what it shows, its shift, target, y and
 * z. The same for any number of threads. */
uint64_t train_hash_data(const circe_context *context, const train_data *data);

#endif
