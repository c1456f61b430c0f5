/* Watches a training, and warns once about each condition that would make the result worthless.
 *
 *     the mean of k(x_i, x_j) over pairs of rows outside [.05, .95]    the regulariser sees nothing
 *     the features' standard deviation five times or a fifth of the first epoch's
 *     predictions that hardly vary, or much less than --given explains, or with an error above that of a constant
 *                                                                      at the end, on the judged rows: the first that
 *                                                                      holds; what helps depends on whether the
 *                                                                      network overfits
 *
 * The first two are checked at the end of every epoch of the requested network, if it has a regulariser. A resumed run
 * also checks the earlier epochs, so that it warns about the same things as an uninterrupted one. */
#include <inttypes.h>
#include <math.h>

#include "jobs/training.h"

static const double least_kernel = 0.05, most_kernel = 0.95, most_drift = 5.0, least_spread = 0.02, overfit = 1.1;

/* true: for the first time. */
static bool first_time(training_watchman *w, unsigned what) {
    bool first = (w->said & what) == 0;
    w->said |= what;
    return first;
}

static void look_at_kernel(training_job *job, int64_t number, const train_epoch *e) {
    training_watchman *w = &job->watchman;
    if (e->mean_kernel < least_kernel && first_time(w, TRAINING_NARROW))
        notes_add(&job->warnings,
                  "epoch %" PRId64
                  ": the kernel of the regularised features averages %.2g between two rows; it is so narrow that the "
                  "regulariser hardly sees dependence, and the features can grow to hide it; use --sigma2-x median",
                  number, e->mean_kernel);
    if (e->mean_kernel > most_kernel && first_time(w, TRAINING_CONSTANT))
        notes_add(&job->warnings,
                  "epoch %" PRId64
                  ": the kernel of the regularised features averages %.3f between two rows; to the kernel the features "
                  "hardly vary, so the regulariser is small even if they depend on something; use --sigma2-x median, "
                  "or a smaller --gamma if the prediction has collapsed",
                  number, e->mean_kernel);
}

static void look_at_scale(training_job *job, int64_t number, const train_epoch *e) {
    training_watchman *w = &job->watchman;
    double ratio = e->spread / w->spread;
    bool follows = job->options->sigma2_x < 0;
    if (!(ratio > most_drift || ratio < 1.0 / most_drift) || !first_time(w, TRAINING_DRIFT)) return;
    notes_add(
        &job->warnings,
        "epoch %" PRId64 ": the standard deviation of the regularised features has %s from %.3g to %.3g; %s", number,
        ratio > 1.0 ? "grown" : "shrunk", w->spread, e->spread,
        !follows ? "with a fixed --sigma2-x, the regulariser no longer measures the same thing; use --sigma2-x median"
        : ratio > 1.0 ? "the width adapts, but a larger --weight-decay or a smaller --lr would keep training steady"
                      : "the prediction may collapse to a constant; try a smaller --gamma");
}

void training_watch_epochs(training_job *job, const train_epoch *history, int64_t epochs) {
    training_watchman *w = &job->watchman;
    if (job->stage[0] != '\0' || job->gamma == 0.0) return; /* a trial, the baseline, or nothing to watch over */
    for (; w->epochs < epochs; w->epochs++) {
        const train_epoch *e = &history[w->epochs];
        if (!(w->spread > 0.0)) w->spread = e->spread;
        look_at_kernel(job, w->epochs + 1, e);
        look_at_scale(job, w->epochs + 1, e);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The standard deviation of output c over the judged rows. */
static double deviation(const float *outputs, int64_t rows, int64_t cols, int64_t c) {
    double mean = 0.0, square = 0.0;
    for (int64_t i = 0; i < rows; i++) mean += (double)outputs[i * cols + c] / (double)rows;
    for (int64_t i = 0; i < rows; i++)
        square += ((double)outputs[i * cols + c] - mean) * ((double)outputs[i * cols + c] - mean) / (double)rows;
    return sqrt(square);
}

/* Outputs are in units of the target's standard deviation; of classes they are logarithms of odds. */
static double largest_deviation(const training_job *job) {
    const float *outputs = job->made->after;
    double largest = 0.0;
    for (int64_t c = 0; outputs != NULL && c < job->outputs; c++)
        largest = fmax(largest, deviation(outputs, training_judged(job->set)->n, job->outputs, c));
    return outputs != NULL ? largest : NAN;
}

/* Did the loss on the validation rows rise again? NaN, where there are none, is no rise. */
static bool learned_by_heart(const training_job *job) {
    const circe_training *r = &job->made->result;
    double least = INFINITY;
    if (r->epochs == 0 || job->options->patience > 0) return false;
    for (int64_t e = 0; e < r->epochs; e++) least = fmin(least, r->history[e].validation_loss);
    return r->history[r->epochs - 1].validation_loss > overfit * least;
}

static bool knows_floor(const circe_training *r) { return isfinite(r->floor) && r->floor < 1.0; }

/* A prediction that hardly moves is invariant, and worthless: 0.4 of what the floor leaves to explain, as in the
 * reproduction of the paper; where no floor is known, a fiftieth of the target's variance. */
static bool has_collapsed(const training_job *job) {
    const circe_training *r = &job->made->result;
    double least = knows_floor(r) ? 0.4 * (1.0 - r->floor) : 0.02;
    return job->set->loss == TRAIN_MSE && r->spread < least;
}

static const char *remedy_for(const training_job *job) {
    if (learned_by_heart(job))
        return "the loss of the validation rows fell and rose again, so the network learns its rows by heart; "
               "--patience, a larger --weight-decay or a smaller --net may help";
    return job->made->result.regularised ? "a smaller --gamma or more --epochs may help"
                                         : "more --epochs, another --net or other features may help";
}

void training_watch_end(training_job *job) {
    const circe_training *r = &job->made->result;
    const char *remedy = remedy_for(job);
    double spread = largest_deviation(job);
    if (training_judged(job->set)->n < 2) return;
    if (spread < least_spread)
        notes_add(&job->warnings, "the prediction is nearly the same for every row (standard deviation %.2g); %s",
                  spread, remedy);
    else if (has_collapsed(job))
        notes_add(&job->warnings, "the prediction has collapsed: its variance is %.2g of the target's%s; %s", r->spread,
                  knows_floor(r) ? ", much less than --given explains" : "", remedy);
    else if (job->set->loss == TRAIN_MSE && r->score.error.value > 1.0)
        notes_add(&job->warnings, "R2 is %.3g, below 0: the mean of the target would predict these rows better; %s",
                  1.0 - r->score.error.value, remedy);
    else if (job->set->loss != TRAIN_MSE && r->score.accuracy < r->majority)
        notes_add(&job->warnings, "the accuracy is %.3g, but always choosing the most frequent class gives %.3g; %s",
                  r->score.accuracy, r->majority, remedy);
}
