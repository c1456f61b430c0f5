/* Networks from text: items separated by commas, each of which may be repeated (COUNTx before it).
 *
 *     WIDTH                      dense layer, activation
 *     convC[kK][sS][pP][n]       convolution to C channels, [batch norm,] activation; kernel 3, stride 1, padding
 *                                (K - 1) / 2 unless they are given; n: with batch norm, and then without bias
 *     poolK[sS][pP]              max-pool; stride K and padding 0 unless they are given
 *     resC[sS]                   residual block of two convolutions of 3 with batch norm; its shortcut is a convolution
 *                                of 1 with batch norm where channels or sizes change
 *     average                    mean of each channel
 *     linear                     by itself: no hidden layers
 *     dsprites, resnet18         by themselves: the networks of the experiments
 *
 * Images become features before the first dense layer, and a dense layer to the outputs ends every network. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/layers.h"

enum { MOST_ITEMS = TRAIN_MAX_LAYERS / 2, MOST_LAYERS = TRAIN_MAX_LAYERS };

typedef struct building {
    const char *text, *at;
    train_layer_kind activation;
    train_layer_spec *specs; /* (MOST_LAYERS) */
    int64_t n;
    int64_t items;    /* hidden layers and blocks so far */
    bool images;      /* what the last layer makes */
    int64_t channels; /* of it; 0: not known here, those of the network's input */
    bool full;
} building;

static circe_status refuse(const building *b, const char *what) {
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "network '%.60s': %s (examples: 9x64, nine hidden layers of 64; 64,32; linear; for images "
                      "conv16s2,conv32s2,pool2,128,64; dsprites; resnet18)",
                      b->text, what);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* 1 + the place of the new layer, as `from` and `other` count. */
static int64_t add(building *b, train_layer_spec spec) {
    b->full = b->full || b->n == MOST_LAYERS;
    if (b->full) return 0;
    b->specs[b->n++] = spec;
    return b->n;
}

/* Named by a format, which may be NULL: by its place. */
__attribute__((format(printf, 3, 4))) static int64_t add_named(building *b, train_layer_spec spec, const char *format,
                                                               ...) {
    if (format != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(spec.name, sizeof spec.name, format, arguments);
        va_end(arguments);
    }
    return add(b, spec);
}

static void add_dense(building *b, int64_t width) {
    if (b->images) add(b, (train_layer_spec){.kind = TRAIN_FLATTEN});
    b->images = false;
    add(b, (train_layer_spec){.kind = TRAIN_DENSE, .width = width});
}

static train_layer_spec convolution(int64_t channels, int64_t kernel, int64_t stride, bool norm) {
    return (train_layer_spec){.kind = TRAIN_CONVOLUTION,
                              .width = channels,
                              .kernel = kernel,
                              .stride = stride,
                              .padding = (kernel - 1) / 2,
                              .no_bias = norm};
}

/* torchvision's BasicBlock under its names ("layer2.0"), or by places (name NULL):
 *
 *     in -> conv1 -> bn1 -> activation -> conv2 -> bn2 -> + in, or downsample(in) -> activation */
static void add_block(building *b, const char *name, int64_t channels, int64_t stride) {
    const train_layer_spec norm = {.kind = TRAIN_BATCH_NORM};
    train_layer_kind activation = name != NULL ? TRAIN_RELU : b->activation;
    int64_t in = b->n == 0 ? TRAIN_FROM_INPUT : b->n, shortcut = in;
    bool named = name != NULL, changes = stride != 1 || channels != b->channels;
    add_named(b, convolution(channels, 3, stride, true), named ? "%s.conv1" : NULL, name);
    add_named(b, norm, named ? "%s.bn1" : NULL, name);
    add_named(b, (train_layer_spec){.kind = activation}, named ? "%s.relu" : NULL, name);
    add_named(b, convolution(channels, 3, 1, true), named ? "%s.conv2" : NULL, name);
    int64_t branch = add_named(b, norm, named ? "%s.bn2" : NULL, name);
    if (changes) {
        train_layer_spec down = convolution(channels, 1, stride, true);
        down.from = in;
        add_named(b, down, named ? "%s.downsample.0" : NULL, name);
        shortcut = add_named(b, norm, named ? "%s.downsample.1" : NULL, name);
    }
    train_layer_spec sum = {.kind = TRAIN_ADD, .from = branch, .other = shortcut};
    add_named(b, sum, named ? "%s.add" : NULL, name);
    add_named(b, (train_layer_spec){.kind = activation}, named ? "%s" : NULL, name);
    b->channels = channels;
    b->images = true;
}

/* ---- networks of the experiments --------------------------------------------------------------------------------- */

static void add_dsprites(building *b, int64_t outputs) {
    static const int64_t channels[] = {16, 32, 64};
    const train_layer_spec leaky = {.kind = TRAIN_LEAKY_RELU};
    b->images = true;
    for (int k = 0; k < 3; k++) {
        add(b, convolution(channels[k], 3, 2, false));
        add(b, leaky);
        if (k > 0) add(b, (train_layer_spec){.kind = TRAIN_MAX_POOL, .kernel = 2});
    }
    add_dense(b, 128);
    add(b, leaky);
    add_dense(b, 64);
    add_dense(b, outputs);
}

static void add_resnet18(building *b, int64_t outputs) {
    char name[TRAIN_NAME_BYTES];
    add_named(b, convolution(64, 7, 2, true), "conv1");
    add_named(b, (train_layer_spec){.kind = TRAIN_BATCH_NORM}, "bn1");
    add_named(b, (train_layer_spec){.kind = TRAIN_RELU}, "relu");
    add_named(b, (train_layer_spec){.kind = TRAIN_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1}, "maxpool");
    b->channels = 64;
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < 2; block++) {
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, block);
            add_block(b, name, (int64_t)64 << stage, stage > 0 && block == 0 ? 2 : 1);
        }
    add_named(b, (train_layer_spec){.kind = TRAIN_AVERAGE_POOL}, "avgpool");
    add_named(b, (train_layer_spec){.kind = TRAIN_FLATTEN}, "flatten");
    add_named(b, (train_layer_spec){.kind = TRAIN_DENSE, .width = 128}, "fc.0");
    add_named(b, (train_layer_spec){.kind = TRAIN_LEAKY_RELU}, "fc.1");
    add_named(b, (train_layer_spec){.kind = TRAIN_DENSE, .width = 64}, "fc.2");
    add_named(b, (train_layer_spec){.kind = TRAIN_DENSE, .width = outputs}, "fc.3");
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* A whole number of digits only; above the limit it stays at limit + 1. */
static bool read_number(building *b, int64_t limit, int64_t *value) {
    if (!isdigit((unsigned char)*b->at)) return false;
    *value = 0;
    for (; isdigit((unsigned char)*b->at); b->at++)
        if (*value <= limit) *value = 10 * *value + (*b->at - '0');
    if (*value > limit) *value = limit + 1;
    return true;
}

static bool read_word(building *b, const char *word) {
    if (strncmp(b->at, word, strlen(word)) != 0) return false;
    b->at += strlen(word);
    return true;
}

/* One layer or block, as often as it is to be repeated. */
typedef struct item {
    enum { DENSE, CONVOLUTION, POOL, BLOCK, AVERAGE } kind;
    int64_t width; /* units or channels */
    train_layer_spec window;
    bool norm;
} item;

/* Letters with a number behind a word: s2, p1, k5; and n. */
static circe_status read_window(building *b, const char *letters, item *i) {
    for (; *b->at != '\0' && strchr(letters, *b->at) != NULL;) {
        char letter = *b->at++;
        int64_t *to = letter == 'k' ? &i->window.kernel : letter == 's' ? &i->window.stride : &i->window.padding;
        if (letter == 'n')
            i->norm = true;
        else if (!read_number(b, TRAIN_MAX_KERNEL, to))
            return refuse(b, "expected a number after k, s or p");
        else if (*to > TRAIN_MAX_KERNEL || (letter != 'p' && *to < 1))
            return refuse(b, "kernels and strides are 1 to 64, the padding 0 to 63");
    }
    return CIRCE_OK;
}

static circe_status read_channels(building *b, const char *letters, item *i) {
    if (!read_number(b, TRAIN_MAX_WIDTH, &i->width))
        return refuse(b, "expected a number of channels after conv or res");
    if (i->width < 1 || i->width > TRAIN_MAX_WIDTH) return refuse(b, "there are 1 to 16384 channels");
    i->window = (train_layer_spec){.kernel = 3, .stride = 1, .padding = -1};
    return read_window(b, letters, i);
}

static circe_status read_item(building *b, item *i) {
    *i = (item){0};
    if (isdigit((unsigned char)*b->at)) {
        i->kind = DENSE;
        read_number(b, TRAIN_MAX_WIDTH, &i->width);
        return CIRCE_OK; /* or it is a count: the caller sees */
    }
    if (read_word(b, "conv")) {
        i->kind = CONVOLUTION;
        return read_channels(b, "kspn", i);
    }
    if (read_word(b, "res")) {
        i->kind = BLOCK;
        return read_channels(b, "s", i);
    }
    if (read_word(b, "pool")) {
        i->kind = POOL;
        if (!read_number(b, TRAIN_MAX_KERNEL, &i->window.kernel)) return refuse(b, "expected a kernel after pool");
        if (i->window.kernel < 1 || i->window.kernel > TRAIN_MAX_KERNEL)
            return refuse(b, "the kernel of a pool is 1 to 64");
        return read_window(b, "sp", i);
    }
    i->kind = AVERAGE;
    if (read_word(b, "average")) return CIRCE_OK;
    return refuse(b, "expected a number of units, conv, pool, res or average");
}

static void add_item(building *b, const item *i) {
    const train_layer_spec act = {.kind = b->activation};
    train_layer_spec window = i->window;
    switch (i->kind) {
        case DENSE:
            add_dense(b, i->width);
            add(b, act);
            return;
        case CONVOLUTION:
            window.kind = TRAIN_CONVOLUTION;
            window.width = b->channels = i->width;
            window.no_bias = i->norm;
            if (window.padding < 0) window.padding = (window.kernel - 1) / 2;
            add(b, window);
            if (i->norm) add(b, (train_layer_spec){.kind = TRAIN_BATCH_NORM});
            add(b, act);
            break;
        case POOL:
            window.kind = TRAIN_MAX_POOL;
            add(b, window);
            break;
        case BLOCK:
            add_block(b, NULL, i->width, i->window.stride);
            break;
        case AVERAGE:
            add(b, (train_layer_spec){.kind = TRAIN_AVERAGE_POOL});
            break;
    }
    b->images = true;
}

static circe_status add_items(building *b, const item *i, int64_t count) {
    if (i->kind == DENSE && (i->width < 1 || i->width > TRAIN_MAX_WIDTH))
        return refuse(b, "a layer has 1 to 16384 units");
    if (count < 1 || count > MOST_ITEMS - b->items) return refuse(b, "there are 1 to 1000 hidden layers");
    if (i->kind != DENSE && b->n > 0 && !b->images) return refuse(b, "layers for images must come before dense layers");
    b->items += count;
    while (count-- > 0) add_item(b, i);
    return b->full ? refuse(b, "it has more than 2000 layers") : CIRCE_OK;
}

/* Items up to the end of the text. */
static circe_status read_items(building *b) {
    for (;;) {
        int64_t count = 1;
        item i;
        circe_status status = read_item(b, &i);
        if (status == CIRCE_OK && i.kind == DENSE && *b->at == 'x') {
            b->at++;
            count = i.width;
            status = read_item(b, &i);
            if (status != CIRCE_OK) return refuse(b, "expected a number of units, or a layer, after 'x'");
        }
        if (status == CIRCE_OK) status = add_items(b, &i, count);
        if (status != CIRCE_OK) return status;
        if (*b->at == '\0') return CIRCE_OK;
        if (*b->at != ',') return refuse(b, "items must be separated by commas");
        b->at++;
    }
}

static circe_status build(building *b, int64_t outputs) {
    circe_status status = CIRCE_OK;
    if (strcmp(b->text, "dsprites") == 0) {
        add_dsprites(b, outputs);
    } else if (strcmp(b->text, "resnet18") == 0) {
        add_resnet18(b, outputs);
    } else {
        if (strcmp(b->text, "linear") != 0) status = read_items(b);
        if (status == CIRCE_OK) add_dense(b, outputs);
    }
    return status == CIRCE_OK && b->full ? refuse(b, "it has more than 2000 layers") : status;
}

circe_status train_network_parse(const char *text, train_layer_kind activation, int64_t outputs,
                                 train_layer_spec **specs, int64_t *n_specs) {
    *specs = NULL;
    *n_specs = 0;
    const train_layer_type *type = train_layer_type_of(activation);
    if (type == NULL || !type->elementwise)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the activation must be ReLU, leaky ReLU or tanh");
    if (outputs < 1 || outputs > TRAIN_MAX_WIDTH)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a network cannot have %lld outputs; it must have 1 to %d",
                          (long long)outputs, TRAIN_MAX_WIDTH);
    building b = {.text = text, .at = text, .activation = activation};
    b.specs = calloc(MOST_LAYERS, sizeof *b.specs);
    if (b.specs == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the layers of a network");
    circe_status status = build(&b, outputs);
    if (status != CIRCE_OK) {
        free(b.specs);
        return status;
    }
    *specs = b.specs;
    *n_specs = b.n;
    return CIRCE_OK;
}

circe_status train_network_build(train_device *device, train_shape input, const char *text, train_layer_kind activation,
                                 int64_t outputs, int64_t max_batch, train_network **network) {
    OWNED train_layer_spec *specs = NULL;
    int64_t n = 0;
    circe_status status = train_network_parse(text, activation, outputs, &specs, &n);
    return status == CIRCE_OK ? train_network_create(device, input, specs, n, max_batch, network) : status;
}
