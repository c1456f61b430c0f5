/* Chooses the rows of blocks, and measures each block. */
#include "jobs/measuring_job.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/small.h"

enum {
    LEAST_BLOCK = 512,     /* as the library's */
    REGRESSED_ROWS = 2048, /* a block whose rows are regressed on each other: width and ridge are chosen on so many */
    SAMPLE_ROWS = 8192,    /* for median widths */
    HELD_ROWS = 50000,     /* to fit the mean on, where y is of low rank; */
    HELD_DENSE = 2000,     /* where it is not */
    HELD_RANK = 1000,      /* low enough for these rows to be fitted in seconds */
    ROW_NUMBERS = 600,     /* of a measure that holds no matrix of all pairs */
};

/* ---- at once or in blocks ---------------------------------------------------------------------------------------- */

static double pair_bytes(const measure_job *j, const measure *what) {
    bool single = j->dtype == CIRCE_FLOAT32 && measure_row(what)->matrices <= 1;
    return measure_row(what)->matrices * (single ? 4.0 : 8.0);
}

/* The most rows of the measure, or of the most demanding one of all. */
static int64_t most_at_once(const measure_job *j) {
    int64_t most = INT64_MAX;
    for (size_t i = 0; i < n_measures; i++) {
        const measure *what = &measures[i];
        bool left_out = j->what == NULL ? measure_row(what)->most_rows > 0 : j->what != what;
        if (left_out) continue;
        int64_t rows = circe_rows_at_once(j->context, pair_bytes(j, what), 8.0 * ROW_NUMBERS);
        most = rows < most ? rows : most;
    }
    return most;
}

static int64_t measured_of(const measure_job *j, int64_t rows) {
    return j->source == CIRCE_MEAN_FROM_SPLIT ? rows - rows / 2 : rows;
}

static bool asks_for_blocks(const measure_job *j) {
    return j->options->block_rows != CIRCE_UNSET || j->options->blocks != CIRCE_UNSET;
}

static circe_status refuse_size(const measure_job *j, double rows, double bytes, double available) {
    int64_t fit = most_at_once(j), whole = j->source == CIRCE_MEAN_FROM_SPLIT ? 2 * fit : fit;
    circe_status status =
        circe_fail(CIRCE_ERR_MEMORY, "%s of %.0f rows at once needs about %.1f GB, but %.1f GB are available",
                   measure_name(j->what), rows, bytes / 1e9, available / 1e9);
    if (j->options->grad != NULL)
        return circe_fail_hint(
            status,
            "--rows %" PRId64
            " uses as many as fit into memory; for training, compute the gradient one batch at a time",
            whole);
    return circe_fail_hint(status,
                           "without --rows all, the mean over random blocks of rows is given; --rows %" PRId64
                           " takes at once as many as fit into memory",
                           whole);
}

circe_status measure_blocks_foresee(const measure_job *j, int64_t foreseen) {
    bool grad = j->options->grad != NULL;
    if (asks_for_blocks(j) && j->options->weights != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--weights needs all rows at once: leave out --%s",
                          j->options->block_rows != CIRCE_UNSET ? "block-rows" : "blocks");
    if (asks_for_blocks(j) && (grad || j->wanted == ALL_ROWS))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s uses all rows at once: leave out --%s",
                          grad ? "--grad" : "--rows all",
                          j->options->block_rows != CIRCE_UNSET ? "block-rows" : "blocks");
    if (foreseen < 0 || j->what == NULL || !(grad || j->wanted == ALL_ROWS)) return CIRCE_OK;
    if (j->wanted > 0 && j->wanted < foreseen) foreseen = j->wanted;
    double n = (double)measured_of(j, foreseen), bytes = pair_bytes(j, j->what) * n * n;
    double available = circe_context_memory(j->context);
    return bytes <= available ? CIRCE_OK : refuse_size(j, n, bytes, available);
}

void measure_blocks_decide(measure_job *j) {
    int64_t n = measured_of(j, j->read_x.values.rows);
    bool never = j->wanted == ALL_ROWS || j->options->grad != NULL || j->options->weights != NULL;
    j->in_blocks = asks_for_blocks(j) || (!never && n >= 2 * LEAST_BLOCK && n > most_at_once(j));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int64_t sample_rows(const measure_job *j) {
    int64_t rows = SAMPLE_ROWS, n = j->read_x.values.rows - j->n_held;
    if (j->uses & CIRCE_USES_BATCH) rows = REGRESSED_ROWS;
    if (j->options->block_rows != CIRCE_UNSET) rows = j->options->block_rows;
    return rows < n ? rows : n;
}

/* Row i of those that are not held out. */
static int64_t free_row(const measure_job *j, int64_t i) {
    int64_t low = 0, high = j->n_held; /* how many held rows lie before it */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (j->held[middle] - middle <= i)
            low = middle + 1;
        else
            high = middle;
    }
    return i + low;
}

static circe_status take(const measure_job *j, const int64_t *rows, int64_t n, input *x, input *y, input *z) {
    circe_status status = input_take_rows(&j->read_x, rows, n, x);
    if (status == CIRCE_OK && (j->uses & CIRCE_USES_Y)) status = input_take_rows(&j->read_y, rows, n, y);
    return status == CIRCE_OK ? input_take_rows(&j->read_z, rows, n, z) : status;
}

static circe_random generator(const measure_job *j, uint64_t stream) {
    return (circe_random){(uint64_t)j->options->seed, stream};
}

circe_status measure_blocks_sample(measure_job *j) {
    int64_t n = sample_rows(j);
    OWNED int64_t *rows = small_alloc((size_t)n * sizeof *rows);
    circe_random_subset(generator(j, 0x73616d706c65u), j->read_x.values.rows - j->n_held, n, rows);
    for (int64_t i = 0; i < n; i++) rows[i] = free_row(j, rows[i]);
    return take(j, rows, n, &j->x, &j->y, &j->z);
}

static circe_status hold(measure_job *j, int64_t n) {
    input_free(&j->holdout_y);
    input_free(&j->holdout_z);
    free(j->held);
    j->n_held = n;
    j->held = small_alloc((size_t)n * sizeof *j->held);
    circe_random_subset(generator(j, 0x686f6c64u), j->read_x.values.rows, n, j->held);
    circe_status status = input_take_rows(&j->read_y, j->held, n, &j->holdout_y);
    return status == CIRCE_OK ? input_take_rows(&j->read_z, j->held, n, &j->holdout_z) : status;
}

/* Many rows take seconds if y has low rank, and minutes or hours if it does not. */
circe_status measure_blocks_split(measure_job *j) {
    int64_t half = j->read_x.values.rows / 2;
    bool chosen = measure_job_given(j, "method") || measure_job_given(j, "max-rank");
    int64_t first = j->fitting.cme.method < CIRCE_METHOD_DENSE ? HELD_ROWS : HELD_DENSE;
    circe_status status = hold(j, half < first ? half : first);
    if (status == CIRCE_OK && !chosen && half > HELD_DENSE) {
        bool fits = true;
        status = fitting_quick(j->context, &j->fitting, &j->holdout_y, &j->holdout_z, !(j->uses & CIRCE_USES_KERNEL_Z),
                               HELD_RANK, &j->warnings, &j->mean, &fits);
        if (status == CIRCE_OK && !fits) status = hold(j, HELD_DENSE);
    }
    return status == CIRCE_OK ? measure_blocks_sample(j) : status;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef struct block_work {
    const measure_job *job;
    circe_measure *measure;
    int64_t *rows;
    int64_t capacity;
} block_work;

static circe_status measure_block(void *user, const int64_t *index, int64_t n, double *value) {
    block_work *w = user;
    const measure_job *j = w->job;
    input x = {0}, y = {0}, z = {0};
    if (n > w->capacity) {
        free(w->rows);
        w->rows = small_alloc((size_t)n * sizeof *w->rows);
        w->capacity = n;
    }
    for (int64_t i = 0; i < n; i++) w->rows[i] = free_row(j, index[i]);
    circe_status status = take(j, w->rows, n, &x, &y, &z);
    if (status == CIRCE_OK) status = input_convert(&x, j->x.values.dtype);
    if (status == CIRCE_OK) status = circe_measure_points(w->measure, &x.values, &y.values, &z.values, value, NULL);
    input_free(&x);
    input_free(&y);
    input_free(&z);
    return status;
}

circe_status measure_evaluate(const measure_job *j, circe_measure *made, double seconds, double *value, circe_mat *grad,
                              circe_block_result *blocks) {
    *blocks = (circe_block_result){0};
    circe_status weighed = circe_measure_set_weights(made, input_weights(&j->weights), j->weights.values.rows);
    if (weighed != CIRCE_OK) return weighed;
    if (!j->in_blocks) return circe_measure_points(made, &j->x.values, &j->y.values, &j->z.values, value, grad);
    block_work work = {.job = j, .measure = made};
    circe_block_options options;
    circe_block_options_init(&options);
    options.seconds = seconds;
    options.seed = (uint64_t)j->options->seed;
    if (j->options->block_rows != CIRCE_UNSET || (j->uses & CIRCE_USES_BATCH)) options.block_rows = sample_rows(j);
    if (j->options->blocks != CIRCE_UNSET) options.blocks = j->options->blocks;
    circe_status status =
        circe_measure_blocks(j->context, j->read_x.values.rows - j->n_held, &options, measure_block, &work, blocks);
    *value = blocks->value;
    free(work.rows);
    return status;
}
