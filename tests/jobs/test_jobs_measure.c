/* fit, measure and test as calls: on a table in memory, on files, and beside libcirce's own functions. All three must
 * give the same numbers to the last bit: the same rows go through the same code. */
#include "circe/jobs.h"
#include "io/io.h"
#include "tests/support.h"

enum { ROWS = 120 };

typedef struct data {
    circe_context *context;
    circe_mat x, y, z;
    circe_table *table; /* x0, x1, y, z, and the texts "group" */
    const char *groups[ROWS];
} data;

static void add(circe_table *table, const char *name, const circe_mat *m, int64_t c) {
    assert_ok(circe_table_add_numbers(table, name, (const double *)m->data + c, m->ld));
}

static data make_data(void) {
    static const char *const names[] = {"a", "b", "c"};
    data d = {.context = test_context(1),
              .x = test_normal(1, ROWS, 2),
              .y = test_normal(2, ROWS, 1),
              .z = test_normal(3, ROWS, 1)};
    for (int64_t i = 0; i < ROWS; i++) {
        test_set(&d.z, i, 0, test_at(&d.z, i, 0) + 0.7 * test_at(&d.y, i, 0));
        test_set(&d.x, i, 0, test_at(&d.x, i, 0) + test_at(&d.z, i, 0));
        d.groups[i] = names[(i * 7) % 3];
    }
    assert_ok(circe_table_create(ROWS, &d.table));
    add(d.table, "x0", &d.x, 0);
    add(d.table, "x1", &d.x, 1);
    add(d.table, "y", &d.y, 0);
    add(d.table, "z", &d.z, 0);
    assert_ok(circe_table_add_texts(d.table, "group", d.groups));
    assert_ok(io_write_npy(test_path("x.npy"), &d.x));
    assert_ok(io_write_npy(test_path("y.npy"), &d.y));
    assert_ok(io_write_npy(test_path("z.npy"), &d.z));
    return d;
}

static circe_kernel *median_kernel(const data *d, const circe_mat *points) {
    circe_kernel *kernel = test_kernel(d->context, "gaussian");
    assert_ok(circe_kernel_bind_median(kernel, points));
    return kernel;
}

static void assert_has(char *json, const char *text) {
    assert_non_null(json);
    if (strstr(json, text) == NULL) print_message("no %s in %s\n", text, json);
    assert_non_null(strstr(json, text));
}

/* ---- fit ----------------------------------------------------------------------------------------------------------
 */

static void assert_same_fit(const circe_cme *a, const circe_cme *b) {
    circe_cme_info i, k;
    assert_ok(circe_cme_get_info(a, &i));
    assert_ok(circe_cme_get_info(b, &k));
    assert_true(i.rows == k.rows && i.method == k.method && i.rank_y == k.rank_y && i.rank_z == k.rank_z);
    assert_true(i.sigma2_y == k.sigma2_y && i.ridge == k.ridge && i.loo_error == k.loo_error);
    assert_string_equal(circe_kernel_text(circe_cme_kernel_z(a)), circe_kernel_text(circe_cme_kernel_z(b)));
}

static void fits(void **state) {
    (void)state;
    data d = make_data();
    circe_fit_options o;
    circe_fit_result *files = NULL, *memory = NULL;
    circe_cme *direct = NULL, *loaded = NULL;
    circe_cme_options options;
    circe_fit_options_init(&o);
    o.y = "y", o.z = "z", o.output = test_path("memory.safetensors");
    assert_ok(circe_fit(d.context, d.table, &o, NULL, &memory));
    o.y = test_path("y.npy"), o.z = test_path("z.npy"), o.output = test_path("files.safetensors");
    assert_ok(circe_fit(d.context, NULL, &o, NULL, &files));
    circe_kernel *kernel_z = median_kernel(&d, &d.z);
    circe_cme_options_init(&options);
    assert_ok(circe_cme_fit(d.context, &d.y, &d.z, test_kernel(d.context, "gaussian"), kernel_z, &options, &direct));
    assert_same_fit(memory->cme, direct);
    assert_same_fit(files->cme, direct);
    assert_ok(circe_cme_load(d.context, test_path("memory.safetensors"), &loaded));
    assert_same_fit(loaded, direct);
    assert_true(memory->dropped == 0 && memory->warnings.n == 0 && memory->columns.n == 0);
    char *json = circe_fit_json(memory);
    assert_has(json, "\"solver\":\t\"dense\"");
    assert_has(json, "memory.safetensors");
    circe_text_free(json);
    circe_cme_destroy(loaded);
    circe_cme_destroy(direct);
    circe_fit_result_free(memory);
    circe_fit_result_free(files);
    circe_table_free(d.table);
}

static void fit_refusals(void **state) {
    (void)state;
    data d = make_data();
    circe_fit_options o;
    circe_fit_result *result = NULL;
    circe_fit_options_init(&o);
    o.z = "z", o.output = test_path("m.safetensors");
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_ARGUMENT, "--y FILE is required");
    o.y = "yy";
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_ARGUMENT, "no column 'yy'");
    o.y = "y", o.rows = 2.5;
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_ARGUMENT, "--rows must be a whole");
    o.rows = NAN, o.output = test_path("no/where");
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_WRITE, "there is no folder");
    o.output = test_path("m.safetensors"), o.kernel_y = "gausian";
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_ARGUMENT, "--kernel-y gausian: ");
    o.kernel_y = NULL, o.y = test_path("none.npy"), o.z = test_path("z.npy");
    assert_refused(circe_fit(d.context, NULL, &o, NULL, &result), CIRCE_ERR_IO, "none.npy");
    assert_null(result);
    circe_table_free(d.table);
}

/* A table with holes, a constant and categories: all of it is told. */
static void fit_tells(void **state) {
    (void)state;
    data d = make_data();
    circe_fit_options o;
    circe_fit_result *result = NULL;
    double holes[ROWS], same[ROWS];
    for (int64_t i = 0; i < ROWS; i++) holes[i] = i % 40 == 3 ? NAN : test_at(&d.z, i, 0), same[i] = 5;
    assert_ok(circe_table_add_numbers(d.table, "holes", holes, 1));
    assert_ok(circe_table_add_numbers(d.table, "same", same, 1));
    circe_fit_options_init(&o);
    o.y = "group", o.z = "holes", o.output = test_path("m.safetensors");
    assert_refused(circe_fit(d.context, d.table, &o, NULL, &result), CIRCE_ERR_VALUE, "row 3, column 'holes'");
    assert_non_null(strstr(circe_last_error(), "\n--missing drop"));
    o.missing = "drop";
    assert_ok(circe_fit(d.context, d.table, &o, NULL, &result));
    assert_int_equal(result->dropped, 3);
    assert_int_equal(result->columns.n, 2);
    assert_string_equal(result->columns.column[0].name, "group");
    assert_int_equal(result->columns.column[0].categories, 3);
    assert_int_equal(result->columns.column[1].missing, 3);
    circe_fit_result_free(result);
    o.y = "same", o.z = "z", o.sigma2_y = "1";
    assert_ok(circe_fit(d.context, d.table, &o, NULL, &result));
    assert_int_equal(result->warnings.n, 1); /* the model's own, without the name of the table, is not there too */
    assert_string_equal(result->warnings.text[0], "y (the table) is constant: conditioning on it changes nothing");
    circe_fit_result_free(result);
    circe_table_free(d.table);
}

/* ---- measure ------------------------------------------------------------------------------------------------------
 */

static double measure_of(const data *d, const circe_table *table, const char *name,
                         const circe_measure_job_options *o) {
    circe_measure_job_result *result = NULL;
    assert_ok(circe_measure_run(d->context, table, name, o, NULL, &result));
    assert_int_equal(result->n, 1);
    double value = result->values[0].value;
    circe_measure_job_result_free(result);
    return value;
}

static void hsic_is_the_library_s(void **state) {
    (void)state;
    data d = make_data();
    circe_measure_job_options o;
    circe_measure_job_result *result = NULL;
    circe_kernels kernels = {median_kernel(&d, &d.x), NULL, median_kernel(&d, &d.z)};
    circe_mat grad = test_zeros(ROWS, 2, CIRCE_FLOAT64);
    double value = 0;
    assert_ok(circe_measure_hsic(test_workspace(d.context), &kernels, &d.x, &d.z, CIRCE_HSIC_USTAT, &value, &grad));
    circe_measure_job_options_init(&o);
    o.x = "x0,x1", o.z = "z", o.grad = test_path("grad.npy");
    assert_ok(circe_measure_run(d.context, d.table, "hsic", &o, NULL, &result));
    assert_true(result->values[0].value == value);
    assert_string_equal(result->values[0].estimator, "ustat");
    assert_true(result->rows == ROWS && result->kernels.y == NULL);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < 2; j++) assert_true(test_at(&result->grad, i, j) == test_at(&grad, i, j));
    char *json = circe_measure_json(result);
    assert_has(json, "\"measure\":\t\"hsic\"");
    circe_text_free(json);
    circe_measure_job_result_free(result);
    o.x = test_path("x.npy"), o.z = test_path("z.npy");
    assert_true(measure_of(&d, NULL, "hsic", &o) == value);
    circe_table_free(d.table);
}

static void circe_by_a_model(void **state) {
    (void)state;
    data d = make_data();
    circe_fit_options f;
    circe_fit_result *fitted = NULL;
    circe_measure_job_options o;
    double value = 0;
    circe_fit_options_init(&f);
    f.y = "y", f.z = "z", f.output = test_path("model.safetensors");
    assert_ok(circe_fit(d.context, d.table, &f, NULL, &fitted));
    assert_ok(circe_measure_circe(test_workspace(d.context), fitted->cme, median_kernel(&d, &d.x), &d.x, &d.y, &d.z,
                                  CIRCE_USTAT, &value, NULL));
    circe_measure_job_options_init(&o);
    o.x = "x0,x1", o.y = "y", o.z = "z", o.estimator = "ustat", o.model = test_path("model.safetensors");
    assert_true(measure_of(&d, d.table, "circe", &o) == value);
    o.x = test_path("x.npy"), o.y = test_path("y.npy"), o.z = test_path("z.npy");
    assert_true(measure_of(&d, NULL, "circe", &o) == value);
    o.model = NULL, o.holdout_y = test_path("y.npy"), o.holdout_z = test_path("z.npy");
    assert_true(measure_of(&d, NULL, "circe", &o) == value);
    circe_fit_result_free(fitted);
    circe_table_free(d.table);
}

static void all_measures(void **state) {
    (void)state;
    data d = make_data();
    circe_measure_job_options o;
    circe_measure_job_result *all = NULL;
    circe_measure_job_options_init(&o);
    o.x = "x0,x1", o.y = "y", o.z = "z", o.sigma2_y = "0.5", o.ridge = "0.1";
    assert_ok(circe_measure_run(d.context, d.table, "all", &o, NULL, &all));
    assert_int_equal(all->n, CIRCE_MEASURE_KINDS); /* every kind once, and both forms of hsic */
    assert_int_equal(all->n_failed, 0);
    assert_int_equal(all->source, CIRCE_MEAN_FROM_SPLIT);
    assert_true(all->rows == ROWS / 2 && all->holdout == ROWS / 2);
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->values[i].measure, "circe") == 0)
            assert_true(all->values[i].value == measure_of(&d, d.table, "circe", &o));
    char *json = circe_measure_json(all);
    assert_has(json, "\"measure\":\t\"kpc\"");
    circe_text_free(json);
    circe_measure_job_result_free(all);
    circe_table_free(d.table);
}

static void in_blocks(void **state) {
    (void)state;
    data d = make_data();
    circe_measure_job_options o;
    circe_measure_job_result *result = NULL;
    circe_measure_job_options_init(&o);
    o.x = "x0", o.z = "z", o.block_rows = 30, o.blocks = 3;
    assert_ok(circe_measure_run(d.context, d.table, "hsic", &o, NULL, &result));
    assert_true(result->in_blocks && result->rows == 90 && result->given == ROWS);
    assert_true(result->values[0].blocks.blocks == 3 && result->values[0].blocks.standard_error > 0);
    circe_measure_job_result_free(result);
    circe_table_free(d.table);
}

static void measure_refusals(void **state) {
    (void)state;
    data d = make_data();
    circe_measure_job_options o;
    circe_measure_job_result *r = NULL;
    circe_measure_job_options_init(&o);
    o.x = "x0", o.z = "z";
    assert_refused(circe_measure_run(d.context, d.table, "hsci", &o, NULL, &r), CIRCE_ERR_ARGUMENT,
                   "no measure 'hsci'");
    assert_non_null(strstr(circe_last_error(), "did you mean"));
    assert_refused(circe_measure_run(d.context, d.table, NULL, &o, NULL, &r), CIRCE_ERR_ARGUMENT, "which measure?");
    assert_refused(circe_measure_run(d.context, d.table, "circe", &o, NULL, &r), CIRCE_ERR_ARGUMENT,
                   "--y FILE is required: circe conditions on it");
    o.y = "y", o.holdout_y = "y.npy";
    assert_refused(circe_measure_run(d.context, d.table, "circe", &o, NULL, &r), CIRCE_ERR_ARGUMENT,
                   "--holdout-y needs --holdout-z");
    o.holdout_y = NULL, o.model = "m", o.ridge = "2";
    assert_refused(circe_measure_run(d.context, d.table, "circe", &o, NULL, &r), CIRCE_ERR_ARGUMENT,
                   "--ridge cannot be used with --model");
    o.model = NULL, o.dtype = "half";
    assert_refused(circe_measure_run(d.context, d.table, "circe", &o, NULL, &r), CIRCE_ERR_ARGUMENT, "float32|float64");
    assert_null(r);
    circe_table_free(d.table);
}

/* ---- test ---------------------------------------------------------------------------------------------------------
 */

static void tests_are_the_library_s(void **state) {
    (void)state;
    data d = make_data();
    circe_test_job_options o;
    circe_test_job_result *memory = NULL, *files = NULL;
    circe_test_options options;
    circe_test_result direct;
    circe_mat x = test_normal(9, ROWS, 1); /* independent of z: a p-value in the middle, which depends on the seed */
    add(d.table, "other", &x, 0);
    assert_ok(io_write_npy(test_path("other.npy"), &x));
    circe_test_options_init(&options);
    options.method = CIRCE_TEST_KCI;
    options.null = CIRCE_NULL_WILD;
    options.seed = 5;
    assert_ok(circe_test(d.context, &x, &d.y, &d.z, &options, &direct));
    circe_test_job_options_init(&o);
    o.x = "other", o.y = "y", o.z = "z", o.seed = 5, o.null = "wild";
    assert_ok(circe_test_run(d.context, d.table, "kci", &o, NULL, &memory));
    o.x = test_path("other.npy"), o.y = test_path("y.npy"), o.z = test_path("z.npy");
    assert_ok(circe_test_run(d.context, NULL, "kci", &o, NULL, &files));
    assert_true(memory->tests[0].result.p_value == direct.p_value);
    assert_true(files->tests[0].result.p_value == direct.p_value);
    assert_true(memory->tests[0].result.statistic == direct.statistic && memory->conditional);
    assert_null(memory->calibration);
    assert_null(memory->effects);
    circe_test_job_result_free(memory);
    circe_test_job_result_free(files);
    circe_table_free(d.table);
}

static void test_of_texts_with_all_it_offers(void **state) {
    (void)state;
    data d = make_data();
    circe_test_job_options o;
    circe_test_job_result *r = NULL;
    circe_test_job_options_init(&o);
    o.x = "x0", o.y = "y", o.z = "group", o.calibrate = 20, o.effects = 1, o.draws = 19;
    assert_ok(circe_test_run(d.context, d.table, "gcm", &o, NULL, &r));
    assert_int_equal(r->calibration->repetitions, 20);
    assert_int_equal(r->calibration->rows, ROWS);
    assert_true(r->effects->rows > 0 && r->along.points > 0);
    assert_string_equal(r->along.column, "y");
    assert_int_equal(r->columns.column[0].categories, 3);
    char *json = circe_test_json(r);
    assert_has(json, "\"calibration\":");
    assert_has(json, "\"along\":");
    circe_text_free(json);
    circe_test_job_result_free(r);
    o.calibrate = 0, o.effects = 0;
    assert_ok(circe_test_run(d.context, d.table, "all", &o, NULL, &r));
    assert_true(r->n == 8 && r->n_failed == 0);
    circe_test_job_result_free(r);
    o.calibrate = 20;
    assert_refused(circe_test_run(d.context, d.table, "all", &o, NULL, &r), CIRCE_ERR_ARGUMENT,
                   "--calibrate works with one test only");
    assert_null(r);
    circe_table_free(d.table);
}

/* ---- who watches --------------------------------------------------------------------------------------------------
 */

typedef struct heard {
    int warnings, asked, stop_at;
    char last[512];
} heard;

static void hear(void *user, const char *text) {
    heard *h = user;
    h->warnings++;
    snprintf(h->last, sizeof h->last, "%s", text);
}

static int ask(void *user, double done, const char *text) {
    heard *h = user;
    assert_true(done >= 0 && done <= 1 && text != NULL);
    return ++h->asked == h->stop_at;
}

static void watched(void **state) {
    (void)state;
    data d = make_data();
    heard h = {.stop_at = -1};
    circe_watch watch = {.user = &h, .progress = ask, .warning = hear};
    circe_test_job_options o;
    circe_test_job_result *r = NULL;
    circe_fit_options f;
    circe_fit_result *fitted = NULL;
    circe_test_job_options_init(&o);
    o.x = "x0", o.z = "z", o.draws = 19;
    assert_ok(circe_test_run(d.context, d.table, "kci", &o, &watch, &r));
    assert_true(h.warnings == 1 && r->warnings.n == 1 && h.asked > 0);
    assert_string_equal(h.last, r->warnings.text[0]);
    circe_test_job_result_free(r);
    h = (heard){.stop_at = 1};
    assert_int_equal(circe_test_run(d.context, d.table, "all", &o, &watch, &r), CIRCE_ERR_CANCELLED);
    assert_null(r);
    circe_fit_options_init(&f);
    f.y = "y", f.z = "z", f.output = test_path("stopped.safetensors");
    h = (heard){.stop_at = 1};
    assert_int_equal(circe_fit(d.context, d.table, &f, &watch, &fitted), CIRCE_ERR_CANCELLED);
    assert_null(fitted);
    FILE *file = fopen(f.output, "r");
    assert_null(file); /* nothing was written */
    circe_table_free(d.table);
}

/* An error may have lines: its hints. */
static void cells_of_many_tests_are_quoted(void **state) {
    (void)state;
    char x[] = "a\nb", z[] = "say \"z\"", error[] = "one,\ntwo";
    circe_answer answer = {.x = x, .z = z, .error = error};
    const circe_tests_result result = {.n = 1, .answers = &answer};
    char *csv = circe_tests_csv(&result);
    assert_string_equal(csv,
                        "x,y,z,p_value,p_holm,p_bh,statistic,null,trust,n,error\n"
                        "\"a\nb\",,\"say \"\"z\"\"\",,,,,,,,\"one,\ntwo\"\n");
    circe_text_free(csv);
}

TEST_MAIN("jobs_measure", TEST(fits), TEST(fit_refusals), TEST(fit_tells), TEST(hsic_is_the_library_s),
          TEST(circe_by_a_model), TEST(all_measures), TEST(in_blocks), TEST(measure_refusals),
          TEST(tests_are_the_library_s), TEST(test_of_texts_with_all_it_offers), TEST(watched),
          TEST(cells_of_many_tests_are_quoted))
