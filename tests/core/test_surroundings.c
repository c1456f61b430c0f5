/* The same bits whatever the program around the library has set: how its threads round, flush and trap, its locale, its
 * processors, its timers, and where no thread can be created. Afterwards its settings are as before. */
#define _GNU_SOURCE /* feenableexcept, sched_setaffinity */
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/core/answers_support.h"

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static void rounding(void **state) {
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    answers *a = room(1);
    expected(2);
    for (int64_t k = 0; k < COUNT(modes); k++) {
        fesetround(modes[k]);
        answer(2, a);
        int after = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(after, modes[k]);
        compare(a, 2);
    }
}

/* As torch.set_flush_denormal does. */
static void denormal_numbers(void **state) {
    (void)state;
#if defined(__x86_64__)
    enum { FLUSH = 0x8040, FLAGS = 0x3f };
    answers *a = room(1);
    expected(2);
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH);
    answer(2, a);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    assert_int_equal(after & ~(unsigned)FLAGS, (before | FLUSH) & ~(unsigned)FLAGS);
    compare(a, 2);
#else
    test_skip("only x86 is known to flush in this test");
#endif
}

/* The status of a child that gives the right answers after `change`. */
static int child_after(bool (*change)(void), int threads) {
    const answers *right = expected(threads);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        static answers a;
        signal(SIGFPE, SIG_DFL); /* cmocka's */
        alarm(SECONDS / 2);
        if (!change()) _exit(TEST_SKIPPED);
        answer(threads, &a);
        if (a.failed != NULL) fprintf(stderr, "%s: %s\n", a.failed, circe_last_error());
        _exit(a.failed == NULL && memcmp(a.of, right->of, (size_t)right->n * sizeof *a.of) == 0 ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static bool trap(void) { return feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW) != -1; }

/* A program that looks for its own mistakes is not ended by infinities that the library reckons with. */
static void traps(void **state) {
    (void)state;
    int status = child_after(trap, 2);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) test_skip("this processor does not trap");
    if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(status, 0);
}

/* ---- the locale -------------------------------------------------------------------------------------------------- */

static const char *use_comma(void) {
    char *command = NULL;
    const char *name = setlocale(LC_ALL, "de_DE.UTF-8");
    if (name != NULL) return name;
    assert_true(asprintf(&command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", test_directory()) > 0);
    int made = system(command); /* NOLINT(cert-env33-c): a tool of the system */
    free(command);
    if (made != 0) return NULL;
    setenv("LOCPATH", test_directory(), 1);
    return setlocale(LC_ALL, "de_DE.UTF-8");
}

static void decimal_commas(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_mat y = test_normal(1, 60, 1), z = test_normal(2, 60, 1);
    circe_kernel *kernel = NULL, *wrong = NULL;
    circe_cme_info before, after;
    circe_cme *loaded = NULL;
    if (use_comma() == NULL) test_skip("there is no locale with a decimal comma");
    circe_status parsed = circe_kernel_parse(context, "gaussian(0.25)", &kernel);
    circe_status refused = circe_kernel_parse(context, "gaussian(0,25)", &wrong);
    circe_cme *fitted = test_fit(context, &y, &z, "gaussian", "gaussian(1)", NULL);
    circe_status saved = circe_cme_save(fitted, test_path("model.safetensors"));
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &(double){-0.5});
    circe_status negative = circe_cme_fit(context, &y, &z, kernel, kernel, &options, &loaded);
    setlocale(LC_ALL, "C");
    assert_int_equal(parsed, CIRCE_OK);
    assert_int_equal(refused, CIRCE_ERR_ARGUMENT);
    assert_string_equal(circe_kernel_text(kernel), "gaussian(0.25)");
    assert_int_equal(negative, CIRCE_ERR_ARGUMENT);
    assert_non_null(strstr(circe_last_error(), "-0.5"));
    assert_int_equal(saved, CIRCE_OK);
    loaded = test_load(context, test_path("model.safetensors"));
    assert_int_equal(circe_cme_get_info(fitted, &before), CIRCE_OK);
    assert_int_equal(circe_cme_get_info(loaded, &after), CIRCE_OK);
    assert_true(before.sigma2_y == after.sigma2_y && before.ridge == after.ridge);
    use_comma();
    loaded = test_load(context, test_path("model.safetensors"));
    setlocale(LC_ALL, "C");
    assert_int_equal(circe_cme_get_info(loaded, &after), CIRCE_OK);
    assert_true(before.sigma2_y == after.sigma2_y && before.ridge == after.ridge);
    circe_kernel_destroy(kernel);
    circe_kernel_destroy(wrong);
}

/* ---- threads and processors -------------------------------------------------------------------------------------- */

/* No more threads: root's limit does not count, so a child of root becomes somebody else. */
static bool forbid_threads(void) {
    struct rlimit limit = {1, 1};
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) return false;
    return geteuid() != 0 || setuid(65534) == 0;
}

/* 1: OpenBLAS has threads of its own, which it makes anew after a fork. If it cannot, it ends the process. */
extern int openblas_get_parallel(void) __attribute__((weak));

static void no_more_threads(void **state) {
    (void)state;
    if (openblas_get_parallel != NULL && openblas_get_parallel() == 1)
        test_skip("OpenBLAS with threads of its own ends a child that may have none");
    int status = child_after(forbid_threads, 3);
    if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(status, 0);
}

static void processors_change(void **state) {
    (void)state;
    cpu_set_t before, one;
    answers *a = room(1);
    expected(3);
    if (sched_getaffinity(0, sizeof before, &before) != 0) test_skip("sched_getaffinity is not allowed");
    CPU_ZERO(&one);
    for (size_t k = 0; k < CPU_SETSIZE && CPU_COUNT(&one) == 0; k++)
        if (CPU_ISSET(k, &before)) CPU_SET(k, &one);
    sched_setaffinity(0, sizeof one, &one);
    answer(3, a);
    sched_setaffinity(0, sizeof before, &before);
    compare(a, 3);
    answer(3, a);
    compare(a, 3);
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t ticks;

static void tick(int number) {
    (void)number;
    ticks = ticks + 1;
}

/* A profiler's; system calls are not restarted. */
static void timers(void **state) {
    (void)state;
    static const int clocks[] = {ITIMER_PROF, ITIMER_REAL}, signals[] = {SIGPROF, SIGALRM};
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    answers *a = room(1);
    expected(3);
    for (int k = 0; k < 2; k++) {
        struct sigaction action = {.sa_handler = tick}, before;
        ticks = 0;
        sigaction(signals[k], &action, &before);
        setitimer((__itimer_which_t)clocks[k], &often, NULL);
        answer(3, a);
        setitimer((__itimer_which_t)clocks[k], &never, NULL);
        sigaction(signals[k], &before, NULL);
        assert_true(ticks > 0);
        compare(a, 3);
    }
}

TEST_MAIN("surroundings", CASE(rounding), CASE(denormal_numbers), CASE(traps), CASE(decimal_commas),
          CASE(no_more_threads), CASE(processors_change), CASE(timers))
