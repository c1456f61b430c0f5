/* Ranks and normal scores of columns.
 *
 *     r_i in 1 .. n        rank of row i in its column; equal values share the mean of theirs
 *     ranks                r_i / (n + 1)
 *     normal scores        Phi^-1(r_i / (n + 1)), van der Waerden's
 *
 * Halley's method on the complementary error function finds the quantile, from a start that is accurate to 5e-4. A step
 * takes an error e to less than 10 e^3: two steps reach rounding. */
#include "circe/transform.h"

#include <math.h>
#include <string.h>

#include "core/core.h"
#include "core/sort.h"
#include "core/threads.h"

enum { SCORED = 64 }; /* scores: 5 microseconds */

static const char *const names[] = {"none", "ranks", "normal-scores"};

const char *circe_transform_name(circe_transform transform) {
    return transform >= CIRCE_TRANSFORM_NONE && transform <= CIRCE_TRANSFORM_NORMAL_SCORES ? names[transform]
                                                                                           : "unknown";
}

circe_status circe_transform_parse(const char *name, circe_transform *transform) {
    if (name == NULL || transform == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "name and transform must not be NULL");
    for (int k = CIRCE_TRANSFORM_NONE; k <= CIRCE_TRANSFORM_NORMAL_SCORES; k++)
        if (strcmp(name, names[k]) == 0) {
            *transform = (circe_transform)k;
            return CIRCE_OK;
        }
    return circe_fail(CIRCE_ERR_ARGUMENT, "there is no transform '%s'; choose none, ranks or normal-scores", name);
}

/* The x > 0 whose upper tail is q, in (0, 1/2]. */
static double upper_quantile(double q) {
    double t = sqrt(-2.0 * log(q));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int step = 0; step < 2; step++) {
        double density = exp(-0.5 * x * x) * 0.3989422804014327;
        double newton = (0.5 * erfc(x * 0.7071067811865476) - q) / density;
        x += newton / (1.0 - 0.5 * x * newton); /* Halley: the density's slope is -x times itself */
    }
    return x;
}

static double normal_quantile(double p) {
    if (p == 0.5) return 0.0;
    return p < 0.5 ? -upper_quantile(p) : upper_quantile(1.0 - p);
}

/* One column in the making. */
typedef struct scoring {
    const circe_mat *values;
    int64_t n, c, runs;         /* runs: stretches that are sorted, each by itself */
    circe__entry *entries, *to; /* (n) each */
    circe_transform transform;
    const double *quantiles; /* (n): the scores of ranks that are not shared; NULL: not known yet */
    circe_mat *out;
} scoring;

/* Where a run begins; of half as many runs, every other one begins there, too. */
static int64_t run_begin(const scoring *s, int64_t run) { return s->n * run / s->runs; }

static void sort_run(void *user, int64_t run) {
    const scoring *s = user;
    int64_t first = run_begin(s, run), end = run_begin(s, run + 1);
    for (int64_t i = first; i < end; i++) s->entries[i] = (circe__entry){circe__at(s->values, i, s->c), i};
    circe__sort_entries(s->entries + first, s->to + first, end - first);
}

/* Two neighbouring runs become one of `to`. */
static void merge_runs(void *user, int64_t pair) {
    const scoring *s = user;
    int64_t at = run_begin(s, 2 * pair), left = at, middle = run_begin(s, 2 * pair + 1);
    int64_t right = middle, end = run_begin(s, 2 * pair + 2);
    for (; at < end; at++) {
        bool from_left = right == end || (left < middle && s->entries[left].value <= s->entries[right].value);
        s->to[at] = s->entries[from_left ? left++ : right++];
    }
}

/* The scores of values that begin in [first, end) of what is sorted. */
static void score_range(void *user, int64_t first, int64_t end) {
    const scoring *s = user;
    const circe__entry *e = s->entries;
    while (first > 0 && first < end && e[first].value == e[first - 1].value) first++;
    for (int64_t next; first < end; first = next) {
        for (next = first + 1; next < s->n && e[next].value == e[first].value;) next++;
        double share = 0.5 * (double)(first + 1 + next) / (double)(s->n + 1);
        double score = s->transform == CIRCE_TRANSFORM_RANKS       ? share
                       : next == first + 1 && s->quantiles != NULL ? s->quantiles[first]
                                                                   : normal_quantile(share);
        for (int64_t k = first; k < next; k++) circe__set(s->out, e[k].row, s->c, score);
    }
}

typedef struct quantiling {
    int64_t n;
    double *quantiles;
} quantiling;

static void run_quantiles(void *user, int64_t first, int64_t end) {
    const quantiling *q = user;
    for (int64_t k = first; k < end; k++) q->quantiles[k] = normal_quantile((double)(k + 1) / (double)(q->n + 1));
}

/* Equal values get one score: whatever their order, the same for any number of threads. */
static void transform_column(const circe_context *context, scoring *s) {
    enum { SORTED = 256 }; /* entries: 5 microseconds */
    int64_t threads = circe_context_parts(context, s->n, SORTED);
    for (s->runs = 1; 2 * s->runs <= threads;) s->runs *= 2;
    circe_context_run(context, s->runs, sort_run, s);
    for (; s->runs > 1; s->runs /= 2) {
        circe_context_run(context, s->runs / 2, merge_runs, s);
        circe__entry *merged = s->to;
        s->to = s->entries;
        s->entries = merged;
    }
    circe__run_ranges(context->threads, s->n, SCORED, score_range, s);
}

circe_status circe_transform_columns(circe_context *context, const circe_mat *values, circe_transform transform,
                                     const unsigned char *keep, circe_mat *out) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || out == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and out must not be NULL");
    if (transform < CIRCE_TRANSFORM_NONE || transform > CIRCE_TRANSFORM_NORMAL_SCORES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "transform %d is not one of none, ranks, normal-scores", (int)transform);
    circe_status status = circe__check_data(values, "the values to transform", 1);
    if (status == CIRCE_OK) status = circe__check_mat(out, "the transformed values", 1);
    if (status != CIRCE_OK) return status;
    if (out->rows != values->rows || out->cols != values->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "the values are %lld by %lld, but the output is %lld by %lld",
                          (long long)values->rows, (long long)values->cols, (long long)out->rows, (long long)out->cols);
    int64_t n = values->rows;
    circe__entry *entries = circe__alloc(context, 2 * n, sizeof *entries);
    CIRCE__OWNED double *quantiles = NULL;
    if (entries == NULL) return CIRCE_ERR_MEMORY;
    if (transform == CIRCE_TRANSFORM_NORMAL_SCORES && values->cols > 1) { /* the columns share them */
        quantiles = circe__alloc(context, n, sizeof *quantiles);
        if (quantiles == NULL) {
            circe__free(context, entries);
            return CIRCE_ERR_MEMORY;
        }
        quantiling q = {n, quantiles};
        circe__run_ranges(context->threads, n, SCORED, run_quantiles, &q);
    }
    for (int64_t c = 0; c < values->cols; c++) {
        bool plain = transform == CIRCE_TRANSFORM_NONE || (keep != NULL && keep[c]);
        for (int64_t i = 0; plain && i < n; i++) circe__set(out, i, c, circe__at(values, i, c));
        scoring s = {values, n, c, 1, entries, entries + n, transform, quantiles, out};
        if (!plain) transform_column(context, &s);
    }
    circe__free(context, entries);
    return CIRCE_OK;
}
