/* Predictions of a model as columns of the audited table. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/small.h"
#include "io/io.h"
#include "jobs/audit_parts.h"
#include "jobs/predictor.h"

static circe_predict_options predict_options(const circe_audit_options *o) {
    circe_predict_options p;
    circe_predict_options_init(&p);
    p.model = o->model;
    p.data = o->data;
    p.na = o->na;
    p.decimal = o->decimal;
    p.format = o->format;
    p.missing = strcmp(o->missing, "drop") == 0 ? "empty" : "refuse";
    return p;
}

static bool is_boolean(const char *name) { return strcasecmp(name, "true") == 0 || strcasecmp(name, "false") == 0; }

bool classes_number(const char *name, double *number) {
    if (!is_boolean(name)) return io_number(name, number);
    *number = strcasecmp(name, "true") == 0 ? 1 : 0;
    return true;
}

bool classes_same(const char *one, const char *other) {
    double a, b;
    if (strcmp(one, other) == 0) return true;
    return (is_boolean(one) || is_boolean(other)) && classes_number(one, &a) && classes_number(other, &b) && a == b;
}

int64_t classes_positive(const char *const *classes, const char *asked) {
    double a, b;
    if (asked != NULL) return classes_same(asked, classes[0]) ? 0 : 1;
    if (io_number(classes[0], &a) && io_number(classes[1], &b)) return a > b ? 0 : 1;
    return strcmp(classes[0], classes[1]) > 0 ? 0 : 1;
}

static circe_status add_column(arena *owner, audit_model *m, const circe_predictions *p, int64_t output,
                               const char *suffix) {
    OWNED char *name = small_format("%s_%s", m->target, suffix);
    double *values = m->values[m->names.n] = arena_try(owner, (size_t)p->rows * sizeof *values);
    if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)p->rows);
    for (int64_t i = 0; i < p->rows; i++) values[i] = p->values[i * p->outputs + output];
    name_list_add(&m->names, name);
    return CIRCE_OK;
}

/* The column of the model's target that is audited: the one that was named, or its only one. */
static circe_status find_output(const circe_audit_options *o, const circe_predictions *p, int64_t *output) {
    const name_list *targets = &predicted_of(p)->target;
    OWNED char *list = name_list_join(targets);
    circe_status status = CIRCE_OK;
    *output = o->target != NULL ? name_list_find(targets, o->target) : 0;
    if (o->target == NULL && targets->n > 1)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "%s predicts %s; choose one with --target", o->model, list);
    else if (*output < 0)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "%s predicts %s, not --target '%s'", o->model, list, o->target);
    return status;
}

/* Takes numbers as they are, for two classes the probability of the positive one, for more the probability of each. */
static circe_status take_columns(arena *owner, const circe_audit_options *o, const circe_predictions *p,
                                 audit_model *m) {
    int64_t output = 0;
    circe_status status = find_output(o, p, &output);
    if (status != CIRCE_OK) return status;
    m->target = arena_text(owner, predicted_of(p)->target.names[output]);
    m->values = arena_alloc(owner, (size_t)p->outputs * sizeof *m->values);
    if (p->target == NULL) return add_column(owner, m, p, output, "predicted");
    if (p->outputs == 2) return add_column(owner, m, p, classes_positive(p->names, o->positive), "predicted");
    for (int64_t c = 0; c < p->outputs && status == CIRCE_OK; c++) status = add_column(owner, m, p, c, p->names[c]);
    return status;
}

circe_status audit_model_predict(audit_run *run, const circe_table *table, audit_model *m) {
    const circe_audit_options *o = run->options;
    circe_predictions *predictions = NULL;
    circe_predict_options options = predict_options(o);
    if (o->model == NULL) return CIRCE_OK;
    circe_status status = circe_predict(run->context, NULL, table, &options, NULL, &predictions);
    if (status == CIRCE_OK) status = take_columns(&run->owner, o, predictions, m);
    for (size_t i = 0; status == CIRCE_OK && i < predictions->warnings.n; i++)
        notes_add(&run->warnings, "%s", predictions->warnings.text[i]);
    circe_predictions_free(predictions);
    return status;
}
