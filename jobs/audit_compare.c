/* Compares several predictions: which one is better at what, with paired intervals.
 *
 * All predictions see the same rows in every draw of the resampling, so the interval of a difference comes from the
 * differences of the draws. What two predictions have in common does not widen it. */
#include <math.h>

#include "base/small.h"
#include "core/sort.h"
#include "jobs/audit_parts.h"

/* For which metrics more is better. */
static const struct {
    circe_audit_metric metric;
    bool more;
} compared[] = {{CIRCE_METRIC_AUC, true},
                {CIRCE_METRIC_ACCURACY, true},
                {CIRCE_METRIC_R2, true},
                {CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR, false}};

enum { N_COMPARED = sizeof compared / sizeof compared[0] };

/* Columns a and b of the draws, and their values. */
static circe_audit_estimate difference(const audit_draws *d, int64_t a, int64_t b, double value) {
    circe_audit_estimate e = {value, (double)NAN, (double)NAN};
    OWNED double *list = small_alloc((size_t)d->draws * sizeof *list);
    int64_t n = 0;
    for (int64_t k = 0; k < d->draws; k++) {
        double one = d->drawn[k * d->width + a] - d->drawn[k * d->width + b];
        if (isfinite(one)) list[n++] = one;
    }
    if (isfinite(value) && 2 * n >= d->draws) {
        circe__sort(list, n);
        e.lower = circe__quantile(list, n, 0.025);
        e.upper = circe__quantile(list, n, 0.975);
    }
    return e;
}

static void add(circe_audit_result *r, circe_audit_difference d, bool more) {
    if (!isfinite(d.difference.value)) return;
    bool above = d.difference.lower > 0, below = d.difference.upper < 0;
    d.better = !above && !below ? -1 : above == more ? d.first : d.second;
    r->differences[r->n_differences++] = d;
}

static void compare_quality(circe_audit_result *r, const audit_draws *d, int64_t first, int64_t second) {
    for (int m = 0; m < N_COMPARED; m++) {
        circe_audit_metric metric = compared[m].metric;
        double value = r->quality[first].of[metric].value - r->quality[second].of[metric].value;
        circe_audit_difference one = {
            .first = first,
            .second = second,
            .attribute = -1,
            .name = circe_audit_metric_name(metric),
            .difference = difference(d, first * d->stride + metric, second * d->stride + metric, value)};
        add(r, one, compared[m].more);
    }
}

/* The contrast of the gap that --fail-if checks. */
static int64_t contrast_of(const audit_run *run, const circe_audit_finding *f, circe_audit_gap_kind kind) {
    const circe_audit_gap *gap = audit_gap_of(f, kind);
    for (int64_t c = 0; gap != NULL && c < run->n_contrasts; c++)
        if (run->contrasts[c].gap == gap) return c;
    return -1;
}

static void compare_gaps(audit_run *run, const audit_draws *d, const circe_audit_finding *first,
                         const circe_audit_finding *second) {
    for (int kind = 0; kind < CIRCE_GAP_KINDS; kind++) {
        int64_t a = contrast_of(run, first, (circe_audit_gap_kind)kind),
                b = contrast_of(run, second, (circe_audit_gap_kind)kind);
        if (a < 0 || b < 0) continue;
        if ((run->contrasts[a].gap->category == NULL) != (run->contrasts[b].gap->category == NULL)) continue;
        double value = run->contrasts[a].gap->gap.value - run->contrasts[b].gap->gap.value;
        circe_audit_difference one = {.first = first->prediction,
                                      .second = second->prediction,
                                      .attribute = first->attribute,
                                      .notion = first->notion,
                                      .name = circe_audit_gap_name((circe_audit_gap_kind)kind),
                                      .difference = difference(d, d->contrasts + a, d->contrasts + b, value)};
        add(run->r, one, false);
    }
}

static void compare_notions(audit_run *run, const audit_draws *d, int64_t first, int64_t second) {
    const circe_audit_result *r = run->r;
    for (int64_t k = 0; k < r->n_notions; k++) {
        for (int64_t a = 0; a < r->n_attributes; a++)
            compare_gaps(run, d, audit_at(r, k, first, a), audit_at(r, k, second, a));
    }
}

void audit_compare_predictions(audit_run *run, const audit_draws *d) {
    circe_audit_result *r = run->r;
    int64_t pairs = r->n_predictions * (r->n_predictions - 1) / 2;
    int64_t most = pairs * (N_COMPARED + r->n_notions * r->n_attributes * CIRCE_GAP_KINDS);
    r->differences = arena_alloc(audit_owner(r), (size_t)most * sizeof *r->differences);
    for (int64_t p = 0; p < r->n_predictions; p++) {
        for (int64_t q = p + 1; q < r->n_predictions; q++) {
            compare_quality(r, d, p, q);
            compare_notions(run, d, p, q);
        }
    }
}
