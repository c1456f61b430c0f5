/* The runs of this process, either as threads or as child processes. */
#include "base/clock.h"
#include "sweep/sweep_parts.h"

void sweep__runners_open(const sweep_options *options, sweep__runners *runners) {
    *runners = (sweep__runners){.options = options,
                                .way = options->program != NULL ? &sweep__by_children : &sweep__by_threads};
    runners->way->open(runners);
}

void sweep__runners_close(sweep__runners *runners) { runners->way->close(runners); }

bool sweep__runners_start(sweep__runners *runners, int64_t i, const char *path, const char *settings,
                          char why[SWEEP__WHY_BYTES]) {
    return runners->way->start(runners, i, path, settings, why);
}

void sweep__runners_listen(sweep__runners *runners, int milliseconds, sweep__hear *hear, void *user) {
    runners->way->listen(runners, milliseconds, hear, user);
}

void sweep__runners_stop(sweep__runners *runners) {
    if (runners->stopping) return;
    runners->stopping = true;
    runners->stopped_at = job_clock();
    runners->way->stop(runners);
}

void sweep__runners_hurry(sweep__runners *runners) {
    if (!runners->stopping || runners->hurried || job_clock() - runners->stopped_at < SWEEP_PATIENCE_S) return;
    runners->hurried = true;
    if (runners->way->kill != NULL) runners->way->kill(runners);
}
