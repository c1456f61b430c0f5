/* Plans runs, and finds the results that are already in the folder. */
#include "sweep/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/small.h"
#include "circe/circe.h"
#include "core/hash.h"
#include "io/io.h"
#include "io/paths.h"
#include "mpi/ranks.h"
#include "sweep/sweep_parts.h"

int sweep__tell(const circe_watch *watch, double done, const char *text) {
    return watch != NULL && watch->progress != NULL ? watch->progress(watch->user, done, text) : 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

void sweep_fingerprint(const cJSON *settings, const char *left_out, char fingerprint[SWEEP_FINGERPRINT_BYTES]) {
    cJSON *json = cJSON_Duplicate(settings, true);
    if (left_out != NULL) cJSON_DeleteItemFromObjectCaseSensitive(json, left_out);
    cJSON_AddStringToObject(json, "version", circe_version());
    char *text = cJSON_PrintUnformatted(json);
    uint64_t hash = circe__hash(CIRCE__HASH_START, text, text != NULL ? strlen(text) : 0);
    cJSON_free(text);
    cJSON_Delete(json);
    snprintf(fingerprint, SWEEP_FINGERPRINT_BYTES, "%016" PRIx64, hash);
}

bool sweep__take(const sweep *s, int64_t run, const char *text) {
    cJSON *json = text != NULL ? cJSON_Parse(text) : NULL;
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(json, "result");
    const char *mark = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "fingerprint"));
    bool good = mark != NULL && strcmp(mark, s->runs[run].fingerprint) == 0 && cJSON_IsObject(result) &&
                s->options->accept(s->options->user, run, result);
    cJSON_Delete(json);
    return good;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

int64_t sweep_add(sweep *s, double weight, bool awaited) {
    if ((s->n_runs & (s->n_runs - 1)) == 0) /* the room doubles */
        s->runs = small_grow(s->runs, (size_t)(s->n_runs > 0 ? 2 * s->n_runs : 1) * sizeof *s->runs);
    s->runs[s->n_runs] = (sweep_run){.state = SWEEP_WAITING, .weight = weight, .awaited = awaited};
    return s->n_runs++;
}

void sweep_release(sweep *s, int64_t run, const char *name, double weight, cJSON *settings) {
    sweep_run *r = &s->runs[run];
    OWNED char *text = cJSON_PrintUnformatted(settings);
    r->name = arena_text(&s->owner, name);
    if (s->options->folder != NULL) r->path = arena_format(&s->owner, "%s/runs/%s.json", s->options->folder, name);
    r->settings = arena_text(&s->owner, text != NULL ? text : "");
    r->weight = weight;
    sweep_fingerprint(settings, s->options->left_out, r->fingerprint);
    cJSON_free(text);
    cJSON_Delete(settings);
    text = r->path != NULL ? file_read_text(r->path) : NULL;
    r->state = sweep__take(s, run, text) ? SWEEP_DONE : SWEEP_READY;
}

void sweep_fail(sweep *s, int64_t run, const char *error) {
    s->runs[run].state = SWEEP_FAILED;
    s->runs[run].error = arena_text(&s->owner, error);
}

int64_t sweep_side_by_side(int64_t asked, int64_t threads, const char *device) {
    enum { MOST_ON_A_GPU = 8 }; /* more do not fill it any better */
    if (asked > 0) return asked;
    int64_t jobs = ranks_cores() / threads;
    if (device != NULL && strcmp(device, "cpu") != 0 && jobs > MOST_ON_A_GPU) jobs = MOST_ON_A_GPU;
    return jobs < 1 ? 1 : jobs;
}

int64_t sweep_count(const sweep *s, sweep_state state) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_runs; i++) n += s->runs[i].state == state;
    return n;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Creates the folder with `runs` in it, and checks before the work that files can be created there. Two processes in
 * one folder would start every run twice. */
static circe_status hold_folder(sweep *s) {
    const char *folder = s->options->folder, *runs = arena_format(&s->owner, "%s/runs", folder);
    circe_status status = path_make_folders(folder);
    if (status == CIRCE_OK) status = path_make_folder(runs);
    if (status == CIRCE_OK && (access(folder, W_OK | X_OK) != 0 || access(runs, W_OK | X_OK) != 0))
        status = circe_fail(CIRCE_ERR_WRITE, "cannot write in %s: %s", folder, strerror(errno));
    if (status == CIRCE_OK) status = io_lock_take(arena_format(&s->owner, "%s/results.json", folder), &s->lock);
    return status;
}

circe_status sweep_go(const sweep_options *options, const circe_watch *watch, sweep *s) {
    *s = (sweep){.options = options};
    double start = job_clock();
    circe_status status = options->folder != NULL ? hold_folder(s) : CIRCE_OK;
    if (status == CIRCE_OK) status = options->plan(options->user, s);
    status = sweep__meet(status, options->folder, options->same_file);
    if (status == CIRCE_OK) status = sweep__pool(s, watch);
    s->seconds = job_clock() - start;
    return status;
}

circe_status sweep_call_off(circe_status status) { return sweep__meet(status, "", NULL); }

void sweep_free(sweep *s) {
    io_lock_release(s->lock);
    free(s->runs);
    arena_free(&s->owner);
    *s = (sweep){0};
}
