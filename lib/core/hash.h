/* A hash of bytes that tells data and settings apart (FNV-1a of 64 bits): nobody makes them collide on purpose. */
#ifndef CIRCE_CORE_HASH_H
#define CIRCE_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define CIRCE__HASH_START UINT64_C(14695981039346656037)

/* Goes on from `hash`. */
static inline uint64_t circe__hash(uint64_t hash, const void *data, size_t bytes) {
    for (const unsigned char *at = data; bytes > 0; bytes--, at++) hash = (hash ^ *at) * UINT64_C(1099511628211);
    return hash;
}

#endif
