/* The settings of a training: interprets its options, refuses contradictions, and warns about options that do
 * nothing. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "base/small.h"
#include "jobs/sentinels.h"
#include "jobs/training.h"

static bool given(const training_job *job, const char *option) {
    return circe_options_given(&circe_train_schema, job->options, option);
}

static double *numbers_of(const circe_train_options *options, const char *option, int64_t *n) {
    circe_options_numbers(&circe_train_schema, options, option, NULL, n);
    double *values = small_alloc((size_t)*n * sizeof *values);
    circe_options_numbers(&circe_train_schema, options, option, values, n);
    return values;
}

bool training_needs_holdout(const training_job *job) {
    bool settled = job->n_sigma2_y == 1 && job->n_ridge == 1;
    return job->kind == CIRCE_MEASURE_CIRCE ||
           ((job->kind == CIRCE_MEASURE_HSCIC || job->kind == CIRCE_MEASURE_GCM) && !settled);
}

/* The command requires an output, and a caller may keep the model in memory. */
static circe_status check_options(const circe_train_options *options) {
    circe_train_options checked = *options;
    if (checked.output == NULL) checked.output = "memory";
    circe_status status = circe_options_check(&circe_train_schema, &checked);
    if (status == CIRCE_OK && options->resume && options->output == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--resume needs -o MODEL: it continues the checkpoint of that model");
    return status;
}

circe_status training_check_settings(training_job *job) {
    const circe_train_options *o = job->options;
    circe_status status = check_options(o);
    if (status != CIRCE_OK) return status;
    job->kind = job->made->kind = (circe_measure_kind)circe_measure_find(o->regularizer);
    job->gamma = job->kind == CIRCE_MEASURE_NONE ? 0.0 : o->gamma; /* CIRCE_AUTO until it is chosen */
    job->net = o->net != NULL ? o->net : o->images != NULL ? "conv16s2,conv32s2,pool2,128,64" : "3x64";
    job->sigma2_y = numbers_of(o, "sigma2-y", &job->n_sigma2_y);
    job->ridge = numbers_of(o, "ridge", &job->n_ridge);
    if (isnan(o->gamma)) job->gamma = CIRCE_AUTO;
    if (job->kind == CIRCE_MEASURE_NONE) {
        if (given(job, "gamma")) notes_add(&job->warnings, "--gamma was ignored: there is no regulariser");
        job->gamma = 0.0;
    } else if (o->invariant_to == NULL) {
        circe_fail(CIRCE_ERR_ARGUMENT,
                   "--invariant-to LIST is required with --regularizer %s: the columns that must not matter",
                   o->regularizer);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "--regularizer none trains without one");
    }
    return train_device_check(o->device);
}

circe_status training_check_batch(const training_job *job) {
    const circe_train_options *o = job->options;
    bool ustat =
        (job->kind == CIRCE_MEASURE_CIRCE || job->kind == CIRCE_MEASURE_HSIC) && strcmp(o->estimator, "ustat") == 0;
    int64_t least = job->kind == CIRCE_MEASURE_NONE ? 1 : ustat ? 4 : 2;
    if (o->batch >= least) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "--batch must be at least %" PRId64
                      " for --regularizer %s%s, which is measured on the rows of a "
                      "batch; it is %" PRId64,
                      least, o->regularizer, ustat ? " with --estimator ustat" : "", o->batch);
}

bool training_brings_activation(const char *net) {
    return strcmp(net, "dsprites") == 0 || strcmp(net, "resnet18") == 0;
}

static void note_without_regularizer(training_job *job) {
    static const char *const names[] = {"layers", "sweep", "baseline", "tolerance"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (given(job, names[i]) && job->kind == CIRCE_MEASURE_NONE)
            notes_add(&job->warnings, "--%s was ignored: there is no regulariser", names[i]);
    }
    if (given(job, "tolerance") && job->gamma >= 0 && job->kind != CIRCE_MEASURE_NONE)
        notes_add(&job->warnings, "--tolerance was ignored: --gamma is given");
}

/* A number with two values, such as 1 and 2, may be meant as two classes. */
static void note_two_values(training_job *job) {
    const training_set *set = job->set;
    int64_t n = set->table.in.values.rows, col = set->target.cols[0];
    double one = column_value(&set->table, 0, col), other = one;
    for (int64_t i = 1; i < n; i++) {
        double value = column_value(&set->table, i, col);
        if (value == one || value == other) continue;
        if (other != one) return;
        other = value;
    }
    if (other != one && one == floor(one) && other == floor(other))
        notes_add(&job->warnings,
                  "the target '%s' has two values, %g and %g, and is predicted as a number; --task classification "
                  "predicts which of them it is",
                  training_column(set, &set->target, 0), fmin(one, other), fmax(one, other));
}

/* With few rows of a class, none may be left for training, or none to see whether it was learned. */
static void note_rare_classes(training_job *job) {
    enum { FEW = 10 };
    const training_set *set = job->set;
    int64_t n = set->table.in.values.rows, rare = 0, rarest = 0;
    OWNED int64_t *rows = calloc((size_t)set->classes.n, sizeof *rows);
    for (int64_t i = 0; rows != NULL && i < n; i++) rows[(int64_t)training_class_of(set, i)]++;
    for (int64_t k = 0; rows != NULL && k < set->classes.n; k++) {
        rare += rows[k] < FEW;
        if (rows[k] < rows[rarest]) rarest = k;
    }
    if (rare > 0)
        notes_add(&job->warnings,
                  "the target '%s' has %" PRId64 " class%s of fewer than %d rows; the rarest, '%s', has %" PRId64
                  ": so few can hardly be learned, and the report says little about them",
                  training_column(set, &set->target, 0), rare, rare == 1 ? "" : "es", FEW, set->classes.names[rarest],
                  rows[rarest]);
}

/* Where the mean of --invariant-to given --given fits badly, it leaves dependence. */
static void note_width(training_job *job) {
    circe_cme_info info;
    const circe_cme *mean = circe_measure_mean(job->regularizer);
    if (mean == NULL || circe_cme_get_info(mean, &info) != CIRCE_OK || info.width_at_edge == 0) return;
    notes_add(&job->warnings,
              "leave-one-out chose the %s width tried for the kernel of --given, --sigma2-y %.3g; the mean of "
              "--invariant-to given --given may fit better, and less dependence be left, with a %s one%s",
              info.width_at_edge < 0 ? "smallest" : "largest", info.sigma2_y / (double)job->set->training.data.y.cols,
              info.width_at_edge < 0 ? "smaller" : "larger",
              given(job, "sigma2-y") ? ", or with those of --sigma2-y auto" : "");
}

void training_note_unused(training_job *job) {
    static const char *const of_images[] = {"path-column", "array", "labels", "image-size", "channels"};
    const circe_train_options *o = job->options;
    for (size_t i = 0; i < sizeof of_images / sizeof of_images[0]; i++) {
        if (given(job, of_images[i]) && !job->set->has_images)
            notes_add(&job->warnings, "--%s was ignored: it needs --images", of_images[i]);
    }
    if (given(job, "activation") && training_brings_activation(job->net))
        notes_add(&job->warnings, "--activation was ignored: %s has its own", job->net);
    if (given(job, "estimator") && job->kind != CIRCE_MEASURE_CIRCE && job->kind != CIRCE_MEASURE_HSIC)
        notes_add(&job->warnings, "--estimator was ignored: %s has one form", o->regularizer);
    note_without_regularizer(job);
    if (o->warmup >= (double)o->epochs)
        notes_add(&job->warnings, "--warmup %g reaches --lr only after the last of --epochs %" PRId64, o->warmup,
                  o->epochs);
    if (o->gamma_warmup >= (double)o->epochs && job->kind != CIRCE_MEASURE_NONE)
        notes_add(&job->warnings, "--gamma-warmup %g reaches --gamma only after the last of --epochs %" PRId64,
                  o->gamma_warmup, o->epochs);
    if (o->given != NULL && o->invariant_to == NULL)
        notes_add(&job->warnings, "--given was ignored: it needs --invariant-to");
    const input *const group[] = {&job->set->table.in};
    if (job->set->taken_for_classes)
        notes_add(&job->warnings,
                  "the target '%s' is 0 or 1 and is treated as two classes; --task regression predicts a number",
                  training_column(job->set, &job->set->target, 0));
    if (job->set->loss == TRAIN_CROSS_ENTROPY)
        note_rare_classes(job);
    else if (job->options->task == NULL && job->set->target.n == 1)
        note_two_values(job);
    training_note_relations(job);
    note_width(job);
    sentinels_note(group, 1, &job->warnings);
    if (job->set->dropped > 0)
        notes_add(&job->warnings, "left out %" PRId64 " row%s with missing cells", job->set->dropped,
                  job->set->dropped == 1 ? "" : "s");
}

void training_regularizer_options(const training_job *job, circe_measure_kind kind, circe_measure_options *options) {
    const circe_train_options *o = job->options;
    circe_measure_options_init(options, CIRCE_MEASURE_NONE);
    options->kind = kind;
    options->estimator =
        (circe_estimator)(CIRCE_BIASED + circe_word_index("biased|debiased|centered|ustat", o->estimator));
    options->sigma2_x = o->sigma2_x; /* its words are CIRCE_SIGMA2_MEDIAN and CIRCE_SIGMA2_RUNNING */
    options->normalize_x = kind == CIRCE_MEASURE_GCM
                               ? CIRCE_NORMALIZE_NONE
                               : (circe_normalize)circe_word_index("none|rows|batch", o->normalize_x);
    options->sigma2_y = job->sigma2_y;
    options->n_sigma2_y = job->n_sigma2_y;
    options->sigma2_z = o->sigma2_z == CIRCE_AUTO ? 0.0 : o->sigma2_z; /* the word median */
    options->ridge = job->ridge;
    options->n_ridge = job->n_ridge;
    options->method = (circe_method)circe_word_index("auto|lowrank|dense|rff", o->method);
    options->dtype = strcmp(o->dtype, "float32") == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    options->kernel_y = job->set->kernel_y;
    options->kernel_z = job->set->kernel_z;
    options->seed = (uint64_t)o->seed;
}

const circe_mat *training_z(const training_part *part, circe_measure_kind kind) {
    return kind == CIRCE_MEASURE_GCM ? &part->z_numbers : &part->data.z;
}
