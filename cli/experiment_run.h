/* One run: data drawn, a network trained, the prediction judged. Its result is a file of its own. */
#ifndef CLI_EXPERIMENT_RUN_H
#define CLI_EXPERIMENT_RUN_H

#include "experiment_settings.h"

/* NaN where a run has none of a number. Errors and VCF are in units of Var(B) of the training sample. */
typedef struct experiment_result {
    double mse, vcf, vcf_support, variance; /* on the test sample; variance is that of the prediction */
    double floor;                           /* of the test sample: below it no invariant predictor can get */
    double validation_mse, validation_vcf, validation_floor;
    double floor_error, vcf_error, vcf_support_error; /* standard errors, of limits */
    double seconds, regularizer_seconds;
    bool collapsed; /* variance < 0.4 (1 - floor): on its way to a constant */
    char *choices;  /* what the regulariser chose, a sentence; NULL: nothing. Owned */
} experiment_result;

/* Called now and then with the share that is done; non-zero stops the run. */
typedef int (*experiment_progress)(void *user, double share);

/* Runs in this process, on one thread. Prints what is wrong and returns an exit status. */
int experiment_run(const experiment_settings *settings, experiment_progress progress, void *user,
                   experiment_result *result);
void experiment_result_free(experiment_result *result);

/* Writes the result, with the settings and their fingerprint, whole or not at all. */
int experiment_result_write(const char *path, const experiment_settings *settings, const experiment_result *result);

/* false, without a word, where there is no such file, it is damaged, or it is of other settings. */
bool experiment_result_read(const char *path, const char *fingerprint, experiment_result *result);

/* The numbers as members of an object. */
void experiment_result_json(cJSON *object, const experiment_settings *settings, const experiment_result *result);

#endif
