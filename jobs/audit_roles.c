/* Which columns are predictions, target and attributes. */
#include "jobs/audit_roles.h"

#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "io/suggest.h"

static circe_status check_roles(const audit_roles *r) {
    for (int64_t i = 0; i < r->parts.n; i++) {
        const char *name = r->parts.names[i];
        if (strcmp(name, r->target) == 0)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--sensitive '%s' is the target: once the target is known, nothing can depend on it",
                              name);
        if (name_list_find(&r->predictions, name) >= 0)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--sensitive '%s' is a prediction, and every prediction depends on itself", name);
    }
    if (name_list_find(&r->predictions, r->target) >= 0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--prediction '%s' is the target: name the column with the predictions",
                          r->target);
    return CIRCE_OK;
}

static circe_status check_given(const audit_roles *r) {
    for (int64_t i = 0; i < r->given.n; i++) {
        const char *name = r->given.names[i];
        bool target = strcmp(name, r->target) == 0;
        if (target || name_list_find(&r->predictions, name) >= 0)
            return circe_fail(CIRCE_ERR_ARGUMENT, "--given '%s' is %s: --notion decides whether it is given", name,
                              target ? "the target" : "a prediction");
        if (name_list_find(&r->parts, name) >= 0)
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "'%s' is in --given and in --sensitive: once it is known, nothing can depend on it",
                              name);
    }
    return CIRCE_OK;
}

static circe_status check_numbers(const audit_roles *r) {
    for (int64_t i = 0; i < r->numbers.n; i++) {
        const char *name = r->numbers.names[i];
        if (name_list_find(&r->all, name) >= 0) continue;
        const char *nearest = suggest_nearest(name, (const char *const *)r->all.names, (size_t)r->all.n);
        circe_fail(CIRCE_ERR_ARGUMENT, "--numbers: '%s' is not a column of this audit", name);
        return nearest != NULL ? circe_fail_hint(CIRCE_ERR_ARGUMENT, "did you mean '%s'?", nearest)
                               : CIRCE_ERR_ARGUMENT;
    }
    return CIRCE_OK;
}

/* Refuses line ends in names, because they would end the list of columns. */
static circe_status check_names(const audit_roles *r) {
    for (int64_t i = 0; i < r->all.n; i++) {
        const char *name = r->all.names[i];
        if (strpbrk(name, "\r\n") != NULL)
            return circe_fail(CIRCE_ERR_ARGUMENT, "a column name contains a line break: '%.*s'",
                              (int)strcspn(name, "\r\n"), name);
    }
    return CIRCE_OK;
}

/* race+, race+race */
static circe_status check_joint(const audit_roles *r) {
    for (int64_t i = 0; i < r->sensitive.n; i++) {
        for (int64_t k = r->first[i]; k < r->first[i + 1]; k++) {
            const char *name = r->parts.names[k];
            if (name[0] == '\0')
                return circe_fail(CIRCE_ERR_ARGUMENT, "--sensitive '%s': there is no column name on one side of the +",
                                  r->sensitive.names[i]);
            for (int64_t j = r->first[i]; j < k; j++)
                if (strcmp(r->parts.names[j], name) == 0)
                    return circe_fail(CIRCE_ERR_ARGUMENT, "--sensitive '%s' names '%s' twice", r->sensitive.names[i],
                                      name);
        }
    }
    return CIRCE_OK;
}

/* "race+sex" is race and sex, unless it is a column itself. */
static void split_joint(const char *name, bool joint, name_list *parts) {
    const char *at = name;
    for (size_t length; joint && (length = strcspn(at, "+")) < strlen(at); at += length + 1) {
        OWNED char *part = small_format("%.*s", (int)length, at);
        name_list_add(parts, part);
    }
    name_list_add(parts, at);
}

static circe_status split_predictions(const circe_audit_options *o, const audit_model *made, audit_roles *r) {
    circe_status status = CIRCE_OK;
    OWNED_BY(name_list_free) name_list own = {0};
    for (int64_t i = 0; i < made->names.n; i++) name_list_add(&r->predictions, made->names.names[i]);
    if (o->prediction != NULL) status = name_list_split("prediction", o->prediction, &own);
    for (int64_t i = 0; i < own.n && status == CIRCE_OK; i++) {
        if (name_list_find(&made->names, own.names[i]) >= 0)
            status = circe_fail(CIRCE_ERR_ARGUMENT,
                                "--prediction '%s' is the name of the model's own prediction; rename the column",
                                own.names[i]);
        name_list_add(&r->predictions, own.names[i]);
    }
    return status;
}

static circe_status split_roles(const circe_audit_options *o, const audit_model *made, bool joint, audit_roles *r) {
    circe_status status = split_predictions(o, made, r);
    if (status == CIRCE_OK) status = name_list_split("sensitive", o->sensitive, &r->sensitive);
    if (status == CIRCE_OK && o->given != NULL) status = name_list_split("given", o->given, &r->given);
    if (status == CIRCE_OK && o->numbers != NULL) status = name_list_split("numbers", o->numbers, &r->numbers);
    r->target = o->target != NULL ? o->target : made->target;
    r->first = small_alloc((size_t)(r->sensitive.n + 1) * sizeof *r->first);
    for (int64_t i = 0; i < r->sensitive.n; i++) {
        split_joint(r->sensitive.names[i], joint, &r->parts);
        r->first[i + 1] = r->parts.n;
    }
    return status;
}

static void list_columns(const audit_model *made, const char *weights, audit_roles *r) {
    name_list_add_once(&r->all, r->target);
    for (int64_t i = made->names.n; i < r->predictions.n; i++) name_list_add_once(&r->all, r->predictions.names[i]);
    for (int64_t i = 0; i < r->parts.n; i++) name_list_add_once(&r->all, r->parts.names[i]);
    for (int64_t i = 0; i < r->given.n; i++) name_list_add_once(&r->all, r->given.names[i]);
    if (weights != NULL) name_list_add_once(&r->all, weights);
    r->n_read = r->all.n;
    for (int64_t i = 0; i < made->names.n; i++) name_list_add_once(&r->all, made->names.names[i]);
}

circe_status audit_roles_find(const circe_audit_options *o, const audit_model *made, bool joint, audit_roles *r) {
    *r = (audit_roles){0};
    circe_status status = split_roles(o, made, joint, r);
    if (status == CIRCE_OK) status = check_joint(r);
    if (status == CIRCE_OK) status = check_roles(r);
    if (status == CIRCE_OK) status = check_given(r);
    if (status != CIRCE_OK) return status;
    list_columns(made, o->weights, r);
    status = check_names(r);
    return status == CIRCE_OK ? check_numbers(r) : status;
}

void audit_roles_free(audit_roles *r) {
    name_list_free(&r->predictions);
    name_list_free(&r->sensitive);
    name_list_free(&r->parts);
    name_list_free(&r->given);
    name_list_free(&r->numbers);
    name_list_free(&r->all);
    free(r->first);
}
