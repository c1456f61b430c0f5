/* The columns of an audit, from a file or from memory, and the checks that spare a reader a report on the wrong column.
 *
 * A column of few different numbers (--few-values) is categories, as text is, unless --numbers names it: codes and
 * classes are compared one by one, whatever their shares. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/column_table.h"
#include "io/small.h"
#include "io/suggest.h"
#include "jobs/audit_parts.h"
#include "jobs/columns.h"
#include "jobs/sentinels.h"

enum { LEAST_ROWS = 50, FEW_ROWS = 200, MOST_CATEGORIES = 40 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

typedef struct roles {
    name_list predictions, sensitive, numbers, all;
    const char *target;
} roles;

static void roles_free(roles *r) {
    name_list_free(&r->predictions);
    name_list_free(&r->sensitive);
    name_list_free(&r->numbers);
    name_list_free(&r->all);
}

static circe_status check_roles(const roles *r) {
    for (int64_t i = 0; i < r->sensitive.n; i++) {
        const char *name = r->sensitive.names[i];
        if (strcmp(name, r->target) == 0)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--sensitive '%s' is the target: once it is known, nothing can depend on it any more",
                              name);
        if (name_list_find(&r->predictions, name) >= 0)
            return circe_fail(CIRCE_ERR_ARGUMENT, "--sensitive '%s' is a prediction: which depends on itself", name);
    }
    if (name_list_find(&r->predictions, r->target) >= 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--prediction '%s' is the target: give the column that was predicted",
                          r->target);
    return CIRCE_OK;
}

static circe_status check_numbers(const roles *r) {
    for (int64_t i = 0; i < r->numbers.n; i++) {
        const char *name = r->numbers.names[i];
        if (name_list_find(&r->all, name) >= 0) continue;
        const char *nearest = suggest_nearest(name, (const char *const *)r->all.names, (size_t)r->all.n);
        circe_fail(CIRCE_ERR_ARGUMENT, "--numbers: '%s' is neither the target nor one of the attributes", name);
        return nearest != NULL ? circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean '%s'?", nearest)
                               : CIRCE_ERR_ARGUMENT;
    }
    return CIRCE_OK;
}

/* A line end would end the list of columns that is asked for. */
static circe_status check_names(const roles *r) {
    for (int64_t i = 0; i < r->all.n; i++) {
        const char *name = r->all.names[i];
        if (strpbrk(name, "\r\n") != NULL)
            return circe_fail(CIRCE_ERR_ARGUMENT, "a name of a column has a line end in it: '%.*s'",
                              (int)strcspn(name, "\r\n"), name);
    }
    return CIRCE_OK;
}

static circe_status find_roles(const circe_audit_options *o, roles *r) {
    circe_status status = name_list_split("prediction", o->prediction, &r->predictions);
    if (status == CIRCE_OK) status = name_list_split("sensitive", o->sensitive, &r->sensitive);
    if (status == CIRCE_OK && o->numbers != NULL) status = name_list_split("numbers", o->numbers, &r->numbers);
    r->target = o->target;
    if (status == CIRCE_OK) status = check_roles(r);
    if (status != CIRCE_OK) return status;
    name_list_add(&r->all, r->target);
    for (int64_t i = 0; i < r->predictions.n; i++) name_list_add(&r->all, r->predictions.names[i]);
    for (int64_t i = 0; i < r->sensitive.n; i++) name_list_add(&r->all, r->sensitive.names[i]);
    status = check_names(r);
    return status == CIRCE_OK ? check_numbers(r) : status;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static void describe(circe_audit_column *c, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += c->values[i];
    c->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (c->values[i] - c->mean) * (c->values[i] - c->mean);
    c->deviation = sqrt(squares / (double)n);
}

static void drop_categories(circe_audit_column *c) {
    for (int64_t k = 0; k < c->n_categories; k++) free(c->categories[k]);
    free(c->categories);
    free(c->code);
    c->categories = NULL;
    c->code = NULL;
    c->n_categories = 0;
    c->is_text = c->is_few = 0;
}

void audit_column_free(circe_audit_column *c) {
    drop_categories(c);
    free(c->values);
    free(c->name);
}

/* Codes anew, for the texts that occur: rows may have been left out. */
static void take_texts(char *const *texts, int64_t n_texts, int64_t n, circe_audit_column *c) {
    int64_t *code = small_alloc((size_t)n_texts * sizeof *code);
    for (int64_t i = 0; i < n; i++) code[(int64_t)c->values[i]] = 1;
    c->categories = small_alloc((size_t)n_texts * sizeof *c->categories);
    for (int64_t k = 0; k < n_texts; k++) {
        if (code[k] == 0) continue;
        code[k] = c->n_categories;
        c->categories[c->n_categories++] = small_format("%s", texts[k]);
    }
    for (int64_t i = 0; i < n; i++) {
        c->code[i] = code[(int64_t)c->values[i]];
        c->values[i] = (double)c->code[i];
    }
    c->is_text = 1;
    free(code);
}

static circe_status out_of_memory(int64_t n) {
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
}

static circe_status check_spread(const circe_audit_column *c, const char *role, int64_t n) {
    double square = c->deviation * c->deviation;
    if (isfinite(square) && square >= DBL_MIN) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s '%s' holds numbers of the size of %.3g, whose squares no double can hold: no distance and no "
                      "error of it can be had; scale the column",
                      role, c->name, c->values[n / 2]);
}

static circe_status take_column(const column_table *table, int64_t asked, const char *role, circe_audit_column *out) {
    int64_t n = table->in.values.rows;
    int64_t col = table->first[asked];
    char *const *texts = column_categories(table, col);
    out->name = small_format("%s", column_name(table, col));
    if (table->count[asked] != 1)
        return circe_fail(CIRCE_ERR_SHAPE, "%s '%s' has %" PRId64 " columns; choose one, as %s:0", role, out->name,
                          table->count[asked], out->name);
    if (column_is_constant(table, col))
        return circe_fail(CIRCE_ERR_VALUE, "%s '%s' is constant: there is nothing to audit; is it the wrong column?",
                          role, out->name);
    out->values = calloc((size_t)n, sizeof *out->values);
    if (texts != NULL) out->code = calloc((size_t)n, sizeof *out->code);
    if (out->values == NULL || (texts != NULL && out->code == NULL)) return out_of_memory(n);
    for (int64_t i = 0; i < n; i++) out->values[i] = column_value(table, i, col);
    if (texts != NULL) take_texts(texts, column_n_categories(table, col), n, out);
    describe(out, n);
    return check_spread(out, role, n);
}

/* ---- few different numbers --------------------------------------------------------------------------------------- */

/* As people write it, and different for different numbers. */
static char *number_text(double value) {
    char *text = NULL;
    for (int digits = 6; digits <= 17; digits++) {
        free(text);
        text = small_format("%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}

/* Where `value` is, or would be, among the ascending values[0..n). */
static int64_t place_of(const double *values, int64_t n, double value) {
    int64_t k = 0;
    while (k < n && values[k] < value) k++;
    return k;
}

/* The different values, ascending; -1: more than `most`. */
static int64_t different_values(const circe_audit_column *c, int64_t n, double *values, int64_t most) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = place_of(values, count, c->values[i]);
        if (k < count && values[k] == c->values[i]) continue;
        if (count == most) return -1;
        memmove(values + k + 1, values + k, (size_t)(count - k) * sizeof *values);
        values[k] = c->values[i];
        count++;
    }
    return count;
}

/* Makes categories of a column of at most `most` different numbers. */
static circe_status take_few(int64_t most, int64_t n, circe_audit_column *c) {
    double values[MOST_CATEGORIES];
    if (c->is_text || most == 0) return CIRCE_OK;
    int64_t count = different_values(c, n, values, most);
    if (count < 0) return CIRCE_OK;
    c->code = n > 0 ? calloc((size_t)n, sizeof *c->code) : NULL;
    if (c->code == NULL) return out_of_memory(n);
    for (int64_t i = 0; i < n; i++) c->code[i] = place_of(values, count, c->values[i]);
    c->categories = small_alloc((size_t)count * sizeof *c->categories);
    for (int64_t k = 0; k < count; k++) c->categories[k] = number_text(values[k]);
    c->n_categories = count;
    c->is_few = 1;
    return CIRCE_OK;
}

static circe_status check_categories(const circe_audit_column *c, const char *role, int64_t n) {
    if (c->n_categories <= MOST_CATEGORIES) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s '%s' is text with %" PRId64 " different words in %" PRId64
                      " rows; group them into %d categories at most, or is it a name?",
                      role, c->name, c->n_categories, n, MOST_CATEGORIES);
}

/* ---- the outcome ------------------------------------------------------------------------------------------------- */

/* Both values become 0 and 1, with the texts kept. The larger number, or the later word, is positive unless asked. */
static circe_status make_binary(circe_audit_result *r, const char *asked) {
    circe_audit_column *c = &r->target;
    int64_t high = c->is_text && strcmp(c->categories[0], c->categories[1]) > 0 ? 0 : 1;
    if (asked != NULL && strcmp(asked, c->categories[1 - high]) == 0)
        high = 1 - high;
    else if (asked != NULL && strcmp(asked, c->categories[high]) != 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--positive '%s' is no value of the target '%s': they are '%s' and '%s'",
                          asked, c->name, c->categories[1 - high], c->categories[high]);
    r->outcome = CIRCE_OUTCOME_BINARY;
    if (high == 0) {
        char *held = c->categories[0];
        c->categories[0] = c->categories[1], c->categories[1] = held;
    }
    for (int64_t i = 0; i < r->n; i++) {
        c->code[i] = c->code[i] == high;
        c->values[i] = (double)c->code[i];
    }
    r->negative = c->categories[0];
    r->positive = c->categories[1];
    describe(c, r->n);
    return CIRCE_OK;
}

static circe_status find_outcome(const circe_audit_options *o, bool as_numbers, circe_audit_result *r) {
    int64_t few = o->few_values > 2 ? o->few_values : 2;
    circe_status status = as_numbers ? CIRCE_OK : take_few(few, r->n, &r->target);
    if (status != CIRCE_OK) return status;
    if (r->target.n_categories == 2) return make_binary(r, o->positive);
    if (r->target.n_categories > 2 && o->few_values == 0 && r->target.is_few) drop_categories(&r->target);
    r->outcome = r->target.categories != NULL ? CIRCE_OUTCOME_CLASSES : CIRCE_OUTCOME_NUMBERS;
    if (o->positive != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--positive is for a target of two values; '%s' %s", r->target.name,
                          as_numbers ? "is taken as numbers (--numbers)" : "has more");
    return check_categories(&r->target, "the target", r->n);
}

static const char *missing_word(const circe_audit_result *r, const circe_audit_column *c) {
    for (int64_t k = 0; k < c->n_categories; k++)
        if (strcmp(c->categories[k], r->positive) != 0 && strcmp(c->categories[k], r->negative) != 0)
            return c->categories[k];
    return NULL;
}

/* A prediction in words is 1 where it says the positive one. */
static circe_status decode_prediction(const circe_audit_result *r, circe_audit_column *c) {
    if (!c->is_text) return CIRCE_OK;
    if (r->outcome != CIRCE_OUTCOME_BINARY)
        return circe_fail(CIRCE_ERR_VALUE,
                          "the prediction '%s' is text, but the target '%s' has not two values; give a column of "
                          "numbers: the predicted value, or the probability of one class",
                          c->name, r->target.name);
    const char *word = missing_word(r, c);
    if (word != NULL)
        return circe_fail(CIRCE_ERR_VALUE,
                          "the prediction '%s' says '%s', which the target '%s' never does: '%s' or "
                          "'%s' are expected, or numbers",
                          c->name, word, r->target.name, r->negative, r->positive);
    for (int64_t i = 0; i < r->n; i++) c->values[i] = strcmp(c->categories[c->code[i]], r->positive) == 0;
    drop_categories(c);
    describe(c, r->n);
    return CIRCE_OK;
}

/* ---- what to tell ------------------------------------------------------------------------------------------------ */

/* Rates that are the same for all say nothing. */
static void note_threshold(audit_run *run, const circe_audit_column *c) {
    const circe_audit_result *r = run->r;
    int64_t above = 0;
    for (int64_t i = 0; i < r->n; i++) above += c->values[i] >= r->threshold;
    if (r->outcome == CIRCE_OUTCOME_BINARY && (above == 0 || above == r->n))
        notes_add(&run->warnings,
                  "%s prediction '%s' is at least the threshold %g, so the true and false positive rates say nothing; "
                  "set --threshold",
                  above == 0 ? "no" : "every", c->name, r->threshold);
}

static void note_rows(audit_run *run) {
    const circe_audit_result *r = run->r;
    if (r->dropped > 0)
        notes_add(&run->warnings,
                  "left out %" PRId64
                  " rows with missing cells: if they are missing for a reason that has "
                  "to do with the attribute, so is what is found here",
                  r->dropped);
    if (r->n < FEW_ROWS)
        notes_add(&run->warnings, "%" PRId64 " rows are few: only strong dependence can be found", r->n);
    for (int64_t p = 0; p < r->n_predictions; p++) note_threshold(run, &r->predictions[p]);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

typedef struct source {
    const circe_audit_options *options;
    const roles *names;
    column_table table;
} source;

static circe_status take_attribute(const source *from, int64_t i, circe_audit_result *r) {
    circe_audit_column *c = &r->attributes[i];
    circe_status status = take_column(&from->table, 1 + r->n_predictions + i, "the attribute", c);
    bool few = status == CIRCE_OK && name_list_find(&from->names->numbers, c->name) < 0;
    if (few) status = take_few(from->options->few_values, r->n, c);
    return status == CIRCE_OK ? check_categories(c, "the attribute", r->n) : status;
}

static circe_status take_columns(const source *from, circe_audit_result *r) {
    const roles *names = from->names;
    circe_status status = take_column(&from->table, 0, "the target", &r->target);
    if (status == CIRCE_OK)
        status = find_outcome(from->options, name_list_find(&names->numbers, r->target.name) >= 0, r);
    r->n_predictions = names->predictions.n;
    r->n_attributes = names->sensitive.n;
    r->predictions = small_alloc((size_t)r->n_predictions * sizeof *r->predictions);
    r->attributes = small_alloc((size_t)r->n_attributes * sizeof *r->attributes);
    for (int64_t i = 0; i < r->n_predictions && status == CIRCE_OK; i++) {
        status = take_column(&from->table, 1 + i, "the prediction", &r->predictions[i]);
        if (status == CIRCE_OK) status = decode_prediction(r, &r->predictions[i]);
    }
    for (int64_t i = 0; i < r->n_attributes && status == CIRCE_OK; i++) status = take_attribute(from, i, r);
    return status;
}

static void describe_columns(const source *from, circe_audit_result *r) {
    const input *const group[] = {&from->table.in};
    r->columns = columns_described(group, 1);
    if (r->target.is_few) columns_add_few(&r->columns, r->target.name, r->target.n_categories);
    for (int64_t a = 0; a < r->n_attributes; a++) {
        const circe_audit_column *c = &r->attributes[a];
        if (c->is_few) columns_add_few(&r->columns, c->name, c->n_categories);
    }
}

static circe_status read_table(const circe_table *memory, source *from, circe_audit_result *r) {
    reading_options how = READING_OF(from->options);
    reading cells = {0};
    input *group[] = {&from->table.in};
    circe_status status = reading_open(&how, &cells);
    if (status == CIRCE_OK)
        status = column_table_read(memory, from->options->data, &from->names->all, &cells, false, &from->table);
    if (status == CIRCE_OK) status = inputs_check_categories(&how, group, 1);
    if (status == CIRCE_OK) status = inputs_check(&how, group, 1, LEAST_ROWS, &r->dropped);
    if (status == CIRCE_OK) r->n = from->table.in.values.rows;
    reading_free(&cells);
    return status;
}

circe_status audit_data_read(audit_run *run, const circe_table *table) {
    roles names = {0};
    source from = {.options = run->options, .names = &names};
    circe_status status = find_roles(run->options, &names);
    if (status == CIRCE_OK) status = read_table(table, &from, run->r);
    if (status == CIRCE_OK) status = take_columns(&from, run->r);
    if (status == CIRCE_OK) {
        const input *const group[] = {&from.table.in};
        describe_columns(&from, run->r);
        note_rows(run);
        sentinels_note(group, 1, &run->warnings);
    }
    if (from.table.first != NULL) column_table_free(&from.table);
    roles_free(&names);
    return status;
}
