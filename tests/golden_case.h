/* A golden case: inputs, parameters and expected values that an independent float64 implementation wrote straight from
 * the dense formulas. */
#pragma once

#include <cjson/cJSON.h>

#include "tests/support.h"

enum { GOLDEN_CASES = 5 };
extern const char *const golden_folders[GOLDEN_CASES];

typedef struct golden_case {
    const char *folder;
    circe_mat x, y, z, holdout_y, holdout_z;
    char kernel_x[64], kernel_y[64], kernel_z[64];
    char free_y[64]; /* the kernel of y without its width */
    double ridge;
    cJSON *expected; /* for the test to delete */
    circe_context *context;
    circe_workspace *workspace;
} golden_case;

golden_case golden_load(const char *folder);
double golden_number(const cJSON *object, const char *key);

/* d/dx_i = 2 sum_j G_ij dk(x_i, x_j)/dx_i for the laplace kernel of x, from a witness in float64. */
circe_mat golden_laplace_gradient(const golden_case *c, const circe_mat *witness);
