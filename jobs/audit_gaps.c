/* Compares the groups of an attribute at equal outcome; for sufficiency, at equal prediction.
 *
 *     s        levels that count as equal: classes, or five groups of a number
 *     c        cells of the columns of --given within a level; one if there are none
 *     m_scg    mean over the rows of level s, cell c and group g; left out if there are fewer than five
 *              (or --smallest-group, if that is less)
 *     d_sgh    sum_c share_sc (m_scg - m_sch), over the cells that have both groups
 *     gap      sum_s share_s max_gh d_sgh
 *
 * If y has numbers, the means are of x minus its mean given y (residuals): values of y that differ within a level would
 * otherwise pass for a gap. A maximum over groups is positive by chance, the more so the more groups there are: the
 * same gap with the groups shuffled within every cell says by how much. With --weights, means and shares are weighted,
 * and a row keeps its weight whatever group it is shuffled to; whether there are enough rows is a matter of rows.
 * Groups that are too small to be compared take no part in either. O(n) per shuffle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/random.h"
#include "core/sort.h"
#include "jobs/audit_parts.h"

enum { LEAST_IN_CELL = 5, SHUFFLES = 200, PARTS = 16 };

const char *circe_audit_gap_name(circe_audit_gap_kind kind) {
    static const char *const names[] = {"mean prediction", "true positive rate", "false positive rate",
                                        "selection rate",  "precision",          "negative predictive value",
                                        "calibration"};
    return names[kind];
}

/* ---- one gap ----------------------------------------------------------------------------------------------------- */

/* What is compared: means of `value` between groups, in each of the levels from..to-1. */
typedef struct comparison {
    circe_audit_gap_kind kind;
    const int64_t *stratum; /* (n) */
    int64_t n_strata, from, to;
    const double *value;  /* (n) */
    const char *category; /* whose share it is; NULL: a mean or a rate */
} comparison;

/* A block is a cell of a level: level * n_cells + cell. The rows of groups that are compared, block by block. */
typedef struct table {
    int64_t n, n_strata, n_cells, n_groups, least;
    int64_t from, to;           /* the levels that count */
    const int64_t *start;       /* (blocks + 1): where the rows of each begin */
    const double *value;        /* (n) */
    const double *weight;       /* (n); NULL: every row counts once */
    const bool *there;          /* (blocks, groups): enough rows */
    uint8_t *group;             /* (n): shuffled within a block */
    double *sum, *count, *size; /* (blocks, groups) twice, (blocks): sums of weights */
    int64_t *high, *low;        /* (levels): the groups that differ most; -1: none */
} table;

static int64_t blocks_of(const table *t) { return t->n_strata * t->n_cells; }

static bool is_there(const table *t, int64_t block, int64_t group) { return t->there[block * t->n_groups + group]; }

/* d_sgh; NaN if no cell has both. */
static double difference(const table *t, int64_t s, int64_t g, int64_t h) {
    double total = 0, rows = 0;
    for (int64_t b = s * t->n_cells; b < (s + 1) * t->n_cells; b++) {
        if (!is_there(t, b, g) || !is_there(t, b, h)) continue;
        int64_t one = b * t->n_groups + g, other = b * t->n_groups + h;
        total += t->size[b] * (t->sum[one] / t->count[one] - t->sum[other] / t->count[other]);
        rows += t->size[b];
    }
    return rows > 0 ? total / rows : (double)NAN;
}

/* For one cell: finds the extremes. */
static void find_extremes(table *t, int64_t s) {
    double least = INFINITY, most = -INFINITY;
    for (int64_t g = 0; g < t->n_groups; g++) {
        if (!is_there(t, s, g)) continue;
        double mean = t->sum[s * t->n_groups + g] / t->count[s * t->n_groups + g];
        if (mean > most) most = mean, t->high[s] = g;
        if (mean <= least) least = mean, t->low[s] = g; /* of equal ones the last, so that two groups differ by 0 */
    }
    if (t->high[s] == t->low[s]) t->high[s] = t->low[s] = -1; /* one group alone */
}

/* For several cells, not all of which have all groups: finds the pair that differs most. */
static void find_pair(table *t, int64_t s) {
    double most = -INFINITY;
    for (int64_t g = 0; g < t->n_groups; g++) {
        for (int64_t h = g + 1; h < t->n_groups; h++) {
            double d = difference(t, s, g, h);
            if (!(fabs(d) > most)) continue;
            most = fabs(d);
            t->high[s] = d > 0 ? g : h;
            t->low[s] = d > 0 ? h : g;
        }
    }
}

/* The number of rows of a level that take part in the comparison. */
static double rows_of(const table *t, int64_t s) {
    double rows = 0;
    for (int64_t b = s * t->n_cells; b < (s + 1) * t->n_cells; b++) rows += t->size[b];
    return rows;
}

/* Sums and counts of every group, in every block. */
static void add_rows(table *t) {
    size_t sums = (size_t)(blocks_of(t) * t->n_groups);
    memset(t->sum, 0, sums * sizeof *t->sum);
    memset(t->count, 0, sums * sizeof *t->count);
    for (int64_t b = 0; b < blocks_of(t); b++) {
        double *sum = t->sum + b * t->n_groups, *count = t->count + b * t->n_groups;
        for (int64_t i = t->start[b]; i < t->start[b + 1]; i++) {
            double weight = t->weight != NULL ? t->weight[i] : 1;
            sum[t->group[i]] += weight * t->value[i];
            count[t->group[i]] += weight;
        }
    }
}

/* The mean gap over the levels, each weighted by its rows. */
static double gap_of(table *t) {
    double total = 0, rows = 0;
    for (int64_t s = 0; s < t->n_strata; s++) {
        t->high[s] = t->low[s] = -1;
        if (s < t->from || s >= t->to) continue;
        if (t->n_cells == 1)
            find_extremes(t, s);
        else
            find_pair(t, s);
        if (t->high[s] < 0) continue;
        total += rows_of(t, s) * difference(t, s, t->high[s], t->low[s]);
        rows += rows_of(t, s);
    }
    return rows > 0 ? total / rows : (double)NAN;
}

/* ---- gaps by chance ---------------------------------------------------------------------------------------------- */

/* Fisher and Yates among the rows of each block. */
static void shuffle(table *t, circe_random generator, uint64_t first, double *uniform) {
    for (int64_t b = 0; b < blocks_of(t); b++) {
        uint8_t *group = t->group + t->start[b];
        int64_t m = t->start[b + 1] - t->start[b];
        circe_random_uniform(generator, first + (uint64_t)t->start[b], m, uniform);
        for (int64_t k = m - 1; k > 0; k--) {
            int64_t other = (int64_t)(uniform[k] * (double)(k + 1));
            uint8_t held = group[k], *with = &group[other <= k ? other : k];
            group[k] = *with, *with = held;
        }
    }
}

/* The scratch of a table, whose rows it shares. */
static table table_like(arena *owner, const table *t) {
    size_t sums = (size_t)(blocks_of(t) * t->n_groups), strata = (size_t)t->n_strata;
    table own = *t;
    own.group = arena_alloc(owner, (size_t)t->n * sizeof *own.group);
    own.sum = arena_alloc(owner, sums * sizeof *own.sum);
    own.count = arena_alloc(owner, sums * sizeof *own.count);
    own.high = arena_alloc(owner, strata * sizeof *own.high);
    own.low = arena_alloc(owner, strata * sizeof *own.low);
    return own;
}

static double log_factorial(double n) {
    int sign;
    return lgamma_r(n + 1, &sign);
}

/* How many of `drawn` rows are ones, if `ones` of `all` are: the hypergeometric quantile of u, the values taken from
 * the most likely one outwards. */
static double draw_ones(double u, double all, double ones, double drawn) {
    double least = fmax(0, drawn + ones - all), most = fmin(drawn, ones);
    double mode = fmin(most, fmax(least, floor((drawn + 1) * (ones + 1) / (all + 2)))), rest = all - ones - drawn;
    double log_p = log_factorial(ones) - log_factorial(mode) - log_factorial(ones - mode) + log_factorial(all - ones) -
                   log_factorial(drawn - mode) - log_factorial(rest + mode) - log_factorial(all) +
                   log_factorial(drawn) + log_factorial(all - drawn);
    double up = exp(log_p), down = up, high = mode, low = mode;
    u -= up;
    while (u > 0 && (high < most || low > least)) {
        up *= high < most ? (ones - high) * (drawn - high) / ((high + 1) * (rest + high + 1)) : 0;
        if (high < most && (u -= up, ++high, u <= 0)) return high;
        down *= low > least ? low * (rest + low) / ((ones - low + 1) * (drawn - low + 1)) : 0;
        if (low > least && (u -= down, --low, u <= 0)) return low;
    }
    return mode;
}

/* For rates, rows need no shuffling: the number of ones is drawn for one group after another. */
static void draw_sums(table *t, const table *from, const double *uniform) {
    for (int64_t b = 0; b < blocks_of(t); b++) {
        double all = (double)(t->start[b + 1] - t->start[b]), ones = 0;
        for (int64_t g = 0; g < t->n_groups; g++) ones += from->sum[b * t->n_groups + g];
        for (int64_t g = 0; g < t->n_groups; g++) {
            int64_t at = b * t->n_groups + g;
            t->count[at] = from->count[at];
            t->sum[at] = from->count[at] > 0 ? draw_ones(uniform[at], all, ones, from->count[at]) : 0;
            all -= t->count[at];
            ones -= t->sum[at];
        }
    }
}

static bool is_rate(const table *t) {
    for (int64_t i = 0; i < t->n; i++)
        if (t->value[i] != 0.0 && t->value[i] != 1.0) return false;
    return true;
}

typedef struct shuffles {
    const table *of;
    circe_random generator;
    bool rate;
    double drawn[SHUFFLES];
} shuffles;

/* Every shuffle begins with the groups as they are, so that the threads do not matter. */
static void run_shuffles(void *user, int64_t part) {
    shuffles *s = user;
    OWNED_BY(arena_free) arena scratch = {0};
    table t = table_like(&scratch, s->of);
    int64_t numbers = s->rate ? blocks_of(&t) * t.n_groups : t.n;
    double *uniform = arena_alloc(&scratch, (size_t)numbers * sizeof *uniform);
    for (int64_t d = part; d < SHUFFLES; d += PARTS) {
        if (s->rate) {
            circe_random_uniform(s->generator, (uint64_t)(d * numbers), numbers, uniform);
            draw_sums(&t, s->of, uniform);
        } else {
            memcpy(t.group, s->of->group, (size_t)t.n * sizeof *t.group);
            shuffle(&t, s->generator, (uint64_t)(d * numbers), uniform);
            add_rows(&t);
        }
        s->drawn[d] = gap_of(&t);
    }
}

static void gap_by_chance(audit_run *run, const table *t, circe_audit_gap *gap) {
    shuffles s = {.of = t,
                  .generator = {.seed = (uint64_t)run->options->seed, .stream = 77},
                  .rate = t->weight == NULL && is_rate(t)};
    circe_context_run(run->context, PARTS, run_shuffles, &s);
    gap->chance = 0;
    for (int64_t d = 0; d < SHUFFLES; d++) gap->chance += s.drawn[d] / SHUFFLES;
    circe__sort(s.drawn, SHUFFLES);
    gap->chance_upper = circe__quantile(s.drawn, SHUFFLES, 0.95);
}

/* The rows that a group needs in a cell. A smaller --smallest-group lowers it. */
static int64_t least_rows(const audit_run *run) {
    return run->r->smallest_group < LEAST_IN_CELL ? run->r->smallest_group : LEAST_IN_CELL;
}

/* Which groups have enough rows in which block; shuffling changes nothing about it. */
static bool *find_there(arena *owner, const table *t) {
    OWNED int64_t *rows = small_alloc((size_t)(blocks_of(t) * t->n_groups) * sizeof *rows);
    bool *there = arena_alloc(owner, (size_t)(blocks_of(t) * t->n_groups) * sizeof *there);
    for (int64_t b = 0; b < blocks_of(t); b++) {
        for (int64_t i = t->start[b]; i < t->start[b + 1]; i++) rows[b * t->n_groups + t->group[i]]++;
        for (int64_t g = b * t->n_groups; g < (b + 1) * t->n_groups; g++) there[g] = rows[g] >= t->least;
    }
    return there;
}

/* Counts the rows of each block, then puts them in their places. */
static table table_make(arena *owner, const audit_run *run, const circe_audit_groups *groups, const comparison *c) {
    size_t n = (size_t)run->r->n, blocks = (size_t)(c->n_strata * run->n_cells);
    const circe_audit_result *r = run->r;
    int64_t *start = arena_alloc(owner, (blocks + 1) * sizeof *start);
    int64_t *next = arena_alloc(owner, blocks * sizeof *next);
    double *value = arena_alloc(owner, n * sizeof *value);
    double *weight = r->weights != NULL ? arena_alloc(owner, n * sizeof *weight) : NULL;
    table t = {.n_strata = c->n_strata,
               .n_cells = run->n_cells,
               .n_groups = groups->n_groups,
               .least = least_rows(run),
               .from = c->from,
               .to = c->to,
               .size = arena_alloc(owner, blocks * sizeof *t.size)};
    for (int64_t i = 0; i < r->n; i++) {
        if (!groups->compared[groups->of[i]]) continue;
        int64_t block = c->stratum[i] * run->n_cells + run->cells[i];
        t.size[block] += audit_weight(r, i);
        start[block + 1]++;
    }
    for (size_t b = 0; b < blocks; b++) {
        next[b] = start[b];
        start[b + 1] += start[b];
    }
    t.n = start[blocks];
    t.start = start;
    t.value = value;
    t.weight = weight;
    t = table_like(owner, &t);
    for (int64_t i = 0; i < run->r->n; i++) {
        if (!groups->compared[groups->of[i]]) continue;
        int64_t at = next[c->stratum[i] * run->n_cells + run->cells[i]]++;
        t.group[at] = (uint8_t)groups->of[i];
        value[at] = c->value[i];
        if (weight != NULL) weight[at] = r->weights[i];
    }
    t.there = find_there(owner, &t);
    return t;
}

/* The groups at the level where they differ most. */
static void name_groups(arena *owner, const table *t, const circe_audit_groups *groups, circe_audit_gap *gap) {
    double widest = -1;
    gap->stratum = t->from;
    for (int64_t s = t->from; s < t->to; s++) {
        double d = t->high[s] >= 0 ? difference(t, s, t->high[s], t->low[s]) : -1;
        if (d <= widest) continue;
        widest = d;
        gap->stratum = s;
    }
    int64_t high = t->high[gap->stratum], low = t->low[gap->stratum];
    gap->high = arena_text(owner, high >= 0 ? groups->labels[high] : "");
    gap->low = arena_text(owner, low >= 0 ? groups->labels[low] : "");
}

/* A slot contains the compared rows of a block's low group, its high group, or its other groups. */
static void add_contrast(audit_run *run, const circe_audit_groups *groups, const comparison *what, const table *t,
                         circe_audit_gap *gap) {
    int64_t n = run->r->n;
    audit_contrast *c = &run->contrasts[run->n_contrasts++];
    *c = (audit_contrast){.gap = gap,
                          .value = what->value,
                          .n_strata = t->n_strata,
                          .n_cells = t->n_cells,
                          .slot = arena_alloc(&run->owner, (size_t)n * sizeof *c->slot),
                          .used = arena_alloc(&run->owner, (size_t)blocks_of(t) * sizeof *c->used)};
    for (int64_t b = 0; b < blocks_of(t); b++) {
        int64_t high = t->high[b / t->n_cells], low = t->low[b / t->n_cells];
        c->used[b] = high >= 0 && is_there(t, b, high) && is_there(t, b, low);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t s = what->stratum[i], g = groups->of[i];
        int32_t of = g == t->low[s] ? AUDIT_LOW : g == t->high[s] ? AUDIT_HIGH : AUDIT_OTHER;
        bool counts = groups->compared[g] && t->high[s] >= 0;
        int64_t block = counts ? s * t->n_cells + run->cells[i] : blocks_of(t);
        c->slot[i] = (int32_t)block * AUDIT_SLOTS + (counts ? of : 0);
    }
}

/* Whether the gap is at a level of the outcome or of the prediction. */
static bool has_level(const circe_audit_finding *f, circe_audit_gap_kind kind) {
    if (kind == CIRCE_GAP_MEAN_PREDICTION) return f->notion == CIRCE_NOTION_SEPARATION;
    return kind == CIRCE_GAP_TRUE_POSITIVE_RATE || kind == CIRCE_GAP_FALSE_POSITIVE_RATE ||
           kind == CIRCE_GAP_CALIBRATION;
}

/* "b, c": groups that are large enough, but have too few of the rows that a rate counts. NULL: there are none, or no
 * others. */
static char *left_out(const circe_audit_groups *groups, const table *t) {
    char *names = NULL;
    int64_t there = 0;
    for (int64_t g = 0; g < t->n_groups; g++) {
        there += is_there(t, t->from, g);
        if (!groups->compared[g] || is_there(t, t->from, g)) continue;
        char *longer = small_format("%s%s%s", names != NULL ? names : "", names != NULL ? ", " : "", groups->labels[g]);
        free(names);
        names = longer;
    }
    if (there > 0) return names;
    free(names);
    return NULL;
}

static void note_left_out(audit_run *run, const circe_audit_finding *f, const circe_audit_groups *groups,
                          const comparison *what, const table *t) {
    bool of_outcome = what->kind == CIRCE_GAP_TRUE_POSITIVE_RATE || what->kind == CIRCE_GAP_FALSE_POSITIVE_RATE;
    bool told = f->prediction > 0 && of_outcome; /* by the first prediction */
    const circe_audit_column *c = audit_attribute(run->r, f);
    if (what->to - what->from != 1 || t->n_cells > 1 || told || c->categories == NULL) return;
    OWNED char *names = left_out(groups, t);
    if (names != NULL)
        notes_add(&run->warnings,
                  "the gap in the %s%s%s between groups of '%s' leaves out %s: fewer than %lld such rows",
                  circe_audit_gap_name(what->kind), of_outcome ? "" : " of ",
                  of_outcome ? "" : run->r->predictions[f->prediction].name, c->name, names, (long long)t->least);
}

static void find_gap(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups, const comparison *what) {
    circe_audit_gap *gap = &f->gaps[f->n_gaps++];
    OWNED_BY(arena_free) arena scratch = {0};
    table t = table_make(&scratch, run, groups, what);
    add_rows(&t);
    *gap = (circe_audit_gap){
        .kind = what->kind, .n_groups = audit_groups_compared(groups), .gap = {gap_of(&t), (double)NAN, (double)NAN}};
    if (what->category != NULL) gap->category = arena_text(audit_owner(run->r), what->category);
    name_groups(audit_owner(run->r), &t, groups, gap);
    note_left_out(run, f, groups, what, &t);
    if (!has_level(f, what->kind)) gap->stratum = -1;
    add_contrast(run, groups, what, &t, gap);
    gap_by_chance(run, &t, gap);
}

/* The notion that a rate of decisions belongs to. */
static const circe_audit_notion notion_of[CIRCE_GAP_KINDS] = {
    [CIRCE_GAP_TRUE_POSITIVE_RATE] = CIRCE_NOTION_SEPARATION,
    [CIRCE_GAP_FALSE_POSITIVE_RATE] = CIRCE_NOTION_SEPARATION,
    [CIRCE_GAP_SELECTION_RATE] = CIRCE_NOTION_INDEPENDENCE,
    [CIRCE_GAP_PRECISION] = CIRCE_NOTION_SUFFICIENCY,
    [CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE] = CIRCE_NOTION_SUFFICIENCY};

/* A finding has the rates of its own notion; for separation also the usual ones of notions that were not asked for, as
 * a comparison. */
static bool belongs(const circe_audit_result *r, const circe_audit_finding *f, circe_audit_gap_kind kind) {
    if (notion_of[kind] == f->notion) return true;
    return f->notion == CIRCE_NOTION_SEPARATION && !audit_asks(r, notion_of[kind]) &&
           kind != CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE;
}

/* Rates of decisions: at equal outcome; of all rows; and of the outcome among those that are selected, or not. */
static void compare_rates(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups) {
    const double *selected = run->selected[f->prediction];
    const int64_t *outcome = run->r->strata.of, *decision = run->decision[f->prediction];
    const comparison list[] = {
        {CIRCE_GAP_TRUE_POSITIVE_RATE, outcome, 2, 1, 2, selected, NULL},
        {CIRCE_GAP_FALSE_POSITIVE_RATE, outcome, 2, 0, 1, selected, NULL},
        {CIRCE_GAP_SELECTION_RATE, run->all_rows, 1, 0, 1, selected, NULL},
        {CIRCE_GAP_PRECISION, decision, 2, 1, 2, run->r->target.values, NULL},
        {CIRCE_GAP_NEGATIVE_PREDICTIVE_VALUE, decision, 2, 0, 1, run->negative, NULL},
    };
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
        if (belongs(run->r, f, list[k].kind)) find_gap(run, f, groups, &list[k]);
}

/* What is compared at equal y: a part of x, minus its mean if that changes within a level. If y is categories, means of
 * the share of a class and of its residuals differ by the same. */
const double *audit_compared_value(const circe_audit_result *r, const circe_audit_finding *f, int64_t part) {
    const audit_question *q = audit_question_of(r, f);
    return q->n_numbers > 0 || q->x_is_words ? audit_residual(r, f, part) : q->x->values;
}

static void compare(audit_run *run, circe_audit_finding *f, const circe_audit_groups *groups) {
    const circe_audit_groups *levels = audit_levels(run->r, f);
    int64_t n = levels != NULL ? levels->n_groups : 1;
    if (audit_groups_compared(groups) < 2) return;
    for (int64_t k = 0; k < f->n_parts; k++) {
        comparison mean = {f->notion == CIRCE_NOTION_SUFFICIENCY ? CIRCE_GAP_CALIBRATION : CIRCE_GAP_MEAN_PREDICTION,
                           levels != NULL ? levels->of : run->all_rows,
                           n,
                           0,
                           n,
                           audit_compared_value(run->r, f, k),
                           audit_part_name(run->r, f, k)};
        find_gap(run, f, groups, &mean);
    }
    if (run->selected != NULL) compare_rates(run, f, groups);
}

const circe_audit_gap *audit_gap_of(const circe_audit_finding *f, circe_audit_gap_kind kind) {
    const circe_audit_gap *found = NULL;
    for (int i = 0; i < f->n_gaps; i++) {
        const circe_audit_gap *g = &f->gaps[i];
        if (g->kind != kind || (found != NULL && found->n_groups == 4 && g->n_groups != 4)) continue;
        bool larger = found == NULL || (found->n_groups == g->n_groups && g->gap.value > found->gap.value);
        if (larger || (g->n_groups == 4 && found->n_groups != 4)) found = g;
    }
    return found;
}

/* Binnings of numbers, from coarse to fine, each with more groups than the one before. */
void audit_find_gaps(audit_run *run, circe_audit_finding *f) {
    const circe_audit_groups *finest = &run->r->groups[f->attribute];
    int64_t last = 1;
    for (int b = 0; b < AUDIT_COARSE; b++) {
        const circe_audit_groups *groups = &run->coarse[f->attribute * AUDIT_COARSE + b];
        if (groups->n_groups > last && groups->n_groups < finest->n_groups) compare(run, f, groups);
        last = groups->n_groups > last ? groups->n_groups : last;
    }
    compare(run, f, finest);
}
