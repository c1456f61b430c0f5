/* A build without CUDA has no such device. */
#include "circe/status.h"
#include "train/device.h"

circe_status train_device_cuda(circe_context *context, int gpu, train_device **device) {
    (void)context, (void)gpu;
    *device = NULL;
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      "this build of circe has no CUDA: train on the CPU (--device cpu), or build it with "
                      "-DCIRCE_CUDA=ON (cmake --preset cuda)");
}

int train_gpus(void) { return 0; }
