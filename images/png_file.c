/* .png: libpng's simplified interface, which reports errors as texts and jumps nowhere. */
#include "images/picture.h"

#include <stdlib.h>

#include <png.h>

#include "base/file.h"
#include "base/owned.h"
#include "circe/status.h"

static circe_status refuse(png_image *image, const char *name, const char *what) {
    circe_status status = circe_fail(CIRCE_ERR_FORMAT, "%s: %s: %s", name, what, image->message);
    png_image_free(image);
    return status;
}

circe_status png_file_parse(const void *data, size_t bytes, const char *name, image_picture *out) {
    static const png_color black = {0, 0, 0};
    png_image image = {.version = PNG_IMAGE_VERSION};
    *out = (image_picture){0};
    if (!png_image_begin_read_from_memory(&image, data, bytes)) return refuse(&image, name, "not a valid .png");
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits are the same tones as 8, not linear ones */
    bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
    image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    circe_status status = image_picture_make(image.width, image.height, colour ? 3 : 1, name, out);
    if (status == CIRCE_OK && !png_image_finish_read(&image, &black, out->pixels, 0, NULL))
        status = refuse(&image, name, "a damaged .png");
    if (status != CIRCE_OK) image_picture_free(out);
    png_image_free(&image);
    return status;
}

circe_status png_file_write(const char *path, const image_picture *picture) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture->width,
                       .height = (png_uint_32)picture->height,
                       .format = picture->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    OWNED void *data = malloc(bytes);
    if (data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for a .png", path);
    circe_status status = CIRCE_OK;
    if (!png_image_write_to_memory(&image, data, &bytes, 0, picture->pixels, 0, NULL))
        status = refuse(&image, path, "cannot be made");
    return status == CIRCE_OK ? file_write_text(path, data, bytes) : status;
}
