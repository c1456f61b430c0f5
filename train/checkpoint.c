/* Checkpoints as .safetensors. The library computes and verifies their checksum (circe/safetensors.h). */
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"

static const char format_name[] = "circe training checkpoint";

enum {
    N_COUNTERS = 5,
    N_NUMBERS = 13,
    N_HISTORY = sizeof(train_epoch) / sizeof(double),
    N_FIRST = 7, /* columns that every history has; no version ever wrote fewer numbers */
    MOST_TENSORS = 10,
    N_OWN = 3, /* metadata of the format itself: format, version, writer */
};

/* ---- the state -------------------------------------------------------------------------------------------------- */

/* false: no memory. */
static bool make_numbers(int64_t n, float **numbers) {
    *numbers = calloc(n > 0 ? (size_t)n : 1, sizeof **numbers);
    return *numbers != NULL;
}

circe_status train_state_create(int64_t epochs, int64_t n_params, int64_t n_buffers, bool keep_best,
                                train_state *state) {
    *state = (train_state){.epochs = epochs, .n_params = n_params, .n_buffers = n_buffers, .now = {.best_epoch = -1}};
    state->history = calloc((size_t)epochs, sizeof *state->history);
    bool made = state->history != NULL && make_numbers(n_params, &state->params) && make_numbers(n_params, &state->m) &&
                make_numbers(n_params, &state->v) && make_numbers(n_buffers, &state->buffers);
    if (made && keep_best) made = make_numbers(n_params, &state->best) && make_numbers(n_buffers, &state->best_buffers);
    if (made) return CIRCE_OK;
    train_state_free(state);
    return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the state of a run of %lld parameters", (long long)n_params);
}

void train_state_free(train_state *state) {
    free(state->history);
    free(state->params);
    free(state->m);
    free(state->v);
    free(state->buffers);
    free(state->best);
    free(state->best_buffers);
    free(state->regularizer);
    *state = (train_state){0};
}

static void pack(const train_standing *now, int64_t *counters, double *numbers) {
    const int64_t whole[N_COUNTERS] = {now->steps, now->epochs, now->batches, now->best_epoch, now->stopped_early};
    const double real[N_NUMBERS] = {
        now->best,         now->sums.loss,   now->sums.regularizer, now->sums.rate, now->sums.gamma,
        now->sums.seconds, now->loss,        now->regularizer,      now->seconds,   now->regularizer_seconds,
        now->sums.kernel,  now->sums.spread, now->sums.looked};
    memcpy(counters, whole, sizeof whole);
    memcpy(numbers, real, sizeof real);
}

static train_standing unpack(const int64_t *counters, const double *numbers) {
    return (train_standing){
        .steps = counters[0],
        .epochs = counters[1],
        .batches = counters[2],
        .best_epoch = counters[3],
        .stopped_early = counters[4],
        .best = numbers[0],
        .sums = {numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[10], numbers[11], numbers[12]},
        .loss = numbers[6],
        .regularizer = numbers[7],
        .seconds = numbers[8],
        .regularizer_seconds = numbers[9],
    };
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static circe_tensor tensor_of(const char *name, const char *dtype, size_t element, int64_t rows, int64_t cols,
                              const void *data) {
    circe_tensor tensor = {.name = name, .n_dims = cols > 0 ? 2 : 1, .shape = {rows, cols}, .data = data};
    snprintf(tensor.dtype, sizeof tensor.dtype, "%s", dtype);
    tensor.bytes = (size_t)(rows * (cols > 0 ? cols : 1)) * element;
    return tensor;
}

/* Returns how many there are. */
static int64_t list_tensors(const train_state *s, const int64_t *counters, const double *numbers,
                            circe_tensor *tensors) {
    int64_t n = s->n_params, kept = s->best != NULL ? n : 0, kept_buffers = s->best != NULL ? s->n_buffers : 0;
    tensors[0] = tensor_of("params", "F32", sizeof(float), n, 0, s->params);
    tensors[1] = tensor_of("m", "F32", sizeof(float), n, 0, s->m);
    tensors[2] = tensor_of("v", "F32", sizeof(float), n, 0, s->v);
    tensors[3] = tensor_of("best", "F32", sizeof(float), kept, 0, s->best);
    tensors[4] = tensor_of("history", "F64", sizeof(double), s->now.epochs, N_HISTORY, s->history);
    tensors[5] = tensor_of("counters", "I64", sizeof(int64_t), N_COUNTERS, 0, counters);
    tensors[6] = tensor_of("numbers", "F64", sizeof(double), N_NUMBERS, 0, numbers);
    tensors[7] = tensor_of("regularizer", "U8", 1, (int64_t)s->regularizer_bytes, 0, s->regularizer);
    if (s->n_buffers == 0) return 8;
    tensors[8] = tensor_of("buffers", "F32", sizeof(float), s->n_buffers, 0, s->buffers);
    tensors[9] = tensor_of("best_buffers", "F32", sizeof(float), kept_buffers, 0, s->best_buffers);
    return 10;
}

circe_status train_checkpoint_write(circe_context *context, const char *path, const train_identity *identity,
                                    const train_state *state) {
    circe_tensor tensors[MOST_TENSORS];
    circe_metadata metadata[N_OWN + TRAIN_MOST_IDENTITY];
    int64_t counters[N_COUNTERS], n = 0;
    double numbers[N_NUMBERS];
    char version[16];
    pack(&state->now, counters, numbers);
    int64_t n_tensors = list_tensors(state, counters, numbers, tensors);
    snprintf(version, sizeof version, "%d", TRAIN_CHECKPOINT_VERSION);
    metadata[n++] = (circe_metadata){"format", format_name};
    metadata[n++] = (circe_metadata){"version", version};
    metadata[n++] = (circe_metadata){"writer", circe_version()};
    for (int64_t i = 0; i < identity->n; i++) metadata[n++] = identity->pairs[i];
    circe_status status = circe_tensor_file_write(context, path, tensors, n_tensors, metadata, n);
    if (status == CIRCE_OK) return CIRCE_OK;
    return circe_fail(status, "the checkpoint was not written, and an earlier one is unchanged: %s",
                      circe_last_error());
}

/* ---- reading: is it a checkpoint, whole, and of this run -------------------------------------------------------- */

static const char *meta(const circe_tensor_file *file, const char *key) {
    const char *value = circe_tensor_file_metadata(file, key);
    return value != NULL ? value : "";
}

static circe_status check_format(const circe_tensor_file *file, const char *path) {
    const char *format = circe_tensor_file_metadata(file, "format"), *version = meta(file, "version");
    if (format == NULL || strcmp(format, format_name) != 0)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it is not a training checkpoint; only a checkpoint of an earlier run can be resumed",
                          path);
    for (int known = 1; known <= TRAIN_CHECKPOINT_VERSION; known++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%d", known);
        if (strcmp(version, expected) == 0) return CIRCE_OK;
    }
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: the checkpoint has format version '%.20s' and comes from circe %.20s; this is circe %s, "
                      "which reads versions up to %d",
                      path, version, meta(file, "writer"), circe_version(), TRAIN_CHECKPOINT_VERSION);
}

/* Opening verified it, if there is one; every version of the format has it. */
static circe_status check_sum(const circe_tensor_file *file, const char *path) {
    if (circe_tensor_file_metadata(file, "checksum") != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: the checkpoint is damaged: it has no checksum", path);
}

/* Where two texts part, and a little before. */
static int64_t parting(const char *a, const char *b) {
    enum { BEFORE = 24 };
    int64_t at = 0;
    while (a[at] != '\0' && a[at] == b[at]) at++;
    return at > BEFORE ? at - BEFORE : 0;
}

/* The value in the file, or the default if it has none. NULL: any value is accepted. */
static const char *said(const circe_tensor_file *file, const char *key) {
    static const circe_metadata younger[] = {{"validate_every", "1"}, {"steps", "0"}, {"data", NULL}};
    const char *value = circe_tensor_file_metadata(file, key);
    for (size_t k = 0; value == NULL && k < sizeof younger / sizeof *younger; k++)
        if (strcmp(younger[k].key, key) == 0) return younger[k].value;
    return value != NULL ? value : "";
}

static circe_status check_identity(const circe_tensor_file *file, const char *path, const train_identity *identity) {
    char differences[640] = "";
    size_t used = 0;
    for (int64_t i = 0; i < identity->n && used < sizeof differences; i++) {
        const char *there = said(file, identity->pairs[i].key), *here = identity->pairs[i].value;
        if (there == NULL || strcmp(there, here) == 0) continue;
        int64_t from = parting(there, here);
        const char *dots = from > 0 ? "..." : "";
        used += (size_t)snprintf(differences + used, sizeof differences - used,
                                 "%s%s is '%s%.80s' there and '%s%.80s' here", used > 0 ? "; " : "",
                                 identity->pairs[i].key, dots, there + from, dots, here + from);
    }
    if (used == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s: the checkpoint belongs to another run: %s", path, differences);
}

/* ---- reading: the tensors --------------------------------------------------------------------------------------- */

/* One tensor's data, copied; refuses another dtype or number of elements. */
static circe_status take(const circe_tensor_file *file, const char *path, const char *name, const char *dtype,
                         size_t bytes, void *to) {
    circe_tensor tensor;
    circe_status status = circe_tensor_file_find(file, name, &tensor);
    if (status != CIRCE_OK) return status;
    if (strcmp(tensor.dtype, dtype) != 0 || tensor.bytes != bytes)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: '%s' has %zu bytes of %s, but this run needs %zu of %s", path, name,
                          tensor.bytes, tensor.dtype, bytes, dtype);
    if (bytes > 0) memcpy(to, tensor.data, bytes);
    return CIRCE_OK;
}

/* A table with rows of `cols` numbers. Files of earlier versions have fewer columns; `missing` fills in the others. */
static circe_status take_rows(const circe_tensor_file *file, const char *path, const char *name, int64_t rows,
                              int64_t cols, double missing, double *to) {
    circe_tensor tensor;
    circe_status status = circe_tensor_file_find(file, name, &tensor);
    if (status != CIRCE_OK || rows == 0) return status;
    int64_t there = (int64_t)(tensor.bytes / sizeof *to) / rows;
    if (strcmp(tensor.dtype, "F64") != 0 || there > cols || tensor.bytes != (size_t)(rows * there) * sizeof *to ||
        there < N_FIRST)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: '%s' has %zu bytes of %s, but this run needs %zu of F64", path, name,
                          tensor.bytes, tensor.dtype, (size_t)(rows * cols) * sizeof *to);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++)
            to[i * cols + c] = c < there ? ((const double *)tensor.data)[i * there + c] : missing;
    return CIRCE_OK;
}

static circe_status take_standing(const circe_tensor_file *file, const char *path, train_state *s) {
    int64_t counters[N_COUNTERS];
    double numbers[N_NUMBERS] = {0};
    circe_status status = take(file, path, "counters", "I64", sizeof counters, counters);
    if (status == CIRCE_OK) status = take_rows(file, path, "numbers", 1, N_NUMBERS, 0.0, numbers);
    if (status != CIRCE_OK) return status;
    s->now = unpack(counters, numbers);
    if (s->now.epochs < 0 || s->now.epochs > s->epochs || s->now.steps < 0 || s->now.batches < 0 ||
        s->now.best_epoch < -1 || s->now.best_epoch >= s->epochs)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: its counters are inconsistent: %lld epochs of %lld, %lld steps", path,
                          (long long)s->now.epochs, (long long)s->epochs, (long long)s->now.steps);
    return take_rows(file, path, "history", s->now.epochs, N_HISTORY, NAN, (double *)s->history);
}

static circe_status take_regularizer(const circe_tensor_file *file, train_state *s) {
    circe_tensor tensor;
    circe_status status = circe_tensor_file_find(file, "regularizer", &tensor);
    if (status != CIRCE_OK) return status;
    void *block = malloc(tensor.bytes > 0 ? tensor.bytes : 1);
    if (block == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the regulariser's state");
    if (tensor.bytes > 0) memcpy(block, tensor.data, tensor.bytes);
    free(s->regularizer);
    s->regularizer = block;
    s->regularizer_bytes = tensor.bytes;
    return CIRCE_OK;
}

static circe_status take_buffers(const circe_tensor_file *file, const char *path, train_state *s) {
    size_t bytes = (size_t)s->n_buffers * sizeof(float);
    circe_status status = take(file, path, "buffers", "F32", bytes, s->buffers);
    if (status != CIRCE_OK) return status;
    return take(file, path, "best_buffers", "F32", s->best != NULL ? bytes : 0, s->best_buffers);
}

static circe_status take_all(const circe_tensor_file *file, const char *path, train_state *s) {
    size_t bytes = (size_t)s->n_params * sizeof(float);
    circe_status status = take_standing(file, path, s);
    if (status == CIRCE_OK) status = take(file, path, "params", "F32", bytes, s->params);
    if (status == CIRCE_OK) status = take(file, path, "m", "F32", bytes, s->m);
    if (status == CIRCE_OK) status = take(file, path, "v", "F32", bytes, s->v);
    if (status == CIRCE_OK) status = take(file, path, "best", "F32", s->best != NULL ? bytes : 0, s->best);
    if (status == CIRCE_OK && s->n_buffers > 0) status = take_buffers(file, path, s);
    return status == CIRCE_OK ? take_regularizer(file, s) : status;
}

circe_status train_checkpoint_read(circe_context *context, const char *path, const train_identity *identity,
                                   train_state *state) {
    circe_tensor_file *file = NULL;
    circe_status status = circe_tensor_file_open(context, path, &file);
    if (status != CIRCE_OK) return circe_fail(status, "the checkpoint cannot be resumed: %s", circe_last_error());
    status = check_format(file, path);
    if (status == CIRCE_OK) status = check_sum(file, path);
    if (status == CIRCE_OK) status = check_identity(file, path, identity);
    if (status == CIRCE_OK) status = take_all(file, path, state);
    circe_tensor_file_close(file);
    return status;
}
