/* What two runs must have in common for one to go on where the other stopped: the network, the regulariser as it was
 * fitted, the sizes, every option that a step depends on, and the caller's fingerprint for what cannot be seen here,
 * the data. Numbers are written so that they can be read back exactly. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "error.h"
#include "layers.h"

void train_identity_free(train_identity *identity) {
    for (int64_t i = 0; i < identity->n; i++) free((char *)identity->pairs[i].value);
    *identity = (train_identity){0};
}

static void say(train_identity *identity, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(train_identity *identity, const char *key, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    identity->pairs[identity->n++] = (circe_metadata){key, text};
}

static void say_number(train_identity *identity, const char *key, double value) { say(identity, key, "%.17g", value); }
static void say_count(train_identity *identity, const char *key, int64_t value) {
    say(identity, key, "%lld", (long long)value);
}

/* "3 dense 64 relu 64 dense 1": the input, then each layer with its outputs. */
static char *network_text(const train_network *network) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    fprintf(out, "%lld", (long long)train_shape_count(train_network_layer(network, 0)->in));
    for (int64_t l = 0; l < train_network_n_layers(network); l++) {
        const train_layer *layer = train_network_layer(network, l);
        fprintf(out, " %s", train_layer_type_of(layer->kind)->name);
        if (layer->slope != 0.0F) fprintf(out, "(%.9g)", (double)layer->slope);
        fprintf(out, " %lld", (long long)train_shape_count(layer->out));
    }
    return fclose(out) == 0 ? text : NULL;
}

/* "3, 7"; "output" where there are none. */
static char *layers_text(const train_options *options) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    for (int64_t l = 0; l < options->n_layers; l++)
        fprintf(out, "%s%lld", l > 0 ? ", " : "", (long long)options->layers[l]);
    if (options->n_layers == 0) fprintf(out, "output");
    return fclose(out) == 0 ? text : NULL;
}

static void say_options(train_identity *identity, const train_options *o) {
    say(identity, "loss", "%s", o->loss == TRAIN_MSE ? "mse" : "cross-entropy");
    say_count(identity, "epochs", o->epochs);
    say_count(identity, "batch", o->batch);
    say_number(identity, "rate", o->rate);
    say_number(identity, "decay", o->decay);
    say_number(identity, "beta1", o->beta1);
    say_number(identity, "beta2", o->beta2);
    say_number(identity, "epsilon", o->epsilon);
    say_number(identity, "warmup_epochs", o->warmup_epochs);
    say_count(identity, "cosine", o->cosine != 0);
    say_number(identity, "gamma", o->gamma);
    say_number(identity, "gamma_warmup_epochs", o->gamma_warmup_epochs);
    say_count(identity, "patience", o->patience);
    say(identity, "seed", "%llu", (unsigned long long)o->seed);
}

circe_status train_identity_make(const train_network *network, const train_regularizer *regularizer,
                                 const train_data *data, const train_data *validation, const train_options *options,
                                 train_identity *identity) {
    *identity = (train_identity){0};
    say(identity, "fingerprint", "%s", options->fingerprint != NULL ? options->fingerprint : "");
    identity->pairs[identity->n++] = (circe_metadata){"network", network_text(network)};
    say_count(identity, "training rows", data->features.rows);
    say_count(identity, "validation rows", validation != NULL ? validation->features.rows : 0);
    say(identity, "regularizer", "%s", train_regularizer_text(regularizer));
    identity->pairs[identity->n++] = (circe_metadata){"layers", layers_text(options)};
    say_options(identity, options);
    for (int64_t i = 0; i < identity->n; i++)
        if (identity->pairs[i].value == NULL) {
            train_identity_free(identity);
            return train_fail(CIRCE_ERR_MEMORY, "no memory for the description of a run");
        }
    return CIRCE_OK;
}
