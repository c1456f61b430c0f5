/* What all runs that train have in common: a network, its regulariser, the training, and how its prediction is judged.
 */
#ifndef CLI_EXPERIMENT_LEARNER_H
#define CLI_EXPERIMENT_LEARNER_H

#include "cli/experiment/experiment_run.h"
#include "train/trainer.h"

typedef struct experiment_learner {
    experiment_work *work;
    const char *checkpoint; /* NULL: none is kept */
    circe_context *context;
    train_device *device;
    train_network *network;
    circe_measure *regularizer; /* NULL: none */
    double share;               /* of the run that training is, for the progress */
} experiment_learner;

/* The context only, by which data may be made; `work` is borrowed. */
circe_status experiment_learner_open(experiment_work *work, experiment_learner *learner);
void experiment_learner_close(experiment_learner *learner);

/* The network of the settings for points of this shape, with weights by the seed, and the pretrained ones if any. */
circe_status experiment_learner_build(experiment_learner *learner, train_shape input);

/* The regulariser of the settings, y and z (n, 1..) of the training points and of the holdout. */
circe_status experiment_learner_regularize(experiment_learner *learner, const circe_mat *y, const circe_mat *z,
                                           const circe_mat *holdout_y, const circe_mat *holdout_z);

/* Trains as the settings say; work->stopped where it was asked to stop. With a checkpoint, goes on from it; one that is
 * damaged or of other settings is thrown away. */
circe_status experiment_learner_train(experiment_learner *learner, const train_data *data, experiment_result *result);

/* Predictions of all points, and their mean squared error and variance; prediction (n) is the caller's. */
circe_status experiment_learner_judge(experiment_learner *learner, const train_source *points, const float *target,
                                      float *prediction, double *mse, double *variance);

#endif
