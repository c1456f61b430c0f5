/* Turns the columns of a table, and images if there are any, into what a network, a regulariser and the measures see:
 * roles, classes, categories, standardised columns, and the rows split into training, validation, holdout and test. */
#pragma once

#include "circe/train.h"
#include "io/encoding.h"
#include "jobs/pictures.h"
#include "train/table.h"
#include "train/trainer.h"

/* The columns that play one part. */
typedef struct training_role {
    const char *option; /* "given" */
    name_list names;    /* as asked: columns, or arrays */
    int64_t *count;     /* (names): columns of each */
    int64_t *cols;      /* (n): of the table */
    int64_t n;
} training_role;

/* One part of the rows, standardised; owned. */
typedef struct training_part {
    const int64_t *rows; /* of the table; the split's */
    int64_t n;
    circe_mat features;  /* float32: what `data` shows the network; of images nothing */
    int32_t *shown;      /* of images: (n), which one `data` shows the network */
    train_data data;     /* y is --given and z --invariant-to, categories as codes */
    circe_mat z_numbers; /* z with one column per category instead, for methods without a kernel of categories */
    circe_mat weight;    /* float32 (n, 1), 1 on average over the training rows; no column: there are none */
} training_part;

typedef struct training_set {
    const circe_train_options *options; /* of the call that fills it */
    column_table table;
    bool has_images; /* which are the features */
    pictures_request request;
    pictures images;  /* a point each row of the table */
    int64_t path_col; /* of the table, where images are named by it */
    training_role features, target, given, invariant, weights;
    bool given_is_target, has_invariant;
    int64_t dropped;
    train_loss_kind loss;
    bool taken_for_classes; /* a target of 0 and 1, and nobody said what it is */
    encoding encode;        /* of the features */
    name_list inputs;       /* of the network: features, with one input per category */
    name_list classes;      /* of a cross-entropy target */
    train_scaler feature_scale, target_scale;
    train_split split;
    bool shares_rows; /* the holdout are training rows: the network sees them too */
    int64_t batch;    /* --batch, or what is usual for as many training rows */
    training_part training, validation, holdout, test;
    char *kernel_y, *kernel_z; /* NULL: gaussian */
    uint64_t hash;             /* of the content */
} training_set;

/* Reads and checks the table (NULL: the file that the options name) and splits its rows. `needs_holdout`: rows for the
 * conditional mean must be there; `net`: the network they are for. */
circe_status training_set_read(const circe_table *table, const circe_train_options *options, const char *net,
                               bool needs_holdout, training_set *set);
/* Reads the images, if there are some, and prepares all points. */
circe_status training_set_fill(circe_context *context, const circe_watch *watch, training_set *set);
void training_set_free(training_set *set);

/* From table, images, classes and split to the parts, scales and kernels (train_points.c). */
circe_status training_points_make(training_set *set);
void training_points_free(training_set *set);

/* The part that is made of rows at[0..n) of training and validation rows in one list: training rows first. */
circe_status training_part_gather(const training_set *set, const int64_t *at, int64_t n, training_part *out);
void training_part_free(training_part *part);

/* Training rows that the conditional mean is learned from if there is no holdout, at most: many columns leave no low
 * rank, and the cost grows with the cube of the rows. */
static inline int64_t training_most_shared(const training_set *set) { return set->given.n <= 2 ? 10000 : 2000; }

/* The rows that error and dependence are reported on: the test rows, or the validation rows if there are none. */
static inline const training_part *training_judged(const training_set *set) {
    return set->test.n > 0 ? &set->test : &set->validation;
}

/* Whether a column holds text, or numbers that stand for classes; the class of a row's target. */
bool training_is_category(const training_set *set, int64_t col);
double training_class_of(const training_set *set, int64_t row);

/* "b", "b, c" or "b, c, d and 9 more": the columns of a role for people. NULL: it has none. */
char *training_role_text(arena *owner, const training_set *set, const training_role *role);

const char *training_column(const training_set *set, const training_role *role, int64_t i);
