/* circe demo: a first run that explains itself, on data from the paper's univariate causal model, case 1. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "circe/circe.h"
#include "commands.h"
#include "io.h"
#include "message.h"
#include "output.h"
#include "paths.h"
#include "plot.h"
#include "progress.h"
#include "session.h"

enum { DEPENDENT, INDEPENDENT, FEATURES };

static const char *const feature_name[FEATURES] = {"dependent", "independent"};

/* Columns of 2n points: the first n are measured, the others are fitted on. */
typedef struct demo {
    const args *arguments;
    const char *folder;
    session s;
    int64_t n;
    double *y, *z, *feature[FEATURES];
    double *memory; /* which holds them all */
    circe_cme *cme;
    double value[FEATURES], unbiased[FEATURES], correlation[FEATURES], seconds[FEATURES];
    bool drawn;
} demo;

static void standardise(double *values, int64_t n) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += values[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (values[i] - mean) * (values[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) values[i] = (values[i] - mean) / sqrt(square);
}

/* Y, e_Z ~ N(0, 1); e_A, e_B ~ N(0, 0.1) (a variance); Z = Y^2 + e_Z; A = 0.5 Z e_A + 2 Y;
 * B = 0.5 exp(-AY) sin(2AY) + 5 Z + 0.2 e_B. The features: B, and a noisy function of Y alone. */
static int draw_data(demo *d) {
    int64_t n = 2 * d->n;
    enum { Y, Z, A, B, OTHER, COLUMNS };
    d->memory = malloc((size_t)(COLUMNS * n) * sizeof(double));
    if (d->memory == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
    double *column[COLUMNS];
    for (uint64_t c = 0; c < COLUMNS; c++) {
        column[c] = d->memory + (int64_t)c * n;
        circe_random stream = {.seed = (uint64_t)args_integer(d->arguments, OPT_SEED), .stream = c};
        circe_random_normal(stream, 0, n, column[c]);
    }
    for (int64_t i = 0; i < n; i++) {
        double y = column[Y][i], z = y * y + column[Z][i];
        double a = 0.5 * z * sqrt(0.1) * column[A][i] + 2 * y;
        column[Z][i] = z;
        column[B][i] = 0.5 * exp(-a * y) * sin(2 * a * y) + 5 * z + 0.2 * sqrt(0.1) * column[B][i];
        column[OTHER][i] = fabs(y) + 0.5 * y + 0.3 * column[OTHER][i];
    }
    d->y = column[Y], d->z = column[Z];
    d->feature[DEPENDENT] = column[B], d->feature[INDEPENDENT] = column[OTHER];
    standardise(d->y, n);
    standardise(d->z, n);
    standardise(d->feature[DEPENDENT], n);
    standardise(d->feature[INDEPENDENT], n);
    return EXIT_DONE;
}

static int write_column(const demo *d, const char *name, const double *values) {
    char *path = small_format("%s/%s", d->folder, name);
    circe_mat column = circe_mat_f64(values, d->n, 1);
    io_error error = {""};
    int status = EXIT_DONE;
    if (io_write_npy(path, &column, &error) != CIRCE_OK) status = message_write(path, error.text);
    free(path);
    return status;
}

static int write_csv(const demo *d) {
    char *text = NULL, *path = small_format("%s/demo.csv", d->folder);
    size_t bytes = 0;
    io_error error = {""};
    FILE *out = open_memstream(&text, &bytes);
    int status = out != NULL ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory");
    if (out != NULL) {
        fprintf(out, "%s,%s,y,z\n", feature_name[0], feature_name[1]);
        for (int64_t i = 0; i < d->n; i++)
            fprintf(out, "%.17g,%.17g,%.17g,%.17g\n", d->feature[0][i], d->feature[1][i], d->y[i], d->z[i]);
        fclose(out);
        if (io_write_text(path, text, bytes, &error) != CIRCE_OK) status = message_write(path, error.text);
    }
    free(text);
    free(path);
    return status;
}

static int write_data(const demo *d) {
    const struct {
        const char *name;
        const double *values;
    } files[] = {{"x_dependent.npy", d->feature[DEPENDENT]},
                 {"x_independent.npy", d->feature[INDEPENDENT]},
                 {"y.npy", d->y},
                 {"z.npy", d->z},
                 {"holdout_y.npy", d->y + d->n},
                 {"holdout_z.npy", d->z + d->n}};
    int status = path_make_folder(d->folder);
    for (size_t i = 0; status == EXIT_DONE && i < sizeof files / sizeof files[0]; i++)
        status = write_column(d, files[i].name, files[i].values);
    return status == EXIT_DONE ? write_csv(d) : status;
}

/* As `circe fit` does with its defaults, so that its commands repeat these very numbers. */
static int fit(demo *d) {
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_mat y = circe_mat_f64(d->y + d->n, d->n, 1), z = circe_mat_f64(d->z + d->n, d->n, 1);
    circe_cme_options options;
    circe_cme_options_init(&options);
    char *path = small_format("%s/model.safetensors", d->folder);
    circe_status status = circe_kernel_create(d->s.context, CIRCE_KERNEL_GAUSSIAN, 0, &kernel_y);
    if (status == CIRCE_OK) status = circe_kernel_create(d->s.context, CIRCE_KERNEL_GAUSSIAN, 0, &kernel_z);
    if (status == CIRCE_OK) status = circe_kernel_bind_median(kernel_z, &z);
    if (status == CIRCE_OK) status = circe_cme_fit(d->s.context, &y, &z, kernel_y, kernel_z, &options, &d->cme);
    progress_clear();
    int done = status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
    if (done == EXIT_DONE && circe_cme_save(d->cme, path) != CIRCE_OK) done = message_write(path, circe_last_error());
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    free(path);
    return done;
}

static double correlation(const double *a, const double *b, int64_t n) {
    double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) ma += a[i] / (double)n, mb += b[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
        ab += (a[i] - ma) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

static int measure_feature(demo *d, int feature) {
    circe_kernel *kernel = NULL;
    circe_mat x = circe_mat_f64(d->feature[feature], d->n, 1);
    circe_mat y = circe_mat_f64(d->y, d->n, 1), z = circe_mat_f64(d->z, d->n, 1);
    circe_status status = circe_kernel_create(d->s.context, CIRCE_KERNEL_GAUSSIAN, 0, &kernel);
    if (status == CIRCE_OK) status = circe_kernel_bind_median(kernel, &x);
    double start = session_clock();
    if (status == CIRCE_OK)
        status =
            circe_measure_circe(d->s.workspace, d->cme, kernel, &x, &y, &z, CIRCE_CENTERED, &d->value[feature], NULL);
    d->seconds[feature] = session_clock() - start;
    if (status == CIRCE_OK)
        status =
            circe_measure_circe(d->s.workspace, d->cme, kernel, &x, &y, &z, CIRCE_USTAT, &d->unbiased[feature], NULL);
    d->correlation[feature] = correlation(d->feature[feature], d->z, d->n);
    circe_kernel_destroy(kernel);
    return status == CIRCE_OK ? EXIT_DONE : message_library(status, NULL);
}

static int draw_figure(demo *d) {
    demo_figure figure = {.n = d->n, .y = d->y, .z = d->z};
    for (int f = 0; f < FEATURES; f++) {
        figure.feature[f] = d->feature[f];
        figure.name[f] = feature_name[f];
        figure.value[f] = d->value[f];
    }
    return plot_demo(&figure, d->folder, &d->drawn);
}

static void explain_data(const demo *d) {
    printf(
        "Does a feature still tell something about z once y is known?\n\n"
        "1. Data: %" PRId64 " points of a causal model of the CIRCE paper, and %" PRId64
        " more to fit on.\n\n"
        "     y ~ N(0, 1)    z = y^2 + noise    b = 5 z + a wiggle of y + noise\n\n"
        "   Two features, both correlated with z:\n"
        "     dependent    b: made from z, so it tells about z even when y is known\n"
        "     independent  |y| + y/2 + noise: made from y alone, it knows z only through y\n\n",
        d->n, d->n);
}

static void explain_fit(const demo *d) {
    circe_cme_info info;
    circe_loo_table loo;
    char time[32];
    circe_cme_get_info(d->cme, &info);
    circe_cme_get_loo(d->cme, &loo);
    printf(
        "2. Fit: the conditional mean of z given y, in %s.\n\n"
        "     sigma2_y = %g and ridge = %g, the best of %" PRId64
        " pairs by leave-one-out error\n"
        "     method %s, ranks %" PRId64 " and %" PRId64 " instead of %" PRId64 "\n\n",
        text_seconds(info.seconds, time, sizeof time), info.sigma2_y, info.ridge, loo.n_sigma2_y * loo.n_ridge,
        circe_method_name(info.method), info.rank_y, info.rank_z, info.rows);
}

static void explain_values(const demo *d) {
    char time[32];
    printf("3. Measure.\n\n     %-12s %16s %12s %12s %10s\n", "feature", "correlation", "CIRCE", "unbiased", "time");
    for (int f = 0; f < FEATURES; f++)
        printf("     %-12s %16.2f %12.3g %12.1e %10s\n", feature_name[f], d->correlation[f], d->value[f],
               d->unbiased[f], text_seconds(d->seconds[f], time, sizeof time));
    printf(
        "\n   Correlation with z calls both features guilty. CIRCE tells them apart: the first value is\n"
        "   %.0f times the second. The plain estimate is never below 0, so it keeps a small remainder;\n"
        "   the unbiased one scatters around 0 where there is no dependence given y, and here it is\n"
        "   %.1e for the independent feature against %.1e for the dependent one.\n\n",
        d->value[DEPENDENT] / d->value[INDEPENDENT], d->unbiased[INDEPENDENT], d->unbiased[DEPENDENT]);
}

static void explain_plot(const demo *d) {
    if (d->drawn)
        printf(
            "4. Plot: %s/demo.svg (made by demo.gp from demo.dat, beside it). Each colour is one value of y:\n"
            "   at the left the feature climbs with z within every colour, at the right it stays level.\n\n",
            d->folder);
    else
        printf(
            "4. Plot: skipped, since gnuplot is not here or failed. With it (Debian: apt-get install\n"
            "   gnuplot-nox), draw the figure by: cd %s && gnuplot demo.gp\n\n",
            d->folder);
}

static void explain_next(const demo *d) {
    const char *f = d->folder;
    printf(
        "Try next, on the same files:\n\n"
        "  # the first value again, against the model that was just fitted\n"
        "  circe measure circe --data %s/demo.csv --x dependent --y y --z z --model %s/model.safetensors\n\n"
        "  # the same from arrays, with the gradient that would train the dependence away\n"
        "  circe measure circe --x %s/x_dependent.npy --y %s/y.npy --z %s/z.npy \\\n"
        "      --holdout-y %s/holdout_y.npy --holdout-z %s/holdout_z.npy --grad %s/grad.npy\n\n"
        "  # the fit on its own, with its table of leave-one-out errors\n"
        "  circe fit --y %s/holdout_y.npy --z %s/holdout_z.npy -o %s/model.safetensors\n\n"
        "  circe --help\n",
        f, f, f, f, f, f, f, f, f, f, f);
}

static int run(demo *d) {
    int status = draw_data(d);
    if (status == EXIT_DONE) status = write_data(d);
    if (status == EXIT_DONE) status = fit(d);
    for (int f = 0; f < FEATURES && status == EXIT_DONE; f++) status = measure_feature(d, f);
    if (status == EXIT_DONE) status = draw_figure(d);
    if (status != EXIT_DONE) return status;
    explain_data(d);
    explain_fit(d);
    explain_values(d);
    explain_plot(d);
    explain_next(d);
    return EXIT_DONE;
}

int cmd_demo(const args *arguments) {
    demo d = {
        .arguments = arguments, .folder = args_text(arguments, OPT_OUTPUT_DIR), .n = args_integer(arguments, OPT_N)};
    int status = session_open(arguments, &d.s);
    if (status == EXIT_DONE) status = run(&d);
    circe_cme_destroy(d.cme);
    free(d.memory);
    session_close(&d.s);
    return status;
}
