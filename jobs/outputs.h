/* What a job is to write must not be what it reads. */
#ifndef JOBS_OUTPUTS_H
#define JOBS_OUTPUTS_H

#include "circe/options.h"

/* Checks, before long work, that the file that the option `name` names can be written, and that no other option names
 * it to be read. */
circe_status output_check(const circe_schema *schema, const void *options, const char *name);

#endif
