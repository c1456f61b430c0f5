/* A training in words: the texts of its result, its settings, and all of it as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/small.h"
#include "core/settings.h"
#include "jobs/columns.h"
#include "jobs/json.h"
#include "jobs/kernel_choice.h"
#include "jobs/training.h"

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void json_role(cJSON *object, const char *name, const training_set *set, const training_role *role) {
    cJSON *list = cJSON_AddArrayToObject(object, name);
    for (int64_t i = 0; i < role->n; i++) cJSON_AddItemToArray(list, cJSON_CreateString(training_column(set, role, i)));
}

/* Options in their own words, defaults included. */
static void json_options(cJSON *object, const circe_train_options *options) {
    static const char *const names[] = {"activation", "init",        "epochs",   "batch",      "lr",    "weight-decay",
                                        "warmup",     "patience",    "layers",   "validation", "test",  "holdout",
                                        "sigma2-x",   "normalize-x", "sigma2-y", "sigma2-z",   "ridge", "method",
                                        "dtype",      "precision",   "seed"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char number[40];
        const char *text = circe_options_text(&circe_train_schema, options, names[i], number, sizeof number);
        cJSON_AddStringToObject(object, names[i], text);
    }
}

/* Data, columns, split and every option that shapes the result. */
static cJSON *settings_json(const training_job *job) {
    const training_set *set = job->set;
    const circe_train_options *o = job->options;
    char hash[17];
    cJSON *out = cJSON_CreateObject();
    snprintf(hash, sizeof hash, "%016" PRIx64, set->hash);
    if (set->has_images)
        cJSON_AddItemToObject(out, "images", pictures_json(&set->request, &set->images));
    else
        cJSON_AddItemToObject(out, "columns", encoding_json(&set->encode));
    cJSON_AddStringToObject(out, "data", job->made->result.data);
    cJSON_AddStringToObject(out, "data_hash", hash);
    json_role(out, "given", set, &set->given);
    json_role(out, "invariant_to", set, &set->invariant);
    if (set->weights.n > 0) json_role(out, "row_weights", set, &set->weights);
    cJSON_AddStringToObject(out, "loss", set->loss == TRAIN_MSE ? "mse" : "cross-entropy");
    cJSON_AddStringToObject(out, "regularizer", circe_measure_name(job->kind));
    cJSON_AddStringToObject(out, "regularizer_text", circe_measure_text(job->regularizer));
    json_number(out, "gamma", job->gamma);
    json_number(out, "gamma-warmup", o->gamma_warmup);
    cJSON_AddStringToObject(out, "estimator", o->estimator);
    cJSON_AddStringToObject(out, "net", job->net);
    if (o->weights != NULL) cJSON_AddStringToObject(out, "weights", o->weights);
    json_options(out, o);
    json_integer(out, "threads", circe_context_threads(job->context));
    return out;
}

/* ---- the run as a file of settings ------------------------------------------------------------------------------- */

static void put_yaml(FILE *out, const char *text) {
    bool plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-,") == strlen(text);
    if (plain && text[0] != '-' && text[0] != ',') {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (const char *c = text; *c != '\0'; c++) fprintf(out, *c == '\'' ? "''" : "%c", *c);
    fputc('\'', out);
}

/* The options that shape the result. The next run decides where to write it. */
char *training_yaml(const training_job *job) {
    circe_train_options o = *job->options;
    char *text = NULL, number[40];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    o.net = job->net;
    o.output = NULL;
    if (job->kind == CIRCE_MEASURE_NONE) o.gamma = CIRCE_AUTO; /* its default */
    fputs("# This run. Again: circe train --config run.yaml -o MODEL\n", out);
    for (size_t i = 0; i < circe_train_schema.n; i++) {
        const circe_option *row = &circe_train_schema.rows[i];
        const char *value = circe_options_text(&circe_train_schema, &o, row->name, number, sizeof number);
        if (value == NULL || row->kind == CIRCE_OPTION_FLAG) continue;
        fprintf(out, "%s: ", row->name);
        put_yaml(out, value);
        fputc('\n', out);
    }
    fprintf(out, "threads: %d\n", circe_context_threads(job->context));
    fclose(out);
    return text;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static void describe_run(training_job *job) {
    trained *t = job->made;
    circe_training *r = &t->result;
    const train_result *run = &job->result;
    r->epochs = run->epochs_done;
    r->steps = run->steps_done;
    r->best_epoch = run->best_epoch;
    r->stopped_early = run->stopped_early;
    r->resumed = run->resumed;
    r->seconds = run->seconds;
    r->regularizer_seconds = run->regularizer_seconds;
    r->history = arena_alloc(&t->owner, (size_t)run->epochs_done * sizeof *r->history);
    for (int64_t e = 0; e < run->epochs_done; e++) {
        const train_epoch *h = &run->history[e];
        r->history[e] = (circe_training_epoch){h->loss,  h->regularizer, h->validation_loss, h->validation_regularizer,
                                               h->rate,  h->gamma,       h->seconds,         h->mean_kernel,
                                               h->spread};
    }
}

static void describe_data(training_job *job) {
    trained *t = job->made;
    circe_training *r = &t->result;
    const training_set *set = &t->set;
    const input *const group[] = {&set->table.in};
    r->data = arena_text(&t->owner, input_source(&set->table.in));
    r->target = training_role_text(&t->owner, set, &set->target);
    r->given = training_role_text(&t->owner, set, &set->given);
    r->invariant_to = training_role_text(&t->owner, set, &set->invariant);
    r->given_is_target = set->given_is_target;
    if (set->has_images) r->images = pictures_text(&t->owner, &set->images);
    r->rows = set->table.in.values.rows;
    r->dropped = set->dropped;
    r->training_rows = set->training.n;
    r->validation_rows = set->validation.n;
    r->test_rows = set->test.n;
    r->holdout_rows = set->holdout.n;
    r->columns = columns_described(group, 1);
}

void training_describe(training_job *job) {
    trained *t = job->made;
    circe_training *r = &t->result;
    bool own = training_brings_activation(job->net);
    char text[1024];
    describe_run(job);
    describe_data(job);
    r->regularised = job->kind != CIRCE_MEASURE_NONE;
    r->gamma = job->gamma;
    r->seed = job->options->seed;
    r->parameters = train_network_n_params(job->network);
    if (job->options->output != NULL) r->path = arena_text(&t->owner, job->options->output);
    r->network = arena_format(&t->owner, "%s%s%s, %" PRId64 " parameters", job->net, own ? "" : ", ",
                              own ? "" : job->options->activation, r->parameters);
    r->regularizer = arena_text(&t->owner, kernel_short_text(circe_measure_text(job->regularizer), text, sizeof text));
    t->settings = settings_json(job);
    OWNED char *yaml = training_yaml(job);
    t->yaml = arena_text(&t->owner, yaml);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_error(cJSON *out, const circe_training *r) {
    cJSON *error = cJSON_AddObjectToObject(out, "error");
    cJSON_AddStringToObject(error, "rows", r->test_rows > 0 ? "test" : "validation");
    if (r->classes != NULL) {
        json_number(error, "cross_entropy", r->loss);
        json_number(error, "accuracy", r->accuracy);
        json_number(error, "auc", r->score.auc);
        json_number(error, "majority", r->majority);
        return;
    }
    if (r->outputs == 1) json_number(error, "mse", r->errors[0].mse);
    json_number(error, "mse_standardised", r->loss);
    json_number(error, "r2", r->r2);
    json_number(error, "prediction_variance", r->spread);
    cJSON *columns = cJSON_AddArrayToObject(error, "columns");
    for (int64_t c = 0; c < r->outputs; c++) {
        cJSON *column = json_item(columns);
        cJSON_AddStringToObject(column, "name", r->errors[c].name);
        json_number(column, "mse", r->errors[c].mse);
        json_number(column, "mse_standardised", r->errors[c].standardised);
        json_number(column, "r2", r->errors[c].r2);
    }
}

static void json_estimate(cJSON *out, const char *name, circe_training_estimate e) {
    json_interval(cJSON_AddObjectToObject(out, name), e.value, e.lower, e.upper);
}

/* Into an object that is there. */
static void json_score(cJSON *out, const circe_training_score *s) {
    json_integer(out, "rows", s->rows);
    json_estimate(out, "error", s->error);
    json_number(out, "accuracy", s->accuracy);
    json_number(out, "auc", s->auc);
    json_number(out, "p_kci", s->p_kci);
    json_number(out, "p_gcm", s->p_gcm);
    json_estimate(out, "kpc", s->kpc);
    json_number(out, "kpc_chance", s->kpc_chance);
}

static void json_comparison(cJSON *out, const circe_training *r) {
    cJSON *all = cJSON_AddObjectToObject(out, "comparison");
    cJSON_AddStringToObject(all, "rows", r->test_rows > 0 ? "test" : "validation");
    cJSON_AddStringToObject(all, "error", r->classes != NULL ? "cross-entropy" : "MSE over the variance");
    json_score(cJSON_AddObjectToObject(all, "network"), &r->score);
    if (r->baseline == NULL) return;
    json_score(cJSON_AddObjectToObject(all, "baseline"), &r->baseline_score);
    cJSON_AddStringToObject(all, "baseline_is", r->baseline);
    json_estimate(all, "difference", r->difference);
}

static void json_trials(cJSON *out, const circe_training *r) {
    if (r->n_trials == 0) return;
    cJSON *search = cJSON_AddObjectToObject(out, "search"), *list;
    cJSON_AddBoolToObject(search, "chosen", r->gamma_chosen);
    cJSON_AddBoolToObject(search, "reached", r->gamma_reached);
    json_number(search, "tolerance", r->tolerance);
    json_integer(search, "rows", r->trial_rows);
    list = cJSON_AddArrayToObject(search, "trials");
    for (int64_t i = 0; i < r->n_trials; i++) {
        cJSON *trial = json_item(list);
        json_number(trial, "gamma", r->trials[i].gamma);
        json_score(trial, &r->trials[i].score);
        cJSON_AddBoolToObject(trial, "invariant", r->trials[i].invariant);
        cJSON_AddBoolToObject(trial, "chosen", r->trials[i].chosen);
    }
}

/* A number of the network, and of the baseline if there is one. */
static void json_pair(cJSON *out, const char *name, const double *pair) {
    OWNED char *other = small_format("%s_baseline", name);
    if (isfinite(pair[0])) json_number(out, name, pair[0]);
    if (isfinite(pair[1])) json_number(out, other, pair[1]);
}

static void json_groups(cJSON *out, const circe_training *r) {
    cJSON *list = cJSON_AddArrayToObject(out, "groups");
    for (int64_t i = 0; i < r->n_groups; i++) {
        const circe_training_group *g = &r->groups[i];
        cJSON *group = json_item(list);
        cJSON_AddStringToObject(group, "column", g->column);
        cJSON_AddStringToObject(group, "group", g->group);
        json_integer(group, "rows", g->rows);
        json_pair(group, "selection_rate", g->selected);
        json_pair(group, "true_positive_rate", g->true_positive);
        json_pair(group, "false_positive_rate", g->false_positive);
        json_pair(group, "accuracy", g->accuracy);
        json_pair(group, "root_mean_square_error", g->error);
    }
}

static void json_measures(cJSON *out, const circe_training *r) {
    static const char *const measures[CIRCE_TRAINING_MEASURES] = {"circe", "hscic", "gcm", "hsic"};
    static const char *const states[CIRCE_TRAINING_STATES] = {"target", "baseline", "after"};
    cJSON *all = cJSON_AddObjectToObject(out, "measures");
    for (int m = 0; m < CIRCE_TRAINING_MEASURES; m++) {
        cJSON *values = cJSON_AddObjectToObject(all, measures[m]);
        for (int s = 0; s < CIRCE_TRAINING_STATES; s++) json_number(values, states[s], r->dependence[s][m]);
    }
    json_integer(out, "measured_rows", r->measured_rows);
    json_number(out, "floor", r->floor);
}

char *circe_training_json(const circe_training *r, const char *folder) {
    CIRCE_OWN_SETTINGS;
    const trained *t = trained_of(r);
    cJSON *out = cJSON_CreateObject(), *rows;
    json_word(out, "model", r->path);
    rows = cJSON_AddObjectToObject(out, "rows");
    json_integer(rows, "training", r->training_rows);
    json_integer(rows, "validation", r->validation_rows);
    json_integer(rows, "test", r->test_rows);
    json_integer(rows, "holdout", t->set.shares_rows ? 0 : r->holdout_rows);
    json_integer(rows, "conditional_mean", r->holdout_rows);
    json_integer(rows, "dropped", r->dropped);
    json_columns(out, &r->columns);
    json_role(out, "features", &t->set, &t->set.features);
    json_role(out, "target", &t->set, &t->set.target);
    json_integer(out, "parameters", r->parameters);
    json_integer(out, "epochs", r->epochs);
    json_integer(out, "steps", r->steps);
    json_integer(out, "best_epoch", r->best_epoch + 1);
    cJSON_AddBoolToObject(out, "stopped_early", r->stopped_early);
    cJSON_AddBoolToObject(out, "resumed", r->resumed);
    json_error(out, r);
    json_comparison(out, r);
    json_groups(out, r);
    json_trials(out, r);
    json_measures(out, r);
    cJSON_AddItemToObject(out, "settings", cJSON_Duplicate(t->settings, true));
    json_word(out, "report", folder);
    json_notes(out, &r->warnings);
    cJSON_AddStringToObject(out, "circe_version", circe_version());
    json_number(out, "seconds", r->seconds);
    json_number(out, "regularizer_seconds", r->regularizer_seconds);
    return json_text(out);
}
