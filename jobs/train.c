/* circe_train: a run from its settings to its model, by one process or several. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/small.h"
#include "core/settings.h"
#include "jobs/columns.h"
#include "jobs/outputs.h"
#include "jobs/training.h"
#include "mpi/ranks.h"

/* Process 0 judges, writes and speaks for all. */
static bool is_first(void) { return ranks_rank() == 0; }

/* ---- network and regulariser ------------------------------------------------------------------------------------- */

static train_layer_kind activation_of(const circe_train_options *options) {
    static const train_layer_kind kinds[] = {TRAIN_RELU, TRAIN_LEAKY_RELU, TRAIN_TANH};
    return kinds[circe_word_index("relu|leaky-relu|tanh", options->activation)];
}

/* Before anything that takes long is read. */
static circe_status parse_network(training_job *job, train_layer_spec **specs, int64_t *n_specs) {
    job->outputs = job->set->loss == TRAIN_CROSS_ENTROPY ? job->set->classes.n : job->set->target.n;
    circe_status status = train_network_parse(job->net, activation_of(job->options), job->outputs, specs, n_specs);
    return status == CIRCE_OK ? CIRCE_OK : job_about(status, "--net");
}

static circe_status start_network(training_job *job, uint64_t seed) {
    const circe_train_options *o = job->options;
    circe_status status =
        train_network_initialise(job->network, (train_start)circe_word_index("he|uniform", o->init), seed);
    if (status != CIRCE_OK || o->weights == NULL) return status;
    status = train_network_load_body(job->network, o->weights);
    return status == CIRCE_OK ? status : job_about(status, "--weights");
}

static circe_status make_network(training_job *job, const train_layer_spec *specs, int64_t n_specs) {
    const circe_train_options *o = job->options;
    bool images = job->set->has_images;
    train_shape table = {.n_dims = 1, .size = {job->set->inputs.n}};
    train_shape shape = images ? pictures_shape(&job->set->images) : table;
    int64_t rows = (o->batch + ranks_size() - 1) / ranks_size(); /* of a batch, here */
    char own[16];
    circe_status status =
        train_device_choose(job->context, training_device(o->device, own), o->precision, &job->device);
    if (status != CIRCE_OK) return status;
    status = train_network_create(job->device, shape, specs, n_specs, rows, &job->network);
    if (status == CIRCE_ERR_MEMORY)
        return circe_fail_hint(status,
                               "a network keeps everything it computes on a batch: a --batch smaller than %" PRId64
                               "%s needs less",
                               o->batch, images ? ", or a smaller --image-size," : "");
    return status == CIRCE_OK ? start_network(job, (uint64_t)o->seed) : job_about(status, "--net");
}

/* By the names of the last layers, if they have any: the regularised features are there. */
static circe_status refuse_layer(const training_job *job, const char *name) {
    enum { SHOWN = 6 };
    int64_t n = train_network_n_layers(job->network);
    char last[512] = "";
    if (!training_brings_activation(job->net) || train_network_find(job->network, "0") >= 0)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--layers: there is no layer '%s'; this network has 0 to %" PRId64 ", and output", name,
                          n - 1);
    for (int64_t l = n > SHOWN ? n - SHOWN : 0; l < n; l++) {
        size_t used = strlen(last);
        snprintf(last + used, sizeof last - used, "%s, ", train_network_layer(job->network, l)->name);
    }
    return circe_fail(CIRCE_ERR_ARGUMENT, "--layers: there is no layer '%s'; the last ones of %s are %sand output",
                      name, job->net, last);
}

static circe_status find_layers(training_job *job) {
    OWNED_BY(name_list_free) name_list names = {0};
    circe_status status = name_list_split("layers", job->options->layers, &names);
    job->layers = small_alloc((size_t)names.n * sizeof *job->layers);
    for (int64_t i = 0; i < names.n && status == CIRCE_OK; i++) {
        int64_t found = train_network_find(job->network, names.names[i]);
        if (found < 0) status = refuse_layer(job, names.names[i]);
        job->layers[job->n_layers++] = found;
    }
    return status;
}

circe_status training_regularizer_for(const training_job *job, const training_part *rows, const training_part *holdout,
                                      circe_measure **regularizer) {
    circe_measure_options options;
    if (job->kind == CIRCE_MEASURE_NONE) return CIRCE_OK;
    training_regularizer_options(job, job->kind, &options);
    circe_mat y = holdout->data.y, z = *training_z(holdout, job->kind);
    int64_t most = training_most_shared(job->set);
    if (holdout == rows && y.rows > most) y.rows = z.rows = most;
    circe_status status = train_regularizer_weighted(job->context, &options, &rows->data.y, training_z(rows, job->kind),
                                                     rows->data.weight, &y, &z, holdout->data.weight, regularizer);
    return status == CIRCE_OK || status == CIRCE_ERR_CANCELLED ? status : job_about(status, "--regularizer");
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Two runs would overwrite each other's checkpoint, and each would continue from the other's. */
static circe_status hold_output(training_job *job) {
    circe_status status = output_check(&circe_train_schema, job->options, "output");
    return status == CIRCE_OK ? io_lock_take(job->options->output, &job->lock) : status;
}

/* Data, and what rounds its numbers. */
static char *fingerprint_of(const training_job *job) {
    uint64_t hash = job->set->hash;
    if (ranks_size() > 1) /* the number does not matter: it changes only the rounding */
        return small_format("data %016" PRIx64 ", several processes", hash);
    if (strcmp(job->device->ops->name, "cpu") != 0) /* its numbers do not depend on the threads of the CPU */
        return small_format("data %016" PRIx64 ", a GPU", hash);
    return small_format("data %016" PRIx64 ", %d threads", hash, circe_context_threads(job->context));
}

static circe_status open_job(training_job *job) {
    OWNED train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    const char *output = job->options->output;
    circe_status status = training_check_settings(job);
    if (output != NULL) job->checkpoint = small_format("%s.checkpoint", output);
    if (status == CIRCE_OK && output != NULL && is_first()) status = hold_output(job);
    if (status == CIRCE_OK) status = training_open_baseline(job);
    if (status == CIRCE_OK)
        status = training_set_read(job->table, job->options, job->net, training_needs_holdout(job), job->set);
    if (status == CIRCE_OK) job->settled.batch = job->set->batch;
    if (status == CIRCE_OK) status = training_check_batch(job);
    if (status == CIRCE_OK) status = parse_network(job, &specs, &n_specs);
    if (status == CIRCE_OK) status = training_set_fill(job->context, job->watch, job->set);
    if (status == CIRCE_OK) status = make_network(job, specs, n_specs);
    if (status == CIRCE_OK) status = find_layers(job);
    if (status == CIRCE_OK)
        status = training_regularizer_for(job, &job->set->training, &job->set->holdout, &job->regularizer);
    if (status == CIRCE_ERR_CANCELLED) return circe_fail(status, "interrupted; nothing was written");
    if (status != CIRCE_OK) return status;
    training_note_unused(job);
    job->fingerprint = fingerprint_of(job);
    return CIRCE_OK;
}

static void close_job(training_job *job) {
    train_result_free(&job->result);
    circe_model_free(job->compared);
    circe_measure_destroy(job->regularizer);
    train_network_destroy(job->network);
    train_device_destroy(job->device);
    notes_free(&job->warnings);
    free(job->sigma2_y);
    free(job->ridge);
    free(job->layers);
    free(job->checkpoint);
    free(job->fingerprint);
    io_lock_release(job->lock);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* The most important first: a narrow terminal cuts the end off. */
static void describe_progress(const training_job *job, const train_progress *p, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    if (out == NULL) return;
    fprintf(out, "%sepoch %" PRId64 "/%" PRId64, job->stage, p->epoch, p->epochs);
    fprintf(out, ", loss %.2g", p->loss);
    if (p->gamma > 0) fprintf(out, ", %s %.1e", circe_measure_name(job->kind), p->regularizer);
    if (isfinite(p->validation_loss)) fprintf(out, ", validation %.2g", p->validation_loss);
    fclose(out);
}

/* Reports after every epoch, and ten times a second within one, because a step may take only microseconds. */
static int on_progress(void *user, const train_progress *p) {
    const double pause = 0.1;
    training_job *job = user;
    char text[256] = "";
    double share = (double)p->step / (double)p->steps, now = job_clock();
    training_watch_epochs(job, p->history, p->epoch);
    if (job->watch == NULL || job->watch->progress == NULL) return 0;
    if (!p->epoch_ended && (now - job->reported < pause || p->batch == p->batches)) return 0;
    job->reported = now;
    describe_progress(job, p, text, sizeof text);
    return job->watch->progress(job->watch->user, job->from + (job->to - job->from) * share, text);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Explains why a checkpoint belongs to another run. The trainer cannot, since it sees only a fingerprint. It reports
 * files that are damaged or are not checkpoints. */
static circe_status compare_fingerprint(training_job *job) {
    circe_tensor_file *file = NULL;
    if (circe_tensor_file_open(job->context, job->checkpoint, &file) != CIRCE_OK) return CIRCE_OK;
    const char *there = circe_tensor_file_metadata(file, "fingerprint");
    const char *comma = there != NULL ? strchr(there, ',') : NULL;
    const char *own = job->fingerprint != NULL ? job->fingerprint : "";
    size_t length = comma != NULL ? (size_t)(comma - there) : 0;
    circe_status status = CIRCE_OK;
    if (comma != NULL && strncmp(there, own, length + 1) != 0) {
        circe_fail(CIRCE_ERR_ARGUMENT,
                   "%s: the checkpoint belongs to another run: the data differ in columns, rows or values",
                   job->checkpoint);
        status = circe_fail_hint(CIRCE_ERR_ARGUMENT, "resume with the same data, or start again without --resume");
    } else if (comma != NULL && strcmp(there, own) != 0) {
        notes_add(
            &job->warnings,
            "the checkpoint comes from a run with%.40s, and this run has%s; it continues, but rounding may differ",
            comma + 1, strchr(own, ',') + 1);
        free(job->fingerprint);
        job->fingerprint = small_format("%s", there);
    }
    circe_tensor_file_close(file);
    return status;
}

static circe_status check_checkpoint(training_job *job) {
    bool there = job->checkpoint != NULL && access(job->checkpoint, F_OK) == 0;
    if (there && job->options->resume) return compare_fingerprint(job);
    if (there)
        notes_add(&job->warnings, "%s, from an unfinished run, is not used; --resume would continue it",
                  job->checkpoint);
    if (there || !job->options->resume || job->search_resumed) return CIRCE_OK;
    circe_fail(CIRCE_ERR_ARGUMENT, "there is no checkpoint %s to resume", job->checkpoint);
    return circe_fail_hint(CIRCE_ERR_ARGUMENT,
                           "start without --resume, or use -o with the model of the interrupted run");
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void fill_options(training_job *job, train_options *options) {
    const circe_train_options *o = job->options;
    train_options_init(options);
    options->loss = job->set->loss;
    options->epochs = o->epochs;
    options->batch = o->batch;
    options->rate = o->lr;
    options->decay = o->weight_decay;
    options->warmup_epochs = o->warmup;
    options->gamma = job->gamma;
    options->gamma_warmup_epochs = o->gamma_warmup;
    options->layers = job->layers;
    options->n_layers = job->n_layers;
    options->patience = o->patience;
    options->seed = (uint64_t)o->seed;
    options->checkpoint = job->checkpoint;
    options->checkpoint_epochs = o->checkpoint_epochs;
    options->checkpoint_minutes = o->checkpoint_minutes;
    options->fingerprint = job->fingerprint;
    options->resume = o->resume;
    options->ranks = training_ranks();
    options->progress = on_progress;
    options->user = job;
}

circe_status training_ask(const training_job *job, const training_part *part, float **out) {
    *out = malloc((size_t)(part->n * job->outputs + 1) * sizeof **out);
    if (*out == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " predictions", part->n);
    return train_predict(job->network, &part->data.features, *out);
}

static circe_status interrupted(const training_job *job, const train_result *run) {
    OWNED char *place = job->checkpoint != NULL ? small_format("; %s contains the run so far", job->checkpoint) : NULL;
    circe_fail(CIRCE_ERR_CANCELLED, "interrupted after step %" PRId64 " (epoch %" PRId64 " of %" PRId64 ")%s",
               run->steps_done, run->epochs_done, job->options->epochs, place != NULL ? place : "");
    if (place != NULL)
        circe_fail_hint(CIRCE_ERR_CANCELLED, "the same command with --resume continues it to the same result");
    return CIRCE_ERR_CANCELLED;
}

static circe_status refuse_numbers(const training_job *job, circe_status status) {
    return circe_fail_hint(status, "a smaller --lr%s helps",
                           job->kind != CIRCE_MEASURE_NONE ? ", a smaller --gamma or --gamma-warmup" : "");
}

/* A part in the form that the loop needs: with several processes, this process's slice of the rows. */
static train_data slice_of(const training_part *part, circe_measure_kind kind, const train_ranks *ranks) {
    train_data data = part->data;
    int64_t n = 0, first = ranks != NULL ? train_ranks_slice(part->n, ranks->rank, ranks->size, &n) : 0;
    data.z = *training_z(part, kind);
    if (ranks == NULL) return data;
    circe_mat features = part->features, *const mats[] = {&features, &data.target, &data.y, &data.z};
    for (size_t m = 0; m < sizeof mats / sizeof mats[0]; m++) {
        bool there = mats[m]->data != NULL && mats[m]->cols > 0;
        *mats[m] = io_rows(mats[m], there ? first : 0, n);
    }
    if (data.weight != NULL) data.weight += first;
    if (part->shown == NULL) {
        data.features = train_source_floats(&features);
    } else {
        data.features.n = n;
        data.features.stored = part->shown + first;
    }
    return data;
}

circe_status training_try(training_job *job, const training_trial *trial) {
    train_options options;
    train_result run = {0};
    const train_ranks *ranks = training_ranks();
    bool sliced = trial->rows == &job->set->training; /* once and for all */
    circe_measure_kind kind = trial->regularizer != NULL ? job->kind : CIRCE_MEASURE_NONE;
    train_data rows = slice_of(trial->rows, job->kind, sliced ? NULL : ranks), watched = {0};
    circe_status status = start_network(job, trial->seed);
    if (status != CIRCE_OK) return status;
    if (trial->watched != NULL) watched = slice_of(trial->watched, job->kind, NULL);
    fill_options(job, &options);
    options.epochs = trial->epochs;
    options.patience = trial->patience;
    if (options.batch > trial->rows->n) options.batch = trial->rows->n;
    options.seed = trial->seed;
    options.gamma = kind == CIRCE_MEASURE_NONE ? 0.0 : trial->gamma;
    options.checkpoint = NULL;
    options.resume = 0;
    status =
        train_run(job->network, trial->regularizer, &rows, trial->watched != NULL ? &watched : NULL, &options, &run);
    if (status == CIRCE_ERR_NUMERIC) status = refuse_numbers(job, status);
    if (status == CIRCE_OK && run.interrupted) status = circe_fail(CIRCE_ERR_CANCELLED, "interrupted");
    train_result_free(&run);
    return status;
}

static circe_status run_network(training_job *job) {
    train_options options;
    const training_set *set = job->set;
    train_data training = set->training.data, validation = set->validation.data;
    training.z = *training_z(&set->training, job->kind);
    validation.z = *training_z(&set->validation, job->kind);
    circe_status status = start_network(job, (uint64_t)job->options->seed);
    if (status == CIRCE_OK && is_first()) status = check_checkpoint(job);
    status = ranks_agree(status);
    if (status != CIRCE_OK) return status;
    fill_options(job, &options);
    job->stage[0] = '\0';
    status = train_run(job->network, job->regularizer, &training, &validation, &options, &job->result);
    if (status == CIRCE_OK) training_watch_epochs(job, job->result.history, job->result.epochs_done);
    if (status == CIRCE_ERR_NUMERIC) return refuse_numbers(job, status);
    if (status == CIRCE_OK && job->result.interrupted) return interrupted(job, &job->result);
    return status == CIRCE_OK && is_first() ? training_ask(job, training_judged(set), &job->made->after) : status;
}

static circe_status run_job(training_job *job) {
    const training_set *set = job->set;
    circe_status status = ranks_same(&set->hash, sizeof set->hash, input_source(&set->table.in));
    if (status == CIRCE_OK) status = training_choose_gamma(job);
    if (status != CIRCE_OK) return status;
    training_ranks_divide(job->set);
    job->from = job->to;
    job->to = training_has_baseline(job) ? (TRAINING_SHARE + job->from) / 2 : TRAINING_SHARE;
    return run_network(job);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Moves to the model what the set does not need any more. */
static void hand_features_over(training_set *set, train_model *model) {
    if (set->has_images) {
        model->image = pictures_shape(&set->images);
        model->pixel_scale = 2.0;
        model->pixel_offset = -1.0;
    } else {
        model->features = set->inputs.names;
        model->n_features = set->inputs.n;
        model->feature_scale = set->feature_scale;
        set->inputs = (name_list){0};
        set->feature_scale = (train_scaler){0};
    }
}

static void name_target(const training_set *set, train_model *model) {
    const train_scaler *scale = &set->target_scale;
    size_t bytes = (size_t)scale->cols * sizeof *scale->mean;
    name_list target = {0}, classes = {0};
    for (int64_t i = 0; i < set->target.n; i++) name_list_add(&target, training_column(set, &set->target, i));
    for (int64_t i = 0; i < set->classes.n; i++) name_list_add(&classes, set->classes.names[i]);
    model->target = target.names;
    model->n_target = target.n;
    model->classes = classes.names;
    if (set->loss == TRAIN_MSE)
        model->target_scale = (train_scaler){scale->cols, memcpy(small_alloc(bytes), scale->mean, bytes),
                                             memcpy(small_alloc(bytes), scale->deviation, bytes)};
}

static circe_status make_model(training_job *job) {
    training_set *set = job->set;
    circe_model *predictor = job->made->result.model = small_alloc(sizeof *predictor);
    train_model *model = &predictor->model;
    *model = (train_model){.net = small_format("%s", job->net),
                           .activation = activation_of(job->options),
                           .loss = set->loss,
                           .outputs = job->outputs,
                           .settings = cJSON_PrintUnformatted(job->made->settings),
                           .has_checksum = true};
    hand_features_over(set, model);
    name_target(set, model);
    circe_status status = train_model_take(job->network, model);
    return status == CIRCE_OK ? predictor_open(predictor, "the model") : status;
}

/* Writes the model and removes the checkpoint. */
static circe_status save_model(training_job *job) {
    if (job->options->output == NULL) return CIRCE_OK;
    circe_status status = circe_model_save(job->context, job->made->result.model, job->options->output);
    if (status != CIRCE_OK)
        return circe_fail_hint(status, "%s keeps the run: the same command with --resume only has to write the model",
                               job->checkpoint);
    if (unlink(job->checkpoint) != 0 && errno != ENOENT)
        notes_add(&job->warnings, "%s could not be removed: %s", job->checkpoint, strerror(errno));
    training_search_forget(job);
    return CIRCE_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Keeps the trained network's results before the baseline replaces it. */
static circe_status keep_network(training_job *job) {
    training_describe(job);
    return make_model(job);
}

static circe_status finish_job(training_job *job) {
    circe_status status = training_judge(job);
    if (status != CIRCE_OK) return status;
    training_watch_end(job);
    return save_model(job);
}

static circe_status run_all(training_job *job) {
    circe_status status = ranks_agree(open_job(job));
    if (status == CIRCE_OK) status = run_job(job);
    if (status == CIRCE_OK) status = ranks_agree(is_first() ? keep_network(job) : CIRCE_OK);
    if (status == CIRCE_OK) status = training_make_baseline(job);
    if (status == CIRCE_OK && is_first()) status = finish_job(job);
    bool complete = job->result.steps_done > 0 && !job->result.interrupted;
    return status == CIRCE_ERR_CANCELLED && complete ? interrupted(job, &job->result) : status;
}

circe_status circe_train(circe_context *context, const circe_table *table, const circe_train_options *options,
                         const circe_watch *watch, circe_training **made) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    trained *t = small_alloc(sizeof *t);
    training_job job = {.context = context,
                        .settled = *options,
                        .table = table,
                        .watch = watch,
                        .made = t,
                        .set = &t->set,
                        .warnings = {.watch = is_first() ? watch : NULL}};
    job.options = &job.settled;
    *made = NULL;
    if (status == CIRCE_OK) status = small_end(mark, run_all(&job));
    if (status == CIRCE_OK) {
        t->result.warnings = notes_hand_over(&job.warnings);
        t->set.options = NULL;
        *made = &t->result;
    } else {
        circe_training_free(&t->result);
    }
    close_job(&job);
    return status;
}

void circe_training_free(circe_training *result) {
    if (result == NULL) return;
    trained *t = (trained *)(void *)result;
    free(t->baseline);
    free(t->after);
    cJSON_Delete(t->settings);
    circe_model_free(result->model);
    circe_notes_clear(&result->warnings);
    columns_clear(&result->columns);
    training_set_free(&t->set);
    arena_free(&t->owner);
    free(t);
}
