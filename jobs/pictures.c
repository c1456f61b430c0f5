/* From --images to pictures in memory. */
#include "jobs/pictures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/small.h"
#include "io/json_values.h"
#include "io/paths.h"
#include "jobs/notes.h"

enum { LARGEST_SIDE = 4096 };

/* ---- the request ------------------------------------------------------------------------------------------------- */

/* What training and prediction have in common (options/pictures.def). */
typedef struct asked {
    const char *images, *path_column, *array, *labels;
} asked;

#define ASKED_OF(options) ((asked){(options)->images, (options)->path_column, (options)->array, (options)->labels})

static circe_status refuse_format(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        circe_fail(CIRCE_ERR_ARGUMENT, "--images %s is a folder", path);
    else
        circe_fail(CIRCE_ERR_ARGUMENT,
                   "--images %s: a .csv or .tsv with a column of paths, an .npz or an .npy is expected", path);
    return circe_fail_hint(
        CIRCE_ERR_ARGUMENT,
        "a .csv has one row per picture: its path, and in other columns what is known about it, as in file,age,light");
}

/* An option that is for the other kind of file. */
static circe_status check_options(const asked *a, const pictures_request *r) {
    if (r->by_path && a->array != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--array names an array of an .npz, but --images %s is a .csv of paths",
                          r->path);
    if (r->by_path && a->labels != NULL)
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "--labels goes with an array of images; with a .csv of paths, the other columns are the labels");
    if (!r->by_path && a->path_column != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--path-column names a column of a .csv of paths, but --images %s is not one", r->path);
    return CIRCE_OK;
}

static const char *kept_text(const cJSON *kept, const char *key, const char *otherwise) {
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(kept, key);
    return cJSON_IsString(text) ? text->valuestring : otherwise;
}

static int64_t kept_number(const cJSON *kept, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(kept, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= LARGEST_SIDE
               ? (int64_t)item->valuedouble
               : 0;
}

/* Which file it is, what in it are the images, and where the labels are; `kept`: what a model remembers. */
static circe_status begin(asked a, const cJSON *kept, pictures_request *r) {
    bool npz = path_ends_with(a.images, ".npz");
    *r = (pictures_request){.path = a.images, .labels = a.labels};
    r->column = small_format("%s", a.path_column != NULL ? a.path_column : kept_text(kept, "path_column", "file"));
    r->array = small_format("%s", a.array != NULL ? a.array : kept_text(kept, "array", "imgs"));
    r->by_path = path_ends_with(r->path, ".csv") || path_ends_with(r->path, ".tsv");
    if (!r->by_path && !npz && !path_ends_with(r->path, ".npy")) return refuse_format(r->path);
    if (r->labels == NULL && (r->by_path || npz)) r->labels = r->path;
    return check_options(&a, r);
}

static bool parse_side(const char **at, int64_t *side) {
    char *end = NULL;
    if (**at < '0' || **at > '9') return false;
    *side = strtoll(*at, &end, 10);
    *at = end;
    return *side >= 1 && *side <= LARGEST_SIDE;
}

static circe_status parse_size(const char *text, image_stack_options *options) {
    const char *at = text;
    bool sound = parse_side(&at, &options->width);
    options->height = options->width;
    if (sound && *at == 'x') {
        at++;
        sound = parse_side(&at, &options->height);
    }
    if (sound && *at == '\0') return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "--image-size must be a number of pixels, 224, or width by height, 96x64, of at most %d; '%s' "
                      "was given",
                      LARGEST_SIDE, text);
}

circe_status pictures_for_training(const circe_train_options *options, const char *net, pictures_request *request) {
    circe_status status = begin(ASKED_OF(options), NULL, request);
    if (status != CIRCE_OK) return status;
    if (request->labels == NULL) {
        circe_fail(CIRCE_ERR_ARGUMENT, "--labels FILE is required: %s contains only images", request->path);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "a .csv whose row i belongs to image i, with a column for --target");
    }
    request->resized = options->image_size != NULL;
    if (options->channels != NULL) request->asked = strtoll(options->channels, NULL, 10);
    request->options.channels = request->asked == 0 && strcmp(net, "resnet18") == 0 ? 3 : request->asked;
    return request->resized ? parse_size(options->image_size, &request->options) : CIRCE_OK;
}

circe_status pictures_for_model(const circe_predict_options *options, const train_model *model, const cJSON *settings,
                                pictures_request *request) {
    const cJSON *kept = cJSON_GetObjectItemCaseSensitive(settings, "images");
    circe_status status = begin(ASKED_OF(options), kept, request);
    request->resized = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kept, "resized"));
    request->asked = kept_number(kept, "channels_asked");
    request->options.white = (int)kept_number(kept, "white");
    if (request->resized) {
        request->options.width = model->image.size[2];
        request->options.height = model->image.size[1];
    }
    request->options.channels = model->image.size[0] == 3 ? 3 : request->asked;
    return status;
}

void pictures_request_free(pictures_request *request) {
    free(request->column);
    free(request->array);
    *request = (pictures_request){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static circe_status make_points(int64_t n, pictures *out) {
    out->n = n;
    out->shown = malloc((size_t)(n + 1) * sizeof *out->shown);
    return out->shown != NULL ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " points", n);
}

/* Every file that is named, once, in the order in which the points name them. */
typedef struct file_list {
    char **paths;    /* (n) */
    int64_t *number; /* (n): the row that names it first */
    int64_t n;
} file_list;

static void free_files(file_list *files) {
    for (int64_t i = 0; i < files->n; i++) free(files->paths[i]);
    free(files->paths);
    free(files->number);
}

/* Relative to the folder of the .csv. */
static char *resolve(const char *csv, const char *path) {
    const char *slash = strrchr(csv, '/');
    if (path[0] == '/' || slash == NULL) return small_format("%s", path);
    return small_format("%.*s/%s", (int)(slash - csv), csv, path);
}

static void list_files(const pictures_request *r, const column_table *table, int64_t col, const int64_t *at,
                       const int64_t *number, int64_t n, pictures *out, file_list *files) {
    char *const *texts = column_categories(table, col);
    int64_t n_texts = column_n_categories(table, col);
    OWNED int32_t *place = small_alloc((size_t)n_texts * sizeof *place); /* 1 + that of a text; 0: not met yet */
    files->paths = small_alloc((size_t)n_texts * sizeof *files->paths);
    files->number = small_alloc((size_t)n_texts * sizeof *files->number);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = at != NULL ? at[i] : i, code = (int64_t)column_value(table, row, col);
        if (place[code] == 0) {
            files->paths[files->n] = resolve(r->path, texts[code]);
            files->number[files->n] = number != NULL ? number[i] : row;
            place[code] = (int32_t)++files->n;
        }
        out->shown[i] = place[code] - 1;
    }
}

static circe_status refuse_file(const pictures_request *r, const file_list *files, int64_t wrong, circe_status status) {
    if (wrong < 0 || status == CIRCE_ERR_CANCELLED) return status;
    OWNED char *text = small_format("%s: row %" PRId64 ": %s", r->path, files->number[wrong], circe_last_error());
    circe_fail(status, "%s", text);
    if (status == CIRCE_ERR_SHAPE)
        circe_fail_hint(status, "--image-size, as in --image-size 64, gives them the same size");
    return status;
}

circe_status pictures_read_paths(circe_context *context, const circe_watch *watch, const pictures_request *request,
                                 const column_table *table, int64_t col, const int64_t *at, const int64_t *number,
                                 int64_t n, pictures *out) {
    file_list files = {0};
    int64_t wrong = -1;
    image_stack_options options = request->options;
    if (column_categories(table, col) == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: column '%s' contains numbers, not paths of pictures", request->path,
                          request->column);
    circe_status status = make_points(n, out);
    if (status != CIRCE_OK) return status;
    options.progress = job_step;
    options.user = (void *)watch;
    list_files(request, table, col, at, number, n, out, &files);
    status = image_stack_read_files(context, files.paths, files.n, &options, &out->stack, &wrong);
    if (status != CIRCE_OK) status = refuse_file(request, &files, wrong, status);
    out->total = out->stack.n;
    free_files(&files);
    return status;
}

circe_status pictures_read_array(circe_context *context, const circe_watch *watch, const pictures_request *request,
                                 int64_t total, const int64_t *at, int64_t n, pictures *out) {
    image_stack_options options = request->options;
    options.rows = total;
    options.rows_of = request->labels;
    options.progress = job_step;
    options.user = (void *)watch;
    circe_status status = image_stack_read_array(context, request->path, request->array, &options, &out->stack);
    if (status != CIRCE_OK) return status;
    out->total = out->stack.n;
    status = make_points(n < 0 ? out->stack.n : n, out);
    for (int64_t i = 0; status == CIRCE_OK && i < out->n; i++) out->shown[i] = (int32_t)(at != NULL ? at[i] : i);
    return status;
}

void pictures_free(pictures *images) {
    image_stack_free(&images->stack);
    free(images->shown);
    images->shown = NULL;
}

/* ---- what was read ----------------------------------------------------------------------------------------------- */

train_shape pictures_shape(const pictures *images) {
    const image_stack *s = &images->stack;
    return (train_shape){.n_dims = 3, .size = {s->channels * s->repeat, s->height, s->width}};
}

circe_status pictures_check_model(const pictures_request *request, const pictures *images, const train_model *model) {
    train_shape shape = pictures_shape(images);
    const int64_t *has = shape.size, *needs = model->image.size;
    if (has[1] != needs[1] || has[2] != needs[2]) {
        circe_fail(CIRCE_ERR_SHAPE,
                   "%s: the images are %" PRId64 " by %" PRId64 " pixels; the model was trained on %" PRId64
                   " by %" PRId64,
                   request->path, has[2], has[1], needs[2], needs[1]);
        return circe_fail_hint(CIRCE_ERR_SHAPE, "a model that is trained with --image-size resizes them");
    }
    if (has[0] == needs[0]) return CIRCE_OK;
    circe_fail(CIRCE_ERR_SHAPE, "%s: some images have colour, but the model was trained on grey ones", request->path);
    return circe_fail_hint(CIRCE_ERR_SHAPE, "a model that is trained with --channels 1 makes them grey");
}

circe_status pictures_source(const pictures *images, const int64_t *rows, int64_t n, int32_t **shown,
                             train_source *source) {
    *shown = malloc((size_t)(n + 1) * sizeof **shown);
    if (*shown == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " points", n);
    for (int64_t i = 0; i < n; i++) (*shown)[i] = images->shown[rows != NULL ? rows[i] : i];
    *source = image_stack_source(&images->stack);
    source->n = n;
    source->stored = *shown;
    return CIRCE_OK;
}

static const char *element_name(train_element element) {
    return element == TRAIN_BITS ? "bits" : element == TRAIN_BYTES ? "bytes" : "floats";
}

char *pictures_text(arena *owner, const pictures *images) {
    const image_stack *s = &images->stack;
    double bytes = (double)s->n * (double)s->stride * (s->element == TRAIN_FLOATS ? 4.0 : 1.0);
    const char *colour = s->channels == 3 ? "in colour"
                         : s->repeat == 3 ? "grey, shown as red, green and blue"
                                          : "grey";
    return arena_format(owner, "%" PRId64 " of %" PRId64 " by %" PRId64 " pixels, %s, kept as %s (%.3g MB)",
                        images->total, s->width, s->height, colour, element_name(s->element), bytes / 1e6);
}

cJSON *pictures_json(const pictures_request *request, const pictures *images) {
    const image_stack *s = &images->stack;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "file", request->path);
    if (request->by_path)
        cJSON_AddStringToObject(out, "path_column", request->column);
    else if (path_ends_with(request->path, ".npz"))
        cJSON_AddStringToObject(out, "array", request->array);
    json_integer(out, "images", images->total);
    json_integer(out, "channels", s->channels * s->repeat);
    json_integer(out, "height", s->height);
    json_integer(out, "width", s->width);
    cJSON_AddBoolToObject(out, "resized", request->resized);
    json_integer(out, "channels_asked", request->asked);
    json_integer(out, "white", s->white);
    cJSON_AddStringToObject(out, "kept_as", element_name(s->element));
    return out;
}
