/* From options to a fitted model. */
#include "jobs/fitting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "mpi/mpi_fit.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* The options that fits have in common, by their names. */
typedef struct conditional_options {
#define CIRCE_OPTION(kind, field, ...) CIRCE_FIELD_##kind field;
#include "circe/options/conditional.def"
#include "circe/options/kernels.def"
#include "circe/options/seed.def"
#undef CIRCE_OPTION
} conditional_options;

static void take_field(const circe_schema *schema, const void *job, const char *name, void *field, size_t bytes) {
    const circe_option *row = circe_schema_find(schema, name);
    if (row != NULL) memcpy(field, (const char *)job + row->offset, bytes);
}

static conditional_options conditional_of(const circe_schema *schema, const void *job) {
    conditional_options o = {0};
#define CIRCE_OPTION(kind, field, name, ...) take_field(schema, job, name, &o.field, sizeof o.field);
#include "circe/options/conditional.def"
#include "circe/options/kernels.def"
#include "circe/options/seed.def"
#undef CIRCE_OPTION
    return o;
}

/* Options that are not given keep the library's defaults. */
static void take_options(const conditional_options *o, circe_cme_options *out) {
    circe_cme_options_init(out);
    out->method = (circe_method)circe_word_index("auto|lowrank|dense|rff", o->method);
    out->force_ridge = o->force_ridge;
    out->seed = (uint64_t)o->seed;
    if (!isnan(o->tolerance)) out->tolerance = o->tolerance;
    if (o->max_rank != CIRCE_UNSET) out->max_rank = o->max_rank;
    if (o->rff_features != CIRCE_UNSET) out->rff_pool = o->rff_features;
    if (o->rff_every != CIRCE_UNSET) out->rff_every = o->rff_every;
    if (o->rff_batch != CIRCE_UNSET)
        out->rff_batch = o->rff_batch;
    else if (out->rff_batch > out->rff_pool)
        out->rff_batch = 0;
}

static circe_status take_grids(const circe_schema *schema, const void *job, fitting_options *out) {
    int64_t widths = 0, ridges = 0;
    circe_status status = circe_options_numbers(schema, job, "sigma2-y", NULL, &widths);
    if (status == CIRCE_OK) status = circe_options_numbers(schema, job, "ridge", NULL, &ridges);
    if (status != CIRCE_OK) return status;
    out->numbers = small_alloc((size_t)(widths + ridges) * sizeof *out->numbers);
    out->cme.sigma2_y = out->numbers;
    out->cme.ridge = out->numbers + widths;
    status = circe_options_numbers(schema, job, "sigma2-y", out->numbers, &out->cme.n_sigma2_y);
    return status == CIRCE_OK ? circe_options_numbers(schema, job, "ridge", out->numbers + widths, &out->cme.n_ridge)
                              : status;
}

/* Neither numbers nor the median. */
static bool wants_grid(const circe_schema *schema, const void *job) {
    char text[40];
    const char *found = circe_options_text(schema, job, "sigma2-y", text, sizeof text);
    return found != NULL && strcmp(found, "auto") == 0;
}

circe_status fitting_open(const circe_schema *schema, const void *job, fitting_options *out) {
    conditional_options options = conditional_of(schema, job);
    *out = (fitting_options){.sigma2_z = options.sigma2_z};
    take_options(&options, &out->cme);
    circe_status status = take_grids(schema, job, out);
    out->y = (kernel_choice){options.kernel_y, out->cme.sigma2_y, out->cme.n_sigma2_y,
                             circe_options_given(schema, job, "sigma2-y"), wants_grid(schema, job)};
    out->z = (kernel_choice){options.kernel_z, &out->sigma2_z, options.sigma2_z > 0,
                             circe_options_given(schema, job, "sigma2-z"), false};
    return status;
}

void fitting_close(fitting_options *options) {
    free(options->numbers);
    *options = (fitting_options){0};
}

const char *fitting_option_given(const circe_schema *schema, const void *job) {
    static const char *const names[] = {"kernel-y", "kernel-z",  "sigma2-y", "sigma2-z",     "ridge",     "force-ridge",
                                        "method",   "tolerance", "max-rank", "rff-features", "rff-batch", "rff-every"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (circe_options_given(schema, job, names[i])) return names[i];
    return NULL;
}

void fitting_note_unused(const circe_schema *schema, const void *job, notes *warnings) {
    static const char *const of_rff[] = {"rff-features", "rff-batch", "rff-every"};
    char text[40];
    if (strcmp(circe_options_text(schema, job, "method", text, sizeof text), "rff") == 0) return;
    for (size_t i = 0; i < sizeof of_rff / sizeof of_rff[0]; i++)
        if (circe_options_given(schema, job, of_rff[i]))
            notes_add(warnings, "--%s was ignored: it is for --method rff", of_rff[i]);
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */

void fitting_note_constant(const input *in, notes *warnings) {
    if (!input_is_constant(in)) return;
    const char *consequence = in->of == VARIABLE_Y   ? "conditioning on it changes nothing"
                              : in->of == VARIABLE_Z ? "nothing can depend on it"
                                                     : "it cannot depend on anything";
    notes_add(warnings, "%s%s (%s) is constant: %s", in->holdout ? "holdout " : "", variable_label(in->of),
              input_source(in), consequence);
}

circe_status fitting_hint(circe_status status) {
    if (status != CIRCE_ERR_RANK) return status;
    return circe_fail_hint(status, "--sigma2-y, --tolerance and --max-rank change the limit; --rows N uses fewer rows");
}

/* Skips the model's first warnings, on a constant y or z: fitting_note_constant gives these with the names of their
 * files. */
static circe_status fit(circe_context *context, const input *y, const input *z, const circe_kernel *kernel_y,
                        const circe_kernel *kernel_z, const circe_cme_options *options, notes *warnings,
                        circe_cme **cme) {
    circe_status status = ranks_fit(context, &y->values, &z->values, kernel_y, kernel_z, options, cme);
    if (status != CIRCE_OK || *cme == NULL) return fitting_hint(status);
    for (int64_t i = input_is_constant(y) + input_is_constant(z); i < circe_cme_n_warnings(*cme); i++)
        notes_add(warnings, "%s", circe_cme_warning(*cme, i));
    return status;
}

circe_status fitting_with(circe_context *context, const fitting_options *options, const input *y, const input *z,
                          const circe_kernel *kernel_y, const circe_kernel *kernel_z, double ridge, notes *warnings,
                          circe_cme **cme) {
    circe_cme_options cme_options = options->cme;
    if (ridge > 0) {
        cme_options.ridge = &ridge;
        cme_options.n_ridge = 1;
    }
    return fit(context, y, z, kernel_y, kernel_z, &cme_options, warnings, cme);
}

static void note_constants(const input *y, const input *z, notes *warnings) {
    fitting_note_constant(y, warnings);
    fitting_note_constant(z, warnings);
}

static circe_status make_kernels(circe_context *context, const fitting_options *options, const input *y, const input *z,
                                 bool linear_z, notes *warnings, circe_kernel **kernel_y, circe_kernel **kernel_z) {
    circe_status status = kernel_make(context, &options->y, y, WIDTH_GRID, warnings, kernel_y);
    if (status != CIRCE_OK) return status;
    return linear_z ? circe_kernel_create(context, CIRCE_KERNEL_LINEAR, 0, kernel_z)
                    : kernel_make(context, &options->z, z, WIDTH_ONE, warnings, kernel_z);
}

circe_status fitting_run(circe_context *context, const fitting_options *options, const input *y, const input *z,
                         bool linear_z, notes *warnings, circe_cme **cme) {
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_status status = make_kernels(context, options, y, z, linear_z, warnings, &kernel_y, &kernel_z);
    if (status == CIRCE_OK) {
        note_constants(y, z, warnings);
        status = fit(context, y, z, kernel_y, kernel_z, &options->cme, warnings, cme);
    }
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    return status;
}

circe_status fitting_quick(circe_context *context, const fitting_options *options, const input *y, const input *z,
                           bool linear_z, int64_t max_rank, notes *warnings, circe_cme **cme, bool *fits) {
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_cme_options quick = options->cme;
    quick.method = CIRCE_METHOD_LOWRANK;
    quick.max_rank = max_rank;
    circe_status status = make_kernels(context, options, y, z, linear_z, warnings, &kernel_y, &kernel_z);
    if (status == CIRCE_OK) status = fit(context, y, z, kernel_y, kernel_z, &quick, warnings, cme);
    *fits = status != CIRCE_ERR_RANK;
    if (status == CIRCE_OK) note_constants(y, z, warnings);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    return *fits ? status : CIRCE_OK;
}
