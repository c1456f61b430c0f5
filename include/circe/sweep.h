/* Trains with every combination of some options' values, side by side. */
#ifndef CIRCE_SWEEP_H
#define CIRCE_SWEEP_H

#include "circe/train.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_sweep_options {
#include "circe/options/sweep.def"
} circe_sweep_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_sweep_schema;
/* Sets every field to its default. */
CIRCE_API void circe_sweep_options_init(circe_sweep_options *options);

/* One training. */
typedef struct circe_sweep_run {
    const char *name;          /* "gamma=10-seed=1" */
    const char *const *values; /* (n_options): the value of each option */
    const double *numbers;     /* (n_numbers) of its result; NaN: not known */
    const char *model;         /* its file; NULL: none was written */
    const char *error;         /* why it failed; NULL: it did not */
    int found;                 /* the result was already in the folder */
    circe_notes warnings;
} circe_sweep_run;

typedef struct circe_sweep_result {
    const char *const *options; /* the options that vary, as the command line names them */
    int64_t n_options;
    const char *const *numbers; /* the numbers of every run, on its validation rows: "loss", "circe", ... */
    int64_t n_numbers;
    const circe_sweep_run *runs; /* the last option varies fastest */
    int64_t n_runs, n_failed;
    const char *folder; /* NULL: none */
    double seconds;
} circe_sweep_result;

/* Trains on `table` (NULL: on the file or images that the training options name) with every combination, and without a
 * baseline unless one is named. If a run fails, the others continue; the sweep fails only if all do. If the watch stops
 * it, it returns CIRCE_ERR_CANCELLED; with a folder, finished runs are kept and the same call continues from there. The
 * calling thread uses the context; each run has a similar context on its own thread. */
CIRCE_API circe_status circe_sweep(circe_context *context, const circe_table *table,
                                   const circe_train_options *training, const circe_sweep_options *options,
                                   const circe_watch *watch, circe_sweep_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_sweep_result_free(circe_sweep_result *result);

/* The result as JSON, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_sweep_json(const circe_sweep_result *result);

CIRCE_END_DECLS

#endif
