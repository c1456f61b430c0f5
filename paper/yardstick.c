/* The yardstick.
 *
 *     d = mean over chunks c of  v_c - w_c,   v_c = CIRCE(prediction, Z | Y) of the chunk's rows,
 *     w_c the mean of the same over EXCHANGES exchanges of Z among rows of equal Y
 *
 * The conditional mean is fitted on a holdout of some thousand points, and its error is a function of Y, as a good
 * prediction is: v of a prediction that depends on Y alone is above 0, by more than its standard error once there are
 * many rows. An exchange of Z among rows of the same Y leaves that error as it is and takes away all dependence given
 * Y, so that d is 0 on average if there is none, whatever the holdout. Y takes few values here (32 places, 9 poses);
 * a row that is alone with its Y stays as it is. The standard error is that of d over the chunks. */
#include <math.h>
#include <stdlib.h>

#include "base/owned.h"
#include "circe/random.h"
#include "paper/paper_parts.h"

enum { EXCHANGES = 4, STREAM_EXCHANGE = 101 };

typedef struct place {
    double y, drawn;
    int64_t row;
} place;

static int by_y_then_draw(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->y != b->y) return a->y < b->y ? -1 : 1;
    if (a->drawn != b->drawn) return a->drawn < b->drawn ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

typedef struct chunk_room {
    place *from, *to;        /* (rows) */
    double *drawn, *z_drawn; /* (rows) */
} chunk_room;

/* z_drawn := z in a random order within every group of equal y; numbers [first, first + rows) of the stream. */
static void exchange(const double *y, const double *z, int64_t rows, uint64_t seed, uint64_t first, chunk_room *room) {
    circe_random_uniform((circe_random){seed, STREAM_EXCHANGE}, first, rows, room->drawn);
    for (int64_t i = 0; i < rows; i++) {
        room->to[i] = (place){y[i], 0, i};
        room->from[i] = (place){y[i], room->drawn[i], i};
    }
    qsort(room->to, (size_t)rows, sizeof(place), by_y_then_draw);
    qsort(room->from, (size_t)rows, sizeof(place), by_y_then_draw);
    for (int64_t i = 0; i < rows; i++) room->z_drawn[room->to[i].row] = z[room->from[i].row];
}

/* v and w of the rows from `first` on. */
static circe_status measure_chunk(circe_measure *yardstick, const image_part *part, const float *prediction,
                                  int64_t first, int64_t rows, uint64_t seed, chunk_room *room, double *v, double *w) {
    circe_mat x = {(float *)prediction + first, rows, 1, 1, CIRCE_FLOAT32};
    circe_mat y = circe_mat_f64(part->y + first, rows, 1), z = circe_mat_f64(part->z + first, rows, 1),
              drawn = circe_mat_f64(room->z_drawn, rows, 1);
    circe_status status = circe_measure_points(yardstick, &x, &y, &z, v, NULL);
    *w = 0;
    for (int k = 0; k < EXCHANGES && status == CIRCE_OK; k++) {
        double value = 0;
        exchange(part->y + first, part->z + first, rows, seed, (uint64_t)(k * part->n + first), room);
        status = circe_measure_points(yardstick, &x, &y, &drawn, &value, NULL);
        *w += value / EXCHANGES;
    }
    return status;
}

/* Means over the chunks, and the standard error of the difference. */
static void conclude(const double *v, const double *w, int64_t chunks, double *number) {
    double mean = 0, exchanged = 0, squares = 0;
    for (int64_t c = 0; c < chunks; c++) mean += (v[c] - w[c]) / (double)chunks, exchanged += w[c] / (double)chunks;
    for (int64_t c = 0; c < chunks; c++) squares += pow(v[c] - w[c] - mean, 2);
    number[NUMBER_DEPENDENCE] = mean;
    number[NUMBER_DEPENDENCE_ERROR] = sqrt(squares / (double)(chunks - 1) / (double)chunks);
    number[NUMBER_DEPENDENCE_EXCHANGED] = exchanged;
}

circe_status paper_yardstick_apply(circe_context *context, const paper_settings *settings, const image_part *part,
                                   const image_part *holdout, const float *prediction, paper_numbers *numbers) {
    int64_t rows = settings->yardstick.chunk;
    if (rows > part->n / YARDSTICK_CHUNKS) rows = part->n / YARDSTICK_CHUNKS;
    int64_t chunks = part->n / rows;
    circe_mat y = circe_mat_f64(part->y, part->n, 1), z = circe_mat_f64(part->z, part->n, 1);
    circe_mat holdout_y = circe_mat_f64(holdout->y, holdout->n, 1),
              holdout_z = circe_mat_f64(holdout->z, holdout->n, 1);
    circe_measure_options options;
    circe_measure *yardstick = NULL;
    OWNED_BY(arena_free) arena scratch = {0};
    size_t n = (size_t)rows;
    chunk_room room = {arena_alloc(&scratch, n * sizeof(place)), arena_alloc(&scratch, n * sizeof(place)),
                       arena_alloc(&scratch, n * sizeof(double)), arena_alloc(&scratch, n * sizeof(double))};
    double *values = arena_alloc(&scratch, (size_t)(2 * chunks) * sizeof *values);
    paper_settings_yardstick(settings, &options);
    circe_status status = train_regularizer_create(context, &options, &y, &z, &holdout_y, &holdout_z, &yardstick);
    for (int64_t c = 0; c < chunks && status == CIRCE_OK; c++)
        status = measure_chunk(yardstick, part, prediction, c * rows, rows, (uint64_t)settings->seed, &room, &values[c],
                               &values[chunks + c]);
    if (status == CIRCE_OK) conclude(values, values + chunks, chunks, numbers->at);
    circe_measure_destroy(yardstick);
    return status;
}
