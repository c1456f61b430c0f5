/* Generalised cross-validation of many ridges for little more than one product.
 *
 *     F (n, r)        features, centred and weighted;  F'F = H T H', T tridiagonal (diagonal d, beside it e);  c =
 * H'F't u = (T + ridge)^-1 c:   |residual|^2 = |t|^2 - u'c - ridge |u|^2,   degrees = r - ridge tr (T + ridge)^-1 gcv =
 * |residual|^2 / n / (1 - degrees / n)^2
 *
 * Householder's reflections take r^3 multiplications, a fifth of what eigenvectors take; after them a ridge takes O(r
 * q). The diagonal of an inverse of a tridiagonal matrix follows from its pivots from both ends. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum { COLUMNS = 48 };

typedef struct reduced {
    int64_t r, q;         /* q: columns of both targets */
    double *G;            /* (r, r), both triangles */
    double *C;            /* (r, q) */
    double *d, *e;        /* (r), (r) */
    double *v, *w;        /* (r) scratch */
    double *u;            /* (r, q) */
    double *front, *back; /* (r): pivots of T + ridge from either end */
} reduced;

static double dot(const double *restrict a, const double *restrict b, int64_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* v, the reflection of column k, and its 2 / v'v; 0 where there is nothing to reflect. */
static double reflection(reduced *m, int64_t k) {
    const double *row = m->G + k * m->r;
    int64_t rest = m->r - k - 1;
    double *v = m->v, a = row[k + 1], below = dot(row + k + 2, row + k + 2, rest - 1);
    m->d[k] = row[k];
    m->e[k] = a;
    if (!(below > 0.0)) return 0.0;
    double norm = sqrt(a * a + below), alpha = a > 0.0 ? -norm : norm;
    memcpy(v, row + k + 1, (size_t)rest * sizeof *v);
    v[0] = a - alpha;
    m->e[k] = alpha;
    return 1.0 / (norm * norm - a * alpha);
}

/* G := G - v w' - w v' behind column k, C := C - scale v (v'C). */
static void reflect(reduced *m, int64_t k, double scale) {
    int64_t r = m->r, rest = r - k - 1, q = m->q;
    const double *restrict v = m->v;
    double *restrict w = m->w, *corner = m->G + (k + 1) * (r + 1);
    for (int64_t i = 0; i < rest; i++) w[i] = scale * dot(corner + i * r, v, rest);
    double half = 0.5 * scale * dot(v, w, rest);
    for (int64_t i = 0; i < rest; i++) w[i] -= half * v[i];
    for (int64_t i = 0; i < rest; i++) {
        double *restrict row = corner + i * r, vi = v[i], wi = w[i];
#pragma omp simd
        for (int64_t j = 0; j < rest; j++) row[j] -= vi * w[j] + wi * v[j];
    }
    double *sum = m->u;
    memset(sum, 0, (size_t)q * sizeof *sum);
    for (int64_t i = 0; i < rest; i++)
        for (int64_t c = 0; c < q; c++) sum[c] += v[i] * m->C[(k + 1 + i) * q + c];
    for (int64_t i = 0; i < rest; i++)
        for (int64_t c = 0; c < q; c++) m->C[(k + 1 + i) * q + c] -= scale * v[i] * sum[c];
}

static void reduce(reduced *m) {
    int64_t r = m->r;
    for (int64_t k = 0; k + 2 < r; k++) {
        double scale = reflection(m, k);
        if (scale > 0.0) reflect(m, k, scale);
    }
    for (int64_t k = circe__max(r - 2, 0); k < r; k++) {
        m->d[k] = m->G[k * (r + 1)];
        if (k + 1 < r) m->e[k] = m->G[k * (r + 1) + 1];
    }
}

/* The pivots of T + ridge; false where one is not positive. *degrees: r - ridge tr (T + ridge)^-1. */
static bool factor(reduced *m, double ridge, double *degrees) {
    int64_t r = m->r;
    double trace = 0.0;
    for (int64_t i = 0; i < r; i++) {
        int64_t j = r - 1 - i;
        m->front[i] = m->d[i] + ridge - (i > 0 ? m->e[i - 1] * m->e[i - 1] / m->front[i - 1] : 0.0);
        m->back[j] = m->d[j] + ridge - (i > 0 ? m->e[j] * m->e[j] / m->back[j + 1] : 0.0);
        if (!(m->front[i] > 0.0) || !(m->back[j] > 0.0)) return false;
    }
    for (int64_t i = 0; i < r; i++) trace += 1.0 / (m->front[i] + m->back[i] - m->d[i] - ridge);
    *degrees = (double)r - ridge * trace;
    return true;
}

/* u := (T + ridge)^-1 C. */
static void solve(reduced *m) {
    int64_t r = m->r, q = m->q;
    memcpy(m->u, m->C, (size_t)(r * q) * sizeof *m->u);
    for (int64_t i = 1; i < r; i++) {
        double l = m->e[i - 1] / m->front[i - 1];
        for (int64_t c = 0; c < q; c++) m->u[i * q + c] -= l * m->u[(i - 1) * q + c];
    }
    for (int64_t i = r - 1; i >= 0; i--)
        for (int64_t c = 0; c < q; c++) {
            double above = i + 1 < r ? m->e[i] * m->u[(i + 1) * q + c] : 0.0;
            m->u[i * q + c] = (m->u[i * q + c] - above) / m->front[i];
        }
}

/* What a ridge takes from the sum of squares of columns [first, first + columns). */
static double explained(const reduced *m, double ridge, int64_t first, int64_t columns) {
    double sum = 0.0;
    for (int64_t i = 0; i < m->r; i++)
        for (int64_t c = first; c < first + columns; c++) {
            double u = m->u[i * m->q + c];
            sum += u * (m->C[i * m->q + c] + ridge * u);
        }
    return sum;
}

static circe_status reduced_make(const circe_context *context, int64_t r, int64_t q, reduced *m) {
    *m = (reduced){.r = r, .q = q};
    m->G = circe__alloc(context, r * r + 2 * (r + 1) * (q + 1) + 6 * r + 8, sizeof *m->G);
    if (m->G == NULL) return CIRCE_ERR_MEMORY;
    m->C = m->G + r * r;
    m->u = m->C + r * q;
    m->d = m->u + (r + 1) * (q + 1);
    m->e = m->d + r;
    m->v = m->e + r;
    m->w = m->v + r;
    m->front = m->w + r;
    m->back = m->front + r;
    return CIRCE_OK;
}

/* The same by leaving out blocks of rows that depend on each other. */
static circe_status of_blocks(const circe__data *data, const circe__table *F, const circe__table *const targets[2],
                              const double extra[2], circe__gcv found[2]) {
    circe__table copy = {0};
    circe_status status = circe__table_copy(data->context, F, &copy);
    return status == CIRCE_OK ? circe__block_gcv(data, &copy, targets, extra, found) : status;
}

circe_status circe__gcv_of(const circe__data *data, const circe__table *F, const circe__table *const targets[2],
                           const double extra[2], circe__gcv found[2]) {
    const circe__algebra *algebra = data->context->backend->algebra;
    const circe_test_options *o = &data->options;
    int64_t rows = F->rows, r = F->cols, columns[2] = {0, 0};
    double n = (double)rows, total[2] = {0.0, 0.0};
    reduced m;
    if (circe__in_blocks(data, rows)) return of_blocks(data, F, targets, extra, found);
    for (int t = 0; t < 2; t++) {
        found[t] = (circe__gcv){HUGE_VAL, 0.0, 1.0, 0.0};
        if (targets[t] == NULL) continue;
        columns[t] = circe__min(targets[t]->cols, COLUMNS);
        for (int64_t i = 0; i < rows; i++)
            total[t] += circe__square_norm(targets[t]->data + i * targets[t]->cols, columns[t]);
        found[t].alone = total[t] / n;
    }
    circe_status status = reduced_make(data->context, r, columns[0] + columns[1], &m);
    if (status != CIRCE_OK) return status;
    if (r > 0) algebra->gram_update(r, rows, F->data, r, 0.0, m.G, r);
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = i + 1; j < r; j++) m.G[i * r + j] = m.G[j * r + i];
    for (int t = 0; t < 2; t++)
        if (r > 0 && columns[t] > 0)
            algebra->gemm(1, 0, r, columns[t], rows, 1.0, F->data, r, targets[t]->data, targets[t]->cols, 0.0,
                          m.C + (t == 0 ? 0 : columns[0]), m.q);
    reduce(&m);
    for (int64_t l = 0; l < o->n_ridge; l++) {
        double degrees = 0.0;
        if (!factor(&m, o->ridge[l], &degrees)) continue;
        solve(&m);
        for (int t = 0; t < 2; t++) {
            double used = 1.0 + degrees + extra[t], free = 1.0 - used / n;
            if (targets[t] == NULL || free <= 0.1) continue;
            double left = fmax(total[t] - explained(&m, o->ridge[l], t == 0 ? 0 : columns[0], columns[t]), 0.0);
            double error = left / n / (free * free);
            if (error < found[t].error) found[t] = (circe__gcv){error, total[t] / n, o->ridge[l], used};
        }
    }
    circe__free(data->context, m.G);
    return CIRCE_OK;
}
