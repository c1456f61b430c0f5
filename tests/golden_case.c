#include "tests/golden_case.h"

const char *const golden_folders[GOLDEN_CASES] = {"gaussian_1d", "gaussian_nd", "laplace_x", "laplace_y", "linear_x"};

double golden_number(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) fail_msg("expected.json has no number '%s'", key);
    return item->valuedouble;
}

/* "gaussian(0.5)" out of params.kernel_? and params.sigma2_?; the width only where `bound`. */
static void kernel_text(const cJSON *params, char variable, bool bound, char *text, size_t size) {
    char key[16];
    snprintf(key, sizeof key, "kernel_%c", variable);
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(params, key));
    assert_non_null(name);
    snprintf(key, sizeof key, "sigma2_%c", variable);
    bool has_width = strcmp(name, "linear") != 0;
    if (bound && has_width)
        snprintf(text, size, "%s(%.17g)", name, golden_number(params, key));
    else
        snprintf(text, size, "%s", name);
}

golden_case golden_load(const char *folder) {
    golden_case c = {.folder = folder};
    c.x = test_golden_matrix(folder, "x.npy");
    c.y = test_golden_matrix(folder, "y.npy");
    c.z = test_golden_matrix(folder, "z.npy");
    c.holdout_y = test_golden_matrix(folder, "holdout_y.npy");
    c.holdout_z = test_golden_matrix(folder, "holdout_z.npy");
    c.expected = cJSON_Parse(test_golden_text(folder, "expected.json"));
    assert_non_null(c.expected);
    const cJSON *params = cJSON_GetObjectItemCaseSensitive(c.expected, "params");
    kernel_text(params, 'x', true, c.kernel_x, sizeof c.kernel_x);
    kernel_text(params, 'y', true, c.kernel_y, sizeof c.kernel_y);
    kernel_text(params, 'y', false, c.free_y, sizeof c.free_y);
    kernel_text(params, 'z', true, c.kernel_z, sizeof c.kernel_z);
    c.ridge = golden_number(params, "ridge");
    c.context = test_context(0);
    c.workspace = test_workspace(c.context);
    return c;
}

circe_mat golden_laplace_gradient(const golden_case *c, const circe_mat *witness) {
    circe_mat grad = test_zeros(c->x.rows, c->x.cols, CIRCE_FLOAT64);
    circe_kernel_factor factor;
    assert_ok(circe_kernel_get_factor(test_kernel(c->context, c->kernel_x), 0, &factor));
    assert_int_equal(factor.kind, CIRCE_KERNEL_LAPLACE);
    double sigma = sqrt(factor.sigma2);
    for (int64_t i = 0; i < c->x.rows; i++)
        for (int64_t j = 0; j < c->x.rows; j++) {
            double square = 0.0;
            for (int64_t k = 0; k < c->x.cols; k++) square += pow(test_at(&c->x, i, k) - test_at(&c->x, j, k), 2.0);
            if (square == 0.0) continue;
            double distance = sqrt(square), weight = -2.0 * test_lower(witness, i, j) * exp(-distance / sigma) / sigma;
            for (int64_t k = 0; k < c->x.cols; k++)
                test_set(&grad, i, k,
                         test_at(&grad, i, k) + weight * (test_at(&c->x, i, k) - test_at(&c->x, j, k)) / distance);
        }
    return grad;
}
