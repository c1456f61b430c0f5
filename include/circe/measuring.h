/* One measure, created once and evaluated many times, for training loops, losses, audits and tables of all measures.
 *
 *     circe_measure_options_init(&options, CIRCE_MEASURE_CIRCE);
 *     circe_measure_create(context, &options, &measure);
 *     circe_measure_fit(measure, &holdout_y, &holdout_z);             // learns the mean of z given y, if needed
 *     circe_measure_bind(measure, &y, &z);                            // once per data set
 *     circe_measure_evaluate(measure, rows, n, &x, &value, &grad);    // at every step, for rows of the data set
 *
 * The functions of circe/measure.h and circe/gcm.h compute the same from points alone. */
#ifndef CIRCE_MEASURING_H
#define CIRCE_MEASURING_H

#include "circe/gcm.h"
#include "circe/scaling.h"

CIRCE_BEGIN_DECLS

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

typedef enum circe_measure_kind {
    CIRCE_MEASURE_NONE = 0, /* no measure */
    CIRCE_MEASURE_CIRCE = 1,
    CIRCE_MEASURE_CIRCE_SPECTRAL = 2,
    CIRCE_MEASURE_HSIC = 3,
    CIRCE_MEASURE_HSCIC = 4,
    CIRCE_MEASURE_GCM = 5,
    CIRCE_MEASURE_KCI = 6,
    CIRCE_MEASURE_NOCCO = 7,
    CIRCE_MEASURE_KPC = 8,
    CIRCE_MEASURE_KINDS, /* how many */
} circe_measure_kind;

/* What a kind uses. */
enum {
    CIRCE_USES_Y = 1 << 0,
    CIRCE_USES_KERNEL_X = 1 << 1,
    CIRCE_USES_KERNEL_Z = 1 << 2,   /* without it, z is used as it is, and a fit uses a linear kernel of z */
    CIRCE_USES_REGRESSION = 1 << 3, /* on y, by a kernel */
    CIRCE_USES_RIDGE = 1 << 4,
    CIRCE_USES_EPSILON = 1 << 5,
    CIRCE_USES_BATCH = 1 << 6,   /* the measured rows are regressed on themselves */
    CIRCE_USES_MEAN = 1 << 7,    /* the conditional mean of z, learned from rows that are not measured */
    CIRCE_MAY_USE_MEAN = 1 << 8, /* the same, if regress_z_on_holdout is set */
    CIRCE_USES_GCM = 1 << 9,     /* gcm_regression and gcm_combine */
    CIRCE_USES_ESTIMATOR = 1 << 10,
};

/* A form of a measure. */
typedef struct circe_measure_form {
    const char *name; /* NULL ends the list */
    circe_estimator estimator;
    int64_t least; /* the smallest number of rows */
} circe_measure_form;

/* One row of the table of measures. */
typedef struct circe_measure_row {
    const char *name;
    unsigned uses;
    circe_measure_form forms[5]; /* ends with an empty one; all empty: one form, for 2 rows or more */
    int usual_form;              /* the form that `circe measure` uses, counted from 1; 0: the measure has one form */
    double matrices;   /* n by n matrices in memory at the same time; 0: none, only a few hundred numbers per row */
    int64_t most_rows; /* above this number of rows the measure is slow: its time is cubic in the rows; 0: it is not */
} circe_measure_row;

/* Returns NULL if there is no such kind. */
CIRCE_API const circe_measure_row *circe_measure_row_of(circe_measure_kind kind);
/* Its name in options and texts. */
CIRCE_API const char *circe_measure_name(circe_measure_kind kind);
/* Returns a circe_measure_kind, or -1 if no kind has this name. */
CIRCE_API int circe_measure_find(const char *name);

/* ---- life -------------------------------------------------------------------------------------------------------- */

typedef struct circe_measure circe_measure;

/* Values of sigma2_x that are not widths but say how to choose one. They apply to the gaussian and laplace factors of
 * x's kernel that have no width, and have no effect for linear and delta factors or for gcm. */
#define CIRCE_SIGMA2_FIRST 0.0     /* the median heuristic on the first batch with that number of columns, then fixed */
#define CIRCE_SIGMA2_MEDIAN (-1.0) /* the median heuristic on each batch (circe/scaling.h) */
#define CIRCE_SIGMA2_RUNNING (-2.0) /* a moving average of these medians, one per place */

/* Kernels are objects, or texts for circe_kernel_parse. If a kernel has no width, it gets the one of sigma2_x, sigma2_y
 * or sigma2_z. */
typedef struct circe_measure_options {
    circe_measure_kind kind;
    circe_estimator estimator;                  /* for circe, and for hsic (biased or ustat) */
    circe_kernels kernels;                      /* copied; NULL: use the texts */
    const char *kernel_x, *kernel_y, *kernel_z; /* NULL: gaussian */
    double sigma2_x;                            /* positive, or one of the constants above */
    circe_normalize normalize_x;                /* applied before the kernel; not for gcm */
    const double *sigma2_y; /* grid from which leave-one-out chooses in a fit; n = 0: the default grid, or the median */
    int64_t n_sigma2_y;
    double sigma2_z;     /* 0: the median heuristic on the first z */
    int per_dimension;   /* multiply every sigma2 by its number of columns: distances are averaged over columns */
    const double *ridge; /* grid, like sigma2_y; n = 0: the default grid */
    int64_t n_ridge;
    double epsilon;      /* for nocco and kpc */
    circe_method method; /* for the conditional mean and for regressions of the batch; rff is for circe only */
    double tolerance;    /* of low-rank factors in batches; 0: what the dtype needs */
    int64_t rff_features;
    circe_dtype dtype;        /* of the work on a batch; with float64, an x in float32 is also measured in float64 */
    int regress_z_on_holdout; /* for hscic and gcm; circe always does so */
    circe_gcm_regression gcm_regression;
    circe_gcm_combine gcm_combine;
    double gcm_sharpness;
    int gcm_previous_batch; /* regress x on the previous batch, so that no gradient flows through the regression */
    uint64_t seed;
    circe_workspace *workspace; /* the caller's scratch memory, which must outlive the measure; NULL: its own */
} circe_measure_options;

/* The settings of training: ustat, float32, sigma2_x from the median of each batch, sigma2_z 1 times the columns of z,
 * and gcm regressed on the previous batch. */
CIRCE_API void circe_measure_options_init(circe_measure_options *options, circe_measure_kind kind);

/* Copies what it needs of the options. */
CIRCE_API circe_status circe_measure_create(circe_context *context, const circe_measure_options *options,
                                            circe_measure **measure);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_measure_destroy(circe_measure *measure);

/* From now on, the ranks measure each batch together if the kind supports it (circe, with residual features in
 * coordinates). NULL: this process measures alone. See circe_workspace_set_ranks. */
CIRCE_API void circe_measure_set_ranks(circe_measure *measure, const circe_ranks *ranks);

/* What each row of the next circe_measure_fit, circe_measure_bind, circe_measure_bind_features or circe_measure_points
 * counts: n numbers, at least 0, of which only the ratios matter; a row of weight 0 is as good as left out. They are
 * copied, and serve one call; those of a data set stay with it. Also of the rows of the next circe_measure_evaluate, if
 * the data set has none. NULL: rows count alike. docs/math.md says what a weighted measure is. A GPU takes no
 * weights. In circe_measure_evaluate, a batch with fewer than four rows of positive weight has the value 0. */
CIRCE_API circe_status circe_measure_set_weights(circe_measure *measure, const double *weights, int64_t n);
/* Whether the rows of its data set have weights. */
CIRCE_API int circe_measure_has_weights(const circe_measure *measure);

/* ---- what it learns from ----------------------------------------------------------------------------------------- */

/* If the median heuristic chooses the width of z's kernel, chooses it now, from these points. For callers whose fit and
 * data set differ. */
CIRCE_API circe_status circe_measure_settle_z(circe_measure *measure, const circe_mat *z);

/* Uses a copy of this kernel for x from now on. For callers that choose its width themselves, batch by batch. Has no
 * effect if the kind has no kernel of x. */
CIRCE_API circe_status circe_measure_set_kernel_x(circe_measure *measure, const circe_kernel *kernel);

/* Learns from rows that are not measured: the conditional mean of z if the kind uses it, and the width of y and the
 * ridge if they have grids. Does nothing if there is nothing to learn. */
CIRCE_API circe_status circe_measure_fit(circe_measure *measure, const circe_mat *y, const circe_mat *z);

/* Takes the conditional mean from a model, which must outlive the measure, and also the kernels and the ridge that the
 * options leave open. */
CIRCE_API circe_status circe_measure_set_mean(circe_measure *measure, const circe_cme *mean);

/* y (N, d_y) and z (N, d_z) of a data set, in host memory; what is needed is copied. y may have no columns if the kind
 * does not use it. Binding again replaces the data set. */
CIRCE_API circe_status circe_measure_bind(circe_measure *measure, const circe_mat *y, const circe_mat *z);

/* For circe: binds the residual features of a data set. They must outlive the measure and belong to its mean. Batches
 * leave no figures if x's kernel has a width and x is not normalised. */
CIRCE_API circe_status circe_measure_bind_features(circe_measure *measure, const circe_features *features);

/* Creates a measure with the kernels, widths and mean of another, which must outlive it, to be bound to other points.
 * It carries nothing from batch to batch. */
CIRCE_API circe_status circe_measure_like(const circe_measure *other, circe_measure **measure);

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Computes value and gradient (NULL: no gradient; otherwise in the dtype of x) of x (n, d) for the rows rows[0..n) of
 * the data set; rows NULL: all rows. From the second batch of a size on, it allocates nothing, except for
 * circe-spectral, where LAPACK does. */
CIRCE_API circe_status circe_measure_evaluate(circe_measure *measure, const int64_t *rows, int64_t n,
                                              const circe_mat *x, double *value, circe_mat *grad);
/* The same for one of several x (layers of a network). Each `place` (0, 1, ...) has its own state from batch to batch.
 * `step` counts the batches; method rff draws by it. circe_measure_evaluate uses place 0 and step 0. */
CIRCE_API circe_status circe_measure_evaluate_at(circe_measure *measure, int64_t place, int64_t step,
                                                 const int64_t *rows, int64_t n, const circe_mat *x, double *value,
                                                 circe_mat *grad);

/* Measures points that are not bound, in host memory and in the dtype of x, without changing the state. gcm regresses
 * them on themselves; circe uses no random features if it fitted the mean itself; a running width keeps its current
 * value (of place 0 in circe_measure_points). */
CIRCE_API circe_status circe_measure_points(circe_measure *measure, const circe_mat *x, const circe_mat *y,
                                            const circe_mat *z, double *value, circe_mat *grad);
/* The same with the running width of this place. */
CIRCE_API circe_status circe_measure_points_at(circe_measure *measure, int64_t place, const circe_mat *x,
                                               const circe_mat *y, const circe_mat *z, double *value, circe_mat *grad);

/* ---- figures of the batches ---------------------------------------------------------------------------------- */

/* Means over the batches at a place since the last call. */
typedef struct circe_x_figures {
    int64_t batches;
    double mean_kernel; /* of k(x_i, x_j), i != j; near 0 or 1, the measure sees nothing. NaN: no width */
    double spread;      /* the standard deviation of x */
    double sigma2;      /* in the last batch, of the first factor with a width; NaN: no factor has one */
} circe_x_figures;

/* On a GPU, this waits for the queued work. */
CIRCE_API circe_status circe_measure_figures(circe_measure *measure, int64_t place, circe_x_figures *figures);

/* ---- state and description --------------------------------------------------------------------------------- */

/* What the measure carries from batch to batch, for checkpoints: a running width and, for gcm, x and rows of the
 * previous batch. */
CIRCE_API circe_status circe_measure_state_bytes(circe_measure *measure, size_t *bytes);
/* Writes the state: as many bytes as circe_measure_state_bytes says. */
CIRCE_API circe_status circe_measure_get_state(const circe_measure *measure, void *state);
/* 0 bytes: the measure carries nothing. Returns CIRCE_ERR_FORMAT if the state is damaged or belongs to another
 * measure. */
CIRCE_API circe_status circe_measure_set_state(circe_measure *measure, const void *state, size_t bytes);

/* The conditional mean in use, or NULL; and a sentence that describes the choices made. The measure may be NULL. */
CIRCE_API const circe_cme *circe_measure_mean(const circe_measure *measure);
/* A sentence that describes the choices made. */
CIRCE_API const char *circe_measure_text(const circe_measure *measure);

CIRCE_END_DECLS

#endif
