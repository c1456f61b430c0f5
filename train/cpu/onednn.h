/* oneDNN for the layers of the CPU device: its engine, its layouts, and calls of its primitives. The functions that
 * create primitives differ between oneDNN 2 (operation descriptors) and oneDNN 3; only onednn.c knows which one is in
 * use. */
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "train/cpu/cpu.h"

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t onednn_layout;
enum { ONEDNN_ARG_BACKWARD_SHIFT = 0 };
#else
typedef const dnnl_memory_desc_t *onednn_layout;
/* The backward of batch norm wants it, although nothing depends on it; oneDNN 3 refuses it. */
enum { ONEDNN_ARG_BACKWARD_SHIFT = DNNL_ARG_SHIFT };
#endif

enum { ONEDNN_MAX_ARGUMENTS = 12 };

/* A primitive with the memory objects of its arguments. */
typedef struct onednn_call {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int n;
    dnnl_exec_arg_t arguments[ONEDNN_MAX_ARGUMENTS];
} onednn_call;

/* Channels of images between layers that lie together; 1: plain. */
int64_t onednn_image_block(void);

/* float32 in one of oneDNN's orders. dnnl_format_tag_any: let the primitive choose. */
circe_status onednn_layout_make(int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag, onednn_layout *layout);
void onednn_layout_free(onednn_layout layout); /* takes NULL */
/* A batch of images of this shape, plain (rows, channel, line, column) or as they lie between layers. */
circe_status onednn_layout_images(train_shape shape, int64_t rows, bool images, onednn_layout *layout);

/* ---- descriptors: *desc is what onednn_call_make takes over ------------------------------------------------------ */

typedef struct onednn_convolution {
    onednn_layout in, weights, bias, out; /* bias NULL: none */
    int64_t stride, padding;
    bool winograd; /* try this algorithm first */
    dnnl_primitive_attr_t attributes;
} onednn_convolution;

typedef enum onednn_part {
    ONEDNN_FORWARD = 1,
    ONEDNN_BACKWARD_DATA,
    ONEDNN_BACKWARD_WEIGHTS,
} onednn_part;

/* hint: the forward's, for backward. */
circe_status onednn_convolution_desc(const onednn_convolution *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                     dnnl_primitive_desc_t *desc);

typedef struct onednn_pooling {
    onednn_layout in, out;
    dnnl_alg_kind_t algorithm;
    dnnl_dims_t kernel;
    int64_t stride, padding;
    dnnl_primitive_attr_t attributes;
} onednn_pooling;

circe_status onednn_pooling_desc(const onednn_pooling *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *desc);

typedef struct onednn_batch_norm {
    onednn_layout images;
    float epsilon;
    unsigned flags; /* beside scale and shift */
    dnnl_primitive_attr_t attributes;
} onednn_batch_norm;

/* Backward: of data and weights together. */
circe_status onednn_batch_norm_desc(const onednn_batch_norm *what, onednn_part part, const_dnnl_primitive_desc_t hint,
                                    dnnl_primitive_desc_t *desc);

/* Attributes: scratch memory is the caller's; and an activation behind the primitive (0: none). */
circe_status onednn_attributes(train_layer_kind activation, float slope, dnnl_primitive_attr_t *attributes);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* The order in which the primitive wants this argument (DNNL_ARG_...). */
onednn_layout onednn_layout_of(const_dnnl_primitive_desc_t desc, int argument);
bool onednn_same_layout(onednn_layout a, onednn_layout b);

/* Takes over desc, also where it fails. The arguments end with 0; scratch memory is added. *scratch grows to what it
 * needs. */
circe_status onednn_call_make(dnnl_primitive_desc_t desc, const int *arguments, onednn_call *call, size_t *scratch);
/* From one order to another. */
circe_status onednn_reorder_make(onednn_layout from, onednn_layout to, onednn_call *call, size_t *scratch);
void onednn_call_free(onednn_call *call);
/* Where an argument lies. */
typedef struct onednn_argument {
    int argument;
    const void *data;
} onednn_argument;

/* The list of arguments ends with a 0. Arguments that the call does not have are ignored; those that are not given stay
 * as they were. */
circe_status onednn_run(onednn_call *call, const onednn_argument *arguments, void *scratch);
