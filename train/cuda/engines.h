/* Convolutions of images that lie channels last, for each pass the fastest engine, of cuDNN or ours. */
#pragma once

#include "train/cuda/cuda_device.h"

typedef enum train_cuda_pass { TRAIN_CUDA_FORWARD, TRAIN_CUDA_DATA, TRAIN_CUDA_FILTER } train_cuda_pass;

/* images (n, c, h, w) and (n, o, h', w'), weights (o, c, k, k): all with the channels last in memory. */
typedef struct train_cuda_problem {
    train_cuda_pass pass;
    cuda_window window;
    bool half;         /* images and weights are bfloat16 */
    bool half_weights; /* the weights' gradient, too */
} train_cuda_problem;

typedef struct train_cuda_engine train_cuda_engine;

/* Engines give the same bits every time, keep to the device's precision and to
 * train_cuda_most_workspace. *engine NULL with CIRCE_OK: there is none. */
circe_status train_cuda_engine_find(train_cuda_device *cuda, const train_cuda_problem *problem,
                                    train_cuda_engine **engine);
/* One of the three is written: what the pass computes. */
circe_status train_cuda_engine_run(const train_cuda_device *cuda, const train_cuda_engine *engine, const void *in,
                                   const void *weights, const void *out);
void train_cuda_engine_free(const train_cuda_device *cuda, train_cuda_engine *engine); /* takes NULL */

/* ---- choices.c: what was found fastest, kept on disk ------------------------------------------------------------- */

/* The number that is kept for this key; -1: none. */
int train_cuda_choice_find(const char *key);
/* Keeps it, unless another process has just done so. *number := what is kept. false: nothing can be kept here. */
bool train_cuda_choice_keep(const char *key, int *number);
/* Whether anything can be kept at all. */
bool train_cuda_choices_last(void);
