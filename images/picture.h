/* Pictures of 8 bits, grey or colour, and their files: .png, .jpg, .pgm and .ppm, recognised by their content. Nothing
 * in a file is trusted before it has been checked, and every error names the file and what would be right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circe/status.h"

enum { IMAGE_MOST_PIXELS = 1 << 27 }; /* of one picture: 134 million */

typedef struct image_picture {
    int64_t width, height;
    int64_t channels; /* 1: grey; 3: red, green, blue */
    uint8_t *pixels;  /* (height, width, channels), owned */
} image_picture;

/* Zeroed. On failure it holds nothing. `name` is for error texts. */
circe_status image_picture_make(int64_t width, int64_t height, int64_t channels, const char *name, image_picture *out);
void image_picture_free(image_picture *picture);

/* From a file, or from the bytes of one. */
circe_status image_picture_read(const char *path, image_picture *out);
circe_status image_picture_parse(const void *data, size_t bytes, const char *name, image_picture *out);

/* Colour to grey in place, by the luma of ITU-R BT.601. */
void image_picture_grey(image_picture *picture);

/* Grey files become grey pictures, all others colour. Pixels are taken as they are stored; the orientation that a
 * camera noted (EXIF) is ignored. */
circe_status jpeg_file_parse(const void *data, size_t bytes, const char *name, image_picture *out);

/* Grey files become grey pictures, all others colour; palettes, 16 bits and transparency (on black) are resolved. */
circe_status png_file_parse(const void *data, size_t bytes, const char *name, image_picture *out);

/* Grey or colour of 8 bits, whole or not at all. */
circe_status png_file_write(const char *path, const image_picture *picture);
