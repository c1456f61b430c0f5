/* circe_test: names, and the way from data to a result. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inference/inference_parts.h"

#include "core/reuse.h"
#include "core/settings.h"

/* In the order of circe_test_method. */
static const circe__kind kinds[] = {
    {.name = "kci",
     .run = circe__test_kci,
     .nulls = {CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_WILD, CIRCE_NULL_PERMUTATION},
     .on_device = true},
    {.name = "circe",
     .run = circe__test_circe,
     .nulls = {CIRCE_NULL_WILD, CIRCE_NULL_GAMMA, CIRCE_NULL_SPECTRAL, CIRCE_NULL_PERMUTATION},
     .auxiliary = true,
     .on_device = true},
    {.name = "splitkci", .run = circe__test_splitkci, .nulls = {CIRCE_NULL_WILD}, .splits = true},
    {.name = "gcm",
     .run = circe__test_gcm,
     .nulls = {CIRCE_NULL_NORMAL, CIRCE_NULL_MULTIPLIER, CIRCE_NULL_PERMUTATION},
     .columns = true,
     .on_device = true},
    {.name = "rcot",
     .run = circe__test_rcot,
     .nulls = {CIRCE_NULL_SPECTRAL, CIRCE_NULL_GAMMA, CIRCE_NULL_PERMUTATION},
     .on_device = true,
     .frugal = true},
    {.name = "hsic",
     .run = circe__test_hsic,
     .nulls = {CIRCE_NULL_PERMUTATION, CIRCE_NULL_GAMMA, CIRCE_NULL_WILD},
     .marginal = true},
    {.name = "wgcm",
     .run = circe__test_gcm,
     .nulls = {CIRCE_NULL_MULTIPLIER, CIRCE_NULL_PERMUTATION},
     .columns = true,
     .signs = true},
    {.name = "pcm", .run = circe__test_pcm, .nulls = {CIRCE_NULL_NORMAL}, .one_sided = true, .splits = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static const char *const null_names[] = {"auto", "gamma", "spectral", "wild", "permutation", "normal", "multiplier"};

const circe__kind *circe__kind_of(const circe_test_options *options) {
    return &kinds[options->method - CIRCE_TEST_KCI];
}

const char *circe_test_method_name(circe_test_method method) {
    const int k = (int)method - CIRCE_TEST_KCI;
    return k >= 0 && k < KINDS ? kinds[k].name : "unknown";
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
    if (name == NULL || method == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "name and method must not be NULL");
    for (int k = 0; k < KINDS; k++)
        if (strcmp(name, kinds[k].name) == 0) {
            *method = (circe_test_method)(k + CIRCE_TEST_KCI);
            return CIRCE_OK;
        }
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "there is no test '%s'; choose kci, circe, splitkci, gcm, rcot, hsic, wgcm or pcm", name);
}

circe_status circe_test_null_parse(const char *name, circe_test_null *null) {
    if (name == NULL || null == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "name and null must not be NULL");
    for (int k = 0; k <= CIRCE_NULL_MULTIPLIER; k++)
        if (strcmp(name, null_names[k]) == 0) {
            *null = (circe_test_null)k;
            return CIRCE_OK;
        }
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "there is no null '%s'; choose auto, gamma, spectral, wild, permutation, normal or "
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
                                  .z.check_p = NAN,
                                  .effective_rows = NAN,
                                  .robust_p = NAN,
                                  .mid_p = NAN,
                                  .misfit = NAN,
                                  .within_p = NAN,
                                  .expected_count = NAN};
    circe__count_classes(data, result);
    circe_status status = describe_kernel(&data->x, result->kernel_x);
    if (status == CIRCE_OK) status = describe_kernel(&data->y, result->kernel_y);
    if (status == CIRCE_OK) status = describe_kernel(&data->z, result->kernel_z);
    if (status != CIRCE_OK) return status;
    int threads = circe__threads_begin(data->context);
    circe__reuse_begin();
    unsigned rounding = circe__flush_begin();
    circe__data own = *data; /* where its tables are made is this test's affair */
    status = circe__rows_begin(&own);
    result->on_device = own.device != NULL;
    if (status == CIRCE_OK) status = circe__kind_of(&data->options)->run(&own, result);
    circe__rows_end(&own);
    circe__flush_end(rounding);
    circe__reuse_end();
    status = circe__threads_finish(threads, status);
    if (status == CIRCE_OK && !(isfinite(result->statistic) && isfinite(result->p_value)))
        status = circe_fail(CIRCE_ERR_NUMERIC,
                            "the statistic is not a finite number: the data are too large for the given kernel; scale "
                            "them, or leave out the kernel");
    if (status == CIRCE_OK) circe__verdict(data, result);
    result->seconds = circe__seconds() - start;
    return status;
}

/* A copy whose widths are free, because given widths are in other units than ranks. */
static circe_status free_widths(const circe_kernel *given, circe_kernel **kernel) {
    *kernel = NULL;
    if (given == NULL) return CIRCE_OK;
    circe_status status = circe_kernel_copy(given, kernel);
    for (int64_t f = 0; status == CIRCE_OK && f < (*kernel)->n_factors; f++) (*kernel)->factors[f].sigma2 = 0.0;
    return status;
}

/* result->robust_p: the p-value of the same test on normal scores. */
static circe_status test_scores(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                const circe_test_options *options, circe_test_result *result) {
    circe_kernel *kernels[3] = {NULL, NULL, NULL};
    circe_test_options robust = *options;
    circe_test_result scores;
    circe__data data;
    circe_status status = free_widths(options->kernel_x, &kernels[0]);
    if (status == CIRCE_OK) status = free_widths(options->kernel_y, &kernels[1]);
    if (status == CIRCE_OK) status = free_widths(options->kernel_z, &kernels[2]);
    robust.kernel_x = kernels[0];
    robust.kernel_y = kernels[1];
    robust.kernel_z = kernels[2];
    robust.transform = CIRCE_TRANSFORM_NORMAL_SCORES;
    robust.skip_checks = 1;
    if (status == CIRCE_OK) status = circe__data_begin(context, x, y, z, &robust, &data);
    if (status == CIRCE_OK) {
        status = circe__test_run(&data, &scores);
        if (status == CIRCE_OK) result->robust_p = scores.p_value;
        circe__data_free(&data);
    }
    for (int k = 0; k < 3; k++) circe_kernel_destroy(kernels[k]);
    return status;
}

circe_status circe_test(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                        const circe_test_options *options, circe_test_result *result) {
    CIRCE_OWN_SETTINGS;
    circe__data data;
    double start = circe__seconds();
    if (result == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "result must not be NULL");
    circe__reuse_begin();
    circe_status status = circe__data_begin(context, x, y, z, options, &data);
    if (status != CIRCE_OK) {
        circe__reuse_end();
        return status;
    }
    status = circe__progress(context, "test", 0,
                             0); /* some methods ask nowhere else, and many tests may follow each other */
    if (status == CIRCE_OK) status = circe__test_run(&data, result);
    if (status == CIRCE_OK && data.options.transform == CIRCE_TRANSFORM_NONE && data.options.fitted_x == NULL &&
        circe__few_rows_carry(result)) {
        status = test_scores(context, x, y, z, &data.options, result);
        if (status == CIRCE_OK) circe__verdict(&data, result);
    }
    circe__data_free(&data);
    circe__reuse_end();
    result->seconds = circe__seconds() - start;
    return status;
}
