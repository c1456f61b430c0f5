/* The columns of an audit by their roles. */
#pragma once

#include <stdbool.h>

#include "circe/audit.h"
#include "io/list.h"
#include "jobs/audit_parts.h"

typedef struct audit_roles {
    name_list predictions, sensitive, given, numbers;
    const char *target;
    name_list parts; /* the columns of the attributes, one after another */
    int64_t *first;  /* (sensitive + 1): where those of each begin */
    name_list all;   /* every column once, those of the table first */
    int64_t n_read;  /* of the table */
} audit_roles;

/* joint: "race+sex" is one attribute of two columns, rather than a column of this name. made: predictions of a model,
 * which the table does not have; they come before those that it has. */
circe_status audit_roles_find(const circe_audit_options *options, const audit_model *made, bool joint,
                              audit_roles *roles);
void audit_roles_free(audit_roles *roles);
