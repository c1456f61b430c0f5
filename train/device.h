/* What a device must do to train a network. The layers above see only this table. train/cpu and train/cuda fill it, and
 * another device would be another folder. Arrays are float32, row-major, in the device's own memory; a batch has one
 * row per point.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circe/cuda.h"
#include "train/source.h"
#include "train/train_ranks.h"

typedef enum train_layer_kind {
    TRAIN_DENSE = 1, /* out = in W' + b, W (out, in) */
    TRAIN_RELU = 2,
    TRAIN_LEAKY_RELU = 3, /* with the layer's slope below 0 */
    TRAIN_TANH = 4,
    TRAIN_CONVOLUTION = 5, /* W (out, in, kernel, kernel), with or without b (out) */
    TRAIN_MAX_POOL = 6,    /* the largest of each kernel by kernel window; what lies outside the image does not count */
    TRAIN_BATCH_NORM = 7,  /* weight (x - mean) / sqrt(variance + 1e-5) + bias, channel by channel */
    TRAIN_ADD = 8,         /* the sum of two outputs of the same shape */
    TRAIN_AVERAGE_POOL = 9, /* the mean of each channel: (channels, 1, 1) */
    TRAIN_FLATTEN = 10,     /* images as features, in the order (channel, line, column) */
} train_layer_kind;
enum { TRAIN_LAYER_KINDS = TRAIN_FLATTEN + 1 }; /* the length of a table by kind */

typedef enum train_loss_kind {
    TRAIN_MSE = 1,           /* mean over rows and columns of (prediction - target)^2 */
    TRAIN_CROSS_ENTROPY = 2, /* mean over rows of -log softmax(prediction)[class]; target (n, 1) holds the class */
} train_loss_kind;

/* The precision of products inside networks. Parameters, their gradients, sums, losses and the optimiser are always
 * float32, and so are checkpoints. */
typedef enum train_precision {
    TRAIN_FLOAT32, /* no digit of a factor is dropped */
    TRAIN_TF32,    /* factors of matrix products and convolutions are rounded to 11 bits, sums are float32 */
    TRAIN_BF16,    /* images between layers, with their gradients, and the factors of convolutions have 8 bits; the rest
                      is as with TF32 */
} train_precision;

/* The shape of one point: features, or channels by height by width. */
typedef struct train_shape {
    int n_dims; /* 1 or 3 */
    int64_t size[3];
} train_shape;

static inline int64_t train_shape_count(train_shape shape) {
    int64_t count = 1;
    for (int d = 0; d < shape.n_dims; d++) count *= shape.size[d];
    return count;
}

enum { TRAIN_NAME_BYTES = 32 };

typedef struct train_layer {
    train_layer_kind kind;
    char name[TRAIN_NAME_BYTES]; /* "0", "1", ...: its place, as PyTorch names the layers of a Sequential; or its own */
    train_shape in, out;
    float slope;
    int64_t first_param, n_params;   /* in the network's flat array of parameters */
    int64_t fan_in;                  /* of He initialisation; 0: no weights */
    int64_t first_buffer, n_buffers; /* in the flat array of what a layer keeps: running means and variances */
    int64_t from, other;             /* layers whose outputs it reads; -1: the network's input. other: of TRAIN_ADD */
    int64_t kernel, stride, padding; /* of convolutions and max-pools, the same in both directions */
    bool bias;                       /* of convolutions */
    bool images;                     /* its output is kept as the device keeps images */
    bool reads_images;               /* and so is its input; otherwise that lies plain: (rows, channel, line, column) */
    int form;                        /* how the device keeps the images of this network: a number of its own */
    train_layer_kind merged;         /* activation, with `slope`, that it applies to its own output; 0: none */
    bool pooled;                     /* and then the max-pool that follows */
} train_layer;

typedef struct train_device train_device;

/* Recorded work, which can be queued again unchanged. */
typedef struct train_recording train_recording;

/* Points that a device can feed to a network. The device decides what it keeps of them. */
typedef struct train_source_handle train_source_handle;

/* What a device makes of a layer for batches of one size: primitives, workspaces, parameters in an order of its own.
 */
typedef struct train_layer_state train_layer_state;

enum { TRAIN_MOST_BLOCKS = 8 };

/* The device's memory of a layer's state, which is released with it. */
typedef struct train_memory {
    train_device *device;
    void *blocks[TRAIN_MOST_BLOCKS];
    int n;
    size_t scratch; /* bytes that passes need for themselves */
} train_memory;

/* *block, a pointer to any type, := a new block. */
circe_status train_take(train_memory *memory, size_t bytes, void *block);

/* One pass of a layer that takes whole batches. `params`, `buffers` and `grads` are the layer's own parts of the flat
 * arrays. */
typedef struct train_visit {
    int64_t rows;
    bool training; /* as train_network_set_training said */
    const float *params;
    float *buffers;
    const float *in, *other; /* other: of TRAIN_ADD */
    float *out;              /* written by forward; with the merged activation, and pool, applied */
    void *scratch;           /* as many bytes as memory->scratch asked for, which anybody may overwrite in between */
    /* Of backward. */
    float *grad_out; /* may be overwritten where an activation is merged */
    float *grad_in;  /* := d/d in; NULL: not wanted, but batch norm always gets it */
    float *grads;    /* := d/d params */
} train_visit;

/* A layer on its way. */
typedef struct train_link {
    const train_layer *layer;
    train_layer_state *state;
    train_visit pass;
} train_link;

enum { TRAIN_MOST_LINKS = 32 };

/* The work of one kind of layer. `params` and `grads` are the layer's own parts of the flat arrays. A layer has either
 * forward and backward, or pass_forward and pass_backward, or chain_forward and chain_backward; all but the first may
 * have a state. */
typedef struct train_layer_ops {
    /* The rows of a batch are independent in this layer, so the network may run it on parts of a batch from several
     * threads at once, each with its own gradients. */
    bool rowwise;
    void (*forward)(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                    float *out);
    /* grad_in := d/d in (NULL: not wanted); grads += d/d params. grad_out may be overwritten. */
    void (*backward)(train_device *device, const train_layer *layer, int64_t rows, const float *params, const float *in,
                     const float *out, float *grad_out, float *grad_in, float *grads);

    size_t state_bytes; /* 0: it has no state, and create and destroy are NULL */
    /* Fills a state of zeros for batches of `rows`, made for the number of threads that the passes will have.
     * wants_grad_in: whether backward will be asked for it. */
    circe_status (*create)(const train_layer *layer, int64_t rows, bool wants_grad_in, train_layer_state *state,
                           train_memory *memory);
    /* Releases what is neither in the state nor in its memory, also where create failed; NULL: nothing. */
    void (*destroy)(train_device *device, train_layer_state *state);
    circe_status (*pass_forward)(train_device *device, const train_layer *layer, train_layer_state *state,
                                 const train_visit *pass);
    /* After the forward of the same batch. That of TRAIN_ADD does the merged activation only, in grad_out, which then
     * is the gradient at both of its inputs. */
    circe_status (*pass_backward)(train_device *device, const train_layer *layer, train_layer_state *state,
                                  const train_visit *pass);
    /* n of these layers, up to TRAIN_MOST_LINKS, each reading the one before, in the order of the network. Backward is
     * given the gradient at the last output and puts that at the first input where it says; those between, which
     * nobody else reads, need not be written. */
    circe_status (*chain_forward)(train_device *device, int64_t n, const train_link *links);
    circe_status (*chain_backward)(train_device *device, int64_t n, const train_link *links);
    /* Whether it can apply this activation to its own output; NULL: none. */
    bool (*merges)(train_layer_kind activation);
    /* Whether it can apply this max-pool behind that; NULL: none. */
    bool (*pools)(const train_layer *layer, const train_layer *pool);
} train_layer_ops;

/* What a thread of the caller's had before its layers were run. */
typedef struct train_threads {
    int number, dynamic;
} train_threads;

/* How a device keeps images between layers. The numbers of a row are at least those of its shape. */
typedef struct train_image_ops {
    /* NULL: this device has no such layer. Elementwise functions are here too. */
    const train_layer_ops *(*layer)(train_layer_kind kind);
    /* The form in which to keep the images of a network of these layers, for batches of at most `rows`; NULL: there is
     * one, 0. */
    int (*form)(train_device *device, const train_layer *layers, int64_t n_layers, int64_t rows);
    /* Whether the layer had better read the network's input as it comes, plain; of convolutions. */
    bool (*takes_plain)(const train_layer *layer);
    /* float32 numbers that a row takes. */
    int64_t (*numbers)(int form, train_shape shape);
    /* From (rows, channel, line, column) and back. */
    void (*pack)(train_device *device, int form, train_shape shape, int64_t rows, const float *plain, float *images);
    void (*unpack)(train_device *device, int form, train_shape shape, int64_t rows, const float *images, float *plain);
    /* y += x; NULL: as numbers. */
    void (*add)(train_device *device, int form, train_shape shape, int64_t rows, const float *x, float *y);
    /* Whether none of n numbers is NaN or infinite; NULL: the layers pass NaN on to the network's output. */
    bool (*finite)(train_device *device, int64_t n, const float *x);
    /* Layers with a state are created and run between these two calls. enter returns how many threads they get, at most
     * the number given; their states are made for that number. NULL: the number does not matter to them. */
    int (*enter)(int most, train_threads *before);
    void (*leave)(const train_threads *before);
} train_image_ops;

/* AdamW (Loshchilov and Hutter): decoupled weight decay, bias-corrected moments; `step` counts from 1. As
 * torch.optim.AdamW: p -= lr * decay * p first, then the step of Adam. */
typedef struct train_adamw {
    double rate, beta1, beta2, epsilon, decay; /* in float32, 1 - 0.999 would be wrong in its fifth digit */
    int64_t step;
    const double *values; /* (n_values), in the device's memory: where one is not finite, nothing is changed */
    int64_t n_values;
} train_adamw;

/* Every pointer refers to the device's memory unless stated otherwise. Inputs and results stay there, so that a step
 * can be queued without waiting, and a recorded one can be queued again unchanged. */
typedef struct train_device_ops {
    const char *name;
    /* Work may be done some time after it was requested: `download` and `check` wait for it. */
    bool queues;
    void (*close)(train_device *device);
    /* Applies to networks created from now on. NULL: this device has only float32. */
    circe_status (*set_precision)(train_device *device, train_precision precision);
    /* Zeroed, 64-byte aligned; NULL with the error text set. release takes NULL. */
    void *(*allocate)(train_device *device, size_t bytes);
    void (*release)(train_device *device, void *block);
    /* From and to host memory, which may be used again at once. */
    void (*upload)(train_device *device, void *to, const void *from, size_t bytes);
    void (*download)(train_device *device, void *to, const void *from, size_t bytes);
    /* Waits for all work requested so far, and returns its status, including that of the void functions. After a
     * failure, the contents of the device's memory must not be trusted. */
    circe_status (*check)(train_device *device);

    /* Work requested between record and its end is not done but kept, and every replay does it. Nothing may be
     * allocated, uploaded or downloaded in between. NULL: this device does not record. */
    circe_status (*record)(train_device *device);
    circe_status (*record_end)(train_device *device, train_recording **recording);
    circe_status (*replay)(train_device *device, train_recording *recording);
    void (*forget)(train_device *device, train_recording *recording); /* takes NULL */
    /* Two marks in the work, 0 and 1; and the seconds from the last 0 to the last 1 that was done. */
    void (*mark)(train_device *device, int which);
    double (*elapsed)(train_device *device);

    /* NULL: this device has no such layer. */
    const train_layer_ops *(*layer)(train_layer_kind kind);
    const train_image_ops *images; /* NULL: this device has no layers for images */
    /* libcirce's handle, on the same stream: regularisers are measured in the device's memory. NULL: the host does. */
    circe_cuda *(*measures)(train_device *device);

    /* Points as source.h describes them, after train_source_check has accepted them. The handle borrows the source's
     * arrays. A device with its own memory copies the stored values there, still as bits or bytes. close takes NULL. */
    circe_status (*source_open)(train_device *device, const train_source *source, train_source_handle **handle);
    void (*source_close)(train_device *device, train_source_handle *handle);
    /* The source's arrays have other numbers now; NULL: the device reads them where they are. */
    void (*source_renew)(train_device *device, train_source_handle *handle);
    /* out (n, train_source_cols) := points index[0..n), or first .. first + n - 1 if the index is NULL. */
    void (*source_gather)(train_device *device, const train_source_handle *handle, const int64_t *index, int64_t first,
                          int64_t n, float *out);
    /* out (n, cols) := rows index[0..n) of from. */
    void (*gather)(train_device *device, const float *from, int64_t cols, const int64_t *index, int64_t n, float *out);
    /* to := block number *which of `blocks`, of `bytes` each (a multiple of 8). */
    void (*pick)(train_device *device, const void *blocks, size_t bytes, const int64_t *which, void *to);
    /* Block number *which of `blocks` := the n numbers `from`; then, where all of them are finite, ++*which. */
    void (*append)(train_device *device, double *blocks, int64_t n, int64_t *which, const double *from);
    /* The loss of n rows, each times its weight (n) (NULL: 1) and, if grad is not NULL, d loss / d prediction. A class
     * outside 0..cols-1 makes the loss NaN. */
    void (*loss)(train_device *device, train_loss_kind kind, int64_t n, int64_t cols, const float *prediction,
                 const float *target, const float *weight, double *value, float *grad);
    /* y += a x. This and zero are called from several threads at once where layers are rowwise. */
    void (*add)(train_device *device, int64_t n, float a, const float *x, float *y);
    /* The same with an a in the device's memory. */
    void (*add_times)(train_device *device, int64_t n, const double *a, const float *x, float *y);
    void (*adamw)(train_device *device, const train_adamw *how, int64_t n, const float *grads, float *params, float *m,
                  float *v);
    void (*zero)(train_device *device, int64_t n, float *x);
} train_device_ops;

struct train_device {
    const train_device_ops *ops;
    circe_context *context;   /* threads, allocator; borrowed */
    const train_ranks *ranks; /* of processes that a batch in training is spread over; NULL: it is whole */
    double weight;            /* of several ranks: the share of the batch that is here */
};

/* The CPU, with the context's threads. */
circe_status train_device_cpu(circe_context *context, train_device **device);
/* An NVIDIA GPU, from 0. Needs a build with CUDA, a driver, and cuBLAS and cuDNN, which are opened here:
 * CIRCE_ERR_UNSUPPORTED says what is missing. */
circe_status train_device_cuda(circe_context *context, int gpu, train_device **device);
/* How many of them this machine has, as far as this build can see. */
int train_gpus(void);
/* By name: "cpu", "cuda" (GPU 0), "cuda:1", or "auto", which is a GPU where one can be used, else the CPU. */
circe_status train_device_open(circe_context *context, const char *name, train_device **device);
/* Whether a name is one of these, whatever this machine has. */
bool train_device_is_name(const char *name);
/* The GPU that "cuda" or "cuda:N" names; -1: it is neither. */
int train_device_gpu(const char *name);
void train_device_destroy(train_device *device);

/* By name: "float32", "tf32", "bf16"; -1: there is no such precision. */
int train_precision_find(const char *name);
/* Call it before the first network is created. CIRCE_ERR_UNSUPPORTED: this device does not have the precision. */
circe_status train_device_set_precision(train_device *device, train_precision precision);

/* Whether a name is one of these, with a text that lists the alternatives. Call it before any long work. */
circe_status train_device_check(const char *name);

/* Both as the options --device and --precision name them. */
circe_status train_device_choose(circe_context *context, const char *name, const char *precision,
                                 train_device **device);
