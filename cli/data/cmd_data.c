/* circe data: the image sets that the library makes, and contact sheets of them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "circe/data.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"

static int print_json(const char *set, const circe_data_options *o, const circe_data_made *made, double seconds) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "data", set);
    cJSON_AddStringToObject(object, "output", o->output);
    json_integer(object, "pictures", made->pictures);
    json_integer(object, "width", made->width);
    json_integer(object, "height", made->height);
    if (o->sheet != NULL) cJSON_AddStringToObject(object, "sheet", o->sheet);
    json_number(object, "seconds", seconds);
    return json_print(object);
}

static void print_text(const circe_data_options *o, const circe_data_made *made, double seconds) {
    char time[32];
    printf("Wrote %" PRId64 " picture%s of %" PRId64 " by %" PRId64 " pixels to %s in %s.\n", made->pictures,
           made->pictures == 1 ? "" : "s", made->width, made->height, o->output,
           text_seconds(seconds, time, sizeof time));
    if (o->sheet != NULL) printf("A contact sheet of them is in %s.\n", o->sheet);
}

int cmd_data(const args *arguments) {
    session s = {0};
    circe_data_options options = *(const circe_data_options *)arguments->options;
    circe_data_made made = {0};
    const circe_watch watch = session_watch(&arguments->own);
    double start = job_clock();
    int status = session_open(&arguments->own, &s);
    progress_catch_termination();
    if (status == EXIT_DONE)
        status = message_refused(circe_data(s.context, arguments->argument, &options, &watch, &made));
    progress_clear();
    double seconds = job_clock() - start;
    if (status == EXIT_DONE && arguments->own.json)
        status = print_json(arguments->argument, &options, &made, seconds);
    else if (status == EXIT_DONE && !arguments->own.quiet)
        print_text(&options, &made, seconds);
    session_close(&s);
    return status;
}
