#include "cli/common/devices.h"

#include "circe/status.h"
#include "cli/common/message.h"

const char *device_name(const args *arguments) {
    const char *name = args_text(arguments, OPT_DEVICE);
    return name != NULL ? name : "cpu";
}

const char *precision_name(const args *arguments) {
    const char *name = args_text(arguments, OPT_PRECISION);
    return name != NULL ? name : "float32";
}

int device_check(const args *arguments) {
    const char *name = device_name(arguments);
    if (train_device_is_name(name)) return EXIT_DONE;
    message_note("--device %s: there is no such device", name);
    message_hint("it may be cpu, cuda, cuda:1 (the second GPU) or auto");
    return EXIT_INPUT;
}

int device_open(const args *arguments, circe_context *context, train_device **device) {
    int status = device_check(arguments);
    if (status != EXIT_DONE) return status;
    circe_status opened = train_device_open(context, device_name(arguments), device);
    if (opened != CIRCE_OK) return message_read(opened, "--device", circe_last_error());
    opened = train_device_set_precision(*device, (train_precision)train_precision_find(precision_name(arguments)));
    if (opened == CIRCE_OK) return EXIT_DONE;
    message_note("--precision %s: %s", precision_name(arguments), circe_last_error());
    train_device_destroy(*device);
    *device = NULL;
    return EXIT_INPUT;
}
