/* Regressions on y: kernel ridge with an unpenalised constant, width and ridge by leave-one-out.
 *
 *     F (n, r)   features of y, times the root of the weights, minus their part along `unit`;  F'F = V' diag(s) V
 *     Q = F V'   Q'Q = diag(s)
 *     S = unit unit' + Q diag(1 / (s + ridge)) Q',   R = I - S
 *
 * One spectrum (spectrum.c) serves every ridge: the leave-one-out residual of row i is (R t)_i / (1 - S_ii). Nothing is
 * divided by s alone. The ridge that leave-one-out prefers balances the bias of the regression against its variance.
 * The null of a test accounts for the variance (wild.c) and not for the bias, so the regression uses a tenth of that
 * ridge (docs/math.md, Tests). O(n r^2) per width.
 *
 * If y has few values with many rows each, such as an outcome with two classes, nothing need be smooth: the regression
 * takes one mean per value, a delta kernel without a ridge, and has no bias at all. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum {
    BLOCK = 64,       /* rows at a time in a pass */
    LOO_COLUMNS = 48, /* of a target's features: the first carry most of it */
    LEADING_COLUMNS = 16,
};

/* ---- leave-one-out ----------------------------------------------------------------------------------------------- */

/* Rows in blocks of BLOCK. The blocks' errors are added in their order: the same bits on any number of threads. */
typedef struct loo {
    const circe__data *data;
    const circe__spectrum *spectrum;
    const circe__table *target;
    int64_t columns, n_ridge, blocks;
    const double *inverse; /* (n_ridge, rank): 1 / (s + ridge) */
    const double *scaled;  /* (rank, n_ridge, columns): diag(inverse) Q' target */
    double *errors;        /* (blocks, n_ridge + 1), the last of the mean alone */
} loo;

/* The squared leave-one-out residuals of rows [first, first + n) under one ridge, whose predictions are in means. */
static double loo_error(const loo *w, const double *inverse, int64_t first, int64_t n, const double *means,
                        int64_t ld) {
    const circe__spectrum *sp = w->spectrum;
    int64_t r = sp->rank, columns = w->columns;
    double error = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double *q = sp->Q + (first + i) * r, *t = w->target->data + (first + i) * w->target->cols;
        double u = w->data->unit[first + i], h = u * u, square = 0.0;
#pragma omp simd reduction(+ : h)
        for (int64_t k = 0; k < r; k++) h += q[k] * q[k] * inverse[k];
#pragma omp simd reduction(+ : square)
        for (int64_t c = 0; c < columns; c++) {
            double d = t[c] - means[i * ld + c];
            square += d * d;
        }
        double rest = fmax(1.0 - h, 1e-9); /* bounded for rounding alone: a fit through every point is useless */
        error += square / (rest * rest);
    }
    return error;
}

static double error_alone(const loo *w, int64_t first, int64_t n) {
    double error = 0.0;
    for (int64_t i = first; i < first + n; i++) {
        double rest = 1.0 - w->data->unit[i] * w->data->unit[i];
        error += circe__square_norm(w->target->data + i * w->target->cols, w->columns) / (rest * rest);
    }
    return error;
}

/* One product predicts under as many ridges as fit. */
static void run_loo(void *user, int64_t b) {
    enum { WIDE = 2 * LOO_COLUMNS };
    const loo *w = user;
    int64_t first = b * BLOCK, n = circe__min(BLOCK, w->spectrum->n - first), r = w->spectrum->rank;
    int64_t columns = w->columns, all = w->n_ridge * columns, together = WIDE / columns;
    double *errors = w->errors + b * (w->n_ridge + 1), means[BLOCK * WIDE];
    errors[w->n_ridge] = error_alone(w, first, n);
    for (int64_t l = 0; l < w->n_ridge; l += together) {
        int64_t ridges = circe__min(together, w->n_ridge - l), wide = ridges * columns;
        if (r > 0)
            w->data->context->backend->algebra->gemm(0, 0, n, wide, r, 1.0, w->spectrum->Q + first * r, r,
                                                     w->scaled + l * columns, all, 0.0, means, wide);
        for (int64_t k = 0; k < ridges; k++) /* without features, only the mean is left */
            errors[l + k] = r > 0 ? loo_error(w, w->inverse + (l + k) * r, first, n, means + k * columns, wide)
                                  : errors[w->n_ridge];
    }
}

/* inverse and scaled, from P = Q' target (rank, columns). */
static void scale_ridges(const circe__spectrum *spectrum, const double *P, int64_t columns, const double *ridge,
                         int64_t n_ridge, double *inverse, double *scaled) {
    int64_t r = spectrum->rank;
    for (int64_t l = 0; l < n_ridge; l++)
        for (int64_t k = 0; k < r; k++) {
            inverse[l * r + k] = 1.0 / (spectrum->s[k] + ridge[l]);
            for (int64_t c = 0; c < columns; c++)
                scaled[(k * n_ridge + l) * columns + c] = P[k * columns + c] * inverse[l * r + k];
        }
}

/* P (rank, columns) := Q' target, of the columns that choose a ridge. The caller frees it. */
static circe_status project(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                            double **P) {
    int64_t r = spectrum->rank, columns = circe__min(target->cols, LOO_COLUMNS);
    const circe__table Q = circe__spectrum_rows(spectrum);
    *P = circe__alloc(data->context, r * columns + 1, sizeof **P);
    return *P == NULL ? CIRCE_ERR_MEMORY : circe__cross(data->context, &Q, r, target, columns, *P);
}

/* On the spectrum's device. */
static circe_status loo_there(const loo *w, double *errors, double *alone) {
    const circe__spectrum *sp = w->spectrum;
    int64_t n = sp->n, ridges = w->n_ridge;
    const circe__rows_loo job = {
        n,          sp->rank, w->columns, ridges, sp->Q, w->data->device_unit.data, w->target->data, w->target->cols,
        w->inverse, w->scaled};
    circe_status status = sp->device->ops->loo(sp->device, &job, w->errors);
    for (int64_t l = 0; status == CIRCE_OK && l < ridges; l++) errors[l] = w->errors[l] / (double)n;
    if (status == CIRCE_OK) *alone = w->errors[ridges] / (double)n;
    return status;
}

/* circe__loo from P. */
static circe_status loo_of(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                           const double *P, const double *ridge, int64_t n_ridge, double *errors, double *alone) {
    const circe_context *context = data->context;
    int64_t n = spectrum->n, r = spectrum->rank, columns = circe__min(target->cols, LOO_COLUMNS);
    loo w = {data, spectrum, target, columns, n_ridge, .blocks = (n + BLOCK - 1) / BLOCK};
    double *inverse = circe__alloc(context, n_ridge * r + 1, sizeof *inverse);
    double *scaled = circe__alloc(context, n_ridge * r * columns + 1, sizeof *scaled);
    w.errors = circe__alloc(context, w.blocks * (n_ridge + 1), sizeof *w.errors);
    circe_status status = inverse == NULL || scaled == NULL || w.errors == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    memset(errors, 0, (size_t)n_ridge * sizeof *errors);
    *alone = 0.0;
    if (status == CIRCE_OK && columns > 0) {
        w.inverse = inverse;
        w.scaled = scaled;
        scale_ridges(spectrum, P, columns, ridge, n_ridge, inverse, scaled);
        if (spectrum->device != NULL) {
            status = loo_there(&w, errors, alone);
            goto done;
        }
        circe_context_run(context, w.blocks, run_loo, &w);
        for (int64_t b = 0; b < w.blocks; b++) {
            for (int64_t l = 0; l < n_ridge; l++) errors[l] += w.errors[b * (n_ridge + 1) + l] / (double)n;
            *alone += w.errors[b * (n_ridge + 1) + n_ridge] / (double)n;
        }
    }

done:
    circe__free(context, inverse);
    circe__free(context, scaled);
    circe__free(context, w.errors);
    return status;
}

circe_status circe__loo(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                        const double *ridge, int64_t n_ridge, double *errors, double *alone) {
    if (circe__in_blocks(data, spectrum->n))
        return circe__block_loo(data, spectrum, target, ridge, n_ridge, errors, alone);
    CIRCE__OWNED double *P = NULL;
    circe_status status = project(data, spectrum, target, &P);
    if (status == CIRCE_OK) status = loo_of(data, spectrum, target, P, ridge, n_ridge, errors, alone);
    return status;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

typedef struct leverages {
    const circe__data *data;
    const circe__spectrum *spectrum;
    double ridge, *leverage;
} leverages;

static void run_leverage(void *user, int64_t first, int64_t end) {
    const leverages *w = user;
    int64_t r = w->spectrum->rank;
    for (int64_t i = first; i < end; i++) {
        const double *q = w->spectrum->Q + i * r;
        double h = w->data->unit[i] * w->data->unit[i];
        for (int64_t k = 0; k < r; k++) h += q[k] * q[k] / (w->spectrum->s[k] + w->ridge);
        w->leverage[i] = h;
    }
}

circe_status circe__regressor_set(const circe__data *data, const circe__spectrum *spectrum, double ridge,
                                  circe__regressor *regressor) {
    int64_t n = spectrum->n, r = spectrum->rank;
    double degrees = 0.0;
    if (data->device != NULL) {
        circe_status status = circe__rows_leverage(data, spectrum, ridge, regressor, &degrees);
        if (status != CIRCE_OK) return status;
    } else {
        double *leverage = circe__alloc(data->context, n, sizeof *leverage);
        if (leverage == NULL) return CIRCE_ERR_MEMORY;
        leverages w = {data, spectrum, ridge, leverage};
        circe__run_ranges(data->context->threads, n, 8192 / (r + 1) + 1, run_leverage, &w);
        for (int64_t i = 0; i < n; i++) degrees += leverage[i];
        regressor->leverage = leverage;
    }
    regressor->data = data;
    regressor->spectrum = spectrum;
    regressor->ridge = ridge;
    circe_test_regression *info = &regressor->info;
    info->used = 1;
    circe__sight_text(&spectrum->sight, info->basis, sizeof info->basis);
    info->sigma2_multiple = spectrum->sight.multiple;
    info->ridge = ridge;
    info->degrees = degrees;
    info->rows = n;
    info->rank = r;
    info->left_out = spectrum->left_out;
    info->remaining = 1.0;
    info->check_p = NAN;
    return CIRCE_OK;
}

double circe__undersmoothed(const circe__spectrum *spectrum, double chosen, double factor) {
    double ridge = chosen * factor, most = (double)spectrum->n / 3.0;
    while (ridge < chosen) {
        double degrees = 1.0;
        for (int64_t k = 0; k < spectrum->rank; k++) degrees += spectrum->s[k] / (spectrum->s[k] + ridge);
        if (degrees <= most) break;
        ridge = fmin(1.5 * ridge, chosen);
    }
    return ridge;
}

typedef struct choice {
    double error, alone, ridge;
    circe__sight sight;
} choice;

/* The ridge that generalised cross-validation prefers: O(r) per ridge once P = Q' target is known.
 *
 *     |t - Q D P|^2 = |t|^2 - sum_k |P_k|^2 (s_k + 2 ridge) / (s_k + ridge)^2,   D = 1/(s + ridge) */
static circe_status guess_ridge(const circe__data *data, const double *s, int64_t r, const circe__table *target,
                                const double *P, int64_t *guess) {
    const circe_test_options *o = &data->options;
    int64_t n = target->rows, columns = circe__min(target->cols, LOO_COLUMNS);
    double total = 0.0, least = HUGE_VAL;
    circe_status status = CIRCE_OK;
    *guess = o->n_ridge / 2;
    if (target->device != NULL)
        status = circe__rows_square(data, target, columns, NULL, &total);
    else
        for (int64_t i = 0; i < n; i++) total += circe__square_norm(target->data + i * target->cols, columns);
    for (int64_t l = 0; l < o->n_ridge; l++) {
        double degrees = 1.0, left = total;
        for (int64_t k = 0; k < r; k++) {
            double inverse = 1.0 / (s[k] + o->ridge[l]), energy = circe__square_norm(P + k * columns, columns);
            degrees += s[k] * inverse;
            left -= energy * (s[k] + 2.0 * o->ridge[l]) * inverse * inverse;
        }
        double free = 1.0 - degrees / (double)n, value = fmax(left, 0.0) / (free * free);
        if (free <= 0.05 || value >= least) continue;
        least = value;
        *guess = l;
    }
    return status;
}

/* The caller's ridges may be in any order; then neighbours in the list need not be neighbours in size. */
static bool are_ascending(const double *v, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (v[i] < v[i - 1]) return false;
    return true;
}

/* Replaces the best ridge so far if this spectrum has a better one for the target. Leave-one-out tries REACH ridges on
 * either side of the guess, and goes on while the best is at an end; without a guess, -1, it tries all. P is NULL if
 * blocks are left out, of which there are all ridges. */
static circe_status try_around(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                               const double *P, int64_t guess, choice *best) {
    enum { REACH = 2 };
    const circe_test_options *o = &data->options;
    int64_t all = o->n_ridge, first = guess < 0 ? 0 : circe__max(guess - REACH, 0), least = 0;
    int64_t end = guess < 0 ? all : circe__min(guess + REACH + 1, all);
    double alone = 0.0, *errors = circe__alloc(data->context, all, sizeof *errors);
    circe_status status = errors == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && P == NULL)
        status = circe__loo(data, spectrum, target, o->ridge, all, errors, &alone);
    else if (status == CIRCE_OK)
        status = loo_of(data, spectrum, target, P, o->ridge + first, end - first, errors + first, &alone);
    while (status == CIRCE_OK) {
        least = first;
        for (int64_t l = first + 1; l < end; l++)
            if (errors[l] < errors[least]) least = l;
        int64_t more = least == first && first > 0 ? first - 1 : least == end - 1 && end < all ? end : -1;
        if (more < 0) break;
        status = loo_of(data, spectrum, target, P, o->ridge + more, 1, errors + more, &alone);
        first = circe__min(first, more);
        end = circe__max(end, more + 1);
    }
    if (status == CIRCE_OK && errors[least] < best->error)
        *best = (choice){errors[least], alone, o->ridge[least], spectrum->sight};
    circe__free(data->context, errors);
    return status;
}

static circe_status try_ridges(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                               choice *best) {
    const circe_test_options *o = &data->options;
    CIRCE__OWNED double *P = NULL;
    int64_t guess = -1;
    if (circe__in_blocks(data, spectrum->n)) return try_around(data, spectrum, target, NULL, -1, best);
    circe_status status = project(data, spectrum, target, &P);
    if (status == CIRCE_OK && are_ascending(o->ridge, o->n_ridge))
        status = guess_ridge(data, spectrum->s, spectrum->rank, target, P, &guess);
    if (status == CIRCE_OK) status = try_around(data, spectrum, target, P, guess, best);
    return status;
}

/* Tries every width of the grid for both targets. */
static circe_status search(const circe__data *data, const circe__table *const targets[2], choice best[2]) {
    const circe_test_options *o = &data->options;
    int64_t widths = data->y.dim == 0 ? 1 : o->n_width;
    bool any = false;
    for (int64_t f = 0; data->y.dim > 0 && f < data->y.kernel->n_factors; f++) any = any || data->y.free[f];
    if (!any || data->by_value) widths = 1;
    circe_status status = CIRCE_OK;
    for (int64_t w = 0; status == CIRCE_OK && w < widths; w++) {
        circe__spectrum spectrum = {0};
        circe__sight sight = {data->by_value ? CIRCE__VALUES : CIRCE__KERNEL, 0,
                              data->by_value ? 0.0
                              : any          ? o->width[w]
                                             : 1.0,
                              0, 0.0};
        status = circe__spectrum_make(data, &sight, &spectrum);
        for (int t = 0; status == CIRCE_OK && t < 2; t++)
            if (targets[t] != NULL) status = try_ridges(data, &spectrum, targets[t], &best[t]);
        circe__spectrum_free(data->context, &spectrum);
        if (status == CIRCE_OK) status = circe__progress(data->context, "regressions on y", w + 1, widths);
    }
    return status;
}

/* After a short search, each side has its own spectrum, of the directions that its ridge uses. */
static bool same_sight(const circe__regressions *made, const circe__sight *a, const circe__sight *b) {
    bool own = (a->parts & (CIRCE__METRIC | CIRCE__LEAVES)) != 0 || made->side[0].quick || made->side[1].quick;
    return a->parts == b->parts && a->multiple == b->multiple && a->rank == b->rank && a->left_out == b->left_out &&
           (!own || a->side == b->side);
}

/* The spectrum of a sight, which both sides may share. */
static circe_status spectrum_of(const circe__data *data, const circe__sight *sight, circe__regressions *made,
                                const circe__spectrum **spectrum) {
    for (int64_t k = 0; k < made->n_spectra; k++) {
        *spectrum = &made->spectra[k];
        if (same_sight(made, &made->spectra[k].sight, sight)) return CIRCE_OK;
    }
    circe_status status = circe__spectrum_make(data, sight, &made->spectra[made->n_spectra]);
    if (status == CIRCE_OK) *spectrum = &made->spectra[made->n_spectra++];
    return status;
}

static circe_status settle(const circe__data *data, const choice *best, circe__regressions *made, int t) {
    const circe__spectrum *spectrum = NULL;
    circe_status status = spectrum_of(data, &best->sight, made, &spectrum);
    if (status != CIRCE_OK) return status;
    circe__regressor *regressor = &made->side[t];
    double ridge = circe__undersmoothed(spectrum, best->ridge, data->options.undersmoothing);
    status = circe__regressor_set(data, spectrum, data->by_value ? CIRCE__NO_RIDGE : ridge, regressor);
    if (status != CIRCE_OK) return status;
    regressor->info.ridge_chosen = data->by_value ? CIRCE__NO_RIDGE : best->ridge;
    regressor->info.loo_error = best->alone > 0.0 ? best->error / best->alone : 1.0;
    return CIRCE_OK;
}

/* The directions that carry most of a target, the strongest first. They choose its regression. */
static circe_status leading(const circe__data *data, const circe__table *target, circe__table *out) {
    double lost;
    int64_t q = circe__min(target->cols, LOO_COLUMNS);
    circe_status status = circe__some_columns(data->context, target, 0, 1, q, out);
    if (status == CIRCE_OK) status = circe__compress(data, out, NULL, LEADING_COLUMNS, &lost);
    if (status != CIRCE_OK || q <= LEADING_COLUMNS) return status;
    if (out->device != NULL) {
        CIRCE__OWNED_BY(circe__table_drop) circe__table ascending = *out;
        return circe__some_columns(data->context, &ascending, LEADING_COLUMNS - 1, -1, LEADING_COLUMNS, out);
    }
    for (int64_t i = 0; i < out->rows; i++) /* ascending to descending */
        for (int64_t k = 0; k < LEADING_COLUMNS / 2; k++) {
            double *a = out->data + i * LEADING_COLUMNS + k, *b = a + LEADING_COLUMNS - 1 - 2 * k, held = *a;
            *a = *b;
            *b = held;
        }
    return CIRCE_OK;
}

/* Each side by itself, but for the spectra, of which there may be one for both. */
typedef struct adapting {
    const circe__data *data;
    const circe__table *const *targets;
    const circe__table *by[2]; /* led, or NULL where there is no target */
    circe__table led[2];
    const circe__table *seen[2]; /* the same in the host's memory, by the copies where led is elsewhere */
    circe__table copies[2];
    circe__sight sights[2];
    circe__regressions *made;
    choice *best;
} adapting;

static circe_status run_leading(void *user, int64_t t) {
    adapting *a = user;
    if (a->targets[t] == NULL) return CIRCE_OK;
    a->by[t] = a->seen[t] = &a->led[t];
    circe_status status = leading(a->data, a->targets[t], &a->led[t]);
    if (status != CIRCE_OK || a->led[t].device == NULL) return status;
    a->seen[t] = &a->copies[t];
    return circe__to_host(a->data->context, &a->led[t], &a->copies[t]);
}

/* ---- many rows (rcot) --------------------------------------------------------------------------------------------
 *
 * The ridge is chosen before F is turned, by leave-one-out of some rows under the fit of all. Then only the directions
 * are turned that this ridge uses. */

enum { SOME_ROWS = 1024, QUICK_ROWS = 512 };

/* So many; 0: the ridge of such a side is chosen on all rows, after F is turned. */
static int64_t some_of(const circe__data *data, bool quick) {
    int64_t some = quick ? QUICK_ROWS : SOME_ROWS;
    bool many = circe__kind_of(&data->options)->frugal && data->total > some + some / 2;
    return many && data->dependence == NULL ? some : 0;
}

/* The k-th spectrum. */
typedef struct needing {
    adapting *a;
    int64_t k;
    bool quick;
    int64_t some, *index; /* (some) */
    circe__data part;
} needing;

/* Chooses the ridge of side t. */
static circe_status ridge_of_some(const needing *w, int t, const circe__table *F, const double *V,
                                  const circe__spectrum *some) {
    adapting *a = w->a;
    const circe_context *context = a->data->context;
    const circe__table *target = a->by[t];
    int64_t q = circe__min(target->cols, LOO_COLUMNS), r = F->cols, rank = some->rank, guess = -1;
    CIRCE__OWNED double *C = circe__alloc(context, (r + rank) * q + 1, sizeof *C);
    double *P = C + r * q;
    CIRCE__OWNED_BY(circe__table_drop) circe__table rows = {0};
    circe_status status = C == NULL ? CIRCE_ERR_MEMORY : circe__cross(context, F, r, target, q, C);
    if (status == CIRCE_OK && q > 0) context->backend->algebra->gemm(0, 0, rank, q, r, 1.0, V, r, C, q, 0.0, P, q);
    if (status == CIRCE_OK && are_ascending(a->data->options.ridge, a->data->options.n_ridge))
        status = guess_ridge(a->data, some->s, rank, target, P, &guess);
    if (status == CIRCE_OK) status = circe__table_rows(context, target, w->index, w->some, &rows);
    if (status == CIRCE_OK) status = try_around(&w->part, some, &rows, P, guess, &a->best[t]);
    a->best[t].sight.side = t;
    return status;
}

/* A direction of s = ridge / 20 moves by a twentieth of itself. After the whole search, all are kept: what the ridge
 * leaves of them tells how large a misfit may be (checks.c). */
static circe_status count_needed(void *user, const circe__table *F, const double *V, double *s, int64_t rank,
                                 int64_t *needed) {
    const double negligible = 0.05;
    const needing *w = user;
    const adapting *a = w->a;
    const circe_context *context = a->data->context;
    const circe__spectrum all = {.n = F->rows, .rank = rank, .s = s};
    circe__spectrum some = {.n = w->some, .rank = rank, .s = s, .sight = a->made->spectra[w->k].sight};
    CIRCE__OWNED_BY(circe__table_drop) circe__table rows = {0}, turned = {0};
    double least = HUGE_VAL;
    circe_status status = circe__table_rows(context, F, w->index, w->some, &rows);
    if (status == CIRCE_OK) status = circe__turned(context, &rows, V, rank, &turned);
    some.Q = turned.data;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        if (a->by[t] == NULL || !same_sight(a->made, &some.sight, &a->sights[t])) continue;
        status = ridge_of_some(w, t, F, V, &some);
        least = fmin(least, circe__undersmoothed(&all, a->best[t].ridge, a->data->options.undersmoothing));
    }
    *needed = rank;
    while (w->quick && *needed > 1 && s[rank - *needed] < negligible * least) --*needed;
    return status;
}

static circe_status run_spectrum(void *user, int64_t k) {
    adapting *a = user;
    const circe__data *data = a->data;
    circe__spectrum *made = &a->made->spectra[k];
    const circe__sight sight = made->sight;
    const bool quick = a->made->side[sight.side].quick;
    const int64_t some = some_of(data, quick);
    if (some == 0) return circe__spectrum_make(data, &sight, made);
    CIRCE__OWNED_BY(circe__table_drop) circe__table F = {0};
    needing w = {.a = a, .k = k, .quick = quick, .some = some};
    w.index = circe__alloc(data->context, some, sizeof *w.index);
    circe_status status = w.index == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe__random_subset(data->context->threads, (circe_random){data->options.seed, CIRCE__STREAM_HALVES},
                             data->total, some, w.index);
        w.part = (circe__data){.context = data->context, .options = data->options, .total = some};
        w.part.unit = circe__alloc(data->context, some, sizeof *w.part.unit);
        status = w.part.unit == NULL ? CIRCE_ERR_MEMORY : circe__features_y(data, &sight, &F, &made->left_out);
    }
    for (int64_t i = 0; status == CIRCE_OK && i < some; i++) w.part.unit[i] = data->unit[w.index[i]];
    if (status == CIRCE_OK) status = circe__weigh(data, &F);
    if (status == CIRCE_OK) status = circe__decompose_needed(data, &F, NULL, count_needed, &w, made);
    circe__free(data->context, w.index);
    circe__free(data->context, w.part.unit);
    return status;
}

static circe_status run_ridges(void *user, int64_t t) {
    const adapting *a = user;
    const circe__spectrum *spectrum = NULL;
    if (a->by[t] == NULL || some_of(a->data, a->made->side[t].quick) > 0) return CIRCE_OK;
    circe_status status = spectrum_of(a->data, &a->sights[t], a->made, &spectrum);
    if (status == CIRCE_OK) status = try_ridges(a->data, spectrum, a->by[t], &a->best[t]);
    a->best[t].sight.side = (int)t;
    return status;
}

/* Uses the face that screening chose, with a ridge by leave-one-out. */
static circe_status adapt(const circe__data *data, const circe__table *const targets[2], choice best[2],
                          circe__regressions *made) {
    const circe__data host = circe__on_host(data);
    adapting a = {.data = data, .targets = targets, .made = made, .best = best};
    bool quick[2] = {false, false};
    circe_status status = circe__beside(data, 2, run_leading, &a);
    if (status == CIRCE_OK) status = circe__screen(&host, a.seen, a.sights, quick);
    for (int t = 0; t < 2; t++) made->side[t].quick = quick[t];
    circe__table_free(data->context, &a.copies[0]);
    circe__table_free(data->context, &a.copies[1]);
    for (int t = 0; status == CIRCE_OK && t < 2; t++) /* the spectra that run_ridges will look for */
        if (a.by[t] != NULL && (made->n_spectra == 0 || !same_sight(made, &made->spectra[0].sight, &a.sights[t])))
            made->spectra[made->n_spectra++].sight = a.sights[t];
    if (status == CIRCE_OK) status = circe__beside(data, made->n_spectra, run_spectrum, &a);
    if (status == CIRCE_OK) status = circe__beside(data, 2, run_ridges, &a);
    circe__table_free(data->context, &a.led[0]);
    circe__table_free(data->context, &a.led[1]);
    return status;
}

circe_status circe__regress(const circe__data *data, const circe__table *const targets[2], circe__regressions *made) {
    const choice none = {HUGE_VAL, 0.0, 1.0, {CIRCE__KERNEL, 0, 1.0, 0, 0.0}};
    choice best[2] = {none, none};
    *made = (circe__regressions){0};
    circe_status status = data->faces == NULL ? search(data, targets, best) : adapt(data, targets, best, made);
    for (int t = 0; status == CIRCE_OK && t < 2; t++)
        if (targets[t] != NULL) status = settle(data, &best[t], made, t);
    if (status != CIRCE_OK) circe__regressions_free(data->context, made);
    return status;
}

void circe__regressions_free(const circe_context *context, circe__regressions *made) {
    for (int t = 0; t < 2 && !made->borrowed; t++) {
        circe__table leverage = {0, 1, made->side[t].leverage, made->side[t].device};
        circe__spectrum_free(context, &made->spectra[t]);
        circe__table_free(context, &leverage);
    }
    *made = (circe__regressions){0};
}

/* table -= unit along, rows [first, end). */
typedef struct centering {
    const double *unit, *along; /* (n), (cols) */
    circe__table *table;
} centering;

static void run_center(void *user, int64_t first, int64_t end) {
    const centering *w = user;
    int64_t cols = w->table->cols;
    for (int64_t i = first; i < end; i++) {
        double *restrict row = w->table->data + i * cols, unit = w->unit[i];
        for (int64_t c = 0; c < cols; c++) row[c] -= unit * w->along[c];
    }
}

/* On a device; inner is scratch of (rank + 1, columns). */
static circe_status residual_there(const circe__regressor *regressor, double *inner, circe__table *table) {
    const circe__data *data = regressor->data;
    const circe__spectrum *sp = regressor->spectrum;
    const circe__table Q = circe__spectrum_rows(sp);
    int64_t q = table->cols;
    circe_status status = circe__cross(data->context, &data->device_unit, 1, table, q, inner);
    if (status == CIRCE_OK) status = circe__rows_subtract(&data->device_unit, inner, table);
    if (status == CIRCE_OK) status = circe__cross(data->context, &Q, sp->rank, table, q, inner);
    for (int64_t k = 0; status == CIRCE_OK && k < sp->rank; k++)
        for (int64_t c = 0; c < q; c++) inner[k * q + c] /= sp->s[k] + regressor->ridge;
    return status == CIRCE_OK ? circe__rows_subtract(&Q, inner, table) : status;
}

circe_status circe__residual(const circe__regressor *regressor, circe__table *table) {
    const circe__data *data = regressor->data;
    const circe__algebra *algebra = data->context->backend->algebra;
    const circe__spectrum *sp = regressor->spectrum;
    int64_t n = sp->n, r = sp->rank, q = table->cols;
    CIRCE__OWNED double *inner = circe__alloc(data->context, (r + 1) * q + 1, sizeof *inner);
    circe_status status = CIRCE_OK;
    if (inner == NULL) return CIRCE_ERR_MEMORY;
    if (q > 0 && table->device != NULL) {
        status = residual_there(regressor, inner, table);
    } else if (q > 0) {
        algebra->gemm(1, 0, 1, q, n, 1.0, data->unit, 1, table->data, q, 0.0, inner, q);
        centering w = {data->unit, inner, table};
        circe__run_ranges(data->context->threads, n, 8192 / q + 1, run_center, &w);
        algebra->gemm(1, 0, r, q, n, 1.0, sp->Q, circe__max(r, 1), table->data, q, 0.0, inner, q);
        for (int64_t k = 0; k < r; k++)
            for (int64_t c = 0; c < q; c++) inner[k * q + c] /= sp->s[k] + regressor->ridge;
        algebra->gemm(0, 0, n, q, r, -1.0, sp->Q, circe__max(r, 1), inner, q, 1.0, table->data, q);
    }
    return status;
}
