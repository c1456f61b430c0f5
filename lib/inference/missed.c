/* What do both regressions miss of y? Residuals of rows that y puts together are compared with each other.
 *
 * A regression that misses something leaves it in rows that are alike in y, on the same side of a jump, say, and no
 * matter whether x and z depend on each other: each side is looked at by itself. With e the noise of a side, R = I - S
 * its residual maker, r = R e, and w_ij how much row j counts for row i (w_ii = 0)
 *
 *     M = sum_ij w_ij r_i . r_j,   larger than by chance if something of y is left
 *
 * S takes from rows that are alike what their noise has in common, so M is negative by chance, by many deviations where
 * a fit is undersmoothed. So the same is computed of DRAWS columns of noise that was drawn, each row of the size that
 * it has, and regressed as the residuals were: their mean and deviation make a score of M. Two kinds of weights are
 * used:
 *
 *   near    the four nearest rows, by the normal scores of y's columns or the directions that the regression uses
 *   trees   rows in the same leaf of trees that are grown on the residuals of x and z. A tree is grown on half of the
 *           rows and looks at the other half, so what it makes of noise does not count. Few splits find what many
 *           columns or a staircase hide from nearest rows, and these see regions that no split follows.
 *
 * The geometric mean of the scores of both sides is one score of either kind, and the root of the sum of their squares
 * says by how many deviations what is missed may move the test (the misfit). O(HALVED_ROWS log(m) d) for the trees of d
 * columns, directions and products. */
#include "inference/missed.h"

#include <math.h>
#include <string.h>

#include "circe/transform.h"
#include "core/threads.h"

enum {
    MOST_ROWS = 4096, /* that are looked at */
    LEAST_ROWS = 40,
    FEWEST_HALVINGS = 8, /* more of fewer rows: together they have about HALVED_ROWS; of a frugal test half of them */
    MOST_HALVINGS = 24,
    HALVED_ROWS = 16000,
    ROWS_A_LEAF = 10,
    COARSE = 16, /* leaves: a tree counts twice, whole and with its first splits alone */
    DRAWS = 16,
    JUDGED = 12, /* columns of the residuals, and of x or z themselves */
    PLAIN = 2,
    GROWN = CIRCE__GROWN_COLUMNS / 2
};

/* Some rows. values: residuals of x and of z there, then the drawn noise of both; means: for every row the weighted
 * sum of the values of others. */
typedef struct looking {
    const circe__data *data;
    int64_t m, *index, q[2], second, cols; /* second: where the residuals of z begin */
    double *values, *means;                /* (m, cols) */
    double ratio[2]; /* the deviation of a sum of r_i . r_j over that of as many products of single columns */
} looking;

static int64_t residuals_at(const looking *l, int side) { return side == 0 ? 0 : l->second; }

static int64_t draws_at(const looking *l, int side) { return l->cols - (2 - side) * DRAWS; }

static void looking_free(looking *l) {
    circe__free(l->data->context, l->index);
    circe__free(l->data->context, l->values);
    circe__free(l->data->context, l->means);
}

static circe_status looking_make(const circe__data *data, const circe__table *const noises[2], looking *l) {
    const circe_context *context = data->context;
    int64_t m = circe__min(data->total, MOST_ROWS);
    *l = (looking){.data = data, .m = m};
    for (int t = 0; t < 2; t++) l->q[t] = noises[t] != NULL ? circe__min(noises[t]->cols, JUDGED) : 0;
    l->second = l->q[0] + PLAIN;
    l->cols = l->second + l->q[1] + PLAIN + 2 * DRAWS;
    l->index = circe__alloc(context, m, sizeof *l->index);
    l->values = circe__calloc(context, m * l->cols, sizeof *l->values);
    l->means = circe__alloc(context, m * l->cols, sizeof *l->means);
    if (l->index == NULL || l->values == NULL || l->means == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < m; i++) l->index[i] = i;
    if (m < data->total)
        circe__random_subset(context->threads, (circe_random){data->options.seed, CIRCE__STREAM_ROWS}, data->total, m,
                             l->index);
    return CIRCE_OK;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/* ---- residuals, and noise like theirs ---------------------------------------------------------------------------- */

/* drawn (n, DRAWS) := normal numbers, in each row of the size of its noise, and what the regression leaves of them. */
static circe_status draw(const circe__data *data, const circe__regressor *side, const circe__table *noise, int number,
                         circe__table *drawn) {
    const circe_random generator = {data->options.seed, CIRCE__STREAM_MISSED + (uint64_t)number};
    circe__table there = {0};
    circe_status status = circe__table_new(data->context, noise->rows, DRAWS, &there);
    if (status != CIRCE_OK) return status;
    circe_random_normal(generator, 0, there.rows * DRAWS, there.data);
    for (int64_t i = 0; i < there.rows; i++) {
        double size = sqrt(circe__square_norm(noise->data + i * noise->cols, noise->cols));
        for (int64_t d = 0; d < DRAWS; d++) there.data[i * DRAWS + d] *= size;
    }
    status = circe__to_device(data, &there);
    if (status == CIRCE_OK) status = circe__residual(side, &there);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &there, drawn);
    circe__table_free(data->context, &there);
    return status;
}

/* What the regression leaves of the normal scores of x or z: a kernel's features are bumps, over which a mean that is
 * missed is spread thin. Nothing (no columns) where the columns are tested themselves, are classes or many. */
static circe_status scores_left(const circe__data *data, int side, const circe__regressor *regressor,
                                circe__table *left) {
    const circe__variable *v = side == 0 ? &data->x : &data->z;
    circe__table scores = {0};
    bool numbers = v->dim > 0 && v->dim <= PLAIN && data->n == data->total && regressor->spectrum->rank > 0;
    for (int64_t c = 0; c < v->dim; c++) numbers = numbers && !circe__is_category(v->kernel, v->dim, c);
    if (!numbers || circe__kind_of(&data->options)->columns || circe__kind_of(&data->options)->one_sided)
        return CIRCE_OK;
    circe_status status = circe__table_new(data->context, data->n, v->dim, &scores);
    circe_mat from = circe_mat_f64(v->points, data->n, v->dim), to = circe_mat_f64(scores.data, data->n, v->dim);
    if (status == CIRCE_OK)
        status = circe_transform_columns(data->context, &from, CIRCE_TRANSFORM_NORMAL_SCORES, NULL, &to);
    if (status == CIRCE_OK) status = circe__to_device(data, &scores);
    if (status == CIRCE_OK) status = circe__weigh(data, &scores);
    if (status == CIRCE_OK) status = circe__residual(regressor, &scores);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &scores, left);
    circe__table_free(data->context, &scores);
    return status;
}

static double squares_of(const looking *l, int64_t first, int64_t cols) {
    double sum = 0.0;
    for (int64_t i = 0; i < l->m; i++) sum += circe__square_norm(l->values + i * l->cols + first, cols);
    return sum;
}

/* Columns of the values times a factor that gives them this sum of squares. */
static void resize(looking *l, int64_t first, int64_t cols, double squares) {
    double sum = squares_of(l, first, cols), scale = sum > 0.0 ? sqrt(squares / sum) : 0.0;
    for (int64_t i = 0; i < l->m; i++)
        for (int64_t k = 0; k < cols; k++) l->values[i * l->cols + first + k] *= scale;
}

/* Puts what is left of a side's scores, its residuals, noise (1 - leverage), and the drawn noise into the values.
 * Leave-one-out residuals, from which that was drawn, are too large by what the fit took from the residuals. */
static void put_side(looking *l, int side, const circe__table *scores, const circe__table *noise,
                     const circe__table *leverage, const circe__table *drawn) {
    int64_t plain = scores->cols, q = l->q[side] - plain, m = l->m, first = residuals_at(l, side);
    double products = 0.0;
    for (int64_t i = 0; i < m; i++) {
        double *r = l->values + i * l->cols + first, rest = circe__rest_of(leverage->data[l->index[i]]);
        for (int64_t k = 0; k < plain; k++) r[k] = scores->data[l->index[i] * plain + k];
        for (int64_t k = 0; k < q; k++) r[plain + k] = rest * noise->data[l->index[i] * noise->cols + k];
        memcpy(l->values + i * l->cols + draws_at(l, side), drawn->data + l->index[i] * DRAWS,
               DRAWS * sizeof *l->values);
    }
    resize(l, first, plain, squares_of(l, first + plain, q));
    double squares = squares_of(l, first, plain + q);
    resize(l, draws_at(l, side), DRAWS, DRAWS * squares);
    for (int64_t i = 0; i < m; i++) {
        const double *r = l->values + first;
        double product =
            dot(r + i * l->cols, r + (i + m / 2) % m * l->cols, plain + q); /* of rows that are not alike */
        products += product * product;
    }
    l->ratio[side] = squares > 0.0 ? sqrt(products * (double)m) / squares : 0.0;
}

static circe_status look_at_side(looking *l, int side, const circe__regressor *regressor, const circe__table *noise) {
    const circe__data *data = l->data;
    const circe__table leverage = {noise->rows, 1, regressor->leverage, regressor->device};
    circe__table some = {0}, host = {0}, drawn = {0}, rest = {0}, scores = {0};
    circe_status status = circe__some_columns(data->context, noise, 0, 1, l->q[side], &some);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &some, &host);
    if (status == CIRCE_OK) status = circe__to_host(data->context, &leverage, &rest);
    if (status == CIRCE_OK) status = draw(data, regressor, &host, side, &drawn);
    if (status == CIRCE_OK) status = scores_left(data, side, regressor, &scores);
    if (status == CIRCE_OK) {
        l->q[side] += scores.cols;
        put_side(l, side, &scores, &host, &rest, &drawn);
    }
    circe__table *tables[] = {&some, &host, &drawn, &rest, &scores};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) circe__table_free(data->context, tables[k]);
    return status;
}

/* By how many deviations a side's residuals agree with the means. */
static double score_of(const looking *l, int side) {
    double found = 0.0, drawn[DRAWS] = {0.0}, mean = 0.0, square = 0.0;
    int64_t r = residuals_at(l, side), first = draws_at(l, side);
    for (int64_t i = 0; i < l->m; i++) {
        const double *a = l->values + i * l->cols, *b = l->means + i * l->cols;
        found += dot(a + r, b + r, l->q[side]);
        for (int64_t d = 0; d < DRAWS; d++) drawn[d] += a[first + d] * b[first + d];
    }
    for (int64_t d = 0; d < DRAWS; d++) mean += drawn[d] / DRAWS;
    for (int64_t d = 0; d < DRAWS; d++) square += (drawn[d] - mean) * (drawn[d] - mean) / (DRAWS - 1);
    double deviation = sqrt(square) * l->ratio[side];
    return deviation > 0.0 ? (found - mean) / deviation : 0.0;
}

/* ---- rows near each other ---------------------------------------------------------------------------------------- */

static void sum_near(const looking *l, const int64_t *nearest) {
    int64_t cols = l->cols;
    memset(l->means, 0, (size_t)(l->m * cols) * sizeof *l->means);
    for (int64_t i = 0; i < l->m; i++)
        for (int64_t k = 0; k < CIRCE__NEAREST; k++) {
            const double *other = l->values + nearest[i * CIRCE__NEAREST + k] * cols;
            double weight = (double)(CIRCE__NEAREST - k) / CIRCE__NEAREST;
            for (int64_t c = 0; c < cols; c++) l->means[i * cols + c] += weight * other[c];
        }
}

/* Near by the columns' scores, or by the directions that the side's regression uses. */
static const circe__variable *face_of(const circe__data *data, const circe__regressor *side) {
    const circe__sight *sight = &side->spectrum->sight;
    if (data->faces == NULL) return circe__columns(data);
    return sight->parts & CIRCE__METRIC ? &data->faces->metric[sight->side] : &data->faces->scores;
}

static circe_status look_near(const looking *l, const circe__regressor sides[2], double scores[2]) {
    const circe__variable *searched = NULL;
    CIRCE__OWNED int64_t *nearest = circe__alloc(l->data->context, l->m * CIRCE__NEAREST, sizeof *nearest);
    circe_status status = nearest == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        if (l->q[t] == 0) continue;
        const circe__variable *face = face_of(l->data, &sides[t]);
        if (face != searched) status = circe__nearest_rows(l->data, face, l->index, l->m, nearest);
        if (status == CIRCE_OK && face != searched) sum_near(l, nearest);
        if (status == CIRCE_OK) scores[t] = score_of(l, t);
        searched = face;
    }
    return status;
}

/* ---- rows in a leaf ---------------------------------------------------------------------------------------------- */

/* What trees are grown on: the leading residuals of both sides, each side of size 1. */
static circe_status target_of(const looking *l, circe__table *target) {
    int64_t kept[2] = {circe__min(l->q[0], GROWN), circe__min(l->q[1], GROWN)}, to = 0;
    circe_status status = circe__table_new(l->data->context, l->m, kept[0] + kept[1], target);
    for (int t = 0; status == CIRCE_OK && t < 2; to += kept[t], t++) {
        const double *from = l->values + residuals_at(l, t);
        double sum = 0.0;
        for (int64_t i = 0; i < l->m; i++) sum += circe__square_norm(from + i * l->cols, kept[t]);
        double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (int64_t i = 0; i < l->m; i++)
            for (int64_t k = 0; k < kept[t]; k++)
                target->data[i * target->cols + to + k] = scale * from[i * l->cols + k];
    }
    return status;
}

/* means += the mean of the other rows in the leaf; sums (CIRCE__MOST_LEAVES, cols + 1): of these, and their number. */
static void add_means(const looking *l, const circe__leaves *t, const int64_t *part_of, const double *sums) {
    int64_t cols = l->cols;
    for (int64_t k = 0; k < t->n; k++)
        for (int64_t i = t->leaves[k].seen; i < t->leaves[k].seen + t->leaves[k].n_seen; i++) {
            const double *sum = sums + part_of[k] * (cols + 1), *own = l->values + t->rows[i] * cols;
            double weight = 1.0 / fmax(sum[cols] - 1.0, 1.0), *to = l->means + t->rows[i] * cols;
            for (int64_t c = 0; c < cols; c++) to[c] += weight * (sum[c] - own[c]);
        }
}

/* The same of a tree's leaves, and of its first COARSE leaves, of which the others are parts. */
static void sum_leaves(const looking *l, const circe__leaves *t, double *sums) {
    int64_t cols = l->cols, part_of[CIRCE__MOST_LEAVES];
    memset(sums, 0, (size_t)(CIRCE__MOST_LEAVES * (cols + 1)) * sizeof *sums);
    for (int64_t k = 0; k < t->n; k++) {
        double *sum = sums + k * (cols + 1);
        part_of[k] = k;
        sum[cols] = (double)t->leaves[k].n_seen;
        for (int64_t i = t->leaves[k].seen; i < t->leaves[k].seen + t->leaves[k].n_seen; i++)
            for (int64_t c = 0; c < cols; c++) sum[c] += l->values[t->rows[i] * cols + c];
    }
    add_means(l, t, part_of, sums);
    for (int64_t k = t->n - 1; k >= COARSE; k--)
        for (int64_t c = 0; c <= cols; c++) sums[t->leaves[k].from * (cols + 1) + c] += sums[k * (cols + 1) + c];
    for (int64_t k = COARSE; k < t->n; k++) part_of[k] = part_of[t->leaves[k].from];
    add_means(l, t, part_of, sums);
}

/* Each half of the rows grows a tree for the other. */
static void grow_halves(const looking *l, circe__leaves *t, int number, int64_t *order, double *sums) {
    circe_random random = {l->data->options.seed, CIRCE__STREAM_MISSED + (uint64_t)(3 * number + 2)};
    int64_t m = l->m, half = m / 2;
    circe_random_permutation(random, m, order);
    memcpy(order + m, order, (size_t)half * sizeof *order);
    for (int other = 0; other < 2; other++) {
        random.stream++;
        circe__leaves_grow(t, random, order + other * half, other ? m - half : half, m / (2 * ROWS_A_LEAF));
        sum_leaves(l, t, sums);
    }
}

static circe_status look_at_leaves(const looking *l, double scores[2]) {
    const circe_context *context = l->data->context;
    circe__table target = {0};
    circe__leaves t = {.m = 0};
    CIRCE__OWNED int64_t *order = circe__alloc(context, 2 * l->m, sizeof *order);
    CIRCE__OWNED double *sums = circe__alloc(context, CIRCE__MOST_LEAVES * (l->cols + 1), sizeof *sums);
    circe_status status = order == NULL || sums == NULL ? CIRCE_ERR_MEMORY : target_of(l, &target);
    if (status == CIRCE_OK) status = circe__leaves_make(l->data, l->index, &target, &t);
    if (status == CIRCE_OK) {
        memset(l->means, 0, (size_t)(l->m * l->cols) * sizeof *l->means);
        int64_t halvings = HALVED_ROWS / l->m / (circe__kind_of(&l->data->options)->frugal ? 2 : 1);
        halvings = circe__max(FEWEST_HALVINGS, circe__min(halvings, MOST_HALVINGS));
        for (int number = 0; number < halvings; number++) grow_halves(l, &t, number, order, sums);
        for (int side = 0; side < 2; side++) scores[side] = score_of(l, side);
    }
    circe__leaves_free(context, &t);
    circe__table_free(context, &target);
    return status;
}

/* ---- the misfit -------------------------------------------------------------------------------------------------- */

static bool nothing_to_look_for(const circe__data *data, const circe_test_result *result) {
    return data->options.skip_checks || result->p_value > data->options.alpha || data->y.dim == 0 || data->by_value ||
           data->dependence != NULL || !circe__by_kernel(data) || circe__only_categories(&data->y) ||
           data->total < LEAST_ROWS;
}

/* Both sides' scores as one. The larger counts as at most twice the smaller: the noise of a side that misses nothing is
 * not to be multiplied by what the other misses. */
static double together(const looking *l, const double scores[2]) {
    double first = l->q[0] > 0 ? scores[0] : scores[1]; /* one side alone is regressed */
    double less = fmin(first, scores[1]), more = fmin(fmax(first, scores[1]), 2.0 * less);
    return less > 0.0 ? sqrt(less * more) : 0.0;
}

circe_status circe__check_missed(const circe__data *data, const circe__regressor sides[2],
                                 const circe__table *const noises[2], bool *doubtful, circe_test_result *result) {
    const double near_deviation = 1.4, near_unsure = 0.35, deviation = 2.0, unsure = 0.4;
    double near[2] = {0.0, 0.0}, trees[2] = {0.0, 0.0}, misfit;
    looking l;
    if (nothing_to_look_for(data, result)) return CIRCE_OK;
    circe_status status = looking_make(data, noises, &l);
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (l.q[t] > 0) status = look_at_side(&l, t, &sides[t], noises[t]);
    if (status == CIRCE_OK) status = look_near(&l, sides, near);
    misfit = together(&l, near) / near_deviation - near_unsure;
    if (doubtful != NULL) *doubtful = misfit > CIRCE__MOVES;
    if (status == CIRCE_OK && !(doubtful != NULL && *doubtful)) {
        double tested = fmin(1.0, (double)result->n_tested / (double)data->n);
        status = look_at_leaves(&l, trees);
        misfit = sqrt(tested) * hypot(together(&l, near), together(&l, trees)) / deviation - unsure;
    }
    looking_free(&l);
    if (status == CIRCE_OK && misfit > 0.0) result->misfit = fmax(result->misfit, misfit); /* which may be NaN */
    return status;
}

circe_status circe__check_missed_pair(const circe__data *data, const circe__regressions *made, const circe__pair *pair,
                                      circe_test_result *result) {
    const circe__table *noises[2] = {pair->noise_x.cols > 0 ? &pair->noise_x : NULL, &pair->noise};
    if (pair->p * pair->q == 0) return CIRCE_OK;
    return circe__check_missed(data, made->side, noises, NULL, result);
}
