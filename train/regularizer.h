/* gamma times this is added to the loss: a measure of how much a layer's output x depends on z given y, on the batch.
 * One table of kinds; another measure is another row. Host memory, float32 features, measured in float32 or float64. */
#ifndef TRAIN_REGULARIZER_H
#define TRAIN_REGULARIZER_H

#include <stdbool.h>

#include "circe/circe.h"

typedef enum train_regularizer_kind {
    TRAIN_REG_NONE = 0,
    TRAIN_REG_CIRCE = 1,
    TRAIN_REG_HSCIC = 2,
    TRAIN_REG_GCM = 3,
    TRAIN_REG_HSIC = 4,
} train_regularizer_kind;

const char *train_regularizer_name(train_regularizer_kind kind);
/* -1: there is none of that name. */
int train_regularizer_find(const char *name);

typedef struct train_regularizer_options {
    train_regularizer_kind kind;
    circe_estimator estimator; /* circe; hsic takes biased or unbiased (ustat) from it too */
    double sigma2_x;           /* of the gaussian kernel of x; times the columns of x where per_dimension */
    const double *sigma2_y; /* grid; n = 0: the library's. hscic, gcm: leave-one-out on the holdout chooses as well */
    int64_t n_sigma2_y;
    double sigma2_z; /* 0: the median heuristic */
    const double *ridge;
    int64_t n_ridge;
    bool per_dimension;  /* widths are for distances averaged over columns: sigma2 is multiplied by their number */
    circe_method method; /* of the conditional mean; rff: the paper's algorithm 2 */
    circe_dtype dtype;   /* of the work on a batch, whose features and gradient are float32 either way */
    int64_t rff_features;
    bool regress_z_on_holdout; /* hscic, gcm; circe always does */
    circe_gcm_regression gcm_regression;
    circe_gcm_combine gcm_combine;
    bool gcm_previous_batch; /* regress x on the previous batch, so that no gradient flows through the regression */
    const char *kernel_y, *kernel_z; /* texts for circe_kernel_parse; NULL: gaussian */
    uint64_t seed;
} train_regularizer_options;

void train_regularizer_options_init(train_regularizer_options *options);

typedef struct train_regularizer train_regularizer;

/* y, z of the training rows (whose residual features are kept) and of the holdout. Copies what it needs. The holdout
 * may have no rows where the kind needs none: hsic, and hscic and gcm with one sigma2_y and one ridge. Kind none gives
 * NULL, which is no failure. */
circe_status train_regularizer_create(circe_context *context, const train_regularizer_options *options,
                                      const circe_mat *y, const circe_mat *z, const circe_mat *holdout_y,
                                      const circe_mat *holdout_z, train_regularizer **regularizer);
void train_regularizer_destroy(train_regularizer *regularizer);

/* Batches are measured by a company of processes together from now on, where the kind knows how; NULL: alone. Every
 * process must be told, and measure the same batches. */
void train_regularizer_set_company(train_regularizer *regularizer, const circe_company *company);

/* Value and gradient (NULL: not wanted) for training rows index[0..n), x (n, d) float32; `step` counts the batches
 * (redraws of rff). */
circe_status train_regularizer_batch(train_regularizer *regularizer, int64_t step, const int64_t *index, int64_t n,
                                     const circe_mat *x, double *value, circe_mat *grad);
/* The same for one of several layers: `place` (0, 1, ...) keeps apart what they carry from batch to batch. The other is
 * that of place 0. */
circe_status train_regularizer_batch_at(train_regularizer *regularizer, int64_t place, int64_t step,
                                        const int64_t *index, int64_t n, const circe_mat *x, double *value,
                                        circe_mat *grad);

/* Value on other points, x of either dtype, without a trace in the state: gcm regresses them on themselves, and circe
 * uses no random features. */
circe_status train_regularizer_value(train_regularizer *regularizer, const circe_mat *x, const circe_mat *y,
                                     const circe_mat *z, double *value);

/* What it carries from batch to batch (gcm: the previous batch's x and index), for checkpoints: bytes of state and how
 * to get and set it. */
size_t train_regularizer_state_bytes(const train_regularizer *regularizer);
void train_regularizer_get_state(const train_regularizer *regularizer, void *state);
circe_status train_regularizer_set_state(train_regularizer *regularizer, const void *state, size_t bytes);

/* The fitted conditional mean, or NULL; and the choices made, as a sentence for people. */
const circe_cme *train_regularizer_cme(const train_regularizer *regularizer);
const char *train_regularizer_text(const train_regularizer *regularizer);

#endif
