#include "cli/common/devices.h"

#include "cli/common/message.h"
#include "jobs/device.h"

const char *device_name(const args *arguments) {
    const char *name = args_text(arguments, OPT_DEVICE);
    return name != NULL ? name : "cpu";
}

const char *precision_name(const args *arguments) {
    const char *name = args_text(arguments, OPT_PRECISION);
    return name != NULL ? name : "float32";
}

int device_open(const args *arguments, circe_context *context, train_device **device) {
    return message_refused(job_device_open(context, device_name(arguments), precision_name(arguments), device));
}
