/* What tests of one table have in common: regressions on the same y, features of the same columns, median widths.
 *
 * Each is found again by its content: a key of 128 bits is made of all that it was computed from, so a test gives the
 * same bits with a memory and without. Without a memory (data->options.memory NULL), everything is computed. */
#pragma once

#include "inference/inference_parts.h"

typedef struct circe__key {
    uint64_t word[2];
} circe__key;

/* A key that differs by kind, then everything that counts. */
circe__key circe__key_begin(uint64_t kind);
void circe__key_add(circe__key *key, const void *data, size_t bytes);

void circe__key_factor(circe__key *key, const circe_kernel_factor *factor);

/* Before a test: forgets the least recently used entries if there are more than may be kept. Refuses the memory of
 * another context, because what a test remembers lives in the test's own context. NULL: there is none. */
circe_status circe__memory_begin(const circe_context *context, circe_test_memory *memory);

bool circe__recall_number(const circe__data *data, circe__key key, double *number);
void circe__remember_number(const circe__data *data, circe__key key, double number);

/* table := a copy of what is remembered, with its number; false: nothing is, or there is no memory for the copy. */
bool circe__recall_table(const circe__data *data, circe__key key, circe__table *table, double *number);
void circe__remember_table(const circe__data *data, circe__key key, const circe__table *table, double number);

/* The same without copies. What is lent is the memory's from then on, and the caller's to read until the test ends;
 * false: there is no memory, or no room. */
bool circe__borrow_table(const circe__data *data, circe__key key, circe__table *table);
bool circe__lend_table(const circe__data *data, circe__key key, const circe__table *table);

/* Everything about rows and options that features of y are made of. */
circe__key circe__key_of_y(const circe__data *data, uint64_t kind);

/* A variable, and the regression of its features on y, which is remembered. */
circe__key circe__key_of_side(const circe__data *data, const circe__variable *v, const circe__regressor *side,
                              uint64_t kind);

/* As circe__regress. Remembered regressions are borrowed from the memory: made->borrowed. */
circe_status circe__recall_regress(const circe__data *data, const circe__table *const targets[2],
                                   circe__regressions *made);
