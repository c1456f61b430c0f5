/* Random Fourier features of products of kernels (Rahimi and Recht 2007): sqrt(2) cos(phase(p) + offset).
 *
 *     gaussian   frequency normal / sigma
 *     laplace    normal / (sigma |normal|), the multivariate Cauchy
 *     delta      the phase of a value is uniform on the circle and independent of those of other values: the value's
 *                bits choose its position in the stream
 *
 * A product of kernels is the sum of phases. Expectation over the draws: E[2 cos(a + u) cos(b + u)] = E cos(a - b), u
 * being uniform, which is the kernel for the first two and 1[a = b] for the third. */
#include "inference/fourier.h"

#include <math.h>
#include <string.h>

void circe__fourier_free(const circe_context *context, circe__fourier *fourier) {
    circe__free(context, fourier->frequency);
    circe__free(context, fourier->offset);
    circe__free(context, fourier->category);
    *fourier = (circe__fourier){0};
}

/* One factor's frequencies. Every factor has its own streams; feature k starts at position k (cols + 1). */
static circe_status draw_factor(const circe__data *data, const circe_kernel_factor *factor, circe_random generator,
                                const char *name, circe__fourier *f) {
    int64_t first = factor->first_col, cols = factor->n_cols == -1 ? f->dim - first : factor->n_cols;
    if (factor->kind == CIRCE_KERNEL_LINEAR)
        return circe_fail(CIRCE_ERR_UNSUPPORTED,
                          "rcot has random Fourier features of gaussian, laplace and delta kernels; the kernel of %s "
                          "has a linear factor",
                          name);
    if (factor->kind == CIRCE_KERNEL_DELTA) {
        for (int64_t c = first; c < first + cols; c++) f->category[c] = true;
        return CIRCE_OK;
    }
    CIRCE__OWNED double *normal = circe__alloc(data->context, cols + 1, sizeof *normal);
    double sigma = sqrt(factor->sigma2);
    if (normal == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < f->n; k++) {
        circe_random_normal(generator, (uint64_t)(k * (cols + 1)), cols + 1, normal);
        double scale =
            factor->kind == CIRCE_KERNEL_LAPLACE ? 1.0 / (sigma * fmax(fabs(normal[cols]), 1e-12)) : 1.0 / sigma;
        for (int64_t c = 0; c < cols; c++) f->frequency[(first + c) * f->n + k] += normal[c] * scale;
    }
    return CIRCE_OK;
}

circe_status circe__fourier_draw(const circe__data *data, const circe__variable *variable, double multiple, int64_t n,
                                 uint64_t stream, const char *name, circe__fourier *f) {
    circe_kernel *kernel = NULL;
    *f = (circe__fourier){.n = n,
                          .dim = variable->dim,
                          .seed = data->options.seed,
                          .stream = stream,
                          .loops = circe__loops_for(data->context->backend, CIRCE_FLOAT64)};
    if (variable->dim == 0) {
        f->n = 0;
        return CIRCE_OK;
    }
    f->frequency = circe__calloc(data->context, n * f->dim, sizeof *f->frequency);
    f->offset = circe__alloc(data->context, n, sizeof *f->offset);
    f->category = circe__calloc(data->context, f->dim, sizeof *f->category);
    circe_status status = CIRCE_ERR_MEMORY;
    if (f->frequency != NULL && f->offset != NULL && f->category != NULL)
        status = circe__scaled_kernel(data, variable, multiple, &kernel);
    for (int64_t k = 0; status == CIRCE_OK && k < circe_kernel_n_factors(kernel); k++)
        status = draw_factor(data, &kernel->factors[k], (circe_random){f->seed, stream + 1 + (uint64_t)k}, name, f);
    if (status == CIRCE_OK) circe_random_uniform((circe_random){f->seed, stream}, 0, n, f->offset);
    for (int64_t k = 0; status == CIRCE_OK && k < n; k++) f->offset[k] *= 2.0 * M_PI;
    circe_kernel_destroy(kernel);
    if (status != CIRCE_OK) circe__fourier_free(data->context, f);
    return status;
}

/* Adds the category's phases to a row. */
static void category_phases(const circe__fourier *f, double value, int64_t column, double *row) {
    enum { HELD = 64 };
    double uniform[HELD], plain = value + 0.0; /* -0 is 0 */
    uint64_t bits;
    memcpy(&bits, &plain, sizeof bits);
    circe_random generator = {f->seed ^ bits * 0x9e3779b97f4a7c15u, f->stream + 0x1000 + (uint64_t)column};
    for (int64_t k = 0; k < f->n; k += HELD) {
        int64_t count = circe__min(HELD, f->n - k);
        circe_random_uniform(generator, (uint64_t)k, count, uniform);
        for (int64_t e = 0; e < count; e++) row[k + e] += 2.0 * M_PI * uniform[e];
    }
}

static void phases(const circe__fourier *f, const double *point, double *row) {
    int64_t n = f->n;
    memcpy(row, f->offset, (size_t)n * sizeof *row);
    for (int64_t c = 0; c < f->dim; c++) {
        const double *w = f->frequency + c * n;
        if (f->category[c]) {
            category_phases(f, point[c], c, row);
            continue;
        }
#pragma omp simd
        for (int64_t k = 0; k < n; k++) row[k] += w[k] * point[c];
    }
}

/* Several rows at a time if a row is short. */
void circe__fourier_features(const circe__fourier *f, const double *points, const double *root, int64_t rows,
                             double *out, int64_t ld) {
    enum { HELD = 1024 };
    int64_t n = f->n, together = circe__max(HELD / circe__max(n, 1), 1);
    double held[HELD];
    for (int64_t first = 0; first < rows; first += together) {
        int64_t here = circe__min(together, rows - first);
        // cppcheck-suppress legacyUninitvar
        double *v = n <= HELD ? held : out + first * ld; /* one long row is its own scratch */
        for (int64_t i = 0; i < here; i++) phases(f, points + (first + i) * f->dim, v + i * n);
        f->loops->cosines(here * n, v);
        for (int64_t i = 0; i < here; i++)
            for (int64_t k = 0; k < n; k++) out[(first + i) * ld + k] = M_SQRT2 * root[first + i] * v[i * n + k];
    }
}
