/* circe fit: from y and z to a model file. */
#include <inttypes.h>
#include <stdio.h>

#include "circe/fit.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/together.h"

static void print_text(const circe_fit_result *r) {
    circe_cme_info info;
    circe_loo_table loo;
    char time[32], kernel[512];
    circe_cme_get_info(r->cme, &info);
    circe_cme_get_loo(r->cme, &loo);
    printf("Fitted the conditional mean of z given y on %" PRId64 " rows in %s.\n\n", info.rows,
           text_seconds(info.seconds, time, sizeof time));
    if (info.method == info.solver)
        text_row("method", "%s", circe_method_name(info.method));
    else
        text_row("method", "%s, solved by %s", circe_method_name(info.method), circe_method_name(info.solver));
    text_columns(&r->columns);
    text_row("kernel of y", "%s", text_kernel(circe_cme_kernel_y(r->cme), kernel, sizeof kernel));
    text_row("kernel of z", "%s", text_kernel(circe_cme_kernel_z(r->cme), kernel, sizeof kernel));
    text_row("ridge", "%g%s", info.ridge, info.ridge_raised ? " (raised to the smallest safe one)" : "");
    text_row("rank of y, z", "%" PRId64 ", %" PRId64 " (share of the trace left out: %.1e, %.1e)", info.rank_y,
             info.rank_z, info.trace_residual_y, info.trace_residual_z);
    printf(
        "\n"
        "Leave-one-out error: smaller is better, * marks the best.\n\n");
    text_loo(&loo);
    printf(
        "\n"
        "The model is in %s. Use it to measure a feature x on other rows:\n"
        "  circe measure circe --x X --y Y --z Z --model %s\n",
        r->model, r->model);
}

int cmd_fit(const args *arguments) {
    bool quiet = arguments->own.quiet;
    const circe_fit_options *options = arguments->options;
    circe_watch watch = session_watch(&arguments->own);
    circe_fit_result *result = NULL;
    session s = {0};
    int status = session_open(&arguments->own, &s);
    status = together_agree(status);
    progress_plan(&(progress_part){"fitting", 1, .rounds = 1}, 1);
    if (status == EXIT_DONE) status = message_refused(circe_fit(s.context, NULL, options, &watch, &result));
    progress_clear();
    if (status == EXIT_DONE && result->cme != NULL) {
        message_data(quiet, result->dropped, &result->warnings);
        if (arguments->own.json)
            status = output_json(circe_fit_json(result));
        else if (!quiet)
            print_text(result);
    }
    circe_fit_result_free(result);
    session_close(&s);
    return status;
}
