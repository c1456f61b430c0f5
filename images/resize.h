/* Grey pictures of another size. */
#ifndef IMAGES_RESIZE_H
#define IMAGES_RESIZE_H

#include "images/picture.h"

/* out (height, width) := the picture, which must be grey. */
circe_status image_resize(const image_picture *picture, int64_t width, int64_t height, uint8_t *out);

#endif
