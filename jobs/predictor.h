/* A predictor from inside. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "circe/predict.h"
#include "io/encoding.h"
#include "train/model.h"

struct circe_model {
    train_model model;
    cJSON *settings; /* its settings, taken apart */
    encoding encode; /* of its features; of a table */
};

/* Parses the settings of a model, loaded or just made. Messages call it `name`. */
circe_status predictor_open(circe_model *predictor, const char *name);

/* Predictions, with all that they point to. */
typedef struct predicted {
    circe_predictions result; /* first: what the caller holds */
    name_list names, target;  /* of the outputs; columns of the target */
    bool words;               /* classes that are no numbers */
    char *labels;             /* of images: the table that goes with them; NULL: none */
    double *out;              /* (rows, outputs) */
    bool *empty;              /* (rows): a cell of the row is missing */
    circe_prediction_error *errors;
} predicted;

static inline predicted *predicted_of(const circe_predictions *result) { return (predicted *)(uintptr_t)result; }

/* The class of two that an audit takes as positive: `asked`, or the larger number, or the later word. */
int64_t classes_positive(const char *const *classes, const char *asked);
/* The number that a class is: True is 1, False is 0, however they are capitalised. */
bool classes_number(const char *name, double *number);
/* Whether two names mean the same class: they are equal, or one of them is True or False, however capitalised, and the
 * other means the same. */
bool classes_same(const char *one, const char *other);

/* As circe_predictions_write writes a .csv. */
void predictions_put_csv(const circe_predictions *result, FILE *out);

/* Adds the predictions to the table as further columns. On failure nothing is added. */
circe_status predictions_put_table(const circe_predictions *result, const circe_predict_options *options, FILE *out);
