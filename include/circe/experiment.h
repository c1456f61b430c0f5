/* The experiments of the paper: a file describes a grid of trainings, and the result summarises them. */
#ifndef CIRCE_EXPERIMENT_H
#define CIRCE_EXPERIMENT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_experiment_options {
#include "circe/options/experiment.def"
    /* The path of a `circe` command that is started as a process for each run, such as "/proc/self/exe" in the command
     * itself. NULL: runs are threads of this process. */
    const char *program;
} circe_experiment_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_experiment_schema;
/* Sets every field to its default. */
CIRCE_API void circe_experiment_options_init(circe_experiment_options *options);

/* One run. */
typedef struct circe_experiment_run {
    const char *name;   /* "univariate1-circe-gamma1000-seed3" */
    const char *model;  /* "univariate1"; for pictures, with the kind of dependence: "dsprites-nonlinear" */
    int64_t d;          /* dimensions of the model */
    const char *method; /* NULL: nothing is trained */
    double gamma, rate, decay;
    int64_t seed;
    const char *role;      /* "final", "tuning" (to choose gamma, rate and decay), "sweep" or "limits" */
    const double *numbers; /* (n_numbers) of the result; NaN: not known */
    const char *error;     /* why it failed; NULL: it did not */
} circe_experiment_run;

/* Median and range over the seeds; NaN: not known. */
typedef struct circe_experiment_spread {
    double median, low, high;
} circe_experiment_spread;

/* One model, one method and one choice of gamma, rate and decay. */
typedef struct circe_experiment_row {
    const char *model;
    int64_t d;
    const char *method; /* NULL: nothing is trained */
    double gamma, rate, decay;
    int tuning;                             /* the row summarises tuning runs */
    int chosen;                             /* the method's best setting on validation data */
    int64_t runs, failed;                   /* finished runs, and failed runs */
    const circe_experiment_spread *numbers; /* (n_numbers) */
} circe_experiment_row;

typedef struct circe_experiment_result {
    const char *name, *title;
    const char *folder;         /* contains report.html, results.json, results.csv and the runs */
    const char *command;        /* the command that repeats or continues the experiment */
    const char *const *numbers; /* the numbers of every run: "mse", "vcf", ... */
    int64_t n_numbers;
    const circe_experiment_run *runs;
    int64_t n_runs, n_failed;
    const circe_experiment_row *rows;
    int64_t n_rows;
    /* A table to print, cells (n_lines, n_columns), and the text below it. */
    const char *const *columns, *const *cells;
    const int *numeric; /* (n_columns) */
    int64_t n_columns, n_lines;
    const char *footer;
    double seconds;
    circe_notes warnings;
} circe_experiment_result;

/* Runs what is not yet done of the experiment with this name (NULL: of the file that the options name), and writes
 * results.csv, results.json, figures and report.html into its folder. If a run fails, the others continue. If the watch
 * stops the experiment, finished runs are kept, the function returns CIRCE_ERR_CANCELLED, and the next call continues
 * from there. The calling thread uses the context; each run has a similar context on its own thread. All ranks must
 * call it; only the first gets a result, the others NULL. */
CIRCE_API circe_status circe_experiment(circe_context *context, const char *name,
                                        const circe_experiment_options *options, const circe_watch *watch,
                                        circe_experiment_result **result);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_experiment_result_free(circe_experiment_result *result);

/* The content of results.json, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_experiment_json(const circe_experiment_result *result);

/* An available experiment: a file in CIRCE_EXPERIMENTS, in ./experiments, or next to the library or the program. */
typedef struct circe_experiment_entry {
    const char *name, *path;
    const char *title; /* NULL: the file cannot be read */
    const char *error;
} circe_experiment_entry;

/* Lists all experiments by name, for circe_experiment_list_free. */
CIRCE_API circe_status circe_experiment_list(circe_experiment_entry **entries, int64_t *n);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_experiment_list_free(circe_experiment_entry *entries);

CIRCE_END_DECLS

#endif
