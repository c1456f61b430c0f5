/* How a regression sees y: by its own kernel, or by coordinates and kernels that suit a target better.
 *
 *     kernel     y's kernel at a multiple of its median width
 *     scores     gaussian of the normal scores of the columns: margins that are skewed or have heavy tails
 *     rough      laplace of the scores: steps and kinks, in one dimension
 *     additive   the mean over the columns of gaussians of their scores: many dimensions, no interactions
 *     metric     gaussian of y A', A learned from the target (metric.c), beside y's columns: few directions matter
 *     products   of two columns, of up to all of them if there are at most six: interactions
 *     leaves     indicators of the leaves of a regression tree (tree.c): jumps
 *
 * and sums of these. Faces other than the first exist only if y's kernel was not given. metric and leaves belong to one
 * target: `side`. */
#pragma once

#include "inference/memory.h"

struct circe__faces {
    circe__variable scores, rough, metric[2];
    circe__variable leaves[2]; /* (total, 1): the leaf of each row */
    int64_t splits[2];
    double learned[2];     /* the error with the metric over that without */
    circe__table steps[2]; /* (total, up to 3): the side of the tree's first splits that each row is on, -1 or 1 */
};

/* Makes the faces that need only y's columns; *faces stays NULL if y's kernel is given or y has few values. */
circe_status circe__faces_make(const circe__data *data, circe__faces **faces);
void circe__faces_free(const circe_context *context, circe__faces *faces);
circe_status circe__faces_subset(const circe__data *data, const int64_t *index, int64_t n, circe__faces **subset);

/* metric.c: faces->metric from the targets that are not NULL; dim 0 if nothing is learned. `products`: the directions
 * are among the columns of y, the scores of their products and the steps of the target's tree; one target only. */
circe_status circe__metric_learn(const circe__data *data, const circe__table *const targets[2], bool products);

/* A place to split at: low goes left and high goes right, even if there is no number between them. */
static inline double circe__between(double low, double high) {
    double middle = 0.5 * (low + high);
    return middle >= low && middle < high ? middle : low;
}

/* tree.c: faces->leaves[side] from the target; dim 0 if no split pays. A tree that needs more than `few` splits may end
 * before it is complete. */
circe_status circe__tree_grow(const circe__data *data, const circe__table *target, int side, int64_t few);

/* forest.c: subtracts from the target what a random forest predicts, each row by trees that were not grown on it. */
circe_status circe__forest_residual(const circe__data *data, circe__table *target);

/* Coordinates and kernel that say how near two rows are for a regression with this sight. */
const circe__variable *circe__face_of(const circe__data *data, const circe__sight *sight);

/* out (total, .) := products of the columns of y, neither weighted nor centred; no columns if y has one, or more than
 * fourteen. */
circe_status circe__products(const circe__data *data, circe__table *out);

/* In words: "metric+additive". */
void circe__sight_text(const circe__sight *sight, char *text, size_t size);

/* F (total, r) := features of y under this sight, at most `most` columns. */
circe_status circe__face_features(const circe__data *data, const circe__sight *sight, double tolerance, int64_t most,
                                  circe__table *features, double *left);

/* gcv.c: the least over the ridges of the mean squared residual over (1 - degrees / n)^2, from features, centred and
 * weighted, `extra` degrees being counted in. Ridge and degrees are those of the largest ridge whose error is at most
 * 1 + near times that. */
typedef struct circe__gcv {
    double error, alone, ridge, degrees;
} circe__gcv;
circe_status circe__gcv_of(const circe__data *data, const circe__table *F, const circe__table *const targets[2],
                           const double extra[2], double near, circe__gcv found[2]);

/* Of independent rows, in two steps: reduced (r + 2, r), which no target counts in, and the rest. */
circe_status circe__gcv_reduce(const circe__data *data, const circe__table *F, double *reduced);
circe_status circe__gcv_reduced(const circe__data *data, const circe__table *F, const double *reduced,
                                const circe__table *const targets[2], const double extra[2], double near,
                                circe__gcv found[2]);

/* candidate.c: the same of features of y under a sight, at most `most`; *features: how many there are. What no target
 * counts in is shared with other tests of this y by their memory, by the key of_y (circe__key_of_y). */
circe_status circe__gcv_under(const circe__data *data, const circe__key *of_y, const circe__sight *sight, int64_t most,
                              const circe__table *const targets[2], const double extra[2], double near,
                              circe__gcv found[2], int64_t *features);

/* The sight for each target, from low ranks and some rows (screen.c). quick[t]: data->quick, and that was enough. */
circe_status circe__screen(const circe__data *data, const circe__table *const targets[2], circe__sight best[2],
                           bool quick[2]);
