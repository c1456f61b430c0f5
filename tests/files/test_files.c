/* Files that others meddle with: cut short while they are in use, half-written by a process that was killed, written by
 * two at a time; and text from outside on its way to a terminal. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "core/core.h"
#include "files/atomic.h"
#include "files/mapped.h"
#include "tests/io/io_support.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A table of some megabytes is still the one that was read after its file has lost its end, or its numbers. */
static void file_cut_short_in_use(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    const char *path = in_directory("large.npy");
    double *numbers = malloc(N * sizeof *numbers);
    io_table table;
    for (int i = 0; i < N; i++) numbers[i] = i;
    circe_mat values = circe_mat_f64(numbers, N, 1);
    assert_int_equal(io_write_npy(path, &values), CIRCE_OK);
    assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
    int file = open(path, O_WRONLY);
    assert_int_equal(pwrite(file, "nonsense", 8, 4096), 8);
    close(file);
    assert_int_equal(truncate(path, 100000), 0);
    for (int i = 0; i < N; i++) assert_true(at(&table, i, 0) == i);
    io_table_free(&table);
    free(numbers);
}

/* A file that says it is longer than what can be read of it: so do those of sysfs. */
static void file_cut_short_on_the_way(void **state) {
    (void)state;
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    struct stat info;
    circe__mapped file;
    if (stat(path, &info) != 0 || info.st_size < 4096) skip();
    int problem = circe__map_file(path, &file);
    assert_int_equal(problem, CIRCE__CUT_SHORT);
    assert_string_equal(circe__map_problem(problem), "it was cut short while it was read");
    assert_null(file.data);
}

/* ---- what is left behind ------------------------------------------------------------------------------------------
 */

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* A child that has ended, and whose number is free. */
static pid_t dead_process(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    return child;
}

static void leftovers(void **state) {
    (void)state;
    char folder[128], stale[256], held[256], alive[256];
    pid_t dead = dead_process();
    snprintf(folder, sizeof folder, "%s/left", directory);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(stale, sizeof stale, "%s/.circe-%ld-1a-0.tmp", folder, (long)dead);
    snprintf(held, sizeof held, "%s/.circe-%ld-1b-0.tmp", folder, (long)dead);
    snprintf(alive, sizeof alive, "%s/.circe-%ld-1c-0.tmp", folder, (long)getpid());
    put_file(stale, "half", 4);
    put_file(held, "half", 4);
    put_file(alive, "half", 4);
    int other = open(held, O_RDWR); /* as a process of another container has it, whose number means nothing here */
    assert_int_equal(flock(other, LOCK_EX), 0);
    circe__sweep(folder);
    assert_false(exists(stale));
    assert_true(exists(held) && exists(alive));
    close(other);
}

/* A process that is killed in the middle of a file leaves a half that the next one takes away. */
static void killed_while_writing(void **state) {
    (void)state;
    char folder[128], path[256];
    int ends[2];
    snprintf(folder, sizeof folder, "%s/killed", directory);
    snprintf(path, sizeof path, "%s/model", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        circe__atomic file;
        if (circe__atomic_open(&file, path) != 0 || circe__atomic_write(&file, "half", 4) != 0) _exit(1);
        if (write(ends[1], file.temporary, sizeof file.temporary) < 0) _exit(1);
        pause();
    }
    char temporary[PATH_MAX];
    assert_int_equal(read(ends[0], temporary, sizeof temporary), sizeof temporary);
    circe__sweep(folder);
    assert_true(exists(temporary)); /* at work */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    circe__sweep(directory); /* another folder: the first is then looked at again */
    assert_int_equal(file_write_text(path, "whole", 5), CIRCE_OK);
    assert_false(exists(temporary));
    close(ends[0]);
    close(ends[1]);
}

/* ---- locks --------------------------------------------------------------------------------------------------------
 */

/* A child that holds the lock of a path until it is killed; its number. */
static pid_t hold_in_child(const char *path) {
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        io_lock *lock = NULL;
        if (io_lock_take(path, &lock) != CIRCE_OK || write(ends[1], "+", 1) != 1) _exit(1);
        pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    return child;
}

static void locks(void **state) {
    (void)state;
    const char *path = in_directory("output"), *other = in_directory("other");
    char expected[64];
    io_lock *lock = NULL, *second = NULL;
    pid_t child = hold_in_child(path);
    assert_int_equal(io_lock_take(path, &lock), CIRCE_ERR_WRITE);
    assert_null(lock);
    snprintf(expected, sizeof expected, "another process, %ld, is writing to it", (long)child);
    assert_says(expected);
    assert_int_equal(io_lock_take(other, &lock), CIRCE_OK);
    io_lock_release(lock);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(io_lock_take(path, &lock), CIRCE_OK); /* it went with its holder */
    assert_int_equal(io_lock_take(path, &second), CIRCE_ERR_WRITE);
    io_lock_release(lock);
    assert_false(exists(in_directory(".output.lock")));
    assert_int_equal(io_lock_take(path, &lock), CIRCE_OK);
    io_lock_release(lock);
    assert_int_equal(io_lock_take("/dev/null", &lock), CIRCE_OK);
    io_lock_release(lock);
    io_lock_release(NULL);
    assert_int_equal(io_lock_take("/nowhere/output", &lock), CIRCE_ERR_WRITE);
    assert_says("cannot be locked");
}

/* However many want it at a time, one has it. */
static void locks_under_contention(void **state) {
    (void)state;
    enum { CHILDREN = 6, ROUNDS = 200 };
    const char *path = in_directory("contended"), *mark = in_directory("mark");
    int failed = 0;
    for (int k = 0; k < CHILDREN; k++) {
        if (fork() != 0) continue;
        for (int round = 0; round < ROUNDS; round++) {
            io_lock *lock = NULL;
            if (io_lock_take(path, &lock) != CIRCE_OK) continue;
            int file = open(mark, O_CREAT | O_EXCL, 0600); /* fails where another is inside */
            if (file < 0) _exit(1);
            close(file);
            unlink(mark);
            io_lock_release(lock);
        }
        _exit(0);
    }
    for (int k = 0; k < CHILDREN; k++) {
        int result = 0;
        wait(&result);
        failed += result != 0;
    }
    assert_int_equal(failed, 0);
}

/* ---- text ---------------------------------------------------------------------------------------------------------
 */

static void assert_visible(const char *text, bool lines, const char *expected) {
    char *shown = io_visible(text, strlen(text), lines), small[8];
    assert_string_equal(shown, expected);
    free(shown);
    size_t length = circe__visible(text, strlen(text), lines, small, sizeof small); /* cut between characters */
    assert_true(length < sizeof small && strncmp(small, expected, length) == 0);
}

static void visible(void **state) {
    (void)state;
    assert_visible("plain, 5 % \\", false, "plain, 5 % \\");
    assert_visible("\x1b[31m\a\x7f", false, "\\u001b[31m\\u0007\\u007f");
    assert_visible("a\nb\tc\r", false, "a\\u000ab\\u0009c\\u000d");
    assert_visible("a\nb\tc\r", true, "a\nb\tc\\u000d");
    assert_visible("h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80", false, "h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_visible(
        "\xc2\x9b"
        "5m",
        false, "\\u009b5m");
    assert_visible(
        "\xe2\x80\xae"
        "gpj",
        false, "\\u202egpj");
    assert_visible("caf\xe9", false, "caf\\xe9");
    assert_visible("\xc0\xaf\xed\xa0\x80\xf5", false, "\\xc0\\xaf\\xed\\xa0\\x80\\xf5");
    assert_visible("cut \xe2\x82", false, "cut \\xe2\\x82");
}

static void latin_1(void **state) {
    (void)state;
    static const char mixed[] = "caf\xe9 \xc3\xa9 \xff";
    char *text = io_to_utf8(mixed, strlen(mixed));
    assert_string_equal(text, "caf\xc3\xa9 \xc3\xa9 \xc3\xbf");
    assert_true(circe__is_utf8(text, strlen(text)));
    assert_false(circe__is_utf8(mixed, strlen(mixed)));
    assert_true(circe__is_utf8("0123456789abcdefg", 17));
    assert_false(circe__is_utf8("0123456789abcde\xe9", 16));
    free(text);
    io_table table;
    put_file(in_directory("latin.csv"), "pr\xe9,b\n1,2\n", 10);
    assert_int_equal(io_read(in_directory("latin.csv:pr\xc3\xa9"), NULL, &table), CIRCE_OK);
    assert_true(table.values.cols == 1 && at(&table, 0, 0) == 1.0);
    io_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_cut_short_in_use),
        cmocka_unit_test(file_cut_short_on_the_way),
        cmocka_unit_test(leftovers),
        cmocka_unit_test(killed_while_writing),
        cmocka_unit_test(locks),
        cmocka_unit_test(locks_under_contention),
        cmocka_unit_test(visible),
        cmocka_unit_test(latin_1),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
