/* circe_train and circe_predict: data in memory and in files give the same bits, the watch stops a run, which is then
 * resumed to the same bits, and options that cannot be are refused by their rows. */
#include <unistd.h>

#include "circe/train.h"
#include "io/io.h"
#include "tests/support.h"

enum { ROWS = 420, NEW_ROWS = 50 };

typedef struct points {
    double y[ROWS], z[ROWS], b[ROWS];
    const char *group[ROWS]; /* follows z */
    const char *label[ROWS]; /* follows b */
} points;

static const points *draw(uint64_t seed) {
    points *p = test_memory(sizeof *p);
    circe_random_normal((circe_random){seed, 0}, 0, ROWS, p->y);
    circe_random_normal((circe_random){seed, 1}, 0, ROWS, p->z);
    circe_random_normal((circe_random){seed, 2}, 0, ROWS, p->b);
    for (int i = 0; i < ROWS; i++) {
        p->z[i] += p->y[i] * p->y[i];
        p->b[i] += 5 * p->z[i];
        p->group[i] = p->z[i] > 1 ? "high" : "low";
        p->label[i] = p->b[i] > 8 ? "up" : p->b[i] < 0 ? "down" : "mid";
    }
    return p;
}

static circe_table *in_memory(const points *p, int64_t rows) {
    circe_table *table = NULL;
    assert_ok(circe_table_create(rows, &table));
    assert_ok(circe_table_add_numbers(table, "y", p->y, 1));
    assert_ok(circe_table_add_numbers(table, "z", p->z, 1));
    assert_ok(circe_table_add_numbers(table, "b", p->b, 1));
    assert_ok(circe_table_add_texts(table, "group", p->group));
    assert_ok(circe_table_add_texts(table, "label", p->label));
    return table;
}

static const char *in_file(const points *p, int64_t rows, const char *name) {
    FILE *out = fopen(test_path(name), "w");
    assert_non_null(out);
    fputs("y,z,b,group,label\n", out);
    for (int64_t i = 0; i < rows; i++)
        fprintf(out, "%.17g,%.17g,%.17g,%s,%s\n", p->y[i], p->z[i], p->b[i], p->group[i], p->label[i]);
    assert_int_equal(fclose(out), 0);
    return test_path(name);
}

static circe_train_options small_run(void) {
    circe_train_options o;
    circe_train_options_init(&o);
    o.features = "y,z,group";
    o.target = "b";
    o.given = "y";
    o.invariant_to = "z";
    o.gamma = 10;
    o.net = "2x16";
    o.epochs = 3;
    o.batch = 64;
    return o;
}

static bool same_numbers(const double *a, const double *b, size_t n) { return memcmp(a, b, n * sizeof *a) == 0; }

static circe_predictions *predict(const circe_model *model, const circe_table *table, const char *data,
                                  const char *path) {
    circe_predict_options o;
    circe_predictions *out = NULL;
    circe_predict_options_init(&o);
    o.data = data;
    o.model = path;
    assert_ok(circe_predict(test_context(1), model, table, &o, NULL, &out));
    return out;
}

static void assert_same_predictions(circe_predictions *a, circe_predictions *b) {
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->outputs, b->outputs);
    assert_true(same_numbers(a->values, b->values, (size_t)(a->rows * a->outputs)));
    circe_predictions_free(a);
    circe_predictions_free(b);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static void assert_same_training(const circe_training *a, const circe_training *b) {
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->rows, b->rows);
    assert_true(a->loss == b->loss && (a->floor == b->floor || isnan(a->floor)));
    assert_int_equal(a->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE] ==
                         b->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE],
                     1);
    for (int64_t e = 0; e < a->epochs; e++)
        assert_true(same_numbers(&a->history[e].loss, &b->history[e].loss, 6)); /* all but the seconds */
    assert_string_equal(a->network, b->network);
    assert_string_equal(a->regularizer, b->regularizer);
}

/* A model in memory and one in a file, from a table in memory and from one in a file. */
static void compare_sources(circe_train_options o) {
    const points *p = draw(1), *new = draw(2);
    circe_table *table = in_memory(p, ROWS), *other = in_memory(new, NEW_ROWS);
    circe_training *memory = NULL, *file = NULL;
    assert_ok(circe_train(test_context(1), table, &o, NULL, &memory));
    assert_null(memory->path);
    o.data = in_file(p, ROWS, "train.csv");
    o.output = test_path("model.safetensors");
    assert_ok(circe_train(test_context(1), NULL, &o, NULL, &file));
    assert_string_equal(file->path, o.output);
    assert_same_training(memory, file);
    assert_same_predictions(predict(memory->model, other, NULL, NULL),
                            predict(NULL, NULL, in_file(new, NEW_ROWS, "new.csv"), o.output));
    assert_ok(circe_model_save(test_context(1), memory->model, test_path("saved.safetensors")));
    assert_same_predictions(predict(NULL, other, NULL, test_path("saved.safetensors")),
                            predict(file->model, other, NULL, NULL));
    circe_training_free(memory);
    circe_training_free(file);
    circe_table_free(table);
    circe_table_free(other);
}

static void memory_and_files_agree(void **state) {
    (void)state;
    compare_sources(small_run());
}

static void classes_agree_too(void **state) {
    (void)state;
    circe_train_options o = small_run();
    o.target = "label";
    o.given = NULL;
    o.gamma = 0.1;
    compare_sources(o);
}

static void results_are_whole(void **state) {
    (void)state;
    circe_table *table = in_memory(draw(1), ROWS);
    circe_train_options o = small_run();
    circe_training *t = NULL;
    o.estimator = "biased";
    o.regularizer = "gcm";
    assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
    assert_int_equal(t->training_rows + t->validation_rows + t->test_rows, ROWS);
    assert_int_equal(t->holdout_rows, t->training_rows); /* that the conditional mean is learned from */
    assert_int_equal(t->epochs, 3);
    assert_string_equal(t->target, "b");
    assert_string_equal(t->invariant_to, "z");
    assert_string_equal(t->errors[0].name, "b");
    assert_true(t->errors[0].mse > 0 && t->floor > 0);
    for (int s = 0; s < CIRCE_TRAINING_STATES; s++)
        for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) assert_true(isfinite(t->dependence[s][m]));
    assert_int_equal(t->columns.n, 1);
    assert_string_equal(t->columns.column[0].name, "group");
    assert_string_equal(t->warnings.text[0], "--estimator was ignored: gcm has one form");
    char *json = circe_training_json(t, NULL);
    assert_non_null(strstr(json, "\"mse_standardised\""));
    circe_text_free(json);
    circe_model *taken = t->model;
    t->model = NULL;
    circe_training_free(t);
    circe_predictions *p = predict(taken, table, NULL, NULL);
    assert_int_equal(p->rows, ROWS);
    circe_predictions_free(p);
    circe_model_free(taken);
    circe_table_free(table);
}

static void reports_are_written(void **state) {
    (void)state;
    static const char *const files[] = {"report.html", "results.json", "results.csv", "predictions.csv", "run.yaml"};
    const char *targets[] = {"b", "label"};
    for (int k = 0; k < 2; k++) {
        circe_table *table = in_memory(draw(1), ROWS);
        circe_train_options o = small_run();
        circe_training *t = NULL;
        o.target = targets[k];
        o.invariant_to = "z,group";
        o.features = "y,z";
        assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
        assert_ok(circe_training_report(test_context(1), t, test_directory()));
        for (int f = 0; f < (int)COUNT(files); f++) {
            assert_int_equal(access(test_path(files[f]), F_OK), 0);
            assert_int_equal(unlink(test_path(files[f])), 0);
        }
        assert_refused(circe_training_report(test_context(1), t, test_path("none")), CIRCE_ERR_WRITE, "none");
        circe_training_free(t);
        circe_table_free(table);
    }
}

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

typedef struct counted {
    int calls, most; /* stops once there are more */
    double last;
    int warnings;
} counted;

static int count(void *user, double done, const char *text) {
    counted *c = user;
    assert_true(done >= c->last && done <= 1);
    assert_true(strstr(text, "epoch") != NULL || strcmp(text, "judging") == 0);
    c->last = done;
    return ++c->calls > c->most;
}

static void count_warning(void *user, const char *text) {
    (void)text;
    ((counted *)user)->warnings++;
}

static void the_watch_stops_it(void **state) {
    (void)state;
    counted told = {.most = 1}, all = {.most = 1000};
    const circe_watch stop = {.user = &told, .progress = count}, go = {.user = &all, .progress = count};
    circe_train_options o = small_run();
    circe_training *cut = NULL, *whole = NULL;
    circe_table *table = in_memory(draw(1), ROWS);
    o.output = test_path("cut.safetensors");
    assert_refused(circe_train(test_context(1), table, &o, &stop, &cut), CIRCE_ERR_CANCELLED, "interrupted after step");
    assert_null(cut);
    assert_non_null(strstr(circe_last_error(), "cut.safetensors.checkpoint"));
    assert_int_equal(access(test_path("cut.safetensors.checkpoint"), F_OK), 0);
    assert_int_not_equal(access(o.output, F_OK), 0);
    o.resume = 1;
    assert_ok(circe_train(test_context(1), table, &o, NULL, &cut));
    assert_int_equal(cut->resumed, 1);
    assert_int_not_equal(access(test_path("cut.safetensors.checkpoint"), F_OK), 0);
    o.resume = 0;
    o.output = NULL;
    assert_ok(circe_train(test_context(1), table, &o, &go, &whole));
    assert_true(all.last == 1);
    assert_same_training(cut, whole);
    assert_same_predictions(predict(cut->model, table, NULL, NULL), predict(whole->model, table, NULL, NULL));
    circe_training_free(cut);
    circe_training_free(whole);
    told = (counted){0};
    assert_refused(circe_train(test_context(1), table, &o, &stop, &cut), CIRCE_ERR_CANCELLED, "interrupted after step");
    assert_null(strstr(circe_last_error(), "checkpoint")); /* nothing is written of a model in memory */
    circe_table_free(table);
}

/* The widths of a user may all be too narrow for y. */
static void widths_that_do_not_fit_are_told(void **state) {
    (void)state;
    static const char *const regularizers[] = {"circe", "hscic"};
    circe_train_options o = small_run();
    circe_table *table = in_memory(draw(1), ROWS);
    for (int i = 0; i < 4; i++) {
        circe_training *t = NULL;
        o.regularizer = regularizers[i % 2];
        o.sigma2_y = i < 2 ? "0.001,0.01" : "auto";
        assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
        bool told = t->warnings.n > 0 && strstr(t->warnings.text[0],
                                                "the largest width tried for the kernel of --given, "
                                                "--sigma2-y 0.01;") != NULL;
        assert_int_equal(told, i < 2);
        circe_training_free(t);
    }
    circe_table_free(table);
}

static void warnings_are_told(void **state) {
    (void)state;
    counted told = {.most = 1000};
    const circe_watch watch = {.user = &told, .warning = count_warning};
    circe_train_options o = small_run();
    circe_training *t = NULL;
    circe_table *table = in_memory(draw(1), ROWS);
    o.regularizer = "none"; /* which leaves gamma without a use */
    o.layers = "1";
    assert_ok(circe_train(test_context(1), table, &o, &watch, &t));
    assert_int_equal(told.warnings, t->warnings.n);
    assert_string_equal(t->warnings.text[0], "--gamma was ignored: there is no regulariser");
    circe_training_free(t);
    circe_table_free(table);
}

/* Where nobody says how many rows a batch has, a small table is trained on too, by four batches an epoch. */
static void small_tables_have_small_batches(void **state) {
    (void)state;
    circe_table *table = in_memory(draw(1), 120);
    circe_train_options o = small_run(), usual;
    circe_training *t = NULL;
    circe_train_options_init(&usual);
    o.batch = usual.batch;
    assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
    assert_int_equal(t->training_rows, 90);
    assert_int_equal(t->steps, 3 * 4);
    char *json = circe_training_json(t, NULL);
    assert_non_null(strstr(json, "\"batch\":\t\"22\""));
    circe_text_free(json);
    circe_training_free(t);
    circe_table_free(table);
}

/* Names and numbers of people are read as features more easily than they are meant. */
static void identifiers_are_told(void **state) {
    (void)state;
    circe_table *table = in_memory(draw(1), ROWS);
    const char **names = test_memory(ROWS * sizeof *names);
    for (int i = 0; i < ROWS; i++) {
        char *name = test_memory(16);
        snprintf(name, 16, "person %d", i % 2 == 0 ? i : i / 4); /* every other one has no namesake */
        names[i] = name;
    }
    assert_ok(circe_table_add_texts(table, "name", names));
    circe_train_options o = small_run();
    circe_training *t = NULL;
    o.features = "y,z,group,name";
    o.baseline = "none";
    assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
    assert_non_null(strstr(t->warnings.text[0], "column 'name' of "));
    assert_non_null(strstr(t->warnings.text[0], " has 262 categories in 420 rows"));
    circe_training_free(t);
    circe_table_free(table);
}

static bool is_told(const circe_training *t, const char *words) {
    for (size_t i = 0; i < t->warnings.n; i++)
        if (strstr(t->warnings.text[i], words) != NULL) return true;
    return false;
}

/* Two rows of a class cannot be learned; a target of 1 and 2 may be meant as classes. */
static void rare_and_doubtful_classes_are_told(void **state) {
    (void)state;
    circe_table *table = in_memory(draw(3), ROWS);
    const char **rare = test_memory(ROWS * sizeof *rare);
    double *codes = test_memory(ROWS * sizeof *codes);
    for (int i = 0; i < ROWS; i++) {
        rare[i] = i < 2 ? "new" : i % 2 == 0 ? "old" : "used";
        codes[i] = 1.0 + i % 2;
    }
    assert_ok(circe_table_add_texts(table, "rare", rare));
    assert_ok(circe_table_add_numbers(table, "codes", codes, 1));
    circe_train_options o = small_run();
    o.baseline = "none";
    o.given = NULL;
    static const struct {
        const char *target, *task, *told;
    } cases[] = {
        {"rare", NULL, "'rare' has 1 class of fewer than 10 rows; the rarest, 'new', has 2"},
        {"codes", NULL, "'codes' has two values, 1 and 2, and is predicted as a number"},
        {"codes", "regression", NULL},
        {"codes", "classification", NULL},
        {"label", NULL, NULL},
        {"b", NULL, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        circe_training *t = NULL;
        o.target = cases[k].target;
        o.task = cases[k].task;
        assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
        assert_int_equal(is_told(t, "class of fewer") || is_told(t, "two values"), cases[k].told != NULL);
        assert_true(cases[k].told == NULL || is_told(t, cases[k].told));
        circe_training_free(t);
    }
    circe_table_free(table);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(const circe_table *table, circe_train_options o, circe_status status, const char *text) {
    circe_training *t = NULL;
    assert_refused(circe_train(test_context(1), table, &o, NULL, &t), status, text);
    assert_null(t);
}

#define REFUSE(change, status, text)                \
    do {                                            \
        circe_train_options o = small_run();        \
        o.change;                                   \
        refuse(table, o, CIRCE_ERR_##status, text); \
    } while (0)

static void bad_options_are_refused(void **state) {
    (void)state;
    circe_table *table = in_memory(draw(1), ROWS);
    REFUSE(target = NULL, ARGUMENT, "--target COLUMN is required");
    REFUSE(features = NULL, ARGUMENT, "--features LIST is required");
    REFUSE(gamma = -2, ARGUMENT, "--gamma");
    REFUSE(test = 0.01, ARGUMENT, "--test 0.01 of 420 rows are 4: too few to report an error");
    REFUSE(baseline = "missing.safetensors", IO, "missing.safetensors");
    REFUSE(task = "classification", ARGUMENT, "with --task classification the numbers are classes");
    REFUSE(epochs = 0, ARGUMENT, "--epochs must be between 1 and 1000000");
    REFUSE(regularizer = "circ", ARGUMENT, "none|circe|hscic|gcm|hsic");
    REFUSE(holdout = 1.5, ARGUMENT, "--holdout must be between 0 and 0.9");
    REFUSE(sigma2_y = "1,0", ARGUMENT, "--sigma2-y");
    REFUSE(net = "9y64", ARGUMENT, "--net: network '9y64'");
    REFUSE(device = "gpu", ARGUMENT, "--device gpu: there is no such device");
    REFUSE(batch = 1000, ARGUMENT, "fewer than a batch of 1000");
    REFUSE(layers = "9", ARGUMENT, "0 to 4, and output");
    REFUSE(features = "y,nothing", ARGUMENT, "'nothing'");
    REFUSE(invariant_to = "b", ARGUMENT, "'b' is in --target and in --invariant-to");
    REFUSE(resume = 1, ARGUMENT, "--resume needs -o MODEL");
    REFUSE(images = "x.npz", ARGUMENT, "--data and --images are both given");
    REFUSE(output = test_path("none/m.safetensors"), WRITE, "there is no folder");
    circe_table_free(table);
    table = NULL;
    REFUSE(data = NULL, ARGUMENT, "--data FILE, or --images FILE, is required");
    REFUSE(data = "nosuch.csv", IO, "nosuch.csv");
}

/* ---- prediction -------------------------------------------------------------------------------------------------- */

static circe_training *trained_on(const circe_table *table, const char *target) {
    circe_train_options o = small_run();
    circe_training *t = NULL;
    o.target = target;
    assert_ok(circe_train(test_context(1), table, &o, NULL, &t));
    return t;
}

static void errors_are_of_the_table(void **state) {
    (void)state;
    const points *p = draw(1);
    circe_table *table = in_memory(p, ROWS);
    circe_training *t = trained_on(table, "b");
    circe_predict_options o;
    circe_predict_options_init(&o);
    circe_predictions *made = predict(t->model, table, NULL, NULL);
    double sum = 0;
    assert_ok(circe_predictions_compare(made, table, &o, NULL));
    for (int64_t i = 0; i < ROWS; i++) sum += (made->values[i] - p->b[i]) * (made->values[i] - p->b[i]) / ROWS;
    assert_int_equal(made->n_errors, 1);
    assert_int_equal(made->errors[0].rows, ROWS);
    assert_true(fabs(made->errors[0].mse - sum) <= 1e-9 * sum); /* the same sum in another order */
    assert_int_equal(circe_predictions_class(made, 0), -1);
    circe_predictions_free(made);
    circe_training_free(t);
    circe_table_free(table);
}

static void missing_cells_have_no_prediction(void **state) {
    (void)state;
    points *p = (points *)(uintptr_t)draw(1);
    circe_table *table = in_memory(p, ROWS), *holes = NULL;
    circe_training *t = trained_on(table, "label");
    circe_predict_options o;
    circe_predictions *made = NULL;
    p->z[3] = NAN;
    holes = in_memory(p, 6);
    circe_predict_options_init(&o);
    assert_refused(circe_predict(test_context(1), t->model, holes, &o, NULL, &made), CIRCE_ERR_VALUE,
                   "--missing empty");
    o.missing = "empty";
    assert_ok(circe_predict(test_context(1), t->model, holes, &o, NULL, &made));
    assert_int_equal(made->rows_without, 1);
    assert_string_equal(made->target, "label");
    assert_int_equal(made->outputs, 3);
    for (int64_t i = 0; i < 6; i++) {
        const double *row = made->values + 3 * i;
        assert_int_equal(isnan(row[0]), i == 3);
        assert_int_equal(circe_predictions_class(made, i) >= 0, i != 3);
        if (i != 3) assert_true(fabs(row[0] + row[1] + row[2] - 1) < 1e-6); /* float32 */
    }
    assert_ok(circe_predictions_write(made, test_path("p.csv")));
    circe_predictions_free(made);
    circe_training_free(t);
    circe_table_free(holes);
    circe_table_free(table);
}

static void a_model_is_required(void **state) {
    (void)state;
    circe_predict_options o;
    circe_predictions *made = NULL;
    circe_predict_options_init(&o);
    assert_refused(circe_predict(test_context(1), NULL, NULL, &o, NULL, &made), CIRCE_ERR_ARGUMENT,
                   "--model MODEL is required");
    o.model = "nosuch.safetensors";
    assert_refused(circe_predict(test_context(1), NULL, NULL, &o, NULL, &made), CIRCE_ERR_IO, "nosuch.safetensors");
    assert_null(made);
}

TEST_MAIN("train_job", TEST(memory_and_files_agree), TEST(classes_agree_too), TEST(results_are_whole),
          TEST(reports_are_written), TEST(the_watch_stops_it), TEST(warnings_are_told),
          TEST(widths_that_do_not_fit_are_told), TEST(small_tables_have_small_batches), TEST(identifiers_are_told),
          TEST(rare_and_doubtful_classes_are_told), TEST(bad_options_are_refused), TEST(errors_are_of_the_table),
          TEST(missing_cells_have_no_prediction), TEST(a_model_is_required))
