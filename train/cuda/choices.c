/* Keeps on disk which engine was the fastest for a convolution. A choice by the clock can differ every time, and with
 * it the bits of a run. An entry is never changed, so runs that share the file repeat each other.
 *
 *     $XDG_CACHE_HOME/circe/cudnn-engines (or ~/.cache/circe/...), lines of "key <tab> number"
 *
 * A key contains everything that the order of cuDNN's candidates depends on: its version, the GPU, precision and
 * shapes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/cuda/engines.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 512 };

static bool is_folder(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST; }

/* The file's path, with its folders made. */
static bool find_path(char *path, size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache != NULL && cache[0] == '/' ? snprintf(path, size, "%s", cache)
            : home != NULL && home[0] == '/' ? snprintf(path, size, "%s/.cache", home)
                                             : -1;
    if (n < 0 || (size_t)n + sizeof "/circe/cudnn-engines" > size || !is_folder(path)) return false;
    strcat(path, "/circe");
    if (!is_folder(path)) return false;
    strcat(path, "/cudnn-engines");
    return true;
}

static FILE *open_choices(int flags, const char *mode) {
    char path[PATH_BYTES];
    if (!find_path(path, sizeof path)) return NULL;
    int descriptor = open(path, flags | O_CLOEXEC, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, mode);
    if (file == NULL && descriptor >= 0) close(descriptor);
    return file;
}

/* A line that is incomplete, or is not ours, is ignored. */
static int look_up(FILE *file, const char *key) {
    char line[LINE_BYTES];
    size_t length = strlen(key);
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        if (strncmp(line, key, length) != 0 || line[length] != '\t') continue;
        long number = strtol(line + length + 1, &end, 10);
        if (end != line + length + 1 && *end == '\n' && number >= 0 && number < 1000) return (int)number;
    }
    return -1;
}

int train_cuda_choice_find(const char *key) {
    FILE *file = open_choices(O_RDONLY, "r");
    if (file == NULL) return -1;
    int number = look_up(file, key);
    fclose(file);
    return number;
}

bool train_cuda_choices_last(void) {
    FILE *file = open_choices(O_RDWR | O_CREAT | O_APPEND, "a+");
    if (file != NULL) fclose(file);
    return file != NULL;
}

bool train_cuda_choice_keep(const char *key, int *number) {
    FILE *file = open_choices(O_RDWR | O_CREAT | O_APPEND, "a+");
    if (file == NULL || strlen(key) + 8 > LINE_BYTES) {
        if (file != NULL) fclose(file);
        return false;
    }
    bool locked = flock(fileno(file), LOCK_EX) == 0; /* until it is closed */
    int kept = look_up(file, key);
    if (kept >= 0)
        *number = kept;
    else
        fprintf(file, "%s\t%d\n", key, *number);
    return fclose(file) == 0 && locked;
}
