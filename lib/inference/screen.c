/* Which face of y, and which width, suits a target: every candidate at a low rank, by generalised cross-validation.
 *
 *     F (n, r)   features, centred and weighted;  F'F = V' diag(s) V,  P = V F'T
 *     gcv = (|T|^2 - sum_k |P_k|^2 (2 / (s_k + ridge) - s_k / (s_k + ridge)^2)) / n / (1 - degrees / n)^2
 *
 * takes O(r q) for a ridge where leave-one-out takes O(n r q), and ranks candidates as well; the ridge that is used is
 * then chosen by leave-one-out at full rank (regression.c). On at most SCREEN_ROWS rows. What was fitted to the target
 * beforehand counts: a metric of d columns as d degrees of freedom, each split of a tree as
 * SPLIT_DEGREES. Sums of parts are tried one part after another, from the best kernel and from the additive one. */
#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum {
    SCREEN_ROWS = 3000,
    RANK_ONE = 160,
    RANK_MANY = 80,
    COLUMNS = 48,
    ROUGH_ROWS = 2500,
    MOST_ADDITIVE_DIM = 40,
    MOST_PAIRED_DIM = 14,
    MOST_INTERACTING = 10
};
static const double SPLIT_DEGREES = 3.0;

static double gcv_at(const double *s, const double *power, int64_t r, double total, double n, double extra,
                     double ridge, double *used) {
    double degrees = 1.0 + extra, left = total;
    for (int64_t k = 0; k < r; k++) {
        double inverse = 1.0 / (s[k] + ridge);
        degrees += s[k] * inverse;
        left -= power[k] * (2.0 * inverse - s[k] * inverse * inverse);
    }
    double free = 1.0 - degrees / n;
    *used = degrees;
    return free > 0.1 ? fmax(left, 0.0) / n / (free * free) : HUGE_VAL;
}

circe_status circe__gcv_of(const circe__data *data, circe__table *F, const circe__table *const targets[2],
                           const double extra[2], circe__gcv found[2]) {
    const circe_context *context = data->context;
    const circe__algebra *algebra = context->backend->algebra;
    const circe_test_options *o = &data->options;
    int64_t n = F->rows, r = F->cols, ld = circe__max(r, 1);
    double *V = circe__alloc(context, 3 * r * r + 8 * r + 2 * r * COLUMNS + 8, sizeof *V);
    int *iwork = circe__alloc(context, 3 + 5 * r, sizeof *iwork);
    circe_status status = V == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && r > 0) {
        algebra->gram_update(r, n, F->data, ld, 0.0, V, ld);
        if (algebra->eigen(r, V, V + r * r, V + r * r + r, iwork) != 0)
            status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of y's features did not converge");
    }
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        found[t] = (circe__gcv){HUGE_VAL, 0.0, 1.0, 0.0};
        if (targets[t] == NULL) continue;
        int64_t all = targets[t]->cols, q = circe__min(all, COLUMNS);
        double *s = V + r * r, *cross = s + r, *turned = cross + r * q, *power = turned + r * q, total = 0.0;
        for (int64_t i = 0; i < n; i++) total += circe__square_norm(targets[t]->data + i * all, q);
        if (r > 0 && q > 0) {
            algebra->gemm(1, 0, r, q, n, 1.0, F->data, ld, targets[t]->data, all, 0.0, cross, q);
            algebra->gemm(0, 0, r, q, r, 1.0, V, ld, cross, q, 0.0, turned, q);
        }
        for (int64_t k = 0; k < r; k++) {
            s[k] = fmax(s[k], 0.0);
            power[k] = circe__square_norm(turned + k * q, q);
        }
        found[t].alone = total / (double)n;
        for (int64_t l = 0; l < o->n_ridge; l++) {
            double degrees, error = gcv_at(s, power, r, total, (double)n, extra[t], o->ridge[l], &degrees);
            if (error < found[t].error) found[t] = (circe__gcv){error, total / (double)n, o->ridge[l], degrees};
        }
    }
    circe__free(context, V);
    circe__free(context, iwork);
    circe__table_free(context, F);
    return status;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct screening {
    const circe__data *data; /* the rows that are screened */
    const circe__table *targets[2];
    circe__sight best[2];
    double least[2], degrees[2];
    const circe__data *all; /* what they are rows of, which: NULL, all of them */
    const int64_t *index;
    const circe__table *of_all[2];
} screening;

/* A candidate for the sides whose flag is set. */
static circe_status consider(screening *s, circe__sight sight, bool of_x, bool of_z, double extra) {
    const circe__table *targets[2] = {of_x ? s->targets[0] : NULL, of_z ? s->targets[1] : NULL};
    const double extras[2] = {extra, extra};
    circe__gcv found[2];
    circe__table F = {0};
    double left;
    if (targets[0] == NULL && targets[1] == NULL) return CIRCE_OK;
    circe_status status =
        circe__face_features(s->data, &sight, 1e-6, s->data->y.dim > 1 ? RANK_MANY : RANK_ONE, &F, &left);
    if (status == CIRCE_OK) circe__weigh(s->data, &F);
    if (status == CIRCE_OK) status = circe__gcv_of(s->data, &F, targets, extras, found);
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL && found[t].error < s->least[t]) {
            s->least[t] = found[t].error;
            s->degrees[t] = found[t].degrees;
            s->best[t] = sight;
            s->best[t].side = t;
        }
    circe__table_free(s->data->context, &F);
    return status;
}

/* Whether a column of y is far from its scores: below .97 of correlation (uniform .977, lognormal .76). */
static bool is_skewed(const circe__data *data) {
    const double *y = data->y.points, *scores = data->faces->scores.points;
    int64_t n = data->total, d = data->y.dim;
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

static circe_status consider_widths(screening *s, unsigned part, const double *width, int64_t n, double least) {
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++)
        if (width[k] >= least) status = consider(s, (circe__sight){part, 0, width[k]}, true, true, 0.0);
    return status;
}

static circe_status consider_metric(screening *s, int t) {
    const double width[] = {0.1, 0.3, 1.0, 3.0};
    circe_status status = CIRCE_OK;
    for (size_t k = 0; status == CIRCE_OK && k < sizeof width / sizeof *width; k++)
        if (s->targets[t] != NULL && s->data->faces->metric[t].dim > 0)
            status = consider(s, (circe__sight){CIRCE__METRIC, t, width[k]}, t == 0, t == 1,
                              (double)s->data->faces->metric[t].dim);
    return status;
}

/* What the learned parts of a sight count for. */
static double fitted_degrees(const screening *s, unsigned parts, int t) {
    return (parts & CIRCE__METRIC ? (double)s->data->faces->metric[t].dim : 0.0) +
           (parts & CIRCE__LEAVES ? SPLIT_DEGREES * (double)s->data->faces->splits[t] : 0.0);
}

/* One more part beside the best of a side so far. */
static circe_status consider_beside(screening *s, int t, unsigned part) {
    circe__sight sight = s->best[t];
    if (s->targets[t] == NULL || (sight.parts & part)) return CIRCE_OK;
    sight.parts |= part;
    return consider(s, sight, t == 0, t == 1, fitted_degrees(s, sight.parts, t));
}

/* Additive, then with products, then with leaves: a path of its own, which the best so far may not lie on. */
static circe_status consider_additive(screening *s, int t) {
    screening own = *s;
    const double width[] = {0.1, 0.3, 1.0};
    circe_status status = CIRCE_OK;
    own.least[t] = HUGE_VAL;
    for (int k = 0; status == CIRCE_OK && k < 3; k++)
        status = consider(&own, (circe__sight){CIRCE__ADDITIVE, t, width[k]}, t == 0, t == 1, 0.0);
    if (status == CIRCE_OK && s->data->y.dim <= MOST_PAIRED_DIM) status = consider_beside(&own, t, CIRCE__PRODUCTS);
    if (status == CIRCE_OK && s->data->faces->splits[t] > 0) status = consider_beside(&own, t, CIRCE__LEAVES);
    if (own.least[t] < s->least[t]) {
        s->least[t] = own.least[t];
        s->degrees[t] = own.degrees[t];
        s->best[t] = own.best[t];
    }
    return status;
}

static circe_status consider_sums(screening *s) {
    int64_t d = s->data->y.dim;
    circe_status status = CIRCE_OK;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        if (s->targets[t] == NULL) continue;
        if (d > 1 && d <= MOST_ADDITIVE_DIM) status = consider_beside(s, t, CIRCE__ADDITIVE);
        if (status == CIRCE_OK && d > 1 && d <= MOST_PAIRED_DIM) status = consider_beside(s, t, CIRCE__PRODUCTS);
        if (status == CIRCE_OK && s->data->faces->splits[t] > 0) status = consider_beside(s, t, CIRCE__LEAVES);
        if (status == CIRCE_OK && d > 1 && d <= MOST_ADDITIVE_DIM) status = consider_additive(s, t);
    }
    return status;
}

/* Where the best so far takes many degrees of freedom: directions among products of columns as well. */
static circe_status consider_interactions(screening *s, int t) {
    const double many = 1.0 / 16.0;
    circe__variable *face = &s->all->faces->metric[t], before = *face;
    circe__sight best = s->best[t];
    if (s->targets[t] == NULL || s->data->y.dim < 2 || s->data->y.dim > MOST_INTERACTING ||
        s->degrees[t] < many * (double)s->data->total)
        return CIRCE_OK;
    *face = (circe__variable){0};
    circe_status status = circe__metric_learn(s->all, s->of_all[t], t, true);
    if (status == CIRCE_OK && s->index != NULL) {
        circe__variable *part = &s->data->faces->metric[t], old = *part;
        status = circe__variable_subset(s->all, face, s->index, s->data->total, part);
        circe__variable_free(s->all->context, &old);
    }
    if (status == CIRCE_OK) status = consider_metric(s, t);
    bool better = best.parts != s->best[t].parts || best.multiple != s->best[t].multiple;
    circe__variable_free(s->all->context, better ? &before : face);
    if (!better) *face = before;
    return status;
}

static circe_status consider_all(screening *s) {
    const double rough[] = {0.1, 1.0, 10.0};
    const circe_test_options *o = &s->data->options;
    int64_t d = s->data->y.dim, n = s->data->total;
    double least = d > 2 ? 0.1 : 0.0; /* narrower ones reach no neighbour there */
    circe_status status = consider_widths(s, CIRCE__KERNEL, o->width, o->n_width, least);
    if (status == CIRCE_OK && is_skewed(s->data))
        status = consider_widths(s, CIRCE__SCORES, o->width, o->n_width, least);
    if (status == CIRCE_OK && d == 1 && n <= ROUGH_ROWS) status = consider_widths(s, CIRCE__ROUGH, rough, 3, 0.0);
    for (int t = 0; status == CIRCE_OK && t < 2; t++) status = consider_metric(s, t);
    if (status == CIRCE_OK) status = consider_sums(s);
    for (int t = 0; status == CIRCE_OK && t < 2; t++) status = consider_interactions(s, t);
    return status;
}

/* The screened rows as a data set of their own, with their targets. */
static circe_status some_rows(const circe__data *data, const circe__table *const targets[2], int64_t *index,
                              circe__data *part, circe__table rows[2]) {
    int64_t n = SCREEN_ROWS;
    circe_status status = index == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, data->total, n, index);
        status = circe__data_rows_of_y(data, index, n, part);
    }
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL) status = circe__table_rows(data->context, targets[t], index, n, &rows[t]);
    return status;
}

circe_status circe__screen(const circe__data *data, const circe__table *const targets[2], circe__sight best[2]) {
    screening s = {.data = data,
                   .all = data,
                   .targets = {targets[0], targets[1]},
                   .of_all = {targets[0], targets[1]},
                   .least = {HUGE_VAL, HUGE_VAL}};
    int64_t *index = NULL;
    circe__data part = {0};
    circe__table rows[2] = {{0}};
    circe_status status = CIRCE_OK;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        s.best[t] = (circe__sight){CIRCE__KERNEL, t, 1.0};
        if (targets[t] == NULL) continue;
        status = circe__metric_learn(data, targets[t], t, false);
        if (status == CIRCE_OK) status = circe__tree_grow(data, targets[t], t);
    }
    if (status == CIRCE_OK && data->total > SCREEN_ROWS) {
        index = circe__alloc(data->context, SCREEN_ROWS, sizeof *index);
        status = some_rows(data, targets, index, &part, rows);
        s.data = &part;
        s.index = index;
        for (int t = 0; t < 2; t++) s.targets[t] = targets[t] == NULL ? NULL : &rows[t];
    }
    if (status == CIRCE_OK) status = consider_all(&s);
    memcpy(best, s.best, sizeof s.best);
    circe__free(data->context, index);
    circe__data_free(&part);
    circe__table_free(data->context, &rows[0]);
    circe__table_free(data->context, &rows[1]);
    return status;
}
