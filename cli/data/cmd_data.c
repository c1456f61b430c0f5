/* circe data: writes the image sets that the program can make itself, in the form of the published ones, and contact
 * sheets of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "circe/status.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "images/dsprites.h"
#include "images/faces.h"
#include "images/png_file.h"
#include "images/sheet.h"
#include "io/paths.h"

/* What was made, for the reader or the program that asked. */
typedef struct made {
    const char *what, *output, *sheet;
    int64_t pictures, width, height;
    double seconds;
} made;

static int report(const args *arguments, const made *m) {
    char time[32];
    if (args_given(arguments, OPT_JSON)) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "data", m->what);
        cJSON_AddStringToObject(object, "output", m->output);
        json_integer(object, "pictures", m->pictures);
        json_integer(object, "width", m->width);
        json_integer(object, "height", m->height);
        if (m->sheet != NULL) cJSON_AddStringToObject(object, "sheet", m->sheet);
        json_number(object, "seconds", m->seconds);
        return json_print(object);
    }
    if (args_given(arguments, OPT_QUIET)) return EXIT_DONE;
    printf("Wrote %" PRId64 " picture%s of %" PRId64 " by %" PRId64 " pixels to %s in %s.\n", m->pictures,
           m->pictures == 1 ? "" : "s", m->width, m->height, m->output, text_seconds(m->seconds, time, sizeof time));
    if (m->sheet != NULL) printf("A contact sheet of them is in %s.\n", m->sheet);
    return EXIT_DONE;
}

/* A failed call that writes: trouble with the place to write to is no fault of the command line. */
static int refuse(circe_status status, const char *path) {
    return status == CIRCE_ERR_WRITE ? message_write(path, circe_last_error())
                                     : message_read(status, NULL, circe_last_error());
}

static int write_sheet(const char *path, circe_status status, image_picture *sheet) {
    int result = status == CIRCE_OK ? EXIT_DONE : message_read(status, NULL, circe_last_error());
    if (result == EXIT_DONE && png_file_write(path, sheet) != CIRCE_OK)
        result = message_write(path, circe_last_error());
    image_picture_free(sheet);
    return result;
}

/* ---- faces ---------------------------------------------------------------------------------------------------------
 */

static faces_options faces_of(const args *arguments) {
    faces_options options;
    faces_options_init(&options);
    options.seed = (uint64_t)args_integer(arguments, OPT_SEED);
    options.identities = args_integer(arguments, OPT_IDENTITIES);
    options.height = args_integer(arguments, OPT_SIZE);
    return options;
}

static int write_faces(const args *arguments, const session *s, made *m) {
    faces_options options = faces_of(arguments);
    bool force = args_given(arguments, OPT_FORCE);
    circe_status status = faces_write(s->context, m->output, &options, force, progress_step, NULL);
    progress_clear();
    if (status == CIRCE_ERR_ARGUMENT && strstr(circe_last_error(), "is not empty") != NULL) {
        message_note("%s", circe_last_error());
        message_hint("--force replaces the pictures in it, and leaves everything else");
        return EXIT_INPUT;
    }
    if (status != CIRCE_OK) return refuse(status, m->output);
    m->pictures = options.identities * FACES_POSES * FACES_LIGHTS;
    m->height = options.height;
    m->width = faces_width(options.height);
    if (m->sheet == NULL) return EXIT_DONE;
    image_picture sheet = {0};
    status = image_sheet_faces(m->output, &sheet);
    return write_sheet(m->sheet, status, &sheet);
}

/* ---- dSprites ------------------------------------------------------------------------------------------------------
 */

static int write_dsprites(const args *arguments, const session *s, made *m) {
    int status = message_refused(path_check_writable("-o", m->output));
    if (status != EXIT_DONE) return status;
    if (access(m->output, F_OK) == 0 && !args_given(arguments, OPT_FORCE)) {
        message_note("%s: the file is there already", m->output);
        message_hint("--force replaces it");
        return EXIT_INPUT;
    }
    circe_status written = dsprites_write(s->context, m->output, progress_step, NULL);
    progress_clear();
    if (written != CIRCE_OK) return refuse(written, m->output);
    m->pictures = DSPRITES_IMAGES;
    m->width = m->height = DSPRITES_SIDE;
    if (m->sheet == NULL) return EXIT_DONE;
    image_picture sheet = {0};
    written = image_sheet_dsprites(NULL, &sheet);
    return write_sheet(m->sheet, written, &sheet);
}

/* ---- contact sheets ------------------------------------------------------------------------------------------------
 */

static int draw_sheet(const args *arguments, const session *s, made *m) {
    const char *from = args_text(arguments, OPT_DATA_FROM);
    image_picture sheet = {0};
    uint8_t *bits = NULL;
    struct stat info;
    int result = message_refused(path_check_writable("-o", m->output));
    if (result != EXIT_DONE) return result;
    if (stat(from, &info) != 0) return message_fail(EXIT_INPUT, "--from %s: %s", from, strerror(errno));
    circe_status status = S_ISDIR(info.st_mode) ? CIRCE_OK : dsprites_read(s->context, from, &bits);
    if (status == CIRCE_OK)
        status = bits != NULL ? image_sheet_dsprites(bits, &sheet) : image_sheet_faces(from, &sheet);
    m->pictures = 1;
    m->width = sheet.width;
    m->height = sheet.height;
    result = write_sheet(m->output, status, &sheet);
    free(bits);
    return result;
}

/* ---- the command ---------------------------------------------------------------------------------------------------
 */

typedef struct set {
    const char *name;
    int (*write)(const args *arguments, const session *s, made *m);
} set;

static const set sets[] = {{"faces", write_faces}, {"dsprites", write_dsprites}, {"contact-sheet", draw_sheet}};

/* Options that say something about faces only, or about sheets only. */
static int check_options(const args *arguments, const set *chosen) {
    static const struct {
        spec_option_id option;
        unsigned sets; /* bits by the order of `sets` */
    } uses[] = {{OPT_SIZE, 1}, {OPT_IDENTITIES, 1}, {OPT_SEED, 1}, {OPT_SHEET, 3}, {OPT_FORCE, 3}, {OPT_DATA_FROM, 4}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (args_given(arguments, uses[i].option) && !(uses[i].sets >> (chosen - sets) & 1u))
            return message_fail(EXIT_INPUT, "--%s has no meaning for %s", spec_options[uses[i].option].name,
                                chosen->name);
    }
    if (chosen->write == draw_sheet && !args_given(arguments, OPT_DATA_FROM))
        return message_fail(EXIT_INPUT, "contact-sheet needs --from: a folder of faces, or a dSprites .npz");
    return args_given(arguments, OPT_SHEET)
               ? message_refused(path_check_writable("--sheet", args_text(arguments, OPT_SHEET)))
               : EXIT_DONE;
}

int cmd_data(const args *arguments) {
    const set *chosen = NULL;
    session s = {0};
    for (size_t i = 0; i < sizeof sets / sizeof *sets && arguments->argument != NULL; i++) {
        if (strcmp(sets[i].name, arguments->argument) == 0) chosen = &sets[i];
    }
    if (chosen == NULL) {
        message_note("%s%s%s", arguments->argument != NULL ? "there is no set '" : "which set",
                     arguments->argument != NULL ? arguments->argument : "?", arguments->argument != NULL ? "'" : "");
        message_hint("circe data faces, circe data dsprites, or circe data contact-sheet");
        return EXIT_INPUT;
    }
    made m = {.what = chosen->name,
              .output = args_text(arguments, OPT_OUTPUT_DATA),
              .sheet = args_text(arguments, OPT_SHEET)};
    double start = session_clock();
    int status = check_options(arguments, chosen);
    if (status == EXIT_DONE) status = session_open(arguments, &s);
    progress_catch_termination();
    if (status == EXIT_DONE) status = chosen->write(arguments, &s, &m);
    m.seconds = session_clock() - start;
    if (status == EXIT_DONE) status = report(arguments, &m);
    session_close(&s);
    return status;
}
