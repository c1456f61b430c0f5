/* --gamma auto and --sweep: error and dependence along gamma, on rows that were left out in turn.
 *
 * The training and validation rows are cut into FOLDS parts. For each gamma, networks are trained on all parts but one
 * and predict that one, for as many of the parts as give half of all rows, or MOST_ROWS where that is fewer: three of
 * five in a small table, one of 10,000 rows and more. Tests are thus about as sharp as they will be on new rows, and no
 * row is lost to the choice. The test rows are never looked at.
 *
 * The grid is relative, since a useful gamma depends on loss and measure: gamma = unit 10^(k/2), where the unit
 * balances the loss L of the network without a regulariser with the measure R of z itself, as dependent as a prediction
 * can be.
 *
 * The search begins at START, goes up until dependence is not found twice in a row, and down until it is found. Then
 * p-values are smoothed to rise with gamma (isotonic regression of their normal quantiles), so that no single lucky or
 * unlucky one decides, and the gamma is taken where the curve crosses `margin`, between the points of the grid, or
 * where it comes to its most. The margin: the normal quantile of a p-value has noise of 1, so that one at the level is
 * found again on every second set of as many new rows, and one of .36 (1.64 - 1.28 from the level) on every tenth. The
 * smaller of two p-values, which is looked at here, is a little below that of each. The search ends where the error is
 * that of a constant prediction, which is invariant for nothing.
 *
 * Cost: about 5 to 10 gammas, each of one to three trainings with four fifths of the rows. Long trainings are cut to
 * LONG_STEPS steps here, after which the order of gammas is settled. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/training.h"
#include "mpi/ranks.h"

enum {
    FOLDS = 5,
    MOST_ROWS = 2000,
    LONG_STEPS = 4000,
    LOWEST = -5,
    START = 0,
    HIGHEST = 6,
    MOST_TRIALS = 64,
    ROUNDS = 2
};
static const double start_share = 30.0; /* units that START is */
static const double level = 0.05, margin = 0.3, near = 1.3, noise = 0.3, free_error = 1.05, dear = 1.5,
                    search_share = 0.7;

typedef struct fold {
    training_part training, left_out;
    circe_measure *regularizer;
} fold;

typedef struct search {
    training_job *job;
    fold folds[FOLDS];
    int64_t n_folds, epochs;
    training_part rows; /* all that are left out, fold by fold */
    float *outputs;     /* (rows, outputs) */
    circe_training_trial trials[MOST_TRIALS];
    int64_t n_trials;
    double unit, trivial; /* of the grid; the error of a constant prediction */
} search;

/* ---- folds ------------------------------------------------------------------------------------------------------- */

static int64_t pool_size(const search *s) { return s->job->set->training.n + s->job->set->validation.n; }

static int64_t folds_needed(int64_t n) {
    int64_t wanted = n / 2 < MOST_ROWS ? n / 2 : MOST_ROWS, of_fold = n / FOLDS > 0 ? n / FOLDS : 1;
    int64_t folds = (wanted + of_fold - 1) / of_fold;
    return folds < FOLDS ? folds : FOLDS;
}

/* Rows at, at + 1, ... of the pool whose fold is `which`, or is another one. They are in random order already. */
static int64_t list_rows(int64_t n, int64_t which, bool left_out, int64_t *rows) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if ((i % FOLDS == which) == left_out) rows[kept++] = i;
    return kept;
}

static circe_status make_fold(search *s, int64_t which, int64_t *rows) {
    const training_set *set = s->job->set;
    fold *f = &s->folds[which];
    int64_t n = pool_size(s), kept = list_rows(n, which, false, rows);
    circe_status status = training_part_gather(set, rows, kept, &f->training);
    kept = list_rows(n, which, true, rows);
    if (status == CIRCE_OK) status = training_part_gather(set, rows, kept, &f->left_out);
    if (status != CIRCE_OK) return status;
    return training_regularizer_for(s->job, &f->training, set->shares_rows ? &f->training : &set->holdout,
                                    &f->regularizer);
}

/* The rows that are left out are judged as one part. */
static circe_status pool_left_out(search *s, int64_t *rows) {
    int64_t n = pool_size(s), kept = 0;
    for (int64_t f = 0; f < s->n_folds; f++) kept += list_rows(n, f, true, rows + kept);
    s->outputs = malloc((size_t)(kept * s->job->outputs + 1) * sizeof *s->outputs);
    if (s->outputs == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " predictions", kept);
    return training_part_gather(s->job->set, rows, kept, &s->rows);
}

/* Of one run, in which steps cost what they cost in the final one. */
static int64_t epochs_of(const search *s) {
    const circe_train_options *o = s->job->options;
    int64_t per_epoch = s->folds[0].training.n / o->batch, all = o->epochs;
    int64_t enough = per_epoch > 0 ? (LONG_STEPS + per_epoch - 1) / per_epoch : all;
    return enough < all ? enough : all;
}

static circe_status open_search(search *s) {
    int64_t n = pool_size(s), *rows = malloc((size_t)(n + 1) * sizeof *rows);
    if (rows == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
    s->n_folds = folds_needed(n);
    circe_status status = pool_left_out(s, rows);
    for (int64_t f = 0; f < s->n_folds && status == CIRCE_OK; f++) status = make_fold(s, f, rows);
    free(rows);
    if (status == CIRCE_OK) s->epochs = epochs_of(s);
    return status;
}

static void close_search(search *s) {
    for (int64_t f = 0; f < s->n_folds; f++) {
        circe_measure_destroy(s->folds[f].regularizer);
        training_part_free(&s->folds[f].training);
        training_part_free(&s->folds[f].left_out);
    }
    training_part_free(&s->rows);
    free(s->outputs);
}

/* ---- one gamma --------------------------------------------------------------------------------------------------- */

static circe_training_trial *find_trial(search *s, double gamma) {
    for (int64_t i = 0; i < s->n_trials; i++)
        if (s->trials[i].gamma == gamma) return &s->trials[i];
    return NULL;
}

/* How far the search is, which does not know how far it has to go. */
static void show_stage(search *s, double gamma, int64_t which) {
    training_job *job = s->job;
    double done = (double)s->n_trials + (double)which / (double)s->n_folds;
    job->from = search_share * (1 - pow(0.85, done));
    job->to = search_share * (1 - pow(0.85, done + 1 / (double)s->n_folds));
    snprintf(job->stage, sizeof job->stage, "gamma %.3g, part %" PRId64 " of %" PRId64 ": ", gamma, which + 1,
             s->n_folds);
}

static circe_status train_folds(search *s, double gamma) {
    float *at = s->outputs;
    for (int64_t f = 0; f < s->n_folds; f++) {
        const fold *which = &s->folds[f];
        const training_trial trial = {.rows = &which->training,
                                      .regularizer = gamma > 0 ? which->regularizer : NULL,
                                      .gamma = gamma,
                                      .seed = (uint64_t)(s->job->options->seed + f),
                                      .epochs = s->epochs};
        float *made = NULL;
        show_stage(s, gamma, f);
        circe_status status = training_try(s->job, &trial);
        if (status == CIRCE_OK) status = training_ask(s->job, &which->left_out, &made);
        if (status == CIRCE_OK) memcpy(at, made, (size_t)(which->left_out.n * s->job->outputs) * sizeof *at);
        free(made);
        if (status != CIRCE_OK) return status;
        at += which->left_out.n * s->job->outputs;
    }
    return CIRCE_OK;
}

static bool is_invariant(const search *s, const circe_training_score *score) {
    double tolerance = s->job->options->tolerance;
    if (isfinite(tolerance)) return !(score->kpc.value - score->kpc_chance > tolerance);
    return fmin(score->p_kci, score->p_gcm) > level;
}

/* A training that diverges is as useless as a constant. */
static void put_failure(const search *s, circe_training_score *score) {
    *score = (circe_training_score){.rows = s->rows.n,
                                    .error = {INFINITY, INFINITY, INFINITY},
                                    .accuracy = NAN,
                                    .auc = NAN,
                                    .p_kci = 0,
                                    .p_gcm = 0,
                                    .kpc = {NAN, NAN, NAN},
                                    .kpc_chance = NAN};
}

static circe_status evaluate(search *s, double gamma, circe_training_trial **found) {
    training_job *job = s->job;
    *found = find_trial(s, gamma);
    if (*found != NULL || s->n_trials == MOST_TRIALS) return CIRCE_OK;
    circe_training_trial trial = {.gamma = gamma};
    circe_status status = train_folds(s, gamma);
    bool diverged = status == CIRCE_ERR_NUMERIC && gamma > 0;
    if (diverged) status = CIRCE_OK;
    if (status == CIRCE_OK && ranks_rank() == 0 && !diverged)
        status = training_score(job, &s->rows, s->outputs, s->job->options->sweep != NULL, &trial.score);
    if (diverged) put_failure(s, &trial.score);
    status = ranks_agree(status);
    if (status != CIRCE_OK) return status;
    ranks_broadcast(0, &trial, sizeof trial);
    s->trials[s->n_trials] = trial;
    *found = &s->trials[s->n_trials++];
    return ranks_agree(ranks_rank() == 0 ? training_search_save(job, s->trials, s->n_trials) : CIRCE_OK);
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Of a prediction that is the same for all: the variance, or the entropy of the classes. */
static double trivial_error(const search *s) {
    const training_set *set = s->job->set;
    const float *target = s->rows.data.target.data;
    if (set->loss == TRAIN_MSE) return 1.0;
    double *share = small_alloc((size_t)set->classes.n * sizeof *share), entropy = 0.0;
    for (int64_t i = 0; i < s->rows.n; i++) share[(int64_t)target[i]] += 1.0 / (double)s->rows.n;
    for (int64_t c = 0; c < set->classes.n; c++) entropy -= share[c] > 0 ? share[c] * log(share[c]) : 0.0;
    free(share);
    return entropy;
}

/* The measure of z itself as the prediction. */
static circe_status find_unit(search *s) {
    training_job *job = s->job;
    const fold *f = &s->folds[0];
    const circe_mat *z = &f->left_out.z_numbers;
    circe_training_trial *plain = NULL;
    double most = NAN;
    circe_status status = evaluate(s, 0.0, &plain);
    if (status == CIRCE_OK && plain == NULL) return CIRCE_OK;
    circe_mat x = *z, y = f->left_out.data.y, own = *training_z(&f->left_out, job->kind);
    if (x.rows > MOST_ROWS) x.rows = y.rows = own.rows = MOST_ROWS;
    if (status == CIRCE_OK) status = circe_measure_points(f->regularizer, &x, &y, &own, &most, NULL);
    if (status != CIRCE_OK) return status;
    s->trivial = fmax(trivial_error(s), 1.05 * plain->score.error.value); /* with few rows no network is better */
    s->unit = start_share * plain->score.error.value / (most > 1e-12 ? most : 1e-12);
    return CIRCE_OK;
}

/* Two digits, so that people can repeat it. */
static double two_digits(double gamma) {
    double decade = pow(10.0, floor(log10(gamma)) - 1);
    return round(gamma / decade) * decade;
}

static double gamma_at(const search *s, int k) { return two_digits(s->unit * pow(10.0, 0.5 * k)); }

/* Of the standard normal distribution, by bisection: a few calls a run. */
static double normal_quantile(double p) {
    double low = -10, high = 10;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2.0)) / 2 < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int by_gamma(const void *a, const void *b) {
    double x = ((const circe_training_trial *)a)->gamma, y = ((const circe_training_trial *)b)->gamma;
    return (x > y) - (x < y);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_useless(const search *s, const circe_training_trial *t) { return !(t->score.error.value <= s->trivial); }

static double least_p(const circe_training_trial *t) { return fmin(t->score.p_kci, t->score.p_gcm); }

/* Goes up from START to the second gamma in a row with which dependence is not found. */
static circe_status climb(search *s) {
    bool before = false;
    for (int k = START; k <= HIGHEST; k++) {
        circe_training_trial *t = NULL;
        circe_status status = evaluate(s, gamma_at(s, k), &t);
        if (status != CIRCE_OK || t == NULL || is_useless(s, t)) return status;
        bool fine = is_invariant(s, &t->score);
        if (fine && before) return CIRCE_OK;
        before = fine;
    }
    return CIRCE_OK;
}

/* Goes down from START to the first gamma that is of use and with which it is found. */
static circe_status descend(search *s) {
    for (int k = START; k >= LOWEST; k--) {
        circe_training_trial *t = NULL;
        circe_status status = evaluate(s, gamma_at(s, k), &t);
        if (status != CIRCE_OK || t == NULL || !(is_useless(s, t) || is_invariant(s, &t->score))) return status;
    }
    return CIRCE_OK;
}

/* Where dependence is found with every gamma of use: looks between the largest of them and the next one. */
static circe_status bisect(search *s) {
    for (int round = 0; round < ROUNDS; round++) {
        circe_training_trial *last = NULL, *next = NULL, *t = NULL;
        qsort(s->trials, (size_t)s->n_trials, sizeof s->trials[0], by_gamma);
        for (int64_t i = 1; i < s->n_trials && next == NULL; i++) {
            if (is_useless(s, &s->trials[i]))
                next = &s->trials[i];
            else
                last = &s->trials[i];
        }
        if (last == NULL || next == NULL || is_invariant(s, &last->score)) return CIRCE_OK;
        circe_status status = evaluate(s, two_digits(sqrt(last->gamma * next->gamma)), &t);
        if (status != CIRCE_OK) return status;
    }
    return CIRCE_OK;
}

/* What has to rise with gamma: a normal quantile, or with a tolerance the share that is left, turned round. */
static double height_of(const search *s, const circe_training_trial *t) {
    if (isfinite(s->job->options->tolerance)) return t->score.kpc_chance - t->score.kpc.value;
    return normal_quantile(fmin(fmax(least_p(t), 1e-12), 0.999));
}

/* height (n) := the nearest that never falls: neighbours that do are replaced by their mean. */
static void smooth(double *height, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        double sum = height[i];
        int64_t first = i, count = 1;
        while (first > 0 && height[first - 1] > sum / (double)count) sum += height[--first], count++;
        for (int64_t j = first; j <= i; j++) height[j] = sum / (double)count;
    }
}

/* The error beyond which a gamma is not worth looking at, since with a smaller one and its neighbour dependence is not
 * found either; a single unlucky test further up must not drag the choice to the end of the grid. The trials ascend. */
static double dearest(const search *s) {
    for (int64_t i = 1; i + 1 < s->n_trials; i++) {
        const circe_training_trial *t = &s->trials[i];
        bool fine = is_invariant(s, &t[0].score) && is_invariant(s, &t[1].score);
        if (fine && t->gamma > 0.0 && !is_useless(s, &t[1])) return dear * t->score.error.value;
    }
    return INFINITY;
}

/* The gammas that are of use, ascending, and their smoothed heights; returns how many. */
static int64_t smoothed(search *s, double *gamma, double *height) {
    int64_t n = 0;
    qsort(s->trials, (size_t)s->n_trials, sizeof s->trials[0], by_gamma);
    double limit = dearest(s);
    for (int64_t i = 0; i < s->n_trials; i++) {
        if (is_useless(s, &s->trials[i]) || s->trials[i].score.error.value > limit) continue;
        gamma[n] = s->trials[i].gamma;
        height[n++] = height_of(s, &s->trials[i]);
    }
    smooth(height, n);
    return n;
}

/* Where the curve crosses `wanted`, or nearly what it comes to where that is less: its last step up is noise. */
static double crossing(const double *gamma, const double *height, int64_t n, double wanted, double slack) {
    int64_t at = n > 1 ? 1 : 0; /* above 0, where there is such a one */
    wanted = fmin(wanted, height[n - 1] - slack);
    while (at < n - 1 && height[at] < wanted) at++;
    if (at == 0 || gamma[at - 1] == 0.0 || height[at - 1] >= wanted) return gamma[at];
    double share = (height[at] - wanted) / (height[at] - height[at - 1]);
    return two_digits(gamma[at] * pow(gamma[at - 1] / gamma[at], share));
}

/* That of a trial which is hardly larger; itself: there is none. */
static double known_nearby(const search *s, double gamma) {
    for (int64_t i = 0; i < s->n_trials; i++) {
        double ratio = s->trials[i].gamma / gamma;
        if (ratio <= near && ratio >= 0.95 && !is_useless(s, &s->trials[i])) return s->trials[i].gamma;
    }
    return gamma;
}

/* The largest gamma from `gamma` up whose error is next to the least of them: margin for little. With few rows the
 * regulariser even lowers the error. */
static double as_good(const search *s, double gamma) {
    double least = INFINITY, largest = gamma;
    for (int64_t i = 0; i < s->n_trials; i++)
        if (s->trials[i].gamma >= gamma) least = fmin(least, s->trials[i].score.error.value);
    for (int64_t i = 0; i < s->n_trials; i++)
        if (s->trials[i].gamma > largest && s->trials[i].score.error.value <= free_error * least)
            largest = s->trials[i].gamma;
    return largest;
}

/* Where a constant is as good as every network: there is nothing to choose from. */
static circe_status take_the_first(const search *s, double *taken, bool *reached) {
    *taken = s->n_trials > 0 ? s->trials[0].gamma : 0.0;
    *reached = false;
    return CIRCE_OK;
}

/* What is found at a crossing is part of the curve then; in the end the first gamma that was tried and is high enough.
 */
static circe_status settle(search *s, double *taken, bool *reached) {
    double tolerance = s->job->options->tolerance, gamma[MOST_TRIALS], height[MOST_TRIALS];
    bool tolerant = isfinite(tolerance);
    double wanted = tolerant ? -tolerance : normal_quantile(margin),
           enough = tolerant ? wanted : normal_quantile(level);
    circe_status status = CIRCE_OK;
    int64_t n = 0, at = 1;
    for (int round = 0; round < ROUNDS && status == CIRCE_OK; round++) {
        circe_training_trial *t = NULL;
        n = smoothed(s, gamma, height);
        if (n == 0) return take_the_first(s, taken, reached);
        status = evaluate(s, known_nearby(s, crossing(gamma, height, n, wanted, tolerant ? 0.0 : noise)), &t);
    }
    if (status != CIRCE_OK) return status;
    n = smoothed(s, gamma, height);
    if (n == 0) return take_the_first(s, taken, reached);
    wanted = fmin(wanted, height[n - 1] - (tolerant ? 0.0 : noise));
    while (at < n && height[at] < wanted) at++;
    *taken = gamma[at < n ? at : n - 1];
    *reached = height[n - 1] >= enough;
    if (*reached && !tolerant) *taken = as_good(s, *taken);
    return CIRCE_OK;
}

static circe_status choose(search *s) {
    circe_training *r = &s->job->made->result;
    bool reached = false;
    circe_status status = climb(s);
    if (status == CIRCE_OK) status = descend(s);
    if (status == CIRCE_OK) status = bisect(s);
    if (status == CIRCE_OK) status = settle(s, &s->job->gamma, &reached);
    if (status != CIRCE_OK) return status;
    find_trial(s, s->job->gamma)->chosen = 1;
    r->gamma_chosen = 1;
    r->gamma_reached = reached;
    return CIRCE_OK;
}

static void note_choice(search *s) {
    const circe_training_score *score = &find_trial(s, s->job->gamma)->score;
    if (s->job->made->result.gamma_reached) return;
    notes_add(&s->job->warnings,
              "with every gamma the prediction still depends on %s; gamma %g was chosen because it leaves the least "
              "dependence (p = %.2g); more rows, a smaller --net or another --regularizer may help",
              s->job->options->invariant_to, s->job->gamma, fmin(score->p_kci, score->p_gcm));
}

/* ---- a sweep ----------------------------------------------------------------------------------------------------- */

static circe_status sweep(search *s) {
    const circe_train_options *o = s->job->options;
    double gammas[MOST_TRIALS];
    int64_t n = 0;
    circe_training_trial *t = NULL;
    circe_status status = CIRCE_OK;
    if (o->sweep == NULL) return CIRCE_OK;
    circe_options_numbers(&circe_train_schema, o, "sweep", NULL, &n);
    if (n > MOST_TRIALS / 2)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--sweep: %" PRId64 " gammas are given; at most %d are swept", n,
                          MOST_TRIALS / 2);
    if (n > 0) circe_options_numbers(&circe_train_schema, o, "sweep", gammas, &n);
    for (int k = START - 5; n == 0 && k <= START + 3; k++) gammas[k - START + 5] = gamma_at(s, k);
    if (n == 0) n = 9;
    for (int64_t i = 0; i < n && status == CIRCE_OK; i++) status = evaluate(s, gammas[i], &t);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void hand_over(search *s) {
    circe_training *r = &s->job->made->result;
    for (int64_t i = 0; i < s->n_trials; i++) s->trials[i].invariant = is_invariant(s, &s->trials[i].score);
    qsort(s->trials, (size_t)s->n_trials, sizeof s->trials[0], by_gamma);
    r->trials = small_alloc((size_t)s->n_trials * sizeof *r->trials);
    memcpy(r->trials, s->trials, (size_t)s->n_trials * sizeof *r->trials);
    r->n_trials = s->n_trials;
    r->trial_rows = s->rows.n;
}

static circe_status recall(search *s) {
    circe_training_trial *known = NULL;
    int64_t n = 0;
    circe_status status = ranks_rank() == 0 ? training_search_load(s->job, &known, &n) : CIRCE_OK;
    status = ranks_agree(status);
    if (status == CIRCE_OK) {
        s->n_trials = n < MOST_TRIALS ? n : MOST_TRIALS;
        if (s->n_trials > 0) memcpy(s->trials, known, (size_t)s->n_trials * sizeof *known);
        ranks_broadcast(0, &s->n_trials, sizeof s->n_trials);
        ranks_broadcast(0, s->trials, sizeof s->trials);
    }
    free(known);
    return status;
}

static circe_status interrupted(const training_job *job) {
    circe_fail(CIRCE_ERR_CANCELLED, "interrupted during the search for gamma");
    if (job->options->output == NULL) return CIRCE_ERR_CANCELLED;
    return circe_fail_hint(CIRCE_ERR_CANCELLED,
                           "the same command with --resume continues after the gammas in %s.search",
                           job->options->output);
}

circe_status training_choose_gamma(training_job *job) {
    bool chosen = job->gamma == CIRCE_AUTO, swept = job->options->sweep != NULL && job->kind != CIRCE_MEASURE_NONE;
    job->made->result.tolerance = job->options->tolerance;
    if (!chosen && !swept) return CIRCE_OK;
    search *s = small_alloc(sizeof *s);
    s->job = job;
    circe_status status = open_search(s);
    if (status == CIRCE_OK) status = recall(s);
    if (status == CIRCE_OK) status = find_unit(s);
    if (status == CIRCE_OK) status = sweep(s);
    if (status == CIRCE_OK && chosen) status = choose(s);
    if (status == CIRCE_OK && chosen) note_choice(s);
    if (status == CIRCE_OK) hand_over(s);
    job->from = job->to = search_share;
    close_search(s);
    free(s);
    return status == CIRCE_ERR_CANCELLED ? interrupted(job) : status;
}
