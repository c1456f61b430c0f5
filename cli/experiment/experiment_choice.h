/* Choosing among what a method leaves open, on validation data alone. */
#ifndef CLI_EXPERIMENT_CHOICE_H
#define CLI_EXPERIMENT_CHOICE_H

#include "cli/experiment/experiment_summary.h"

/* Marks, of every group in the rows, the choice that is best by its kind (the first of equals). One with runs that
 * failed comes after all others, and one without any that is done is never chosen. */
void experiment_choose(const experiment_kind *kind, summary_row *rows, int64_t n);

/* Gives the final runs of a group their choice once all its tuning runs ended. */
void experiment_settle(experiment_plan *plan, int64_t group);

/* ---- by kind of experiment: of one run, and between the rows of two choices ---------------------------------------
 */

/* Synthetic models: the smaller mean over runs of floor + |error - floor| + VCF. An error below the floor is had by
 * following z, and counts like one above it; a constant predictor scores 1, so that collapsing does not pay. Without a
 * regulariser it is the error: there is no invariance to be had. */
bool experiment_better_synthetic(const summary_row *a, const summary_row *b);
double experiment_score_synthetic(const experiment_result *result, bool regularized);

/* Pictures: the score of a run is its dependence on validation rows in standard errors (without a regulariser, the
 * validation error). The smallest gamma, that is the weakest regularisation, whose dependence cannot be detected any
 * more, that of all runs together being below 2 standard errors; where there is none, the one with the fewest. Between
 * equals the smaller validation error. What predicts no better than a constant, in any run, is not chosen while there
 * is another. Nothing out of domain is looked at. */
#define EXPERIMENT_USELESS 1e30 /* the score of such a prediction */
/* Of all runs together, in standard errors: each is evidence of its own, so that three of 1.9 are 3.3 (Stouffer).
 * EXPERIMENT_USELESS where a run is. */
double experiment_evidence(const summary_row *row);
bool experiment_better_images(const summary_row *a, const summary_row *b);
double experiment_score_images(const experiment_result *result, bool regularized);

#endif
