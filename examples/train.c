/* Train a predictor of b that does not depend on z once y is known, on a table in memory, and use it on other rows.
 *
 *     cc train.c $(pkg-config --cflags --libs circe_jobs) -o train && ./train */
#include <circe/circe.h>
#include <circe/jobs.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 2000, NEW_ROWS = 3 };

static void check(circe_status status) {
    if (status == CIRCE_OK) return;
    fprintf(stderr, "%s\n", circe_last_error());
    exit(1);
}

/* z = y^2 + noise, b = 5 z + y + noise. */
static circe_table *make(uint64_t seed, int n) {
    static double y[ROWS], z[ROWS], b[ROWS];
    circe_table *table;
    circe_random_normal((circe_random){seed, 0}, 0, n, y);
    circe_random_normal((circe_random){seed, 1}, 0, n, z);
    circe_random_normal((circe_random){seed, 2}, 0, n, b);
    for (int i = 0; i < n; i++) {
        z[i] += y[i] * y[i];
        b[i] += 5 * z[i] + y[i];
    }
    check(circe_table_create(n, &table));
    check(circe_table_add_numbers(table, "y", y, 1));
    check(circe_table_add_numbers(table, "z", z, 1));
    check(circe_table_add_numbers(table, "b", b, 1));
    return table;
}

static int show(void *user, double done, const char *text) {
    (void)user;
    printf("%3.0f %%: %s\n", 100 * done, text);
    return 0; /* go on */
}

int main(void) {
    circe_context *context;
    check(circe_context_create(NULL, &context));
    circe_table *table = make(1, ROWS), *other = make(2, NEW_ROWS);

    circe_train_options options;
    circe_train_options_init(&options);
    options.features = "y,z";
    options.target = "b";
    options.given = "y";
    options.invariant_to = "z";
    options.gamma = 1000;
    options.epochs = 20;
    options.batch = 128;
    options.lr = 3e-3;

    const circe_watch watch = {.progress = show};
    circe_training *training;
    check(circe_train(context, table, &options, &watch, &training)); /* without an output the model stays in memory */
    printf("%s\nerror: %.3f of the variance; no invariant predictor is better than about %.3f\n", training->network,
           training->errors[0].standardised, training->floor);
    printf("CIRCE: %.5f of b itself, %.5f of its prediction\n",
           training->dependence[CIRCE_TRAINING_TARGET][CIRCE_TRAINING_CIRCE],
           training->dependence[CIRCE_TRAINING_AFTER][CIRCE_TRAINING_CIRCE]);

    circe_predict_options predict;
    circe_predictions *predictions;
    circe_predict_options_init(&predict);
    check(circe_predict(context, training->model, other, &predict, NULL, &predictions));
    for (int64_t i = 0; i < predictions->rows; i++) printf("row %d: b = %.2f\n", (int)i, predictions->values[i]);

    circe_predictions_free(predictions);
    circe_training_free(training);
    circe_table_free(other);
    circe_table_free(table);
    circe_context_destroy(context);
    return 0;
}
