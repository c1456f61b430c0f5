/* The fitted model: creation, destruction, and what it tells about itself. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cme/curves.h"

#include "core/settings.h"

const char *circe_method_name(circe_method method) {
    return CIRCE__NAME(method, [CIRCE_METHOD_AUTO] = "auto", [CIRCE_METHOD_LOWRANK] = "lowrank",
                       [CIRCE_METHOD_DENSE] = "dense", [CIRCE_METHOD_RFF] = "rff");
}

circe_status circe__cme_new(circe_context *context, circe_cme **cme) {
    *cme = circe__calloc(context, 1, sizeof **cme);
    if (*cme == NULL) return CIRCE_ERR_MEMORY;
    (*cme)->context = context;
    return CIRCE_OK;
}

void circe_cme_destroy(circe_cme *cme) {
    if (cme == NULL) return;
    circe_context *context = cme->context;
    circe_kernel_destroy(cme->kernel_y);
    circe_kernel_destroy(cme->kernel_z);
    circe__free(context, cme->sigma2_y);
    circe__free(context, cme->ridge);
    circe__free(context, cme->error);
    circe__free(context, cme->ridge_used);
    for (int64_t i = 0; i < cme->n_warnings; i++) circe__free(context, cme->warnings[i]);
    circe__free(context, cme->warnings);
    circe__basis_free(&cme->z_basis);
    circe__basis_free(&cme->y_basis);
    circe__free(context, cme->y_factors);
    circe__free(context, cme->points_y);
    circe__free(context, cme->points_z);
    circe__free(context, cme->root);
    circe__free(context, cme->weights);
    circe__free(context, cme->inverse);
    circe__rff_free(context, cme->rff);
    circe__curves_free(context, cme->curves);
    circe__free(context, cme);
}

circe_status circe__cme_warn(circe_cme *cme, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char **grown = circe__alloc(cme->context, cme->n_warnings + 1, sizeof *grown);
    char *copy = circe__strdup(cme->context, text);
    if (grown == NULL || copy == NULL) {
        circe__free(cme->context, grown);
        circe__free(cme->context, copy);
        return CIRCE_ERR_MEMORY;
    }
    if (cme->n_warnings > 0) memcpy(grown, cme->warnings, (size_t)cme->n_warnings * sizeof *grown);
    circe__free(cme->context, cme->warnings);
    grown[cme->n_warnings++] = copy;
    cme->warnings = grown;
    circe__log(cme->context, CIRCE_LOG_WARNING, "%s", text);
    return CIRCE_OK;
}

circe_status circe_cme_get_info(const circe_cme *cme, circe_cme_info *info) {
    if (cme == NULL || info == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme and info must not be NULL");
    *info = cme->info;
    return CIRCE_OK;
}

circe_status circe_cme_get_loo(const circe_cme *cme, circe_loo_table *table) {
    if (cme == NULL || table == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme and table must not be NULL");
    *table = (circe_loo_table){.n_sigma2_y = cme->n_sigma2_y,
                               .n_ridge = cme->n_ridge,
                               .sigma2_y = cme->sigma2_y,
                               .ridge = cme->ridge,
                               .error = cme->error,
                               .ridge_used = cme->ridge_used};
    return CIRCE_OK;
}

int64_t circe_cme_n_warnings(const circe_cme *cme) { return cme == NULL ? 0 : cme->n_warnings; }

const char *circe_cme_warning(const circe_cme *cme, int64_t index) {
    return cme == NULL || index < 0 || index >= cme->n_warnings ? "" : cme->warnings[index];
}

const circe_kernel *circe_cme_kernel_y(const circe_cme *cme) { return cme == NULL ? NULL : cme->kernel_y; }

const circe_kernel *circe_cme_kernel_z(const circe_cme *cme) { return cme == NULL ? NULL : cme->kernel_z; }

circe_status circe_cme_rff_step(circe_cme *cme, int64_t step) {
    CIRCE_OWN_SETTINGS;
    if (cme == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "cme must not be NULL");
    if (cme->rff == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "this model was fitted by method %s; only rff has steps",
                          circe_method_name(cme->info.method));
    if (step < 0) return circe_fail(CIRCE_ERR_ARGUMENT, "step is %lld; steps count from 0", (long long)step);
    int previous = circe__threads_begin(cme->context);
    circe__rff_step(cme->context, cme->rff, step);
    return circe__threads_finish(previous, CIRCE_OK);
}
