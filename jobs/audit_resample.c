/* Finds how certain metrics and gaps are: draws as many rows as there are with replacement, and computes everything
 * again. The 95 % interval lies between the 2.5 and 97.5 % quantiles of the draws.
 *
 * The interval of a gap is for the difference between the groups that differ most in the table itself: a new maximum
 * over groups in each draw would lie above the gap more often than below it. All predictions see the same draws. Draw d
 * takes the random numbers d n .. d n + n - 1, so the threads do not matter. With --weights, drawn rows keep theirs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/random.h"
#include "core/sort.h"
#include "jobs/audit_parts.h"

enum { DRAWS = 1000, LEAST_DRAWS = 200, ROWS_AT_MOST = 40000000, ROUNDS = 10, PIECE = 4096, STREAM = 31, BANKS = 4 };

/* All draws; the numbers of one draw lie side by side. */
typedef struct resampling {
    const audit_run *run;
    audit_ranking *rankings;          /* (n_predictions) */
    int64_t draws, width;             /* width: numbers of one draw */
    double *drawn;                    /* (draws, width) */
    int64_t most_groups, most_blocks; /* of an attribute, of a contrast */
    int64_t first, last;              /* the draws of this round */
    int64_t parts;
    int failed;  /* memory ran out in a part */
    arena owner; /* of the rest */
} resampling;

/* ---- one draw ---------------------------------------------------------------------------------------------------- */

static void draw_weights(uint64_t seed, int64_t draw, int64_t n, uint8_t *weight) {
    double uniform[PIECE];
    memset(weight, 0, (size_t)n);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t m = n - at < PIECE ? n - at : PIECE;
        circe_random_uniform((circe_random){.seed = seed, .stream = STREAM}, (uint64_t)(draw * n + at), m, uniform);
        for (int64_t i = 0; i < m; i++) {
            int64_t row = (int64_t)(uniform[i] * (double)n);
            uint8_t *w = &weight[row < n ? row : n - 1];
            if (*w < UINT8_MAX) ++*w;
        }
    }
}

/* The difference between the two groups of level s, over its cells; *rows: of the level. */
static double level_of(const audit_contrast *c, int64_t s, const double *sum, const double *count, double *rows) {
    double total = 0, used = 0;
    *rows = 0;
    for (int64_t b = s * c->n_cells; b < (s + 1) * c->n_cells; b++) {
        const double *m = sum + b * AUDIT_SLOTS, *n = count + b * AUDIT_SLOTS;
        double size = n[AUDIT_LOW] + n[AUDIT_HIGH] + n[AUDIT_OTHER];
        *rows += size;
        if (!c->used[b] || n[AUDIT_LOW] == 0.0 || n[AUDIT_HIGH] == 0.0) continue;
        total += size * (m[AUDIT_HIGH] / n[AUDIT_HIGH] - m[AUDIT_LOW] / n[AUDIT_LOW]);
        used += size;
    }
    return used > 0 ? total / used : (double)NAN;
}

/* Sums over the rows of every slot. Neighbouring rows often share a slot, and each sum would wait for the one before
 * it, so there are BANKS of them. The last slot is for rows that take no part. */
static void add_up(const audit_contrast *c, const uint8_t *weight, const circe_audit_result *r, int64_t slots,
                   double *sum) {
    int64_t n = r->n;
    double *count = sum + BANKS * slots;
    memset(sum, 0, (size_t)(2 * BANKS * slots) * sizeof *sum);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (i % BANKS) * slots + c->slot[i];
        double w = weight[i] * audit_weight(r, i);
        sum[at] += w * c->value[i];
        count[at] += w;
    }
    for (int64_t k = 0; k < slots; k++) {
        for (int64_t bank = 1; bank < BANKS; bank++) {
            sum[k] += sum[bank * slots + k];
            count[k] += count[bank * slots + k];
        }
    }
}

/* The gap between the contrast's groups, with the shares of the drawn rows. */
static double contrast_of(const audit_contrast *c, const uint8_t *weight, const circe_audit_result *r,
                          double *scratch) {
    int64_t slots = c->n_strata * c->n_cells * AUDIT_SLOTS + 1;
    double total = 0, all = 0;
    add_up(c, weight, r, slots, scratch);
    for (int64_t s = 0; s < c->n_strata; s++) {
        double rows, d = level_of(c, s, scratch, scratch + BANKS * slots, &rows);
        if (isnan(d)) continue;
        total += rows * d;
        all += rows;
    }
    return all > 0 ? total / all : (double)NAN;
}

/* Metrics of all rows, of the groups of each attribute, then the contrasts. */
static void evaluate(const resampling *s, const uint8_t *weight, audit_sums *sums, double *cells, double *out) {
    const circe_audit_result *r = s->run->r;
    for (int64_t p = 0; p < r->n_predictions; p++) {
        audit_metrics_of(&s->rankings[p], weight, NULL, 1, sums, out);
        out += CIRCE_METRICS;
        for (int64_t a = 0; a < r->n_attributes; a++) {
            audit_metrics_of(&s->rankings[p], weight, r->groups[a].of, r->groups[a].n_groups, sums, out);
            out += r->groups[a].n_groups * CIRCE_METRICS;
        }
    }
    for (int64_t c = 0; weight != NULL && c < s->run->n_contrasts; c++)
        out[c] = contrast_of(&s->run->contrasts[c], weight, r, cells);
}

static void run_part(void *user, int64_t part) {
    resampling *s = user;
    int64_t n = s->run->r->n;
    OWNED uint8_t *weight = malloc((size_t)n);
    OWNED audit_sums *sums = audit_sums_make(s->most_groups);
    OWNED double *cells = small_alloc((size_t)(2 * BANKS * (AUDIT_SLOTS * s->most_blocks + 1)) * sizeof *cells);
    if (weight == NULL) s->failed = 1;
    for (int64_t d = s->first + part; weight != NULL && d < s->last; d += s->parts) {
        draw_weights((uint64_t)s->run->options->seed, d, n, weight);
        evaluate(s, weight, sums, cells, s->drawn + d * s->width);
    }
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

/* Sets the interval from column `at` of the draws; NaN if too few draws have a value. */
static void put_interval(const resampling *s, int64_t at, double *column, circe_audit_estimate *e) {
    int64_t n = 0;
    e->lower = e->upper = (double)NAN;
    for (int64_t d = 0; d < s->draws; d++) {
        double value = s->drawn[d * s->width + at];
        if (isfinite(value)) column[n++] = value;
    }
    if (!isfinite(e->value) || 2 * n < s->draws) return;
    circe__sort(column, n);
    e->lower = circe__quantile(column, n, 0.025);
    e->upper = circe__quantile(column, n, 0.975);
}

static int64_t put_metrics(const resampling *s, int64_t at, const double *value, double *column,
                           circe_audit_metrics *to, int64_t n) {
    for (int64_t g = 0; g < n; g++) {
        for (int m = 0; m < CIRCE_METRICS; m++, at++) {
            to[g].of[m].value = value[at];
            put_interval(s, at, column, &to[g].of[m]);
        }
    }
    return at;
}

/* The groups are the same whatever the notion. */
static void share_groups(const circe_audit_result *r, const circe_audit_finding *first) {
    for (int64_t k = 1; k < r->n_notions; k++)
        audit_at(r, k, first->prediction, first->attribute)->groups = first->groups;
}

static void put_all(const resampling *s, const double *value, double *column) {
    circe_audit_result *r = s->run->r;
    int64_t at = 0;
    r->quality = arena_alloc(audit_owner(r), (size_t)r->n_predictions * sizeof *r->quality);
    for (int64_t p = 0; p < r->n_predictions; p++) {
        at = put_metrics(s, at, value, column, &r->quality[p], 1);
        for (int64_t a = 0; a < r->n_attributes; a++) {
            circe_audit_finding *f = audit_at(r, 0, p, a);
            f->groups = arena_alloc(audit_owner(r), (size_t)r->groups[a].n_groups * sizeof *f->groups);
            at = put_metrics(s, at, value, column, f->groups, r->groups[a].n_groups);
            share_groups(r, f);
        }
    }
    for (int64_t c = 0; c < s->run->n_contrasts; c++) put_interval(s, at + c, column, &s->run->contrasts[c].gap->gap);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status prepare(audit_run *run, resampling *s) {
    const circe_audit_result *r = run->r;
    int64_t groups = 1, most = ROWS_AT_MOST / r->n;
    *s = (resampling){.run = run, .most_groups = 1, .parts = 4 * circe_context_threads(run->context)};
    s->draws = most > DRAWS ? DRAWS : most < LEAST_DRAWS ? LEAST_DRAWS : most;
    for (int64_t a = 0; a < r->n_attributes; a++) {
        groups += r->groups[a].n_groups;
        if (r->groups[a].n_groups > s->most_groups) s->most_groups = r->groups[a].n_groups;
    }
    for (int64_t c = 0; c < run->n_contrasts; c++) {
        int64_t blocks = run->contrasts[c].n_strata * run->contrasts[c].n_cells;
        if (blocks > s->most_blocks) s->most_blocks = blocks;
    }
    s->width = r->n_predictions * groups * CIRCE_METRICS + run->n_contrasts;
    s->rankings = arena_alloc(&s->owner, (size_t)r->n_predictions * sizeof *s->rankings);
    s->drawn = arena_try(&s->owner, (size_t)(s->draws * s->width) * sizeof *s->drawn);
    circe_status status = s->drawn != NULL ? CIRCE_OK : circe_fail(CIRCE_ERR_MEMORY, "out of memory for intervals");
    for (int64_t p = 0; p < r->n_predictions && status == CIRCE_OK; p++)
        status = audit_ranking_make(&s->owner, r, p, &s->rankings[p]);
    return status;
}

static circe_status draw_all(audit_run *run, resampling *s) {
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; k < ROUNDS && status == CIRCE_OK; k++) {
        s->first = s->draws * k / ROUNDS;
        s->last = s->draws * (k + 1) / ROUNDS;
        circe_context_run(run->context, s->parts, run_part, s);
        if (s->failed) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)run->r->n);
        status = audit_step_intervals(run, (double)(k + 1) / ROUNDS);
    }
    return status;
}

circe_status audit_resample(audit_run *run) {
    resampling s;
    circe_status status = prepare(run, &s);
    OWNED double *value = small_alloc((size_t)s.width * sizeof *value),
                 *column = small_alloc((size_t)s.draws * sizeof *column);
    if (status == CIRCE_OK) status = draw_all(run, &s);
    if (status == CIRCE_OK) {
        OWNED audit_sums *sums = audit_sums_make(s.most_groups);
        evaluate(&s, NULL, sums, NULL, value);
        put_all(&s, value, column);
        int64_t metrics = s.width - run->n_contrasts;
        audit_draws draws = {s.draws, s.width, s.drawn, metrics / run->r->n_predictions, metrics};
        audit_compare_predictions(run, &draws);
    }
    arena_free(&s.owner);
    return status;
}
