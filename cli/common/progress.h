/* Shows a bar on standard error while the library works, and lets Ctrl-C stop the work cleanly. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Shows a bar from now on if standard error is a terminal and `wanted`; takes over SIGINT. */
void progress_start(bool wanted);

/* From now on, prints the stages of the work on standard error, with the time that each took. */
void progress_tell_stages(void);
/* The last of them has ended. */
void progress_end_stage(void);

/* The library's progress callback: draws, and asks to stop once the user pressed Ctrl-C. */
int progress_step(void *user, const char *stage, int64_t done, int64_t total);

/* One bar for a whole long job, by progress_show, instead of one for each stage of the library. It estimates the time
 * left. */
void progress_overall(void);

/* The same for a command whose work consists of stages of the library: the parts in order, and roughly how long each
 * takes; a cost of 0: it does not occur. The caller keeps ownership of the parts. */
typedef struct progress_part {
    const char *stage;
    double cost;
    int rounds; /* how often the library goes through the stage */
} progress_part;

void progress_plan(const progress_part *parts, int n);

/* A bar with a text behind it, at most ten times a second (always at the end); both are cut to the terminal's width. */
void progress_show(double share, const char *text);

/* The progress function of a job's watch: the same, and asks to stop once the user pressed Ctrl-C. */
int progress_watch(void *user, double share, const char *text);

/* Lets SIGTERM, and SIGHUP unless it is ignored, stop the work cleanly too. */
void progress_catch_termination(void);

/* After the signal, the process has this many seconds to end by itself. */
void progress_end_within(int seconds);

/* Whether bars are shown. */
bool progress_is_shown(void);

/* Takes the bar off the screen, if one is there. */
void progress_clear(void);

/* Whether Ctrl-C was pressed, or another signal came and is caught; a second one ends the program at once. */
bool progress_interrupted(void);
