/* Work shared among a context's threads. What is cut, and where, is a function of the amount of work and the number of
 * threads alone, never of what the machine does at the moment: the same number of threads gives the same bits. */
#pragma once

#include "circe/context.h"

/* Does items [first, first + n) of the whole. */
typedef void (*train_range_fn)(void *user, int64_t first, int64_t n);
/* The same, knowing which part they are. */
typedef void (*train_part_fn)(void *user, int64_t part, int64_t first, int64_t n);

/* Runs all parts, by circe_context_run, and returns when they are done. */
void train_parallel(const circe_context *context, int64_t parts, int64_t total, train_part_fn run, void *user);
/* The same of circe_context_parts, by the items that take a thread five microseconds. */
void train_ranges(const circe_context *context, int64_t total, int64_t least, train_range_fn run, void *user);
