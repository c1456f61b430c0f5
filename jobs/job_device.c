#include "jobs/job_device.h"

#include "jobs/notes.h"

circe_status job_device_check(const char *name) {
    if (train_device_is_name(name)) return CIRCE_OK;
    circe_fail(CIRCE_ERR_ARGUMENT, "--device %s: there is no such device", name);
    return circe_fail_hint(CIRCE_ERR_ARGUMENT, "it may be cpu, cuda, cuda:1 (the second GPU) or auto");
}

circe_status job_device_open(circe_context *context, const char *name, const char *precision, train_device **device) {
    circe_status status = job_device_check(name);
    if (status == CIRCE_OK) status = train_device_open(context, name, device);
    if (status != CIRCE_OK) return status;
    status = train_device_set_precision(*device, (train_precision)train_precision_find(precision));
    if (status == CIRCE_OK) return CIRCE_OK;
    train_device_destroy(*device);
    *device = NULL;
    return job_about(CIRCE_ERR_ARGUMENT, "--precision %s", precision);
}
