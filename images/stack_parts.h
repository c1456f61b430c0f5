/* Inside of a stack. */
#pragma once

#include "images/picture.h"
#include "images/stack.h"

/* Memory for stack->n rows of stack->channels by height by width elements; sets stride. Refuses what the machine, or
 * --memory, does not have. */
circe_status image_stack_allocate(const circe_context *context, image_stack *stack);

/* Row i of a stack of bytes := the picture, resized where its size is another. A grey picture fills all planes; a
 * coloured one needs a stack of three. */
circe_status image_stack_place(image_stack *stack, int64_t i, const image_picture *picture);

/* bits := one bit a pixel (0 or 1), the first in the most significant of a byte; and whether all are 0 or 1. */
void image_pack(const uint8_t *pixels, int64_t n, uint8_t *bits);
bool image_is_binary(const uint8_t *pixels, int64_t n);

/* Does item i of the whole. */
typedef circe_status (*image_item_fn)(void *user, int64_t i);

/* Items 0 .. n - 1 by the context's threads, with progress. On failure *wrong is the first item that failed, whatever
 * the threads did, or -1. */
circe_status image_stack_each(const circe_context *context, int64_t n, const image_stack_options *options,
                              image_item_fn item, void *user, int64_t *wrong);
