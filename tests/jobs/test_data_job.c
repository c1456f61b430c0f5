/* circe_data: what it writes, and what has no meaning for a set. */
#include <unistd.h>

#include "circe/data.h"
#include "tests/support.h"

static circe_data_options small_faces(const char *folder) {
    circe_data_options o;
    circe_data_options_init(&o);
    o.output = folder;
    o.identities = 1;
    o.size = 16;
    return o;
}

static void faces_and_their_sheet(void **state) {
    (void)state;
    circe_data_options o = small_faces(test_path("faces"));
    circe_data_made made = {0};
    assert_ok(circe_data(test_context(2), "faces", &o, NULL, &made));
    assert_int_equal(made.pictures, 9 * 64); /* poses by lamps */
    assert_int_equal(made.width, 14);
    assert_int_equal(made.height, 16);
    assert_refused(circe_data(test_context(2), "faces", &o, NULL, &made), CIRCE_ERR_ARGUMENT, "--force");
    circe_data_options_init(&o);
    o.output = test_path("sheet.png");
    o.from = test_path("faces");
    assert_ok(circe_data(test_context(2), "contact-sheet", &o, NULL, &made));
    assert_int_equal(made.pictures, 1);
    assert_int_equal(access(o.output, F_OK), 0);
}

static int stop(void *user, double done, const char *text) {
    (void)text;
    assert_true(done >= 0 && done <= 1);
    ++*(int *)user;
    return 1;
}

static void the_watch_stops_it(void **state) {
    (void)state;
    int calls = 0;
    const circe_watch watch = {.user = &calls, .progress = stop};
    circe_data_options o = small_faces(test_path("faces"));
    circe_data_made made = {0};
    assert_refused(circe_data(test_context(1), "faces", &o, &watch, &made), CIRCE_ERR_CANCELLED, "");
    assert_true(calls > 0);
    assert_int_not_equal(access(o.output, F_OK), 0); /* nothing is left */
}

static void bad_options_are_refused(void **state) {
    (void)state;
    circe_data_made made = {0};
    circe_data_options o = small_faces(test_path("faces"));
    assert_refused(circe_data(test_context(1), "cats", &o, NULL, &made), CIRCE_ERR_ARGUMENT, "there is no set 'cats'");
    assert_refused(circe_data(test_context(1), NULL, &o, NULL, &made), CIRCE_ERR_ARGUMENT, "which set?");
    assert_refused(circe_data(test_context(1), "dsprites", &o, NULL, &made), CIRCE_ERR_ARGUMENT,
                   "--size has no meaning for dsprites");
    o.size = 8;
    assert_refused(circe_data(test_context(1), "faces", &o, NULL, &made), CIRCE_ERR_ARGUMENT,
                   "--size must be between 16 and 1024");
    circe_data_options_init(&o);
    assert_refused(circe_data(test_context(1), "faces", &o, NULL, &made), CIRCE_ERR_ARGUMENT, "-o PATH is required");
    o.output = test_path("sheet.png");
    assert_refused(circe_data(test_context(1), "contact-sheet", &o, NULL, &made), CIRCE_ERR_ARGUMENT, "needs --from");
    o.from = test_path("nothing");
    assert_refused(circe_data(test_context(1), "contact-sheet", &o, NULL, &made), CIRCE_ERR_IO, "--from");
    o.from = NULL;
    o.sheet = test_path("none/sheet.png");
    assert_refused(circe_data(test_context(1), "faces", &o, NULL, &made), CIRCE_ERR_WRITE, "--sheet");
}

TEST_MAIN("data_job", TEST(faces_and_their_sheet), TEST(the_watch_stops_it), TEST(bad_options_are_refused))
