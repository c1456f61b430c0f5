/* The training loop: loss + gamma * regulariser, AdamW, cosine schedule, early stopping, checkpoints. One loop for
 * tables and images, on any device. */
#pragma once

#include "train/network_predict.h"
#include "train/regularizer.h"
#include "train/schedule.h"
#include "train/train_ranks.h"

/* Points in host memory. What the network sees of them (source.h: train_source_floats of a table's matrix, or images)
 * and target (n, outputs, or 1 class) float32; y and z, float64 or float32, are what the regulariser sees; they may
 * have no columns without one. */
typedef struct train_data {
    train_source features;
    circe_mat target, y, z;
    const float *weight; /* (n), at least 0 and 1 on average: what each row counts in the loss; NULL: 1 */
} train_data;

typedef struct train_progress train_progress;

enum { TRAIN_MOST_QUEUED = 64 };

typedef struct train_options {
    train_loss_kind loss;
    int64_t epochs, batch;
    int64_t steps; /* of the whole run, in place of `epochs`: the last epoch may be a part of one; 0: whole epochs */
    double rate, decay, beta1, beta2, epsilon;
    double warmup_epochs; /* of the learning rate */
    int cosine;
    double gamma;
    double gamma_warmup_epochs;
    const int64_t *layers; /* whose outputs are regularised (the sum counts); n = 0: the prediction */
    int64_t n_layers;
    int64_t validate_every; /* epochs from one validation to the next; the last epoch always has one */
    int64_t patience;       /* epochs without a better validation loss before it stops; 0: never */
    uint64_t seed;          /* order of the batches: epoch e is a permutation by (seed, e) */
    const char *checkpoint; /* file; NULL: none. Written at the end and when progress stops the run as well */
    int64_t checkpoint_epochs;
    double checkpoint_minutes;
    const char *fingerprint;  /* of data and settings: a checkpoint of another one is refused */
    int resume;               /* continue from the checkpoint if there is one */
    const train_ranks *ranks; /* of processes, each of which calls train_run; NULL: this one alone */
    int unrecorded;           /* never record a step to queue it again, on devices that can; gives the same bits */
    /* Called after every step and every epoch; non-zero stops: a checkpoint is written first. On a device that queues
     * its work, after some steps at once (TRAIN_MOST_QUEUED) where the regulariser is computed there. */
    int (*progress)(void *user, const train_progress *progress);
    void *user;
} train_options;

void train_options_init(train_options *options);

/* One row of the history, an epoch: means over its batches. Without validation its numbers are NaN. */
typedef struct train_epoch {
    double loss, regularizer, validation_loss, validation_regularizer, rate, gamma, seconds;
    double mean_kernel; /* of k(x_i, x_j) at the regularised layer where it is furthest from 1/2; NaN: not known */
    double spread;      /* the features' standard deviation there */
} train_epoch;

struct train_progress {
    int64_t epoch, epochs, step, steps;             /* done in all, and of the whole run */
    int64_t batch, batches;                         /* done of the epoch, and of a whole one */
    double loss, regularizer;                       /* of the last batch */
    double validation_loss, validation_regularizer; /* the last there are; NaN before the first */
    double rate, gamma, seconds;
    const train_epoch *history; /* (epoch), also of epochs before the run was resumed */
    bool epoch_ended;
};

typedef struct train_result {
    train_epoch *history; /* (epochs_done), owned */
    int64_t epochs_done, steps_done;
    int64_t best_epoch; /* row of history with the least validation loss + gamma * regulariser; -1: none */
    bool stopped_early; /* patience */
    bool interrupted;   /* the callback asked for it */
    bool resumed;
    double seconds;
    double regularizer_seconds; /* its share of them */
} train_result;

/* Trains in place; the network ends with the parameters of the best validation epoch where patience > 0, else the last;
 * an interrupted run (CIRCE_OK, result->interrupted) with those of its last step. Epochs are whole batches: rows left
 * over sit out. validation may have no rows, or be NULL. Its loss is that of all its rows, its regulariser the mean
 * over whole chunks of a batch's size; while gamma warms up, no epoch is the best one. CIRCE_ERR_NUMERIC if the loss
 * is no longer finite: the text names the step, the batch and the last checkpoint.
 *
 * By several ranks: `data` are this process's slice (train_ranks_slice) of the training rows; the regulariser is of all
 * training rows in every process, and so are the validation rows, network and options. Batches are those of one
 * process, cut into slices; the result is that of one process to rounding, the same in every process. Only process 0
 * reads and writes checkpoints, and those are of any number of processes. On the CPU. */
circe_status train_run(train_network *network, circe_measure *regularizer, const train_data *data,
                       const train_data *validation, const train_options *options, train_result *result);
void train_result_free(train_result *result);
