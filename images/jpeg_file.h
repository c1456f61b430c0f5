/* .jpg through libjpeg-turbo. */
#ifndef IMAGES_JPEG_FILE_H
#define IMAGES_JPEG_FILE_H

#include "images/picture.h"

/* Grey files become grey pictures, all others colour. The pixels as they are stored: a camera's note of how it was held
 * (EXIF) is not followed. */
circe_status jpeg_file_parse(const void *data, size_t bytes, const char *name, image_picture *out);

#endif
