/* The CPU as a device: its memory is the host's, its threads are the context's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "circe/status.h"
#include "train/cpu/cpu.h"
#include "train/parallel.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { ALIGNMENT = 64 }; /* a cache line, and an AVX-512 register */

/* calloc, whose large blocks are zero without being touched; the word before the block keeps where it starts. */
static void *allocate(train_device *device, size_t bytes) {
    size_t more = ALIGNMENT + sizeof(void *);
    char *raw = bytes > (size_t)PTRDIFF_MAX - more ? NULL : calloc(1, bytes + more);
    (void)device;
    if (raw == NULL) {
        circe_fail(CIRCE_ERR_MEMORY, "out of memory for a block of %.1f MB", (double)bytes / 1e6);
        return NULL;
    }
    uintptr_t start = ((uintptr_t)raw + more - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    char *block = raw + (start - (uintptr_t)raw);
    memcpy(block - sizeof(void *), &raw, sizeof raw);
    return block;
}

static void release(train_device *device, void *block) {
    void *raw;
    (void)device;
    if (block == NULL) return;
    memcpy(&raw, (char *)block - sizeof(void *), sizeof raw);
    free(raw);
}

static void copy(train_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(to, from, bytes);
}

/* ---- loops over numbers ------------------------------------------------------------------------------------------ */

enum { LEAST = 32768 }; /* numbers that are worth a thread */

typedef struct operands {
    float a;
    const float *x;
    float *y;
    const int64_t *index;
    int64_t cols;
} operands;

TRAIN_LOOP static void add_loop(int64_t n, float a, const float *restrict x, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

static void add_part(void *user, int64_t first, int64_t n) {
    const operands *o = user;
    add_loop(n, o->a, o->x + first, o->y + first);
}

static void add(train_device *device, int64_t n, float a, const float *x, float *y) {
    operands o = {.a = a, .x = x, .y = y};
    train_ranges(device->context, n, LEAST, add_part, &o);
}

static void zero(train_device *device, int64_t n, float *x) {
    (void)device;
    if (n > 0) memset(x, 0, (size_t)n * sizeof *x);
}

static void gather_part(void *user, int64_t first, int64_t n) {
    const operands *o = user;
    for (int64_t i = first; i < first + n; i++)
        memcpy(o->y + i * o->cols, o->x + o->index[i] * o->cols, (size_t)o->cols * sizeof *o->y);
}

static void gather(train_device *device, const float *from, int64_t cols, const int64_t *index, int64_t n, float *out) {
    operands o = {.x = from, .y = out, .index = index, .cols = cols};
    if (cols > 0) train_ranges(device->context, n, LEAST / cols + 1, gather_part, &o);
}

static void add_times(train_device *device, int64_t n, const double *a, const float *x, float *y) {
    add(device, n, (float)*a, x, y);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void pick(train_device *device, const void *blocks, size_t bytes, const int64_t *which, void *to) {
    copy(device, to, (const char *)blocks + (size_t)*which * bytes, bytes);
}

static void append(train_device *device, double *blocks, int64_t n, int64_t *which, const double *from) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite = finite && isfinite(from[i]);
    copy(device, blocks + *which * n, from, (size_t)n * sizeof *from);
    if (finite) ++*which;
}

/* The CPU as a device, with what `mark` keeps. */
typedef struct cpu_device {
    train_device device;
    double marks[2];
} cpu_device;

static void mark(train_device *device, int which) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ((cpu_device *)device)->marks[which] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double elapsed(train_device *device) {
    const cpu_device *cpu = (const cpu_device *)device;
    return cpu->marks[1] - cpu->marks[0];
}

static circe_status check(train_device *device) {
    (void)device;
    return CIRCE_OK;
}

static void close_device(train_device *device) { free(device); }

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const train_layer_ops *layer(train_layer_kind kind) {
    static const train_layer_ops *const layers[TRAIN_LAYER_KINDS] = {
        [TRAIN_DENSE] = &train_cpu_dense,
        [TRAIN_RELU] = &train_cpu_activation,
        [TRAIN_LEAKY_RELU] = &train_cpu_activation,
        [TRAIN_TANH] = &train_cpu_activation,
    };
    return layers[kind];
}

static const train_device_ops ops = {
    .name = "cpu",
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .check = check,
    .mark = mark,
    .elapsed = elapsed,
    .layer = layer,
#if CIRCE_ONEDNN
    .images = &train_cpu_images,
#endif
    .source_open = train_cpu_source_open,
    .source_close = train_cpu_source_close,
    .source_gather = train_cpu_source_gather,
    .gather = gather,
    .pick = pick,
    .append = append,
    .loss = train_cpu_loss,
    .add = add,
    .add_times = add_times,
    .adamw = train_cpu_adamw,
    .zero = zero,
};

circe_status train_device_cpu(circe_context *context, train_device **device) {
    cpu_device *made = calloc(1, sizeof *made);
    *device = NULL;
    if (made == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a device");
    made->device = (train_device){.ops = &ops, .context = context};
    *device = &made->device;
    return CIRCE_OK;
}
