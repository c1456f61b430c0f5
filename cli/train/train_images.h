/* Images as `circe train` and `circe predict` take them: files that a column of a .csv names, or an array of an .npz or
 * .npy; read once, and shown by points. */
#ifndef CLI_TRAIN_IMAGES_H
#define CLI_TRAIN_IMAGES_H

#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "images/stack.h"
#include "io/column_table.h"
#include "train/model.h"

/* What is to be read, and how. */
typedef struct images_request {
    const char *path;   /* --images */
    bool by_path;       /* a .csv of paths; otherwise an array */
    char *column;       /* of the paths */
    char *array;        /* of the images, in an .npz */
    const char *labels; /* the table that goes with them: the .csv itself, --labels, or the .npz; NULL: there is none */
    bool resized;       /* to --image-size */
    int64_t asked;      /* --channels; 0: not given */
    image_stack_options options;
} images_request;

typedef struct image_points {
    image_stack stack;
    int32_t *shown; /* (n): which stored picture a point shows */
    int64_t n;
    int64_t total; /* pictures that were read; one of several processes then keeps some */
} image_points;

/* All print what is wrong and return an exit status. */

/* From the options of `circe train`; `net` may ask for channels by itself. */
int images_request_train(const args *arguments, const char *net, images_request *request);
/* The same of `circe predict`, which treats images as they were when the model was trained. */
int images_request_predict(const args *arguments, const train_model *model, images_request *request);
void images_request_free(images_request *request);

/* The images of n points. By path: those of rows at[0..n) of the table (NULL: rows 0 .. n - 1), from column `col`. In
 * an array of `total` images: those of these numbers; n < 0: all of them, however many there are. `number` says what to
 * call the rows in messages (NULL: as they are in the table). */
int images_read_paths(const session *s, const images_request *request, const column_table *table, int64_t col,
                      const int64_t *at, const int64_t *number, int64_t n, image_points *out);
int images_read_array(const session *s, const images_request *request, int64_t total, const int64_t *at, int64_t n,
                      image_points *out);
void images_free(image_points *images);

/* Whether a model can be used on them. */
int images_check_model(const images_request *request, const image_points *images, const train_model *model);

/* Points rows[0..n) of them (NULL: all), as a network is fed them: *shown is new memory that the source borrows. */
int images_source(const image_points *images, const int64_t *rows, int64_t n, int32_t **shown, train_source *source);

/* Of what the network sees: channels by lines by columns. */
train_shape images_shape(const image_points *images);

/* "1152 of 42 by 48 pixels, grey, kept as bytes (2.3 MB)". */
const char *images_text(const image_points *images, char *out, size_t size);

/* What a model remembers, and for the reader of results. */
cJSON *images_json(const images_request *request, const image_points *images);

#endif
