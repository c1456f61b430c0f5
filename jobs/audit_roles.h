/* The columns of an audit by what they are for. */
#ifndef JOBS_AUDIT_ROLES_H
#define JOBS_AUDIT_ROLES_H

#include <stdbool.h>

#include "circe/audit.h"
#include "io/list.h"

typedef struct audit_roles {
    name_list predictions, sensitive, given, numbers;
    const char *target;
    name_list parts; /* the columns of the attributes, one after another */
    int64_t *first;  /* (sensitive + 1): where those of each begin */
    name_list all;   /* every column once */
} audit_roles;

/* joint: "race+sex" is one attribute of two columns, rather than a column of this name. */
circe_status audit_roles_find(const circe_audit_options *options, bool joint, audit_roles *roles);
void audit_roles_free(audit_roles *roles);

#endif
