/* Chooses gamma from the error and the dependence that were found with each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GAMMA_MOST_POINTS = 64 };

/* One gamma that was tried. Its height rises with gamma: the normal quantile of a p-value (gamma_height), or the share
 * that is left, turned round. */
typedef struct gamma_point {
    double gamma, error, height;
} gamma_point;

typedef struct gamma_rules {
    double wanted;  /* the height to aim at */
    double enough;  /* that with which dependence is not found */
    double noise;   /* of a height: the last step up of a curve may be no more */
    double trivial; /* the error of a constant; a prediction is worth the difference between it and its own error */
    double least;   /* a gamma is useful if its prediction is worth at least this much */
    double low;     /* a height that is still compatible with no dependence */
    double dear;    /* a gamma must keep this share of the worth of every smaller one that is not below `low` */
    double free;    /* a larger gamma that keeps this share of the largest worth is taken for more margin, */
    double growth;  /* unless its error is more than this many times the least */
} gamma_rules;

/* The rules for p-values, and for shares of at most `tolerance`. plain: the error without a regulariser. */
gamma_rules gamma_rules_of_p(double trivial, double plain);
gamma_rules gamma_rules_of_share(double tolerance, double trivial, double plain);

/* Is a prediction with this error of use? */
bool gamma_is_of_use(double error, const gamma_rules *rules);

/* Combines n p-values, each from other rows, into one (Stouffer). */
double gamma_combined_p(const double *p, int64_t n);
double gamma_height(double p);

/* Both sort the points by gamma, of which there are at most GAMMA_MOST_POINTS. */

/* The gamma to try next: where the curve crosses the wanted height, or one of the points, where that is near; NAN: no
 * point is of use. */
double gamma_next(gamma_point *points, int64_t n, const gamma_rules *rules);
/* The chosen gamma; *reached: no dependence is found with it. If no point is useful, the smallest gamma. */
double gamma_take(gamma_point *points, int64_t n, const gamma_rules *rules, bool *reached);

/* Two digits, so that people can repeat it. */
double gamma_rounded(double gamma);
