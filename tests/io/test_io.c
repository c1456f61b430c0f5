/* Files of numbers by name: which reader is taken, how a source is split into path and selection, pipes, and writing,
 * which leaves a whole file or none. The formats are in test_npy.c, test_csv.c and test_safetensors.c. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/io/io_support.h"

static int count_files(void) {
    char command[128];
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

/* ---- io_read ----------------------------------------------------------------------------------------------------- */

static void read_picks_the_reader(void **state) {
    (void)state;
    const double numbers[2] = {1, 2};
    bytes array = simple_npy("<f8", "False", "(2,)", numbers, sizeof numbers);
    io_table table;
    put_file(in_directory("array.dat"), array.data, array.n);
    assert_int_equal(io_read(in_directory("array.dat"), NULL, &table), CIRCE_OK);
    io_table_free(&table);
    put_file(in_directory("UPPER.NPY"), array.data, array.n);
    assert_int_equal(io_read(in_directory("UPPER.NPY"), NULL, &table), CIRCE_OK);
    io_table_free(&table);
    put_file(in_directory("t.tsv"), "a\tb c\n1\t2\n", 10);
    assert_int_equal(io_read(in_directory("t.tsv:b c"), NULL, &table), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 2.0);
    io_table_free(&table);
    put_file(in_directory("notes.txt"), "a,b\n1,2\n", 8);
    assert_int_equal(io_read(in_directory("notes.txt"), NULL, &table), CIRCE_ERR_FORMAT);
    assert_says(".npy, .npz, .csv, .tsv and .safetensors");
    put_file(in_directory("false.npy"), "a,b\n1,2\n", 8);
    assert_int_equal(io_read(in_directory("false.npy"), NULL, &table), CIRCE_ERR_FORMAT);
    put_file(in_directory("nothing.npy"), "", 0);
    assert_int_equal(io_read(in_directory("nothing.npy"), NULL, &table), CIRCE_ERR_FORMAT);
    put_file(in_directory("nothing.csv"), "", 0);
    assert_int_equal(io_read(in_directory("nothing.csv"), NULL, &table), CIRCE_ERR_VALUE);
    assert_int_equal(io_read(in_directory("UPPER.NPY:x"), NULL, &table), CIRCE_ERR_ARGUMENT);
    assert_says("one array");
    assert_int_equal(io_read(in_directory("UPPER.NPY"), "x", &table), CIRCE_ERR_ARGUMENT);
    assert_says(".csv");
}

static void read_splits_the_source(void **state) {
    (void)state;
    io_table table;
    put_file(in_directory("s.csv"), "a,b,c:d\n1,2,3\n", 14);
    put_file(in_directory("s.csv:a"), "x", 1);
    put_file(in_directory("t:b.csv"), "b\n5\n", 4);
    assert_int_equal(io_read(in_directory("s.csv:b"), NULL, &table), CIRCE_OK);
    assert_true(table.values.cols == 1 && at(&table, 0, 0) == 2.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:c:d"), NULL, &table), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 3.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv"), "a", &table), CIRCE_OK);
    assert_true(at(&table, 0, 0) == 1.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:b"), "a", &table), CIRCE_ERR_ARGUMENT);
    assert_says("leave out ':b'");
    assert_int_equal(io_read(in_directory("t:b.csv"), NULL, &table), CIRCE_OK); /* a whole path wins */
    assert_true(at(&table, 0, 0) == 5.0);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("t:b.csv:b"), NULL, &table), CIRCE_OK);
    io_table_free(&table);
    assert_int_equal(io_read(in_directory("s.csv:a"), NULL, &table), CIRCE_ERR_FORMAT); /* the file of that name */
}

static void read_refusals(void **state) {
    (void)state;
    io_table table;
    assert_int_equal(io_read(in_directory("absent.csv"), NULL, &table), CIRCE_ERR_IO);
    assert_says("absent.csv: No such file or directory");
    assert_int_equal(io_read(in_directory("absent.csv:a,b"), NULL, &table), CIRCE_ERR_IO);
    assert_says("absent.csv: No such file or directory");
    assert_int_equal(io_read(directory, NULL, &table), CIRCE_ERR_IO);
    assert_says("Is a directory");
    assert_int_equal(io_read("", NULL, &table), CIRCE_ERR_IO);
    put_file(in_directory("private.csv"), "a\n1\n", 4);
    assert_int_equal(chmod(in_directory("private.csv"), 0), 0);
    circe_status status = io_read(in_directory("private.csv"), NULL, &table);
    if (geteuid() == 0) { /* root may read everything */
        assert_int_equal(status, CIRCE_OK);
        io_table_free(&table);
    } else {
        assert_int_equal(status, CIRCE_ERR_IO);
        assert_says("Permission denied");
    }
}

/* A pipe larger than its buffer, written by a child. */
static void read_pipe(void **state) {
    (void)state;
    enum { N = 100000 };
    int ends[2];
    char path[32];
    io_table table;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        FILE *out = fdopen(ends[1], "w");
        close(ends[0]);
        fprintf(out, "a,b\n");
        for (int i = 0; i < N; i++) fprintf(out, "%d,%d\n", i, -i);
        fclose(out);
        _exit(0);
    }
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d:b", ends[0]);
    assert_int_equal(io_read(path, NULL, &table), CIRCE_OK);
    close(ends[0]);
    assert_int_equal(table.values.rows, N);
    assert_true(at(&table, N - 1, 0) == -(N - 1));
    io_table_free(&table);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_is_whole_or_not(void **state) {
    (void)state;
    char data[64], *large = calloc(1, 1 << 16);
    assert_non_null(large);
    const char *path = in_directory("kept.txt");
    assert_int_equal(file_write_text(path, "old", 3), CIRCE_OK);
    assert_int_equal(chmod(path, 0640), 0);
    int n_files = count_files();

    /* A limit on file sizes stands in for a full disk: the write fails in the middle. */
    struct rlimit limit, small = {4096, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    circe_status status = file_write_text(path, large, 1 << 16);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, CIRCE_ERR_WRITE);
    assert_says("kept.txt: cannot be written: File too large");
    assert_int_equal(get_file(path, data, sizeof data), 3);
    assert_int_equal(count_files(), n_files);

    assert_int_equal(file_write_text(path, "newer", 5), CIRCE_OK);
    assert_int_equal(get_file(path, data, sizeof data), 5);
    assert_memory_equal(data, "newer", 5);
    assert_int_equal(count_files(), n_files);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* the mode of the file that was replaced */
    free(large);
}

static void write_keeps_links(void **state) {
    (void)state;
    struct stat info;
    char data[16];
    assert_int_equal(file_write_text(in_directory("behind.txt"), "1", 1), CIRCE_OK);
    assert_int_equal(symlink("behind.txt", in_directory("link.txt")), 0);
    assert_int_equal(file_write_text(in_directory("link.txt"), "22", 2), CIRCE_OK);
    assert_int_equal(lstat(in_directory("link.txt"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(get_file(in_directory("behind.txt"), data, sizeof data), 2);
}

static void write_refusals(void **state) {
    (void)state;
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    assert_int_equal(io_write_npy("/dev/full", &mat), CIRCE_ERR_WRITE);
    assert_says("/dev/full: cannot be written: No space left on device");
    assert_int_equal(file_write_text("/dev/full", "x", 1), CIRCE_ERR_WRITE);
    assert_says("No space left on device");
    assert_int_equal(file_write_text(in_directory("no/such/dir.txt"), "x", 1), CIRCE_ERR_WRITE);
    assert_says("No such file or directory");
    assert_int_equal(file_write_text(directory, "x", 1), CIRCE_ERR_WRITE);
    assert_says("Is a directory");
    assert_int_equal(file_write_text("", "x", 1), CIRCE_ERR_WRITE);
    mat.ld = 0;
    assert_int_equal(io_write_npy(in_directory("x.npy"), &mat), CIRCE_ERR_ARGUMENT);
}

static void write_to_a_pipe(void **state) {
    (void)state;
    int ends[2];
    char path[32], data[256];
    double value = 1.0;
    circe_mat mat = circe_mat_f64(&value, 1, 1);
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_int_equal(io_write_npy(path, &mat), CIRCE_OK);
    close(ends[1]);
    assert_int_equal(read(ends[0], data, sizeof data), 136);
    close(ends[0]);
}

/* Rows and columns from headers, and of text from its first rows. */
static void shapes(void **state) {
    (void)state;
    io_shape shape;
    double values[6] = {1, 2, 3, 4, 5, 6};
    bytes array = simple_npy("<f8", "False", "(3, 2)", values, sizeof values);
    put_file(in_directory("shape.npy"), array.data, array.n);
    assert_int_equal(io_read_shape(in_directory("shape.npy"), NULL, NULL, &shape), CIRCE_OK);
    assert_true(shape.rows == 3 && shape.cols == 2 && shape.exact && shape.bytes == 48);
    static const char text[] = "a,b,c\n1,2,\"3\n\"\n4,5,6";
    put_file(in_directory("shape.csv"), text, sizeof text - 1);
    assert_int_equal(io_read_shape(in_directory("shape.csv"), NULL, NULL, &shape), CIRCE_OK);
    assert_true(shape.rows == 2 && shape.cols == 3 && shape.exact);
    assert_int_equal(io_read_shape(in_directory("shape.csv:c,a"), NULL, NULL, &shape), CIRCE_OK);
    assert_true(shape.rows == 2 && shape.cols == 2 && shape.bytes == 32);
    assert_int_equal(io_read_shape(in_directory("shape.csv"), "d", NULL, &shape), CIRCE_ERR_ARGUMENT);

    FILE *file = fopen(in_directory("long.csv"), "w");
    assert_non_null(file);
    for (int i = 0; i < 100000; i++) fprintf(file, "%06d,%06d\n", i, i);
    fclose(file);
    assert_int_equal(io_read_shape(in_directory("long.csv"), NULL, NULL, &shape), CIRCE_OK);
    assert_true(shape.rows == 100000 && shape.cols == 2 && !shape.exact);
    assert_int_equal(io_read_shape("/dev/null", NULL, NULL, &shape), CIRCE_OK);
    assert_int_equal(shape.rows, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_picks_the_reader),
        cmocka_unit_test(read_splits_the_source),
        cmocka_unit_test(read_refusals),
        cmocka_unit_test(read_pipe),
        cmocka_unit_test(write_is_whole_or_not),
        cmocka_unit_test(write_keeps_links),
        cmocka_unit_test(write_refusals),
        cmocka_unit_test(write_to_a_pipe),
        cmocka_unit_test(shapes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
