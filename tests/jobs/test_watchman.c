/* The watchman of a training: one warning of each kind, when the kernel of the features sees nothing, their scale
 * drifts, or the prediction is worth no more than a constant; and none of a training that goes well. */
#include "jobs/training.h"
#include "tests/support.h"

static training_job *watched_job(void) {
    circe_train_options *options = test_memory(sizeof *options);
    training_job *job = test_memory(sizeof *job);
    circe_train_options_init(options);
    *job = (training_job){.options = options, .gamma = 1.0, .made = test_memory(sizeof *job->made)};
    *job->made = (trained){0};
    job->set = &job->made->set;
    return job;
}

enum { EPOCHS = 8 };

static void epoch(training_job *job, int64_t number, double mean_kernel, double spread) {
    train_epoch history[EPOCHS] = {{0}};
    history[number - 1] = (train_epoch){.mean_kernel = mean_kernel, .spread = spread};
    training_watch_epochs(job, history, number);
}

/* The one warning, which holds these words. */
static void assert_said(training_job *job, const char *words) {
    assert_int_equal(job->warnings.n, 1);
    if (strstr(job->warnings.text[0], words) == NULL) fail_msg("'%s' is not in: %s", words, job->warnings.text[0]);
    notes_free(&job->warnings);
}

static void silent_while_all_is_well(void **state) {
    (void)state;
    training_job *job = watched_job();
    epoch(job, 1, 0.05, 1.0);
    epoch(job, 2, 0.95, 4.9);
    epoch(job, 3, 0.5, 0.21);
    assert_int_equal(job->warnings.n, 0);
}

/* Drift is counted from the first epoch in which the features vary at all. */
static void features_that_vary_from_the_second_epoch_on(void **state) {
    (void)state;
    training_job *job = watched_job();
    epoch(job, 1, 0.5, 0.0);
    epoch(job, 2, 0.5, 1.0);
    epoch(job, 3, 0.5, 4.9);
    assert_int_equal(job->warnings.n, 0);
    epoch(job, 4, 0.5, 5.1);
    assert_said(job, "epoch 4: the standard deviation of the regularised features has grown from 1 to 5.1");
}

static void kernel_too_narrow_or_too_wide(void **state) {
    (void)state;
    training_job *job = watched_job();
    epoch(job, 1, 0.04, 1.0);
    assert_said(job, "epoch 1: the kernel of the regularised features averages 0.04");
    epoch(job, 2, 0.96, 1.0);
    assert_said(job, "to the kernel the features hardly vary");
    epoch(job, 3, 0.01, 1.0);
    epoch(job, 4, 0.99, 1.0);
    assert_int_equal(job->warnings.n, 0); /* each is said once */
}

static void scale_that_drifts(void **state) {
    (void)state;
    training_job *job = watched_job(), *fixed = watched_job();
    epoch(job, 1, 0.5, 1.0);
    epoch(job, 2, 0.5, 5.1);
    assert_said(job, "has grown from 1 to 5.1; the width adapts");
    epoch(job, 3, 0.5, 0.1);
    assert_int_equal(job->warnings.n, 0);
    ((circe_train_options *)(uintptr_t)fixed->options)->sigma2_x = 0.1;
    epoch(fixed, 1, 0.5, 1.0);
    epoch(fixed, 2, 0.5, 0.19);
    assert_said(fixed, "has shrunk from 1 to 0.19; with a fixed --sigma2-x");
}

/* The first call of a run that was resumed comes with all epochs so far. */
static void epochs_before_a_resumed_run(void **state) {
    (void)state;
    training_job *job = watched_job();
    const train_epoch history[] = {
        {.mean_kernel = 0.5, .spread = 1.0}, {.mean_kernel = 0.04, .spread = 3.0}, {.mean_kernel = 0.5, .spread = 4.0}};
    training_watch_epochs(job, history, 3);
    assert_said(job, "epoch 2: the kernel of the regularised features averages 0.04");
    epoch(job, 4, 0.5, 6.0);
    assert_said(job, "epoch 4: the standard deviation of the regularised features has grown from 1 to 6");
}

/* Trials of the search and the baseline are not what was asked for, and neither is half an epoch. */
static void other_networks_are_not_watched(void **state) {
    (void)state;
    training_job *job = watched_job();
    training_watch_epochs(job, NULL, 0);
    snprintf(job->stage, sizeof job->stage, "gamma 300, part 1 of 3: ");
    epoch(job, 1, 0.0, 1.0);
    assert_int_equal(job->warnings.n, 0);
}

static void without_a_regulariser_there_is_nothing_to_watch(void **state) {
    (void)state;
    training_job *job = watched_job();
    job->gamma = 0.0;
    epoch(job, 1, 0.01, 1.0);
    epoch(job, 2, 0.99, 10.0);
    assert_int_equal(job->warnings.n, 0);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

enum { ROWS = 20 };

static training_job *ended_job(train_loss_kind loss, double spread) {
    training_job *job = watched_job();
    float *after = test_memory(ROWS * sizeof *after);
    for (int i = 0; i < ROWS; i++) after[i] = (float)(i % 2 == 0 ? spread : -spread);
    job->outputs = 1;
    job->made->after = after;
    job->made->result.regularised = 1;
    job->made->result.spread = spread * spread;
    job->made->result.floor = NAN;
    job->set->validation.n = ROWS;
    job->set->loss = loss;
    return job;
}

static void prediction_that_is_constant(void **state) {
    (void)state;
    training_job *job = ended_job(TRAIN_MSE, 0.01);
    job->made->result.score.error.value = 0.5;
    training_watch_end(job);
    assert_said(job, "nearly the same for every row (standard deviation 0.01); a smaller --gamma");
}

/* What --given explains is .8 of the variance, and the prediction has .25 of it. */
static void prediction_that_varies_too_little(void **state) {
    (void)state;
    training_job *job = ended_job(TRAIN_MSE, 0.5);
    job->made->result.score.error.value = 1.1;
    job->made->result.floor = 0.2;
    training_watch_end(job);
    assert_said(job, "its variance is 0.25 of the target's, much less than --given explains; a smaller --gamma");
    job->made->result.floor = NAN;
    training_watch_end(job);
    assert_said(job, "R2 is -0.1, below 0");
}

static void error_above_that_of_a_constant(void **state) {
    (void)state;
    training_job *numbers = ended_job(TRAIN_MSE, 1.0), *classes = ended_job(TRAIN_CROSS_ENTROPY, 1.0);
    numbers->made->result.score.error.value = 1.25;
    training_watch_end(numbers);
    assert_said(numbers, "R2 is -0.25, below 0");
    classes->made->result.score.accuracy = 0.6;
    classes->made->result.majority = 0.7;
    training_watch_end(classes);
    assert_said(classes, "the accuracy is 0.6, but always choosing the most frequent class gives 0.7");
}

/* The remedy is not more epochs where the loss of the validation rows has risen again. */
static void rows_learned_by_heart(void **state) {
    (void)state;
    static circe_training_epoch history[] = {
        {.validation_loss = 1.2}, {.validation_loss = 0.9}, {.validation_loss = 1.1}};
    for (int epochs = 2; epochs <= 3; epochs++) {
        training_job *job = ended_job(TRAIN_MSE, 1.0);
        job->made->result.score.error.value = 1.25;
        job->made->result.history = history;
        job->made->result.epochs = epochs;
        training_watch_end(job);
        assert_said(job, epochs == 3 ? "learns its rows by heart; --patience" : "a smaller --gamma or more --epochs");
    }
}

static void prediction_of_use(void **state) {
    (void)state;
    training_job *job = ended_job(TRAIN_MSE, 0.5);
    job->made->result.score.error.value = 0.99;
    training_watch_end(job);
    assert_int_equal(job->warnings.n, 0);
}

TEST_MAIN("watchman", TEST(silent_while_all_is_well), TEST(features_that_vary_from_the_second_epoch_on),
          TEST(kernel_too_narrow_or_too_wide), TEST(scale_that_drifts), TEST(epochs_before_a_resumed_run),
          TEST(other_networks_are_not_watched), TEST(without_a_regulariser_there_is_nothing_to_watch),
          TEST(prediction_that_is_constant), TEST(prediction_that_varies_too_little),
          TEST(error_above_that_of_a_constant), TEST(rows_learned_by_heart), TEST(prediction_of_use))
