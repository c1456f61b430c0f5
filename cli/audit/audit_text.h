/* What an audit found, as text. */
#ifndef CLI_AUDIT_TEXT_H
#define CLI_AUDIT_TEXT_H

#include <stdbool.h>

#include "circe/audit.h"

/* On standard output; `folder` has its report. */
void audit_text(const circe_audit_result *result, const char *folder, bool quiet);

#endif
