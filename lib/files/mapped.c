/* A whole file in memory: a plain file is mapped; a pipe or a device is read to its end into an anonymous mapping that
 * grows by moving page tables, not bytes. Either way it is released by munmap and needs no allocator. */
#define _GNU_SOURCE /* mremap */
#include "files/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 1 << 16 };

static bool map_plain(int descriptor, size_t bytes, circe__mapped *file) {
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return false;
    file->data = data;
    file->bytes = file->mapped_bytes = bytes;
    return true;
}

static int grow(circe__mapped *file) {
    size_t bytes = file->mapped_bytes == 0 ? FIRST_BYTES : 2 * file->mapped_bytes;
    if (bytes > SIZE_MAX / 4) return ENOMEM;
    void *data = file->mapped_bytes == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                         : mremap(file->data, file->mapped_bytes, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) return errno;
    file->data = data;
    file->mapped_bytes = bytes;
    return 0;
}

static int read_to_end(int descriptor, circe__mapped *file) {
    for (;;) {
        if (file->bytes == file->mapped_bytes) {
            int problem = grow(file);
            if (problem != 0) return problem;
        }
        ssize_t got = read(descriptor, (char *)file->data + file->bytes, file->mapped_bytes - file->bytes);
        if (got == 0) return 0;
        if (got > 0) file->bytes += (size_t)got;
        if (got < 0 && errno != EINTR) return errno;
    }
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
        /* Files of /proc say that they are empty and are not; some file systems do not map. */
        bool mapped = file->plain && info.st_size > 0 && map_plain(descriptor, (size_t)info.st_size, file);
        problem = mapped ? 0 : read_to_end(descriptor, file);
    }
    close(descriptor);
    if (problem != 0) circe__unmap(file);
    return problem;
}

void circe__unmap(circe__mapped *file) {
    if (file->data != NULL) munmap(file->data, file->mapped_bytes);
    *file = (circe__mapped){.data = NULL};
}
