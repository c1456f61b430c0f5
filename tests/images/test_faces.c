/* Extended Yale-B: pictures as files, the names and folders of the set, its task, and the heads that are rendered.
 *
 * Chi-square limits are at about 1e-4 of false alarm, on fixed seeds. Mirrored pictures may differ by a grey level or
 * two where rays pass an edge, since the steps of a mirrored ray round differently. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "base/file.h"
#include "circe/status.h"
#include "images/pgm.h"
#include "images/picture.h"
#include "images/resize.h"
#include "images/sheet.h"
#include "images/yaleb_task.h"
#include "tests/train/train_support.h"

static void write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* ---- .pgm and .ppm -------------------------------------------------------------------------------------------------
 */

static circe_status parse(const char *text, size_t bytes, image_picture *picture) {
    return image_picture_parse(text, bytes, "a.pgm", picture);
}

#define TEXT(literal) literal, sizeof(literal) - 1

static circe_status pgm_write(const char *path, const image_picture *picture) {
    void *data = NULL;
    size_t bytes = 0;
    circe_status status = pgm_format(picture, path, &data, &bytes);
    if (status == CIRCE_OK) status = file_write_text(path, data, bytes);
    free(data);
    return status;
}

static void pgm_round_trip(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        image_picture picture, back;
        train_ok(image_picture_make(7, 5, channels, "made", &picture));
        for (int64_t i = 0; i < 35 * channels; i++) picture.pixels[i] = (uint8_t)(i * 73);
        train_ok(pgm_write(test_path("p.pgm"), &picture));
        train_ok(image_picture_read(test_path("p.pgm"), &back));
        assert_true(back.width == 7 && back.height == 5 && back.channels == channels);
        assert_memory_equal(picture.pixels, back.pixels, (size_t)(35 * channels));
        image_picture_free(&picture);
        image_picture_free(&back);
    }
}

static void check_pixels(circe_status status, image_picture *picture, int64_t width, int64_t height,
                         const uint8_t *pixels) {
    train_ok(status);
    assert_int_equal(picture->width, width);
    assert_int_equal(picture->height, height);
    assert_memory_equal(picture->pixels, pixels, (size_t)(width * height * picture->channels));
    image_picture_free(picture);
}

static void pgm_forms(void **state) {
    (void)state;
    image_picture p;
    static const uint8_t three[] = {1, 2, 3}, scaled[] = {0, 128, 255}, wide[] = {0, 128, 255, 1};
    check_pixels(parse(TEXT("P5 3 1 255 \x01\x02\x03"), &p), &p, 3, 1, three);
    check_pixels(parse(TEXT("P5#one\n# two\n3#three\r1 # 9 9\n#\n255\n\x01\x02\x03"), &p), &p, 3, 1, three);
    check_pixels(parse(TEXT("P5\n1 3\n255\n\x01\x02\x03\n"), &p), &p, 1, 3, three);
    check_pixels(parse(TEXT("P5 3 1 4\n\x00\x02\x04"), &p), &p, 3, 1, scaled);
    check_pixels(parse(TEXT("P5 2 2 65535\n\x00\x00\x80\x00\xff\xff\x01\x01"), &p), &p, 2, 2, wide);
    check_pixels(parse(TEXT("P5 3 1 1000\n\x00\x00\x01\xf4\x03\xe8"), &p), &p, 3, 1, scaled);
    check_pixels(parse(TEXT("P2 # plain\n3 1 4\n0 2#x\n4 # end"), &p), &p, 3, 1, scaled);
    check_pixels(parse(TEXT("P3 1 1 255 1 2 3\n"), &p), &p, 1, 1, three);
    train_ok(parse(TEXT("P6 1 1 255\n\x0a\x14\x1e"), &p));
    image_picture_grey(&p);
    assert_true(p.channels == 1 && p.pixels[0] == 18); /* 0.299 10 + 0.587 20 + 0.114 30 = 18.15 */
    image_picture_free(&p);
}

static void pgm_refusals(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *part;
    } bad[] = {
        {TEXT(""), "a.pgm: the file is empty"},
        {TEXT("GIF89a"), "not a picture"},
        {TEXT("P4 1 1 "), "must begin with P2, P3, P5 or P6"},
        {TEXT("P5"), "ends before its width"},
        {TEXT("P5 3"), "ends before its height"},
        {TEXT("P5 3 1 "), "ends before its largest value"},
        {TEXT("P5 x 1 255 "), "the width is not a whole number"},
        {TEXT("P5 -3 1 255 "), "the width is not a whole number"},
        {TEXT("P5 3 1 0 \0\0\0"), "between 1 and 65535, not 0"},
        {TEXT("P5 3 1 65536 \0\0\0\0\0\0"), "between 1 and 65535, not 65536"},
        {TEXT("P5 3 1 255"), "white space must follow"},
        {TEXT("P5 3 1 255#"), "white space must follow"},
        {TEXT("P5 3 1 255 \1\2"), "cut short: 3 by 1 pixels need 3 bytes, but 2 follow the header"},
        {TEXT("P5 3 1 256 \0\1\0\2\0"), "need 6 bytes, but 5 follow"},
        {TEXT("P6 1 1 255 \1\2"), "need 3 bytes, but 2 follow"},
        {TEXT("P5 3 1 255 \1\2\3\4"), "1 bytes follow the last pixel"},
        {TEXT("P2 3 1 255 1 2 3 4"), "1 bytes follow the last pixel"},
        {TEXT("P2 3 1 255 1 2    "), "ends before its last sample"},
        {TEXT("P2 3 1 255 1 2 x"), "last sample is not a whole number"},
        {TEXT("P5 3 1 7 \1\2\x08"), "sample 2 is 8, above the file's own largest value 7"},
        {TEXT("P2 2 1 7 8 1"), "sample 0 is 8"},
        {TEXT("P5 0 1 255 "), "a picture of 0 by 1 pixels"},
        {TEXT("P5 1000000000 1000000000 255 \1"), "1000000000 by 1000000000 pixels"},
        {TEXT("P5 65536 65536 255 \1"), "65536 by 65536 pixels"},
        {TEXT("P5 99999999999999999999 1 255 \1"), "the width is too large"},
    };
    for (int64_t i = 0; i < COUNT(bad); i++) {
        image_picture p = {0};
        train_refused(parse(bad[i].data, bad[i].bytes, &p), CIRCE_ERR_FORMAT, bad[i].part);
        assert_null(p.pixels);
        assert_non_null(strstr(circe_last_error(), "a.pgm"));
    }
    image_picture p;
    train_refused(image_picture_read(test_path("none.pgm"), &p), CIRCE_ERR_IO, "none.pgm: cannot be read: No such");
    train_refused(image_picture_read(test_directory(), &p), CIRCE_ERR_IO, "cannot be read");
    train_ok(image_picture_make(1, 1, 1, "made", &p));
    train_refused(pgm_write(test_path("no/such.pgm"), &p), CIRCE_ERR_WRITE, "no/such.pgm: cannot be written");
    image_picture_free(&p);
}

/* ---- .png ----------------------------------------------------------------------------------------------------------
 */

static void png_round_trip(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        image_picture picture, back;
        train_ok(image_picture_make(9, 4, channels, "made", &picture));
        for (int64_t i = 0; i < 36 * channels; i++) picture.pixels[i] = (uint8_t)(i * 41);
        train_ok(png_file_write(test_path("p.png"), &picture));
        train_ok(image_picture_read(test_path("p.png"), &back));
        assert_true(back.width == 9 && back.height == 4 && back.channels == channels);
        assert_memory_equal(picture.pixels, back.pixels, (size_t)(36 * channels));
        image_picture_free(&picture);
        image_picture_free(&back);
    }
}

static void png_refusals(void **state) {
    (void)state;
    image_picture picture, back;
    unsigned char bytes[2000];
    train_ok(image_picture_make(20, 20, 1, "made", &picture));
    train_ok(png_file_write(test_path("p.png"), &picture));
    FILE *file = fopen(test_path("p.png"), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    train_refused(image_picture_parse(bytes, 20, "short.png", &back), CIRCE_ERR_FORMAT, "short.png: not a valid .png");
    train_refused(image_picture_parse(bytes, n - 25, "cut.png", &back), CIRCE_ERR_FORMAT, "cut.png: a damaged .png");
    unsigned char *data = memmem(bytes, n, "IDAT", 4);
    assert_non_null(data);
    data[6] ^= 0x55;
    train_refused(image_picture_parse(bytes, n, "hurt.png", &back), CIRCE_ERR_FORMAT, "hurt.png: a damaged .png");
    assert_null(back.pixels);
    train_refused(png_file_write(test_path("no/such.png"), &picture), CIRCE_ERR_WRITE, "no/such.png");
    image_picture_free(&picture);
}

/* ---- .jpg ----------------------------------------------------------------------------------------------------------
 */

/* A smooth picture, which .jpg of the best quality keeps to a few levels; the caller frees the bytes with tjFree. */
static unsigned char *make_jpeg(image_picture *picture, int64_t channels, int format, unsigned long *bytes) {
    unsigned char *data = NULL;
    train_ok(image_picture_make(19, 10, channels, "made", picture));
    for (int64_t i = 0; i < 190 * channels; i++)
        picture->pixels[i] = (uint8_t)(10 * (i / channels % 19) + 40 * (i % channels));
    tjhandle jpeg = tjInitCompress();
    assert_non_null(jpeg);
    assert_int_equal(tjCompress2(jpeg, picture->pixels, 19, 0, 10, format, &data, bytes,
                                 format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_444, 100, 0),
                     0);
    tjDestroy(jpeg);
    return data;
}

static void jpeg_pixels(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        image_picture picture, back;
        unsigned long bytes = 0;
        unsigned char *data = make_jpeg(&picture, channels, channels == 1 ? TJPF_GRAY : TJPF_RGB, &bytes);
        train_ok(image_picture_parse(data, bytes, "p.jpg", &back));
        assert_true(back.width == 19 && back.height == 10 && back.channels == channels);
        for (int64_t i = 0; i < 190 * channels; i++) assert_in_range(abs(picture.pixels[i] - back.pixels[i]), 0, 4);
        image_picture_free(&picture);
        image_picture_free(&back);
        tjFree(data);
    }
}

static void jpeg_refusals(void **state) {
    (void)state;
    image_picture picture, back;
    unsigned long bytes = 0;
    unsigned char *data = make_jpeg(&picture, 3, TJPF_RGB, &bytes);
    train_refused(image_picture_parse(data, 10, "short.jpg", &back), CIRCE_ERR_FORMAT,
                  "short.jpg: the .jpg is damaged");
    train_refused(image_picture_parse(data, bytes - 60, "cut.jpg", &back), CIRCE_ERR_FORMAT,
                  "cut.jpg: the .jpg is damaged");
    assert_null(back.pixels);
    image_picture_free(&picture);
    tjFree(data);
    data = make_jpeg(&picture, 4, TJPF_CMYK, &bytes);
    train_refused(image_picture_parse(data, bytes, "print.jpg", &back), CIRCE_ERR_FORMAT, "convert it to RGB");
    image_picture_free(&picture);
    tjFree(data);
}

/* ---- resizing ------------------------------------------------------------------------------------------------------
 */

static void resizing(void **state) {
    (void)state;
    image_picture p;
    uint8_t out[64 * 64];
    train_ok(image_picture_make(8, 8, 1, "made", &p));
    for (int i = 0; i < 64; i++) p.pixels[i] = (uint8_t)(i * 4);
    train_ok(image_resize(&p, 8, 8, out));
    assert_memory_equal(out, p.pixels, 64); /* the same size: the same picture */
    memset(p.pixels, 77, 64);
    static const int64_t sizes[] = {1, 3, 13, 64};
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        train_ok(image_resize(&p, sizes[k], sizes[k], out));
        for (int64_t i = 0; i < sizes[k] * sizes[k]; i++) assert_int_equal(out[i], 77);
    }
    /* Fine stripes shrink to their mean: no aliasing. */
    for (int i = 0; i < 64; i++) p.pixels[i] = i % 2 == 0 ? 0 : 200;
    train_ok(image_resize(&p, 4, 4, out));
    for (int i = 0; i < 16; i++) {
        if (i % 4 != 0 && i % 4 != 3) assert_int_equal(out[i], 100);
    }
    /* Every pixel counts: the first column has 0.625 of 3.5 in the left half, whose filter reaches 4 pixels. */
    for (int i = 0; i < 64; i++) p.pixels[i] = i % 8 == 0 ? 200 : 0;
    train_ok(image_resize(&p, 2, 2, out));
    assert_int_equal(out[0], 36);
    /* A ramp stays one: between the outer centres, linear interpolation is exact. */
    for (int i = 0; i < 64; i++) p.pixels[i] = (uint8_t)(10 * (i % 8));
    train_ok(image_resize(&p, 16, 8, out));
    for (int c = 1; c < 15; c++) assert_near(out[c], 10.0 * ((c + 0.5) / 2.0 - 0.5), 0.5, 1.0);
    train_refused(image_resize(&p, 0, 4, out), CIRCE_ERR_ARGUMENT, "to 0 by 4");
    image_picture_free(&p);
}

/* ---- names ---------------------------------------------------------------------------------------------------------
 */

static void names(void **state) {
    (void)state;
    yaleb_name n = {0};
    assert_int_equal(yaleb_parse_name("yaleB39_P08A-130E+20.pgm", &n), YALEB_PICTURE);
    assert_true(n.identity == 39 && n.pose == 8 && n.azimuth == -130 && n.elevation == 20);
    assert_int_equal(yaleb_parse_name("yaleB11_P00A+000E-35.pgm", &n), YALEB_PICTURE);
    assert_true(n.identity == 11 && n.pose == 0 && n.azimuth == 0 && n.elevation == -35);
    assert_int_equal(yaleb_parse_name("yaleB11_P03_Ambient.pgm", &n), YALEB_AMBIENT);
    assert_int_equal(yaleb_parse_name("yaleB11_P00A+050E-40.pgm.bad", &n), YALEB_BAD);
    static const char *const others[] = {"readme.txt", "yaleB11_P00.info", "yaleB11_P00.LOG", "face.pgm", "", "yaleB"};
    for (int64_t i = 0; i < COUNT(others); i++) assert_int_equal(yaleb_parse_name(others[i], &n), YALEB_OTHER);
    static const char *const wrong[] = {"yaleB.pgm",
                                        "yaleB1_P00A+000E+00.pgm",
                                        "yaleB111_P00A+000E+00.pgm",
                                        "yaleB11P00A+000E+00.pgm",
                                        "yaleB11_P09A+000E+00.pgm",
                                        "yaleB11_P0A+000E+00.pgm",
                                        "yaleB11_P00A000E+00.pgm",
                                        "yaleB11_P00A+00E+00.pgm",
                                        "yaleB11_P00A+000E+0.pgm",
                                        "yaleB11_P00A+000E+000.pgm",
                                        "yaleB11_P00A+181E+00.pgm",
                                        "yaleB11_P00A+000E+91.pgm",
                                        "yaleB11_P00A+000E+00x.pgm",
                                        "yaleB11_P00_ambient.pgm",
                                        "yaleB11_P00A+000E+00 .pgm",
                                        "yaleB11_P00A+000E+00.pgm.pgm"};
    for (int64_t i = 0; i < COUNT(wrong); i++) assert_int_equal(yaleb_parse_name(wrong[i], &n), YALEB_WRONG);
    for (int light = 0; light < FACES_LIGHTS; light++) {
        char file[YALEB_NAME_BYTES];
        yaleb_name a = {faces_numbers[light % 28], light % 9, faces_lights[light].azimuth,
                        faces_lights[light].elevation};
        yaleb_format_name(&a, file);
        assert_int_equal(yaleb_parse_name(file, &n), YALEB_PICTURE);
        assert_int_equal(yaleb_compare(&a, &n), 0);
    }
}

/* The rig as published: 64 lamps, the same to both sides, and the numbers of 28 people. */
static void rig(void **state) {
    (void)state;
    int across = 0;
    for (int i = 0; i < FACES_LIGHTS; i++) {
        bool mirrored = false;
        faces_light a = faces_lights[i];
        assert_true(abs(a.azimuth) <= 130 && a.elevation >= -40 && a.elevation <= 90);
        for (int j = 0; j < FACES_LIGHTS; j++) {
            faces_light b = faces_lights[j];
            assert_false(i != j && a.azimuth == b.azimuth && a.elevation == b.elevation);
            mirrored |= a.azimuth == -b.azimuth && a.elevation == b.elevation;
        }
        assert_true(mirrored);
        across += a.azimuth == 0;
    }
    assert_int_equal(across, 6);
    for (int i = 0; i < FACES_IDENTITIES; i++)
        assert_true(faces_numbers[i] != 14 && faces_numbers[i] == 11 + i + (i >= 3));
    assert_int_equal(faces_numbers[27], 39);
    /* Poses 1 to 5 are 12 degrees off the axis, 6 to 8 are 24. */
    for (int pose = 0; pose < FACES_POSES; pose++) {
        float d[3];
        faces_pose_direction(pose, d);
        assert_near(acos(fmin((double)d[2], 1.0)) * 180.0 / M_PI, pose == 0 ? 0.0 : pose < 6 ? 12.0 : 24.0, 1e-2, 1.0);
    }
}

/* ---- folders -------------------------------------------------------------------------------------------------------
 */

static void make_folder(const char *name) { assert_int_equal(mkdir(test_path(name), 0777), 0); }

/* A picture of 12 by 10 pixels, all of this grey. */
static void put_picture(const char *name, uint8_t grey) {
    image_picture p;
    train_ok(image_picture_make(12, 10, 1, "made", &p));
    memset(p.pixels, grey, 120);
    train_ok(pgm_write(test_path(name), &p));
    image_picture_free(&p);
}

/* One person flat, one with folders by pose, and what lies beside the pictures. */
static void make_set(void) {
    make_folder("set");
    make_folder("set/yaleB12");
    make_folder("set/yaleB12/P01");
    make_folder("set/yaleB12/P00");
    make_folder("set/.hidden");
    put_picture("set/yaleB12/P01/yaleB12_P01A+000E+00.pgm", 40);
    put_picture("set/yaleB12/P00/yaleB12_P00A-130E+20.pgm", 30);
    put_picture("set/yaleB11_P08A+110E+15.pgm", 20);
    put_picture("set/yaleB11_P08A-005E+10.pgm", 10);
    put_picture("set/yaleB11_P00_Ambient.pgm", 99);
    put_picture("set/.hidden/yaleB13_P00A+000E+00.pgm", 99);
    write_file(test_path("set/yaleB12/yaleB12_P00A+050E-40.pgm.bad"), "P5 broken", 9);
    write_file(test_path("set/yaleB12/yaleB12_P00.info"), "names", 5);
}

static void folder_is_read(void **state) {
    (void)state;
    make_set();
    yaleb_store store;
    train_ok(yaleb_read(test_context(2), test_path("set"), 16, NULL, NULL, &store));
    assert_true(store.n == 4 && store.size == 16 && store.bad == 1 && store.ambient == 1);
    for (int64_t i = 0; i < 4; i++) { /* by name, whatever the folders */
        for (int64_t k = 0; k < 256; k++) assert_int_equal(store.pixels[i * 256 + k], 10 * (i + 1));
    }
    assert_true(store.names[0].azimuth == -5 && store.names[3].identity == 12 && store.names[3].pose == 1);
    train_source source = yaleb_pictures(&store);
    assert_int_equal(train_source_cols(&source), 3 * 256);
    assert_near(source.scale * 255.0f + source.offset, 1.0, 1e-6, 1.0);
    yaleb_store_free(&store);
    image_picture sheet;
    train_ok(image_sheet_faces(test_path("set"), &sheet));
    assert_true(sheet.width > 800 && sheet.height > 800);
    image_picture_free(&sheet);
}

static int stop(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage;
    assert_true(done <= total);
    return ++*(int *)user >= 1;
}

static void folder_refusals(void **state) {
    (void)state;
    yaleb_store store;
    int calls = 0;
    train_refused(yaleb_read(test_context(1), test_path("none"), 16, NULL, NULL, &store), CIRCE_ERR_IO,
                  "none: cannot be read: No such");
    make_folder("empty");
    write_file(test_path("empty/readme"), "x", 1);
    train_refused(yaleb_read(test_context(1), test_path("empty"), 16, NULL, NULL, &store), CIRCE_ERR_FORMAT,
                  "empty: it contains no picture with a name like yaleB11_P00A+000E+00.pgm; there are 1 other files");
    train_refused(yaleb_read(test_context(1), test_path("empty/readme"), 16, NULL, NULL, &store), CIRCE_ERR_IO,
                  "Not a directory");
    make_set();
    train_refused(yaleb_read(test_context(1), test_path("set"), 4, NULL, NULL, &store), CIRCE_ERR_ARGUMENT, "not 4");
    train_refused(yaleb_read(test_context(1), test_path("set"), 16, stop, &calls, &store), CIRCE_ERR_CANCELLED,
                  "interrupted");
    write_file(test_path("set/yaleB12/yaleB12_P02A+000E+00.pgm"), "P5 2 2 255\nabc", 14);
    train_refused(yaleb_read(test_context(2), test_path("set"), 16, NULL, NULL, &store), CIRCE_ERR_FORMAT,
                  "yaleB12/yaleB12_P02A+000E+00.pgm: cut short: 2 by 2 pixels need 4 bytes, but 3 follow");
    assert_null(store.pixels);
    put_picture("set/yaleB12/yaleB12_P02A+000E+00.pgm", 1);
    put_picture("set/yaleB12/yaleB12_P01A+000E+00.pgm", 1);
    train_refused(yaleb_read(test_context(1), test_path("set"), 16, NULL, NULL, &store), CIRCE_ERR_FORMAT,
                  "yaleB12_P01A+000E+00.pgm are the same picture");
    assert_int_equal(unlink(test_path("set/yaleB12/yaleB12_P01A+000E+00.pgm")), 0);
    put_picture("set/yaleB12/yaleB12_P1A+000E+00.pgm", 1);
    train_refused(yaleb_read(test_context(1), test_path("set"), 16, NULL, NULL, &store), CIRCE_ERR_FORMAT,
                  "yaleB12_P1A+000E+00.pgm: the name of a picture must look like yaleB11_P00A+000E+00.pgm");
}

/* ---- the task ------------------------------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b) { return yaleb_compare(a, b); }

/* The names of the whole set, without pixels. */
static yaleb_store whole_set(void) {
    yaleb_store store = {.n = 28 * 9 * 64, .size = 8};
    store.names = test_memory((size_t)store.n * sizeof *store.names);
    int64_t n = 0;
    for (int64_t i = 0; i < 28; i++) {
        for (int pose = 0; pose < 9; pose++) {
            for (int l = 0; l < 64; l++)
                store.names[n++] =
                    (yaleb_name){faces_numbers[i], pose, faces_lights[l].azimuth, faces_lights[l].elevation};
        }
    }
    qsort(store.names, (size_t)n, sizeof *store.names, by_name);
    return store;
}

static yaleb_task task_of(const yaleb_store *store, uint64_t seed) {
    yaleb_task_options options;
    yaleb_task task;
    yaleb_task_options_init(&options);
    options.seed = seed;
    train_ok(yaleb_task_make(store, &options, &task));
    return task;
}

static int pose_of(const image_part *part, int64_t i) { return (int)lround(9.0 * part->y[i]); }

static void splits_are_by_identity(void **state) {
    (void)state;
    yaleb_store store = whole_set();
    yaleb_task task = task_of(&store, 3);
    int seen[100][IMAGE_PARTS] = {{0}};
    for (int p = 0; p < IMAGE_PARTS; p++) {
        const image_part *part = &task.parts[p];
        assert_true(part->n > 0);
        for (int64_t i = 0; i < part->n; i++) {
            seen[store.names[part->stored[i]].identity][p]++;
            assert_true((float)part->y[i] == part->target[i]);
            assert_near(part->z[i] * 130.0, store.names[part->stored[i]].azimuth, 1e-12, 130.0);
        }
    }
    int people[3] = {0};
    for (int k = 0; k < 28; k++) {
        const int *s = seen[faces_numbers[k]];
        assert_int_equal((s[IMAGE_OOD_TRAIN] > 0) + (s[IMAGE_OOD_VALIDATION] > 0) + (s[IMAGE_OOD_TEST] > 0), 1);
        for (int p = 0; p < 3; p++) {
            assert_true((s[p] > 0) <= (s[IMAGE_OOD_TRAIN + p] > 0));
            people[p] += s[IMAGE_OOD_TRAIN + p] > 0;
        }
        assert_true((s[IMAGE_HOLDOUT] > 0) <= (s[IMAGE_OOD_TRAIN] > 0));
    }
    assert_true(people[0] == 22 && people[1] == 3 && people[2] == 3);
    assert_int_equal(task.parts[IMAGE_OOD_TRAIN].n, 22 * 576 - 1267); /* the paper's holdout */
    assert_int_equal(task.parts[IMAGE_OOD_TEST].n, 3 * 576);
    /* A tenth of what is in-domain, within 5 deviations of a hypergeometric draw. */
    double holdout = (double)task.parts[IMAGE_HOLDOUT].n, inside = holdout + (double)task.parts[IMAGE_TRAIN].n;
    assert_near(holdout, 0.1 * inside, 5.0 * sqrt(0.09 * inside), 1.0);
    yaleb_task again = task_of(&store, 3), other = task_of(&store, 4);
    assert_memory_equal(again.parts[0].stored, task.parts[0].stored, (size_t)task.parts[0].n * sizeof(int32_t));
    assert_true(other.parts[0].n != task.parts[0].n ||
                memcmp(other.parts[0].stored, task.parts[0].stored, (size_t)task.parts[0].n * sizeof(int32_t)) != 0);
    yaleb_task_free(&task);
    yaleb_task_free(&again);
    yaleb_task_free(&other);
}

/* Chosen by hand from the definition: a = 0.5 (azimuth/130 + 1) 9. */
static void the_cone(void **state) {
    (void)state;
    static const struct {
        int pose, azimuth;
        bool plus, minus;
    } cases[] = {
        {0, -130, true, true},  /* a = 0 */
        {0, -110, true, true},  /* 0.69 */
        {0, -95, false, false}, /* 1.21 */
        {4, -35, true, false},  /* 3.29; branches 2.89 and 1.11 */
        {4, -85, false, true},  /* 1.56 */
        {4, -70, true, true},   /* 2.08, within 1 of both */
        {8, 110, true, false},  /* 8.31; 7.56 and 0.44 */
        {8, -110, false, true}, /* 0.69 */
        {8, 0, false, false},   /* 4.5 */
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        yaleb_name name = {11, cases[i].pose, cases[i].azimuth, 0};
        assert_int_equal(yaleb_in_domain(&name, 1), cases[i].plus);
        assert_int_equal(yaleb_in_domain(&name, -1), cases[i].minus);
    }
}

/* Pictures on one branch only are kept half of the time, those on both always, the others never. */
static void in_domain_is_sampled(void **state) {
    (void)state;
    enum { SEEDS = 8 };
    yaleb_store store = whole_set();
    int32_t *kept = test_memory((size_t)(9 * 261 * 131) * sizeof *kept); /* by pose, azimuth + 130, elevation + 40 */
    int64_t points = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        yaleb_task task = task_of(&store, seed);
        for (int p = IMAGE_TRAIN; p <= IMAGE_HOLDOUT; p++) {
            for (int64_t i = 0; i < task.parts[p].n; i++, points++) {
                const yaleb_name *n = &store.names[task.parts[p].stored[i]];
                kept[(pose_of(&task.parts[p], i) * 261 + n->azimuth + 130) * 131 + n->elevation + 40]++;
            }
        }
        yaleb_task_free(&task);
    }
    double chi2 = 0.0, cells = 0.0;
    for (int64_t i = 0; i < 9 * 64; i++) { /* the first person's pictures are the cells */
        const yaleb_name *n = &store.names[i];
        double count = kept[(n->pose * 261 + n->azimuth + 130) * 131 + n->elevation + 40], all = 28.0 * SEEDS;
        int branches = yaleb_in_domain(n, 1) + yaleb_in_domain(n, -1);
        if (branches != 1) {
            assert_true(count == all * (branches / 2));
        } else {
            chi2 += pow(count - 0.5 * all, 2.0) / (0.25 * all);
            cells++;
        }
    }
    assert_true(cells > 80 && points > 2000 * SEEDS);
    assert_near(chi2, cells, 3.9 * sqrt(2.0 * cells), 1.0);
}

/* The shown pose less the pose, from the middle one: int(N(0, 4)), and none where it would leave the nine. */
static void pose_noise_is_sampled(void **state) {
    (void)state;
    yaleb_store store = whole_set();
    double counts[9] = {0}, total = 0.0, chi2 = 0.0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        yaleb_task task = task_of(&store, seed);
        for (int p = IMAGE_OOD_TRAIN; p <= IMAGE_OOD_TEST; p++) {
            for (int64_t i = 0; i < task.parts[p].n; i++) {
                if (pose_of(&task.parts[p], i) != 4) continue;
                counts[store.names[task.parts[p].stored[i]].pose]++;
                total++;
            }
        }
        yaleb_task_free(&task);
    }
    for (int pose = 0; pose < 9; pose++) {
        double shift = abs(pose - 4), upper = 0.5 * erfc((shift + 1) / 2 * M_SQRT1_2),
               share =
                   shift > 0 ? 0.5 * erfc(shift / 2 * M_SQRT1_2) - upper : erf(0.5 * M_SQRT1_2) + erfc(2.5 * M_SQRT1_2);
        chi2 += pow(counts[pose] - share * total, 2.0) / (share * total);
    }
    assert_true(total > 6000);
    assert_true(chi2 < 31.8); /* 8 degrees of freedom, 1e-4 */
}

/* Every person is as likely as another to be tested: 3 of 28, over many seeds. */
static void people_are_sampled(void **state) {
    (void)state;
    enum { SEEDS = 200 };
    yaleb_store all = whole_set(), store = {.size = 8};
    store.names = test_memory(28 * sizeof *store.names);
    for (int64_t i = 0; i < 28; i++) store.names[store.n++] = all.names[i * 576];
    double tested[100] = {0}, chi2 = 0.0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        yaleb_task task = task_of(&store, seed);
        for (int64_t i = 0; i < task.parts[IMAGE_OOD_TEST].n; i++)
            tested[store.names[task.parts[IMAGE_OOD_TEST].stored[i]].identity]++;
        yaleb_task_free(&task);
    }
    double expected = SEEDS * 3.0 / 28.0, variance = expected * (1.0 - 3.0 / 28.0);
    for (int k = 0; k < 28; k++) chi2 += pow(tested[faces_numbers[k]] - expected, 2.0) / variance;
    assert_true(chi2 > 5.0 && chi2 < 62.5); /* 27 degrees of freedom, 1e-4 */
}

static void task_refusals(void **state) {
    (void)state;
    yaleb_store store = whole_set(), few = store, none = {0};
    yaleb_task_options options;
    yaleb_task task;
    yaleb_task_options_init(&options);
    few.n = 2 * 576;
    train_refused(yaleb_task_make(&few, &options, &task), CIRCE_ERR_ARGUMENT, "2 identities are too few");
    train_refused(yaleb_task_make(&none, &options, &task), CIRCE_ERR_ARGUMENT, "needs pictures");
    few.n = 3 * 576;
    train_ok(yaleb_task_make(&few, &options, &task));
    yaleb_task_free(&task);
    options.holdout = 1.0;
    train_refused(yaleb_task_make(&store, &options, &task), CIRCE_ERR_ARGUMENT, "not 0.1, 0.1 and 1");
    options.holdout = 0.0;
    options.pose_noise = NAN;
    train_refused(yaleb_task_make(&store, &options, &task), CIRCE_ERR_ARGUMENT, "0 or more, not nan");
}

/* ---- heads ---------------------------------------------------------------------------------------------------------
 */

enum { HIGH = 64, WIDE = 56 };

typedef struct shot {
    uint8_t pixels[HIGH * WIDE];
} shot;

static faces_model *model_of(const faces_head *head, int threads) {
    faces_model *model = NULL;
    train_ok(faces_model_make(test_context(threads), head, &model));
    return model;
}

static shot take_shot(const faces_model *model, int pose, int azimuth, int elevation, float sigma, uint64_t stream) {
    faces_view *view = NULL;
    shot s;
    assert_int_equal(faces_width(HIGH), WIDE);
    train_ok(faces_view_make(model, pose, HIGH, &view));
    train_ok(faces_shade(view, (faces_light){azimuth, elevation}, sigma, 1, stream, s.pixels));
    faces_view_free(view);
    return s;
}

/* The mean grey of rows and columns first .. last - 1. */
static double mean_grey(const shot *s, int top, int bottom, int left, int right) {
    double sum = 0.0;
    for (int r = top; r < bottom; r++) {
        for (int c = left; c < right; c++) sum += s->pixels[r * WIDE + c];
    }
    return sum / ((bottom - top) * (right - left));
}

static double mean_difference(const shot *a, const shot *b) {
    double sum = 0.0;
    for (int i = 0; i < HIGH * WIDE; i++) sum += fabs((double)a->pixels[i] - b->pixels[i]);
    return sum / (HIGH * WIDE);
}

static void light_has_sides(void **state) {
    (void)state;
    faces_head head;
    faces_head_init(&head);
    faces_model *model = model_of(&head, 0);
    shot left = take_shot(model, 0, 70, 0, 0, 0), right = take_shot(model, 0, -70, 0, 0, 0);
    assert_true(mean_grey(&left, 0, HIGH, 0, WIDE / 2) > 1.8 * mean_grey(&left, 0, HIGH, WIDE / 2, WIDE));
    assert_true(mean_grey(&right, 0, HIGH, WIDE / 2, WIDE) > 1.8 * mean_grey(&right, 0, HIGH, 0, WIDE / 2));
    /* From above and from below: the forehead, and the throat under the chin. */
    shot above = take_shot(model, 0, 0, 45, 0, 0), below = take_shot(model, 0, 0, -35, 0, 0);
    shot ahead = take_shot(model, 0, 0, 0, 0, 0), behind = take_shot(model, 0, 130, 20, 0, 0);
    assert_true(mean_grey(&above, 15, 19, 22, 34) > mean_grey(&below, 15, 19, 22, 34));
    /* The throat looks ahead: an attached shadow cannot be there, only the chin's. */
    assert_true(mean_grey(&above, 59, 62, 26, 30) < 0.4 * mean_grey(&ahead, 59, 62, 26, 30));
    assert_true(mean_grey(&behind, 0, HIGH, 0, WIDE) < 0.35 * mean_grey(&ahead, 0, HIGH, 0, WIDE));
    faces_model_free(model);
}

/* A head that is the same on both sides, under mirrored lamps. */
static void mirrored_light_is_mirrored(void **state) {
    (void)state;
    static const faces_light lamps[] = {{35, 15}, {70, 45}, {110, -20}};
    faces_head head;
    faces_head_init(&head);
    faces_model *model = model_of(&head, 0);
    for (int64_t k = 0; k < COUNT(lamps); k++) {
        shot a = take_shot(model, 0, lamps[k].azimuth, lamps[k].elevation, 0, 0),
             b = take_shot(model, 0, -lamps[k].azimuth, lamps[k].elevation, 0, 0);
        int off = 0;
        for (int i = 0; i < HIGH * WIDE; i++) {
            int row = i / WIDE, col = i % WIDE;
            off += abs(a.pixels[i] - b.pixels[row * WIDE + WIDE - 1 - col]) > 2;
        }
        assert_true(off <= HIGH * WIDE / 100);
        assert_true(mean_difference(&a, &b) > 10.0); /* and not the same */
    }
    faces_model_free(model);
}

static void poses_and_people_differ(void **state) {
    (void)state;
    shot poses[FACES_POSES], people[4];
    faces_head head;
    faces_head_draw(0, 5, &head);
    faces_model *model = model_of(&head, 0);
    for (int p = 0; p < FACES_POSES; p++) poses[p] = take_shot(model, p, 0, 20, 0, 0);
    faces_model_free(model);
    for (int i = 0; i < FACES_POSES; i++) {
        for (int j = 0; j < i; j++) assert_true(mean_difference(&poses[i], &poses[j]) > 2.0);
    }
    for (int k = 0; k < 4; k++) {
        faces_head_draw(0, k, &head);
        model = model_of(&head, 0);
        people[k] = take_shot(model, 0, 0, 20, 0, 0);
        faces_model_free(model);
        for (int j = 0; j < k; j++) assert_true(mean_difference(&people[k], &people[j]) > 4.0);
    }
}

static void noise_is_that_of_a_sensor(void **state) {
    (void)state;
    faces_head head;
    faces_head_init(&head);
    faces_model *one = model_of(&head, 1), *two = model_of(&head, 2);
    shot clean = take_shot(one, 2, 35, 15, 0, 0), a = take_shot(one, 2, 35, 15, 1.5f, 7),
         b = take_shot(two, 2, 35, 15, 1.5f, 7), c = take_shot(one, 2, 35, 15, 1.5f, 8);
    assert_memory_equal(&a, &b, sizeof a); /* whatever the threads */
    assert_true(mean_difference(&a, &c) > 0.5);
    double sum = 0.0, n = 0.0;
    for (int i = 0; i < HIGH * WIDE; i++) {
        if (clean.pixels[i] < 10 || clean.pixels[i] > 245) continue;
        sum += pow((double)a.pixels[i] - clean.pixels[i], 2.0);
        n++;
    }
    /* 1.5^2 and the rounding of two pictures, 2/12; 5 deviations of the mean of n squares. */
    assert_near(sum / n, 2.25 + 2.0 / 12.0, 5.0 * sqrt(2.0 / n), 2.42);
    faces_model_free(one);
    faces_model_free(two);
}

/* ---- the set in a folder -------------------------------------------------------------------------------------------
 */

static faces_options small_set(int64_t identities) {
    faces_options options;
    faces_options_init(&options);
    options.identities = identities;
    options.height = 24;
    options.seed = 5;
    return options;
}

static int64_t entries(const char *folder) {
    DIR *directory = opendir(folder);
    int64_t n = 0;
    if (directory == NULL) return -1;
    for (struct dirent *e; (e = readdir(directory)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(directory);
    return n;
}

/* The last picture of the second person is that head, in that pose, under that lamp, with noise of its own. */
static void check_one_picture(const faces_options *options) {
    image_picture p;
    faces_head head;
    faces_view *view = NULL;
    uint8_t pixels[24 * 21];
    faces_head_draw(options->seed, 1, &head);
    faces_model *model = model_of(&head, 1);
    train_ok(faces_view_make(model, 8, 24, &view));
    train_ok(faces_shade(view, faces_lights[63], 1.5f, options->seed, (9 + 8) * 64 + 63, pixels));
    assert_true(faces_lights[63].azimuth == -130 && faces_lights[63].elevation == 20);
    train_ok(image_picture_read(test_path("faces/yaleB12/yaleB12_P08A-130E+20.pgm"), &p));
    assert_memory_equal(p.pixels, pixels, sizeof pixels);
    image_picture_free(&p);
    faces_view_free(view);
    faces_model_free(model);
}

/* What is written and read again is what is rendered in memory. */
static void written_set_is_read_back(void **state) {
    (void)state;
    faces_options options = small_set(2);
    yaleb_store made, read;
    train_ok(faces_write(test_context(2), test_path("faces"), &options, false, NULL, NULL));
    assert_int_equal(entries(test_path("faces")), 2);
    assert_int_equal(entries(test_path("faces/yaleB11")), 576);
    assert_int_equal(access(test_path("faces/yaleB12/yaleB12_P08A-130E+20.pgm"), R_OK), 0);
    check_one_picture(&options);
    train_ok(yaleb_read(test_context(2), test_path("faces"), 20, NULL, NULL, &read));
    train_ok(yaleb_render(test_context(2), &options, 20, NULL, NULL, &made));
    assert_true(made.n == 1152 && read.n == 1152);
    for (int64_t i = 0; i < made.n; i++) assert_int_equal(yaleb_compare(&made.names[i], &read.names[i]), 0);
    assert_memory_equal(made.pixels, read.pixels, (size_t)(made.n * 400));
    yaleb_store_free(&made);
    yaleb_store_free(&read);
}

static void folders_are_not_overwritten(void **state) {
    (void)state;
    faces_options options = small_set(1);
    int calls = 0;
    train_refused(faces_write(test_context(2), test_path("faces"), &options, false, stop, &calls), CIRCE_ERR_CANCELLED,
                  "interrupted");
    assert_int_equal(entries(test_path("faces")), -1); /* nothing is left */
    make_folder("faces");
    write_file(test_path("faces/notes"), "mine", 4);
    train_refused(faces_write(test_context(2), test_path("faces"), &options, false, NULL, NULL), CIRCE_ERR_ARGUMENT,
                  "faces: the folder is not empty (it contains notes)");
    calls = 0;
    train_refused(faces_write(test_context(2), test_path("faces"), &options, true, stop, &calls), CIRCE_ERR_CANCELLED,
                  "interrupted");
    assert_int_equal(entries(test_path("faces")), 1);
    make_folder("faces/yaleB11");
    put_picture("faces/yaleB11/yaleB11_P00A+000E+00.pgm", 9); /* to be replaced */
    train_ok(faces_write(test_context(2), test_path("faces"), &options, true, NULL, NULL));
    assert_int_equal(entries(test_path("faces")), 2);
    assert_int_equal(entries(test_path("faces/yaleB11")), 576);
    image_picture p;
    train_ok(image_picture_read(test_path("faces/yaleB11/yaleB11_P00A+000E+00.pgm"), &p));
    assert_true(p.width == 21 && p.height == 24);
    image_picture_free(&p);
    train_refused(faces_write(test_context(2), test_path("no/such/place"), &options, false, NULL, NULL),
                  CIRCE_ERR_WRITE, "no/such/place: cannot be written: No such file");
    train_refused(faces_write(test_context(2), test_path("faces/notes"), &options, false, NULL, NULL), CIRCE_ERR_WRITE,
                  "Not a directory");
    options.identities = 29;
    train_refused(faces_write(test_context(2), test_path("more"), &options, false, NULL, NULL), CIRCE_ERR_ARGUMENT,
                  "identities must be 1 to 28");
    options.identities = 1;
    options.height = 15;
    train_refused(faces_write(test_context(2), test_path("more"), &options, false, NULL, NULL), CIRCE_ERR_ARGUMENT,
                  "16 to 1024");
}

TEST_MAIN("faces", TEST(pgm_round_trip), TEST(pgm_forms), TEST(pgm_refusals), TEST(png_round_trip), TEST(png_refusals),
          TEST(jpeg_pixels), TEST(jpeg_refusals), TEST(resizing), TEST(names), TEST(rig), TEST(folder_is_read),
          TEST(folder_refusals), TEST(splits_are_by_identity), TEST(the_cone), TEST(in_domain_is_sampled),
          TEST(pose_noise_is_sampled), TEST(people_are_sampled), TEST(task_refusals), TEST(light_has_sides),
          TEST(mirrored_light_is_mirrored), TEST(poses_and_people_differ), TEST(noise_is_that_of_a_sensor),
          TEST(written_set_is_read_back), TEST(folders_are_not_overwritten))
