/* A run in JSON, for programs, and as a closing table, for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/common/text.h"
#include "cli/train/train_job.h"

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_role(cJSON *object, const char *name, const training_set *set, const training_role *role) {
    cJSON *list = cJSON_AddArrayToObject(object, name);
    for (int64_t i = 0; i < role->n; i++) cJSON_AddItemToArray(list, cJSON_CreateString(training_column(set, role, i)));
}

/* Options in their own words, defaults included. */
static void json_options(cJSON *object, const args *arguments) {
    static const spec_option_id ids[] = {OPT_ACTIVATION,     OPT_INIT,           OPT_EPOCHS,  OPT_BATCH,
                                         OPT_RATE,           OPT_DECAY,          OPT_WARMUP,  OPT_PATIENCE,
                                         OPT_LAYERS,         OPT_VALIDATION,     OPT_HOLDOUT, OPT_TRAIN_SIGMA2_X,
                                         OPT_TRAIN_SIGMA2_Y, OPT_TRAIN_SIGMA2_Z, OPT_RIDGE,   OPT_METHOD,
                                         OPT_TRAIN_DTYPE,    OPT_PRECISION,      OPT_SEED};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        cJSON_AddStringToObject(object, spec_options[ids[i]].name, args_text(arguments, ids[i]));
}

cJSON *training_settings_json(const training_job *job) {
    const training_set *set = &job->set;
    char hash[17];
    cJSON *out = cJSON_CreateObject();
    snprintf(hash, sizeof hash, "%016" PRIx64, set->hash);
    if (set->has_images)
        cJSON_AddItemToObject(out, "images", images_json(&set->request, &set->images));
    else
        cJSON_AddItemToObject(out, "columns", encoding_json(&set->encode));
    cJSON_AddStringToObject(out, "data", training_data(set));
    cJSON_AddStringToObject(out, "data_hash", hash);
    json_role(out, "given", set, &set->given);
    json_role(out, "invariant_to", set, &set->invariant);
    cJSON_AddStringToObject(out, "loss", set->loss == TRAIN_MSE ? "mse" : "cross-entropy");
    cJSON_AddStringToObject(out, "regularizer", train_regularizer_name(job->kind));
    cJSON_AddStringToObject(out, "regularizer_text", train_regularizer_text(job->regularizer));
    json_number(out, "gamma", job->gamma);
    json_number(out, "gamma-warmup", args_number(job->arguments, OPT_GAMMA_WARMUP));
    cJSON_AddStringToObject(out, "estimator", args_text(job->arguments, OPT_TRAIN_ESTIMATOR));
    cJSON_AddStringToObject(out, "net", job->net);
    if (args_given(job->arguments, OPT_WEIGHTS))
        cJSON_AddStringToObject(out, "weights", args_text(job->arguments, OPT_WEIGHTS));
    json_options(out, job->arguments);
    json_integer(out, "threads", circe_context_threads(job->s->context));
    return out;
}

static void json_error(cJSON *out, const training_job *job) {
    const training_scores *s = &job->scores;
    cJSON *error = cJSON_AddObjectToObject(out, "error");
    if (job->set.loss == TRAIN_CROSS_ENTROPY) {
        json_number(error, "cross_entropy", s->loss);
        json_number(error, "accuracy", s->accuracy);
        json_number(error, "majority", s->majority);
        return;
    }
    if (job->outputs == 1) json_number(error, "mse", s->columns[0].mse);
    json_number(error, "mse_standardised", s->loss);
    json_number(error, "r2", s->r2);
    json_number(error, "prediction_variance", s->spread);
    cJSON *columns = cJSON_AddArrayToObject(error, "columns");
    for (int64_t c = 0; c < job->outputs; c++) {
        cJSON *column = cJSON_CreateObject();
        cJSON_AddStringToObject(column, "name", training_column(&job->set, &job->set.target, c));
        json_number(column, "mse", s->columns[c].mse);
        json_number(column, "mse_standardised", s->columns[c].standardised);
        json_number(column, "r2", s->columns[c].r2);
        cJSON_AddItemToArray(columns, column);
    }
}

static void json_measures(cJSON *out, const training_job *job) {
    static const char *const states[N_STATES] = {"target", "before", "after"};
    cJSON *measures = cJSON_AddObjectToObject(out, "measures");
    for (int m = 0; m < N_MEASURED; m++) {
        cJSON *values = cJSON_AddObjectToObject(measures, training_measure_name[m]);
        for (int state = 0; state < N_STATES; state++) json_number(values, states[state], job->scores.value[state][m]);
    }
    json_integer(out, "measured_rows", job->scores.measured_rows);
    json_number(out, "floor", job->scores.floor);
}

cJSON *training_json(const training_job *job, const char *report) {
    const training_set *set = &job->set;
    const train_result *r = &job->result;
    cJSON *out = cJSON_CreateObject(), *rows;
    cJSON_AddStringToObject(out, "model", job->output);
    rows = cJSON_AddObjectToObject(out, "rows");
    json_integer(rows, "training", set->training.n);
    json_integer(rows, "validation", set->validation.n);
    json_integer(rows, "holdout", set->holdout.n);
    json_integer(rows, "dropped", set->dropped);
    const input *const group[] = {&set->table.in};
    json_inputs(out, group, 1);
    json_role(out, "features", set, &set->features);
    json_role(out, "target", set, &set->target);
    json_integer(out, "parameters", train_network_n_params(job->network));
    json_integer(out, "epochs", r->epochs_done);
    json_integer(out, "steps", r->steps_done);
    json_integer(out, "best_epoch", r->best_epoch + 1);
    cJSON_AddBoolToObject(out, "stopped_early", r->stopped_early);
    cJSON_AddBoolToObject(out, "resumed", r->resumed);
    json_error(out, job);
    json_measures(out, job);
    cJSON_AddItemToObject(out, "settings", training_settings_json(job));
    if (report != NULL)
        cJSON_AddStringToObject(out, "report", report);
    else
        cJSON_AddNullToObject(out, "report");
    json_notes(out, &(circe_notes){job->warnings.text, job->warnings.n});
    cJSON_AddStringToObject(out, "circe_version", circe_version());
    json_number(out, "seconds", r->seconds);
    json_number(out, "regularizer_seconds", r->regularizer_seconds);
    return out;
}

const char *training_regularizer_text(const training_job *job, char *out, size_t size) {
    return text_widths(train_regularizer_text(job->regularizer), out, size);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_run(const training_job *job) {
    const train_result *r = &job->result;
    const training_set *set = &job->set;
    char time[32], text[1024];
    text_row("network", "%s", training_network_text(job, text, sizeof text));
    if (set->has_images) text_row("images", "%s", images_text(&set->images, text, sizeof text));
    text_row("rows", "%" PRId64 " training, %" PRId64 " validation, %" PRId64 " holdout", set->training.n,
             set->validation.n, set->holdout.n);
    const input *const group[] = {&set->table.in};
    text_inputs(group, 1);
    printf("  %-18s  ", "regulariser");
    text_wrap(stdout, training_regularizer_text(job, text, sizeof text), 22, 22, text_width());
    if (job->kind != TRAIN_REG_NONE) text_row("gamma", "%g", job->gamma);
    text_row("epochs", "%" PRId64 "%s%s, %" PRId64 " steps in %s", r->epochs_done,
             r->stopped_early ? " (no better one came)" : "", r->resumed ? " (resumed)" : "", r->steps_done,
             text_seconds(r->seconds, time, sizeof time));
}

static void print_errors(const training_job *job) {
    const training_scores *s = &job->scores;
    if (job->set.loss == TRAIN_CROSS_ENTROPY) {
        text_row("accuracy", "%.4g (always the most frequent class: %.4g)", s->accuracy, s->majority);
        text_row("cross-entropy", "%.4g", s->loss);
        return;
    }
    for (int64_t c = 0; c < job->outputs; c++) {
        char *name = small_format("error of %s", training_column(&job->set, &job->set.target, c));
        text_row(name, "MSE %.4g, which is %.4g of the variance; R2 %.4g", s->columns[c].mse,
                 s->columns[c].standardised, s->columns[c].r2);
        free(name);
    }
    if (!isfinite(s->floor)) return;
    char *given = training_role_text(&job->set, &job->set.given);
    text_row("floor", "about %.4g of the variance: the error of predicting from %s alone", s->floor, given);
    free(given);
}

static void print_state(const training_job *job, training_state state, const char *name) {
    const double *value = job->scores.value[state];
    bool any = false;
    for (int m = 0; m < N_MEASURED; m++) any = any || isfinite(value[m]);
    if (!any) return;
    printf("  %-18s", name);
    for (int m = 0; m < N_MEASURED; m++) {
        if (isfinite(value[m]))
            printf("  %10.3g", value[m]);
        else
            printf("  %10s", "-");
    }
    putchar('\n');
}

static void print_measures(const training_job *job) {
    const training_set *set = &job->set;
    if (!set->has_invariant) return;
    char *z = training_role_text(set, &set->invariant), *y = training_role_text(set, &set->given);
    char *target = training_role_text(set, &set->target);
    char *itself = small_format("%s itself", target);
    printf("\nDependence on %s given %s", z, y);
    if (job->scores.measured_rows < set->validation.n)
        printf(", on %" PRId64 " of these rows", job->scores.measured_rows);
    printf("\n\n");
    printf("  %-18s  %10s  %10s  %10s  %10s\n", "", "CIRCE", "HSCIC", "GCM", "HSIC");
    print_state(job, STATE_TARGET, itself);
    print_state(job, STATE_BEFORE, "before training");
    print_state(job, STATE_AFTER, "after training");
    putchar('\n');
    free(itself);
    free(target);
    free(y);
    free(z);
}

static void explain_measures(const training_job *job) {
    char text[1024];
    if (!job->set.has_invariant) return;
    snprintf(text, sizeof text,
             "0: independent. CIRCE and HSIC are unbiased and scatter around 0; GCM is at most about 3 by chance; HSIC "
             "asks for independence whatever is given. \"Before\" is the network before its first step%s%s",
             job->set.given_is_target ? "."
                                      : "; the target itself is what a perfect predictor without a regulariser would "
                                        "show.",
             isfinite(job->scores.floor) ? " The floor is an estimate, by kernel regression. A prediction that is "
                                           "invariant can go below it only by what other features tell of the target "
                                           "independently of what must not matter."
                                         : "");
    text_wrap(stdout, text, 0, 0, text_width());
    putchar('\n');
}

void training_print(const training_job *job, const char *report) {
    printf("%s\n\n", job->output);
    print_run(job);
    printf("\nOn the %" PRId64 " validation rows\n\n", job->set.validation.n);
    print_errors(job);
    print_measures(job);
    if (!args_given(job->arguments, OPT_QUIET)) explain_measures(job);
    if (report != NULL) printf("%sreport: %s/report.html\n", job->set.has_invariant ? "" : "\n", report);
}
