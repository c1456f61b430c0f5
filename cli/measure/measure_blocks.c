/* Which rows go into blocks, and each block through the measure. */
#include "cli/measure/measure_blocks.h"
#include "cli/common/from_args.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/common/output.h"

enum {
    LEAST_BLOCK = 512,     /* as the library's */
    REGRESSED_ROWS = 2048, /* a block whose rows are regressed on each other: width and ridge are chosen on so many */
    SAMPLE_ROWS = 8192,    /* for median widths */
    HELD_ROWS = 50000,     /* to fit the mean on, where y is of low rank; */
    HELD_DENSE = 2000,     /* where it is not */
    HELD_RANK = 1000,      /* low enough for these rows to be fitted in seconds */
    ROW_NUMBERS = 600,     /* of a measure that holds no matrix of all pairs */
};

/* ---- at once or in blocks ------------------------------------------------------------------------------------------
 */

static double pair_bytes(const measure_job *j, const measure *what) {
    bool single = args_choice(j->arguments, OPT_DTYPE) == 0 && what->matrices <= 1;
    return what->matrices * (single ? 4.0 : 8.0);
}

/* The most rows of the measure, or of the most demanding one of all. */
static int64_t most_at_once(const measure_job *j) {
    int64_t most = INT64_MAX;
    for (size_t i = 0; i < n_measures; i++) {
        const measure *what = &measures[i];
        bool left_out = j->what == NULL ? what->most_rows > 0 : j->what != what;
        if (left_out) continue;
        int64_t rows = circe_rows_at_once(j->s.context, pair_bytes(j, what), 8.0 * ROW_NUMBERS);
        most = rows < most ? rows : most;
    }
    return most;
}

static int64_t measured_of(const measure_job *j, int64_t rows) {
    return j->source == MEAN_FROM_SPLIT ? rows - rows / 2 : rows;
}

int measure_blocks_foresee(const measure_job *j, int64_t wanted, int64_t foreseen) {
    bool grad = args_given(j->arguments, OPT_GRAD),
         blocks = args_given(j->arguments, OPT_BLOCK_ROWS) || args_given(j->arguments, OPT_BLOCKS);
    if (blocks && (grad || wanted == ALL_ROWS))
        return message_fail(EXIT_INPUT, "%s is of all rows at once: leave out --%s", grad ? "--grad" : "--rows all",
                            args_given(j->arguments, OPT_BLOCK_ROWS) ? "block-rows" : "blocks");
    if (foreseen < 0 || j->what == NULL || !(grad || wanted == ALL_ROWS)) return EXIT_DONE;
    if (wanted > 0 && wanted < foreseen) foreseen = wanted;
    double n = (double)measured_of(j, foreseen), bytes = pair_bytes(j, j->what) * n * n;
    double available = circe_context_memory(j->s.context);
    if (bytes <= available) return EXIT_DONE;
    message_note("%s of %.0f rows at once needs about %.1f GB, and %.1f GB are available", j->what->name, n,
                 bytes / 1e9, available / 1e9);
    int64_t fit = most_at_once(j);
    if (grad)
        message_hint("--rows %" PRId64 " takes as many as fit; for training, take the gradient of a batch at a time",
                     j->source == MEAN_FROM_SPLIT ? 2 * fit : fit);
    else
        message_hint("without --rows all, the mean over random blocks of rows is given; --rows %" PRId64
                     " takes as many as fit at once",
                     j->source == MEAN_FROM_SPLIT ? 2 * fit : fit);
    return EXIT_WORK;
}

int measure_blocks_decide(measure_job *j) {
    const args *a = j->arguments;
    int64_t wanted = 0, n = measured_of(j, j->read_x.values.rows);
    int status = args_rows_wanted(a, &wanted);
    bool asked = args_given(a, OPT_BLOCK_ROWS) || args_given(a, OPT_BLOCKS);
    bool never = wanted == ALL_ROWS || args_given(a, OPT_GRAD);
    j->in_blocks = asked || (!never && n >= 2 * LEAST_BLOCK && n > most_at_once(j));
    return status;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------
 */

static int64_t sample_rows(const measure_job *j) {
    int64_t rows = SAMPLE_ROWS, n = j->read_x.values.rows - j->n_held;
    if (j->uses & USES_BATCH) rows = REGRESSED_ROWS;
    if (args_given(j->arguments, OPT_BLOCK_ROWS)) rows = args_integer(j->arguments, OPT_BLOCK_ROWS);
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

static int take(const measure_job *j, const int64_t *rows, int64_t n, input *x, input *y, input *z) {
    int status = message_refused(input_take_rows(&j->read_x, rows, n, x));
    if (status == EXIT_DONE && (j->uses & USES_Y)) status = message_refused(input_take_rows(&j->read_y, rows, n, y));
    return status == EXIT_DONE ? message_refused(input_take_rows(&j->read_z, rows, n, z)) : status;
}

static circe_random generator(const measure_job *j, uint64_t stream) {
    return (circe_random){(uint64_t)args_integer(j->arguments, OPT_SEED), stream};
}

int measure_blocks_sample(measure_job *j) {
    int64_t n = sample_rows(j);
    int64_t *rows = small_alloc((size_t)n * sizeof *rows);
    circe_random_subset(generator(j, 0x73616d706c65u), j->read_x.values.rows - j->n_held, n, rows);
    for (int64_t i = 0; i < n; i++) rows[i] = free_row(j, rows[i]);
    int status = take(j, rows, n, &j->x, &j->y, &j->z);
    free(rows);
    return status;
}

static int hold(measure_job *j, int64_t n) {
    input_free(&j->holdout_y);
    input_free(&j->holdout_z);
    free(j->held);
    j->n_held = n;
    j->held = small_alloc((size_t)n * sizeof *j->held);
    circe_random_subset(generator(j, 0x686f6c64u), j->read_x.values.rows, n, j->held);
    int status = message_refused(input_take_rows(&j->read_y, j->held, n, &j->holdout_y));
    return status == EXIT_DONE ? message_refused(input_take_rows(&j->read_z, j->held, n, &j->holdout_z)) : status;
}

/* Many rows cost seconds where y is of low rank, and minutes or hours where it is not. */
int measure_blocks_split(measure_job *j) {
    int64_t half = j->read_x.values.rows / 2;
    bool chosen = args_given(j->arguments, OPT_METHOD) || args_given(j->arguments, OPT_MAX_RANK);
    int64_t first = args_choice(j->arguments, OPT_METHOD) < 2 ? HELD_ROWS : HELD_DENSE;
    int status = hold(j, half < first ? half : first);
    circe_status fitted = CIRCE_OK;
    if (status == EXIT_DONE && !chosen && half > HELD_DENSE) {
        status = fitting_quick(&j->s, j->arguments, &j->holdout_y, &j->holdout_z, !(j->uses & USES_KERNEL_Z), HELD_RANK,
                               &j->warnings, &j->mean, &fitted);
        if (fitted == CIRCE_ERR_RANK) status = hold(j, HELD_DENSE);
    }
    return status == EXIT_DONE ? measure_blocks_sample(j) : status;
}

/* ---- blocks --------------------------------------------------------------------------------------------------------
 */

typedef struct block_work {
    const measure_job *job;
    const measure *what;
    const measure_problem *problem;
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
    int taken = take(j, w->rows, n, &x, &y, &z);
    if (taken == EXIT_DONE) taken = message_refused(input_convert(&x, j->x.values.dtype));
    circe_status status = CIRCE_ERR_MEMORY;
    if (taken == EXIT_DONE) {
        measure_problem p = *w->problem;
        p.x = &x.values;
        p.y = &y.values;
        p.z = &z.values;
        status = w->what->evaluate(&p, value, NULL);
    }
    input_free(&x);
    input_free(&y);
    input_free(&z);
    return status;
}

circe_status measure_evaluate(const measure_job *j, const measure *what, const measure_problem *problem, double seconds,
                              double *value, circe_mat *grad, circe_block_result *blocks) {
    *blocks = (circe_block_result){0};
    if (!j->in_blocks) return what->evaluate(problem, value, grad);
    block_work work = {.job = j, .what = what, .problem = problem};
    circe_block_options options;
    circe_block_options_init(&options);
    options.seconds = seconds;
    options.seed = (uint64_t)args_integer(j->arguments, OPT_SEED);
    if (args_given(j->arguments, OPT_BLOCK_ROWS) || (j->uses & USES_BATCH)) options.block_rows = sample_rows(j);
    if (args_given(j->arguments, OPT_BLOCKS)) options.blocks = args_integer(j->arguments, OPT_BLOCKS);
    circe_status status =
        circe_measure_blocks(j->s.context, j->read_x.values.rows - j->n_held, &options, measure_block, &work, blocks);
    *value = blocks->value;
    free(work.rows);
    return status;
}

int64_t measure_rows(const measure_job *j, const circe_block_result *blocks) {
    return blocks->blocks > 0 ? blocks->blocks * blocks->block_rows : j->x.values.rows;
}

/* ---- output --------------------------------------------------------------------------------------------------------
 */

void measure_blocks_json(cJSON *out, const measure_job *j, const circe_block_result *blocks) {
    int64_t used = j->read_x.values.rows;
    if (blocks->blocks > 0) {
        json_number(out, "standard_error", blocks->standard_error);
        json_integer(out, "blocks", blocks->blocks);
        json_integer(out, "block_rows", blocks->block_rows);
    }
    if (blocks->blocks > 0 || used < j->given) json_integer(out, "rows_given", j->given);
}

void measure_blocks_text(const measure_job *j, const circe_block_result *blocks) {
    if (blocks->blocks > 0) {
        text_row("standard error", "%.3g", blocks->standard_error);
        text_row("blocks",
                 "the value is the mean over %" PRId64 " random blocks of %" PRId64 " rows (--seed %" PRId64
                 "), each measured on its own",
                 blocks->blocks, blocks->block_rows, args_integer(j->arguments, OPT_SEED));
    }
    if (blocks->blocks > 0 || j->read_x.values.rows < j->given)
        text_row("rows given", "%" PRId64 "%s", j->given,
                 j->read_x.values.rows < j->given ? ", of which --rows took a random sample" : "");
}
