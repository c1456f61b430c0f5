/* From options to io_reading. */
#include "io/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/small.h"

/* Whom an item of --categories may concern. */
typedef struct owner {
    const char *label, *selection; /* label NULL: a table that has all columns */
    bool own;
} owner;

static bool is_number(const char *text) { return text[0] != '\0' && strspn(text, "0123456789") == strlen(text); }

/* "z:age" is the column age of z. */
static bool has_prefix(const char *item) {
    return (item[0] == 'x' || item[0] == 'y' || item[0] == 'z') && item[1] == ':';
}

static void add(reading *r, const char *name, int64_t item) {
    name_list_add(&r->categories, name);
    r->item = small_grow(r->item, (size_t)r->categories.n * sizeof *r->item);
    r->item[r->categories.n - 1] = item;
}

/* One item of --categories, as far as it concerns the owner: a column of the table, "z:age", or the variable itself
 * where it has a file, or an array, of its own. */
static circe_status take_item(const owner *of, int64_t number, reading *r) {
    const char *item = r->items.names[number];
    if (of->label != NULL && has_prefix(item)) {
        size_t length = strlen(of->label);
        if (strncmp(item, of->label, length) == 0 && item[length] == ':') add(r, item + length + 1, number);
        return CIRCE_OK;
    }
    if (of->own && is_number(item)) {
        circe_fail(CIRCE_ERR_ARGUMENT, "--categories: column %s of which variable?", item);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT,
                               "write x:%s, y:%s or z:%s for one column; x, y and z mean all of their columns", item,
                               item, item);
    }
    bool named = of->own && of->label != NULL &&
                 (strcmp(item, of->label) == 0 || (of->selection != NULL && strcmp(item, of->selection) == 0));
    r->how.all = r->how.all || named;
    add(r, item, number);
    return CIRCE_OK;
}

static void use(reading *r) {
    size_t n = (size_t)(r->categories.n > 0 ? r->categories.n : 1);
    free(r->found);
    r->found = small_alloc(n * sizeof *r->found);
    r->how.categories = r->categories.names;
    r->how.n_categories = r->categories.n;
    r->how.found = r->found;
    r->how.missing = r->missing.names;
    r->how.n_missing = r->missing.n;
}

/* --na none: of the usual words, the empty cell alone. */
static circe_status take_missing(const char *text, reading *r) {
    if (text == NULL) return CIRCE_OK;
    r->how.only_empty = strcmp(text, "none") == 0;
    return r->how.only_empty ? CIRCE_OK : name_list_split("na", text, &r->missing);
}

static circe_status open_reading(const reading_options *options, const owner *of, reading *out) {
    bool comma = options->decimal != NULL && strcmp(options->decimal, ",") == 0;
    *out = (reading){.how = {.decimal = comma ? ',' : '.', .format = options->format}};
    circe_status status = take_missing(options->na, out);
    if (status == CIRCE_OK && options->categories != NULL)
        status = name_list_split("categories", options->categories, &out->items);
    for (int64_t i = 0; i < out->items.n && status == CIRCE_OK; i++) status = take_item(of, i, out);
    use(out);
    return status;
}

circe_status reading_open(const reading_options *options, reading *out) {
    return open_reading(options, &(owner){0}, out);
}

circe_status reading_open_for(const reading_options *options, const char *label, const char *selection, bool own,
                              reading *out) {
    return open_reading(options, &(owner){label, selection, own}, out);
}

void reading_add_category(reading *r, const char *name) {
    if (name_list_find(&r->categories, name) < 0) add(r, name, -1);
    use(r);
}

void reading_free(reading *r) {
    name_list_free(&r->items);
    name_list_free(&r->categories);
    name_list_free(&r->missing);
    free(r->item);
    free(r->found);
    *r = (reading){0};
}

bool *reading_met(const reading *r) {
    if (r->items.n == 0) return NULL;
    bool *met = small_alloc((size_t)r->items.n * sizeof *met);
    for (int64_t c = 0; c < r->categories.n; c++) {
        if (r->item[c] < 0) continue;
        bool whole = r->how.all && !has_prefix(r->items.names[r->item[c]]);
        met[r->item[c]] = met[r->item[c]] || r->found[c] || whole;
    }
    return met;
}
