/* Can the p-value be trusted? Checks residuals against y, degrees of freedom and what is left to test; words the
 * answer.
 *
 * The check: if a regression on y is good, its residuals are uncorrelated with every function of y. The left side is a
 * residualised kernel of y, a third as wide as the one that the regression chose; the right side is the regression's
 * target. The statistic and its null are those of pair.c, with the gamma distribution (from at most 512 rows, since a
 * few percent of the null's spread do not matter here). A regression that is too smooth leaves structure at that scale,
 * and the check sees it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum { CHECK_RANK = 56, CHECK_COLUMNS = 12, CHECK_ROWS = 512, MISFIT_COLUMNS = 24 };
static const double narrower = 0.1; /* of sigma2: a third of the width */

/* to := the first columns of a table. */
static circe_status copy_columns(const circe__data *data, const circe__table *from, int64_t columns, circe__table *to) {
    return circe__some_columns(data->context, from, 0, 1, circe__min(from->cols, columns), to);
}

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

/* Drops functions that the regression reproduces to a hundredth of their variance: their residual comes from its ridge
 * alone. */
static circe_status drop_fitted(const circe__data *data, const double *before, const double *after,
                                circe__table *left) {
    const double least = 0.01;
    int64_t cols = left->cols, kept = 0, *index = circe__alloc(data->context, cols + 1, sizeof *index);
    circe__table some = {0};
    if (index == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t c = 0; c < cols; c++)
        if (after[c] >= least * before[c]) index[kept++] = c;
    circe_status status = kept == cols ? CIRCE_OK : circe__pick_columns(data->context, left, index, kept, &some);
    if (status == CIRCE_OK && kept < cols) {
        circe__table_free(data->context, left);
        *left = some;
    }
    circe__free(data->context, index);
    return status;
}

/* The p-value of the target's residuals against weighted functions of y, `left` (total rows), which it consumes. */
static circe_status check_against(const circe__data *data, const circe__regressor *regressor, circe__table *left,
                                  const circe__table *target, const circe__table *noise, double *p) {
    circe__pair pair = {.n = data->total, .left = *left};
    double mean = 0.0, variance = 0.0;
    *left = (circe__table){0};
    *p = 1.0;
    int64_t cols = pair.left.cols;
    double *squares = circe__alloc(data->context, 2 * cols + 1, sizeof *squares);
    circe_status status = squares == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) status = column_squares(&pair.left, squares);
    if (status == CIRCE_OK) status = circe__residual(regressor, &pair.left);
    if (status == CIRCE_OK) status = column_squares(&pair.left, squares + cols);
    if (status == CIRCE_OK) status = drop_fitted(data, squares, squares + cols, &pair.left);
    circe__free(data->context, squares);
    if (status == CIRCE_OK) status = copy_columns(data, target, CHECK_COLUMNS, &pair.right);
    if (status == CIRCE_OK) status = copy_columns(data, noise, CHECK_COLUMNS, &pair.noise);
    pair.p = pair.left.cols;
    pair.q = pair.right.cols;
    if (status == CIRCE_OK)
        status = data->dependence != NULL ? circe__block_moments(data, &pair, &mean, &variance)
                                          : circe__moments(data, &pair, CHECK_ROWS, &mean, &variance);
    double value = 0.0;
    if (status == CIRCE_OK) status = circe__pair_statistic(data, &pair, &value);
    if (status == CIRCE_OK && mean > 0.0) *p = circe__clip_p(circe__moment_tail(mean, variance, value));
    circe__pair_free(data->context, &pair);
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
}

static bool nothing_to_check(const circe__data *data) {
    return data->y.dim == 0 || (data->by_value && circe__by_kernel(data)) || circe__only_categories(&data->y);
}

/* Functions of y that all regressions share: the first are rough or additive, the second are products. */
circe_status circe__views_make(const circe__data *data, circe__views *views) {
    bool one = circe__columns(data)->dim == 1;
    const circe__sight sight = {one ? CIRCE__ROUGH : CIRCE__ADDITIVE, 0, one ? 1.0 : 0.1, 0, 0.0};
    double left;
    *views = (circe__views){{{0}}};
    if (nothing_to_check(data) || data->faces == NULL) return CIRCE_OK;
    circe_status status = circe__face_features(data, &sight, 1e-3, CHECK_RANK, &views->of[0], &left);
    if (status == CIRCE_OK && !one) status = circe__products(data, &views->of[1]);
    for (int k = 0; status == CIRCE_OK && k < (one ? 1 : 2); k++) {
        status = circe__to_device(data, &views->of[k]);
        if (status == CIRCE_OK) status = circe__weigh(data, &views->of[k]);
    }
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
    circe_status status = count > 1 && views->of[0].data == NULL ? circe__views_make(data, views) : CIRCE_OK;
    for (int k = 0; status == CIRCE_OK && k < count; k++) {
        circe__table F = {0};
        if (k == 0) {
            status = circe__face_features(data, &own, 1e-3, CHECK_RANK, &F, &left);
            if (status == CIRCE_OK) status = circe__weigh(data, &F);
        } else {
            status = circe__table_copy(data->context, &views->of[k - 1], &F);
        }
        if (status == CIRCE_OK) status = check_against(data, regressor, &F, target, noise, &p);
        if (status == CIRCE_OK) least = fmin(least, p);
        circe__table_free(data->context, &F);
    }
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

bool circe__is_category(const circe__variable *v, int64_t c) {
    for (int64_t f = 0; f < v->kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &v->kernel->factors[f];
        int64_t end = factor->n_cols == -1 ? v->dim : factor->first_col + factor->n_cols;
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
            if (!circe__is_category(variables[k], c)) least = fmin(least, carried_in_column(variables[k], data->n, c));
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

/* ---- words ------------------------------------------------------------------------------------------------------- */

const char *circe_trust_name(circe_trust trust) {
    switch (trust) {
        case CIRCE_TRUST_GOOD:
            return "good";
        case CIRCE_TRUST_DOUBTFUL:
            return "doubtful";
        case CIRCE_TRUST_POOR:
            return "poor";
    }
    return "unknown";
}

/* Reasons, joined in one sentence. */
typedef struct reasons {
    circe_trust trust;
    char text[CIRCE_TEST_TEXT / 2];
    size_t used;
} reasons;

__attribute__((format(printf, 3, 4))) static void object(reasons *r, circe_trust trust, const char *format, ...) {
    va_list arguments;
    int wrote;
    if (trust > r->trust) r->trust = trust;
    if (r->used > 0) r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "; ");
    if (r->used >= sizeof r->text) return;
    va_start(arguments, format);
    wrote = vsnprintf(r->text + r->used, sizeof r->text - r->used, format, arguments);
    va_end(arguments);
    r->used += wrote > 0 ? (size_t)wrote : 0;
    if (r->used >= sizeof r->text) r->used = sizeof r->text - 1;
}

static bool failed(const circe_test_regression *side, double level) {
    return side->used && !isnan(side->check_p) && side->check_p < level;
}

/* Both sides regressed: the errors of the two fits multiply, so one good fit carries the test. */
static void judge_checks(const circe_test_result *t, reasons *r) {
    const double level = 0.01, sure = 1e-4;
    bool x = failed(&t->x, level), z = failed(&t->z, level);
    if (t->x.used && x && z)
        object(r, failed(&t->x, sure) && failed(&t->z, sure) ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "the residuals of x and of z still depend on y (checks: p = %.2g and %.2g), so the p-value may be too "
               "small",
               t->x.check_p, t->z.check_p);
    else if (!t->x.used && z)
        object(r, failed(&t->z, sure) ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
               "the residuals of z still depend on y (check: p = %.2g), so the p-value may be too small", t->z.check_p);
}

/* The test on normal scores finds dependence that this one missed, or misses what this one found. The factors keep
 * chance differences between two p-values of the same data below the level. A p-value from draws has a least value;
 * reaching it counts as clear if there are enough draws. */
static bool clearly_found(double p, int64_t draws, double alpha) {
    double least = draws > 0 ? 1.0 / (1.0 + (double)draws) : 0.0;
    return p < alpha / 1000.0 || (p <= least && least <= alpha / 5.0);
}

static void judge_rows(const circe_test_result *t, double alpha, reasons *r) {
    const double few = 10.0;
    if (isnan(t->robust_p)) return;
    bool missed = t->p_value > alpha && clearly_found(t->robust_p, t->draws, alpha);
    bool vanished = t->p_value <= alpha && t->robust_p > 2.0 * alpha && t->robust_p > 10.0 * t->p_value;
    char p[32];
    if (!missed && !vanished) return;
    snprintf(p, sizeof p, t->robust_p <= 1e-12 ? "p < 1e-12" : "p = %.2g", t->robust_p);
    object(r, t->effective_rows < few ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
           "about %.0f of %lld rows outweigh all others (outliers, or numbers that stand for missing values), and on "
           "normal scores %s; use the transform normal-scores",
           fmax(1.0, t->effective_rows), (long long)t->n_tested, p);
}

/* A misfit that is common among good fits moves a statistic a little: it may explain a p-value near alpha, but none far
 * below. Of rejections of dependent data hardly one has both. */
static void judge_misfit(const circe_test_result *t, double alpha, reasons *r) {
    const double some = 0.55, more = 0.8, much = 3.0;
    double least = t->draws > 0 ? 1.0 / (1.0 + (double)t->draws) : 0.0;
    bool far_below = t->p_value < alpha / 50.0 || t->p_value <= least;
    if (isnan(t->misfit) || t->misfit < (far_below ? more : some)) return;
    object(r, t->misfit < much ? CIRCE_TRUST_DOUBTFUL : CIRCE_TRUST_POOR,
           "the regressions on y use %.0f and %.0f degrees of freedom, and their errors together could move the "
           "statistic by %.1f standard deviations, so the p-value may be too small",
           t->x.degrees, t->z.degrees, t->misfit);
}

/* A dependence of which the test sees only the share s of the degrees of freedom has about the p-value p^s there. */
static void judge_within(const circe_test_result *t, double alpha, reasons *r) {
    if (isnan(t->within_p)) return;
    if (t->within_p > fmax(2.0 * alpha, pow(t->p_value, 0.5 * t->within_share)))
        object(
            r, t->p_value < alpha / 50.0 ? CIRCE_TRUST_POOR : CIRCE_TRUST_DOUBTFUL,
            "rows of equal y show no such dependence (p = %.2g), so the regressions may miss something of y, and the "
            "p-value may be too small",
            t->within_p);
}

/* Too many degrees of freedom, or features of y that were left out and would have been used. */
static void judge_features(const circe_test_result *t, reasons *r) {
    const circe_test_regression *sides[] = {&t->x, &t->z};
    const char *names[] = {"x", "z"};
    for (int k = 0; k < 2; k++) {
        const circe_test_regression *s = sides[k];
        if (!s->used) continue;
        if (s->degrees > (double)s->rows / 3.0)
            object(r, CIRCE_TRUST_DOUBTFUL, "the regression of %s uses %.0f degrees of freedom on %lld rows", names[k],
                   s->degrees, (long long)s->rows);
        if (s->left_out > 0.1 && s->degrees > 0.5 * (double)s->rank)
            object(r, CIRCE_TRUST_DOUBTFUL, "the features of y for %s leave out %.0f %% of its kernel", names[k],
                   100.0 * s->left_out);
    }
}

/* Nothing was permuted, which alone is right for sums of so few products. */
static void judge_classes(const circe__data *data, const circe_test_result *t, reasons *r) {
    if (circe__too_rare(data, t))
        object(r, CIRCE_TRUST_DOUBTFUL,
               "the rarest values of x and of z are expected to meet in only %.2g rows, too few for this null "
               "distribution; %s",
               t->expected_count,
               t->method == CIRCE_TEST_PCM || t->method == CIRCE_TEST_SPLITKCI
                   ? "use kci or gcm"
                   : "without weights, groups, time and auxiliary rows, rows are permuted instead");
}

/* Rare classes do not invalidate the p-value, but the test has little power for them. */
static void note_classes(circe_test_result *t) {
    const double few = 5.0;
    size_t used = strlen(t->verdict);
    if (!(t->expected_count < few) || t->rank_x == 0 || t->rank_z == 0) return;
    snprintf(
        t->verdict + used, sizeof t->verdict - used,
        " The rarest values of x and of z are expected to meet in only %.2g rows, so the test can see little of them.",
        t->expected_count);
}

static void judge_sizes(const circe_test_result *t, reasons *r) {
    const circe_test_regression *sides[] = {&t->x, &t->z};
    const char *names[] = {"x", "z"};
    if (t->blocks > 0 && t->blocks < 10)
        object(r, CIRCE_TRUST_DOUBTFUL, "there are only %lld %s, so the p-value rests on few signs",
               (long long)t->blocks, t->block_length > 0.0 ? "blocks" : "groups");
    if (t->n_tested < 50)
        object(r, CIRCE_TRUST_DOUBTFUL, "there are only %lld rows, so the test misses weak dependence",
               (long long)t->n_tested);
    for (int k = 0; k < 2; k++) {
        const circe_test_regression *s = sides[k];
        if (!s->used) continue;
        if (s->remaining < 1e-6)
            object(r, CIRCE_TRUST_DOUBTFUL, "y determines %s almost completely, so little is left to test", names[k]);
    }
}

void circe__verdict(const circe__data *data, circe_test_result *t) {
    reasons r = {.trust = CIRCE_TRUST_GOOD};
    const char *given = data->y.dim > 0 && t->method != CIRCE_TEST_HSIC ? " given y" : "";
    char p[48];
    snprintf(p, sizeof p, t->p_value <= 1e-12 ? "p < 1e-12" : "p = %.3g", t->p_value);
    judge_rows(t, data->options.alpha, &r);
    if (t->p_value <=
        data->options.alpha) { /* a misfit makes p-values too small: nothing to object to in a large one */
        judge_checks(t, &r);
        judge_misfit(t, data->options.alpha, &r);
        judge_within(t, data->options.alpha, &r);
        judge_features(t, &r);
        judge_classes(data, t, &r);
    }
    judge_sizes(t, &r);
    t->trust = r.trust;
    if (t->rank_x == 0 || t->rank_z == 0) {
        const char *which = data->x.constant   ? "x is constant"
                            : data->z.constant ? "z is constant"
                                               : "y determines x or z up to rounding";
        t->trust = CIRCE_TRUST_GOOD;
        snprintf(t->verdict, sizeof t->verdict, "%s, so there is nothing to test: p = 1.", which);
        return;
    }
    int used =
        t->p_value <= data->options.alpha
            ? snprintf(t->verdict, sizeof t->verdict, "x and z depend on each other%s (%s, at level %g). ", given, p,
                       data->options.alpha)
            : snprintf(
                  t->verdict, sizeof t->verdict,
                  "No dependence of x and z%s was found (%s, at level %g). This does not prove that there is none. ",
                  given, p, data->options.alpha);
    const char *trust = r.trust == CIRCE_TRUST_GOOD       ? "The checks found no reason to distrust this p-value"
                        : r.trust == CIRCE_TRUST_DOUBTFUL ? "Use this p-value with care: "
                                                          : "Do not trust this p-value: ";
    snprintf(t->verdict + used, sizeof t->verdict - (size_t)used, "%s%s.", trust, r.text);
    note_classes(t);
}
