/* The file of pictures: a .safetensors with `pixels` U8 (pictures, bytes of one) and, of faces, `names` I32 (pictures,
 * 4): identity, pose, azimuth, elevation. Its metadata and its name hold the mark: a hash of what it was made from, so
 * that other pictures, or another version of the renderer, make another file. */
#include "cli/experiment/experiment_pictures.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "circe/status.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/experiment/experiment_model.h"
#include "images/dsprites.h"
#include "io/paths.h"
#include "train/checkpoint_hash.h"

enum { USUAL_SIZE = 224, NAME_NUMBERS = 4 };

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text) { return train_hash_bytes(hash, text, strlen(text)); }

/* A file, as far as it can be told without reading it. */
static circe_status hash_file(const char *path, uint64_t *hash) {
    struct stat info;
    if (stat(path, &info) != 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, strerror(errno));
    *hash = train_hash_word(*hash, (uint64_t)info.st_size);
    *hash = train_hash_word(*hash, (uint64_t)info.st_mtim.tv_sec);
    *hash = train_hash_word(*hash, (uint64_t)info.st_mtim.tv_nsec);
    return CIRCE_OK;
}

static circe_status mark_sprites(const experiment_model *model, uint64_t *hash) { return hash_file(model->file, hash); }

static circe_status mark_faces(const experiment_model *model, uint64_t *hash) {
    *hash = train_hash_word(*hash, (uint64_t)model->size);
    *hash = train_hash_word(*hash, (uint64_t)model->identities);
    if (model->folder == NULL) {
        *hash = hash_text(*hash, circe_version());
        return CIRCE_OK;
    }
    yaleb_list list;
    circe_status status = yaleb_list_make(model->folder, &list);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < list.n && status == CIRCE_OK; i++) {
        char name[YALEB_NAME_BYTES];
        yaleb_format_name(&list.names[i], name);
        *hash = hash_text(*hash, name);
        status = hash_file(list.paths[i], hash);
    }
    yaleb_list_free(&list);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static circe_status write_file(circe_context *context, const char *path, const char *mark, const circe_tensor *tensors,
                               int64_t n) {
    const circe_metadata metadata[] = {{"format", "circe pictures"}, {"mark", mark}};
    return circe_tensor_file_write(context, path, tensors, n, metadata, 2);
}

static circe_tensor bytes_of(const uint8_t *data, int64_t pictures, int64_t bytes) {
    return (circe_tensor){.name = "pixels",
                          .dtype = "U8",
                          .n_dims = 2,
                          .shape = {pictures, bytes},
                          .data = data,
                          .bytes = (size_t)(pictures * bytes)};
}

static circe_status make_sprites(circe_context *context, const experiment_model *model, const char *path,
                                 const char *mark) {
    uint8_t *bits = NULL;
    circe_status status = dsprites_read(context, model->file, &bits);
    if (status != CIRCE_OK) return status;
    circe_tensor tensor = bytes_of(bits, DSPRITES_IMAGES, DSPRITES_BYTES);
    status = write_file(context, path, mark, &tensor, 1);
    free(bits);
    return status;
}

static circe_status read_or_render(const circe_context *context, const experiment_model *model, yaleb_store *store) {
    faces_options options;
    if (model->folder != NULL) return yaleb_read(context, model->folder, model->size, progress_step, NULL, store);
    faces_options_init(&options);
    options.identities = model->identities;
    options.height = model->size;
    return yaleb_render(context, &options, model->size, progress_step, NULL, store);
}

static circe_status write_faces(circe_context *context, const yaleb_store *store, const char *path, const char *mark) {
    int32_t *names = malloc((size_t)store->n * NAME_NUMBERS * sizeof *names);
    if (names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " names", store->n);
    for (int64_t i = 0; i < store->n; i++) {
        const yaleb_name *name = &store->names[i];
        const int numbers[NAME_NUMBERS] = {name->identity, name->pose, name->azimuth, name->elevation};
        for (int k = 0; k < NAME_NUMBERS; k++) names[NAME_NUMBERS * i + k] = numbers[k];
    }
    const circe_tensor tensors[] = {bytes_of(store->pixels, store->n, store->size * store->size),
                                    {.name = "names",
                                     .dtype = "I32",
                                     .n_dims = 2,
                                     .shape = {store->n, NAME_NUMBERS},
                                     .data = names,
                                     .bytes = (size_t)store->n * NAME_NUMBERS * sizeof *names}};
    circe_status status = write_file(context, path, mark, tensors, 2);
    free(names);
    return status;
}

static circe_status make_faces(circe_context *context, const experiment_model *model, const char *path,
                               const char *mark) {
    yaleb_store store;
    circe_status status = read_or_render(context, model, &store);
    if (status == CIRCE_OK) status = write_faces(context, &store, path, mark);
    if (status == CIRCE_OK) yaleb_store_free(&store);
    return status;
}

/* ---- before the runs --------------------------------------------------------------------------------------------- */

typedef struct picture_set {
    circe_status (*mark)(const experiment_model *model, uint64_t *hash);
    circe_status (*make)(circe_context *context, const experiment_model *model, const char *path, const char *mark);
    const char *doing;
} picture_set;

static const picture_set sprites_read = {mark_sprites, make_sprites, "reading dSprites"};
static const picture_set faces_read = {mark_faces, make_faces, "reading the photographs"};
static const picture_set faces_rendered = {mark_faces, make_faces, "rendering heads"};

/* NULL: its runs need no file. Fills in what the model leaves open. */
static const picture_set *set_of(experiment_model *model) {
    if (model->word == MODEL_DSPRITES) return model->file != NULL ? &sprites_read : NULL;
    if (model->word != MODEL_YALEB) return NULL;
    const char *folder = getenv("CIRCE_YALEB");
    if (model->folder == NULL && model->identities == 0 && folder != NULL && folder[0] != '\0') model->folder = folder;
    if (model->size == 0) model->size = USUAL_SIZE;
    if (model->folder == NULL && model->identities == 0) model->identities = FACES_IDENTITIES;
    return model->folder != NULL ? &faces_read : &faces_rendered;
}

static bool is_there(circe_context *context, const experiment_model *model) {
    circe_tensor_file *file = NULL;
    circe_tensor pixels;
    bool good = experiment_pictures_open(context, model, &file, &pixels) == CIRCE_OK;
    circe_tensor_file_close(file);
    return good;
}

static int prepare(circe_context *context, experiment_config *config, experiment_model *model, const char *folder,
                   bool quiet) {
    const picture_set *set = set_of(model);
    uint64_t hash = 0;
    if (set == NULL) return EXIT_DONE;
    circe_status status = set->mark(model, &hash);
    if (status != CIRCE_OK) return message_fail(EXIT_INPUT, "%s", circe_last_error());
    char *mark = small_format("%016" PRIx64, hash);
    char *data = small_format("%s/data", folder);
    char *path = small_format("%s/%s-%s.safetensors", data, experiment_model_name(model->word), mark);
    model->mark = arena_text(&config->owner, mark);
    model->pictures = arena_text(&config->owner, path);
    int result = message_refused(path_make_folder(data));
    if (result == EXIT_DONE && !is_there(context, model)) {
        if (!quiet) message_note("%s, once for all runs, into %s", set->doing, path);
        status = set->make(context, model, path, mark);
        progress_clear();
        if (status == CIRCE_ERR_CANCELLED)
            result = message_fail(EXIT_WORK, "stopped while %s; nothing was kept", set->doing);
        else if (status != CIRCE_OK)
            result = message_read(status, NULL, circe_last_error());
    }
    free(mark);
    free(data);
    free(path);
    return result;
}

int experiment_pictures_prepare(experiment_config *config, const char *folder, bool quiet) {
    circe_context *context = NULL;
    int status = EXIT_DONE;
    if (circe_context_create(NULL, &context) != CIRCE_OK) return message_refused(CIRCE_ERR_MEMORY);
    progress_start(!quiet);
    progress_catch_termination();
    for (int64_t i = 0; i < config->models.n && status == EXIT_DONE; i++)
        status = prepare(context, config, experiment_model_at(config, i), folder, quiet);
    circe_context_destroy(context);
    return status;
}

/* ---- in a run ---------------------------------------------------------------------------------------------------- */

circe_status experiment_pictures_open(circe_context *context, const experiment_model *model, circe_tensor_file **file,
                                      circe_tensor *pixels) {
    circe_status status = circe_tensor_file_open(context, model->pictures, file);
    if (status != CIRCE_OK) return status;
    const char *mark = circe_tensor_file_metadata(*file, "mark");
    status = circe_tensor_file_find(*file, "pixels", pixels);
    bool good = status == CIRCE_OK && mark != NULL && strcmp(mark, model->mark) == 0 &&
                strcmp(pixels->dtype, "U8") == 0 && pixels->n_dims == 2;
    if (good) return CIRCE_OK;
    circe_tensor_file_close(*file);
    *file = NULL;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it does not hold the pictures that this run was planned with",
                      model->pictures);
}

static circe_status copy_names(const circe_tensor *tensor, yaleb_store *store) {
    store->names = calloc((size_t)store->n + 1, sizeof *store->names);
    if (store->names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " names", store->n);
    for (int64_t i = 0; i < store->n; i++) {
        int32_t numbers[NAME_NUMBERS];
        memcpy(numbers, (const char *)tensor->data + (size_t)i * sizeof numbers, sizeof numbers);
        store->names[i] = (yaleb_name){numbers[0], numbers[1], numbers[2], numbers[3]};
    }
    return CIRCE_OK;
}

circe_status experiment_pictures_faces(circe_context *context, const experiment_model *model, circe_tensor_file **file,
                                       yaleb_store *store) {
    circe_tensor pixels, names;
    *store = (yaleb_store){0};
    circe_status status = experiment_pictures_open(context, model, file, &pixels);
    if (status == CIRCE_OK) status = circe_tensor_file_find(*file, "names", &names);
    if (status != CIRCE_OK) return status;
    if (pixels.shape[1] != model->size * model->size || strcmp(names.dtype, "I32") != 0 || names.n_dims != 2 ||
        names.shape[0] != pixels.shape[0] || names.shape[1] != NAME_NUMBERS)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: pixels and names do not belong together", model->pictures);
    store->n = pixels.shape[0];
    store->size = model->size;
    store->pixels = (uint8_t *)(uintptr_t)pixels.data; /* read only */
    return copy_names(&names, store);
}
