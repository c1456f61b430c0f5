/* Ranks and normal scores of columns.
 *
 *     r_i in 1 .. n        rank of row i in its column; equal values share the mean of theirs
 *     ranks                r_i / (n + 1)
 *     normal scores        Phi^-1(r_i / (n + 1)), van der Waerden's
 *
 * n log n a column. The quantile is found by Halley's steps on the complementary error function, from a start that is
 * right to 5e-4: three steps reach rounding. */
#include "circe/transform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

static const char *const names[] = {"none", "ranks", "normal-scores"};

const char *circe_transform_name(circe_transform transform) {
    return transform >= CIRCE_TRANSFORM_NONE && transform <= CIRCE_TRANSFORM_NORMAL_SCORES ? names[transform]
                                                                                           : "unknown";
}

circe_status circe_transform_parse(const char *name, circe_transform *transform) {
    if (name == NULL || transform == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "name and transform must not be NULL");
    for (int k = CIRCE_TRANSFORM_NONE; k <= CIRCE_TRANSFORM_NORMAL_SCORES; k++)
        if (strcmp(name, names[k]) == 0) {
            *transform = (circe_transform)k;
            return CIRCE_OK;
        }
    return circe_fail(CIRCE_ERR_ARGUMENT, "there is no transform '%s'; there are none, ranks and normal-scores", name);
}

/* The x > 0 whose upper tail is q, in (0, 1/2]. */
static double upper_quantile(double q) {
    double t = sqrt(-2.0 * log(q));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int step = 0; step < 3; step++) {
        double density = exp(-0.5 * x * x) * 0.3989422804014327;
        double newton = (0.5 * erfc(x * 0.7071067811865476) - q) / density;
        x += newton / (1.0 - 0.5 * x * newton); /* Halley: the density's slope is -x times itself */
    }
    return x;
}

static double normal_quantile(double p) {
    if (p == 0.5) return 0.0;
    return p < 0.5 ? -upper_quantile(p) : upper_quantile(1.0 - p);
}

typedef struct entry {
    double value;
    int64_t row;
} entry;

static int compare(const void *a, const void *b) {
    double x = ((const entry *)a)->value, y = ((const entry *)b)->value;
    return (x > y) - (x < y);
}

static void set(circe_mat *m, int64_t i, int64_t c, double value) {
    if (m->dtype == CIRCE_FLOAT32)
        ((float *)m->data)[i * m->ld + c] = (float)value;
    else
        ((double *)m->data)[i * m->ld + c] = value;
}

static void transform_column(entry *entries, const circe_mat *values, int64_t c, circe_transform transform,
                             circe_mat *out) {
    int64_t n = values->rows;
    for (int64_t i = 0; i < n; i++) entries[i] = (entry){circe__at(values, i, c), i};
    qsort(entries, (size_t)n, sizeof *entries, compare);
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && entries[end].value == entries[first].value;) end++;
        double share = 0.5 * (double)(first + 1 + end) / (double)(n + 1);
        double score = transform == CIRCE_TRANSFORM_RANKS ? share : normal_quantile(share);
        for (int64_t k = first; k < end; k++) set(out, entries[k].row, c, score);
    }
}

circe_status circe_transform_columns(circe_context *context, const circe_mat *values, circe_transform transform,
                                     const unsigned char *keep, circe_mat *out) {
    if (context == NULL || out == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and out must not be NULL");
    if (transform < CIRCE_TRANSFORM_NONE || transform > CIRCE_TRANSFORM_NORMAL_SCORES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "transform %d is not one of none, ranks, normal-scores", (int)transform);
    circe_status status = circe__check_data(values, "the values to transform", 1);
    if (status == CIRCE_OK) status = circe__check_mat(out, "the transformed values", 1);
    if (status != CIRCE_OK) return status;
    if (out->rows != values->rows || out->cols != values->cols)
        return circe_fail(CIRCE_ERR_SHAPE, "the values are %lld by %lld and their transforms %lld by %lld",
                          (long long)values->rows, (long long)values->cols, (long long)out->rows, (long long)out->cols);
    entry *entries = circe__alloc(context, values->rows, sizeof *entries);
    if (entries == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t c = 0; c < values->cols; c++) {
        bool plain = transform == CIRCE_TRANSFORM_NONE || (keep != NULL && keep[c]);
        for (int64_t i = 0; plain && i < values->rows; i++) set(out, i, c, circe__at(values, i, c));
        if (!plain) transform_column(entries, values, c, transform, out);
    }
    circe__free(context, entries);
    return CIRCE_OK;
}
