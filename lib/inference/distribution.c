/* Tails of the distributions that statistics have under independence.
 *
 * Gamma: Q(a, x) by its series below a + 1 and by its continued fraction (modified Lentz) above; both stop at rounding,
 * and lgamma scales them.
 *
 * A weighted sum of chi-squares, sum_k w_k chi2_1, by the saddlepoint formula of Lugannani and Rice (Kuonen 1999). With
 * the cumulant generating function K(t) = -1/2 sum log(1 - 2 w_k t), t < 1 / (2 max w), and K'(t) = x:
 *
 *     P(> x) = 1 - Phi(r + log(v / r) / r),   r = sign(t) sqrt(2 (t x - K(t))),   v = t sqrt(K''(t))
 *
 * Its relative error stays within a few percent in both tails, however small the probability p. Monte Carlo would need
 * 1 / p draws, and moment matching is off by orders of magnitude. */
#include <float.h>
#include <math.h>

#include "inference/inference_parts.h"

double circe__clip_p(double p) { return p < 1e-12 ? 1e-12 : p > 1.0 ? 1.0 : p; }

double circe__normal_tail(double x) { return 0.5 * erfc(x * M_SQRT1_2); }

/* P(a, x) = x^a e^-x / Gamma(a + 1) sum_k x^k / ((a+1) .. (a+k)) */
static double gamma_series(double a, double x) {
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 100000 && term > DBL_EPSILON * sum; k++) {
        term *= x / (a + (double)k);
        sum += term;
    }
    return exp(a * log(x) - x - lgamma(a + 1.0)) * sum;
}

double circe__normal_quantile(double p) {
    double low = -9.0, high = 9.0;
    for (int step = 0; step < 60; step++) {
        double middle = 0.5 * (low + high);
        *(circe__normal_tail(middle) > p ? &low : &high) = middle;
    }
    return 0.5 * (low + high);
}

/* Q(a, x) = x^a e^-x / Gamma(a) / (x + 1 - a - 1(1-a) / (x + 3 - a - ...)) */
static double gamma_fraction(double a, double x) {
    const double tiny = 1e-300;
    double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / (fabs(b) < tiny ? tiny : b), f = d;
    for (int k = 1; k < 100000; k++) {
        double an = -(double)k * ((double)k - a);
        b += 2.0;
        d = an * d + b;
        if (fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (fabs(c) < tiny) c = tiny;
        d = 1.0 / d;
        f *= d * c;
        if (fabs(d * c - 1.0) < DBL_EPSILON) break;
    }
    return exp(a * log(x) - x - lgamma(a)) * f;
}

double circe__gamma_tail(double shape, double x) {
    if (!(shape > 0.0) || isnan(x)) return NAN;
    if (x <= 0.0) return 1.0;
    if (isinf(x)) return 0.0;
    return x < shape + 1.0 ? 1.0 - gamma_series(shape, x) : gamma_fraction(shape, x);
}

double circe__moment_tail(double mean, double variance, double x) {
    if (!(mean > 0.0) || !(variance > 0.0)) return x > 0.0 ? 0.0 : 1.0;
    return circe__gamma_tail(mean * mean / variance, x * mean / variance);
}

typedef struct cumulants {
    double k0, k1, k2, k3; /* K and its derivatives at t */
} cumulants;

static cumulants cumulants_at(const double *w, int64_t n, double t) {
    cumulants c = {0};
    for (int64_t k = 0; k < n; k++) {
        double rest = 1.0 - 2.0 * w[k] * t, ratio = w[k] / rest;
        c.k0 -= 0.5 * log(rest);
        c.k1 += ratio;
        c.k2 += 2.0 * ratio * ratio;
        c.k3 += 8.0 * ratio * ratio * ratio;
    }
    return c;
}

/* Solves K'(t) = x by bisection between bounds that enclose t, with Newton's steps if they stay inside. */
static double saddlepoint(const double *w, int64_t n, double largest, double x) {
    double mean = cumulants_at(w, n, 0.0).k1, sum = (double)n;
    double low = x < mean ? 0.5 / largest - 0.5 * sum / x : 0.0, high = x < mean ? 0.0 : 0.5 / largest, t;
    if (x >= mean) high *= 1.0 - 1e-15;
    t = 0.5 * (low + high);
    for (int k = 0; k < 200; k++) {
        cumulants c = cumulants_at(w, n, t);
        if (c.k1 > x)
            high = t;
        else
            low = t;
        double next = t - (c.k1 - x) / c.k2;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (fabs(next - t) <= 1e-14 * fabs(t)) break;
        t = next;
    }
    return t;
}

double circe__weighted_tail(const double *weights, int64_t n, double x) {
    double largest = 0.0;
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++) largest = fmax(largest, weights[k]);
    while (count < n && weights[count] > 1e-14 * largest) count++; /* descending */
    if (!(largest > 0.0)) return x > 0.0 ? 0.0 : 1.0;
    if (x <= 0.0) return 1.0;
    cumulants at_mean = cumulants_at(weights, count, 0.0);
    double t = saddlepoint(weights, count, largest, x), sd = sqrt(at_mean.k2);
    if (fabs(x - at_mean.k1) < 1e-4 * sd) /* r and v vanish together: the limit of log(v / r) / r is skewness / 6 */
        return circe__normal_tail(at_mean.k3 / (6.0 * at_mean.k2 * sd) + (x - at_mean.k1) / sd);
    cumulants c = cumulants_at(weights, count, t);
    double r = copysign(sqrt(fmax(2.0 * (t * x - c.k0), 0.0)), t), v = t * sqrt(c.k2);
    return circe__normal_tail(r + log(v / r) / r);
}
