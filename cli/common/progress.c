/* The progress bar and the handling of SIGINT, SIGTERM and SIGHUP. */
#include "cli/common/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/message.h"
#include "io/io.h"

enum { BAR_WIDTH = 30 };

static volatile sig_atomic_t interrupted;
static bool bar_wanted;
static bool bar_shown;
static int last_percent = -1;
static double overall_since = -1; /* -1: a bar for each stage; else when this part of the work began, */
static double overall_from;       /* and the share of the work that was done by then */

static volatile sig_atomic_t patience;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
    if (patience > 0) alarm((unsigned)patience);
}

static void catch (int signal_number) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void progress_start(bool wanted) {
    bar_wanted = wanted && isatty(STDERR_FILENO);
    catch (SIGINT);
}

/* nohup makes SIGHUP ignored, and it stays ignored. */
void progress_catch_termination(void) {
    struct sigaction before;
    catch (SIGTERM);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) catch (SIGHUP);
}

void progress_end_within(int seconds) { patience = seconds; }

bool progress_is_shown(void) { return bar_wanted; }

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static struct {
    bool told;
    char name[64];
    double since;
} stage;

void progress_end_stage(void) {
    if (stage.name[0] != '\0') {
        progress_clear();
        message_note("%s: %.3g s", stage.name, job_clock() - stage.since);
    }
    stage.name[0] = '\0';
}

static void begin_stage(const char *name) {
    if (strcmp(name, stage.name) == 0) return;
    progress_end_stage();
    snprintf(stage.name, sizeof stage.name, "%s", name);
    stage.since = job_clock();
}

void progress_tell_stages(void) { stage.told = true; }

/* ---- the bar ----------------------------------------------------------------------------------------------------- */

/* Columns of the terminal that the bar stands on. */
static int columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* A line longer than the terminal would wrap and could not be erased. So the bar shrinks first, then the text is
 * cut. */
static void draw(const char *text, int percent) {
    enum { AROUND = 10 }; /* brackets, percentage, spaces, and a column that stays free */
    int room = columns() - AROUND, length = (int)strlen(text);
    int width = room - length > BAR_WIDTH ? BAR_WIDTH : room - length < 10 ? 10 : room - length;
    if (length > room - width) length = room > width ? room - width : 0;
    char bar[BAR_WIDTH + 1];
    int filled = percent * width / 100;
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(width - filled));
    bar[width] = '\0';
    fprintf(stderr, "\r\033[K[%s] %3d%%  %.*s", bar, percent, length, text);
    fflush(stderr);
    bar_shown = true;
}

static int percent_of(double share) { return share >= 1 ? 100 : share <= 0 ? 0 : (int)(100 * share); }

static void begin_part(double share) {
    overall_since = job_clock();
    overall_from = share;
}

void progress_overall(void) { begin_part(0); }

/* "1 min 20 s left": once a little of this part is done, in proportion, since costs are only roughly known. */
static void put_left(double share, double now, char *out, size_t size) {
    enum { LEAST_SECONDS = 2 };
    double spent = now - overall_since, done = share - overall_from;
    out[0] = '\0';
    if (overall_since < 0 || spent < LEAST_SECONDS || done < 0.02 || share >= 1) return;
    int left = (int)(spent / done * (1 - share) + 0.5);
    if (left >= 60)
        snprintf(out, size, "%d min %d s left, ", left / 60, left % 60);
    else
        snprintf(out, size, "%d s left, ", left);
}

void progress_show(double share, const char *text) {
    static double last_drawn;
    double now = job_clock();
    if (stage.told && overall_since >= 0) begin_stage(text);
    if (!bar_wanted || (now - last_drawn < 0.1 && share < 1)) return;
    char left[48], *line = NULL, *visible = io_visible(text, strlen(text), false); /* it may hold names of columns */
    put_left(share, now, left, sizeof left);
    if (asprintf(&line, "%s%s", left, visible != NULL ? visible : "") >= 0) draw(line, percent_of(share));
    free(line);
    free(visible);
    last_drawn = now;
}

static struct {
    const progress_part *parts;
    int n, at, round; /* at: the part that was met last, and how often it has been gone through */
    double last;      /* the share of it that was done then */
} plan;

void progress_plan(const progress_part *parts, int n) {
    plan.parts = parts;
    plan.n = n;
    plan.at = -1;
    progress_overall();
}

int progress_watch(void *user, double share, const char *text) {
    (void)user;
    if (plan.n == 0) progress_show(share, text); /* a plan knows better than the job, which counts steps */
    return interrupted != 0;
}

static double cost_of_parts(int n) {
    double cost = 0;
    for (int k = 0; k < n; k++) cost += plan.parts[k].cost;
    return cost;
}

/* The share of all parts that is done; -1: this stage is none of the parts, or belongs to a later one, as the
 * regressions of a calibration do. */
static double planned_share(const char *name, double share) {
    int k = plan.at < 0 ? 0 : plan.at;
    while (k < plan.n && (plan.parts[k].cost <= 0 || strcmp(plan.parts[k].stage, name) != 0)) k++;
    if (k == plan.n) return -1;
    double before = cost_of_parts(k), all = cost_of_parts(plan.n), rounds = plan.parts[k].rounds;
    if (k > plan.at) {
        plan.at = k;
        plan.round = 0;
        begin_part(before / all);
    } else if (share < plan.last)
        plan.round++;
    plan.last = share;
    double done = (plan.round + share) / rounds;
    return (before + plan.parts[k].cost * (done < 1 ? done : 1)) / all;
}

int progress_step(void *user, const char *name, int64_t done, int64_t total) {
    (void)user;
    if (total == 0) return interrupted != 0; /* nothing is to be shown */
    double planned = plan.n > 0 && total > 0 ? planned_share(name, (double)done / (double)total) : -1;
    if (planned >= 0) progress_show(planned, name);
    if (stage.told && overall_since < 0) begin_stage(name);
    if (stage.told && overall_since < 0 && done >= total) progress_end_stage();
    if (bar_wanted && total > 0 && overall_since < 0) {
        int percent = percent_of((double)done / (double)total);
        if (percent != last_percent) draw(name, percent);
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
