/* Reads a whole file into memory instead of mapping it. If another program truncates a mapped file, SIGBUS ends this
 * process; if it writes to the file, numbers change after they were checked. The copy takes one or two milliseconds per
 * megabyte. The memory is an anonymous mapping, which grows by moving page tables instead of bytes and needs no
 * allocator. */
#define _GNU_SOURCE /* mremap */
#include "files/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 1 << 16 };

/* Room for this many bytes. */
static int resize(circe__mapped *file, size_t bytes) {
    void *data = file->mapped_bytes == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                         : mremap(file->data, file->mapped_bytes, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) return errno;
    file->data = data;
    file->mapped_bytes = bytes;
    return 0;
}

/* Fills the room, or as much of it as there is. */
static int read_more(int descriptor, circe__mapped *file, bool *ended) {
    while (file->bytes < file->mapped_bytes) {
        ssize_t got = read(descriptor, (char *)file->data + file->bytes, file->mapped_bytes - file->bytes);
        *ended = got == 0;
        if (*ended) return 0;
        if (got > 0) file->bytes += (size_t)got;
        if (got < 0 && errno != EINTR) return errno;
    }
    return 0;
}

static int read_plain(int descriptor, size_t bytes, circe__mapped *file) {
    bool ended = false;
    int problem = resize(file, bytes);
    if (problem == 0) problem = read_more(descriptor, file, &ended);
    return problem == 0 && ended ? CIRCE__CUT_SHORT : problem;
}

static int read_to_end(int descriptor, circe__mapped *file) {
    int problem = 0;
    for (bool ended = false; problem == 0 && !ended;) {
        if (file->mapped_bytes > SIZE_MAX / 4) return ENOMEM;
        problem = resize(file, file->mapped_bytes == 0 ? FIRST_BYTES : 2 * file->mapped_bytes);
        if (problem == 0) problem = read_more(descriptor, file, &ended);
    }
    return problem;
}

int circe__map_file(const char *path, circe__mapped *file) {
    struct stat info;
    int problem;
    *file = (circe__mapped){.data = NULL};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    if (fstat(descriptor, &info) != 0) {
        problem = errno;
    } else if (S_ISDIR(info.st_mode)) {
        problem = EISDIR;
    } else {
        file->plain = S_ISREG(info.st_mode);
        bool sized = file->plain && info.st_size > 0; /* files of /proc say that they are empty and are not */
        problem = sized ? read_plain(descriptor, (size_t)info.st_size, file) : read_to_end(descriptor, file);
    }
    close(descriptor);
    if (problem != 0) circe__unmap(file);
    return problem;
}

const char *circe__map_problem(int problem) {
    return problem == CIRCE__CUT_SHORT ? "it was cut short while it was read" : strerror(problem);
}

void circe__unmap(circe__mapped *file) {
    if (file->data != NULL) munmap(file->data, file->mapped_bytes);
    *file = (circe__mapped){.data = NULL};
}
