/* What a job reports while it runs: progress, and warnings, which go to the watch and into the result. */
#pragma once

#include "circe/job.h"

/* Where a job adds its warnings; zeros: no watch. */
typedef struct notes {
    char **text;
    size_t n;
    const circe_watch *watch; /* NULL: nobody */
} notes;

/* If there is no memory, a warning goes only to the watch. */
void notes_add(notes *to, const char *format, ...) CIRCE_PRINTF(2, 3);
void notes_free(notes *list);

/* For a result, which clears them. */
circe_notes notes_hand_over(notes *list);
void circe_notes_clear(circe_notes *list);

/* Told to the watch alone. */
void job_note(const circe_watch *watch, const char *format, ...) CIRCE_PRINTF(2, 3);

/* CIRCE_ERR_CANCELLED, with its text, if the watch asks to stop. */
circe_status job_progress(const circe_watch *watch, double done, const char *format, ...) CIRCE_PRINTF(3, 4);

/* The same for what reports steps: `watch` is a const circe_watch *, or NULL; not 0: stop. */
int job_step(void *watch, const char *stage, int64_t done, int64_t total);

/* Puts "SUBJECT: " before the text of the failure. */
circe_status job_about(circe_status status, const char *format, ...) CIRCE_PRINTF(2, 3);
