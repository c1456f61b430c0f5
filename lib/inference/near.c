/* The rows nearest to each row, by the coordinates of a face of y. O(m^2 d) at most among m rows. */
#include <string.h>

#include "core/sort.h"
#include "inference/missed.h"

/* Places among the rows in order of one column, nearest by all of them: none beyond the distance in that one column. */
static void search_around(const double *points, int64_t dim, const circe__entry *sorted, int64_t m, int64_t at,
                          int64_t *nearest) {
    double square[CIRCE__NEAREST] = {0.0};
    int64_t have = 0, low = at - 1, high = at + 1;
    const double *own = points + sorted[at].row * dim;
    while (low >= 0 || high < m) {
        double below = low >= 0 ? sorted[at].value - sorted[low].value : HUGE_VAL;
        double above = high < m ? sorted[high].value - sorted[at].value : HUGE_VAL, d = 0.0;
        if (have == CIRCE__NEAREST && fmin(below, above) * fmin(below, above) >= square[CIRCE__NEAREST - 1]) break;
        int64_t row = sorted[below < above ? low-- : high++].row, place;
        for (int64_t c = 0; c < dim; c++) d += (own[c] - points[row * dim + c]) * (own[c] - points[row * dim + c]);
        if (have == CIRCE__NEAREST && d >= square[CIRCE__NEAREST - 1]) continue;
        for (place = have < CIRCE__NEAREST ? have++ : CIRCE__NEAREST - 1; place > 0 && square[place - 1] > d; place--) {
            square[place] = square[place - 1];
            nearest[place] = nearest[place - 1];
        }
        square[place] = d;
        nearest[place] = row;
    }
}

typedef struct searching {
    const double *points;
    int64_t dim, m;
    const circe__entry *sorted;
    int64_t *nearest;
} searching;

static void run_search(void *user, int64_t first, int64_t end) {
    const searching *s = user;
    for (int64_t at = first; at < end; at++)
        search_around(s->points, s->dim, s->sorted, s->m, at, s->nearest + s->sorted[at].row * CIRCE__NEAREST);
}

circe_status circe__nearest_rows(const circe__data *data, const circe__variable *face, const int64_t *index, int64_t m,
                                 int64_t *nearest) {
    const circe_context *context = data->context;
    int64_t dim = face->dim;
    CIRCE__OWNED circe__entry *sorted = circe__alloc(context, 2 * m, sizeof *sorted);
    CIRCE__OWNED double *points = circe__alloc(context, m * dim, sizeof *points);
    circe_status status = sorted == NULL || points == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t i = 0; status == CIRCE_OK && i < m; i++) {
        memcpy(points + i * dim, face->points + index[i] * dim, (size_t)dim * sizeof *points);
        sorted[i] = (circe__entry){points[i * dim + dim - 1], i}; /* of a metric, the leading direction */
    }
    if (status == CIRCE_OK) {
        searching s = {points, dim, m, sorted, nearest};
        circe__sort_entries(sorted, sorted + m, m);
        circe__run_ranges(context->threads, m, 256, run_search, &s);
    }
    return status;
}
