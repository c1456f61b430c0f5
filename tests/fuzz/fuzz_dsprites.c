/* The file of dSprites from any bytes, of two pictures. */
#include "circe/status.h"
#include "images/dsprites.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { IMAGES = 2 };
    uint8_t *bits = calloc(IMAGES, DSPRITES_BYTES); /* exactly the size, for the sanitizer to see */
    fuzz_require(bits != NULL);
    if (dsprites_parse(data, size, "fuzz.npz", IMAGES, bits) != CIRCE_OK)
        fuzz_require(strstr(circe_last_error(), "fuzz.npz:") != NULL);
    fuzz_touch(bits, (size_t)IMAGES * DSPRITES_BYTES);
    free(bits);
    return 0;
}
