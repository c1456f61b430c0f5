/* One run: in a process of its own, or in whichever thread it is. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "circe/circe.h"
#include "io/io.h"
#include "io/small.h"
#include "jobs/clock.h"
#include "sweep/sweep_parts.h"

/* A line at most every tenth of a second. Stops where one is asked to, or where nobody listens any more. */
static int tell(void *user, double share) {
    sweep__teller *t = user;
    double now = job_clock();
    char line[32];
    if (t->stop(t->user)) return 1;
    if (now - t->last < 0.1) return 0;
    t->last = now;
    int bytes = snprintf(line, sizeof line, "%.4f\n", share);
    return write(t->out, line, (size_t)bytes) != bytes;
}

static circe_status write_result(const char *path, const char *left_out, sweep_task *task) {
    char fingerprint[SWEEP_FINGERPRINT_BYTES];
    cJSON *json = cJSON_CreateObject();
    sweep_fingerprint(task->understood, left_out, fingerprint);
    cJSON_AddStringToObject(json, "fingerprint", fingerprint);
    cJSON_AddStringToObject(json, "version", circe_version());
    cJSON_AddItemToObject(json, "result", task->result);
    cJSON_AddItemToObject(json, "settings", task->understood);
    task->result = task->understood = NULL;
    char *text = json_utf8(json, true);
    cJSON_Delete(json);
    if (text == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the result");
    circe_status status = io_write_text(path, text, strlen(text));
    free(text);
    return status;
}

/* "runs/NAME.json" keeps "runs/NAME.checkpoint.safetensors" until it is done. */
static char *checkpoint_beside(arena *owner, const char *path) {
    const char *ending = strrchr(path, '.');
    int length = ending != NULL && strcmp(ending, ".json") == 0 ? (int)(ending - path) : (int)strlen(path);
    return arena_format(owner, "%.*s.checkpoint.safetensors", length, path);
}

circe_status sweep__do(const sweep_options *options, const char *path, const char *settings, sweep__teller *teller) {
    arena owner = {0};
    cJSON *json = cJSON_Parse(settings);
    sweep_task task = {
        .settings = json, .checkpoint = checkpoint_beside(&owner, path), .progress = tell, .teller = teller};
    circe_status status = json != NULL
                              ? options->function(options->function_user, &task)
                              : circe_fail(CIRCE_ERR_ARGUMENT, "standard input holds no JSON: settings of a run");
    if (status == CIRCE_OK) status = write_result(path, options->left_out, &task);
    if (status == CIRCE_OK) unlink(task.checkpoint);
    cJSON_Delete(task.understood);
    cJSON_Delete(task.result);
    cJSON_Delete(json);
    arena_free(&owner);
    return status;
}

/* ---- a process of its own ---------------------------------------------------------------------------------------- */

/* However the process that started this one ends, killed included, this one is then asked to stop. false: it has ended
 * before it could be asked for that, and nobody reads what is said here. */
static bool end_with_parent(void) {
    struct pollfd listener = {.fd = STDOUT_FILENO};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return poll(&listener, 1, 0) <= 0 || (listener.revents & (POLLERR | POLLHUP)) == 0;
}

static bool is_stopped(void *user) { return (*(bool (**)(void))user)(); }

circe_status sweep_work(const char *path, const char *left_out, sweep_function function, void *user,
                        bool (*stop)(void)) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    if (!end_with_parent()) return circe_fail(CIRCE_ERR_CANCELLED, "the process that started this run has ended");
    const sweep_options options = {.left_out = left_out, .function = function, .function_user = user};
    sweep__teller teller = {.out = STDOUT_FILENO, .stop = is_stopped, .user = &stop};
    char *settings = small_alloc(SWEEP__MOST_BYTES + 1);
    settings[fread(settings, 1, SWEEP__MOST_BYTES, stdin)] = '\0';
    circe_status status = sweep__do(&options, path, settings, &teller);
    free(settings);
    return status;
}
