/* .jpg: libjpeg-turbo's own interface (TurboJPEG), which reports errors as texts and jumps nowhere.
 *
 * A warning of the library counts as an error here: it means that the library invented pixels, which do not belong in a
 * training set. The size is read and checked before any pixel. */
#include "images/picture.h"

#include <turbojpeg.h>

#include "circe/status.h"

static circe_status read_pixels(tjhandle jpeg, const void *data, size_t bytes, const char *name, image_picture *out) {
    int width = 0, height = 0, subsampling = 0, colours = 0;
    if (tjDecompressHeader3(jpeg, data, (unsigned long)bytes, &width, &height, &subsampling, &colours) != 0)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the .jpg is damaged: %s", name, tjGetErrorStr2(jpeg));
    if (width < 1 || height < 1) return circe_fail(CIRCE_ERR_FORMAT, "%s: the .jpg is damaged: it has no size", name);
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: it is in CMYK, the colours of print; convert it to RGB", name);
    bool grey = colours == TJCS_GRAY;
    circe_status status = image_picture_make(width, height, grey ? 1 : 3, name, out);
    if (status != CIRCE_OK) return status;
    if (tjDecompress2(jpeg, data, (unsigned long)bytes, out->pixels, width, 0, height, grey ? TJPF_GRAY : TJPF_RGB,
                      TJFLAG_ACCURATEDCT) == 0)
        return CIRCE_OK;
    image_picture_free(out);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: the .jpg is damaged: %s", name, tjGetErrorStr2(jpeg));
}

circe_status jpeg_file_parse(const void *data, size_t bytes, const char *name, image_picture *out) {
    *out = (image_picture){0};
    tjhandle jpeg = tjInitDecompress();
    if (jpeg == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory; cannot read a .jpg", name);
    circe_status status = read_pixels(jpeg, data, bytes, name, out);
    tjDestroy(jpeg);
    return status;
}
