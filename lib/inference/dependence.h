/* Rows that depend on each other: groups of them, and series in time.
 *
 *     groups alone         a block is a group
 *     time                 a block is a stretch of a series, of a length that is given or chosen from the data
 *     groups and time      every group is a series of its own
 *
 * Blocks count as independent of each other; rows of one block do not. A regression is judged on blocks that it has not
 * seen, and for the null a block gets one sign, or moves as a whole (docs/math.md, Rows that depend on each other). */
#pragma once

#include "inference/inference_parts.h"

typedef struct circe__blocks {
    int64_t k;
    int64_t *of;    /* (n): the block of a row */
    int64_t *rows;  /* (n): block by block, a block's in order of time */
    int64_t *start; /* (k + 1) */
} circe__blocks;

struct circe__dependence {
    int64_t n;
    bool series;    /* rows have an order */
    int64_t *order; /* (n): rows by group, then time */
    int64_t *unit;  /* (n): of order[i]; rows of one group and time are one unit */
    int64_t *first; /* (groups + 1): the units of a group */
    int64_t units, groups;
    double length;          /* of the blocks of a series, in units */
    circe__blocks left_out; /* what a regression is judged on */
    circe__blocks blocks;   /* what has one sign */
};

/* Makes data->dependence from the options; NULL if rows are independent. */
circe_status circe__dependence_make(circe__data *data);
void circe__dependence_free(const circe_context *context, circe__dependence *dependence);
/* The blocks that judge a regression on the rows index[0..n). */
circe_status circe__dependence_subset(const circe__data *data, const int64_t *index, int64_t n,
                                      circe__dependence **subset);

/* Refuses dependent rows for `what`, which assumes independent ones. */
circe_status circe__refuse_dependent(const circe_test_options *options, const char *what);

/* Chooses the length of blocks in time from the products whose signs are drawn, unless it is given; notes the
 * blocks. */
circe_status circe__dependence_settle(const circe__data *data, const circe__pair *pair, circe_test_result *result);

/* *signs (draws, blocks), the caller's to free: a sign for every block; NULL if rows are independent. Then those of
 * rows [first, first + n) as out (draws, ld). */
circe_status circe__block_signs(const circe__data *data, uint64_t stream, int64_t draws, double **signs);
void circe__spread_signs(const circe__data *data, const double *signs, int64_t draws, int64_t first, int64_t n,
                         double *out, int64_t ld);

/* squares (p q): the sums over blocks of (sum of left_a noise_b)^2. */
circe_status circe__block_squares(const circe__data *data, const circe__pair *pair, double *squares);

/* Mean and variance of |left' diag(signs) noise|^2, from draws. */
circe_status circe__block_moments(const circe__data *data, const circe__pair *pair, double *mean, double *variance);

/* order (n): the rows of draw d. Groups of the same size change places; in a series, stretches do. */
circe_status circe__block_order(const circe__data *data, int64_t d, int64_t *order);

/* leave_out.c. The residuals (I - S) t of a table become those of a regression that has not seen their block. */
circe_status circe__leave_out(const circe__regressor *regressor, circe__table *residual);
/* As circe__loo and circe__gcv_of, leaving out blocks. */
circe_status circe__block_loo(const circe__data *data, const circe__spectrum *spectrum, const circe__table *target,
                              const double *ridge, int64_t n_ridge, double *errors, double *alone);
struct circe__gcv;
circe_status circe__block_gcv(const circe__data *data, circe__table *F, const circe__table *const targets[2],
                              const double extra[2], struct circe__gcv *found);
/* Whether a regression on n rows leaves out blocks. */
static inline bool circe__in_blocks(const circe__data *data, int64_t n) {
    return data->dependence != NULL && data->dependence->n == n && data->dependence->left_out.k < n;
}
