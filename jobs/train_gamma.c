/* --gamma auto and --sweep: error and dependence along gamma, on rows that were left out in turn.
 *
 * The training and validation rows are cut into FOLDS parts. For each gamma, networks are trained on all parts but one
 * and predict that one, for as many of the parts as give MOST_ROWS: all five in a small table, one of 20,000 rows and
 * more. No row is lost to the choice, and the test rows are never looked at.
 *
 * Each part is tested by itself, and the p-values are combined. Tested as one sample, the parts would look far too
 * independent: a network learns to cancel the dependence that its own rows show by chance, and these rows are the other
 * parts. Over all parts, the cancellations add up to what chance shows in all rows, with the opposite sign. Five tests
 * of a fifth of the rows are about as sharp as one test of half of them.
 *
 * The grid is relative, since a useful gamma depends on loss and measure: gamma = unit 10^(k/2), where the unit
 * balances the loss L of the network without a regulariser with the measure R of z itself, as dependent as a prediction
 * can be.
 *
 * The search begins at START, goes up until dependence is not found twice in a row, and down until it is found beyond
 * doubt (p < .01). It ends when a prediction is hardly better than a constant, whose invariance is worth nothing.
 * gamma_choice.c chooses the gamma.
 *
 * Cost: about 5 to 10 gammas, each of one to five trainings with four fifths of the rows. Long trainings are cut to
 * LONG_STEPS steps here, after which the order of gammas is settled. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/gamma_choice.h"
#include "jobs/training.h"
#include "mpi/ranks.h"

enum {
    FOLDS = 5,
    MOST_ROWS = 4000,
    LEAST_TESTED = 100,
    LONG_STEPS = 4000,
    LOWEST = -5,
    START = 0,
    HIGHEST = 6,
    MOST_TRIALS = GAMMA_MOST_POINTS,
    ROUNDS = 2
};
static const double start_share = 30.0; /* units that START is */
static const double search_share = 0.7;

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
    double unit; /* of the grid */
    gamma_rules rules;
} search;

/* ---- folds ------------------------------------------------------------------------------------------------------- */

static int64_t pool_size(const search *s) { return s->job->set->training.n + s->job->set->validation.n; }

static int64_t folds_needed(int64_t n) {
    int64_t wanted = n < MOST_ROWS ? n : MOST_ROWS, of_fold = n / FOLDS > 0 ? n / FOLDS : 1;
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

/* The number of epochs of one run, whose steps take as long as those of the final one. */
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

/* The progress of the search, which does not know in advance how many gammas it will try. */
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
        OWNED float *made = NULL;
        show_stage(s, gamma, f);
        circe_status status = training_try(s->job, &trial);
        if (status == CIRCE_OK) status = training_ask(s->job, &which->left_out, &made);
        if (status == CIRCE_OK) memcpy(at, made, (size_t)(which->left_out.n * s->job->outputs) * sizeof *at);
        if (status != CIRCE_OK) return status;
        at += which->left_out.n * s->job->outputs;
    }
    return CIRCE_OK;
}

static double least_p(const circe_training_score *score) { return fmin(score->p_kci, score->p_gcm); }

/* As the choice sees it: rises with gamma. */
static double height_of(const search *s, const circe_training_score *score) {
    bool tolerant = isfinite(s->job->options->tolerance);
    return tolerant ? score->kpc_chance - score->kpc.value : gamma_height(least_p(score));
}

static bool is_invariant(const search *s, const circe_training_score *score) {
    return height_of(s, score) >= s->rules.enough;
}

/* A training that diverges is as useless as a constant. */
static void put_failure(const search *s, circe_training_score *score) {
    *score = training_unknown_score(s->rows.n);
    score->error = (circe_training_estimate){INFINITY, INFINITY, INFINITY};
    score->p_kci = score->p_gcm = 0;
}

/* Tests of rows first to first + n of all that were left out. */
static circe_status test_rows(search *s, int64_t first, int64_t n, circe_training_score *found) {
    training_part part = {.n = n, .z_numbers = io_rows(&s->rows.z_numbers, first, n)};
    part.data.y = io_rows(&s->rows.data.y, first, n);
    part.data.z = io_rows(&s->rows.data.z, first, n);
    return training_score_dependence(s->job, &part, s->outputs + first * s->job->outputs,
                                     s->job->options->sweep != NULL, found);
}

/* Of n tests of other rows each. */
static void combine(const circe_training_score *parts, int64_t n, circe_training_score *whole) {
    double kci[FOLDS], gcm[FOLDS], below = 0.0, above = 0.0, square = (double)(n * n);
    whole->kpc.value = whole->kpc_chance = 0.0;
    for (int64_t i = 0; i < n; i++) {
        kci[i] = parts[i].p_kci;
        gcm[i] = parts[i].p_gcm;
        whole->kpc.value += parts[i].kpc.value / (double)n;
        whole->kpc_chance += parts[i].kpc_chance / (double)n;
        below += pow(parts[i].kpc.value - parts[i].kpc.lower, 2) / square;
        above += pow(parts[i].kpc.upper - parts[i].kpc.value, 2) / square;
    }
    whole->p_kci = gamma_combined_p(kci, n);
    whole->p_gcm = gamma_combined_p(gcm, n);
    whole->kpc.lower = whole->kpc.value - sqrt(below);
    whole->kpc.upper = whole->kpc.value + sqrt(above);
}

/* The error of all rows that were left out; tests fold by fold, or of as many folds together as have LEAST_TESTED rows.
 */
static circe_status score(search *s, circe_training_score *found) {
    circe_training_score parts[FOLDS];
    int64_t n = 0, first = 0;
    circe_status status = training_score_error(s->job, &s->rows, s->outputs, found);
    for (int64_t f = 0, end = 0; f < s->n_folds && status == CIRCE_OK; f++) {
        end += s->folds[f].left_out.n;
        bool last = f == s->n_folds - 1;
        if (!last && (end - first < LEAST_TESTED || s->rows.n - end < LEAST_TESTED)) continue;
        status = test_rows(s, first, end - first, &parts[n++]);
        first = end;
    }
    if (status == CIRCE_OK) combine(parts, n, found);
    return status;
}

static circe_status evaluate(search *s, double gamma, circe_training_trial **found) {
    training_job *job = s->job;
    *found = find_trial(s, gamma);
    if (*found != NULL || s->n_trials == MOST_TRIALS) return CIRCE_OK;
    circe_training_trial trial = {.gamma = gamma};
    circe_status status = train_folds(s, gamma);
    bool diverged = status == CIRCE_ERR_NUMERIC && gamma > 0;
    if (diverged) status = CIRCE_OK;
    if (status == CIRCE_OK && ranks_rank() == 0 && !diverged) status = score(s, &trial.score);
    if (diverged) put_failure(s, &trial.score);
    status = ranks_agree(status);
    if (status != CIRCE_OK) return status;
    ranks_broadcast(0, &trial, sizeof trial);
    s->trials[s->n_trials] = trial;
    *found = &s->trials[s->n_trials++];
    return ranks_agree(ranks_rank() == 0 ? training_search_save(job, s->trials, s->n_trials) : CIRCE_OK);
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* The error of a constant prediction: the variance, or the entropy of the classes. */
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

/* With few rows no network is better than a constant. */
static void set_rules(search *s, double plain) {
    double tolerance = s->job->options->tolerance, trivial = fmax(trivial_error(s), 1.05 * plain);
    s->rules = isfinite(tolerance) ? gamma_rules_of_share(tolerance, trivial, plain) : gamma_rules_of_p(trivial, plain);
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
    set_rules(s, plain->score.error.value);
    s->unit = start_share * plain->score.error.value / (most > 1e-12 ? most : 1e-12);
    return CIRCE_OK;
}

static double gamma_at(const search *s, int k) { return gamma_rounded(s->unit * pow(10.0, 0.5 * k)); }

static int by_gamma(const void *a, const void *b) {
    double x = ((const circe_training_trial *)a)->gamma, y = ((const circe_training_trial *)b)->gamma;
    return (x > y) - (x < y);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_useless(const search *s, const circe_training_trial *t) {
    return !gamma_is_of_use(t->score.error.value, &s->rules);
}

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

/* Goes down from START to the first gamma that is of use and with which it is found beyond doubt. If it is found with
 * START and with all above, or with START by bad luck, a smaller gamma may leave no more of it at a smaller error. */
static circe_status descend(search *s) {
    for (int k = START; k >= LOWEST; k--) {
        circe_training_trial *t = NULL;
        circe_status status = evaluate(s, gamma_at(s, k), &t);
        bool found = t != NULL && height_of(s, &t->score) < s->rules.low;
        if (status != CIRCE_OK || t == NULL || (found && !is_useless(s, t))) return status;
    }
    return CIRCE_OK;
}

/* If dependence is found with every useful gamma, looks between the largest of them and the next one. */
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
        circe_status status = evaluate(s, gamma_rounded(sqrt(last->gamma * next->gamma)), &t);
        if (status != CIRCE_OK) return status;
    }
    return CIRCE_OK;
}

/* What was found with each gamma. */
static int64_t points_of(const search *s, gamma_point *points) {
    for (int64_t i = 0; i < s->n_trials; i++) {
        const circe_training_trial *t = &s->trials[i];
        points[i] = (gamma_point){t->gamma, t->score.error.value, height_of(s, &t->score)};
    }
    return s->n_trials;
}

/* The result at a crossing then becomes part of the curve. In the end, the choice is a gamma that was tried. */
static circe_status settle(search *s, double *taken, bool *reached) {
    gamma_point points[MOST_TRIALS];
    circe_status status = CIRCE_OK;
    for (int round = 0; round < ROUNDS && status == CIRCE_OK; round++) {
        circe_training_trial *t = NULL;
        double next = gamma_next(points, points_of(s, points), &s->rules);
        if (isfinite(next)) status = evaluate(s, next, &t);
    }
    *taken = gamma_take(points, points_of(s, points), &s->rules, reached);
    return status;
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

/* The smallest gamma above the chosen one with which dependence is not found, which costs too much; NULL: none is
 * known. */
static const circe_training_trial *find_costly(search *s) {
    const circe_training_trial *found = NULL;
    for (int64_t i = 0; i < s->n_trials; i++) {
        const circe_training_trial *t = &s->trials[i];
        bool fine = t->gamma > s->job->gamma && is_invariant(s, &t->score);
        if (fine && (found == NULL || t->gamma < found->gamma)) found = t;
    }
    return found;
}

static char *describe_left(const search *s, const circe_training_score *score) {
    return isfinite(s->job->options->tolerance)
               ? small_format("KPC is %.2g above chance", score->kpc.value - score->kpc_chance)
               : small_format("p = %.2g", least_p(score));
}

static void note_choice(search *s) {
    const circe_training_score *score = &find_trial(s, s->job->gamma)->score;
    const circe_training_trial *costly = find_costly(s);
    if (s->job->made->result.gamma_reached) return;
    OWNED char *left = describe_left(s, score), *there = costly != NULL ? describe_left(s, &costly->score) : NULL;
    OWNED char *other = costly != NULL
                            ? small_format("; with %g, %s, but the error is %.3g instead of %.3g", costly->gamma, there,
                                           costly->score.error.value, score->error.value)
                            : NULL;
    notes_add(&s->job->warnings,
              "no gamma that leaves a useful prediction reliably removes the dependence on %s; with the chosen one, "
              "%g, left-out rows show %s%s; more rows, a smaller --net or another --regularizer may help",
              s->job->options->invariant_to, s->job->gamma, left, other != NULL ? other : "");
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
        return circe_fail(CIRCE_ERR_ARGUMENT, "--sweep: %" PRId64 " gammas are given; at most %d are possible", n,
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
    r->trials = arena_alloc(&s->job->made->owner, (size_t)s->n_trials * sizeof *r->trials);
    memcpy(r->trials, s->trials, (size_t)s->n_trials * sizeof *r->trials);
    r->n_trials = s->n_trials;
    r->trial_rows = s->rows.n;
}

static circe_status recall(search *s) {
    OWNED circe_training_trial *known = NULL;
    int64_t n = 0;
    circe_status status = ranks_rank() == 0 ? training_search_load(s->job, &known, &n) : CIRCE_OK;
    status = ranks_agree(status);
    if (status == CIRCE_OK) {
        s->n_trials = n < MOST_TRIALS ? n : MOST_TRIALS;
        if (s->n_trials > 0) memcpy(s->trials, known, (size_t)s->n_trials * sizeof *known);
        ranks_broadcast(0, &s->n_trials, sizeof s->n_trials);
        ranks_broadcast(0, s->trials, sizeof s->trials);
    }
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
    OWNED search *s = small_alloc(sizeof *s);
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
    return status == CIRCE_ERR_CANCELLED ? interrupted(job) : status;
}
