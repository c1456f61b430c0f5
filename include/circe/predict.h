/* Predictors in memory and in files, and what they predict. */
#ifndef CIRCE_PREDICT_H
#define CIRCE_PREDICT_H

#include "circe/job.h"

CIRCE_BEGIN_DECLS

#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
typedef struct circe_predict_options {
#include "circe/options/predict.def"
} circe_predict_options;
#undef CIRCE_OPTION

/* Their rows, and every field its default. */
CIRCE_API extern const circe_schema circe_predict_schema;
CIRCE_API void circe_predict_options_init(circe_predict_options *options);

/* A trained predictor, with the columns or images that it needs and their treatment. */
typedef struct circe_model circe_model;

CIRCE_API circe_status circe_model_load(circe_context *context, const char *path, circe_model **model);
CIRCE_API circe_status circe_model_save(circe_context *context, const circe_model *model, const char *path);
CIRCE_API void circe_model_free(circe_model *model);

/* How a target compares with its prediction. */
typedef struct circe_prediction_error {
    const char *name; /* of the column */
    double mse, r2;   /* of numbers; NaN for classes */
    double accuracy;  /* of classes; NaN for numbers */
    int64_t rows;     /* that were compared */
} circe_prediction_error;

typedef struct circe_predictions {
    int64_t rows, outputs;
    const double *values;     /* (rows, outputs): in the target's units, or probabilities of the classes. NaN where a
                                 cell of the row is missing */
    const char *const *names; /* (outputs): columns of the target, or classes */
    const char *target;       /* the column that the classes are of; NULL: numbers */
    int64_t rows_without;     /* rows with a missing cell */
    circe_columns columns;    /* that are not plain numbers */
    const circe_prediction_error *errors; /* after circe_predictions_compare: targets that the table has */
    int64_t n_errors;
    circe_notes warnings;
    double seconds;
} circe_predictions;

/* Of the rows of `table`; NULL: of the file or the images that the options name. `model` NULL: of the file that the
 * options name. */
CIRCE_API circe_status circe_predict(circe_context *context, const circe_model *model, const circe_table *table,
                                     const circe_predict_options *options, const circe_watch *watch,
                                     circe_predictions **predictions);
CIRCE_API void circe_predictions_free(circe_predictions *predictions);

/* The class of a row, an index into `names`; -1: a cell is missing, or these are numbers. */
CIRCE_API int64_t circe_predictions_class(const circe_predictions *predictions, int64_t row);

/* Computes the errors, from the table and the options that the predictions are of: a target that is not there is no
 * failure. */
CIRCE_API circe_status circe_predictions_compare(circe_predictions *predictions, const circe_table *table,
                                                 const circe_predict_options *options, const circe_watch *watch);

/* As `circe predict --json` prints them, with the errors where they were computed, for circe_text_free; NULL: no
 * memory. The options say where they come from, and whether they go to a file. */
CIRCE_API char *circe_predictions_json(const circe_predictions *predictions, const circe_predict_options *options);

/* The table of `options`, which is a .csv or .tsv, with the predictions as further columns (options.append,
 * options.name), in UTF-8 and with its own delimiter. */
CIRCE_API circe_status circe_predictions_append(const circe_predictions *predictions,
                                                const circe_predict_options *options, const char *path);

/* A .csv, or an .npy of numbers alone. */
CIRCE_API circe_status circe_predictions_write(const circe_predictions *predictions, const char *path);

CIRCE_END_DECLS

#endif
