/* The figure of the demonstration. All points are grey; those whose y lies in one of a few narrow windows are coloured,
 * each window with its least-squares line: at fixed y, does the feature still move with z? */
#include "plot.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io.h"
#include "message.h"

enum { WINDOWS = 5 };

static const double window_centre[WINDOWS] = {-1.5, -0.75, 0, 0.75, 1.5};
static const double window_half_width = 0.12;
static const char *const window_colour[WINDOWS] = {"#3b4cc0", "#6b9bd1", "#4d9a5b", "#e08a3c", "#b40426"};

static bool in_window(double y, int window) { return fabs(y - window_centre[window]) <= window_half_width; }

/* The line of one feature in one window as its two ends; false where it has too few points. */
static bool fit_line(const demo_figure *f, int feature, int window, double ends[4]) {
    double n = 0, sz = 0, sx = 0, szz = 0, szx = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < f->n; i++) {
        if (!in_window(f->y[i], window)) continue;
        double z = f->z[i], x = f->feature[feature][i];
        n++, sz += z, sx += x, szz += z * z, szx += z * x;
        low = fmin(low, z), high = fmax(high, z);
    }
    double spread = n * szz - sz * sz;
    if (n < 3 || !(spread > 0)) return false;
    double slope = (n * szx - sz * sx) / spread, offset = (sx - slope * sz) / n;
    ends[0] = low, ends[1] = offset + slope * low, ends[2] = high, ends[3] = offset + slope * high;
    return true;
}

/* Blocks separated by two blank lines, as gnuplot's `index` counts them: all points, each window's points, then the
 * lines of both features in each window. An empty block gets a NaN, so that the count stays right. */
static void put_data(FILE *out, const demo_figure *f) {
    fprintf(out, "# all points: z, %s, %s, y\n", f->name[0], f->name[1]);
    for (int64_t i = 0; i < f->n; i++)
        fprintf(out, "%.6g %.6g %.6g %.6g\n", f->z[i], f->feature[0][i], f->feature[1][i], f->y[i]);
    for (int w = 0; w < WINDOWS; w++) {
        fprintf(out, "\n\n# points with y within %g of %g: z, %s, %s, y\n", window_half_width, window_centre[w],
                f->name[0], f->name[1]);
        fputs("NaN NaN NaN NaN\n", out);
        for (int64_t i = 0; i < f->n; i++) {
            if (in_window(f->y[i], w))
                fprintf(out, "%.6g %.6g %.6g %.6g\n", f->z[i], f->feature[0][i], f->feature[1][i], f->y[i]);
        }
    }
    for (int w = 0; w < WINDOWS; w++) {
        double a[4] = {NAN, NAN, NAN, NAN}, b[4] = {NAN, NAN, NAN, NAN};
        fit_line(f, 0, w, a);
        fit_line(f, 1, w, b);
        fprintf(out, "\n\n# least-squares lines at y near %g: z, %s, z, %s\n", window_centre[w], f->name[0],
                f->name[1]);
        fprintf(out, "%.6g %.6g %.6g %.6g\n%.6g %.6g %.6g %.6g\n", a[0], a[1], b[0], b[1], a[2], a[3], b[2], b[3]);
    }
}

static void put_panel(FILE *out, const demo_figure *f, int feature) {
    int column = 2 + feature;
    fprintf(out, "\nset title \"%s feature: CIRCE = %.3g\"\n", f->name[feature], f->value[feature]);
    fprintf(out, "set ylabel \"%s feature\"\n", f->name[feature]);
    fprintf(out, "plot \"demo.dat\" index 0 using 1:%d with points pt 7 ps 0.22 lc rgb \"#c8c8c8\" notitle, \\\n",
            column);
    for (int w = 0; w < WINDOWS; w++)
        fprintf(out, "     \"\" index %d using 1:%d with points pt 7 ps 0.4 lc rgb \"%s\" notitle, \\\n", 1 + w, column,
                window_colour[w]);
    for (int w = 0; w < WINDOWS; w++)
        fprintf(out, "     \"\" index %d using %d:%d with lines lw 3 lc rgb \"%s\" title \"y near %g\"%s\n",
                1 + WINDOWS + w, 1 + 2 * feature, 2 + 2 * feature, window_colour[w], window_centre[w],
                w + 1 < WINDOWS ? ", \\" : "");
}

static void put_script(FILE *out, const demo_figure *f) {
    fputs(
        "# The figure of `circe demo`. To draw it again: gnuplot demo.gp\n"
        "set terminal svg size 1000,460 font \"sans,13\" background rgb \"white\"\n"
        "set output \"demo.svg\"\n"
        "set datafile missing \"NaN\"\n"
        "set multiplot layout 1,2 title \"At a given y (one colour), does the feature still move with z?\"\n"
        "set xlabel \"z\"\n"
        "set border 3\n"
        "set tics nomirror out\n"
        "set key top left samplen 1.5 spacing 0.95\n",
        out);
    put_panel(out, f, 0);
    put_panel(out, f, 1);
    fputs("\nunset multiplot\n", out);
}

static int write_file(const demo_figure *figure, const char *folder, const char *name,
                      void (*put)(FILE *, const demo_figure *)) {
    char *text = NULL, *path = small_format("%s/%s", folder, name);
    size_t bytes = 0;
    io_error error = {""};
    int status = EXIT_DONE;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        status = message_fail(EXIT_WORK, "out of memory");
    } else {
        put(out, figure);
        fclose(out);
        if (io_write_text(path, text, bytes, &error) != CIRCE_OK) status = message_write(path, error.text);
    }
    free(text);
    free(path);
    return status;
}

/* Runs gnuplot in the folder, silently; true where it succeeded. */
static bool run_gnuplot(const char *folder, const char *script) {
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere < 0 || chdir(folder) != 0) _exit(127);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(127);
    }
    int result = 0;
    return waitpid(child, &result, 0) == child && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

int plot_demo(const demo_figure *figure, const char *folder, bool *drawn) {
    *drawn = false;
    int status = write_file(figure, folder, "demo.dat", put_data);
    if (status == EXIT_DONE) status = write_file(figure, folder, "demo.gp", put_script);
    if (status == EXIT_DONE) *drawn = run_gnuplot(folder, "demo.gp");
    return status;
}
