/* The device of tests by name: "cpu", "cuda", "cuda:1", "auto". */
#pragma once

#include <stdbool.h>

#include "circe/cuda.h"

typedef struct test_gpu {
    circe_cuda *cuda;
    circe_test_device *device; /* NULL: the CPU */
} test_gpu;

/* `shared`: other threads have theirs on the same GPU, and each queues its work by itself. */
circe_status test_gpu_open(circe_context *context, const char *name, bool shared, test_gpu *gpu);
void test_gpu_close(test_gpu *gpu);
