#include "files/checksum.h"

#include <inttypes.h>
#include <stdio.h>
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

static uint64_t hash_text(uint64_t hash, const char *text) { return circe__hash_bytes(hash, text, strlen(text)); }

uint64_t circe__hash_tensor(const circe_tensor *tensor) {
    uint64_t hash = hash_text(hash_text(1, tensor->name), tensor->dtype);
    hash = circe__hash_bytes(hash, tensor->shape, (size_t)tensor->n_dims * sizeof *tensor->shape);
    return circe__hash_bytes(hash, tensor->data, tensor->bytes);
}

uint64_t circe__hash_metadata(const char *key, const char *value) { return hash_text(hash_text(2, key), value); }

void circe__checksum_text(uint64_t sum, char *text) { snprintf(text, CIRCE__CHECKSUM_CHARS, "%016" PRIx64, sum); }

bool circe__is_own_format(const char *format) { return strncmp(format, "circe", strlen("circe")) == 0; }
