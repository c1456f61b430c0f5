/* Which directions of y matter to a target: the metric of a gaussian kernel, learned from gradients.
 *
 *     C = Y A (m, d)                coordinates; A starts as the identity
 *     f(c) = sum_p beta_p k(c, c_p) kernel ridge on pivots c_p, width and ridge by cross-validation
 *     M = mean of grad_y f grad_y f'  (d, d), over rows and over the target's leading columns
 *     A := V diag(sqrt(w / max w + FLOOR)),   M = V diag(w) V'
 *
 * and again, until the error no longer falls. Columns that do not matter have no gradient and drop out; a function of
 * few linear combinations of y has gradients along these alone, so that ten columns may become one coordinate. (Average
 * gradient outer products: Hristache, Juditsky, Polzehl and Spokoiny 2001; as feature learning, Radhakrishnan et al.
 * 2024.) The A of the least error wins; if that is the identity, nothing was learned. O(m r^2) a step. */
#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum {
    MOST_ROWS = 600,
    QUICK_ROWS = 400,
    QUICK_RANK = 48,
    MOST_RANK = 128, /* half of it without products */
    COLUMNS = 4,
    STARTS = 2,
    STEPS = 4,
    MOST_DIM = 64,
    MEDIAN_ROWS = 100,
    LEAST_ROWS = 50,
};
static const double FLOOR = 1e-4, GAIN = 0.01, start_multiples[STARTS] = {0.3, 1.0};

typedef struct learning {
    const circe__data *data;
    circe__data part;    /* the rows that are learned from: root and unit */
    double *Y;           /* (m, d): their columns */
    circe__table target; /* (m, q) */
    int64_t m, d;
    int side;        /* whose target it is */
    double *C;       /* (m, d) */
    double *A;       /* (d, d) */
    double *M;       /* (d, d) and scratch of its eigenproblem */
    double *product; /* (m, q (d + 1)) */
    int *iwork;
    int64_t n_pivots, pivots[MOST_RANK]; /* rows at random */
} learning;

/* A kernel ridge regression at one width. */
typedef struct smooth {
    int64_t r;
    double *points;                    /* (r, d): the pivots that were kept */
    double *K;                         /* (m, r): every row against every pivot */
    double *root;                      /* (r, r): L^-1, K_pp = L L' */
    circe__table F;                    /* (m, r): K L'^-1, centred and weighted */
    double sigma2, ridge[2], error[2]; /* of x and z */
} smooth;

static void smooth_free(const circe_context *context, smooth *s) {
    circe__free(context, s->points);
    circe__table_free(context, &s->F);
    *s = (smooth){0};
}

/* Replaces K_pp (r, r) by L, in the order of the pivots. Leaves out pivots that those before them all but determine:
 * kept[0..rank). */
static int64_t factor_pivots(double *L, int64_t r, int64_t *kept) {
    const double least = 1e-6;
    int64_t rank = 0;
    for (int64_t p = 0; p < r; p++) {
        double *row = L + rank * r, left = 1.0;
        if (rank < p) memcpy(row, L + p * r, (size_t)r * sizeof *row);
        for (int64_t k = 0; k < rank; k++) {
            double sum = L[p * r + kept[k]];
            for (int64_t j = 0; j < k; j++) sum -= row[j] * L[k * r + j];
            row[k] = sum / L[k * r + k];
            left -= row[k] * row[k];
        }
        if (left < least) continue;
        row[rank] = sqrt(left);
        kept[rank++] = p;
    }
    return rank;
}

/* out (n, r) := the kernel of rows a (n, d) and b (r, d). */
static circe_status kernel_rows(const learning *w, double sigma2, const double *a, int64_t n, const double *b,
                                int64_t r, double *out) {
    const circe_context *context = w->data->context;
    const circe__loops *loops = circe__loops_for(context->backend, CIRCE_FLOAT64);
    circe_kernel_factor gaussian = {.kind = CIRCE_KERNEL_GAUSSIAN, .n_cols = w->d, .sigma2 = sigma2};
    CIRCE__OWNED void *scratch = circe__alloc(context, (int64_t)loops->gram_bytes(r, w->d, context->threads), 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    circe_mat rows = circe_mat_f64(a, n, w->d), pivots = circe_mat_f64(b, r, w->d), mat = circe_mat_f64(out, n, r);
    loops->gram((circe__factors){&gaussian, 1}, &rows, &pivots, &mat, context->threads, scratch);
    return CIRCE_OK;
}

/* s->points, s->root and s->K, from the rows that may be pivots. */
static circe_status choose_pivots(const learning *w, smooth *s) {
    const circe_context *context = w->data->context;
    int64_t r = w->n_pivots, d = w->d, kept[MOST_RANK];
    s->points = circe__alloc(context, r * d + w->m * r + 2 * r * r + 1, sizeof *s->points);
    if (s->points == NULL) return CIRCE_ERR_MEMORY;
    double *L = s->points + r * d;
    for (int64_t p = 0; p < r; p++) memcpy(s->points + p * d, w->C + w->pivots[p] * d, (size_t)d * sizeof *s->points);
    circe_status status = kernel_rows(w, s->sigma2, s->points, r, s->points, r, L);
    if (status != CIRCE_OK) return status;
    s->r = factor_pivots(L, r, kept);
    s->root = L + r * r;
    s->K = s->root + r * r;
    for (int64_t p = 0; p < s->r; p++) {
        memmove(s->points + p * d, s->points + kept[p] * d, (size_t)d * sizeof *s->points);
        for (int64_t k = 0; k < s->r; k++) s->root[p * s->r + k] = k <= p ? L[p * r + k] : 0.0;
    }
    if (context->backend->algebra->invert_lower(s->r, s->root, s->r) != 0)
        return circe_fail(CIRCE_ERR_NUMERIC, "a kernel of y cannot be inverted");
    return kernel_rows(w, s->sigma2, w->C, w->m, s->points, s->r, s->K);
}

/* At one width, for up to two targets. */
static circe_status fit(const learning *w, const circe__table *const targets[2], double sigma2, smooth *s) {
    const circe_context *context = w->data->context;
    const double extra[2] = {0.0, 0.0};
    circe__gcv found[2];
    *s = (smooth){.sigma2 = sigma2};
    circe_status status = choose_pivots(w, s);
    if (status == CIRCE_OK) status = circe__table_new(context, w->m, s->r, &s->F);
    if (status != CIRCE_OK) return status;
    memcpy(s->F.data, s->K, (size_t)(w->m * s->r) * sizeof *s->K);
    context->backend->algebra->multiply_rows(w->m, s->r, s->root, s->r, s->F.data, s->r);
    circe__weigh(&w->part, &s->F);
    status = circe__gcv_of(&w->part, &s->F, targets, extra, 0.0, found);
    for (int t = 0; t < 2; t++) {
        s->error[t] = found[t].error;
        s->ridge[t] = found[t].ridge;
    }
    return status;
}

/* beta (r, q): f(c) = sum_p beta_p k(c, c_p). */
static circe_status coefficients(const learning *w, const smooth *s, double *beta) {
    const circe_context *context = w->data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t r = s->r, q = w->target.cols;
    CIRCE__OWNED double *G = circe__alloc(context, r * r + 2 * r * q + 1, sizeof *G);
    if (G == NULL) return CIRCE_ERR_MEMORY;
    double *cross = G + r * r, *along = cross + r * q;
    algebra->gram_update(r, w->m, s->F.data, r, 0.0, G, r);
    for (int64_t k = 0; k < r; k++) G[k * (r + 1)] += s->ridge[w->side];
    circe_status status = CIRCE_OK;
    if (algebra->invert_spd(r, G) != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "a regression on y has no solution: its ridge is too small");
    algebra->gemm(1, 0, r, q, w->m, 1.0, s->F.data, r, w->target.data, q, 0.0, cross, q);
    algebra->gemm(0, 0, r, q, r, 1.0, G, r, cross, q, 0.0, along, q);
    algebra->gemm(1, 0, r, q, r, 1.0, s->root, r, along, q, 0.0, beta, q);
    return status;
}

/* w->M := the mean outer product of the gradients with respect to y. */
static circe_status outer_products(const learning *w, const smooth *s) {
    const circe_context *context = w->data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t r = s->r, q = w->target.cols, d = w->d, wide = q * (d + 1), m = w->m;
    double *B = circe__alloc(context, r * wide + 2 * m * d + r * q + 1, sizeof *B);
    if (B == NULL) return CIRCE_ERR_MEMORY;
    double *g = B + r * wide, *turned = g + m * d, *beta = turned + m * d;
    circe_status status = coefficients(w, s, beta);
    if (status != CIRCE_OK) {
        circe__free(context, B);
        return status;
    }
    for (int64_t p = 0; p < r; p++)
        for (int64_t k = 0; k < q; k++)
            for (int64_t c = 0; c <= d; c++)
                B[p * wide + k * (d + 1) + c] = beta[p * q + k] * (c < d ? s->points[p * d + c] : 1.0) / s->sigma2;
    algebra->gemm(0, 0, m, wide, r, 1.0, s->K, r, B, wide, 0.0, w->product, wide);
    memset(w->M, 0, (size_t)(d * d) * sizeof *w->M);
    for (int64_t k = 0; k < q; k++) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = 0; c < d; c++) {
                const double *row = w->product + i * wide + k * (d + 1);
                g[i * d + c] = row[c] - row[d] * w->C[i * d + c];
            }
        algebra->gemm(0, 1, m, d, d, 1.0, g, d, w->A, d, 0.0, turned, d);
        algebra->gram_update(d, m, turned, d, 1.0, w->M, d);
    }
    circe__free(context, B);
    return CIRCE_OK;
}

/* A and C from M. */
static circe_status turn(learning *w) {
    const circe__algebra *algebra = w->data->context->backend->algebra;
    int64_t d = w->d;
    double *values = w->M + d * d;
    if (algebra->eigen(d, w->M, values, values + d, w->iwork) != 0)
        return circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of gradients of y did not converge");
    double largest = values[d - 1] > 0.0 ? values[d - 1] : 1.0;
    for (int64_t j = 0; j < d; j++)
        for (int64_t k = 0; k < d; k++)
            w->A[j * d + k] = w->M[k * d + j] * sqrt(fmax(values[k], 0.0) / largest + FLOOR);
    algebra->gemm(0, 0, w->m, d, d, 1.0, w->Y, d, w->A, d, 0.0, w->C, d);
    return CIRCE_OK;
}

static circe_status median_of(const learning *w, double *sigma2) {
    circe_mat some = circe_mat_f64(w->C, circe__min(w->m, MEDIAN_ROWS), w->d);
    *sigma2 = 1.0;
    return circe_median_sigma2(w->data->context, &some, 0, w->d, sigma2);
}

/* From the better of the smooths that both sides begin with, at its multiple of the median width, until a step takes
 * less than GAIN of the error, or STEPS are done. */
static circe_status iterate(learning *w, const smooth start[STARTS], double *best_A, bool *learned) {
    const circe__table *targets[2] = {NULL, NULL};
    int64_t d = w->d;
    int t = w->side, first = start[1].error[t] < start[0].error[t];
    double least = start[first].error[t], before = least;
    targets[t] = &w->target;
    *learned = false;
    circe_status status = outer_products(w, &start[first]);
    if (status == CIRCE_OK) status = turn(w);
    for (int step = 1; status == CIRCE_OK && step < STEPS; step++) {
        smooth s = {0};
        double sigma2;
        status = median_of(w, &sigma2);
        if (status == CIRCE_OK) status = fit(w, targets, start_multiples[first] * sigma2, &s);
        bool going = status == CIRCE_OK && step + 1 < STEPS && s.error[t] < (1.0 - GAIN) * least;
        if (status == CIRCE_OK && s.error[t] < least) {
            least = s.error[t];
            *learned = true;
            memcpy(best_A, w->A, (size_t)(d * d) * sizeof *best_A);
        }
        if (going) status = outer_products(w, &s);
        if (going && status == CIRCE_OK) status = turn(w);
        smooth_free(w->data->context, &s);
        if (!going) break;
    }
    w->data->faces->learned[t] = before > 0.0 ? least / before : 1.0;
    return status;
}

static void learning_free(learning *w) {
    const circe_context *context = w->data->context;
    circe__data_free(&w->part);
    circe__table_free(context, &w->target);
    circe__free(context, w->Y);
    circe__free(context, w->C);
    circe__free(context, w->A);
    circe__free(context, w->M);
    circe__free(context, w->product);
    circe__free(context, w->iwork);
}

/* The short search for few rows is to be short itself; for many, good directions save features. */
static int64_t most_rows(const circe__data *data) {
    return data->quick ? circe__min(circe__max(data->total / 8, QUICK_ROWS), MOST_ROWS) : MOST_ROWS;
}

static circe_status prepare(const circe__data *data, const circe__table *columns, const circe__table *target, int side,
                            learning *w) {
    circe_context *context = data->context;
    int64_t d = columns->cols, m = circe__min(target->rows, most_rows(data)), *index = NULL;
    double lost;
    *w = (learning){.data = data, .m = m, .d = d, .side = side};
    index = circe__alloc(context, m, sizeof *index);
    w->Y = circe__alloc(context, m * d, sizeof *w->Y);
    w->C = circe__alloc(context, m * d, sizeof *w->C);
    w->A = circe__calloc(context, d * d, sizeof *w->A);
    w->M = circe__alloc(context, 3 * d * d + 8 * d + 8, sizeof *w->M);
    w->product = circe__alloc(context, m * COLUMNS * (d + 1), sizeof *w->product);
    w->iwork = circe__alloc(context, 5 * d + 3, sizeof *w->iwork);
    circe_status status = CIRCE_ERR_MEMORY;
    if (index != NULL && w->Y != NULL && w->C != NULL && w->A != NULL && w->M != NULL && w->product != NULL &&
        w->iwork != NULL) {
        circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_ROWS}, target->rows, m, index);
        status = circe__data_rows_of_y(data, index, m, &w->part);
    }
    w->n_pivots = circe__min(d > circe__columns(data)->dim ? MOST_RANK
                             : data->quick                 ? QUICK_RANK
                                                           : MOST_RANK / 2,
                             m / 4);
    circe_random_subset((circe_random){data->options.seed, CIRCE__STREAM_HALVES}, m, w->n_pivots, w->pivots);
    if (status == CIRCE_OK) status = circe__table_rows(context, target, index, m, &w->target);
    if (status == CIRCE_OK) status = circe__compress(&w->part, &w->target, NULL, COLUMNS, &lost);
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++)
        memcpy(w->Y + i * d, columns->data + index[i] * d, (size_t)d * sizeof *w->Y);
    if (status == CIRCE_OK) memcpy(w->C, w->Y, (size_t)(m * d) * sizeof *w->C);
    for (int64_t k = 0; status == CIRCE_OK && k < d; k++) w->A[k * d + k] = 1.0;
    circe__free(context, index);
    return status;
}

/* y's columns and, for a side, the normal scores of their products and the steps of its tree: a function that jumps in
 * one direction and is smooth in another is a smooth function of the step and of the other. */
static circe_status columns_of(const circe__data *data, bool products, int side, circe__table *columns) {
    CIRCE__OWNED_BY(circe__table_drop) circe__table more = {0};
    circe__table none = {0};
    const circe__table *steps = products ? &data->faces->steps[side] : &none;
    const circe__variable *y = circe__columns(data);
    int64_t n = data->total, d = y->dim;
    circe_status status = products ? circe__products(data, &more) : circe__table_new(data->context, n, 0, &more);
    if (status == CIRCE_OK && more.cols > 0) {
        circe_mat mat = circe_mat_f64(more.data, n, more.cols);
        status = circe_transform_columns(data->context, &mat, CIRCE_TRANSFORM_NORMAL_SCORES, NULL, &mat);
    }
    if (status == CIRCE_OK) status = circe__table_new(data->context, n, d + more.cols + steps->cols, columns);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        double *row = columns->data + i * columns->cols;
        memcpy(row, y->points + i * d, (size_t)d * sizeof *row);
        if (more.cols > 0) memcpy(row + d, more.data + i * more.cols, (size_t)more.cols * sizeof *row);
        for (int64_t k = 0; k < steps->cols; k++) row[d + more.cols + k] = steps->data[i * steps->cols + k];
    }
    return status;
}

/* The side's face: y's columns, and products, times what was learned. */
static circe_status learn_side(learning *w, const circe__table *columns, const smooth *start) {
    const circe__data *data = w->data;
    int64_t d = columns->cols;
    bool learned = false;
    CIRCE__OWNED double *A = circe__alloc(data->context, d * d, sizeof *A);
    double *points = NULL;
    circe_status status = A == NULL ? CIRCE_ERR_MEMORY : iterate(w, start, A, &learned);
    if (status == CIRCE_OK && learned) {
        points = circe__alloc(data->context, data->total * d, sizeof *points);
        status = points == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    }
    if (points != NULL) {
        data->context->backend->algebra->gemm(0, 0, data->total, d, d, 1.0, columns->data, d, A, d, 0.0, points, d);
        status = circe__face_set(data, points, d, CIRCE_KERNEL_GAUSSIAN, &data->faces->metric[w->side]);
    }
    return status;
}

typedef struct sides {
    learning *w;
    const circe__table *columns, *const *learned_from;
    const smooth *start;
} sides;

static circe_status run_side(void *user, int64_t t) {
    const sides *s = user;
    return s->learned_from[t] == NULL ? CIRCE_OK : learn_side(&s->w[t], s->columns, s->start);
}

circe_status circe__metric_learn(const circe__data *data, const circe__table *const targets[2], bool products) {
    learning w[2] = {{.data = data}, {.data = data}};
    const circe__table *learned_from[2] = {NULL, NULL};
    smooth start[STARTS] = {{0}};
    CIRCE__OWNED_BY(circe__table_drop) circe__table columns = {0};
    double sigma2 = 1.0;
    int any = -1;
    for (int t = 0; t < 2; t++) {
        if (targets[t] == NULL) continue;
        data->faces->metric[t].dim = 0;
        if (targets[t]->rows >= LEAST_ROWS && targets[t]->cols > 0) any = t;
    }
    const int64_t dim = circe__columns(data)->dim;
    if (dim < 2 || dim > MOST_DIM || any < 0) return CIRCE_OK;
    circe_status status = columns_of(data, products, any, &columns);
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        if (targets[t] == NULL || targets[t]->rows < LEAST_ROWS || targets[t]->cols == 0) continue;
        status = prepare(data, &columns, targets[t], t, &w[t]);
        learned_from[t] = &w[t].target;
    }
    if (status == CIRCE_OK) status = median_of(&w[any], &sigma2);
    for (int k = 0; status == CIRCE_OK && k < STARTS; k++)
        status = fit(&w[any], learned_from, start_multiples[k] * sigma2, &start[k]);
    sides both = {w, &columns, learned_from, start};
    if (status == CIRCE_OK) status = circe__beside(data, 2, run_side, &both);
    for (int k = 0; k < STARTS; k++) smooth_free(data->context, &start[k]);
    learning_free(&w[0]);
    learning_free(&w[1]);
    return status;
}
