/* The columns of an audit, from a file or from memory, and the checks that spare a reader a report on the wrong column.
 *
 * A column with few different numbers (--few-values) is categories, like text, unless --numbers names it: codes and
 * classes are compared one by one, whatever their shares. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "io/column_table.h"
#include "io/io.h"
#include "jobs/audit_parts.h"
#include "jobs/audit_roles.h"
#include "jobs/columns.h"
#include "jobs/predictor.h"
#include "jobs/relations.h"
#include "jobs/sentinels.h"

enum { FEW_ROWS = 200, MOST_CATEGORIES = 40 };

/* ---- columns ----------------------------------------------------------------------------------------------------- */

void audit_column_describe(circe_audit_column *c, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += c->values[i];
    c->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (c->values[i] - c->mean) * (c->values[i] - c->mean);
    c->deviation = sqrt(squares / (double)n);
}

static void drop_categories(circe_audit_column *c) {
    c->categories = NULL;
    c->code = NULL;
    c->n_categories = 0;
    c->is_text = c->is_few = 0;
}

/* Numbers the codes again, for texts that still occur: rows may have been left out. */
static void take_texts(arena *owner, char *const *texts, int64_t n_texts, int64_t n, circe_audit_column *c) {
    OWNED int64_t *code = small_alloc((size_t)n_texts * sizeof *code);
    for (int64_t i = 0; i < n; i++) code[(int64_t)c->values[i]] = 1;
    c->categories = arena_alloc(owner, (size_t)n_texts * sizeof *c->categories);
    c->n_categories = 0;
    for (int64_t k = 0; k < n_texts; k++) {
        if (code[k] == 0) continue;
        code[k] = c->n_categories;
        c->categories[c->n_categories++] = arena_text(owner, texts[k]);
    }
    for (int64_t i = 0; i < n; i++) {
        c->code[i] = code[(int64_t)c->values[i]];
        c->values[i] = (double)c->code[i];
    }
    c->is_text = 1;
}

static circe_status out_of_memory(int64_t n) {
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
}

static circe_status check_spread(const circe_audit_column *c, const char *role, int64_t n) {
    double square = c->deviation * c->deviation, largest = 0.0;
    if (isfinite(square) && square >= DBL_MIN) return CIRCE_OK;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(c->values[i]));
    if (isfinite(square))
        return circe_fail(
            CIRCE_ERR_VALUE,
            "the numbers of %s '%s' are so close together that the squares of their differences underflow; "
            "scale the column",
            role, c->name);
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s '%s' contains numbers as large as %.3g, whose squares overflow; scale the column", role,
                      c->name, largest);
}

/* A constant prediction is allowed: the report still has its quality. */
static const char role_prediction[] = "the prediction";

static circe_status take_column(arena *owner, const column_table *table, int64_t asked, const char *role,
                                circe_audit_column *out) {
    int64_t n = table->in.values.rows;
    int64_t col = table->first[asked];
    char *const *texts = column_categories(table, col);
    out->name = arena_text(owner, column_name(table, col));
    if (table->count[asked] != 1)
        return circe_fail(CIRCE_ERR_SHAPE, "%s '%s' has %" PRId64 " columns; choose one, as %s:0", role, out->name,
                          table->count[asked], out->name);
    out->is_constant = column_is_constant(table, col);
    out->is_boolean = column_is_boolean(table, col);
    if (out->is_constant && role != role_prediction)
        return circe_fail(CIRCE_ERR_VALUE, "%s '%s' is constant: there is nothing to audit; is it the wrong column?",
                          role, out->name);
    out->values = arena_try(owner, (size_t)n * sizeof *out->values);
    if (texts != NULL) out->code = arena_try(owner, (size_t)n * sizeof *out->code);
    if (out->values == NULL || (texts != NULL && out->code == NULL)) return out_of_memory(n);
    for (int64_t i = 0; i < n; i++) out->values[i] = column_value(table, i, col);
    if (texts != NULL) take_texts(owner, texts, column_n_categories(table, col), n, out);
    audit_column_describe(out, n);
    return out->is_constant ? CIRCE_OK : check_spread(out, role, n);
}

/* ---- few different numbers --------------------------------------------------------------------------------------- */

/* Writes a number as people do, but differently for different numbers. */
static char *number_text(arena *owner, const circe_audit_column *c, double value) {
    char text[32] = "";
    if (c->is_boolean) return arena_text(owner, value == 0.0 ? "False" : "True");
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return arena_text(owner, text);
}

/* The place that `value` has, or would have, among the ascending values[0..n). */
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

/* Makes categories of a column with at most `most` different numbers. */
static circe_status take_few(arena *owner, int64_t most, int64_t n, circe_audit_column *c) {
    double values[MOST_CATEGORIES];
    if (c->is_text || most == 0) return CIRCE_OK;
    int64_t count = different_values(c, n, values, most);
    if (count < 0) return CIRCE_OK;
    c->code = arena_try(owner, (size_t)n * sizeof *c->code);
    if (c->code == NULL) return out_of_memory(n);
    for (int64_t i = 0; i < n; i++) c->code[i] = place_of(values, count, c->values[i]);
    c->categories = arena_alloc(owner, (size_t)count * sizeof *c->categories);
    for (int64_t k = 0; k < count; k++) c->categories[k] = number_text(owner, c, values[k]);
    c->n_categories = count;
    c->is_few = 1;
    return CIRCE_OK;
}

static circe_status check_categories(const circe_audit_column *c, const char *role, int64_t n) {
    if (c->n_categories <= MOST_CATEGORIES) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE,
                      "%s '%s' is text with %" PRId64 " different words in %" PRId64
                      " rows; group them into at most %d categories; or does the column contain names?",
                      role, c->name, c->n_categories, n, MOST_CATEGORIES);
}

/* ---- the outcome ------------------------------------------------------------------------------------------------- */

/* Both values become 0 and 1, with the texts kept. The larger number, or the later word, is positive unless asked. */
static circe_status make_binary(circe_audit_result *r, const char *asked) {
    circe_audit_column *c = &r->target;
    int64_t high = c->is_text && strcmp(c->categories[0], c->categories[1]) > 0 ? 0 : 1;
    if (asked != NULL && classes_same(asked, c->categories[1 - high]))
        high = 1 - high;
    else if (asked != NULL && !classes_same(asked, c->categories[high]))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--positive '%s' is not a value of the target '%s', which has '%s' and '%s'", asked, c->name,
                          c->categories[1 - high], c->categories[high]);
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
    audit_column_describe(c, r->n);
    return CIRCE_OK;
}

static circe_status find_outcome(const circe_audit_options *o, bool as_numbers, circe_audit_result *r) {
    int64_t few = o->few_values > 2 ? o->few_values : 2;
    circe_status status = as_numbers ? CIRCE_OK : take_few(audit_owner(r), few, r->n, &r->target);
    if (status != CIRCE_OK) return status;
    if (r->target.n_categories == 2) return make_binary(r, o->positive);
    if (r->target.n_categories > 2 && o->few_values == 0 && r->target.is_few) drop_categories(&r->target);
    r->outcome = r->target.categories != NULL ? CIRCE_OUTCOME_CLASSES : CIRCE_OUTCOME_NUMBERS;
    if (o->positive != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--positive is for a target of two values; '%s' %s", r->target.name,
                          as_numbers ? "is taken as numbers (--numbers)" : "has more");
    return check_categories(&r->target, "the target", r->n);
}

/* A word of the prediction that the target does not have; with several classes, NULL as soon as they share one. */
static const char *strange_word(const circe_audit_result *r, const circe_audit_column *c) {
    const char *strange = NULL;
    bool binary = r->outcome == CIRCE_OUTCOME_BINARY;
    for (int64_t k = 0; k < c->n_categories; k++) {
        bool said = false;
        for (int64_t t = 0; t < r->target.n_categories; t++)
            said = said || classes_same(c->categories[k], r->target.categories[t]);
        if (said && !binary) return NULL;
        if (!said) strange = c->categories[k];
    }
    return strange;
}

/* Whether all numbers are the target's two values, such as 1 and 2: then they are its classes. */
static bool are_labels(const circe_audit_result *r, const circe_audit_column *c, double *positive) {
    double negative;
    if (r->target.is_text || !classes_number(r->negative, &negative) || !classes_number(r->positive, positive))
        return false;
    for (int64_t i = 0; i < r->n; i++)
        if (c->values[i] != negative && c->values[i] != *positive) return false;
    return true;
}

/* Marks a column whose values are now 0 and 1, whatever numbers or words they were. */
static void become_label(audit_run *run, circe_audit_column *c) {
    const circe_audit_result *r = run->r;
    c->is_label = 1;
    audit_column_describe(c, r->n);
    if (r->threshold != audit_threshold(r, c))
        notes_add(&run->warnings, "--threshold was ignored for the prediction '%s', which has the target's values",
                  c->name);
}

static void decode_labels(audit_run *run, circe_audit_column *c) {
    const circe_audit_result *r = run->r;
    double positive;
    if (!are_labels(r, c, &positive)) return;
    if (positive == 0.0)
        notes_add(&run->warnings,
                  "the prediction '%s' has the target's values, so it is read as classes: 0 counts as positive",
                  c->name);
    for (int64_t i = 0; i < r->n; i++) c->values[i] = c->values[i] == positive;
    become_label(run, c);
}

/* A prediction in words becomes 1 for the positive word; with several classes it stays words. */
static circe_status decode_prediction(audit_run *run, circe_audit_column *c) {
    const circe_audit_result *r = run->r;
    if (!c->is_text && r->outcome == CIRCE_OUTCOME_BINARY) decode_labels(run, c);
    if (!c->is_text) return CIRCE_OK;
    if (r->outcome == CIRCE_OUTCOME_NUMBERS)
        return circe_fail(CIRCE_ERR_VALUE, "the prediction '%s' is text, but the target '%s' is numbers", c->name,
                          r->target.name);
    const char *word = strange_word(r, c);
    if (word != NULL)
        return circe_fail(CIRCE_ERR_VALUE, "the prediction '%s' contains '%s', which is not a value of the target '%s'",
                          c->name, word, r->target.name),
               circe_fail_hint(CIRCE_ERR_VALUE, "give one of the target's values (such as '%s'), or a number",
                               r->target.categories[0]);
    if (r->outcome == CIRCE_OUTCOME_CLASSES) return check_categories(c, role_prediction, r->n);
    for (int64_t i = 0; i < r->n; i++) c->values[i] = classes_same(c->categories[c->code[i]], r->positive);
    drop_categories(c);
    become_label(run, c);
    return CIRCE_OK;
}

/* ---- what to tell ------------------------------------------------------------------------------------------------ */

/* Rates that are the same for all rows say nothing, and rates at a threshold that nobody chose say little. */
static void note_threshold(audit_run *run, int64_t prediction) {
    const circe_audit_result *r = run->r;
    const circe_audit_column *c = &r->predictions[prediction];
    double threshold = audit_threshold(r, c);
    int64_t above = 0;
    for (int64_t i = 0; i < r->n; i++) above += c->values[i] >= threshold;
    if (r->outcome != CIRCE_OUTCOME_BINARY) return;
    if (above != 0 && above != r->n) {
        if (threshold == 0.5 && !audit_has_errors(r, prediction))
            notes_add(&run->warnings,
                      "the prediction '%s' is not a probability between 0 and 1, so the threshold %g may not suit it; "
                      "set --threshold",
                      c->name, threshold);
        return;
    }
    if (c->is_label)
        notes_add(&run->warnings, "every prediction '%s' is %s, so the true and false positive rates are meaningless",
                  c->name, above == 0 ? r->negative : r->positive);
    else
        notes_add(&run->warnings,
                  "%s prediction '%s' is at least the threshold %g, so the true and false positive rates are "
                  "meaningless; set --threshold",
                  above == 0 ? "no" : "every", c->name, r->threshold);
}

static void note_rows(audit_run *run) {
    const circe_audit_result *r = run->r;
    if (r->dropped > 0)
        notes_add(&run->warnings,
                  "left out %" PRId64
                  " rows with missing cells; if the reason for the missing cells is related to the attribute, the "
                  "result is biased",
                  r->dropped);
    if (r->n < FEW_ROWS)
        notes_add(&run->warnings, "%" PRId64 " rows are few; the test can find only strong dependence", r->n);
    if (r->outcome != CIRCE_OUTCOME_BINARY && circe_options_given(&circe_audit_schema, run->options, "threshold"))
        notes_add(&run->warnings, "--threshold was ignored: the target '%s' does not have two values", r->target.name);
    for (int64_t p = 0; p < r->n_predictions; p++) note_threshold(run, p);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

typedef struct source {
    const circe_audit_options *options;
    const audit_model *made; /* predictions that are not in the table */
    arena *owner;            /* of what is taken */
    audit_roles names;
    column_table table;
} source;

static circe_status take_named(const source *from, const char *name, const char *role, circe_audit_column *out) {
    return take_column(from->owner, &from->table, name_list_find(&from->names.all, name), role, out);
}

static bool is_numbers(const source *from, const char *name) { return name_list_find(&from->names.numbers, name) >= 0; }

/* Refuses text that --numbers names. */
static circe_status check_numbers(const source *from, const circe_audit_column *c) {
    if (!c->is_text || !is_numbers(from, c->name)) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "--numbers: the column '%s' is text ('%s'), or --categories also names it",
                      c->name, c->categories[0]);
}

static circe_status take_part(const source *from, const char *name, const char *role, int64_t n,
                              circe_audit_column *c) {
    circe_status status = take_named(from, name, role, c);
    if (status == CIRCE_OK) status = check_numbers(from, c);
    if (status == CIRCE_OK && !is_numbers(from, name)) status = take_few(from->owner, from->options->few_values, n, c);
    return status == CIRCE_OK ? check_categories(c, role, n) : status;
}

/* One more column of a joint attribute: every pair that occurs is a category, "Hispanic & Male". */
static circe_status join(arena *owner, const circe_audit_column *part, int64_t n, circe_audit_column *c) {
    if (part->categories == NULL)
        return circe_fail(CIRCE_ERR_VALUE,
                          "the attribute '%s' joins categories, but '%s' is numbers; name it in --categories, or "
                          "separately in --sensitive",
                          c->name, part->name);
    int64_t n_texts = c->n_categories * part->n_categories;
    char **texts = arena_alloc(owner, (size_t)n_texts * sizeof *texts);
    for (int64_t k = 0; k < n_texts; k++)
        texts[k] = arena_format(owner, "%s & %s", c->categories[k / part->n_categories],
                                part->categories[k % part->n_categories]);
    for (int64_t i = 0; i < n; i++) c->values[i] = (double)(c->code[i] * part->n_categories + part->code[i]);
    take_texts(owner, texts, n_texts, n, c);
    return check_categories(c, "the attribute", n);
}

static circe_status take_attribute(const source *from, int64_t i, circe_audit_result *r) {
    const audit_roles *names = &from->names;
    circe_audit_column *c = &r->attributes[i];
    int64_t first = names->first[i], end = names->first[i + 1];
    circe_status status = take_part(from, names->parts.names[first], "the attribute", r->n, c);
    if (status != CIRCE_OK || end == first + 1) return status;
    c->name = arena_text(from->owner, names->sensitive.names[i]);
    if (c->categories == NULL) return join(from->owner, c, r->n, c);
    c->is_few = 0;
    for (int64_t k = first + 1; k < end && status == CIRCE_OK; k++) {
        circe_audit_column part = {0};
        status = take_part(from, names->parts.names[k], "the attribute", r->n, &part);
        if (status == CIRCE_OK) status = join(from->owner, &part, r->n, c);
    }
    audit_column_describe(c, r->n);
    return status;
}

/* For sufficiency, a prediction with few different values is categories. */
static circe_status take_prediction(audit_run *run, const source *from, const char *name, circe_audit_column *c) {
    const circe_audit_result *r = run->r;
    circe_status status = take_named(from, name, role_prediction, c);
    if (status == CIRCE_OK) status = check_numbers(from, c);
    if (status == CIRCE_OK) status = decode_prediction(run, c);
    if (status == CIRCE_OK && audit_asks(r, CIRCE_NOTION_SUFFICIENCY) && !is_numbers(from, name))
        status = take_few(from->owner, from->options->few_values, r->n, c);
    return status;
}

static circe_status take_columns(audit_run *run, const source *from) {
    circe_audit_result *r = run->r;
    const audit_roles *names = &from->names;
    circe_status status = take_named(from, names->target, "the target", &r->target);
    if (status == CIRCE_OK) status = check_numbers(from, &r->target);
    if (status == CIRCE_OK) status = find_outcome(from->options, is_numbers(from, names->target), r);
    r->n_predictions = names->predictions.n;
    r->n_attributes = names->sensitive.n;
    r->n_given = names->given.n;
    r->predictions = arena_alloc(from->owner, (size_t)r->n_predictions * sizeof *r->predictions);
    r->attributes = arena_alloc(from->owner, (size_t)r->n_attributes * sizeof *r->attributes);
    r->given = arena_alloc(from->owner, (size_t)(r->n_given + 1) * sizeof *r->given);
    for (int64_t i = 0; i < r->n_predictions && status == CIRCE_OK; i++)
        status = take_prediction(run, from, names->predictions.names[i], &r->predictions[i]);
    for (int64_t i = 0; i < r->n_attributes && status == CIRCE_OK; i++) status = take_attribute(from, i, r);
    for (int64_t i = 0; i < r->n_given && status == CIRCE_OK; i++)
        status = take_part(from, names->given.names[i], "the given column", r->n, &r->given[i]);
    return status;
}

static void describe_columns(const source *from, circe_audit_result *r) {
    const input *const group[] = {&from->table.in};
    r->columns = columns_described(group, 1);
    if (r->target.is_few) columns_add_few(&r->columns, r->target.name, r->target.n_categories);
    for (int64_t i = 0; i < r->n_attributes + r->n_given; i++) {
        const circe_audit_column *c = i < r->n_attributes ? &r->attributes[i] : &r->given[i - r->n_attributes];
        if (c->is_few) columns_add_few(&r->columns, c->name, c->n_categories);
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static circe_status check_weights(const source *from, const char *name, int64_t asked) {
    if (from->table.count[asked] != 1 || column_categories(&from->table, from->table.first[asked]) != NULL)
        return circe_fail(CIRCE_ERR_VALUE, "--weights '%s' must be one column of numbers", name);
    for (int64_t i = 0; i < from->table.in.values.rows; i++) {
        double weight = column_value(&from->table, i, from->table.first[asked]);
        if (!(weight >= 0))
            return circe_fail(CIRCE_ERR_VALUE, "--weights %s: row %" PRId64 " is %g; a weight must be at least 0", name,
                              io_table_row(&from->table.in.table, i), weight);
    }
    return CIRCE_OK;
}

/* Rows of weight 0 are left out before anything is made of the columns. */
static circe_status take_weights(source *from, circe_audit_result *r) {
    const char *name = from->options->weights;
    input *in = &from->table.in;
    int64_t rows = in->values.rows, n = 0;
    if (name == NULL) return CIRCE_OK;
    int64_t asked = name_list_find(&from->names.all, name);
    circe_status status = check_weights(from, name, asked);
    if (status != CIRCE_OK) return status;
    OWNED bool *keep = small_alloc((size_t)rows * sizeof *keep);
    r->weights = arena_alloc(from->owner, (size_t)rows * sizeof *r->weights);
    for (int64_t i = 0; i < rows; i++) {
        double weight = column_value(&from->table, i, from->table.first[asked]);
        keep[i] = weight > 0;
        if (!keep[i]) continue;
        r->weights[n++] = weight;
        r->weights_sum += weight;
    }
    for (int64_t i = 0; i < n; i++) r->weights[i] /= r->weights_sum / (double)n;
    r->weights_name = arena_text(from->owner, name);
    r->weightless = rows - n;
    if (n < AUDIT_LEAST_ROWS)
        status = circe_fail(CIRCE_ERR_SHAPE,
                            "--weights %s: %" PRId64 " rows have a weight above 0; an audit needs at least %d", name, n,
                            AUDIT_LEAST_ROWS);
    else if (!isfinite(r->weights_sum))
        status = circe_fail(CIRCE_ERR_VALUE, "--weights %s: the sum of the weights overflows; scale the column", name);
    else
        status = inputs_keep(&in, 1, keep, n);
    return status;
}

static circe_status read_table(const circe_table *memory, source *from, circe_audit_result *r) {
    reading_options how = READING_OF(from->options);
    OWNED_BY(reading_free) reading cells = {0};
    input *group[] = {&from->table.in};
    circe_status status = reading_open(&how, &cells);
    const name_list wanted = {.names = from->names.all.names, .n = from->names.n_read};
    if (status == CIRCE_OK)
        status = column_table_read(memory, from->options->data, &wanted, &cells, false, &from->table);
    for (int64_t i = 0; i < from->made->names.n && status == CIRCE_OK; i++)
        status = column_table_add(&from->table, from->made->names.names[i], from->made->values[i]);
    if (status == CIRCE_OK) status = inputs_check_categories(&how, group, 1);
    if (status == CIRCE_OK) status = inputs_check(&how, group, 1, AUDIT_LEAST_ROWS, &r->dropped);
    if (status == CIRCE_OK) status = take_weights(from, r);
    if (status == CIRCE_OK) r->n = from->table.in.values.rows;
    return status;
}

static void source_free(source *from) {
    if (from->table.first != NULL) column_table_free(&from->table);
    audit_roles_free(&from->names);
    from->table = (column_table){0};
}

static circe_status open_source(const circe_table *table, bool joint, source *from, circe_audit_result *r) {
    circe_status status = audit_roles_find(from->options, from->made, joint, &from->names);
    return status == CIRCE_OK ? read_table(table, from, r) : status;
}

static int64_t place(const source *from, const char *name) {
    return from->table.first[name_list_find(&from->names.all, name)];
}

/* An attribute that what is given determines cannot matter once that is known, whatever the prediction does: the
 * report would find nothing, and say so of the attribute. */
static void note_determined(audit_run *run, const source *from, circe_audit_notion notion) {
    const audit_roles *names = &from->names;
    const bool separation = notion == CIRCE_NOTION_SEPARATION;
    const char *who = !separation          ? "--given determines"
                      : names->given.n > 0 ? "the target and --given determine"
                                           : "the target determines";
    OWNED int64_t *given = small_alloc((size_t)(names->given.n + 1) * sizeof *given);
    OWNED_BY(relations_free) relations known = {0};
    int64_t n = 0;
    for (int64_t i = 0; i < names->given.n; i++) given[n++] = place(from, names->given.names[i]);
    if (separation) given[n++] = place(from, names->target);
    if (n == 0 || !relations_make(&from->table, given, n, &known)) return;
    for (int64_t i = 0; i < names->sensitive.n; i++) {
        bool determined = true;
        for (int64_t k = names->first[i]; k < names->first[i + 1]; k++)
            determined = determined && relations_determine(&from->table, &known, place(from, names->parts.names[k]));
        if (determined)
            notes_add(
                &run->warnings,
                "%s the attribute '%s' in every row: once that is known, no prediction can depend on it, and that "
                "none is found to do so says nothing%s",
                who, names->sensitive.names[i],
                separation ? "; --notion independence does not condition on the target" : "");
    }
}

static circe_status read_source(audit_run *run, const circe_table *table, const audit_model *made) {
    source from = {.options = run->options, .made = made, .owner = audit_owner(run->r)};
    circe_status status = open_source(table, false, &from, run->r);
    if (status == CIRCE_ERR_ARGUMENT && strchr(run->options->sensitive, '+') != NULL) { /* no column has such a name */
        source_free(&from);
        status = open_source(table, true, &from, run->r);
    }
    if (status == CIRCE_OK) status = take_columns(run, &from);
    if (status == CIRCE_OK) {
        const input *const group[] = {&from.table.in};
        describe_columns(&from, run->r);
        note_rows(run);
        for (int64_t k = 0; k < run->r->n_notions; k++)
            if (run->r->notions[k] != CIRCE_NOTION_SUFFICIENCY) note_determined(run, &from, run->r->notions[k]);
        sentinels_note(group, 1, &run->warnings);
    }
    source_free(&from);
    return status;
}

circe_status audit_data_read(audit_run *run, const circe_table *table) {
    audit_model made = {0};
    circe_status status = audit_model_predict(run, table, &made);
    if (status == CIRCE_OK) status = read_source(run, table, &made);
    name_list_free(&made.names);
    return status;
}
