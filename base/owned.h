/* Locals that own something and give it back at the end of their block, however that is left:
 *
 *     OWNED char *path = small_format("%s/report.html", folder);
 *     OWNED_BY(name_list_free) name_list names = {0};
 *
 * They must be initialised, and what they own must not be handed on. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNED_BY(release) __attribute__((cleanup(release)))
#define OWNED OWNED_BY(owned_free)

/* By memcpy, since the local is a pointer to any type. errno stays, so that a function can fail with it: not every C
 * library's free keeps it. */
static inline void owned_free(void *local) {
    void *block;
    int problem = errno;
    memcpy(&block, local, sizeof block);
    free(block);
    errno = problem;
}
