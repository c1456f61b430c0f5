/* Reading the table of an audit, and the checks that spare a reader a report on the wrong column. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/common/from_args.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/quantile.h"

enum { LEAST_ROWS = 50, MOST_CATEGORIES = 40 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

typedef struct roles {
    name_list predictions, sensitive, all;
    const char *target;
} roles;

static void roles_free(roles *r) {
    name_list_free(&r->predictions);
    name_list_free(&r->sensitive);
    name_list_free(&r->all);
}

static int check_roles(const roles *r) {
    for (int64_t i = 0; i < r->sensitive.n; i++) {
        const char *name = r->sensitive.names[i];
        if (strcmp(name, r->target) == 0)
            return message_fail(EXIT_INPUT,
                                "--sensitive '%s' is the target: once it is known, nothing can depend on it any more",
                                name);
        if (name_list_find(&r->predictions, name) >= 0)
            return message_fail(EXIT_INPUT, "--sensitive '%s' is a prediction: which depends on itself", name);
    }
    if (name_list_find(&r->predictions, r->target) >= 0)
        return message_fail(EXIT_INPUT, "--prediction '%s' is the target: give the column that was predicted",
                            r->target);
    return EXIT_DONE;
}

static int find_roles(const args *arguments, roles *r) {
    int status = message_refused(name_list_split("prediction", args_text(arguments, OPT_PREDICTION), &r->predictions));
    if (status == EXIT_DONE)
        status = message_refused(name_list_split("sensitive", args_text(arguments, OPT_SENSITIVE), &r->sensitive));
    r->target = args_text(arguments, OPT_AUDIT_TARGET);
    if (status == EXIT_DONE) status = check_roles(r);
    if (status != EXIT_DONE) return status;
    name_list_add(&r->all, r->target);
    for (int64_t i = 0; i < r->predictions.n; i++) name_list_add(&r->all, r->predictions.names[i]);
    for (int64_t i = 0; i < r->sensitive.n; i++) name_list_add(&r->all, r->sensitive.names[i]);
    for (int64_t i = 0; i < r->all.n; i++) { /* it would end the list of columns that is asked for */
        if (strpbrk(r->all.names[i], "\r\n") != NULL)
            return message_fail(EXIT_INPUT, "a name of a column has a line end in it: '%.*s'",
                                (int)strcspn(r->all.names[i], "\r\n"), r->all.names[i]);
    }
    return EXIT_DONE;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static void describe(audit_column *c, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += c->values[i];
    c->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (c->values[i] - c->mean) * (c->values[i] - c->mean);
    c->deviation = sqrt(squares / (double)n);
}

static int take_column(const audit_data *d, int64_t asked, const char *role, audit_column *out) {
    int64_t col = d->table.first[asked];
    *out = (audit_column){.name = column_name(&d->table, col),
                          .categories = column_categories(&d->table, col),
                          .n_categories = column_n_categories(&d->table, col)};
    if (d->table.count[asked] != 1) {
        message_note("%s '%s' has %" PRId64 " columns; choose one, as %s:0", role, out->name, d->table.count[asked],
                     out->name);
        return EXIT_INPUT;
    }
    if (column_is_constant(&d->table, col)) {
        message_note("%s '%s' is constant: there is nothing to audit; is it the wrong column?", role, out->name);
        return EXIT_INPUT;
    }
    out->values = calloc((size_t)d->n, sizeof *out->values);
    if (out->values == NULL) {
        message_note("out of memory for %" PRId64 " rows", d->n);
        return EXIT_WORK;
    }
    for (int64_t i = 0; i < d->n; i++) out->values[i] = column_value(&d->table, i, col);
    describe(out, d->n);
    double square = out->deviation * out->deviation;
    if (isfinite(square) && square >= DBL_MIN) return EXIT_DONE;
    return message_fail(
        EXIT_INPUT,
        "%s '%s' holds numbers of the size of %.3g, whose squares no double can hold: no distance and no "
        "error of it can be had; scale the column",
        role, out->name, out->values[d->n / 2]);
}

static int check_categories(const audit_column *c, const char *role, int64_t n) {
    if (c->n_categories <= MOST_CATEGORIES) return EXIT_DONE;
    return message_fail(EXIT_INPUT,
                        "%s '%s' is text with %" PRId64 " different words in %" PRId64
                        " rows; group them into %d categories at most, or is it a name?",
                        role, c->name, c->n_categories, n, MOST_CATEGORIES);
}

/* ---- the outcome ------------------------------------------------------------------------------------------------- */

/* The two values of a column of numbers; false: there are more. */
static bool two_values(const audit_column *c, int64_t n, double *low, double *high) {
    *low = *high = c->values[0];
    for (int64_t i = 1; i < n; i++) {
        double v = c->values[i];
        if (v == *low || v == *high) continue;
        if (*low != *high) return false;
        if (v < *low)
            *low = v;
        else
            *high = v;
    }
    return true;
}

static int refuse_positive(const audit_data *d, const char *asked) {
    return message_fail(EXIT_INPUT, "--positive '%s' is no value of the target '%s': they are '%s' and '%s'", asked,
                        d->target.name, d->negative, d->positive);
}

/* Both values become 0 and 1, with the texts kept. The larger number, or the later word, is positive unless asked. */
static int make_binary(audit_data *d, double low, double high, const char *asked) {
    audit_column *c = &d->target;
    bool text = c->categories != NULL;
    if (text && strcmp(c->categories[(int64_t)low], c->categories[(int64_t)high]) > 0) {
        double other = low;
        low = high, high = other;
    }
    d->outcome = OUTCOME_BINARY;
    d->negative = text ? small_format("%s", c->categories[(int64_t)low]) : small_format("%g", low);
    d->positive = text ? small_format("%s", c->categories[(int64_t)high]) : small_format("%g", high);
    if (asked != NULL && strcmp(asked, d->negative) == 0) {
        char *other = d->negative;
        d->negative = d->positive, d->positive = other;
        high = low;
    } else if (asked != NULL && strcmp(asked, d->positive) != 0) {
        return refuse_positive(d, asked);
    }
    for (int64_t i = 0; i < d->n; i++) c->values[i] = c->values[i] == high;
    c->categories = NULL;
    c->n_categories = 0;
    describe(c, d->n);
    return EXIT_DONE;
}

static int find_outcome(audit_data *d, const args *arguments) {
    const char *asked = args_text(arguments, OPT_POSITIVE);
    double low, high;
    d->threshold = args_number(arguments, OPT_THRESHOLD);
    if (d->target.n_categories == 2 || (d->target.categories == NULL && two_values(&d->target, d->n, &low, &high))) {
        if (d->target.n_categories == 2) low = 0, high = 1;
        return make_binary(d, low, high, asked);
    }
    d->outcome = d->target.categories != NULL ? OUTCOME_CLASSES : OUTCOME_NUMBERS;
    if (asked != NULL)
        return message_fail(EXIT_INPUT, "--positive is for a target of two values; '%s' has more", d->target.name);
    if (d->outcome == OUTCOME_CLASSES && d->target.n_categories > AUDIT_MOST_STRATA)
        return message_fail(EXIT_INPUT, "the target '%s' has %" PRId64 " classes; an audit takes %d at most",
                            d->target.name, d->target.n_categories, AUDIT_MOST_STRATA);
    return EXIT_DONE;
}

/* A prediction in words is 1 where it says the positive one. */
static int decode_prediction(const audit_data *d, audit_column *c) {
    if (c->categories == NULL) return EXIT_DONE;
    if (d->outcome != OUTCOME_BINARY)
        return message_fail(EXIT_INPUT,
                            "the prediction '%s' is text, but the target '%s' has not two values; give a column of "
                            "numbers: the predicted value, or the probability of one class",
                            c->name, d->target.name);
    for (int64_t k = 0; k < c->n_categories; k++) {
        if (strcmp(c->categories[k], d->positive) != 0 && strcmp(c->categories[k], d->negative) != 0)
            return message_fail(EXIT_INPUT,
                                "the prediction '%s' says '%s', which the target '%s' never does: '%s' or "
                                "'%s' are expected, or numbers",
                                c->name, c->categories[k], d->target.name, d->negative, d->positive);
    }
    for (int64_t i = 0; i < d->n; i++) c->values[i] = strcmp(c->categories[(int64_t)c->values[i]], d->positive) == 0;
    c->categories = NULL;
    c->n_categories = 0;
    describe(c, d->n);
    return EXIT_DONE;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int read_columns(const args *arguments, const roles *r, audit_data *d) {
    int status = take_column(d, 0, "the target", &d->target);
    if (status == EXIT_DONE) status = find_outcome(d, arguments);
    d->n_predictions = r->predictions.n;
    d->n_attributes = r->sensitive.n;
    d->predictions = small_alloc((size_t)d->n_predictions * sizeof *d->predictions);
    d->attributes = small_alloc((size_t)d->n_attributes * sizeof *d->attributes);
    for (int64_t i = 0; i < d->n_predictions && status == EXIT_DONE; i++) {
        status = take_column(d, 1 + i, "the prediction", &d->predictions[i]);
        if (status == EXIT_DONE) status = decode_prediction(d, &d->predictions[i]);
    }
    for (int64_t i = 0; i < d->n_attributes && status == EXIT_DONE; i++) {
        status = take_column(d, 1 + d->n_predictions + i, "the attribute", &d->attributes[i]);
        if (status == EXIT_DONE) status = check_categories(&d->attributes[i], "the attribute", d->n);
    }
    return status;
}

int audit_data_read(const args *arguments, audit_data *data) {
    const char *path = arguments->argument;
    roles r = {0};
    *data = (audit_data){0};
    if (path == NULL) {
        message_note("which table? a .csv with predictions, outcomes and attributes");
        message_hint("usage: circe audit %s", arguments->command->synopsis);
        return EXIT_INPUT;
    }
    int status = find_roles(arguments, &r);
    reading how = {0};
    if (status == EXIT_DONE) status = args_reading_open(arguments, &how);
    if (status == EXIT_DONE) status = args_column_table(arguments, path, &r.all, &how, false, &data->table);
    reading_free(&how);
    if (status == EXIT_DONE) {
        input *group[] = {&data->table.in};
        status = args_inputs_check(arguments, group, 1, LEAST_ROWS, &data->dropped);
        data->n = data->table.in.values.rows;
    }
    if (status == EXIT_DONE) status = read_columns(arguments, &r, data);
    roles_free(&r);
    return status;
}

void audit_data_free(audit_data *d) {
    for (int64_t i = 0; d->predictions != NULL && i < d->n_predictions; i++) free(d->predictions[i].values);
    for (int64_t i = 0; d->attributes != NULL && i < d->n_attributes; i++) free(d->attributes[i].values);
    free(d->predictions);
    free(d->attributes);
    free(d->target.values);
    free(d->positive);
    free(d->negative);
    if (d->table.first != NULL) column_table_free(&d->table);
    *d = (audit_data){0};
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void group_categories(const audit_column *c, int64_t n, audit_groups *g) {
    g->n_groups = c->n_categories;
    for (int64_t i = 0; i < n; i++) g->of[i] = (int64_t)c->values[i];
    for (int64_t k = 0; k < g->n_groups; k++) {
        g->labels[k] = small_format("%s", c->categories[k]);
        g->centre[k] = (double)k;
    }
}

/* The first row of the sorted values that is above quantile k / wanted, so that ties lie on one side. */
static int64_t end_of_group(const double *sorted, int64_t n, int64_t first, double share) {
    int64_t end = (int64_t)llround(share * (double)n);
    if (end <= first) end = first + 1;
    while (end < n && sorted[end] == sorted[end - 1]) end++;
    return end;
}

static void group_numbers(const audit_column *c, int64_t n, int64_t wanted, audit_groups *g) {
    double *sorted = small_alloc((size_t)n * sizeof *sorted), *last = small_alloc((size_t)wanted * sizeof *last);
    memcpy(sorted, c->values, (size_t)n * sizeof *sorted);
    quantile_sort(sorted, n);
    for (int64_t first = 0; first < n && g->n_groups < wanted;) {
        int64_t k = g->n_groups++;
        int64_t end = k + 1 == wanted ? n : end_of_group(sorted, n, first, (double)(k + 1) / (double)wanted);
        last[k] = sorted[end - 1];
        g->centre[k] = quantile_at(sorted + first, end - first, 0.5);
        g->labels[k] = sorted[first] == last[k] ? small_format("%.4g", last[k])
                                                : small_format("%.4g to %.4g", sorted[first], last[k]);
        first = end;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k + 1 < g->n_groups && c->values[i] > last[k]) k++;
        g->of[i] = k;
    }
    free(last);
    free(sorted);
}

void audit_groups_make(const audit_column *column, int64_t n, int64_t wanted, audit_groups *groups) {
    int64_t most = column->categories != NULL ? column->n_categories : wanted;
    *groups = (audit_groups){.of = small_alloc((size_t)n * sizeof *groups->of),
                             .centre = small_alloc((size_t)most * sizeof *groups->centre),
                             .labels = small_alloc((size_t)most * sizeof *groups->labels)};
    if (column->categories != NULL)
        group_categories(column, n, groups);
    else
        group_numbers(column, n, wanted, groups);
}

void audit_groups_free(audit_groups *groups) {
    for (int64_t k = 0; k < groups->n_groups; k++) free(groups->labels[k]);
    free(groups->labels);
    free(groups->centre);
    free(groups->of);
    *groups = (audit_groups){0};
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

int64_t *audit_sample(const audit *a, int64_t most, uint64_t stream, int64_t *n) {
    int64_t all = a->data.n;
    *n = all < most ? all : most;
    int64_t *rows = small_alloc((size_t)*n * sizeof *rows);
    if (*n < all)
        circe_random_subset((circe_random){.seed = (uint64_t)args_integer(a->arguments, OPT_SEED), .stream = stream},
                            all, *n, rows);
    else
        for (int64_t i = 0; i < all; i++) rows[i] = i;
    return rows;
}

double *audit_take(const audit_column *column, const int64_t *rows, int64_t n) {
    double *values = small_alloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = column->values[rows[i]];
    return values;
}
