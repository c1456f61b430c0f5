/* Hashes of bytes that tell data, files and settings apart: nobody makes them collide on purpose. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/rooms.h"

#define CIRCE__HASH_START UINT64_C(14695981039346656037)

/* FNV-1a of 64 bits, a byte at a time; goes on from `hash`. */
static inline uint64_t circe__hash(uint64_t hash, const void *data, size_t bytes) {
    for (const unsigned char *at = data; bytes > 0; bytes--, at++) hash = (hash ^ *at) * UINT64_C(1099511628211);
    return hash;
}

/* Continues `hash` by a word, or by these bytes and how many they are. Each step is one-to-one in the eight bytes it
 * takes in: damage within eight bytes always shows, and other damage all but once in 2^64 times. */
CIRCE_ROOMS uint64_t circe__hash_word(uint64_t hash, uint64_t word);
CIRCE_ROOMS uint64_t circe__hash_bytes(uint64_t hash, const void *data, size_t bytes);
/* Both hashes go on as by circe__hash_bytes. */
void circe__hash_twice(uint64_t hash[2], const void *data, size_t bytes);
