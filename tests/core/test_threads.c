/* The same bits wherever the library is called from: inside regions of OpenMP, from many threads at once, from parts of
 * its own, under settings that others have changed, and in children of fork.
 *
 * Every case compares what everything that divides work answers, byte by byte, with the answers of a quiet main thread:
 * what is cut, and where, depends on the number of threads that was asked for alone. A call that waits for a thread
 * which does not come is ended by an alarm. */
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/core/answers_support.h"

/* Sanitizers make every frame larger. */
#if defined(CIRCE_TEST_SANITIZED)
enum { STACK = 4 << 20 };
#else
enum { STACK = 256 << 10 };
#endif

/* ---- threads of others ------------------------------------------------------------------------------------------- */

static void alone_again(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        answers *a = room(1);
        answer(threads, a);
        compare(a, threads);
    }
}

static void single_of_a_region(void **state) {
    (void)state;
    answers *a = room(2);
    expected(2);
#pragma omp parallel num_threads(4)
#pragma omp single
    {
        answer(2, &a[0]);
        answer(3, &a[1]);
    }
    compare(&a[0], 2);
    compare(&a[1], 3);
}

static void loop_of_a_region(void **state) {
    (void)state;
    enum { CALLS = 6 };
    answers *a = room(CALLS);
    expected(2);
#pragma omp parallel for num_threads(3) schedule(dynamic)
    for (int i = 0; i < CALLS; i++) answer(1 + i % 3, &a[i]);
    for (int i = 0; i < CALLS; i++) compare(&a[i], 1 + i % 3);
}

static void nested_regions(void **state) {
    (void)state;
    enum { TEAM = 2 };
    answers *a = room(TEAM * TEAM);
    int levels = omp_get_max_active_levels();
    expected(2);
    omp_set_max_active_levels(4);
#pragma omp parallel num_threads(TEAM)
    {
        int outer = omp_get_thread_num();
#pragma omp parallel num_threads(TEAM)
        answer(2, &a[outer * TEAM + omp_get_thread_num()]);
    }
    omp_set_max_active_levels(levels);
    for (int i = 0; i < TEAM * TEAM; i++) compare(&a[i], 2);
}

static void tasks_of_a_region(void **state) {
    (void)state;
    enum { CALLS = 4 };
    answers *a = room(CALLS);
    expected(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < CALLS; i++) {
#pragma omp task firstprivate(i)
        answer(2, &a[i]);
    }
    for (int i = 0; i < CALLS; i++) compare(&a[i], 2);
}

static void settings_changed(void **state) {
    (void)state;
    int before = omp_get_max_threads(), dynamic = omp_get_dynamic(), levels = omp_get_max_active_levels();
    answers *a = room(1);
    for (int k = 0; k < 4; k++) {
        omp_set_num_threads(k == 0 ? 1 : k == 1 ? 7 : before);
        omp_set_dynamic(k == 2);
        omp_set_max_active_levels(k == 3 ? 0 : levels);
        answer(3, a);
        assert_int_equal(omp_get_max_threads(), k == 0 ? 1 : k == 1 ? 7 : before); /* it stays the caller's */
        assert_int_equal(omp_get_dynamic(), k == 2);
        omp_set_max_active_levels(levels);
        compare(a, 3);
    }
    omp_set_num_threads(before);
    omp_set_dynamic(dynamic);
}

typedef struct caller {
    pthread_t thread;
    int threads;
    answers *a;
} caller;

static void *call(void *user) {
    caller *c = user;
    answer(c->threads, c->a);
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    enum { CALLERS = 8 };
    caller callers[CALLERS];
    answers *a = room(CALLERS);
    expected(2);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.threads = 1 + i % 3, .a = &a[i]};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < CALLERS; i++) compare(&a[i], 1 + i % 3);
}

/* What circe/context.h promises to be enough. */
static void small_stack(void **state) {
    (void)state;
    pthread_attr_t attributes;
    caller c = {.threads = 2, .a = room(1)};
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&c.thread, &attributes, call, &c), 0);
    pthread_join(c.thread, NULL);
    pthread_attr_destroy(&attributes);
    compare(c.a, 2);
}

static void call_in_part(void *user, int64_t part) { answer(2, (answers *)user + part); }

/* A program may divide its own work by the library's threads. */
static void inside_a_part(void **state) {
    (void)state;
    enum { PARTS = 3 };
    answers *a = room(PARTS);
    expected(2);
    circe_context_run(test_context(PARTS), PARTS, call_in_part, a);
    for (int i = 0; i < PARTS; i++) compare(&a[i], 2);
}

static atomic_int parts_done;

static void sleep_in_part(void *user, int64_t part) {
    (void)user;
    (void)part;
    usleep(20000); /* where a thread can be cancelled */
    atomic_fetch_add(&parts_done, 1);
}

static void *run_and_sleep(void *context) {
    circe_context_run(context, 8, sleep_in_part, NULL);
    return NULL;
}

/* Helpers work on what lies on the caller's stack: it is not cancelled before they are done. */
static void cancelled_caller(void **state) {
    (void)state;
    pthread_t thread;
    void *end = NULL;
    answers *a = room(1);
    atomic_store(&parts_done, 0);
    assert_int_equal(pthread_create(&thread, NULL, run_and_sleep, test_context(2)), 0);
    usleep(10000);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_int_equal(atomic_load(&parts_done), 8);
    answer(2, a);
    compare(a, 2);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* The status of a child, which is 0 where its answers are right and its own child's too; `generations` of them. */
static int fork_and_answer(int threads, int generations) {
    const answers *right = expected(threads);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        static answers a; /* no memory of the test's own */
        alarm(SECONDS / 2);
        answer(threads, &a);
        bool same = a.failed == NULL && a.n == right->n && memcmp(a.of, right->of, (size_t)a.n * sizeof *a.of) == 0;
        if (same && generations > 1) same = fork_and_answer(threads, generations - 1) == 0;
        _exit(same ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void check_child(int threads, int generations) {
    int status = fork_and_answer(threads, generations);
    if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(status, 0);
}

static void after_fork(void **state) {
    (void)state;
    answers *a = room(1);
    check_child(2, 2);
    check_child(3, 1);
    answer(2, a); /* the parent is as before */
    compare(a, 2);
}

static atomic_bool forks_done;

static void *keep_calling(void *user) {
    answers *a = user;
    while (!atomic_load(&forks_done)) answer(3, a);
    return NULL;
}

/* Whatever the other threads of the parent held at that moment. */
static void fork_during_a_call(void **state) {
    (void)state;
    pthread_t other;
    answers *a = room(1);
    expected(2);
    expected(3);
    atomic_store(&forks_done, false);
    assert_int_equal(pthread_create(&other, NULL, keep_calling, a), 0);
    for (int i = 0; i < 6; i++) {
        usleep(20000);
        check_child(2, 1);
    }
    atomic_store(&forks_done, true);
    pthread_join(other, NULL);
    compare(a, 3);
}

/* A child of a region's thread. */
static void fork_in_a_region(void **state) {
    (void)state;
    int status = -1;
    expected(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    status = fork_and_answer(2, 1);
    assert_int_equal(status, 0);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

TEST_MAIN("threads", CASE(alone_again), CASE(single_of_a_region), CASE(loop_of_a_region), CASE(nested_regions),
          CASE(tasks_of_a_region), CASE(settings_changed), CASE(many_threads), CASE(small_stack), CASE(inside_a_part),
          CASE(cancelled_caller), CASE(after_fork), CASE(fork_during_a_call), CASE(fork_in_a_region))
