/* Chooses gamma, as a function of the results with each gamma and of nothing else.
 *
 * Heights are smoothed to rise with gamma (isotonic regression), so that no single lucky or unlucky test decides. The
 * choice is the gamma at which the curve reaches the wanted height, or nearly reaches its maximum if that is lower. Why
 * a margin is needed: the height of a p-value has noise of about 1. If it is just at the level, a test finds dependence
 * again on every second set of new rows; for a prediction without dependence it is 0 on average.
 *
 * Two assumptions do not always hold. First, dependence should fall as gamma rises. But a network cancels what its own
 * rows show by chance, and this shows in other rows, with every gamma: p-values may stay at .03 while the error keeps
 * growing. So a gamma is skipped if its prediction is worth much less than that of a smaller gamma which is not far
 * below the level. Second, errors should rise with gamma. With few rows the regulariser even lowers them; then the
 * largest gamma that costs next to nothing is chosen, for more margin.
 *
 * The cost of a gamma is measured by the worth of its prediction: the error of a constant minus its own error. A
 * cross-entropy of .66 instead of .64 looks like little, but if a constant has .68, it is half of the worth. What costs
 * next to nothing hardly changes the error either, which in a good prediction is much smaller than its worth. */
#include "jobs/gamma_choice.h"

#include <math.h>
#include <stdlib.h>

static const double level = 0.05, suspect = 0.01, margin = 0.3, near = 1.3, least_p = 1e-12;

gamma_rules gamma_rules_of_p(double trivial, double plain) {
    return (gamma_rules){.wanted = gamma_height(margin),
                         .enough = gamma_height(level),
                         .noise = 0.3,
                         .trivial = trivial,
                         .least = 0.1 * (trivial - plain),
                         .low = gamma_height(suspect),
                         .dear = 0.5,
                         .free = 0.95,
                         .growth = 1.03};
}

gamma_rules gamma_rules_of_share(double tolerance, double trivial, double plain) {
    gamma_rules rules = gamma_rules_of_p(trivial, plain);
    rules.wanted = rules.enough = rules.low = -tolerance;
    rules.noise = 0.0;
    rules.free = INFINITY;
    return rules;
}

static double worth(double error, const gamma_rules *rules) { return rules->trivial - error; }

bool gamma_is_of_use(double error, const gamma_rules *rules) { return worth(error, rules) >= rules->least; }

/* By bisection: a few calls a run. */
double gamma_height(double p) {
    double low = -10, high = 10, bounded = fmin(fmax(p, least_p), 0.999);
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2.0)) / 2 < bounded)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double gamma_combined_p(const double *p, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += gamma_height(p[i]);
    return fmax(erfc(-sum / sqrt(2.0 * (double)n)) / 2, least_p);
}

double gamma_rounded(double gamma) {
    double decade = pow(10.0, floor(log10(gamma)) - 1);
    return round(gamma / decade) * decade;
}

/* ---- the curve --------------------------------------------------------------------------------------------------- */

static int by_gamma(const void *a, const void *b) {
    double x = ((const gamma_point *)a)->gamma, y = ((const gamma_point *)b)->gamma;
    return (x > y) - (x < y);
}

/* The least worth that a prediction must have. The points ascend. */
static double least_worth(const gamma_point *p, int64_t n, const gamma_rules *rules) {
    for (int64_t i = 0; i < n; i++)
        if (p[i].gamma > 0.0 && p[i].height >= rules->low && gamma_is_of_use(p[i].error, rules))
            return fmax(rules->least, rules->dear * worth(p[i].error, rules));
    return rules->least;
}

/* Heights become the nearest that never fall: neighbours that do are replaced by their mean. */
static void smooth(gamma_point *p, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        double sum = p[i].height;
        int64_t first = i, count = 1;
        while (first > 0 && p[first - 1].height > sum / (double)count) sum += p[--first].height, count++;
        for (int64_t j = first; j <= i; j++) p[j].height = sum / (double)count;
    }
}

/* curve := the points that are of use and not too dear, ascending and smoothed; returns how many. */
static int64_t curve_of(gamma_point *points, int64_t n, const gamma_rules *rules, gamma_point *curve) {
    int64_t kept = 0;
    qsort(points, (size_t)n, sizeof *points, by_gamma);
    double least = least_worth(points, n, rules);
    for (int64_t i = 0; i < n; i++)
        if (worth(points[i].error, rules) >= least) curve[kept++] = points[i];
    smooth(curve, kept);
    return kept;
}

/* The first point of the curve above gamma 0 that reaches the wanted height, or the curve's maximum up to noise. Gamma
 * 0 is not on the curve if the regulariser lowers the error so much that the plain network costs too much. If all
 * p-values are the smallest possible, they cannot be compared, and the last point leaves the least dependence. */
static int64_t first_high_enough(const gamma_point *curve, int64_t n, const gamma_rules *rules, double *wanted) {
    int64_t at = n > 1 && curve[0].gamma == 0.0 ? 1 : 0;
    bool blind = curve[n - 1].height <= gamma_height(least_p) + 1e-9; /* smoothing rounds */
    *wanted = fmin(rules->wanted, curve[n - 1].height - rules->noise);
    while (at < n - 1 && (blind || curve[at].height < *wanted)) at++;
    return at;
}

/* ---- the next, and the last -------------------------------------------------------------------------------------- */

/* The gamma of a point that is hardly larger; gamma itself if there is none. */
static double known_nearby(const gamma_point *p, int64_t n, const gamma_rules *rules, double gamma) {
    for (int64_t i = 0; i < n; i++) {
        double ratio = p[i].gamma / gamma;
        if (ratio <= near && ratio >= 0.95 && gamma_is_of_use(p[i].error, rules)) return p[i].gamma;
    }
    return gamma;
}

double gamma_next(gamma_point *points, int64_t n, const gamma_rules *rules) {
    gamma_point curve[GAMMA_MOST_POINTS];
    double wanted;
    int64_t kept = curve_of(points, n, rules, curve);
    if (kept == 0) return NAN;
    int64_t at = first_high_enough(curve, kept, rules, &wanted);
    const gamma_point *above = &curve[at], *below = above - 1;
    if (at == 0 || below->gamma == 0.0 || below->height >= wanted) return above->gamma;
    double share = (above->height - wanted) / (above->height - below->height);
    return known_nearby(points, n, rules, gamma_rounded(above->gamma * pow(below->gamma / above->gamma, share)));
}

/* The largest gamma from `gamma` up whose prediction is worth about as much as the best of them. */
static double largest_as_good(const gamma_point *p, int64_t n, const gamma_rules *rules, double gamma) {
    double best = INFINITY, largest = gamma;
    for (int64_t i = 0; i < n; i++)
        if (p[i].gamma >= gamma) best = fmin(best, p[i].error);
    for (int64_t i = 0; i < n; i++) {
        bool as_good = worth(p[i].error, rules) >= rules->free * worth(best, rules);
        if (p[i].gamma > largest && as_good && p[i].error <= rules->growth * best) largest = p[i].gamma;
    }
    return largest;
}

static double height_at(const gamma_point *curve, int64_t n, double gamma) {
    double height = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (curve[i].gamma <= gamma) height = curve[i].height;
    return height;
}

double gamma_take(gamma_point *points, int64_t n, const gamma_rules *rules, bool *reached) {
    gamma_point curve[GAMMA_MOST_POINTS];
    double wanted;
    int64_t kept = curve_of(points, n, rules, curve);
    bool passes = kept > 0 && curve[kept - 1].height >= rules->enough;
    *reached = false;
    if (kept == 0) return n > 0 ? points[0].gamma : 0.0;
    double gamma = curve[first_high_enough(curve, kept, rules, &wanted)].gamma;
    if (passes) gamma = largest_as_good(points, n, rules, gamma);
    *reached = height_at(curve, kept, gamma) >= rules->enough; /* where the curve just passes, below may not */
    return gamma;
}
