/* circe demo: a first run that explains itself. On data from the paper's univariate causal model, case 1, a predictor
 * is trained twice, by the very commands that are shown. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/demo/demo.h"
#include "io/io.h"
#include "io/paths.h"

enum { TEST_POINTS = 2000, VCF_POINTS = 1000, VCF_DRAWS = 100 };

static int refuse_library(circe_status status) { return message_read(status, NULL, circe_last_error()); }

/* As a shell takes it for one word; to be freed. */
static char *quoted(const char *text) {
    const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-,:@%";
    char *out = NULL;
    size_t bytes = 0;
    if (strspn(text, safe) == strlen(text)) return small_format("%s", text);
    FILE *stream = open_memstream(&out, &bytes);
    if (stream == NULL) return small_format("%s", text);
    fputc('\'', stream);
    for (const char *c = text; *c != '\0'; c++) fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, stream);
    fputc('\'', stream);
    fclose(stream);
    return out;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static int draw_data(demo *d) {
    int64_t n = args_integer(d->arguments, OPT_N);
    uint64_t seed = (uint64_t)args_integer(d->arguments, OPT_SEED);
    d->model = (synthetic_model){SYNTHETIC_UNIVARIATE_1, 1};
    circe_status status = synthetic_draw_rows(d->s.context, &d->model, seed, 0, n, &d->training);
    if (status == CIRCE_OK) status = synthetic_draw_rows(d->s.context, &d->model, seed, n, TEST_POINTS, &d->test);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status);
}

static double at(const circe_mat *column, int64_t row) { return ((const double *)column->data)[row]; }

/* Columns a, y, z, b and, of the test points, the predictions. */
static int write_table(const demo *d, const char *name, const synthetic_sample *sample, bool predictions) {
    char *text = NULL, *path = small_format("%s/%s", d->folder, name);
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int status = out != NULL ? EXIT_DONE : message_fail(EXIT_WORK, "out of memory");
    if (out != NULL) {
        fputs("a,y,z,b", out);
        for (int k = 0; predictions && k < DEMO_LINES; k++) fprintf(out, ",%s", d->lines[k].name);
        fputc('\n', out);
        for (int64_t i = 0; i < sample->n; i++) {
            fprintf(out, "%.17g,%.17g,%.17g,%.17g", at(&sample->a, i), at(&sample->y, i), at(&sample->z, i),
                    at(&sample->b, i));
            for (int k = 0; predictions && k < DEMO_LINES; k++) fprintf(out, ",%.9g", d->lines[k].prediction[i]);
            fputc('\n', out);
        }
        fclose(out);
        if (io_write_text(path, text, bytes) != CIRCE_OK) status = message_write(path, circe_last_error());
    }
    free(text);
    free(path);
    return status;
}

/* ---- training: the commands that are shown ----------------------------------------------------------------------- */

enum { MOST_WORDS = 48 };

/* Words of the command line, between spaces; those of paths are put in afterwards, since they may hold some. */
static int split_words(char *text, char **words) {
    int n = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && n < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    return n;
}

static int train_line(demo *d, int k) {
    demo_line *line = &d->lines[k];
    char *words[MOST_WORDS], *data = small_format("%s/train.csv", d->folder);
    char *model = small_format("%s/%s.safetensors", d->folder, line->name);
    char *options = small_format(
        "--features a,y,z --target b --given y --invariant-to z --regularizer %s --net 9x64 --lr 2e-3 "
        "--weight-decay 0.3 --epochs %" PRId64 " --seed %" PRId64 " --threads %" PRId64,
        k == DEMO_FREE ? "none" : "circe --gamma 1000", args_integer(d->arguments, OPT_EPOCHS),
        args_integer(d->arguments, OPT_SEED), args_integer(d->arguments, OPT_DEMO_THREADS));
    line->command = small_format("%s train --data %s/train.csv %s -o %s/%s.safetensors", d->program, d->shell_folder,
                                 options, d->shell_folder, line->name);
    int n = split_words(options, words);
    words[n++] = "--data", words[n++] = data, words[n++] = "-o", words[n++] = model;
    words[n++] = "--no-report", words[n++] = "--quiet";
    int status = args_parse(&spec_commands[SPEC_TRAIN], n, words, &line->arguments);
    if (status == EXIT_DONE) status = training_job_open(&line->arguments, &d->s, line->title, &line->job);
    if (status == EXIT_DONE) status = training_job_run(&line->job);
    if (status == EXIT_DONE) status = training_job_judge(&line->job);
    if (status == EXIT_DONE) status = training_job_save(&line->job);
    free(options);
    line->paths[0] = data;
    line->paths[1] = model;
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* A predictor as the interventions ask for it: the standardised b. */
static circe_status predict_rows(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                 double *prediction) {
    const training_job *job = user;
    const train_scaler *scale = &job->set.feature_scale;
    const double *const column[] = {a, y, z};
    float *in = calloc((size_t)(4 * rows + 1), sizeof *in), *out = in != NULL ? in + 3 * rows : NULL;
    if (in == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %lld rows", (long long)rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int c = 0; c < 3; c++) in[3 * i + c] = (float)((column[c][i] - scale->mean[c]) / scale->deviation[c]);
    }
    circe_status status = train_network_predict(job->network, rows, in, out);
    for (int64_t i = 0; status == CIRCE_OK && i < rows; i++) prediction[i] = (double)out[i];
    free(in);
    return status;
}

static int judge_line(demo *d, demo_line *line) {
    const synthetic_sample *test = &d->test;
    const train_scaler *scale = &line->job.set.target_scale;
    uint64_t seed = (uint64_t)args_integer(d->arguments, OPT_SEED);
    int64_t n = test->n;
    line->prediction = small_alloc((size_t)n * sizeof *line->prediction);
    circe_status status = predict_rows(&line->job, n, test->a.data, test->y.data, test->z.data, line->prediction);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        double error = line->prediction[i] - (at(&test->b, i) - scale->mean[0]) / scale->deviation[0];
        line->mse += error * error / (double)n;
        line->prediction[i] = line->prediction[i] * scale->deviation[0] + scale->mean[0];
    }
    if (status == CIRCE_OK)
        status = synthetic_vcf(d->s.context, &d->model, test, VCF_POINTS, VCF_DRAWS, false, seed, predict_rows,
                               &line->job, &line->vcf);
    if (status == CIRCE_OK)
        status = synthetic_vcf(d->s.context, &d->model, test, VCF_POINTS, VCF_DRAWS, true, seed, predict_rows,
                               &line->job, &line->vcf_support);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status);
}

static int find_floor(demo *d) {
    double variance = NAN, deviation = d->lines[DEMO_FREE].job.set.target_scale.deviation[0];
    circe_status status = synthetic_conditional_variance(d->s.context, &d->model, &d->test,
                                                         (uint64_t)args_integer(d->arguments, OPT_SEED), &variance);
    d->floor = variance / (deviation * deviation);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void explain_data(const demo *d) {
    printf(
        "Predict b, but not by z: an invariant predictor, and what it costs\n\n"
        "1. Data: %" PRId64
        " points of a causal model of the CIRCE paper, in %s/train.csv,\n"
        "   and %d more to judge by, in %s/test.csv.\n\n"
        "     y ~ N(0, 1)   z = y^2 + noise   a = 2 y + z * noise   b = 5 z + a wiggle of a and y + noise\n\n"
        "   b is predicted from a, y and z. The prediction must not depend on z once y is known.\n\n",
        d->training.n, d->folder, TEST_POINTS, d->folder);
    fflush(stdout);
}

static void explain_training(const demo *d) {
    const train_result *free_run = &d->lines[DEMO_FREE].job.result, *run = &d->lines[DEMO_INVARIANT].job.result;
    printf("2. Training: a network of 9 layers, %" PRId64
           " epochs, without a regulariser in %.1f s, and with CIRCE in\n"
           "   %.1f s: loss + 1000 * CIRCE(prediction, z given y), on every batch.\n\n",
           run->epochs_done, free_run->seconds, run->seconds);
}

static void explain_result(const demo *d) {
    const demo_line *exact = &d->lines[DEMO_FREE], *invariant = &d->lines[DEMO_INVARIANT];
    printf("3. The two predictors on the test points\n\n     %-14s %10s %10s %14s %10s\n", "", "MSE", "vcf",
           "vcf_support", "CIRCE");
    for (int k = 0; k < DEMO_LINES; k++) {
        const demo_line *line = &d->lines[k];
        printf("     %-14s %10.3g %10.3g %14.3g %10.2g\n", line->title, line->mse, line->vcf, line->vcf_support,
               demo_circe(line));
    }
    printf("     %-14s %10.3g %10d %14d %10d\n", "floor", d->floor, 0, 0, 0);
    printf(
        "\n   MSE is in units of b's variance. vcf is how much the prediction moves when z is set to another\n"
        "   value and a follows, in the same units; vcf_support takes only values of z that go with y.\n\n"
        "   Without CIRCE the prediction is nearly exact, because it reads z: set z to something else, and it\n"
        "   moves as much as b varies. With CIRCE it moves %.0f times less, %.0f times less within the data. The\n"
        "   price is the floor: who ignores z once y is known has an error of %.3f at least, E[Var(b | y)].\n",
        exact->vcf / invariant->vcf, exact->vcf_support / invariant->vcf_support, d->floor);
    if (invariant->mse < d->floor)
        printf("   (%.3f is a little below it by chance of the test points, and by what is left of z.)\n",
               invariant->mse);
    putchar('\n');
}

static void explain_next(const demo *d) {
    const char *p = d->program, *f = d->shell_folder;
    printf("Report: %s/report.html, with figures, settings and the commands that made it.\n\n", d->folder);
    printf(
        "Try next, on the same files:\n\n"
        "  # every measure of dependence, of the exact prediction and of the invariant one\n"
        "  %s measure all --data %s/test.csv --x free --y y --z z\n"
        "  %s measure all --data %s/test.csv --x invariant --y y --z z\n\n",
        p, f, p, f);
    printf(
        "  # the invariant predictor on another table\n"
        "  %s predict --model %s/invariant.safetensors --data %s/test.csv -o %s/predictions.csv\n\n"
        "  # the training of it, with a report of its own; try another --gamma\n  %s\n\n  %s --help\n",
        p, f, f, f, d->lines[DEMO_INVARIANT].command, p);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int run(demo *d) {
    double start = session_clock();
    int status = message_refused(path_make_folder(d->folder));
    if (status == EXIT_DONE) status = draw_data(d);
    if (status == EXIT_DONE) status = write_table(d, "train.csv", &d->training, false);
    if (status != EXIT_DONE) return status;
    explain_data(d);
    for (int k = 0; k < DEMO_LINES && status == EXIT_DONE; k++) status = train_line(d, k);
    for (int k = 0; k < DEMO_LINES && status == EXIT_DONE; k++) status = judge_line(d, &d->lines[k]);
    if (status == EXIT_DONE) status = find_floor(d);
    if (status == EXIT_DONE) status = write_table(d, "test.csv", &d->test, true);
    d->seconds = session_clock() - start;
    if (status == EXIT_DONE) status = demo_report_write(d);
    if (status != EXIT_DONE) return status;
    explain_training(d);
    explain_result(d);
    explain_next(d);
    return EXIT_DONE;
}

static void free_line(demo_line *line) {
    training_job_free(&line->job);
    args_free(&line->arguments);
    free(line->prediction);
    free(line->command);
    free(line->paths[0]);
    free(line->paths[1]);
}

int cmd_demo(const args *arguments) {
    const char *folder = args_text(arguments, OPT_OUTPUT_DIR);
    demo d = {.arguments = arguments,
              .folder = folder,
              .shell_folder = quoted(folder),
              .program = quoted(strchr(program_invocation_name, '/') != NULL ? program_invocation_name : "circe"),
              .lines = {[DEMO_FREE] = {.name = "free", .title = "without CIRCE"},
                        [DEMO_INVARIANT] = {.name = "invariant", .title = "with CIRCE"}}};
    args own = *arguments;
    own.values[OPT_THREADS] = own.values[OPT_DEMO_THREADS];
    int status = session_open(&own, &d.s);
    progress_catch_termination();
    if (status == EXIT_DONE) status = run(&d);
    for (int k = 0; k < DEMO_LINES; k++) free_line(&d.lines[k]);
    synthetic_free(&d.training);
    synthetic_free(&d.test);
    free(d.program);
    free(d.shell_folder);
    session_close(&d.s);
    return status;
}
