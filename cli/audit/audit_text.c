/* What an audit found, as text. */
#include "cli/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/output.h"
#include "cli/common/text.h"
#include "jobs/audit_parts.h"
#include "jobs/test_json.h"
#include "report/cells.h"

/* The bytes of a name that take no column of their own: those that continue a letter of UTF-8. */
static int continued(const char *name) {
    int bytes = 0;
    for (; *name != '\0'; name++) bytes += ((unsigned char)*name & 0xC0) == 0x80;
    return bytes;
}

static int widest(const circe_audit_column *columns, int64_t n, int least) {
    int width = least;
    for (int64_t i = 0; i < n; i++) {
        int length = (int)strlen(columns[i].name) - continued(columns[i].name);
        width = length > width ? length : width;
    }
    return width;
}

static void print_finding(const circe_audit_result *r, const circe_audit_finding *f, int prediction, int attribute) {
    const char *of = audit_prediction(r, f)->name, *on = audit_attribute(r, f)->name;
    char p[32], adjusted[32], kpc[112] = "-";
    const circe_audit_estimate *e = &f->kpc_above_chance;
    char value[32], lower[32], upper[32];
    if (f->has_effects)
        snprintf(kpc, sizeof kpc, "%s [%s, %s]", audit_digits(e->value, value, sizeof value),
                 audit_digits(e->lower, lower, sizeof lower), audit_digits(e->upper, upper, sizeof upper));
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-23s  %s\n", prediction + continued(of), of, attribute + continued(on), on,
           test_p_text(f->p_value, p, sizeof p), test_p_text(f->p_adjusted, adjusted, sizeof adjusted),
           circe_trust_name(f->trust), kpc, circe_audit_decision_name(f->decision));
}

static void print_question(const circe_audit_result *r, const circe_audit_finding *f) {
    const char *given = audit_question_of(r, f)->given;
    bool outcome = f->notion == CIRCE_NOTION_SUFFICIENCY;
    if (r->n_notions > 1) printf("%s: ", circe_audit_notion_name(f->notion));
    if (given[0] == '\0')
        printf("Does the prediction depend on the attribute?");
    else
        printf("Given %s, does the %s still depend on the attribute?",
               outcome && r->n_predictions > 1 ? "the prediction" : given, outcome ? "outcome" : "prediction");
    printf(" %" PRId64 " rows", r->n);
    if (r->weights_name != NULL) printf(" weighted by %s (sum %.6g)", r->weights_name, r->weights_sum);
    printf(", test %s.\n\n", r->test);
}

static void print_findings(const circe_audit_result *r, int64_t notion) {
    int prediction = widest(r->predictions, r->n_predictions, 10),
        attribute = widest(r->attributes, r->n_attributes, 9);
    print_question(r, audit_at(r, notion, 0, 0));
    printf("  %-*s  %-*s  %9s  %9s  %-9s  %-23s  %s\n", prediction, "prediction", attribute, "attribute", "p-value",
           "adjusted", "trust", "KPC above chance [95 %]", "verdict");
    for (int64_t a = 0; a < r->n_attributes; a++) {
        for (int64_t p = 0; p < r->n_predictions; p++)
            print_finding(r, audit_at(r, notion, p, a), prediction, attribute);
    }
}

/* "  score      AUC 0.71 [0.70, 0.72], accuracy 0.65 [0.64, 0.66]" */
static void print_quality(const circe_audit_result *r) {
    static const circe_audit_metric shown[] = {CIRCE_METRIC_AUC, CIRCE_METRIC_ACCURACY, CIRCE_METRIC_R2,
                                               CIRCE_METRIC_MEAN_ERROR, CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR};
    int width = widest(r->predictions, r->n_predictions, 10);
    printf("Quality of the predictions, with 95 %% intervals:\n\n");
    for (int64_t p = 0; p < r->n_predictions; p++) {
        const char *between = "";
        printf("  %-*s  ", width + continued(r->predictions[p].name), r->predictions[p].name);
        for (size_t m = 0; m < sizeof shown / sizeof shown[0]; m++) {
            const circe_audit_estimate *e = &r->quality[p].of[shown[m]];
            char value[32], lower[32], upper[32];
            if (!isfinite(e->value)) continue;
            printf("%s%s %s [%s, %s]", between, circe_audit_metric_name(shown[m]),
                   cells_digits(e->value, 3, value, sizeof value), cells_digits(e->lower, 3, lower, sizeof lower),
                   cells_digits(e->upper, 3, upper, sizeof upper));
            between = ", ";
        }
        puts(between[0] == '\0' ? "no metric: it is a number, and the outcome is classes in words" : "");
    }
    putchar('\n');
}

/* The rates of every group, where there are two classes: what people look for first. */
static void print_groups(const circe_audit_result *r, int64_t prediction, int64_t attribute) {
    enum { MOST_GROUPS = 15, RATES = 4 };
    static const circe_audit_metric rates[RATES] = {CIRCE_METRIC_SELECTION_RATE, CIRCE_METRIC_TRUE_POSITIVE_RATE,
                                                    CIRCE_METRIC_FALSE_POSITIVE_RATE, CIRCE_METRIC_PRECISION};
    const circe_audit_groups *groups = &r->groups[attribute];
    const circe_audit_metrics *of = audit_at(r, 0, prediction, attribute)->groups;
    const char *name = r->attributes[attribute].name;
    int width = widest(&r->attributes[attribute], 1, 5);
    if (r->attributes[attribute].categories == NULL || groups->n_groups > MOST_GROUPS) return;
    for (int64_t g = 0; g < groups->n_groups; g++) {
        int length = (int)strlen(groups->labels[g]) - continued(groups->labels[g]);
        width = length > width ? length : width;
    }
    if (r->n_predictions > 1) printf("%s:\n\n", r->predictions[prediction].name);
    printf("  %-*s  %7s", width + continued(name), name, "rows");
    for (int m = 0; m < RATES; m++) printf("  %s", circe_audit_metric_name(rates[m]));
    putchar('\n');
    for (int64_t g = 0; g < groups->n_groups; g++) {
        printf("  %-*s  %7" PRId64, width + continued(groups->labels[g]), groups->labels[g], groups->rows[g]);
        for (int m = 0; m < RATES; m++) {
            char value[32] = "-";
            double rate = of[g].of[rates[m]].value;
            if (isfinite(rate)) cells_digits(rate, 3, value, sizeof value);
            printf("  %*s", (int)strlen(circe_audit_metric_name(rates[m])), value);
        }
        puts(groups->compared[g] ? "" : "  (small)");
    }
    putchar('\n');
}

static void print_verdicts(const circe_audit_result *r, int64_t notion) {
    for (int64_t a = 0; a < r->n_attributes; a++) {
        for (int64_t p = 0; p < r->n_predictions; p++) {
            text_wrap(stdout, audit_at(r, notion, p, a)->verdict, 0, 0, text_width());
            putchar('\n');
        }
    }
}

/* Of --fail-if: what is kept, what is not, and what these rows can tell. */
static void print_limits(const circe_audit_result *r) {
    if (r->n_checks == 0) return;
    printf("Limits:\n\n");
    for (int64_t i = 0; i < r->n_checks; i++) {
        printf("  %s  ", r->checks[i].failed ? "✗" : "✓");
        text_wrap(stdout, r->checks[i].text, 5, 5, text_width());
    }
    putchar('\n');
}

void audit_text(const circe_audit_result *r, const char *folder, bool quiet) {
    if (!quiet) print_quality(r);
    for (int64_t k = 0; k < r->n_notions; k++) {
        if (k > 0) putchar('\n');
        print_findings(r, k);
    }
    if (quiet) return;
    putchar('\n');
    text_columns(&r->columns);
    if (r->columns.n > 0) putchar('\n');
    for (int64_t a = 0; r->outcome == CIRCE_OUTCOME_BINARY && a < r->n_attributes; a++)
        for (int64_t p = 0; p < r->n_predictions; p++) print_groups(r, p, a);
    for (int64_t k = 0; k < r->n_notions; k++) print_verdicts(r, k);
    print_limits(r);
    printf("The report: %s/report.html\n", folder);
}
