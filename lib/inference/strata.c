/* Rows of equal y: under independence given y, any order of their z is equally likely.
 *
 * So if y has few values (data->by_value), the distribution under independence is known exactly, at any size and
 * however rare a class is: the rows of the right side are put in random order within each value of y, and the statistic
 * is formed again. `left` sums to 0 within each value, so what the regression takes from the right side stays what it
 * was. Auxiliary rows, whose x is not known, stay where they are.
 *
 *     p = (1 + #{draws >= value}) / (1 + draws)
 *
 * is never too small, even if many orders give the same statistic; mid-p counts such ties as halves.
 *
 * If y has numbers, with or without classes, and x and z have classes so rare that fewer than five rows are expected to
 * have both, no limit theorem supports the other nulls. Then residuals of z are also permuted within y's classes, and
 * the larger p-value counts.
 *
 * If y has numbers, and many rows share theirs with others (ages, dates, scores), a rejection is compared with what
 * permutations within equal y show. These are right whatever the regressions miss, but see only the share of the rows'
 * degrees of freedom that lies within equal y. */
#include <math.h>
#include <string.h>

#include "core/sort.h"
#include "inference/inference_parts.h"

void circe__strata_free(const circe_context *context, circe__strata *s) {
    circe__free(context, s->rows);
    circe__free(context, s->start);
    *s = (circe__strata){0};
}

/* The number of different values in column c of a variable, or most + 1 if there are more than `most`. */
static int64_t count_column(const circe__variable *v, int64_t n, int64_t c, int64_t most, double *values) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        while (at < k && values[at] != v->points[i * v->dim + c]) at++;
        if (at < k) continue;
        if (k == most) return most + 1;
        values[k++] = v->points[i * v->dim + c];
    }
    return k;
}

/* The columns of y that are classes: all of them if y has few values, else those with few numbers. */
static bool is_class(const circe__data *data, int64_t c) {
    enum { MOST = 32, REPEATS = 20 };
    double values[MOST];
    if (data->by_value) return true;
    int64_t most = circe__min(MOST, data->n / REPEATS);
    return count_column(&data->y, data->n, c, most, values) <= most;
}

static bool same_classes(const circe__data *data, const bool *used, int64_t i, int64_t j) {
    const double *a = data->y.points + i * data->y.dim, *b = data->y.points + j * data->y.dim;
    for (int64_t c = 0; c < data->y.dim; c++)
        if (used[c] && a[c] != b[c]) return false;
    return true;
}

/* of[i]: the value of row i, counted in order of appearance. */
static int64_t number_values(const circe__data *data, const bool *used, int64_t *of, int64_t *first) {
    int64_t k = 0;
    for (int64_t i = 0; i < data->n; i++) {
        int64_t v = 0;
        while (v < k && !same_classes(data, used, i, first[v])) v++;
        if (v == k) first[k++] = i;
        of[i] = v;
    }
    return k;
}

/* Strata of the rows whose value is of[i] < k; `place` (k) is scratch. */
static circe_status gather(const circe__data *data, int64_t k, const int64_t *of, int64_t *place, circe__strata *s) {
    int64_t n = data->n;
    *s = (circe__strata){.k = k,
                         .rows = circe__alloc(data->context, n, sizeof *s->rows),
                         .start = circe__calloc(data->context, n + 1, sizeof *s->start)};
    if (s->rows == NULL || s->start == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) s->start[of[i] + 1]++;
    for (int64_t v = 0; v < k; v++) s->start[v + 1] += s->start[v];
    memcpy(place, s->start, (size_t)k * sizeof *place);
    for (int64_t i = 0; i < n; i++) s->rows[place[of[i]]++] = i;
    return CIRCE_OK;
}

static circe_status strata_make(const circe__data *data, circe__strata *s) {
    const circe_context *context = data->context;
    int64_t n = data->n, *of = circe__alloc(context, n, sizeof *of), *first = circe__alloc(context, n, sizeof *first);
    CIRCE__OWNED bool *used = circe__calloc(context, data->y.dim + 1, sizeof *used);
    circe_status status = of == NULL || first == NULL || used == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        for (int64_t c = 0; c < data->y.dim; c++) used[c] = is_class(data, c);
        int64_t k = number_values(data, used, of, first);
        status = gather(data, k, of, first, s);
    }
    circe__free(context, of);
    circe__free(context, first);
    return status;
}

/* of[i] := the place of row i's y among the different ones, column after column; returns their number. Stops once they
 * are more than `most`. */
static int64_t number_rows(const circe__data *data, int64_t most, circe__entry *entry, int64_t *of) {
    const int64_t n = data->n, d = data->y.dim;
    int64_t k = 1, *column = of + n;
    memset(of, 0, (size_t)n * sizeof *of);
    for (int64_t step = 0; step < 2 * d && k <= most; step++) {
        const bool numbers = step % 2 == 0; /* places in the column, then of both */
        if (step == 1) {
            memcpy(of, column, (size_t)n * sizeof *of);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            entry[i] = (circe__entry){numbers ? data->y.points[i * d + step / 2] : (double)(of[i] * n + column[i]), i};
        circe__sort_entries(entry, entry + n, n);
        k = 0;
        for (int64_t i = 0; i < n; i++) {
            if (i > 0 && entry[i].value != entry[i - 1].value) k++;
            (numbers ? column : of)[entry[i].row] = k;
        }
        k++;
    }
    return k;
}

circe_status circe__equal_rows(const circe__data *data, circe__strata *s) {
    const double least = 0.3; /* of the degrees of freedom */
    const circe_context *context = data->context;
    int64_t n = data->n, most = (int64_t)((1.0 - least) * (double)n), *of = circe__alloc(context, 2 * n, sizeof *of);
    CIRCE__OWNED circe__entry *entry = circe__alloc(context, 2 * n, sizeof *entry);
    circe_status status = of == NULL || entry == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    *s = (circe__strata){0};
    if (status == CIRCE_OK) {
        int64_t k = number_rows(data, most, entry, of);
        if (k <= most) status = gather(data, k, of, of + n, s);
    }
    circe__free(context, of);
    return status;
}

/* 1 / (|left_a| |right_b|), which no order changes; 0 if a column is mere rounding. */
static void inverse_sizes(const circe__pair *pair, double *inverse) {
    int64_t p = pair->p, q = pair->q;
    for (int64_t a = 0; a < p; a++)
        for (int64_t b = 0; b < q; b++) {
            double left = 0.0, right = 0.0;
            for (int64_t i = 0; i < pair->n; i++) {
                left += pair->left.data[i * p + a] * pair->left.data[i * p + a];
                right += pair->noise.data[i * q + b] * pair->noise.data[i * q + b];
            }
            double square = left * right;
            inverse[a * q + b] = square > 1e-24 * (double)pair->n ? 1.0 / sqrt(square) : 0.0;
        }
}

/* The statistic: |product|^2 or, if `inverse` is not NULL, its largest element in these units; pcm's is one-sided. */
static double size_of(const circe__data *data, const circe__pair *pair, const double *product, const double *inverse) {
    double largest = 0.0;
    if (inverse == NULL) return circe__square_norm(product, pair->p * pair->q);
    if (circe__kind_of(&data->options)->one_sided) return product[0] * inverse[0];
    for (int64_t e = 0; e < pair->p * pair->q; e++) largest = fmax(largest, fabs(product[e]) * inverse[e]);
    return largest;
}

typedef struct permuting {
    const circe__data *data;
    const circe__pair *pair;
    circe__strata s;
    const double *inverse; /* as for size_of */
    int64_t draws, parts, each;
    double *scratch; /* (parts, each) */
    int64_t *orders; /* (parts, n) */
    double *null;    /* (draws) */
} permuting;

/* to (n, q) := the rows of `from`, draw d's order within each value. */
static void shuffle(const permuting *p, int64_t d, const circe__table *from, int64_t *order, double *to) {
    int64_t q = from->cols;
    memcpy(to, from->data, (size_t)(from->rows * q) * sizeof *to);
    for (int64_t v = 0; v < p->s.k; v++) {
        int64_t first = p->s.start[v], m = p->s.start[v + 1] - first;
        const int64_t *rows = p->s.rows + first;
        uint64_t stream = CIRCE__STREAM_PERMUTE + (uint64_t)(d * p->s.k + v);
        circe_random_permutation((circe_random){p->data->options.seed, stream}, m, order);
        for (int64_t i = 0; i < m; i++) { /* q is small: a call of memcpy would cost more than its copy */
            const double *row = from->data + rows[order[i]] * q;
            for (int64_t c = 0; c < q; c++) to[rows[i] * q + c] = row[c];
        }
    }
}

static void run_draws(void *user, int64_t part) {
    const permuting *w = user;
    const circe__pair *pair = w->pair;
    int64_t p = pair->p, q = pair->q, n = pair->n, *order = w->orders + part * w->data->n;
    double *right = w->scratch + part * w->each, *product = right + n * q;
    for (int64_t d = part; d < w->draws; d += w->parts) {
        shuffle(w, d, &pair->right, order, right);
        w->data->context->backend->algebra->gemm(1, 0, p, q, n, 1.0, pair->left.data, p, right, q, 0.0, product, q);
        w->null[d] = size_of(w->data, pair, product, w->inverse);
    }
}

bool circe__may_permute(const circe__data *data) {
    return data->by_value && data->options.weights == NULL && data->options.mean != CIRCE_MEAN_SPLIT &&
           data->dependence == NULL;
}

bool circe__should_permute(const circe__data *data, const circe__pair *pair) {
    const double most = 4e9; /* operations: a tenth of a second */
    double work = 2.0 * (double)data->options.draws * (double)pair->n * (double)(pair->p + 1) * (double)(pair->q + 1);
    return data->options.null == CIRCE_NULL_AUTO && circe__may_permute(data) && work <= most;
}

/* p and mid-p of a value among the draws. If no draw is as large, the gamma distribution with their mean and variance
 * may give a smaller p. */
static void report(double value, const permuting *w, circe_test_result *result) {
    int64_t above = 0, equal = 0;
    double rounding = 1e-9 * fabs(value);
    circe__report_draws(value, w->null, w->draws, 1.0, result);
    for (int64_t d = 0; d < w->draws; d++) {
        equal += fabs(w->null[d] - value) <= rounding;
        above += w->null[d] > value + rounding;
    }
    result->mid_p = ((double)above + 0.5 * (double)(equal + 1)) / (1.0 + (double)w->draws);
    if (above + equal > 0 || w->inverse != NULL) return;
    double mean = result->null_mean, sd = result->null_sd;
    if (mean > 0.0 && sd > 0.0)
        result->p_value = fmin(result->p_value, circe__clip_p(circe__moment_tail(mean, sd * sd, value)));
}

static circe_status permute_rows(const circe__data *data, const circe__pair *pair, const circe__strata *of,
                                 bool largest, circe_test_result *result) {
    const circe_context *context = data->context;
    int64_t draws = data->options.draws, size = pair->p * pair->q, p = pair->p, q = pair->q;
    permuting w = {.data = data, .pair = pair, .s = *of, .draws = draws};
    w.parts = circe__max(1, circe__min(context->threads, draws));
    w.each = pair->n * q + size + 1;
    w.scratch = circe__alloc(context, w.parts * w.each + size + 1, sizeof *w.scratch);
    w.orders = circe__alloc(context, w.parts * data->n, sizeof *w.orders);
    w.null = circe__calloc(context, draws, sizeof *w.null);
    circe_status status = w.scratch == NULL || w.orders == NULL || w.null == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        double value = 0.0, *inverse = w.scratch + w.parts * w.each;
        if (largest) inverse_sizes(pair, inverse);
        w.inverse = largest ? inverse : NULL;
        if (size > 0) {
            context->backend->algebra->gemm(1, 0, p, q, pair->n, 1.0, pair->left.data, p, pair->right.data, q, 0.0,
                                            w.scratch, q);
            value = size_of(data, pair, w.scratch, w.inverse);
            circe_context_run(context, w.parts, run_draws, &w);
        }
        report(value, &w, result);
    }
    circe__free(context, w.scratch);
    circe__free(context, w.orders);
    circe__free(context, w.null);
    return status;
}

/* On the host, wherever the rows are. */
static circe_status permute(const circe__data *data, const circe__pair *pair, const circe__strata *of, bool largest,
                            circe_test_result *result) {
    circe__pair host = {0};
    if (pair->left.device == NULL) return permute_rows(data, pair, of, largest, result);
    circe_status status = circe__pair_to_host(data, pair, &host);
    if (status == CIRCE_OK) status = permute_rows(data, &host, of, largest, result);
    circe__pair_free(data->context, &host);
    return status;
}

circe_status circe__permute_within_y(const circe__data *data, const circe__pair *pair, bool largest,
                                     circe_test_result *result) {
    result->null = CIRCE_NULL_PERMUTATION;
    if (!circe__may_permute(data))
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "the null permutation shuffles rows of equal y: y must have at most 256 values with 20 rows "
                          "each, and neither weights nor a split are possible");
    circe__strata classes = {0};
    circe_status status = strata_make(data, &classes);
    if (status == CIRCE_OK) status = permute(data, pair, &classes, largest, result);
    circe__strata_free(data->context, &classes);
    return status;
}

/* ---- rare classes of x and z ------------------------------------------------------------------------------------- */

/* Expected rows with both of the rarest classes below which no limit theorem helps. */
static const double few = 5.0;

/* The number of rows that have another value than the one that more than half of them share; n if there is none. */
static int64_t off_majority(const circe__variable *v, int64_t n, int64_t c) {
    double candidate = 0.0;
    int64_t votes = 0, off = 0;
    for (int64_t i = 0; i < n; i++) { /* pairs of unequal values cancel: a majority survives */
        double value = v->points[i * v->dim + c];
        if (votes == 0) candidate = value;
        votes += value == candidate ? 1 : -1;
    }
    for (int64_t i = 0; i < n; i++) off += v->points[i * v->dim + c] != candidate;
    return 2 * off < n ? off : n;
}

/* The rows of the rarest of a column's values; n if it has more than a few. */
static int64_t rarest_value(const circe__variable *v, int64_t n, int64_t c) {
    enum { MOST = 10 };
    double values[MOST];
    int64_t k = count_column(v, n, c, MOST, values), least = n;
    for (int64_t a = 0; k <= MOST && a < k; a++) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++) count += v->points[i * v->dim + c] == values[a];
        least = circe__min(least, count);
    }
    return least;
}

/* The share of rows with the rarest value of x or z, in the column where it is least: of a column with few values, or
 * beside the value that most rows share (amounts that are mostly 0). `numbers_too`: rare values of numbers that have no
 * majority count as well, such as the largest of few counts; the usual nulls stand these. 1: no rare values. */
static double rarest(const circe__variable *v, int64_t n, bool numbers_too) {
    int64_t least = n;
    for (int64_t c = 0; c < v->dim; c++) {
        least = circe__min(least, off_majority(v, n, c));
        if (numbers_too || circe__is_category(v->kernel, v->dim, c)) least = circe__min(least, rarest_value(v, n, c));
    }
    return (double)least / (double)n;
}

/* The rows in which the rarest values of x and of z are expected to meet; NaN without such values. */
static double expected_to_meet(const circe__data *data, bool numbers_too) {
    double x = rarest(&data->x, data->n, numbers_too), z = rarest(&data->z, data->n, numbers_too);
    return x < 1.0 && z < 1.0 ? x * z * (double)data->n : NAN;
}

void circe__count_classes(const circe__data *data, circe_test_result *result) {
    result->expected_count = expected_to_meet(data, true);
}

/* Operations of one order of the rows; and how many take reasonable time. */
static double work_of(const circe__data *data, int64_t p, int64_t q) {
    return 2.0 * (double)data->n * (double)(p + 1) * (double)(q + 1);
}
static const double operations = 4e9;

/* Whether rows may be permuted beside the test's own null. */
static bool may_compare(const circe__data *data) {
    return !data->by_value && data->options.weights == NULL && data->n == data->total &&
           data->options.mean != CIRCE_MEAN_SPLIT && data->dependence == NULL;
}

/* Whether residuals of z may be permuted where x and z have rare classes. */
static bool may_permute_residuals(const circe__data *data, const circe_test_result *result, int64_t p, int64_t q) {
    return !circe__kind_of(&data->options)->splits && result->expected_count < few &&
           data->options.null == CIRCE_NULL_AUTO && may_compare(data) &&
           (double)data->options.draws * work_of(data, p, q) <= operations;
}

bool circe__too_rare(const circe__data *data, const circe_test_result *result) {
    return result->expected_count < few && result->null != CIRCE_NULL_PERMUTATION &&
           expected_to_meet(data, false) < few && !may_permute_residuals(data, result, result->rank_x, result->rank_z);
}

bool circe__looks_within(const circe__data *data, const circe_test_result *result) {
    return !data->options.skip_checks && result->p_value <= data->options.alpha && data->y.dim > 0 && may_compare(data);
}

circe_status circe__compare_within(const circe__data *data, const circe__pair *pair, bool largest,
                                   circe_test_result *result) {
    const int64_t most = 200, least = 40;
    circe__data quick = *data;
    circe__pair residual = *pair;
    circe_test_result within = *result;
    circe__strata equal = {0};
    residual.right = pair->noise;
    quick.options.draws = circe__max(least, circe__min(most, (int64_t)(operations / work_of(data, pair->p, pair->q))));
    if (!circe__looks_within(data, result)) return CIRCE_OK;
    circe_status status = circe__equal_rows(data, &equal);
    if (status == CIRCE_OK && equal.k > 0) {
        status = permute(&quick, &residual, &equal, largest, &within);
        result->within_p = within.p_value;
        result->within_share = circe__share_within(&equal, data->n);
    }
    circe__strata_free(data->context, &equal);
    return status;
}

circe_status circe__permute_residuals(const circe__data *data, const circe__pair *pair, bool largest,
                                      circe_test_result *result) {
    circe_test_result permuted = *result;
    circe__pair residual = *pair;
    circe__strata classes = {0};
    circe_status status = CIRCE_OK;
    if (pair->p * pair->q == 0 || pair->n != data->n) return CIRCE_OK;
    residual.right = pair->noise;
    if (may_permute_residuals(data, result, pair->p, pair->q)) {
        status = strata_make(data, &classes);
        if (status == CIRCE_OK) status = permute(data, &residual, &classes, largest, &permuted);
        if (status == CIRCE_OK) result->p_value = fmax(result->p_value, permuted.p_value);
        circe__strata_free(data->context, &classes);
    }
    return status == CIRCE_OK ? circe__compare_within(data, pair, largest, result) : status;
}
