/* Scores a trained network on the judged rows: the test rows, or the validation rows if there are none.
 *
 *     error      MSE in the target's units and in units of these rows' variance, R2 = 1 less that; or cross-entropy and
 *                accuracy
 *     measures   CIRCE and HSIC (unbiased), HSCIC, GCM (max |T|) of the prediction, with the widths of the options, of
 *                the baseline's, and of the target itself where that is not what is conditioned on
 *     scores     of the network and of its baseline, and their difference row by row (train_score.c)
 *     floor      E[Var(target | given)], the error of the best prediction from `given` alone, by kernel ridge
 *                regression on training rows, width and ridge by leave-one-out
 *
 * Measures compare all pairs of rows, so they use at most MOST_MEASURED rows, which are in random order. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "jobs/training.h"

enum { MOST_MEASURED = 2000 };

static const circe_measure_kind kind_of[CIRCE_TRAINING_MEASURES] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC,
                                                                    CIRCE_MEASURE_GCM, CIRCE_MEASURE_HSIC};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- error ------------------------------------------------------------------------------------------------------- */

/* Standardised, or a class. */
static double target_of(const trained *t, int64_t row, int64_t col) {
    const circe_mat *m = &training_judged(&t->set)->data.target;
    return (double)((const float *)m->data)[row * m->ld + col];
}

static double in_units(const trained *t, double value, int64_t col) {
    return value * t->set.target_scale.deviation[col] + t->set.target_scale.mean[col];
}

double training_target_in_units(const trained *t, int64_t row, int64_t col) {
    return in_units(t, target_of(t, row, col), col);
}

double training_prediction_in_units(const trained *t, int64_t row, int64_t col) {
    return in_units(t, (double)t->after[row * t->result.outputs + col], col);
}

int64_t training_true_class(const trained *t, int64_t row) { return (int64_t)target_of(t, row, 0); }

int64_t training_found_class(const trained *t, int64_t row) {
    return training_likeliest(t->after + row * t->result.outputs, t->result.outputs);
}

static double variance_of(const float *values, int64_t n, int64_t ld) {
    double mean = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n; i++) mean += (double)values[i * ld] / (double)n;
    for (int64_t i = 0; i < n; i++) sum += ((double)values[i * ld] - mean) * ((double)values[i * ld] - mean);
    return sum / (double)n;
}

static double mean_square(const trained *t, int64_t col) {
    int64_t n = training_judged(&t->set)->n, cols = t->result.outputs;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double difference = (double)t->after[i * cols + col] - target_of(t, i, col);
        sum += difference * difference;
    }
    return sum / (double)n;
}

static void score_numbers(training_job *job) {
    trained *t = job->made;
    circe_training *r = &t->result;
    const training_part *part = training_judged(&t->set);
    int64_t n = part->n, cols = job->outputs;
    double all = training_loss_unit(&t->set, part);
    r->errors = arena_alloc(&t->owner, (size_t)cols * sizeof *r->errors);
    r->loss = r->r2 = r->spread = 0.0;
    for (int64_t c = 0; c < cols; c++) {
        const char *name = training_column(&t->set, &t->set.target, c);
        double unit = t->set.target_scale.deviation[c], mse = mean_square(t, c);
        double variance = variance_of((const float *)part->data.target.data + c, n, cols);
        if (!(variance > 0.0))
            notes_add(&job->warnings, "the target '%s' is constant on the rows of the report, so it has no R2", name);
        r->errors[c] = (circe_training_error){name, mse * unit * unit, mse / variance, 1.0 - mse / variance};
        r->loss += mse / all / (double)cols;
        r->spread += variance_of(t->after + c, n, cols) / all / (double)cols;
    }
    r->r2 = 1.0 - r->loss;
}

static void score_classes(training_job *job) {
    trained *t = job->made;
    circe_training *r = &t->result;
    int64_t n = training_judged(&t->set)->n, cols = job->outputs, right = 0, most = 0, named = 0;
    OWNED int64_t *count = small_alloc((size_t)cols * sizeof *count),
                  *guessed = small_alloc((size_t)cols * sizeof *guessed);
    r->classes = (const char *const *)t->set.classes.names;
    r->loss = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const float *row = t->after + i * cols;
        int64_t truth = training_true_class(t, i), guess = training_found_class(t, i);
        double others = 0.0; /* softmax, relative to the likeliest */
        for (int64_t c = 0; c < cols; c++) others += c == guess ? 0.0 : exp((double)row[c] - (double)row[guess]);
        r->loss += (log1p(others) + (double)row[guess] - (double)row[truth]) / (double)n;
        right += guess == truth;
        most = count[truth] + 1 > most ? count[truth] + 1 : most;
        count[truth]++;
        named += guessed[guess]++ == 0;
    }
    r->accuracy = (double)right / (double)n;
    r->majority = (double)most / (double)n;
    double share = (double)count[training_found_class(t, 0)] / (double)n;
    if (named == 1)
        notes_add(&job->warnings,
                  "every row is predicted as '%s' (%.0f %% of them are); choose a threshold on the probabilities, or "
                  "train longer%s",
                  r->classes[training_found_class(t, 0)], 100.0 * share,
                  job->kind != CIRCE_MEASURE_NONE ? ", or use a smaller --gamma" : "");
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

/* Classes as one column each, as the network gives them. */
static float *target_as_outputs(const training_job *job, int64_t n) {
    const trained *t = job->made;
    float *x = small_alloc((size_t)(n * job->outputs) * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < job->outputs; c++)
            x[i * job->outputs + c] =
                t->set.loss == TRAIN_MSE ? (float)target_of(t, i, c) : (float)(training_true_class(t, i) == c);
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
    const training_set *set = job->set;
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
    return train_regularizer_create(job->context, &options, y, z, &set->holdout.data.y, training_z(&set->holdout, kind),
                                    regularizer);
}

static circe_status measure_states(training_job *job, int which, const float *const *x, int64_t n, settled *choice) {
    circe_measure *regularizer = NULL;
    const training_set *set = job->set;
    circe_measure_kind kind = kind_of[which];
    const training_part *part = training_judged(set);
    circe_mat y = io_rows(&part->data.y, 0, n), z = io_rows(training_z(part, kind), 0, n);
    circe_status status = make_measure(job, kind, &y, &z, choice, &regularizer);
    if (status == CIRCE_OK && kind == CIRCE_MEASURE_CIRCE) settle(regularizer, set->given.n, choice);
    for (int state = 0; state < CIRCE_TRAINING_STATES && status == CIRCE_OK; state++) {
        circe_mat values = circe_mat_f32(x[state], n, job->outputs);
        if (x[state] != NULL)
            status =
                circe_measure_points(regularizer, &values, &y, &z, &job->made->result.dependence[state][which], NULL);
    }
    if (regularizer != job->regularizer) circe_measure_destroy(regularizer);
    return status;
}

static circe_status measure_dependence(training_job *job) {
    const training_set *set = job->set;
    if (!set->has_invariant) return CIRCE_OK;
    int64_t n = smaller(training_judged(set)->n, MOST_MEASURED);
    OWNED float *target = set->given_is_target ? NULL : target_as_outputs(job, n);
    const float *const x[CIRCE_TRAINING_STATES] = {target, job->made->baseline, job->made->after};
    settled choice = {0};
    circe_status status = CIRCE_OK;
    for (int m = 0; m < CIRCE_TRAINING_MEASURES && status == CIRCE_OK; m++) {
        if (kind_of[m] == CIRCE_MEASURE_HSIC || set->holdout.n > 0) status = measure_states(job, m, x, n, &choice);
    }
    if (set->holdout.n == 0)
        notes_add(&job->warnings,
                  "without a holdout only HSIC is measured; the other measures need rows to regress on");
    job->made->result.measured_rows = n;
    return status;
}

/* ---- the floor --------------------------------------------------------------------------------------------------- */

circe_status training_conditional_mean(circe_context *context, const training_set *set, const circe_mat *y,
                                       const circe_mat *x, const circe_mat *at, circe_mat *mean) {
    circe_kernel *kernel_y = NULL, *linear = NULL;
    circe_workspace *workspace = NULL;
    circe_cme *cme = NULL;
    circe_cme_options options;
    circe_cme_options_init(&options);
    circe_status status = circe_workspace_create(context, &workspace);
    if (status == CIRCE_OK)
        status = circe_kernel_parse(context, set->kernel_y != NULL ? set->kernel_y : "gaussian", &kernel_y);
    if (status == CIRCE_OK) status = circe_kernel_create(context, CIRCE_KERNEL_LINEAR, 0.0, &linear);
    if (status == CIRCE_OK) status = circe_cme_fit(context, y, x, kernel_y, linear, &options, &cme);
    if (status == CIRCE_OK) status = circe_cme_mean(workspace, cme, at, mean);
    circe_cme_destroy(cme);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(linear);
    circe_workspace_destroy(workspace);
    return status;
}

/* Rows to fit on: many columns leave no low rank, and the cost grows with the cube of the rows. */
static int64_t rows_to_fit(const training_set *set) {
    return smaller(set->training.n, set->given.n <= 2 ? 4000 : 1000);
}

/* On the same rows as the prediction's error, so that chance affects both alike. */
static circe_status estimate_floor(training_job *job) {
    const training_set *set = job->set;
    const training_part *part = training_judged(set);
    circe_training *r = &job->made->result;
    if (!set->has_invariant || set->given_is_target || set->loss != TRAIN_MSE) return CIRCE_OK;
    int64_t n = rows_to_fit(set), cols = set->target.n;
    circe_mat y = io_rows(&set->training.data.y, 0, n), target = io_rows(&set->training.data.target, 0, n);
    double *data = calloc((size_t)(part->n * cols), sizeof *data), sum = 0.0;
    if (data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)part->n);
    circe_mat mean = circe_mat_f64(data, part->n, cols);
    circe_status status = training_conditional_mean(job->context, set, &y, &target, &part->data.y, &mean);
    for (int64_t i = 0; status == CIRCE_OK && i < part->n; i++) {
        for (int64_t c = 0; c < cols; c++) sum += pow(data[i * cols + c] - target_of(job->made, i, c), 2);
    }
    free(data);
    if (status != CIRCE_OK) return status;
    r->floor = sum / (double)(part->n * cols) / training_loss_unit(set, part);
    r->floor_rows = n;
    return CIRCE_OK;
}

/* ---- both networks ----------------------------------------------------------------------------------------------- */

/* Row by row, so that both share their luck. */
static circe_status compare_errors(training_job *job) {
    const training_set *set = job->set;
    const training_part *part = training_judged(set);
    OWNED double *own = malloc((size_t)(2 * part->n + 1) * sizeof *own);
    if (own == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)part->n);
    double *other = own + part->n;
    training_row_losses(set, part, job->made->after, own);
    training_row_losses(set, part, job->made->baseline, other);
    for (int64_t i = 0; i < part->n; i++) own[i] = (own[i] - other[i]) / training_loss_unit(set, part);
    job->made->result.difference = training_mean(own, part->n, job->options->seed);
    return CIRCE_OK;
}

static circe_status score_both(training_job *job) {
    circe_training *r = &job->made->result;
    const training_part *part = training_judged(job->set);
    circe_status status = training_score(job, part, job->made->after, true, &r->score);
    if (status == CIRCE_OK && job->made->baseline != NULL) {
        status = training_score(job, part, job->made->baseline, true, &r->baseline_score);
        if (status == CIRCE_OK) status = compare_errors(job);
    }
    return status == CIRCE_OK ? training_compare_groups(job) : status;
}

circe_status training_judge(training_job *job) {
    circe_training *r = &job->made->result;
    r->outputs = job->outputs;
    r->r2 = r->spread = r->accuracy = r->majority = r->floor = NAN;
    r->score = r->baseline_score = training_unknown_score(0);
    r->difference = training_unknown_score(0).error;
    for (int i = 0; i < CIRCE_TRAINING_STATES * CIRCE_TRAINING_MEASURES; i++) (&r->dependence[0][0])[i] = NAN;
    if (job->set->loss == TRAIN_MSE)
        score_numbers(job);
    else
        score_classes(job);
    circe_status status = job_progress(job->watch, TRAINING_SHARE, "judging");
    if (status == CIRCE_OK) status = measure_dependence(job);
    if (status == CIRCE_OK) status = job_progress(job->watch, (1 + TRAINING_SHARE) / 2, "judging");
    if (status == CIRCE_OK) status = score_both(job);
    if (status == CIRCE_OK) status = estimate_floor(job);
    return status == CIRCE_OK ? job_progress(job->watch, 1, "judging") : status;
}
