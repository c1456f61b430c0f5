/* Keeps the results of a search for gamma in MODEL.search, so that a resumed run continues after them. The file is one
 * line of JSON: the run that it belongs to, and one list of numbers per gamma. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/small.h"
#include "core/hash.h"
#include "io/json_values.h"
#include "jobs/training.h"

enum { NUMBERS = 12 };

static char *file_of(const training_job *job) {
    return job->options->output != NULL ? small_format("%s.search", job->options->output) : NULL;
}

/* Data, settings and what rounds the numbers. */
static char *identity_of(const training_job *job) {
    OWNED char *yaml = training_yaml(job);
    uint64_t hash = circe__hash_bytes(0, yaml, strlen(yaml));
    return small_format("%s, settings %016llx", job->fingerprint, (unsigned long long)hash);
}

static void to_numbers(const circe_training_trial *t, double *out) {
    const circe_training_score *s = &t->score;
    const double numbers[NUMBERS] = {t->gamma,       (double)s->rows, s->error.value, s->error.lower,
                                     s->error.upper, s->accuracy,     s->p_kci,       s->p_gcm,
                                     s->kpc.value,   s->kpc.lower,    s->kpc.upper,   s->kpc_chance};
    memcpy(out, numbers, sizeof numbers);
}

static circe_training_trial of_numbers(const double *n) {
    return (circe_training_trial){.gamma = n[0],
                                  .score = {.rows = (int64_t)n[1],
                                            .error = {n[2], n[3], n[4]},
                                            .accuracy = n[5],
                                            .auc = NAN,
                                            .p_kci = n[6],
                                            .p_gcm = n[7],
                                            .kpc = {n[8], n[9], n[10]},
                                            .kpc_chance = n[11]}};
}

circe_status training_search_save(const training_job *job, const circe_training_trial *trials, int64_t n) {
    OWNED char *path = file_of(job), *identity = identity_of(job);
    cJSON *object = cJSON_CreateObject();
    OWNED double *numbers = small_alloc((size_t)(n * NUMBERS) * sizeof *numbers);
    for (int64_t i = 0; i < n; i++) to_numbers(&trials[i], numbers + i * NUMBERS);
    cJSON_AddStringToObject(object, "run", identity);
    json_table(object, "trials", numbers, n, NUMBERS);
    OWNED char *text = json_utf8(object, false);
    cJSON_Delete(object);
    return path == NULL || text == NULL ? CIRCE_OK : file_write_text(path, text, strlen(text));
}

static void read_trials(const cJSON *list, circe_training_trial **trials, int64_t *n) {
    *trials = small_alloc((size_t)(cJSON_GetArraySize(list) + 1) * sizeof **trials);
    const cJSON *row;
    cJSON_ArrayForEach(row, list) {
        double numbers[NUMBERS];
        if (cJSON_GetArraySize(row) != NUMBERS) continue;
        for (int i = 0; i < NUMBERS; i++) {
            const cJSON *item = cJSON_GetArrayItem(row, i);
            numbers[i] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
        }
        (*trials)[(*n)++] = of_numbers(numbers);
    }
}

circe_status training_search_load(training_job *job, circe_training_trial **trials, int64_t *n) {
    OWNED char *path = job->options->resume ? file_of(job) : NULL, *identity = identity_of(job);
    OWNED char *text = path != NULL ? file_read_text(path) : NULL;
    cJSON *object = text != NULL ? cJSON_Parse(text) : NULL;
    const cJSON *run = cJSON_GetObjectItemCaseSensitive(object, "run");
    circe_status status = CIRCE_OK;
    if (cJSON_IsString(run) && strcmp(run->valuestring, identity) == 0) {
        read_trials(cJSON_GetObjectItemCaseSensitive(object, "trials"), trials, n);
        job->search_resumed = true;
    } else if (object != NULL) {
        status = circe_fail(CIRCE_ERR_ARGUMENT, "%s comes from a run with other data, settings or threads", path);
        circe_fail_hint(status, "resume with those, or start again without --resume");
    }
    cJSON_Delete(object);
    return status;
}

void training_search_forget(const training_job *job) {
    OWNED char *path = file_of(job);
    if (path != NULL) unlink(path);
}
