/* .pgm and .ppm. A file is a magic number P2, P3, P5 or P6, then width, height and the largest sample as decimal
 * numbers between white space and comments (# to the end of the line), one white-space character, and the samples: raw
 * bytes, pairs of bytes (most significant first) where the largest is over 255, or decimal numbers. Sizes are compared
 * with the length of the file before memory is allocated. */
#include "images/pgm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"

enum { LARGEST_NUMBER = 1 << 30, LARGEST_SAMPLE = 65535, MAX_HEADER = 64 };

typedef struct reader {
    const unsigned char *at, *end;
    const char *name;
} reader;

static bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip_space(reader *in) {
    while (in->at < in->end && (is_space(*in->at) || *in->at == '#')) {
        if (*in->at++ != '#') continue;
        while (in->at < in->end && *in->at != '\n' && *in->at != '\r') in->at++;
    }
}

/* The next decimal number; one too large to be any size or sample is refused. */
static circe_status next_number(reader *in, const char *what, int64_t *value) {
    skip_space(in);
    if (in->at == in->end) return circe_fail(CIRCE_ERR_FORMAT, "%s: the file ends before its %s", in->name, what);
    if (*in->at < '0' || *in->at > '9')
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the %s is not a whole number (byte %d)", in->name, what, *in->at);
    *value = 0;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
        *value = 10 * *value + (*in->at - '0');
        if (*value > LARGEST_NUMBER) return circe_fail(CIRCE_ERR_FORMAT, "%s: the %s is too large", in->name, what);
    }
    return CIRCE_OK;
}

static uint8_t scaled(int64_t sample, int64_t largest) { return (uint8_t)((sample * 255 + largest / 2) / largest); }

static circe_status refuse_sample(const reader *in, int64_t i, int64_t sample, int64_t largest) {
    return circe_fail(CIRCE_ERR_FORMAT, "%s: sample %lld is %lld, above the file's own largest value %lld", in->name,
                      (long long)i, (long long)sample, (long long)largest);
}

static circe_status read_raw(reader *in, int64_t largest, int64_t n, uint8_t *out) {
    bool wide = largest > 255;
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = wide ? in->at[0] * 256 + in->at[1] : in->at[0];
        if (sample > largest) return refuse_sample(in, i, sample, largest);
        out[i] = scaled(sample, largest);
        in->at += wide ? 2 : 1;
    }
    return CIRCE_OK;
}

static circe_status read_plain(reader *in, int64_t largest, int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = 0;
        circe_status status = next_number(in, "last sample", &sample);
        if (status != CIRCE_OK) return status;
        if (sample > largest) return refuse_sample(in, i, sample, largest);
        out[i] = scaled(sample, largest);
    }
    return CIRCE_OK;
}

/* Every sample takes one or two bytes where it is raw, and at least one where it is plain. */
static circe_status check_length(const reader *in, int64_t width, int64_t height, int64_t channels, int64_t each) {
    if (width < 1 || height < 1 || width > IMAGE_MOST_PIXELS / height)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: a picture of %lld by %lld pixels; between 1 and %d are possible",
                          in->name, (long long)width, (long long)height, IMAGE_MOST_PIXELS);
    int64_t needed = width * height * channels * each, there = in->end - in->at;
    if (there >= needed) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: cut short: %lld by %lld pixels need %lld bytes, but %lld follow the header", in->name,
                      (long long)width, (long long)height, (long long)needed, (long long)there);
}

static circe_status check_end(reader *in, bool plain) {
    if (plain)
        skip_space(in);
    else
        while (in->at < in->end && is_space(*in->at)) in->at++; /* a line end that an editor has added */
    if (in->at == in->end) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: %lld bytes follow the last pixel", in->name,
                      (long long)(in->end - in->at));
}

static circe_status read_header(reader *in, int64_t *width, int64_t *height, int64_t *largest) {
    circe_status status = next_number(in, "width", width);
    if (status == CIRCE_OK) status = next_number(in, "height", height);
    if (status == CIRCE_OK) status = next_number(in, "largest value", largest);
    if (status != CIRCE_OK) return status;
    if (*largest < 1 || *largest > LARGEST_SAMPLE)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: the largest value must be between 1 and 65535, not %lld", in->name,
                          (long long)*largest);
    if (in->at == in->end || !is_space(*in->at))
        return circe_fail(CIRCE_ERR_FORMAT, "%s: white space must follow the largest value", in->name);
    in->at++;
    return CIRCE_OK;
}

circe_status pgm_parse(const void *data, size_t bytes, const char *name, image_picture *out) {
    const unsigned char *first = data;
    *out = (image_picture){0};
    if (bytes < 2 || first[0] != 'P' || (first[1] != '2' && first[1] != '3' && first[1] != '5' && first[1] != '6'))
        return circe_fail(CIRCE_ERR_FORMAT, "%s: not a .pgm or .ppm: it must begin with P2, P3, P5 or P6", name);
    reader in = {first + 2, first + bytes, name};
    bool plain = first[1] < '4';
    int64_t width = 0, height = 0, largest = 0, channels = first[1] == '3' || first[1] == '6' ? 3 : 1;
    circe_status status = read_header(&in, &width, &height, &largest);
    if (status == CIRCE_OK) status = check_length(&in, width, height, channels, !plain && largest > 255 ? 2 : 1);
    if (status == CIRCE_OK) status = image_picture_make(width, height, channels, name, out);
    if (status == CIRCE_OK) {
        int64_t n = width * height * channels;
        status = plain ? read_plain(&in, largest, n, out->pixels) : read_raw(&in, largest, n, out->pixels);
    }
    if (status == CIRCE_OK) status = check_end(&in, plain);
    if (status != CIRCE_OK) image_picture_free(out);
    return status;
}

circe_status pgm_format(const image_picture *picture, const char *name, void **data, size_t *bytes) {
    char header[MAX_HEADER];
    size_t samples = (size_t)(picture->width * picture->height * picture->channels);
    int length = snprintf(header, sizeof header, "P%c\n%lld %lld\n255\n", picture->channels == 3 ? '6' : '5',
                          (long long)picture->width, (long long)picture->height);
    *bytes = (size_t)length + samples;
    *data = malloc(*bytes);
    if (*data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its %zu bytes", name, *bytes);
    memcpy(*data, header, (size_t)length);
    memcpy((char *)*data + length, picture->pixels, samples);
    return CIRCE_OK;
}
