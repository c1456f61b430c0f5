/* Inside of the training loop. */
#ifndef TRAIN_TRAINER_PARTS_H
#define TRAIN_TRAINER_PARTS_H

#include "checkpoint.h"
#include "measures.h"

/* A layer whose output is regularised. */
typedef struct train_place {
    int64_t layer, cols;
    float *tap; /* where its gradient goes, in the device's memory; NULL: the output's own */
} train_place;

/* Points as the device holds them. */
typedef struct train_rows {
    int64_t n;
    train_source_handle *features; /* (n, inputs) once they are gathered */
    float *target;                 /* (n, target_cols), in the device's memory */
} train_rows;

/* What a step is told. Those of a whole epoch lie in the device's memory, one after the other, and the device takes the
 * next one itself: so every step is the same work, and can be recorded. */
typedef struct train_batch {
    train_adamw adamw;
    double gamma;
    int64_t index[]; /* (batch): training rows */
} train_batch;

typedef struct train_loop {
    train_network *network;
    train_device *device;
    train_regularizer *regularizer; /* NULL: none */
    const train_data *data, *validation;
    const train_options *options;
    train_identity identity;
    int64_t inputs, outputs, target_cols, n_params, n_buffers;
    int64_t batches;       /* of a whole epoch */
    int64_t epochs, steps; /* of the whole run */
    train_schedule rate, gamma;
    train_place *places;
    int64_t n_places, widest; /* widest: most columns of them */

    /* In the device's memory. */
    train_rows training, checking;
    float *in, *want;       /* (batch, inputs), (batch, target_cols): the batch */
    float *staging;         /* (batch, widest): a gradient on its way */
    float *m, *v;           /* (n_params) */
    void *told;             /* (batches) train_batch, of batch_bytes each: the epoch's */
    train_batch *now;       /* the one at work */
    int64_t *turn;          /* its number */
    double *values, *noted; /* (n_values), (batches, n_values): loss, then the regulariser at each place */

    /* In host memory. */
    size_t batch_bytes;
    int64_t n_values;
    int64_t *order;                   /* (training rows): the permutation of an epoch */
    int64_t told_of;                  /* the epoch that the device was told of; -1: none yet */
    char *telling[2];                 /* (batches): `told`, of the epoch under way and of the next */
    int64_t tells[2];                 /* which epochs; -1: none yet */
    double *seen;                     /* (batches, n_values): `noted` */
    const train_measure_ops *measure; /* NULL: there is no regulariser */
    train_measures *measures;
    train_recording *recording; /* a step; NULL: none yet */
    bool warm;                  /* a step was taken, so that nothing is left to be allocated */
    train_state state;
    int64_t ended;            /* batches of the last epoch that ended */
    double clock;             /* when the state's seconds were last counted */
    int64_t saved, saved_end; /* steps and epochs of the last good checkpoint; -1: there is none */
    double saved_clock;
} train_loop;

/* Batches of the epoch under way: fewer where the run ends within it. */
static inline int64_t train_loop_batches(const train_loop *loop) {
    int64_t left = loop->steps - loop->state.now.epochs * loop->batches;
    return left < loop->batches ? left : loop->batches;
}

/* Checks what was given, and makes the loop; free it in any case. */
circe_status train_loop_open(train_loop *loop);
void train_loop_close(train_loop *loop);

/* One batch, or some where the device queues them; and what ends an epoch: validation, history, the best epoch kept,
 * patience. */
circe_status train_loop_steps(train_loop *loop);
circe_status train_loop_end_epoch(train_loop *loop);

/* CIRCE_ERR_NUMERIC with the text `what`, where the run stands, and the last good checkpoint. */
circe_status train_loop_stop(const train_loop *loop, const char *what, bool in_step);

double train_seconds(void);

#endif
