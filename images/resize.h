/* Grey pictures of another size. */
#pragma once

#include "images/picture.h"

/* out (height, width) := the picture, which must be grey. */
circe_status image_resize(const image_picture *picture, int64_t width, int64_t height, uint8_t *out);
