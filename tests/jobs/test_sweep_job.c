/* circe_sweep and circe_experiment: runs on threads give the bits of runs alone and of processes, results in a folder
 * are found again, the watch stops them, and what cannot be is refused before the first run. */
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "circe/experiment.h"
#include "circe/sweep.h"
#include "io/io.h"
#include "tests/support.h"

enum { ROWS = 300 };

static circe_table *make_table(uint64_t seed) {
    double y[ROWS], z[ROWS], b[ROWS];
    circe_table *table = NULL;
    circe_random_normal((circe_random){seed, 0}, 0, ROWS, y);
    circe_random_normal((circe_random){seed, 1}, 0, ROWS, z);
    circe_random_normal((circe_random){seed, 2}, 0, ROWS, b);
    for (int i = 0; i < ROWS; i++) b[i] += 5 * z[i] + y[i];
    assert_ok(circe_table_create(ROWS, &table));
    assert_ok(circe_table_add_numbers(table, "y", y, 1));
    assert_ok(circe_table_add_numbers(table, "z", z, 1));
    assert_ok(circe_table_add_numbers(table, "b", b, 1));
    return table;
}

static circe_train_options small_run(void) {
    circe_train_options o;
    circe_train_options_init(&o);
    o.features = "y,z";
    o.target = "b";
    o.given = "y";
    o.invariant_to = "z";
    o.net = "2x8";
    o.epochs = 3;
    o.batch = 64;
    return o;
}

static circe_status sweep(const circe_table *table, const circe_train_options *base, const char *over,
                          const char *folder, const circe_watch *watch, circe_sweep_result **result) {
    circe_sweep_options o;
    circe_sweep_options_init(&o);
    o.over = over;
    o.jobs = 2;
    o.folder = folder;
    return circe_sweep(test_context(1), table, base, &o, watch, result);
}

static int64_t number(const circe_sweep_result *r, const char *name) {
    for (int64_t i = 0; i < r->n_numbers; i++)
        if (strcmp(r->numbers[i], name) == 0) return i;
    fail_msg("there is no number %s", name);
    return -1;
}

static void every_combination_is_a_training(void **state) {
    (void)state;
    circe_table *table = make_table(1);
    circe_train_options base = small_run();
    circe_sweep_result *r = NULL;
    assert_ok(sweep(table, &base, "gamma=0,100;seed=1,2", NULL, NULL, &r));
    assert_int_equal(r->n_options, 2);
    assert_int_equal(r->n_runs, 4);
    assert_int_equal(r->n_failed, 0);
    assert_null(r->folder);
    assert_string_equal(r->options[0], "gamma");
    assert_string_equal(r->runs[1].name, "gamma=0-seed=2"); /* the last varies fastest */
    assert_string_equal(r->runs[2].values[0], "100");
    for (int64_t i = 0; i < r->n_runs; i++) { /* the bits of a training alone */
        circe_train_options alone = base;
        circe_training *training = NULL;
        alone.gamma = atof(r->runs[i].values[0]);
        alone.seed = atoll(r->runs[i].values[1]);
        assert_ok(circe_train(test_context(1), table, &alone, NULL, &training));
        assert_true(training->loss == r->runs[i].numbers[number(r, "loss")]);
        assert_true(training->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE] ==
                    r->runs[i].numbers[number(r, "circe")]);
        assert_true(isnan(r->runs[i].numbers[number(r, "accuracy")]));
        circe_training_free(training);
    }
    char *json = circe_sweep_json(r);
    assert_non_null(strstr(json, "\"gamma\":\t\"100\""));
    circe_text_free(json);
    circe_sweep_result_free(r);
    circe_table_free(table);
}

static void what_is_in_the_folder_is_not_done_again(void **state) {
    (void)state;
    const char *folder = test_path("sweep");
    circe_table *table = make_table(1), *other = make_table(2);
    circe_train_options base = small_run();
    circe_sweep_result *first = NULL, *more = NULL, *changed = NULL;
    base.gamma = 10;
    assert_ok(sweep(table, &base, "seed=1,2", folder, NULL, &first));
    assert_int_equal(first->runs[0].found, 0);
    assert_int_equal(access(first->runs[0].model, R_OK), 0);
    assert_int_equal(access(test_path("sweep/results.json"), R_OK), 0);
    double loss = first->runs[1].numbers[0];
    circe_sweep_result_free(first);
    assert_ok(sweep(table, &base, "seed=1,2,3", folder, NULL, &more));
    assert_true(more->runs[0].found && more->runs[1].found && !more->runs[2].found);
    assert_true(more->runs[1].numbers[0] == loss);
    circe_sweep_result_free(more);
    assert_ok(sweep(other, &base, "seed=1,2", folder, NULL, &changed)); /* other data */
    assert_false(changed->runs[0].found || changed->runs[1].found);
    circe_sweep_result_free(changed);
    circe_table_free(other);
    circe_table_free(table);
}

static void one_run_fails_alone_and_all_fail_together(void **state) {
    (void)state;
    circe_table *table = make_table(1);
    circe_train_options base = small_run();
    circe_sweep_result *r = NULL;
    base.gamma = 10;
    assert_ok(sweep(table, &base, "features=\"y,z\",nowhere", NULL, NULL, &r));
    assert_int_equal(r->n_failed, 1);
    assert_null(r->runs[0].error);
    assert_non_null(strstr(r->runs[1].error, "nowhere"));
    assert_true(isnan(r->runs[1].numbers[0]));
    circe_sweep_result_free(r);
    assert_int_equal(sweep(table, &base, "features=nothing,nowhere", NULL, NULL, &r), CIRCE_ERR_ARGUMENT);
    assert_null(r);
    assert_non_null(strstr(circe_last_error(), "all 2 runs failed; the first, features=nothing: "));
    circe_table_free(table);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *over, *text;
    } cases[] = {{"gama=1", "no option 'gama'\ndid you mean gamma?"},
                 {"gamma", "must be an option and values"},
                 {"gamma=", "must be an option and values"},
                 {"gamma=1,x", "--gamma"},
                 {"seed=1;gamma=2;seed=3", "seed twice"},
                 {"output=a,b", "--output cannot vary"}};
    circe_table *table = make_table(1);
    circe_train_options base = small_run();
    circe_sweep_result *r = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sweep(table, &base, cases[i].over, NULL, NULL, &r), CIRCE_ERR_ARGUMENT);
        if (strstr(circe_last_error(), cases[i].text) == NULL) fail_msg("%s: %s", cases[i].over, circe_last_error());
    }
    assert_int_equal(sweep(table, &base, NULL, NULL, NULL, &r), CIRCE_ERR_ARGUMENT);
    base.output = "model.safetensors";
    assert_int_equal(sweep(table, &base, "gamma=1", NULL, NULL, &r), CIRCE_ERR_ARGUMENT);
    circe_table_free(table);
}

static int stop_at_once(void *user, double done, const char *text) {
    (void)user, (void)done, (void)text;
    return 1;
}

static void the_watch_stops_it(void **state) {
    (void)state;
    const circe_watch watch = {.progress = stop_at_once};
    circe_table *table = make_table(1);
    circe_train_options base = small_run();
    circe_sweep_result *r = NULL;
    base.epochs = 100000;
    assert_int_equal(sweep(table, &base, "gamma=1,2,3", NULL, &watch, &r), CIRCE_ERR_CANCELLED);
    assert_null(r);
    circe_table_free(table);
}

/* ---- experiments ------------------------------------------------------------------------------------------------- */

static const char tiny[] =
    "title: Tiny\n"
    "models: [{model: univariate1}]\n"
    "data: {train: 200, validation: 40, test: 60, holdout: 60}\n"
    "training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}\n"
    "evaluation: {points: 30, draws: 5}\n"
    "seeds: 2\n"
    "methods:\n"
    "  - {name: none, regularizer: none}\n"
    "  - {name: circe, regularizer: circe, gamma: [10, 1000]}\n";

static circe_status experiment(const char *text, const circe_watch *watch, circe_experiment_result **result) {
    circe_experiment_options o;
    circe_experiment_options_init(&o);
    o.config = test_path("tiny.yaml");
    o.output = test_path("tiny");
    o.jobs = 2;
    assert_ok(file_write_text(o.config, text, strlen(text)));
    return circe_experiment(test_context(1), NULL, &o, watch, result);
}

static void an_experiment_runs_in_this_process(void **state) {
    (void)state;
    circe_experiment_result *r = NULL;
    assert_ok(experiment(tiny, NULL, &r));
    assert_string_equal(r->name, "tiny");
    assert_string_equal(r->title, "Tiny");
    assert_int_equal(r->n_failed, 0);
    assert_string_equal(r->numbers[0], "vcf");
    int64_t finals = 0, chosen = 0;
    for (int64_t i = 0; i < r->n_runs; i++) {
        const circe_experiment_run *run = &r->runs[i];
        finals += strcmp(run->role, "final") == 0;
        assert_string_equal(run->model, "univariate1");
        assert_true(isfinite(run->numbers[0]));
        assert_null(run->error);
    }
    for (int64_t i = 0; i < r->n_rows; i++) chosen += r->rows[i].chosen && !r->rows[i].tuning;
    assert_int_equal(finals, 4);
    assert_int_equal(chosen, 2);
    assert_int_equal(r->n_lines, 2);
    assert_string_equal(r->columns[0], "model");
    assert_string_equal(r->cells[1], "none");
    char *json = circe_experiment_json(r);
    assert_non_null(strstr(json, "\"experiment\""));
    circe_text_free(json);
    circe_experiment_result_free(r);
}

/* Runs together have one set of pictures, a run alone its own; the numbers are the same. */
static void runs_share_their_pictures(void **state) {
    static const char sprites[] =
        "title: Sprites\n"
        "models: [{model: dsprites, dependence: nonlinear}]\n"
        "data: {train: 200000, validation: 160, test: 80, holdout: 100}\n"
        "training: {net: '4', steps: 3, batch: 32, rate: 1e-3, decay: 1e-4}\n"
        "yardstick: {sigma2_x: 0.05, sigma2_z: 0.5, chunk: 16}\n"
        "seeds: 2\n"
        "sweep: true\n"
        "methods:\n"
        "  - {name: none, regularizer: none}\n"
        "  - {name: circe, regularizer: circe, sigma2_z: 0.5, gamma: [10]}\n";
    circe_experiment_options o;
    circe_experiment_result *r[2] = {NULL, NULL};
    (void)state;
    circe_experiment_options_init(&o);
    o.config = test_path("sprites.yaml");
    assert_ok(file_write_text(o.config, sprites, strlen(sprites)));
    for (int k = 0; k < 2; k++) {
        o.jobs = k == 0 ? 1 : 4;
        o.output = test_path(k == 0 ? "alone" : "together");
        assert_ok(circe_experiment(test_context(1), NULL, &o, NULL, &r[k]));
    }
    assert_int_equal(r[0]->n_runs, 4);
    for (int64_t i = 0; i < r[0]->n_runs; i++)
        for (int64_t c = 0; c < r[0]->n_numbers; c++) {
            const char *name = r[0]->numbers[c];
            double alone = r[0]->runs[i].numbers[c], together = r[1]->runs[i].numbers[c];
            if (strstr(name, "seconds") == NULL) assert_true(alone == together || (isnan(alone) && isnan(together)));
        }
    for (int k = 0; k < 2; k++) circe_experiment_result_free(r[k]);
}

static void an_experiment_is_stopped_and_refused(void **state) {
    (void)state;
    const circe_watch watch = {.progress = stop_at_once};
    circe_experiment_options o;
    circe_experiment_result *r = NULL;
    assert_int_equal(experiment(tiny, &watch, &r), CIRCE_ERR_CANCELLED);
    assert_null(r);
    assert_int_equal(experiment("title: Nothing\n", NULL, &r), CIRCE_ERR_FORMAT);
    circe_experiment_options_init(&o);
    assert_int_equal(circe_experiment(test_context(1), NULL, &o, NULL, &r), CIRCE_ERR_ARGUMENT);
    assert_int_equal(circe_experiment(test_context(1), "univariat", &o, NULL, &r), CIRCE_ERR_ARGUMENT);
    assert_non_null(strstr(circe_last_error(), "there is no experiment 'univariat'"));
}

static void experiments_are_listed(void **state) {
    (void)state;
    circe_experiment_entry *entries = NULL;
    int64_t n = 0;
    assert_ok(circe_experiment_list(&entries, &n));
    assert_true(n > 0);
    for (int64_t i = 0; i < n; i++) assert_non_null(entries[i].title);
    circe_experiment_list_free(entries);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(every_combination_is_a_training),
                                       TEST(what_is_in_the_folder_is_not_done_again),
                                       TEST(one_run_fails_alone_and_all_fail_together),
                                       TEST(what_cannot_be_is_refused),
                                       TEST(the_watch_stops_it),
                                       TEST(an_experiment_runs_in_this_process),
                                       TEST(runs_share_their_pictures),
                                       TEST(an_experiment_is_stopped_and_refused),
                                       TEST(experiments_are_listed)};
    return test_run("sweep_job", tests, NULL, NULL);
}
