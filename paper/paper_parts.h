/* What the files of the paper's experiments share: a run, the plan of runs, and their summary. */
#pragma once

#include "images/part.h"
#include "images/yaleb.h"
#include "paper/paper_config.h"
#include "report/cells.h"
#include "train/regularizer.h"
#include "train/trainer.h"

typedef struct paper_kind paper_kind;

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Everything that decides the outcome of one run. */
typedef struct paper_settings {
    const paper_kind *kind; /* which says what of the rest matters */
    paper_model model;
    int64_t d;
    paper_limits limits;
    paper_data data;
    paper_training training;
    paper_evaluation evaluation;
    paper_yardstick yardstick;
    paper_method method; /* its name, seeds and lists of choices are not settings of a run */
    double gamma;
    int64_t seed;
} paper_settings;

/* The path of the pictures is not a setting: the fingerprint covers a mark of their content. */
#define PAPER_LEFT_OUT "pictures_file"

cJSON *paper_settings_json(const paper_settings *settings);
/* Texts and lists go into the arena. */
circe_status paper_settings_parse(const cJSON *json, arena *owner, paper_settings *settings);

/* The library's options; point into the settings. The second is the yardstick's: CIRCE, ustat. */
void paper_settings_regularizer(const paper_settings *settings, circe_measure_options *options);
void paper_settings_yardstick(const paper_settings *settings, circe_measure_options *options);
train_layer_kind paper_settings_activation(const paper_settings *settings);

/* Every number that some kind of run gives; which ones a kind has, its table says. Errors and VCF of synthetic models
 * are in units of Var(B) of the training sample. */
#define PAPER_NUMBERS(X)                                                                                           \
    X(MSE, "mse")                 /* on the test sample */                                                         \
    X(OOD_MSE, "ood_mse")         /* on the test sample out of domain */                                           \
    X(VCF, "vcf")                 /* on the test sample: z' from P(Z) */                                           \
    X(VCF_SUPPORT, "vcf_support") /* z' from P(Z | Y) */                                                           \
    X(VARIANCE, "variance")       /* of the prediction on the test sample */                                       \
    X(FLOOR, "floor")             /* of the test sample: below it no invariant predictor can get */                \
    X(COLLAPSED, "collapsed")     /* 1: variance < 0.4 (1 - floor), on its way to a constant */                    \
    X(VALIDATION_MSE, "validation_mse")                                                                            \
    X(VALIDATION_VCF, "validation_vcf")                                                                            \
    X(VALIDATION_FLOOR, "validation_floor")                                                                        \
    X(DEPENDENCE, "dependence")             /* CIRCE of the prediction on validation rows, less the second next */ \
    X(DEPENDENCE_ERROR, "dependence_error") /* its standard error */                                               \
    X(DEPENDENCE_EXCHANGED, "dependence_exchanged") /* where Z is exchanged among rows of equal Y */               \
    X(VALIDATION_VARIANCE, "validation_variance")   /* of the target: the error of a constant */                   \
    X(VCF_ERROR, "vcf_error")                       /* standard errors, of limits */                               \
    X(VCF_SUPPORT_ERROR, "vcf_support_error")                                                                      \
    X(FLOOR_ERROR, "floor_error")                                                                                  \
    X(STEPS, "steps")                                                                                              \
    X(SECONDS, "seconds")                                                                                          \
    X(REGULARIZER_SECONDS, "regularizer_seconds") /* the regulariser's share of them */

typedef enum paper_number {
#define PAPER_ENUM(number, name) NUMBER_##number,
    PAPER_NUMBERS(PAPER_ENUM)
#undef PAPER_ENUM
        N_NUMBERS
} paper_number;

/* "mse", as in files. */
extern const char *const paper_number_names[N_NUMBERS];

typedef struct paper_numbers {
    double at[N_NUMBERS]; /* NaN if there is none */
    char *choices;        /* what the regulariser chose, a sentence; NULL: nothing. Owned */
} paper_numbers;

void paper_numbers_init(paper_numbers *numbers);
/* As members of an object, and back; false: some are missing. */
void paper_numbers_put(cJSON *object, const paper_kind *kind, const paper_numbers *numbers);
bool paper_numbers_get(const cJSON *object, const paper_kind *kind, paper_numbers *numbers);

typedef struct paper_job {
    const paper_settings *settings;
    const char *device; /* by its name: device.h */
    bool together;      /* with other runs in this process: what they have in common is to be there once */
    const sweep_task *task;
    const char *fingerprint;
    bool stopped;          /* it was asked to */
    double seconds_before; /* of earlier attempts that a checkpoint kept */
} paper_job;

/* The kinds of runs; job->stopped tells one that was asked to stop. */
circe_status paper_run_synthetic(paper_job *job, paper_numbers *numbers);
circe_status paper_run_limits(paper_job *job, paper_numbers *numbers);
circe_status paper_run_images(paper_job *job, paper_numbers *numbers);

/* ---- what all runs that train have in common --------------------------------------------------------------------- */

typedef struct paper_learner {
    paper_job *job;
    const char *checkpoint; /* NULL: none is kept */
    circe_context *context; /* of the run */
    train_device *device;
    train_network *network;
    circe_measure *regularizer; /* NULL: none */
} paper_learner;

void paper_learner_close(paper_learner *learner);

/* The network of the settings for points of this shape, with weights by the seed, and the pretrained ones if any; and
 * the regulariser, y and z (n, 1..) of the training points and of the holdout. */
circe_status paper_learner_build(paper_learner *learner, train_shape input, const circe_mat *y, const circe_mat *z,
                                 const circe_mat *holdout_y, const circe_mat *holdout_z);

/* Trains as the settings say; job->stopped where it was asked to stop. With a checkpoint, goes on from it; one that is
 * damaged or of other settings is thrown away. */
circe_status paper_learner_train(paper_learner *learner, const train_data *data, paper_numbers *numbers);

/* Predictions of all points, and their mean squared error and variance; prediction (n) is the caller's. */
circe_status paper_learner_judge(paper_learner *learner, const train_source *points, const float *target,
                                 float *prediction, double *mse, double *variance);

enum { YARDSTICK_CHUNKS = 8 }; /* the fewest, for a standard error */

/* How far a prediction depends on Z given Y, by one yardstick for all methods of an image experiment: CIRCE (ustat) of
 * the prediction (n, float32) on the rows of `part`, as its mean over chunks of rows, less the same with Z exchanged
 * among rows of equal Y: yardstick.c says why. Sets NUMBER_DEPENDENCE and those after it. */
circe_status paper_yardstick_apply(circe_context *context, const paper_settings *settings, const image_part *part,
                                   const image_part *holdout, const float *prediction, paper_numbers *numbers);

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

typedef enum paper_role { ROLE_TUNING = 1, ROLE_FINAL, ROLE_SWEEP, ROLE_LIMITS } paper_role;

/* Run i of the sweep. */
typedef struct paper_planned {
    int64_t group;
    paper_role role;
    paper_settings settings;
    paper_numbers numbers; /* where done */
} paper_planned;

/* One model with one method. Where the method leaves a choice (several gammas, rates or decays), tuning runs, with
 * seeds of their own, try every combination; the one that is best on validation rows (choice.c) is then run with the
 * final seeds. In a sweep, every gamma runs with every seed and nothing is chosen beforehand. */
typedef struct paper_group {
    const paper_model *model;
    int64_t d;
    int64_t method; /* -1: nothing is trained */
    bool settled;   /* its final runs know their choice */
} paper_group;

/* Over the seeds; NaN if there is none. */
typedef struct paper_spread {
    double median, low, high, mean;
} paper_spread;

/* One model, one method, one choice of gamma, rate and decay. */
typedef struct paper_row {
    int64_t group;
    const paper_model *model;
    int64_t d;
    int64_t method; /* -1: nothing is trained */
    bool tuning, regularized;
    paper_choice choice;
    int64_t n, failed; /* runs that are done, and that failed */
    paper_spread number[N_NUMBERS];
    paper_spread score;               /* what is chosen by: the kind's */
    paper_spread signal;              /* the score that regularised runs would have; of pictures, the dependence */
    int64_t collapsed;                /* of the runs that are done */
    const paper_numbers *first;       /* of the first run that is done, or NULL */
    bool chosen;                      /* the best of the method's choices, on validation data */
    bool best_ood;                    /* the smallest median error out of domain among them: no choice */
    bool alone;                       /* its method has no other choice */
    const paper_published *published; /* the paper's numbers, or NULL */
} paper_row;

typedef struct paper_rows {
    paper_row *list;
    int64_t n;
} paper_rows;

/* An experiment that is under way or done. */
typedef struct paper {
    circe_experiment_result result; /* first: it is the caller's door to the rest */
    paper_config config;
    const circe_watch *watch;
    const char *folder, *command, *json;
    sweep sweep;
    paper_planned *runs; /* of the sweep */
    paper_group *groups;
    int64_t n_groups;
    paper_rows rows, tuning; /* tuning: of the runs that were chosen by */
    cells front;             /* of the table on a terminal */
} paper;

/* Final seeds are 1, 2, ...; tuning seeds follow this. */
enum { TUNING_SEEDS_AFTER = 1000 };

/* Sees to the pictures of every model that needs it, before the first run, and notes in the model where they lie:
 * FOLDER/data. They are rendered or read once, kept as a file of bytes, and mapped by every run. dSprites as drawn
 * needs none of this: a run draws what it shows in a fraction of a second. CIRCE_ERR_ARGUMENT: something cannot be
 * read. */
circe_status paper_pictures_prepare(paper *p);
/* The file again, in a run; closed by paper_album_close, which voids what points into it. */
typedef struct paper_album paper_album;
circe_status paper_pictures_open(const paper_model *model, paper_album **album, circe_tensor *pixels);
/* With the names that faces have; names are copied, pixels point into the file. */
circe_status paper_pictures_faces(const paper_model *model, paper_album **album, yaleb_store *store);

/* A file, or dSprites as drawn (path NULL: then there is no file). Runs of this process that use the same at the same
 * time have it once. */
circe_status paper_album_open(const char *path, paper_album **album);
void paper_album_close(paper_album *album); /* takes NULL */
const circe_tensor_file *paper_album_file(const paper_album *album);
const uint8_t *paper_album_drawn(const paper_album *album); /* all of them */

/* What a sweep asks for: lays out all runs; gives the final runs of a group their choice once all its tuning ended. */
circe_status paper_plan(void *p, sweep *s);
void paper_ended(void *p, sweep *s, int64_t run);
bool paper_accept(void *p, int64_t run, const cJSON *result);

/* The gamma, rate and decay of a run. */
paper_choice paper_choice_of(const paper_planned *run);
const char *paper_role_name(paper_role role);

/* ---- what the runs say together ---------------------------------------------------------------------------------- */

/* The rows of one group (-1: all), of tuning runs or of all others, in the order of the plan. To be freed. */
paper_rows paper_summarise(const paper *p, int64_t group, bool tuning);

/* Marks, of every group in the rows, the choice that is best by its kind (the first of equals), and the one that is
 * best out of domain. One with runs that failed comes after all others, and one without any that is done is never
 * chosen. */
void paper_choose(const paper_kind *kind, paper_rows *rows);

/* The dependence in all runs of a row of pictures together, in standard errors. Each run is independent evidence, so
 * three of 1.9 are 3.3 (Stouffer). PAPER_USELESS if a run predicts no better than a constant. */
#define PAPER_USELESS 1e30
double paper_evidence(const paper_row *row);

/* By kind: what is chosen by, of one run, and whether the choice of a is to be preferred to that of b. */
double paper_score_synthetic(const paper_numbers *numbers, bool regularized);
bool paper_better_synthetic(const paper_row *a, const paper_row *b);
double paper_score_images(const paper_numbers *numbers, bool regularized);
bool paper_better_images(const paper_row *a, const paper_row *b);

/* ---- showing ----------------------------------------------------------------------------------------------------- */

/* Which rows a table for people has. */
typedef enum paper_shown { SHOW_CHOSEN, SHOW_ALL, SHOW_TUNING, SHOW_TUNING_CHOSEN } paper_shown;

/* A table of them, which lives as long as the cells. */
report_table paper_table(const paper *p, paper_shown which, cells *list);

/* What callers get, once all is done. */
void paper_fill(paper *p);

/* "univariate1"; of pictures "dsprites-nonlinear". */
const char *paper_model_key(const paper_config *config, const paper_model *model, int64_t d,
                            char text[PAPER_MODEL_BYTES]);

/* results.csv, report.html with its figures, results.json. */
circe_status paper_write(paper *p);

circe_status paper_figures_synthetic(const paper *p, const char *folder, report *page);
circe_status paper_figures_limits(const paper *p, const char *folder, report *page);
circe_status paper_figures_images(const paper *p, const char *folder, report *page);

/* A column of a table for people, or several. */
typedef enum paper_column_kind {
    COLUMN_CHOICE = 1, /* model, method, gamma, and rate and decay where some method has its own */
    COLUMN_RANGE,      /* the median of `number`, with the range over seeds */
    COLUMN_MEDIAN,
    COLUMN_LIMIT, /* the same, with its standard error */
    COLUMN_SEEDS, /* how many runs are done */
    COLUMN_WORDS, /* `cell` */
    COLUMN_VALUE, /* the same, a number */
} paper_column_kind;

typedef struct paper_column {
    const char *name;
    paper_column_kind kind;
    paper_number number;
    void (*cell)(const paper_row *row, cells *list);
    bool only_published; /* where the file has the paper's numbers */
} paper_column;

/* ---- kinds of experiments ---------------------------------------------------------------------------------------- */

/* A member of the settings that a kind of run has, with the fields it is made of. */
typedef struct paper_settings_part {
    const char *name;
    const io_fields *table;
    size_t offset; /* in paper_settings */
} paper_settings_part;

/* Training on synthetic models, their limits without training, training on pictures. One table says of each what a
 * run's settings are, how it is done, what numbers it gives, how one chooses by them, and how they are shown. Another
 * kind is another row. Lists end with zeros. */
struct paper_kind {
    const char *name;
    bool pictures; /* its models are of pictures */

    const paper_settings_part *parts; /* settings of a run, beside model, seed and gamma */
    paper_data data;                  /* rows, where a file says 0 */

    circe_status (*run)(paper_job *job, paper_numbers *numbers);
    double (*weight)(const paper_settings *settings); /* time it takes, in units of no meaning */
    const paper_number *numbers;                      /* that it gives, in the order of files */
    int64_t n_numbers;

    double (*score)(const paper_numbers *numbers, bool regularized);
    bool (*better)(const paper_row *a, const paper_row *b);

    const paper_column *columns, *tuning_columns;
    circe_status (*figures)(const paper *p, const char *folder, report *page);
    const char *caption_seeds, *caption_seed,
        *caption_choice;                  /* of the table: several seeds, one, nothing but a choice */
    const char *text_sweep, *text_tuning; /* how one row of a sweep, or a tuning run, is chosen */
    const char *footer, *footer_choice;   /* under the table on a terminal */
};

extern const paper_column paper_columns_synthetic[], paper_columns_synthetic_tuning[], paper_columns_limits[],
    paper_columns_images[], paper_columns_images_tuning[];

/* NULL: there is none of that name. */
const paper_kind *paper_kind_find(const char *name);

/* The kind of an experiment with these models and limits. */
const paper_kind *paper_kind_of(const paper_config *config);
