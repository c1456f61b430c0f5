/* The table of kinds. */
#include <math.h>
#include <string.h>

#include "images/dsprites_task.h"
#include "paper/paper_parts.h"

#define PART(name, member) \
    { name, &paper_##member##_fields, offsetof(paper_settings, member) }
#define COUNT(list) (int64_t)(sizeof(list) / sizeof *(list))

static const paper_settings_part synthetic_parts[] = {
    PART("data", data), PART("training", training), PART("evaluation", evaluation), PART("method", method), {0}};
static const paper_settings_part limits_parts[] = {PART("limits", limits), {0}};
static const paper_settings_part images_parts[] = {PART("task", model),        PART("data", data),
                                                   PART("training", training), PART("yardstick", yardstick),
                                                   PART("method", method),     {0}};

/* clang-format off */
static const paper_number synthetic_numbers[] = {
    NUMBER_VCF, NUMBER_VCF_SUPPORT, NUMBER_FLOOR, NUMBER_MSE, NUMBER_VARIANCE, NUMBER_COLLAPSED, NUMBER_VALIDATION_MSE,
    NUMBER_VALIDATION_VCF, NUMBER_VALIDATION_FLOOR, NUMBER_SECONDS, NUMBER_REGULARIZER_SECONDS};
static const paper_number limits_numbers[] = {
    NUMBER_VCF, NUMBER_VCF_SUPPORT, NUMBER_FLOOR, NUMBER_VCF_ERROR, NUMBER_VCF_SUPPORT_ERROR, NUMBER_FLOOR_ERROR,
    NUMBER_SECONDS};
static const paper_number images_numbers[] = {
    NUMBER_MSE, NUMBER_OOD_MSE, NUMBER_VALIDATION_MSE, NUMBER_DEPENDENCE, NUMBER_DEPENDENCE_ERROR,
    NUMBER_DEPENDENCE_EXCHANGED, NUMBER_VALIDATION_VARIANCE, NUMBER_VARIANCE, NUMBER_STEPS, NUMBER_SECONDS,
    NUMBER_REGULARIZER_SECONDS};
/* clang-format on */

/* ---- times, roughly ---------------------------------------------------------------------------------------------- */

/* A training step with each regulariser (none, circe, hscic, gcm, hsic), by the dimensions it sees. */
static double weight_synthetic(const paper_settings *s) {
    static const double alone[] = {1.0, 1.5, 3.5, 1.7, 1.5};
    static const double dense[] = {1.0, 1.5, 14.0, 7.0, 1.5}; /* where kernel matrices of y have no low rank */
    synthetic_model model = paper_model_synthetic(&s->model, s->d);
    double weight = (synthetic_dim_y(&model) > 3 ? dense : alone)[s->method.regularizer];
    if (s->method.method == CIRCE_METHOD_RFF) weight += 3e-4 * pow((double)s->method.rff_features, 2);
    return weight * (double)s->training.epochs * (double)s->data.train;
}

static double weight_limits(const paper_settings *s) { return (double)s->limits.samples * (double)s->d; }

/* The regulariser is a small part of a step, HSCIC's excepted. */
static double weight_images(const paper_settings *s) {
    static const double times[] = {1.0, 1.02, 1.2, 1.02, 1.02};
    int64_t train = s->data.train > 0 ? s->data.train : (int64_t)DSPRITES_MOST_TRAIN;
    double epochs = s->training.steps > 0 ? (double)(s->training.steps * s->training.batch) / (double)train
                                          : (double)s->training.epochs;
    return times[s->method.regularizer] * epochs * (double)train;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static const paper_kind synthetic = {
    .name = "synthetic",
    .parts = synthetic_parts,
    .data = {.train = 8000, .validation = 1000, .test = 2000, .holdout = 1000},
    .run = paper_run_synthetic,
    .weight = weight_synthetic,
    .numbers = synthetic_numbers,
    .n_numbers = COUNT(synthetic_numbers),
    .score = paper_score_synthetic,
    .better = paper_better_synthetic,
    .columns = paper_columns_synthetic,
    .tuning_columns = paper_columns_synthetic_tuning,
    .figures = paper_figures_synthetic,
    .caption_seeds =
        "Medians over seeds, with the smallest and the largest in brackets, on test data that were not used for any "
        "choice. MSE is in units of Var(B). floor: no invariant predictor can have a smaller error. collapsed: the "
        "prediction has shrunk towards a constant, Var(B̂) < 0.4 (1 - floor), so a small VCF means nothing.",
    .caption_seed =
        "One seed, on test data that were not used for any choice. MSE is in units of Var(B). floor: no invariant "
        "predictor can have a smaller error. collapsed: the prediction has shrunk towards a constant, Var(B̂) < 0.4 (1 "
        "- floor).",
    .caption_choice = "Chosen on validation data only; medians over the tuning seeds, in units of Var(B).",
    .text_sweep =
        "For every method, the table above shows the gamma with the best mean score on validation data, floor + |error "
        "- floor| + VCF. This table shows all gammas.",
    .text_tuning =
        "Chosen on validation data, by runs with seeds other than those above: the smallest mean of floor + |error - "
        "floor| + VCF. An error below the floor comes from using Z and counts like one above. A constant prediction "
        "scores 1, so collapsing does not pay.",
    .footer = "floor: no predictor that is invariant to Z can have a smaller error.",
    .footer_choice = "Chosen on validation rows, by floor + |error - floor| + VCF",
};

static const char limits_caption[] =
    "In units of Var(B), with standard errors. floor: the smallest error of any predictor that is invariant to Z, "
    "E[Var(B|Y)]/Var(B). vcf, vcf_support: those of the best predictor without invariance, E[B|A,Y,Z].";

static const paper_kind limits = {
    .name = "limits",
    .parts = limits_parts,
    .run = paper_run_limits,
    .weight = weight_limits,
    .numbers = limits_numbers,
    .n_numbers = COUNT(limits_numbers),
    .columns = paper_columns_limits,
    .figures = paper_figures_limits,
    .caption_seeds = limits_caption,
    .caption_seed = limits_caption,
};

#define IMAGE_COLUMNS                                                                                               \
    "test MSE: in domain. OOD: out of domain, where Z is no longer associated with Y. dependence: CIRCE of the "    \
    "prediction on validation pictures, by one yardstick for all methods, beyond what remains when Z is exchanged " \
    "among pictures of equal Y; then the same in standard errors, for all seeds together. chosen: on in-domain "    \
    "validation data only. best OOD is shown for comparison because the paper's figures show it; without "          \
    "out-of-domain data it could not be chosen."

static const paper_kind images = {
    .name = "images",
    .pictures = true,
    .parts = images_parts,
    .run = paper_run_images,
    .weight = weight_images,
    .numbers = images_numbers,
    .n_numbers = COUNT(images_numbers),
    .score = paper_score_images,
    .better = paper_better_images,
    .columns = paper_columns_images,
    .tuning_columns = paper_columns_images_tuning,
    .figures = paper_figures_images,
    .caption_seeds = "Medians over seeds, with the smallest and the largest in brackets. " IMAGE_COLUMNS,
    .caption_seed = "One seed. " IMAGE_COLUMNS,
    .caption_choice = "Chosen on in-domain validation pictures only; medians over the tuning seeds.",
    .text_sweep =
        "For every method, the table above shows the chosen gamma: the smallest whose dependence on validation "
        "pictures is no longer detectable (below 2 standard errors, all seeds together). If there is none, it is the "
        "gamma with the fewest standard errors. Gammas that predict no better than a constant are left out. The choice "
        "uses no out-of-domain data.",
    .text_tuning =
        "Chosen on in-domain validation pictures, by runs with seeds other than those above. Without a regulariser: "
        "the smallest mean error. With one: the smallest gamma whose dependence is below 2 standard errors or, if "
        "there is none, the one with the fewest.",
    .footer =
        "OOD: Z is no longer associated with Y. Chosen: the smallest gamma whose dependence on in-domain validation "
        "pictures is below 2 standard errors or, if there is none, the one with the fewest.",
    .footer_choice = "Chosen on in-domain validation pictures",
};

static const paper_kind *const kinds[] = {&synthetic, &limits, &images};

const paper_kind *paper_kind_find(const char *name) {
    for (int64_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

const paper_kind *paper_kind_of(const paper_config *config) {
    if (config->limits.samples > 0) return &limits;
    bool pictures = config->models.n > 0 && paper_model_has_pictures(paper_model_at(config, 0)->word);
    return pictures ? &images : &synthetic;
}
