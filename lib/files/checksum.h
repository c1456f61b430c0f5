/* The checksum of a file. */
#pragma once

#include <stdbool.h>

#include "circe/safetensors.h"
#include "core/hash.h"

/* The checksum of a file is the sum of these over its tensors and metadata, except for the checksum itself: the order
 * of the entries does not matter. */
uint64_t circe__hash_tensor(const circe_tensor *tensor);
uint64_t circe__hash_metadata(const char *key, const char *value);

/* Its key in the metadata, and its text (CIRCE__CHECKSUM_CHARS). */
#define CIRCE__CHECKSUM_KEY "checksum"
enum { CIRCE__CHECKSUM_CHARS = 17 };
void circe__checksum_text(uint64_t sum, char *text);

/* The value of the metadata "format" is one of circe's own: such files have one. */
bool circe__is_own_format(const char *format);
