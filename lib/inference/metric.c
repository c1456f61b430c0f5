/* Which directions of y matter to a target: the metric of a gaussian kernel, learned from gradients.
 *
 *     C = Y A (m, d)                coordinates; A starts as the identity
 *     f(c) = sum_p beta_p k(c, c_p) kernel ridge on pivots c_p, width and ridge by generalised cross-validation
 *     M = mean of grad_y f grad_y f'  (d, d), over rows and over the target's leading columns
 *     A := V diag(sqrt(w / max w + FLOOR)),   M = V diag(w) V'
 *
 * and again, some times. Columns that do not matter have no gradient and drop out; a function of few linear
 * combinations of y has gradients along these alone, so that ten columns may become one coordinate. (Average gradient
 * outer products: Hristache, Juditsky, Polzehl and Spokoiny 2001; as feature learning, Radhakrishnan et al. 2024.) The
 * A of the least error wins; if that is the identity, nothing was learned. O(m r^2) a step. */
#include <math.h>
#include <string.h>

#include "inference/faces.h"

enum { MOST_ROWS = 1000, MOST_RANK = 100, COLUMNS = 4, STEPS = 4, MOST_DIM = 64, MEDIAN_ROWS = 160, LEAST_ROWS = 50 };
static const double FLOOR = 1e-4;

typedef struct learning {
    const circe__data *data;
    circe__data part;    /* the rows that are learned from: root and unit */
    double *Y;           /* (m, d): their columns */
    circe__table target; /* (m, q) */
    int64_t m, d;
    double *C;       /* (m, d) */
    double *A;       /* (d, d) */
    double *M;       /* (d, d) and scratch of its eigenproblem */
    double *product; /* (m, q (d + 1)) */
    int *iwork;
} learning;

/* A kernel ridge regression at one width. */
typedef struct smooth {
    circe__basis basis;
    circe__table beta; /* (r, q) */
    double sigma2, error;
} smooth;

static void smooth_free(const circe_context *context, smooth *s) {
    circe__basis_free(&s->basis);
    circe__table_free(context, &s->beta);
    *s = (smooth){0};
}

/* beta from the features F (m, r), which are consumed. */
static circe_status solve(const learning *w, circe__table *F, smooth *s) {
    const circe_context *context = w->data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t r = F->cols, q = w->target.cols;
    circe__spectrum spectrum = {0};
    circe__table identity = {0}, copy = {0};
    const circe__table *targets[2] = {NULL, &w->target};
    const double extra[2] = {0.0, 0.0};
    circe__gcv found[2];
    circe_status status = circe__table_new(context, r, r, &identity); /* becomes V', by which F is turned */
    if (status == CIRCE_OK) status = circe__table_copy(context, F, &copy);
    if (status == CIRCE_OK) status = circe__gcv_of(&w->part, &copy, targets, extra, found);
    for (int64_t e = 0; status == CIRCE_OK && e < r * r; e++) identity.data[e] = e / r == e % r;
    if (status == CIRCE_OK) status = circe__decompose(&w->part, F, &identity, &spectrum);
    int64_t rank = spectrum.rank;
    double *inner = circe__alloc(context, (rank + r) * q + 1, sizeof *inner);
    if (status == CIRCE_OK && inner == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = circe__table_new(context, r, q, &s->beta);
    if (status == CIRCE_OK && rank > 0) {
        double *along = inner + rank * q;
        s->error = found[1].error;
        algebra->gemm(1, 0, rank, q, w->m, 1.0, spectrum.Q, rank, w->target.data, q, 0.0, inner, q);
        for (int64_t k = 0; k < rank; k++)
            for (int64_t c = 0; c < q; c++) inner[k * q + c] /= spectrum.s[k] + found[1].ridge;
        algebra->gemm(0, 0, r, q, rank, 1.0, identity.data, rank, inner, q, 0.0, along, q);
        algebra->gemm(1, 0, r, q, r, 1.0, s->basis.inverse, r, along, q, 0.0, s->beta.data, q);
    }
    circe__free(context, inner);
    circe__table_free(context, &identity);
    circe__table_free(context, &copy);
    circe__spectrum_free(context, &spectrum);
    return status;
}

static circe_status fit(const learning *w, double sigma2, smooth *s) {
    const circe_context *context = w->data->context;
    circe_kernel *kernel = NULL;
    circe__table F = {0};
    void *scratch = NULL;
    *s = (smooth){.sigma2 = sigma2, .error = HUGE_VAL};
    circe_status status = circe_kernel_create(w->data->context, CIRCE_KERNEL_GAUSSIAN, sigma2, &kernel);
    if (status == CIRCE_OK) status = circe__basis_init(context, kernel, w->d, "y", &s->basis);
    if (status == CIRCE_OK)
        status = circe__basis_extend(&s->basis, w->C, w->m, 1e-6, circe__min(MOST_RANK, w->m / 4), "y");
    if (status == CIRCE_ERR_RANK || status == CIRCE_OK) status = circe__basis_invert(&s->basis);
    if (status == CIRCE_OK) status = circe__table_new(context, w->m, s->basis.rank, &F);
    if (status == CIRCE_OK) {
        scratch = circe__alloc(context, (int64_t)circe__basis_bytes(&s->basis), 1);
        status = scratch == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    }
    if (status == CIRCE_OK) {
        circe__basis_features(&s->basis, s->basis.rank, w->C, w->m, F.data, F.cols, NULL, NULL, scratch);
        circe__weigh(&w->part, &F);
        status = solve(w, &F, s);
    }
    circe_kernel_destroy(kernel);
    circe__table_free(context, &F);
    circe__free(context, scratch);
    return status;
}

/* w->M := the mean outer product of the gradients with respect to y. */
static circe_status outer_products(const learning *w, const smooth *s) {
    const circe_context *context = w->data->context;
    const circe__algebra *algebra = context->backend->algebra;
    int64_t r = s->basis.rank, q = w->target.cols, d = w->d, wide = q * (d + 1), m = w->m;
    double *K = circe__alloc(context, m * r + r * wide + 2 * m * d + 1, sizeof *K);
    if (K == NULL) return CIRCE_ERR_MEMORY;
    double *B = K + m * r, *g = B + r * wide, *turned = g + m * d;
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < r; p++) {
            double square = 0.0;
            for (int64_t c = 0; c < d; c++) {
                double e = w->C[i * d + c] - s->basis.points[p * d + c];
                square += e * e;
            }
            K[i * r + p] = exp(-square / (2.0 * s->sigma2));
        }
    for (int64_t p = 0; p < r; p++)
        for (int64_t k = 0; k < q; k++)
            for (int64_t c = 0; c <= d; c++)
                B[p * wide + k * (d + 1) + c] =
                    s->beta.data[p * q + k] * (c < d ? s->basis.points[p * d + c] : 1.0) / s->sigma2;
    algebra->gemm(0, 0, m, wide, r, 1.0, K, r, B, wide, 0.0, w->product, wide);
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
    circe__free(context, K);
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

/* The better of two widths. */
static circe_status fit_best(const learning *w, smooth *best) {
    const double multiples[] = {0.3, 1.0};
    circe_mat some = circe_mat_f64(w->C, circe__min(w->m, MEDIAN_ROWS), w->d);
    double sigma2 = 1.0;
    circe_status status = circe_median_sigma2(w->data->context, &some, 0, w->d, &sigma2);
    for (size_t k = 0; status == CIRCE_OK && k < sizeof multiples / sizeof *multiples; k++) {
        smooth s = {0};
        status = fit(w, multiples[k] * sigma2, &s);
        if (status == CIRCE_OK && (k == 0 || s.error < best->error)) {
            smooth_free(w->data->context, best);
            *best = s;
        } else {
            smooth_free(w->data->context, &s);
        }
    }
    return status;
}

static circe_status iterate(learning *w, double *best_A, bool *learned) {
    int64_t d = w->d;
    double least = HUGE_VAL;
    circe_status status = CIRCE_OK;
    *learned = false;
    for (int step = 0; status == CIRCE_OK && step < STEPS; step++) {
        smooth s = {0};
        status = fit_best(w, &s);
        if (status == CIRCE_OK && s.error < least) {
            least = s.error;
            *learned = step > 0;
            memcpy(best_A, w->A, (size_t)(d * d) * sizeof *best_A);
        }
        if (status == CIRCE_OK && step + 1 < STEPS) status = outer_products(w, &s);
        if (status == CIRCE_OK && step + 1 < STEPS) status = turn(w);
        smooth_free(w->data->context, &s);
    }
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

static circe_status prepare(const circe__data *data, const circe__table *columns, const circe__table *target,
                            learning *w) {
    circe_context *context = data->context;
    int64_t d = columns->cols, m = circe__min(target->rows, MOST_ROWS), *index = NULL;
    double lost;
    *w = (learning){.data = data, .m = m, .d = d};
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
    if (status == CIRCE_OK) status = circe__table_rows(context, target, index, m, &w->target);
    if (status == CIRCE_OK) status = circe__compress(&w->part, &w->target, NULL, COLUMNS, &lost);
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++)
        memcpy(w->Y + i * d, columns->data + index[i] * d, (size_t)d * sizeof *w->Y);
    if (status == CIRCE_OK) memcpy(w->C, w->Y, (size_t)(m * d) * sizeof *w->C);
    for (int64_t k = 0; status == CIRCE_OK && k < d; k++) w->A[k * d + k] = 1.0;
    circe__free(context, index);
    return status;
}

/* y's columns and, where asked for, the normal scores of their products. */
static circe_status columns_of(const circe__data *data, bool products, circe__table *columns) {
    circe__table more = {0};
    int64_t n = data->total, d = data->y.dim;
    circe_status status = products ? circe__products(data, &more) : circe__table_new(data->context, n, 0, &more);
    if (status == CIRCE_OK && more.cols > 0) {
        circe_mat mat = circe_mat_f64(more.data, n, more.cols);
        status = circe_transform_columns(data->context, &mat, CIRCE_TRANSFORM_NORMAL_SCORES, NULL, &mat);
    }
    if (status == CIRCE_OK) status = circe__table_new(data->context, n, d + more.cols, columns);
    for (int64_t i = 0; status == CIRCE_OK && i < n; i++) {
        double *row = columns->data + i * columns->cols;
        memcpy(row, data->y.points + i * d, (size_t)d * sizeof *row);
        if (more.cols > 0) memcpy(row + d, more.data + i * more.cols, (size_t)more.cols * sizeof *row);
    }
    circe__table_free(data->context, &more);
    return status;
}

circe_status circe__metric_learn(const circe__data *data, const circe__table *target, int side, bool products) {
    learning w;
    circe__table columns = {0};
    bool learned = false;
    circe__variable *face = &data->faces->metric[side];
    face->dim = 0;
    if (data->y.dim < 2 || data->y.dim > MOST_DIM || target->rows < LEAST_ROWS || target->cols == 0) return CIRCE_OK;
    circe_status status = columns_of(data, products, &columns);
    if (status != CIRCE_OK) return status;
    int64_t d = columns.cols;
    double *A = circe__alloc(data->context, d * d, sizeof *A);
    status = prepare(data, &columns, target, &w);
    if (A == NULL) status = CIRCE_ERR_MEMORY;
    if (status == CIRCE_OK) status = iterate(&w, A, &learned);
    if (status == CIRCE_OK && learned) {
        double *points = circe__alloc(data->context, data->total * d, sizeof *points);
        status = points == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
        if (status == CIRCE_OK) {
            data->context->backend->algebra->gemm(0, 0, data->total, d, d, 1.0, columns.data, d, A, d, 0.0, points, d);
            status = circe__face_set(data, points, d, CIRCE_KERNEL_GAUSSIAN, face);
        }
    }
    circe__free(data->context, A);
    circe__table_free(data->context, &columns);
    learning_free(&w);
    return status;
}
