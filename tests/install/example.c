/* A program of a user: compiled against an installed circe, it fits, measures and prints. */
#include <circe/circe.h>
#include <stdio.h>

int main(void) {
    double y[8] = {0, 1, 2, 3, 4, 5, 6, 7}, z[8] = {1, 0, 3, 2, 5, 4, 7, 6}, value = -1.0;
    circe_context *context = NULL;
    circe_kernel *kernel = NULL;
    circe_cme *cme = NULL;
    circe_workspace *workspace = NULL;
    circe_mat a = circe_mat_f64(y, 8, 1), b = circe_mat_f64(z, 8, 1);
    circe_status status = circe_context_create(NULL, &context);
    if (status == CIRCE_OK) status = circe_kernel_parse(context, "gaussian(4)", &kernel);
    if (status == CIRCE_OK) status = circe_cme_fit(context, &a, &b, kernel, kernel, NULL, &cme);
    if (status == CIRCE_OK) status = circe_workspace_create(context, &workspace);
    if (status == CIRCE_OK)
        status = circe_measure_circe(workspace, cme, kernel, &b, &a, &b, CIRCE_BIASED, &value, NULL);
    if (status != CIRCE_OK) printf("%s: %s\n", circe_status_name(status), circe_last_error());
    printf("circe %s, value %.6f\n", circe_version(), value);
    circe_workspace_destroy(workspace);
    circe_cme_destroy(cme);
    circe_kernel_destroy(kernel);
    circe_context_destroy(context);
    return status == CIRCE_OK && value > 0.0 ? 0 : 1;
}
