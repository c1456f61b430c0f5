/* Regressions judged on blocks that they have not seen.
 *
 *     S = F F',  F = [unit, Q diag(1/(s + ridge))^1/2] (n, r + 1);  residual e = (I - S) t
 *     e of block g, fitted without it = (I - F_g F_g')^-1 e_g = e_g + F_g (I - F_g'F_g)^-1 F_g'e_g
 *
 * whichever system is smaller: m of the block's rows, or r + 1. Rows of a block have noise in common. A row that is
 * predicted from others of its block is predicted by their common noise, so leaving out single rows would see too
 * little of it, and prefer a fit that follows it. O(n min(m, r) r) per ridge. */
#include <math.h>
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

enum { MOST_COLUMNS = 48 };

typedef struct room {
    int64_t rows, width, size, columns; /* of the largest block; r + 1; of the system; of the table */
    double *F, *e, *A, *G;
} room;

static circe_status room_make(const circe__data *data, const circe__spectrum *spectrum, int64_t columns, room *r) {
    const circe__blocks *b = &data->dependence->left_out;
    *r = (room){.width = spectrum->rank + 1, .columns = columns};
    for (int64_t k = 0; k < b->k; k++) r->rows = circe__max(r->rows, b->start[k + 1] - b->start[k]);
    r->size = circe__min(r->rows, r->width);
    r->F = circe__alloc(data->context, r->rows * (r->width + columns) + r->size * r->size + 2 * r->width * columns + 1,
                        sizeof *r->F);
    if (r->F == NULL) return CIRCE_ERR_MEMORY;
    r->e = r->F + r->rows * r->width;
    r->A = r->e + r->rows * columns;
    r->G = r->A + r->size * r->size;
    return CIRCE_OK;
}

/* F_g and e_g of the m rows of a block. */
static void gather(const circe__regressor *regressor, const circe__table *table, const int64_t *rows, int64_t m,
                   const room *r) {
    const circe__spectrum *sp = regressor->spectrum;
    for (int64_t i = 0; i < m; i++) {
        double *f = r->F + i * r->width;
        f[0] = regressor->data->unit[rows[i]];
        for (int64_t k = 0; k < sp->rank; k++)
            f[k + 1] = sp->Q[rows[i] * sp->rank + k] / sqrt(sp->s[k] + regressor->ridge);
        memcpy(r->e + i * r->columns, table->data + rows[i] * table->cols, (size_t)r->columns * sizeof *r->e);
    }
}

/* A (size, size) := (1 + least) I - B, inverted; least keeps the result finite for a block that the others do not
 * determine. */
static int invert(const circe__algebra *algebra, int64_t size, double least, double *A) {
    for (int64_t e = 0; e < size * size; e++) A[e] = -A[e];
    for (int64_t i = 0; i < size; i++) A[i * size + i] += 1.0 + least;
    return algebra->invert_spd(size, A);
}

static int solve_block(const circe__algebra *algebra, const room *r, int64_t m, double least) {
    int64_t c = r->width, q = r->columns;
    if (m <= c) {
        algebra->gemm(0, 1, m, m, c, 1.0, r->F, c, r->F, c, 0.0, r->A, m);
        if (invert(algebra, m, least, r->A) != 0) return 1;
        algebra->gemm(0, 0, m, q, m, 1.0, r->A, m, r->e, q, 0.0, r->G, q);
        memcpy(r->e, r->G, (size_t)(m * q) * sizeof *r->e);
        return 0;
    }
    double *H = r->G + c * q;
    algebra->gram_update(c, m, r->F, c, 0.0, r->A, c);
    if (invert(algebra, c, least, r->A) != 0) return 1;
    algebra->gemm(1, 0, c, q, m, 1.0, r->F, c, r->e, q, 0.0, r->G, q);
    algebra->gemm(0, 0, c, q, c, 1.0, r->A, c, r->G, q, 0.0, H, q);
    algebra->gemm(0, 0, m, q, c, 1.0, r->F, c, H, q, 1.0, r->e, q);
    return 0;
}

static circe_status leave_out(const circe__regressor *regressor, double least, circe__table *residual) {
    const circe__data *data = regressor->data;
    const circe__blocks *b = &data->dependence->left_out;
    int64_t q = residual->cols;
    room r;
    if (q == 0) return CIRCE_OK;
    circe_status status = room_make(data, regressor->spectrum, q, &r);
    for (int64_t k = 0; status == CIRCE_OK && k < b->k; k++) {
        const int64_t *rows = b->rows + b->start[k];
        int64_t m = b->start[k + 1] - b->start[k];
        gather(regressor, residual, rows, m, &r);
        if (solve_block(data->context->backend->algebra, &r, m, least) != 0) {
            status = circe_fail(CIRCE_ERR_NUMERIC, "a regression without block %lld is not determined", (long long)k);
            break;
        }
        for (int64_t i = 0; i < m; i++) memcpy(residual->data + rows[i] * q, r.e + i * q, (size_t)q * sizeof *r.e);
    }
    circe__free(data->context, r.F);
    return status;
}

circe_status circe__leave_out(const circe__regressor *regressor, circe__table *residual) {
    return leave_out(regressor, 1e-3, residual);
}

/* The mean squared residual of the target's first columns, left out in blocks. */
static circe_status error_at(const circe__regressor *regressor, const circe__table *target, circe__table *e,
                             double *error) {
    for (int64_t i = 0; i < target->rows; i++)
        memcpy(e->data + i * e->cols, target->data + i * target->cols, (size_t)e->cols * sizeof(double));
    circe_status status = circe__residual(regressor, e);
    if (status == CIRCE_OK) status = leave_out(regressor, 1e-9, e);
    *error = circe__square_norm(e->data, e->rows * e->cols) / (double)e->rows;
    return status;
}

circe_status circe__block_loo(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                              const double *ridge, int64_t n_ridge, double *errors, double *alone) {
    circe__spectrum none = {.n = spectrum->n, .Q = spectrum->Q, .s = spectrum->s};
    circe__regressor regressor = {.data = data, .spectrum = spectrum};
    CIRCE__OWNED_BY(circe__table_drop) circe__table e = {0};
    circe_status status = circe__table_new(data->context, target->rows, circe__min(target->cols, MOST_COLUMNS), &e);
    for (int64_t l = 0; status == CIRCE_OK && l < n_ridge; l++) {
        regressor.ridge = ridge[l];
        status = error_at(&regressor, target, &e, &errors[l]);
    }
    regressor.spectrum = &none;
    if (status == CIRCE_OK) status = error_at(&regressor, target, &e, alone);
    return status;
}

circe_status circe__block_gcv(const circe__data *data, circe__table *F, const circe__table *const targets[2],
                              const double extra[2], circe__gcv *found) {
    const circe_test_options *o = &data->options;
    circe__spectrum spectrum = {0};
    double n = (double)F->rows, *errors = circe__alloc(data->context, o->n_ridge, sizeof *errors);
    circe_status status = circe__decompose(data, F, NULL, &spectrum);
    if (errors == NULL) status = CIRCE_ERR_MEMORY;
    for (int t = 0; status == CIRCE_OK && t < 2; t++) {
        double alone = 0.0, fitted = 1.0 - fmin(extra[t] / n, 0.9);
        found[t] = (circe__gcv){HUGE_VAL, 0.0, 1.0, 0.0};
        if (targets[t] == NULL) continue;
        status = circe__block_loo(data, &spectrum, targets[t], o->ridge, o->n_ridge, errors, &alone);
        for (int64_t l = 0; status == CIRCE_OK && l < o->n_ridge; l++) {
            double degrees = 1.0 + extra[t], error = errors[l] / (fitted * fitted);
            for (int64_t k = 0; k < spectrum.rank; k++) degrees += spectrum.s[k] / (spectrum.s[k] + o->ridge[l]);
            if (error < found[t].error) found[t] = (circe__gcv){error, alone, o->ridge[l], degrees};
        }
    }
    circe__free(data->context, errors);
    circe__spectrum_free(data->context, &spectrum);
    return status;
}
