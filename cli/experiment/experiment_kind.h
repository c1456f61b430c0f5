/* The kinds of experiments: training on synthetic models, their limits without training, training on pictures. One
 * table says of each what a run's settings are, how it is done, what numbers it gives, how one chooses by them, and how
 * they are shown. Another kind is another row. */
#ifndef CLI_EXPERIMENT_KIND_H
#define CLI_EXPERIMENT_KIND_H

#include "cli/experiment/experiment_output.h"
#include "cli/experiment/experiment_run.h"

struct experiment_kind {
    const char *name;
    bool pictures; /* its models are of pictures */

    /* Settings of a run, beside model, seed and gamma. */
    const experiment_settings_part *parts;
    int64_t n_parts;
    experiment_data data; /* rows, where a file says 0 */

    /* A run; work->stopped tells one that was asked to stop. */
    circe_status (*run)(experiment_work *work, experiment_result *result);
    double (*weight)(const experiment_settings *settings); /* time it takes, in units of no meaning */
    const experiment_number *numbers;                      /* that it gives, in the order of files */
    int64_t n_numbers;

    /* What is chosen by, of one run, on validation data; and whether the choice of a is to be preferred to that of b:
     * rows of the same method, with runs done. */
    double (*score)(const experiment_result *result, bool regularized);
    bool (*better)(const summary_row *a, const summary_row *b);

    /* Showing. */
    void (*table)(const experiment_outcome *outcome, experiment_rows which, arena *owner, report_table *table);
    bool (*figures)(const experiment_outcome *outcome, const char *folder, report *page);
    const char *caption_seeds, *caption_seed,
        *caption_choice;                  /* of the table: several seeds, one, nothing but a choice */
    const char *text_sweep, *text_tuning; /* how one row of a sweep, or a tuning run, is chosen */
    const char *footer, *footer_choice;   /* under the table on a terminal */
};

/* NULL: there is none of that name. */
const experiment_kind *experiment_kind_find(const char *name);

/* That of an experiment with these models and limits. */
const experiment_kind *experiment_kind_of(const experiment_config *config);

#endif
