/* Many trainings that differ in some options: every combination of the values to try, side by side. */
#ifndef CIRCE_SWEEP_H
#define CIRCE_SWEEP_H

#include "circe/train.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_sweep_options {
#include "circe/options/sweep.def"
} circe_sweep_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_sweep_schema;
CIRCE_API void circe_sweep_options_init(circe_sweep_options *options);

/* One training. */
typedef struct circe_sweep_run {
    const char *name;          /* "gamma=10-seed=1" */
    const char *const *values; /* (n_options) that the options had */
    const double *numbers;     /* (n_numbers) of its result; NaN: not known */
    const char *model;         /* its file; NULL: none was written */
    const char *error;         /* why it failed; NULL: it did not */
    int found;                 /* its result was in the folder */
    circe_notes warnings;
} circe_sweep_run;

typedef struct circe_sweep_result {
    const char *const *options; /* that are swept over, as the command line names them */
    int64_t n_options;
    const char *const *numbers; /* of every run, on its validation rows: "loss", "circe", ... */
    int64_t n_numbers;
    const circe_sweep_run *runs; /* the last option varies fastest */
    int64_t n_runs, n_failed;
    const char *folder; /* NULL: none */
    double seconds;
} circe_sweep_result;

/* Trains on `table` (NULL: on the file, or the images, that the options of the trainings name) with every combination;
 * without a baseline, unless one is named. A run that fails is no failure of the whole, unless all do. Where the watch
 * stops it, CIRCE_ERR_CANCELLED: with a folder, what is finished is kept and the same call goes on from there. The
 * context is used by the calling thread; every run has one like it, on a thread of its own. */
CIRCE_API circe_status circe_sweep(circe_context *context, const circe_table *table,
                                   const circe_train_options *training, const circe_sweep_options *options,
                                   const circe_watch *watch, circe_sweep_result **result);
CIRCE_API void circe_sweep_result_free(circe_sweep_result *result);

/* The result as JSON, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_sweep_json(const circe_sweep_result *result);

CIRCE_END_DECLS

#endif
