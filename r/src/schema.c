/* The options of a job, as a list of columns. */
#include "circe_r.h"

static const char *const kinds[] = {"flag",  "text",   "list",     "path",      "choice", "integer",
                                    "count", "number", "positive", "positives", "bytes"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void put(SEXP columns, int c, R_xlen_t i, const char *text) {
    SET_STRING_ELT(VECTOR_ELT(columns, c), i, text != NULL ? Rf_mkCharCE(text, CE_UTF8) : NA_STRING);
}

SEXP circe_r_schema(SEXP job) {
    const char *names[] = {"name", "kind", "value", "words", "default", "group", "help", ""};
    const circe_schema *schema = circe_schema_of(CHAR(STRING_ELT(job, 0)));
    if (schema == NULL) return R_NilValue;
    SEXP columns = PROTECT(Rf_mkNamed(VECSXP, names));
    for (int c = 0; names[c][0] != '\0'; c++) SET_VECTOR_ELT(columns, c, Rf_allocVector(STRSXP, (R_xlen_t)schema->n));
    for (size_t i = 0; i < schema->n; i++) {
        const circe_option *row = &schema->rows[i];
        const char *cells[] = {row->name,     (int)row->kind < KINDS ? kinds[row->kind] : "text",
                               row->value,    row->words,
                               row->fallback, row->group,
                               row->help};
        for (int c = 0; names[c][0] != '\0'; c++) put(columns, c, (R_xlen_t)i, cells[c]);
    }
    UNPROTECT(1);
    return columns;
}

/* The option that was perhaps meant; NA: none. */
SEXP circe_r_nearest(SEXP job, SEXP name) {
    const circe_schema *schema = circe_schema_of(CHAR(STRING_ELT(job, 0)));
    return held_text(schema != NULL ? circe_schema_nearest(schema, CHAR(STRING_ELT(name, 0))) : NULL);
}

SEXP circe_r_version(void) { return held_text(circe_version()); }
