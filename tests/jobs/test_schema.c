/* The table of options: defaults, values from texts, what was given, and what is refused. */
#include "circe/jobs.h"
#include "tests/support.h"

static const char *const jobs[] = {"fit", "measure", "test", "audit", "train", "predict", "data", "experiment"};

static void *options_of(const circe_schema *schema) {
    void *options = test_memory(schema->bytes);
    circe_options_init(schema, options);
    return options;
}

/* ---- every row of every job --------------------------------------------------------------------------------------
 */

/* What would be a value, where the row has no default. */
static const char *example_of(const circe_option *row, char *text, size_t size) {
    switch (row->kind) {
        case CIRCE_OPTION_FLAG:
            return "true";
        case CIRCE_OPTION_CHOICE:
            snprintf(text, size, "%.*s", (int)strcspn(row->words, "|"), row->words);
            return text;
        case CIRCE_OPTION_INTEGER:
        case CIRCE_OPTION_COUNT:
            snprintf(text, size, "%.0f", row->low + 1 <= row->high ? row->low + 1 : row->high);
            return text;
        case CIRCE_OPTION_NUMBER:
            snprintf(text, size, "%g", row->high > 0 ? (row->low + row->high) / 2 : row->low + 1);
            return text;
        case CIRCE_OPTION_POSITIVE:
            return row->high > 0 ? (snprintf(text, size, "%g", row->high / 2), text) : "1.5";
        case CIRCE_OPTION_POSITIVES:
            return "0.25,3";
        case CIRCE_OPTION_BYTES:
            return "2M";
        case CIRCE_OPTION_TEXT:
        case CIRCE_OPTION_LIST:
        case CIRCE_OPTION_PATH:
            break;
    }
    return "a,b";
}

static void rows_are_whole(void **state) {
    (void)state;
    for (int64_t j = 0; j < COUNT(jobs); j++) {
        const circe_schema *schema = circe_schema_of(jobs[j]);
        assert_non_null(schema);
        assert_string_equal(schema->job, jobs[j]);
        for (size_t i = 0; i < schema->n; i++) {
            const circe_option *row = &schema->rows[i];
            assert_non_null(row->group);
            assert_true(row->help != NULL && row->help[0] != '\0');
            assert_true(row->offset < schema->bytes);
            assert_ptr_equal(circe_schema_find(schema, row->name), row); /* no name twice */
            assert_true((row->kind == CIRCE_OPTION_FLAG) == (row->value == NULL));
            if (row->kind == CIRCE_OPTION_CHOICE) assert_non_null(row->words);
        }
    }
    assert_null(circe_schema_of("bake"));
}

/* Every default is in its range, and every row takes a value and tells that it was given. */
static void rows_take_values(void **state) {
    (void)state;
    for (int64_t j = 0; j < COUNT(jobs); j++) {
        const circe_schema *schema = circe_schema_of(jobs[j]);
        for (size_t i = 0; i < schema->n; i++) {
            const circe_option *row = &schema->rows[i];
            char text[64];
            void *options = options_of(schema);
            assert_false(circe_options_given(schema, options, row->name));
            if (row->fallback != NULL) {
                assert_ok(circe_options_set(schema, options, row->name, row->fallback));
                assert_int_equal(circe_options_given(schema, options, row->name), row->kind == CIRCE_OPTION_COUNT);
            }
            const char *example = example_of(row, text, sizeof text);
            assert_ok(circe_options_set(schema, options, row->name, example));
            bool usual = row->fallback != NULL && strcmp(row->fallback, example) == 0;
            assert_true(usual || circe_options_given(schema, options, row->name));
        }
    }
}

/* ---- kinds --------------------------------------------------------------------------------------------------------
 */

static void defaults(void **state) {
    (void)state;
    circe_measure_job_options o;
    circe_measure_job_options_init(&o);
    assert_null(o.x);
    assert_true(isnan(o.rows));
    assert_string_equal(o.transform, "none");
    assert_string_equal(o.decimal, ".");
    assert_true(o.sigma2_z == CIRCE_AUTO);
    assert_true(o.epsilon == 1e-3 && o.seconds == 20);
    assert_true(o.block_rows == CIRCE_UNSET && o.seed == 0);
    assert_false(o.force_ridge);
    circe_test_job_options t;
    circe_test_job_options_init(&t);
    assert_int_equal(t.calibrate, 0); /* its fallback is what it is without a number */
}

static void values(void **state) {
    (void)state;
    const circe_schema *s = &circe_measure_job_schema;
    circe_measure_job_options o;
    int64_t n = 0;
    double numbers[4];
    circe_measure_job_options_init(&o);
    assert_ok(circe_options_set(s, &o, "seed", "42"));
    assert_ok(circe_options_set(s, &o, "rows", "all"));
    assert_ok(circe_options_set(s, &o, "tolerance", "1e-6"));
    assert_ok(circe_options_set(s, &o, "force-ridge", "true"));
    assert_ok(circe_options_set(s, &o, "dtype", "float32"));
    assert_ok(circe_options_set(s, &o, "sigma2-y", "0.5,2"));
    assert_true(o.seed == 42 && o.rows == CIRCE_AUTO && o.tolerance == 1e-6 && o.force_ridge == 1);
    assert_string_equal(o.dtype, "float32");
    assert_ok(circe_options_numbers(s, &o, "sigma2-y", NULL, &n));
    assert_int_equal(n, 2);
    assert_ok(circe_options_numbers(s, &o, "sigma2-y", numbers, &n));
    assert_true(numbers[0] == 0.5 && numbers[1] == 2);
    assert_ok(circe_options_set(s, &o, "sigma2-y", "median"));
    assert_ok(circe_options_numbers(s, &o, "sigma2-y", numbers, &n));
    assert_int_equal(n, 0);
    assert_ok(circe_options_set(s, &o, "force-ridge", "false"));
    assert_false(circe_options_given(s, &o, "force-ridge"));
}

/* ---- refusals -----------------------------------------------------------------------------------------------------
 */

static void refused_texts(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"seed", "4.5", "--seed takes a whole number, not '4.5'"},
        {"seed", "-1", "--seed must be between 0 and"},
        {"seed", "99999999999999999999", "--seed must be between 0 and"},
        {"block-rows", "3", "--block-rows must be between 4 and"},
        {"seconds", "0", "--seconds must be"},
        {"seconds", "0x10", "'0x10' is not a number"},
        {"seconds", "1e-400", "too small"},
        {"tolerance", "1", "--tolerance must be less than 1, not 1"},
        {"tolerance", "0", "--tolerance must be greater than 0, not 0"},
        {"sigma2-z", "1,2", "--sigma2-z takes one number, not '1,2'"},
        {"sigma2-z", "medium", "is not a number or the word median"},
        {"sigma2-y", "1,,2", "--sigma2-y: '' is not a number"},
        {"sigma2-y", "1,-2", "--sigma2-y must be greater than 0, not -2"},
        {"dtype", "float", "--dtype must be one of float32|float64, not 'float'"},
        {"force-ridge", "yes", "--force-ridge must be true or false, not 'yes'"},
        {"x", "", "--x has an empty value"},
    };
    circe_measure_job_options o;
    circe_measure_job_options_init(&o);
    for (int64_t i = 0; i < COUNT(cases); i++)
        assert_refused(circe_options_set(&circe_measure_job_schema, &o, cases[i].name, cases[i].text),
                       CIRCE_ERR_ARGUMENT, cases[i].says);
}

static void did_you_mean(void **state) {
    (void)state;
    const circe_schema *s = &circe_measure_job_schema;
    circe_measure_job_options o;
    circe_measure_job_options_init(&o);
    assert_refused(circe_options_set(s, &o, "sigam2-x", "1"), CIRCE_ERR_ARGUMENT, "measure has no option --sigam2-x");
    assert_non_null(strstr(circe_last_error(), "\ndid you mean --sigma2-x?"));
    assert_refused(circe_options_set(s, &o, "dtype", "float46"), CIRCE_ERR_ARGUMENT, "\ndid you mean float64?");
    assert_string_equal(circe_schema_nearest(s, "transfrom"), "transform");
    assert_null(circe_schema_nearest(s, "wholly-different"));
    assert_int_equal(circe_word_index("a|bc|d", "bc"), 1);
    assert_int_equal(circe_word_index("a|bc|d", "b"), -1);
}

/* A field may be set by anyone: the job looks again. */
static void checked(void **state) {
    (void)state;
    const circe_schema *s = &circe_fit_schema;
    circe_fit_options o;
    circe_fit_options_init(&o);
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--y FILE is required");
    o.y = "y.npy";
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--z FILE is required");
    o.z = "z.npy";
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "-o MODEL is required");
    o.output = "model.safetensors";
    assert_ok(circe_options_check(s, &o));
    o.tolerance = 2;
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--tolerance must be less than 1");
    o.tolerance = INFINITY;
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--tolerance is not a finite number");
    o.tolerance = NAN;
    o.method = "fast";
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--method must be one of auto|lowrank|dense|rff");
    o.method = "dense";
    o.ridge = "1,x";
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "'x' is not a number");
    o.ridge = "1";
    o.max_rank = 0;
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--max-rank must be between 1 and");
    o.max_rank = CIRCE_UNSET;
    o.sigma2_z = CIRCE_AUTO;
    assert_ok(circe_options_check(s, &o));
    o.sigma2_z = -2;
    assert_refused(circe_options_check(s, &o), CIRCE_ERR_ARGUMENT, "--sigma2-z must be greater than 0");
    assert_int_equal(circe_schema_find(s, "method")->offset, offsetof(circe_fit_options, method));
}

TEST_MAIN("schema", TEST(rows_are_whole), TEST(rows_take_values), TEST(defaults), TEST(values), TEST(refused_texts),
          TEST(did_you_mean), TEST(checked))
