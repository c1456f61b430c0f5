/* Memory: aligned blocks from the context's allocator, scratch slots, and the estimate of what is free. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

/* One cache line and one AVX-512 register. */
enum { ALIGNMENT = 64 };

/* What lies before a block. */
typedef struct header {
    void *raw, *user;
    void (*release)(void *user, void *raw);
} header;

void *circe__alloc(const circe_context *context, int64_t count, size_t size) {
    const circe_allocator *allocator = &context->options.allocator;
    size_t bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes) ||
        bytes > (size_t)PTRDIFF_MAX - ALIGNMENT - sizeof(header)) {
        circe_fail(CIRCE_ERR_MEMORY, "a block of %lld times %zu bytes is larger than this machine can address",
                   (long long)count, size);
        return NULL;
    }
    char *raw = allocator->allocate(allocator->user, bytes + ALIGNMENT + sizeof(header));
    if (raw == NULL) {
        circe_fail(CIRCE_ERR_MEMORY, "no memory for a block of %.1f MB", (double)bytes / 1e6);
        return NULL;
    }
    uintptr_t start = ((uintptr_t)raw + sizeof(header) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    void *block = raw + (start - (uintptr_t)raw);
    ((header *)block)[-1] = (header){raw, allocator->user, allocator->release};
    return block;
}

void *circe__calloc(const circe_context *context, int64_t count, size_t size) {
    void *block = circe__alloc(context, count, size);
    if (block != NULL) memset(block, 0, (size_t)count * size);
    return block;
}

void circe__free(const circe_context *context, void *block) {
    if (block != NULL) context->options.allocator.release(context->options.allocator.user, ((header *)block)[-1].raw);
}

void circe__free_local(void *local) {
    header *block;
    memcpy(&block, local, sizeof block); /* the local is a pointer to any type */
    if (block != NULL) block[-1].release(block[-1].user, block[-1].raw);
}

char *circe__strdup(const circe_context *context, const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = circe__alloc(context, (int64_t)length, 1);
    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}

/* MemAvailable counts what the page cache would give back, which _SC_AVPHYS_PAGES does not. */
static double machine_available(void) {
    double kilobytes = -1.0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    if (file != NULL) {
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "MemAvailable: %lf kB", &kilobytes) == 1) break;
        fclose(file);
    }
    if (kilobytes >= 0.0) return 1024.0 * kilobytes;
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* A container's own limit, where control groups (version 2) set one; infinity otherwise. */
static double group_available(void) {
    double limit = -1.0, used = 0.0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (file != NULL) {
        if (fscanf(file, "%lf", &limit) != 1) limit = -1.0; /* "max" */
        fclose(file);
    }
    if (limit < 0.0) return 1e300;
    file = fopen("/sys/fs/cgroup/memory.current", "r");
    if (file != NULL) {
        if (fscanf(file, "%lf", &used) != 1) used = 0.0;
        fclose(file);
    }
    return limit > used ? limit - used : 0.0;
}

double circe__memory_available(const circe_context *context) {
    if (context->options.memory_limit > 0) return (double)context->options.memory_limit;
    double machine = machine_available(), group = group_available();
    return machine < group ? machine : group;
}

circe_status circe__memory_check(const circe_context *context, double bytes, const char *what, const char *remedy) {
    double available = circe__memory_available(context);
    if (bytes <= available) return CIRCE_OK;
    bool small = bytes < 1e9; /* and so is what is available */
    double unit = small ? 1e6 : 1e9;
    return circe_fail(CIRCE_ERR_MEMORY, "%s needs about %.1f %s, but %.1f %s are available; %s", what, bytes / unit,
                      small ? "MB" : "GB", available / unit, small ? "MB" : "GB", remedy);
}

circe_status circe_workspace_create(circe_context *context, circe_workspace **workspace) {
    if (context == NULL || workspace == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context and workspace must not be NULL");
    *workspace = circe__calloc(context, 1, sizeof **workspace);
    if (*workspace == NULL) return CIRCE_ERR_MEMORY;
    (*workspace)->context = context;
    return CIRCE_OK;
}

void circe_workspace_destroy(circe_workspace *workspace) {
    if (workspace == NULL) return;
    for (int slot = 0; slot < CIRCE__N_SLOTS; slot++) circe__free(workspace->context, workspace->blocks[slot]);
    circe__free(workspace->context, workspace);
}

void circe_workspace_set_ranks(circe_workspace *workspace, const circe_ranks *ranks) {
    workspace->ranks = ranks != NULL ? *ranks : (circe_ranks){0};
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Divided by the largest first: the sum of large weights may overflow. */
circe_status circe__weights_normalize(const double *weights, int64_t n, double *out, int64_t *positive) {
    double largest = 0.0, sum = 0.0;
    *positive = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0.0) || !isfinite(weights[i]))
            return circe_fail(CIRCE_ERR_VALUE, "the weight of row %lld is %g; a weight must be a number, at least 0",
                              (long long)i, weights[i]);
        largest = fmax(largest, weights[i]);
    }
    if (!(largest > 0.0)) return circe_fail(CIRCE_ERR_VALUE, "all weights are 0, so no rows are left");
    for (int64_t i = 0; i < n; i++) {
        out[i] = weights[i] / largest;
        sum += out[i];
        *positive += out[i] > 0.0;
    }
    for (int64_t i = 0; i < n; i++) out[i] *= (double)*positive / sum;
    return CIRCE_OK;
}

/* Equal weights are none, to the last bit. The slot holds weights and roots, and two columns of scratch (estimator.c).
 */
circe_status circe_workspace_set_weights(circe_workspace *workspace, const double *weights, int64_t n) {
    if (workspace == NULL || n < 0 || (weights != NULL && n == 0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "workspace must not be NULL, and there must be at least one weight");
    circe__weights_used(workspace);
    if (weights == NULL) return CIRCE_OK;
    double *own = circe__take(workspace, CIRCE__SLOT_WEIGHTS, 4 * n, sizeof *own);
    if (own == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__weights_normalize(weights, n, own, &workspace->n_weighted);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < n; i++) own[n + i] = sqrt(own[i]);
    workspace->n_given = n;
    workspace->n_weights = circe__all_equal(own, n) ? 0 : n;
    return CIRCE_OK;
}

circe_status circe__check_weights(const circe_workspace *workspace, int64_t rows) {
    if (workspace->n_given == 0 || workspace->n_given == rows) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE, "there are %lld weights for %lld rows; there must be one for each row",
                      (long long)workspace->n_given, (long long)rows);
}

size_t circe_workspace_bytes(const circe_workspace *workspace) {
    size_t total = 0;
    for (int slot = 0; slot < CIRCE__N_SLOTS; slot++) total += workspace->bytes[slot];
    return total;
}

void *circe__take(circe_workspace *workspace, circe__slot slot, int64_t count, size_t size) {
    size_t bytes;
    if (count >= 0 && !__builtin_mul_overflow((size_t)count, size, &bytes) && workspace->blocks[slot] != NULL &&
        bytes <= workspace->bytes[slot])
        return workspace->blocks[slot];
    void *grown = circe__alloc(workspace->context, count, size);
    if (grown == NULL) return NULL;
    circe__free(workspace->context, workspace->blocks[slot]);
    workspace->blocks[slot] = grown;
    workspace->bytes[slot] = (size_t)count * size;
    return grown;
}
