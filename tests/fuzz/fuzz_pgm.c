/* .pgm and .ppm from any bytes, and the same bytes as the name of a file of Extended Yale-B. */
#include "circe/status.h"
#include "images/pgm.h"
#include "images/yaleb.h"
#include "tests/fuzz/fuzz.h"

static void parse_picture(const uint8_t *data, size_t size) {
    image_picture picture;
    circe_status status = pgm_parse(data, size, "fuzz.pgm", &picture);
    if (status != CIRCE_OK) {
        fuzz_require(picture.pixels == NULL && strstr(circe_last_error(), "fuzz.pgm") != NULL);
        return;
    }
    fuzz_require(picture.width > 0 && picture.height > 0 && (picture.channels == 1 || picture.channels == 3));
    fuzz_touch(picture.pixels, (size_t)(picture.width * picture.height * picture.channels));
    image_picture_grey(&picture);
    image_picture_free(&picture);
}

static void parse_name(const uint8_t *data, size_t size) {
    char file[YALEB_NAME_BYTES], *text = strndup((const char *)data, size);
    yaleb_name name;
    if (text == NULL) return;
    if (yaleb_parse_name(text, &name) == YALEB_PICTURE) {
        yaleb_format_name(&name, file);
        yaleb_name again;
        fuzz_require(yaleb_parse_name(file, &again) == YALEB_PICTURE && yaleb_compare(&name, &again) == 0);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse_picture(data, size);
    parse_name(data, size);
    return 0;
}
