/* Pictures. The first bytes of a file decide which reader is used. */
#include "images/picture.h"

#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "files/mapped.h"
#include "images/pgm.h"

circe_status image_picture_make(int64_t width, int64_t height, int64_t channels, const char *name, image_picture *out) {
    *out = (image_picture){0};
    if (width < 1 || height < 1 || width > IMAGE_MOST_PIXELS / height)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: a picture of %lld by %lld pixels; between 1 and %d are possible", name,
                          (long long)width, (long long)height, IMAGE_MOST_PIXELS);
    uint8_t *pixels = calloc((size_t)(width * height), (size_t)channels);
    if (pixels == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for %lld by %lld pixels", name, (long long)width,
                          (long long)height);
    out->width = width;
    out->height = height;
    out->channels = channels;
    out->pixels = pixels;
    return CIRCE_OK;
}

void image_picture_free(image_picture *picture) {
    free(picture->pixels);
    *picture = (image_picture){0};
}

circe_status image_picture_parse(const void *data, size_t bytes, const char *name, image_picture *out) {
    static const unsigned char png_signature[] = {0x89, 'P', 'N', 'G'}, jpeg_signature[] = {0xff, 0xd8, 0xff};
    const unsigned char *first = data;
    *out = (image_picture){0};
    if (bytes == 0)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the file is empty; a .png, .jpg, .pgm or .ppm is needed", name);
    if (bytes >= sizeof png_signature && memcmp(first, png_signature, sizeof png_signature) == 0)
        return png_file_parse(data, bytes, name, out);
    if (bytes >= sizeof jpeg_signature && memcmp(first, jpeg_signature, sizeof jpeg_signature) == 0)
        return jpeg_file_parse(data, bytes, name, out);
    if (bytes >= 2 && first[0] == 'P' && first[1] >= '1' && first[1] <= '7') return pgm_parse(data, bytes, name, out);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: not a picture: it begins neither as a .png or .jpg nor as a .pgm or .ppm",
                      name);
}

circe_status image_picture_read(const char *path, image_picture *out) {
    circe__mapped file;
    *out = (image_picture){0};
    int problem = circe__map_file(path, &file);
    if (problem != 0) return circe_fail(CIRCE_ERR_IO, "%s: cannot be read: %s", path, circe__map_problem(problem));
    circe_status status = image_picture_parse(file.data, file.bytes, path, out);
    circe__unmap(&file);
    return status;
}

void image_picture_grey(image_picture *picture) {
    if (picture->channels != 3) return;
    int64_t pixels = picture->width * picture->height;
    for (int64_t i = 0; i < pixels; i++) {
        const uint8_t *rgb = picture->pixels + 3 * i;
        picture->pixels[i] = (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
    picture->channels = 1;
}
