/* What the tests of train/ and images/ share: calls that must succeed, or be refused with a text, and a device that
 * counts its memory. */
#pragma once

#include <string.h>

#include "circe/status.h"
#include "tests/support.h"
#include "train/device.h"

#define train_ok(call) train_check(call, CIRCE_OK, "", #call, __FILE__, __LINE__)
#define train_refused(call, status, part) train_check(call, status, part, #call, __FILE__, __LINE__)

static inline void train_check(circe_status status, circe_status expected, const char *part, const char *call,
                               const char *file, int line) {
    if (status == expected && (status == CIRCE_OK || strstr(circe_last_error(), part) != NULL)) return;
    print_error("%s\n  gives %s, not %s with '%s': %s\n", call, circe_status_name(status), circe_status_name(expected),
                part, circe_last_error());
    _fail(file, line);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* One device at a time. */
typedef struct train_counter {
    train_device_ops ops;
    const train_device_ops *counted;
    int64_t allocations, live;
    int64_t fail_at; /* the number of the allocation that fails; -1: none */
} train_counter;

static train_counter train_counts;

static inline void *train_counting_allocate(train_device *device, size_t bytes) {
    if (train_counts.allocations++ == train_counts.fail_at) {
        circe_fail(CIRCE_ERR_MEMORY, "told to fail");
        return NULL;
    }
    train_counts.live++;
    return train_counts.counted->allocate(device, bytes);
}

static inline void train_counting_release(train_device *device, void *block) {
    train_counts.live -= block != NULL;
    train_counts.counted->release(device, block);
}

/* The device, which counts from now on. */
static inline train_device *train_counting(train_device *device) {
    train_counts = (train_counter){.ops = *device->ops, .counted = device->ops, .fail_at = -1};
    train_counts.ops.allocate = train_counting_allocate;
    train_counts.ops.release = train_counting_release;
    device->ops = &train_counts.ops;
    return device;
}

/* A predictor's file as versions without a checksum wrote it. */
static inline void remove_checksum(unsigned char *bytes, size_t length) {
    static const char key[] = "\"checksum\"", version[] = "\"format_version\":\"";
    int found = 0;
    for (size_t at = 0; at + sizeof version < length; at++) {
        if (memcmp(bytes + at, key, sizeof key - 1) == 0) bytes[at + 1] = 'k', found++;
        if (memcmp(bytes + at, version, sizeof version - 1) == 0) bytes[at + sizeof version - 1] -= 2, found++;
    }
    assert_int_equal(found, 2);
}
