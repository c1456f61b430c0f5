/* The library's context and workspace, according to the options. */
#pragma once

#include "circe/circe.h"
#include "circe/job.h"
#include "cli/own.h"

typedef struct session {
    circe_context *context;
    circe_workspace *workspace;
} session;

/* Prints what is wrong and returns an exit status. */
int session_open(const own_options *own, session *out);
void session_close(session *s);

/* If BLAS is slower here than it could be, says so once on standard error, with the remedy. */
void session_warn_of_blas(void);

/* "0.1.0, avx512 instructions, OpenBLAS 0.3.21 (SkylakeX), 2 threads": with what this session computes. */
const char *session_text(const session *s, char *text, size_t size);

/* The watch of a job: it shows progress as a bar, stops the job on Ctrl-C, and prints notes unless --quiet. */
circe_watch session_watch(const own_options *own);
