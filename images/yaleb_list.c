/* The pictures of a folder: found in whatever order the file system has, kept by their names. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/owned.h"
#include "circe/status.h"
#include "images/yaleb.h"

enum { DEEPEST = 8 }; /* folders within folders: a link to a folder above ends there */

typedef struct found {
    yaleb_name name;
    char *path;
} found;

typedef struct search {
    found *items;
    int64_t n, room, bad, ambient, others;
} search;

static circe_status add(search *s, yaleb_name name, const char *path) {
    if (s->n == s->room) {
        int64_t room = s->room > 0 ? 2 * s->room : 1024;
        found *grown = realloc(s->items, (size_t)room * sizeof *grown);
        if (grown == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for the list of pictures", path);
        s->items = grown;
        s->room = room;
    }
    char *copy = strdup(path);
    if (copy == NULL) return circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory for the list of pictures", path);
    s->items[s->n].name = name;
    s->items[s->n++].path = copy;
    return CIRCE_OK;
}

static circe_status meet_file(search *s, const char *file, const char *path) {
    yaleb_name name = {0};
    switch (yaleb_parse_name(file, &name)) {
        case YALEB_PICTURE:
            return add(s, name, path);
        case YALEB_AMBIENT:
            s->ambient++;
            return CIRCE_OK;
        case YALEB_BAD:
            s->bad++;
            return CIRCE_OK;
        case YALEB_WRONG:
            return circe_fail(CIRCE_ERR_FORMAT,
                              "%s: the name of a picture must look like yaleB11_P00A+000E+00.pgm: identity, pose 00 to "
                              "08, azimuth and elevation of the lamp",
                              path);
        case YALEB_OTHER:
            s->others++;
            return CIRCE_OK;
    }
    return CIRCE_OK;
}

/* Follows the folders that are in it; `depth` is how deep it lies. */
static circe_status walk(search *s, const char *folder, int depth) {
    DIR *directory = opendir(folder);
    if (directory == NULL) return circe_fail(CIRCE_ERR_IO, "%s: cannot be read: %s", folder, strerror(errno));
    circe_status status = CIRCE_OK;
    for (struct dirent *entry; status == CIRCE_OK && (entry = readdir(directory)) != NULL;) {
        OWNED char *path = NULL;
        struct stat info;
        if (entry->d_name[0] == '.') continue;
        if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) {
            status = circe_fail(CIRCE_ERR_MEMORY, "%s: out of memory; cannot read it", folder);
            break;
        }
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            if (depth < DEEPEST) status = walk(s, path, depth + 1);
        } else {
            status = meet_file(s, entry->d_name, path);
        }
    }
    closedir(directory);
    return status;
}

static int by_name(const void *a, const void *b) {
    const found *one = a, *two = b;
    int order = yaleb_compare(&one->name, &two->name);
    return order != 0 ? order : strcmp(one->path, two->path);
}

static circe_status check_twice(const search *s) {
    for (int64_t i = 1; i < s->n; i++) {
        if (yaleb_compare(&s->items[i - 1].name, &s->items[i].name) == 0)
            return circe_fail(CIRCE_ERR_FORMAT, "%s and %s are the same picture: keep one", s->items[i - 1].path,
                              s->items[i].path);
    }
    return CIRCE_OK;
}

/* The paths move into the list. */
static circe_status fill(search *s, yaleb_list *list) {
    list->names = calloc((size_t)s->n, sizeof *list->names);
    list->paths = calloc((size_t)s->n, sizeof *list->paths);
    if (list->names == NULL || list->paths == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a list of %lld pictures", (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        list->names[i] = s->items[i].name;
        list->paths[i] = s->items[i].path;
        s->items[i].path = NULL;
        list->n_identities += i == 0 || list->names[i].identity != list->names[i - 1].identity;
    }
    list->n = s->n;
    list->bad = s->bad;
    list->ambient = s->ambient;
    return CIRCE_OK;
}

static circe_status list_sorted(search *s, const char *folder, yaleb_list *list) {
    circe_status status = walk(s, folder, 0);
    if (status != CIRCE_OK) return status;
    if (s->n == 0)
        return circe_fail(CIRCE_ERR_FORMAT,
                          "%s: it contains no picture with a name like yaleB11_P00A+000E+00.pgm; there are %lld "
                          "other files, %lld .bad and %lld ambient ones",
                          folder, (long long)s->others, (long long)s->bad, (long long)s->ambient);
    qsort(s->items, (size_t)s->n, sizeof *s->items, by_name);
    status = check_twice(s);
    return status == CIRCE_OK ? fill(s, list) : status;
}

circe_status yaleb_list_make(const char *folder, yaleb_list *list) {
    search s = {0};
    *list = (yaleb_list){0};
    circe_status status = list_sorted(&s, folder, list);
    for (int64_t i = 0; i < s.n; i++) free(s.items[i].path);
    free(s.items);
    if (status != CIRCE_OK) yaleb_list_free(list);
    return status;
}

void yaleb_list_free(yaleb_list *list) {
    for (int64_t i = 0; i < list->n; i++) free(list->paths[i]);
    free(list->paths);
    free(list->names);
    *list = (yaleb_list){0};
}
