/* Lists of names. Quotes are doubled inside of quotes, as in a .csv. */
#include "io/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/small.h"

void name_list_add(name_list *list, const char *name) {
    list->names = small_grow(list->names, (size_t)(list->n + 1) * sizeof *list->names);
    list->names[list->n++] = small_format("%s", name);
}

void name_list_free(name_list *list) {
    for (int64_t i = 0; i < list->n; i++) free(list->names[i]);
    free(list->names);
    *list = (name_list){0};
}

void name_list_add_once(name_list *list, const char *name) {
    if (name_list_find(list, name) < 0) name_list_add(list, name);
}

int64_t name_list_find(const name_list *list, const char *name) {
    for (int64_t i = 0; i < list->n; i++) {
        if (strcmp(list->names[i], name) == 0) return i;
    }
    return -1;
}

void name_list_put(FILE *out, const char *name) {
    if (strpbrk(name, ",\"") == NULL) {
        fputs(name, out);
        return;
    }
    fputc('"', out);
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '"') fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

char *name_list_join(const name_list *list) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    for (int64_t i = 0; i < list->n; i++) {
        if (i > 0) fputc(',', out);
        name_list_put(out, list->names[i]);
    }
    fclose(out);
    return text;
}

char **name_list_block(const name_list *list) {
    size_t bytes = (size_t)(list->n + 1) * sizeof(char *);
    for (int64_t i = 0; i < list->n; i++) bytes += strlen(list->names[i]) + 1;
    char **block = small_alloc(bytes);
    char *at = (char *)(block + list->n + 1);
    for (int64_t i = 0; i < list->n; i++) {
        block[i] = strcpy(at, list->names[i]);
        at += strlen(at) + 1;
    }
    return block;
}

/* Copies the name at *at, moves *at behind it and its comma. false: it was the last one. */
static bool take_name(const char **at, char *name) {
    const char *c = *at;
    bool quoted = *c == '"';
    if (quoted) c++;
    for (; *c != '\0' && (quoted || *c != ','); c++) {
        if (quoted && *c == '"') {
            if (c[1] != '"') {
                quoted = false;
                continue;
            }
            c++;
        }
        *name++ = *c;
    }
    *name = '\0';
    *at = *c == ',' ? c + 1 : c;
    return *c == ',';
}

/* A file's reader would take it for the end of a line, and the name for another. */
static bool has_control(const char *name) {
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < ' ' || *name == 127) return true;
    return false;
}

circe_status name_list_split(const char *option, const char *text, name_list *list) {
    OWNED char *name = small_alloc(strlen(text) + 1);
    const char *at = text;
    circe_status status = CIRCE_OK;
    *list = (name_list){0};
    for (bool more = true; more && status == CIRCE_OK;) {
        more = take_name(&at, name);
        if (name[0] == '\0')
            status = circe_fail(CIRCE_ERR_ARGUMENT, "--%s: there is an empty name in '%s'", option, text);
        else if (has_control(name))
            status = circe_fail(CIRCE_ERR_ARGUMENT,
                                "--%s: name %lld contains an invisible character, such as the \\r at the end of a "
                                "Windows line; remove it",
                                option, (long long)list->n + 1);
        else if (name_list_find(list, name) >= 0)
            status = circe_fail(CIRCE_ERR_ARGUMENT, "--%s: '%s' is named twice", option, name);
        else
            name_list_add(list, name);
    }
    if (status != CIRCE_OK) name_list_free(list);
    return status;
}
