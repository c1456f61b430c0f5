/* Inside a network. */
#pragma once

#include "train/layers.h"

enum {
    TRAIN_MAX_STATES = 4,  /* sizes of batches for which states are kept */
    TRAIN_OUTPUT_SLOT = 0, /* holds the gradient at the network's output */
};

/* How a segment's gradient reaches one output that it reads. -1: no such step; all of them: it is not wanted, or it is
 * the segment's own gradient. */
typedef struct train_gradient {
    int64_t write;              /* slot that the layer writes */
    int64_t copy_to, copy_from; /* then slot copy_to := copy_from */
    int64_t add_to, add_from;   /* then slot add_to += add_from */
} train_gradient;

/* Layers [first, end) that are run together: all of them rowwise, each reading the one before; or one layer that takes
 * whole batches, with the activation that it merges. It reads outputs `from` and `other` and shows that of its last. */
typedef struct train_segment {
    int64_t first, end;
    bool rowwise;
    int64_t first_param, n_params;
    int64_t least_rows; /* for which a thread is worth its while */
    int64_t from, other;
    int64_t grad_out;       /* slot of the gradient at its output; -1: it has nothing to learn from it */
    int64_t copy_from;      /* slot that is copied there first, since others need it unchanged; -1: none */
    train_gradient grad[2]; /* at from and other */
} train_segment;

/* A layer's state, and its memory; NULL: it has none. */
typedef struct train_kept {
    train_layer_state *state;
    train_memory memory;
} train_kept;

/* What the segments' layers made for batches of one size. */
typedef struct train_states {
    int64_t rows; /* 0: none */
    int threads;  /* that they are for */
    int64_t used; /* when, counted in forwards */
    train_kept *of;
} train_states;

struct train_network {
    train_device *device;
    train_shape input;
    int64_t max_batch, n_layers, n_params, n_buffers;
    bool training, has_images;
    train_start start;
    train_layer *layers;
    const train_layer_ops **ops; /* (n_layers) */
    int64_t *readers;            /* (n_layers): how many layers read it */
    bool *learns;                /* (n_layers): it or something that it reads has parameters */
    bool *kept;                  /* (n_layers): its output is asked for, so that nothing may be merged into it */
    char ***names; /* (n_tensors + n_buffer_tensors); made when they are asked for, of a network that is const */

    /* In the device's memory. */
    float *params, *grads; /* (n_params) */
    float *buffers;        /* (n_buffers) */
    float **taps;          /* (n_layers), each (max_batch, out), NULL: none */
    float **plain;      /* (n_layers), the same: outputs that are images, in PyTorch's order; NULL: never asked for */
    float *output_grad; /* (max_batch, out) */
    float *staging;     /* (max_batch, input), of predict */

    /* The plan, which taps may change: train_plan_make. */
    int64_t n_segments, max_parts, n_slots;
    int64_t widest; /* numbers per row, over the layers of rowwise segments */
    train_segment *segments;
    int64_t *slot_numbers; /* (n_slots), a row */
    float **slots;         /* (n_slots): gradients at outputs, as long as they are needed */
    float **activations;   /* (n_layers), each (max_batch, numbers); NULL: merged */
    float *part_grads;     /* (max_parts - 1, n_params): of all parts of a batch but the first */
    float *inside[2];      /* (max_batch, widest): gradients between the layers of a segment */
    float *packed_in;      /* the network's input as images; NULL: nobody reads it so */
    float *packed_tap;     /* a tap as images; NULL: there is none on images */
    void *scratch;
    size_t scratch_bytes;
    train_states states[TRAIN_MAX_STATES];
    int64_t n_forwards;
    int64_t last_rows;                                          /* of the last forward; 0: none yet */
    int last_threads;                                           /* that its states had */
    void (*on_gradients)(void *user, int64_t first, int64_t n); /* NULL: nobody waits for them */
    void *on_gradients_user;
};

/* Numbers that a row of layer l's output takes. */
int64_t train_network_numbers(const train_network *network, int64_t l);

/* Zeroed numbers in the device's memory. */
circe_status train_network_buffer(const train_network *network, int64_t rows, int64_t cols, float **buffer);

/* Layers by their specifications: network_layers.c. */
circe_status train_layers_make(train_network *network, const train_layer_spec *specs);

/* Cuts the layers into segments and gives them memory. */
circe_status train_plan_make(train_network *network);
void train_plan_free(train_network *network);
circe_status train_slots_make(train_network *network);

/* A forward pass, and the output in the host's memory. */
circe_status train_network_show(train_network *network, int64_t rows, const float *in, float *out);

/* Brackets passes. *states := those for this many rows and for as many threads as there are, up to `most`, made at
 * their first use; NULL if no layer has any. leave must follow, also where enter failed. */
circe_status train_states_enter(train_network *network, int64_t rows, int most, train_threads *before,
                                train_states **states);
void train_states_leave(const train_network *network, const train_threads *before);
void train_states_free(train_network *network);

circe_status train_segments_forward(train_network *network, int64_t rows, const float *in);
circe_status train_segments_backward(train_network *network, int64_t rows, const float *in);

void train_names_free(char **names, int64_t n);
