#include "jobs/test_gpu.h"

#include <string.h>

#include "train/device.h"

/* cudaStreamPerThread: the stream of the thread that calls. */
#define STREAM_PER_THREAD ((void *)2)

circe_status test_gpu_open(circe_context *context, const char *name, bool shared, test_gpu *gpu) {
    *gpu = (test_gpu){NULL, NULL};
    circe_status status = train_device_check(name);
    if (status != CIRCE_OK || strcmp(name, "cpu") == 0) return status;
    bool automatic = strcmp(name, "auto") == 0;
    status =
        circe_cuda_open(context, automatic ? 0 : train_device_gpu(name), shared ? STREAM_PER_THREAD : NULL, &gpu->cuda);
    if (status == CIRCE_ERR_UNSUPPORTED && automatic) return CIRCE_OK;
    if (status == CIRCE_OK) status = circe_cuda_test_device(gpu->cuda, &gpu->device);
    if (status != CIRCE_OK) test_gpu_close(gpu);
    return status;
}

void test_gpu_close(test_gpu *gpu) {
    circe_test_device_destroy(gpu->device);
    circe_cuda_close(gpu->cuda);
    *gpu = (test_gpu){NULL, NULL};
}
