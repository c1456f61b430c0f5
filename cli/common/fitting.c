/* From options to a fitted model. */
#include "cli/common/fitting.h"
#include "cli/common/from_args.h"

#include <string.h>

#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "jobs/kernels.h"
#include "mpi/mpi_fit.h"

/* What is not given keeps the library's default. */
static void options_from_args(const args *arguments, circe_cme_options *options) {
    const args_value *values = arguments->values;
    circe_cme_options_init(options);
    options->method = (circe_method)args_choice(arguments, OPT_METHOD);
    options->sigma2_y = values[OPT_SIGMA2_Y].numbers;
    options->n_sigma2_y = values[OPT_SIGMA2_Y].n_numbers;
    options->ridge = values[OPT_RIDGE].numbers;
    options->n_ridge = values[OPT_RIDGE].n_numbers;
    options->force_ridge = args_given(arguments, OPT_FORCE_RIDGE);
    options->seed = (uint64_t)args_integer(arguments, OPT_SEED);
    if (args_given(arguments, OPT_TOLERANCE)) options->tolerance = values[OPT_TOLERANCE].numbers[0];
    if (args_given(arguments, OPT_MAX_RANK)) options->max_rank = args_integer(arguments, OPT_MAX_RANK);
    if (args_given(arguments, OPT_RFF_FEATURES)) options->rff_pool = args_integer(arguments, OPT_RFF_FEATURES);
    if (args_given(arguments, OPT_RFF_EVERY)) options->rff_every = args_integer(arguments, OPT_RFF_EVERY);
    if (args_given(arguments, OPT_RFF_BATCH))
        options->rff_batch = args_integer(arguments, OPT_RFF_BATCH);
    else if (options->rff_batch > options->rff_pool)
        options->rff_batch = 0;
}

void fitting_note_constant(const input *in, notes *warnings) {
    if (!input_is_constant(in)) return;
    const char *consequence = in->of == VARIABLE_Y   ? "conditioning on it changes nothing"
                              : in->of == VARIABLE_Z ? "nothing can depend on it"
                                                     : "it cannot depend on anything";
    notes_add(warnings, "%s%s (%s) is constant: %s", in->holdout ? "holdout " : "", variable_label(in->of),
              input_source(in), consequence);
}

spec_option_id fitting_option_given(const args *arguments) {
    static const spec_option_id ids[] = {OPT_KERNEL_Y, OPT_KERNEL_Z,     OPT_SIGMA2_Y,  OPT_SIGMA2_Z,
                                         OPT_RIDGE,    OPT_FORCE_RIDGE,  OPT_METHOD,    OPT_TOLERANCE,
                                         OPT_MAX_RANK, OPT_RFF_FEATURES, OPT_RFF_BATCH, OPT_RFF_EVERY};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (args_given(arguments, ids[i])) return ids[i];
    }
    return OPT_COUNT;
}

static circe_status fit(const session *s, const input *y, const input *z, const circe_kernel *kernel_y,
                        const circe_kernel *kernel_z, circe_cme_options options, notes *warnings, circe_cme **cme) {
    circe_status status = cluster_fit(s->context, &y->values, &z->values, kernel_y, kernel_z, &options, cme);
    progress_clear();
    for (int64_t i = 0; status == CIRCE_OK && i < circe_cme_n_warnings(*cme); i++) {
        const char *text = circe_cme_warning(*cme, i);
        bool said = strstr(text, " is constant: ") != NULL; /* by fitting_note_constant, with the name of the file */
        if (!said) notes_add(warnings, "%s", text);
    }
    return status;
}

circe_status fitting_with(const session *s, const args *arguments, const input *y, const input *z,
                          const circe_kernel *kernel_y, const circe_kernel *kernel_z, double ridge, notes *warnings,
                          circe_cme **cme) {
    circe_cme_options options;
    options_from_args(arguments, &options);
    if (ridge > 0) {
        options.ridge = &ridge;
        options.n_ridge = 1;
    }
    return fit(s, y, z, kernel_y, kernel_z, options, warnings, cme);
}

static void note_constants(const input *y, const input *z, notes *warnings) {
    fitting_note_constant(y, warnings);
    fitting_note_constant(z, warnings);
}

/* Fits with the kernels of the options; max_rank > 0: by low rank alone, and CIRCE_ERR_RANK is not a failure. */
static int run(const session *s, const args *arguments, const input *y, const input *z, bool linear_z, int64_t max_rank,
               notes *warnings, circe_cme **cme, circe_status *fitted) {
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    int status = args_kernel(s->context, arguments, y, WIDTH_GRID, warnings, &kernel_y);
    if (status == EXIT_DONE)
        status = linear_z ? message_refused(kernel_linear(s->context, &kernel_z))
                          : args_kernel(s->context, arguments, z, WIDTH_ONE, warnings, &kernel_z);
    if (status == EXIT_DONE) {
        circe_cme_options options;
        options_from_args(arguments, &options);
        if (max_rank > 0) {
            options.method = CIRCE_METHOD_LOWRANK;
            options.max_rank = max_rank;
        } else {
            note_constants(y, z, warnings);
        }
        *fitted = fit(s, y, z, kernel_y, kernel_z, options, warnings, cme);
        bool failed = *fitted != CIRCE_OK && !(max_rank > 0 && *fitted == CIRCE_ERR_RANK);
        if (failed) status = message_library(*fitted, NULL);
    }
    if (status == EXIT_DONE && *fitted == CIRCE_OK && max_rank > 0) note_constants(y, z, warnings);
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    return status;
}

int fitting_run(const session *s, const args *arguments, const input *y, const input *z, bool linear_z, notes *warnings,
                circe_cme **cme) {
    circe_status fitted = CIRCE_OK;
    return run(s, arguments, y, z, linear_z, 0, warnings, cme, &fitted);
}

int fitting_quick(const session *s, const args *arguments, const input *y, const input *z, bool linear_z,
                  int64_t max_rank, notes *warnings, circe_cme **cme, circe_status *fitted) {
    return run(s, arguments, y, z, linear_z, max_rank, warnings, cme, fitted);
}
