/* The conditional mean by low-rank features: O(M r^2) time, O(r^2) memory beside the data.
 *
 *     F_y (M, r_y), F_z (M, r_z)    features of the holdout by pivoted Cholesky, made in blocks of rows, never stored
 *     S = F_y'F_y = V' diag(s) V    the non-zero spectrum of K_YY ~ F_y F_y'; v_k are the rows of V
 *     G = V F_y'F_z                 (r_y, r_z)
 *     C = V' diag(1/(s+ridge)) G    mu(y) = C' f_y(y), exact for the low-rank kernel by Woodbury's identity
 *
 * Leave-one-out (the paper's theorem) for every ridge at once: with q_i = V f_y(y_i),
 *
 *     A_ii = sum_k q_ik^2 / (s_k + ridge),    residual_i = f_z(z_i) - G' diag(1/(s+ridge)) q_i,
 *     error = mean_i |residual_i|^2 / (1 - A_ii)^2 + left-out part of z_i.
 *
 * What the features leave out of z_i is not divided: of psi(z_i) - sum_j A_ij psi(z_j) it has the share 1 - A_ii, and
 * no other row predicts it. Where a row has no neighbours, 1 - A_ii is ridge / (k(y, y) + ridge), as small as can be.
 *
 * With weights w_i (of mean 1), rows of both features are multiplied by their roots, so that S and G are weighted sums,
 * A_ii has a factor w_i, and error is the weighted mean: leaving a row out leaves out all of its weight.
 *
 * Two passes over the rows: one for S and G, one for the errors. With several ranks, each passes over its own blocks,
 * and the sums are added up. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "cme/cme_parts.h"

enum {
    BLOCK = CIRCE__BLOCK_ROWS,
    LEAST_ROWS = 128, /* of a block, where there are more threads than blocks */
    ROUND = 8,        /* blocks of each thread between two looks at whether to go on */
    ROOM = 512 << 20, /* bytes of sums beyond which each thread has but one */
};

/* ---- passes over the rows ---------------------------------------------------------------------------------------- */

/* One part's scratch. */
typedef struct worker {
    double *features_y, *features_z; /* (BLOCK, r_y), (BLOCK, r_z) */
    double *diagonal, *residual;     /* (BLOCK) */
    double *Q, *means;               /* second pass: (BLOCK, r_y), (BLOCK, n_ridge r_z) */
    void *scratch;
} worker;

/* Sums over some of the blocks, in whichever of the two passes. */
typedef struct sums {
    _Alignas(64) _Atomic int64_t turn; /* how many blocks are in it */
    double *S, *cross;                 /* first pass: (r_y, r_y) and (r_y, r_z) */
    double trace, left;                /* first pass: of k(y, y) and of its residual */
    double *error;                     /* second pass: (n_ridge) */
} sums;

/* A pass: each of `takers` parts takes the next block of rows until none is left, so that a slow thread takes fewer.
 * Block k is added to sum k mod n_sums in the order of the blocks, so a given number of threads gives the same bits
 * every time, whichever thread made which block. There are more sums than parts, so threads rarely wait. The parts meet
 * every few blocks, because only the caller's thread may report progress. */
typedef struct pass {
    circe__holdout *holdout;
    const circe__regression *regression;
    const double *stacked;  /* second pass: (r_y, n_ridge r_z) */
    const double *inverse;  /* second pass: (n_ridge, r_y), 1 / (s + ridge) */
    const double *rotation; /* second pass: (r_y, r_y), (V L^-1)', so that q_i = V f_y(y_i) = V L^-1 k(pivots, y_i) */
    int64_t n_ridge;
    worker *workers; /* (takers) */
    sums *sums;      /* (n_sums) */
    int64_t takers, n_sums;
    int64_t block, blocks; /* rows of a block, and how many there are */
    int64_t first, step;   /* this process's blocks: every step-th from the first */
    int64_t done;          /* of them, before this round */
    _Atomic int64_t next;  /* to be taken */
    void (*visit)(const struct pass *p, const worker *w, sums *to, int64_t first, int64_t n);
} pass;

static void pass_free(pass *p) {
    const circe_context *context = p->holdout->context;
    for (int64_t t = 0; p->workers != NULL && t < p->takers; t++) {
        worker *w = &p->workers[t];
        void *blocks[] = {w->features_y, w->features_z, w->diagonal, w->residual, w->scratch, w->Q, w->means};
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) circe__free(context, blocks[i]);
    }
    for (int64_t t = 0; p->sums != NULL && t < p->n_sums; t++) {
        circe__free(context, p->sums[t].S);
        circe__free(context, p->sums[t].cross);
        circe__free(context, p->sums[t].error);
    }
    circe__free(context, p->workers);
    circe__free(context, p->sums);
}

/* Blocks have fewer rows if some threads would otherwise get none. All ranks must choose the same size. */
static int64_t block_rows(const circe__holdout *holdout) {
    int64_t each = (holdout->rows / holdout->context->threads + 63) / 64 * 64;
    if (circe__ranks_of(holdout->by) != NULL) return circe__min(BLOCK, holdout->rows);
    return circe__min(circe__min(BLOCK, circe__max(each, LEAST_ROWS)), holdout->rows);
}

/* Two for each thread, one where they are large. */
static int64_t count_sums(const circe_context *context, int64_t ry) {
    int64_t threads = context->threads;
    return 16.0 * (double)(threads * ry) * (double)ry > ROOM ? threads : 2 * threads;
}

static bool init_worker(const pass *p, worker *w) {
    const circe_context *context = p->holdout->context;
    const circe__basis *yb = &p->regression->y_basis, *zb = p->holdout->z_basis;
    int64_t ry = yb->rank, rz = zb->rank, block = p->block;
    size_t bytes_y = circe__basis_part_bytes(yb), bytes_z = circe__basis_part_bytes(zb);
    w->features_y = circe__alloc(context, block * ry, sizeof(double));
    w->features_z = circe__alloc(context, block * rz, sizeof(double));
    w->diagonal = circe__alloc(context, block, sizeof(double));
    w->residual = circe__alloc(context, block, sizeof(double));
    w->scratch = circe__alloc(context, (int64_t)(bytes_y > bytes_z ? bytes_y : bytes_z), 1);
    bool complete = w->features_y != NULL && w->features_z != NULL && w->diagonal != NULL && w->residual != NULL &&
                    w->scratch != NULL;
    if (p->n_ridge == 0 || !complete) return complete;
    w->Q = circe__alloc(context, block * ry, sizeof(double));
    w->means = circe__alloc(context, block * rz * p->n_ridge, sizeof(double));
    return w->Q != NULL && w->means != NULL;
}

static bool init_sums(const pass *p, sums *s) {
    const circe_context *context = p->holdout->context;
    int64_t ry = p->regression->y_basis.rank, rz = p->holdout->z_basis->rank;
    if (p->n_ridge > 0) {
        s->error = circe__calloc(context, p->n_ridge, sizeof(double));
        return s->error != NULL;
    }
    s->S = circe__calloc(context, ry * ry, sizeof(double));
    s->cross = circe__calloc(context, ry * rz, sizeof(double));
    return s->S != NULL && s->cross != NULL;
}

/* n_ridge = 0: the first pass. */
static circe_status pass_init(pass *p, circe__holdout *holdout, const circe__regression *regression, int64_t n_ridge) {
    const circe_context *context = holdout->context;
    *p = (pass){.holdout = holdout, .regression = regression, .n_ridge = n_ridge};
    p->block = block_rows(holdout);
    p->blocks = (holdout->rows + p->block - 1) / p->block;
    p->first = circe__rank_of(holdout->by, &p->step);
    p->takers = circe__min(context->threads, p->blocks);
    p->n_sums = circe__min(count_sums(context, n_ridge == 0 ? regression->y_basis.rank : 1), p->blocks);
    p->workers = circe__calloc(context, p->takers, sizeof *p->workers);
    p->sums = circe__calloc(context, p->n_sums, sizeof *p->sums);
    bool complete = p->workers != NULL && p->sums != NULL;
    for (int64_t t = 0; complete && t < p->takers; t++) complete = init_worker(p, &p->workers[t]);
    for (int64_t t = 0; complete && t < p->n_sums; t++) complete = init_sums(p, &p->sums[t]);
    return complete ? CIRCE_OK : CIRCE_ERR_MEMORY;
}

/* The previous block of the same sum was taken earlier, so some thread is already working on it. */
static void run_blocks(void *user, int64_t part) {
    pass *p = user;
    int64_t end = p->done + ROUND * p->takers;
    for (int64_t k = atomic_fetch_add(&p->next, 1); k < end; k = atomic_fetch_add(&p->next, 1)) {
        int64_t row = (p->first + k * p->step) * p->block;
        sums *to = &p->sums[k % p->n_sums];
        if (row >= p->holdout->rows) return;
        while (atomic_load(&to->turn) != k / p->n_sums) sched_yield();
        p->visit(p, &p->workers[part], to, row, circe__min(p->block, p->holdout->rows - row));
        atomic_fetch_add(&to->turn, 1);
    }
}

static circe_status pass_run(pass *p) {
    circe__holdout *holdout = p->holdout;
    int64_t steps = (holdout->rows + BLOCK - 1) / BLOCK;
    circe_status status = CIRCE_OK;
    for (p->done = 0; status == CIRCE_OK && p->first + p->done * p->step < p->blocks; p->done += ROUND * p->takers) {
        atomic_store(&p->next, p->done);
        circe_context_run(holdout->context, p->takers, run_blocks, p);
        int64_t reached = circe__min((p->done + ROUND * p->takers) * p->step, p->blocks);
        status = circe__progress(holdout->context, "fitting",
                                 circe__min(holdout->steps_done + steps * reached / p->blocks, holdout->steps_total),
                                 holdout->steps_total);
    }
    holdout->steps_done += steps;
    return status;
}

/* ---- first pass: S, F_y'F_z and the share of the trace that is left out ------------------------------------------ */

static void visit_sums(const pass *p, const worker *w, sums *to, int64_t first, int64_t n) {
    const circe__holdout *holdout = p->holdout;
    const circe__algebra *algebra = holdout->context->backend->algebra;
    const circe__basis *yb = &p->regression->y_basis, *zb = holdout->z_basis;
    int64_t ry = yb->rank, rz = zb->rank;
    circe__basis_part(yb, ry, holdout->y + first * holdout->dim_y, n, w->features_y, ry, w->diagonal, w->residual,
                      w->scratch);
    circe__basis_part(zb, rz, holdout->z + first * holdout->dim_z, n, w->features_z, rz, NULL, NULL, w->scratch);
    for (int64_t k = 0; holdout->root != NULL && k < n; k++) {
        double root = holdout->root[first + k];
        for (int64_t c = 0; c < ry; c++) w->features_y[k * ry + c] *= root;
        for (int64_t c = 0; c < rz; c++) w->features_z[k * rz + c] *= root;
        w->diagonal[k] *= root * root;
        w->residual[k] *= root * root;
    }
    for (int64_t k = 0; k < n; k++) {
        to->trace += w->diagonal[k];
        to->left += w->residual[k];
    }
    algebra->gram_update(ry, n, w->features_y, ry, 1.0, to->S, ry);
    algebra->gemm(1, 0, ry, rz, n, 1.0, w->features_y, ry, w->features_z, rz, 1.0, to->cross, rz);
}

/* What the sums are added to, elements [first, end) of it. */
typedef struct addition {
    const pass *pass;
    bool cross;
    double *total;
} addition;

static void run_addition(void *user, int64_t first, int64_t end) {
    const addition *a = user;
    memset(a->total + first, 0, (size_t)(end - first) * sizeof *a->total);
    for (int64_t t = 0; t < a->pass->n_sums; t++) {
        const double *of = a->cross ? a->pass->sums[t].cross : a->pass->sums[t].S;
        for (int64_t e = first; e < end; e++) a->total[e] += of[e];
    }
}

static void add_sums(const pass *p, bool cross, int64_t size, double *total) {
    addition a = {p, cross, total};
    circe__run_ranges(p->holdout->context->threads, size, 8192 / p->n_sums + 1, run_addition, &a);
}

/* S into regression->vectors, F_y'F_z into cross. */
static circe_status accumulate(circe__holdout *holdout, circe__regression *regression, double *cross) {
    if (holdout->by != NULL && holdout->by->ops->sums != NULL)
        return holdout->by->ops->sums(holdout, regression, cross);
    int64_t ry = regression->y_basis.rank, rz = holdout->z_basis->rank;
    double totals[2] = {0.0, 0.0}; /* trace, what is left of it */
    pass p;
    circe_status status = pass_init(&p, holdout, regression, 0);
    p.visit = visit_sums;
    if (status == CIRCE_OK) status = pass_run(&p);
    status = circe__agree(holdout->by, status);
    for (int64_t t = 0; status == CIRCE_OK && t < p.n_sums; t++) {
        totals[0] += p.sums[t].trace;
        totals[1] += p.sums[t].left;
    }
    if (status == CIRCE_OK) {
        add_sums(&p, false, ry * ry, regression->vectors);
        add_sums(&p, true, ry * rz, cross);
        circe__sum(holdout->by, regression->vectors, ry * ry);
        circe__sum(holdout->by, cross, ry * rz);
        circe__sum(holdout->by, totals, 2);
    }
    regression->trace_residual = totals[0] > 0.0 ? totals[1] / totals[0] : 0.0;
    pass_free(&p);
    return status;
}

/* Spectrum and products of r_y by r_y, and what each thread holds. */
static double fit_bytes(const circe__holdout *holdout, int64_t rank_y) {
    double ry = (double)rank_y, rz = (double)holdout->z_basis->rank, ridges = (double)holdout->options->n_ridge;
    double thread = BLOCK * (2.0 * ry + rz * (1.0 + ridges)), n_sums = (double)count_sums(holdout->context, rank_y);
    return 8.0 * ((5.0 + n_sums) * ry * ry + (double)holdout->context->threads * thread);
}

circe_status circe__lowrank_prepare(circe__holdout *holdout, const circe_kernel *kernel_y, int64_t max_rank,
                                    circe__regression *regression) {
    circe_context *context = holdout->context;
    double *cross = NULL;
    int64_t rz = holdout->z_basis->rank, ry = 0;
    *regression = (circe__regression){.solver = CIRCE_METHOD_LOWRANK, .by = holdout->by};
    circe_status status = circe__basis_init(context, kernel_y, holdout->dim_y, "y", &regression->y_basis);
    regression->y_basis.by = holdout->by;
    if (status == CIRCE_OK)
        status = circe__basis_cover(&regression->y_basis, holdout->y, holdout->rows, holdout->options->tolerance,
                                    max_rank, holdout->options->seed, "y");
    if (status != CIRCE_OK) goto done;
    ry = regression->n = regression->y_basis.rank;
    status = circe__memory_check(context, fit_bytes(holdout, ry), "a low-rank fit of this rank",
                                 "use a larger tolerance or sigma2, or fewer threads");
    status = circe__agree(holdout->by, status);
    if (status != CIRCE_OK) goto done;
    regression->s = circe__alloc(context, ry, sizeof(double));
    regression->vectors = circe__alloc(context, ry * ry, sizeof(double));
    regression->G = circe__alloc(context, ry * rz, sizeof(double));
    cross = circe__alloc(context, ry * rz, sizeof(double));
    bool there = regression->s != NULL && regression->vectors != NULL && regression->G != NULL && cross != NULL;
    status = circe__agree(holdout->by, there ? CIRCE_OK : CIRCE_ERR_MEMORY);
    if (status == CIRCE_OK && there) status = accumulate(holdout, regression, cross);
    if (status == CIRCE_OK) status = circe__regression_decompose(context, regression);
    if (status == CIRCE_OK)
        context->backend->algebra->gemm(0, 0, ry, rz, ry, 1.0, regression->vectors, ry, cross, rz, 0.0, regression->G,
                                        rz);

done:
    circe__free(context, cross);
    if (status != CIRCE_OK) circe__regression_free(context, regression);
    return status;
}

/* ---- second pass: leave-one-out ---------------------------------------------------------------------------------- */

/* (r_y, n_ridge * r_z): diag(1/(s+ridge)) G for every ridge, side by side, so that one product serves them all. */
static double *stack_scaled(const circe_context *context, const circe__regression *regression, int64_t rz,
                            const double *inverse, int64_t n_ridge) {
    int64_t ry = regression->n;
    double *stacked = circe__alloc(context, ry * rz * n_ridge, sizeof *stacked);
    for (int64_t k = 0; stacked != NULL && k < ry; k++)
        for (int64_t l = 0; l < n_ridge; l++)
            for (int64_t c = 0; c < rz; c++)
                stacked[(k * n_ridge + l) * rz + c] = regression->G[k * rz + c] * inverse[l * ry + k];
    return stacked;
}

static double *inverse_spectra(const circe_context *context, const circe__regression *regression, const double *ridge,
                               int64_t n_ridge) {
    double *inverse = circe__alloc(context, regression->n * n_ridge, sizeof *inverse);
    for (int64_t l = 0; inverse != NULL && l < n_ridge; l++)
        for (int64_t k = 0; k < regression->n; k++)
            inverse[l * regression->n + k] = 1.0 / (regression->s[k] + ridge[l]);
    return inverse;
}

static void visit_errors(const pass *p, const worker *w, sums *to, int64_t first, int64_t n) {
    const circe__holdout *holdout = p->holdout;
    const circe__algebra *algebra = holdout->context->backend->algebra;
    const circe__basis *yb = &p->regression->y_basis, *zb = holdout->z_basis;
    int64_t ry = yb->rank, rz = zb->rank, wide = p->n_ridge * rz;
    circe_mat y = circe_mat_f64(holdout->y + first * holdout->dim_y, n, yb->dim);
    circe_mat pivots = circe_mat_f64(yb->points, ry, yb->dim), K = circe__mat(w->features_y, n, ry, CIRCE_FLOAT64);
    if (ry > 0) holdout->context->backend->f64->gram(circe__basis_kernel(yb), &y, &pivots, &K, 1, w->scratch);
    circe__basis_part(zb, rz, holdout->z + first * holdout->dim_z, n, w->features_z, rz, NULL, w->residual, w->scratch);
    algebra->gemm(0, 0, n, ry, ry, 1.0, w->features_y, ry, p->rotation, ry, 0.0, w->Q, ry);
    algebra->gemm(0, 0, n, wide, ry, 1.0, w->Q, ry, p->stacked, wide, 0.0, w->means, wide);
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < p->n_ridge; l++) {
            const double *mean = w->means + i * wide + l * rz, *q = w->Q + i * ry, *inverse = p->inverse + l * ry;
            double leverage = 0.0, square = 0.0;
#pragma omp simd reduction(+ : leverage)
            for (int64_t k = 0; k < ry; k++) leverage += q[k] * q[k] * inverse[k];
#pragma omp simd reduction(+ : square)
            for (int64_t c = 0; c < rz; c++) {
                double difference = w->features_z[i * rz + c] - mean[c];
                square += difference * difference;
            }
            double weight = holdout->root != NULL ? holdout->root[first + i] * holdout->root[first + i] : 1.0;
            leverage *= weight;
            to->error[l] += weight * (square / ((1.0 - leverage) * (1.0 - leverage)) + w->residual[i]);
        }
}

circe_status circe__lowrank_loo(circe__holdout *holdout, const circe__regression *regression, const double *ridge,
                                int64_t n_ridge, double *error) {
    if (holdout->by != NULL && holdout->by->ops->lowrank_loo != NULL)
        return holdout->by->ops->lowrank_loo(holdout, regression, ridge, n_ridge, error);
    const circe_context *context = holdout->context;
    double *inverse = inverse_spectra(context, regression, ridge, n_ridge);
    double *stacked =
        inverse == NULL ? NULL : stack_scaled(context, regression, holdout->z_basis->rank, inverse, n_ridge);
    int64_t ry = regression->n;
    double *rotation = circe__alloc(context, ry * ry, sizeof *rotation);
    pass p;
    circe_status status = pass_init(&p, holdout, regression, n_ridge);
    if (inverse == NULL || stacked == NULL || rotation == NULL) status = CIRCE_ERR_MEMORY;
    p.visit = visit_errors;
    p.inverse = inverse;
    p.stacked = stacked;
    p.rotation = rotation;
    if (status == CIRCE_OK)
        context->backend->algebra->gemm(1, 1, ry, ry, ry, 1.0, regression->y_basis.inverse, ry, regression->vectors, ry,
                                        0.0, rotation, ry);
    if (status == CIRCE_OK) status = pass_run(&p);
    status = circe__agree(holdout->by, status);
    for (int64_t l = 0; status == CIRCE_OK && l < n_ridge; l++) {
        error[l] = 0.0;
        for (int64_t t = 0; t < p.n_sums; t++) error[l] += p.sums[t].error[l] / (double)holdout->rows;
    }
    if (status == CIRCE_OK) circe__sum(holdout->by, error, n_ridge);
    pass_free(&p);
    circe__free(context, inverse);
    circe__free(context, stacked);
    circe__free(context, rotation);
    return status;
}
