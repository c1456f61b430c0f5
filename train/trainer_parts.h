/* Inside of the training loop. */
#pragma once

#include "base/clock.h"
#include "train/checkpoint.h"
#include "train/train_measures.h"
#include "train/train_ranks.h"

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
    float *weight;                 /* (n), there too; NULL: all 1 */
} train_rows;

/* The parameters of a step. Those of a whole epoch are in the device's memory, one after the other, and the device
 * takes the next one by itself. So every step is the same work and can be recorded. */
typedef struct train_batch {
    train_adamw adamw;
    double gamma;
    double pull;     /* what the regulariser's gradient counts here: gamma, times batch / rows of this process */
    int64_t index[]; /* (batch): training rows */
} train_batch;

/* What one process may want of all. */
typedef enum train_wish { TRAIN_WISH_STOP, TRAIN_WISH_SAVE, TRAIN_N_WISHES } train_wish;

/* This process's part of the run (trainer_ranks.c); alone it has all of it. */
typedef struct train_share {
    const train_ranks *ranks;  /* NULL: alone, and nothing below `weight` is there */
    int64_t own, first, total; /* training rows that it holds, which is the first, and of all processes */
    int64_t rows, from;        /* of a batch: those it takes, and which is the first */
    int64_t most;              /* that any process takes */
    double weight;             /* rows / batch */
    /* Rows of the epoch under way: batches by `rows`, in order. */
    train_source source;
    char *values;                       /* as the source stores them */
    int8_t *shift;                      /* NULL: there are none */
    float *target;                      /* (target_cols) each; a copy is in the device's memory */
    float *count;                       /* the rows' weights, of which a copy is there too; NULL: all 1 */
    int64_t *index;                     /* 0, 1, 2, ..., in the device's memory */
    float *staging;                     /* (n_params + n_buffers): on their way from the device and to it */
    char *out, *in;                     /* records on their way */
    size_t record;                      /* bytes of one */
    size_t *bytes;                      /* (3, processes): to whom, from whom, and how far it was read */
    int64_t waiting_first, waiting_end; /* gradients that are final and not yet sent off */
    double *sums;                       /* (n_values + wishes + 1), and n_values as they were here */
    bool wishes[TRAIN_N_WISHES], granted[TRAIN_N_WISHES];
} train_share;

typedef struct train_loop {
    train_network *network;
    train_device *device;
    circe_measure *regularizer; /* NULL: none */
    const train_data *data, *validation;
    const train_options *options;
    train_identity identity;
    train_share share;
    int64_t inputs, outputs, target_cols, n_params, n_buffers;
    int64_t batches;       /* of a whole epoch */
    int64_t epochs, steps; /* of the whole run */
    train_schedule rate, gamma;
    train_place *places;
    int64_t n_places, widest; /* widest: most columns of them */

    /* In the device's memory. */
    train_rows training, checking;
    float *in, *want;       /* (rows, inputs), (rows, target_cols): of the batch */
    float *count;           /* (rows): weights of the batch; NULL: all 1 */
    float *staging;         /* (rows, widest): a gradient on its way */
    float *m, *v;           /* (n_params) */
    void *told;             /* (batches) train_batch, of batch_bytes each: the epoch's */
    train_batch *now;       /* the one at work */
    int64_t *turn;          /* its number */
    double *values, *noted; /* (n_values), (batches, n_values): loss, then the regulariser at each place */

    /* In host memory. */
    size_t batch_bytes;
    int64_t n_values;
    int64_t *order;             /* (training rows): the permutation of an epoch */
    int64_t told_of;            /* the epoch that the device was told of; -1: none yet */
    char *telling[2];           /* (batches): `told`, of the epoch under way and of the next */
    int64_t tells[2];           /* which epochs; -1: none yet */
    double *seen;               /* (batches, n_values): `noted` */
    train_measures *measures;   /* NULL: there is no regulariser */
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

/* ---- several processes (trainer_ranks.c); alone, these do nothing -------------------------------------------------
 */

/* The first failure of any, everywhere. */
circe_status train_loop_agree(const train_loop *loop, circe_status status);
/* After a failure in the middle of a step, which the other processes cannot know about: ends all of them. */
circe_status train_loop_lost(const train_loop *loop, circe_status status);

/* Plans which process takes which rows; creates buffers, and the source that batches are gathered from. */
circe_status train_share_plan(train_loop *loop);
circe_status train_share_open(train_loop *loop);
void train_share_close(train_loop *loop);
/* Of all training data, whoever holds them. */
uint64_t train_share_hash(const train_loop *loop);
/* The rows of the epoch whose order was just drawn to those who train on them. */
void train_share_deal(train_loop *loop);
/* Backward, with the gradients' sums begun on the way; their end, and the sums of the values. */
circe_status train_share_backward(train_loop *loop);
void train_share_sum(train_loop *loop);
void train_share_sum_validation(train_loop *loop, double *loss, double *regularizer);
/* Whether all do what some wanted when the last sums were made; this process wants it too from now on, or not. Alone:
 * `wanted`. */
bool train_share_wish(train_loop *loop, train_wish wish, bool wanted);
/* Process 0's parameters and moments, and its whole state, to all. */
void train_share_parameters(train_loop *loop);
circe_status train_share_state(train_loop *loop);
