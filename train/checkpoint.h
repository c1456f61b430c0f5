/* The state of a run, and its file. The state is everything that the next step depends on, so that a resumed run ends
 * with the same bits as one that was never interrupted.
 *
 * A .safetensors of the tensors params, m, v (F32, one number per parameter), best (F32; empty where the best epoch is
 * not kept), buffers and best_buffers (the same of what the network keeps beside its parameters; absent where it keeps
 * nothing), history (F64, epochs by the fields of train_epoch), counters (I64), numbers (F64), regularizer (U8); in
 * the metadata: format, version, who wrote it, what must be the same in the run that resumes, and a checksum over all
 * of it. Written whole or not at all. */
#pragma once

#include "train/trainer.h"

/* Files of version 1 say less about their run. They are still read. */
enum { TRAIN_CHECKPOINT_VERSION = 2 };

/* Sums over the batches of the epoch that is under way. */
typedef struct train_sums {
    double loss, regularizer, rate, gamma, seconds;
    double kernel, spread, looked; /* circe_x_figures, times their batches; of how many batches */
} train_sums;

/* Numbers of a run between two steps. */
typedef struct train_standing {
    int64_t steps, epochs; /* done */
    int64_t batches;       /* done of the epoch under way; all of them: the epoch is still to be closed */
    int64_t best_epoch;    /* row of history; -1: none yet */
    int64_t stopped_early;
    double best; /* loss + gamma * regulariser of that epoch, on the validation rows */
    train_sums sums;
    double loss, regularizer; /* of the last batch */
    double seconds, regularizer_seconds;
} train_standing;

/* The same with its arrays, in host memory. */
typedef struct train_state {
    train_standing now;
    train_epoch *history; /* room for the epochs of the whole run */
    int64_t epochs;       /* of the whole run */
    int64_t n_params, n_buffers;
    float *params, *m, *v;
    float *buffers;             /* (n_buffers) */
    float *best, *best_buffers; /* NULL: not kept */
    void *regularizer;
    size_t regularizer_bytes;
} train_state;

circe_status train_state_create(int64_t epochs, int64_t n_params, int64_t n_buffers, bool keep_best,
                                train_state *state);
void train_state_free(train_state *state);

/* What a resumed run must have in common with the run that wrote the file: texts by key, owned. Some keys are missing
 * in older files. `validate_every` (1) and `steps` (0) have defaults; without `data`, only the fingerprint identifies
 * the data. */
enum { TRAIN_MOST_IDENTITY = 32 };

typedef struct train_identity {
    int64_t n;
    circe_metadata pairs[TRAIN_MOST_IDENTITY];
} train_identity;

/* The points by which a run is recognised: their number and their hash. */
typedef struct train_known {
    int64_t n;
    uint64_t hash;
} train_known;

/* regularizer may be NULL. */
circe_status train_identity_make(const train_network *network, const circe_measure *regularizer, train_known training,
                                 train_known validation, const train_options *options, train_identity *identity);
void train_identity_free(train_identity *identity);

circe_status train_checkpoint_write(circe_context *context, const char *path, const train_identity *identity,
                                    const train_state *state);

/* Reads into a state of the same sizes. A damaged file, a file that is not a checkpoint, and a checkpoint of another
 * run are refused, and the text says what differs. The state must not be used then. */
circe_status train_checkpoint_read(circe_context *context, const char *path, const train_identity *identity,
                                   train_state *state);
