/* The allocator of contexts that were given none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

void *circe__allocate_default(void *user, size_t bytes);
void circe__release_default(void *user, void *block);

/* Brackets work that makes and frees many tables; brackets may be nested, and open in several threads. */
void circe__reuse_begin(void);
void circe__reuse_end(void);
/* In a child, where only the thread that forked is left. */
void circe__reuse_after_fork(void);
