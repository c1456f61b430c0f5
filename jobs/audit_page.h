/* The report of an audit while it is written. */
#ifndef JOBS_AUDIT_PAGE_H
#define JOBS_AUDIT_PAGE_H

#include "jobs/audit_parts.h"
#include "report/report.h"

typedef struct audit_page {
    const circe_audit_result *r;
    const char *folder;
    report *page;
    circe_status status; /* the first failure */
} audit_page;

/* Each draws a figure of one attribute, for notion k, into the folder and adds it to the page. */
void audit_show_residuals(audit_page *w, int64_t k, int64_t attribute);
void audit_show_place(audit_page *w, int64_t k, int64_t attribute);
void audit_show_rates(audit_page *w, int64_t k, int64_t attribute);
void audit_show_errors(audit_page *w, int64_t attribute);
void audit_show_calibration(audit_page *w, int64_t k, int64_t attribute);

/* FOLDER/results.csv */
circe_status audit_write_csv(const circe_audit_result *r, const char *folder);

#endif
