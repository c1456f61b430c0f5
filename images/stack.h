/* Pictures of one size in memory, for a network. They come from files (.pgm, .ppm, .png, .jpg) or from an array of an
 * .npz or .npy, are kept as bits or bytes, and are expanded when a batch is made. */
#pragma once

#include "circe/circe.h"
#include "train/source.h"

typedef struct image_stack_options {
    int64_t width, height;      /* that pictures are resized to; 0: all must have one size */
    int64_t channels;           /* 1: colour becomes grey; 3: grey is shown as red, green and blue; 0: what they have */
    int white;                  /* of an array of whole numbers: which is white, 1 or 255; 0: 1 if none is larger */
    int64_t rows;               /* pictures that an array must have; 0: any number */
    const char *rows_of;        /* the table that has a row for each of them, for messages; NULL: none */
    circe_progress_fn progress; /* NULL: none */
    void *user;
} image_stack_options;

typedef struct image_stack {
    train_element element;
    void *pixels; /* n rows, `stride` apart as in a source; owned */
    int64_t n, stride;
    int64_t channels, height, width; /* of what is stored: red, green, blue follow each other as planes */
    int64_t repeat;                  /* times that the channels are shown */
    int64_t coloured;                /* of files: the first with colour; -1: all are grey */
    int white;                       /* of whole numbers, as above; 0: they are floats */
} image_stack;

/* The files in their order, read by the context's threads. On failure *wrong is the file that it is about, the first of
 * those that are wrong, or -1. A set in which some pictures are coloured becomes coloured. */
circe_status image_stack_read_files(const circe_context *context, char *const *paths, int64_t n,
                                    const image_stack_options *options, image_stack *stack, int64_t *wrong);

/* An array of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width), channels 1 or 3;
 * `array` is its name in an .npz. Whole numbers are 0 to 255, or 0 and 1 (kept as bits); bool is 0 and 1; floats are 0
 * to 1, and are neither resized nor made grey. A member of an .npz is unpacked as it is read. */
circe_status image_stack_read_array(circe_context *context, const char *path, const char *array,
                                    const image_stack_options *options, image_stack *stack);
void image_stack_free(image_stack *stack);
/* Frees all pictures except those with keep[i] != 0. place[i] := the new number of picture i, or -1. Both have n
 * elements. */
void image_stack_keep(image_stack *stack, const char *keep, int32_t *place);

/* The pictures as a source, one point each, with pixels from -1 to 1. Borrows the stack. */
train_source image_stack_source(const image_stack *stack);
