/* circe_test: names, and the way from data to a result. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inference/internal.h"

static const char *const method_names[] = {"kci", "circe", "splitkci", "gcm", "rcot", "hsic"};
static const char *const null_names[] = {"auto", "gamma", "spectral", "wild", "permutation", "normal", "multiplier"};

const char *circe_test_method_name(circe_test_method method) {
    return method >= CIRCE_TEST_KCI && method <= CIRCE_TEST_HSIC ? method_names[method - CIRCE_TEST_KCI] : "unknown";
}

const char *circe_test_null_name(circe_test_null null) {
    return null >= CIRCE_NULL_AUTO && null <= CIRCE_NULL_MULTIPLIER ? null_names[null] : "unknown";
}

const char *circe_test_mean_name(circe_test_mean mean) {
    switch (mean) {
        case CIRCE_MEAN_AUTO:
            return "auto";
        case CIRCE_MEAN_ROWS:
            return "rows";
        case CIRCE_MEAN_SPLIT:
            return "split";
    }
    return "unknown";
}

circe_status circe_test_method_parse(const char *name, circe_test_method *method) {
    if (name == NULL || method == NULL) return circe__fail(CIRCE_ERR_ARGUMENT, "name and method must not be NULL");
    for (int k = 0; k <= CIRCE_TEST_HSIC - CIRCE_TEST_KCI; k++)
        if (strcmp(name, method_names[k]) == 0) {
            *method = (circe_test_method)(k + CIRCE_TEST_KCI);
            return CIRCE_OK;
        }
    return circe__fail(CIRCE_ERR_ARGUMENT, "there is no test '%s'; there are kci, circe, splitkci, gcm, rcot and hsic",
                       name);
}

circe_status circe_test_null_parse(const char *name, circe_test_null *null) {
    if (name == NULL || null == NULL) return circe__fail(CIRCE_ERR_ARGUMENT, "name and null must not be NULL");
    for (int k = 0; k <= CIRCE_NULL_MULTIPLIER; k++)
        if (strcmp(name, null_names[k]) == 0) {
            *null = (circe_test_null)k;
            return CIRCE_OK;
        }
    return circe__fail(CIRCE_ERR_ARGUMENT,
                       "there is no null '%s'; there are auto, gamma, spectral, wild, permutation, normal and "
                       "multiplier",
                       name);
}

static circe_status describe_kernel(const circe__variable *variable, char *text) {
    if (variable->kernel == NULL) return CIRCE_OK;
    snprintf(text, CIRCE_TEST_KERNEL_TEXT, "%s", circe_kernel_text(variable->kernel));
    return text[0] == '\0' ? CIRCE_ERR_MEMORY : CIRCE_OK;
}

circe_status circe__test_run(const circe__data *data, circe_test_result *result) {
    double start = circe__seconds();
    *result = (circe_test_result){.method = data->options.method,
                                  .n = data->given,
                                  .n_used = data->n,
                                  .n_tested = data->n,
                                  .p_value = 1.0,
                                  .x.check_p = NAN,
                                  .z.check_p = NAN};
    circe_status status = describe_kernel(&data->x, result->kernel_x);
    if (status == CIRCE_OK) status = describe_kernel(&data->y, result->kernel_y);
    if (status == CIRCE_OK) status = describe_kernel(&data->z, result->kernel_z);
    if (status != CIRCE_OK) return status;
    int threads = circe__threads_begin(data->context);
    unsigned rounding = circe__flush_begin();
    switch (data->options.method) {
        case CIRCE_TEST_KCI:
            status = circe__test_kci(data, result);
            break;
        case CIRCE_TEST_CIRCE:
            status = circe__test_circe(data, result);
            break;
        case CIRCE_TEST_SPLITKCI:
            status = circe__test_splitkci(data, result);
            break;
        case CIRCE_TEST_GCM:
            status = circe__test_gcm(data, result);
            break;
        case CIRCE_TEST_RCOT:
            status = circe__test_rcot(data, result);
            break;
        case CIRCE_TEST_HSIC:
            status = circe__test_hsic(data, result);
            break;
    }
    circe__flush_end(rounding);
    circe__threads_end(threads);
    if (status == CIRCE_OK) circe__verdict(data, result);
    result->seconds = circe__seconds() - start;
    return status;
}

circe_status circe_test(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                        const circe_test_options *options, circe_test_result *result) {
    circe__data data;
    double start = circe__seconds();
    if (result == NULL) return circe__fail(CIRCE_ERR_ARGUMENT, "result must not be NULL");
    circe_status status = circe__data_begin(context, x, y, z, options, &data);
    if (status != CIRCE_OK) return status;
    status = circe__test_run(&data, result);
    circe__data_free(&data);
    result->seconds = circe__seconds() - start;
    return status;
}
