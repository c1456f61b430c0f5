/* Many short texts without an allocation for each: lists of them, and dictionaries that number them. */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "io/io_parts.h"

bool io__texts_add(io__texts *texts, const char *text, size_t length) {
    size_t needed;
    if (__builtin_add_overflow(texts->used, length + 1, &needed)) return false;
    char *bytes = io__grow(texts->bytes, &texts->capacity, needed, 1);
    if (bytes == NULL) return false;
    texts->bytes = bytes;
    size_t *offsets = io__grow(texts->offsets, &texts->count_capacity, texts->count + 1, sizeof *offsets);
    if (offsets == NULL) return false;
    texts->offsets = offsets;
    memcpy(bytes + texts->used, text, length);
    bytes[texts->used + length] = '\0';
    offsets[texts->count++] = texts->used;
    texts->used = needed;
    return true;
}

const char *io__texts_get(const io__texts *texts, size_t index) { return texts->bytes + texts->offsets[index]; }

char **io__texts_block(const io__texts *texts) {
    size_t bytes;
    if (__builtin_mul_overflow(texts->count + 1, sizeof(char *), &bytes) ||
        __builtin_add_overflow(bytes, texts->used, &bytes))
        return NULL;
    char **block = malloc(bytes);
    if (block == NULL) return NULL;
    char *copies = (char *)(block + texts->count + 1);
    if (texts->used > 0) memcpy(copies, texts->bytes, texts->used);
    for (size_t i = 0; i < texts->count; i++) block[i] = copies + texts->offsets[i];
    block[texts->count] = NULL;
    return block;
}

void io__texts_free(io__texts *texts) {
    free(texts->bytes);
    free(texts->offsets);
    memset(texts, 0, sizeof *texts);
}

static size_t hash(const char *text, size_t length) {
    uint64_t sum = circe__hash(CIRCE__HASH_START, text, length);
    return (size_t)(sum ^ sum >> 32);
}

/* The slot that holds the text, or the free one where it belongs. There always is a free one. */
static size_t find_slot(const io__dictionary *dictionary, const char *text, size_t length) {
    size_t mask = dictionary->n_slots - 1, slot = hash(text, length) & mask;
    while (dictionary->slots[slot] != 0) {
        const char *held = io__texts_get(&dictionary->texts, dictionary->slots[slot] - 1);
        if (strncmp(held, text, length) == 0 && held[length] == '\0') break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

/* Keeps at least half of the slots free. */
static bool make_room(io__dictionary *dictionary) {
    io__dictionary larger = *dictionary;
    if (dictionary->texts.count < dictionary->n_slots / 2) return true;
    larger.n_slots = dictionary->n_slots == 0 ? 64 : 4 * dictionary->n_slots;
    larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (size_t code = 0; code < dictionary->texts.count; code++) {
        const char *text = io__texts_get(&dictionary->texts, code);
        larger.slots[find_slot(&larger, text, strlen(text))] = code + 1;
    }
    free(dictionary->slots);
    *dictionary = larger;
    return true;
}

bool io__dictionary_code(io__dictionary *dictionary, const char *text, size_t length, size_t *code) {
    if (!make_room(dictionary)) return false;
    size_t slot = find_slot(dictionary, text, length);
    if (dictionary->slots[slot] == 0) {
        if (!io__texts_add(&dictionary->texts, text, length)) return false;
        dictionary->slots[slot] = dictionary->texts.count;
    }
    *code = dictionary->slots[slot] - 1;
    return true;
}

void io__dictionary_free(io__dictionary *dictionary) {
    io__texts_free(&dictionary->texts);
    free(dictionary->slots);
    memset(dictionary, 0, sizeof *dictionary);
}
