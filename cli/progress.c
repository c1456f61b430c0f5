/* The progress bar and the handling of SIGINT. */
#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30 };

static volatile sig_atomic_t interrupted;
static bool bar_wanted;
static bool bar_shown;
static int last_percent = -1;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

void progress_start(bool wanted) {
    bar_wanted = wanted && isatty(STDERR_FILENO);
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

static void draw(const char *stage, int percent) {
    char bar[BAR_WIDTH + 1];
    int filled = percent * BAR_WIDTH / 100;
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(BAR_WIDTH - filled));
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r\033[K[%s] %3d%%  %s", bar, percent, stage);
    fflush(stderr);
    bar_shown = true;
}

int progress_step(void *user, const char *stage, int64_t done, int64_t total) {
    (void)user;
    if (bar_wanted && total > 0) {
        double share = (double)done / (double)total;
        int percent = share >= 1 ? 100 : share <= 0 ? 0 : (int)(100 * share);
        if (percent != last_percent) draw(stage, percent);
        last_percent = percent;
    }
    return interrupted != 0;
}

void progress_clear(void) {
    if (bar_shown) fputs("\r\033[K", stderr);
    bar_shown = false;
    last_percent = -1;
}

bool progress_interrupted(void) { return interrupted != 0; }
