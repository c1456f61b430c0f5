/* Can the p-value be trusted? Checks residuals against y, what both regressions miss, and which rows carry the
 * statistic; verdict.c words the answer.
 *
 * The check: if a regression on y is good, its residuals are uncorrelated with every function of y. The left side is a
 * residualised kernel of y, a third as wide as the one that the regression chose; the right side is the regression's
 * target. The statistic and its null are those of pair.c, with the gamma distribution (from at most 512 rows, since a
 * few percent of the null's spread do not matter here). A regression that is too smooth leaves structure at that scale,
 * and the check sees it. O(n r c) for c functions. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum { CHECK_RANK = 56, CHECK_COLUMNS = 12, CHECK_ROWS = 512, MISFIT_COLUMNS = 24 };
static const double narrower = 0.1; /* of sigma2: a third of the width */

/* squares (cols) := the sum of squares of every column. */
static circe_status column_squares(const circe__table *t, double *restrict squares) {
    if (t->device != NULL) return circe__rows_squares(t, t->cols, NULL, squares);
    memset(squares, 0, (size_t)t->cols * sizeof *squares);
    for (int64_t i = 0; i < t->rows; i++) {
        const double *restrict row = t->data + i * t->cols;
        for (int64_t c = 0; c < t->cols; c++) squares[c] += row[c] * row[c];
    }
    return CIRCE_OK;
}

/* What is checked: one side's regression, target and noise, of all rows or of the part that the views are of. */
typedef struct checked {
    const circe__data *data;
    const circe__spectrum *spectrum;
    circe__table Q, right, noise; /* borrowed; right: the target, of a part its residual */
    double ridge, share;          /* share of the rows in the part */
    int64_t null_rows;
} checked;

/* Functions of y against the residual. */
typedef struct against {
    int64_t c, q, kept, *index;        /* functions, columns of the residual, functions that are kept: index[0..kept) */
    double *P, *T, *product, *squares; /* (rank, c): coefficients of the fit to F; (rank, q); (c, q); (2 c) */
} against;

/* product := F'R right. Drops functions that the regression reproduces to a hundredth of their variance: their residual
 * comes from its ridge alone. The squares of what is left of a function follow from its coefficients, because Q'Q is
 * diagonal: |R f|^2 = |f|^2 - sum_k P_k^2 d_k (1 + ridge d_k), d = 1/(s + ridge). */
static circe_status fit_functions(const checked *w, const circe__table *F, against *a) {
    const circe_context *context = w->data->context;
    const double least = 0.01;
    int64_t r = w->spectrum->rank, c = a->c, q = a->q;
    double *before = a->squares, *after = a->squares + c;
    circe_status status = circe__cross(context, &w->Q, r, F, c, a->P);
    if (status == CIRCE_OK) status = circe__cross(context, &w->Q, r, &w->right, q, a->T);
    if (status == CIRCE_OK) status = circe__cross(context, F, c, &w->right, q, a->product);
    if (status == CIRCE_OK) status = column_squares(F, before);
    memcpy(after, before, (size_t)c * sizeof *after);
    for (int64_t k = 0; status == CIRCE_OK && k < r; k++) {
        double *P = a->P + k * c, ridge = w->share * w->ridge, d = 1.0 / (w->share * w->spectrum->s[k] + ridge);
        for (int64_t f = 0; f < c; f++) {
            after[f] -= P[f] * P[f] * d * (1.0 + ridge * d);
            P[f] *= d;
            for (int64_t e = 0; e < q; e++) a->product[f * q + e] -= P[f] * a->T[k * q + e];
        }
    }
    for (int64_t f = 0; f < c; f++)
        if (after[f] >= least * before[f]) a->index[a->kept++] = f;
    return status;
}

/* sum over the rows of |a_i|^2 |b_i|^2. */
static circe_status carried(const circe__table *a, const circe__table *b, double *sum) {
    const circe__pair pair = {.n = a->rows, .p = a->cols, .q = b->cols, .left = *a, .noise = *b};
    double sums[2] = {0.0, 0.0};
    circe_status status = a->device != NULL ? circe__rows_carried(&pair, sums) : CIRCE_OK;
    for (int64_t i = 0; a->device == NULL && i < a->rows; i++)
        sums[0] +=
            circe__square_norm(a->data + i * a->cols, a->cols) * circe__square_norm(b->data + i * b->cols, b->cols);
    *sum = sums[0];
    return status;
}

/* Mean and variance of the null from some rows, index[0..m): R F and the noise there, in the host's memory. What all
 * rows have of |F_i|^2 |noise_i|^2 gives the scale. */
static circe_status null_of_some(const checked *w, const circe__table *F, const against *a, const int64_t *index,
                                 int64_t m, double *mean, double *variance) {
    const circe_context *context = w->data->context;
    int64_t r = w->spectrum->rank, c = a->c, q = a->q;
    double all = 0.0, some = 0.0, *Q = circe__alloc(context, m * r + 1, sizeof *Q);
    circe__table left = {0}, noise = {0}, first = {0};
    circe_status status = Q == NULL ? CIRCE_ERR_MEMORY : circe__table_new(context, m, c, &left);
    if (status == CIRCE_OK) status = circe__some_columns(context, &w->noise, 0, 1, q, &first);
    if (status == CIRCE_OK) status = circe__table_new(context, m, q, &noise);
    if (status == CIRCE_OK) status = circe__rows_of(F, index, m, left.data);
    if (status == CIRCE_OK) status = circe__rows_of(&first, index, m, noise.data);
    if (status == CIRCE_OK) status = r > 0 ? circe__rows_of(&w->Q, index, m, Q) : CIRCE_OK;
    if (status == CIRCE_OK) status = carried(F, &first, &all);
    if (status == CIRCE_OK) status = carried(&left, &noise, &some);
    if (status == CIRCE_OK && r > 0)
        context->backend->algebra->gemm(0, 0, m, c, r, -1.0, Q, r, a->P, c, 1.0, left.data, c);
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++)
        for (int64_t k = 0; k < a->kept; k++) left.data[i * a->kept + k] = left.data[i * c + a->index[k]];
    left.cols = a->kept;
    const circe__pair pair = {.n = m, .p = left.cols, .q = q, .left = left, .noise = noise};
    if (status == CIRCE_OK)
        status = w->data->dependence != NULL ? circe__block_moments(w->data, &pair, mean, variance)
                                             : circe__moments(w->data, &pair, w->null_rows, mean, variance);
    double scale = some > 0.0 ? all / some : 0.0;
    *mean *= scale;
    *variance *= scale * scale;
    circe__free(context, Q);
    circe__table_free(context, &left);
    circe__table_free(context, &noise);
    circe__table_free(context, &first);
    return status;
}

/* The p-value of the residuals against weighted functions of y, F. */
static circe_status check_against(const checked *w, const circe__table *F, double *p) {
    const circe_context *context = w->data->context;
    int64_t n = F->rows, r = w->spectrum->rank, m = w->data->dependence != NULL ? n : circe__min(n, w->null_rows);
    against a = {.c = F->cols, .q = circe__min(w->right.cols, CHECK_COLUMNS)};
    double mean = 0.0, variance = 0.0, value = 0.0;
    *p = 1.0;
    if (a.c == 0 || a.q == 0) return CIRCE_OK;
    int64_t *index = circe__alloc(context, m + a.c, sizeof *index);
    a.P = circe__alloc(context, r * (a.c + a.q) + a.c * (a.q + 2), sizeof *a.P);
    circe_status status = index == NULL || a.P == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        a.T = a.P + r * a.c;
        a.product = a.T + r * a.q;
        a.squares = a.product + a.c * a.q;
        a.index = index + m;
        for (int64_t i = 0; m == n && i < n; i++) index[i] = i;
        if (m < n)
            circe__random_subset(context->threads, (circe_random){w->data->options.seed, CIRCE__STREAM_ROWS}, n, m,
                                 index);
        status = fit_functions(w, F, &a);
    }
    if (status == CIRCE_OK && a.kept > 0) status = null_of_some(w, F, &a, index, m, &mean, &variance);
    for (int64_t k = 0; status == CIRCE_OK && k < a.kept; k++)
        value += circe__square_norm(a.product + a.index[k] * a.q, a.q);
    if (status == CIRCE_OK && mean > 0.0) *p = circe__clip_p(circe__moment_tail(mean, variance, value));
    circe__free(context, index);
    circe__free(context, a.P);
    return status;
}

/* Categories alone have no narrower kernel. */
bool circe__only_categories(const circe__variable *y) {
    for (int64_t f = 0; f < y->kernel->n_factors; f++)
        if (y->kernel->factors[f].kind != CIRCE_KERNEL_DELTA) return false;
    return true;
}

void circe__views_free(const circe_context *context, circe__views *views) {
    for (int k = 0; k < 2; k++) circe__table_free(context, &views->of[k]);
    circe__free(context, views->index);
    circe__data_free(&views->part);
    views->index = NULL;
}

static bool nothing_to_check(const circe__data *data) {
    return data->y.dim == 0 || (data->by_value && circe__by_kernel(data)) || circe__only_categories(&data->y);
}

/* A test for many rows looks at a random part of them. */
static circe_status choose_part(const circe__data *data, int64_t most, circe__views *views) {
    if (!circe__kind_of(&data->options)->frugal || data->total <= most || data->dependence != NULL) return CIRCE_OK;
    views->index = circe__alloc(data->context, most, sizeof *views->index);
    if (views->index == NULL) return CIRCE_ERR_MEMORY;
    circe__random_subset(data->context->threads, (circe_random){data->options.seed, CIRCE__STREAM_HALVES}, data->total,
                         most, views->index);
    return circe__data_rows_of_y(data, views->index, most, &views->part);
}

/* Functions of y that all regressions share: the first are rough or additive, the second are products. */
circe_status circe__views_make(const circe__data *data, int64_t most, circe__views *views) {
    bool one = circe__columns(data)->dim == 1;
    const circe__sight sight = {one ? CIRCE__ROUGH : CIRCE__ADDITIVE, 0, one ? 1.0 : 0.1, 0, 0.0};
    double left;
    bool fewer = circe__kind_of(&data->options)->frugal && most / 4 < CHECK_ROWS;
    *views = (circe__views){.null_rows = fewer ? most / 4 : CHECK_ROWS};
    if (nothing_to_check(data) || data->faces == NULL) return CIRCE_OK;
    circe_status status = choose_part(data, most, views);
    const circe__data *seen = views->index != NULL ? &views->part : data;
    if (status == CIRCE_OK) status = circe__face_features(seen, &sight, 1e-3, CHECK_RANK, &views->of[0], &left);
    if (status == CIRCE_OK && !one) status = circe__products(seen, &views->of[1]);
    for (int k = 0; status == CIRCE_OK && k < (one ? 1 : 2); k++) {
        status = circe__to_device(seen, &views->of[k]);
        if (status == CIRCE_OK) status = circe__weigh(seen, &views->of[k]);
    }
    return status;
}

/* The part of a side that the views are of; owned[0..3): its tables. */
static circe_status side_of_part(const circe__data *data, const circe__regressor *regressor, const circe__table *noise,
                                 const circe__views *views, circe__table owned[3], checked *w) {
    const circe_context *context = data->context;
    int64_t m = views->part.total, q = circe__min(noise->cols, CHECK_COLUMNS);
    const circe__table leverage = {data->total, 1, regressor->leverage, regressor->device};
    circe__table first = {0}, rest = {0};
    circe_status status = circe__some_columns(context, noise, 0, 1, q, &first);
    if (status == CIRCE_OK) status = circe__table_rows(context, &w->Q, views->index, m, &owned[0]);
    if (status == CIRCE_OK) status = circe__table_rows(context, &first, views->index, m, &owned[1]);
    if (status == CIRCE_OK) status = circe__table_copy(context, &owned[1], &owned[2]);
    if (status == CIRCE_OK) status = circe__table_rows(context, &leverage, views->index, m, &rest);
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++)
        for (int64_t k = 0; k < q; k++) owned[1].data[i * q + k] *= circe__rest_of(rest.data[i]);
    circe__table_free(context, &first);
    circe__table_free(context, &rest);
    *w = (checked){&views->part,
                   regressor->spectrum,
                   owned[0],
                   owned[1],
                   owned[2],
                   regressor->ridge,
                   (double)m / (double)data->total,
                   views->null_rows};
    return status;
}

circe_status circe__check_residual(const circe__data *data, circe__regressor *regressor, const circe__table *target,
                                   const circe__table *noise, circe__views *views) {
    double least = 1.0, left, p, narrow = narrower * fmax(regressor->info.sigma2_multiple, 0.0);
    circe__sight own = regressor->spectrum->sight;
    if (data->y.dim == 0) return CIRCE_OK;                         /* nothing to be free of */
    if (nothing_to_check(data) && regressor->spectrum->rank > 0) { /* 0: the residuals are of random features (rcot) */
        regressor->info.check_p = 1.0;                             /* one mean per value leaves nothing of y */
        return CIRCE_OK;
    }
    own.parts &= CIRCE__KERNEL | CIRCE__SCORES | CIRCE__ROUGH | CIRCE__METRIC;
    if (own.parts == 0) own.parts = CIRCE__KERNEL;
    own.multiple = narrow > 0.0 ? narrow : narrower;
    int count = data->faces == NULL ? 1 : circe__columns(data)->dim > 1 ? 3 : 2;
    circe_status status = count > 1 && views->of[0].data == NULL ? circe__views_make(data, INT64_MAX, views) : CIRCE_OK;
    circe__table owned[3] = {{0}};
    checked w = {data,
                 regressor->spectrum,
                 circe__spectrum_rows(regressor->spectrum),
                 *target,
                 *noise,
                 regressor->ridge,
                 1.0,
                 views->null_rows > 0 ? views->null_rows : CHECK_ROWS};
    if (status == CIRCE_OK && views->index != NULL) status = side_of_part(data, regressor, noise, views, owned, &w);
    for (int k = 0; status == CIRCE_OK && k < count; k++) {
        circe__table F = {0};
        if (k == 0) {
            status = circe__face_features(w.data, &own, 1e-3, CHECK_RANK, &F, &left);
            if (status == CIRCE_OK) status = circe__weigh(w.data, &F);
        }
        if (status == CIRCE_OK) status = check_against(&w, k == 0 ? &F : &views->of[k - 1], &p);
        if (status == CIRCE_OK) least = fmin(least, p);
        circe__table_free(data->context, &F);
    }
    for (int k = 0; k < 3; k++) circe__table_free(data->context, &owned[k]);
    if (status == CIRCE_OK) regressor->info.check_p = fmin(1.0, least * (double)count);
    return status;
}

/* ---- what both regressions miss ----------------------------------------------------------------------------------
 *
 * If leave-one-out balances the two, the squared bias of a regression is about its variance, sigma^2 degrees / n, or
 * all that y explains, if that is less. The product of the two biases moves the statistic, n b_x b_z against a standard
 * deviation of sqrt(n) sigma_x sigma_z, as far as both are errors of the same functions, that is, as far as the two
 * fits are alike. The ridge in use is smaller than the chosen one. That removes most of the bias along directions that
 * the features represent well, and little of the rest, so the estimate is the geometric mean of both. */

/* fitted (n, q): the first columns of target - residual. */
static circe_status fitted(const circe__data *data, const circe__regressor *side, const circe__table *target,
                           const circe__table *noise, circe__table *out) {
    int64_t q = circe__min(target->cols, MISFIT_COLUMNS), n = target->rows;
    circe_status status = circe__table_at(data->context, target->device, n, q, out);
    if (status == CIRCE_OK && q > 0 && target->device != NULL)
        return target->device->ops->fitted(target->device, n, q, target->data, target->cols, noise->data, noise->cols,
                                           side->leverage, out->data);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        double rest = circe__rest(side, i);
        for (int64_t k = 0; k < q; k++)
            out->data[i * q + k] = target->data[i * target->cols + k] - rest * noise->data[i * noise->cols + k];
    }
    return status;
}

/* |a'b|, Frobenius. */
static circe_status cross_size(const circe__data *data, const circe__table *a, const circe__table *b, double *scratch,
                               double *size) {
    circe_status status = circe__cross(data->context, a, a->cols, b, b->cols, scratch);
    if (status == CIRCE_OK) *size = sqrt(circe__square_norm(scratch, a->cols * b->cols));
    return status;
}

/* How much of the squared bias at the chosen ridge remains at the ridge in use, weighted by the energy of the target
 * along each direction beyond that of its noise: sum (l'/(s + l'))^2 e / sum (l/(s + l))^2 e. */
static circe_status bias_left(const circe__data *data, const circe__regressor *side, const circe__table *target,
                              double noise, double *share) {
    const circe__spectrum *sp = side->spectrum;
    int64_t r = sp->rank, q = circe__min(target->cols, MISFIT_COLUMNS), n = target->rows;
    double before = 0.0, after = 0.0, variance = 0.0, *P = circe__alloc(data->context, r * q + 1, sizeof *P);
    const circe__table Q = circe__spectrum_rows(sp);
    if (P == NULL) return CIRCE_ERR_MEMORY;
    circe_status status = circe__cross(data->context, &Q, r, target, q, P);
    if (status == CIRCE_OK && target->device != NULL) {
        status = circe__rows_square(data, target, q, NULL, &variance);
        variance *= noise / (double)n;
    }
    for (int64_t i = 0; target->device == NULL && i < n; i++)
        variance += noise * circe__square_norm(target->data + i * target->cols, q) / (double)n;
    for (int64_t k = 0; status == CIRCE_OK && k < r; k++) {
        double energy = fmax(circe__square_norm(P + k * q, q) / sp->s[k] - variance, 0.0);
        double chosen = side->info.ridge_chosen / (sp->s[k] + side->info.ridge_chosen);
        double used = side->ridge / (sp->s[k] + side->ridge);
        before += chosen * chosen * energy;
        after += used * used * energy;
    }
    *share = before > 0.0 ? after / before : 1.0;
    circe__free(data->context, P);
    return status;
}

/* Squared bias over the variance of the noise. */
static circe_status squared_bias(const circe__data *data, const circe__regressor *side, const circe__table *target,
                                 double *square) {
    const circe_test_regression *info = &side->info;
    double degrees = 0.0, noise = fmin(fmax(info->loo_error, 1e-12), 1.0), share = 1.0;
    for (int64_t k = 0; k < side->spectrum->rank; k++)
        degrees += side->spectrum->s[k] / (side->spectrum->s[k] + info->ridge_chosen);
    circe_status status = bias_left(data, side, target, noise, &share);
    *square = sqrt(share) * fmin(degrees / (double)info->rows, (1.0 - noise) / noise);
    return status;
}

circe_status circe__check_misfit(const circe__data *data, const circe__regressor sides[2],
                                 const circe__table *const targets[2], const circe__table *const noise[2],
                                 circe_test_result *result) {
    circe__table f[2] = {{0}};
    double square[2] = {0.0, 0.0},
           *scratch = circe__alloc(data->context, MISFIT_COLUMNS * MISFIT_COLUMNS, sizeof *scratch);
    circe_status status = scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) status = fitted(data, &sides[t], targets[t], noise[t], &f[t]);
    if (status == CIRCE_OK && f[0].cols > 0 && f[1].cols > 0 && f[0].rows == f[1].rows) {
        double x = 0.0, z = 0.0, both = 0.0;
        status = cross_size(data, &f[0], &f[0], scratch, &x);
        if (status == CIRCE_OK) status = cross_size(data, &f[1], &f[1], scratch, &z);
        if (status == CIRCE_OK) status = cross_size(data, &f[0], &f[1], scratch, &both);
        double alike = x * z > 0.0 ? both / sqrt(x * z) : 0.0;
        for (int t = 0; status == CIRCE_OK && t < 2; t++)
            status = squared_bias(data, &sides[t], targets[t], &square[t]);
        result->misfit = sqrt((double)data->n * square[0] * square[1]) * alike;
    }
    circe__table_free(data->context, &f[0]);
    circe__table_free(data->context, &f[1]);
    circe__free(data->context, scratch);
    return status;
}

/* ---- rows that outweigh all others -------------------------------------------------------------------------------
 *
 * The variance of the statistic under independence is a sum over rows, v_i = |left_i|^2 |noise_i|^2, and that of a
 * column is a sum of squares. If a few are much larger than all others, these rows alone decide the statistic and the
 * regressions: n / kurtosis = sum(v)^2 / sum(v^2) rows carry it. Bounded kernels have no such rows; plain columns and
 * linear kernels do.
 *
 * Normal columns give n / 3 and products of them n / 9; exponential ones, or t of 3 degrees, give a tenth of that, and
 * their p-values are right all the same. So few rows alone raise no objection. It takes a different result of the same
 * test on normal scores, in which no row is larger than its rank. */

double circe__carried_by(double sum, double squares) { return squares > 0.0 ? sum / squares * sum : NAN; }

static double carried_in_all(const circe__pair *pair) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < pair->n; i++) {
        double v = circe__square_norm(pair->left.data + i * pair->p, pair->p) *
                   circe__square_norm(pair->noise.data + i * pair->q, pair->q);
        sum += v;
        squares += v * v;
    }
    return circe__carried_by(sum, squares);
}

static double carried_in_pair(const circe__pair *pair, int64_t a, int64_t b) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < pair->n; i++) {
        double product = pair->left.data[i * pair->p + a] * pair->noise.data[i * pair->q + b], v = product * product;
        sum += v;
        squares += v * v;
    }
    return circe__carried_by(sum, squares);
}

/* In units of the largest number, because fourth powers of some data exceed the range of double. */
static double carried_in_column(const circe__variable *v, int64_t n, int64_t c) {
    double largest = 0.0, mean = 0.0, sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(v->points[i * v->dim + c]));
    if (!(largest > 0.0)) return NAN;
    for (int64_t i = 0; i < n; i++) mean += v->points[i * v->dim + c] / largest / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = v->points[i * v->dim + c] / largest - mean, square = d * d;
        sum += square;
        squares += square * square;
    }
    return circe__carried_by(sum, squares);
}

bool circe__is_category(const circe_kernel *kernel, int64_t dim, int64_t c) {
    for (int64_t f = 0; kernel != NULL && f < kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &kernel->factors[f];
        int64_t end = factor->n_cols == -1 ? dim : factor->first_col + factor->n_cols;
        if (factor->kind == CIRCE_KERNEL_DELTA && c >= factor->first_col && c < end) return true;
    }
    return false;
}

static bool is_unbounded(const circe__variable *v) {
    for (int64_t f = 0; v->kernel != NULL && f < v->kernel->n_factors; f++)
        if (v->kernel->factors[f].kind == CIRCE_KERNEL_LINEAR) return true;
    return false;
}

static double least_in_columns(const circe__data *data, double least) {
    const circe__variable *variables[] = {&data->x, &data->y, &data->z};
    for (int k = 0; k < 3; k++)
        for (int64_t c = 0; c < variables[k]->dim; c++)
            if (!circe__is_category(variables[k]->kernel, variables[k]->dim, c))
                least = fmin(least, carried_in_column(variables[k], data->n, c));
    return least;
}

void circe__note_rows(const circe__data *data, double carried, bool columns, circe_test_result *result) {
    bool look = columns || is_unbounded(&data->x) || is_unbounded(&data->z);
    result->effective_rows = look ? least_in_columns(data, carried) : carried;
}

/* The same of tables on a device. */
static circe_status least_there(const circe__data *data, const circe__pair *pair, bool by_columns, double *least) {
    int64_t pairs = by_columns ? pair->p * pair->q : 1;
    double *sums = circe__alloc(data->context, 2 * pairs, sizeof *sums);
    if (sums == NULL) return CIRCE_ERR_MEMORY;
    circe_status status =
        by_columns ? circe__rows_pair_squares(pair, sums, sums + pairs) : circe__rows_carried(pair, sums);
    for (int64_t e = 0; status == CIRCE_OK && e < pairs; e++)
        *least = fmin(*least, circe__carried_by(sums[e], sums[pairs + e]));
    circe__free(data->context, sums);
    return status;
}

circe_status circe__check_rows(const circe__data *data, const circe__pair *pair, bool columns,
                               circe_test_result *result) {
    enum { MOST_PAIRS = 4096 };
    if (data->options.skip_checks || pair->p == 0 || pair->q == 0) return CIRCE_OK;
    double least = (double)pair->n;
    const bool by_columns = columns && pair->p * pair->q <= MOST_PAIRS;
    circe_status status = CIRCE_OK;
    if (pair->left.device != NULL)
        status = least_there(data, pair, by_columns, &least);
    else if (by_columns)
        for (int64_t e = 0; e < pair->p * pair->q; e++)
            least = fmin(least, carried_in_pair(pair, e / pair->q, e % pair->q));
    else
        least = fmin(least, carried_in_all(pair));
    if (status == CIRCE_OK) circe__note_rows(data, least, columns, result);
    return status;
}

bool circe__few_rows_carry(const circe_test_result *result) {
    const double kurtosis = 20.0, few = 20.0;
    if (isnan(result->effective_rows)) return false;
    return result->effective_rows < fmax(few, (double)result->n_tested / kurtosis);
}
