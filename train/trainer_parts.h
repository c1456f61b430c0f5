/* Inside of the training loop. */
#ifndef TRAIN_TRAINER_PARTS_H
#define TRAIN_TRAINER_PARTS_H

#include "checkpoint.h"

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
    float *in, *want; /* (batch, inputs), (batch, target_cols): the batch */
    float *staging;   /* (batch, widest): a gradient on its way */
    float *m, *v;     /* (n_params) */

    /* In host memory. */
    int64_t *order;    /* (training rows): the permutation of an epoch */
    int64_t order_of;  /* which; -1: none yet */
    float *x, *grad_x; /* (batch, widest) */
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

/* One batch; and what ends an epoch: validation, history, the best epoch kept, patience. */
circe_status train_loop_step(train_loop *loop);
circe_status train_loop_end_epoch(train_loop *loop);

/* CIRCE_ERR_NUMERIC with the text `what`, where the run stands, and the last good checkpoint. */
circe_status train_loop_stop(const train_loop *loop, const char *what, bool in_step);

double train_seconds(void);

#endif
