/* Devices and precisions by name. */
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/device.h"

int train_device_gpu(const char *name) {
    enum { MOST_DIGITS = 3 };
    static const char prefix[] = "cuda";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *rest = name + sizeof prefix - 1;
    if (*rest == '\0') return 0;
    size_t digits = strspn(rest + 1, "0123456789");
    return *rest == ':' && digits > 0 && digits <= MOST_DIGITS && rest[1 + digits] == '\0' ? atoi(rest + 1) : -1;
}

bool train_device_is_name(const char *name) {
    return name != NULL && (strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0 || train_device_gpu(name) >= 0);
}

circe_status train_device_open(circe_context *context, const char *name, train_device **device) {
    if (!train_device_is_name(name))
        return circe_fail(CIRCE_ERR_ARGUMENT, "'%s' is not a device; choose cpu, cuda, cuda:1 (the second GPU) or auto",
                          name == NULL ? "" : name);
    if (strcmp(name, "cpu") == 0) return train_device_cpu(context, device);
    if (strcmp(name, "auto") != 0) return train_device_cuda(context, train_device_gpu(name), device);
    circe_status status = train_device_cuda(context, 0, device);
    return status == CIRCE_ERR_UNSUPPORTED ? train_device_cpu(context, device) : status;
}

static const char *const precisions[] = {[TRAIN_FLOAT32] = "float32", [TRAIN_TF32] = "tf32", [TRAIN_BF16] = "bf16"};

int train_precision_find(const char *name) {
    for (int k = 0; k < (int)(sizeof precisions / sizeof *precisions); k++)
        if (name != NULL && strcmp(name, precisions[k]) == 0) return k;
    return -1;
}

circe_status train_device_set_precision(train_device *device, train_precision precision) {
    if (device->ops->set_precision != NULL) return device->ops->set_precision(device, precision);
    if (precision == TRAIN_FLOAT32) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      "the %s computes networks in float32 only; %s needs an NVIDIA GPU (--device cuda)",
                      strcmp(device->ops->name, "cpu") == 0 ? "CPU" : device->ops->name, precisions[precision]);
}

circe_status train_device_check(const char *name) {
    if (train_device_is_name(name)) return CIRCE_OK;
    circe_fail(CIRCE_ERR_ARGUMENT, "--device %s: there is no such device", name);
    return circe_fail_hint(CIRCE_ERR_ARGUMENT, "choose cpu, cuda, cuda:1 (the second GPU) or auto");
}

circe_status train_device_choose(circe_context *context, const char *name, const char *precision,
                                 train_device **device) {
    *device = NULL;
    int found = train_precision_find(precision);
    circe_status status = train_device_check(name);
    if (status == CIRCE_OK) status = train_device_open(context, name, device);
    if (status != CIRCE_OK || *device == NULL) return status;
    status = found < 0 ? circe_fail(CIRCE_ERR_ARGUMENT, "there is no such precision")
                       : train_device_set_precision(*device, (train_precision)found);
    if (status == CIRCE_OK) return CIRCE_OK;
    train_device_destroy(*device);
    *device = NULL;
    return circe_fail(status, "--precision %s: %s", precision, circe_last_error());
}

void train_device_destroy(train_device *device) {
    if (device != NULL) device->ops->close(device);
}
