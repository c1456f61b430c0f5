/* Samples of the structural causal models (equations.h), and samples as a network sees them.
 *
 * Every variable has a stream of its own under the seed; row i takes positions i * columns and on, so that a row
 * depends on neither the rows around it nor on who computes it. d_y, d_z below: columns of y and z. */
#include "train/synthetic.h"

#include <stdlib.h>
#include <string.h>

#include "circe/status.h"
#include "train/equations.h"
#include "train/parallel.h"

enum { MAX_D = 4096, ROWS_A_PART = 1024 };

static const struct {
    const char *name;
    synthetic_kind kind;
} names[] = {
    {"univariate1", SYNTHETIC_UNIVARIATE_1},
    {"univariate2", SYNTHETIC_UNIVARIATE_2},
    {"multivariate1", SYNTHETIC_MULTIVARIATE_1},
    {"multivariate2", SYNTHETIC_MULTIVARIATE_2},
};

const char *synthetic_name(synthetic_kind kind) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind) return names[i].name;
    return "unknown";
}

circe_status synthetic_check(const synthetic_model *model) {
    int64_t least = 1, most = MAX_D;
    switch (model->kind) {
        case SYNTHETIC_UNIVARIATE_1:
        case SYNTHETIC_UNIVARIATE_2:
            most = 1;
            break;
        case SYNTHETIC_MULTIVARIATE_1:
            least = 2; /* B is made with Z_2 */
            break;
        case SYNTHETIC_MULTIVARIATE_2:
            break;
        default:
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "there is no synthetic model number %d; choose univariate1, univariate2, multivariate1 "
                              "or multivariate2",
                              (int)model->kind);
    }
    if (model->d >= least && model->d <= most) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "%s with d = %lld: d must be from %lld to %lld", synthetic_name(model->kind),
                      (long long)model->d, (long long)least, (long long)most);
}

int64_t synthetic_dim_y(const synthetic_model *model) { return model->kind == SYNTHETIC_MULTIVARIATE_2 ? model->d : 1; }

int64_t synthetic_dim_z(const synthetic_model *model) { return model->kind == SYNTHETIC_MULTIVARIATE_1 ? model->d : 1; }

double synthetic_intervene(const synthetic_model *model, const double *z, const double *y, double noise_a) {
    equation_y ys = equation_read_y(y, synthetic_dim_y(model));
    equation_z zs = equation_read_z(z, synthetic_dim_z(model));
    return equation_a(model->kind, &ys, &zs, noise_a);
}

double synthetic_mean_b(const synthetic_model *model, double a, const double *y, const double *z) {
    equation_y ys = equation_read_y(y, synthetic_dim_y(model));
    equation_z zs = equation_read_z(z, synthetic_dim_z(model));
    return equation_b(model->kind, &ys, &zs, a);
}

/* z holds e_Z and becomes Z. */
static void place_z(const synthetic_model *model, const double *y, double *z) {
    equation_y ys = equation_read_y(y, synthetic_dim_y(model));
    for (int64_t c = 0; c < synthetic_dim_z(model); c++) z[c] += equation_mean_z(&ys);
}

void synthetic_draw_z(const synthetic_model *model, const double *y, uint64_t seed, int64_t row, int64_t draw,
                      double *z) {
    int64_t cols = synthetic_dim_z(model);
    circe_random_normal(equation_random(seed, EQUATION_Z_GIVEN_Y, row), (uint64_t)(draw * cols), cols, z);
    place_z(model, y, z);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static bool make_mat(int64_t rows, int64_t cols, circe_dtype dtype, circe_mat *mat) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)rows, (size_t)cols * circe_dtype_size(dtype), &bytes)) return false;
    *mat = (circe_mat){.data = malloc(bytes), .rows = rows, .cols = cols, .ld = cols, .dtype = dtype};
    return mat->data != NULL;
}

static double *row_of(const circe_mat *mat, int64_t row) { return (double *)mat->data + row * mat->ld; }

static void draw_variable(uint64_t seed, equation_stream stream, int64_t place, int64_t first, int64_t rows,
                          circe_mat *to) {
    circe_random_normal(equation_random(seed, stream, 0), (uint64_t)(place * to->cols), rows * to->cols,
                        row_of(to, first));
}

/* Rows first .. first + rows - 1 of the sample, whose row 0 stands at `place` in the streams. */
static void draw_part(const synthetic_model *model, uint64_t seed, int64_t place, int64_t first, int64_t rows,
                      synthetic_sample *s) {
    draw_variable(seed, EQUATION_Y, place + first, first, rows, &s->y);
    draw_variable(seed, EQUATION_Z, place + first, first, rows, &s->z);
    draw_variable(seed, EQUATION_A, place + first, first, rows, &s->noise_a);
    draw_variable(seed, EQUATION_B, place + first, first, rows, &s->b);
    for (int64_t i = first; i < first + rows; i++) {
        double *y = row_of(&s->y, i), *z = row_of(&s->z, i), *a = row_of(&s->a, i), *b = row_of(&s->b, i);
        double *noise_a = row_of(&s->noise_a, i), noise_b = *b * EQUATION_NOISE_DEVIATION;
        *noise_a *= EQUATION_NOISE_DEVIATION;
        place_z(model, y, z);
        *a = synthetic_intervene(model, z, y, *noise_a);
        *b = synthetic_mean_b(model, *a, y, z) + equation_noise_b(model->kind) * noise_b;
    }
}

/* Rows that are drawn into the sample, in parts of ROWS_A_PART. */
typedef struct drawing {
    const synthetic_model *model;
    uint64_t seed;
    int64_t place;
    synthetic_sample *sample;
} drawing;

static void draw_one(void *user, int64_t part) {
    const drawing *d = user;
    int64_t start = part * ROWS_A_PART, left = d->sample->n - start;
    draw_part(d->model, d->seed, d->place, start, left < ROWS_A_PART ? left : ROWS_A_PART, d->sample);
}

circe_status synthetic_draw_rows(const circe_context *context, const synthetic_model *model, uint64_t seed,
                                 int64_t first, int64_t n, synthetic_sample *sample) {
    circe_status status = synthetic_check(model);
    *sample = (synthetic_sample){0};
    if (status != CIRCE_OK) return status;
    if (n < 1 || first < 0 || n > (INT64_C(1) << 40) || first > (INT64_C(1) << 40))
        return circe_fail(CIRCE_ERR_ARGUMENT, "a sample cannot have %lld rows from row %lld on; it has 1 to 2^40 rows",
                          (long long)n, (long long)first);
    int64_t d_y = synthetic_dim_y(model), d_z = synthetic_dim_z(model);
    sample->n = n;
    if (!make_mat(n, 1, CIRCE_FLOAT64, &sample->a) || !make_mat(n, d_y, CIRCE_FLOAT64, &sample->y) ||
        !make_mat(n, d_z, CIRCE_FLOAT64, &sample->z) || !make_mat(n, 1, CIRCE_FLOAT64, &sample->b) ||
        !make_mat(n, 1, CIRCE_FLOAT64, &sample->noise_a)) {
        synthetic_free(sample);
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a sample of %lld rows of %s", (long long)n,
                          synthetic_name(model->kind));
    }
    drawing d = {.model = model, .seed = seed, .place = first, .sample = sample};
    circe_context_run(context, (n + ROWS_A_PART - 1) / ROWS_A_PART, draw_one, &d);
    return CIRCE_OK;
}

void synthetic_free(synthetic_sample *sample) {
    if (sample == NULL) return;
    free(sample->a.data);
    free(sample->y.data);
    free(sample->z.data);
    free(sample->b.data);
    free(sample->noise_a.data);
    *sample = (synthetic_sample){0};
}

/* ---- as a network sees them -------------------------------------------------------------------------------------- */

/* out (rows, 1 + d_y + d_z) := a, y, z side by side. */
static void join(int64_t rows, int64_t d_y, int64_t d_z, const double *a, const double *y, const double *z,
                 double *out) {
    int64_t cols = 1 + d_y + d_z;
    for (int64_t i = 0; i < rows; i++) {
        double *row = out + i * cols;
        row[0] = a[i];
        memcpy(row + 1, y + i * d_y, (size_t)d_y * sizeof *row);
        memcpy(row + 1 + d_y, z + i * d_z, (size_t)d_z * sizeof *row);
    }
}

static circe_status joined(const synthetic_sample *s, circe_mat *raw) {
    if (s->a.data == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "the sample must not be empty");
    if (!make_mat(s->n, 1 + s->y.cols + s->z.cols, CIRCE_FLOAT64, raw))
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the columns of %lld rows", (long long)s->n);
    join(s->n, s->y.cols, s->z.cols, s->a.data, s->y.data, s->z.data, raw->data);
    return CIRCE_OK;
}

circe_status synthetic_scales_fit(const synthetic_sample *training, synthetic_scales *scales) {
    circe_mat raw = {0};
    *scales = (synthetic_scales){0};
    circe_status status = joined(training, &raw);
    if (status == CIRCE_OK) status = train_scaler_fit(&raw, NULL, raw.rows, &scales->features);
    if (status == CIRCE_OK) status = train_scaler_fit(&training->b, NULL, training->n, &scales->target);
    if (status != CIRCE_OK) synthetic_scales_free(scales);
    free(raw.data);
    return status;
}

void synthetic_scales_free(synthetic_scales *scales) {
    if (scales == NULL) return;
    train_scaler_free(&scales->features);
    train_scaler_free(&scales->target);
}

typedef struct standardising {
    const train_scaler *scaler;
    int64_t d_y, d_z;
    const double *a, *y, *z;
    float *features;
} standardising;

static void standardise_part(void *user, int64_t first, int64_t n) {
    const standardising *s = user;
    int64_t d_y = s->d_y, d_z = s->d_z, cols = 1 + d_y + d_z;
    const double *mean = s->scaler->mean, *deviation = s->scaler->deviation;
    const double *mean_z = mean + 1 + d_y, *deviation_z = deviation + 1 + d_y;
    for (int64_t i = first; i < first + n; i++) {
        const double *y = s->y + i * d_y, *z = s->z + i * d_z;
        float *row = s->features + i * cols;
        row[0] = (float)((s->a[i] - mean[0]) / deviation[0]);
        for (int64_t c = 0; c < d_y; c++) row[1 + c] = (float)((y[c] - mean[1 + c]) / deviation[1 + c]);
        for (int64_t c = 0; c < d_z; c++) row[1 + d_y + c] = (float)((z[c] - mean_z[c]) / deviation_z[c]);
    }
}

circe_status synthetic_standardise(const circe_context *context, const synthetic_model *model,
                                   const synthetic_scales *scales, int64_t rows, const double *a, const double *y,
                                   const double *z, float *features) {
    int64_t d_y = synthetic_dim_y(model), d_z = synthetic_dim_z(model), cols = 1 + d_y + d_z;
    if (scales->features.cols != cols)
        return circe_fail(CIRCE_ERR_SHAPE, "there are statistics for %lld columns, but %s with d = %lld has %lld",
                          (long long)scales->features.cols, synthetic_name(model->kind), (long long)model->d,
                          (long long)cols);
    standardising s = {
        .scaler = &scales->features, .d_y = d_y, .d_z = d_z, .a = a, .y = y, .z = z, .features = features};
    train_ranges(context, rows, ROWS_A_PART, standardise_part, &s);
    return CIRCE_OK;
}

/* The scaler of columns first .. first + cols - 1; a view. */
static train_scaler columns_of(const train_scaler *scaler, int64_t first, int64_t cols) {
    return (train_scaler){.cols = cols, .mean = scaler->mean + first, .deviation = scaler->deviation + first};
}

circe_status synthetic_points_make(const synthetic_scales *scales, const synthetic_sample *sample,
                                   synthetic_points *points) {
    circe_mat raw = {0};
    *points = (synthetic_points){0};
    circe_status status = joined(sample, &raw);
    if (status != CIRCE_OK) return status;
    int64_t n = sample->n, d_y = sample->y.cols, d_z = sample->z.cols;
    if (scales->features.cols != raw.cols)
        status = circe_fail(CIRCE_ERR_SHAPE, "there are statistics for %lld columns, but the sample has %lld",
                            (long long)scales->features.cols, (long long)raw.cols);
    else if (!make_mat(n, raw.cols, CIRCE_FLOAT32, &points->features) ||
             !make_mat(n, 1, CIRCE_FLOAT32, &points->target) || !make_mat(n, d_y, CIRCE_FLOAT64, &points->y) ||
             !make_mat(n, d_z, CIRCE_FLOAT64, &points->z))
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory for %lld standardised rows", (long long)n);
    train_scaler of_y = columns_of(&scales->features, 1, d_y), of_z = columns_of(&scales->features, 1 + d_y, d_z);
    if (status == CIRCE_OK) status = train_scaler_apply(&scales->features, &raw, NULL, n, &points->features);
    if (status == CIRCE_OK) status = train_scaler_apply(&scales->target, &sample->b, NULL, n, &points->target);
    if (status == CIRCE_OK) status = train_scaler_apply(&of_y, &sample->y, NULL, n, &points->y);
    if (status == CIRCE_OK) status = train_scaler_apply(&of_z, &sample->z, NULL, n, &points->z);
    if (status != CIRCE_OK) synthetic_points_free(points);
    free(raw.data);
    return status;
}

void synthetic_points_free(synthetic_points *points) {
    if (points == NULL) return;
    free(points->features.data);
    free(points->target.data);
    free(points->y.data);
    free(points->z.data);
    *points = (synthetic_points){0};
}
