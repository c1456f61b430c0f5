/* Points from bits, bytes and floats: what the device gathers against a plain loop over pixels, and what is refused
 * before a device sees it.
 *
 * Numbers are compared bit for bit: a pixel is one multiplication and one addition in float32, or a copy. */
#include "circe/status.h"
#include "tests/train/train_support.h"
#include "train/device.h"

/* ---- the plain loop ---------------------------------------------------------------------------------------------- */

/* Pixel p of a stored row, from the definition. */
static float stored_pixel(const train_source *s, int64_t row, int64_t p) {
    if (s->element == TRAIN_FLOATS) return ((const float *)s->values)[row * s->stride + p];
    const unsigned char *bytes = (const unsigned char *)s->values + row * s->stride;
    int level = s->element == TRAIN_BITS ? bytes[p / 8] >> (7 - p % 8) & 1 : bytes[p];
    volatile float product = s->scale * (float)level; /* one rounding each */
    return product + s->offset;
}

static float shown_pixel(const train_source *s, int64_t point, int64_t channel, int64_t line, int64_t column) {
    int64_t from = line - (s->shift != NULL ? s->shift[point] : 0);
    int64_t row = s->stored != NULL ? s->stored[point] : point;
    if (from < 0 || from >= s->height) return s->background;
    return stored_pixel(s, row, (channel * s->height + from) * s->width + column);
}

static void check_point(const train_source *s, int64_t point, const float *out) {
    for (int64_t r = 0; r < s->repeat; r++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t y = 0; y < s->height; y++)
                for (int64_t x = 0; x < s->width; x++, out++) {
                    float expected = shown_pixel(s, point, c, y, x);
                    if (memcmp(out, &expected, sizeof expected) == 0) continue;
                    print_error("point %lld, channel %lld of %lld, line %lld, column %lld: %.9g, not %.9g\n",
                                (long long)point, (long long)(r * s->channels + c),
                                (long long)(s->channels * s->repeat), (long long)y, (long long)x, (double)*out,
                                (double)expected);
                    fail();
                }
}

/* By index and by range, with a wall behind what is to be written. */
static void check_gather(const train_source *source, int threads) {
    enum { WALL = 16 };
    train_device *device = NULL;
    train_source_handle *handle = NULL;
    int64_t n = source->n, cols = train_source_cols(source);
    train_ok(train_source_check(source, "given"));
    train_ok(train_device_cpu(test_context(threads), &device));
    train_ok(device->ops->source_open(device, source, &handle));
    float *out = test_memory((size_t)(n * cols + WALL) * sizeof *out);
    int64_t *order = test_memory((size_t)n * sizeof *order);
    circe_random_permutation((circe_random){.seed = 5}, n, order);
    order[0] = order[n - 1]; /* one point twice */
    for (int64_t i = 0; i < n * cols + WALL; i++) out[i] = -77.0F;
    device->ops->source_gather(device, handle, order, 0, n, out);
    for (int64_t i = 0; i < n; i++) check_point(source, order[i], out + i * cols);
    for (int64_t i = n * cols; i < n * cols + WALL; i++) assert_true(out[i] == -77.0F);
    int64_t first = n / 3, some = n - first - (n > 4 ? 1 : 0);
    for (int64_t i = 0; i < n * cols; i++) out[i] = -77.0F;
    device->ops->source_gather(device, handle, NULL, first, some, out);
    for (int64_t i = 0; i < some; i++) check_point(source, first + i, out + i * cols);
    for (int64_t i = some * cols; i < n * cols; i++) assert_true(out[i] == -77.0F);
    device->ops->source_close(device, handle);
    train_device_destroy(device);
}

/* ---- images at random -------------------------------------------------------------------------------------------- */

typedef struct size {
    int64_t channels, height, width, repeat, padding;
} size;

static const size sizes[] = {
    {1, 64, 64, 1, 0}, {1, 1, 1, 1, 0},  {1, 7, 5, 3, 2},  {2, 5, 3, 1, 1}, {3, 4, 9, 2, 0},
    {2, 3, 16, 3, 5},  {1, 9, 13, 1, 0}, {4, 2, 11, 1, 3}, {1, 3, 8, 3, 0}, {3, 33, 31, 1, 0},
};

enum { STORED = 23, POINTS = 40 };

static train_source make_source(train_element element, const size *of, uint64_t stream) {
    int64_t pixels = of->channels * of->height * of->width;
    int64_t stride = (element == TRAIN_BITS ? (pixels + 7) / 8 : pixels) + of->padding;
    circe_mat random = test_uniform(stream, 1, STORED * stride + 2 * POINTS);
    int32_t *stored = test_memory(POINTS * sizeof *stored);
    unsigned char *bytes = test_memory((size_t)(STORED * stride));
    float *floats = test_memory((size_t)(STORED * stride) * sizeof *floats);
    for (int64_t i = 0; i < POINTS; i++) stored[i] = (int32_t)(test_at(&random, 0, i) * STORED);
    for (int64_t i = 0; i < STORED * stride; i++) {
        bytes[i] = (unsigned char)(test_at(&random, 0, 2 * POINTS + i) * 256.0);
        floats[i] = (float)test_at(&random, 0, 2 * POINTS + i);
    }
    return (train_source){.element = element,
                          .values = element == TRAIN_FLOATS ? (void *)floats : (void *)bytes,
                          .n_stored = STORED,
                          .stride = stride,
                          .n = POINTS,
                          .stored = stored,
                          .channels = of->channels,
                          .height = of->height,
                          .width = of->width,
                          .repeat = element == TRAIN_FLOATS ? 1 : of->repeat,
                          .scale = 0.37F,
                          .offset = -1.1F,
                          .background = 0.25F};
}

/* Shifts within the image, to its edge, and far beyond it. */
static int8_t *make_shifts(int64_t height) {
    int8_t *shift = test_memory(POINTS);
    for (int64_t i = 0; i < POINTS; i++) {
        int64_t within = i % (2 * height + 3) - height - 1; /* -height - 1 .. height + 1 */
        shift[i] = (int8_t)(i == POINTS - 1 ? 127 : i == POINTS - 2 ? -128 : within);
    }
    return shift;
}

static void check_element(train_element element) {
    for (int64_t k = 0; k < COUNT(sizes); k++)
        for (int threads = 1; threads <= 3; threads++) {
            train_source s = make_source(element, &sizes[k], 10 + (uint64_t)k);
            check_gather(&s, threads);
            if (element != TRAIN_FLOATS) {
                s.shift = make_shifts(s.height);
                check_gather(&s, threads);
            }
            s.stored = NULL;
            s.n = STORED;
            check_gather(&s, threads);
        }
}

static void bits(void **state) {
    (void)state;
    check_element(TRAIN_BITS);
}

static void bytes(void **state) {
    (void)state;
    check_element(TRAIN_BYTES);
}

static void floats(void **state) {
    (void)state;
    check_element(TRAIN_FLOATS);
}

/* Rows of a matrix that is a part of a wider one. */
static void matrix(void **state) {
    (void)state;
    circe_mat wide = test_normal(1, 50, 9), single = test_copy(&wide, CIRCE_FLOAT32);
    single.data = (float *)single.data + 2;
    single.cols = 5;
    train_source s = train_source_floats(&single);
    assert_true(s.n == 50 && s.n_stored == 50 && train_source_cols(&s) == 5 && s.stored == NULL);
    assert_int_equal(s.stride, 9);
    check_gather(&s, 2);
    train_source other = train_source_floats(&wide);
    train_refused(train_source_check(&other, "training"), CIRCE_ERR_ARGUMENT, "training features must be float32");
}

/* One pixel in the top left of an image goes where its shift says. */
static void by_hand(void **state) {
    (void)state;
    static const unsigned char stored[] = {0x80, 0, 0, 0, 0, 0, 0, 0}; /* 8 by 8 */
    static const int8_t shift[] = {0, 3, -1};
    static const int32_t rows[] = {0, 0, 0};
    train_source s = {.element = TRAIN_BITS,
                      .values = stored,
                      .n_stored = 1,
                      .stride = 8,
                      .n = 3,
                      .stored = rows,
                      .shift = shift,
                      .channels = 1,
                      .height = 8,
                      .width = 8,
                      .repeat = 2,
                      .scale = 2.0F,
                      .offset = -1.0F,
                      .background = -3.0F};
    train_device *device = NULL;
    train_source_handle *handle = NULL;
    float out[3][2][8][8];
    train_ok(train_source_check(&s, "given"));
    train_ok(train_device_cpu(test_context(1), &device));
    train_ok(device->ops->source_open(device, &s, &handle));
    device->ops->source_gather(device, handle, NULL, 0, 3, &out[0][0][0][0]);
    for (int point = 0; point < 3; point++)
        for (int r = 0; r < 2; r++)
            for (int y = 0; y < 8; y++)
                for (int x = 0; x < 8; x++) {
                    bool background = point == 1 ? y < 3 : point == 2 && y == 7;
                    bool white = x == 0 && ((point == 0 && y == 0) || (point == 1 && y == 3));
                    assert_true(out[point][r][y][x] == (background ? -3.0F : white ? 1.0F : -1.0F));
                }
    device->ops->source_close(device, handle);
    device->ops->source_close(device, NULL);
    train_device_destroy(device);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

#define CHECK(s) train_source_check(s, "training")

static void refused_sizes(void **state) {
    (void)state;
    const size of = {2, 5, 9, 3, 1};
    train_source good = make_source(TRAIN_BITS, &of, 3), s = good;
    train_ok(CHECK(&s));
    s.values = NULL;
    train_refused(CHECK(&s), CIRCE_ERR_ARGUMENT, "the training features have 40 points and no values");
    s = good;
    s.element = (train_element)4;
    train_refused(CHECK(&s), CIRCE_ERR_ARGUMENT, "float32, bytes or bits");
    int64_t *const counts[] = {&s.channels, &s.height, &s.width, &s.repeat};
    for (int k = 0; k < 4; k++) {
        s = good;
        *counts[k] = 0;
        train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "must be at least 1");
        *counts[k] = INT64_MAX / 2;
        train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "2^31 - 1 numbers");
        *counts[k] = INT32_MAX; /* no overflow of 64 bits */
        train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "2^31 - 1 numbers");
    }
    s = good;
    s.repeat = INT64_C(204963823041217241); /* times 90 is 2^64 + 74 */
    train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "2^31 - 1 numbers");
    s = good;
    s.stride = 11; /* 90 pixels take 12 bytes */
    train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "stored 11 apart, but a row takes 12");
    s = good;
    s.n_stored = INT64_MAX / 4;
    train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "more than memory can hold");
    s = good;
    s.n = -1;
    train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "-1 points");
    s = good;
    s.n = 0; /* none are fine */
    s.values = NULL;
    train_ok(CHECK(&s));
}

static void refused_values(void **state) {
    (void)state;
    const size of = {1, 4, 4, 1, 0};
    train_source good = make_source(TRAIN_BYTES, &of, 4), s = good;
    int32_t *stored = (int32_t *)(uintptr_t)s.stored;
    stored[7] = STORED;
    train_refused(CHECK(&s), CIRCE_ERR_VALUE, "training point 7 refers to stored row 23; the rows are 0 to 22");
    stored[7] = -1;
    train_refused(CHECK(&s), CIRCE_ERR_VALUE, "stored row -1");
    stored[7] = 0;
    s.stored = NULL;
    train_refused(CHECK(&s), CIRCE_ERR_SHAPE, "40 points but 23 stored rows");
    float *const numbers[] = {&s.scale, &s.offset, &s.background};
    for (int k = 0; k < 3; k++) {
        s = good;
        *numbers[k] = k == 1 ? INFINITY : NAN;
        train_refused(CHECK(&s), CIRCE_ERR_VALUE, "must be finite");
    }
    train_source f = make_source(TRAIN_FLOATS, &of, 4);
    train_ok(CHECK(&f));
    f.shift = make_shifts(4);
    train_refused(CHECK(&f), CIRCE_ERR_ARGUMENT, "only bytes and bits can be shifted");
    f.shift = NULL;
    f.repeat = 3;
    train_refused(CHECK(&f), CIRCE_ERR_ARGUMENT, "floats shown 3 times");
    f.repeat = 1;
    float *values = (float *)(uintptr_t)f.values;
    ((int32_t *)(uintptr_t)f.stored)[38] = 5;
    values[5 * f.stride + 9] = NAN;
    train_refused(CHECK(&f), CIRCE_ERR_VALUE, "column 9");
    int64_t first = 0;
    while (f.stored[first] != 5) first++;
    char text[64];
    snprintf(text, sizeof text, "contain nan in row %lld", (long long)first);
    train_refused(CHECK(&f), CIRCE_ERR_VALUE, text);
}

TEST_MAIN("source", TEST(bits), TEST(bytes), TEST(floats), TEST(matrix), TEST(by_hand), TEST(refused_sizes),
          TEST(refused_values))
