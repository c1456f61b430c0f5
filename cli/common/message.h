/* What the command says on standard error, and the exit status that goes with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/small.h"
#include "circe/status.h"
#include "jobs/notes.h"

enum {
    EXIT_DONE = 0,
    EXIT_WORK = 1,  /* the work failed */
    EXIT_INPUT = 2, /* the command line or the input is wrong */
};

#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* The name that starts every message: "circe" until set, then "circe fit". */
void message_set_command(const char *name);

/* A text to put before every message, such as "run.yaml, line 3: ", until it is set to NULL again. Borrowed. */
void message_set_place(const char *place);

/* For a process whose messages another one prints: from now on nothing is printed here. message_held returns
 * the first message since then, without the name of the command. */
void message_hold(void);
void message_release(void); /* it has to print its own messages after all */
const char *message_held(void);

/* "circe fit: TEXT"; returns `status`, so that a refusal is one statement. */
int message_fail(int status, const char *format, ...) PRINTF_LIKE(2, 3);
void message_hint(const char *format, ...) PRINTF_LIKE(1, 2);
void message_note(const char *format, ...) PRINTF_LIKE(1, 2);

/* The exit status of a call of the library or of a job. If it failed, prints its text, whose further lines are
 * hints. */
int message_refused(circe_status status);
/* The same for a job that explains itself what an interrupted run leaves behind. */
int message_failed(circe_status status);

/* Prints, unless --quiet, what a finished job has to say about its data: rows left out, and its notes for the user. */
void message_data(bool quiet, int64_t dropped, const circe_notes *warnings);

/* Flushes and closes standard output; a full disk turns a 0 into EXIT_WORK. */
int message_close_stdout(int status);
