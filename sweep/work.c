/* One run: settings in, a result out. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/small.h"
#include "circe/circe.h"
#include "sweep/sweep_parts.h"

/* The result's file; NULL: no memory. */
static char *result_text(const char *left_out, sweep_task *task) {
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
    if (text == NULL) circe_fail(CIRCE_ERR_MEMORY, "out of memory for the result");
    return text;
}

/* "runs/NAME.json" keeps "runs/NAME.checkpoint.safetensors" until it is done. */
static char *checkpoint_beside(arena *owner, const char *path) {
    const char *ending = strrchr(path, '.');
    int length = ending != NULL && strcmp(ending, ".json") == 0 ? (int)(ending - path) : (int)strlen(path);
    return arena_format(owner, "%.*s.checkpoint.safetensors", length, path);
}

circe_status sweep__perform(const char *path, const char *text, const char *left_out, sweep_function function,
                            void *user, sweep_task *task, char **result) {
    OWNED_BY(arena_free) arena owner = {0};
    cJSON *settings = cJSON_Parse(text);
    *result = NULL;
    task->settings = settings;
    if (path != NULL) task->checkpoint = checkpoint_beside(&owner, path);
    circe_status status = settings != NULL ? function(user, task)
                                           : circe_fail(CIRCE_ERR_ARGUMENT, "the settings of the run are not JSON");
    if (status == CIRCE_OK && (*result = result_text(left_out, task)) == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK && path != NULL) status = file_write_text(path, *result, strlen(*result));
    if (status == CIRCE_OK && path != NULL) unlink(task->checkpoint);
    if (status != CIRCE_OK) free(*result), *result = NULL;
    cJSON_Delete(task->understood);
    cJSON_Delete(task->result);
    cJSON_Delete(settings);
    return status;
}

/* ---- in a process of its own ------------------------------------------------------------------------------------- */

typedef struct teller {
    double last;
    bool (*stop)(void);
} teller;

/* A line at most every tenth of a second. Stops where one is asked to, or where nobody listens any more. */
static int tell(void *user, double share) {
    teller *t = user;
    double now = job_clock();
    char line[32];
    if (t->stop()) return 1;
    if (now - t->last < 0.1) return 0;
    t->last = now;
    int bytes = snprintf(line, sizeof line, "%.4f\n", share);
    return write(STDOUT_FILENO, line, (size_t)bytes) != bytes;
}

/* Makes sure that this process is asked to stop when the process that started it ends, even if that was killed. false:
 * it has ended already, and nobody reads the output. */
static bool end_with_parent(void) {
    struct pollfd listener = {.fd = STDOUT_FILENO};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return poll(&listener, 1, 0) <= 0 || (listener.revents & (POLLERR | POLLHUP)) == 0;
}

circe_status sweep_work(const char *path, const char *left_out, sweep_function function, void *user,
                        bool (*stop)(void)) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    if (!end_with_parent()) return circe_fail(CIRCE_ERR_CANCELLED, "the process that started this run has ended");
    teller t = {.stop = stop};
    sweep_task task = {.progress = tell, .teller = &t};
    OWNED char *result = NULL, *settings = small_alloc(SWEEP__MOST_BYTES + 1);
    settings[fread(settings, 1, SWEEP__MOST_BYTES, stdin)] = '\0';
    circe_status status = circe_context_create(NULL, &task.context);
    if (status == CIRCE_OK) status = sweep__perform(path, settings, left_out, function, user, &task, &result);
    circe_context_destroy(task.context);
    return status;
}
