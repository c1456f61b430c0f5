/* The routines that R calls. */
#include "circe_r.h"

#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

SEXP circe_r_job(SEXP arguments);
SEXP circe_r_predict(SEXP arguments);
SEXP circe_r_schema(SEXP job);
SEXP circe_r_nearest(SEXP job, SEXP name);
SEXP circe_r_json(SEXP text);
SEXP circe_r_version(void);

#define ROUTINE(name, n) \
    { #name, (DL_FUNC)(void (*)(void))name, n }

static const R_CallMethodDef routines[] = {ROUTINE(circe_r_job, 1),
                                           ROUTINE(circe_r_predict, 1),
                                           ROUTINE(circe_r_schema, 1),
                                           ROUTINE(circe_r_nearest, 2),
                                           ROUTINE(circe_r_json, 1),
                                           ROUTINE(circe_r_version, 0),
                                           {NULL, NULL, 0}};

void attribute_visible R_init_circe(DllInfo *info) {
    R_registerRoutines(info, NULL, routines, NULL, NULL);
    R_useDynamicSymbols(info, FALSE);
    R_forceSymbols(info, TRUE);
}
