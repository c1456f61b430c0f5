/* The mean over random blocks: disjoint rows, the same for the same seed, a standard error that is one, limits that are
 * kept. */
#include <math.h>
#include <time.h>

#include "tests/support.h"

enum { ROWS = 100000 };

/* A measure whose value is known: the mean of the rows' numbers; it notes which rows it saw. */
typedef struct seen {
    int times[ROWS];
    int64_t calls, largest;
    double pause;   /* seconds for each pair of rows */
    double fail_at; /* calls */
} seen;

static circe_status mean_of_rows(void *user, const int64_t *rows, int64_t n, double *value) {
    seen *s = user;
    double sum = 0;
    if (s->fail_at > 0 && (double)s->calls >= s->fail_at) return CIRCE_ERR_NUMERIC;
    for (int64_t i = 0; i < n; i++) {
        assert_true(rows[i] >= 0 && rows[i] < ROWS && (i == 0 || rows[i] > rows[i - 1]));
        s->times[rows[i]]++;
        sum += (double)rows[i];
    }
    if (s->pause > 0) {
        double wait = s->pause * (double)n * (double)n;
        struct timespec t = {(time_t)wait, (long)((wait - floor(wait)) * 1e9)};
        nanosleep(&t, NULL);
    }
    s->calls++;
    s->largest = n > s->largest ? n : s->largest;
    *value = sum / (double)n;
    return CIRCE_OK;
}

static circe_block_result measure(seen *s, int64_t rows, int64_t block_rows, int64_t blocks, double seconds,
                                  uint64_t seed) {
    circe_block_options options;
    circe_block_result result;
    circe_block_options_init(&options);
    options.block_rows = block_rows;
    options.blocks = blocks;
    options.seconds = seconds;
    options.seed = seed;
    circe_context *context = test_context(1);
    assert_int_equal(circe_measure_blocks(context, rows, &options, mean_of_rows, s, &result), CIRCE_OK);
    circe_context_destroy(context);
    return result;
}

/* Every row once where blocks take all of them, and the mean is then that of all rows. */
static void blocks_are_disjoint(void **state) {
    (void)state;
    static seen s;
    s = (seen){0};
    circe_block_result r = measure(&s, ROWS, 500, 200, 30, 7);
    assert_int_equal(r.blocks, 200);
    assert_int_equal(r.block_rows, 500);
    int64_t probes = s.calls - 200;
    assert_true(probes >= 1 && probes <= 2);
    int most = 0;
    for (int i = 0; i < ROWS; i++) {
        assert_true(s.times[i] >= 1);
        most = s.times[i] > most ? s.times[i] : most;
    }
    assert_int_equal(most, 1 + probes); /* the probe measures block 0 */
    assert_true(fabs(r.value - (ROWS - 1) / 2.0) < 1e-6);
    /* Rows at random: the mean of 500 has a deviation of ROWS / sqrt(12 * 500), that of 200 blocks a 14th of it. */
    double expected = ROWS / sqrt(12.0 * 500 * 200);
    assert_true(fabs(r.standard_error / expected - 1) < 0.2); /* 200 blocks tell a deviation to 5 % */
}

/* The order of rows is a function of the seed alone: more blocks begin with the same ones. */
static void blocks_repeat(void **state) {
    (void)state;
    static seen few, many, other;
    few = many = other = (seen){0};
    circe_block_result a = measure(&few, ROWS, 1000, 3, 30, 1), b = measure(&many, ROWS, 1000, 10, 30, 1);
    circe_block_result c = measure(&other, ROWS, 1000, 3, 30, 2);
    for (int i = 0; i < ROWS; i++) assert_true(few.times[i] == 0 || many.times[i] > 0);
    assert_true(a.value != b.value && a.value != c.value);
    few = (seen){0};
    assert_true(measure(&few, ROWS, 1000, 3, 30, 1).value == a.value);
}

/* Slow work gets small blocks and few of them, quick work large ones. */
static void blocks_keep_to_the_time(void **state) {
    (void)state;
    static seen slow, quick;
    slow = (seen){.pause = 0.03 / (512.0 * 512.0)};
    quick = (seen){0};
    circe_block_result a = measure(&slow, ROWS, 0, 0, 1, 0), b = measure(&quick, ROWS, 0, 0, 1, 0);
    assert_int_equal(a.block_rows, 512);
    assert_true(a.blocks >= 2 && a.blocks <= 40 && a.seconds < 3);
    assert_int_equal(b.block_rows, 8192);
    assert_int_equal(b.blocks, ROWS / 8192);
}

static void memory_limits_blocks(void **state) {
    (void)state;
    static seen s;
    s = (seen){0};
    circe_context_options options;
    circe_context *context = NULL;
    circe_block_result result;
    circe_context_options_init(&options);
    options.memory_limit = 400u << 20; /* half of it holds 1,619 rows of 80 bytes a pair */
    assert_int_equal(circe_context_create(&options, &context), CIRCE_OK);
    assert_true(circe_context_memory(context) == 400u << 20);
    assert_int_equal(circe_rows_at_once(context, 80, 0), 1619);
    assert_int_equal(circe_rows_at_once(context, 0, 200), 1048576);
    assert_true(circe_rows_at_once(context, 80, 1000) < 1619);
    assert_int_equal(circe_measure_blocks(context, ROWS, NULL, mean_of_rows, &s, &result), CIRCE_OK);
    assert_int_equal(result.block_rows, 1024);
    circe_context_destroy(context);
}

static void blocks_refuse(void **state) {
    (void)state;
    static seen s;
    s = (seen){.fail_at = 5};
    circe_context *context = test_context(1);
    circe_block_options options;
    circe_block_result result;
    circe_block_options_init(&options);
    assert_int_equal(circe_measure_blocks(context, 1000, &options, mean_of_rows, &s, &result), CIRCE_ERR_SHAPE);
    assert_non_null(strstr(circe_last_error(), "there are 1000 rows; 2 blocks of 512 rows need more"));
    options.block_rows = 100;
    options.blocks = 11;
    assert_int_equal(circe_measure_blocks(context, 1000, &options, mean_of_rows, &s, &result), CIRCE_ERR_SHAPE);
    options.blocks = 1;
    assert_int_equal(circe_measure_blocks(context, 1000, &options, mean_of_rows, &s, &result), CIRCE_ERR_ARGUMENT);
    options.blocks = 10;
    options.seconds = 0;
    assert_int_equal(circe_measure_blocks(context, 1000, &options, mean_of_rows, &s, &result), CIRCE_ERR_ARGUMENT);
    options.seconds = 1;
    assert_int_equal(circe_measure_blocks(context, 1000, &options, mean_of_rows, &s, &result), CIRCE_ERR_NUMERIC);
    assert_int_equal(circe_measure_blocks(context, 1000, &options, NULL, &s, &result), CIRCE_ERR_ARGUMENT);
    circe_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_disjoint),     cmocka_unit_test(blocks_repeat),
        cmocka_unit_test(blocks_keep_to_the_time), cmocka_unit_test(memory_limits_blocks),
        cmocka_unit_test(blocks_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
