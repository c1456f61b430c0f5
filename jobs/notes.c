#include "jobs/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void notes_add(notes *to, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if (to->watch != NULL && to->watch->warning != NULL) to->watch->warning(to->watch->user, text);
    char **grown = realloc(to->text, (to->n + 1) * sizeof *grown);
    if (grown == NULL) {
        free(text);
        return;
    }
    to->text = grown;
    to->text[to->n++] = text;
}

void circe_notes_clear(circe_notes *list) {
    for (size_t i = 0; i < list->n; i++) free(list->text[i]);
    free(list->text);
    *list = (circe_notes){0};
}

circe_notes notes_hand_over(notes *list) {
    circe_notes handed = {list->text, list->n};
    list->text = NULL;
    list->n = 0;
    return handed;
}

void notes_free(notes *list) {
    circe_notes handed = notes_hand_over(list);
    circe_notes_clear(&handed);
}

void job_note(const circe_watch *watch, const char *format, ...) {
    char text[512];
    if (watch == NULL || watch->note == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    watch->note(watch->user, text);
}

circe_status job_progress(const circe_watch *watch, double done, const char *format, ...) {
    char text[256];
    if (watch == NULL || watch->progress == NULL) return CIRCE_OK;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return watch->progress(watch->user, done, text) == 0 ? CIRCE_OK
                                                         : circe_fail(CIRCE_ERR_CANCELLED, "stopped by the caller");
}

int job_step(void *watch, const char *stage, int64_t done, int64_t total) {
    return total > 0 && job_progress(watch, (double)done / (double)total, "%s", stage) != CIRCE_OK;
}

circe_status job_about(circe_status status, const char *format, ...) {
    char subject[256], text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(subject, sizeof subject, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s", circe_last_error());
    return circe_fail(status, "%s: %s", subject, text);
}
