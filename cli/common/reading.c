/* From options to io_reading, and from tables to words. */
#include "cli/common/reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/output.h"
#include "io/nearest.h"

static const variable *const variables[] = {&variable_x, &variable_y, &variable_z};

static bool is_number(const char *text) { return text[0] != '\0' && strspn(text, "0123456789") == strlen(text); }

/* "z:age" is the column age of z. What stands before the colon, or NULL. */
static const variable *prefix_of(const char *item) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        size_t length = strlen(variables[i]->label);
        if (strncmp(item, variables[i]->label, length) == 0 && item[length] == ':') return variables[i];
    }
    return NULL;
}

static bool is_array_file(const char *path) {
    static const char *const endings[] = {".npy", ".npz", ".safetensors"};
    for (size_t i = 0; path != NULL && i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(path), m = strlen(endings[i]);
        if (n >= m && strcmp(path + n - m, endings[i]) == 0) return true;
    }
    return false;
}

static void add(reading *r, const char *name, int64_t item) {
    name_list_add(&r->categories, name);
    int64_t n = r->categories.n;
    int64_t *grown = realloc(r->item, (size_t)n * sizeof *grown);
    if (grown == NULL) {
        message_note("out of memory");
        exit(EXIT_WORK);
    }
    r->item = grown;
    r->item[n - 1] = item;
}

/* One item of --categories, as far as it concerns the variable: a column of the table, "z:age", or the variable itself
 * where it has a file, or an array, of its own. */
static int take_item(const args *arguments, const variable *of, const char *item, int64_t number, reading *r) {
    if (of == NULL) {
        add(r, item, number);
        return EXIT_DONE;
    }
    const char *data = args_text(arguments, OPT_DATA), *selection = args_text(arguments, of->option);
    const variable *prefix = prefix_of(item);
    bool own = data == NULL || is_array_file(data);
    if (prefix != NULL) {
        if (prefix == of) add(r, item + strlen(of->label) + 1, number);
        return EXIT_DONE;
    }
    if (own && is_number(item)) {
        message_note("--categories: column %s of which variable?", item);
        message_hint("x:%s, y:%s and z:%s are columns of one; x, y and z are all of their columns", item, item, item);
        return EXIT_INPUT;
    }
    bool whole = own && (strcmp(item, of->label) == 0 || (data != NULL && strcmp(item, selection) == 0));
    r->how.all = r->how.all || whole;
    add(r, item, number);
    return EXIT_DONE;
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
static int take_missing(const args *arguments, reading *r) {
    const char *text = args_text(arguments, OPT_NA);
    if (text == NULL) return EXIT_DONE;
    r->how.only_empty = strcmp(text, "none") == 0;
    return r->how.only_empty ? EXIT_DONE : name_list_split("na", text, &r->missing);
}

int reading_open(const args *arguments, const variable *of, reading *out) {
    name_list items = {0};
    *out = (reading){.how = {.decimal = args_choice(arguments, OPT_DECIMAL) == 1 ? ',' : '.'}};
    int status = take_missing(arguments, out);
    const char *text = args_text(arguments, OPT_CATEGORIES);
    if (status == EXIT_DONE && text != NULL) status = name_list_split("categories", text, &items);
    for (int64_t i = 0; i < items.n && status == EXIT_DONE; i++)
        status = take_item(arguments, of, items.names[i], i, out);
    name_list_free(&items);
    use(out);
    return status;
}

void reading_add_category(reading *r, const char *name) {
    if (name_list_find(&r->categories, name) < 0) add(r, name, -1);
    use(r);
}

void reading_free(reading *r) {
    name_list_free(&r->categories);
    name_list_free(&r->missing);
    free(r->item);
    free(r->found);
    *r = (reading){0};
}

/* ---- names that were not met ------------------------------------------------------------------------------------- */

bool *reading_met(const args *arguments, const reading *r) {
    name_list items = {0};
    const char *text = args_text(arguments, OPT_CATEGORIES);
    if (text == NULL || name_list_split("categories", text, &items) != EXIT_DONE) return NULL;
    bool *met = small_alloc((size_t)items.n * sizeof *met);
    for (int64_t c = 0; c < r->categories.n; c++) {
        if (r->item[c] < 0) continue;
        bool whole = r->how.all && prefix_of(items.names[r->item[c]]) == NULL;
        met[r->item[c]] = met[r->item[c]] || r->found[c] || whole;
    }
    name_list_free(&items);
    return met;
}

static int refuse_item(const char *item, input *const *group, int n) {
    enum { MOST = 64 };
    const char *names[MOST] = {NULL};
    size_t count = 0;
    for (int k = 0; k < n; k++) {
        const io_table *table = group[k]->described;
        for (int64_t c = 0; table->names != NULL && c < group[k]->values.cols && count < MOST; c++)
            names[count++] = table->names[c];
    }
    const char *nearest = io_nearest(item, names, count);
    message_note("--categories: '%s' is none of the columns that were read", item);
    if (nearest != NULL)
        message_hint("did you mean '%s'?", nearest);
    else if (count > 0)
        message_hint("they are '%s'%s%s%s%s", names[0], count > 1 ? ", '" : "", count > 1 ? names[1] : "",
                     count > 1 ? "'" : "", count > 2 ? ", ..." : "");
    else
        message_hint("their files have no names of columns: z is all of z, z:0 its first column");
    return EXIT_INPUT;
}

int reading_check(const args *arguments, input *const *group, int n) {
    name_list items = {0};
    const char *text = args_text(arguments, OPT_CATEGORIES);
    if (text == NULL) return EXIT_DONE;
    int status = name_list_split("categories", text, &items);
    for (int64_t i = 0; i < items.n && status == EXIT_DONE; i++) {
        bool met = false;
        for (int k = 0; k < n; k++) met = met || (group[k]->met != NULL && group[k]->met[i]);
        if (!met) status = refuse_item(items.names[i], group, n);
    }
    name_list_free(&items);
    return status;
}

/* ---- what was read ----------------------------------------------------------------------------------------------- */

static bool is_plain(const input *in, int64_t c) {
    const io_column *columns = in->described->columns;
    return columns == NULL || (columns[c].n_categories == 0 && columns[c].n_missing == 0);
}

static const char *because(const io_column *column) {
    return column->named ? "it was named so" : "no cell is a number";
}

static bool has_label(const input *in) {
    return in->of == &variable_x || in->of == &variable_y || in->of == &variable_z;
}

static char *name_of(const input *in, int64_t c) {
    const io_table *table = in->described;
    return table->names != NULL ? small_format("%s", table->names[c]) : small_format("%" PRId64, c);
}

static cJSON *describe(const input *in, int64_t c) {
    const io_column *column = &in->described->columns[c];
    cJSON *out = cJSON_CreateObject();
    char *name = name_of(in, c);
    if (has_label(in)) cJSON_AddStringToObject(out, "variable", in->of->label);
    cJSON_AddStringToObject(out, "column", name);
    cJSON_AddStringToObject(out, "read_as", column->n_categories > 0 ? "categories" : "numbers");
    if (column->n_categories > 0) {
        json_integer(out, "categories", column->n_categories);
        cJSON_AddStringToObject(out, "because", because(column));
    }
    if (column->n_missing > 0) json_integer(out, "missing", column->n_missing);
    free(name);
    return out;
}

void reading_json(cJSON *object, const input *const *group, int n) {
    cJSON *list = cJSON_AddArrayToObject(object, "columns");
    for (int k = 0; k < n; k++) {
        for (int64_t c = 0; c < group[k]->values.cols; c++) {
            if (!is_plain(group[k], c)) cJSON_AddItemToArray(list, describe(group[k], c));
        }
    }
}

void reading_text(const input *const *group, int n) {
    for (int k = 0; k < n; k++) {
        for (int64_t c = 0; c < group[k]->values.cols; c++) {
            const input *in = group[k];
            if (is_plain(in, c)) continue;
            const io_column *column = &in->described->columns[c];
            char *name = name_of(in, c), missing[64] = "";
            if (column->n_missing > 0)
                snprintf(missing, sizeof missing, "%s%" PRId64 " missing", column->n_categories > 0 ? "; " : ", ",
                         column->n_missing);
            if (column->n_categories > 0)
                text_row("read as", "%s%s%s: %" PRId64 " categories, since %s%s", has_label(in) ? in->of->label : "",
                         has_label(in) ? ", column " : "column ", name, column->n_categories, because(column), missing);
            else
                text_row("read as", "%s%s%s: numbers%s", has_label(in) ? in->of->label : "",
                         has_label(in) ? ", column " : "column ", name, missing);
            free(name);
        }
    }
}
