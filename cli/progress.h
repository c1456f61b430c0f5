/* A bar on standard error while the library works, and Ctrl-C as a clean way out. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Shows a bar from now on if standard error is a terminal and `wanted`; takes over SIGINT. */
void progress_start(bool wanted);

/* The library's progress callback: draws, and asks to stop once the user pressed Ctrl-C. */
int progress_step(void *user, const char *stage, int64_t done, int64_t total);

/* Takes the bar off the screen, if one is there. */
void progress_clear(void);

/* Whether Ctrl-C was pressed; a second one ends the program at once. */
bool progress_interrupted(void);

#endif
