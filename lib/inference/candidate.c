/* A sight of y as a candidate for the regression of a target: its features, and their cross-validation (gcv.c).
 *
 * Features, their products and what becomes of these before there is a target are O(n r^2); with a target it is O(n r
 * q). Tests of the same y that have a memory in common do the first part once. */
#include <string.h>

#include "inference/dependence.h"
#include "inference/faces.h"

/* Features that a candidate is compared by, and what gcv.c makes of them without a target: one table, of which the
 * first `total` rows are F. Tests of the same y share it, unless the sight was learned from a target. */
typedef struct candidate {
    circe__table all, F;
    const double *reduced; /* NULL: rows depend on each other */
    bool borrowed;
} candidate;

static circe_status make_candidate(const circe__data *data, const circe__sight *sight, int64_t rank, candidate *c) {
    double left;
    circe_status status = circe__face_features(data, sight, 1e-6, rank, &c->F, &left);
    if (status == CIRCE_OK) status = circe__weigh(data, &c->F);
    if (status != CIRCE_OK || circe__in_blocks(data, data->total)) return status;
    int64_t n = c->F.rows, r = c->F.cols;
    status = circe__table_new(data->context, n + r + 2, r, &c->all);
    if (status != CIRCE_OK) return status;
    memcpy(c->all.data, c->F.data, (size_t)(n * r) * sizeof *c->all.data);
    circe__table_free(data->context, &c->F);
    c->F = (circe__table){n, r, c->all.data, NULL};
    c->reduced = c->all.data + n * r;
    return circe__gcv_reduce(data, &c->F, c->all.data + n * r);
}

static circe_status find_candidate(const circe__data *data, const circe__key *of_y, const circe__sight *sight,
                                   int64_t rank, candidate *c) {
    const double numbers[] = {(double)data->total, (double)sight->parts, sight->multiple, (double)rank};
    circe__key key = *of_y;
    bool shared =
        data->options.memory != NULL && data->dependence == NULL && !(sight->parts & (CIRCE__METRIC | CIRCE__LEAVES));
    if (shared) circe__key_add(&key, numbers, sizeof numbers);
    c->borrowed = shared && circe__borrow_table(data, key, &c->all);
    if (c->borrowed) {
        int64_t r = c->all.cols, n = c->all.rows - r - 2;
        c->F = (circe__table){n, r, c->all.data, NULL};
        c->reduced = c->all.data + n * r;
        return CIRCE_OK;
    }
    circe_status status = make_candidate(data, sight, rank, c);
    if (status == CIRCE_OK && shared) c->borrowed = circe__lend_table(data, key, &c->all);
    return status;
}

static void free_candidate(const circe__data *data, candidate *c) {
    if (c->all.data != c->F.data) circe__table_free(data->context, &c->F);
    if (!c->borrowed) circe__table_free(data->context, &c->all);
}

circe_status circe__gcv_under(const circe__data *data, const circe__key *of_y, const circe__sight *sight, int64_t most,
                              const circe__table *const targets[2], const double extra[2], double near,
                              circe__gcv found[2], int64_t *features) {
    candidate c = {.reduced = NULL};
    circe_status status = find_candidate(data, of_y, sight, most, &c);
    if (status == CIRCE_OK)
        status = c.reduced != NULL ? circe__gcv_reduced(data, &c.F, c.reduced, targets, extra, near, found)
                                   : circe__gcv_of(data, &c.F, targets, extra, near, found);
    *features = c.F.cols;
    free_candidate(data, &c);
    return status;
}
