/* Images for training and prediction: files that a column of a .csv names, or an array of an .npz or .npy. Each image
 * is read once, and points refer to it. */
#pragma once

#include <cjson/cJSON.h>

#include "base/arena.h"
#include "circe/train.h"
#include "images/stack.h"
#include "io/column_table.h"
#include "train/model.h"

/* What is to be read, and how. */
typedef struct pictures_request {
    const char *path;   /* --images */
    bool by_path;       /* a .csv of paths; otherwise an array */
    char *column;       /* of the paths */
    char *array;        /* of the images, in an .npz */
    const char *labels; /* the table that goes with them: the .csv itself, --labels, or the .npz; NULL: there is none */
    bool resized;       /* to --image-size */
    int64_t asked;      /* --channels; 0: not given */
    image_stack_options options;
} pictures_request;

typedef struct pictures {
    image_stack stack;
    int32_t *shown; /* (n): which stored picture a point shows */
    int64_t n;
    int64_t total; /* pictures that were read; one of several processes then keeps some */
} pictures;

/* From the options of circe_train; `net` may ask for channels by itself. */
circe_status pictures_for_training(const circe_train_options *options, const char *net, pictures_request *request);
/* The same for circe_predict, which treats images as in the training of the model: `settings` are the model's JSON. */
circe_status pictures_for_model(const circe_predict_options *options, const train_model *model, const cJSON *settings,
                                pictures_request *request);
void pictures_request_free(pictures_request *request);

/* The images of n points. By path: those of rows at[0..n) of the table (NULL: rows 0 .. n - 1), from column `col`. In
 * an array of `total` images: those of these numbers; n < 0: all of them, however many there are. `number` says what to
 * call the rows in messages (NULL: as they are in the table). */
circe_status pictures_read_paths(circe_context *context, const circe_watch *watch, const pictures_request *request,
                                 const column_table *table, int64_t col, const int64_t *at, const int64_t *number,
                                 int64_t n, pictures *out);
circe_status pictures_read_array(circe_context *context, const circe_watch *watch, const pictures_request *request,
                                 int64_t total, const int64_t *at, int64_t n, pictures *out);
void pictures_free(pictures *images);

/* Whether a model can be used on them. */
circe_status pictures_check_model(const pictures_request *request, const pictures *images, const train_model *model);

/* Points rows[0..n) of them (NULL: all), as a network is fed them: *shown is new memory that the source borrows. */
circe_status pictures_source(const pictures *images, const int64_t *rows, int64_t n, int32_t **shown,
                             train_source *source);

/* The shape that the network sees: channels by lines by columns. */
train_shape pictures_shape(const pictures *images);

/* "1152 of 42 by 48 pixels, grey, kept as bytes (2.3 MB)". */
char *pictures_text(arena *owner, const pictures *images);

/* What a model remembers, and for the reader of results. */
cJSON *pictures_json(const pictures_request *request, const pictures *images);
