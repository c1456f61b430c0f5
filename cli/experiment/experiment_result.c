/* Results as files. */
#include "cli/experiment/experiment_result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/experiment/experiment_kind.h"
#include "io/io.h"

static const struct {
    const char *name;
    bool truth;
} names[N_NUMBERS] = {
    [NUMBER_MSE] = {"mse", false},
    [NUMBER_OOD_MSE] = {"ood_mse", false},
    [NUMBER_VCF] = {"vcf", false},
    [NUMBER_VCF_SUPPORT] = {"vcf_support", false},
    [NUMBER_VARIANCE] = {"variance", false},
    [NUMBER_FLOOR] = {"floor", false},
    [NUMBER_COLLAPSED] = {"collapsed", true},
    [NUMBER_VALIDATION_MSE] = {"validation_mse", false},
    [NUMBER_VALIDATION_VCF] = {"validation_vcf", false},
    [NUMBER_VALIDATION_FLOOR] = {"validation_floor", false},
    [NUMBER_DEPENDENCE] = {"dependence", false},
    [NUMBER_DEPENDENCE_ERROR] = {"dependence_error", false},
    [NUMBER_DEPENDENCE_EXCHANGED] = {"dependence_exchanged", false},
    [NUMBER_VALIDATION_VARIANCE] = {"validation_variance", false},
    [NUMBER_VCF_ERROR] = {"vcf_error", false},
    [NUMBER_VCF_SUPPORT_ERROR] = {"vcf_support_error", false},
    [NUMBER_FLOOR_ERROR] = {"floor_error", false},
    [NUMBER_STEPS] = {"steps", false},
    [NUMBER_SECONDS] = {"seconds", false},
    [NUMBER_REGULARIZER_SECONDS] = {"regularizer_seconds", false},
};

const char *experiment_number_name(experiment_number number) { return names[number].name; }

bool experiment_number_is_truth(experiment_number number) { return names[number].truth; }

void experiment_result_init(experiment_result *result) {
    result->choices = NULL;
    for (int i = 0; i < N_NUMBERS; i++) result->number[i] = (double)NAN;
}

void experiment_result_free(experiment_result *result) {
    free(result->choices);
    experiment_result_init(result);
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

void experiment_result_json(cJSON *object, const experiment_kind *kind, const experiment_result *result) {
    for (int64_t i = 0; i < kind->n_numbers; i++) {
        experiment_number number = kind->numbers[i];
        if (names[number].truth)
            cJSON_AddBoolToObject(object, names[number].name, result->number[number] == 1);
        else
            json_number(object, names[number].name, result->number[number]);
    }
    if (result->choices != NULL) cJSON_AddStringToObject(object, "choices", result->choices);
}

int experiment_result_write(const char *path, const experiment_settings *settings, const experiment_result *result) {
    char fingerprint[FINGERPRINT_BYTES];
    int status = EXIT_DONE;
    cJSON *json = cJSON_CreateObject();
    experiment_settings_fingerprint(settings, fingerprint);
    cJSON_AddStringToObject(json, "fingerprint", fingerprint);
    cJSON_AddStringToObject(json, "version", circe_version());
    experiment_result_json(cJSON_AddObjectToObject(json, "result"), settings->kind, result);
    cJSON_AddItemToObject(json, "settings", experiment_settings_json(settings));
    char *text = json_utf8(json, true);
    cJSON_Delete(json);
    if (text == NULL) return message_fail(EXIT_WORK, "out of memory for the result");
    if (io_write_text(path, text, strlen(text)) != CIRCE_OK) status = message_write(path, circe_last_error());
    free(text);
    return status;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

char *experiment_result_text(const char *path) {
    enum { MOST = 1 << 20 };
    FILE *in = fopen(path, "rb");
    if (in == NULL) return NULL;
    char *text = small_alloc(MOST + 1);
    size_t bytes = fread(text, 1, MOST, in);
    text[bytes] = '\0';
    fclose(in);
    return text;
}

/* A number, a truth, or null for what was not finite. */
static bool take(const cJSON *object, experiment_number number, experiment_result *result) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, names[number].name);
    if (names[number].truth) {
        if (!cJSON_IsBool(value)) return false;
        result->number[number] = (double)cJSON_IsTrue(value);
        return true;
    }
    if (cJSON_IsNumber(value)) result->number[number] = value->valuedouble;
    return cJSON_IsNumber(value) || cJSON_IsNull(value);
}

bool experiment_result_read(const char *path, const experiment_kind *kind, const char *fingerprint,
                            experiment_result *result) {
    char *text = experiment_result_text(path);
    bool good = experiment_result_parse(text, kind, fingerprint, result);
    free(text);
    return good;
}

bool experiment_result_parse(const char *text, const experiment_kind *kind, const char *fingerprint,
                             experiment_result *result) {
    experiment_result_init(result);
    cJSON *json = text != NULL ? cJSON_Parse(text) : NULL;
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(json, "result");
    const char *mark = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "fingerprint"));
    bool good = mark != NULL && strcmp(mark, fingerprint) == 0 && cJSON_IsObject(found);
    for (int64_t i = 0; good && i < kind->n_numbers; i++) good = take(found, kind->numbers[i], result);
    if (good) {
        const char *choices = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(found, "choices"));
        result->choices = choices != NULL ? strdup(choices) : NULL;
    }
    cJSON_Delete(json);
    return good;
}
