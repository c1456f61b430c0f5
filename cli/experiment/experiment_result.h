/* The numbers of a run, and the file that keeps them. */
#ifndef CLI_EXPERIMENT_RESULT_H
#define CLI_EXPERIMENT_RESULT_H

#include "cli/experiment/experiment_settings.h"

/* Every number that some kind of run gives; which ones a kind has, its table says (experiment_kind.h). Errors and VCF
 * of synthetic models are in units of Var(B) of the training sample. */
typedef enum experiment_number {
    NUMBER_MSE,         /* on the test sample */
    NUMBER_OOD_MSE,     /* on the test sample out of domain */
    NUMBER_VCF,         /* on the test sample: z' from P(Z) */
    NUMBER_VCF_SUPPORT, /* z' from P(Z | Y) */
    NUMBER_VARIANCE,    /* of the prediction on the test sample */
    NUMBER_FLOOR,       /* of the test sample: below it no invariant predictor can get */
    NUMBER_COLLAPSED,   /* 1: variance < 0.4 (1 - floor), on its way to a constant */
    NUMBER_VALIDATION_MSE,
    NUMBER_VALIDATION_VCF,
    NUMBER_VALIDATION_FLOOR,
    NUMBER_DEPENDENCE,           /* CIRCE of the prediction on validation rows, by the yardstick, less the last */
    NUMBER_DEPENDENCE_ERROR,     /* its standard error */
    NUMBER_DEPENDENCE_EXCHANGED, /* CIRCE where Z is exchanged among rows of equal Y: what the mean's error adds */
    NUMBER_VALIDATION_VARIANCE,  /* of the target: the error of a constant */
    NUMBER_VCF_ERROR,            /* standard errors, of limits */
    NUMBER_VCF_SUPPORT_ERROR,
    NUMBER_FLOOR_ERROR,
    NUMBER_STEPS,
    NUMBER_SECONDS,
    NUMBER_REGULARIZER_SECONDS, /* the regulariser's share of them */
    N_NUMBERS
} experiment_number;

/* "mse", as in files. */
const char *experiment_number_name(experiment_number number);
/* It is true or false: 1 or 0. */
bool experiment_number_is_truth(experiment_number number);

typedef struct experiment_result {
    double number[N_NUMBERS]; /* NaN where there is none */
    char *choices;            /* what the regulariser chose, a sentence; NULL: nothing. Owned */
} experiment_result;

void experiment_result_init(experiment_result *result);
void experiment_result_free(experiment_result *result);

/* Writes the result, with the settings and their fingerprint, whole or not at all. Prints what is wrong and returns an
 * exit status. */
int experiment_result_write(const char *path, const experiment_settings *settings, const experiment_result *result);

/* false, without a word, where there is no such file, it is damaged, or it is of other settings. */
bool experiment_result_read(const char *path, const experiment_kind *kind, const char *fingerprint,
                            experiment_result *result);

/* The same in two steps: the text of a file, to be freed, or NULL; the result in it, none where it is NULL. */
char *experiment_result_text(const char *path);
bool experiment_result_parse(const char *text, const experiment_kind *kind, const char *fingerprint,
                             experiment_result *result);

/* The numbers as members of an object. */
void experiment_result_json(cJSON *object, const experiment_kind *kind, const experiment_result *result);

#endif
