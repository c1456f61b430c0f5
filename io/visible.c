/* Text from outside: what a terminal would obey made visible, and Latin-1 as UTF-8. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/core.h"
#include "files/mapped.h"
#include "io/io_parts.h"

char *io_visible(const char *text, size_t bytes, bool lines) {
    size_t size;
    if (__builtin_mul_overflow(bytes, (size_t)CIRCE__VISIBLE_GROWTH, &size) ||
        __builtin_add_overflow(size, (size_t)1, &size))
        return NULL;
    char *out = malloc(size);
    if (out != NULL) circe__visible(text, bytes, lines, out, size);
    return out;
}

char *io_to_utf8(const char *text, size_t bytes) {
    if (bytes > SIZE_MAX / 2 - 1) return NULL;
    char *out = malloc(2 * bytes + 1);
    if (out != NULL) out[circe__to_utf8(text, bytes, out)] = '\0';
    return out;
}

circe_status io__file_to_utf8(circe__mapped *file, const char *name) {
    if (circe__is_utf8(file->data, file->bytes)) return CIRCE_OK;
    circe__mapped converted = {.mapped_bytes = 2 * file->bytes, .plain = file->plain};
    converted.data = mmap(NULL, converted.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (converted.data == MAP_FAILED) return io__no_memory(name);
    converted.bytes = circe__to_utf8(file->data, file->bytes, converted.data);
    circe__unmap(file);
    *file = converted;
    return CIRCE_OK;
}
