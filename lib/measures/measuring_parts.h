/* Internals of circe_measure: its fields, the table of kinds, and what a device does instead of the host. */
#pragma once

#include "circe/measuring.h"
#include "measures/measure_parts.h"

enum { CIRCE__MOST_PLACES = 4096 };

/* A kernel of x; its width may depend on the columns. */
typedef struct circe__x_kernel {
    int64_t cols;
    circe_kernel *kernel;
} circe__x_kernel;

/* The batch before at one place. */
typedef struct circe__previous {
    int64_t n, cols; /* n = 0: there was none */
    int64_t room;    /* bytes of x, and rows of `rows`, that there is memory for */
    int64_t *rows;   /* (n) of the data set */
    void *x;         /* (n, cols) */
    circe_dtype dtype;
} circe__previous;

/* How x is scaled at one place, and what its batches were like. */
typedef struct circe__x_place {
    double *widths; /* one for each factor of x's kernel */
    double figures[CIRCE_N_FIGURES];
} circe__x_place;

/* Points to measure. */
typedef struct circe__measured_points {
    const int64_t *rows; /* of the data set; NULL: other points */
    int64_t step;
    const circe_kernel *kernel_x;
    const circe_mat *x, *y, *z;
    const circe_mat *previous_x, *previous_y; /* NULL: the batch on itself */
    const double *previous_weights;           /* NULL: they count alike */
} circe__measured_points;

typedef circe_status circe__measure_fn(circe_measure *m, const circe__measured_points *points, double *value,
                                       circe_mat *grad);

/* A device that evaluates rows of the data set in its own memory (lib/cuda/measuring.c). */
typedef struct circe__measure_device {
    circe_status (*evaluate)(circe_measure *m, int64_t place, const int64_t *rows, int64_t n, const circe_mat *x,
                             double *value, circe_mat *grad);
    /* Points in its memory; NULL: points are the host's. */
    circe_status (*points)(circe_measure *m, const circe_mat *x, const circe_mat *y, const circe_mat *z, double *value,
                           circe_mat *grad);
    /* Copies the previous batches to the measure's places, and back. */
    circe_status (*collect)(circe_measure *m);
    circe_status (*adopt)(circe_measure *m);
    /* Figures and widths of a place to the measure's x_places; the device's figures begin again. */
    circe_status (*report)(circe_measure *m, int64_t place);
    void (*close)(circe_measure *m);
} circe__measure_device;

struct circe_measure {
    circe_context *context;
    circe_workspace *workspace; /* one for everything */
    circe_measure_options options;
    const circe_measure_row *row;
    circe__measure_fn *measure;
    circe_kernel *asked_x, *asked_y;   /* as the options have them, widths free or not; NULL: not used */
    circe_kernel *kernel_y, *kernel_z; /* in use; kernel_y NULL: not settled, or not used */
    double *sigma2_y, *ridges;         /* the grids of the options */
    double ridge;                      /* in use; 0: none */
    int64_t cols_y, cols_z;            /* 0: not known yet */
    const circe_cme *mean;
    circe_cme *own_mean;
    circe_cme *exact; /* method rff: the mean without random features, for values; else NULL */
    int64_t n_rows;   /* of the data set; -1: none is bound */
    const circe_features *features;
    circe_features *own_features; /* the same, or NULL: the caller's */
    double *y, *z;                /* (n_rows, cols) of the data set, where batches are gathered; else NULL */
    double *weights;              /* (n_rows) of the data set; NULL: rows count alike */
    circe__x_kernel *x_kernels;
    int64_t n_x_kernels;
    circe__previous *places;
    int64_t n_places;
    circe__x_place *x_places;
    int64_t n_x_places;
    double *widths;                      /* those of the x at work */
    const circe_measure *leader;         /* whose running widths it uses; NULL: its own */
    const circe__measure_device *device; /* NULL: rows are evaluated in host memory */
    void *on_device;                     /* the device's own */
    char text[640];
};

extern circe__measure_fn *const circe__measure_functions[CIRCE_MEASURE_KINDS];

static inline bool circe__uses(const circe_measure *m, unsigned what) { return (m->row->uses & what) != 0; }
/* Whether batches are regressed with the kernel of y, and its ridge (gcm has a linear regression as well). */
bool circe__measure_smooths(const circe_measure *m);
/* Whether z's mean in a batch measure comes from the holdout. */
bool circe__measure_holds_out(const circe_measure *m);
/* Whether it carries the batch before. */
bool circe__measure_carries(const circe_measure *m);

/* Of measures that regress a batch. */
circe_batch_options circe__measure_batch_options(const circe_measure *m);
circe_gcm_options circe__measure_gcm_options(const circe_measure *m);
circe_hsic_estimator circe__measure_hsic_estimator(const circe_measure *m);

/* Kernels of y and z, and the ridge, as far as points decide them: before the first evaluation. */
circe_status circe__measure_settle(circe_measure *m, const circe_mat *y, const circe_mat *z);
/* The kernel of this x; the measure's. */
circe_status circe__measure_kernel_x(circe_measure *m, const circe_mat *x, const circe_kernel **kernel);

/* Writes its text anew: describing.c. */
void circe__measure_describe(circe_measure *m);

/* ---- following.c: how x comes to its kernel ---------------------------------------------------------------------- */

/* Whether the width of x's kernel follows the features, as a moving average, and whether x is changed at all. */
bool circe__measure_follows(const circe_measure *m);
bool circe__measure_runs(const circe_measure *m);
bool circe__measure_scales(const circe_measure *m);
circe_scaling circe__measure_scaling(const circe_measure *m, bool frozen);
/* The place's, made if there is none yet; NULL: there is no memory. */
circe__x_place *circe__measure_x_place(circe_measure *m, int64_t place);
/* x as the kernel sees it, in the workspace, or x itself; and the gradient back. */
circe_status circe__measure_scale(circe_measure *m, int64_t place, bool in_step, const circe_mat *x, circe_mat *room,
                                  const circe_mat **scaled);
circe_status circe__measure_scale_back(circe_measure *m, const circe_mat *x, circe_mat *grad);
void circe__measure_forget_widths(circe_measure *m);
/* As a state: of running widths alone; 0 bytes: there is none. */
size_t circe__measure_widths_bytes(const circe_measure *m);
void circe__measure_get_widths(const circe_measure *m, void *state);
circe_status circe__measure_set_widths(circe_measure *m, const void *state, size_t bytes);

/* The batch before at a place (NULL: none yet), and setting it; forgetting all. */
const circe__previous *circe__measure_previous(const circe_measure *m, int64_t place);
circe_status circe__measure_remember(circe_measure *m, int64_t place, const int64_t *rows, const circe_mat *x);
void circe__measure_forget(circe_measure *m);
