/* Files of settings: the tree with its lines, what is refused, and structs by a table of fields, from YAML and through
 * JSON and back. */
#include <float.h>

#include "io/fields.h"
#include "tests/support.h"

static const char *write_file(const char *text) {
    const char *path = test_path("file.yaml");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void refused(const char *text, const char *words) {
    io_yaml *file = NULL;
    assert_int_equal(io_yaml_read(write_file(text), &file), CIRCE_ERR_FORMAT);
    assert_null(file);
    assert_non_null(strstr(circe_last_error(), words));
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

static void nodes_know_their_lines(void **state) {
    (void)state;
    io_yaml *file = NULL;
    assert_int_equal(io_yaml_read(write_file("a: 1\n\nb:\n  - x\n  - 'null'\nc: null\nd: {}\n"), &file), CIRCE_OK);
    assert_int_equal(file->root->kind, IO_YAML_MAPPING);
    assert_int_equal(file->root->n, 4);
    const io_yaml_node *list = io_yaml_find(file->root, "b");
    assert_int_equal(list->kind, IO_YAML_LIST);
    assert_int_equal(list->n, 2);
    assert_int_equal(list->items[1]->line, 5);
    assert_string_equal(list->items[1]->text, "null"); /* quoted, it is a text */
    assert_null(io_yaml_find(file->root, "c")->text);
    assert_int_equal(io_yaml_find(file->root, "d")->n, 0);
    assert_null(io_yaml_find(file->root, "e"));
    assert_null(io_yaml_find(list, "e"));
    io_yaml_free(file);
}

static void an_alias_is_what_it_stands_for(void **state) {
    (void)state;
    io_yaml *file = NULL;
    assert_int_equal(io_yaml_read(write_file("a: &x [1, 2]\nb: *x\nc: &y [*y]\n"), &file), CIRCE_OK);
    assert_ptr_equal(io_yaml_find(file->root, "a"), io_yaml_find(file->root, "b"));
    const io_yaml_node *itself = io_yaml_find(file->root, "c");
    assert_ptr_equal(itself->items[0], itself);
    io_yaml_free(file);
}

static void what_is_no_file_of_settings(void **state) {
    (void)state;
    io_yaml *file = NULL;
    assert_int_equal(io_yaml_read("/nonexistent/x.yaml", &file), CIRCE_ERR_IO);
    assert_int_equal(io_yaml_read(test_directory(), &file), CIRCE_ERR_IO);
    assert_int_equal(io_yaml_read(write_file("# nothing\n"), &file), CIRCE_OK);
    assert_null(file->root);
    io_yaml_free(file);
    refused("a: [1\nb: 2\n", "line 2: not YAML");
    size_t bytes = (1 << 20) + 2;
    char *text = test_memory(bytes + 1);
    memset(text, '#', bytes);
    refused(text, "larger than a megabyte");
    memset(text, '[', 65);
    text[65] = '\0';
    refused(text, "are nested more than");
}

/* ---- structs ----------------------------------------------------------------------------------------------------- */

typedef struct thing {
    const char *name;
    int colour;
    int64_t size;
    bool loud;
    io_numbers weights;
} thing;

static const io_field thing_fields[] = {
    {"name", FIELD_NAME, offsetof(thing, name), .example = "a", .required = true},
    {"colour", FIELD_WORD, offsetof(thing, colour), .example = "red", .words = "red|green"},
    {"size", FIELD_WHOLE, offsetof(thing, size), .example = "3", .low = 1, .high = 9},
    {"loud", FIELD_TRUTH, offsetof(thing, loud), .example = "true"},
    {"weights", FIELD_NUMBERS, offsetof(thing, weights), .example = "[1]", .low = DBL_MIN, .high = INFINITY},
};
static void init_thing(void *part) { *(thing *)part = (thing){.size = 5}; }
static const io_fields thing_table = {"a thing", thing_fields, COUNT(thing_fields), sizeof(thing), init_thing, NULL, 1};

typedef struct things {
    io_parts list;
} things;

static const io_field things_fields[] = {
    {"things", FIELD_PARTS, offsetof(things, list), .example = "", .part = &thing_table},
    {"later", FIELD_LATER, .example = ""},
};
static const io_fields things_table = {"things", things_fields, COUNT(things_fields), sizeof(things), NULL, NULL, 0};

static const char whole[] =
    "things:\n  - {name: one, colour: green, weights: [0.1, 2]}\n  - {name: two, size: 7}\n"
    "later:\n  things:\n    - {name: two, loud: true}\n";

static void structs_and_what_is_read_over_them(void **state) {
    (void)state;
    arena owner = {0};
    io_yaml *file = NULL;
    things read = {0};
    assert_int_equal(io_yaml_read(write_file(whole), &file), CIRCE_OK);
    assert_int_equal(io_fields_read(file, &things_table, &owner, &read), CIRCE_OK);
    const thing *all = read.list.items;
    assert_int_equal(read.list.n, 2);
    assert_int_equal(all[0].colour, 1);
    assert_int_equal(all[0].size, 5);
    assert_true(all[0].weights.values[0] == 0.1);
    assert_int_equal(io_fields_read_over(file, io_yaml_find(file->root, "later"), &things_table, &owner, &read),
                     CIRCE_OK);
    all = read.list.items;
    assert_int_equal(read.list.n, 1);
    assert_true(all[0].loud);
    assert_int_equal(all[0].size, 7); /* of the one that is named */
    io_yaml_free(file);
    arena_free(&owner);
}

static void refusals_name_line_and_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"things:\n  - {name: a, colour: gren}\n", "line 2, key 'colour': it must be one of red|green, not 'gren'\n"},
        {"things:\n  - {name: a, colour: gren}\n", "did you mean green?"},
        {"things:\n  - {name: a, siz: 1}\n", "a thing has no such key\ndid you mean size?"},
        {"things:\n  - {name: a, size: 1e0}\n", "a whole number is expected, as in size: 3, not '1e0'"},
        {"things:\n  - {name: a, size: 10}\n", "it must be from 1 to 9, not 10"},
        {"things:\n  - {name: a, weights: [0]}\n", "it must be greater than 0, not 0"},
        {"things:\n  - {name: a, weights: [1, 1.0]}\n", "1 is in the list twice"},
        {"things:\n  - {name: a}\n  - {name: a}\n", "two elements are called 'a'"},
        {"things:\n  - {size: 1}\n", "a thing lacks the key 'name', as in name: a"},
        {"things: {name: a}\n", "a list is expected"},
        {"things:\n  - {name: a, name: b}\n", "it already occurs in line 2"},
        {"- a\n", "line 1: things is expected"},
        {"", "it is empty"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        arena owner = {0};
        io_yaml *file = NULL;
        things read = {0};
        assert_int_equal(io_yaml_read(write_file(cases[i].text), &file), CIRCE_OK);
        assert_int_equal(io_fields_read(file, &things_table, &owner, &read), CIRCE_ERR_FORMAT);
        if (strstr(circe_last_error(), cases[i].words) == NULL) fail_msg("%s", circe_last_error());
        io_yaml_free(file);
        arena_free(&owner);
    }
}

static void through_json_and_back(void **state) {
    (void)state;
    double weights[] = {0.1, 1e300};
    thing one = {.name = "x", .colour = 1, .size = 2, .loud = true, .weights = {weights, 2}}, back;
    arena owner = {0};
    cJSON *json = cJSON_CreateObject();
    io_fields_put(json, &thing_table, &one);
    char *text = json_utf8(json, false);
    cJSON_Delete(json);
    json = cJSON_Parse(text);
    io_json_reader reader = {.owner = &owner};
    io_fields_get(&reader, json, &thing_table, &back);
    assert_null(reader.missing);
    assert_string_equal(back.name, "x");
    assert_int_equal(back.colour, 1);
    assert_int_equal(back.size, 2);
    assert_true(back.loud);
    assert_memory_equal(back.weights.values, weights, sizeof weights);
    cJSON_DeleteItemFromObject(json, "size");
    io_fields_get(&reader, json, &thing_table, &back);
    assert_string_equal(reader.missing, "size");
    free(text);
    cJSON_Delete(json);
    arena_free(&owner);
}

TEST_MAIN("yaml", TEST(nodes_know_their_lines), TEST(an_alias_is_what_it_stands_for), TEST(what_is_no_file_of_settings),
          TEST(structs_and_what_is_read_over_them), TEST(refusals_name_line_and_key), TEST(through_json_and_back))
