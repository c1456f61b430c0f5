/* A sweep of runs that square a number: what is done, found done, waits, fails and is stopped. The runs are threads
 * first, and then this very program, started with the word "square". */
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "io/io.h"
#include "sweep/sweep.h"
#include "tests/support.h"

static bool never(void) { return false; }

/* {"x": 3} gives {"square": 9}; a negative x fails, and 1000 waits until it is stopped. */
static circe_status square(void *user, sweep_task *task) {
    (void)user;
    double x = cJSON_GetObjectItem(task->settings, "x")->valuedouble;
    if (x < 0) return circe_fail(CIRCE_ERR_VALUE, "there is no root of %g", x);
    if (circe_context_threads(task->context) != 1) return circe_fail(CIRCE_ERR_VALUE, "a run has one thread");
    while (x == 1000 && task->progress(task->teller, 0.5) == 0) usleep(10000);
    if (x == 1000) return circe_fail(CIRCE_ERR_CANCELLED, "stopped");
    task->understood = cJSON_CreateObject();
    json_number(task->understood, "x", x);
    json_number(task->understood, "place", cJSON_GetObjectItem(task->settings, "place")->valuedouble);
    task->result = cJSON_CreateObject();
    json_number(task->result, "square", x * x);
    return CIRCE_OK;
}

/* ---- a plan ------------------------------------------------------------------------------------------------------ */

enum { RUNS = 3 };

typedef struct squares {
    double x[RUNS], got[RUNS];
    double place;    /* where they are said to be: no setting */
    int64_t started; /* runs that ended in this sweep */
    bool stop;       /* once a run has ended */
    int notes;
    char warning[256];
} squares;

static void release(sweep *s, int64_t run, double x, double place) {
    char name[32];
    cJSON *settings = cJSON_CreateObject();
    json_number(settings, "x", x);
    json_number(settings, "place", place);
    snprintf(name, sizeof name, "square-%lld", (long long)run);
    sweep_release(s, run, name, 1, settings);
}

/* The last one waits for the first: it squares its result. */
static circe_status plan(void *user, sweep *s) {
    squares *q = user;
    for (int64_t i = 0; i < RUNS; i++) assert_int_equal(sweep_add(s, 1, i == 0), i);
    for (int64_t i = 0; i + 1 < RUNS; i++) release(s, i, q->x[i], q->place);
    if (s->runs[0].state == SWEEP_DONE) release(s, RUNS - 1, q->got[0], q->place);
    return CIRCE_OK;
}

static bool accept(void *user, int64_t run, const cJSON *result) {
    const cJSON *value = cJSON_GetObjectItem(result, "square");
    if (cJSON_IsNumber(value)) ((squares *)user)->got[run] = value->valuedouble;
    return cJSON_IsNumber(value);
}

static void ended(void *user, sweep *s, int64_t run) {
    squares *q = user;
    q->started++;
    if (run != 0) return;
    if (s->runs[0].state == SWEEP_DONE)
        release(s, RUNS - 1, q->got[0], q->place);
    else
        sweep_fail(s, RUNS - 1, "the first one failed");
}

static int on_progress(void *user, double done, const char *text) {
    squares *q = user;
    assert_true(done >= 0 && done <= 1);
    assert_non_null(strstr(text, " of 3 runs"));
    return q->stop && q->started > 0;
}

static void on_note(void *user, const char *text) {
    assert_non_null(strstr(text, "side by side"));
    ((squares *)user)->notes++;
}

static void on_warning(void *user, const char *text) {
    squares *q = user;
    snprintf(q->warning, sizeof q->warning, "%s", text);
}

static bool as_processes;
static circe_context *context;

static circe_status go_in(const char *folder, squares *q, sweep *s) {
    static const char *const command[] = {"square", NULL};
    static sweep_options options;
    options = (sweep_options){.folder = folder,
                              .function = square,
                              .context = context,
                              .program = as_processes ? "/proc/self/exe" : NULL,
                              .jobs = 2,
                              .threads = 1,
                              .command = command,
                              .left_out = "place",
                              .user = q,
                              .plan = plan,
                              .accept = accept,
                              .ended = ended};
    circe_watch watch = {.user = q, .progress = on_progress, .note = on_note, .warning = on_warning};
    return sweep_go(&options, &watch, s);
}

static circe_status go(squares *q, sweep *s) { return go_in(test_path("folder/below"), q, s); }

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void runs_are_done_once(void **state) {
    (void)state;
    squares q = {.x = {3, 5}};
    sweep s;
    assert_int_equal(go(&q, &s), CIRCE_OK);
    assert_int_equal(sweep_count(&s, SWEEP_DONE), RUNS);
    assert_int_equal(q.started, RUNS);
    assert_int_equal(q.notes, 1);
    assert_true(q.got[0] == 9 && q.got[1] == 25 && q.got[2] == 81); /* the last waited for the first */
    assert_int_equal(access(s.runs[2].path, R_OK), 0);
    sweep_free(&s);
    squares again = {.x = {3, 5}, .place = 7}; /* where it lies changes nothing */
    assert_int_equal(go(&again, &s), CIRCE_OK);
    assert_int_equal(again.started, 0);
    assert_true(again.got[2] == 81);
    sweep_free(&s);
    squares other = {.x = {3, 6}};
    assert_int_equal(go(&other, &s), CIRCE_OK);
    assert_int_equal(other.started, 1);
    assert_true(other.got[1] == 36);
    sweep_free(&s);
}

static void a_result_that_is_damaged_is_made_again(void **state) {
    (void)state;
    squares q = {.x = {3, 5}}, again = q;
    sweep s;
    assert_int_equal(go(&q, &s), CIRCE_OK);
    char path[256];
    snprintf(path, sizeof path, "%s", s.runs[1].path);
    sweep_free(&s);
    assert_int_equal(file_write_text(path, "{\"result\": ", 11), CIRCE_OK);
    assert_int_equal(go(&again, &s), CIRCE_OK);
    assert_int_equal(again.started, 1);
    assert_true(again.got[1] == 25);
    sweep_free(&s);
}

static void a_run_that_fails_is_told_of_and_the_others_go_on(void **state) {
    (void)state;
    squares q = {.x = {-3, 5}};
    sweep s;
    assert_int_equal(go(&q, &s), CIRCE_OK);
    assert_int_equal(sweep_count(&s, SWEEP_FAILED), 2);
    assert_string_equal(s.runs[0].error, "there is no root of -3");
    assert_string_equal(s.runs[2].error, "the first one failed");
    assert_string_equal(q.warning, "the run square-0 failed: there is no root of -3");
    assert_true(q.got[1] == 25);
    sweep_free(&s);
}

static void it_stops_where_it_is_asked_to(void **state) {
    (void)state;
    squares q = {.x = {1000, 5}, .stop = true};
    sweep s;
    double start = job_clock();
    assert_int_equal(go(&q, &s), CIRCE_ERR_CANCELLED);
    assert_true(job_clock() - start < 60);
    assert_non_null(strstr(circe_last_error(), "stopped: 1 of 3 runs are finished"));
    assert_int_equal(s.runs[0].state, SWEEP_READY);
    sweep_free(&s);
}

static void a_folder_is_for_one_at_a_time(void **state) {
    (void)state;
    squares q = {.x = {3, 5}}, second = q;
    sweep s, other;
    assert_int_equal(go(&q, &s), CIRCE_OK);
    assert_int_equal(go(&second, &other), CIRCE_ERR_WRITE); /* until the first is freed */
    assert_int_equal(second.started, 0);
    sweep_free(&other);
    sweep_free(&s);
}

static void without_a_folder_results_stay_in_memory(void **state) {
    (void)state;
    squares q = {.x = {3, -5}}, again = {.x = {3, 5}}, stopped = {.x = {1000, 5}, .stop = true};
    sweep s;
    if (as_processes) return; /* which leave their results in files */
    assert_int_equal(go_in(NULL, &q, &s), CIRCE_OK);
    assert_true(q.got[0] == 9 && q.got[2] == 81);
    assert_string_equal(s.runs[1].error, "there is no root of -5");
    assert_null(s.runs[0].path);
    sweep_free(&s);
    assert_int_equal(go_in(NULL, &again, &s), CIRCE_OK);
    assert_int_equal(again.started, RUNS); /* nothing was kept */
    sweep_free(&s);
    assert_int_equal(go_in(NULL, &stopped, &s), CIRCE_ERR_CANCELLED);
    assert_string_equal(circe_last_error(), "stopped: 1 of 3 runs are finished");
    sweep_free(&s);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "square") == 0) {
        circe_status status = sweep_work(argv[2], "place", square, NULL, never);
        if (status != CIRCE_OK) fprintf(stderr, "circe square: %s\n", circe_last_error());
        return (int)status;
    }
    const struct CMUnitTest tests[] = {TEST(runs_are_done_once),
                                       TEST(a_result_that_is_damaged_is_made_again),
                                       TEST(a_run_that_fails_is_told_of_and_the_others_go_on),
                                       TEST(it_stops_where_it_is_asked_to),
                                       TEST(a_folder_is_for_one_at_a_time),
                                       TEST(without_a_folder_results_stay_in_memory)};
    if (circe_context_create(NULL, &context) != CIRCE_OK) return 1;
    int failed = test_run("sweep_of_threads", tests, NULL, NULL);
    as_processes = true;
    failed += test_run("sweep_of_processes", tests, NULL, NULL);
    circe_context_destroy(context);
    return failed;
}
