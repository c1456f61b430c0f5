/* Pictures that all runs of an experiment share, as a file: a .safetensors with `pixels` U8 (pictures, bytes of one)
 * and, of faces, `names` I32 (pictures, 4): identity, pose, azimuth, elevation. Its metadata and its name hold the
 * mark: a hash of what it was made from, so that other pictures, or another version of the renderer, make another file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/owned.h"
#include "core/hash.h"
#include "images/dsprites.h"
#include "images/yaleb.h"
#include "io/paths.h"
#include "jobs/notes.h"
#include "paper/paper_parts.h"

enum { USUAL_SIZE = 224, NAME_NUMBERS = 4 };

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text) { return circe__hash_bytes(hash, text, strlen(text)); }

/* A file, as far as it can be told without reading it. */
static circe_status hash_file(const char *path, uint64_t *hash) {
    struct stat info;
    if (stat(path, &info) != 0) return circe_fail(CIRCE_ERR_IO, "%s: %s", path, strerror(errno));
    *hash = circe__hash_word(*hash, (uint64_t)info.st_size);
    *hash = circe__hash_word(*hash, (uint64_t)info.st_mtim.tv_sec);
    *hash = circe__hash_word(*hash, (uint64_t)info.st_mtim.tv_nsec);
    return CIRCE_OK;
}

/* What the pictures are made from. */
static circe_status mark(const paper_model *model, uint64_t *hash) {
    if (model->word == MODEL_DSPRITES) return hash_file(model->file, hash);
    *hash = circe__hash_word(*hash, (uint64_t)model->size);
    *hash = circe__hash_word(*hash, (uint64_t)model->identities);
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

static circe_status write_file(circe_context *context, const paper_model *model, const circe_tensor *tensors,
                               int64_t n) {
    const circe_metadata metadata[] = {{"format", "circe pictures"}, {"mark", model->mark}};
    return circe_tensor_file_write(context, model->pictures, tensors, n, metadata, 2);
}

static circe_tensor bytes_of(const uint8_t *data, int64_t pictures, int64_t bytes) {
    return (circe_tensor){.name = "pixels",
                          .dtype = "U8",
                          .n_dims = 2,
                          .shape = {pictures, bytes},
                          .data = data,
                          .bytes = (size_t)(pictures * bytes)};
}

static circe_status make_sprites(circe_context *context, const paper_model *model) {
    OWNED uint8_t *bits = NULL;
    circe_status status = dsprites_read(context, model->file, &bits);
    if (status != CIRCE_OK) return status;
    circe_tensor tensor = bytes_of(bits, DSPRITES_IMAGES, DSPRITES_BYTES);
    return write_file(context, model, &tensor, 1);
}

static circe_status read_or_render(const circe_context *context, const circe_watch *watch, const paper_model *model,
                                   yaleb_store *store) {
    faces_options options;
    void *user = (void *)(uintptr_t)watch;
    if (model->folder != NULL) return yaleb_read(context, model->folder, model->size, job_step, user, store);
    faces_options_init(&options);
    options.identities = model->identities;
    options.height = model->size;
    return yaleb_render(context, &options, model->size, job_step, user, store);
}

_Static_assert(sizeof(yaleb_name) == NAME_NUMBERS * sizeof(int32_t), "names are written as they are");

static circe_status write_faces(circe_context *context, const paper_model *model, const yaleb_store *store) {
    const circe_tensor tensors[] = {bytes_of(store->pixels, store->n, store->size * store->size),
                                    {.name = "names",
                                     .dtype = "I32",
                                     .n_dims = 2,
                                     .shape = {store->n, NAME_NUMBERS},
                                     .data = store->names,
                                     .bytes = (size_t)store->n * sizeof *store->names}};
    return write_file(context, model, tensors, 2);
}

static circe_status make_faces(circe_context *context, const circe_watch *watch, const paper_model *model) {
    yaleb_store store;
    circe_status status = read_or_render(context, watch, model, &store);
    if (status == CIRCE_OK) status = write_faces(context, model, &store);
    if (status == CIRCE_OK) yaleb_store_free(&store);
    return status;
}

/* ---- before the runs --------------------------------------------------------------------------------------------- */

/* Whether its runs need a file. Fills in what the model leaves open. */
static bool needs_file(paper_model *model) {
    const char *folder = getenv("CIRCE_YALEB");
    if (model->word != MODEL_YALEB) return model->word == MODEL_DSPRITES && model->file != NULL;
    if (model->folder == NULL && model->identities == 0 && folder != NULL && folder[0] != '\0') model->folder = folder;
    if (model->size == 0) model->size = USUAL_SIZE;
    if (model->folder == NULL && model->identities == 0) model->identities = FACES_IDENTITIES;
    return true;
}

static bool is_there(const paper_model *model) {
    paper_album *album = NULL;
    circe_tensor pixels;
    bool good = paper_pictures_open(model, &album, &pixels) == CIRCE_OK;
    paper_album_close(album);
    return good;
}

static circe_status make(circe_context *context, const paper *p, const paper_model *model) {
    bool sprites = model->word == MODEL_DSPRITES;
    const char *doing = sprites                 ? "reading dSprites"
                        : model->folder != NULL ? "reading the photographs"
                                                : "rendering heads";
    job_note(p->watch, "%s, once for all runs, into %s", doing, model->pictures);
    circe_status status = sprites ? make_sprites(context, model) : make_faces(context, p->watch, model);
    return status != CIRCE_ERR_CANCELLED ? status : circe_fail(status, "stopped while %s; nothing was kept", doing);
}

static circe_status prepare(circe_context *context, paper *p, paper_model *model) {
    arena *owner = &p->config.owner;
    uint64_t hash = 0;
    if (!needs_file(model)) return CIRCE_OK;
    circe_status status = mark(model, &hash);
    const char *data = arena_format(owner, "%s/data", p->folder);
    model->mark = arena_format(owner, "%016" PRIx64, hash);
    model->pictures = arena_format(owner, "%s/%s-%s.safetensors", data, paper_model_name(model->word), model->mark);
    if (status == CIRCE_OK) status = path_make_folder(data);
    if (status == CIRCE_OK && !is_there(model)) status = make(context, p, model);
    return status;
}

circe_status paper_pictures_prepare(paper *p) {
    circe_context *context = NULL;
    circe_status status = circe_context_create(NULL, &context);
    for (int64_t i = 0; i < p->config.models.n && status == CIRCE_OK; i++)
        status = prepare(context, p, paper_model_at(&p->config, i));
    circe_context_destroy(context);
    return status;
}

/* ---- in a run ---------------------------------------------------------------------------------------------------- */

circe_status paper_pictures_open(const paper_model *model, paper_album **album, circe_tensor *pixels) {
    circe_status status = paper_album_open(model->pictures, album);
    if (status != CIRCE_OK) return status;
    const circe_tensor_file *file = paper_album_file(*album);
    const char *mark = circe_tensor_file_metadata(file, "mark");
    status = circe_tensor_file_find(file, "pixels", pixels);
    bool good = status == CIRCE_OK && mark != NULL && strcmp(mark, model->mark) == 0 &&
                strcmp(pixels->dtype, "U8") == 0 && pixels->n_dims == 2;
    if (good) return CIRCE_OK;
    paper_album_close(*album);
    *album = NULL;
    return circe_fail(CIRCE_ERR_FORMAT, "%s: it does not contain the pictures of this run", model->pictures);
}

circe_status paper_pictures_faces(const paper_model *model, paper_album **album, yaleb_store *store) {
    circe_tensor pixels, names;
    *store = (yaleb_store){0};
    circe_status status = paper_pictures_open(model, album, &pixels);
    if (status == CIRCE_OK) status = circe_tensor_file_find(paper_album_file(*album), "names", &names);
    if (status != CIRCE_OK) return status;
    if (pixels.shape[1] != model->size * model->size || strcmp(names.dtype, "I32") != 0 || names.n_dims != 2 ||
        names.shape[0] != pixels.shape[0] || names.shape[1] != NAME_NUMBERS)
        return circe_fail(CIRCE_ERR_FORMAT, "%s: pixels and names do not match", model->pictures);
    store->n = pixels.shape[0];
    store->size = model->size;
    store->pixels = (uint8_t *)(uintptr_t)pixels.data; /* read only */
    store->names = calloc((size_t)store->n + 1, sizeof *store->names);
    if (store->names == NULL) return circe_fail(CIRCE_ERR_MEMORY, "no memory for %" PRId64 " names", store->n);
    memcpy(store->names, names.data, (size_t)store->n * sizeof *store->names);
    return CIRCE_OK;
}
