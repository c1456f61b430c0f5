/* Networks from text: items separated by commas, each WIDTH or COUNTxWIDTH, or the word "linear". */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "layers.h"

static circe_status refuse(const char *text, const char *what) {
    return train_fail(CIRCE_ERR_ARGUMENT,
                      "network '%.60s': %s (examples: 9x64, nine hidden layers of 64; 64,32; linear)", text, what);
}

/* A whole number of digits only; above the limit it stays at limit + 1. */
static bool read_number(const char **at, int64_t limit, int64_t *value) {
    if (!isdigit((unsigned char)**at)) return false;
    *value = 0;
    for (; isdigit((unsigned char)**at); (*at)++)
        if (*value <= limit) *value = 10 * *value + (**at - '0');
    if (*value > limit) *value = limit + 1;
    return true;
}

/* Widths of the hidden layers, at most TRAIN_MAX_LAYERS / 2 of them. */
static circe_status read_widths(const char *text, int64_t *widths, int64_t *n) {
    enum { MOST = TRAIN_MAX_LAYERS / 2 };
    const char *at = text;
    *n = 0;
    if (strcmp(text, "linear") == 0) return CIRCE_OK;
    for (;;) {
        int64_t count = 1, width;
        if (!read_number(&at, TRAIN_MAX_WIDTH, &width)) return refuse(text, "expected a number of units");
        if (*at == 'x') {
            at++;
            count = width;
            if (!read_number(&at, TRAIN_MAX_WIDTH, &width)) return refuse(text, "expected a number of units after 'x'");
        }
        if (width < 1 || width > TRAIN_MAX_WIDTH) return refuse(text, "a layer has 1 to 16384 units");
        if (count < 1 || count > MOST - *n) return refuse(text, "there are 1 to 1000 hidden layers");
        while (count-- > 0) widths[(*n)++] = width;
        if (*at == '\0') return CIRCE_OK;
        if (*at != ',') return refuse(text, "units are separated by commas, and nothing else may follow them");
        at++;
    }
}

circe_status train_network_parse(const char *text, train_layer_kind activation, int64_t outputs,
                                 train_layer_spec **specs, int64_t *n_specs) {
    int64_t widths[TRAIN_MAX_LAYERS / 2], hidden = 0;
    if (text == NULL || specs == NULL || n_specs == NULL)
        return train_fail(CIRCE_ERR_ARGUMENT, "text, specs and n_specs must not be NULL");
    *specs = NULL;
    *n_specs = 0;
    const train_layer_type *type = train_layer_type_of(activation);
    if (type == NULL || !type->elementwise)
        return train_fail(CIRCE_ERR_ARGUMENT, "the activation must be ReLU, leaky ReLU or tanh");
    if (outputs < 1 || outputs > TRAIN_MAX_WIDTH)
        return train_fail(CIRCE_ERR_ARGUMENT, "a network of %lld outputs; there must be 1 to %d", (long long)outputs,
                          TRAIN_MAX_WIDTH);
    circe_status status = read_widths(text, widths, &hidden);
    if (status != CIRCE_OK) return status;
    train_layer_spec *made = calloc((size_t)(2 * hidden + 1), sizeof *made);
    if (made == NULL) return train_fail(CIRCE_ERR_MEMORY, "no memory for a network of %lld layers", (long long)hidden);
    for (int64_t l = 0; l < hidden; l++) {
        made[2 * l] = (train_layer_spec){.kind = TRAIN_DENSE, .width = widths[l]};
        made[2 * l + 1] = (train_layer_spec){.kind = activation};
    }
    made[2 * hidden] = (train_layer_spec){.kind = TRAIN_DENSE, .width = outputs};
    *specs = made;
    *n_specs = 2 * hidden + 1;
    return CIRCE_OK;
}
