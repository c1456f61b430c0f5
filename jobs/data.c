/* The image sets that the library can make itself, and contact sheets of them. */
#include "circe/data.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small.h"
#include "core/settings.h"
#include "images/dsprites.h"
#include "images/faces.h"
#include "images/picture.h"
#include "images/sheet.h"
#include "io/paths.h"
#include "jobs/notes.h"

typedef struct data_job {
    circe_context *context;
    const circe_data_options *options;
    const circe_watch *watch;
    circe_data_made *made;
} data_job;

/* Writes a sheet that was drawn with this status, and frees it. */
static circe_status write_sheet(const char *path, circe_status status, image_picture *sheet) {
    if (status == CIRCE_OK) status = png_file_write(path, sheet);
    image_picture_free(sheet);
    return status;
}

static circe_status write_faces(data_job *job) {
    const circe_data_options *o = job->options;
    image_picture sheet = {0};
    faces_options faces;
    faces_options_init(&faces);
    faces.seed = (uint64_t)o->seed;
    faces.identities = o->identities;
    faces.height = o->size;
    circe_status status = faces_write(job->context, o->output, &faces, o->force, job_step, (void *)job->watch);
    if (status != CIRCE_OK) return status;
    *job->made =
        (circe_data_made){faces.identities * FACES_POSES * FACES_LIGHTS, faces_width(faces.height), faces.height};
    return o->sheet != NULL ? write_sheet(o->sheet, image_sheet_faces(o->output, &sheet), &sheet) : CIRCE_OK;
}

static circe_status write_dsprites(data_job *job) {
    const circe_data_options *o = job->options;
    image_picture sheet = {0};
    circe_status status = path_check_writable("-o", o->output);
    if (status != CIRCE_OK) return status;
    if (access(o->output, F_OK) == 0 && !o->force) {
        circe_fail(CIRCE_ERR_ARGUMENT, "%s: the file already exists", o->output);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "--force replaces it");
    }
    status = dsprites_write(job->context, o->output, job_step, (void *)job->watch);
    if (status != CIRCE_OK) return status;
    *job->made = (circe_data_made){DSPRITES_IMAGES, DSPRITES_SIDE, DSPRITES_SIDE};
    return o->sheet != NULL ? write_sheet(o->sheet, image_sheet_dsprites(NULL, &sheet), &sheet) : CIRCE_OK;
}

static circe_status draw_sheet(data_job *job) {
    const circe_data_options *o = job->options;
    image_picture sheet = {0};
    OWNED uint8_t *bits = NULL;
    struct stat info;
    if (o->from == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "contact-sheet needs --from: a folder of faces, or a dSprites .npz");
    circe_status status = path_check_writable("-o", o->output);
    if (status != CIRCE_OK) return status;
    if (stat(o->from, &info) != 0) return circe_fail(CIRCE_ERR_IO, "--from %s: %s", o->from, strerror(errno));
    status = S_ISDIR(info.st_mode) ? CIRCE_OK : dsprites_read(job->context, o->from, &bits);
    if (status == CIRCE_OK)
        status = bits != NULL ? image_sheet_dsprites(bits, &sheet) : image_sheet_faces(o->from, &sheet);
    *job->made = (circe_data_made){1, sheet.width, sheet.height};
    status = write_sheet(o->output, status, &sheet);
    return status;
}

/* ---- the sets ---------------------------------------------------------------------------------------------------- */

enum { FACES = 1, DSPRITES = 2, SHEET = 4 };

static const struct data_set {
    const char *name;
    unsigned bit;
    circe_status (*write)(data_job *job);
} sets[] = {
    {"faces", FACES, write_faces}, {"dsprites", DSPRITES, write_dsprites}, {"contact-sheet", SHEET, draw_sheet}};

/* Options that say something about some sets only. */
static circe_status check_options(const circe_data_options *options, const struct data_set *set) {
    static const struct {
        const char *option;
        unsigned sets;
    } uses[] = {{"size", FACES},
                {"identities", FACES},
                {"seed", FACES},
                {"sheet", FACES | DSPRITES},
                {"force", FACES | DSPRITES},
                {"from", SHEET}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (circe_options_given(&circe_data_schema, options, uses[i].option) && !(uses[i].sets & set->bit))
            return circe_fail(CIRCE_ERR_ARGUMENT, "--%s has no meaning for %s", uses[i].option, set->name);
    }
    return options->sheet != NULL ? path_check_writable("--sheet", options->sheet) : CIRCE_OK;
}

static const struct data_set *find_set(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof sets / sizeof *sets; i++) {
        if (strcmp(sets[i].name, name) == 0) return &sets[i];
    }
    if (name != NULL)
        circe_fail(CIRCE_ERR_ARGUMENT, "there is no set '%s'", name);
    else
        circe_fail(CIRCE_ERR_ARGUMENT, "which set?");
    circe_fail_hint(CIRCE_ERR_ARGUMENT, "circe data faces, circe data dsprites, or circe data contact-sheet");
    return NULL;
}

circe_status circe_data(circe_context *context, const char *set, const circe_data_options *options,
                        const circe_watch *watch, circe_data_made *made) {
    CIRCE_OWN_SETTINGS;
    const struct data_set *chosen = find_set(set);
    data_job job = {context, options, watch, made};
    unsigned mark = 0;
    circe_status status = chosen != NULL ? circe_options_check(&circe_data_schema, options) : CIRCE_ERR_ARGUMENT;
    if (status == CIRCE_OK) status = check_options(options, chosen);
    if (status == CIRCE_OK) status = small_begin(&mark);
    return status == CIRCE_OK ? small_end(mark, chosen->write(&job)) : status;
}
