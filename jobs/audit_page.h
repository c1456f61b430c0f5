/* The report of an audit while it is being written. */
#pragma once

#include "jobs/audit_parts.h"
#include "report/cells.h"
#include "report/report.h"

typedef struct audit_page {
    const circe_audit_result *r;
    const char *folder;
    report *page;
    circe_status status; /* the first failure */
} audit_page;

/* ---- parts of the page ------------------------------------------------------------------------------------------- */

void audit_show_quality(audit_page *w);
void audit_show_answer(audit_page *w);
void audit_show_differences(audit_page *w);
void audit_show_checks(audit_page *w);
void audit_show_attribute(audit_page *w, int64_t attribute);

const char *audit_notion_title(circe_audit_notion notion);

/* Which predictions count as positive: "at least 0.5", or the class. The caller frees it. */
char *audit_positive_rule(const circe_audit_result *r);

/* Each draws a figure of one attribute, for notion k, into the folder and adds it to the page. */
void audit_show_residuals(audit_page *w, int64_t k, int64_t attribute);
void audit_show_place(audit_page *w, int64_t k, int64_t attribute);
void audit_show_rates(audit_page *w, int64_t k, int64_t attribute);
void audit_show_errors(audit_page *w, int64_t attribute);
void audit_show_calibration(audit_page *w, int64_t k, int64_t attribute);

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* As cells_show, of a table whose first column names the prediction (audit_add_prediction), if there are several. */
void audit_show_by_prediction(audit_page *w, const char *caption, const char *const *columns, int64_t n_columns,
                              int text_columns, cells *list);
void audit_add_prediction(cells *list, const circe_audit_result *r, const circe_audit_finding *f);
void audit_add_p(cells *list, double p);
void audit_add_effect(cells *list, bool there, circe_audit_estimate e);
/* "0.403 (0.312 to 0.488)"; a dash if there is none. */
void audit_add_estimate(cells *list, const circe_audit_estimate *e);

/* FOLDER/results.csv */
circe_status audit_write_csv(const circe_audit_result *r, const char *folder);
