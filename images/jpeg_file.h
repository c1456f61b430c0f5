/* .jpg through libjpeg-turbo. */
#ifndef IMAGES_JPEG_FILE_H
#define IMAGES_JPEG_FILE_H

#include "images/picture.h"

/* Grey files become grey pictures, all others colour. Pixels are taken as they are stored; the orientation that a
 * camera noted (EXIF) is ignored. */
circe_status jpeg_file_parse(const void *data, size_t bytes, const char *name, image_picture *out);

#endif
