/* Measures how good a prediction is, for all rows or group by group.
 *
 * One pass over the rows, sorted by the prediction, with sums per group. The AUC is the share of pairs of a positive
 * and a negative row whose predictions are in this order, ties counting a half: every positive row counts the negative
 * ones below it. Outcomes are centred, so that R2 does not suffer from a large mean. O(n). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/audit_parts.h"

struct audit_sums {
    double rows, outcome, squares, predicted, error, error_squares; /* squares: of the outcome less its mean */
    double selected, positive, hits;                                /* hits: selected and positive */
    double last, tied_positive, tied_negative, below, pairs;        /* of the AUC */
};

audit_sums *audit_sums_make(int64_t n_groups) { return small_alloc((size_t)n_groups * sizeof(audit_sums)); }

static const struct {
    const char *key, *name;
} metrics[] = {
#define METRIC(name, key, words) {key, words},
    CIRCE_AUDIT_METRIC_MAP(METRIC)
#undef METRIC
};

const char *circe_audit_metric_key(circe_audit_metric metric) { return metrics[metric].key; }
const char *circe_audit_metric_name(circe_audit_metric metric) { return metrics[metric].name; }

/* ---- rows in order ----------------------------------------------------------------------------------------------- */

static bool is_probability(const circe_audit_column *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (c->values[i] < 0 || c->values[i] > 1) return false;
    return true;
}

bool audit_has_errors(const circe_audit_result *r, int64_t prediction) {
    if (r->predictions[prediction].is_text) return false;
    if (r->outcome == CIRCE_OUTCOME_BINARY) return is_probability(&r->predictions[prediction], r->n);
    return !r->target.is_text;
}

static int by_value(const void *one, const void *other, void *values) {
    int64_t i = *(const int64_t *)one, j = *(const int64_t *)other;
    double a = ((const double *)values)[i], b = ((const double *)values)[j];
    return a != b ? (a > b) - (a < b) : (i > j) - (i < j);
}

/* 1 if the predicted class is the target's. */
static double *right_labels(arena *owner, const circe_audit_result *r, const circe_audit_column *c) {
    double *right = arena_alloc(owner, (size_t)r->n * sizeof *right);
    for (int64_t i = 0; i < r->n; i++)
        right[i] = strcmp(c->categories[c->code[i]], r->target.categories[r->target.code[i]]) == 0;
    return right;
}

circe_status audit_ranking_make(arena *owner, const circe_audit_result *r, int64_t prediction, audit_ranking *out) {
    size_t n = (size_t)r->n;
    const circe_audit_column *c = &r->predictions[prediction];
    double *values = c->is_text ? right_labels(owner, r, c) : c->values;
    *out = (audit_ranking){.r = r,
                           .labels = c->is_text,
                           .errors = audit_has_errors(r, prediction),
                           .threshold = audit_threshold(r, c),
                           .order = arena_try(owner, n * sizeof *out->order),
                           .predicted = arena_try(owner, n * sizeof *out->predicted),
                           .outcome = arena_try(owner, n * sizeof *out->outcome)};
    if (out->order == NULL || out->predicted == NULL || out->outcome == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)r->n);
    for (int64_t i = 0; i < r->n; i++) out->order[i] = i;
    qsort_r(out->order, n, sizeof *out->order, by_value, values);
    for (int64_t i = 0; i < r->n; i++) {
        out->predicted[i] = values[out->order[i]];
        out->outcome[i] = r->target.values[out->order[i]];
    }
    return CIRCE_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Rows that were tied with the last prediction are below the next one. */
static void end_ties(audit_sums *s) {
    s->pairs += s->tied_positive * (s->below + 0.5 * s->tied_negative);
    s->below += s->tied_negative;
    s->tied_positive = s->tied_negative = 0;
}

static void add_class(audit_sums *s, double predicted, double outcome, double threshold, double weight) {
    if (predicted != s->last) end_ties(s);
    s->last = predicted;
    double selected = predicted >= threshold ? weight : 0;
    s->selected += selected;
    if (outcome > 0) {
        s->positive += weight;
        s->hits += selected;
        s->tied_positive += weight;
    } else {
        s->tied_negative += weight;
    }
}

static void add_row(audit_sums *s, double predicted, double outcome, double mean, double weight) {
    double error = predicted - outcome, centred = outcome - mean;
    s->rows += weight;
    s->outcome += weight * centred;
    s->squares += weight * centred * centred;
    s->predicted += weight * predicted;
    s->error += weight * error;
    s->error_squares += weight * error * error;
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static double share(double part, double whole) { return whole > 0 ? part / whole : (double)NAN; }

static void put_rates(const audit_sums *s, double *out) {
    double negative = s->rows - s->positive, false_positive = s->selected - s->hits;
    out[CIRCE_METRIC_SELECTION_RATE] = share(s->selected, s->rows);
    out[CIRCE_METRIC_TRUE_POSITIVE_RATE] = share(s->hits, s->positive);
    out[CIRCE_METRIC_FALSE_POSITIVE_RATE] = share(false_positive, negative);
    out[CIRCE_METRIC_PRECISION] = share(s->hits, s->selected);
    out[CIRCE_METRIC_NEGATIVE_PREDICTIVE_VALUE] = share(negative - false_positive, s->rows - s->selected);
    out[CIRCE_METRIC_ACCURACY] = share(s->hits + negative - false_positive, s->rows);
    out[CIRCE_METRIC_AUC] = share(s->pairs, s->positive * negative);
}

static void put_metrics(const audit_ranking *k, audit_sums *s, double *out) {
    circe_audit_outcome outcome = k->r->outcome;
    double spread = s->squares - share(s->outcome * s->outcome, s->rows);
    end_ties(s);
    for (int m = 0; m < CIRCE_METRICS; m++) out[m] = (double)NAN;
    out[k->labels ? CIRCE_METRIC_ACCURACY : CIRCE_METRIC_MEAN_PREDICTION] = share(s->predicted, s->rows);
    if (outcome == CIRCE_OUTCOME_BINARY) put_rates(s, out);
    if (!k->r->target.is_text || outcome == CIRCE_OUTCOME_BINARY)
        out[CIRCE_METRIC_MEAN_OUTCOME] = k->r->target.mean + share(s->outcome, s->rows);
    if (!k->errors) return;
    out[CIRCE_METRIC_MEAN_ERROR] = share(s->error, s->rows);
    out[CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR] = sqrt(share(s->error_squares, s->rows));
    if (outcome != CIRCE_OUTCOME_BINARY && spread > 1e-12 * s->squares)
        out[CIRCE_METRIC_R2] = 1 - s->error_squares / spread;
}

void audit_metrics_of(const audit_ranking *k, const uint8_t *weight, const int64_t *of, int64_t n_groups,
                      audit_sums *sums, double *out) {
    bool classes = k->r->outcome == CIRCE_OUTCOME_BINARY;
    double mean = k->r->target.mean, threshold = k->threshold;
    for (int64_t g = 0; g < n_groups; g++) sums[g] = (audit_sums){.last = (double)NAN};
    for (int64_t i = 0; i < k->r->n; i++) {
        int64_t row = k->order[i];
        double w = (weight != NULL ? weight[row] : 1) * audit_weight(k->r, row);
        if (w == 0) continue;
        audit_sums *s = &sums[of != NULL ? of[row] : 0];
        add_row(s, k->predicted[i], k->outcome[i], mean, w);
        if (classes) add_class(s, k->predicted[i], k->outcome[i], threshold, w);
    }
    for (int64_t g = 0; g < n_groups; g++) put_metrics(k, &sums[g], out + g * CIRCE_METRICS);
}
