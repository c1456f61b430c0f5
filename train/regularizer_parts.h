/* Inside of the regularisers: what one is made of, and the table of kinds. */
#ifndef TRAIN_REGULARIZER_PARTS_H
#define TRAIN_REGULARIZER_PARTS_H

#include "train/regularizer.h"

/* A kernel of x; its width may depend on the columns. */
typedef struct train_x_kernel {
    int64_t cols;
    circe_kernel *kernel;
} train_x_kernel;

/* The batch before at one place. */
typedef struct train_previous {
    int64_t rows, cols; /* rows = 0: there was none */
    int64_t room;       /* rows that index and x have memory for */
    int64_t *index;     /* (rows) training rows */
    float *x;           /* (rows, cols) */
} train_previous;

/* Points to measure. */
typedef struct train_points {
    const int64_t *index; /* of training rows; NULL: other points */
    int64_t step;
    const circe_kernel *kernel_x;
    const circe_mat *x, *y, *z;
    const circe_mat *previous_x, *previous_y; /* NULL: the batch on itself */
} train_points;

/* What a kind needs. */
enum {
    TRAIN_USES_Y = 1,
    TRAIN_USES_KERNEL_Z = 2,   /* else z stands for itself, and a fit has a linear kernel of z */
    TRAIN_USES_FIT = 4,        /* of the conditional mean, always */
    TRAIN_USES_REGRESSION = 8, /* width of y and ridge for batches; z may be regressed on the holdout */
    TRAIN_USES_PREVIOUS = 16,  /* the batch before */
};

/* One row of the table. */
typedef struct train_regularizer_row {
    const char *name;
    int needs;
    circe_status (*measure)(train_regularizer *r, const train_points *points, double *value, circe_mat *grad);
} train_regularizer_row;

extern const train_regularizer_row train_regularizer_rows[]; /* by kind */
extern const int train_regularizer_n_rows;

struct train_regularizer {
    circe_context *context;
    circe_workspace *workspace; /* one for everything */
    train_regularizer_options options;
    const train_regularizer_row *row;
    int64_t n_rows; /* of training */
    circe_kernel *kernel_y, *kernel_z;
    double ridge;
    circe_cme *cme;
    circe_cme *exact; /* method rff: the mean without random features, for values; else NULL */
    circe_features *features;
    double *y, *z; /* (n_rows, cols) of training, where batches are gathered; else NULL */
    int64_t cols_y, cols_z;
    double *batch_y, *batch_z, *previous_y; /* gathered rows, grown to the largest batch */
    int64_t room, previous_room;            /* rows they have memory for */
    double *wide_x, *wide_grad;             /* of a batch that is measured in float64 */
    int64_t wide_room;                      /* numbers they have memory for */
    train_x_kernel *x_kernels;
    int64_t n_x_kernels;
    train_previous *places;
    int64_t n_places;
    char text[512];
};

/* The kernel of an x with so many columns; the regulariser's. */
circe_status train_regularizer_kernel_x(train_regularizer *r, int64_t cols, const circe_kernel **kernel);

/* Of measures that regress a batch. */
circe_batch_options train_regularizer_batch_options(const train_regularizer *r);
circe_gcm_options train_regularizer_gcm_options(const train_regularizer *r);

/* Whether it carries the batch before; that of a place (NULL: none yet), and setting it. */
bool train_regularizer_carries(const train_regularizer *r);
const train_previous *train_regularizer_previous(const train_regularizer *r, int64_t place);
circe_status train_regularizer_remember(train_regularizer *r, int64_t place, const int64_t *index, const circe_mat *x);

/* Whether batches are regressed with the kernel and ridge of y (gcm has a linear regression as well). */
bool train_regularizer_smooths(const train_regularizer *r);
/* Whether z's mean of a batch measure comes from the holdout. */
bool train_regularizer_holds_out(const train_regularizer *r);

#endif
