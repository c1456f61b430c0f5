/* Lists of names as the command line writes them: a,b,"c,d". */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "circe/status.h"

typedef struct name_list {
    char **names; /* owned */
    int64_t n;
} name_list;

/* Takes a list apart; what is quoted is one name. An empty name or one that is named twice is refused, with the option
 * it was given with. */
circe_status name_list_split(const char *option, const char *text, name_list *list);
void name_list_add(name_list *list, const char *name);
void name_list_add_once(name_list *list, const char *name); /* unless it is among them */
void name_list_free(name_list *list);

/* -1: it is not among them. */
int64_t name_list_find(const name_list *list, const char *name);

/* One name, quoted where a list would otherwise be taken apart in it. */
void name_list_put(FILE *out, const char *name);

/* Pointers and their texts in one block, as a table has its names; to be freed. */
char **name_list_block(const name_list *list);

/* The list as name_list_split reads it; to be freed. */
char *name_list_join(const name_list *list);
