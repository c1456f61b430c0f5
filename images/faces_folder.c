/* Rendered heads as files, in the layout of the published set.
 *
 * The pictures are first written into a hidden folder within the one that was asked for; when all are there, they are
 * moved to their places. One that fails or is interrupted takes its hidden folder away again. Nothing is synced to the
 * disk: that would take longer than the rendering, and after a crash the set can be rendered again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owned.h"
#include "circe/status.h"
#include "images/pgm.h"
#include "images/yaleb.h"

typedef struct writing {
    const char *folder;
    const faces_options *options;
    char stage[PATH_MAX];
    bool made_folder;
} writing;

static circe_status refuse(const char *path) {
    return circe_fail(CIRCE_ERR_WRITE, "%s: cannot be written: %s", path, strerror(errno));
}

/* ---- where a picture goes ---------------------------------------------------------------------------------------- */

/* ROOT/yaleB11; false: the path is too long. */
static bool person_path(const char *root, int64_t identity, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/yaleB%02d", root, faces_numbers[identity]) < PATH_MAX;
}

static bool picture_path(const char *root, int64_t identity, int pose, int light, char path[PATH_MAX]) {
    char file[YALEB_NAME_BYTES];
    yaleb_name name = yaleb_name_of(identity, pose, light);
    yaleb_format_name(&name, file);
    return snprintf(path, PATH_MAX, "%s/yaleB%02d/%s", root, faces_numbers[identity], file) < PATH_MAX;
}

typedef bool (*visit_fn)(const writing *w, int64_t identity, int pose, int light);

/* Every picture in turn, until one says false. */
static bool every_picture(const writing *w, int64_t identity, visit_fn visit) {
    for (int pose = 0; pose < FACES_POSES; pose++) {
        for (int light = 0; light < FACES_LIGHTS; light++) {
            if (!visit(w, identity, pose, light)) return false;
        }
    }
    return true;
}

/* ---- writing aside ----------------------------------------------------------------------------------------------- */

static circe_status write_file(const char *path, const void *data, size_t bytes) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) return refuse(path);
    circe_status status = file_write_all(descriptor, data, bytes) ? CIRCE_OK : refuse(path);
    return close(descriptor) == 0 || status != CIRCE_OK ? status : refuse(path);
}

static circe_status take(void *user, int64_t identity, int pose, int light, const uint8_t *pixels) {
    const writing *w = user;
    char path[PATH_MAX];
    OWNED void *data = NULL;
    size_t bytes = 0;
    const image_picture picture = {faces_width(w->options->height), w->options->height, 1,
                                   (uint8_t *)(uintptr_t)pixels};
    if (!picture_path(w->stage, identity, pose, light, path))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: the path is too long", w->folder);
    circe_status status = pgm_format(&picture, path, &data, &bytes);
    return status == CIRCE_OK ? write_file(path, data, bytes) : status;
}

static bool remove_picture(const writing *w, int64_t identity, int pose, int light) {
    char path[PATH_MAX];
    if (picture_path(w->stage, identity, pose, light, path)) unlink(path);
    return true;
}

/* Takes away what this call has made, by the names that it gives, and nothing else. */
static void remove_stage(const writing *w) {
    char path[PATH_MAX];
    for (int64_t i = 0; i < w->options->identities; i++) {
        every_picture(w, i, remove_picture);
        if (person_path(w->stage, i, path)) rmdir(path);
    }
    rmdir(w->stage);
    if (w->made_folder) rmdir(w->folder);
}

/* ---- into place -------------------------------------------------------------------------------------------------- */

static bool place_picture(const writing *w, int64_t identity, int pose, int light) {
    char from[PATH_MAX], to[PATH_MAX];
    return picture_path(w->stage, identity, pose, light, from) && picture_path(w->folder, identity, pose, light, to) &&
           rename(from, to) == 0;
}

/* A person's folder as a whole, or file by file into one that is there. */
static circe_status place_person(const writing *w, int64_t identity) {
    char from[PATH_MAX], to[PATH_MAX];
    if (!person_path(w->stage, identity, from) || !person_path(w->folder, identity, to))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: the path is too long", w->folder);
    if (rename(from, to) == 0) return CIRCE_OK;
    if (errno != ENOTEMPTY && errno != EEXIST) return refuse(to);
    return every_picture(w, identity, place_picture) ? CIRCE_OK : refuse(to);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Anything in it but . and .. */
static circe_status check_empty(const char *folder) {
    DIR *directory = opendir(folder);
    if (directory == NULL) return circe_fail(CIRCE_ERR_WRITE, "%s: cannot be read: %s", folder, strerror(errno));
    circe_status status = CIRCE_OK;
    for (struct dirent *entry; status == CIRCE_OK && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        circe_fail(CIRCE_ERR_ARGUMENT, "%s: the folder is not empty (it contains %s); give a new or empty one", folder,
                   entry->d_name);
        status = circe_fail_hint(CIRCE_ERR_ARGUMENT, "--force replaces the pictures in it, and leaves everything else");
    }
    closedir(directory);
    return status;
}

static circe_status open_stage(writing *w, bool replace) {
    char path[PATH_MAX];
    w->made_folder = mkdir(w->folder, 0777) == 0;
    if (!w->made_folder && errno != EEXIST) return refuse(w->folder);
    circe_status status = w->made_folder || replace ? CIRCE_OK : check_empty(w->folder);
    if (status != CIRCE_OK) return status;
    if (snprintf(w->stage, sizeof w->stage, "%s/.circe-faces-%ld", w->folder, (long)getpid()) >= PATH_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: the path is too long", w->folder);
    if (mkdir(w->stage, 0777) != 0) {
        status = refuse(w->folder);
        w->stage[0] = '\0';
        if (w->made_folder) rmdir(w->folder);
        return status;
    }
    for (int64_t i = 0; i < w->options->identities; i++) {
        if (!person_path(w->stage, i, path) || mkdir(path, 0777) != 0) return refuse(path);
    }
    return CIRCE_OK;
}

circe_status faces_write(const circe_context *context, const char *folder, const faces_options *options, bool replace,
                         circe_progress_fn progress, void *progress_user) {
    writing w = {.folder = folder, .options = options};
    circe_status status = faces_options_check(options);
    if (status != CIRCE_OK) return status;
    status = open_stage(&w, replace);
    if (status == CIRCE_OK) status = faces_render(context, options, take, &w, progress, progress_user);
    for (int64_t i = 0; i < options->identities && status == CIRCE_OK; i++) status = place_person(&w, i);
    if (w.stage[0] != '\0') {
        w.made_folder = w.made_folder && status != CIRCE_OK;
        remove_stage(&w);
    }
    return status;
}
