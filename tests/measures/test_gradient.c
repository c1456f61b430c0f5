/* Gradients against central finite differences in float64: the contraction alone with a random symmetric G, then every
 * estimator and the spectral norm through a fitted model; all kernels and their products, dimensions on both sides of
 * every switch in the loops, batches of less than, about and more than a tile.
 *
 * Step 1e-5. The difference quotient carries a truncation error of step^2 times the third derivative (1e-10 in units of
 * the width, more for the laplace kernel where points are close) and a rounding error of some eps sum|G o K| / step ~
 * 1e-10. Tolerance: 1e-6 of the largest element of the gradient plus 1e-4 sum|G o K|, which covers that rounding; ten
 * times as much for the spectral norm, whose value carries the error of an eigenvalue. */
#include "tests/support.h"

static const int64_t dims[] = {1, 3, 5, 17, 64}, batches[] = {5, 33, 70};
static const double step = 1e-5;

/* Kernels for points of d columns; widths grow with d, so that no kernel vanishes. `fixed` leading columns hold
 * categories and have no derivative. */
typedef struct kernel_case {
    char text[160];
    int64_t fixed;
} kernel_case;

static int64_t kernel_cases(int64_t d, kernel_case *cases) {
    int64_t n = 0;
    double w = (double)d;
    snprintf(cases[n++].text, sizeof cases->text, "gaussian(%g)", 0.7 * w);
    snprintf(cases[n++].text, sizeof cases->text, "laplace(%g)", w);
    snprintf(cases[n++].text, sizeof cases->text, "linear");
    snprintf(cases[n++].text, sizeof cases->text, "linear*gaussian(%g)", 2.0 * w);
    snprintf(cases[n++].text, sizeof cases->text, "0:linear*linear*0:gaussian(2)");
    for (int64_t k = 0; k < n; k++) cases[k].fixed = 0;
    if (d < 3) return n;
    snprintf(cases[n].text, sizeof cases->text, "0:delta*1-:gaussian(%g)", w);
    cases[n++].fixed = 1;
    snprintf(cases[n].text, sizeof cases->text, "0:gaussian(1.5)*1:laplace(2)*2-:gaussian(%g)", w);
    cases[n++].fixed = 0;
    if (d < 5) return n;
    snprintf(cases[n].text, sizeof cases->text, "0:gaussian(1)*1-2:laplace(3)*3:linear*4-:gaussian(%g)", w);
    cases[n++].fixed = 0;
    snprintf(cases[n].text, sizeof cases->text, "0:delta*1-:laplace(%g)*2-3:linear*1-:gaussian(%g)", w, 3.0 * w);
    cases[n++].fixed = 1;
    return n;
}

static circe_mat points(uint64_t stream, int64_t rows, const kernel_case *k, int64_t d) {
    circe_mat x = test_normal(stream, rows, d), codes = test_categories(stream + 1, rows, 1, 3);
    for (int64_t i = 0; i < rows && k->fixed > 0; i++) test_set(&x, i, 0, test_at(&codes, i, 0));
    return x;
}

/* The value as a function of x, whatever it is. */
typedef struct function {
    circe_status (*value)(const struct function *f, const circe_mat *x, double *value, circe_mat *grad);
    circe_workspace *workspace;
    const circe_kernel *kernel_x;
    const circe_mat *witness; /* contraction alone */
    const circe_cme *cme;
    const circe_mat *y, *z;
    circe_estimator estimator;
    double size; /* sum |G o K| */
} function;

static double value_at(const function *f, const circe_mat *x, double *plain, const double *direction, double by) {
    circe_mat moved = *x;
    double value = NAN;
    moved.data = plain;
    for (int64_t e = 0; e < x->rows * x->cols; e++) plain[e] = ((const double *)x->data)[e] + by * direction[e];
    assert_ok(f->value(f, &moved, &value, NULL));
    return value;
}

/* Some coordinates (all where there are few more) and two random directions. */
static void check_gradient(const function *f, const circe_mat *x, int64_t fixed, int64_t coordinates,
                           double tolerance) {
    enum { DIRECTIONS = 2 };
    int64_t n = x->rows * x->cols;
    circe_mat grad = test_zeros(x->rows, x->cols, CIRCE_FLOAT64);
    double value = NAN, *plain = test_memory((size_t)n * sizeof *plain);
    double *direction = test_memory((size_t)n * sizeof *direction);
    const double *g = grad.data;
    assert_ok(f->value(f, x, &value, &grad));
    double largest = test_max(&grad) + 1e-4 * f->size;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t c = 0; c < fixed; c++) assert_true(fabs(test_at(&grad, i, c)) < 1e-20);
    int64_t *chosen = test_memory((size_t)n * sizeof *chosen), count = n < 2 * coordinates ? n : coordinates;
    circe_random_subset((circe_random){7, (uint64_t)n}, n, count, chosen);
    if (count < n) chosen[count - 1] = n - 1; /* the end of the last tile */
    for (int64_t k = 0; k < count; k++) {
        int64_t e = chosen[k];
        if (e % x->cols < fixed) continue;
        direction[e] = 1.0;
        double up = value_at(f, x, plain, direction, step), down = value_at(f, x, plain, direction, -step);
        direction[e] = 0.0;
        assert_near(g[e], (up - down) / (2.0 * step), tolerance, largest);
    }
    for (uint64_t k = 0; k < DIRECTIONS; k++) {
        double slope = 0.0, scale = 1e-4 * f->size;
        circe_random_normal((circe_random){8, k}, 0, n, direction);
        for (int64_t e = 0; e < n; e++) {
            if (e % x->cols < fixed) direction[e] = 0.0;
            slope += direction[e] * g[e];
            scale += fabs(direction[e] * g[e]);
        }
        double up = value_at(f, x, plain, direction, step), down = value_at(f, x, plain, direction, -step);
        assert_near(slope, (up - down) / (2.0 * step), tolerance, scale);
    }
}

/* ---- the contraction alone ------------------------------------------------------------------------------------------
 */

static circe_status contraction(const function *f, const circe_mat *x, double *value, circe_mat *grad) {
    return circe_contract(f->workspace, f->kernel_x, x, f->witness, value, grad);
}

/* A random G; its upper triangle is poison, since only the lower one may be read. */
static circe_mat random_witness(uint64_t stream, int64_t n) {
    circe_mat witness = test_normal(stream, n, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) test_set(&witness, i, j, NAN);
    return witness;
}

/* value = sum over both triangles, diagonal once, from the kernel's definition. */
static double contraction_by_definition(const circe_kernel *kernel, const circe_mat *x, const circe_mat *witness,
                                        double *scale) {
    double sum = 0.0;
    *scale = 0.0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->rows; j++) {
            const double *all = x->data;
            double p = test_lower(witness, i, j) * test_kernel_value(kernel, all + i * x->ld, all + j * x->ld, x->cols);
            sum += p;
            *scale += fabs(p);
        }
    return sum;
}

static void contract_alone(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    for (int64_t a = 0; a < COUNT(dims); a++)
        for (int64_t b = 0; b < COUNT(batches); b++) {
            kernel_case cases[16];
            int64_t n_cases = kernel_cases(dims[a], cases);
            circe_mat witness = random_witness(10 * (uint64_t)b, batches[b]);
            for (int64_t k = 0; k < n_cases; k++) {
                circe_mat x = points((uint64_t)(100 * a + 10 * b + k), batches[b], &cases[k], dims[a]);
                function f = {.value = contraction,
                              .workspace = workspace,
                              .kernel_x = test_kernel(context, cases[k].text),
                              .witness = &witness};
                double value = NAN, scale;
                assert_ok(circe_contract(workspace, f.kernel_x, &x, &witness, &value, NULL));
                double expected = contraction_by_definition(f.kernel_x, &x, &witness, &scale);
                assert_near(value, expected, 1e-13, scale); /* rounding of a sum of B^2 terms */
                f.size = scale;
                check_gradient(&f, &x, cases[k].fixed, 10, 1e-6);
            }
        }
}

/* Where no point sees another, the gradient is 0 (the argument of exp is cut: 1e-29) and not the rounding of a point
 * against itself, which a narrow width multiplies by 1e9. */
static void kernels_too_narrow(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    for (int64_t b = 0; b < COUNT(batches); b++) {
        circe_mat all = random_witness(6, batches[b]), of_x = test_normal(7, batches[b], 17);
        circe_mat x = test_copy(&of_x, CIRCE_FLOAT32), witness = test_copy(&all, CIRCE_FLOAT32);
        circe_mat grad = test_zeros(batches[b], 17, CIRCE_FLOAT32);
        double value;
        assert_ok(circe_contract(workspace, test_kernel(context, "gaussian(1e-9)"), &x, &witness, &value, &grad));
        for (int64_t i = 0; i < batches[b]; i++)
            for (int64_t c = 0; c < 17; c++) assert_true(fabs(test_at(&grad, i, c)) < 1e-20);
    }
}

/* Row distances beyond the columns change nothing, and nothing is written between the rows. */
static void strided_views(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    int64_t n = 70, d = 5;
    circe_mat x = test_normal(1, n, d), witness = random_witness(2, n), grad = test_zeros(n, d, CIRCE_FLOAT64);
    circe_mat wide_x = test_normal(3, n, d + 3), wide_witness = test_normal(4, n, n + 5);
    circe_mat wide_grad = test_normal(5, n, d + 2), before = test_copy(&wide_grad, CIRCE_FLOAT64);
    wide_x.cols = wide_grad.cols = d;
    wide_witness.cols = n;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) test_set(&wide_x, i, j, test_at(&x, i, j));
        for (int64_t j = 0; j < n; j++) test_set(&wide_witness, i, j, test_at(&witness, i, j));
    }
    circe_kernel *kernel = test_kernel(context, "gaussian(3)*1-2:linear");
    double value = NAN, wide_value = NAN;
    assert_ok(circe_contract(workspace, kernel, &x, &witness, &value, &grad));
    assert_ok(circe_contract(workspace, kernel, &wide_x, &wide_witness, &wide_value, &wide_grad));
    assert_true(value == wide_value);
    assert_mat_equal(&wide_grad, &grad);
    wide_grad.cols = d + 2;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = d; j < d + 2; j++) assert_true(test_at(&wide_grad, i, j) == test_at(&before, i, j));
}

/* Points that coincide: the laplace kernel has a kink there, and a zero is one of its subgradients. */
static void coinciding_points(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    const char *const kernels[] = {"laplace(1)", "gaussian(1)", "0-6:laplace(2)"};
    for (int64_t k = 0; k < COUNT(kernels); k++) {
        circe_mat x = test_zeros(40, 7, CIRCE_FLOAT64), witness = random_witness(1, 40);
        circe_mat grad = test_normal(2, 40, 7);
        double value = NAN;
        assert_ok(circe_contract(workspace, test_kernel(context, kernels[k]), &x, &witness, &value, &grad));
        assert_true(isfinite(value) && test_max(&grad) == 0.0);
    }
}

/* ---- through a model --------------------------------------------------------------------------------------------- */

static circe_status measure(const function *f, const circe_mat *x, double *value, circe_mat *grad) {
    return circe_measure_circe(f->workspace, f->cme, f->kernel_x, x, f->y, f->z, f->estimator, value, grad);
}

static circe_status spectral(const function *f, const circe_mat *x, double *value, circe_mat *grad) {
    return circe_measure_circe_spectral(f->workspace, f->cme, f->kernel_x, x, f->y, f->z, value, grad);
}

static circe_cme *model(circe_context *context, circe_method method) {
    static const double ridge = 0.1;
    circe_mat y = test_normal(50, 40, 1), z = test_normal(51, 40, 1);
    for (int64_t i = 0; i < y.rows; i++) test_set(&z, i, 0, sin(test_at(&y, i, 0)) + 0.5 * test_at(&z, i, 0));
    circe_cme_options options = test_options(method, &ridge);
    return test_fit(context, &y, &z, "gaussian(0.5)", "gaussian(0.5)", &options);
}

static void every_estimator(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    circe_cme *models[] = {model(context, CIRCE_METHOD_DENSE), model(context, CIRCE_METHOD_LOWRANK)};
    for (int64_t a = 0; a < COUNT(dims); a++)
        for (int64_t b = 0; b < COUNT(batches); b++) {
            kernel_case cases[16];
            int64_t n_cases = kernel_cases(dims[a], cases);
            circe_mat y = test_normal(60, batches[b], 1), z = test_normal(61, batches[b], 1);
            circe_mat witness = test_zeros(batches[b], batches[b], CIRCE_FLOAT64);
            for (int64_t k = 0; k < n_cases; k++) {
                circe_mat x = points((uint64_t)(100 * a + 10 * b + k), batches[b], &cases[k], dims[a]);
                function f = {.value = measure,
                              .workspace = workspace,
                              .kernel_x = test_kernel(context, cases[k].text),
                              .cme = models[k % COUNT(models)],
                              .y = &y,
                              .z = &z};
                for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
                    f.estimator = e;
                    assert_ok(circe_witness_circe(workspace, f.cme, &y, &z, e, &witness));
                    contraction_by_definition(f.kernel_x, &x, &witness, &f.size);
                    check_gradient(&f, &x, cases[k].fixed, 3, 1e-6);
                }
            }
        }
}

static void spectral_norm(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    circe_cme *cme = model(context, CIRCE_METHOD_DENSE);
    for (int64_t a = 0; a < COUNT(dims); a++)
        for (int64_t b = 0; b < COUNT(batches); b++) {
            kernel_case cases[16];
            int64_t n_cases = kernel_cases(dims[a], cases);
            circe_mat y = test_normal(60, batches[b], 1), z = test_normal(61, batches[b], 1);
            for (int64_t k = 0; k < n_cases; k++) {
                circe_mat x = points((uint64_t)(100 * a + 10 * b + k), batches[b], &cases[k], dims[a]);
                function f = {.value = spectral,
                              .workspace = workspace,
                              .kernel_x = test_kernel(context, cases[k].text),
                              .cme = cme,
                              .y = &y,
                              .z = &z};
                assert_ok(spectral(&f, &x, &f.size, NULL));
                check_gradient(&f, &x, cases[k].fixed, 2, 1e-5);
            }
        }
}

TEST_MAIN("gradient", TEST(contract_alone), TEST(kernels_too_narrow), TEST(strided_views), TEST(coinciding_points),
          TEST(every_estimator), TEST(spectral_norm))
