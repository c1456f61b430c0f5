/* Fit the conditional mean of z given y on a holdout, then measure CIRCE of a feature x and its gradient.
 *
 *     cc measure.c $(pkg-config --cflags --libs circe) -o measure && ./measure */
#include <circe/circe.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 2000, B = 256 };

static void check(circe_status status) {
    if (status == CIRCE_OK) return;
    fprintf(stderr, "%s\n", circe_last_error());
    exit(1);
}

/* z = y^2 + noise; one feature follows z, the other only y. */
static void make(uint64_t seed, int n, double *y, double *z, double *guilty, double *innocent) {
    circe_random_normal((circe_random){seed, 0}, 0, n, y);
    circe_random_normal((circe_random){seed, 1}, 0, n, z);
    circe_random_normal((circe_random){seed, 2}, 0, n, innocent);
    for (int i = 0; i < n; i++) {
        z[i] += y[i] * y[i];
        innocent[i] += y[i] * y[i];
        guilty[i] = z[i];
    }
}

int main(void) {
    static double Y[M], Z[M], unused[2][M], y[B], z[B], guilty[B], innocent[B], grad[B];
    make(1, M, Y, Z, unused[0], unused[1]);
    make(2, B, y, z, guilty, innocent);
    circe_mat hy = circe_mat_f64(Y, M, 1), hz = circe_mat_f64(Z, M, 1), by = circe_mat_f64(y, B, 1),
              bz = circe_mat_f64(z, B, 1), g = circe_mat_f64(grad, B, 1);

    circe_context *context;
    circe_workspace *workspace;
    circe_kernel *kernel_y, *kernel;
    circe_cme *model;
    check(circe_context_create(NULL, &context));
    check(circe_workspace_create(context, &workspace));
    check(circe_kernel_parse(context, "gaussian", &kernel_y)); /* width chosen by leave-one-out */
    check(circe_kernel_parse(context, "gaussian(1)", &kernel));
    check(circe_cme_fit(context, &hy, &hz, kernel_y, kernel, NULL, &model));

    const double *features[] = {guilty, innocent};
    const char *names[] = {"a feature that follows z", "a feature that knows z only through y"};
    for (int f = 0; f < 2; f++) {
        circe_mat x = circe_mat_f64(features[f], B, 1);
        double value;
        check(circe_measure_circe(workspace, model, kernel, &x, &by, &bz, CIRCE_USTAT, &value, &g));
        printf("%-38s CIRCE = % .6f, gradient of the first point % .2e\n", names[f], value, grad[0]);
    }
    circe_cme_destroy(model);
    circe_kernel_destroy(kernel);
    circe_kernel_destroy(kernel_y);
    circe_workspace_destroy(workspace);
    circe_context_destroy(context);
    return 0;
}
