/* Points of an image task. */
#include "images/part.h"

#include <stdlib.h>

#include "circe/status.h"

circe_status image_part_make(int64_t n, bool shifts, image_part *part) {
    *part = (image_part){0};
    if (n < 0 || n > INT32_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a part must have 0 to 2147483647 points, not %lld", (long long)n);
    size_t room = n > 0 ? (size_t)n : 1;
    part->n = n;
    part->stored = calloc(room, sizeof *part->stored);
    part->shift = shifts ? calloc(room, sizeof *part->shift) : NULL;
    part->target = calloc(room, sizeof *part->target);
    part->y = calloc(room, sizeof *part->y);
    part->z = calloc(room, sizeof *part->z);
    if (part->stored != NULL && (!shifts || part->shift != NULL) && part->target != NULL && part->y != NULL &&
        part->z != NULL)
        return CIRCE_OK;
    image_part_free(part);
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld points of an image task", (long long)n);
}

void image_part_free(image_part *part) {
    free(part->stored);
    free(part->shift);
    free(part->target);
    free(part->y);
    free(part->z);
    *part = (image_part){0};
}

train_source image_part_source(const image_part *part, const train_source *pictures) {
    train_source source = *pictures;
    source.n = part->n;
    source.stored = part->stored;
    source.shift = part->shift;
    return source;
}
