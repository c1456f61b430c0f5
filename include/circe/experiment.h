/* The experiments of the paper: grids of trainings that a file describes, and what they say together. */
#ifndef CIRCE_EXPERIMENT_H
#define CIRCE_EXPERIMENT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_experiment_options {
#include "circe/options/experiment.def"
    /* Runs as processes: the path of a `circe` to start for each, such as "/proc/self/exe" in the command itself. NULL:
     * runs are threads of this process. */
    const char *program;
} circe_experiment_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_experiment_schema;
CIRCE_API void circe_experiment_options_init(circe_experiment_options *options);

/* One run. */
typedef struct circe_experiment_run {
    const char *name;   /* "univariate1-circe-gamma1000-seed3" */
    const char *model;  /* "univariate1"; of pictures with what they depend on: "dsprites-nonlinear" */
    int64_t d;          /* dimensions of the model */
    const char *method; /* NULL: nothing is trained */
    double gamma, rate, decay;
    int64_t seed;
    const char *role;      /* "final"; "tuning": to choose gamma, rate and decay by; "sweep", "limits" */
    const double *numbers; /* (n_numbers) of the result; NaN: not known */
    const char *error;     /* why it failed; NULL: it did not */
} circe_experiment_run;

/* Over the seeds; NaN where there is none. */
typedef struct circe_experiment_spread {
    double median, low, high;
} circe_experiment_spread;

/* One model, one method and one choice of gamma, rate and decay. */
typedef struct circe_experiment_row {
    const char *model;
    int64_t d;
    const char *method; /* NULL: nothing is trained */
    double gamma, rate, decay;
    int tuning;                             /* of the runs that were chosen by */
    int chosen;                             /* the best of the method's choices, on validation data */
    int64_t runs, failed;                   /* that are done, and that failed */
    const circe_experiment_spread *numbers; /* (n_numbers) */
} circe_experiment_row;

typedef struct circe_experiment_result {
    const char *name, *title;
    const char *folder;         /* with report.html, results.json, results.csv and the runs */
    const char *command;        /* that repeats it, and goes on where it stopped */
    const char *const *numbers; /* "mse", "vcf", ...: what every run gives */
    int64_t n_numbers;
    const circe_experiment_run *runs;
    int64_t n_runs, n_failed;
    const circe_experiment_row *rows;
    int64_t n_rows;
    /* The table for people, cells (n_lines, n_columns), and what is said under it. */
    const char *const *columns, *const *cells;
    const int *numeric; /* (n_columns) */
    int64_t n_columns, n_lines;
    const char *footer;
    double seconds;
    circe_notes warnings;
} circe_experiment_result;

/* Runs the experiment of this name (NULL: the file that the options name), as far as it is not done yet, and writes
 * results.csv, results.json, figures and report.html into its folder. A run that fails is no failure of the whole. One
 * that the watch stops keeps what is finished, returns CIRCE_ERR_CANCELLED, and goes on from there when it is called
 * again. The context is used by the calling thread; runs have contexts like it, on threads of their own. Of several
 * ranks, all call it, and the result of the others is NULL. */
CIRCE_API circe_status circe_experiment(circe_context *context, const char *name,
                                        const circe_experiment_options *options, const circe_watch *watch,
                                        circe_experiment_result **result);
CIRCE_API void circe_experiment_result_free(circe_experiment_result *result);

/* What results.json holds, for circe_text_free; NULL: no memory. */
CIRCE_API char *circe_experiment_json(const circe_experiment_result *result);

/* An experiment that there is: a file in CIRCE_EXPERIMENTS, ./experiments, or beside the library or the program. */
typedef struct circe_experiment_entry {
    const char *name, *path;
    const char *title; /* NULL: the file cannot be read */
    const char *error;
} circe_experiment_entry;

/* All of them, by name, for circe_experiment_list_free. */
CIRCE_API circe_status circe_experiment_list(circe_experiment_entry **entries, int64_t *n);
CIRCE_API void circe_experiment_list_free(circe_experiment_entry *entries);

CIRCE_END_DECLS

#endif
