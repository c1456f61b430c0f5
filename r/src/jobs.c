/* Tests, measures, audits, training and prediction: one call each. Results come as JSON, which json.c reads; matrices
 * as matrices. */
#include <string.h>

#include "circe_r.h"

static const char *word_of(const held *h, const char *name) {
    SEXP value = held_argument(h, name);
    return value == R_NilValue ? NULL : Rf_translateCharUTF8(STRING_ELT(value, 0));
}

/* A path as the file system has it. */
static const char *path_of(const held *h, const char *name) {
    SEXP value = held_argument(h, name);
    return value == R_NilValue ? NULL : Rf_translateChar(STRING_ELT(value, 0));
}

static circe_status prepare(held *h, const circe_schema *schema) {
    circe_status status = held_open(h);
    if (status == CIRCE_OK) status = held_read(h);
    return status == CIRCE_OK ? held_options(h, schema) : status;
}

static circe_status needs_text(const char *text) {
    return text != NULL ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "no memory for the result");
}

/* ---- tests, measures, audits ------------------------------------------------------------------------------------- */

static circe_status run_test(held *h) {
    circe_status status = prepare(h, &circe_test_job_schema);
    if (status == CIRCE_OK)
        status = circe_test_run(h->context, h->table, word_of(h, "word"), h->options, &h->watch, &h->test);
    if (status == CIRCE_OK) status = needs_text(h->text = circe_test_json(h->test));
    return status;
}

static circe_status run_measure(held *h) {
    circe_status status = prepare(h, &circe_measure_job_schema);
    if (status == CIRCE_OK)
        status = circe_measure_run(h->context, h->table, word_of(h, "word"), h->options, &h->watch, &h->measure);
    if (status == CIRCE_OK) status = needs_text(h->text = circe_measure_json(h->measure));
    return status;
}

static circe_status run_audit(held *h) {
    const char *folder = path_of(h, "report");
    circe_status status = prepare(h, &circe_audit_schema);
    if (status == CIRCE_OK) status = circe_audit(h->context, h->table, h->options, &h->watch, &h->audit);
    if (status == CIRCE_OK && folder != NULL) status = circe_audit_report(h->audit, folder);
    if (status == CIRCE_OK) status = needs_text(h->text = circe_audit_json(h->audit));
    return status;
}

static circe_status run_train(held *h) {
    const char *folder = path_of(h, "report");
    circe_status status = prepare(h, &circe_train_schema);
    if (status == CIRCE_OK) status = circe_train(h->context, h->table, h->options, &h->watch, &h->training);
    if (status == CIRCE_OK) status = circe_model_save(h->context, h->training->model, path_of(h, "model"));
    if (status == CIRCE_OK && folder != NULL) status = circe_training_report(h->context, h->training, folder);
    if (status == CIRCE_OK) status = needs_text(h->text = circe_training_json(h->training, folder));
    return status;
}

static SEXP run_job(void *user) {
    static const struct {
        const char *name;
        circe_status (*run)(held *);
    } jobs[] = {{"test", run_test}, {"measure", run_measure}, {"audit", run_audit}, {"train", run_train}};
    held *h = user;
    const char *name = word_of(h, "job");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        if (strcmp(jobs[i].name, name) != 0) continue;
        circe_status status = jobs[i].run(h);
        return status == CIRCE_OK ? held_text(h->text) : held_failure(h, status);
    }
    Rf_error("there is no job '%s'", name);
}

/* The result of a job as JSON, or list(status, text). */
SEXP circe_r_job(SEXP arguments) { return held_run(run_job, arguments); }

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* (rows, outputs), column by column as R has it. */
static SEXP matrix_of(const circe_predictions *p) {
    SEXP values = PROTECT(Rf_allocMatrix(REALSXP, (int)p->rows, (int)p->outputs));
    SEXP names = PROTECT(Rf_allocVector(STRSXP, p->outputs)), both = PROTECT(Rf_allocVector(VECSXP, 2));
    for (int64_t j = 0; j < p->outputs; j++) {
        for (int64_t i = 0; i < p->rows; i++) REAL(values)[j * p->rows + i] = p->values[i * p->outputs + j];
        SET_STRING_ELT(names, j, Rf_mkCharCE(p->names[j], CE_UTF8));
    }
    SET_VECTOR_ELT(both, 1, names);
    Rf_setAttrib(values, R_DimNamesSymbol, both);
    UNPROTECT(3);
    return values;
}

static SEXP warnings_of(const circe_notes *notes) {
    SEXP texts = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)notes->n));
    for (size_t i = 0; i < notes->n; i++) SET_STRING_ELT(texts, (R_xlen_t)i, Rf_mkCharCE(notes->text[i], CE_UTF8));
    UNPROTECT(1);
    return texts;
}

static SEXP run_predict(void *user) {
    held *h = user;
    circe_status status = prepare(h, &circe_predict_schema);
    if (status == CIRCE_OK) status = circe_model_load(h->context, path_of(h, "model"), &h->model);
    if (status == CIRCE_OK)
        status = circe_predict(h->context, h->model, h->table, h->options, &h->watch, &h->predictions);
    if (status != CIRCE_OK) return held_failure(h, status);
    const char *names[] = {"values", "target", "warnings", ""};
    SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
    SET_VECTOR_ELT(result, 0, matrix_of(h->predictions));
    SET_VECTOR_ELT(result, 1, held_text(h->predictions->target));
    SET_VECTOR_ELT(result, 2, warnings_of(&h->predictions->warnings));
    UNPROTECT(1);
    return result;
}

/* list(values, target, warnings), or list(status, text). */
SEXP circe_r_predict(SEXP arguments) { return held_run(run_predict, arguments); }
