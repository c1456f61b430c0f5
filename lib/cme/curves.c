/* Residual features of one-dimensional y and z by interpolation, for batches in float32.
 *
 *     zeta(y, z) = psi(z) - mu(y)
 *
 * Each side is a smooth function of one number. Computed exactly, it takes kernel values at r pivots and a triangular
 * product in float64, about r (r + 10) operations per point. Here it is a polynomial of degree 7 on each of a few dozen
 * pieces of its range: 8 r operations and no exponentials. Its error is at most TOLERANCE, and float32 itself is
 * accurate to 6e-8. The coefficients come from the exact function at the Chebyshev points of each piece, which spreads
 * the error evenly. The error is measured between these points, and the pieces are halved until it is small enough.
 *
 *     terms (pieces, 8, outputs)   coefficients of t^7 ... 1, t in [-1, 1] on the piece; outputs padded with zeros
 *
 * If z is beyond the holdout's range, psi(z) has a part outside the basis (residual.c). The curve of z ends where that
 * part begins to matter, and a batch with a point beyond the ends of a curve is computed exactly. So are gaussians of
 * several columns, and kernels that are not smooth. */
#include "cme/curves.h"

#include <math.h>
#include <string.h>

enum { TERMS = CIRCE__CURVE_TERMS, LEAST_PIECES = 32, MOST_PIECES = 256, CHECKS = 2, PAD = 8 };

static const double TOLERANCE = 2e-9, MARGIN = 0.25; /* of the pivots' range, on either side */

/* One side: the exact function and where it is asked. */
typedef struct side {
    circe_workspace *workspace;
    const circe_cme *cme;
    const circe__basis *basis; /* of y or of z */
    bool is_mean;
    double low, high;
    int64_t rank; /* outputs */
} side;

/* out (n, rank) := the function at points; residual (n) if not NULL, of z. */
static circe_status exact(const side *s, const double *points, int64_t n, double *out, double *residual) {
    if (s->is_mean) return circe__cme_mean(s->workspace, s->cme, points, n, s->rank, out, s->rank);
    void *scratch = circe__take(s->workspace, CIRCE__SLOT_TILES, (int64_t)circe__basis_bytes(s->basis), 1);
    if (scratch == NULL) return CIRCE_ERR_MEMORY;
    circe__basis_features(s->basis, s->rank, points, n, out, s->rank, NULL, residual, scratch);
    return CIRCE_OK;
}

static side side_of(circe_workspace *workspace, const circe_cme *cme, bool is_mean) {
    side s = {.workspace = workspace, .cme = cme, .is_mean = is_mean, .rank = cme->z_basis.rank};
    s.basis = is_mean ? &cme->y_basis : &cme->z_basis;
    s.low = s.high = s.basis->points[0];
    for (int64_t i = 1; i < s.basis->rank; i++) {
        s.low = fmin(s.low, s.basis->points[i]);
        s.high = fmax(s.high, s.basis->points[i]);
    }
    double margin = MARGIN * (s.high - s.low);
    s.low -= margin;
    s.high += margin;
    return s;
}

/* ---- one curve --------------------------------------------------------------------------------------------------- */

static double node(int j) { return -cos(acos(-1.0) * (2.0 * j + 1.0) / (2.0 * TERMS)); }

/* from_values (TERMS, TERMS): coefficients, highest power first, of the polynomial through values at the nodes: the
 * columns are the Lagrange polynomials. */
static void lagrange(double from_values[TERMS][TERMS]) {
    for (int j = 0; j < TERMS; j++) {
        double polynomial[TERMS] = {1.0}, scale = 1.0; /* ascending powers */
        int degree = 0;
        for (int k = 0; k < TERMS; k++) {
            if (k == j) continue;
            for (int c = ++degree; c > 0; c--) polynomial[c] = polynomial[c - 1] - node(k) * polynomial[c];
            polynomial[0] *= -node(k);
            scale *= node(j) - node(k);
        }
        for (int c = 0; c < TERMS; c++) from_values[TERMS - 1 - c][j] = polynomial[c] / scale;
    }
}

/* Points t_0 ... t_(n-1) of every piece. */
static void spread(const side *s, int64_t pieces, const double *t, int64_t n, double *points) {
    double width = (s->high - s->low) / (double)pieces;
    for (int64_t k = 0; k < pieces; k++)
        for (int64_t j = 0; j < n; j++) points[k * n + j] = s->low + width * ((double)k + 0.5 * (t[j] + 1.0));
}

/* values (pieces TERMS, rank) at the nodes -> terms. */
static void interpolate(const side *s, int64_t pieces, const double *values, int64_t outputs, double *terms) {
    double from_values[TERMS][TERMS];
    lagrange(from_values);
    memset(terms, 0, (size_t)(pieces * TERMS * outputs) * sizeof *terms);
    for (int64_t k = 0; k < pieces; k++)
        for (int c = 0; c < TERMS; c++)
            for (int j = 0; j < TERMS; j++)
                for (int64_t o = 0; o < s->rank; o++)
                    terms[(k * TERMS + c) * outputs + o] += from_values[c][j] * values[(k * TERMS + j) * s->rank + o];
}

/* The largest difference from values (pieces CHECKS, rank) at the points t of each piece. */
static double largest_error(const side *s, int64_t pieces, const double *t, const double *values, int64_t outputs,
                            const double *terms) {
    double largest = 0.0;
    for (int64_t k = 0; k < pieces; k++)
        for (int j = 0; j < CHECKS; j++)
            for (int64_t o = 0; o < s->rank; o++) {
                double value = 0.0;
                for (int c = 0; c < TERMS; c++) value = value * t[j] + terms[(k * TERMS + c) * outputs + o];
                largest = fmax(largest, fabs(value - values[(k * CHECKS + j) * s->rank + o]));
            }
    return largest;
}

/* A side with so many pieces. values and residual are at the nodes. */
static circe_status try_pieces(const side *s, int64_t pieces, double *points, double *values, double *residual,
                               int64_t outputs, double *terms, double *error) {
    double nodes[TERMS];
    static const double between[CHECKS] = {-0.93, 0.21};
    for (int j = 0; j < TERMS; j++) nodes[j] = node(j);
    double *checked = values + pieces * TERMS * s->rank;
    spread(s, pieces, nodes, TERMS, points);
    circe_status status = exact(s, points, pieces * TERMS, values, residual);
    if (status != CIRCE_OK) return status;
    interpolate(s, pieces, values, outputs, terms);
    spread(s, pieces, between, CHECKS, points);
    status = exact(s, points, pieces * CHECKS, checked, NULL);
    if (status == CIRCE_OK) *error = largest_error(s, pieces, between, checked, outputs, terms);
    return status;
}

/* Ends the curve of z where the residual at a node begins to count; its middle is in the holdout's range. */
static void trim(const double *residual, double least, circe__curve *curve) {
    int64_t first = curve->pieces / 2, end = first;
    double width = 1.0 / curve->per;
    for (int side_of = 0; side_of < 2; side_of++)
        for (;;) {
            int64_t next = side_of == 0 ? first - 1 : end;
            bool holds = next >= 0 && next < curve->pieces;
            for (int j = 0; holds && j < TERMS; j++) holds = residual[next * TERMS + j] <= least;
            if (!holds) break;
            *(side_of == 0 ? &first : &end) += side_of == 0 ? -1 : 1;
        }
    curve->terms += first * TERMS * curve->outputs;
    curve->first += (double)first * width;
    curve->pieces = end - first;
}

/* For every q, the largest sum of squares of the coordinates from q on, over all points given so far. */
static void add_tails(const double *values, int64_t n, int64_t rank, double *tails) {
    for (int64_t i = 0; i < n; i++) {
        double tail = 0.0;
        for (int64_t k = rank - 1; k >= 0; k--) {
            tail += values[i * rank + k] * values[i * rank + k];
            tails[k] = fmax(tails[k], tail);
        }
    }
}

/* Halves the pieces until the curve is good enough; `curve` has no pieces where it never is. *block is what its terms
 * lie in, the caller's to free. tails (rank): see above. */
static circe_status make_curve(const side *s, double *tails, double **block, circe__curve *curve) {
    const circe_context *context = s->cme->context;
    int64_t outputs = (s->rank + PAD - 1) / PAD * PAD, most = MOST_PIECES * (TERMS + CHECKS);
    CIRCE__OWNED double *points = circe__alloc(context, most, sizeof *points),
                        *values = circe__alloc(context, most * s->rank, 8);
    CIRCE__OWNED double *residual = circe__alloc(context, MOST_PIECES * TERMS, sizeof *residual);
    double error = INFINITY;
    double scale = s->cme->z_basis.scale, least = circe__accuracy(s->cme, CIRCE_FLOAT32) * scale;
    circe_status status = CIRCE_ERR_MEMORY;
    *block = circe__alloc(context, MOST_PIECES * TERMS * outputs, sizeof **block);
    if (points == NULL || values == NULL || residual == NULL || *block == NULL) return status;
    status = CIRCE_OK;
    int64_t pieces = LEAST_PIECES;
    for (; status == CIRCE_OK && pieces <= MOST_PIECES; pieces *= 2) {
        status = try_pieces(s, pieces, points, values, s->is_mean ? NULL : residual, outputs, *block, &error);
        if (status == CIRCE_OK && error <= TOLERANCE * sqrt(scale)) break;
    }
    *curve = (circe__curve){.outputs = outputs, .terms = *block};
    if (status != CIRCE_OK || pieces > MOST_PIECES) return status;
    curve->first = s->low;
    curve->per = (double)pieces / (s->high - s->low);
    curve->pieces = pieces;
    if (!s->is_mean) trim(residual, least, curve);
    int64_t from = (curve->terms - *block) / outputs;
    add_tails(values + from * s->rank, curve->pieces * TERMS, s->rank, tails);
    return status;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static bool is_gaussian_line(const circe__basis *basis) {
    return basis->dim == 1 && basis->n_factors == 1 && basis->factors[0].kind == CIRCE_KERNEL_GAUSSIAN &&
           basis->rank > 1;
}

/* |tail of psi - tail of mu|^2 <= 2 (|tail of psi|^2 + |tail of mu|^2): as many columns as K^c needs in float32. */
static int64_t columns_needed(const circe_cme *cme, const double *tails_y, const double *tails_z) {
    double least = 0.1 * circe__accuracy(cme, CIRCE_FLOAT32) * cme->z_basis.scale;
    int64_t q = 1;
    while (q < cme->z_basis.rank && 2.0 * (tails_y[q] + tails_z[q]) > least) q++;
    return q;
}

/* The curve's first `outputs` outputs, in memory of their own. */
static double *narrowed(const circe_context *context, const circe__curve *curve, int64_t outputs) {
    int64_t rows = curve->pieces * TERMS;
    double *terms = circe__alloc(context, rows * outputs, sizeof *terms);
    for (int64_t i = 0; terms != NULL && i < rows; i++)
        memcpy(terms + i * outputs, curve->terms + i * curve->outputs, (size_t)outputs * sizeof *terms);
    return terms;
}

static circe_status keep(circe_cme *cme, const circe__curve *mean, const circe__curve *features, int64_t q) {
    const circe_context *context = cme->context;
    circe__curves *made = circe__calloc(context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    *made = (circe__curves){.mean = *mean, .features = *features, .q = q};
    made->mean.outputs = made->features.outputs = (q + PAD - 1) / PAD * PAD;
    made->mean.terms = narrowed(context, mean, made->mean.outputs);
    made->features.terms = narrowed(context, features, made->mean.outputs);
    if (made->mean.terms == NULL || made->features.terms == NULL) {
        circe__curves_free(context, made);
        return CIRCE_ERR_MEMORY;
    }
    cme->curves = made;
    return CIRCE_OK;
}

circe_status circe__curves_make(circe_cme *cme) {
    circe_workspace *workspace = NULL;
    CIRCE__OWNED double *tails = NULL;
    double *blocks[2] = {NULL, NULL};
    circe__curve curves[2] = {{0}};
    int64_t rank = cme->z_basis.rank;
    if (cme->info.solver != CIRCE_METHOD_LOWRANK || cme->rff != NULL || cme->weights == NULL ||
        !is_gaussian_line(&cme->y_basis) || !is_gaussian_line(&cme->z_basis))
        return CIRCE_OK;
    circe_status status = circe_workspace_create(cme->context, &workspace);
    tails = circe__calloc(cme->context, 2 * rank, sizeof *tails);
    if (status == CIRCE_OK && tails == NULL) status = CIRCE_ERR_MEMORY;
    for (int i = 0; status == CIRCE_OK && i < 2; i++) {
        side s = side_of(workspace, cme, i == 0);
        if (s.high > s.low) status = make_curve(&s, tails + i * rank, &blocks[i], &curves[i]);
    }
    if (status == CIRCE_OK && curves[0].pieces > 0 && curves[1].pieces > 0)
        status = keep(cme, &curves[0], &curves[1], columns_needed(cme, tails, tails + rank));
    for (int i = 0; i < 2; i++) circe__free(cme->context, blocks[i]);
    circe_workspace_destroy(workspace);
    return status;
}

void circe__curves_free(const circe_context *context, circe__curves *curves) {
    if (curves == NULL) return;
    circe__free(context, (void *)curves->mean.terms);
    circe__free(context, (void *)curves->features.terms);
    circe__free(context, curves);
}

static bool within(const circe__curve *curve, const double *points, int64_t n) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        low = points[i] < low ? points[i] : low;
        high = points[i] > high ? points[i] : high;
    }
    return low >= curve->first && (high - curve->first) * curve->per <= (double)curve->pieces;
}

bool circe__curves_hold(const circe__curves *curves, const double *y, const double *z, int64_t n) {
    return curves != NULL && within(&curves->mean, y, n) && within(&curves->features, z, n);
}
