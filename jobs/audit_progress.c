/* How much of an audit is done. Its stages differ a hundredfold in time, so each counts by its seconds on one core with
 * 100,000 rows, once for a y of categories and once for numbers. Only the ratios matter, not the machine. */
#include <math.h>
#include <string.h>

#include "jobs/audit_parts.h"
#include "jobs/notes.h"

static const struct {
    const char *name;
    double categories, numbers;
    double full_rows; /* from here on, more rows take no longer; 0: they do not count */
} stages[] = {{"kci", 0.5, 1.2, 20000},     {"gcm", 0.5, 0.9, 20000},  {"circe", 0.3, 1, 10000},
              {"splitkci", 0.6, 0.6, 5000}, {"effects", 0.3, 3, 4000}, {"calibration", 1.2, 9, 500},
              {"measures", 0.1, 0.2, 2000}, {"gaps", 0.8, 0.8, 100000}};

enum { N_STAGES = sizeof stages / sizeof stages[0] };

static double cost_of(const audit_run *run, const circe_audit_finding *f, int stage) {
    const circe_audit_result *r = run->r;
    const audit_question *q = audit_question_of(r, f);
    bool numbers = q->n_numbers > 0, constant = q->x->is_constant && strcmp(stages[stage].name, "gaps") != 0;
    double cost = numbers ? stages[stage].numbers : stages[stage].categories;
    if (strcmp(stages[stage].name, "calibration") == 0) cost *= (double)run->options->calibrate / 200;
    return constant ? 0 : cost * fmin(1, (double)r->n / stages[stage].full_rows);
}

static double cost_of_intervals(const audit_run *run) {
    const circe_audit_result *r = run->r;
    return 0.8 * (double)(r->n_predictions * (r->n_attributes + 1)) * fmin(1, (double)r->n / 40000);
}

void audit_progress_begin(audit_run *run) {
    run->all_work = cost_of_intervals(run);
    for (int64_t i = 0; i < run->r->n_findings; i++)
        for (int k = 0; k < N_STAGES; k++) run->all_work += cost_of(run, &run->r->findings[i], k);
}

circe_status audit_step(audit_run *run, const circe_audit_finding *f, const char *stage) {
    const circe_audit_result *r = run->r;
    double done = run->work / run->all_work;
    for (int k = 0; k < N_STAGES; k++)
        if (strcmp(stages[k].name, stage) == 0) run->work += cost_of(run, f, k);
    return job_progress(run->watch, done, "%s, %s%s%s: %s", audit_prediction(r, f)->name, audit_attribute(r, f)->name,
                        r->n_notions > 1 ? ", " : "", r->n_notions > 1 ? circe_audit_notion_name(f->notion) : "",
                        stage);
}

circe_status audit_step_intervals(audit_run *run, double share) {
    double rest = cost_of_intervals(run);
    return job_progress(run->watch, fmin(1, 1 - rest * (1 - share) / run->all_work), "intervals");
}
