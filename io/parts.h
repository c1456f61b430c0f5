/* Work in parts, side by side. */
#ifndef CIRCE_IO_PARTS_H
#define CIRCE_IO_PARTS_H

/* Calls part(user, k) for k = 0 .. n - 1 on the library's threads; returns when all are done. */
void io__run_parts(int n, void (*part)(void *user, int k), void *user);

/* How many parts are worth making: what io_use_threads set, or as many as a context has by default. At least 1. */
int io__threads(void);

#endif
