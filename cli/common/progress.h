/* A bar on standard error while the library works, and Ctrl-C as a clean way out. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Shows a bar from now on if standard error is a terminal and `wanted`; takes over SIGINT. */
void progress_start(bool wanted);

/* From now on the stages of the work are told on standard error, with the time each took. */
void progress_tell_stages(void);
/* The last of them has ended. */
void progress_end_stage(void);

/* The library's progress callback: draws, and asks to stop once the user pressed Ctrl-C. */
int progress_step(void *user, const char *stage, int64_t done, int64_t total);

/* One bar for all of a long job, by progress_show, in the place of one for each stage of the library; it says how much
 * time is left, about. */
void progress_overall(void);

/* The same for a command whose work is stages of the library: what comes, in order, and about how long each takes. The
 * parts stay the caller's. */
typedef struct progress_part {
    const char *stage;
    double cost;
} progress_part;

void progress_plan(const progress_part *parts, int n);

/* A bar with a text behind it, at most ten times a second (always at the end); both are cut to the terminal's width. */
void progress_show(double share, const char *text);

/* The progress function of a job's watch: the same, and asks to stop once the user pressed Ctrl-C. */
int progress_watch(void *user, double share, const char *text);

/* SIGTERM, and SIGHUP unless it is ignored, as a clean way out as well. */
void progress_catch_termination(void);

/* From the signal on, the process has so many seconds to end by itself. */
void progress_end_within(int seconds);

/* Whether bars are shown. */
bool progress_is_shown(void);

/* Takes the bar off the screen, if one is there. */
void progress_clear(void);

/* Whether Ctrl-C was pressed, or another signal came and is caught; a second one ends the program at once. */
bool progress_interrupted(void);

#endif
