/* circe_audit as a program calls it: the same from memory and from a file, stopped by its watch, clear about options,
 * and gaps, metrics and groups by brute force on data with 3 % to 97 % positives and rare groups. */
#include "circe/audit.h"
#include "tests/support.h"

enum { N = 1500 };

typedef struct people {
    double y[N], score[N], age[N];
    const char *group[N];
} people;

static people *make_people(double positives, uint64_t seed) {
    static const char *const names[] = {"a", "b", "rare"};
    people *p = test_memory(sizeof *p);
    double *u = test_memory(3 * N * sizeof *u);
    circe_random_uniform((circe_random){seed, 0}, 0, 3 * N, u);
    circe_random_normal((circe_random){seed, 1}, 0, N, p->score);
    circe_random_normal((circe_random){seed, 2}, 0, N, p->age);
    for (int i = 0; i < N; i++) {
        int g = u[N + i] < 0.02 ? 2 : u[N + i] < 0.6;
        p->y[i] = u[i] < positives;
        p->group[i] = names[g];
        p->score[i] = round(100 * (0.35 + 0.3 * p->y[i] + 0.1 * g + 0.15 * p->score[i])) / 100; /* ties */
    }
    return p;
}

static circe_table *make_table(const people *p) {
    circe_table *table = NULL;
    assert_int_equal(circe_table_create(N, &table), CIRCE_OK);
    assert_int_equal(circe_table_add_numbers(table, "y", p->y, 1), CIRCE_OK);
    assert_int_equal(circe_table_add_numbers(table, "score", p->score, 1), CIRCE_OK);
    assert_int_equal(circe_table_add_numbers(table, "age", p->age, 1), CIRCE_OK);
    assert_int_equal(circe_table_add_texts(table, "group", p->group), CIRCE_OK);
    return table;
}

static circe_audit_options make_options(void) {
    circe_audit_options o;
    circe_audit_options_init(&o);
    o.prediction = "score";
    o.target = "y";
    o.sensitive = "group";
    o.calibrate = 0;
    return o;
}

static circe_audit_result *audit(const people *p, const circe_audit_options *o) {
    circe_audit_result *result = NULL;
    circe_table *table = make_table(p);
    circe_status status = circe_audit(test_context(1), table, o, NULL, &result);
    circe_table_free(table);
    if (status != CIRCE_OK) fail_msg("%s", circe_last_error());
    return result;
}

/* ---- brute force ------------------------------------------------------------------------------------------------- */

/* The share of rows at or above the threshold among those of a group and an outcome. */
static double rate(const people *p, const char *group, double y) {
    double said = 0, rows = 0;
    for (int i = 0; i < N; i++) {
        if (strcmp(p->group[i], group) != 0 || p->y[i] != y) continue;
        rows += 1;
        said += p->score[i] >= 0.5;
    }
    return said / rows;
}

static double auc(const people *p, const char *group) {
    double pairs = 0, right = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            if (p->y[i] == 0 || p->y[j] != 0 || strcmp(p->group[i], group) != 0 || strcmp(p->group[j], group) != 0)
                continue;
            pairs += 1;
            right += p->score[i] > p->score[j] ? 1 : p->score[i] == p->score[j] ? 0.5 : 0;
        }
    }
    return right / pairs;
}

static const circe_audit_gap *gap_of(const circe_audit_finding *f, circe_audit_gap_kind kind) {
    for (int i = 0; i < f->n_gaps; i++)
        if (f->gaps[i].kind == kind) return &f->gaps[i];
    fail_msg("there is no such gap");
    return NULL;
}

static void check_gap(const people *p, const circe_audit_finding *f, circe_audit_gap_kind kind, double y) {
    const circe_audit_gap *g = gap_of(f, kind);
    double a = rate(p, "a", y), b = rate(p, "b", y);
    assert_float_equal(g->gap.value, fabs(a - b), 1e-12); /* sums of at most 1,500 ones */
    assert_string_equal(g->high, a > b ? "a" : "b");
    assert_string_equal(g->low, a > b ? "b" : "a");
    assert_true(g->gap.lower <= g->gap.value && g->gap.value <= g->gap.upper);
    assert_int_equal(g->n_groups, 2);
}

static void test_known_gaps(void **state) {
    static const double shares[] = {0.03, 0.2, 0.5, 0.89, 0.97};
    (void)state;
    circe_audit_options o = make_options();
    for (int k = 0; k < COUNT(shares); k++) {
        people *p = make_people(shares[k], 3);
        circe_audit_result *r = audit(p, &o);
        assert_int_equal(r->outcome, CIRCE_OUTCOME_BINARY);
        check_gap(p, r->findings, CIRCE_GAP_TRUE_POSITIVE_RATE, 1);
        check_gap(p, r->findings, CIRCE_GAP_FALSE_POSITIVE_RATE, 0);
        circe_audit_result_free(r);
    }
}

static void test_known_metrics(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    people *p = make_people(0.3, 4);
    circe_audit_result *r = audit(p, &o);
    const circe_audit_groups *groups = &r->groups[0];
    int64_t rows = 0;
    assert_int_equal(groups->n_groups, 3);
    for (int64_t g = 0; g < groups->n_groups; g++) {
        const circe_audit_estimate *of = r->findings[0].groups[g].of;
        const char *name = groups->labels[g];
        assert_float_equal(of[CIRCE_METRIC_TRUE_POSITIVE_RATE].value, rate(p, name, 1), 1e-12);
        assert_float_equal(of[CIRCE_METRIC_FALSE_POSITIVE_RATE].value, rate(p, name, 0), 1e-12);
        assert_float_equal(of[CIRCE_METRIC_AUC].value, auc(p, name), 1e-12);
        assert_int_equal(groups->compared[g], strcmp(name, "rare") != 0);
        rows += groups->rows[g];
    }
    assert_int_equal(rows, N);
    assert_true(isnan(r->quality[0].of[CIRCE_METRIC_R2].value));
    assert_int_equal(r->warnings.n, 2); /* of the rare group, and of scores beyond [0, 1] */
    circe_audit_result_free(r);
}

/* Seconds since 1970: the ends of groups differ in the last digits. */
static void test_far_from_zero(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    o.sensitive = "age";
    people *p = make_people(0.5, 6);
    for (int i = 0; i < N; i++) p->age[i] += 1700000000;
    circe_audit_result *r = audit(p, &o);
    const circe_audit_groups *groups = &r->groups[0];
    assert_true(groups->n_groups >= 2);
    for (int64_t g = 0; g < groups->n_groups; g++) {
        double first = 0.0, last = 0.0;
        assert_int_equal(sscanf(groups->labels[g], "%lf to %lf", &first, &last), 2);
        assert_true(first < last);
        for (int64_t other = 0; other < g; other++) assert_string_not_equal(groups->labels[g], groups->labels[other]);
    }
    circe_audit_result_free(r);
}

/* 93 % of the rows at one end of an attribute of many values. */
static void test_ties(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    o.sensitive = "age";
    for (int side = -1; side <= 1; side += 2) {
        people *p = make_people(0.5, 5);
        for (int i = 0; i < N; i++)
            if (i % 100 < 93) p->age[i] = 9 * side;
        circe_audit_result *r = audit(p, &o);
        assert_true(r->findings[0].n_gaps > 0);
        assert_true(r->groups[0].n_groups >= 2);
        circe_audit_result_free(r);
    }
}

/* ---- memory and files -------------------------------------------------------------------------------------------- */

static void write_csv(const people *p, const char *path) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("y,score,age,group\n", out);
    for (int i = 0; i < N; i++) fprintf(out, "%.17g,%.17g,%.17g,%s\n", p->y[i], p->score[i], p->age[i], p->group[i]);
    fclose(out);
}

/* Takes the value of every such key out. */
static void cut(char *text, const char *key) {
    for (char *at = text; (at = strstr(at, key)) != NULL; at += strlen(key)) {
        char *value = at + strlen(key), *end = value + strcspn(value, ",}\n");
        memmove(value, end, strlen(end) + 1);
    }
}

/* The JSON without what differs. */
static char *comparable(const circe_audit_result *r) {
    char *text = circe_audit_json(r);
    assert_non_null(text);
    cut(text, "\"seconds\":");
    cut(text, "\"data\":");
    return text;
}

static void test_memory_and_file_agree(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    o.sensitive = "group,age";
    people *p = make_people(0.4, 6);
    circe_audit_result *memory = audit(p, &o), *file = NULL;
    write_csv(p, test_path("people.csv"));
    o.data = test_path("people.csv");
    assert_int_equal(circe_audit(test_context(1), NULL, &o, NULL, &file), CIRCE_OK);
    char *one = comparable(memory), *other = comparable(file);
    assert_string_equal(one, other);
    circe_text_free(one);
    circe_text_free(other);
    circe_audit_result_free(memory);
    circe_audit_result_free(file);
}

static void test_report(void **state) {
    static const char *const files[] = {"report.html", "results.json", "results.csv", "1-residuals.gp", "1-rates.dat"};
    (void)state;
    circe_audit_options o = make_options();
    circe_audit_result *r = audit(make_people(0.4, 7), &o);
    const char *folder = test_path("report");
    assert_int_equal(circe_audit_report(r, folder), CIRCE_OK);
    for (int i = 0; i < COUNT(files); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        FILE *in = fopen(path, "r");
        if (in == NULL) fail_msg("%s is not there", path);
        fclose(in);
    }
    assert_int_equal(circe_audit_report(r, test_path("no/such/place")), CIRCE_ERR_WRITE);
    circe_audit_result_free(r);
}

/* ---- the watch and the options ----------------------------------------------------------------------------------- */

typedef struct watched {
    int calls, stop_at, warnings;
    double last;
} watched;

static int progress(void *user, double done, const char *text) {
    watched *w = user;
    assert_non_null(text);
    assert_true(done >= w->last && done <= 1);
    w->last = done;
    return ++w->calls == w->stop_at;
}

static void warning(void *user, const char *text) {
    assert_true(text[0] != '\0');
    ((watched *)user)->warnings++;
}

static void test_cancel(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    circe_table *table = make_table(make_people(0.4, 8));
    watched all = {0};
    circe_watch watch = {.user = &all, .progress = progress, .warning = warning};
    circe_audit_result *r = NULL;
    assert_int_equal(circe_audit(test_context(1), table, &o, &watch, &r), CIRCE_OK);
    assert_int_equal(all.warnings, (int)r->warnings.n);
    circe_audit_result_free(r);
    assert_true(all.calls > 5);
    const int stops[] = {1, 2, all.calls / 2, all.calls - 5, all.calls};
    for (int k = 0; k < COUNT(stops); k++) {
        watched w = {.stop_at = stops[k]};
        watch.user = &w;
        assert_int_equal(circe_audit(test_context(1), table, &o, &watch, &r), CIRCE_ERR_CANCELLED);
        assert_null(r);
        assert_int_equal(w.calls, stops[k]);
    }
    circe_table_free(table);
}

/* A classifier that is always right has the same rates in every group: gaps of 0, between two groups, with intervals.
 */
static void test_no_gap_at_all(void **state) {
    (void)state;
    people *p = make_people(0.4, 12);
    for (int i = 0; i < N; i++) p->score[i] = 0.2 + 0.6 * p->y[i] + 0.001 * (i % 50);
    circe_audit_options o = make_options();
    circe_audit_result *r = audit(p, &o);
    const circe_audit_finding *f = &r->findings[0];
    int rates = 0;
    for (int i = 0; i < f->n_gaps; i++) {
        const circe_audit_gap *g = &f->gaps[i];
        if (g->gap.value != 0.0) continue;
        rates++;
        assert_true(g->gap.lower == 0.0 && g->gap.upper == 0.0);
        assert_string_not_equal(g->high, g->low);
    }
    assert_int_equal(rates, 3); /* true and false positives, precision */
    assert_null(strstr(f->verdict, "nan"));
    assert_non_null(strstr(f->verdict, "is the same in all groups"));
    circe_audit_result_free(r);
}

static void refuse(const circe_table *table, const circe_audit_options *o, const char *word) {
    circe_audit_result *r = NULL;
    circe_status status = circe_audit(test_context(1), table, o, NULL, &r);
    assert_true(status != CIRCE_OK);
    assert_null(r);
    if (strstr(circe_last_error(), word) == NULL) fail_msg("'%s' is not in: %s", word, circe_last_error());
}

static void test_bad_options(void **state) {
    (void)state;
    circe_audit_options o = make_options();
    circe_table *table = make_table(make_people(0.4, 9));
    refuse(NULL, &o, "no table is given");
    o.target = NULL;
    refuse(table, &o, "--target");
    o = make_options();
    o.sensitive = "gruop";
    refuse(table, &o, "gruop");
    o = make_options();
    o.prediction = "y";
    refuse(table, &o, "is the target");
    o = make_options();
    o.test = "anova";
    refuse(table, &o, "--test");
    o = make_options();
    o.alpha = 2;
    refuse(table, &o, "--alpha");
    o = make_options();
    o.numbers = "height";
    refuse(table, &o, "--numbers");
    o = make_options();
    o.positive = "maybe";
    refuse(table, &o, "--positive");
    o = make_options();
    o.numbers = "y";
    o.positive = "1";
    refuse(table, &o, "--numbers");
    circe_table_free(table);
}

TEST_MAIN("audit job", TEST(test_known_gaps), TEST(test_known_metrics), TEST(test_far_from_zero), TEST(test_ties),
          TEST(test_no_gap_at_all), TEST(test_memory_and_file_agree), TEST(test_report), TEST(test_cancel),
          TEST(test_bad_options))
