/* results.csv: one row per number of an audit. */
#include <inttypes.h>
#include <math.h>

#include "base/small.h"
#include "jobs/audit_page.h"
#include "report/cells.h"

typedef struct line {
    const circe_audit_result *r;
    const circe_audit_finding *f;
    cells *list;
} line;

static void add_line(const line *to, const char *kind, const char *name, circe_audit_estimate e) {
    const double numbers[] = {e.value, e.lower, e.upper};
    cells_add(to->list, "%s", audit_prediction(to->r, to->f)->name);
    cells_add(to->list, "%s", audit_attribute(to->r, to->f)->name);
    cells_add(to->list, "%s", kind);
    cells_add(to->list, "%s", name);
    for (int i = 0; i < 3; i++) {
        if (isfinite(numbers[i]))
            cells_add(to->list, "%.17g", numbers[i]);
        else
            cells_add(to->list, "%s", "");
    }
    cells_add(to->list, "%s", circe_audit_notion_name(to->f->notion));
}

static circe_audit_estimate just(double value) { return (circe_audit_estimate){value, (double)NAN, (double)NAN}; }

static void add_tests(const line *to) {
    const circe_audit_finding *f = to->f;
    for (int i = 0; i < f->n_tests; i++) {
        if (!f->tests[i].failed)
            add_line(to, i < f->n_deciding ? "p_value of a deciding test" : "p_value", f->tests[i].name,
                     just(f->tests[i].result.p_value));
    }
    add_line(to, "p_value", "decision", just(f->p_value));
    add_line(to, "p_adjusted", "decision", just(f->p_adjusted));
    if (f->has_effects) {
        add_line(to, "effect", "kpc", audit_effect(&f->effects.kpc));
        add_line(to, "effect", "kpc above chance", f->kpc_above_chance);
        add_line(to, "effect", "circe", audit_effect(&f->effects.circe));
    }
    for (int m = 0; m < CIRCE_AUDIT_MEASURES; m++)
        add_line(to, "measure", circe_audit_measure_name(m), just(f->measures[m]));
    for (int i = 0; f->has_calibration && i < f->n_deciding; i++) {
        const circe_calibration *c = &f->calibration[i].summary;
        add_line(to, "calibration: share of p-values at most alpha", f->tests[i].name,
                 (circe_audit_estimate){c->level, c->level_lower, c->level_upper});
    }
}

static void add_gaps(const line *to) {
    for (int i = 0; i < to->f->n_gaps; i++) {
        const circe_audit_gap *g = &to->f->gaps[i];
        OWNED char *name =
            small_format("%s%s%s, %" PRId64 " groups", circe_audit_gap_name(g->kind), g->category != NULL ? " of " : "",
                         g->category != NULL ? g->category : "", g->n_groups);
        add_line(to, "gap", name, g->gap);
    }
}

static void add_groups(const line *to) {
    const circe_audit_groups *groups = &to->r->groups[to->f->attribute];
    for (int64_t g = 0; g < groups->n_groups; g++) {
        for (int m = 0; m < CIRCE_METRICS; m++) {
            if (isfinite(to->f->groups[g].of[m].value))
                add_line(to, circe_audit_metric_key((circe_audit_metric)m), groups->labels[g], to->f->groups[g].of[m]);
        }
    }
}

circe_status audit_write_csv(const circe_audit_result *r, const char *folder) {
    static const char *const columns[] = {"prediction", "attribute", "kind",  "name",
                                          "value",      "lower",     "upper", "notion"};
    OWNED_BY(cells_free) cells list = {0};
    for (int64_t i = 0; i < r->n_findings; i++) {
        line to = {r, &r->findings[i], &list};
        add_tests(&to);
        add_gaps(&to);
        if (i < r->n_predictions * r->n_attributes) add_groups(&to); /* the same for every notion */
    }
    OWNED char *path = small_format("%s/results.csv", folder);
    report_table table = cells_table(&list, "", columns, 8);
    return report_write_csv(path, &table);
}
