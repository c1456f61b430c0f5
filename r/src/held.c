/* The life of a call: context, table and options out of R's objects, and the end of all of them. */
#include <stdlib.h>
#include <string.h>

#include "circe_r.h"

#include <R_ext/Utils.h>

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void release(void *user, Rboolean jump) {
    held *h = user;
    (void)jump;
    circe_test_job_result_free(h->test);
    circe_measure_job_result_free(h->measure);
    circe_audit_result_free(h->audit);
    circe_training_free(h->training);
    circe_predictions_free(h->predictions);
    circe_model_free(h->model);
    circe_table_free(h->table);
    circe_context_destroy(h->context);
    circe_text_free(h->text);
    free(h->options);
}

SEXP held_run(SEXP (*body)(void *), SEXP arguments) {
    held h = {.arguments = arguments};
    SEXP token = PROTECT(R_MakeUnwindCont());
    SEXP result = R_UnwindProtect(body, &h, release, &h, token);
    UNPROTECT(1);
    return result;
}

SEXP held_argument(const held *h, const char *name) {
    SEXP names = Rf_getAttrib(h->arguments, R_NamesSymbol);
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
        if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(h->arguments, i);
    }
    return R_NilValue;
}

SEXP held_text(const char *text) { return Rf_ScalarString(text != NULL ? Rf_mkCharCE(text, CE_UTF8) : NA_STRING); }

SEXP held_failure(const held *h, circe_status status) {
    const char *names[] = {"status", "text", ""};
    SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
    SET_VECTOR_ELT(result, 0, Rf_ScalarInteger(h->interrupted ? -1 : (int)status));
    SET_VECTOR_ELT(result, 1, held_text(circe_last_error()));
    UNPROTECT(1);
    return result;
}

/* ---- interrupts -------------------------------------------------------------------------------------------------- */

static void ask_for_interrupt(void *unused) {
    (void)unused;
    R_CheckUserInterrupt();
}

/* R_CheckUserInterrupt would jump through the library: under R_ToplevelExec it comes back. */
static int stopped(held *h) {
    if (!h->interrupted && !R_ToplevelExec(ask_for_interrupt, NULL)) h->interrupted = 1;
    return h->interrupted;
}

static int on_step(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage, (void)done, (void)total;
    return stopped(user);
}

static int on_progress(void *user, double done, const char *text) {
    (void)done, (void)text;
    return stopped(user);
}

circe_status held_open(held *h) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = Rf_asInteger(held_argument(h, "threads"));
    options.progress = on_step;
    options.progress_user = h;
    h->watch = (circe_watch){.user = h, .progress = on_progress};
    return circe_context_create(&options, &h->context);
}

/* ---- a table ----------------------------------------------------------------------------------------------------- */

/* The level of each row; NULL where it is missing. */
static circe_status add_factor(circe_table *table, const char *name, SEXP column) {
    SEXP levels = Rf_getAttrib(column, R_LevelsSymbol);
    R_xlen_t n_levels = Rf_xlength(levels), rows = Rf_xlength(column);
    const char **words = (const char **)R_alloc((size_t)n_levels + 1, sizeof *words);
    const char **texts = (const char **)R_alloc((size_t)rows + 1, sizeof *texts);
    for (R_xlen_t i = 0; i < n_levels; i++) words[i] = Rf_translateCharUTF8(STRING_ELT(levels, i));
    for (R_xlen_t i = 0; i < rows; i++) {
        int code = INTEGER_ELT(column, i);
        texts[i] = code == NA_INTEGER ? NULL : words[code - 1];
    }
    return circe_table_add_texts(table, name, texts);
}

circe_status held_read(held *h) {
    SEXP columns = held_argument(h, "columns"), names = Rf_getAttrib(columns, R_NamesSymbol);
    R_xlen_t n = Rf_xlength(columns);
    if (n == 0) return CIRCE_OK;
    circe_status status = circe_table_create(Rf_xlength(VECTOR_ELT(columns, 0)), &h->table);
    for (R_xlen_t i = 0; i < n && status == CIRCE_OK; i++) {
        SEXP column = VECTOR_ELT(columns, i);
        const char *name = Rf_translateCharUTF8(STRING_ELT(names, i));
        if (Rf_xlength(column) != circe_table_rows(h->table))
            status = circe_fail(CIRCE_ERR_SHAPE, "column '%s' has another number of rows than the first", name);
        else if (Rf_isFactor(column))
            status = add_factor(h->table, name, column);
        else
            status = circe_table_add_numbers(h->table, name, REAL_RO(column), 1);
    }
    return status;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

circe_status held_options(held *h, const circe_schema *schema) {
    SEXP given = held_argument(h, "options"), names = Rf_getAttrib(given, R_NamesSymbol);
    h->options = calloc(1, schema->bytes);
    if (h->options == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for the options");
    circe_options_init(schema, h->options);
    circe_status status = CIRCE_OK;
    for (R_xlen_t i = 0; i < Rf_xlength(given) && status == CIRCE_OK; i++)
        status = circe_options_set(schema, h->options, CHAR(STRING_ELT(names, i)),
                                   Rf_translateCharUTF8(STRING_ELT(given, i)));
    return status;
}
