/* What two runs must have in common so that one can continue the other: the network, the fitted regulariser, the data
 * (by their hash, if there is a checkpoint to compare with), every option that a step depends on, and the caller's
 * fingerprint for what cannot be seen here, such as the origin of the data. Numbers are written so that they can be
 * read back exactly. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "circe/status.h"
#include "train/checkpoint.h"
#include "train/layers.h"

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

static void put_shape(FILE *out, train_shape shape) {
    for (int d = 0; d < shape.n_dims; d++) fprintf(out, "%s%lld", d > 0 ? "x" : "", (long long)shape.size[d]);
}

/* What tells a layer from others of its kind. */
static void put_layer(FILE *out, const train_layer *layer, int64_t place) {
    fprintf(out, " %s", train_layer_type_of(layer->kind)->name);
    if (layer->kind == TRAIN_LEAKY_RELU) fprintf(out, "(%.9g)", (double)layer->slope);
    if (layer->kernel > 0)
        fprintf(out, "(%lld, %lld, %lld%s)", (long long)layer->kernel, (long long)layer->stride,
                (long long)layer->padding, layer->kind == TRAIN_CONVOLUTION && !layer->bias ? ", no bias" : "");
    if (layer->from != place - 1) fprintf(out, " of %lld", (long long)layer->from);
    if (layer->kind == TRAIN_ADD) fprintf(out, " and %lld", (long long)layer->other);
    fputc(' ', out);
    put_shape(out, layer->out);
}

/* "3 dense 64 relu 64 dense 1": the input, then each layer with its outputs; and where it started. */
static char *network_text(const train_network *network) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    put_shape(out, train_network_layer(network, 0)->in);
    for (int64_t l = 0; l < train_network_n_layers(network); l++) put_layer(out, train_network_layer(network, l), l);
    if (train_network_start(network) == TRAIN_START_UNIFORM) fprintf(out, ", started uniform");
    return fclose(out) == 0 ? text : NULL;
}

/* "3, 7"; "output" if there are none. */
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
    say_count(identity, "steps", o->steps);
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
    say_count(identity, "validate_every", o->validate_every);
    say_count(identity, "patience", o->patience);
    say(identity, "seed", "%llu", (unsigned long long)o->seed);
}

circe_status train_identity_make(const train_network *network, const circe_measure *regularizer, train_known training,
                                 train_known validation, const train_options *options, train_identity *identity) {
    *identity = (train_identity){0};
    say(identity, "fingerprint", "%s", options->fingerprint != NULL ? options->fingerprint : "");
    identity->pairs[identity->n++] = (circe_metadata){"network", network_text(network)};
    say_count(identity, "training rows", training.n);
    say_count(identity, "validation rows", validation.n);
    if (options->checkpoint != NULL)
        say(identity, "data", "%016" PRIx64 " %016" PRIx64, training.hash, validation.hash);
    say(identity, "regularizer", "%s", circe_measure_text(regularizer));
    identity->pairs[identity->n++] = (circe_metadata){"layers", layers_text(options)};
    say_options(identity, options);
    for (int64_t i = 0; i < identity->n; i++)
        if (identity->pairs[i].value == NULL) {
            train_identity_free(identity);
            return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the description of a run");
        }
    return CIRCE_OK;
}
