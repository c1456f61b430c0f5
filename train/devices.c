/* Devices by name. */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"

/* "cuda" or "cuda:N"; -1: it is neither. */
static int gpu_of(const char *name) {
    enum { MOST_DIGITS = 3 };
    static const char prefix[] = "cuda";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *rest = name + sizeof prefix - 1;
    if (*rest == '\0') return 0;
    size_t digits = strspn(rest + 1, "0123456789");
    return *rest == ':' && digits > 0 && digits <= MOST_DIGITS && rest[1 + digits] == '\0' ? atoi(rest + 1) : -1;
}

bool train_device_is_name(const char *name) {
    return name != NULL && (strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0 || gpu_of(name) >= 0);
}

circe_status train_device_open(circe_context *context, const char *name, train_device **device) {
    if (!train_device_is_name(name))
        return train_fail(CIRCE_ERR_ARGUMENT,
                          "'%s' is no device; there are cpu, cuda, cuda:1 (the second GPU) and auto",
                          name == NULL ? "" : name);
    if (strcmp(name, "cpu") == 0) return train_device_cpu(context, device);
    if (strcmp(name, "auto") != 0) return train_device_cuda(context, gpu_of(name), device);
    circe_status status = train_device_cuda(context, 0, device);
    return status == CIRCE_ERR_UNSUPPORTED ? train_device_cpu(context, device) : status;
}

void train_device_destroy(train_device *device) {
    if (device != NULL) device->ops->close(device);
}
