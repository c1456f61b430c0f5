/* The conditional mean of z given y, from files or a table to a model. */
#ifndef CIRCE_FIT_H
#define CIRCE_FIT_H

#include "circe/cme.h"
#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_fit_options {
#include "circe/options/fit.def"
} circe_fit_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_fit_schema;
/* Sets every field to its default. */
CIRCE_API void circe_fit_options_init(circe_fit_options *options);

typedef struct circe_fit_result {
    circe_cme *cme;  /* uses the context; NULL: this rank is not the first */
    char *model;     /* the file of the model */
    int64_t dropped; /* rows with missing cells */
    char *weights;   /* the column or file of the weights; NULL: rows count alike */
    circe_columns columns;
    circe_notes warnings;
} circe_fit_result;

/* Fits the columns y and z of `table` or, if it is NULL, of the files that the options name, and writes the model to
 * options->output. All ranks must call it. watch may be NULL. */
CIRCE_API circe_status circe_fit(circe_context *context, const circe_table *table, const circe_fit_options *options,
                                 const circe_watch *watch, circe_fit_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_fit_result_free(circe_fit_result *result);

/* The result as `circe fit --json` prints it, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_fit_json(const circe_fit_result *result);

CIRCE_END_DECLS

#endif
