/* Jobs without memory for some bytes: calloc fails once, at each of many places, and the job says so where it cannot do
 * without; nothing ends the program. This program is linked with --wrap=calloc. */
#include <stdatomic.h>

#include "base/small.h"
#include "circe/fit.h"
#include "circe/sweep.h"
#include "tests/support.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static atomic_long calls, failing; /* 0: none */

void *__wrap_calloc(size_t count, size_t size) {
    return atomic_fetch_add(&calls, 1) + 1 == failing ? NULL : __real_calloc(count, size);
}

enum { ROWS = 120 };

static circe_table *make_table(void) {
    double y[ROWS], z[ROWS];
    circe_table *table = NULL;
    circe_random_normal((circe_random){1, 0}, 0, ROWS, y);
    circe_random_normal((circe_random){1, 1}, 0, ROWS, z);
    assert_ok(circe_table_create(ROWS, &table));
    assert_ok(circe_table_add_numbers(table, "y", y, 1));
    assert_ok(circe_table_add_numbers(table, "z", z, 1));
    return table;
}

static circe_context *context; /* made before anything fails */
static const char *model;

static circe_status fit(const circe_table *table) {
    circe_fit_options o;
    circe_fit_result *result = NULL;
    circe_fit_options_init(&o);
    o.y = "y";
    o.z = "z";
    o.output = model;
    circe_status status = circe_fit(context, table, &o, NULL, &result);
    assert_true((result != NULL) == (status == CIRCE_OK));
    circe_fit_result_free(result);
    return status;
}

static circe_status sweep(const circe_table *table) {
    circe_train_options training;
    circe_sweep_options o;
    circe_sweep_result *result = NULL;
    circe_train_options_init(&training);
    circe_sweep_options_init(&o);
    training.features = "z";
    training.target = "y";
    training.invariant_to = "z";
    training.net = "1x4";
    training.epochs = 1;
    training.batch = 16;
    o.over = "gamma=0,1";
    o.jobs = 1;
    circe_status status = circe_sweep(context, table, &training, &o, NULL, &result);
    bool whole = status == CIRCE_OK && result->n_failed == 0;
    circe_sweep_result_free(result);
    return whole || status != CIRCE_OK ? status : CIRCE_ERR_MEMORY; /* a run that lacked memory failed alone */
}

/* Every place of the first hundred, and then fewer and fewer. */
static void fails_everywhere(circe_status (*job)(const circe_table *)) {
    circe_table *table = make_table();
    context = test_context(1);
    model = test_path("model.safetensors");
    calls = 0;
    assert_ok(job(table));
    long all = calls, refused = 0;
    for (long k = 1; k <= all; k += 1 + k / 50) {
        calls = 0;
        failing = k;
        circe_status status = job(table);
        failing = 0;
        refused += status == CIRCE_ERR_MEMORY;
        if (status != CIRCE_OK && status != CIRCE_ERR_MEMORY && status != CIRCE_ERR_ARGUMENT)
            fail_msg("place %ld of %ld: status %d: %s", k, all, (int)status, circe_last_error());
    }
    assert_true(refused > 0);
    assert_ok(job(table)); /* and all is well again */
    circe_table_free(table);
}

static void a_fit_says_that_there_is_no_memory(void **state) {
    (void)state;
    fails_everywhere(fit);
}

static void a_sweep_says_that_there_is_no_memory(void **state) {
    (void)state;
    fails_everywhere(sweep);
}

static void the_reserve_is_had_again(void **state) {
    (void)state;
    unsigned mark;
    for (int i = 0; i < 3; i++) {
        assert_ok(small_begin(&mark));
        calls = 0;
        failing = 1;
        free(small_alloc(10));
        failing = 0;
        assert_int_equal(small_end(mark, CIRCE_ERR_IO), CIRCE_ERR_IO); /* the first failure is told */
        assert_int_equal(small_end(mark, CIRCE_OK), CIRCE_ERR_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(the_reserve_is_had_again), TEST(a_fit_says_that_there_is_no_memory),
                                       TEST(a_sweep_says_that_there_is_no_memory)};
    return test_run("small", tests, NULL, NULL);
}
