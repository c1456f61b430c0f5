/* An audit of a training's predictions, on the rows it is judged by, which the network was not fitted to. */
#include <math.h>

#include "base/small.h"
#include "circe/audit.h"
#include "core/settings.h"
#include "jobs/audit_parts.h"
#include "jobs/training.h"

/* A column of the table, of the rows that it is judged by. */
static circe_status add_column(const trained *t, int64_t col, circe_table *table) {
    const training_set *set = &t->set;
    int64_t n = training_judged(set)->n;
    char *const *texts = column_categories(&set->table, col);
    OWNED double *numbers = small_alloc((size_t)n * sizeof *numbers);
    OWNED const char **words = small_alloc((size_t)n * sizeof *words);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = column_value(&set->table, training_judged(set)->rows[i], col);
        if (texts != NULL) words[i] = texts[(int64_t)numbers[i]];
    }
    const char *name = column_name(&set->table, col);
    return texts != NULL                         ? circe_table_add_texts(table, name, words)
           : column_is_boolean(&set->table, col) ? circe_table_add_booleans(table, name, numbers, 1)
                                                 : circe_table_add_numbers(table, name, numbers, 1);
}

/* Of two classes the probability of the second, in the order that an audit takes for positive; of more, of each. */
static double probability_of(const trained *t, int64_t row, int64_t class) {
    const float *x = t->after + row * t->result.outputs;
    double sum = 0;
    for (int64_t c = 0; c < t->result.outputs; c++) sum += exp((double)x[c] - (double)x[class]);
    return 1 / sum;
}

static circe_status add_prediction(const trained *t, int64_t output, const char *name, circe_table *table) {
    int64_t n = training_judged(&t->set)->n;
    OWNED double *values = small_alloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] =
            t->result.classes != NULL ? probability_of(t, i, output) : training_prediction_in_units(t, i, output);
    return circe_table_add_numbers(table, name, values, 1);
}

static circe_status add_predictions(const trained *t, const char *positive, circe_table *table, name_list *names) {
    const char *target = training_column(&t->set, &t->set.target, 0);
    const char *const *classes = t->result.classes;
    int64_t n = classes != NULL ? t->result.outputs : 1;
    circe_status status = CIRCE_OK;
    for (int64_t c = 0; c < n && status == CIRCE_OK; c++) {
        if (n == 2 && c != classes_positive(classes, positive)) continue;
        OWNED char *name = small_format("%s_%s", target, n > 2 ? classes[c] : "predicted");
        name_list_add(names, name);
        status = add_prediction(t, c, name, table);
    }
    return status;
}

static circe_status make_table(const trained *t, const char *positive, circe_table *table, name_list *predictions,
                               name_list *attributes) {
    const training_set *set = &t->set;
    circe_status status = add_column(t, set->target.cols[0], table);
    if (status == CIRCE_OK) status = add_predictions(t, positive, table, predictions);
    for (int64_t c = 0; c < set->invariant.n && status == CIRCE_OK; c++) {
        name_list_add(attributes, training_column(set, &set->invariant, c));
        status = add_column(t, set->invariant.cols[c], table);
    }
    return status;
}

static circe_status check(const trained *t) {
    if (!t->set.has_invariant)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "an audit of a training needs --invariant-to: what should the prediction not depend on?");
    if (t->set.target.n != 1)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "an audit needs one target, but this training has %lld",
                          (long long)t->set.target.n);
    int64_t rows = training_judged(&t->set)->n;
    if (rows >= AUDIT_LEAST_ROWS) return CIRCE_OK;
    circe_fail(CIRCE_ERR_VALUE, "the model is trained, but the audit needs at least %d %s rows and there are %lld",
               AUDIT_LEAST_ROWS, t->result.test_rows > 0 ? "test" : "validation", (long long)rows);
    return circe_fail_hint(CIRCE_ERR_VALUE, "a larger %s keeps more; `circe audit --model` uses rows of another table",
                           t->result.test_rows > 0 ? "--test" : "--validation");
}

circe_status circe_training_audit(circe_context *context, const circe_training *training,
                                  const circe_audit_options *options, const circe_watch *watch,
                                  circe_audit_result **result) {
    CIRCE_OWN_SETTINGS;
    const trained *t = trained_of(training);
    circe_audit_options own = *options;
    circe_table *table = NULL;
    name_list predictions = {0}, attributes = {0};
    *result = NULL;
    circe_status status = check(t);
    if (status == CIRCE_OK) status = circe_table_create(training_judged(&t->set)->n, &table);
    if (status == CIRCE_OK) status = make_table(t, options->positive, table, &predictions, &attributes);
    OWNED char *prediction = name_list_join(&predictions), *sensitive = name_list_join(&attributes);
    own.prediction = prediction;
    own.sensitive = sensitive;
    if (status == CIRCE_OK) own.target = training_column(&t->set, &t->set.target, 0);
    if (status == CIRCE_OK) status = circe_audit(context, table, &own, watch, result);
    circe_table_free(table);
    name_list_free(&predictions);
    name_list_free(&attributes);
    return status;
}
