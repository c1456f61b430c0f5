/* circe demo: a first run that explains itself. On data from the paper's univariate causal model, case 1, a predictor
 * is trained twice; the commands that do the same are shown. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/owned.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/text.h"
#include "cli/demo/demo.h"
#include "io/io.h"
#include "io/paths.h"

enum { TEST_POINTS = 2000, VCF_POINTS = 1000, VCF_DRAWS = 100 };

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

static circe_status draw_data(demo *d) {
    uint64_t seed = (uint64_t)d->seed;
    d->model = (synthetic_model){SYNTHETIC_UNIVARIATE_1, 1};
    circe_status status = synthetic_draw_rows(d->s.context, &d->model, seed, 0, d->points, &d->training);
    return status == CIRCE_OK ? synthetic_draw_rows(d->s.context, &d->model, seed, d->points, TEST_POINTS, &d->test)
                              : status;
}

/* Columns a, y, z, b and, of the test points, the predictions. */
static circe_status write_table(const demo *d, const char *name, const synthetic_sample *sample, bool predictions) {
    OWNED char *text = NULL, *path = small_format("%s/%s", d->folder, name);
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) {
        fputs("a,y,z,b", out);
        for (int k = 0; predictions && k < DEMO_LINES; k++) fprintf(out, ",%s", d->lines[k].name);
        fputc('\n', out);
        for (int64_t i = 0; i < sample->n; i++) {
            fprintf(out, "%.17g,%.17g,%.17g,%.17g", demo_at(&sample->a, i), demo_at(&sample->y, i),
                    demo_at(&sample->z, i), demo_at(&sample->b, i));
            for (int k = 0; predictions && k < DEMO_LINES; k++) fprintf(out, ",%.9g", d->lines[k].prediction[i]);
            fputc('\n', out);
        }
    }
    return out != NULL && fclose(out) == 0 ? file_write_text(path, text, bytes)
                                           : circe_fail(CIRCE_ERR_MEMORY, "out of memory");
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* The command line that says the same as these options; to be freed. */
static char *command_of(const demo *d, const circe_train_options *options) {
    const circe_schema *schema = &circe_train_schema;
    char *text = NULL, number[40];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s train", d->program);
    fprintf(out, "%s train", d->program);
    for (size_t i = 0; i < schema->n; i++) {
        const circe_option *row = &schema->rows[i];
        if (!circe_options_given(schema, options, row->name)) continue;
        OWNED char *value = quoted(circe_options_text(schema, options, row->name, number, sizeof number));
        if (row->letter != 0)
            fprintf(out, " -%c %s", row->letter, value);
        else
            fprintf(out, " --%s %s", row->name, value);
    }
    fprintf(out, " --threads %d", circe_context_threads(d->s.context));
    fclose(out);
    return text;
}

static int tell(void *user, double done, const char *text) {
    const demo_line *line = user;
    OWNED char *titled = small_format("%s: %s", line->title, text);
    return progress_watch(NULL, (line->place + done) / DEMO_LINES, titled);
}

/* One of several trainings is not resumed by itself. */
static circe_status interrupted(const char *model) {
    OWNED char *checkpoint = small_format("%s.checkpoint", model);
    unlink(checkpoint);
    return circe_fail(CIRCE_ERR_CANCELLED, "interrupted");
}

static circe_status train_line(demo *d, demo_line *line) {
    const circe_watch watch = {.user = line, .progress = tell};
    OWNED char *data = small_format("%s/train.csv", d->folder);
    OWNED char *model = small_format("%s/%s.safetensors", d->folder, line->name);
    circe_train_options o;
    circe_train_options_init(&o);
    o.data = data;
    o.features = "a,y,z";
    o.target = "b";
    o.given = "y";
    o.invariant_to = "z";
    OWNED char *baseline = small_format("%s/%s.safetensors", d->folder, d->lines[DEMO_FREE].name);
    if (line == &d->lines[DEMO_FREE])
        o.regularizer = "none";
    else {
        o.gamma = 1000;
        o.baseline = baseline;
    }
    o.net = "9x64";
    o.lr = 2e-3;
    o.weight_decay = 0.3;
    o.epochs = d->epochs;
    o.seed = d->seed;
    o.output = model;
    line->command = command_of(d, &o);
    circe_status status = circe_train(d->s.context, NULL, &o, &watch, &line->training);
    if (status == CIRCE_ERR_CANCELLED) status = interrupted(model);
    progress_clear();
    return status;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static double deviation_of(const circe_mat *column) {
    double mean = 0, squares = 0, n = (double)column->rows;
    for (int64_t i = 0; i < column->rows; i++) mean += demo_at(column, i) / n;
    for (int64_t i = 0; i < column->rows; i++) squares += pow(demo_at(column, i) - mean, 2) / n;
    return sqrt(squares);
}

typedef struct predictor {
    circe_context *context;
    const demo_line *line;
    double unit;
} predictor;

/* The predictor in the form that interventions need: in units of the deviation of b. */
static circe_status predict_rows(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                 double *prediction) {
    const predictor *p = user;
    const char *const names[] = {"a", "y", "z"};
    const double *const columns[] = {a, y, z};
    circe_table *table = NULL;
    circe_predictions *made = NULL;
    circe_predict_options options;
    circe_predict_options_init(&options);
    circe_status status = circe_table_create(rows, &table);
    for (int c = 0; c < 3 && status == CIRCE_OK; c++) status = circe_table_add_numbers(table, names[c], columns[c], 1);
    if (status == CIRCE_OK) status = circe_predict(p->context, p->line->training->model, table, &options, NULL, &made);
    for (int64_t i = 0; status == CIRCE_OK && i < rows; i++) prediction[i] = made->values[i] / p->unit;
    circe_predictions_free(made);
    circe_table_free(table);
    return status;
}

static circe_status judge_line(demo *d, demo_line *line) {
    const synthetic_sample *test = &d->test;
    const double unit = d->deviation;
    predictor p = {d->s.context, line, unit};
    int64_t n = test->n;
    line->prediction = small_alloc((size_t)n * sizeof *line->prediction);
    circe_status status = predict_rows(&p, n, test->a.data, test->y.data, test->z.data, line->prediction);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        double error = line->prediction[i] - demo_at(&test->b, i) / unit;
        line->mse += error * error / (double)n;
        line->prediction[i] *= unit;
    }
    if (status == CIRCE_OK)
        status = synthetic_vcf(d->s.context, &d->model, test, VCF_POINTS, VCF_DRAWS, false, (uint64_t)d->seed,
                               predict_rows, &p, &line->vcf);
    if (status == CIRCE_OK)
        status = synthetic_vcf(d->s.context, &d->model, test, VCF_POINTS, VCF_DRAWS, true, (uint64_t)d->seed,
                               predict_rows, &p, &line->vcf_support);
    return status;
}

static circe_status find_floor(demo *d) {
    double variance = NAN;
    circe_status status =
        synthetic_conditional_variance(d->s.context, &d->model, &d->test, (uint64_t)d->seed, &variance);
    d->floor = variance / (d->deviation * d->deviation);
    return status;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* A paragraph, indented like the steps of the demonstration. */
static void CIRCE_PRINTF(1, 2) paragraph(const char *format, ...) {
    va_list arguments;
    OWNED char *text = NULL;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    bool numbered = text[0] >= '1' && text[0] <= '9'; /* the number of a step hangs */
    text_wrap(stdout, text, numbered ? 3 : 0, 3, text_width());
    putchar('\n');
}

static void explain_data(const demo *d) {
    printf("Predict b without relying on z: an invariant predictor, and its cost\n\n");
    paragraph(
        "1. Data: %" PRId64
        " points from a causal model of the CIRCE paper, in %s/train.csv, and %d more to judge the predictors, in "
        "%s/test.csv.",
        d->training.n, d->folder, TEST_POINTS, d->folder);
    printf(
        "     y ~ N(0, 1)   z = y^2 + noise   a = 2 y + z * noise\n"
        "     b = 5 z + a wiggle of a and y + noise\n\n");
    paragraph("The network predicts b from a, y and z. Its prediction must not depend on z once y is known.");
    fflush(stdout);
}

static void explain_training(const demo *d) {
    const circe_training *free_run = d->lines[DEMO_FREE].training, *run = d->lines[DEMO_INVARIANT].training;
    paragraph("2. Training: a network of 9 layers, %" PRId64
              " epochs. It took %.1f s without a regulariser and %.1f s with CIRCE: loss + 1000 * CIRCE(prediction, z "
              "given y) on every batch.",
              run->epochs, free_run->seconds, run->seconds);
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
    printf("     %-14s %10.3g %10d %14d %10d\n\n", "floor", d->floor, 0, 0, 0);
    paragraph(
        "MSE is in units of the variance of b. vcf, in the same units, is how much the prediction moves when z is set "
        "to "
        "another value and a follows. vcf_support uses only values of z that are plausible for y.");
    paragraph(
        "Without CIRCE the prediction is nearly exact because it uses z: set z to another value, and the prediction "
        "moves "
        "as much as b varies. With CIRCE it moves %.0f times less, and %.0f times less within the data. The cost: no "
        "invariant predictor can have an error below %.3f, the floor E[Var(b | y)].",
        exact->vcf / invariant->vcf, exact->vcf_support / invariant->vcf_support, d->floor);
    if (invariant->mse < d->floor)
        paragraph("(%.3f is slightly below the floor because the test points are a sample and a little of z remains.)",
                  invariant->mse);
}

static void explain_next(const demo *d) {
    const char *p = d->program, *f = d->shell_folder;
    printf("Report: %s/report.html, with figures, settings and the commands that produced it.\n\n", d->folder);
    printf(
        "Try next, on the same files:\n\n"
        "  # all measures of dependence, for the exact and for the invariant prediction\n"
        "  %s measure all --data %s/test.csv --x free --y y --z z\n"
        "  %s measure all --data %s/test.csv --x invariant --y y --z z\n\n",
        p, f, p, f);
    printf(
        "  # the invariant predictor on another table\n"
        "  %s predict --model %s/invariant.safetensors --data %s/test.csv -o %s/predictions.csv\n\n"
        "  # the invariant predictor again, with its own report; try another --gamma\n"
        "  %s\n\n"
        "  %s --help\n",
        p, f, f, f, d->lines[DEMO_INVARIANT].command, p);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status run(demo *d) {
    double start = job_clock();
    circe_status status = path_make_folder(d->folder);
    if (status == CIRCE_OK) status = draw_data(d);
    if (status == CIRCE_OK) status = write_table(d, "train.csv", &d->training, false);
    if (status != CIRCE_OK) return status;
    d->deviation = deviation_of(&d->training.b);
    explain_data(d);
    for (int k = 0; k < DEMO_LINES && status == CIRCE_OK; k++) status = train_line(d, &d->lines[k]);
    for (int k = 0; k < DEMO_LINES && status == CIRCE_OK; k++) status = judge_line(d, &d->lines[k]);
    if (status == CIRCE_OK) status = find_floor(d);
    if (status == CIRCE_OK) status = write_table(d, "test.csv", &d->test, true);
    d->seconds = job_clock() - start;
    if (status == CIRCE_OK) status = demo_report_write(d);
    if (status != CIRCE_OK) return status;
    explain_training(d);
    explain_result(d);
    explain_next(d);
    return CIRCE_OK;
}

int cmd_demo(const args *arguments) {
    const char *folder = arguments->own.output;
    demo d = {.folder = folder,
              .shell_folder = quoted(folder),
              .program = quoted(strchr(program_invocation_name, '/') != NULL ? program_invocation_name : "circe"),
              .points = arguments->own.n,
              .epochs = arguments->own.epochs,
              .seed = arguments->own.seed,
              .lines = {[DEMO_FREE] = {.place = DEMO_FREE, .name = "free", .title = "without CIRCE"},
                        [DEMO_INVARIANT] = {.place = DEMO_INVARIANT, .name = "invariant", .title = "with CIRCE"}}};
    int status = session_open(&arguments->own, &d.s);
    progress_catch_termination();
    progress_overall();
    if (status == EXIT_DONE) status = message_failed(run(&d));
    for (int k = 0; k < DEMO_LINES; k++) {
        circe_training_free(d.lines[k].training);
        free(d.lines[k].prediction);
        free(d.lines[k].command);
    }
    synthetic_free(&d.training);
    synthetic_free(&d.test);
    free(d.program);
    free(d.shell_folder);
    session_close(&d.s);
    return status;
}
