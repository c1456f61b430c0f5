/* One measure, made once and evaluated many times: what a training loop, a loss, an audit and a table of all measures
 * hold.
 *
 *     circe_measure_options_init(&options, CIRCE_MEASURE_CIRCE);
 *     circe_measure_create(context, &options, &measure);
 *     circe_measure_fit(measure, &holdout_y, &holdout_z);             the mean of z given y, where the kind needs it
 *     circe_measure_bind(measure, &y, &z);                            a data set: its residual features, once
 *     circe_measure_evaluate(measure, rows, n, &x, &value, &grad);    rows of it, at every step
 *
 * The functions of circe/measure.h and circe/gcm.h compute the same from points alone. */
#ifndef CIRCE_MEASURING_H
#define CIRCE_MEASURING_H

#include "circe/gcm.h"
#include "circe/scaling.h"

CIRCE_BEGIN_DECLS

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

typedef enum circe_measure_kind {
    CIRCE_MEASURE_NONE = 0, /* the name of no measure, for those who may do without */
    CIRCE_MEASURE_CIRCE = 1,
    CIRCE_MEASURE_CIRCE_SPECTRAL = 2,
    CIRCE_MEASURE_HSIC = 3,
    CIRCE_MEASURE_HSCIC = 4,
    CIRCE_MEASURE_GCM = 5,
    CIRCE_MEASURE_KCI = 6,
    CIRCE_MEASURE_NOCCO = 7,
    CIRCE_MEASURE_KPC = 8,
    CIRCE_MEASURE_KINDS = 9, /* how many */
} circe_measure_kind;

/* What a kind makes use of. */
enum {
    CIRCE_USES_Y = 1 << 0,
    CIRCE_USES_KERNEL_X = 1 << 1,
    CIRCE_USES_KERNEL_Z = 1 << 2,   /* without one z stands for itself, and a fit has a linear kernel of z */
    CIRCE_USES_REGRESSION = 1 << 3, /* on y, by a kernel */
    CIRCE_USES_RIDGE = 1 << 4,
    CIRCE_USES_EPSILON = 1 << 5,
    CIRCE_USES_BATCH = 1 << 6,   /* the measured rows are regressed on themselves */
    CIRCE_USES_MEAN = 1 << 7,    /* the conditional mean of z from rows that are not measured */
    CIRCE_MAY_USE_MEAN = 1 << 8, /* the same where regress_z_on_holdout */
    CIRCE_USES_GCM = 1 << 9,     /* gcm_regression and gcm_combine */
    CIRCE_USES_ESTIMATOR = 1 << 10,
};

/* A form of a measure. */
typedef struct circe_measure_form {
    const char *name; /* NULL: there are no more */
    circe_estimator estimator;
    int64_t least; /* rows it needs */
} circe_measure_form;

/* One row of the table of measures. */
typedef struct circe_measure_row {
    const char *name;
    unsigned uses;
    circe_measure_form forms[5]; /* the last one is empty; none: there is nothing to choose, and 2 rows are enough */
    int usual_form;              /* its number, from 1, for a value that is to be read; 0: there is nothing to choose */
    double matrices;             /* of all pairs of rows, held at once; 0: none, but some hundred numbers a row */
    int64_t most_rows; /* beyond these its time, which grows with their cube, is felt; 0: it does not grow so */
} circe_measure_row;

/* NULL: there is no such kind. */
CIRCE_API const circe_measure_row *circe_measure_row_of(circe_measure_kind kind);
CIRCE_API const char *circe_measure_name(circe_measure_kind kind);
/* A circe_measure_kind; -1: there is none of that name. */
CIRCE_API int circe_measure_find(const char *name);

/* ---- life -------------------------------------------------------------------------------------------------------- */

typedef struct circe_measure circe_measure;

/* Widths of x's kernel that are no numbers. Those that follow the features are for the factors of x's kernel that have
 * no width, gaussian and laplace; linear and delta have none, and gcm has no kernel of x: there they mean nothing. */
#define CIRCE_SIGMA2_FIRST 0.0      /* the median heuristic on the first x of so many columns, kept from then on */
#define CIRCE_SIGMA2_MEDIAN (-1.0)  /* that of each batch (circe/scaling.h) */
#define CIRCE_SIGMA2_RUNNING (-2.0) /* a moving average of those, by place */

/* Kernels are given bound or free, as objects or as texts for circe_kernel_parse. Free widths are those of sigma2. */
typedef struct circe_measure_options {
    circe_measure_kind kind;
    circe_estimator estimator;                  /* circe; hsic: biased or ustat */
    circe_kernels kernels;                      /* copied; NULL: those of the texts */
    const char *kernel_x, *kernel_y, *kernel_z; /* NULL: gaussian */
    double sigma2_x;                            /* positive, or one of the above */
    circe_normalize normalize_x;                /* before the kernel; not for gcm */
    const double *sigma2_y; /* grid, of which leave-one-out chooses in a fit; n = 0: the library's, or the median */
    int64_t n_sigma2_y;
    double sigma2_z;   /* 0: the median heuristic on the first z */
    int per_dimension; /* widths given are for distances averaged over columns: sigma2 is multiplied by their number */
    const double *ridge; /* grid, as sigma2_y; n = 0: the library's */
    int64_t n_ridge;
    double epsilon;      /* of nocco and kpc */
    circe_method method; /* of the conditional mean, and of regressions of the batch; rff: for circe */
    double tolerance;    /* of low rank, in batches; 0: what the dtype needs */
    int64_t rff_features;
    circe_dtype dtype;        /* of the work on a batch: an x of float32 is measured in float64 where it says so */
    int regress_z_on_holdout; /* hscic, gcm; circe always does */
    circe_gcm_regression gcm_regression;
    circe_gcm_combine gcm_combine;
    double gcm_sharpness;
    int gcm_previous_batch; /* regress x on the batch before, so that no gradient flows through the regression */
    uint64_t seed;
} circe_measure_options;

/* What training takes: ustat, float32, the width of x the median of the batch, that of z 1 times its columns, gcm on
 * the batch before. */
CIRCE_API void circe_measure_options_init(circe_measure_options *options, circe_measure_kind kind);

/* Copies what it needs of the options. */
CIRCE_API circe_status circe_measure_create(circe_context *context, const circe_measure_options *options,
                                            circe_measure **measure);
CIRCE_API void circe_measure_destroy(circe_measure *measure);

/* Processes that measure the same batches together from now on, where the kind knows how (circe with residual features
 * in coordinates); NULL: alone. See circe_workspace_set_ranks. */
CIRCE_API void circe_measure_set_ranks(circe_measure *measure, const circe_ranks *ranks);

/* ---- what it learns from ----------------------------------------------------------------------------------------- */

/* Settles the width of z's kernel now, from these points, where the median heuristic is to choose it: for callers whose
 * fit and data set differ. */
CIRCE_API circe_status circe_measure_settle_z(circe_measure *measure, const circe_mat *z);

/* Learns from rows that are not measured: the conditional mean of z, where the kind uses it, and width of y and ridge,
 * where there is a grid of either. Nothing is done where nothing is to be learned. */
CIRCE_API circe_status circe_measure_fit(circe_measure *measure, const circe_mat *y, const circe_mat *z);

/* The same from a model, which must outlive the measure: its mean, and what the options leave open of kernels and
 * ridge. */
CIRCE_API circe_status circe_measure_set_mean(circe_measure *measure, const circe_cme *mean);

/* y (N, d_y) and z (N, d_z) of a data set, in host memory; what is needed of them is copied. Of kinds that do not use
 * it y may have no columns. Binding again forgets the data set before. */
CIRCE_API circe_status circe_measure_bind(circe_measure *measure, const circe_mat *y, const circe_mat *z);

/* For circe, a data set by its residual features, which must outlive the measure and be of the mean that it was given.
 * Its batches leave no figures where x comes with widths and is not normalised. */
CIRCE_API circe_status circe_measure_bind_features(circe_measure *measure, const circe_features *features);

/* A measure with the kernels, the widths and the mean of another, which must outlive it; to be bound to other points.
 * It carries nothing from batch to batch. */
CIRCE_API circe_status circe_measure_like(const circe_measure *other, circe_measure **measure);

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Value and gradient (NULL: not wanted; of the dtype of x) of x (n, d) for the rows rows[0..n) of the data set; NULL:
 * all of them. Allocates nothing from the second batch of a size on (circe-spectral: LAPACK does). */
CIRCE_API circe_status circe_measure_evaluate(circe_measure *measure, const int64_t *rows, int64_t n,
                                              const circe_mat *x, double *value, circe_mat *grad);
/* The same for one of several x (layers of a network): `place` (0, 1, ...) keeps apart what they carry from batch to
 * batch, and `step` counts the batches (method rff draws by it). The other is that of place 0 and step 0. */
CIRCE_API circe_status circe_measure_evaluate_at(circe_measure *measure, int64_t place, int64_t step,
                                                 const int64_t *rows, int64_t n, const circe_mat *x, double *value,
                                                 circe_mat *grad);

/* Of points that are not bound, in host memory and in the dtype of x, without a trace in the state: gcm regresses them
 * on themselves, circe uses no random features where it has fitted the mean itself, and a running width is the one that
 * the batches left (of place 0 where none is named). */
CIRCE_API circe_status circe_measure_points(circe_measure *measure, const circe_mat *x, const circe_mat *y,
                                            const circe_mat *z, double *value, circe_mat *grad);
CIRCE_API circe_status circe_measure_points_at(circe_measure *measure, int64_t place, const circe_mat *x,
                                               const circe_mat *y, const circe_mat *z, double *value, circe_mat *grad);

/* ---- what the batches were like ---------------------------------------------------------------------------------- */

/* Means over the batches of a place since the last call. */
typedef struct circe_x_figures {
    int64_t batches;
    double mean_kernel; /* of k(x_i, x_j), i != j; near 0 or 1 the measure sees nothing. NaN: the kernel has no width */
    double spread;      /* the standard deviation of x */
    double sigma2;      /* of the last batch, of the first factor that has a width; NaN: there is none */
} circe_x_figures;

/* On a GPU this waits for what is queued. */
CIRCE_API circe_status circe_measure_figures(circe_measure *measure, int64_t place, circe_x_figures *figures);

/* ---- what it carries, what it is --------------------------------------------------------------------------------- */

/* What it carries from batch to batch (gcm: the x and rows of the batch before; a running width), for checkpoints. */
CIRCE_API circe_status circe_measure_state_bytes(circe_measure *measure, size_t *bytes);
CIRCE_API circe_status circe_measure_get_state(const circe_measure *measure, void *state);
/* 0 bytes: it carries nothing. CIRCE_ERR_FORMAT where the state is damaged or of another measure. */
CIRCE_API circe_status circe_measure_set_state(circe_measure *measure, const void *state, size_t bytes);

/* The conditional mean in use, or NULL; and the choices made, as a sentence for people. The measure may be NULL. */
CIRCE_API const circe_cme *circe_measure_mean(const circe_measure *measure);
CIRCE_API const char *circe_measure_text(const circe_measure *measure);

CIRCE_END_DECLS

#endif
