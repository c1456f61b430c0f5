#include "core/hash.h"

#include <string.h>

uint64_t circe__hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* odd, so the product can be undone */
    return hash ^ hash >> 32;
}

uint64_t circe__hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const char *at = data;
    hash = circe__hash_word(hash, bytes);
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = circe__hash_word(hash, word);
    }
    uint64_t last = 0;
    if (bytes > 0) memcpy(&last, at, bytes);
    return circe__hash_word(hash, last);
}
