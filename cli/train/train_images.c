/* From --images to pictures in memory. */
#include "cli/train/train_images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "circe/status.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "io/paths.h"

enum { LARGEST_SIDE = 4096 };

/* ---- the request ------------------------------------------------------------------------------------------------- */

static int refuse_format(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        message_note("--images %s: is a folder", path);
    else
        message_note("--images %s: a .csv or .tsv with a column of paths, an .npz or an .npy is expected", path);
    message_hint("a .csv names one picture a row, and in other columns what is known of it: file,age,light");
    return EXIT_INPUT;
}

/* An option that is for the other kind of file. */
static int check_options(const args *a, const images_request *r) {
    if (r->by_path && args_given(a, OPT_ARRAY))
        return message_fail(EXIT_INPUT, "--array names an array of an .npz, and --images %s is a .csv of paths",
                            r->path);
    if (r->by_path && args_given(a, OPT_LABELS))
        return message_fail(EXIT_INPUT,
                            "--labels goes with an array of images; of a .csv of paths the other columns are the "
                            "labels");
    if (!r->by_path && args_given(a, OPT_PATH_COLUMN))
        return message_fail(EXIT_INPUT, "--path-column names a column of a .csv of paths, and --images %s is none",
                            r->path);
    return EXIT_DONE;
}

/* Which file it is, and where the labels are. */
static int find_kind(const args *a, images_request *r) {
    r->path = args_text(a, OPT_IMAGES);
    bool npz = path_ends_with(r->path, ".npz");
    r->by_path = path_ends_with(r->path, ".csv") || path_ends_with(r->path, ".tsv");
    if (!r->by_path && !npz && !path_ends_with(r->path, ".npy")) return refuse_format(r->path);
    r->labels = args_text(a, OPT_LABELS);
    if (r->labels == NULL && (r->by_path || npz)) r->labels = r->path;
    return check_options(a, r);
}

static bool parse_side(const char **at, int64_t *side) {
    char *end = NULL;
    if (**at < '0' || **at > '9') return false;
    *side = strtoll(*at, &end, 10);
    *at = end;
    return *side >= 1 && *side <= LARGEST_SIDE;
}

static int parse_size(const char *text, image_stack_options *options) {
    const char *at = text;
    bool sound = parse_side(&at, &options->width);
    options->height = options->width;
    if (sound && *at == 'x') {
        at++;
        sound = parse_side(&at, &options->height);
    }
    if (sound && *at == '\0') return EXIT_DONE;
    return message_fail(EXIT_INPUT,
                        "--image-size must be a number of pixels, 224, or width by height, 96x64, of at most %d; '%s' "
                        "was given",
                        LARGEST_SIDE, text);
}

static void remember(const args *a, spec_option_id option, const cJSON *kept, const char *key, const char *otherwise,
                     char **out) {
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(kept, key);
    *out = small_format("%s", args_given(a, option)  ? args_text(a, option)
                              : cJSON_IsString(text) ? text->valuestring
                                                     : otherwise);
}

static void begin(const args *a, const cJSON *kept, images_request *r) {
    remember(a, OPT_PATH_COLUMN, kept, "path_column", "file", &r->column);
    remember(a, OPT_ARRAY, kept, "array", "imgs", &r->array);
    r->options.progress = progress_step;
}

int images_request_train(const args *arguments, const char *net, images_request *request) {
    *request = (images_request){0};
    begin(arguments, NULL, request);
    int status = find_kind(arguments, request);
    if (status != EXIT_DONE) return status;
    if (request->labels == NULL) {
        message_note("--labels FILE is required: %s holds images and nothing else", request->path);
        message_hint("a .csv whose row i belongs to image i, with a column for --target");
        return EXIT_INPUT;
    }
    request->resized = args_given(arguments, OPT_IMAGE_SIZE);
    if (request->resized) status = parse_size(args_text(arguments, OPT_IMAGE_SIZE), &request->options);
    if (args_given(arguments, OPT_CHANNELS)) request->asked = args_choice(arguments, OPT_CHANNELS) == 0 ? 1 : 3;
    request->options.channels = request->asked == 0 && strcmp(net, "resnet18") == 0 ? 3 : request->asked;
    return status;
}

static int64_t kept_number(const cJSON *kept, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(kept, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= LARGEST_SIDE
               ? (int64_t)item->valuedouble
               : 0;
}

int images_request_predict(const args *arguments, const train_model *model, images_request *request) {
    cJSON *settings = cJSON_Parse(model->settings != NULL ? model->settings : "{}");
    const cJSON *kept = cJSON_GetObjectItemCaseSensitive(settings, "images");
    *request = (images_request){0};
    begin(arguments, kept, request);
    request->resized = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kept, "resized"));
    request->asked = kept_number(kept, "channels_asked");
    request->options.white = (int)kept_number(kept, "white");
    cJSON_Delete(settings);
    if (request->resized) {
        request->options.width = model->image.size[2];
        request->options.height = model->image.size[1];
    }
    request->options.channels = model->image.size[0] == 3 ? 3 : request->asked;
    return find_kind(arguments, request);
}

void images_request_free(images_request *request) {
    free(request->column);
    free(request->array);
    *request = (images_request){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int refuse_stack(circe_status status) {
    progress_clear();
    if (status == CIRCE_ERR_CANCELLED) return message_fail(EXIT_WORK, "interrupted; nothing was written");
    return message_read(status, NULL, circe_last_error());
}

static int make_points(int64_t n, image_points *out) {
    out->n = n;
    out->shown = malloc((size_t)(n + 1) * sizeof *out->shown);
    if (out->shown != NULL) return EXIT_DONE;
    return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
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

static void list_files(const images_request *r, const column_table *table, int64_t col, const int64_t *at,
                       const int64_t *number, int64_t n, image_points *out, file_list *files) {
    char *const *texts = column_categories(table, col);
    int64_t n_texts = column_n_categories(table, col);
    int32_t *place = small_alloc((size_t)n_texts * sizeof *place); /* 1 + that of a text; 0: not met yet */
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
    free(place);
}

static int refuse_file(const images_request *r, const file_list *files, int64_t wrong, circe_status status) {
    if (wrong < 0) return refuse_stack(status);
    progress_clear();
    char *text = small_format("%s: row %" PRId64 ": %s", r->path, files->number[wrong], circe_last_error());
    int failed = message_read(status, NULL, text);
    free(text);
    if (status == CIRCE_ERR_SHAPE) message_hint("--image-size, as in --image-size 64, makes them one size");
    return failed;
}

int images_read_paths(const session *s, const images_request *request, const column_table *table, int64_t col,
                      const int64_t *at, const int64_t *number, int64_t n, image_points *out) {
    file_list files = {0};
    int64_t wrong = -1;
    if (column_categories(table, col) == NULL)
        return message_fail(EXIT_INPUT, "%s: column '%s' holds numbers, not paths of pictures", request->path,
                            request->column);
    int status = make_points(n, out);
    if (status != EXIT_DONE) return status;
    list_files(request, table, col, at, number, n, out, &files);
    circe_status read =
        image_stack_read_files(s->context, files.paths, files.n, &request->options, &out->stack, &wrong);
    if (read != CIRCE_OK) status = refuse_file(request, &files, wrong, read);
    out->total = out->stack.n;
    progress_clear();
    free_files(&files);
    return status;
}

int images_read_array(const session *s, const images_request *request, int64_t total, const int64_t *at, int64_t n,
                      image_points *out) {
    image_stack_options options = request->options;
    options.rows = total;
    circe_status read = image_stack_read_array(s->context, request->path, request->array, &options, &out->stack);
    if (read != CIRCE_OK) {
        int status = refuse_stack(read);
        if (strstr(circe_last_error(), "rows to go with them") != NULL)
            message_hint("row i of %s must belong to image i", request->labels);
        return status;
    }
    progress_clear();
    out->total = out->stack.n;
    int status = make_points(n < 0 ? out->stack.n : n, out);
    for (int64_t i = 0; status == EXIT_DONE && i < out->n; i++) out->shown[i] = (int32_t)(at != NULL ? at[i] : i);
    return status;
}

void images_free(image_points *images) {
    image_stack_free(&images->stack);
    free(images->shown);
    images->shown = NULL;
}

/* ---- what was read ----------------------------------------------------------------------------------------------- */

train_shape images_shape(const image_points *images) {
    const image_stack *s = &images->stack;
    return (train_shape){.n_dims = 3, .size = {s->channels * s->repeat, s->height, s->width}};
}

int images_check_model(const images_request *request, const image_points *images, const train_model *model) {
    train_shape shape = images_shape(images);
    const int64_t *has = shape.size, *needs = model->image.size;
    if (has[1] != needs[1] || has[2] != needs[2]) {
        message_note("%s: the images are %" PRId64 " by %" PRId64 " pixels; the model was trained on %" PRId64
                     " by %" PRId64,
                     request->path, has[2], has[1], needs[2], needs[1]);
        message_hint("a model that is trained with --image-size resizes them");
        return EXIT_INPUT;
    }
    if (has[0] == needs[0]) return EXIT_DONE;
    message_note("%s: there are images with colour; the model was trained on grey ones", request->path);
    message_hint("a model that is trained with --channels 1 makes them grey");
    return EXIT_INPUT;
}

int images_source(const image_points *images, const int64_t *rows, int64_t n, int32_t **shown, train_source *source) {
    *shown = malloc((size_t)(n + 1) * sizeof **shown);
    if (*shown == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " points", n);
    for (int64_t i = 0; i < n; i++) (*shown)[i] = images->shown[rows != NULL ? rows[i] : i];
    *source = image_stack_source(&images->stack);
    source->n = n;
    source->stored = *shown;
    return EXIT_DONE;
}

static const char *element_name(train_element element) {
    return element == TRAIN_BITS ? "bits" : element == TRAIN_BYTES ? "bytes" : "floats";
}

static double megabytes(const image_stack *s) {
    return (double)s->n * (double)s->stride * (s->element == TRAIN_FLOATS ? 4.0 : 1.0) / 1e6;
}

const char *images_text(const image_points *images, char *out, size_t size) {
    const image_stack *s = &images->stack;
    snprintf(out, size, "%" PRId64 " of %" PRId64 " by %" PRId64 " pixels, %s, kept as %s (%.3g MB)", images->total,
             s->width, s->height,
             s->channels == 3 ? "in colour"
             : s->repeat == 3 ? "grey, shown as red, green and blue"
                              : "grey",
             element_name(s->element), megabytes(s));
    return out;
}

cJSON *images_json(const images_request *request, const image_points *images) {
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
