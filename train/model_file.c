/* Predictors as .safetensors: the tensors as a Sequential of PyTorch names them ("0.weight", "0.bias", "2.weight",
 * ...), so that load_state_dict takes the file as it is, and everything else as text in the metadata:
 *
 *     format, format_version    circe.predictor, 3 of tables, 4 of images; 1 and 2 before there was a checksum
 *     circe_version             of the program that wrote it
 *     architecture              {"net": "9x64", "activation": "relu", "loss": "mse", "inputs": 3, "outputs": 1}
 *     columns                   {"features": [names], "target": [names], "classes": [names]}   classes may be absent
 *     statistics                {"features": {"mean": [...], "deviation": [...]}, "target": {...}}   target: MSE only
 *     settings                  the run's, as JSON
 *
 * Predictors of images have "image": [channels, lines, columns] and "pixels": {"scale": 2, "offset": -1} instead of the
 * inputs, and neither names nor statistics of features. The running statistics of batch norm are among the tensors,
 * also under PyTorch's names.
 *
 * Numbers have 17 significant digits, so they are read back to the bit. Nothing in a file is used before it has been
 * checked against the rest. A network is created only if the file is long enough to fill it. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "train/model_parts.h"

#define FORMAT_NAME "circe.predictor"
#define FORMAT_VERSION 4 /* the newest that is read */
#define FIRST_WITH_CHECKSUM 3
#define MEAN_FORMAT_NAME "circe.conditional_mean" /* of circe fit */

enum { SMALL_NETWORK = 1 << 20, MOST_COLUMNS = 1 << 24 };

typedef struct named {
    const char *name;
    int value;
} named;

static const named activations[] = {
    {"relu", TRAIN_RELU}, {"leaky_relu", TRAIN_LEAKY_RELU}, {"tanh", TRAIN_TANH}, {NULL, 0}};
static const named losses[] = {{"mse", TRAIN_MSE}, {"cross_entropy", TRAIN_CROSS_ENTROPY}, {NULL, 0}};

static const char *name_of(const named *table, int value) {
    while (table->name != NULL && table->value != value) table++;
    return table->name;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* The object or, without a key, the list with one item more, which it takes over. NULL: there was no memory for it, or
 * for what came before. */
static cJSON *with(cJSON *object, const char *key, cJSON *item) {
    bool added = object != NULL && item != NULL &&
                 (key != NULL ? cJSON_AddItemToObject(object, key, item) : cJSON_AddItemToArray(object, item));
    if (added) return object;
    cJSON_Delete(item);
    cJSON_Delete(object);
    return NULL;
}

static cJSON *with_text(cJSON *object, const char *key, const char *text) {
    return with(object, key, cJSON_CreateString(text));
}

static cJSON *with_count(cJSON *object, const char *key, int64_t count) {
    return with(object, key, cJSON_CreateNumber((double)count));
}

/* As raw text, because cJSON prints 15 digits if the result is nearly the same. */
static cJSON *with_number(cJSON *object, const char *key, double number) {
    char text[32];
    snprintf(text, sizeof text, "%.17g", number);
    return with(object, key, cJSON_CreateRaw(text));
}

static cJSON *list_of_texts(char *const *texts, int64_t n) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < n; i++) list = with_text(list, NULL, texts[i]);
    return list;
}

static cJSON *list_of_numbers(const double *numbers, int64_t n) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < n; i++) list = with_number(list, NULL, numbers[i]);
    return list;
}

static cJSON *scale_object(const train_scaler *scale) {
    cJSON *o = with(cJSON_CreateObject(), "mean", list_of_numbers(scale->mean, scale->cols));
    return with(o, "deviation", list_of_numbers(scale->deviation, scale->cols));
}

/* Prints and deletes. */
static char *printed(cJSON *object) {
    char *text = object != NULL ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    return text;
}

/* What goes into the network. */
static cJSON *with_inputs(cJSON *o, const train_model *model) {
    if (!train_model_has_images(model)) return with_count(o, "inputs", model->n_features);
    const double shape[] = {(double)model->image.size[0], (double)model->image.size[1], (double)model->image.size[2]};
    cJSON *pixels = with_number(cJSON_CreateObject(), "scale", model->pixel_scale);
    return with(with(o, "image", list_of_numbers(shape, 3)), "pixels",
                with_number(pixels, "offset", model->pixel_offset));
}

static char *architecture_text(const train_model *model) {
    cJSON *o = with_text(cJSON_CreateObject(), "net", model->net);
    o = with_text(o, "activation", name_of(activations, (int)model->activation));
    o = with_inputs(with_text(o, "loss", name_of(losses, (int)model->loss)), model);
    return printed(with_count(o, "outputs", model->outputs));
}

static char *columns_text(const train_model *model) {
    cJSON *o = cJSON_CreateObject();
    if (!train_model_has_images(model)) o = with(o, "features", list_of_texts(model->features, model->n_features));
    o = with(o, "target", list_of_texts(model->target, model->n_target));
    if (model->classes != NULL) o = with(o, "classes", list_of_texts(model->classes, model->outputs));
    return printed(o);
}

static char *statistics_text(const train_model *model) {
    cJSON *o = cJSON_CreateObject();
    if (!train_model_has_images(model)) o = with(o, "features", scale_object(&model->feature_scale));
    if (model->loss == TRAIN_MSE) o = with(o, "target", scale_object(&model->target_scale));
    return printed(o);
}

static circe_status write_file(circe_context *context, const train_model *model, const train_network *network,
                               const char *path) {
    char version[16], *architecture = architecture_text(model), *columns = columns_text(model),
                      *statistics = statistics_text(model);
    int64_t n_params = train_network_n_tensors(network), n = n_params + train_network_n_buffer_tensors(network);
    OWNED circe_tensor *tensors = calloc((size_t)n + 1, sizeof *tensors);
    circe_status status = CIRCE_OK;
    snprintf(version, sizeof version, "%d", train_model_has_images(model) ? 4 : 3);
    if (architecture == NULL || columns == NULL || statistics == NULL || tensors == NULL)
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot write %s", path);
    if (status == CIRCE_OK) status = train_network_tensors(network, model->params, tensors);
    if (status == CIRCE_OK && n > n_params)
        status = train_network_buffer_tensors(network, model->buffers, tensors + n_params);
    if (status == CIRCE_OK) {
        const circe_metadata metadata[] = {{"format", FORMAT_NAME},
                                           {"format_version", version},
                                           {"circe_version", circe_version()},
                                           {"architecture", architecture},
                                           {"columns", columns},
                                           {"statistics", statistics},
                                           {"settings", model->settings == NULL ? "{}" : model->settings}};
        status =
            circe_tensor_file_write(context, path, tensors, n, metadata, (int64_t)(sizeof metadata / sizeof *metadata));
    }
    cJSON_free(architecture);
    cJSON_free(columns);
    cJSON_free(statistics);
    return status;
}

static circe_status check_settings(const char *settings) {
    cJSON *parsed = settings == NULL ? cJSON_CreateObject() : cJSON_Parse(settings);
    bool good = cJSON_IsObject(parsed);
    cJSON_Delete(parsed);
    return good ? CIRCE_OK : circe_fail(CIRCE_ERR_ARGUMENT, "the settings are not a JSON object");
}

circe_status train_model_save(circe_context *context, const train_model *model, const char *path) {
    train_device *device = NULL;
    train_network *network = NULL;
    circe_status status = train_model_check(model);
    if (status == CIRCE_OK) status = check_settings(model->settings);
    if (status == CIRCE_OK) status = train_device_cpu(context, &device);
    if (status == CIRCE_OK) status = train_model_skeleton(device, model, 1, &network);
    if (status == CIRCE_OK) status = write_file(context, model, network, path);
    train_network_destroy(network);
    train_device_destroy(device);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    long version;
    circe_tensor_file *file;
    cJSON *architecture, *columns, *statistics;
} reader;

__attribute__((format(printf, 2, 3))) static circe_status damaged(const reader *r, const char *format, ...) {
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: not a usable predictor: %s", r->path, what);
}

/* The same from the text that is set. */
static circe_status damaged_by(const reader *r, circe_status status) {
    return status == CIRCE_OK || status == CIRCE_ERR_MEMORY ? status : damaged(r, "%s", circe_last_error());
}

static circe_status check_version(reader *r) {
    const char *version = circe_tensor_file_metadata(r->file, "format_version");
    if (version == NULL) return damaged(r, "it does not name a version of the format");
    char *end;
    long number = strtol(version, &end, 10);
    if (*version < '0' || *version > '9' || *end != '\0' || number < 1)
        return damaged(r, "'%.63s' is not a version of the format", version);
    r->version = number;
    if (number >= FIRST_WITH_CHECKSUM && number <= FORMAT_VERSION &&
        circe_tensor_file_metadata(r->file, "checksum") == NULL)
        return damaged(r, "its checksum is missing");
    if (number <= FORMAT_VERSION) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_FORMAT,
                      "%s: its format has version %.63s, but this program reads versions up to %d: use a newer circe, "
                      "or train it again",
                      r->path, version, FORMAT_VERSION);
}

static circe_status check_format(reader *r) {
    const char *format = circe_tensor_file_metadata(r->file, "format");
    if (format == NULL) return damaged(r, "its metadata do not describe a predictor (circe train writes predictors)");
    if (strcmp(format, FORMAT_NAME) == 0) return check_version(r);
    if (strcmp(format, MEAN_FORMAT_NAME) == 0)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it is a conditional mean from circe fit, for circe measure --model; a predictor from "
                          "circe train is needed here",
                          r->path);
    return circe_fail(CIRCE_ERR_FORMAT, "%s: its format is '%.63s'; a predictor from circe train is needed here",
                      r->path, format);
}

static circe_status parse(const reader *r, const char *key, cJSON **object) {
    const char *text = circe_tensor_file_metadata(r->file, key);
    *object = text == NULL ? NULL : cJSON_ParseWithOpts(text, NULL, 1);
    if (cJSON_IsObject(*object)) return CIRCE_OK;
    return damaged(r, "its metadata '%s' %s", key, text == NULL ? "are missing" : "are not a JSON object");
}

static circe_status wrong(const reader *r, const char *key, const char *expected) {
    return damaged(r, "'%s' is not %s", key, expected);
}

static circe_status read_text(const reader *r, const cJSON *object, const char *key, const char **text) {
    *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return *text != NULL && **text != '\0' ? CIRCE_OK : wrong(r, key, "a text");
}

static circe_status read_named(const reader *r, const cJSON *object, const char *key, const named *table, int *value) {
    const char *text = NULL;
    circe_status status = read_text(r, object, key, &text);
    if (status != CIRCE_OK) return status;
    for (; table->name != NULL; table++)
        if (strcmp(table->name, text) == 0) {
            *value = table->value;
            return CIRCE_OK;
        }
    return damaged(r, "its %s '%.63s' is not known", key, text);
}

static circe_status read_count(const reader *r, const cJSON *object, const char *key, int64_t *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1.0 && item->valuedouble <= MOST_COLUMNS) ||
        item->valuedouble != floor(item->valuedouble))
        return wrong(r, key, "a whole number from 1 to 2^24");
    *value = (int64_t)item->valuedouble;
    return CIRCE_OK;
}

/* names (n), owned; *n is what the list holds. */
static circe_status read_names(const reader *r, const cJSON *object, const char *key, char ***names, int64_t *n) {
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsArray(list) || list->child == NULL) return wrong(r, key, "a list of names");
    int64_t count = 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsString(item)) return wrong(r, key, "a list of names");
        count++;
    }
    *names = calloc((size_t)count, sizeof **names);
    if (*names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its %s", r->path, key);
    *n = count;
    count = 0;
    cJSON_ArrayForEach(item, list) {
        (*names)[count] = strdup(item->valuestring);
        if ((*names)[count++] == NULL)
            return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its %s", r->path, key);
    }
    return CIRCE_OK;
}

/* numbers (n), owned. */
static circe_status read_numbers(const reader *r, const cJSON *object, const char *key, int64_t n, double **numbers) {
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(object, key);
    int64_t count = 0;
    if (!cJSON_IsArray(list)) return wrong(r, key, "a list of numbers");
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item)) return wrong(r, key, "a list of numbers");
        count++;
    }
    if (count != n) return damaged(r, "'%s' has %lld numbers for %lld columns", key, (long long)count, (long long)n);
    *numbers = malloc((size_t)n * sizeof **numbers);
    if (*numbers == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its statistics", r->path);
    count = 0;
    cJSON_ArrayForEach(item, list)(*numbers)[count++] = item->valuedouble;
    return CIRCE_OK;
}

static circe_status read_scale(const reader *r, const char *key, int64_t cols, train_scaler *scale) {
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(r->statistics, key);
    if (!cJSON_IsObject(object)) return wrong(r, key, "an object with mean and deviation");
    scale->cols = cols;
    circe_status status = read_numbers(r, object, "mean", cols, &scale->mean);
    return status == CIRCE_OK ? read_numbers(r, object, "deviation", cols, &scale->deviation) : status;
}

static circe_status read_finite(const reader *r, const cJSON *object, const char *key, double *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return wrong(r, key, "a finite number");
    *value = item->valuedouble;
    return CIRCE_OK;
}

static circe_status read_image(const reader *r, train_model *model) {
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(r->architecture, "image");
    const cJSON *pixels = cJSON_GetObjectItemCaseSensitive(r->architecture, "pixels");
    int d = 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 3) return wrong(r, "image", "a list of three sizes");
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1.0 && item->valuedouble <= MOST_COLUMNS) ||
            item->valuedouble != floor(item->valuedouble))
            return wrong(r, "image", "a list of three sizes, whole numbers from 1 to 2^24");
        model->image.size[d++] = (int64_t)item->valuedouble;
    }
    model->image.n_dims = 3;
    if (!cJSON_IsObject(pixels)) return wrong(r, "pixels", "an object with scale and offset");
    circe_status status = read_finite(r, pixels, "scale", &model->pixel_scale);
    return status == CIRCE_OK ? read_finite(r, pixels, "offset", &model->pixel_offset) : status;
}

static circe_status read_architecture(const reader *r, train_model *model, int64_t *inputs) {
    const char *net = NULL;
    int activation = 0, loss = 0;
    int64_t outputs = 0;
    circe_status status = read_text(r, r->architecture, "net", &net);
    if (status == CIRCE_OK) status = read_named(r, r->architecture, "activation", activations, &activation);
    if (status == CIRCE_OK) status = read_named(r, r->architecture, "loss", losses, &loss);
    if (status == CIRCE_OK)
        status = r->version % 2 == 1 ? read_count(r, r->architecture, "inputs", inputs) : read_image(r, model);
    if (status == CIRCE_OK) status = read_count(r, r->architecture, "outputs", &outputs);
    if (status != CIRCE_OK) return status;
    model->activation = (train_layer_kind)activation;
    model->loss = (train_loss_kind)loss;
    model->outputs = outputs;
    model->net = strdup(net);
    return model->net != NULL ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its net", r->path);
}

static circe_status read_columns(const reader *r, train_model *model, int64_t inputs) {
    circe_status status = CIRCE_OK;
    if (!train_model_has_images(model))
        status = read_names(r, r->columns, "features", &model->features, &model->n_features);
    if (status == CIRCE_OK) status = read_names(r, r->columns, "target", &model->target, &model->n_target);
    if (status != CIRCE_OK) return status;
    if (model->n_features != inputs)
        return damaged(r, "it names %lld features for %lld inputs", (long long)model->n_features, (long long)inputs);
    const cJSON *classes = cJSON_GetObjectItemCaseSensitive(r->columns, "classes");
    if (classes == NULL) return CIRCE_OK;
    /* Before they are kept: outputs is the count they are freed by. */
    if (cJSON_GetArraySize(classes) != model->outputs)
        return damaged(r, "it names %d classes for %lld outputs", cJSON_GetArraySize(classes),
                       (long long)model->outputs);
    int64_t n = 0;
    return read_names(r, r->columns, "classes", &model->classes, &n);
}

static circe_status read_settings(const reader *r, train_model *model) {
    cJSON *parsed = NULL;
    circe_status status = parse(r, "settings", &parsed);
    cJSON_Delete(parsed);
    if (status != CIRCE_OK) return status;
    model->settings = strdup(circe_tensor_file_metadata(r->file, "settings"));
    return model->settings != NULL ? CIRCE_OK
                                   : circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its settings", r->path);
}

static circe_status read_description(reader *r, train_model *model) {
    int64_t inputs = 0;
    circe_status status = parse(r, "architecture", &r->architecture);
    if (status == CIRCE_OK) status = parse(r, "columns", &r->columns);
    if (status == CIRCE_OK) status = parse(r, "statistics", &r->statistics);
    if (status == CIRCE_OK) status = read_architecture(r, model, &inputs);
    if (status == CIRCE_OK) status = read_columns(r, model, inputs);
    if (status == CIRCE_OK && !train_model_has_images(model))
        status = read_scale(r, "features", model->n_features, &model->feature_scale);
    if (status == CIRCE_OK && model->loss == TRAIN_MSE)
        status = read_scale(r, "target", model->n_target, &model->target_scale);
    if (status == CIRCE_OK) status = read_settings(r, model);
    return status == CIRCE_OK ? damaged_by(r, train_model_check_parts(model)) : status;
}

/* A network that is too large for the file is not even created. A small one is, so that the error can name the tensors
 * that are wrong. */
static circe_status check_size(const reader *r, const train_model *model) {
    int64_t expected = 0, buffers = 0, held = 0;
    circe_tensor t;
    circe_status status = train_model_count(model, &expected, &buffers);
    if (status != CIRCE_OK) return damaged_by(r, status);
    expected += buffers;
    for (int64_t i = 0; i < circe_tensor_file_count(r->file); i++)
        if (circe_tensor_file_get(r->file, i, &t) == CIRCE_OK) held += (int64_t)(t.bytes / sizeof(float));
    if (expected <= held || expected <= SMALL_NETWORK) return CIRCE_OK;
    return damaged(r, "its network has %lld parameters, but the file contains %lld numbers", (long long)expected,
                   (long long)held);
}

/* numbers (n), owned. */
static circe_status make_numbers(const reader *r, int64_t n, float **numbers) {
    *numbers = malloc((size_t)(n > 0 ? n : 1) * sizeof **numbers);
    if (*numbers != NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for its %lld parameters", r->path, (long long)n);
}

static circe_status check_finite(const reader *r, const float *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite((double)numbers[i])) return damaged(r, "its parameters contain NaN or infinity");
    return CIRCE_OK;
}

static circe_status read_buffers(const reader *r, const train_network *network, train_model *model) {
    int64_t n = train_network_n_buffers(network);
    if (n == 0) return CIRCE_OK;
    circe_status status = make_numbers(r, n, &model->buffers);
    if (status != CIRCE_OK) return status;
    model->n_buffers = n;
    status = damaged_by(r, train_network_read_buffers(network, r->file, model->buffers));
    return status == CIRCE_OK ? check_finite(r, model->buffers, n) : status;
}

static circe_status read_params(const reader *r, const train_network *network, train_model *model) {
    int64_t n = train_network_n_params(network);
    circe_status status = make_numbers(r, n, &model->params);
    if (status != CIRCE_OK) return status;
    model->n_params = n;
    status = damaged_by(r, train_network_read_tensors(network, r->file, model->params));
    if (status == CIRCE_OK) status = check_finite(r, model->params, n);
    if (status == CIRCE_OK) status = read_buffers(r, network, model);
    if (status != CIRCE_OK) return status;
    if (circe_tensor_file_count(r->file) == train_network_n_tensors(network) + train_network_n_buffer_tensors(network))
        return CIRCE_OK;
    return damaged(r, "it contains tensors that its network does not use");
}

circe_status train_model_load(circe_context *context, const char *path, train_model *model) {
    train_device *device = NULL;
    train_network *network = NULL;
    reader r = {.path = path};
    *model = (train_model){0};
    circe_status status = circe_tensor_file_open(context, path, &r.file);
    if (status == CIRCE_OK) status = check_format(&r);
    model->has_checksum = status == CIRCE_OK && circe_tensor_file_metadata(r.file, "checksum") != NULL;
    if (status == CIRCE_OK) status = read_description(&r, model);
    if (status == CIRCE_OK) status = check_size(&r, model);
    if (status == CIRCE_OK) status = train_device_cpu(context, &device);
    if (status == CIRCE_OK) status = train_model_skeleton(device, model, 1, &network);
    if (status == CIRCE_OK) status = read_params(&r, network, model);
    train_network_destroy(network);
    train_device_destroy(device);
    circe_tensor_file_close(r.file);
    cJSON_Delete(r.architecture);
    cJSON_Delete(r.columns);
    cJSON_Delete(r.statistics);
    if (status != CIRCE_OK) train_model_free(model);
    return status;
}
