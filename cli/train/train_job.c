/* A run from its settings to its model. */
#include "cli/train/train_job.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "circe/status.h"
#include "cli/common/devices.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "cli/train/train_team.h"
#include "io/paths.h"
#include "jobs/sentinels.h"

static int refuse_library(circe_status status, const char *subject) {
    if (status == CIRCE_ERR_CANCELLED) return message_fail(EXIT_WORK, "interrupted; nothing was written");
    return message_read(status, subject, circe_last_error());
}

void training_job_say(training_job *job) {
    for (; job->said < job->warnings.n; job->said++) {
        if (!args_given(job->arguments, OPT_QUIET)) message_note("warning: %s", job->warnings.text[job->said]);
    }
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static bool is_one_number(const args *arguments, spec_option_id id) { return arguments->values[id].n_numbers == 1; }

/* Rows for the conditional mean, or for the choice of width and ridge. */
static bool needs_holdout(const training_job *job) {
    bool settled = is_one_number(job->arguments, OPT_TRAIN_SIGMA2_Y) && is_one_number(job->arguments, OPT_RIDGE);
    return job->kind == TRAIN_REG_CIRCE || ((job->kind == TRAIN_REG_HSCIC || job->kind == TRAIN_REG_GCM) && !settled);
}

static int check_settings(training_job *job) {
    const args *a = job->arguments;
    const char *name = args_text(a, OPT_REGULARIZER);
    job->kind = (train_regularizer_kind)train_regularizer_find(name);
    job->gamma = job->kind == TRAIN_REG_NONE ? 0.0 : args_number(a, OPT_GAMMA);
    if (job->kind == TRAIN_REG_NONE) {
        if (args_given(a, OPT_GAMMA)) notes_add(&job->warnings, "--gamma was ignored: there is no regulariser");
        return EXIT_DONE;
    }
    if (!args_given(a, OPT_GAMMA)) {
        message_note("--gamma G is required with --regularizer %s: the weight of the regulariser", name);
        message_hint("a good first value is %s; --regularizer none trains without", job->kind == TRAIN_REG_GCM ? "0.1"
                                                                                    : job->kind == TRAIN_REG_HSCIC
                                                                                        ? "300"
                                                                                        : "1000");
        return EXIT_INPUT;
    }
    if (!args_given(a, OPT_INVARIANT_TO)) {
        message_note("--invariant-to LIST is required with --regularizer %s: what must not matter", name);
        message_hint("--regularizer none trains without");
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

/* Networks with a name have activations of their own. */
static bool brings_activation(const char *net) { return strcmp(net, "dsprites") == 0 || strcmp(net, "resnet18") == 0; }

static void note_unused(training_job *job) {
    static const spec_option_id of_images[] = {OPT_PATH_COLUMN, OPT_ARRAY, OPT_LABELS, OPT_IMAGE_SIZE, OPT_CHANNELS};
    const args *a = job->arguments;
    for (size_t i = 0; i < sizeof of_images / sizeof of_images[0]; i++) {
        if (args_given(a, of_images[i]) && !job->set.has_images)
            notes_add(&job->warnings, "--%s was ignored: there are no --images", spec_options[of_images[i]].name);
    }
    if (args_given(a, OPT_ACTIVATION) && brings_activation(job->net))
        notes_add(&job->warnings, "--activation was ignored: %s has its own", job->net);
    bool has_estimator = job->kind == TRAIN_REG_CIRCE || job->kind == TRAIN_REG_HSIC;
    if (args_given(a, OPT_TRAIN_ESTIMATOR) && !has_estimator)
        notes_add(&job->warnings, "--estimator was ignored: %s has one form", args_text(a, OPT_REGULARIZER));
    if (args_given(a, OPT_LAYERS) && job->kind == TRAIN_REG_NONE)
        notes_add(&job->warnings, "--layers was ignored: there is no regulariser");
    if (args_given(a, OPT_GIVEN) && !args_given(a, OPT_INVARIANT_TO))
        notes_add(&job->warnings, "--given was ignored: there is no --invariant-to");
    const input *const group[] = {&job->set.table.in};
    sentinels_note(group, 1, &job->warnings);
    if (job->set.dropped > 0)
        notes_add(&job->warnings, "%" PRId64 " rows with missing cells were left out", job->set.dropped);
}

void training_regularizer_options(const training_job *job, train_regularizer_kind kind,
                                  train_regularizer_options *options) {
    const args *a = job->arguments;
    const args_value *sigma2_y = &a->values[OPT_TRAIN_SIGMA2_Y], *ridge = &a->values[OPT_RIDGE];
    train_regularizer_options_init(options);
    options->kind = kind;
    options->estimator = (circe_estimator)(CIRCE_BIASED + args_choice(a, OPT_TRAIN_ESTIMATOR));
    options->sigma2_x = args_number(a, OPT_TRAIN_SIGMA2_X);
    options->sigma2_y = sigma2_y->numbers;
    options->n_sigma2_y = sigma2_y->n_numbers;
    double sigma2_z = args_number(a, OPT_TRAIN_SIGMA2_Z);
    options->sigma2_z = isnan(sigma2_z) ? 0.0 : sigma2_z; /* the word median */
    options->ridge = ridge->numbers;
    options->n_ridge = ridge->n_numbers;
    options->method = (circe_method)args_choice(a, OPT_METHOD);
    options->dtype = args_choice(a, OPT_TRAIN_DTYPE) == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    options->kernel_y = job->set.kernel_y;
    options->kernel_z = job->set.kernel_z;
    options->seed = (uint64_t)args_integer(a, OPT_SEED);
}

const circe_mat *training_z(const training_part *part, train_regularizer_kind kind) {
    return kind == TRAIN_REG_GCM ? &part->z_numbers : &part->data.z;
}

/* ---- network and regulariser ------------------------------------------------------------------------------------- */

static train_layer_kind activation_of(const args *arguments) {
    static const train_layer_kind kinds[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    return kinds[args_choice(arguments, OPT_ACTIVATION)];
}

/* Before anything that takes long is read. */
static int parse_network(training_job *job, train_layer_spec **specs, int64_t *n_specs) {
    job->outputs = job->set.loss == TRAIN_CROSS_ENTROPY ? job->set.classes.n : job->set.target.n;
    circe_status status = train_network_parse(job->net, activation_of(job->arguments), job->outputs, specs, n_specs);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status, "--net");
}

static int refuse_memory(const training_job *job) {
    message_note("%s", circe_last_error());
    message_hint("a network keeps all it makes of a batch: a smaller --batch than %s%s needs less",
                 args_text(job->arguments, OPT_BATCH), job->set.has_images ? ", or a smaller --image-size," : "");
    return EXIT_WORK;
}

static int make_network(training_job *job, const train_layer_spec *specs, int64_t n_specs) {
    const args *a = job->arguments;
    const char *weights = args_text(a, OPT_WEIGHTS);
    bool images = job->set.has_images;
    train_shape table = {.n_dims = 1, .size = {job->set.inputs.n}};
    train_shape shape = images ? images_shape(&job->set.images) : table;
    int opened = device_open(a, job->s->context, &job->device);
    if (opened != EXIT_DONE) return opened;
    int64_t rows = (args_integer(a, OPT_BATCH) + cluster_size() - 1) / cluster_size(); /* of a batch, here */
    circe_status status = train_network_create(job->device, shape, specs, n_specs, rows, &job->network);
    if (status == CIRCE_ERR_MEMORY) return refuse_memory(job);
    if (status != CIRCE_OK) return refuse_library(status, "--net");
    status = train_network_initialise(job->network, (train_start)args_choice(a, OPT_INIT),
                                      (uint64_t)args_integer(a, OPT_SEED));
    if (status != CIRCE_OK) return refuse_library(status, NULL);
    if (weights != NULL) status = train_network_load_body(job->network, weights);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status, weights);
}

/* By the last layers' names, where they have some: what is regularised lies there. */
static int refuse_layer(const training_job *job, const char *name) {
    enum { SHOWN = 6 };
    int64_t n = train_network_n_layers(job->network), first = n > SHOWN ? n - SHOWN : 0;
    if (!brings_activation(job->net) || train_network_find(job->network, "0") >= 0)
        return message_fail(
            EXIT_INPUT, "--layers: there is no layer '%s'; this network has 0 to %" PRId64 ", and output", name, n - 1);
    char *text = small_format("%s", "");
    for (int64_t l = first; l < n; l++) {
        char *longer = small_format("%s%s, ", text, train_network_layer(job->network, l)->name);
        free(text);
        text = longer;
    }
    message_note("--layers: there is no layer '%s'; the last ones of %s are %sand output", name, job->net, text);
    free(text);
    return EXIT_INPUT;
}

static int find_layers(training_job *job) {
    name_list names = {0};
    int status = message_refused(name_list_split("layers", args_text(job->arguments, OPT_LAYERS), &names));
    if (status != EXIT_DONE) return status;
    job->layers = small_alloc((size_t)names.n * sizeof *job->layers);
    for (int64_t i = 0; i < names.n && status == EXIT_DONE; i++) {
        int64_t found = train_network_find(job->network, names.names[i]);
        if (found < 0) status = refuse_layer(job, names.names[i]);
        job->layers[job->n_layers++] = found;
    }
    name_list_free(&names);
    return status;
}

static int make_regularizer(training_job *job) {
    train_regularizer_options options;
    const training_set *set = &job->set;
    if (job->kind == TRAIN_REG_NONE) return EXIT_DONE;
    training_regularizer_options(job, job->kind, &options);
    circe_status status = train_regularizer_create(job->s->context, &options, &set->training.data.y,
                                                   training_z(&set->training, job->kind), &set->holdout.data.y,
                                                   training_z(&set->holdout, job->kind), &job->regularizer);
    progress_clear();
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status, "--regularizer");
}

static const char *net_of(const args *arguments) {
    if (args_given(arguments, OPT_NET)) return args_text(arguments, OPT_NET);
    return args_given(arguments, OPT_IMAGES) ? "conv16s2,conv32s2,pool2,128,64" : "3x64";
}

static bool trains_on_cpu(const training_job *job) { return strcmp(job->device->ops->name, "cpu") == 0; }

/* Two runs would take turns in writing one checkpoint, and each would go on from the other's. */
static int hold_output(training_job *job) {
    int status = message_refused(path_check_writable("-o", job->output));
    if (status != EXIT_DONE) return status;
    return io_lock_take(job->output, &job->lock) == CIRCE_OK ? EXIT_DONE
                                                             : message_write(job->output, circe_last_error());
}

int training_job_open(const args *arguments, const session *s, const char *label, training_job *job) {
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    *job = (training_job){.arguments = arguments,
                          .s = s,
                          .label = label,
                          .output = args_text(arguments, OPT_OUTPUT_MODEL),
                          .net = net_of(arguments)};
    job->checkpoint = small_format("%s.checkpoint", job->output);
    int status = check_settings(job);
    if (status == EXIT_DONE) status = device_check(arguments);
    if (status == EXIT_DONE && ranks_first()) status = hold_output(job);
    if (status == EXIT_DONE) status = training_set_read(arguments, job->net, needs_holdout(job), &job->set);
    if (status == EXIT_DONE) status = parse_network(job, &specs, &n_specs);
    if (status == EXIT_DONE) status = training_set_fill(s, &job->set);
    if (status == EXIT_DONE) status = make_network(job, specs, n_specs);
    if (status == EXIT_DONE) status = find_layers(job);
    if (status == EXIT_DONE) status = make_regularizer(job);
    free(specs);
    if (status != EXIT_DONE) return status;
    note_unused(job);
    if (ranks_several()) /* however many: the numbers are rounded otherwise, and that is all */
        job->fingerprint = small_format("data %016" PRIx64 ", several processes", job->set.hash);
    else if (trains_on_cpu(job))
        job->fingerprint =
            small_format("data %016" PRIx64 ", %d threads", job->set.hash, circe_context_threads(s->context));
    else /* its numbers do not depend on the threads of the CPU */
        job->fingerprint = small_format("data %016" PRIx64 ", a GPU", job->set.hash);
    return EXIT_DONE;
}

void training_job_free(training_job *job) {
    train_result_free(&job->result);
    train_model_free(&job->model);
    train_regularizer_destroy(job->regularizer);
    train_network_destroy(job->network);
    train_device_destroy(job->device);
    training_set_free(&job->set);
    notes_free(&job->warnings);
    free(job->scores.columns);
    free(job->before);
    free(job->after);
    free(job->layers);
    free(job->checkpoint);
    free(job->fingerprint);
    io_lock_release(job->lock);
    *job = (training_job){0};
}

const char *training_network_text(const training_job *job, char *out, size_t size) {
    bool own = brings_activation(job->net);
    snprintf(out, size, "%s%s%s, %" PRId64 " parameters", job->net, own ? "" : ", ",
             own ? "" : args_text(job->arguments, OPT_ACTIVATION), train_network_n_params(job->network));
    return out;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* The most important first: a narrow terminal cuts the end off. */
static void describe_progress(const training_job *job, const train_progress *p, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) return;
    double passed = session_clock() - job->began, done = (double)(p->step - job->began_step);
    double left = passed / done * (double)(p->steps - p->step);
    if (job->label != NULL) fprintf(out, "%s: ", job->label);
    fprintf(out, "epoch %" PRId64 "/%" PRId64, p->epoch, p->epochs);
    if (done > 0 && passed > 0.5 && left > 0)
        fprintf(out, left >= 90 ? ", %.0f min left" : ", %.0f s left", ceil(left >= 90 ? left / 60 : left));
    fprintf(out, ", loss %.2g", p->loss);
    if (job->kind != TRAIN_REG_NONE) fprintf(out, ", %s %.1e", train_regularizer_name(job->kind), p->regularizer);
    if (isfinite(p->validation_loss)) fprintf(out, ", validation %.2g", p->validation_loss);
    fclose(out);
}

/* A bar on a terminal; elsewhere a line for every tenth of the run. */
static int on_progress(void *user, const train_progress *p) {
    training_job *job = user;
    char text[160] = "";
    if (job->began == 0) {
        job->began = session_clock();
        job->began_step = p->step;
        job->last_tenth = 10 * (p->step - 1) / p->steps;
    }
    int64_t tenth = 10 * p->step / p->steps;
    bool line = !progress_is_shown() && p->epoch_ended && tenth > job->last_tenth;
    if (progress_is_shown() || line) describe_progress(job, p, text, sizeof text);
    if (!ranks_first()) return progress_interrupted();
    progress_show((double)p->step / (double)p->steps, text);
    if (line && !args_given(job->arguments, OPT_QUIET)) fprintf(stderr, "%s\n", text);
    if (line) job->last_tenth = tenth;
    return progress_interrupted();
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* What the trainer cannot say of a checkpoint of another run, since it sees a fingerprint only. Files that are no
 * checkpoint, or a damaged one, are left to it. */
static int compare_fingerprint(training_job *job) {
    circe_tensor_file *file = NULL;
    if (circe_tensor_file_open(job->s->context, job->checkpoint, &file) != CIRCE_OK) return EXIT_DONE;
    const char *there = circe_tensor_file_metadata(file, "fingerprint");
    const char *comma = there != NULL ? strchr(there, ',') : NULL;
    size_t length = comma != NULL ? (size_t)(comma - there) : 0;
    int status = EXIT_DONE;
    if (comma != NULL && strncmp(there, job->fingerprint, length + 1) != 0) {
        message_note("%s: the checkpoint is of another run: the data differ in columns, rows or values",
                     job->checkpoint);
        message_hint("resume with the data it was made from, or start again without --resume");
        status = EXIT_INPUT;
    } else if (comma != NULL && strcmp(there, job->fingerprint) != 0) {
        notes_add(&job->warnings,
                  "the checkpoint is of a run with%.40s, and this one has%s: it goes on with numbers that are rounded "
                  "otherwise",
                  comma + 1, strchr(job->fingerprint, ',') + 1);
        free(job->fingerprint);
        job->fingerprint = small_format("%s", there);
    }
    circe_tensor_file_close(file);
    return status;
}

static int check_checkpoint(training_job *job) {
    struct stat info;
    bool there = stat(job->checkpoint, &info) == 0;
    if (args_given(job->arguments, OPT_RESUME)) {
        if (there) return compare_fingerprint(job);
        message_note("there is no checkpoint %s to resume", job->checkpoint);
        message_hint("start without --resume, or name with -o the model of the run that was interrupted");
        return EXIT_INPUT;
    }
    if (there)
        notes_add(&job->warnings, "%s, left by a run that was not finished, is not used: --resume continues it",
                  job->checkpoint);
    return EXIT_DONE;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void fill_options(training_job *job, train_options *options) {
    const args *a = job->arguments;
    train_options_init(options);
    options->loss = job->set.loss;
    options->epochs = args_integer(a, OPT_EPOCHS);
    options->batch = args_integer(a, OPT_BATCH);
    options->rate = args_number(a, OPT_RATE);
    options->decay = args_number(a, OPT_DECAY);
    options->warmup_epochs = args_number(a, OPT_WARMUP);
    options->gamma = job->gamma;
    options->gamma_warmup_epochs = args_number(a, OPT_GAMMA_WARMUP);
    options->layers = job->layers;
    options->n_layers = job->n_layers;
    options->patience = args_integer(a, OPT_PATIENCE);
    options->seed = (uint64_t)args_integer(a, OPT_SEED);
    options->checkpoint = job->checkpoint;
    options->checkpoint_epochs = args_integer(a, OPT_CHECKPOINT_EPOCHS);
    options->checkpoint_minutes = args_number(a, OPT_CHECKPOINT_MINUTES);
    options->fingerprint = job->fingerprint;
    options->resume = args_given(a, OPT_RESUME);
    options->team = training_team();
    options->progress = on_progress;
    options->user = job;
}

static int predict_validation(const training_job *job, float **out) {
    const training_part *part = &job->set.validation;
    *out = malloc((size_t)(part->n * job->outputs) * sizeof **out);
    if (*out == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " predictions", part->n);
    circe_status status = train_predict(job->network, &part->data.features, *out);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status, NULL);
}

static int refuse_run(const training_job *job, circe_status status) {
    int failed = refuse_library(status, NULL);
    if (status == CIRCE_ERR_NUMERIC)
        message_hint("a smaller --lr%s helps",
                     job->kind != TRAIN_REG_NONE ? ", a smaller --gamma or --gamma-warmup" : "");
    return failed;
}

int training_job_interrupted(const training_job *job) {
    if (job->label != NULL) { /* one of several: it is not resumed by itself */
        unlink(job->checkpoint);
        return message_fail(EXIT_WORK, "interrupted");
    }
    message_note("interrupted after step %" PRId64 " (epoch %" PRId64 " of %" PRId64 "); %s holds the run so far",
                 job->result.steps_done, job->result.epochs_done, args_integer(job->arguments, OPT_EPOCHS),
                 job->checkpoint);
    message_hint("the same command with --resume continues it to the same result");
    return EXIT_WORK;
}

int training_job_run(training_job *job) {
    train_options options;
    const training_set *set = &job->set;
    int status = training_team_same(set->hash, training_data(set));
    if (status != EXIT_DONE) return status;
    training_team_divide(&job->set);
    train_data training = set->training.data, validation = set->validation.data;
    training.z = *training_z(&set->training, job->kind);
    validation.z = *training_z(&set->validation, job->kind);
    if (ranks_first()) status = check_checkpoint(job);
    training_job_say(job);
    if (status == EXIT_DONE && ranks_first()) status = predict_validation(job, &job->before);
    status = ranks_agree(status);
    if (status != EXIT_DONE) return status;
    fill_options(job, &options);
    circe_status run = train_run(job->network, job->regularizer, &training, &validation, &options, &job->result);
    progress_clear();
    if (run != CIRCE_OK) return refuse_run(job, run);
    if (job->result.interrupted) return training_job_interrupted(job);
    return ranks_first() ? predict_validation(job, &job->after) : EXIT_DONE;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static char **copy_names(const name_list *list) {
    char **names = small_alloc((size_t)list->n * sizeof *names);
    for (int64_t i = 0; i < list->n; i++) names[i] = small_format("%s", list->names[i]);
    return names;
}

static train_scaler copy_scale(const train_scaler *scale) {
    train_scaler copy = {.cols = scale->cols};
    size_t bytes = (size_t)scale->cols * sizeof *copy.mean;
    copy.mean = memcpy(small_alloc(bytes), scale->mean, bytes);
    copy.deviation = memcpy(small_alloc(bytes), scale->deviation, bytes);
    return copy;
}

static void fill_features(const training_set *set, train_model *model) {
    if (set->has_images) {
        model->image = images_shape(&set->images);
        model->pixel_scale = 2.0;
        model->pixel_offset = -1.0;
        return;
    }
    model->features = copy_names(&set->inputs);
    model->n_features = set->inputs.n;
    model->feature_scale = copy_scale(&set->feature_scale);
}

static int fill_model(training_job *job) {
    const training_set *set = &job->set;
    train_model *model = &job->model;
    *model = (train_model){.net = small_format("%s", job->net),
                           .activation = activation_of(job->arguments),
                           .loss = set->loss,
                           .outputs = job->outputs};
    fill_features(set, model);
    model->target = small_alloc((size_t)set->target.n * sizeof *model->target);
    for (int64_t i = 0; i < set->target.n; i++)
        model->target[model->n_target++] = small_format("%s", training_column(set, &set->target, i));
    if (set->loss == TRAIN_CROSS_ENTROPY)
        model->classes = copy_names(&set->classes);
    else
        model->target_scale = copy_scale(&set->target_scale);
    circe_status taken = train_model_take(job->network, model);
    if (taken != CIRCE_OK) return refuse_library(taken, NULL);
    cJSON *settings = training_settings_json(job);
    model->settings = cJSON_PrintUnformatted(settings);
    cJSON_Delete(settings);
    return EXIT_DONE;
}

int training_job_save(training_job *job) {
    int status = fill_model(job);
    if (status != EXIT_DONE) return status;
    circe_status saved = train_model_save(job->s->context, &job->model, job->output);
    if (saved != CIRCE_OK) {
        status = message_write(job->output, circe_last_error());
        message_hint("the run is kept in %s: the same command with --resume only has to write the model",
                     job->checkpoint);
        return status;
    }
    if (unlink(job->checkpoint) != 0 && errno != ENOENT)
        notes_add(&job->warnings, "%s could not be removed: %s", job->checkpoint, strerror(errno));
    return EXIT_DONE;
}
