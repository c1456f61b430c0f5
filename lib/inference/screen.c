/* Finds the face and width of y that suit a target. Generalised cross-validation (gcv.c) compares every candidate at a
 * low rank on at most SCREEN_ROWS rows, and ranks them as well as leave-one-out does. Leave-one-out then chooses the
 * ridge at full rank (regression.c). What was fitted to the target beforehand counts: a metric of d columns as d
 * degrees of freedom, each split of a tree as SPLIT_DEGREES. Sums of parts grow one part at a time, from the best
 * kernel and from the additive one.
 *
 * rcot begins with a short search, on QUICK_ROWS rows, for a smooth function of y or of a few directions of it: two
 * widths of the metric, some of one kernel. What it finds for a side has few degrees of freedom or is not used: then,
 * or if the residuals of both sides are not free of y (rcot.c), all of the search follows. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"
#include "inference/memory.h"

enum {
    SCREEN_ROWS = 1200,
    QUICK_ROWS = 600,
    QUICK_RANK = 64,
    RANK = 80,
    SIMPLE_RANK = 40,
    MOST_RANK = 160, /* in one dimension: an eighth of the rows, between these */
    ROUGH_ROWS = 2500,
    MOST_ADDITIVE_DIM = 40,
    MOST_PAIRED_DIM = 14,
    MOST_INTERACTING = 10,
    CHEAP_SPLIT_DIM = 3, /* up to here a tree costs little beside the rest */
    MOST_SPLIT_DIM = 8
};
static const double SPLIT_DEGREES = 3.0;
/* Errors that differ by a smaller share are the same for rcot, which then takes fewer features. Cross-validation of
 * some hundred rows does not tell them apart. */
static const double ALIKE = 0.0025, ALIKE_QUICK = 0.005;
/* Of ridges whose errors are so near, the short search takes the largest: the least error of some hundred rows is
 * often, by chance, that of many degrees of freedom. */
static const double NEAR = 0.01;
static const double CLEARLY = 0.97; /* an error over one that it is clearly less than */

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct screening {
    const circe__data *data; /* the rows that are screened */
    const circe__table *targets[2];
    circe__sight best[2];
    double least[2], degrees[2], ridge[2], share[2]; /* share: of the error of the mean alone */
    double floor[2];                                 /* the least error of all; least: of the best */
    int64_t rank[2];                                 /* features of the best */
    const circe__data *all;                          /* what they are rows of, which: NULL, all of them */
    const int64_t *index;
    const circe__table *of_all[2];
    circe__key of_y; /* where there is a memory of tests */
} screening;

static int64_t rank_of(const circe__data *data) {
    if (data->quick) return QUICK_RANK;
    return circe__columns(data)->dim > 1 ? RANK : circe__min(circe__max(data->total / 8, RANK), MOST_RANK);
}

/* Whether an error with so many features is better than the best of side t so far. Jumps, whose places all rows have
 * found, count if they help at all. */
static bool is_better(const screening *s, int t, double error, int64_t rank, unsigned parts) {
    if (!circe__kind_of(&s->data->options)->frugal || (parts & CIRCE__LEAVES)) return error < s->least[t];
    double share = s->data->quick ? ALIKE_QUICK : ALIKE;
    double alike = (rank < s->rank[t] ? 1.0 + share : 1.0 - share) * s->floor[t];
    return error < alike || (error < s->least[t] && rank <= s->rank[t]);
}

/* A candidate for the sides whose flag is set. */
static circe_status consider_at(screening *s, circe__sight sight, bool of_x, bool of_z, double extra, int64_t rank) {
    const double near = s->data->quick ? NEAR : 0.0;
    const circe__table *targets[2] = {of_x ? s->targets[0] : NULL, of_z ? s->targets[1] : NULL};
    const double extras[2] = {extra, extra};
    circe__gcv found[2];
    int64_t features = 0;
    if (targets[0] == NULL && targets[1] == NULL) return CIRCE_OK;
    circe_status status = circe__gcv_under(s->data, &s->of_y, &sight, rank, targets, extras, near, found, &features);
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL && is_better(s, t, found[t].error, features, sight.parts)) {
            s->least[t] = found[t].error;
            s->rank[t] = features;
            s->degrees[t] = found[t].degrees;
            s->ridge[t] = found[t].ridge;
            s->share[t] = found[t].alone > 0.0 ? found[t].error / found[t].alone : 1.0;
            s->best[t] = sight;
            s->best[t].side = t;
        }
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL) s->floor[t] = fmin(s->floor[t], found[t].error);
    return status;
}

static circe_status consider(screening *s, circe__sight sight, bool of_x, bool of_z, double extra) {
    return consider_at(s, sight, of_x, of_z, extra, rank_of(s->data));
}

/* Whether a column of y is far from its scores: below .97 of correlation (uniform .977, lognormal .76). */
static bool is_skewed(const circe__data *data) {
    const double *y = circe__columns(data)->points, *scores = data->faces->scores.points;
    int64_t n = data->total, d = circe__columns(data)->dim;
    for (int64_t c = 0; c < d; c++) {
        double my = 0.0, ms = 0.0, yy = 0.0, ss = 0.0, ys = 0.0;
        for (int64_t i = 0; i < n; i++) {
            my += y[i * d + c] / (double)n;
            ms += scores[i * d + c] / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double a = y[i * d + c] - my, b = scores[i * d + c] - ms;
            yy += a * a;
            ss += b * b;
            ys += a * b;
        }
        if (ys < 0.97 * sqrt(yy * ss)) return true;
    }
    return false;
}

/* Widths of one kernel, each on its own, and the best of them. */
typedef struct widths {
    const screening *s;
    unsigned part;
    const double *width;
    screening *tried; /* (n) */
} widths;

static circe_status try_width(void *user, int64_t k) {
    const widths *w = user;
    w->tried[k] = *w->s;
    return consider(&w->tried[k], (circe__sight){w->part, 0, w->width[k], 0, 0.0}, true, true, 0.0);
}

/* Side t of `from`, if it is better. */
static void take_better(screening *s, const screening *from, int t) {
    bool better = is_better(s, t, from->least[t], from->rank[t], from->best[t].parts);
    s->floor[t] = fmin(s->floor[t], from->floor[t]);
    if (!better) return;
    s->least[t] = from->least[t];
    s->rank[t] = from->rank[t];
    s->degrees[t] = from->degrees[t];
    s->ridge[t] = from->ridge[t];
    s->share[t] = from->share[t];
    s->best[t] = from->best[t];
}

static circe_status consider_widths(screening *s, unsigned part, const double *width, int64_t n) {
    CIRCE__OWNED screening *tried = circe__alloc(s->data->context, n, sizeof *tried);
    widths w = {s, part, width, tried};
    circe_status status = tried == NULL ? CIRCE_ERR_MEMORY : circe__beside(s->all, n, try_width, &w);
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++)
        for (int t = 0; t < 2; t++) take_better(s, &tried[k], t);
    return status;
}

/* Tries widths from the middle outwards, as long as each is better than those before. */
static circe_status consider_metric(screening *s, int t) {
    const double width[] = {0.1, 0.3, 1.0, 3.0};
    const int64_t n = sizeof width / sizeof *width, middle = n / 2, dim = s->data->faces->metric[t].dim;
    circe_status status = CIRCE_OK;
    if (s->targets[t] == NULL || dim == 0) return CIRCE_OK;
    for (int step = -1; status == CIRCE_OK && step <= 1; step += 2) {
        bool better = true;
        for (int64_t k = step < 0 ? middle : middle + 1; status == CIRCE_OK && better && k >= 0 && k < n; k += step) {
            double before = s->least[t];
            status = consider(s, (circe__sight){CIRCE__METRIC, t, width[k], 0, 0.0}, t == 0, t == 1, (double)dim);
            better = k == middle || s->least[t] < before;
        }
    }
    return status;
}

/* The degrees of freedom that the learned parts of a sight count as. */
static double fitted_degrees(const screening *s, unsigned parts, int t) {
    return (parts & CIRCE__METRIC ? (double)s->data->faces->metric[t].dim : 0.0) +
           (parts & CIRCE__LEAVES ? SPLIT_DEGREES * (double)s->data->faces->splits[t] : 0.0);
}

/* Tries one more part beside the best of a side so far. */
static circe_status consider_beside(screening *s, int t, unsigned part) {
    circe__sight sight = s->best[t];
    if (s->targets[t] == NULL || (sight.parts & part)) return CIRCE_OK;
    sight.parts |= part;
    return consider(s, sight, t == 0, t == 1, fitted_degrees(s, sight.parts, t));
}

/* Tries additive, then with products, then with leaves: a separate path, which may not include the best so far. */
static circe_status consider_additive(screening *s, int t) {
    screening own = *s;
    const double width[] = {0.1, 0.3, 1.0};
    circe_status status = CIRCE_OK;
    own.least[t] = own.floor[t] = HUGE_VAL;
    for (int k = 0; status == CIRCE_OK && k < 3; k++)
        status = consider(&own, (circe__sight){CIRCE__ADDITIVE, t, width[k], 0, 0.0}, t == 0, t == 1, 0.0);
    if (status == CIRCE_OK && circe__columns(s->data)->dim <= MOST_PAIRED_DIM)
        status = consider_beside(&own, t, CIRCE__PRODUCTS);
    if (status == CIRCE_OK && s->data->faces->splits[t] > 0) status = consider_beside(&own, t, CIRCE__LEAVES);
    own.share[t] = s->share[t];
    take_better(s, &own, t);
    return status;
}

/* A smooth function of few directions takes a dozen degrees of freedom or so, at any n. */
static const double SMOOTH = 25.0;

/* Whether the best so far of a side uses so many degrees of freedom that its bias may matter. In the short search of
 * few rows, a smooth function may use more of them: the misfit says whether it matters (rcot.c). */
static bool is_rough(const screening *s, int t) {
    const double n = (double)s->data->total, many = n / 16.0, few_rows = fmin(n / 6.0, SMOOTH);
    return s->targets[t] != NULL && s->degrees[t] >= (s->data->quick ? fmax(many, few_rows) : many);
}

/* Whether it takes more degrees of freedom than a smooth function. Steps of many columns under much noise (classes of x
 * and z) do, but far fewer than is_rough asks for. */
static bool may_jump(const screening *s, int t) {
    return s->targets[t] != NULL && s->data->y.dim <= MOST_SPLIT_DIM && s->degrees[t] >= SMOOTH;
}

/* Whether it explains something, but little, as a kernel does of a product of columns. */
static bool tells_little(const screening *s, int t) {
    return circe__columns(s->data)->dim > 3 && s->share[t] > 0.92 && s->share[t] < 0.99;
}

/* wrong[t]: whether it is worse than a sum of functions of one column each, and products. */
static circe_status compare_simple(const screening *s, bool wrong[2]) {
    screening own = *s;
    int64_t d = circe__columns(s->data)->dim;
    circe_status status = CIRCE_OK;
    own.least[0] = own.least[1] = own.floor[0] = own.floor[1] = HUGE_VAL;
    wrong[0] = wrong[1] = false;
    if (d < 2 || d > MOST_ADDITIVE_DIM) return CIRCE_OK;
    unsigned parts = CIRCE__ADDITIVE | (d <= MOST_PAIRED_DIM ? CIRCE__PRODUCTS : 0u);
    status = consider_at(&own, (circe__sight){parts, 0, 0.3, 0, 0.0}, true, true, 0.0, SIMPLE_RANK);
    for (int t = 0; t < 2; t++) wrong[t] = own.least[t] < CLEARLY * s->least[t];
    return status;
}

/* The leaves of the side's tree, of all rows and of the screened ones. */
static circe_status grow_tree(screening *s, int t, int64_t few) {
    circe__faces *all = s->all->faces, *part = s->data->faces;
    if (s->all->dependence != NULL) return CIRCE_OK; /* splits would follow dependent rows */
    circe_status status = circe__tree_grow(s->all, s->of_all[t], t, few);
    if (status != CIRCE_OK || part == all || all->splits[t] == 0) return status;
    part->splits[t] = all->splits[t];
    circe__variable_free(s->all->context, &part->leaves[t]);
    return circe__variable_subset(s->all, &all->leaves[t], s->index, s->data->total, &part->leaves[t]);
}

/* Tries the costly candidates, for a side that needs them. */
static circe_status consider_sums(screening *s, int t) {
    int64_t d = circe__columns(s->data)->dim;
    circe_status status = grow_tree(s, t, INT64_MAX);
    if (status == CIRCE_OK && d > 1 && d <= MOST_ADDITIVE_DIM) status = consider_beside(s, t, CIRCE__ADDITIVE);
    if (status == CIRCE_OK && d > 1 && d <= MOST_PAIRED_DIM) status = consider_beside(s, t, CIRCE__PRODUCTS);
    if (status == CIRCE_OK && s->data->faces->splits[t] > 0) status = consider_beside(s, t, CIRCE__LEAVES);
    if (status == CIRCE_OK && d > 1 && d <= MOST_ADDITIVE_DIM) status = consider_additive(s, t);
    return status;
}

/* Tries jumps along columns and learned directions, if they are few: a smooth function takes many splits. The best so
 * far may be narrow for the jumps' sake alone, so a wide kernel stands beside them too. */
static circe_status consider_leaves(screening *s, int t) {
    enum { FEW_SPLITS = 6 };
    circe_status status = s->targets[t] == NULL ? CIRCE_OK : grow_tree(s, t, FEW_SPLITS);
    int64_t splits = s->data->faces->splits[t];
    if (status != CIRCE_OK || splits == 0 || splits > FEW_SPLITS) return status;
    const circe__sight best = s->best[t];
    const double width = best.parts == CIRCE__KERNEL ? 1.0 : 3.0;
    const circe__sight wide = {CIRCE__KERNEL | CIRCE__LEAVES, t, width, 0, 0.0};
    status = consider_beside(s, t, CIRCE__LEAVES);
    if (status != CIRCE_OK || (best.parts == CIRCE__KERNEL && best.multiple >= width)) return status;
    return consider(s, wide, t == 0, t == 1, fitted_degrees(s, wide.parts, t));
}

/* If the best so far uses many degrees of freedom, also tries directions among products of columns. */
static circe_status consider_interactions(screening *s, int t, bool wrong) {
    circe__variable *face = &s->all->faces->metric[t], before = *face;
    circe__sight best = s->best[t];
    if (circe__columns(s->data)->dim < 2 || circe__columns(s->data)->dim > MOST_INTERACTING || s->targets[t] == NULL ||
        !(wrong || is_rough(s, t) || tells_little(s, t)))
        return CIRCE_OK;
    *face = (circe__variable){0};
    const circe__table *targets[2] = {t == 0 ? s->of_all[0] : NULL, t == 1 ? s->of_all[1] : NULL};
    circe_status status = circe__metric_learn(s->all, targets, true);
    if (status == CIRCE_OK && s->index != NULL) {
        circe__variable *part = &s->data->faces->metric[t], old = *part;
        status = circe__variable_subset(s->all, face, s->index, s->data->total, part);
        circe__variable_free(s->all->context, &old);
    }
    if (status == CIRCE_OK) status = consider_metric(s, t);
    bool better = best.parts != s->best[t].parts || best.multiple != s->best[t].multiple;
    circe__variable_free(s->all->context, better ? &before : face);
    if (!better) *face = before;
    bool again =
        better && circe__columns(s->data)->dim > 2; /* tree.c says why two columns have no jumps along products */
    return status == CIRCE_OK && again ? consider_leaves(s, t) : status;
}

/* What is tried for one side alone. */
typedef circe_status side_fn(screening *s, int t, bool wrong);

static circe_status side_metric(screening *s, int t, bool wrong) {
    (void)wrong;
    return consider_metric(s, t);
}

static circe_status side_costly(screening *s, int t, bool wrong) {
    int64_t d = circe__columns(s->data)->dim;
    circe_status status = CIRCE_OK;
    if (s->targets[t] != NULL && (d == 1 || wrong || is_rough(s, t)))
        status = consider_sums(s, t);
    else if (s->data->y.dim <= CHEAP_SPLIT_DIM || may_jump(s, t))
        status = consider_leaves(s, t);
    return status == CIRCE_OK ? consider_interactions(s, t, wrong) : status;
}

typedef struct both {
    side_fn *run;
    const bool *wrong;
    screening of[2]; /* each side writes to its own */
} both;

static circe_status run_side(void *user, int64_t t) {
    both *b = user;
    return b->run(&b->of[t], (int)t, b->wrong[t]);
}

static circe_status both_sides(screening *s, side_fn *run, const bool wrong[2]) {
    both b = {run, wrong, {*s, *s}};
    circe_status status = circe__beside(s->all, 2, run_side, &b);
    for (int t = 0; t < 2; t++) take_better(s, &b.of[t], t);
    return status;
}

/* Tries the cheap candidates for every side, then the others if these are rough. In one dimension a jump takes few
 * degrees of freedom, so leaves are always tried. */
static circe_status consider_all(screening *s) {
    const double rough[] = {0.1, 1.0, 10.0};
    const circe_test_options *o = &s->data->options;
    int64_t d = circe__columns(s->data)->dim, first = 0;
    while (d > 2 && first + 1 < o->n_width && o->width[first] < 0.1)
        first++; /* narrower ones reach no neighbour there */
    const unsigned kernels[] = {CIRCE__KERNEL, CIRCE__SCORES};
    circe_status status = CIRCE_OK;
    bool wrong[2] = {false, false};
    for (int k = 0; status == CIRCE_OK && k < (is_skewed(s->data) ? 2 : 1); k++)
        status = consider_widths(s, kernels[k], o->width + first, o->n_width - first);
    if (status == CIRCE_OK && d == 1 && s->all->total <= ROUGH_ROWS)
        status = consider_widths(s, CIRCE__ROUGH, rough, 3);
    if (status == CIRCE_OK) status = both_sides(s, side_metric, wrong);
    if (status == CIRCE_OK) status = compare_simple(s, wrong);
    if (status == CIRCE_OK) status = both_sides(s, side_costly, wrong);
    return status;
}

/* ---- the short search -------------------------------------------------------------------------------------------- */

static circe_status side_wide(screening *s, int t, bool wrong) {
    const double width[] = {1.0, 3.0};
    circe_status status = CIRCE_OK;
    (void)wrong;
    for (int k = 0; status == CIRCE_OK && k < 2 && s->targets[t] != NULL && s->data->faces->metric[t].dim > 0; k++)
        status = consider(s, (circe__sight){CIRCE__METRIC, t, width[k], 0, 0.0}, t == 0, t == 1,
                          (double)s->data->faces->metric[t].dim);
    return status;
}

/* Where directions of y are no clear gain, tries a few widths of one kernel, from the median downwards, as long as each
 * is better. */
static circe_status try_downwards(screening *s, bool narrow[2]) {
    const double narrowest = 0.1;
    const unsigned part = is_skewed(s->data) ? CIRCE__SCORES : CIRCE__KERNEL;
    const circe_test_options *o = &s->data->options;
    const circe__faces *faces = s->data->faces;
    screening own = *s;
    circe_status status = CIRCE_OK;
    for (int t = 0; t < 2; t++) {
        narrow[t] = s->targets[t] != NULL && !(faces->metric[t].dim > 0 && faces->learned[t] < CLEARLY);
        own.least[t] = own.floor[t] = HUGE_VAL;
    }
    for (int64_t k = o->n_width - 1; status == CIRCE_OK && k >= 0; k--) {
        const double before[2] = {own.floor[0], own.floor[1]};
        if (o->width[k] > 1.0 || o->width[k] < narrowest) continue;
        status = consider(&own, (circe__sight){part, 0, o->width[k], 0, 0.0}, narrow[0], narrow[1], 0.0);
        for (int t = 0; t < 2; t++) narrow[t] = narrow[t] && own.floor[t] < (1.0 - ALIKE_QUICK) * before[t];
    }
    for (int t = 0; t < 2; t++) take_better(s, &own, t);
    return status;
}

static circe_status side_jumps(screening *s, int t, bool wrong) {
    (void)wrong;
    return s->data->y.dim <= CHEAP_SPLIT_DIM ? consider_leaves(s, t) : CIRCE_OK;
}

/* Finds smooth functions of y, or of a few directions of it. enough[t]: nothing says that there is more to find for
 * side t. Neither side's choice depends on the other, so that a memory may keep it. */
static circe_status consider_few(screening *s, bool enough[2]) {
    bool wrong[2] = {false, false}, narrow[2] = {false, false};
    circe_status status = both_sides(s, side_wide, wrong);
    if (status == CIRCE_OK) status = try_downwards(s, narrow);
    if (status == CIRCE_OK) status = both_sides(s, side_jumps, wrong);
    if (status == CIRCE_OK) status = compare_simple(s, wrong);
    for (int t = 0; t < 2; t++)
        enough[t] = s->targets[t] != NULL && !wrong[t] && !is_rough(s, t) && !tells_little(s, t) &&
                    !(narrow[t] && !(s->best[t].parts & CIRCE__METRIC));
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* A multiple of the degrees of freedom that screening found: the ridge leaves more features unused, and the ridge in
 * use, a tenth of the chosen one, takes two or three times as many degrees. More rows than were screened need a few
 * more. rcot is content with half as many. */
static int64_t enough_features(const screening *s, int t) {
    const int64_t least = s->all->quick ? 48 : 96;
    double times = s->all->quick ? 2.0 : circe__kind_of(&s->all->options)->frugal ? 3.0 : 6.0;
    double more = pow((double)s->all->total / (double)s->data->total, 0.25);
    int64_t wanted = (int64_t)(times * more * s->degrees[t]), rank = least;
    while (rank < wanted) rank += rank / 3; /* steps: the two sides often share their features */
    return rank;
}

/* What features leave out of the kernel may have a trace of a tenth of the ridge in use: a direction of that size, even
 * if it were one alone, would be shrunk to nothing. */
static double enough_trace(const screening *s, int t) {
    const double least = 1e-8, most = 1e-4;
    double share = 0.1 * s->all->options.undersmoothing * s->ridge[t] / (double)s->all->total;
    return fmin(fmax(share, least), most);
}

/* The screened rows as a data set of their own, with their targets. */
static circe_status some_rows(const circe__data *data, const circe__table *const targets[2], int64_t n, int64_t *index,
                              circe__data *part, circe__table rows[2]) {
    circe_status status = index == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, data->total, n, index);
        status = circe__data_rows_of_y(data, index, n, part);
        part->quick = data->quick;
    }
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL) status = circe__table_rows(data->context, targets[t], index, n, &rows[t]);
    return status;
}

/* On at most `most` rows. */
static circe_status search(const circe__data *data, const circe__table *const targets[2], int64_t most,
                           circe__sight best[2], bool enough[2]) {
    screening s = {.data = data,
                   .all = data,
                   .targets = {targets[0], targets[1]},
                   .of_all = {targets[0], targets[1]},
                   .least = {HUGE_VAL, HUGE_VAL},
                   .floor = {HUGE_VAL, HUGE_VAL}};
    int64_t *index = NULL;
    circe__data part = {0};
    circe__table rows[2] = {{0}};
    for (int t = 0; t < 2; t++) s.best[t] = (circe__sight){CIRCE__KERNEL, t, 1.0, 0, 0.0};
    if (data->options.memory != NULL) s.of_y = circe__key_of_y(data, 's');
    circe_status status = circe__metric_learn(data, targets, false);
    if (status == CIRCE_OK && data->total > most) {
        index = circe__alloc(data->context, most, sizeof *index);
        status = some_rows(data, targets, most, index, &part, rows);
        s.data = &part;
        s.index = index;
        for (int t = 0; t < 2; t++) s.targets[t] = targets[t] == NULL ? NULL : &rows[t];
    }
    if (status == CIRCE_OK) status = data->quick ? consider_few(&s, enough) : consider_all(&s);
    for (int t = 0; t < 2; t++) {
        if (targets[t] == NULL) continue;
        best[t] = s.best[t];
        best[t].rank = enough_features(&s, t);
        best[t].left_out = enough_trace(&s, t);
    }
    circe__free(data->context, index);
    circe__data_free(&part);
    circe__table_free(data->context, &rows[0]);
    circe__table_free(data->context, &rows[1]);
    return status;
}

circe_status circe__screen(const circe__data *data, const circe__table *const targets[2], circe__sight best[2],
                           bool quick[2]) {
    const circe__table *rest[2] = {targets[0], targets[1]};
    circe__data all = *data;
    circe_status status = CIRCE_OK;
    all.quick = quick[0] = quick[1] = false;
    if (data->quick) status = search(data, targets, QUICK_ROWS, best, quick);
    for (int t = 0; t < 2; t++)
        if (quick[t]) rest[t] = NULL;
    if (status != CIRCE_OK || (rest[0] == NULL && rest[1] == NULL)) return status;
    return search(&all, rest, SCREEN_ROWS, best, NULL);
}
