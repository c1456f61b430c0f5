/* Tables of the page: what their cells have in common. */
#include <math.h>
#include <stdio.h>

#include "jobs/audit_page.h"
#include "jobs/test_json.h"

/* Whether tables begin with the name of the prediction, because there are several. */
static bool names_predictions(const circe_audit_result *r) { return r->n_predictions > 1; }

void audit_add_prediction(cells *list, const circe_audit_result *r, const circe_audit_finding *f) {
    if (names_predictions(r)) cells_add(list, "%s", audit_prediction(r, f)->name);
}

void audit_show_by_prediction(audit_page *w, const char *caption, const char *const *columns, int64_t n_columns,
                              int text_columns, cells *list) {
    int left_out = names_predictions(w->r) ? 0 : 1;
    cells_show(list, w->page, caption, columns + left_out, n_columns - left_out, text_columns - left_out);
}

void audit_add_p(cells *list, double p) {
    char text[32];
    cells_add(list, "%s", test_p_text(p, text, sizeof text));
}

void audit_add_effect(cells *list, bool there, circe_audit_estimate e) {
    char value[32], lower[32], upper[32];
    if (there)
        cells_add(list, "%s (%s to %s)", audit_digits(e.value, value, sizeof value),
                  audit_digits(e.lower, lower, sizeof lower), audit_digits(e.upper, upper, sizeof upper));
    else
        cells_add(list, "–");
}

/* Three digits, including trailing zeros. */
static const char *three_digits(double value, char *out, size_t size) {
    snprintf(out, size, value != 0 && fabs(value) < 100 ? "%#.3g" : "%.4g", value);
    return out;
}

void audit_add_estimate(cells *list, const circe_audit_estimate *e) {
    char value[32], lower[32], upper[32];
    if (!isfinite(e->value))
        cells_add(list, "–");
    else if (!isfinite(e->lower))
        cells_add(list, "%s", three_digits(e->value, value, sizeof value));
    else
        cells_add(list, "%s (%s to %s)", three_digits(e->value, value, sizeof value),
                  three_digits(e->lower, lower, sizeof lower), three_digits(e->upper, upper, sizeof upper));
}
