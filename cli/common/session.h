/* The library's context and workspace as the options ask for them. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "circe/circe.h"
#include "parse.h"

typedef struct session {
    circe_context *context;
    circe_workspace *workspace;
} session;

/* Prints what is wrong and returns an exit status. */
int session_open(const args *arguments, session *out);
void session_close(session *s);

/* Seconds on a clock that only moves forward. */
double session_clock(void);

#endif
