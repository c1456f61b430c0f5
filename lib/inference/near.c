/* Rows that are near each other in y: are their residuals alike?
 *
 * A regression that misses something of y leaves it in rows that are near each other, on the same side of a jump, say,
 * and no matter whether x and z depend on each other: each side is looked at by itself. With e the noise of a side,
 * R = I - S its residual maker, r = R e, and w_ij = 1, 3/4, 1/2, 1/4 for the four rows j nearest to i (0 for others):
 *
 *     M      sum_ij w_ij r_i . r_j = e' R W R e,   W the symmetric part of w
 *     E M    sum_ij w_ij (R Sigma R)_ij,   R Sigma R = Sigma - S Sigma - Sigma S + S Sigma S,   Sigma = diag(E |e_i|^2)
 *     var M  2 tr(P W P W) v,   P = R R = I - Q E Q' - u u',   v the mean of (e_i . e_j)^2 over near rows
 *
 * S takes from near rows what they have in common, so E M is negative, by many deviations where a fit is undersmoothed.
 * The score (M - E M) / sd is about standard normal if nothing is missed. What both regressions miss adds about n b_x
 * b_z to the covariance of residuals, sqrt(n) b_x b_z deviations, and n b_x^2 times the sum of the weights to M of
 * x, 1.4 sqrt(n) b_x^2 deviations; so the geometric mean of both scores over 1.4 estimates the deviations by which they
 * move the test (the misfit). The estimate has a noise of its own, and a part of that is subtracted. The larger score
 * counts as at most twice the smaller: the noise of a side that misses nothing is not to be multiplied by what the
 * other misses.
 *
 * Checks against functions of y (checks.c) have some fifty functions; in two dimensions or more these do not reach
 * down to the distance of near rows. O(m^2 d) at most for the search among m rows, O(m f^2) for f directions. */
#include <math.h>
#include <string.h>

#include "core/sort.h"
#include "inference/faces.h"

enum { MOST_NEAR_ROWS = 4096, FEW_NEAR_ROWS = 2048, MANY_NEAR_ROWS = 8192, NEAREST = 4, NEAR_COLUMNS = 12 };

/* Some rows, and the nearest of each among them. */
typedef struct near_rows {
    int64_t m, *index, *of; /* (m), (m, NEAREST) */
} near_rows;

/* Places among the rows in order of one column, nearest by all of them: none beyond the distance in that one column. */
static void search_around(const double *points, int64_t dim, const circe__entry *sorted, int64_t m, int64_t at,
                          int64_t *nearest) {
    double square[NEAREST] = {0.0};
    int64_t have = 0, low = at - 1, high = at + 1;
    const double *own = points + sorted[at].row * dim;
    while (low >= 0 || high < m) {
        double below = low >= 0 ? sorted[at].value - sorted[low].value : HUGE_VAL;
        double above = high < m ? sorted[high].value - sorted[at].value : HUGE_VAL, d = 0.0;
        if (have == NEAREST && fmin(below, above) * fmin(below, above) >= square[NEAREST - 1]) break;
        int64_t row = sorted[below < above ? low-- : high++].row, place;
        for (int64_t c = 0; c < dim; c++) d += (own[c] - points[row * dim + c]) * (own[c] - points[row * dim + c]);
        if (have == NEAREST && d >= square[NEAREST - 1]) continue;
        for (place = have < NEAREST ? have++ : NEAREST - 1; place > 0 && square[place - 1] > d; place--) {
            square[place] = square[place - 1];
            nearest[place] = nearest[place - 1];
        }
        square[place] = d;
        nearest[place] = row;
    }
}

typedef struct searching {
    const double *points;
    int64_t dim, m;
    const circe__entry *sorted;
    int64_t *nearest;
} searching;

static void run_search(void *user, int64_t first, int64_t end) {
    const searching *s = user;
    for (int64_t at = first; at < end; at++)
        search_around(s->points, s->dim, s->sorted, s->m, at, s->nearest + s->sorted[at].row * NEAREST);
}

static void near_free(const circe_context *context, near_rows *near) {
    circe__free(context, near->index);
    circe__free(context, near->of);
}

/* The rows that are looked at: all, or many of them at random; few for a test of few rows that is there for its speed.
 */
static circe_status near_make(const circe__data *data, near_rows *near) {
    const bool frugal = circe__kind_of(&data->options)->frugal;
    int64_t n = data->total, many = n < MANY_NEAR_ROWS ? FEW_NEAR_ROWS : MANY_NEAR_ROWS;
    int64_t m = near->m = circe__min(n, frugal ? many : MOST_NEAR_ROWS);
    near->index = circe__alloc(data->context, m, sizeof *near->index);
    near->of = circe__alloc(data->context, m * NEAREST, sizeof *near->of);
    if (near->index == NULL || near->of == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < m; i++) near->index[i] = i;
    if (m < n)
        circe__random_subset(data->context->threads, (circe_random){data->options.seed, CIRCE__STREAM_ROWS}, n, m,
                             near->index);
    return CIRCE_OK;
}

/* near->of by the coordinates of a face of y. */
static circe_status near_search(const circe__data *data, const circe__variable *face, near_rows *near) {
    const circe_context *context = data->context;
    int64_t m = near->m, dim = face->dim;
    circe__entry *sorted = circe__alloc(context, 2 * m, sizeof *sorted);
    double *points = circe__alloc(context, m * dim, sizeof *points);
    circe_status status = sorted == NULL || points == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++) {
        memcpy(points + i * dim, face->points + near->index[i] * dim, (size_t)dim * sizeof *points);
        sorted[i] = (circe__entry){points[i * dim + dim - 1], i}; /* of a metric, the leading direction */
    }
    if (status == CIRCE_OK) {
        searching s = {points, dim, m, sorted, near->of};
        circe__sort_entries(sorted, sorted + m, m);
        circe__run_ranges(context->threads, m, 256, run_search, &s);
    }
    circe__free(context, sorted);
    circe__free(context, points);
    return status;
}

/* One side's numbers in these rows. */
typedef struct near_side {
    int64_t m, q, f;                     /* rows, columns of the noise, directions in use */
    double *Q;                           /* (m, f) */
    double *d, *s;                       /* (f): 1 / (s + ridge), s */
    double *noise, *rest, *unit, *B, *G; /* (m, q), (m), (m), (m, f): W Q, (f, f) */
} near_side;

static void side_free(const circe_context *context, near_side *a) {
    double *all[] = {a->Q, a->d, a->noise, a->rest, a->B, a->G};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) circe__free(context, all[k]);
}

/* Directions that the ridge all but leaves alone are left out. */
static circe_status side_make(const circe__data *data, const circe__regressor *side, const circe__table *noise,
                              const near_rows *near, near_side *a) {
    const circe_context *context = data->context;
    const circe__spectrum *spectrum = side->spectrum;
    const double negligible = 0.002;
    int64_t m = near->m, q = circe__min(noise->cols, NEAR_COLUMNS), first = 0, r = spectrum->rank;
    while (first < r && spectrum->s[first] < negligible * side->ridge) first++; /* ascending */
    int64_t f = r - first;
    *a = (near_side){.m = m, .q = q, .f = f};
    const circe__table Q = circe__spectrum_rows(spectrum);
    const circe__table leverage = {data->total, 1, side->leverage, side->device};
    circe__table columns = {0};
    a->Q = circe__alloc(context, m * r + 1, sizeof *a->Q);
    a->B = circe__calloc(context, m * f + 1, sizeof *a->B);
    a->G = circe__alloc(context, f * f + 1, sizeof *a->G);
    a->d = circe__alloc(context, 2 * f + 1, sizeof *a->d);
    a->noise = circe__alloc(context, m * q + 1, sizeof *a->noise);
    a->rest = circe__alloc(context, 2 * m, sizeof *a->rest);
    bool made = a->Q != NULL && a->B != NULL && a->G != NULL && a->d != NULL && a->noise != NULL && a->rest != NULL;
    circe_status status = made ? CIRCE_OK : CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK && r > 0) status = circe__rows_of(&Q, near->index, m, a->Q);
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++)
        memmove(a->Q + i * f, a->Q + i * r + first, (size_t)f * sizeof *a->Q);
    if (status == CIRCE_OK) status = circe__some_columns(context, noise, 0, 1, q, &columns);
    if (status == CIRCE_OK) status = circe__rows_of(&columns, near->index, m, a->noise);
    if (status == CIRCE_OK) status = circe__rows_of(&leverage, near->index, m, a->rest);
    if (status == CIRCE_OK) {
        a->s = a->d + f;
        a->unit = a->rest + m;
        for (int64_t i = 0; i < m; i++) {
            a->rest[i] = circe__rest_of(a->rest[i]);
            a->unit[i] = data->unit[near->index[i]];
        }
        for (int64_t k = 0; k < f; k++) {
            a->s[k] = spectrum->s[first + k];
            a->d[k] = 1.0 / (a->s[k] + side->ridge);
        }
    }
    circe__table_free(context, &columns);
    return status;
}

static double weight_of(int64_t place) { return (double)(NEAREST - place) / NEAREST; }

/* The weight of row i among the rows nearest to j. */
static double weight_back(const near_rows *near, int64_t i, int64_t j) {
    for (int64_t k = 0; k < NEAREST; k++)
        if (near->of[j * NEAREST + k] == i) return weight_of(k);
    return 0.0;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/* What a sum over pairs of near rows needs. */
typedef struct near_sums {
    double M, mean, square, W; /* E M over the scale of the noise; sums of (e_i . e_j)^2 and of W_ij^2 */
} near_sums;

/* Also sets B. `common`: the variance of the noise, in which leave-one-out residuals are off by a factor. */
static near_sums sum_pairs(const near_rows *near, near_side *a, double common) {
    near_sums t = {0.0, 0.0, 0.0, 0.0};
    int64_t f = a->f, q = a->q;
    for (int64_t i = 0; i < a->m; i++)
        for (int64_t k = 0; k < NEAREST; k++) {
            int64_t j = near->of[i * NEAREST + k];
            const double *Qi = a->Q + i * f, *Qj = a->Q + j * f, *ei = a->noise + i * q, *ej = a->noise + j * q;
            double w = weight_of(k), product = dot(ei, ej, q), u = a->unit[i] * a->unit[j], S = u, SS = u;
            for (int64_t c = 0; c < f; c++) {
                double fit = Qi[c] * Qj[c] * a->d[c];
                S += fit;
                SS += fit * a->d[c] * a->s[c];
                a->B[i * f + c] += 0.5 * w * Qj[c];
                a->B[j * f + c] += 0.5 * w * Qi[c];
            }
            t.M += w * product * a->rest[i] * a->rest[j];
            t.mean += w * (SS * common - S * (dot(ei, ei, q) + dot(ej, ej, q)));
            t.square += product * product / (double)(a->m * NEAREST);
            t.W += 0.5 * w * (w + weight_back(near, i, j));
        }
    return t;
}

/* tr(P W P W), from tr(W W). */
static double trace_of(const circe__data *data, near_side *a, double W) {
    int64_t f = a->f, ld = circe__max(f, 1);
    if (f > 0) data->context->backend->algebra->gemm(1, 0, f, f, a->m, 1.0, a->Q, ld, a->B, ld, 0.0, a->G, ld);
    for (int64_t k = 0; k < f; k++) {
        double E = a->d[k] * (2.0 - a->s[k] * a->d[k]);
        for (int64_t i = 0; i < a->m; i++) W -= 2.0 * E * a->B[i * f + k] * a->B[i * f + k];
        for (int64_t l = 0; l < f; l++)
            W += E * a->d[l] * (2.0 - a->s[l] * a->d[l]) * a->G[k * f + l] * a->G[l * f + k];
    }
    return W;
}

/* About standard normal if the regression misses nothing; 0 if there is nothing to see. */
static circe_status score_of(const circe__data *data, const circe__regressor *side, const circe__table *noise,
                             const near_rows *near, double *score) {
    near_side a;
    circe_status status = side_make(data, side, noise, near, &a);
    *score = 0.0;
    if (status == CIRCE_OK) {
        double free = (double)data->total - 1.0, left = 0.0, all = circe__square_norm(a.noise, a.m * a.q);
        for (int64_t k = 0; k < a.f; k++) free -= a.s[k] * a.d[k] * (2.0 - a.s[k] * a.d[k]); /* tr(R R) */
        for (int64_t i = 0; i < a.m; i++) left += a.rest[i] * a.rest[i] * circe__square_norm(a.noise + i * a.q, a.q);
        double scale = all > 0.0 ? left / all * (double)data->total / free : 0.0; /* of |e_i|^2 by leave-one-out */
        near_sums t = sum_pairs(near, &a, all / (double)a.m);
        double variance = 2.0 * trace_of(data, &a, t.W) * t.square * scale * scale;
        if (variance > 0.0) *score = (t.M - scale * t.mean) / sqrt(variance);
    }
    side_free(data->context, &a);
    return status;
}

/* Near by the columns' scores, or by the directions that the side's regression uses. */
static const circe__variable *face_of(const circe__data *data, const circe__regressor *side) {
    const circe__sight *sight = &side->spectrum->sight;
    const circe__faces *faces = data->faces;
    if (faces == NULL) return circe__columns(data);
    return sight->parts & CIRCE__METRIC ? &faces->metric[sight->side] : &faces->scores;
}

circe_status circe__check_near(const circe__data *data, const circe__regressor sides[2],
                               const circe__table *const noises[2], circe_test_result *result) {
    const double deviations = 1.4, unsure = 0.35, beside = 2.0;
    const circe__variable *searched = NULL;
    near_rows near = {0};
    double score[2] = {0.0, 0.0};
    if (data->options.skip_checks || result->p_value > data->options.alpha || data->y.dim == 0 || data->by_value ||
        data->dependence != NULL || !circe__by_kernel(data) || circe__only_categories(&data->y) ||
        data->total <= 2 * NEAREST)
        return CIRCE_OK;
    circe_status status = near_make(data, &near);
    for (int t = 1; status == CIRCE_OK && t >= 0; t--) {
        score[t] = score[1]; /* circe regresses z alone */
        if (noises[t] == NULL) continue;
        const circe__variable *face = face_of(data, &sides[t]);
        if (face != searched) status = near_search(data, face, &near);
        searched = face;
        if (status == CIRCE_OK) status = score_of(data, &sides[t], noises[t], &near, &score[t]);
    }
    near_free(data->context, &near);
    double less = fmin(score[0], score[1]), more = fmin(fmax(score[0], score[1]), beside * less);
    if (status == CIRCE_OK && less > 0.0) { /* what is known of the misfit so far may be NaN */
        double tested = fmin(1.0, (double)result->n_tested / (double)data->n);
        result->misfit = fmax(result->misfit, sqrt(less * more * tested) / deviations - unsure);
    }
    return status;
}

circe_status circe__check_near_pair(const circe__data *data, const circe__regressions *made, const circe__pair *pair,
                                    circe_test_result *result) {
    const circe__table *noises[2] = {pair->noise_x.cols > 0 ? &pair->noise_x : NULL, &pair->noise};
    if (pair->p * pair->q == 0) return CIRCE_OK;
    return circe__check_near(data, made->side, noises, result);
}
