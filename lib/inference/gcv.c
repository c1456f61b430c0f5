/* Generalised cross-validation of many ridges for little more than one product.
 *
 *     F (n, r)    features, centred and weighted
 *     F'F = H T H', T tridiagonal (diagonal d, beside it e);   c = H'F't,   u = (T + ridge)^-1 c
 *     |residual|^2 = |t|^2 - u'c - ridge |u|^2,   degrees = r - ridge tr (T + ridge)^-1
 *     gcv = |residual|^2 / n / (1 - degrees / n)^2
 *
 * F'F and T do not depend on the target, so that tests of one y share them. Householder's reflections take r^3
 * multiplications, a fifth of what eigenvectors take; after them a ridge takes O(r q). The diagonal of an inverse of a
 * tridiagonal matrix follows from its pivots from both ends. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum { COLUMNS = 48 };

typedef struct reduced {
    int64_t r, q;         /* q: columns of both targets */
    const double *d, *e;  /* (r), (r) */
    double *C;            /* (r, q) */
    double *scratch;      /* (q) */
    double *u;            /* (r, q) */
    double *front, *back; /* (r): pivots of T + ridge from either end */
    circe__gcv *tried[2]; /* (ridges) of each target */
} reduced;

/* The pivots of T + ridge; false if one is not positive. *degrees: r - ridge tr (T + ridge)^-1. */
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
        double *restrict row = m->u + i * q, l = m->e[i - 1] / m->front[i - 1];
        const double *restrict before = row - q;
        for (int64_t c = 0; c < q; c++) row[c] -= l * before[c];
    }
    for (int64_t i = r - 1; i >= 0; i--) {
        double *restrict row = m->u + i * q, inverse = 1.0 / m->front[i];
        const double *restrict next = row + q;
        if (i + 1 < r)
            for (int64_t c = 0; c < q; c++) row[c] -= m->e[i] * next[c];
        for (int64_t c = 0; c < q; c++) row[c] *= inverse;
    }
}

/* What a ridge takes from the sum of squares of columns [first, first + columns). */
static double explained(const reduced *m, double ridge, int64_t first, int64_t columns) {
    double sum = 0.0;
    for (int64_t i = 0; i < m->r; i++) {
        const double *u = m->u + i * m->q + first, *c = m->C + i * m->q + first;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < columns; k++) sum += u[k] * (c[k] + ridge * u[k]);
    }
    return sum;
}

static void reduced_free(const circe_context *context, reduced *m) {
    circe__free(context, m->C);
    circe__free(context, m->tried[0]);
}

static circe_status reduced_make(const circe_context *context, int64_t r, int64_t q, int64_t ridges, reduced *m) {
    *m = (reduced){.r = r, .q = q};
    m->C = circe__alloc(context, 2 * (r + 1) * (q + 1) + 2 * r + q, sizeof *m->C);
    m->tried[0] = circe__alloc(context, 2 * ridges, sizeof *m->tried[0]);
    if (m->C == NULL || m->tried[0] == NULL) {
        reduced_free(context, m);
        return CIRCE_ERR_MEMORY;
    }
    m->tried[1] = m->tried[0] + ridges;
    m->u = m->C + r * q;
    m->front = m->u + (r + 1) * (q + 1);
    m->back = m->front + r;
    m->scratch = m->back + r;
    return CIRCE_OK;
}

/* The least error of n ridges, with the largest that comes close to it. */
static circe__gcv choose(const circe__gcv *tried, int64_t n, double alone, double near) {
    circe__gcv best = {HUGE_VAL, alone, 1.0, 0.0};
    for (int64_t l = 0; l < n; l++)
        if (tried[l].error < best.error) best = tried[l];
    const double least = best.error;
    for (int64_t l = 0; l < n; l++)
        if (tried[l].ridge > best.ridge && tried[l].error <= (1.0 + near) * least && least < HUGE_VAL) best = tried[l];
    best.error = least;
    return best;
}

/* The same, but leaves out blocks of rows that depend on each other. */
static circe_status of_blocks(const circe__data *data, const circe__table *F, const circe__table *const targets[2],
                              const double extra[2], circe__gcv found[2]) {
    circe__table copy = {0};
    circe_status status = circe__table_copy(data->context, F, &copy);
    return status == CIRCE_OK ? circe__block_gcv(data, &copy, targets, extra, found) : status;
}

circe_status circe__gcv_reduce(const circe__data *data, const circe__table *F, double *made) {
    int64_t r = F->cols;
    double *scratch = circe__alloc(data->context, 4 * r, sizeof *scratch);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    if (r > 0) data->context->backend->algebra->gram_update(r, F->rows, F->data, r, 0.0, made, r);
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = i + 1; j < r; j++) made[i * r + j] = made[j * r + i];
    circe__loops_for(data->context->backend, CIRCE_FLOAT64)->reduce(r, made, made + r * r, made + r * r + r, scratch);
    circe__free(data->context, scratch);
    return CIRCE_OK;
}

circe_status circe__gcv_of(const circe__data *data, const circe__table *F, const circe__table *const targets[2],
                           const double extra[2], double near, circe__gcv found[2]) {
    int64_t r = F->cols;
    if (circe__in_blocks(data, F->rows)) return of_blocks(data, F, targets, extra, found);
    double *made = circe__alloc(data->context, (r + 2) * r, sizeof *made);
    circe_status status = made == NULL ? CIRCE_ERR_MEMORY : circe__gcv_reduce(data, F, made);
    if (status == CIRCE_OK) status = circe__gcv_reduced(data, F, made, targets, extra, near, found);
    circe__free(data->context, made);
    return status;
}

circe_status circe__gcv_reduced(const circe__data *data, const circe__table *F, const double *reduced_of,
                                const circe__table *const targets[2], const double extra[2], double near,
                                circe__gcv found[2]) {
    const circe__algebra *algebra = data->context->backend->algebra;
    const circe_test_options *o = &data->options;
    int64_t rows = F->rows, r = F->cols, columns[2] = {0, 0};
    double n = (double)rows, total[2] = {0.0, 0.0};
    reduced m;
    for (int t = 0; t < 2; t++) {
        if (targets[t] == NULL) continue;
        columns[t] = circe__min(targets[t]->cols, COLUMNS);
        for (int64_t i = 0; i < rows; i++)
            total[t] += circe__square_norm(targets[t]->data + i * targets[t]->cols, columns[t]);
    }
    circe_status status = reduced_make(data->context, r, columns[0] + columns[1], o->n_ridge, &m);
    if (status != CIRCE_OK) return status;
    m.d = reduced_of + r * r;
    m.e = m.d + r;
    for (int t = 0; t < 2; t++)
        if (r > 0 && columns[t] > 0)
            algebra->gemm(1, 0, r, columns[t], rows, 1.0, F->data, r, targets[t]->data, targets[t]->cols, 0.0,
                          m.C + (t == 0 ? 0 : columns[0]), m.q);
    circe__loops_for(data->context->backend, CIRCE_FLOAT64)->reflect(r, m.q, reduced_of, m.C, m.scratch);
    for (int64_t l = 0; l < o->n_ridge; l++) {
        double degrees = 0.0;
        bool solved = factor(&m, o->ridge[l], &degrees);
        if (solved) solve(&m);
        for (int t = 0; t < 2; t++) {
            double used = 1.0 + degrees + extra[t], free = 1.0 - used / n;
            m.tried[t][l] = (circe__gcv){HUGE_VAL, total[t] / n, o->ridge[l], used};
            if (!solved || targets[t] == NULL || free <= 0.1) continue;
            double left = fmax(total[t] - explained(&m, o->ridge[l], t == 0 ? 0 : columns[0], columns[t]), 0.0);
            m.tried[t][l].error = left / n / (free * free);
        }
    }
    for (int t = 0; t < 2; t++) found[t] = choose(m.tried[t], o->n_ridge, total[t] / n, near);
    reduced_free(data->context, &m);
    return CIRCE_OK;
}
