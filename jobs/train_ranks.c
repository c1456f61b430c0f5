/* Training by several processes, over MPI (mpi/). Every process reads the whole table, because splits and scales depend
 * on it, and then keeps only its slice of the training rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "jobs/training.h"
#include "mpi/ranks.h"

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

static circe_status agree(circe_status status, char *text) {
    char all[RANKS_TEXT_BYTES] = "";
    int who = 0;
    if (ranks_rank() > 0)
        snprintf(all, sizeof all, "rank %d on %s: %.900s", ranks_rank(), ranks_host(), text);
    else
        snprintf(all, sizeof all, "%s", text);
    int first = ranks_first_report((int)status, all, &who);
    if (first != 0) snprintf(text, TRAIN_RANKS_TEXT, "%.*s", TRAIN_RANKS_TEXT - 1, all);
    return (circe_status)first;
}

/* Only this process knows of the failure, and the others wait for it. So it prints the message itself, whichever rank
 * it is. */
__attribute__((noreturn)) static void give_up(circe_status status, const char *text) {
    (void)status;
    ranks_give_up(text);
}

static void broadcast(void *data, size_t bytes) { ranks_broadcast(0, data, bytes); }

static void sum(double *values, int64_t n) { ranks_engine_used()->sum_quickly(values, n, false); }

static void sum_begin(void *values, int64_t n, int floats, double weight) {
    ranks_engine_used()->sum_begin(values, n, floats != 0, weight);
}

static void sum_of(void *unused, void *values, int64_t n, int floats) {
    (void)unused;
    ranks_engine_used()->sum_quickly(values, n, floats != 0);
}

static void sum_integers(uint64_t *values, int64_t n) {
    OWNED uint64_t *all = malloc((size_t)(n * ranks_size()) * sizeof *all);
    if (all == NULL) give_up(CIRCE_ERR_MEMORY, "out of memory for a sum");
    ranks_gather(values, (size_t)n * sizeof *values, all);
    memset(values, 0, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n * ranks_size(); i++) values[i % n] += all[i];
}

const train_ranks *training_ranks(void) {
    static train_ranks ranks;
    const ranks_engine *engine = ranks_engine_used();
    if (engine == NULL) return NULL;
    ranks = (train_ranks){.rank = ranks_rank(),
                          .size = ranks_size(),
                          .agree = agree,
                          .give_up = give_up,
                          .broadcast = broadcast,
                          .sum = sum,
                          .sum_of = sum_of,
                          .sum_integers = sum_integers,
                          .gather = engine->gather_parts,
                          .exchange = engine->exchange,
                          .sum_begin = sum_begin,
                          .sum_move = engine->sums_move,
                          .sum_end = engine->sums_end};
    return &ranks;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Which of the ranks on this machine this one is, from 0. */
static int place_here(void) {
    enum { HOST = 256 };
    char own[HOST] = "", *all = calloc((size_t)ranks_size(), HOST);
    int place = 0;
    if (all == NULL) ranks_give_up("no memory for the names of machines");
    snprintf(own, sizeof own, "%s", ranks_host());
    ranks_gather(own, HOST, all);
    for (int k = 0; k < ranks_rank(); k++) place += strcmp(all + (size_t)k * HOST, own) == 0;
    free(all);
    return place;
}

const char *training_device(const char *name, char own[16]) {
    if (!ranks_several() || (strcmp(name, "cuda") != 0 && strcmp(name, "auto") != 0)) return name;
    int place = place_here(), gpus = train_gpus();
    if (gpus < 2) return name;
    snprintf(own, 16, "cuda:%d", place % gpus);
    return own;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static void keep_rows(circe_mat *m, int64_t first, int64_t n) {
    if (m->data == NULL || m->cols == 0) return;
    m->rows = n;
    size_t row = (size_t)m->ld * circe_dtype_size(m->dtype);
    memmove(m->data, (char *)m->data + (size_t)first * row, (size_t)n * row);
    void *less = realloc(m->data, (size_t)n * row + 1);
    if (less != NULL) m->data = less;
}

/* The pictures of validation, of the test and of this process's training rows. Without memory for the lists, all stay.
 */
static void keep_pictures(training_set *set) {
    training_part *parts[] = {&set->training, &set->validation, &set->test};
    int64_t counts[] = {set->training.data.features.n, set->validation.n, set->test.n}, n = set->images.stack.n;
    OWNED char *keep = calloc((size_t)n + 1, 1);
    OWNED int32_t *place = malloc((size_t)(n + 1) * sizeof *place);
    if (keep != NULL && place != NULL) {
        for (int p = 0; p < 3; p++)
            for (int64_t i = 0; i < counts[p]; i++) keep[parts[p]->shown[i]] = 1;
        image_stack_keep(&set->images.stack, keep, place);
        for (int p = 0; p < 3; p++) {
            for (int64_t i = 0; i < counts[p]; i++) parts[p]->shown[i] = place[parts[p]->shown[i]];
            train_source source = image_stack_source(&set->images.stack);
            source.n = counts[p];
            source.stored = parts[p]->shown;
            parts[p]->data.features = source;
        }
    }
}

void training_ranks_divide(training_set *set) {
    const train_ranks *ranks = training_ranks();
    training_part *part = &set->training;
    int64_t n = 0;
    if (ranks == NULL) return;
    int64_t first = train_ranks_slice(part->n, ranks->rank, ranks->size, &n);
    keep_rows(&part->features, first, n);
    keep_rows(&part->data.z, first, n);
    keep_rows(&part->z_numbers, first, n);
    if (part->weight.cols > 0) {
        keep_rows(&part->weight, first, n);
        part->data.weight = part->weight.data;
    }
    if (ranks->rank == 0) { /* its rows are the first; the floor will be estimated on more of them */
        part->data.target.rows = part->data.y.rows = n;
    } else {
        keep_rows(&part->data.target, first, n);
        keep_rows(&part->data.y, first, n);
    }
    if (set->has_images) {
        memmove(part->shown, part->shown + first, (size_t)n * sizeof *part->shown);
        part->data.features.n = n;
        keep_pictures(set);
    } else {
        part->data.features = train_source_floats(&part->features);
    }
}
