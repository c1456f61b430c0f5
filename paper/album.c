/* Sets of pictures that the runs of this process share. A set that several runs use at a time is in memory once, at one
 * address, so that a GPU recognises it and has only one copy. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "images/dsprites.h"
#include "paper/paper_parts.h"

struct paper_album {
    char *path; /* NULL: dSprites as drawn */
    int64_t users;
    circe_context *context; /* not a run's: it lasts as long as the album */
    circe_tensor_file *file;
    uint8_t *drawn;
    paper_album *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and while a set is opened */
static paper_album *albums;

static bool is_of(const paper_album *album, const char *path) {
    return path == NULL || album->path == NULL ? path == album->path : strcmp(path, album->path) == 0;
}

static void destroy(paper_album *album) {
    circe_tensor_file_close(album->file);
    circe_context_destroy(album->context);
    free(album->drawn);
    free(album->path);
    free(album);
}

static circe_status make(const char *path, paper_album **made) {
    paper_album *album = small_alloc(sizeof *album);
    if (path != NULL) album->path = small_format("%s", path);
    circe_status status = circe_context_create(NULL, &album->context);
    if (status == CIRCE_OK)
        status = path != NULL ? circe_tensor_file_open(album->context, path, &album->file)
                              : dsprites_make(album->context, &album->drawn);
    if (status == CIRCE_OK)
        *made = album;
    else
        destroy(album);
    return status;
}

circe_status paper_album_open(const char *path, paper_album **album) {
    circe_status status = CIRCE_OK;
    *album = NULL;
    pthread_mutex_lock(&lock);
    paper_album *found = albums;
    while (found != NULL && !is_of(found, path)) found = found->next;
    if (found == NULL) {
        status = make(path, &found);
        if (status == CIRCE_OK) found->next = albums, albums = found;
    }
    if (status == CIRCE_OK) {
        found->users++;
        *album = found;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void paper_album_close(paper_album *album) {
    if (album == NULL) return;
    pthread_mutex_lock(&lock);
    if (--album->users == 0) {
        paper_album **at = &albums;
        while (*at != album) at = &(*at)->next;
        *at = album->next;
        destroy(album);
    }
    pthread_mutex_unlock(&lock);
}

const circe_tensor_file *paper_album_file(const paper_album *album) { return album->file; }

const uint8_t *paper_album_drawn(const paper_album *album) { return album->drawn; }
