#include "files/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text) { return circe__hash_bytes(hash, text, strlen(text)); }

uint64_t circe__hash_tensor(const circe_tensor *tensor) {
    uint64_t hash = hash_text(hash_text(1, tensor->name), tensor->dtype);
    hash = circe__hash_bytes(hash, tensor->shape, (size_t)tensor->n_dims * sizeof *tensor->shape);
    return circe__hash_bytes(hash, tensor->data, tensor->bytes);
}

uint64_t circe__hash_metadata(const char *key, const char *value) { return hash_text(hash_text(2, key), value); }

void circe__checksum_text(uint64_t sum, char *text) { snprintf(text, CIRCE__CHECKSUM_CHARS, "%016" PRIx64, sum); }

bool circe__is_own_format(const char *format) { return strncmp(format, "circe", strlen("circe")) == 0; }
