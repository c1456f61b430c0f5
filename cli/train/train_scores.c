/* What a trained network is worth, on the validation rows.
 *
 *     error      MSE in the target's units and of standardised columns, R2 = 1 - MSE / variance; or cross-entropy and
 *                accuracy
 *     measures   CIRCE and HSIC (unbiased), HSCIC, GCM (max |T|) of the prediction, with the widths of the options:
 *                before training, after it, and of the target itself where that is not what is conditioned on
 *     floor      E[Var(target | given)], the error of the best prediction from `given` alone, by kernel ridge
 * regression on training rows, width and ridge by leave-one-out
 *
 * Measures compare all pairs of rows, so that at most MOST_MEASURED of them, which are in random order, are taken. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "cli/common/progress.h"
#include "cli/train/train_job.h"

enum { MOST_MEASURED = 2000 };

const char *const training_measure_name[N_MEASURED] = {"circe", "hscic", "gcm", "hsic"};

static const circe_measure_kind kind_of[N_MEASURED] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC, CIRCE_MEASURE_GCM,
                                                       CIRCE_MEASURE_HSIC};

static int refuse_library(const training_job *job, circe_status status) {
    if (status == CIRCE_ERR_CANCELLED) return training_job_interrupted(job);
    return message_read(status, NULL, circe_last_error());
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- error ------------------------------------------------------------------------------------------------------- */

static double target_of(const training_job *job, int64_t row, int64_t col) {
    const circe_mat *m = &job->set.validation.data.target;
    return (double)((const float *)m->data)[row * m->ld + col];
}

static double variance_of(const float *values, int64_t n, int64_t ld) {
    double mean = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n; i++) mean += (double)values[i * ld] / (double)n;
    for (int64_t i = 0; i < n; i++) sum += ((double)values[i * ld] - mean) * ((double)values[i * ld] - mean);
    return sum / (double)n;
}

static void score_numbers(training_job *job) {
    training_scores *s = &job->scores;
    const training_set *set = &job->set;
    int64_t n = set->validation.n, cols = job->outputs;
    s->columns = small_alloc((size_t)cols * sizeof *s->columns);
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0.0, unit = set->target_scale.deviation[c];
        for (int64_t i = 0; i < n; i++) {
            double difference = (double)job->after[i * cols + c] - target_of(job, i, c);
            sum += difference * difference;
        }
        double mse = sum / (double)n;
        double variance = variance_of((const float *)set->validation.data.target.data + c, n, cols);
        if (!(variance > 0.0))
            notes_add(&job->warnings, "the target '%s' is constant on the validation rows: there is no R2 of it",
                      training_column(set, &set->target, c));
        s->columns[c] = (training_error){mse * unit * unit, mse, 1.0 - mse / variance};
        s->loss += mse / (double)cols;
        s->r2 += s->columns[c].r2 / (double)cols;
        s->spread += variance_of(job->after + c, n, cols) / (double)cols;
    }
    s->accuracy = s->majority = NAN;
}

static int64_t best_class(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t c = 1; c < n; c++) {
        if (row[c] > row[best]) best = c;
    }
    return best;
}

static void score_classes(training_job *job) {
    training_scores *s = &job->scores;
    int64_t n = job->set.validation.n, cols = job->outputs, right = 0, most = 0, named = 0;
    int64_t *count = small_alloc((size_t)cols * sizeof *count), *guessed = small_alloc((size_t)cols * sizeof *guessed);
    for (int64_t i = 0; i < n; i++) {
        const float *row = job->after + i * cols;
        int64_t truth = (int64_t)target_of(job, i, 0), guess = best_class(row, cols);
        double others = 0.0; /* softmax, relative to the likeliest */
        for (int64_t c = 0; c < cols; c++) others += c == guess ? 0.0 : exp((double)row[c] - (double)row[guess]);
        s->loss += (log1p(others) + (double)row[guess] - (double)row[truth]) / (double)n;
        right += guess == truth;
        most = count[truth] + 1 > most ? count[truth] + 1 : most;
        count[truth]++;
        named += guessed[guess]++ == 0;
    }
    s->accuracy = (double)right / (double)n;
    s->majority = (double)most / (double)n;
    s->r2 = s->spread = NAN;
    if (named == 1)
        notes_add(&job->warnings, "every row is predicted as '%s': train longer, or take a smaller --gamma",
                  job->set.classes.names[best_class(job->after, cols)]);
    free(count);
    free(guessed);
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

static circe_mat first_rows(const circe_mat *m, int64_t n) {
    circe_mat part = *m;
    part.rows = n;
    return part;
}

/* Classes as one column each, as the network gives them. */
static float *target_as_outputs(const training_job *job, int64_t n) {
    float *x = small_alloc((size_t)(n * job->outputs) * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < job->outputs; c++)
            x[i * job->outputs + c] =
                job->set.loss == TRAIN_MSE ? (float)target_of(job, i, c) : (float)(target_of(job, i, 0) == (double)c);
    }
    return x;
}

/* Width of y and ridge that CIRCE's fit chose, which HSCIC's would choose again: the same kernels on the same rows. */
typedef struct settled {
    double sigma2_y, ridge;
    bool known;
} settled;

static void settle(const circe_measure *regularizer, int64_t cols_y, settled *choice) {
    circe_cme_info info;
    const circe_cme *cme = circe_measure_mean(regularizer);
    if (cme == NULL || circe_cme_get_info(cme, &info) != CIRCE_OK) return;
    /* widths of options are for distances averaged over columns; without a free width any number does */
    *choice = (settled){info.sigma2_y > 0 ? info.sigma2_y / (double)cols_y : 1.0, info.ridge, true};
}

/* The job's own where it measures the same, to be destroyed otherwise. */
static circe_status make_measure(const training_job *job, circe_measure_kind kind, const circe_mat *y,
                                 const circe_mat *z, const settled *choice, circe_measure **regularizer) {
    const training_set *set = &job->set;
    circe_measure_options options;
    training_regularizer_options(job, kind, &options);
    if (kind == job->kind &&
        (kind == CIRCE_MEASURE_HSCIC || kind == CIRCE_MEASURE_GCM || options.estimator == CIRCE_USTAT)) {
        *regularizer = job->regularizer;
        return CIRCE_OK;
    }
    options.estimator = CIRCE_USTAT;
    options.method = CIRCE_METHOD_AUTO;
    if (kind == CIRCE_MEASURE_HSCIC && choice->known) {
        options.sigma2_y = &choice->sigma2_y;
        options.ridge = &choice->ridge;
        options.n_sigma2_y = options.n_ridge = 1;
    }
    return train_regularizer_create(job->s->context, &options, y, z, &set->holdout.data.y,
                                    training_z(&set->holdout, kind), regularizer);
}

static circe_status measure_states(training_job *job, training_measure which, const float *const *x, int64_t n,
                                   settled *choice) {
    circe_measure *regularizer = NULL;
    const training_set *set = &job->set;
    circe_measure_kind kind = kind_of[which];
    circe_mat y = first_rows(&set->validation.data.y, n), z = first_rows(training_z(&set->validation, kind), n);
    circe_status status = make_measure(job, kind, &y, &z, choice, &regularizer);
    if (status == CIRCE_OK && kind == CIRCE_MEASURE_CIRCE) settle(regularizer, set->given.n, choice);
    for (int state = 0; state < N_STATES && status == CIRCE_OK; state++) {
        circe_mat values = circe_mat_f32(x[state], n, job->outputs);
        if (x[state] != NULL)
            status = circe_measure_points(regularizer, &values, &y, &z, &job->scores.value[state][which], NULL);
    }
    if (regularizer != job->regularizer) circe_measure_destroy(regularizer);
    return status;
}

static int measure_dependence(training_job *job) {
    const training_set *set = &job->set;
    for (int state = 0; state < N_STATES; state++) {
        for (int m = 0; m < N_MEASURED; m++) job->scores.value[state][m] = NAN;
    }
    if (!set->has_invariant) return EXIT_DONE;
    int64_t n = smaller(set->validation.n, MOST_MEASURED);
    float *target = set->given_is_target ? NULL : target_as_outputs(job, n);
    const float *const x[N_STATES] = {target, job->before, job->after};
    settled choice = {0};
    circe_status status = CIRCE_OK;
    for (int m = 0; m < N_MEASURED && status == CIRCE_OK; m++) {
        if (kind_of[m] != CIRCE_MEASURE_HSIC && set->holdout.n == 0) continue;
        status = measure_states(job, (training_measure)m, x, n, &choice);
    }
    if (set->holdout.n == 0)
        notes_add(&job->warnings, "without a holdout only HSIC is measured: the others need rows to regress on");
    progress_clear();
    job->scores.measured_rows = n;
    free(target);
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(job, status);
}

/* ---- the floor --------------------------------------------------------------------------------------------------- */

circe_status training_conditional_mean(const training_job *job, const circe_mat *y, const circe_mat *x,
                                       const circe_mat *at, circe_mat *mean) {
    const training_set *set = &job->set;
    circe_kernel *kernel_y = NULL, *linear = NULL;
    circe_cme *cme = NULL;
    circe_cme_options options;
    double widths[] = {1.0, 0.1, 0.01, 0.001};
    for (int i = 0; i < 4; i++) widths[i] *= (double)set->given.n; /* distances are averaged over columns */
    circe_cme_options_init(&options);
    options.sigma2_y = widths;
    options.n_sigma2_y = 4;
    circe_status status =
        circe_kernel_parse(job->s->context, set->kernel_y != NULL ? set->kernel_y : "gaussian", &kernel_y);
    if (status == CIRCE_OK) status = circe_kernel_create(job->s->context, CIRCE_KERNEL_LINEAR, 0.0, &linear);
    if (status == CIRCE_OK) status = circe_cme_fit(job->s->context, y, x, kernel_y, linear, &options, &cme);
    if (status == CIRCE_OK) status = circe_cme_mean(job->s->workspace, cme, at, mean);
    progress_clear();
    circe_cme_destroy(cme);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(linear);
    return status;
}

/* Rows to fit on: many columns leave no low rank, and the cost grows with the cube of the rows. */
static int64_t rows_to_fit(const training_set *set) {
    return smaller(set->training.n, set->given.n <= 2 ? 4000 : 1000);
}

/* On the very rows that the prediction is judged on, so that both share their luck. */
static int estimate_floor(training_job *job) {
    const training_set *set = &job->set;
    const training_part *part = &set->validation;
    job->scores.floor = NAN;
    if (!set->has_invariant || set->given_is_target || set->loss != TRAIN_MSE) return EXIT_DONE;
    int64_t n = rows_to_fit(set), cols = set->target.n;
    circe_mat y = first_rows(&set->training.data.y, n), target = first_rows(&set->training.data.target, n);
    double *data = calloc((size_t)(part->n * cols), sizeof *data), sum = 0.0;
    if (data == NULL) return message_fail(EXIT_WORK, "out of memory for %lld rows", (long long)part->n);
    circe_mat mean = circe_mat_f64(data, part->n, cols);
    circe_status status = training_conditional_mean(job, &y, &target, &part->data.y, &mean);
    for (int64_t i = 0; status == CIRCE_OK && i < part->n; i++) {
        for (int64_t c = 0; c < cols; c++) sum += pow(data[i * cols + c] - target_of(job, i, c), 2);
    }
    free(data);
    if (status != CIRCE_OK) return refuse_library(job, status);
    job->scores.floor = sum / (double)(part->n * cols);
    job->scores.floor_rows = n;
    return EXIT_DONE;
}

/* A prediction that hardly moves is invariant, and worthless: 0.4 of what the floor leaves to explain, as in the
 * reproduction of the paper; where no floor is known, a fiftieth of the target's variance. */
static void note_collapse(training_job *job) {
    const training_scores *s = &job->scores;
    bool known = isfinite(s->floor) && s->floor < 1.0;
    double least = known ? 0.4 * (1.0 - s->floor) : 0.02;
    if (job->set.loss != TRAIN_MSE || !(s->spread < least)) return;
    notes_add(&job->warnings, "the prediction has collapsed: its variance is %.2g of the target's%s; %s", s->spread,
              known ? ", much less than what is given explains" : "",
              job->kind != CIRCE_MEASURE_NONE ? "a smaller --gamma may help, or more epochs" : "more epochs may help");
}

int training_job_judge(training_job *job) {
    if (job->set.loss == TRAIN_MSE)
        score_numbers(job);
    else
        score_classes(job);
    int status = measure_dependence(job);
    if (status == EXIT_DONE) status = estimate_floor(job);
    if (status == EXIT_DONE) note_collapse(job);
    return status;
}
