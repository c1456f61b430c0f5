/* Pipes and gzip into files of memory. */
#include "io/place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/small.h"

enum { PIECE = 1 << 16, GZIP_OR_ZLIB = 15 + 32 };

/* ---- what was read already --------------------------------------------------------------------------------------- */

typedef struct kept {
    char *path;
    int descriptor;
    struct kept *next;
} kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool keeps;
static kept *first;

void io_keep_pipes(void) { keeps = true; }

static int find_kept(const char *path) {
    int descriptor = -1;
    pthread_mutex_lock(&lock);
    for (const kept *k = first; k != NULL && descriptor < 0; k = k->next)
        if (strcmp(k->path, path) == 0) descriptor = k->descriptor;
    pthread_mutex_unlock(&lock);
    return descriptor;
}

static void keep(const char *path, int descriptor) {
    kept *k = small_alloc(sizeof *k);
    pthread_mutex_lock(&lock);
    *k = (kept){small_format("%s", path), descriptor, first};
    first = k;
    pthread_mutex_unlock(&lock);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static ssize_t read_some(int descriptor, void *to, size_t bytes) {
    ssize_t got;
    do got = read(descriptor, to, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

static circe_status system_failed(const char *name) {
    return circe_fail(CIRCE_ERR_IO, "%s: %s", name, strerror(errno));
}

static circe_status copy(int from, const char *name, int to) {
    unsigned char piece[PIECE];
    for (ssize_t got; (got = read_some(from, piece, sizeof piece)) != 0;)
        if (got < 0 || !file_write_all(to, piece, (size_t)got)) return system_failed(name);
    return CIRCE_OK;
}

/* One piece of packed bytes. A file of gzip may be several, one after another. */
static circe_status unpack(z_stream *z, const char *name, int to, bool *whole) {
    unsigned char piece[PIECE];
    while (z->avail_in > 0) {
        if (*whole) inflateReset(z);
        z->next_out = piece;
        z->avail_out = sizeof piece;
        int status = inflate(z, Z_NO_FLUSH);
        *whole = status == Z_STREAM_END;
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            return circe_fail(CIRCE_ERR_FORMAT, "%s: its gzip is damaged: %s", name,
                              z->msg != NULL ? z->msg : zError(status));
        if (!file_write_all(to, piece, sizeof piece - z->avail_out)) return system_failed(name);
    }
    return CIRCE_OK;
}

static circe_status gunzip(int from, const char *name, int to) {
    unsigned char piece[PIECE];
    z_stream z = {0};
    bool whole = false;
    circe_status status = CIRCE_OK;
    if (lseek(from, 0, SEEK_SET) < 0) return system_failed(name);
    if (inflateInit2(&z, GZIP_OR_ZLIB) != Z_OK) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory", name);
    while (status == CIRCE_OK) {
        ssize_t got = read_some(from, piece, sizeof piece);
        if (got < 0) status = system_failed(name);
        if (got <= 0) break;
        z.next_in = piece;
        z.avail_in = (uInt)got;
        status = unpack(&z, name, to, &whole);
    }
    inflateEnd(&z);
    if (status == CIRCE_OK && !whole) return circe_fail(CIRCE_ERR_FORMAT, "%s: it ends within its gzip", name);
    return status;
}

static bool is_gzip(int descriptor) {
    unsigned char magic[2];
    return pread(descriptor, magic, sizeof magic, 0) == (ssize_t)sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

bool io_is_standard_input(const char *source) { return source[0] == '-' && (source[1] == '\0' || source[1] == ':'); }

static void use(io__place *place, int descriptor, bool own) {
    snprintf(place->path, sizeof place->path, "/proc/self/fd/%d", descriptor);
    place->file = place->path;
    place->descriptor = own ? descriptor : -1;
    place->plain = false;
}

/* A new file of memory, filled from *descriptor, which it takes the place of. */
static circe_status into_memory(int *descriptor, const char *name, circe_status (*fill)(int, const char *, int)) {
    int memory = memfd_create("circe", MFD_CLOEXEC);
    circe_status status = memory >= 0 ? fill(*descriptor, name, memory) : system_failed(name);
    close(*descriptor);
    *descriptor = memory;
    if (status != CIRCE_OK && memory >= 0) close(memory);
    return status;
}

static int open_stream(const char *path) {
    return io_is_standard_input(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
}

/* Standard input may be a plain file, which may have been read in part. */
static bool begins(int descriptor, bool plain) { return !plain || lseek(descriptor, 0, SEEK_CUR) == 0; }

static circe_status open_place(const char *path, const char *name, bool plain, io__place *place) {
    int descriptor = open_stream(path);
    circe_status status = CIRCE_OK;
    if (descriptor < 0) return CIRCE_OK;
    bool standard = io_is_standard_input(path), piped = !plain || (standard && !begins(descriptor, plain));
    if (piped) status = into_memory(&descriptor, name, copy);
    bool packed = status == CIRCE_OK && is_gzip(descriptor);
    if (packed) status = into_memory(&descriptor, name, gunzip);
    if (status != CIRCE_OK) return status;
    if (!piped && !packed && !standard) {
        close(descriptor);
        return CIRCE_OK;
    }
    use(place, descriptor, !keeps);
    if (keeps) keep(path, descriptor);
    return CIRCE_OK;
}

circe_status io__place_open(const char *path, io__place *place) {
    struct stat info;
    bool standard = io_is_standard_input(path);
    *place = (io__place){.file = path, .descriptor = -1, .plain = true};
    int before = find_kept(path);
    if (before >= 0) {
        use(place, before, false);
        return CIRCE_OK;
    }
    if (standard ? fstat(STDIN_FILENO, &info) != 0 : stat(path, &info) != 0) return CIRCE_OK;
    if (S_ISDIR(info.st_mode)) return CIRCE_OK;
    return open_place(path, standard ? "standard input" : path, S_ISREG(info.st_mode), place);
}

void io__place_close(io__place *place) {
    if (place->descriptor >= 0) close(place->descriptor);
    place->descriptor = -1;
}
