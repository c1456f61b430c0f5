/* Messages on standard error, exit statuses, and the small allocations they need. */
#include "cli/common/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owned.h"
#include "cli/common/progress.h"
#include "io/io.h"

static const char *command_name; /* one command runs per process */

static const char *message_place;

static bool holding;
static char held[2048];

void message_set_command(const char *name) { command_name = name; }

void message_set_place(const char *place) { message_place = place; }

void message_hold(void) { holding = true; }

void message_release(void) { holding = false; }

const char *message_held(void) { return held[0] != '\0' ? held : "no reason was given"; }

/* The text as it may be shown: it can quote file names and cells. */
PRINTF_LIKE(1, 0)
static char *visible_text(const char *format, va_list arguments) {
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    char *visible = length >= 0 ? io_visible(text, (size_t)length, false) : NULL;
    if (length >= 0) free(text);
    return visible;
}

/* The first message says what went wrong; later ones are consequences of it. */
static void hold(const char *place, const char *text) {
    if (held[0] == '\0') snprintf(held, sizeof held, "%s%s", place, text);
}

/* On a terminal, errors begin in red and warnings in yellow, unless NO_COLOR is set. */
static const char *colour_of(const char *text, bool failure) {
    const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (!isatty(STDERR_FILENO) || (refused != NULL && refused[0] != '\0')) return "";
    if (terminal == NULL || strcmp(terminal, "dumb") == 0) return "";
    return failure ? "\033[31m" : strncmp(text, "warning:", 8) == 0 ? "\033[33m" : "";
}

PRINTF_LIKE(2, 0)
static void say(bool failure, const char *format, va_list arguments) {
    OWNED char *text = visible_text(format, arguments), *place = NULL;
    if (message_place != NULL) place = io_visible(message_place, strlen(message_place), false);
    const char *shown = text != NULL ? text : "out of memory", *before = place != NULL ? place : "";
    if (holding) {
        hold(before, shown);
    } else {
        progress_clear();
        fflush(stdout);
        const char *colour = colour_of(shown, failure), *end = colour[0] != '\0' ? "\033[0m" : "";
        fprintf(stderr, "%scirce%s%s:%s %s%s\n", colour, command_name != NULL ? " " : "",
                command_name != NULL ? command_name : "", end, before, shown);
    }
}

int message_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(true, format, arguments);
    va_end(arguments);
    return status;
}

void message_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(false, format, arguments);
    va_end(arguments);
}

void message_hint(const char *format, ...) {
    va_list arguments;
    if (holding) return;
    va_start(arguments, format);
    OWNED char *text = visible_text(format, arguments);
    va_end(arguments);
    if (text != NULL) fprintf(stderr, "hint: %s\n", text);
}

static int exit_of(circe_status status) {
    switch (status) {
        case CIRCE_OK:
            return EXIT_DONE;
        case CIRCE_ERR_ARGUMENT:
        case CIRCE_ERR_SHAPE:
        case CIRCE_ERR_VALUE:
        case CIRCE_ERR_FORMAT:
        case CIRCE_ERR_IO:
        case CIRCE_ERR_UNSUPPORTED:
            return EXIT_INPUT;
        case CIRCE_ERR_MEMORY:
        case CIRCE_ERR_NUMERIC:
        case CIRCE_ERR_RANK:
        case CIRCE_ERR_CANCELLED:
        case CIRCE_ERR_DEVICE:
        case CIRCE_ERR_WRITE:
            return EXIT_WORK;
    }
    return EXIT_WORK;
}

int message_refused(circe_status status) {
    if (status == CIRCE_ERR_CANCELLED) return message_fail(EXIT_WORK, "interrupted; nothing was written");
    return message_failed(status);
}

int message_failed(circe_status status) {
    if (status == CIRCE_OK) return EXIT_DONE;
    char *text = small_format("%s", circe_last_error()), *rest = text, *line = strsep(&rest, "\n");
    message_fail(EXIT_WORK, "%s", line[0] != '\0' ? line : circe_status_text(status));
    if (rest == NULL && status == CIRCE_ERR_MEMORY) message_hint("allow more with --memory, or give fewer rows");
    while ((line = strsep(&rest, "\n")) != NULL) message_hint("%s", line);
    free(text);
    return exit_of(status);
}

void message_data(bool quiet, int64_t dropped, const circe_notes *warnings) {
    if (quiet) return;
    if (dropped > 0) message_note("left out %" PRId64 " row%s with missing cells", dropped, dropped == 1 ? "" : "s");
    for (size_t i = 0; i < warnings->n; i++) message_note("warning: %s", warnings->text[i]);
}

int message_close_stdout(int status) {
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) != 0) failed = true;
    if (!failed) return status;
    int reported =
        message_fail(EXIT_WORK, "standard output: %s", errno != 0 ? strerror(errno) : "could not be written");
    return status == EXIT_DONE ? reported : status;
}
