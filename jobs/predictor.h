/* A predictor from inside. */
#ifndef JOBS_PREDICTOR_H
#define JOBS_PREDICTOR_H

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

/* Takes the settings of a model apart, which was loaded or made; `name` is what messages call it. */
circe_status predictor_open(circe_model *predictor, const char *name);

/* As circe_predictions_write writes a .csv. */
void predictions_put_csv(const circe_predictions *predicted, FILE *out);

#endif
