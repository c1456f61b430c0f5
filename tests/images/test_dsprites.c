/* dSprites: the renderer against real frames, against an inside test of single pixels and against smooth outlines; the
 * published file, written, read and refused; the tasks' points against the distributions that they are said to have.
 *
 * Real frames are found through the environment variable CIRCE_DATA. Chi-square statistics are of fixed seeds and must
 * lie below the quantile of 4 standard deviations (a chance of 3e-5), by Wilson and Hilferty's approximation. */
#include "tests/train/train_support.h"

#include <unistd.h>
#include <zip.h>

#include "circe/status.h"
#include "images/dsprites.h"
#include "images/dsprites_task.h"
#include "io/io.h"

enum { SIDE = DSPRITES_SIDE, PIXELS = SIDE * SIDE };

static int pixel(const uint8_t *bits, int row, int column) {
    return bits[row * SIDE / 8 + column / 8] >> (7 - column % 8) & 1;
}

/* A picture by its number, from a stream of the test's own. */
static int64_t random_image(uint64_t stream, int64_t i) {
    double u;
    circe_random_uniform((circe_random){.seed = 99, .stream = stream}, (uint64_t)i, 1, &u);
    return (int64_t)(u * DSPRITES_IMAGES);
}

static bool same_latents(const dsprites_latents *a, const dsprites_latents *b) {
    return a->shape == b->shape && a->scale == b->scale && a->orientation == b->orientation && a->x == b->x &&
           a->y == b->y;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void order_of_images(void **state) {
    (void)state;
    dsprites_latents expected = {0};
    for (int64_t image = 0; image < DSPRITES_IMAGES; image++) { /* counts up, the last latent fastest */
        dsprites_latents latents = dsprites_latents_of(image);
        assert_true(same_latents(&latents, &expected));
        assert_int_equal(dsprites_number_of(&latents), image);
        if (++expected.y == 32) expected.y = 0, expected.x++;
        if (expected.x == 32) expected.x = 0, expected.orientation++;
        if (expected.orientation == 40) expected.orientation = 0, expected.scale++;
        if (expected.scale == 6) expected.scale = 0, expected.shape++;
    }
    assert_int_equal(expected.shape, 3);
}

/* Equal steps are good to some 2 in 10^16. */
static void values_of_latents(void **state) {
    (void)state;
    const dsprites_latents middle = {1, 3, 13, 10, 20}, last = {2, 5, 39, 31, 31};
    const double between[] = {1, 2, 0.8, 26 * acos(-1.0) / 39, 10 / 31.0, 20 / 31.0};
    const double end[] = {1, 3, 1, 2 * acos(-1.0), 1, 1};
    double values[DSPRITES_LATENTS];
    dsprites_values_of(&middle, values);
    for (int k = 0; k < DSPRITES_LATENTS; k++) assert_near(values[k], between[k], 4e-16, between[k]);
    dsprites_values_of(&last, values);
    assert_memory_equal(values, end, sizeof end);
}

/* ---- pixels ------------------------------------------------------------------------------------------------------ */

static void real_frames(void **state) {
    (void)state;
    const char *folder = getenv("CIRCE_DATA");
    char path[2][4096];
    io_table frames, latents;
    if (folder == NULL) test_skip("CIRCE_DATA does not name the folder of the real data");
    snprintf(path[0], sizeof path[0], "%s/dsprites/frames.npy", folder);
    snprintf(path[1], sizeof path[1], "%s/dsprites/latents.npy", folder);
    if (access(path[0], R_OK) != 0) test_skip("there is no %s", path[0]);
    assert_int_equal(io_read(path[0], NULL, &frames), CIRCE_OK);
    assert_int_equal(io_read(path[1], NULL, &latents), CIRCE_OK);
    assert_int_equal(frames.values.cols, DSPRITES_BYTES);
    int64_t n_different = 0, n = frames.values.rows;
    for (int64_t i = 0; i < n; i++) {
        dsprites_latents l = {(int)test_at(&latents.values, i, 0), (int)test_at(&latents.values, i, 1),
                              (int)test_at(&latents.values, i, 2), (int)test_at(&latents.values, i, 3),
                              (int)test_at(&latents.values, i, 4)};
        uint8_t bits[DSPRITES_BYTES];
        bool same = true;
        dsprites_render(&l, bits);
        for (int k = 0; k < DSPRITES_BYTES; k++) same = same && bits[k] == (uint8_t)test_at(&frames.values, i, k);
        if (!same)
            print_error("shape %d scale %d orientation %d at %d, %d\n", l.shape, l.scale, l.orientation, l.x, l.y);
        n_different += !same;
    }
    print_message("%lld real frames\n", (long long)n);
    io_table_free(&frames);
    io_table_free(&latents);
    assert_true(n > 100);
    assert_int_equal(n_different, 0);
}

/* The corners of a picture's sprite in 1/256 of a pixel, written out once more; returns how many. */
static int corners(const dsprites_latents *l, int64_t corner[][2]) {
    static const int numbers[] = {4, 100, 150};
    static const double square[4][2] = {{1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
    const double pi = acos(-1.0), angle = 2 * pi * l->orientation / 39, scale = (5 + l->scale) / 10.0;
    for (int k = 0; k < numbers[l->shape]; k++) {
        double t = 2 * pi * k / numbers[l->shape], u, v;
        if (l->shape == DSPRITES_SQUARE) {
            u = square[k][0];
            v = square[k][1];
        } else if (l->shape == DSPRITES_ELLIPSE) {
            u = 1.33 * cos(t);
            v = sin(t) / 1.33;
        } else {
            u = pow(sin(t), 3);
            v = -(13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t)) / 14.5 - 0.15;
        }
        corner[k][0] = lround(256 * (16 + 32 * l->x / 31.0 + 9.6 * scale * (cos(angle) * u + sin(angle) * v)));
        corner[k][1] = lround(256 * (16 + 32 * l->y / 31.0 + 9.6 * scale * (cos(angle) * v - sin(angle) * u)));
    }
    return numbers[l->shape];
}

/* The winding number of the outline around a pixel's centre, by the sides of edges on which it lies. */
static int inside(int n, int64_t corner[][2], int row, int column) {
    int64_t x = 256 * column + 128, y = 256 * row + 128;
    int winding = 0;
    for (int k = 0; k < n; k++) {
        const int64_t *a = corner[k], *b = corner[(k + 1) % n];
        int64_t side = (b[0] - a[0]) * (y - a[1]) - (x - a[0]) * (b[1] - a[1]);
        if (a[1] <= y && b[1] > y && side <= 0) winding++; /* downwards, at or left of x */
        if (b[1] <= y && a[1] > y && side >= 0) winding--;
    }
    return winding != 0;
}

static void inside_of_outlines(void **state) {
    (void)state;
    enum { N = 1500 };
    for (int64_t i = 0; i < N; i++) {
        dsprites_latents l = dsprites_latents_of(random_image(1, i));
        if (i % 10 == 0) l.orientation = 0; /* edges along the rows */
        uint8_t bits[DSPRITES_BYTES];
        int64_t corner[150][2];
        int n = corners(&l, corner);
        dsprites_render(&l, bits);
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++)
                if (pixel(bits, row, column) != inside(n, corner, row, column))
                    fail_msg("shape %d scale %d orientation %d at %d, %d: row %d, column %d", l.shape, l.scale,
                             l.orientation, l.x, l.y, row, column);
    }
}

/* Whether sprite coordinates lie inside the smooth outline. The heart: with q = sin^2 t = (u / 9.6)^(2/3), the heights
 * of its two branches over u are -6 + 18 q - 8 q^2 +- (11 + 8 q) sqrt(1 - q). */
static bool inside_smooth(int shape, double u, double v) {
    if (shape == DSPRITES_SQUARE) return fabs(u) <= 9.6 && fabs(v) <= 9.6;
    if (shape == DSPRITES_ELLIPSE) return pow(u / 12.768, 2) + pow(v * 1.33 / 9.6, 2) <= 1;
    double q = cbrt(pow(u / 9.6, 2)), height = -14.5 * (v / 9.6 + 0.15);
    return q <= 1 && fabs(height + 6 - 18 * q + 8 * q * q) <= (11 + 8 * q) * sqrt(1 - q);
}

/* Chords lie within 0.0064 pixels of the curves and the rounding of corners moves them by 0.0028 at most, so that
 * pixels whose surroundings of 0.012 are on one side of the curve must be right. */
static void smooth_outlines(void **state) {
    (void)state;
    enum { N = 1500, AROUND = 8 };
    int64_t n_sure = 0;
    for (int64_t i = 0; i < N; i++) {
        dsprites_latents l = dsprites_latents_of(random_image(2, i));
        const double pi = acos(-1.0), angle = 2 * pi * l.orientation / 39, scale = (5 + l.scale) / 10.0;
        uint8_t bits[DSPRITES_BYTES];
        dsprites_render(&l, bits);
        for (int at = 0; at < PIXELS; at++) {
            int n_inside = 0;
            for (int k = 0; k < AROUND; k++) {
                double x = at % SIDE - 15.5 - 32 * l.x / 31.0 + 0.012 * cos(2 * pi * k / AROUND);
                double y = at / SIDE - 15.5 - 32 * l.y / 31.0 + 0.012 * sin(2 * pi * k / AROUND);
                if (x * x + y * y > 400) break; /* no sprite reaches as far */
                n_inside += inside_smooth(l.shape, (cos(angle) * x - sin(angle) * y) / scale,
                                          (sin(angle) * x + cos(angle) * y) / scale);
            }
            if (n_inside != 0 && n_inside != AROUND) continue;
            n_sure++;
            assert_int_equal(pixel(bits, at / SIDE, at % SIDE), n_inside == AROUND);
        }
    }
    assert_true(n_sure > N * PIXELS * 999LL / 1000); /* nearly all are tested */
}

/* Orientation 39 is a whole turn. */
static void whole_turn(void **state) {
    (void)state;
    for (int64_t i = 0; i < 200; i++) {
        dsprites_latents l = dsprites_latents_of(random_image(3, i));
        uint8_t upright[DSPRITES_BYTES], turned[DSPRITES_BYTES];
        l.orientation = 0;
        dsprites_render(&l, upright);
        l.orientation = 39;
        dsprites_render(&l, turned);
        assert_memory_equal(upright, turned, sizeof turned);
    }
}

static void many_at_once(void **state) {
    (void)state;
    enum { N = 3000 };
    uint8_t *all[2] = {NULL, NULL}, *some = test_memory((size_t)N * DSPRITES_BYTES), one[DSPRITES_BYTES];
    int32_t images[N];
    for (int i = 0; i < N; i++) images[i] = (int32_t)random_image(4, i);
    images[0] = 0;
    images[1] = DSPRITES_IMAGES - 1;
    for (int k = 0; k < 2; k++) train_ok(dsprites_make(test_context(1 + k), &all[k]));
    train_ok(dsprites_render_some(test_context(2), images, N, some));
    for (int i = 0; i < N; i++) {
        dsprites_latents l = dsprites_latents_of(images[i]);
        dsprites_render(&l, one);
        assert_memory_equal(some + (size_t)i * DSPRITES_BYTES, one, sizeof one);
        assert_memory_equal(all[0] + (size_t)images[i] * DSPRITES_BYTES, one, sizeof one);
    }
    int different = memcmp(all[0], all[1], (size_t)DSPRITES_IMAGES * DSPRITES_BYTES);
    free(all[0]);
    free(all[1]);
    assert_int_equal(different, 0);
    images[2] = DSPRITES_IMAGES;
    train_refused(dsprites_render_some(test_context(1), images, N, some), CIRCE_ERR_ARGUMENT, "737279");
    images[2] = -1;
    train_refused(dsprites_render_some(test_context(1), images, N, some), CIRCE_ERR_ARGUMENT, "picture -1");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct contents {
    uint8_t *data;
    size_t bytes;
} contents;

static contents read_whole(const char *path) {
    FILE *file = fopen(path, "rb");
    contents made = {0};
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    made.bytes = (size_t)ftell(file);
    rewind(file);
    made.data = test_memory(made.bytes + 1);
    assert_int_equal(fread(made.data, 1, made.bytes, file), made.bytes);
    fclose(file);
    return made;
}

static void write_whole(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

static void written_and_read(void **state) {
    (void)state;
    enum { N = 3072 };
    const char *path = test_path("sprites.npz"), *again = test_path("again.npz");
    uint8_t *bits = test_memory((size_t)N * DSPRITES_BYTES), one[DSPRITES_BYTES];
    train_ok(dsprites_write_first(test_context(2), path, N, NULL, NULL));
    train_ok(dsprites_write_first(test_context(1), again, N, NULL, NULL));
    contents file = read_whole(path), same = read_whole(again);
    assert_int_equal(file.bytes, same.bytes);
    assert_memory_equal(file.data, same.data, same.bytes);
    train_ok(dsprites_parse(file.data, file.bytes, "sprites.npz", N, bits));
    for (int64_t i = 0; i < N; i++) {
        dsprites_latents l = dsprites_latents_of(i);
        dsprites_render(&l, one);
        assert_memory_equal(bits + i * DSPRITES_BYTES, one, sizeof one);
    }
    train_refused(dsprites_parse(file.data, file.bytes, "sprites.npz", N - 1, bits), CIRCE_ERR_SHAPE,
                  "(3072, 64, 64); dSprites has (3071, 64, 64)");
    uint8_t *none;
    train_refused(dsprites_read(test_context(1), path, &none), CIRCE_ERR_SHAPE, "(737280, 64, 64)");
    assert_null(none);
}

/* By the reader of tables, which shares nothing with the writer. */
static void latents_as_tables(void **state) {
    (void)state;
    enum { N = 2048 };
    char source[2][4200];
    io_table classes, values;
    const char *path = test_path("sprites.npz");
    train_ok(dsprites_write_first(test_context(1), path, N, NULL, NULL));
    snprintf(source[0], sizeof source[0], "%s:latents_classes", path);
    snprintf(source[1], sizeof source[1], "%s:latents_values", path);
    assert_int_equal(io_read(source[0], NULL, &classes), CIRCE_OK);
    assert_int_equal(io_read(source[1], NULL, &values), CIRCE_OK);
    assert_true(classes.values.rows == N && classes.values.cols == 6 && values.values.rows == N);
    for (int64_t i = 0; i < N; i++) {
        dsprites_latents l = dsprites_latents_of(i);
        const double expected[] = {0, l.shape, l.scale, l.orientation, l.x, l.y};
        double also[DSPRITES_LATENTS];
        dsprites_values_of(&l, also);
        for (int k = 0; k < 6; k++) {
            assert_true(test_at(&classes.values, i, k) == expected[k]);
            assert_true(test_at(&values.values, i, k) == also[k]);
        }
    }
    io_table_free(&classes);
    io_table_free(&values);
}

/* The first python3, or the system's, where it has NumPy. */
static const char *python_with_numpy(void) {
    static const char *const pythons[] = {"python3", "/usr/bin/python3"};
    for (int64_t i = 0; i < COUNT(pythons); i++) {
        char command[200];
        snprintf(command, sizeof command, "%s -c 'import numpy' 2>/dev/null", pythons[i]);
        if (system(command) == 0) return pythons[i];
    }
    return NULL;
}

static void loaded_by_numpy(void **state) {
    (void)state;
    char command[8192];
    const char *path = test_path("sprites.npz"), *python = python_with_numpy();
    if (python == NULL) test_skip("python3 has no NumPy");
    train_ok(dsprites_write_first(test_context(1), path, 2048, NULL, NULL));
    snprintf(command, sizeof command,
             "%s -c 'import numpy as n; f = n.load(\"%s\"); i = f[\"imgs\"]; c = f[\"latents_classes\"]; "
             "v = f[\"latents_values\"]; assert i.shape == (2048, 64, 64) and i.dtype == n.uint8 and i.max() == 1; "
             "assert c.dtype == n.int64 and c[2047].tolist() == [0, 0, 0, 1, 31, 31]; "
             "assert v.dtype == n.float64 and v[33, 4] == n.linspace(0, 1, 32)[1]'",
             python, path);
    assert_int_equal(system(command), 0);
}

static int stop_at(void *user, const char *stage, int64_t done, int64_t total) {
    int64_t *most = user;
    (void)stage;
    (void)total;
    if (done > most[1]) most[1] = done;
    return done >= most[0];
}

static void writing_stopped(void **state) {
    (void)state;
    int64_t limit[2] = {2048, 0}, never[2] = {INT64_MAX, 0};
    const char *path = test_path("kept.npz"), *nowhere = test_path("none/sprites.npz");
    char list[4200];
    write_whole(path, "before", 6);
    train_refused(dsprites_write_first(test_context(1), path, 4096, stop_at, limit), CIRCE_ERR_CANCELLED, "kept.npz");
    assert_int_equal(limit[1], 2048);
    contents kept = read_whole(path);
    assert_true(kept.bytes == 6 && memcmp(kept.data, "before", 6) == 0);
    /* Nothing else is left in the folder. */
    snprintf(list, sizeof list, "test \"$(ls -A '%s')\" = kept.npz", test_directory());
    assert_int_equal(system(list), 0);
    train_ok(dsprites_write_first(test_context(1), path, 2048, stop_at, never));
    assert_int_equal(never[1], 2048);
    train_refused(dsprites_write_first(test_context(1), nowhere, 1024, NULL, NULL), CIRCE_ERR_WRITE, "No such file");
    train_refused(dsprites_write_first(test_context(1), "/dev/full", 1024, NULL, NULL), CIRCE_ERR_WRITE, "No space");
    train_refused(dsprites_write_first(test_context(1), path, 1000, NULL, NULL), CIRCE_ERR_ARGUMENT, "1000 pictures");
}

/* An .npz of one member: an .npy header of 128 bytes with this descr and shape, and then bytes. */
static contents make_npz(zip_int32_t method, const char *member, const char *descr, const char *order,
                         const char *shape, const uint8_t *bytes, size_t n) {
    const char *path = test_path("made.npz");
    uint8_t *data = test_memory(n + 128);
    int length =
        snprintf((char *)data + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape);
    memset(data + 10 + length, ' ', (size_t)(118 - length));
    memcpy(data, "\x93NUMPY\x01\x00\x76\x00", 10);
    data[127] = '\n';
    if (n > 0) memcpy(data + 128, bytes, n);
    unlink(path);
    zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
    assert_non_null(archive);
    assert_int_equal(zip_file_add(archive, member, zip_source_buffer(archive, data, n + 128, 0), 0), 0);
    assert_int_equal(zip_set_file_compression(archive, 0, method, 0), 0);
    assert_int_equal(zip_close(archive), 0);
    return read_whole(path);
}

static void bad_files(void **state) {
    (void)state;
    uint8_t pixels[2 * PIXELS + 1] = {0}, bits[2 * DSPRITES_BYTES], *none;
    pixels[0] = pixels[7] = pixels[8] = pixels[2 * PIXELS - 1] = 1;
    contents c = make_npz(ZIP_CM_DEFLATE, "imgs.npy", "|u1", "False", "(2, 64, 64)", pixels, 2 * PIXELS);
    train_ok(dsprites_parse(c.data, c.bytes, "f", 2, bits));
    assert_true(bits[0] == 0x81 && bits[1] == 0x80 && bits[2] == 0 && bits[2 * DSPRITES_BYTES - 1] == 1);
    for (size_t cut = 0; cut < c.bytes; cut++)
        train_refused(dsprites_parse(c.data, cut, "f", 2, bits), CIRCE_ERR_FORMAT, "f: ");
    contents damaged = {test_memory(c.bytes), c.bytes};
    for (int at = 45; at < 100; at++) { /* within the deflated data */
        memcpy(damaged.data, c.data, c.bytes);
        damaged.data[at] ^= 0x55;
        assert_true(dsprites_parse(damaged.data, damaged.bytes, "f", 2, bits) != CIRCE_OK);
    }
    /* A pixel that is wrong, and could be right: only the checksum tells. */
    c = make_npz(ZIP_CM_STORE, "imgs.npy", "|u1", "False", "(2, 64, 64)", pixels, 2 * PIXELS);
    train_ok(dsprites_parse(c.data, c.bytes, "f", 2, bits));
    size_t data_at = 30 + (size_t)c.data[26] + (size_t)c.data[28]; /* behind the name and the extra field */
    assert_int_equal(c.data[data_at], 0x93);
    c.data[data_at + 128 + 100] ^= 1;
    train_refused(dsprites_parse(c.data, c.bytes, "f", 2, bits), CIRCE_ERR_FORMAT, "damaged");
    pixels[PIXELS + 65] = 2;
    c = make_npz(ZIP_CM_DEFLATE, "imgs.npy", "|u1", "False", "(2, 64, 64)", pixels, 2 * PIXELS);
    train_refused(dsprites_parse(c.data, c.bytes, "f", 2, bits), CIRCE_ERR_VALUE,
                  "contains 2 in picture 1, row 1, column 1");
    pixels[PIXELS + 65] = 0;
    static const struct {
        const char *member, *descr, *order, *shape, *text;
        size_t n;
        circe_status status;
    } cases[] = {
        {"images.npy", "|u1", "False", "(2, 64, 64)", "it has 'images'", 2 * PIXELS, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|i1", "False", "(2, 64, 64)", "dtype uint8", 2 * PIXELS, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|b1", "False", "(2, 64, 64)", "dtype uint8", 2 * PIXELS, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|u1", "True", "(2, 64, 64)", "Fortran", 2 * PIXELS, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|u1", "False", "(2, 32, 128)", "shape (2, 32, 128)", 2 * PIXELS, CIRCE_ERR_SHAPE},
        {"imgs.npy", "|u1", "False", "(2, 32, 64)", "shape (2, 32, 64)", PIXELS, CIRCE_ERR_SHAPE},
        {"imgs.npy", "|u1", "False", "(2, 64, 64, 1)", "(2, 64, 64, 1)", 2 * PIXELS, CIRCE_ERR_SHAPE},
        {"imgs.npy", "|u1", "False", "(1, 64, 64)", "(1, 64, 64); dSprites has (2, 64, 64)", PIXELS, CIRCE_ERR_SHAPE},
        {"imgs.npy", "|u1", "False", "(2, 64, 64)", "damaged", 2 * PIXELS - 1, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|u1", "False", "(2, 64, 64)", "damaged", 2 * PIXELS + 1, CIRCE_ERR_FORMAT},
        {"imgs.npy", "|u1", "False", "2, 64, 64", "header is damaged", 2 * PIXELS, CIRCE_ERR_FORMAT},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        c = make_npz(ZIP_CM_DEFLATE, cases[i].member, cases[i].descr, cases[i].order, cases[i].shape, pixels,
                     cases[i].n);
        train_refused(dsprites_parse(c.data, c.bytes, "f", 2, bits), cases[i].status, cases[i].text);
    }
    const char *path = test_path("text.npz");
    write_whole(path, "this is no archive at all", 25);
    train_refused(dsprites_read(test_context(1), path, &none), CIRCE_ERR_FORMAT, "text.npz: it cannot be read as .npz");
    write_whole(path, "", 0);
    train_refused(dsprites_read(test_context(1), path, &none), CIRCE_ERR_FORMAT, "empty");
    train_refused(dsprites_read(test_context(1), test_path("absent.npz"), &none), CIRCE_ERR_IO, "No such file");
    train_refused(dsprites_read(test_context(1), test_directory(), &none), CIRCE_ERR_IO, "directory");
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static const dsprites_dependence dependences[] = {DSPRITES_LINEAR, DSPRITES_NONLINEAR, DSPRITES_YCONE};

static dsprites_task make_task(dsprites_dependence dependence, uint64_t seed, int64_t n_train, bool ablation) {
    dsprites_task_options options;
    dsprites_task task;
    dsprites_task_options_init(&options);
    options.dependence = dependence;
    options.seed = seed;
    options.holdout_in_training = ablation;
    if (n_train > 0) {
        options.n_train = n_train;
        options.n_validation = options.n_test = n_train / 8;
        options.n_holdout = n_train / 10;
    }
    train_ok(dsprites_task_make(test_context(2), &options, &task));
    return task;
}

static double chi_square_limit(int64_t freedom) {
    double v = 2.0 / (9.0 * (double)freedom);
    return (double)freedom * pow(1.0 - v + 4.0 * sqrt(v), 3);
}

/* counts (n) against probabilities (n) that sum to 1; cells that expect less than 5 are taken together. */
static void check_counts(const int64_t *counts, const double *probabilities, int64_t n, const char *what, int line) {
    double total = 0.0, sum = 0.0, rest_counted = 0.0, rest_expected = 0.0;
    int64_t cells = 0;
    for (int64_t i = 0; i < n; i++) total += (double)counts[i];
    for (int64_t i = 0; i < n; i++) {
        double expected = total * probabilities[i], difference = (double)counts[i] - expected;
        if (expected < 5.0) {
            rest_counted += (double)counts[i];
            rest_expected += expected;
            continue;
        }
        sum += difference * difference / expected;
        cells++;
    }
    if (rest_expected >= 1.0) {
        sum += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
        cells++;
    } else if (rest_counted > 8.0) {
        fail_msg("line %d: %s: %g where %g are expected", line, what, rest_counted, rest_expected);
    }
    if (cells < 2 ? total > 0 && sum > 1e-9 : sum > chi_square_limit(cells - 1))
        fail_msg("line %d: %s: chi-square %.1f with %lld degrees of freedom", line, what, sum, (long long)cells - 1);
}
#define assert_counts(counts, probabilities, n) check_counts(counts, probabilities, n, #counts, __LINE__)

/* P(round(deviation * N) <= k). */
static double rounded_below(double k, double deviation) { return 0.5 * erfc(-(k + 0.5) / deviation / sqrt(2.0)); }

/* P(posX | posY) in domain. */
static void law_of_x(dsprites_dependence dependence, int y, double *law) {
    memset(law, 0, 32 * sizeof *law);
    if (dependence == DSPRITES_LINEAR) {
        for (int x = 0; x < 32; x++) {
            double below = x == 0 ? 0.0 : rounded_below(x - 1 - y, 1.0),
                   upto = x == 31 ? 1.0 : rounded_below(x - y, 1.0);
            law[x] = upto - below;
        }
    } else if (dependence == DSPRITES_NONLINEAR) {
        for (int k = 0; k < 4 && y + k < 32; k++) law[y + k] = 1.0 / fmin(4.0, 32.0 - y);
    } else {
        law[lround(y / 2.0 + y * y / 64.0)] += 0.5;
        law[lround(y / 2.0 - y * y / 64.0)] += 0.5;
    }
}

static void in_domain(void **state) {
    (void)state;
    for (int64_t d = 0; d < COUNT(dependences); d++) {
        dsprites_task task = make_task(dependences[d], 11, 0, false);
        const dsprites_part *part = &task.parts[IMAGE_TRAIN];
        static int64_t counts[32][32];
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < part->points.n; i++) {
            dsprites_latents base = dsprites_latents_of(part->base[i]), l = dsprites_latents_of(part->image[i]);
            counts[l.y][l.x]++;
            base.x = l.x;
            assert_true(same_latents(&base, &l)); /* nothing but posX was changed */
            assert_true(part->points.y[i] == l.y / 31.0 && part->points.target[i] == (float)(l.y / 31.0));
            double z = part->points.z[i];
            if (dependences[d] == DSPRITES_NONLINEAR)
                assert_int_equal(l.x, l.y + lround(z * z));
            else
                assert_true(z == l.x / 31.0);
        }
        for (int y = 0; y < 32; y++) {
            double law[32];
            law_of_x(dependences[d], y, law);
            assert_counts(counts[y], law, 32);
        }
        dsprites_task_free(&task);
    }
}

/* xi: 0 with probability 1/4, six other values with 1/8 each; at the edge, fewer of them. Either sign alike. */
static void signs_of_xi(void **state) {
    (void)state;
    dsprites_task task = make_task(DSPRITES_NONLINEAR, 12, 0, false);
    const dsprites_part *part = &task.parts[IMAGE_TRAIN];
    static int64_t counts[32][7];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < part->points.n; i++) {
        double z = part->points.z[i], k = round(z * z);
        assert_near(fabs(z), sqrt(k), 1e-15, 1.0);
        assert_true(z != 0.0 || !signbit(z));
        counts[part->base[i] % 32][(int)(z < 0 ? 3 - k : 3 + k)]++;
    }
    for (int y = 0; y < 32; y++) {
        double law[7] = {0}, share = 1.0 / fmin(4.0, 32.0 - y);
        for (int k = 0; k < 4 && y + k < 32; k++) law[3 - k] += share / 2.0, law[3 + k] += share / 2.0;
        assert_counts(counts[y], law, 7);
    }
    dsprites_task_free(&task);
}

/* The signs of the cone do not follow from anything else that a point shows. */
static void sides_of_the_cone(void **state) {
    (void)state;
    dsprites_task task = make_task(DSPRITES_YCONE, 12, 0, false);
    const dsprites_part *part = &task.parts[IMAGE_TRAIN];
    const double law[] = {.5, .5};
    static int64_t counts[18][2];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < part->points.n; i++) {
        dsprites_latents l = dsprites_latents_of(part->image[i]);
        if (l.y < 12) continue; /* near the tip both sides are the same class */
        counts[l.shape * 6 + l.scale][2 * l.x > l.y]++;
    }
    for (int k = 0; k < 18; k++) assert_counts(counts[k], law, 2);
    dsprites_task_free(&task);
}

static void out_of_domain(void **state) {
    (void)state;
    static const image_part_kind kinds[] = {IMAGE_OOD_TRAIN, IMAGE_OOD_VALIDATION, IMAGE_OOD_TEST};
    static const image_part_kind partners[] = {IMAGE_TRAIN, IMAGE_VALIDATION, IMAGE_TEST};
    static int64_t counts[1024];
    static double law[1024];
    for (int k = 0; k < 1024; k++) law[k] = 1 / 1024.0;
    for (int64_t d = 0; d < COUNT(dependences); d++) {
        dsprites_task task = make_task(dependences[d], 13, 56000, false);
        for (int64_t k = 0; k < COUNT(kinds); k++) {
            const dsprites_part *part = &task.parts[kinds[k]], *partner = &task.parts[partners[k]];
            int64_t n = part->points.n;
            memset(counts, 0, sizeof counts);
            assert_int_equal(n, partner->points.n);
            for (int64_t i = 0; i < n; i++) {
                dsprites_latents l = dsprites_latents_of(part->image[i]);
                counts[32 * l.x + l.y]++;
                assert_true(part->points.y[i] == l.y / 31.0 && part->points.target[i] == (float)(l.y / 31.0));
                if (dependences[d] == DSPRITES_NONLINEAR)
                    assert_true(isnan(part->points.z[i]));
                else
                    assert_true(part->points.z[i] == l.x / 31.0);
            }
            assert_counts(counts, law, 1024);
            assert_memory_equal(part->base, partner->base, (size_t)n * sizeof *part->base);
            assert_memory_equal(part->image, part->base, (size_t)n * sizeof *part->base);
            assert_memory_equal(part->points.shift, partner->points.shift, (size_t)n);
        }
        dsprites_task_free(&task);
    }
}

/* round(2 N(0, 2^2)): a deviation of 4 lines; independent of posY. */
static void shifts(void **state) {
    (void)state;
    enum { FAR = 40 };
    dsprites_task task = make_task(DSPRITES_LINEAR, 14, 0, false);
    const dsprites_part *part = &task.parts[IMAGE_TRAIN];
    static int64_t counts[5][2 * FAR + 1]; /* by posY, and of all */
    double law[2 * FAR + 1];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < part->points.n; i++) {
        assert_true(abs(part->points.shift[i]) <= FAR);
        counts[part->base[i] % 32 / 8][part->points.shift[i] + FAR]++;
        counts[4][part->points.shift[i] + FAR]++;
    }
    for (int s = -FAR; s <= FAR; s++) law[s + FAR] = rounded_below(s, 4.0) - rounded_below(s - 1, 4.0);
    for (int k = 0; k < 5; k++) assert_counts(counts[k], law, 2 * FAR + 1);
    /* Nor does it follow the noise of posX: their correlation has a standard error of 1 / sqrt(n). */
    double sum = 0.0, squares[2] = {0};
    for (int64_t i = 0; i < part->points.n; i++) {
        dsprites_latents l = dsprites_latents_of(part->image[i]);
        double noise = l.x - l.y, shift = part->points.shift[i];
        sum += noise * shift;
        squares[0] += noise * noise;
        squares[1] += shift * shift;
    }
    assert_near(sum / sqrt(squares[0] * squares[1]), 0.0, 4.0, 1.0 / sqrt((double)part->points.n));
    dsprites_task_free(&task);
}

static void splits(void **state) {
    (void)state;
    static const image_part_kind kinds[] = {IMAGE_TRAIN, IMAGE_HOLDOUT, IMAGE_VALIDATION, IMAGE_TEST};
    static const int64_t sizes[] = {583926, 5898, 73728, 73728};
    uint8_t *seen = test_memory(DSPRITES_IMAGES);
    dsprites_task task = make_task(DSPRITES_LINEAR, 15, 0, false);
    for (int64_t k = 0; k < COUNT(kinds); k++) {
        const dsprites_part *part = &task.parts[kinds[k]];
        int64_t counts[18] = {0};
        double law[18];
        assert_int_equal(part->points.n, sizes[k]);
        for (int64_t i = 0; i < part->points.n; i++) {
            assert_int_equal(seen[part->base[i]]++, 0);
            counts[part->base[i] / 40960]++;
        }
        for (int s = 0; s < 18; s++) law[s] = 1 / 18.0;
        assert_counts(counts, law, 18); /* each is a fair sample of shapes and scales */
    }
    for (int64_t image = 0; image < DSPRITES_IMAGES; image++) assert_int_equal(seen[image], 1);
    dsprites_task_free(&task);
}

static void same_bytes(const void *a, const void *b, int64_t n, size_t size) {
    if (n > 0) assert_memory_equal(a, b, (size_t)n * size);
}

/* The first points of b are a's. */
static void assert_begins(const dsprites_part *a, const dsprites_part *b) {
    int64_t n = a->points.n;
    assert_true(n <= b->points.n);
    same_bytes(a->base, b->base, n, sizeof *a->base);
    same_bytes(a->image, b->image, n, sizeof *a->image);
    same_bytes(a->points.stored, b->points.stored, n, sizeof *a->points.stored);
    same_bytes(a->points.shift, b->points.shift, n, 1);
    same_bytes(a->points.target, b->points.target, n, sizeof *a->points.target);
    same_bytes(a->points.y, b->points.y, n, sizeof *a->points.y);
    same_bytes(a->points.z, b->points.z, n, sizeof *a->points.z);
}

static void same_seed_same_points(void **state) {
    (void)state;
    dsprites_task small = make_task(DSPRITES_YCONE, 16, 800, false), again = make_task(DSPRITES_YCONE, 16, 800, false);
    dsprites_task larger = make_task(DSPRITES_YCONE, 16, 8000, false),
                  other = make_task(DSPRITES_YCONE, 17, 800, false);
    for (int k = 0; k < IMAGE_PARTS; k++) {
        assert_begins(&small.parts[k], &again.parts[k]);
        assert_begins(&small.parts[k], &larger.parts[k]);
        assert_true(memcmp(small.parts[k].base, other.parts[k].base, 80 * sizeof(int32_t)) != 0);
    }
    dsprites_task_free(&small);
    dsprites_task_free(&again);
    dsprites_task_free(&larger);
    dsprites_task_free(&other);
}

static void holdout_also_in_training(void **state) {
    (void)state;
    for (int64_t d = 0; d < COUNT(dependences); d++) {
        dsprites_task without = make_task(dependences[d], 18, 1000, false),
                      with = make_task(dependences[d], 18, 1000, true);
        const dsprites_part *train = &with.parts[IMAGE_TRAIN], *holdout = &with.parts[IMAGE_HOLDOUT];
        for (int k = 0; k < IMAGE_PARTS; k++) assert_begins(&without.parts[k], &with.parts[k]);
        assert_int_equal(train->points.n, 1100);
        assert_int_equal(with.parts[IMAGE_OOD_TRAIN].points.n, 1100);
        assert_int_equal(holdout->points.n, 100);
        dsprites_part last = *train;
        last.base += 1000, last.image += 1000, last.points.stored += 1000, last.points.shift += 1000;
        last.points.target += 1000, last.points.y += 1000, last.points.z += 1000, last.points.n = 100;
        assert_begins(holdout, &last);
        assert_memory_equal(with.parts[IMAGE_OOD_TRAIN].base, train->base, 1100 * sizeof *train->base);
        dsprites_task_free(&without);
        dsprites_task_free(&with);
    }
}

static void bad_tasks(void **state) {
    (void)state;
    dsprites_task_options options;
    dsprites_task task;
    dsprites_dependence found = DSPRITES_LINEAR;
    dsprites_task_options_init(&options);
    options.n_train = DSPRITES_MOST_TRAIN + 1;
    train_refused(dsprites_task_make(test_context(2), &options, &task), CIRCE_ERR_ARGUMENT, "583927 training");
    options.n_train = 0;
    train_refused(dsprites_task_make(test_context(2), &options, &task), CIRCE_ERR_ARGUMENT, "1 to 583926");
    options.n_train = 10;
    options.n_holdout = 5899;
    train_refused(dsprites_task_make(test_context(2), &options, &task), CIRCE_ERR_ARGUMENT, "holdout");
    options.n_holdout = 10;
    options.n_test = -1;
    train_refused(dsprites_task_make(test_context(2), &options, &task), CIRCE_ERR_ARGUMENT, "test");
    options.n_test = options.n_validation = 0; /* allowed: no such points */
    options.dependence = (dsprites_dependence)4;
    train_refused(dsprites_task_make(test_context(2), &options, &task), CIRCE_ERR_ARGUMENT,
                  "linear, nonlinear or ycone");
    assert_true(dsprites_find("nonlinear", &options.dependence) && options.dependence == DSPRITES_NONLINEAR);
    assert_string_equal(dsprites_name(options.dependence), "nonlinear");
    assert_false(dsprites_find("cone", &found));
    train_ok(dsprites_task_make(test_context(2), &options, &task));
    train_ok(dsprites_task_render(test_context(1), 0, &task));
    assert_int_equal(task.parts[IMAGE_TEST].points.n, 0);
    dsprites_task_free(&task);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Pictures that occur in these parts, each counted once. */
static int64_t n_different(const dsprites_task *task, unsigned parts) {
    uint8_t *seen = test_memory(DSPRITES_IMAGES);
    int64_t n = 0;
    for (int k = 0; k < IMAGE_PARTS; k++)
        for (int64_t i = 0; (parts >> k & 1) != 0 && i < task->parts[k].points.n; i++)
            n += seen[task->parts[k].image[i]]++ == 0;
    return n;
}

static void pictures_of_points(void **state) {
    (void)state;
    dsprites_task task = make_task(DSPRITES_LINEAR, 19, 2000, false);
    uint8_t *all = NULL, one[DSPRITES_BYTES];
    const unsigned some = 1U << IMAGE_TRAIN | 1U << IMAGE_OOD_TEST;
    circe_context *context = test_context(2);
    train_ok(dsprites_make(context, &all));
    for (int way = 0; way < 3; way++) {
        if (way == 0)
            dsprites_task_use(&task, all);
        else
            train_ok(dsprites_task_render(context, way == 1 ? 0 : some, &task));
        for (int k = 0; k < IMAGE_PARTS; k++) {
            if (way == 2 && (some >> k & 1) == 0) continue;
            train_source source = dsprites_task_source(&task, (image_part_kind)k);
            train_ok(train_source_check(&source, "dSprites"));
            assert_true(source.n == task.parts[k].points.n && source.shift == task.parts[k].points.shift);
            assert_true(train_source_cols(&source) == PIXELS && source.element == TRAIN_BITS);
            assert_true(source.scale == 2.0F && source.offset == -1.0F && source.background == -1.0F);
            for (int64_t i = 0; i < source.n; i++) {
                dsprites_latents l = dsprites_latents_of(task.parts[k].image[i]);
                dsprites_render(&l, one);
                assert_memory_equal(train_source_row_start(&source, source.stored[i]), one, sizeof one);
            }
        }
        assert_int_equal(task.n_stored, way == 0 ? DSPRITES_IMAGES : n_different(&task, way == 1 ? 0x7f : some));
    }
    train_source left_out = dsprites_task_source(&task, IMAGE_TEST);
    assert_true(train_source_check(&left_out, "dSprites") != CIRCE_OK);
    dsprites_task_use(&task, all); /* and back */
    assert_memory_equal(task.parts[IMAGE_TEST].points.stored, task.parts[IMAGE_TEST].image, 250 * sizeof(int32_t));
    dsprites_task_free(&task);
    free(all);
}

TEST_MAIN("dsprites", TEST(order_of_images), TEST(values_of_latents), TEST(real_frames), TEST(inside_of_outlines),
          TEST(smooth_outlines), TEST(whole_turn), TEST(many_at_once), TEST(written_and_read), TEST(latents_as_tables),
          TEST(loaded_by_numpy), TEST(writing_stopped), TEST(bad_files), TEST(in_domain), TEST(signs_of_xi),
          TEST(sides_of_the_cone), TEST(out_of_domain), TEST(shifts), TEST(splits), TEST(same_seed_same_points),
          TEST(holdout_also_in_training), TEST(bad_tasks), TEST(pictures_of_points))
