/* YAML to a tree.
 *
 * libyaml's time grows with the square of the depth: a file of 100,000 brackets takes a minute. So the events are
 * counted first, which stops at the first one that is too deep, long before the end. */
#include "cli/common/yaml_load.h"

#include <string.h>

#include "cli/common/message.h"

enum { MOST_BYTES = 1 << 20, MOST_DEPTH = 64 };

int yaml_load_text(const char *path, FILE *in, char **text, size_t *bytes) {
    *text = small_alloc(MOST_BYTES + 2);
    *bytes = fread(*text, 1, MOST_BYTES + 1, in);
    if (ferror(in) != 0) return message_fail(EXIT_INPUT, "%s: it cannot be read", path);
    if (*bytes > MOST_BYTES)
        return message_fail(EXIT_INPUT, "%s: it has more than a megabyte, which is no file of settings", path);
    if (strlen(*text) != *bytes) return message_fail(EXIT_INPUT, "%s: it is no text: it holds a byte 0", path);
    return EXIT_DONE;
}

static int change_of_depth(yaml_event_type_t type) {
    switch (type) {
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT:
            return 1;
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
            return -1;
        default:
            return 0;
    }
}

/* The line where it is too deep, or 0. What is no YAML is for the loader to refuse. */
static size_t too_deep(const char *text, size_t bytes) {
    yaml_parser_t parser;
    yaml_event_t event;
    size_t line = 0;
    if (yaml_parser_initialize(&parser) == 0) return 0;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    int depth = 0;
    for (bool ended = false; !ended && line == 0 && yaml_parser_parse(&parser, &event) != 0;) {
        depth += change_of_depth(event.type);
        if (depth > MOST_DEPTH) line = event.start_mark.line + 1;
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return line;
}

int yaml_load(const char *path, const char *text, size_t bytes, yaml_parser_t *parser, yaml_document_t *document,
              bool *sound) {
    *sound = false;
    size_t line = too_deep(text, bytes);
    if (yaml_parser_initialize(parser) == 0) return message_fail(EXIT_WORK, "out of memory");
    if (line > 0) {
        return message_fail(EXIT_INPUT, "%s, line %zu: more than %d lists or mappings stand within each other", path,
                            line, MOST_DEPTH);
    }
    yaml_parser_set_input_string(parser, (const unsigned char *)text, bytes);
    *sound = yaml_parser_load(parser, document) != 0;
    return EXIT_DONE;
}
