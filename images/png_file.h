/* .png through libpng. (Not png.h: that is libpng's own.) */
#ifndef IMAGES_PNG_FILE_H
#define IMAGES_PNG_FILE_H

#include "images/picture.h"

/* Grey files become grey pictures, all others colour; palettes, 16 bits and transparency (on black) are resolved. */
circe_status png_file_parse(const void *data, size_t bytes, const char *name, image_picture *out);

/* Grey or colour of 8 bits, whole or not at all. */
circe_status png_file_write(const char *path, const image_picture *picture);

#endif
