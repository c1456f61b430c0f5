/* Portable grey and colour maps: .pgm and .ppm, raw (P5, P6) and plain (P2, P3), of 8 and 16 bits. */
#pragma once

#include "images/picture.h"

/* Samples are scaled from 0..maxval to 0..255, rounded. */
circe_status pgm_parse(const void *data, size_t bytes, const char *name, image_picture *out);

/* The bytes of a raw .pgm or .ppm (by the channels), to be freed. */
circe_status pgm_format(const image_picture *picture, const char *name, void **data, size_t *bytes);
