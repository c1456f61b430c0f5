#include "core/hash.h"

#include <string.h>

static inline uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* odd, so the product can be undone */
    return hash ^ hash >> 32;
}

uint64_t circe__hash_word(uint64_t hash, uint64_t word) { return mix(hash, word); }

uint64_t circe__hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    uint64_t both[2] = {hash, 0};
    circe__hash_twice(both, data, bytes);
    return both[0];
}

/* Each step waits for the one before, so that a second hash costs next to nothing. */
void circe__hash_twice(uint64_t hash[2], const void *data, size_t bytes) {
    const char *at = data;
    uint64_t word = bytes, one = mix(hash[0], word), other = mix(hash[1], word);
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        one = mix(one, word);
        other = mix(other, word);
    }
    word = 0;
    if (bytes > 0) memcpy(&word, at, bytes);
    hash[0] = mix(one, word);
    hash[1] = mix(other, word);
}
