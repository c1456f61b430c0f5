/* The four estimators as weights G on Q = K_yy o K^c, so that each is <G, K_xx>.
 *
 *     biased     Q / (B(B-1))
 *     debiased   offdiag(Q) / (B(B-1))
 *     centered   HQH / (B(B-1)):          Q_ij - q_i/B - q_j/B + S/B^2            q row sums, S = sum q
 *     ustat      with L = offdiag(Q), l its row sums, T = sum l, off the diagonal only:
 *                [L_ij - (l_i + l_j)/(B-2) + T/((B-1)(B-2))] / (B(B-3))
 *
 * The last one is the unbiased HSIC of golden/README: 2/(B-2) k.l = sum_ij K_ij (l_i + l_j)/(B-2).
 *
 * With weights w, 1 on average over the B rows that have one (q_i = sum_k w_k Q_ik, S = sum w q):
 *
 *     biased     w_i w_j Q_ij / (B(B-1))
 *     debiased   w_i w_j offdiag(Q)_ij / sum_(i != j) w_i w_j
 *     centered   w_i w_j (Q_ij - q_i/B - q_j/B + S/B^2) / (B(B-1))
 *     ustat      the mean over four different rows i, j, k, m of L_ij + L_km - 2 L_ik as the coefficient of K_ij,
 * weighted by w_i w_j w_k w_m: with R = B - w_i - w_j, l_i = sum_k w_k L_ik, h_i = sum_k w_k^2 L_ik, off the diagonal
 *                w_i w_j {L_ij (B R - sum w^2 + 2 w_i w_j) + T - 2 (w_i l_i + w_j l_j) - R (l_i + l_j) + h_i + h_j},
 *                over the sum of w_i w_j w_k w_m
 *
 * With equal weights these are the ones above. */
#include <string.h>

#include "measures/measure_parts.h"

const char *circe_estimator_name(circe_estimator estimator) {
    return CIRCE__NAME(estimator, [CIRCE_BIASED] = "biased", [CIRCE_DEBIASED] = "debiased",
                       [CIRCE_CENTERED] = "centered", [CIRCE_USTAT] = "ustat");
}

circe_status circe__check_estimator(circe_estimator estimator, int64_t n) {
    if (estimator < CIRCE_BIASED || estimator > CIRCE_USTAT)
        return circe_fail(CIRCE_ERR_ARGUMENT, "estimator %d is not one of biased, debiased, centered, ustat",
                          (int)estimator);
    int64_t least = estimator == CIRCE_USTAT ? 4 : 2;
    if (n < least)
        return circe_fail(CIRCE_ERR_SHAPE, "the %s estimator needs at least %lld rows; there %s %lld",
                          circe_estimator_name(estimator), (long long)least, n == 1 ? "is" : "are", (long long)n);
    return CIRCE_OK;
}

bool circe__needs_sums(circe_estimator estimator) {
    return estimator == CIRCE_CENTERED || estimator == CIRCE_USTAT || estimator == CIRCE__CENTERED_SQUARE;
}

static double estimator_scale(circe_estimator estimator, int64_t n) {
    double B = (double)n;
    if (estimator == CIRCE__CENTERED_SQUARE) return 1.0 / (B * B);
    return estimator == CIRCE_USTAT ? 1.0 / (B * (B - 3.0)) : 1.0 / (B * (B - 1.0));
}

double circe__product_scale(const circe_workspace *workspace, circe_estimator estimator, int64_t n) {
    return circe__needs_sums(estimator) || workspace->n_weights > 0 ? 1.0 : estimator_scale(estimator, n);
}

/* ---- with weights ------------------------------------------------------------------------------------------------ */

/* G_ij = scale w_i w_j {Q_ij (own - lost (w_i + w_j) + 2 both w_i w_j) + f_i + f_j + both (w_i l_j + w_j l_i) +
 * constant}, which is all four. */
typedef struct weighing {
    const double *w;
    double *l, *f; /* (n) */
    circe_mat *Q;
    double scale, own, lost, both, constant;
    bool zero_diagonal;
} weighing;

/* l and h (into f), from the lower triangle; returns sum w l. Ranks have their own pairs of different rows, zeros for
 * those of others, and all of the diagonal. */
static double weighted_sums(const weighing *g, const circe_ranks *ranks) {
    int64_t n = g->Q->rows;
    double total = 0.0;
    memset(g->l, 0, (size_t)n * sizeof *g->l);
    memset(g->f, 0, (size_t)n * sizeof *g->f);
    for (int64_t i = 0; i < n; i++) {
        double l = 0.0, h = 0.0, w = g->w[i];
        for (int64_t j = 0; j < i; j++) {
            double q = circe__at(g->Q, i, j);
            l += g->w[j] * q;
            h += g->w[j] * g->w[j] * q;
            g->l[j] += w * q;
            g->f[j] += w * w * q;
        }
        g->l[i] += l;
        g->f[i] += h;
    }
    if (ranks != NULL) ranks->sum(ranks->user, g->l, 2 * n, 0);
    for (int64_t i = 0; i < n; i++) {
        double own = g->zero_diagonal ? 0.0 : g->w[i] * circe__at(g->Q, i, i);
        g->l[i] += own;
        g->f[i] += g->w[i] * own;
        total += g->w[i] * g->l[i];
    }
    return total;
}

/* The sum over `k` different rows of the products of their weights, in every order. */
static double products_of(const double *w, int64_t n, int k) {
    double e[5] = {1.0};
    for (int64_t i = 0; i < n; i++)
        for (int t = k; t > 0; t--) e[t] += e[t - 1] * w[i];
    return e[k] * (k == 2 ? 2.0 : 24.0);
}

static void run_weighing(void *user, int64_t first, int64_t end) {
    const weighing *g = user;
    const double *w = g->w, *l = g->l, *f = g->f;
    for (int64_t i = first; i < end; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double own = g->own - g->lost * (w[i] + w[j]) + 2.0 * g->both * w[i] * w[j];
            double rest = f[i] + f[j] + g->both * (w[i] * l[j] + w[j] * l[i]) + g->constant;
            circe__set(g->Q, i, j, g->scale * w[i] * w[j] * (own * circe__at(g->Q, i, j) + rest));
        }
        if (g->zero_diagonal) circe__set(g->Q, i, i, 0.0);
    }
}

void circe__estimator_weigh(circe_workspace *workspace, circe_estimator estimator, const circe_ranks *ranks,
                            circe_mat *Q) {
    int64_t n = Q->rows;
    double *scratch = (double *)workspace->blocks[CIRCE__SLOT_WEIGHTS] + 2 * n, B = (double)workspace->n_weighted;
    weighing g = {.w = circe__weights_of(workspace),
                  .l = scratch,
                  .f = scratch + n, /* behind l: ranks add up both at once */
                  .Q = Q,
                  .scale = estimator_scale(estimator, workspace->n_weighted),
                  .own = 1.0,
                  .zero_diagonal = estimator == CIRCE_USTAT || estimator == CIRCE_DEBIASED};
    double total = circe__needs_sums(estimator) ? weighted_sums(&g, ranks) : 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) squares += g.w[i] * g.w[i];
    if (estimator == CIRCE_USTAT) {
        for (int64_t i = 0; i < n; i++) g.f[i] -= (B + g.w[i]) * g.l[i];
        g.own = B * B - squares, g.lost = B, g.both = 1.0, g.constant = total;
        g.scale = 1.0 / products_of(g.w, n, 4);
    } else if (circe__needs_sums(estimator)) {
        for (int64_t i = 0; i < n; i++) g.f[i] = -g.l[i] / B;
        g.constant = total / (B * B);
    } else {
        memset(scratch, 0, 2 * (size_t)n * sizeof *scratch);
        if (estimator == CIRCE_DEBIASED) g.scale = 1.0 / products_of(g.w, n, 2);
    }
    circe__run_ranges(workspace->context->threads, n, 16384 / n + 1, run_weighing, &g);
}

bool circe__estimator_shift(circe_workspace *workspace, circe_estimator estimator, double *sums, const double *diagonal,
                            circe_mat *Q, circe__shift *shift) {
    int64_t n = Q->rows;
    if (workspace->n_weights > 0) {
        circe__estimator_weigh(workspace, estimator, NULL, Q);
        return false;
    }
    double B = (double)n, total = 0.0;
    bool ustat = estimator == CIRCE_USTAT;
    for (int64_t i = 0; estimator == CIRCE_DEBIASED && i < n; i++) circe__set(Q, i, i, 0.0);
    if (!circe__needs_sums(estimator)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (!ustat) sums[i] += diagonal != NULL ? diagonal[i] : circe__at(Q, i, i);
        total += sums[i];
    }
    for (int64_t i = 0; i < n; i++) sums[i] /= ustat ? -(B - 2.0) : -B;
    *shift = (circe__shift){.rows = sums,
                            .constant = ustat ? total / ((B - 1.0) * (B - 2.0)) : total / (B * B),
                            .scale = estimator_scale(estimator, n),
                            .zero_diagonal = ustat};
    return true;
}
