/* RCoT of any number of rows (Strobl, Zhang and Visweswaran 2019): a few random Fourier features of x against a few of
 * z, both regressed on random features of y. O(n (f_y^2 + f_x f_z)) time, memory that does not grow with n.
 *
 *     Y (n, f_y), X (n, f_x), Z (n, f_z)   features, times the root of the weights, about their means
 *     first pass    all inner products; Y'Y = V' diag(s) V, P_x = V Y'X, P_z = V Y'Z
 *     some rows     leave-one-out errors of every ridge under the fit of all rows: the ridge of each side
 *     second pass   left_i = x_i - q_i (c_x + D_z (P_x - s c_x)),  c_x = D_x P_x,  D = 1/(s + ridge),  q = V y:
 *                   R_z R_x X row by row (pair.c);  noise_i = (z_i - q_i D_z P_z) / (1 - leverage)
 *                   sums of left_i (x) z_i, and of (left (x) noise)(left (x) noise)' (f_x f_z, f_x f_z)
 *     statistic     |sum left_i (x) z_i|^2 / n
 *
 * The null is a sum of chi-squares weighted by the eigenvalues of that last matrix, a hundred of them, all known. The
 * saddlepoint formula gives its tail (distribution.c). The published choice, Lindsay, Pilla and Basak's mixture of
 * gammas by four moments, is as good at .05 and worse further out in the tail; Satterthwaite's gamma (the null `gamma`)
 * is off by a few thousandths at .05. Unlike in kci, x appears without y, so dependence whose sign changes along y can
 * cancel. */
#include <math.h>
#include <string.h>

#include "inference/faces.h"
#include "inference/rcot_parts.h"

enum {
    BLOCK = 256,        /* rows at a time: their features stay in the second cache */
    CHUNKS = 64,        /* partial sums, added in order: the same bits for any number of threads */
    PARTS_A_THREAD = 4, /* a slow thread takes fewer of them */
    LOO_ROWS = 16384,   /* rows that choose the ridges */
    WIDTH_ROWS = 1000,  /* rows that choose the width of y */
};

typedef circe__rcot_layout layout;
typedef circe__rcot_maps maps;

static void layout_free(const circe_context *context, layout *l) {
    circe__fourier_free(context, &l->y);
    circe__fourier_free(context, &l->x);
    circe__fourier_free(context, &l->z);
    circe__free(context, l->mean);
    circe__free(context, l->V);
    circe__free(context, l->s);
    circe__free(context, l->P);
}

void circe__rcot_features(const layout *l, int64_t first, int64_t rows, double *out) {
    const circe__data *d = l->data;
    if (l->fy > 0) circe__fourier_features(&l->y, d->y.points + first * d->y.dim, d->root + first, rows, out, l->all);
    circe__fourier_features(&l->x, d->x.points + first * d->x.dim, d->root + first, rows, out + l->fy, l->all);
    circe__fourier_features(&l->z, d->z.points + first * d->z.dim, d->root + first, rows, out + l->fy + l->fx, l->all);
}

/* The same about the means, y's columns turned to the eigenvectors (scratch: rows x fy). */
static void centered_block(const layout *l, int64_t first, int64_t rows, double *out, double *scratch) {
    const circe__data *d = l->data;
    circe__rcot_features(l, first, rows, out);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < l->all; k++) out[i * l->all + k] -= d->root[first + i] * l->mean[k];
    if (l->fy == 0) return;
    d->context->backend->algebra->gemm(0, 1, rows, l->fy, l->fy, 1.0, out, l->all, l->V, l->fy, 0.0, scratch, l->fy);
    for (int64_t i = 0; i < rows; i++) memcpy(out + i * l->all, scratch + i * l->fy, (size_t)l->fy * sizeof *out);
}

/* ---- a pass over the rows in chunks ------------------------------------------------------------------------------ */

typedef void visit_fn(const layout *l, void *user, int64_t first, int64_t rows, double *block, double *scratch,
                      double *sums);

typedef struct chunked {
    const layout *l;
    visit_fn *visit;
    void *user;
    int64_t chunks, parts, rows, size, scratch_size;
    double *partial, *scratch; /* (chunks, size), (parts, scratch_size) */
} chunked;

static void run_chunks(void *user, int64_t part) {
    const chunked *p = user;
    int64_t n = p->l->data->n, chunks = p->chunks, rows = p->rows;
    double *own = p->scratch + part * p->scratch_size;
    for (int64_t c = part; c < chunks; c += p->parts)
        for (int64_t first = n * c / chunks; first < n * (c + 1) / chunks; first += rows)
            p->visit(p->l, p->user, first, circe__min(rows, n * (c + 1) / chunks - first), own, own + rows * p->l->all,
                     p->partial + c * p->size);
}

/* sums (size) := the sum over all blocks, chunk by chunk: the same bits on any number of threads. */
static circe_status pass(const layout *l, visit_fn *visit, void *user, int64_t size, int64_t wide, double *sums) {
    const circe_context *context = l->data->context;
    int64_t n = l->data->n, chunks = circe__min(CHUNKS, (n + BLOCK - 1) / BLOCK), rows = circe__min(n, BLOCK);
    int64_t scratch_size = rows * (2 * l->all + wide + 1);
    int64_t parts = circe__min(PARTS_A_THREAD * context->threads, chunks);
    double *partial = circe__calloc(context, chunks * size, sizeof *partial);
    double *scratch = circe__alloc(context, parts * scratch_size, sizeof *scratch);
    if (partial == NULL || scratch == NULL) {
        circe__free(context, partial);
        circe__free(context, scratch);
        return CIRCE_ERR_MEMORY;
    }
    chunked p = {l, visit, user, chunks, parts, rows, size, scratch_size, partial, scratch};
    circe_context_run(context, parts, run_chunks, &p);
    memset(sums, 0, (size_t)size * sizeof *sums);
    for (int64_t c = 0; c < chunks; c++)
        for (int64_t e = 0; e < size; e++) sums[e] += partial[c * size + e];
    circe__free(context, partial);
    circe__free(context, scratch);
    return CIRCE_OK;
}

/* First pass: the Gram matrix (all, all), then sums of root * features (all). */
static void visit_gram(const layout *l, void *user, int64_t first, int64_t rows, double *block, double *scratch,
                       double *sums) {
    (void)user;
    (void)scratch;
    int64_t all = l->all;
    circe__rcot_features(l, first, rows, block);
    l->data->context->backend->algebra->gram_update(all, rows, block, all, 1.0, sums, all);
    for (int64_t i = 0; i < rows; i++) {
        double *restrict to = sums + all * all, root = l->data->root[first + i];
        const double *restrict from = block + i * all;
        for (int64_t k = 0; k < all; k++) to[k] += root * from[k];
    }
}

/* Means, V, s and P from the Gram matrix. */
static circe_status solve(layout *l, const double *sums) {
    const circe_context *context = l->data->context;
    int64_t all = l->all, fy = l->fy, wide = l->fx + l->fz;
    double length = 0.0;
    for (int64_t i = 0; i < l->data->n; i++) length += l->data->root[i] * l->data->root[i];
    l->mean = circe__alloc(context, all, sizeof *l->mean);
    l->V = circe__alloc(context, 3 * fy * fy + 8 * fy + 8, sizeof *l->V);
    l->s = circe__alloc(context, fy + 1, sizeof *l->s);
    l->P = circe__alloc(context, fy * wide + 1, sizeof *l->P);
    double *cross = circe__alloc(context, fy * wide + 1, sizeof *cross);
    int *iwork = circe__alloc(context, 5 * fy + 3, sizeof *iwork);
    circe_status status = CIRCE_ERR_MEMORY;
    if (l->mean == NULL || l->V == NULL || l->s == NULL || l->P == NULL || cross == NULL || iwork == NULL) goto done;
    status = CIRCE_OK;
    for (int64_t k = 0; k < all; k++) l->mean[k] = sums[all * all + k] / length;
    for (int64_t a = 0; a < fy; a++)
        for (int64_t b = 0; b <= a; b++) l->V[a * fy + b] = sums[a * all + b] - length * l->mean[a] * l->mean[b];
    for (int64_t a = 0; a < fy; a++)
        for (int64_t b = 0; b < wide; b++)
            cross[a * wide + b] = sums[(fy + b) * all + a] - length * l->mean[a] * l->mean[fy + b];
    if (fy > 0 && context->backend->algebra->eigen(fy, l->V, l->s, l->V + fy * fy, iwork) != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of y's features did not converge");
    for (int64_t k = 0; k < fy; k++) l->s[k] = fmax(l->s[k], 0.0);
    if (status == CIRCE_OK)
        context->backend->algebra->gemm(0, 0, fy, wide, fy, 1.0, l->V, circe__max(fy, 1), cross, wide, 0.0, l->P, wide);

done:
    circe__free(context, cross);
    circe__free(context, iwork);
    return status;
}

/* ---- ridges ------------------------------------------------------------------------------------------------------ */

/* Adds a block's squared leave-one-out residuals under one ridge to error[0] (x) and error[1] (z); fitted has rows of
 * ld numbers. */
static void add_errors(const layout *l, const double *block, const double *fitted, int64_t ld, const double *inverse,
                       int64_t first, int64_t rows, double error[2]) {
    int64_t wide = l->fx + l->fz;
    for (int64_t i = 0; i < rows; i++) {
        const double *q = block + i * l->all, *t = q + l->fy, *f = fitted + i * ld;
        double u = l->data->unit[first + i], h = u * u, square[2] = {0.0, 0.0};
#pragma omp simd reduction(+ : h)
        for (int64_t k = 0; k < l->fy; k++) h += q[k] * q[k] * inverse[k];
        for (int64_t c = 0; c < l->fx; c++) square[0] += (t[c] - f[c]) * (t[c] - f[c]);
        for (int64_t c = l->fx; c < wide; c++) square[1] += (t[c] - f[c]) * (t[c] - f[c]);
        double rest = fmax(1.0 - h, 1e-9);
        error[0] += square[0] / (rest * rest);
        error[1] += square[1] / (rest * rest);
    }
}

/* Blocks of rows spread over the data, in parts. The blocks' errors are added in their order: the same bits on any
 * number of threads. */
typedef struct ridge_pass {
    const layout *l;
    int64_t rows, blocks, parts, each; /* each: numbers of a part's scratch */
    double *scratch;
    const double *scaled, *inverse; /* (fy, n_ridge + 1, fx + fz), (n_ridge + 1, fy) */
    double *errors;                 /* (blocks, n_ridge + 1, 2) */
} ridge_pass;

/* One product fits the block under all ridges. */
static void visit_ridges(const ridge_pass *p, int64_t b, double *block) {
    const layout *l = p->l;
    int64_t fy = l->fy, wide = l->fx + l->fz, rows = p->rows, ridges = l->data->options.n_ridge + 1;
    int64_t first = circe__min(b * (l->data->n / p->blocks), l->data->n - rows);
    double *fitted = block + 2 * rows * l->all, *errors = p->errors + b * 2 * ridges;
    centered_block(l, first, rows, block, block + rows * l->all);
    memset(errors, 0, 2 * (size_t)ridges * sizeof *errors);
    l->data->context->backend->algebra->gemm(0, 0, rows, ridges * wide, fy, 1.0, block, l->all, p->scaled,
                                             ridges * wide, 0.0, fitted, ridges * wide);
    for (int64_t r = 0; r < ridges; r++)
        add_errors(l, block, fitted + r * wide, ridges * wide, p->inverse + r * fy, first, rows, errors + 2 * r);
}

static void run_ridges(void *user, int64_t part) {
    const ridge_pass *p = user;
    for (int64_t b = part; b < p->blocks; b += p->parts) visit_ridges(p, b, p->scratch + part * p->each);
}

/* diag(1 / (s + ridge)) P for every ridge, and for none at all after them. */
static void scale_ridges(const layout *l, double *scaled, double *inverse) {
    const circe_test_options *o = &l->data->options;
    int64_t fy = l->fy, wide = l->fx + l->fz, ridges = o->n_ridge + 1;
    for (int64_t r = 0; r < ridges; r++)
        for (int64_t k = 0; k < fy; k++) {
            inverse[r * fy + k] = r < o->n_ridge ? 1.0 / (l->s[k] + o->ridge[r]) : 0.0;
            for (int64_t c = 0; c < wide; c++)
                scaled[(k * ridges + r) * wide + c] = l->P[k * wide + c] * inverse[r * fy + k];
        }
}

/* errors (n_ridge, 2), and of the means alone after them: of x and of z. */
static circe_status ridge_errors(const layout *l, double *errors) {
    const circe_context *context = l->data->context;
    int64_t n = circe__min(l->data->n, LOO_ROWS), rows = circe__min(n, BLOCK), wide = l->fx + l->fz;
    int64_t all = l->data->options.n_ridge + 1;
    ridge_pass p = {l, rows, .blocks = (n + rows - 1) / rows, .each = rows * (2 * l->all + all * wide)};
    p.parts = circe__min(PARTS_A_THREAD * context->threads, p.blocks);
    double *scaled = circe__alloc(context, all * l->fy * (wide + 1) + 1, sizeof *scaled);
    p.scratch = circe__alloc(context, p.parts * p.each, sizeof *p.scratch);
    p.errors = circe__alloc(context, p.blocks * 2 * all, sizeof *p.errors);
    circe_status status = scaled == NULL || p.scratch == NULL || p.errors == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        p.scaled = scaled;
        p.inverse = scaled + all * l->fy * wide;
        scale_ridges(l, scaled, scaled + all * l->fy * wide);
        circe_context_run(context, p.parts, run_ridges, &p);
        memset(errors, 0, 2 * (size_t)all * sizeof *errors);
        for (int64_t b = 0; b < p.blocks; b++)
            for (int64_t e = 0; e < 2 * all; e++) errors[e] += p.errors[b * 2 * all + e];
    }
    circe__free(context, scaled);
    circe__free(context, p.scratch);
    circe__free(context, p.errors);
    return status;
}

static circe_status choose_ridges(layout *l, circe_test_result *result) {
    const circe_test_options *o = &l->data->options;
    circe_test_regression *info[2] = {&result->x, &result->z};
    double *errors = circe__alloc(l->data->context, 2 * (o->n_ridge + 1), sizeof *errors);
    circe_status status = errors == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t e = 0; status == CIRCE_OK && e < 2 * (o->n_ridge + 1); e++) errors[e] = 1.0; /* of the means alone */
    if (status == CIRCE_OK && l->fy > 0) status = ridge_errors(l, errors);
    for (int side = 0; status == CIRCE_OK && side < 2; side++) {
        int64_t best = 0;
        for (int64_t r = 1; r < o->n_ridge; r++)
            if (errors[2 * r + side] < errors[2 * best + side]) best = r;
        l->ridge[side] = o->ridge[best] * o->undersmoothing;
        double multiple = info[side]->sigma2_multiple, alone = errors[2 * o->n_ridge + side];
        *info[side] = (circe_test_regression){.used = 1,
                                              .basis = "kernel",
                                              .sigma2_multiple = multiple,
                                              .ridge_chosen = o->ridge[best],
                                              .ridge = l->ridge[side],
                                              .loo_error = alone > 0.0 ? errors[2 * best + side] / alone : 1.0,
                                              .degrees = 1.0,
                                              .rows = l->data->n,
                                              .rank = l->fy,
                                              .check_p = NAN};
        for (int64_t k = 0; k < l->fy; k++) info[side]->degrees += l->s[k] / (l->s[k] + l->ridge[side]);
    }
    circe__free(l->data->context, errors);
    return status;
}

/* ---- second pass ------------------------------------------------------------------------------------------------- */

static circe_status make_maps(const layout *l, maps *m) {
    int64_t fx = l->fx, fz = l->fz, wide = m->wide = 2 * fx + fz;
    m->coefficients = circe__alloc(l->data->context, l->fy * wide + 1, sizeof *m->coefficients);
    m->inverse = circe__alloc(l->data->context, l->fy + 1, sizeof *m->inverse);
    if (m->coefficients == NULL || m->inverse == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < l->fy; k++) {
        double dx = 1.0 / (l->s[k] + l->ridge[0]), dz = 1.0 / (l->s[k] + l->ridge[1]);
        const double *P = l->P + k * (fx + fz);
        double *row = m->coefficients + k * wide;
        m->inverse[k] = dz;
        for (int64_t c = 0; c < fx; c++) {
            row[c] = dx * P[c] + dz * (P[c] - l->s[k] * dx * P[c]);
            row[fx + c] = dx * P[c];
        }
        for (int64_t c = 0; c < fz; c++) row[2 * fx + c] = dz * P[fx + c];
    }
    return CIRCE_OK;
}

/* sums: left' z (fx, fz), then the Gram matrix of left (x) noise (fx fz, fx fz), then square norms of x, z and their
 * residuals, and what v = |left|^2 |noise|^2 sums to over the rows, and v^2 (checks.c). */
static void visit_products(const layout *l, void *user, int64_t first, int64_t rows, double *block, double *scratch,
                           double *sums) {
    const maps *m = user;
    const circe__algebra *algebra = l->data->context->backend->algebra;
    int64_t fy = l->fy, fx = l->fx, fz = l->fz, size = fx * fz, all = l->all;
    double *fitted = scratch + rows * fy, *C = fitted + rows * m->wide, *norms = sums + size + size * size;
    centered_block(l, first, rows, block, scratch);
    memset(fitted, 0, (size_t)(rows * m->wide) * sizeof *fitted);
    if (fy > 0) algebra->gemm(0, 0, rows, m->wide, fy, 1.0, block, all, m->coefficients, m->wide, 0.0, fitted, m->wide);
    for (int64_t i = 0; i < rows; i++) {
        const double *q = block + i * all, *x = q + fy, *z = x + fx, *f = fitted + i * m->wide, *f_z = f + 2 * fx;
        double *restrict product = C + i * size, *restrict cross = sums;
        double u = l->data->unit[first + i], h = u * u, square[4] = {0.0}, size_x = 0.0;
#pragma omp simd reduction(+ : h)
        for (int64_t k = 0; k < fy; k++) h += q[k] * q[k] * m->inverse[k];
        double rest = fmax(1.0 - h, 0.01);
        for (int64_t a = 0; a < fx; a++) {
            double left = x[a] - f[a], residual = x[a] - f[fx + a], scaled = left / rest;
            size_x += left * left;
            square[0] += x[a] * x[a];
            square[2] += residual * residual;
            for (int64_t b = 0; b < fz; b++) {
                cross[a * fz + b] += left * z[b];
                product[a * fz + b] = scaled * (z[b] - f_z[b]);
            }
        }
        for (int64_t b = 0; b < fz; b++) {
            square[1] += z[b] * z[b];
            square[3] += (z[b] - f_z[b]) * (z[b] - f_z[b]);
        }
        double v = size_x * square[3] / (rest * rest);
        for (int k = 0; k < 4; k++) norms[k] += square[k];
        norms[4] += v;
        norms[5] += v * v;
    }
    algebra->gram_update(size, rows, C, size, 1.0, sums + size, size);
}

/* From the sums of the second pass. */
static circe_status conclude(const layout *l, double *sums, circe_test_result *result) {
    const circe_context *context = l->data->context;
    int64_t size = l->fx * l->fz;
    double *gram = sums + size, *norms = gram + size * size, n = (double)l->data->n, mean = 0.0, square = 0.0;
    double value = circe__square_norm(sums, size);
    result->x.remaining = norms[0] > 0.0 ? norms[2] / norms[0] : 0.0;
    result->z.remaining = norms[1] > 0.0 ? norms[3] / norms[1] : 0.0;
    if (!l->data->options.skip_checks) circe__note_rows(l->data, circe__carried_by(norms[4], norms[5]), false, result);
    double *w = circe__alloc(context, 2 * size * size + 8 * size + 8, sizeof *w);
    int *iwork = circe__alloc(context, 5 * size + 3, sizeof *iwork);
    circe_status status = w == NULL || iwork == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && context->backend->algebra->eigen(size, gram, w, w + size, iwork) != 0)
        status = circe_fail(CIRCE_ERR_NUMERIC, "the eigendecomposition of the null did not converge");
    for (int64_t k = 0; status == CIRCE_OK && k < (size + 1) / 2; k++) { /* descending */
        double low = fmax(w[k], 0.0), high = fmax(w[size - 1 - k], 0.0);
        w[k] = high;
        w[size - 1 - k] = low;
    }
    for (int64_t k = 0; status == CIRCE_OK && k < size; k++) {
        mean += w[k];
        square += 2.0 * w[k] * w[k];
    }
    if (status == CIRCE_OK) {
        bool gamma = l->data->options.null == CIRCE_NULL_GAMMA;
        result->null = gamma ? CIRCE_NULL_GAMMA : CIRCE_NULL_SPECTRAL;
        result->statistic = value / n;
        result->null_mean = mean / n;
        result->null_sd = sqrt(square) / n;
        result->p_value =
            circe__clip_p(gamma ? circe__moment_tail(mean, square, value) : circe__weighted_tail(w, size, value));
    }
    circe__free(context, w);
    circe__free(context, iwork);
    return status;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* The width of y, for x and z together, by leave-one-out with kernels on some rows. */
static circe_status choose_width(const circe__data *data, double *multiple) {
    int64_t n = circe__min(data->n, WIDTH_ROWS), *index = circe__alloc(data->context, n, sizeof *index);
    circe__data part = {0};
    circe__table z = {0};
    circe__regressions made = {0};
    double left;
    *multiple = 1.0;
    circe_status status = index == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK && data->y.dim > 0 && !data->z.constant) {
        circe__random_subset(data->context->threads, (circe_random){data->options.seed, CIRCE__STREAM_ROWS}, data->n, n,
                             index);
        status = circe__data_subset(data, index, n, &part);
        part.by_value = false; /* the regression must choose a width */
        circe__faces_free(data->context, part.faces);
        part.faces = NULL; /* and use y's own kernel */
        if (status == CIRCE_OK)
            status = circe__features_of(&part, part.z.kernel, part.z.points, n, part.z.dim, 1e-2, 32, "z", &z, &left);
        if (status == CIRCE_OK) circe__weigh(&part, &z);
        const circe__table *targets[2] = {NULL, &z};
        if (status == CIRCE_OK) status = circe__regress(&part, targets, &made);
        if (status == CIRCE_OK) *multiple = made.side[1].info.sigma2_multiple;
    }
    circe__free(data->context, index);
    circe__table_free(data->context, &z);
    circe__regressions_free(data->context, &made);
    circe__data_free(&part);
    return status;
}

/* One column of y needs about a hundred; more columns need more. */
static int64_t features_of_y(const circe__data *data) {
    if (data->options.features_y > 0) return data->options.features_y;
    return circe__max(circe__min(circe__min(100 * data->y.dim, 500), data->n / 2), 1);
}

/* ---- the residuals of some rows against y ------------------------------------------------------------------------ */

enum { CHECKED_ROWS = 8192 };

/* What its parts share. */
typedef struct residual_rows {
    const layout *l;
    const maps *m;
    double *block, *scratch, *fitted; /* (n, all), (n, fy), (n, fx + fz) */
    circe__table *residual;
} residual_rows;

static void make_residuals(void *user, int64_t first, int64_t end) {
    const residual_rows *r = user;
    const layout *l = r->l;
    int64_t rows = end - first, wide = l->fx + l->fz;
    double *block = r->block + first * l->all, *fitted = r->fitted + first * wide;
    centered_block(l, first, rows, block, r->scratch + first * l->fy);
    memset(fitted, 0, (size_t)(rows * wide) * sizeof *fitted);
    if (l->fy > 0) /* C_x and C_z stand side by side */
        l->data->context->backend->algebra->gemm(0, 0, rows, wide, l->fy, 1.0, block, l->all,
                                                 r->m->coefficients + l->fx, r->m->wide, 0.0, fitted, wide);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < wide; c++) {
            circe__table *to = &r->residual[c >= l->fx];
            to->data[(first + i) * to->cols + (c < l->fx ? c : c - l->fx)] =
                block[i * l->all + l->fy + c] - fitted[i * wide + c];
        }
}

/* residual[side] (rows of the part, .) under the fit of all rows. */
static circe_status residuals_of(const layout *l, const maps *m, const circe__data *part, circe__table residual[2]) {
    enum { LEAST = 16 }; /* rows of some hundred features: cosines, 5 microseconds */
    layout some = *l;
    int64_t n = part->n;
    some.data = part;
    double *block = circe__alloc(part->context, n * (l->all + l->fy + l->fx + l->fz) + 1, sizeof *block);
    circe_status status = block == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) status = circe__table_new(part->context, n, l->fx, &residual[0]);
    if (status == CIRCE_OK) status = circe__table_new(part->context, n, l->fz, &residual[1]);
    if (status == CIRCE_OK) {
        residual_rows r = {&some, m, block, block + n * l->all, block + n * (l->all + l->fy), residual};
        circe__run_ranges(part->context->threads, n, LEAST, make_residuals, &r);
    }
    circe__free(part->context, block);
    return status;
}

/* Treats the residuals of a part as if nothing had been regressed: with that many rows, the fit takes little from
 * them. */
static circe_status check_some(const layout *l, const maps *m, circe_test_result *result) {
    const circe__data *data = l->data;
    int64_t n = circe__min(data->n, CHECKED_ROWS), *index = circe__alloc(data->context, n, sizeof *index);
    circe__data part = {0};
    circe__table residual[2] = {{0}};
    circe__spectrum none[2];
    circe__regressor mean[2] = {{0}};
    circe__views views = {.index = NULL};
    circe_test_regression *info[2] = {&result->x, &result->z};
    circe_status status = index == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    if (status == CIRCE_OK) {
        circe__random_subset(data->context->threads, (circe_random){data->options.seed, CIRCE__STREAM_HALVES}, data->n,
                             n, index);
        status = circe__data_subset(data, index, n, &part);
    }
    if (status == CIRCE_OK) status = residuals_of(l, m, &part, residual);
    for (int side = 0; status == CIRCE_OK && side < 2; side++) {
        none[side] = (circe__spectrum){.n = n, .sight = {CIRCE__KERNEL, side, info[side]->sigma2_multiple, 0, 0.0}};
        circe__table *r = &residual[side];
        circe__weigh(&part, r);
        status = circe__regressor_set(&part, &none[side], 1.0, &mean[side]);
        if (status == CIRCE_OK) status = circe__check_residual(&part, &mean[side], r, r, &views);
        if (status == CIRCE_OK) info[side]->check_p = mean[side].info.check_p;
    }
    const circe__table *noises[2] = {&residual[0], &residual[1]};
    if (status == CIRCE_OK) status = circe__check_missed(&part, mean, noises, NULL, result);
    circe__free(data->context, mean[0].leverage);
    circe__free(data->context, mean[1].leverage);
    circe__free(data->context, index);
    circe__views_free(data->context, &views);
    circe__table_free(data->context, &residual[0]);
    circe__table_free(data->context, &residual[1]);
    circe__data_free(&part);
    return status;
}

circe_status circe__rcot_rows(const circe__data *data, circe_test_result *result) {
    const circe_context *context = data->context;
    const circe_test_options *o = &data->options;
    layout l = {.data = data};
    maps m = {0};
    double *sums = NULL, multiple = 1.0;
    circe_status status = choose_width(data, &multiple);
    if (status == CIRCE_OK)
        status = circe__fourier_draw(data, &data->y, multiple, features_of_y(data), CIRCE__STREAM_FOURIER, "y", &l.y);
    if (status == CIRCE_OK)
        status = circe__fourier_draw(data, &data->x, 1.0, o->features_x, CIRCE__STREAM_FOURIER + 100, "x", &l.x);
    if (status == CIRCE_OK)
        status = circe__fourier_draw(data, &data->z, 1.0, o->features_z, CIRCE__STREAM_FOURIER + 200, "z", &l.z);
    if (status != CIRCE_OK) goto done;
    l.fy = l.y.n;
    l.fx = l.x.n;
    l.fz = l.z.n;
    l.all = l.fy + l.fx + l.fz;
    int64_t size = l.fx * l.fz, most = circe__max(l.all * (l.all + 1), size * (size + 1) + CIRCE__RCOT_NORMS);
    sums = circe__alloc(context, most, sizeof *sums);
    if (sums == NULL) {
        status = CIRCE_ERR_MEMORY;
        goto done;
    }
    status = data->device != NULL ? circe__rcot_gram_there(&l, sums)
                                  : pass(&l, visit_gram, NULL, l.all * (l.all + 1), 0, sums);
    if (status == CIRCE_OK) status = solve(&l, sums);
    if (status == CIRCE_OK) status = circe__progress(context, "rcot", 1, 2);
    result->x.sigma2_multiple = result->z.sigma2_multiple = multiple;
    if (status == CIRCE_OK) status = choose_ridges(&l, result);
    if (status == CIRCE_OK) status = make_maps(&l, &m);
    if (status == CIRCE_OK)
        status = data->device != NULL
                     ? circe__rcot_products_there(&l, &m, sums)
                     : pass(&l, visit_products, &m, size * (size + 1) + CIRCE__RCOT_NORMS, m.wide + size, sums);
    if (status == CIRCE_OK) status = conclude(&l, sums, result);
    if (status == CIRCE_OK && !o->skip_checks && data->y.dim > 0) status = check_some(&l, &m, result);
    if (status == CIRCE_OK) status = circe__rcot_within(&l, result);
    result->rank_x = l.fx;
    result->rank_z = l.fz;

done:
    circe__free(context, sums);
    circe__free(context, m.coefficients);
    circe__free(context, m.inverse);
    layout_free(context, &l);
    return status;
}
