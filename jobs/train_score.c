/* Scores a prediction on rows that its network was not trained on.
 *
 *     error       MSE in units of these rows' variance, or cross-entropy, with a 95 % interval by drawing rows again
 *     dependence  p-values of the tests kci and gcm of the prediction and --invariant-to given --given, and KPC, the
 *                 share of what --given leaves of the prediction that --invariant-to explains
 *
 * There are two tests because each is weak where the other is strong: kci sees every kind of dependence and spreads its
 * power over all of them, and gcm sees only correlation. With classes given, rows are permuted within a class (the null
 * permutation). A prediction of classes is tested as probabilities, of two classes as one column. Tests compare all
 * pairs of rows, so they use at most MOST_TESTED rows, which are in random order. */
#include <math.h>
#include <stdlib.h>

#include "base/owned.h"
#include "core/sort.h"
#include "jobs/tests.h"
#include "jobs/training.h"

enum { MOST_TESTED = 2000, DRAWS = 1000, MOST_DRAWN = 100000000, LEAST_DRAWS = 200, EFFECT_DRAWS = 50, FEW_DRAWS = 20 };
enum { STREAM = 0x626f6f74 };

/* ---- error ------------------------------------------------------------------------------------------------------- */

static double cross_entropy(const float *row, int64_t classes, int64_t truth) {
    double most = (double)row[0], rest = -1.0; /* the largest is 1 of the sum */
    for (int64_t c = 1; c < classes; c++) most = fmax(most, (double)row[c]);
    for (int64_t c = 0; c < classes; c++) rest += exp((double)row[c] - most);
    return log1p(rest) + most - (double)row[truth];
}

static int64_t outputs_of(const training_set *set) {
    return set->loss == TRAIN_CROSS_ENTROPY ? set->classes.n : set->target.n;
}

void training_row_losses(const training_set *set, const training_part *part, const float *outputs, double *loss) {
    const float *target = part->data.target.data;
    int64_t cols = outputs_of(set);
    for (int64_t i = 0; i < part->n; i++) {
        const float *row = outputs + i * cols;
        loss[i] = 0.0;
        if (set->loss == TRAIN_CROSS_ENTROPY)
            loss[i] = cross_entropy(row, cols, (int64_t)target[i]);
        else
            for (int64_t c = 0; c < cols; c++)
                loss[i] += pow((double)row[c] - (double)target[i * cols + c], 2) / (double)cols;
    }
}

double training_loss_unit(const training_set *set, const training_part *part) {
    const float *target = part->data.target.data;
    double variance = 0.0;
    if (set->loss == TRAIN_CROSS_ENTROPY) return 1.0;
    for (int64_t c = 0; c < set->target.n; c++) {
        double mean = 0.0;
        for (int64_t i = 0; i < part->n; i++) mean += (double)target[i * set->target.n + c] / (double)part->n;
        for (int64_t i = 0; i < part->n; i++)
            variance += pow((double)target[i * set->target.n + c] - mean, 2) / (double)(part->n * set->target.n);
    }
    return variance;
}

/* The 95 % interval is that of the 2.5 and 97.5 % quantiles of the means of rows drawn with replacement. */
circe_training_estimate training_mean(const double *values, int64_t n, int64_t seed) {
    circe_training_estimate out = {0, NAN, NAN};
    int64_t draws = DRAWS * n > MOST_DRAWN ? LEAST_DRAWS : DRAWS;
    OWNED double *means = malloc((size_t)draws * sizeof *means), *uniform = malloc((size_t)(n + 1) * sizeof *uniform);
    for (int64_t i = 0; i < n; i++) out.value += values[i] / (double)n;
    for (int64_t d = 0; means != NULL && uniform != NULL && d < draws; d++) {
        double sum = 0.0;
        circe_random_uniform((circe_random){.seed = (uint64_t)seed, .stream = STREAM}, (uint64_t)(d * n), n, uniform);
        for (int64_t i = 0; i < n; i++) sum += values[(int64_t)(uniform[i] * (double)n)];
        means[d] = sum / (double)n;
    }
    if (means != NULL && uniform != NULL) {
        circe__sort(means, draws);
        out.lower = circe__quantile(means, draws, 0.025);
        out.upper = circe__quantile(means, draws, 0.975);
    }
    return out;
}

static circe_status find_error(const training_job *job, const training_part *part, const float *outputs,
                               circe_training_score *score) {
    double *loss = malloc((size_t)(part->n + 1) * sizeof *loss), unit = training_loss_unit(job->set, part);
    if (loss == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)part->n);
    training_row_losses(job->set, part, outputs, loss);
    for (int64_t i = 0; i < part->n; i++) loss[i] /= unit;
    score->error = training_mean(loss, part->n, job->options->seed);
    free(loss);
    return CIRCE_OK;
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static void score_classes(const training_job *job, const training_part *part, const float *outputs,
                          circe_training_score *score) {
    const float *target = part->data.target.data;
    int64_t k = job->outputs, right = 0;
    if (job->set->loss != TRAIN_CROSS_ENTROPY) return;
    for (int64_t i = 0; i < part->n; i++) right += training_likeliest(outputs + i * k, k) == (int64_t)target[i];
    score->accuracy = (double)right / (double)part->n;
}

/* ---- dependence -------------------------------------------------------------------------------------------------- */

/* x (n, cols) := the prediction as it is tested; to be freed. */
static double *tested_prediction(const training_job *job, const float *outputs, int64_t n, int64_t *cols) {
    int64_t k = job->outputs;
    bool classes = job->set->loss == TRAIN_CROSS_ENTROPY;
    *cols = classes && k == 2 ? 1 : k;
    double *x = malloc((size_t)(n * *cols + 1) * sizeof *x);
    for (int64_t i = 0; x != NULL && i < n; i++) {
        for (int64_t c = 0; c < *cols; c++)
            x[i * *cols + c] =
                classes ? exp(-cross_entropy(outputs + i * k, k, *cols == 1 ? 1 : c)) : (double)outputs[i * k + c];
    }
    return x;
}

/* What is tested: x, y and z, with the kernels of categories. */
typedef struct question {
    circe_mat x, y, z, z_numbers;
    circe_kernel *kernel_y, *kernel_z; /* NULL: numbers */
    double *data;
} question;

static void question_free(question *q) {
    circe_kernel_destroy(q->kernel_y);
    circe_kernel_destroy(q->kernel_z);
    free(q->data);
}

static circe_status question_make(const training_job *job, const training_part *part, const float *outputs,
                                  int64_t most, question *q) {
    const training_set *set = job->set;
    int64_t n = part->n < most ? part->n : most, cols;
    *q = (question){.y = io_rows(&part->data.y, 0, n),
                    .z = io_rows(&part->data.z, 0, n),
                    .z_numbers = io_rows(&part->z_numbers, 0, n),
                    .data = tested_prediction(job, outputs, n, &cols)};
    if (q->data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld rows", (long long)n);
    q->x = circe_mat_f64(q->data, n, cols);
    circe_status status = CIRCE_OK;
    if (set->kernel_y != NULL) status = circe_kernel_parse(job->context, set->kernel_y, &q->kernel_y);
    if (status == CIRCE_OK && set->kernel_z != NULL)
        status = circe_kernel_parse(job->context, set->kernel_z, &q->kernel_z);
    return status;
}

/* HSIC requires independence without a condition, and so do the tests of its networks. */
static const circe_mat *given_of(const training_job *job, const question *q) {
    return job->kind == CIRCE_MEASURE_HSIC ? NULL : &q->y;
}

static circe_status test_by(const training_job *job, const question *q, circe_test_method method, double *p) {
    circe_test_options options;
    circe_test_result result;
    bool kernels =
        test_find(circe_test_method_name(method))->uses & TEST_KERNELS; /* else categories have columns each */
    const circe_mat *y = given_of(job, q);
    circe_test_options_init(&options);
    options.method = method;
    options.seed = (uint64_t)job->options->seed;
    options.skip_checks = 1;
    options.kernel_y = y != NULL ? q->kernel_y : NULL;
    options.kernel_z = kernels ? q->kernel_z : NULL;
    circe_status status = circe_test(job->context, &q->x, y, kernels ? &q->z : &q->z_numbers, &options, &result);
    if (status == CIRCE_OK) *p = result.p_value;
    return status;
}

/* With intervals, from all rows, as an audit of them: then both show the same KPC. */
static circe_status find_effect(const training_job *job, const training_part *part, const float *outputs,
                                bool intervals, circe_training_score *score) {
    question q;
    circe_test_options options;
    circe_effects effects;
    circe_status status = question_make(job, part, outputs, intervals ? part->n : MOST_TESTED, &q);
    const circe_mat *y = given_of(job, &q);
    circe_test_options_init(&options);
    options.seed = (uint64_t)job->options->seed;
    options.kernel_y = y != NULL ? q.kernel_y : NULL;
    options.kernel_z = q.kernel_z;
    if (status == CIRCE_OK)
        status =
            circe_test_effects(job->context, &q.x, y, &q.z, &options, intervals ? EFFECT_DRAWS : FEW_DRAWS, &effects);
    question_free(&q);
    if (status != CIRCE_OK) return status;
    score->kpc = (circe_training_estimate){effects.kpc.value, effects.kpc.lower, effects.kpc.upper};
    score->kpc_chance = effects.kpc.chance;
    return CIRCE_OK;
}

circe_status training_score_dependence(const training_job *job, const training_part *part, const float *outputs,
                                       bool intervals, circe_training_score *score) {
    question q;
    circe_status status = question_make(job, part, outputs, MOST_TESTED, &q);
    if (status == CIRCE_OK) status = test_by(job, &q, CIRCE_TEST_KCI, &score->p_kci);
    if (status == CIRCE_OK) status = test_by(job, &q, CIRCE_TEST_GCM, &score->p_gcm);
    question_free(&q);
    return status == CIRCE_OK ? find_effect(job, part, outputs, intervals, score) : status;
}

circe_training_score training_unknown_score(int64_t rows) {
    const circe_training_estimate unknown = {NAN, NAN, NAN};
    return (circe_training_score){rows, unknown, NAN, NAN, NAN, NAN, unknown, NAN};
}

circe_status training_score_error(const training_job *job, const training_part *part, const float *outputs,
                                  circe_training_score *score) {
    *score = training_unknown_score(part->n);
    circe_status status = find_error(job, part, outputs, score);
    if (status == CIRCE_OK) score_classes(job, part, outputs, score);
    return status;
}

circe_status training_score(const training_job *job, const training_part *part, const float *outputs, bool intervals,
                            circe_training_score *score) {
    circe_status status = training_score_error(job, part, outputs, score);
    if (status != CIRCE_OK || !job->set->has_invariant) return status;
    return training_score_dependence(job, part, outputs, intervals, score);
}
