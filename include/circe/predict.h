/* Trained models, in memory and in files, and their predictions. */
#ifndef CIRCE_PREDICT_H
#define CIRCE_PREDICT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_predict_options {
#include "circe/options/predict.def"
} circe_predict_options;
#undef CIRCE_OPTION

/* The schema of the options, and the function that sets every field to its default. */
CIRCE_API extern const circe_schema circe_predict_schema;
/* Sets every field to its default. */
CIRCE_API void circe_predict_options_init(circe_predict_options *options);

/* A trained predictor, with the columns or images that it needs and how to prepare them. */
typedef struct circe_model circe_model;

/* Loads a predictor that circe_train or circe_model_save wrote. */
CIRCE_API circe_status circe_model_load(circe_context *context, const char *path, circe_model **model);
/* Saves a predictor. An existing file is replaced as a whole or not at all. */
CIRCE_API circe_status circe_model_save(circe_context *context, const circe_model *model, const char *path);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_model_free(circe_model *model);

/* How a target compares with its prediction. */
typedef struct circe_prediction_error {
    const char *name; /* of the column */
    double mse, r2;   /* for numbers; NaN for classes */
    double accuracy;  /* for classes; NaN for numbers */
    int64_t rows;     /* rows compared */
} circe_prediction_error;

typedef struct circe_predictions {
    int64_t rows, outputs;
    const double *values; /* (rows, outputs): in the target's units, or probabilities of the classes. NaN if a cell of
                             the row is missing */
    const char *const *names;             /* (outputs): columns of the target, or classes */
    const char *target;                   /* the column whose classes these are; NULL: numbers */
    int64_t rows_without;                 /* rows with missing cells, which have no prediction */
    circe_columns columns;                /* columns that are not plain numbers */
    const circe_prediction_error *errors; /* from circe_predictions_compare, for the targets in the table */
    int64_t n_errors;
    circe_notes warnings;
    double seconds;
} circe_predictions;

/* Predicts the rows of `table` or, if it is NULL, of the file or images that the options name. `model` NULL: the model
 * file that the options name. */
CIRCE_API circe_status circe_predict(circe_context *context, const circe_model *model, const circe_table *table,
                                     const circe_predict_options *options, const circe_watch *watch,
                                     circe_predictions **predictions);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_predictions_free(circe_predictions *predictions);

/* The predicted class of a row, an index into `names`; -1: a cell is missing, or the predictions are numbers. */
CIRCE_API int64_t circe_predictions_class(const circe_predictions *predictions, int64_t row);

/* Computes the errors. Table and options must be those of the predictions. A missing target is not a failure. */
CIRCE_API circe_status circe_predictions_compare(circe_predictions *predictions, const circe_table *table,
                                                 const circe_predict_options *options, const circe_watch *watch);

/* The predictions as `circe predict --json` prints them, with any computed errors, for circe_text_free; NULL: no
 * memory. The options name the sources and the output file. */
CIRCE_API char *circe_predictions_json(const circe_predictions *predictions, const circe_predict_options *options);

/* Writes the table of `options`, a .csv or .tsv, with the predictions as additional columns (options.append,
 * options.name), in UTF-8 and with the table's delimiter. */
CIRCE_API circe_status circe_predictions_append(const circe_predictions *predictions,
                                                const circe_predict_options *options, const char *path);

/* Writes a .csv, or an .npy of numbers only. */
CIRCE_API circe_status circe_predictions_write(const circe_predictions *predictions, const char *path);

CIRCE_END_DECLS

#endif
